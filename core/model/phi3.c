/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Phi-3 (arXiv 2404.14219), Phi-3.5 and Phi-4, including the mini models: Llama's graph
 * with query, key and value stacked in one tensor, and gate and up in another; long
 * contexts by LongRoPE.
 */
#include "core/model/architecture.h"

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  uint32_t window = 0;
  int rc = lls_config_llama(json, out, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "sliding_window", 0, &window, err);
  lls_config_window(out, window);
  return rc;
}

static const char *const names[] = {"Phi3ForCausalLM", NULL};

const struct lls_architecture lls_phi3 = {
    .title = "Phi-3 and Phi-4",
    .names = names,
    .configure = configure,
    .tensors =
        {
            LLS_LLAMA_TENSORS,
            LLS_LLAMA_NORMS,
            .stacked_qkv = "self_attn.qkv_proj",
            .stacked_up = "mlp.gate_up_proj",
        },
};
