/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LFM2 (Liquid AI, arXiv 2511.23404): most layers have a short convolution between two
 * gates in attention's place. Queries and keys of the others are normed by heads.
 */
#include "core/model/architecture.h"

#include <errno.h>
#include <math.h>

/* Older folders list the layers that attend; newer ones what each layer is. */
static int read_layers(const struct lls_json *json, struct lls_model_config *out,
                       struct lls_error *err)
{
  bool folds[LLS_MAX_LAYERS], found = false;
  const json_t *attending = lls_json_get(json, "full_attn_idxs");
  int rc = lls_config_two_kinds(json, out->layers, "full_attention", "conv", folds,
                                &found, err);
  for (uint32_t i = 0; rc == 0 && i < out->layers && i < LLS_MAX_LAYERS; i++) {
    bool attends = found ? !folds[i] : attending == NULL;
    for (size_t k = 0; !found && k < json_array_size(attending); k++)
      attends |= json_integer_value(json_array_get(attending, k)) == i;
    out->layer[i].mix = attends ? LLS_MIX_ATTENTION : LLS_MIX_SHORT_CONV;
  }
  return rc;
}

/* The width in the file is that of an MLP of two matrices, of which one of three has two
 * thirds, rounded up. */
static int adjust_ffn(const struct lls_json *json, struct lls_model_config *out,
                      struct lls_error *err)
{
  bool adjusted = true;
  uint32_t multiple = 256;
  double factor = 1;
  int rc = lls_json_bool_or(json, "block_auto_adjust_ff_dim", true, &adjusted, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "block_ff_dim", out->ffn, &out->ffn, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "block_multiple_of", multiple, &multiple, err);
  if (rc == 0)
    rc = lls_json_real_or(json, "block_ffn_dim_multiplier", factor, &factor, err);
  if (rc < 0 || !adjusted)
    return rc;
  if (!(factor > 0 && factor < 1024) || out->ffn > 1u << 24)
    return lls_fail(err, -EINVAL, "%s: the MLP's width is out of range", json->file);
  uint32_t ffn = (uint32_t)(factor * (double)(uint32_t)(2.0 * out->ffn / 3));
  out->ffn = (ffn + multiple - 1) / multiple * multiple;
  return 0;
}

/* Keys that repeat the hidden size, or a default. */
static int check_repeated(const struct lls_json *json, const struct lls_model_config *c,
                          struct lls_error *err)
{
  static const char *const keys[] = {"block_dim", "conv_dim", "conv_dim_out"};
  uint32_t size = c->hidden;
  bool gated = true;
  int rc = lls_json_bool_or(json, "block_use_swiglu", true, &gated, err);
  for (size_t i = 0; rc == 0 && i < sizeof keys / sizeof keys[0]; i++) {
    rc = lls_json_size_or(json, keys[i], c->hidden, &size, err);
    if (rc == 0 && size != c->hidden)
      rc = lls_fail(err, -ENOTSUP, "%s: \"%s\" is %u where the hidden size is %u",
                    json->file, keys[i], size, c->hidden);
  }
  if (rc == 0 && !gated)
    rc = lls_fail(err, -ENOTSUP, "%s: \"block_use_swiglu\" is false", json->file);
  return rc;
}

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  struct lls_recurrent_config *r = &out->recurrent;
  bool tied = true;
  int rc = lls_config_llama(json, out, err);
  double epsilon =
      lls_json_get(json, "rms_norm_eps") != NULL ? (double)out->norm_epsilon : 1e-5;
  if (rc == 0)
    rc = lls_json_real_or(json, "norm_eps", epsilon, &epsilon, err);
  if (rc == 0)
    rc = lls_json_real_or(json, "block_norm_eps", epsilon, &epsilon, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "tie_embedding", true, &tied, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "tie_word_embeddings", tied, &out->tied_embeddings, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "conv_L_cache", 3, &r->conv_width, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "conv_bias", false, &r->conv_bias, err);
  if (rc == 0)
    rc = adjust_ffn(json, out, err);
  if (rc == 0)
    rc = check_repeated(json, out, err);
  out->norm_epsilon = (float)epsilon;
  out->qk_norm = LLS_QK_NORM_HEAD;
  r->channels = out->hidden;
  return rc < 0 ? rc : read_layers(json, out, err);
}

static const char *const names[] = {"Lfm2ForCausalLM", "LFM2ForCausalLM", NULL};

const struct lls_architecture lls_lfm2 = {
    .title = "LFM2",
    .names = names,
    .configure = configure,
    .tensors =
        {
            .prefixes = {"model.", ""},
            .embedding = "embed_tokens",
            .final_norm = "embedding_norm",
            .head = "lm_head",
            .layers = "layers.",
            LLS_LLAMA_QKV,
            .output = "self_attn.out_proj",
            .q_norm = "self_attn.q_layernorm",
            .k_norm = "self_attn.k_layernorm",
            .attention_norm = "operator_norm",
            .mlp_norm = "ffn_norm",
            .gate = "feed_forward.w1",
            .up = "feed_forward.w3",
            .down = "feed_forward.w2",
            .recurrent = {.in = "conv.in_proj",
                          .conv = "conv.conv",
                          .output = "conv.out_proj"},
        },
};
