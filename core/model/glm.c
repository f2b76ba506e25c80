/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GLM-4 (0414, Z.ai): Llama's graph with norms before and after each branch, biases of
 * query, key and value, and half of each head rotated, neighbours together.
 */
#include "core/model/architecture.h"

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  int rc = lls_config_llama(json, out, err);
  if (rc == 0)
    rc = lls_config_rope(json, "rope_theta", 0.5, out, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "attention_bias", true, &out->qkv_bias, err);
  out->output_bias = false;
  out->norm_place = LLS_NORM_BOTH;
  out->paired_rope = true;
  return rc;
}

static const char *const names[] = {"Glm4ForCausalLM", NULL};

const struct lls_architecture lls_glm4 = {
    .title = "GLM-4 (0414)",
    .names = names,
    .configure = configure,
    .tensors =
        {
            LLS_LLAMA_TENSORS,
            LLS_LLAMA_QKV,
            .stacked_up = "mlp.gate_up_proj",
            .attention_norm = "input_layernorm",
            .attention_output_norm = "post_self_attn_layernorm",
            .mlp_norm = "post_attention_layernorm",
            .mlp_output_norm = "post_mlp_layernorm",
        },
};
