/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MPT (MosaicML): LayerNorm without biases, positions by ALiBi, query, key and value
 * stacked, a plain MLP; no biases at all.
 */
#include "core/model/architecture.h"

#include <errno.h>
#include <string.h>

/* Reads "attn_config", of which one kind is supported. */
static int read_attention(const struct lls_json *json, struct lls_model_config *out,
                          struct lls_error *err)
{
  struct lls_json a = lls_json_inside(json, lls_json_get(json, "attn_config"));
  bool alibi = true, norms = false, prefix = false;
  double most = 8, clip = 0, scale = 0;
  const char *type = "multihead_attention";
  int rc = lls_json_bool_or(&a, "alibi", true, &alibi, err);
  if (rc == 0)
    rc = lls_json_real_or(&a, "alibi_bias_max", 8, &most, err);
  if (rc == 0)
    rc = lls_json_bool_or(&a, "qk_ln", false, &norms, err);
  if (rc == 0)
    rc = lls_json_bool_or(&a, "prefix_lm", false, &prefix, err);
  if (rc == 0)
    rc = lls_json_real_or(&a, "clip_qkv", 0, &clip, err);
  if (rc == 0)
    rc = lls_json_real_or(&a, "softmax_scale", 0, &scale, err);
  if (rc == 0)
    rc = lls_json_string_or(&a, "attn_type", type, &type, err);
  if (rc < 0)
    return rc;
  if (!alibi || norms || prefix || clip != 0 || (out->heads & (out->heads - 1)) != 0 ||
      strcmp(type, "multihead_attention") != 0)
    return lls_fail(
        err, -ENOTSUP,
        "%s: of MPT's kinds those with \"alibi\", a power of two of heads, and "
        "without \"qk_ln\", \"clip_qkv\" and \"prefix_lm\" are supported",
        json->file);
  out->alibi = (float)most;
  out->attention_scale = (float)scale;
  return 0;
}

/* Marks keys as read that have no effect, or only during training. */
static void pass_over(const struct lls_json *json)
{
  static const char *const keys[] = {"learned_pos_emb",    "init_device", "norm_type",
                                     "embedding_fraction", "init_config", "verbose"};
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
    lls_json_get(json, keys[i]);
}

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  uint32_t ratio = 4;
  bool plain = true;
  int rc = lls_config_sizes(json, out, NULL, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "expansion_ratio", ratio, &ratio, err);
  if (rc == 0)
    rc = lls_config_layer_norm(json, "layer_norm_epsilon", out, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "tie_word_embeddings", true, &out->tied_embeddings, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "no_bias", true, &plain, err);
  if (rc == 0 && !plain)
    rc = lls_fail(err, -ENOTSUP, "%s: \"no_bias\" is false; true is supported",
                  json->file);
  if (rc < 0)
    return rc;
  out->ffn = ratio * out->hidden;
  out->activation = LLS_ACT_GELU;
  out->norm_unbiased = true;
  pass_over(json);
  return read_attention(json, out, err);
}

static const char *const names[] = {"MptForCausalLM", "MPTForCausalLM", NULL};

const struct lls_architecture lls_mpt = {
    .title = "MPT",
    .names = names,
    .configure = configure,
    .tensors =
        {
            .prefixes = {"transformer.", ""},
            .embedding = "wte",
            .final_norm = "norm_f",
            .head = "lm_head",
            .layers = "blocks.",
            .attention_norm = "norm_1",
            .mlp_norm = "norm_2",
            .stacked_qkv = "attn.Wqkv",
            .output = "attn.out_proj",
            .up = "ffn.up_proj",
            .down = "ffn.down_proj",
        },
};
