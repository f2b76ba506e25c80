/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mixtures of experts on Llama's graph which differ by their router, by shared experts
 * and by dense layers: Qwen2-MoE, GLM-4.5 to 4.7, MiniMax M2, Hunyuan A13B, Hy3 and
 * ERNIE 4.5's mixtures.
 */
#include "core/model/architecture.h"

#include <errno.h>
#include <string.h>

/* Keys of the sizes, which every family calls otherwise; NULL: it has none. */
struct moe_keys {
  const char *experts, *active, *ffn;
};

/* Reads a number, or a list of one number for each layer, which must be equal. */
static int read_size(const struct lls_json *json, const char *key, uint32_t *out,
                     struct lls_error *err)
{
  const json_t *value = lls_json_get(json, key);
  if (!json_is_array(value))
    return lls_json_size(json, key, out, err);
  for (size_t i = 0; i < json_array_size(value); i++)
    if (!json_equal(json_array_get(value, i), json_array_get(value, 0)))
      return lls_fail(err, -ENOTSUP,
                      "%s: \"%s\" differs between layers; one number is supported",
                      json->file, key);
  json_int_t number = json_integer_value(json_array_get(value, 0));
  *out = (uint32_t)number;
  return number > 0 && number < 1 << 24
             ? 0
             : lls_fail(err, -EINVAL, "%s: \"%s\" should be whole numbers of 1 or more",
                        json->file, key);
}

static int read_experts(const struct lls_json *json, const struct moe_keys *keys,
                        struct lls_model_config *out, struct lls_error *err)
{
  struct lls_mixture_config *m = &out->mixture;
  const char *experts = keys->experts;
  if (lls_json_get(json, experts) == NULL)
    experts = "num_experts"; /* as GGUF files have it here */
  int rc = read_size(json, experts, &m->experts, err);
  if (rc == 0)
    rc = read_size(json, keys->active, &m->active, err);
  if (rc == 0)
    rc = read_size(json, keys->ffn, &m->ffn, err);
  m->normalise = true;
  for (uint32_t i = 0; i < out->layers && i < LLS_MAX_LAYERS; i++)
    out->layer[i].mixture = true;
  return rc;
}

static int read_sizes(const struct lls_json *json, const struct moe_keys *keys,
                      struct lls_model_config *out, struct lls_error *err)
{
  int rc = lls_config_llama(json, out, err);
  return rc < 0 ? rc : read_experts(json, keys, out, err);
}

static void make_dense(struct lls_model_config *out, uint32_t first, uint32_t past)
{
  for (uint32_t i = first; i < past && i < out->layers && i < LLS_MAX_LAYERS; i++)
    out->layer[i].mixture = false;
}

/* Makes layers dense that "mlp_layer_types" lists as such, or the first ones. */
static void make_dense_by_type(const struct lls_json *json, struct lls_model_config *out,
                               uint32_t first)
{
  const json_t *types = lls_json_get(json, "mlp_layer_types");
  make_dense(out, 0, types == NULL ? first : 0);
  for (uint32_t i = 0; i < json_array_size(types); i++) {
    const char *type = json_string_value(json_array_get(types, i));
    make_dense(out, i, i + (type != NULL && strcmp(type, "dense") == 0));
  }
}

/* Reads a count that may be 0. */
static int read_count(const struct lls_json *json, const char *key, uint32_t fallback,
                      uint32_t *out, struct lls_error *err)
{
  const json_t *value = lls_json_get(json, key);
  json_int_t number = value == NULL ? fallback : json_integer_value(value);
  *out = (uint32_t)number;
  return number >= 0 && number < 1 << 24
             ? 0
             : lls_fail(err, -EINVAL, "%s: \"%s\" should be a whole number", json->file,
                        key);
}

/* ---- Qwen2-MoE -------------------------------------------------------------------- */

static int configure_qwen2(const struct lls_json *json, struct lls_model_config *out,
                           struct lls_error *err)
{
  static const struct moe_keys keys = {"num_experts", "num_experts_per_tok",
                                       "moe_intermediate_size"};
  struct lls_mixture_config *m = &out->mixture;
  uint32_t every = 1;
  int rc = read_sizes(json, &keys, out, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "norm_topk_prob", false, &m->normalise, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "qkv_bias", true, &out->qkv_bias, err);
  if (rc == 0)
    rc = lls_json_size(json, "shared_expert_intermediate_size", &m->shared, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "decoder_sparse_step", 1, &every, err);
  const json_t *plain = lls_json_get(json, "mlp_only_layers");
  for (uint32_t i = 0; rc == 0 && i < out->layers && i < LLS_MAX_LAYERS; i++)
    out->layer[i].mixture = (i + 1) % every == 0;
  for (size_t i = 0; rc == 0 && i < json_array_size(plain); i++) {
    json_int_t layer = json_integer_value(json_array_get(plain, i));
    make_dense(out, (uint32_t)layer, (uint32_t)layer + 1);
  }
  out->output_bias = false;
  m->shared_gate = true;
  return rc < 0 ? rc : lls_config_qwen_window(json, out, err);
}

/* ---- GLM-4.5 ---------------------------------------------------------------------- */

int lls_config_logistic_mixture(const struct lls_json *json, struct lls_model_config *out,
                                struct lls_error *err)
{
  static const struct moe_keys keys = {"n_routed_experts", "num_experts_per_tok",
                                       "moe_intermediate_size"};
  struct lls_mixture_config *m = &out->mixture;
  uint32_t dense = 1, shared = 1;
  double scale = 1;
  int rc = read_experts(json, &keys, out, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "norm_topk_prob", true, &m->normalise, err);
  if (rc == 0)
    rc = read_count(json, "first_k_dense_replace", 1, &dense, err);
  if (rc == 0)
    rc = read_count(json, "n_shared_experts", 1, &shared, err);
  if (rc == 0)
    rc = lls_json_real_or(json, "routed_scaling_factor", 1, &scale, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "n_group", 1, &m->groups, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "topk_group", 1, &m->used_groups, err);
  out->heads_behind =
      json_integer_value(lls_json_get(json, "num_nextn_predict_layers")) > 0;
  lls_json_get(json, "num_mtp_layers");
  make_dense_by_type(json, out, dense);
  m->logistic = m->corrected = true;
  m->scale = (float)scale;
  m->shared = shared * m->ffn;
  return rc;
}

static int configure_glm(const struct lls_json *json, struct lls_model_config *out,
                         struct lls_error *err)
{
  bool normed = false;
  int rc = lls_config_llama(json, out, err);
  if (rc == 0)
    rc = lls_config_rope(json, "rope_theta", 0.5, out, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "use_qk_norm", false, &normed, err);
  out->output_bias = false;
  out->qk_norm = normed ? LLS_QK_NORM_HEAD : LLS_QK_NORM_NONE;
  return rc < 0 ? rc : lls_config_logistic_mixture(json, out, err);
}

/* ---- MiniMax M2 ------------------------------------------------------------------- */

/* Reads rotary_dim, which older files have instead of a share of a head. */
static int configure_minimax(const struct lls_json *json, struct lls_model_config *out,
                             struct lls_error *err)
{
  static const struct moe_keys keys = {"num_local_experts", "num_experts_per_tok",
                                       "intermediate_size"};
  static const char *const unused[] = {
      "use_mtp",      "num_mtp_modules",  "mtp_transformer_layers",
      "scoring_func", "use_routing_bias", "shared_intermediate_size",
      "qk_norm_type", "use_qk_norm",      "attn_type_list"};
  uint32_t rotated = 0;
  int rc = read_sizes(json, &keys, out, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "rotary_dim", out->rope.dims, &rotated, err);
  const char *scoring = json_string_value(lls_json_get(json, "scoring_func"));
  uint32_t shared = 0;
  if (rc == 0)
    rc = read_count(json, "shared_intermediate_size", 0, &shared, err);
  if (rc == 0 && ((scoring != NULL && strcmp(scoring, "sigmoid") != 0) || shared > 0))
    rc = lls_fail(err, -ENOTSUP,
                  "%s: \"scoring_func\": \"sigmoid\" and no shared expert are supported",
                  json->file);
  for (size_t i = 0; i < sizeof unused / sizeof unused[0]; i++)
    lls_json_get(json, unused[i]);
  out->rope.dims = rotated;
  out->qk_norm = LLS_QK_NORM_WHOLE;
  out->mixture.logistic = out->mixture.corrected = true;
  return rc;
}

/* ---- Tencent's -------------------------------------------------------------------- */

static int configure_hunyuan(const struct lls_json *json, struct lls_model_config *out,
                             struct lls_error *err)
{
  static const struct moe_keys keys = {"num_experts", "moe_topk",
                                       "moe_intermediate_size"};
  struct moe_keys own = keys;
  if (lls_json_get(json, keys.ffn) == NULL)
    own.ffn = "intermediate_size";
  uint32_t shared = 1;
  int rc = read_sizes(json, &own, out, err);
  if (rc == 0 && lls_json_get(json, "num_shared_expert") != NULL)
    rc = read_size(json, "num_shared_expert", &shared, err);
  if (rc == 0 && shared != 1)
    rc = lls_fail(err, -ENOTSUP, "%s: \"num_shared_expert\" is %u; 1 is supported",
                  json->file, shared);
  lls_json_get(json, "use_qk_norm");        /* the tensors show it */
  lls_json_get(json, "use_mixed_mlp_moe");  /* there is a shared expert */
  lls_json_get(json, "attention_head_dim"); /* repeats head_dim */
  out->mixture.shared = out->ffn;
  out->qk_norm = LLS_QK_NORM_HEAD;
  out->rope_before_norm = true;
  return rc;
}

static int configure_hy3(const struct lls_json *json, struct lls_model_config *out,
                         struct lls_error *err)
{
  static const struct moe_keys keys = {"num_experts", "num_experts_per_tok",
                                       "moe_intermediate_size"};
  struct lls_mixture_config *m = &out->mixture;
  uint32_t shared = 1;
  double scale = 1;
  int rc = read_sizes(json, &keys, out, err);
  if (rc == 0)
    rc = read_count(json, "num_shared_experts", 1, &shared, err);
  if (rc == 0)
    rc = lls_json_real_or(json, "router_scaling_factor", 2.826, &scale, err);
  make_dense_by_type(json, out, 1);
  lls_json_get(json, "enable_moe_fp32_combine"); /* about rounding in 16 bits */
  lls_json_get(json, "num_nextn_predict_layers");
  m->logistic = m->corrected = true;
  m->scale = (float)scale;
  m->shared = shared * m->ffn;
  out->qk_norm = LLS_QK_NORM_HEAD;
  return rc;
}

/* ---- ERNIE 4.5 -------------------------------------------------------------------- */

static int configure_ernie(const struct lls_json *json, struct lls_model_config *out,
                           struct lls_error *err)
{
  static const struct moe_keys keys = {"moe_num_experts", "moe_k",
                                       "moe_intermediate_size"};
  struct lls_mixture_config *m = &out->mixture;
  uint32_t shared = 2, start = 1, every = 1;
  bool bias = false;
  int rc = read_sizes(json, &keys, out, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "use_bias", false, &bias, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "tie_word_embeddings", true, &out->tied_embeddings, err);
  if (rc == 0)
    rc = read_count(json, "moe_num_shared_experts", 2, &shared, err);
  if (rc == 0)
    rc = read_count(json, "moe_layer_start_index", 1, &start, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "moe_layer_interval", 1, &every, err);
  const json_t *end = lls_json_get(json, "moe_layer_end_index");
  json_int_t last = end != NULL ? json_integer_value(end) : -1;
  last = last < 0 ? out->layers - 1 : last;
  for (uint32_t i = 0; rc == 0 && i < out->layers && i < LLS_MAX_LAYERS; i++)
    out->layer[i].mixture = (i + 1) % every == 0 && i >= start && i <= last;
  lls_json_get(json, "moe_norm_min"); /* far below any sum of weights */
  lls_json_get(json, "moe_capacity"); /* of training */
  if (rc == 0 && bias)
    rc = lls_fail(err, -ENOTSUP, "%s: \"use_bias\" is true; false is supported",
                  json->file);
  m->corrected = true;
  m->shared = shared * m->ffn;
  out->paired_rope = true;
  return rc;
}

/* ---- names ------------------------------------------------------------------------ */

#define EXPERTS                                                                          \
  .router = "mlp.gate", .experts = "mlp.experts.", .expert_gate = "gate_proj",           \
  .expert_up = "up_proj", .expert_down = "down_proj"
#define SHARED(part)                                                                     \
  .shared_gate = part ".gate_proj", .shared_up = part ".up_proj",                        \
  .shared_down = part ".down_proj"
#define GRAPH LLS_LLAMA_TENSORS, LLS_LLAMA_NORMS, LLS_LLAMA_QKV, LLS_LLAMA_MLP

static const char *const qwen2_names[] = {"Qwen2MoeForCausalLM", NULL};
static const char *const glm_names[] = {"Glm4MoeForCausalLM", NULL};
static const char *const minimax_names[] = {"MiniMaxM2ForCausalLM", NULL};
static const char *const hunyuan_names[] = {"HunYuanMoEV1ForCausalLM", NULL};
static const char *const hy3_names[] = {"HYV3ForCausalLM", NULL};
static const char *const ernie_names[] = {"Ernie4_5_MoeForCausalLM", NULL};

const struct lls_architecture lls_qwen2_moe = {
    .title = "Qwen2-MoE",
    .names = qwen2_names,
    .configure = configure_qwen2,
    .tensors = {GRAPH, EXPERTS, SHARED("mlp.shared_expert"),
                .shared_score = "mlp.shared_expert_gate"},
};

static const struct lls_tensor_names glm_heads = {
    GRAPH,
    EXPERTS,
    SHARED("mlp.shared_experts"),
    LLS_LLAMA_QK_NORMS,
    .router_bias = "mlp.gate.e_score_correction_bias",
    LLS_NEXTN_NAMES,
};

const struct lls_architecture lls_glm4_moe = {
    .title = "GLM-4.5 to 4.7",
    .names = glm_names,
    .configure = configure_glm,
    .tensors = {GRAPH, EXPERTS, SHARED("mlp.shared_experts"), LLS_LLAMA_QK_NORMS,
                .router_bias = "mlp.gate.e_score_correction_bias"},
    .heads = &glm_heads,
};

const struct lls_architecture lls_minimax_m2 = {
    .title = "MiniMax M2",
    .names = minimax_names,
    .configure = configure_minimax,
    .tensors = {GRAPH, LLS_LLAMA_QK_NORMS, .router = "block_sparse_moe.gate",
                .experts = "block_sparse_moe.experts.", .expert_gate = "w1",
                .expert_up = "w3", .expert_down = "w2",
                .router_bias = "block_sparse_moe.e_score_correction_bias"},
};

const struct lls_architecture lls_hunyuan_moe = {
    .title = "Hunyuan A13B",
    .names = hunyuan_names,
    .configure = configure_hunyuan,
    .tensors = {LLS_LLAMA_TENSORS, LLS_LLAMA_NORMS, LLS_LLAMA_QKV,
                SHARED("mlp.shared_mlp"), .router = "mlp.gate.wg",
                .experts = "mlp.experts.", .expert_gate = "gate_proj",
                .expert_up = "up_proj", .expert_down = "down_proj",
                .q_norm = "self_attn.query_layernorm",
                .k_norm = "self_attn.key_layernorm"},
};

const struct lls_architecture lls_hy3 = {
    .title = "Hy3",
    .names = hy3_names,
    .configure = configure_hy3,
    .tensors = {GRAPH, SHARED("mlp.shared_mlp"), LLS_LLAMA_QK_NORMS,
                .router = "mlp.router.gate", .experts = "mlp.experts.",
                .expert_gate = "gate_proj", .expert_up = "up_proj",
                .expert_down = "down_proj", .router_bias = "mlp.expert_bias"},
};

const struct lls_architecture lls_ernie_moe = {
    .title = "ERNIE 4.5's mixtures",
    .names = ernie_names,
    .configure = configure_ernie,
    .tensors = {GRAPH, EXPERTS, SHARED("mlp.shared_experts"),
                .router_bias = "mlp.moe_statics.e_score_correction_bias"},
};
