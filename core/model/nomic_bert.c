/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nomic-embed-text (arXiv 2402.01613): BERT whose positions rotate, with a gated MLP and
 * products without biases. Its folders have the keys of GPT-2, or those of BERT since
 * transformers reads them.
 */
#include "core/model/architecture.h"

#include <errno.h>
#include <string.h>

/* Variations that the folders' own program knows and no published embedder has. */
static const char *const off[] = {"prenorm",
                                  "parallel_block",
                                  "parallel_block_tied_norm",
                                  "use_rms_norm",
                                  "causal",
                                  "rotary_emb_interleaved",
                                  "rotary_emb_scale_base",
                                  "qkv_proj_bias",
                                  "mlp_fc1_bias",
                                  "mlp_fc2_bias",
                                  "is_decoder",
                                  "scale_attn_by_inverse_layer_idx",
                                  NULL};

/* Keys about training or another program. */
static const char *const unused[] = {"dense_seq_output",
                                     "fused_bias_fc",
                                     "fused_dropout_add_ln",
                                     "pad_vocab_size_multiple",
                                     "reorder_and_upcast_attn",
                                     "scale_attn_weights",
                                     "summary_activation",
                                     "summary_proj_to_labels",
                                     "summary_type",
                                     "summary_use_proj",
                                     "use_xentropy",
                                     NULL};

static int read_activation(const struct lls_json *json, struct lls_model_config *out,
                           struct lls_error *err)
{
  const char *name;
  int rc = lls_json_string_or(json, "activation_function", "", &name, err);
  out->activation = LLS_ACT_SILU;
  if (rc < 0 || strcmp(name, "swiglu") == 0)
    return rc;
  return *name == '\0'
             ? lls_config_activation(json, "hidden_act", "silu", &out->activation, err)
             : lls_fail(err, -ENOTSUP,
                        "%s: \"activation_function\" is \"%.32s\"; swiglu is "
                        "supported",
                        json->file, name);
}

/* With a scaling factor, texts that are longer than those of the training rotate by
 * angles that depend on their length: they are cut. */
static int limit_context(const struct lls_json *json, struct lls_model_config *out,
                         struct lls_error *err)
{
  double factor = 0;
  uint32_t trained = out->max_context;
  int rc = lls_json_real_or(json, "rotary_scaling_factor", 0, &factor, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "max_trained_positions", trained, &trained, err);
  if (rc == 0 && factor > 0 && trained < out->max_context)
    out->max_context = trained;
  return rc;
}

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  bool older = lls_json_get(json, "n_embd") != NULL;
  double share = 1;
  int rc = lls_config_sizes(json, out, older ? "n_inner" : "intermediate_size", err);
  if (rc == 0)
    rc = lls_config_layer_norm(json, older ? "layer_norm_epsilon" : "layer_norm_eps", out,
                               err);
  if (rc == 0)
    rc = read_activation(json, out, err);
  if (rc == 0)
    rc = lls_json_real_or(json, "rotary_emb_fraction", share, &share, err);
  if (rc == 0)
    rc = lls_config_rope(json, older ? "rotary_emb_base" : "rope_theta", share, out, err);
  if (rc == 0)
    rc = limit_context(json, out, err);
  if (rc == 0)
    rc = lls_config_all_off(json, off, err);
  uint32_t types = 2;
  if (rc == 0)
    rc = lls_json_size_or(json, "type_vocab_size", types, &types, err);
  lls_config_pass_over(json, unused);
  out->norm_place = LLS_NORM_SUM;
  out->final_norm = false;
  out->gated = true;
  out->token_types = types;
  return rc;
}

static const char *const names[] = {"NomicBertModel", NULL};

const struct lls_architecture lls_nomic_bert = {
    .title = "nomic-embed-text",
    .names = names,
    .encoder = true,
    .configure = configure,
    .tensors =
        {
            .prefixes = {"", "bert."},
            .embedding = "embeddings.word_embeddings",
            .types = "embeddings.token_type_embeddings",
            .embedding_norm = "emb_ln",
            .layers = "encoder.layers.",
            .attention_norm = "norm1",
            .mlp_norm = "norm2",
            .stacked_qkv = "attn.Wqkv",
            .output = "attn.out_proj",
            .gate = "mlp.fc12",
            .up = "mlp.fc11",
            .down = "mlp.fc2",
        },
};
