/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MiMo-V2-Flash: five of six layers slide, with twice as many heads of keys and values,
 * another theta, and attention sinks; a third of each head is rotated; heads of v are
 * narrower than those of q and k, and scaled; mixtures with DeepSeek V3's router and no
 * shared expert. Published folders and transformers have different keys.
 */
#include <errno.h>
#include <math.h>

#include "core/model/architecture.h"

/* Refuses a file whose sliding layers have another size than the others. */
static int expect_same(const struct lls_json *json, const char *key, uint32_t size,
                       struct lls_error *err)
{
  uint32_t other = size;
  int rc = lls_json_size_or(json, key, size, &other, err);
  return rc < 0 || other == size
             ? rc
             : lls_fail(err, -ENOTSUP,
                        "%s: \"%s\" is %u: that of the other layers, %u, is supported",
                        json->file, key, other, size);
}

/* Returns the i-th number of a list, or the fallback if there is no list. */
static bool listed(const json_t *list, uint32_t i, bool fallback)
{
  return list == NULL ? fallback : json_integer_value(json_array_get(list, i)) != 0;
}

/* Reads windows. A window counts the tokens before a row in published folders, and the
 * row as well in transformers. */
static int configure_windows(const struct lls_json *json, struct lls_model_config *out,
                             struct lls_error *err)
{
  const json_t *pattern = lls_json_get(json, "hybrid_layer_pattern");
  uint32_t window = 129, before = 0;
  bool found = false;
  int rc = lls_json_size_or(json, "sliding_window", window, &window, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "sliding_window_size", window - 1, &before, err);
  window = before + 1;
  if (rc == 0)
    rc = lls_config_layer_types(json, out, window, &found, err);
  if (rc == 0 && pattern != NULL && json_array_size(pattern) != out->layers)
    rc = lls_fail(err, -EINVAL,
                  "%s: \"hybrid_layer_pattern\" should be a list of %u numbers",
                  json->file, out->layers);
  for (uint32_t i = 0; rc == 0 && !found && i < out->layers; i++)
    out->layer[i].window = listed(pattern, i, i > 0 && (i + 1) % 6 != 0) ? window : 0;
  return rc;
}

static int configure_heads(const struct lls_json *json, struct lls_model_config *out,
                           struct lls_error *err)
{
  uint32_t kv_heads = 0;
  bool sinks = false, full_sinks = false;
  int rc = lls_json_size_or(json, "swa_num_key_value_heads", 2 * out->kv_heads, &kv_heads,
                            err);
  if (rc == 0)
    rc = lls_json_size_or(json, "v_head_dim", 128, &out->value_dim, err);
  if (rc == 0)
    rc = expect_same(json, "swa_num_attention_heads", out->heads, err);
  if (rc == 0)
    rc = expect_same(json, "swa_head_dim", out->head_dim, err);
  if (rc == 0)
    rc = expect_same(json, "swa_v_head_dim", out->value_dim, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "add_swa_attention_sink_bias", true, &sinks, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "add_full_attention_sink_bias", false, &full_sinks, err);
  if (rc == 0 && (out->value_dim > out->head_dim || out->qkv_bias))
    rc = lls_fail(err, -ENOTSUP,
                  "%s: heads of v that are wider than those of q, and biases, are not "
                  "supported",
                  json->file);
  out->attention_sinks = sinks || full_sinks;
  for (uint32_t i = 0; rc == 0 && i < out->layers; i++) {
    bool slides = out->layer[i].window > 0;
    out->layer[i].kv_heads = slides ? kv_heads : 0;
    out->layer[i].rope = slides ? LLS_LAYER_ROPE_LOCAL : LLS_LAYER_ROPE;
    out->layer[i].no_sinks = !(slides ? sinks : full_sinks);
  }
  return rc;
}

static int configure_mixture(const struct lls_json *json, struct lls_model_config *out,
                             struct lls_error *err)
{
  const json_t *mixtures = lls_json_get(json, "moe_layer_freq");
  const json_t *shared = lls_json_get(json, "n_shared_experts");
  int rc = lls_config_logistic_mixture(json, out, err);
  if (rc == 0 && json_integer_value(shared) != 0)
    rc = lls_fail(err, -ENOTSUP, "%s: \"n_shared_experts\" should be 0 or null",
                  json->file);
  out->mixture.shared = 0;
  for (uint32_t i = 0; rc == 0 && i < out->layers; i++)
    out->layer[i].mixture = listed(mixtures, i, out->layer[i].mixture);
  return rc;
}

/* Keys of other programs. */
static const char *const unused[] = {"attention_chunk_size", "hybrid_block_size",
                                     "scoring_func", "topk_method", NULL};

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  double scale = 0.707, epsilon = 1e-5;
  int rc = lls_config_llama(json, out, err);
  if (rc == 0 && out->layers > LLS_MAX_LAYERS)
    rc = lls_fail(err, -EINVAL, "%s: no model has %u layers", json->file, out->layers);
  if (rc == 0)
    rc = lls_json_real_or(json, "rms_norm_eps", epsilon, &epsilon, err);
  if (rc == 0)
    rc = lls_json_real_or(json, "layernorm_epsilon", epsilon, &epsilon, err);
  if (rc == 0)
    rc = lls_config_rope(json, "rope_theta", 0.334, out, err);
  if (rc == 0)
    rc = lls_config_local_rope(json, "swa_rope_theta", out, err);
  if (rc == 0)
    rc = lls_json_real_or(json, "attention_value_scale", scale, &scale, err);
  if (rc < 0)
    return rc;
  if (json_is_null(json_object_get(json->root, "attention_value_scale")))
    scale = 1;
  out->norm_epsilon = (float)epsilon;
  out->value_scale = (float)scale;
  out->output_bias = false;
  lls_config_pass_over(json, unused);
  rc = configure_windows(json, out, err);
  if (rc == 0)
    rc = configure_heads(json, out, err);
  return rc < 0 ? rc : configure_mixture(json, out, err);
}

static const char *const names[] = {"MiMoV2FlashForCausalLM", NULL};

const struct lls_architecture lls_mimo_v2 = {
    .title = "MiMo-V2-Flash",
    .names = names,
    .configure = configure,
    .tensors = {LLS_LLAMA_TENSORS, LLS_LLAMA_NORMS, LLS_LLAMA_QKV, LLS_LLAMA_MLP,
                .sinks = "self_attn.attention_sink_bias", .router = "mlp.gate",
                .router_bias = "mlp.gate.e_score_correction_bias",
                .experts = "mlp.experts.", .expert_gate = "gate_proj",
                .expert_up = "up_proj", .expert_down = "down_proj"},
};
