/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPT-NeoX (arXiv 2204.06745) and Pythia: LayerNorm, attention and MLP in parallel
 * unless config.json says otherwise, rotary positions on a part of each head, and
 * query, key and value fused per head in one tensor.
 */
#include <errno.h>

#include "core/model/architecture.h"

/* Checks both names under which transformers, up to version 4, writes the base. */
static int check_theta(const struct lls_json *json, const struct lls_model_config *out,
                       struct lls_error *err)
{
  double theta;
  int rc = lls_json_real_or(json, "rope_theta", out->rope.theta, &theta, err);
  if (rc == 0 && theta != out->rope.theta)
    rc = lls_fail(err, -EINVAL, "%s: \"rope_theta\" is %g but \"rotary_emb_base\" is %g",
                  json->file, theta, out->rope.theta);
  return rc;
}

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  out->norm = LLS_NORM_LAYER;
  out->norm_affine = out->final_norm = out->mlp_bias = true;
  double epsilon;
  int rc = lls_config_sizes(json, out, "intermediate_size", err);
  if (rc == 0)
    rc = lls_config_activation(json, "hidden_act", "gelu", &out->activation, err);
  if (rc == 0)
    rc = lls_config_rope(json, "rotary_emb_base", 0.25, out, err);
  if (rc == 0)
    rc = check_theta(json, out, err);
  if (rc == 0)
    rc = lls_json_real_or(json, "layer_norm_eps", 1e-5, &epsilon, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "use_parallel_residual", true, &out->parallel_residual,
                          err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "attention_bias", true, &out->qkv_bias, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "tie_word_embeddings", false, &out->tied_embeddings, err);
  if (rc < 0)
    return rc;
  out->kv_heads = out->heads; /* required by the layout of the fused tensor */
  out->norm_epsilon = (float)epsilon;
  out->output_bias = out->qkv_bias;
  return 0;
}

static const char *const names[] = {"GPTNeoXForCausalLM", NULL};

const struct lls_architecture lls_neox = {
    .title = "GPT-NeoX and Pythia",
    .names = names,
    .configure = configure,
    .tensors =
        {
            .prefixes = {"gpt_neox.", ""},
            .embedding = "embed_in",
            .final_norm = "final_layer_norm",
            .head = "embed_out",
            .layers = "layers.",
            .attention_norm = "input_layernorm",
            .mlp_norm = "post_attention_layernorm",
            .fused_qkv = "attention.query_key_value",
            .output = "attention.dense",
            .up = "mlp.dense_h_to_4h",
            .down = "mlp.dense_4h_to_h",
        },
};
