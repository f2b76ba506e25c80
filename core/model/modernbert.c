/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ModernBERT (arXiv 2412.13663) and its embedders (gte-modernbert, nomic's
 * modernbert-embed): norms before the branches, where the first layer reads the
 * embedding's norm; rotated positions and a gated MLP without biases; two of three layers
 * see 64 tokens before and after theirs, and rotate with another theta. Its
 * cross-encoders (gte-reranker-modernbert) read the first row or the mean of all.
 */
#include <errno.h>
#include <string.h>

#include "core/model/architecture.h"

/* Reads the kinds of layers. "local_attention" counts the tokens on both sides. */
static int configure_layers(const struct lls_json *json, struct lls_model_config *out,
                            struct lls_error *err)
{
  uint32_t both_sides = 128, every = 3;
  bool listed = false;
  int rc = lls_json_size_or(json, "local_attention", both_sides, &both_sides, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "global_attn_every_n_layers", every, &every, err);
  uint32_t window = both_sides / 2 + 1;
  if (rc == 0)
    rc = lls_config_layer_types(json, out, window, &listed, err);
  for (uint32_t i = 0; rc == 0 && i < out->layers && i < LLS_MAX_LAYERS; i++) {
    if (!listed)
      out->layer[i].window = i % every != 0 ? window : 0;
    out->layer[i].rope = out->layer[i].window > 0 ? LLS_LAYER_ROPE_LOCAL : LLS_LAYER_ROPE;
  }
  out->layer[0].plain_input = true;
  return rc;
}

static const char *const off[] = {"attention_bias", "mlp_bias", "norm_bias", NULL};

/* Keys about training, a head, or another program. */
static const char *const unused[] = {"initializer_cutoff_factor",
                                     "classifier_pooling",
                                     "classifier_bias",
                                     "classifier_activation",
                                     "decoder_bias",
                                     "deterministic_flash_attn",
                                     "sparse_prediction",
                                     "sparse_pred_ignore_index",
                                     "reference_compile",
                                     "repad_logits_with_grad",
                                     "position_embedding_type",
                                     "layer_norm_eps",
                                     NULL};

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  int rc = lls_config_sizes(json, out, "intermediate_size", err);
  if (rc == 0)
    rc = lls_config_layer_norm(json, "norm_eps", out, err);
  if (rc == 0)
    rc = lls_config_activation(json, "hidden_activation", "gelu", &out->activation, err);
  if (rc == 0)
    rc = lls_config_all_off(json, off, err);
  if (rc == 0)
    rc = lls_config_rope(json, "global_rope_theta", 1.0, out, err);
  if (rc == 0)
    rc = lls_config_local_rope(json, "local_rope_theta", out, err);
  out->norm_unbiased = out->gated = true;
  lls_config_pass_over(json, unused);
  return rc < 0 ? rc : configure_layers(json, out, err);
}

static int configure_classifier(const struct lls_json *json, struct lls_model_config *out,
                                struct lls_error *err)
{
  struct lls_classifier_config *head = &out->classifier;
  const char *pooling = "cls";
  bool bias = false;
  int rc = configure(json, out, err);
  if (rc == 0)
    rc = lls_config_labels(json, out, err);
  if (rc == 0)
    rc = lls_config_activation(json, "classifier_activation", "gelu", &head->activation,
                               err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "classifier_bias", false, &bias, err);
  if (rc == 0)
    rc = lls_json_string_or(json, "classifier_pooling", pooling, &pooling, err);
  head->unbiased = !bias;
  head->normed = true;
  head->mean = strcmp(pooling, "mean") == 0;
  if (rc == 0 && !head->mean && strcmp(pooling, "cls") != 0)
    rc = lls_fail(err, -ENOTSUP,
                  "%s: \"classifier_pooling\" is \"%.32s\"; cls and mean are supported",
                  json->file, pooling);
  if (rc == 0 && head->mean && out->heads * out->head_dim != out->hidden)
    rc = lls_fail(err, -ENOTSUP,
                  "%s: a mean of rows that are wider than the heads is not supported",
                  json->file);
  return rc;
}

#define MODERN_NAMES                                                                     \
  .embedding = "embeddings.tok_embeddings", .embedding_norm = "embeddings.norm",         \
  .final_norm = "final_norm", .layers = "layers.", .attention_norm = "attn_norm",        \
  .mlp_norm = "mlp_norm", .stacked_qkv = "attn.Wqkv", .output = "attn.Wo",               \
  .stacked_up = "mlp.Wi", .down = "mlp.Wo"

static const char *const names[] = {"ModernBertModel", "ModernBertForMaskedLM", NULL};
static const char *const classifier_names[] = {"ModernBertForSequenceClassification",
                                               NULL};

const struct lls_architecture lls_modernbert = {
    .title = "ModernBERT",
    .names = names,
    .encoder = true,
    .configure = configure,
    .tensors = {.prefixes = {"", "model."}, MODERN_NAMES},
};

const struct lls_architecture lls_modernbert_classifier = {
    .title = "ModernBERT's cross-encoders",
    .names = classifier_names,
    .encoder = true,
    .configure = configure_classifier,
    .tensors = {.prefixes = {"model.", ""},
                MODERN_NAMES,
                .pooler_in_head = "head.dense",
                .pooler_norm = "head.norm",
                .head = "classifier"},
};
