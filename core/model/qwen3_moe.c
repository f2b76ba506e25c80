/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Qwen3's mixtures of experts (arXiv 2505.09388): Qwen3's attention, and in most layers
 * many small experts. transformers 5 stores their number as "num_local_experts".
 */
#include "core/model/architecture.h"

static bool listed(const json_t *list, uint32_t number)
{
  bool found = false;
  for (size_t i = 0; i < json_array_size(list); i++)
    found |= json_integer_value(json_array_get(list, i)) == number;
  return found;
}

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  uint32_t every = 1;
  struct lls_mixture_config *m = &out->mixture;
  int rc = lls_config_llama(json, out, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "num_local_experts", 128, &m->experts, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "num_experts", m->experts, &m->experts, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "num_experts_per_tok", 8, &m->active, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "moe_intermediate_size", 768, &m->ffn, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "norm_topk_prob", false, &m->normalise, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "decoder_sparse_step", 1, &every, err);
  out->qk_norm = LLS_QK_NORM_HEAD;
  const json_t *plain = lls_json_get(json, "mlp_only_layers");
  for (uint32_t i = 0; rc == 0 && i < out->layers && i < LLS_MAX_LAYERS; i++)
    out->layer[i].mixture = (i + 1) % every == 0 && !listed(plain, i);
  return rc < 0 ? rc : lls_config_qwen_window(json, out, err);
}

/* The text part of a model that also reads images. */
static int configure_vl(const struct lls_json *json, struct lls_model_config *out,
                        struct lls_error *err)
{
  json_t *defaults = json_pack("{s:b}", "norm_topk_prob", 1);
  return lls_config_text_part(json, defaults, out, configure, err);
}

static const char *const names_vl[] = {"Qwen3VLMoeForConditionalGeneration", NULL};
static const char *const names[] = {"Qwen3MoeForCausalLM", NULL};

#define EXPERTS                                                                          \
  .router = "mlp.gate", .experts = "mlp.experts.", .expert_gate = "gate_proj",           \
  .expert_up = "up_proj", .expert_down = "down_proj"

const struct lls_architecture lls_qwen3_moe = {
    .title = "Qwen3-MoE",
    .names = names,
    .configure = configure,
    .tensors = {LLS_LLAMA_TENSORS, LLS_LLAMA_NORMS, LLS_LLAMA_QKV, LLS_LLAMA_MLP,
                LLS_LLAMA_QK_NORMS, EXPERTS},
};

const struct lls_architecture lls_qwen3_vl_moe = {
    .title = "Qwen3-VL-MoE (text)",
    .names = names_vl,
    .configure = configure_vl,
    .tensors = {LLS_LLAMA_NAMES, LLS_TEXT_PREFIXES, LLS_LLAMA_NORMS, LLS_LLAMA_QKV,
                LLS_LLAMA_MLP, LLS_LLAMA_QK_NORMS, EXPERTS,
                .expert_stacked_up = "gate_up_proj", .experts_turned = true},
};
