/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bloom (arXiv 2211.05100): LayerNorm and biases everywhere, a norm of the embedding,
 * positions by ALiBi, query, key and value fused per head.
 */
#include "core/model/architecture.h"

#include <errno.h>

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  bool after = false;
  struct lls_json sized = *json;
  sized.root = json_pack("{s:i}", "seq_length", 2048); /* if the file does not say */
  int rc = json_object_update(sized.root, json->root) == 0
               ? lls_config_sizes(&sized, out, NULL, err)
               : lls_fail(err, -ENOMEM, "out of memory");
  json_decref(sized.root);
  if (rc == 0)
    rc = lls_json_size_or(json, "n_inner", 4 * out->hidden, &out->ffn, err);
  if (rc == 0)
    rc = lls_config_layer_norm(json, "layer_norm_epsilon", out, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "tie_word_embeddings", true, &out->tied_embeddings, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "apply_residual_connection_post_layernorm", false, &after,
                          err);
  if (rc == 0 && after)
    rc = lls_fail(err, -ENOTSUP,
                  "%s: \"apply_residual_connection_post_layernorm\" is true; false is "
                  "supported",
                  json->file);
  lls_json_get(json, "slow_but_exact"); /* about rounding in 16 bits */
  out->kv_heads = out->heads;           /* required by the layout of the fused tensor */
  out->activation = LLS_ACT_GELU_TANH;
  out->qkv_bias = out->output_bias = out->mlp_bias = true;
  out->alibi = 8;
  return rc;
}

static const char *const names[] = {"BloomForCausalLM", NULL};

const struct lls_architecture lls_bloom = {
    .title = "Bloom",
    .names = names,
    .configure = configure,
    .tensors =
        {
            .prefixes = {"transformer.", ""},
            .embedding = "word_embeddings",
            .embedding_norm = "word_embeddings_layernorm",
            .final_norm = "ln_f",
            .head = "lm_head",
            .layers = "h.",
            LLS_LLAMA_NORMS,
            .fused_qkv = "self_attention.query_key_value",
            .output = "self_attention.dense",
            .up = "mlp.dense_h_to_4h",
            .down = "mlp.dense_4h_to_h",
        },
};
