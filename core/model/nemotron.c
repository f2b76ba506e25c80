/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nemotron-4 and Minitron (arXiv 2402.16819): LayerNorm whose weights are stored minus
 * one, a plain MLP with the squared ReLU, rotary positions on half of each head.
 */
#include "core/model/architecture.h"

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  int rc = lls_config_sizes(json, out, "intermediate_size", err);
  if (rc == 0)
    rc = lls_config_layer_norm(json, "norm_eps", out, err);
  if (rc == 0)
    rc = lls_config_activation(json, "hidden_act", "relu2", &out->activation, err);
  if (rc == 0)
    rc = lls_config_rope(json, "rope_theta", 0.5, out, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "attention_bias", false, &out->qkv_bias, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "mlp_bias", false, &out->mlp_bias, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "tie_word_embeddings", false, &out->tied_embeddings, err);
  out->output_bias = out->qkv_bias;
  out->norm_offset = 1;
  return rc;
}

static const char *const names[] = {"NemotronForCausalLM", NULL};

const struct lls_architecture lls_nemotron = {
    .title = "Nemotron (dense)",
    .names = names,
    .configure = configure,
    .tensors = {LLS_LLAMA_TENSORS, LLS_LLAMA_NORMS, LLS_LLAMA_QKV, .up = "mlp.up_proj"},
};
