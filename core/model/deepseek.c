/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DeepSeek V2 and V3 (arXiv 2405.04434, 2412.19437), and models of the same graph: Kimi
 * K2 has V3's class, and GLM-4.7-Flash its own. Multi-head latent attention, then
 * mixtures behind a few dense layers, with shared experts.
 */
#include "core/model/architecture.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* Returns 0, or the error of a key that has a value which no published model has. */
static int expect(const struct lls_json *json, const char *key, bool good,
                  struct lls_error *err)
{
  return good ? 0
              : lls_fail(err, -ENOTSUP, "%s: this \"%s\" is not supported with MLA",
                         json->file, key);
}

/* A head's rotated part is what transformers calls head_dim here; older files do not have
 * the key. */
static int read_sizes(const struct lls_json *json, struct lls_model_config *out,
                      struct lls_error *err)
{
  struct lls_latent_config *l = &out->latent;
  int rc = lls_json_size(json, "kv_lora_rank", &l->rank, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "q_lora_rank", 0, &l->query_rank, err);
  if (rc == 0)
    rc = lls_json_size(json, "qk_nope_head_dim", &l->nope, err);
  if (rc == 0)
    rc = lls_json_size(json, "qk_rope_head_dim", &l->rope, err);
  if (rc == 0 && json_object_set_new(json->root, "head_dim", json_integer(l->rope)) != 0)
    rc = lls_fail(err, -ENOMEM, "out of memory");
  if (rc == 0)
    rc = lls_config_llama(json, out, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "v_head_dim", out->hidden / out->heads, &l->value, err);
  return rc;
}

/* Reads attention. transformers' classes, and DeepSeek's own, have this epsilon in the
 * norms inside of attention, whatever that of the other norms is. */
int lls_config_latent(const struct lls_json *json, struct lls_model_config *out,
                      struct lls_error *err)
{
  struct lls_latent_config *l = &out->latent;
  int rc = read_sizes(json, out, err);
  if (rc == 0)
    rc = expect(json, "attention_bias", !out->qkv_bias, err);
  if (rc < 0)
    return rc;
  double factor = out->rope.score_factor > 0 ? out->rope.score_factor : 1;
  lls_json_get(json, "qk_head_dim"); /* the sum of the two parts */
  out->rope.dims = l->rope;          /* whatever share of which head a file makes it */
  l->norm_epsilon = 1e-6F;
  out->attention_scale = (float)(factor * factor / sqrt((double)l->nope + l->rope));
  out->kv_heads = 1;
  out->head_dim = l->rank + l->rope;
  return 0;
}

/* Keys of training. */
static void pass_over(const struct lls_json *json)
{
  lls_json_get(json, "ep_size");
  lls_json_get(json, "seq_aux");
}

/* Reads attention and the mixture. */
static int read_graph(const struct lls_json *json, struct lls_model_config *out,
                      struct lls_error *err)
{
  int rc = lls_config_latent(json, out, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "rope_interleave", true, &out->paired_rope, err);
  return rc < 0 ? rc : lls_config_logistic_mixture(json, out, err);
}

static int configure_v3(const struct lls_json *json, struct lls_model_config *out,
                        struct lls_error *err)
{
  int rc = read_graph(json, out, err);
  const char *scoring = json_string_value(lls_json_get(json, "scoring_func"));
  if (rc == 0)
    rc = expect(json, "scoring_func", scoring == NULL || strcmp(scoring, "sigmoid") == 0,
                err);
  const char *method = json_string_value(lls_json_get(json, "topk_method"));
  if (rc == 0)
    rc = expect(json, "topk_method", method == NULL || strcmp(method, "noaux_tc") == 0,
                err);
  pass_over(json);
  return rc;
}

/* ---- DeepSeek V3.2, GLM-5 -------------------------------------------------------- */

#define CHOSEN_MAX (1 << 14) /* tokens: scratch of CPU threads has room for them */
#define CACHED_MAX 704       /* numbers of a token and layer, in attention of the CPU */

/* Does a layer choose tokens, instead of taking those of an earlier one? A list says so
 * of each layer, or a text with a letter of each, or they follow each other regularly. */
static bool chooses(const json_t *listed, uint32_t layer, uint32_t every, uint32_t offset)
{
  const json_t *item = json_array_get(listed, layer);
  const char *kind = json_string_value(item), *text = json_string_value(listed);
  if (kind != NULL)
    return strcmp(kind, "full") == 0;
  if (text != NULL)
    return text[layer] == 'F';
  return layer + 1 <= offset || (layer + 1 - offset) % every == 0;
}

/* Is it a list or text of `layers` entries, all known, or nothing? */
static bool is_good_list(const json_t *listed, uint32_t layers)
{
  const char *text = json_string_value(listed);
  if (listed == NULL || json_is_null(listed))
    return true;
  if (text != NULL)
    return strlen(text) == layers && strspn(text, "FS") == layers && text[0] == 'F';
  for (uint32_t i = 0; i < layers; i++) {
    const char *kind = json_string_value(json_array_get(listed, i));
    if (kind == NULL || (strcmp(kind, "full") != 0 && strcmp(kind, "shared") != 0) ||
        (i == 0 && kind[0] != 'f'))
      return false;
  }
  return json_array_size(listed) == layers;
}

static int read_shared_indices(const struct lls_json *json, struct lls_model_config *out,
                               struct lls_error *err)
{
  const json_t *listed = lls_json_get(json, "indexer_types");
  const json_t *pattern = lls_json_get(json, "index_topk_pattern");
  uint32_t every = 1, offset = 2;
  int rc = lls_json_size_or(json, "index_topk_freq", 1, &every, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "index_skip_topk_offset", 2, &offset, err);
  if (listed == NULL || json_is_null(listed))
    listed = pattern;
  if (rc == 0)
    rc = expect(json, "indexer_types", is_good_list(listed, out->layers), err);
  if (rc == 0)
    rc = expect(json, "index_skip_topk_offset", offset > 0, err);
  for (uint32_t i = 0; rc == 0 && i < out->layers; i++)
    out->layer[i].shares_index = !chooses(listed, i, every > 0 ? every : 1, offset);
  return rc;
}

/* An index chooses the index_topk tokens that a row attends to. transformers' classes,
 * and the published ones, rotate it in pairs of neighbours or of halves by the model. */
static int configure_indexed(const struct lls_json *json, struct lls_model_config *out,
                             bool paired, struct lls_error *err)
{
  struct lls_index_config *index = &out->latent.index;
  const json_t *type, *types = lls_json_get(json, "layer_types");
  size_t i;
  int rc = configure_v3(json, out, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "index_topk", 2048, &index->chosen, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "index_n_heads", paired ? 32 : 64, &index->heads, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "index_head_dim", 128, &index->dim, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "indexer_rope_interleave", paired, &index->paired, err);
  if (rc == 0)
    rc = read_shared_indices(json, out, err);
  json_array_foreach((json_t *)types, i, type)
  {
    if (rc == 0)
      rc = expect(json, "layer_types",
                  json_is_string(type) &&
                      strcmp(json_string_value(type), "indexed_attention") == 0,
                  err);
  }
  if (rc == 0)
    rc =
        expect(json, "index_topk", index->chosen > 0 && index->chosen <= CHOSEN_MAX, err);
  if (rc == 0)
    rc = expect(json, "index_n_heads", index->heads > 0 && index->heads <= 1 << 10, err);
  if (rc == 0)
    rc = expect(json, "index_head_dim",
                index->dim >= out->latent.rope && index->dim <= CACHED_MAX &&
                    out->head_dim + index->dim <= CACHED_MAX,
                err);
  if (rc == 0)
    rc = expect(json, "q_lora_rank", out->latent.query_rank > 0, err);
  if (rc == 0)
    out->head_dim += index->dim;
  return rc;
}

static int configure_v32(const struct lls_json *json, struct lls_model_config *out,
                         struct lls_error *err)
{
  return configure_indexed(json, out, false, err);
}

static int configure_glm5(const struct lls_json *json, struct lls_model_config *out,
                          struct lls_error *err)
{
  return configure_indexed(json, out, true, err);
}

/* Kimi K2.5 and K2.6: K2 with an encoder of images. */
static int configure_kimi(const struct lls_json *json, struct lls_model_config *out,
                          struct lls_error *err)
{
  static const char *const of_images[] = {
      "projection_hidden_size",   "projection_layer_norm_eps", "ignore_index",
      "use_unified_vision_chunk", "video_placeholder",         NULL};
  lls_config_pass_over(json, of_images);
  return lls_config_text_part(json, json_object(), out, configure_v3, err);
}

/* V2's router is a softmax, whose weights do not add up to 1. "greedy" chooses among all
 * experts. */
static int configure_v2(const struct lls_json *json, struct lls_model_config *out,
                        struct lls_error *err)
{
  struct lls_mixture_config *m = &out->mixture;
  const char *method = "greedy";
  int rc = lls_config_latent(json, out, err);
  if (rc == 0)
    rc = lls_config_logistic_mixture(json, out, err);
  if (rc == 0)
    rc = lls_json_string_or(json, "topk_method", "greedy", &method, err);
  if (rc < 0)
    return rc;
  bool greedy = strcmp(method, "greedy") == 0;
  const char *scoring = json_string_value(lls_json_get(json, "scoring_func"));
  const json_t *normed = lls_json_get(json, "norm_topk_prob");
  pass_over(json);
  out->paired_rope = true;
  m->logistic = m->corrected = m->normalise = false;
  m->best_counts = true;
  if (greedy)
    m->groups = m->used_groups = 0;
  rc = expect(json, "topk_method", greedy || strcmp(method, "group_limited_greedy") == 0,
              err);
  if (rc == 0)
    rc = expect(json, "scoring_func", scoring == NULL || strcmp(scoring, "softmax") == 0,
                err);
  return rc < 0 ? rc : expect(json, "norm_topk_prob", !json_is_true(normed), err);
}

/* Mistral 4: V2's router with weights that add up to 1, and queries that grow. */
int lls_config_mistral4(const struct lls_json *json, struct lls_model_config *out,
                        struct lls_error *err)
{
  int rc = read_graph(json, out, err);
  out->mixture.logistic = out->mixture.corrected = false;
  return rc < 0 ? rc : lls_config_growth(json, out, err);
}

/* ---- names ------------------------------------------------------------------------ */

#define MIXTURE                                                                          \
  .router = "mlp.gate", .experts = "mlp.experts.", .expert_gate = "gate_proj",           \
  .expert_up = "up_proj", .expert_down = "down_proj",                                    \
  .router_bias = "mlp.gate.e_score_correction_bias",                                     \
  .shared_gate = "mlp.shared_experts.gate_proj",                                         \
  .shared_up = "mlp.shared_experts.up_proj",                                             \
  .shared_down = "mlp.shared_experts.down_proj"
#define INDEX                                                                            \
  .index_query = "self_attn.indexer.wq_b", .index_key = "self_attn.indexer.wk",          \
  .index_norm = "self_attn.indexer.k_norm",                                              \
  .index_weights = "self_attn.indexer.weights_proj"
#define GRAPH LLS_LLAMA_TENSORS, LLS_LLAMA_NORMS, LLS_LLAMA_MLP, LLS_LATENT_NAMES

static const char *const v2_names[] = {"DeepseekV2ForCausalLM", NULL};
static const char *const mistral4_names[] = {"Mistral4ForCausalLM", NULL};
static const char *const v3_names[] = {"DeepseekV3ForCausalLM", "Glm4MoeLiteForCausalLM",
                                       NULL};

static const char *const v32_names[] = {"DeepseekV32ForCausalLM", NULL};
static const char *const glm5_names[] = {"GlmMoeDsaForCausalLM", NULL};
static const char *const kimi_names[] = {"KimiK25ForConditionalGeneration",
                                         "Kimi_K25ForConditionalGeneration", NULL};

const struct lls_architecture lls_deepseek_v2 = {
    .title = "DeepSeek V2",
    .names = v2_names,
    .configure = configure_v2,
    .tensors = {GRAPH, MIXTURE},
};

const struct lls_architecture lls_mistral4 = {
    .title = "Mistral 4, Large 3 (text)",
    .names = mistral4_names,
    .configure = lls_config_mistral4,
    .tensors = {LLS_LLAMA_NAMES, LLS_TEXT_PREFIXES, LLS_LLAMA_NORMS, LLS_LLAMA_MLP,
                LLS_LATENT_NAMES, MIXTURE, .expert_stacked_up = "gate_up_proj"},
};

static const struct lls_tensor_names v3_heads = {GRAPH, MIXTURE, LLS_NEXTN_NAMES};

const struct lls_architecture lls_deepseek_v3 = {
    .title = "DeepSeek V3, Kimi K2, GLM-4.7-Flash",
    .names = v3_names,
    .configure = configure_v3,
    .tensors = {GRAPH, MIXTURE},
    .heads = &v3_heads,
};

const struct lls_architecture lls_deepseek_v32 = {
    .title = "DeepSeek V3.2",
    .names = v32_names,
    .configure = configure_v32,
    .tensors = {GRAPH, MIXTURE, INDEX},
};

const struct lls_architecture lls_glm5 = {
    .title = "GLM-5",
    .names = glm5_names,
    .configure = configure_glm5,
    .tensors = {GRAPH, MIXTURE, INDEX},
};

const struct lls_architecture lls_kimi_k25 = {
    .title = "Kimi K2.5, K2.6 (text)",
    .names = kimi_names,
    .configure = configure_kimi,
    .tensors = {LLS_LLAMA_NAMES, LLS_TEXT_PREFIXES, LLS_LLAMA_NORMS, LLS_LLAMA_MLP,
                LLS_LATENT_NAMES, MIXTURE},
};
