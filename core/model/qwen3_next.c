/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Qwen3-Next, Qwen3.5 and Qwen3.6: three of four layers are a gated delta net (arXiv
 * 2412.06464), the others attend with a gate of each head's output and rotate a quarter
 * of a head. Norms have weights of 1 + w. Mixtures have a shared expert with a gate.
 * Qwen3.5 and 3.6 also read images; their text part is served.
 */
#include "core/model/architecture.h"

#include <errno.h>

static int read_layers(const struct lls_json *json, struct lls_model_config *out,
                       struct lls_error *err)
{
  uint32_t every = 4;
  int rc = lls_json_size_or(json, "full_attention_interval", 4, &every, err);
  bool listed[LLS_MAX_LAYERS], found = false;
  if (rc == 0)
    rc = lls_config_two_kinds(json, out->layers, "full_attention", "linear_attention",
                              listed, &found, err);
  for (uint32_t i = 0; rc == 0 && i < out->layers && i < LLS_MAX_LAYERS; i++) {
    bool folds = found ? listed[i] : (i + 1) % every != 0;
    out->layer[i].mix = folds ? LLS_MIX_DELTA : LLS_MIX_ATTENTION;
  }
  return rc;
}

static int read_delta(const struct lls_json *json, struct lls_recurrent_config *r,
                      struct lls_error *err)
{
  const struct {
    const char *key;
    uint32_t usual, *value;
  } sizes[] = {{"linear_conv_kernel_dim", 4, &r->conv_width},
               {"linear_num_key_heads", 16, &r->key_heads},
               {"linear_num_value_heads", 32, &r->value_heads},
               {"linear_key_head_dim", 128, &r->key_dim},
               {"linear_value_head_dim", 128, &r->value_dim}};
  int rc = 0;
  for (size_t i = 0; rc == 0 && i < sizeof sizes / sizeof sizes[0]; i++)
    rc = lls_json_size_or(json, sizes[i].key, sizes[i].usual, sizes[i].value, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "linear_value_heads_tiled", false, &r->tiled, err);
  if (rc == 0 && r->value_heads % r->key_heads != 0)
    rc = lls_fail(err, -EINVAL, "%s: %u value heads cannot be divided among %u key heads",
                  json->file, r->value_heads, r->key_heads);
  return rc;
}

static int configure_dense(const struct lls_json *json, struct lls_model_config *out,
                           struct lls_error *err)
{
  int rc = lls_config_llama(json, out, err);
  if (rc == 0)
    rc = lls_config_rope(json, "rope_theta", 0.25, out, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "attn_output_gate", true, &out->output_gate, err);
  if (rc == 0)
    rc = read_delta(json, &out->recurrent, err);
  lls_json_get(json, "mamba_ssm_dtype"); /* states are f32 here */
  out->heads_behind = json_integer_value(lls_json_get(json, "mtp_num_hidden_layers")) > 0;
  lls_json_get(json, "mtp_use_dedicated_embeddings"); /* heads.c looks at the tensors */
  out->qk_norm = LLS_QK_NORM_HEAD;
  out->norm_offset = 1;
  return rc < 0 ? rc : read_layers(json, out, err);
}

static bool is_listed(const json_t *list, uint32_t number)
{
  bool found = false;
  for (size_t i = 0; i < json_array_size(list); i++)
    found |= json_integer_value(json_array_get(list, i)) == number;
  return found;
}

/* Files of Qwen3.5 have no width of an MLP, as no layer has one alone. */
static int give_width(const struct lls_json *json, struct lls_error *err)
{
  const json_t *shared = json_object_get(json->root, "shared_expert_intermediate_size");
  if (json_object_get(json->root, "intermediate_size") != NULL)
    return 0;
  json_t *width = shared != NULL ? json_deep_copy(shared) : json_integer(512);
  return json_object_set_new(json->root, "intermediate_size", width) == 0
             ? 0
             : lls_fail(err, -ENOMEM, "out of memory");
}

static int configure_mixture(const struct lls_json *json, struct lls_model_config *out,
                             struct lls_error *err)
{
  struct lls_mixture_config *m = &out->mixture;
  const struct {
    const char *key;
    uint32_t usual, *value;
  } sizes[] = {{"num_experts", 512, &m->experts},
               {"num_experts_per_tok", 10, &m->active},
               {"moe_intermediate_size", 512, &m->ffn},
               {"shared_expert_intermediate_size", 512, &m->shared}};
  uint32_t every = 1;
  int rc = give_width(json, err);
  if (rc == 0)
    rc = configure_dense(json, out, err);
  for (size_t i = 0; rc == 0 && i < sizeof sizes / sizeof sizes[0]; i++)
    rc = lls_json_size_or(json, sizes[i].key, sizes[i].usual, sizes[i].value, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "norm_topk_prob", true, &m->normalise, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "decoder_sparse_step", 1, &every, err);
  const json_t *plain = lls_json_get(json, "mlp_only_layers");
  for (uint32_t i = 0; rc == 0 && i < out->layers && i < LLS_MAX_LAYERS; i++)
    out->layer[i].mixture = (i + 1) % every == 0 && !is_listed(plain, i);
  m->shared_gate = true;
  return rc;
}

static int configure_text(const struct lls_json *json, struct lls_model_config *out,
                          struct lls_error *err)
{
  return lls_config_text_part(json, json_object(), out, configure_dense, err);
}

static int configure_text_mixture(const struct lls_json *json,
                                  struct lls_model_config *out, struct lls_error *err)
{
  return lls_config_text_part(json, json_object(), out, configure_mixture, err);
}

#define LAYER_TENSORS                                                                    \
  LLS_LLAMA_NORMS, LLS_LLAMA_QKV, LLS_LLAMA_MLP, LLS_LLAMA_QK_NORMS,                     \
      .recurrent = {.qkv = "linear_attn.in_proj_qkv",                                    \
                    .z = "linear_attn.in_proj_z",                                        \
                    .b = "linear_attn.in_proj_b",                                        \
                    .a = "linear_attn.in_proj_a",                                        \
                    .qkvz = "linear_attn.in_proj_qkvz",                                  \
                    .ba = "linear_attn.in_proj_ba",                                      \
                    .conv = "linear_attn.conv1d",                                        \
                    .rate = "linear_attn.A_log",                                         \
                    .dt_bias = "linear_attn.dt_bias",                                    \
                    .norm = "linear_attn.norm",                                          \
                    .output = "linear_attn.out_proj"}
#define MIXTURE_TENSORS                                                                  \
  .router = "mlp.gate", .experts = "mlp.experts.", .expert_gate = "gate_proj",           \
  .expert_up = "up_proj", .expert_down = "down_proj",                                    \
  .expert_stacked_up = "gate_up_proj", .shared_gate = "mlp.shared_expert.gate_proj",     \
  .shared_up = "mlp.shared_expert.up_proj",                                              \
  .shared_down = "mlp.shared_expert.down_proj", .shared_score = "mlp.shared_expert_gate"

/* The layer that guesses attends. */
#define HEADS                                                                            \
  .prefixes = {"mtp."}, .join = "fc", .join_embedding = "pre_fc_norm_embedding",         \
  .join_hidden = "pre_fc_norm_hidden", .join_norm = "norm", LLS_LLAMA_NAMES,             \
  LLS_LLAMA_NORMS, LLS_LLAMA_QKV, LLS_LLAMA_MLP, LLS_LLAMA_QK_NORMS
static const struct lls_tensor_names dense_heads = {HEADS};
static const struct lls_tensor_names mixture_heads = {HEADS, MIXTURE_TENSORS};

static const char *const next_names[] = {"Qwen3NextForCausalLM", NULL};
static const char *const dense_names[] = {"Qwen3_5ForConditionalGeneration",
                                          "Qwen3_5ForCausalLM", NULL};
static const char *const mixture_names[] = {"Qwen3_5MoeForConditionalGeneration",
                                            "Qwen3_5MoeForCausalLM", NULL};

const struct lls_architecture lls_qwen3_next = {
    .title = "Qwen3-Next",
    .names = next_names,
    .configure = configure_mixture,
    .tensors = {LLS_LLAMA_TENSORS, LAYER_TENSORS, MIXTURE_TENSORS},
    .heads = &mixture_heads,
};

const struct lls_architecture lls_qwen3_5 = {
    .title = "Qwen3.5 and 3.6 (text)",
    .names = dense_names,
    .configure = configure_text,
    .tensors = {LLS_LLAMA_NAMES, LLS_TEXT_PREFIXES, LAYER_TENSORS},
    .heads = &dense_heads,
};

const struct lls_architecture lls_qwen3_5_moe = {
    .title = "Qwen3.5 and 3.6, mixtures (text)",
    .names = mixture_names,
    .configure = configure_text_mixture,
    .tensors = {LLS_LLAMA_NAMES, LLS_TEXT_PREFIXES, LAYER_TENSORS, MIXTURE_TENSORS},
    .heads = &mixture_heads,
};
