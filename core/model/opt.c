/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OPT (arXiv 2205.01068): learned positions, ReLU, LayerNorm with biases everywhere.
 * The 350m model differs from all other sizes: it has norms after each addition, no
 * final norm, and an embedding narrower than the hidden state.
 */
#include "core/model/architecture.h"

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  out->norm = LLS_NORM_LAYER;
  out->norm_epsilon = 1e-5f;
  out->position_offset = 2; /* rows 0 and 1 were for padding in its training code */
  bool norm_before = true, final_norm_removed = false, bias = true;
  int rc = lls_config_sizes(json, out, "ffn_dim", err);
  if (rc == 0)
    rc =
        lls_config_activation(json, "activation_function", "relu", &out->activation, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "word_embed_proj_dim", out->hidden, &out->embed_dim, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "do_layer_norm_before", true, &norm_before, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "_remove_final_layer_norm", false, &final_norm_removed,
                          err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "layer_norm_elementwise_affine", true, &out->norm_affine,
                          err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "enable_bias", true, &bias, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "tie_word_embeddings", true, &out->tied_embeddings, err);
  out->norm_place = norm_before ? LLS_NORM_INPUT : LLS_NORM_SUM;
  out->final_norm = norm_before && !final_norm_removed;
  out->qkv_bias = out->output_bias = out->mlp_bias = bias;
  return rc;
}

static const char *const names[] = {"OPTForCausalLM", NULL};

const struct lls_architecture lls_opt = {
    .title = "OPT",
    .names = names,
    .configure = configure,
    .tensors =
        {
            .prefixes = {"model.decoder.", "decoder."},
            .embedding = "embed_tokens",
            .positions = "embed_positions",
            .project_in = "project_in",
            .project_out = "project_out",
            .final_norm = "final_layer_norm",
            .head = "lm_head",
            .layers = "layers.",
            .attention_norm = "self_attn_layer_norm",
            .mlp_norm = "final_layer_norm",
            .q = "self_attn.q_proj",
            .k = "self_attn.k_proj",
            .v = "self_attn.v_proj",
            .output = "self_attn.out_proj",
            .up = "fc1",
            .down = "fc2",
        },
};
