/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the architecture of a config.json, calls its configure, and checks the sizes. */
#include "core/model/model_config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/device/quantised.h"
#include "core/model/architecture.h"
#include "core/model/checkpoint.h"
#include "core/model/config_keys.h"
#include "core/model/dense.h"
#include "core/model/gguf.h"
#include "core/model/quantisation.h"
#include "core/model/reranker.h"

#define ADDRESS(name) &name,
static const struct lls_architecture *const architectures[] = {
    LLS_ARCHITECTURES(ADDRESS)};

#define N_ARCHITECTURES (sizeof architectures / sizeof architectures[0])

static const struct lls_architecture *architecture_named(const char *name)
{
  for (size_t i = 0; i < N_ARCHITECTURES; i++)
    for (const char *const *known = architectures[i]->names; *known != NULL; known++)
      if (strcmp(*known, name) == 0)
        return architectures[i];
  return NULL;
}

/* Returns true if it computes a vector per text. */
static bool is_vector_maker(const struct lls_architecture *a)
{
  return a->encoder && a->tensors.head == NULL;
}

/* Encoders are few, and listed; the table of generators is in README. */
static int unknown_architecture(const struct lls_json *json, const char *name,
                                bool encoder, struct lls_error *err)
{
  char list[384] = "";
  size_t used = 0;
  if (!encoder)
    return lls_fail(err, -ENOTSUP,
                    "%s: architecture %.64s is not supported; the table of models in "
                    "README has those that are",
                    json->file, name);
  for (size_t i = 0; i < N_ARCHITECTURES; i++)
    if (is_vector_maker(architectures[i]) && used < sizeof list)
      used += (size_t)snprintf(list + used, sizeof list - used, "%s%s",
                               used == 0 ? "" : ", ", architectures[i]->title);
  return lls_fail(
      err, -ENOTSUP,
      "%s: architecture %.64s is not supported as an encoder; supported are %s",
      json->file, name, list);
}

/* Returns true if experts are in MXFP4 blocks that the loader supports. */
static bool has_mxfp4(const struct lls_json *json, const struct lls_model_config *out)
{
  const char *method = json_string_value(
      json_object_get(lls_json_get(json, "quantization_config"), "quant_method"));
  return out->architecture->mxfp4 && method != NULL && strcmp(method, "mxfp4") == 0;
}

static int find_architecture(const struct lls_json *json, bool encoder,
                             struct lls_model_config *out, struct lls_error *err)
{
  const char *name =
      json_string_value(json_array_get(lls_json_get(json, "architectures"), 0));
  if (name == NULL)
    return lls_fail(err, -EINVAL,
                    "%s: \"architectures\" should be a list with the model's class name",
                    json->file);
  out->architecture = architecture_named(name);
  if (out->architecture == NULL || (encoder && !is_vector_maker(out->architecture)))
    return unknown_architecture(json, name, encoder, err);
  out->encoder = out->architecture->encoder;
  return 0;
}

/* Returns true for a quantised type's name, as in the config.json made from a GGUF
 * file. */
static bool is_quantised(const char *name, enum lls_dtype *out)
{
  *out = LLS_CODED;
  if (strcmp(name, "NVFP4") == 0)
    return true;
  for (enum lls_dtype type = LLS_Q4_0; type < LLS_CODED; type++)
    if (strcmp(lls_dtype_name(type), name) == 0) {
      *out = type;
      return true;
    }
  return false;
}

/* Returns the object that has one of two keys: "text_config" if only it has. */
static struct lls_json place_of(const struct lls_json *json, const char *key,
                                const char *other)
{
  json_t *text = json_object_get(json->root, "text_config");
  bool above = lls_json_get(json, key) != NULL || lls_json_get(json, other) != NULL;
  return above || !json_is_object(text) ? *json : lls_json_inside(json, text);
}

static int read_dtype(const struct lls_json *json, struct lls_model_config *out,
                      struct lls_error *err)
{
  struct lls_json place = place_of(json, "dtype", "torch_dtype");
  const char *key = lls_json_get(&place, "dtype") != NULL ? "dtype" : "torch_dtype";
  const char *name;
  int rc = lls_json_string_or(&place, key, "float32", &name, err);
  if (rc < 0)
    return rc;
  if (strcmp(name, "float32") == 0)
    out->dtype = LLS_F32;
  else if (strcmp(name, "float16") == 0)
    out->dtype = LLS_F16;
  else if (strcmp(name, "bfloat16") == 0)
    out->dtype = LLS_BF16;
  else if (!is_quantised(name, &out->dtype))
    return lls_fail(err, -ENOTSUP,
                    "%s: \"%s\" is \"%.32s\"; float32, float16 and bfloat16 can be read",
                    json->file, key, name);
  else /* Q4_0, IQ2_XXS, ..., MXFP4 */
    out->code_bits = (uint32_t)(name[strcspn(name, "0123456789")] - '0');
  return 0;
}

/* Reads the quantisation. In a quantised folder, the type is that of the tensors that
 * are not quantised. */
static int read_quantisation(const struct lls_json *json, struct lls_model_config *out,
                             struct lls_error *err)
{
  struct lls_quantisation quantisation;
  if (has_mxfp4(json, out))
    return 0;
  int rc = lls_quantisation_read(json, &quantisation, err);
  if (rc == 0 && !quantisation.is_quantised &&
      lls_json_get(json, "quantization_config") != NULL)
    return lls_fail(err, -ENOTSUP,
                    "%s: the weights are quantised (\"quantization_config\": mxfp4), "
                    "which is read of gpt-oss only",
                    json->file);
  if (rc == 0 && quantisation.is_quantised) {
    out->dtype = LLS_CODED;
    out->code_bits = lls_quantisation_bits(&quantisation);
  }
  return rc;
}

static bool is_eos(const struct lls_model_config *config, json_int_t id)
{
  for (uint32_t i = 0; i < config->n_eos; i++)
    if (config->eos[i] == id)
      return true;
  return false;
}

/* Reads a token id of the vocabulary; an absent or negative one means that there is
 * none. */
static int read_token(const struct lls_json *json, const char *key, const json_t *value,
                      const struct lls_model_config *config, json_int_t *out,
                      struct lls_error *err)
{
  *out = json_is_integer(value) ? json_integer_value(value) : -1;
  if (value != NULL && !json_is_integer(value))
    return lls_fail(err, -EINVAL, "%s: \"%s\" should be a token id", json->file, key);
  if (*out >= (json_int_t)config->vocab)
    return lls_fail(err, -EINVAL, "%s: \"%s\" is %lld but the vocabulary has %u tokens",
                    json->file, key, (long long)*out, config->vocab);
  return 0;
}

static int add_eos(const struct lls_json *json, const json_t *value,
                   struct lls_model_config *config, struct lls_error *err)
{
  json_int_t id;
  int rc = read_token(json, "eos_token_id", value, config, &id, err);
  if (rc < 0 || id < 0 || is_eos(config, id))
    return rc;
  if (config->n_eos == LLS_MAX_EOS)
    return lls_fail(err, -EINVAL, "%s: more than %d end-of-sequence tokens", json->file,
                    LLS_MAX_EOS);
  config->eos[config->n_eos++] = (int32_t)id;
  return 0;
}

/* Adds one id, or a list of ids. */
static int read_eos(const struct lls_json *json, struct lls_model_config *config,
                    struct lls_error *err)
{
  const json_t *value = lls_json_get(json, "eos_token_id");
  if (!json_is_array(value))
    return add_eos(json, value, config, err);
  int rc = 0;
  for (size_t i = 0; rc == 0 && i < json_array_size(value); i++)
    rc = add_eos(json, json_array_get(value, i), config, err);
  return rc;
}

static int read_sampling(const struct lls_json *json, struct lls_model_sampling *s,
                         struct lls_error *err)
{
  const struct {
    const char *key;
    double *value, fallback, min, max;
  } rows[] = {
      {"temperature", &s->temperature, 1, 0, 2},
      {"top_p", &s->top_p, 1, 0, 1},
      {"min_p", &s->min_p, 0, 0, 1},
      {"top_k", &s->top_k, 0, -1, INT32_MAX},
      {"repetition_penalty", &s->repetition_penalty, 1, 0.01, 100},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    int rc = lls_json_real_or(json, rows[i].key, rows[i].fallback, rows[i].value, err);
    if (rc < 0)
      return rc;
    if (!(*rows[i].value >= rows[i].min && *rows[i].value <= rows[i].max))
      return lls_fail(err, -EINVAL, "%s: \"%s\" is %g, not from %g to %g", json->file,
                      rows[i].key, *rows[i].value, rows[i].min, rows[i].max);
  }
  return 0;
}

static int read_tokens(const char *folder, const struct lls_json *json,
                       struct lls_model_config *config, struct lls_error *err)
{
  json_int_t bos;
  struct lls_json place = place_of(json, "bos_token_id", "eos_token_id");
  int rc = read_token(json, "bos_token_id", lls_json_get(&place, "bos_token_id"), config,
                      &bos, err);
  if (rc < 0)
    return rc;
  config->bos = bos < 0 ? -1 : (int32_t)bos;
  if ((rc = read_eos(&place, config, err)) < 0)
    return rc;

  struct lls_json generation;
  config->sampling =
      (struct lls_model_sampling){.temperature = 1, .top_p = 1, .repetition_penalty = 1};
  rc = lls_json_read(folder, "generation_config.json", &generation, err);
  if (rc == -ENOENT)
    return 0;
  if (rc < 0)
    return rc;
  rc = read_eos(&generation, config, err);
  if (rc == 0)
    rc = read_sampling(&generation, &config->sampling, err);
  lls_json_close(&generation);
  return rc;
}

/* Returns true if there is exactly one factor for each pair: factors that a file does
 * not list are 0. */
static bool has_factors(const float *factors, uint32_t pairs)
{
  return factors[pairs - 1] > 0 && (pairs == LLS_MAX_ROPE_PAIRS || factors[pairs] == 0);
}

#define HEAD_SIZE_MAX (1 << 12) /* dimensions of a head */
#define LATENT_MAX    512 /* inputs of a head's matrices: scratch of CPU threads has 576 */

int lls_config_check_sizes(const struct lls_json *json, const struct lls_model_config *c,
                           struct lls_error *err)
{
  const struct {
    const char *what;
    uint32_t value, limit;
  } sizes[] = {
      {"layers", c->layers, LLS_MAX_LAYERS},
      {"hidden size", c->hidden, 1 << 20},
      {"heads", c->heads, 1 << 14},
      {"head size", c->head_dim, HEAD_SIZE_MAX},
      {"feed-forward size", c->ffn, 1 << 24},
      {"vocabulary", c->vocab, 1 << 26},
      {"embedding size", c->embed_dim, 1 << 20},
      {"context", c->max_context, 1 << 28},
      {"number of token types", c->token_types, 16},
      {"width of a convolution", c->recurrent.conv_width, LLS_MAX_CONV_WIDTH},
      {"channels of a convolution", c->recurrent.channels, 1 << 20},
      {"key heads", c->recurrent.key_heads, 1 << 14},
      {"value heads", c->recurrent.value_heads, 1 << 14},
      {"size of a key", c->recurrent.key_dim, LLS_MAX_KEY_DIM},
      {"size of a value", c->recurrent.value_dim, 1 << 12},
      {"rank of queries", c->latent.query_rank, 1 << 20},
      {"rank of a latent", c->latent.rank, LATENT_MAX},
      {"unrotated size of a key", c->latent.nope, LATENT_MAX},
      {"size of a latent's value", c->latent.value, HEAD_SIZE_MAX},
      {"width of a mixture", c->mixture.latent, 1 << 20},
      {"rank of LAUREL", c->laurel, 1 << 20},
      {"inputs of a layer", c->layer_inputs, 1 << 20},
      {"vocabulary of a layer", c->layer_input_vocab, 1 << 26},
  };
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
    if (sizes[i].value > sizes[i].limit)
      return lls_fail(err, -EINVAL, "%s: no model has %u as %s, the most allowed is %u",
                      json->file, sizes[i].value, sizes[i].what, sizes[i].limit);
  if (c->recurrent.conv_width == 1 || c->recurrent.key_dim % 4 != 0)
    return lls_fail(err, -ENOTSUP,
                    "%s: a convolution over %u token and keys of %u numbers: 2 tokens or "
                    "more, and a multiple of 4 are supported",
                    json->file, c->recurrent.conv_width, c->recurrent.key_dim);
  if (c->heads % c->kv_heads != 0)
    return lls_fail(err, -EINVAL,
                    "%s: %u attention heads cannot share %u key-value heads evenly",
                    json->file, c->heads, c->kv_heads);
  if (c->rope.dims > c->head_dim || c->rope.dims % 2 != 0)
    return lls_fail(err, -EINVAL, "%s: %u of %u dimensions of a head cannot be rotated",
                    json->file, c->rope.dims, c->head_dim);
  if (c->rope.scaling == LLS_ROPE_LONG &&
      (c->rope.dims / 2 > LLS_MAX_ROPE_PAIRS ||
       !has_factors(c->rope.long_factors, c->rope.dims / 2) ||
       !has_factors(c->rope.short_factors, c->rope.dims / 2)))
    return lls_fail(
        err, -EINVAL,
        "%s: \"short_factor\" and \"long_factor\" should have %u numbers, one "
        "for each pair of dimensions",
        json->file, c->rope.dims / 2);
  if (c->mixture.experts > LLS_MAX_EXPERTS || c->mixture.active > LLS_MAX_ACTIVE ||
      c->mixture.active > c->mixture.experts || c->mixture.ffn > 1 << 24)
    return lls_fail(err, -EINVAL,
                    "%s: %u of %u experts a row: at most %d of %d are supported",
                    json->file, c->mixture.active, c->mixture.experts, LLS_MAX_ACTIVE,
                    LLS_MAX_EXPERTS);
  if (c->mixture.groups > 1 &&
      (c->mixture.experts % c->mixture.groups != 0 ||
       c->mixture.used_groups > c->mixture.groups ||
       c->mixture.experts / c->mixture.groups * c->mixture.used_groups <
           c->mixture.active))
    return lls_fail(err, -EINVAL, "%s: %u of %u groups of %u experts cannot be chosen",
                    json->file, c->mixture.used_groups, c->mixture.groups,
                    c->mixture.experts);
  if (c->mixture.groups > LLS_MAX_EXPERT_GROUPS)
    return lls_fail(err, -ENOTSUP, "%s: %u groups of experts: at most %d are supported",
                    json->file, c->mixture.groups, LLS_MAX_EXPERT_GROUPS);
  if (c->mixture.shared > 1 << 24)
    return lls_fail(err, -EINVAL, "%s: no model has a shared expert of %u columns",
                    json->file, c->mixture.shared);
  if (!(c->norm_epsilon > 0 && c->norm_epsilon < 1))
    return lls_fail(err, -EINVAL, "%s: the norm's epsilon should be between 0 and 1",
                    json->file);
  return 0;
}

/* Checks the sizes that a layer has of its own: kernels divide heads by KV heads, and
 * read the keys and values of another layer as if they were their own. */
static int check_layer(const struct lls_json *json, const struct lls_model_config *c,
                       uint32_t i, struct lls_error *err)
{
  const struct lls_layer_config *layer = &c->layer[i];
  uint32_t kv_heads = lls_layer_kv_heads(c, i), dim = lls_layer_head_dim(c, i);
  uint32_t turned = layer->rope == LLS_LAYER_ROPE_LOCAL ? c->local_rope.dims
                    : layer->rope == LLS_LAYER_ROPE     ? c->rope.dims
                                                        : 0;
  if (c->heads % kv_heads != 0)
    return lls_fail(err, -EINVAL,
                    "%s: %u attention heads cannot share %u key-value heads of layer %u "
                    "evenly",
                    json->file, c->heads, kv_heads, i);
  if (dim > HEAD_SIZE_MAX)
    return lls_fail(err, -EINVAL,
                    "%s: layer %u has heads of %u dimensions, of at most %u", json->file,
                    i, dim, HEAD_SIZE_MAX);
  if (turned > dim || turned % 2 != 0)
    return lls_fail(err, -EINVAL,
                    "%s: %u of %u dimensions of a head of layer %u cannot be rotated",
                    json->file, turned, dim, i);
  if (layer->shares && (kv_heads != lls_layer_kv_heads(c, layer->keeper) ||
                        dim != lls_layer_head_dim(c, layer->keeper)))
    return lls_fail(
        err, -EINVAL,
        "%s: layer %u cannot attend to the keys and values of layer %u, whose "
        "heads differ",
        json->file, i, layer->keeper);
  return 0;
}

static int check_layers(const struct lls_json *json, const struct lls_model_config *c,
                        struct lls_error *err)
{
  int rc = 0;
  for (uint32_t i = 0; rc == 0 && i < c->layers; i++)
    if (lls_layer_attends(c, i))
      rc = check_layer(json, c, i, err);
  return rc;
}

/* Finds out whether a model that sentence-transformers pools has a head, as its class
 * may promise one that was not saved. */
static int look_for_head(const char *folder, struct lls_model_config *out,
                         struct lls_error *err)
{
  struct lls_json pooling;
  struct lls_checkpoint *file;
  char name[128];
  if (out->encoder || out->tied_embeddings || lls_is_gguf(folder))
    return 0;
  int rc = lls_json_read(folder, "1_Pooling/config.json", &pooling, err);
  if (rc < 0)
    return rc == -ENOENT ? 0 : rc;
  lls_json_close(&pooling);
  if (lls_checkpoint_open(folder, &file, err) < 0)
    return 0; /* told when the weights are loaded */
  snprintf(name, sizeof name, "%s.weight", out->architecture->tensors.head);
  out->headless = !lls_checkpoint_has(file, name);
  lls_checkpoint_close(file);
  return 0;
}

/* Reads sentence-transformers' file with the longest text that an encoder was trained
 * on. */
static int read_text_tokens(const char *folder, struct lls_model_config *out,
                            struct lls_error *err)
{
  struct lls_json json;
  if (!out->encoder)
    return 0;
  int rc = lls_json_read(folder, "sentence_bert_config.json", &json, err);
  if (rc < 0)
    return rc == -ENOENT ? 0 : rc;
  rc = lls_json_size_or(&json, "max_seq_length", 0, &out->text_tokens, err);
  lls_json_close(&json);
  return rc;
}

/* Reads the Dense modules of an encoder; pooling.c says why some are not supported. */
static int read_dense(const char *folder, struct lls_model_config *out,
                      struct lls_error *err)
{
  struct lls_dense dense;
  int rc = out->encoder ? lls_dense_read(folder, &dense, err) : -ENOTSUP;
  if (rc < 0 || dense.n == 0)
    return rc == -ENOTSUP ? 0 : rc;
  if (dense.matrix[0].inputs != out->hidden)
    return lls_fail(err, -EINVAL, "%s/%s: %u inputs behind vectors of %u numbers", folder,
                    dense.matrix[0].folder, dense.matrix[0].inputs, out->hidden);
  out->dense = true;
  out->embed_dim = dense.matrix[dense.n - 1].outputs;
  return 0;
}

/* Refuses MLX folders: MLX packs weights into U32 under the names of ordinary folders. */
static int check_origin(const struct lls_json *json, struct lls_error *err)
{
  const json_t *quantisation = json_object_get(json->root, "quantization");
  if (json_object_get(quantisation, "group_size") == NULL)
    return 0;
  return lls_fail(
      err, -ENOTSUP,
      "%s: the weights are quantised for Apple's MLX (\"quantization\"), "
      "which is not supported: take the folder that they were made from, or a "
      "GGUF file",
      json->file);
}

static int configure(const char *folder, const struct lls_json *json, bool encoder,
                     enum lls_model_task task, struct lls_model_config *out,
                     struct lls_error *err)
{
  int rc = find_architecture(json, encoder, out, err);
  if (rc == 0)
    rc = check_origin(json, err);
  if (rc == 0)
    rc = read_dtype(json, out, err);
  if (rc == 0)
    rc = read_quantisation(json, out, err);
  if (rc == 0)
    rc = out->architecture->configure(json, out, err);
  if (rc == 0)
    rc = read_dense(folder, out, err);
  if (rc == 0)
    rc = lls_config_check_sizes(json, out, err);
  if (rc == 0)
    rc = check_layers(json, out, err);
  if (rc == 0)
    rc = read_tokens(folder, json, out, err);
  if (rc == 0)
    rc = look_for_head(folder, out, err);
  if (rc == 0)
    rc = lls_reranker_find(folder, json, task, out, err);
  if (rc == 0)
    rc = lls_config_check_keys(json, out, err);
  return rc < 0 ? rc : read_text_tokens(folder, out, err);
}

static int read_config(const char *folder, bool encoder, enum lls_model_task task,
                       struct lls_model_config *out, struct lls_error *err)
{
  *out = (struct lls_model_config){0};
  struct lls_json json;
  int rc = lls_json_read(folder, "config.json", &json, err);
  if (rc == -ENOENT)
    return lls_fail(err, rc,
                    "%s: no config.json there: %s should be a Hugging Face model folder",
                    folder, encoder ? "an encoder" : "[model] path");
  if (rc < 0)
    return rc;
  rc = lls_json_watch(&json, err);
  if (rc == 0)
    rc = lls_quantisation_bring(folder, &json, err);
  if (rc == 0)
    rc = configure(folder, &json, encoder, task, out, err);
  lls_json_close(&json);
  return rc;
}

int lls_model_config_read(const char *folder, struct lls_model_config *out,
                          struct lls_error *err)
{
  return read_config(folder, false, LLS_TASK_AUTO, out, err);
}

int lls_model_config_read_for(const char *folder, enum lls_model_task task,
                              struct lls_model_config *out, struct lls_error *err)
{
  return read_config(folder, false, task, out, err);
}

int lls_generator_config_read(const char *folder, struct lls_model_config *out,
                              struct lls_error *err)
{
  int rc = lls_model_config_read(folder, out, err);
  return rc == 0 && out->encoder
             ? lls_fail(err, -ENOTSUP, "%s is an encoder (%s), which makes no text",
                        folder, out->architecture->title)
             : rc;
}

int lls_encoder_config_read(const char *folder, struct lls_model_config *out,
                            struct lls_error *err)
{
  return read_config(folder, true, LLS_TASK_AUTO, out, err);
}
