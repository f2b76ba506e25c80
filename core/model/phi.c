/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Phi-1, 1.5 and 2 (arXiv 2306.11644): attention and a plain MLP read one LayerNorm and
 * are added in parallel; a part of each head rotates; all matrices have biases, and the
 * head too.
 */
#include "core/model/architecture.h"

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  int rc = lls_config_sizes(json, out, "intermediate_size", err);
  if (rc == 0)
    rc = lls_config_layer_norm(json, "layer_norm_eps", out, err);
  if (rc == 0)
    rc = lls_config_activation(json, "hidden_act", "gelu_new", &out->activation, err);
  if (rc == 0)
    rc = lls_config_rope(json, "rope_theta", 0.5, out, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "tie_word_embeddings", false, &out->tied_embeddings, err);
  out->qkv_bias = out->output_bias = out->mlp_bias = out->head_bias = true;
  out->parallel_residual = true;
  return rc;
}

static const char *const names[] = {"PhiForCausalLM", NULL};

const struct lls_architecture lls_phi = {
    .title = "Phi-1 and 2",
    .names = names,
    .configure = configure,
    .tensors =
        {
            .prefixes = {"model.", ""},
            .embedding = "embed_tokens",
            .final_norm = "final_layernorm",
            .head = "lm_head",
            .layers = "layers.",
            .attention_norm = "input_layernorm",
            .mlp_norm = "input_layernorm",
            LLS_LLAMA_QKV,
            .output = "self_attn.dense",
            .up = "mlp.fc1",
            .down = "mlp.fc2",
        },
};
