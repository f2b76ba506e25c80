/* SPDX-License-Identifier: Apache-2.0 */
/* Qwen3 (arXiv 2505.09388): Llama's graph with a norm of each head's query and key. */
#include "core/model/architecture.h"

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  int rc = lls_config_llama(json, out, err);
  out->qk_norm = LLS_QK_NORM_HEAD;
  return rc < 0 ? rc : lls_config_qwen_window(json, out, err);
}

static const char *const names[] = {"Qwen3ForCausalLM", "Qwen3Model", NULL};

const struct lls_architecture lls_qwen3 = {
    .title = "Qwen3",
    .names = names,
    .configure = configure,
    .tensors =
        {
            LLS_LLAMA_TENSORS,
            LLS_LLAMA_NORMS,
            LLS_LLAMA_QKV,
            LLS_LLAMA_MLP,
            .q_norm = "self_attn.q_norm",
            .k_norm = "self_attn.k_norm",
        },
};
