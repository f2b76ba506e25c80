/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPT-2: learned positions, LayerNorm with biases, query, key and value stacked, a plain
 * MLP. Its folders store the matrices of layers as (inputs, outputs).
 */
#include "core/model/architecture.h"

#include <errno.h>

/* Refuses the three ways in which scores may be computed otherwise. */
static int check_scores(const struct lls_json *json, struct lls_error *err)
{
  bool plain = true, by_layer = false;
  int rc = lls_json_bool_or(json, "scale_attn_weights", true, &plain, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "scale_attn_by_inverse_layer_idx", false, &by_layer, err);
  lls_json_get(json, "reorder_and_upcast_attn"); /* about rounding in 16 bits */
  if (rc == 0 && (!plain || by_layer))
    rc = lls_fail(err, -ENOTSUP,
                  "%s: \"scale_attn_weights\": true and "
                  "\"scale_attn_by_inverse_layer_idx\": false are supported",
                  json->file);
  return rc;
}

/* Keys about a classifier, or which repeat others. */
static const char *const unused[] = {"n_ctx", "summary_type", "summary_use_proj",
                                     "summary_proj_to_labels", NULL};

int lls_config_gpt(const struct lls_json *json, struct lls_model_config *out,
                   struct lls_error *err)
{
  int rc = lls_config_sizes(json, out, NULL, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "n_inner", 4 * out->hidden, &out->ffn, err);
  if (rc == 0)
    rc = lls_config_layer_norm(json, "layer_norm_epsilon", out, err);
  if (rc == 0)
    rc = lls_config_activation(json, "activation_function", "gelu_new", &out->activation,
                               err);
  lls_config_pass_over(json, unused);
  out->mlp_bias = true;
  return rc;
}

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  int rc = lls_config_gpt(json, out, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "tie_word_embeddings", true, &out->tied_embeddings, err);
  out->qkv_bias = out->output_bias = true;
  return rc < 0 ? rc : check_scores(json, err);
}

static const char *const names[] = {"GPT2LMHeadModel", NULL};

const struct lls_architecture lls_gpt2 = {
    .title = "GPT-2",
    .names = names,
    .transposed = true,
    .configure = configure,
    .tensors =
        {
            .prefixes = {"transformer.", ""},
            .embedding = "wte",
            .positions = "wpe",
            .final_norm = "ln_f",
            .head = "lm_head",
            .layers = "h.",
            .attention_norm = "ln_1",
            .mlp_norm = "ln_2",
            .stacked_qkv = "attn.c_attn",
            .output = "attn.c_proj",
            .up = "mlp.c_fc",
            .down = "mlp.c_proj",
        },
};
