/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mixtral (arXiv 2401.04088): Llama's graph with a mixture of experts in every layer;
 * the best few experts are weighted by a softmax over their scores.
 */
#include "core/model/architecture.h"

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  uint32_t window = 0;
  int rc = lls_config_llama(json, out, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "sliding_window", 0, &window, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "num_local_experts", 8, &out->mixture.experts, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "num_experts_per_tok", 2, &out->mixture.active, err);
  lls_config_window(out, window);
  out->mixture.ffn = out->ffn;
  out->mixture.normalise = true;
  for (uint32_t i = 0; i < out->layers && i < LLS_MAX_LAYERS; i++)
    out->layer[i].mixture = true;
  return rc;
}

static const char *const names[] = {"MixtralForCausalLM", NULL};

const struct lls_architecture lls_mixtral = {
    .title = "Mixtral",
    .names = names,
    .configure = configure,
    .tensors =
        {
            LLS_LLAMA_TENSORS,
            LLS_LLAMA_NORMS,
            LLS_LLAMA_QKV,
            .router = "block_sparse_moe.gate",
            .experts = "block_sparse_moe.experts.",
            .expert_gate = "w1",
            .expert_up = "w3",
            .expert_down = "w2",
        },
};
