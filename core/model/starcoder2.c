/* SPDX-License-Identifier: Apache-2.0 */
/*
 * StarCoder2 (arXiv 2402.19173): LayerNorm and biases everywhere, a plain MLP, rotary
 * positions, a sliding window.
 */
#include "core/model/architecture.h"

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  uint32_t window = 0;
  bool bias = true;
  int rc = lls_config_sizes(json, out, "intermediate_size", err);
  if (rc == 0)
    rc = lls_config_layer_norm(json, "norm_epsilon", out, err);
  if (rc == 0)
    rc = lls_config_activation(json, "hidden_act", "gelu_pytorch_tanh", &out->activation,
                               err);
  if (rc == 0)
    rc = lls_config_rope(json, "rope_theta", 1.0, out, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "use_bias", true, &bias, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "tie_word_embeddings", true, &out->tied_embeddings, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "sliding_window", 0, &window, err);
  out->qkv_bias = out->output_bias = out->mlp_bias = bias;
  lls_config_window(out, window);
  return rc;
}

static const char *const names[] = {"Starcoder2ForCausalLM", NULL};

const struct lls_architecture lls_starcoder2 = {
    .title = "StarCoder2",
    .names = names,
    .configure = configure,
    .tensors =
        {
            .prefixes = {"model.", ""},
            .embedding = "embed_tokens",
            .final_norm = "norm",
            .head = "lm_head",
            .layers = "layers.",
            LLS_LLAMA_NORMS,
            LLS_LLAMA_QKV,
            .output = "self_attn.o_proj",
            .up = "mlp.c_fc",
            .down = "mlp.c_proj",
        },
};
