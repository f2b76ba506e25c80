/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders of EAGLE-3 layers (Li et al., "EAGLE-3", arXiv 2503.01840), as SpecForge and
 * the paper's authors save them: one Llama layer `midlayer` (or layers.0) that reads
 * embedding and hidden row side by side, the product `fc` of three layers' rows, a head
 * over draft_vocab_size tokens and d2t, which has for each of them the distance from its
 * row to its id.
 */
#include <errno.h>
#include <string.h>

#include "core/model/architecture.h"
#include "core/model/checkpoint.h"
#include "core/model/gguf.h"
#include "core/model/heads.h"

#define EAGLE_NAMES                                                                      \
  .prefixes = {"", "model."}, .embedding = "embed_tokens", .head = "lm_head",            \
  .attention_norm = "hidden_norm", .mlp_norm = "post_attention_layernorm",               \
  .output = "self_attn.o_proj", .down = "mlp.down_proj", .join = "fc",                   \
  .join_embedding = "input_layernorm", .join_norm = "norm", LLS_LLAMA_QKV, LLS_LLAMA_MLP

static const struct lls_tensor_names alone = {EAGLE_NAMES, .layers = "midlayer.",
                                              .layer_alone = true};
static const struct lls_tensor_names numbered = {EAGLE_NAMES, .layers = "layers."};

/* Only of folders of their own, which are never a model: not in the list of
 * architectures. */
static const struct lls_architecture architectures[] = {
    {.title = "EAGLE-3", .heads = &alone}, {.title = "EAGLE-3", .heads = &numbered}};

static bool is_eagle(const struct lls_json *json)
{
  const json_t *names = lls_json_get(json, "architectures");
  const char *name = json_string_value(json_array_get(names, 0));
  return name != NULL && (strcmp(name, "LlamaForCausalLMEagle3") == 0 ||
                          strcmp(name, "Eagle3LlamaForCausalLM") == 0);
}

/* A key of the file, or of its "eagle_config". */
static const json_t *find(const struct lls_json *json, const char *key)
{
  const json_t *value = lls_json_get(json, key);
  return value != NULL ? value : json_object_get(lls_json_get(json, "eagle_config"), key);
}

/* Sets the layers whose inputs are joined. Lists of them count in two ways: where the
 * first is 1 they name the layers before, whose outputs those inputs are (SGLang,
 * pull request 25454). */
static int read_layers(const struct lls_json *json, const struct lls_model_config *model,
                       struct lls_eagle_config *e, struct lls_error *err)
{
  const json_t *list = find(json, "eagle_aux_hidden_state_layer_ids");
  const json_int_t n = model->layers, usual[] = {2, n / 2, n - 3};
  bool named = list != NULL && !json_is_null(list), before;
  if (named && json_array_size(list) != LLS_EAGLE_LAYERS)
    return lls_fail(err, -ENOTSUP, "%s: rows of %zu layers are joined, of 3 expected",
                    json->file, json_array_size(list));
  before = named && json_integer_value(json_array_get(list, 0)) == 1;
  for (size_t i = 0; i < LLS_EAGLE_LAYERS; i++) {
    const json_t *item = json_array_get(list, i);
    json_int_t at = named ? json_integer_value(item) : usual[i];
    if ((named && !json_is_integer(item)) || at < 0 || at >= n - before)
      return lls_fail(err, -EINVAL,
                      "%s: it joins rows of layer %lld of a model of %lld layers",
                      json->file, (long long)at, (long long)n);
    e->layers[i] = (uint32_t)(at + before);
  }
  return 0;
}

/* Refuses what the graph does not have. */
static int check_graph(const struct lls_json *json, struct lls_error *err)
{
  static const struct {
    const char *key;
    bool expected;
  } rows[] = {{"use_aux_hidden_state", true},
              {"norm_before_residual", false},
              {"norm_output", false},
              {"fc_norm", false},
              {"bias", false}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const json_t *value = find(json, rows[i].key);
    if (json_is_boolean(value) && json_is_true(value) != rows[i].expected)
      return lls_fail(err, -ENOTSUP, "%s: \"%s\": %s is not computed", json->file,
                      rows[i].key, rows[i].expected ? "false" : "true");
  }
  return 0;
}

static int check_sizes(const struct lls_json *json, const struct lls_model_config *model,
                       const struct lls_model_config *c, uint32_t layers,
                       struct lls_error *err)
{
  if (layers != 1)
    return lls_fail(err, -ENOTSUP, "%s: %u layers; one is expected", json->file, layers);
  if (c->eagle.hidden != model->hidden || c->vocab != model->vocab)
    return lls_fail(err, -EINVAL,
                    "%s: it guesses for a model with rows of %u numbers and %u tokens; "
                    "this one has %u and %u",
                    json->file, c->eagle.hidden, c->vocab, model->hidden, model->vocab);
  if (c->eagle.rows > c->vocab)
    return lls_fail(err, -EINVAL, "%s: its head knows %u of %u tokens", json->file,
                    c->eagle.rows, c->vocab);
  if (model->streams.n > 0 || model->encoder)
    return lls_fail(err, -ENOTSUP, "%s: the model has no single hidden row of a token",
                    json->file);
  return lls_config_check_sizes(json, c, err);
}

static int read_sizes(const struct lls_json *json, const struct lls_model_config *model,
                      struct lls_model_config *out, struct lls_error *err)
{
  uint32_t layers = 1;
  int rc = check_graph(json, err);
  if (rc == 0)
    rc = lls_config_llama(json, out, err);
  layers = out->layers;
  if (rc == 0)
    rc = lls_json_size_or(json, "draft_vocab_size", out->vocab, &out->eagle.rows, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "target_hidden_size", out->hidden, &out->eagle.hidden,
                          err);
  if (rc == 0)
    rc = check_sizes(json, model, out, layers, err);
  return rc < 0 ? rc : read_layers(json, model, &out->eagle, err);
}

/* Finds how the layer's tensors are named, and which of its ends it has. */
static int look_at_tensors(const char *folder, const struct lls_model_config *model,
                           struct lls_model_config *out, struct lls_error *err)
{
  struct lls_checkpoint *file = NULL;
  int rc = lls_checkpoint_open(folder, &file, err);
  if (rc < 0)
    return rc;
  bool is_numbered = lls_checkpoint_has(file, "layers.0.hidden_norm.weight");
  out->architecture = &architectures[is_numbered];
  out->eagle.own_embedding = lls_checkpoint_has(file, "embed_tokens.weight");
  out->eagle.own_head = lls_checkpoint_has(file, "lm_head.weight");
  bool has_ids = lls_checkpoint_has(file, "d2t");
  lls_checkpoint_close(file);
  if ((!out->eagle.own_embedding || !out->eagle.own_head) &&
      out->hidden != model->embed_dim)
    return lls_fail(err, -EINVAL,
                    "%s: rows of %u numbers need an embedding and a head of their own; "
                    "the model's have %u",
                    folder, out->hidden, model->embed_dim);
  if (!out->eagle.own_head)
    out->eagle.rows = out->vocab;
  if (out->eagle.rows < out->vocab && !has_ids)
    return lls_fail(err, -EINVAL, "%s: there is no d2t, which says what its tokens are",
                    folder);
  return 0;
}

int lls_eagle_config_read(const char *folder, const struct lls_model_config *model,
                          struct lls_model_config *out, struct lls_error *err)
{
  struct lls_json json;
  *out = (struct lls_model_config){.dtype = model->dtype, .joins = true};
  if (lls_is_gguf(folder))
    return lls_fail(err, -ENOENT, "%s: layers that guess are not read from GGUF files",
                    folder);
  int rc = lls_json_read(folder, "config.json", &json, err);
  if (rc < 0)
    return rc;
  rc = is_eagle(&json) ? read_sizes(&json, model, out, err)
                       : lls_fail(err, -ENOENT, "%s: no EAGLE-3 layer", json.file);
  lls_json_close(&json);
  if (rc == 0)
    rc = look_at_tensors(folder, model, out, err);
  out->max_context = model->max_context;
  return rc;
}
