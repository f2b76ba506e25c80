/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OLMo 2 (arXiv 2501.00656): branches read x without a norm, and their outputs are
 * normed before they are added; query and key are normed over their whole width, all
 * heads together.
 */
#include "core/model/architecture.h"

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  int rc = lls_config_llama(json, out, err);
  out->norm_place = LLS_NORM_OUTPUT;
  out->qk_norm = LLS_QK_NORM_WHOLE;
  return rc;
}

static const char *const names[] = {"Olmo2ForCausalLM", NULL};

const struct lls_architecture lls_olmo2 = {
    .title = "OLMo 2",
    .names = names,
    .configure = configure,
    .tensors =
        {
            LLS_LLAMA_TENSORS,
            LLS_LLAMA_QKV,
            LLS_LLAMA_MLP,
            .attention_norm = "post_attention_layernorm",
            .mlp_norm = "post_feedforward_layernorm",
            .q_norm = "self_attn.q_norm",
            .k_norm = "self_attn.k_norm",
        },
};
