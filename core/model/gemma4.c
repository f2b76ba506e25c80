/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text part of Gemma 4 (transformers' gemma4): Gemma 3's norms and layers, with
 *
 * - heads whose number and size differ between sliding layers and those that attend to
 *   everything; of the latter only a part of each head is rotated (rope_type
 *   proportional), and v may have k's matrix;
 * - values that are normed too, and scores without a scale;
 * - last layers that attend to the keys and values of the last layer before them of
 *   their own kind (num_kv_shared_layers), perhaps with an MLP of twice the width;
 * - in E2B and E4B, inputs of each layer from the token itself;
 * - in 26B-A4B, a mixture of experts beside each MLP.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/model/architecture.h"

/* ---- heads ------------------------------------------------------------------------ */

/* Reads what differs in the layer of that number, as transformers 5 writes it. */
static int read_layer(const struct lls_json *json, const char *number,
                      const json_t *values, struct lls_model_config *out,
                      struct lls_error *err)
{
  unsigned long at = strtoul(number, NULL, 10);
  const char *key;
  json_t *value;
  if (at >= out->layers || !json_is_object(values))
    return lls_fail(err, -EINVAL, "%s: \"per_layer_config\" has a layer \"%.16s\"",
                    json->file, number);
  json_object_foreach((json_t *)values, key, value)
  {
    json_int_t size = json_integer_value(value);
    bool good = json_is_integer(value) && size > 0 && size <= 1 << 12;
    if (good && strcmp(key, "head_dim") == 0)
      out->layer[at].head_dim = (uint32_t)size;
    else if (good && strcmp(key, "num_key_value_heads") == 0)
      out->layer[at].kv_heads = (uint32_t)size;
    else
      return lls_fail(
          err, -ENOTSUP,
          "%s: \"%.32s\" of layer %s in \"per_layer_config\" is not supported",
          json->file, key, number);
  }
  return 0;
}

static int read_layers(const struct lls_json *json, const json_t *layers,
                       struct lls_model_config *out, struct lls_error *err)
{
  const char *number;
  json_t *values;
  int rc = 0;
  json_object_foreach((json_t *)layers, number, values)
  {
    rc = rc == 0 ? read_layer(json, number, values, out, err) : rc;
  }
  return rc;
}

/* Older files have one size for all layers that attend to everything. */
static int read_global(const struct lls_json *json, bool v_is_k,
                       struct lls_model_config *out, struct lls_error *err)
{
  uint32_t head_dim = 0, kv_heads = 0;
  int rc = lls_json_size_or(json, "global_head_dim", 512, &head_dim, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "num_global_key_value_heads", 0, &kv_heads, err);
  for (uint32_t i = 0; i < out->layers; i++) {
    if (out->layer[i].window > 0)
      continue;
    out->layer[i].head_dim = head_dim;
    out->layer[i].kv_heads = v_is_k ? kv_heads : 0;
  }
  return rc;
}

/* Makes the heads of the last layer, which attends to everything, those of the model:
 * the others have sizes of their own. */
static void turn_round(struct lls_model_config *out)
{
  uint32_t last = out->layers - 1;
  uint32_t kv_heads = lls_layer_kv_heads(out, last),
           head_dim = lls_layer_head_dim(out, last);
  for (uint32_t i = 0; i < out->layers; i++) {
    out->layer[i].kv_heads = lls_layer_kv_heads(out, i);
    out->layer[i].head_dim = lls_layer_head_dim(out, i);
  }
  out->kv_heads = kv_heads;
  out->head_dim = head_dim;
}

static int configure_heads(const struct lls_json *json, struct lls_model_config *out,
                           struct lls_error *err)
{
  const json_t *layers = lls_json_get(json, "per_layer_config");
  bool v_is_k = false;
  int rc = lls_json_bool_or(json, "attention_k_eq_v", false, &v_is_k, err);
  if (rc == 0)
    rc = layers != NULL ? read_layers(json, layers, out, err)
                        : read_global(json, v_is_k, out, err);
  for (uint32_t i = 0; i < out->layers; i++)
    out->layer[i].v_is_k = v_is_k && out->layer[i].window == 0;
  turn_round(out);
  uint32_t head_dim = out->head_dim;
  if (rc == 0)
    rc = lls_config_rope(json, "rope_theta", 1.0, out, err);
  if (rc == 0)
    rc = lls_config_local_rope(json, "rope_local_base_freq", out, err);
  for (uint32_t i = 0; i < out->layers; i++) {
    bool slides = out->layer[i].window > 0;
    out->layer[i].rope = slides ? LLS_LAYER_ROPE_LOCAL : LLS_LAYER_ROPE;
    if (slides)
      head_dim = out->layer[i].head_dim;
  }
  out->local_rope.dims = head_dim;
  return rc;
}

/* ---- layers ----------------------------------------------------------------------- */

static int configure_windows(const struct lls_json *json, struct lls_model_config *out,
                             struct lls_error *err)
{
  uint32_t window = 0;
  bool listed = false;
  int rc = lls_json_size_or(json, "sliding_window", 512, &window, err);
  if (rc == 0)
    rc = lls_config_layer_types(json, out, window, &listed, err);
  for (uint32_t i = 0; rc == 0 && !listed && i < out->layers; i++)
    out->layer[i].window = (i + 1) % 6 != 0 ? window : 0;
  if (rc == 0)
    out->layer[out->layers - 1].window = 0;
  return rc;
}

/* Reads a size that may be 0. */
static int read_size(const struct lls_json *json, const char *key, uint32_t fallback,
                     uint32_t *out, struct lls_error *err)
{
  const json_t *value = lls_json_get(json, key);
  *out = 0;
  if (json_is_integer(value) && json_integer_value(value) == 0)
    return 0;
  if (value == NULL && fallback == 0)
    return 0;
  return lls_json_size_or(json, key, fallback, out, err);
}

int lls_config_shared_layers(const struct lls_json *json, struct lls_model_config *out,
                             struct lls_error *err)
{
  uint32_t shared = 0;
  int rc = read_size(json, "num_kv_shared_layers", 0, &shared, err);
  if (rc == 0 && shared >= out->layers)
    rc = lls_fail(err, -EINVAL, "%s: %u of %u layers cannot share keys and values",
                  json->file, shared, out->layers);
  for (uint32_t i = rc < 0 ? out->layers : out->layers - shared; i < out->layers; i++) {
    uint32_t keeper = out->layers - shared;
    while (keeper > 0 && out->layer[keeper - 1].window != out->layer[i].window)
      keeper--;
    if (keeper == 0)
      return lls_fail(err, -EINVAL,
                      "%s: layer %u shares keys and values with no layer before it",
                      json->file, i);
    out->layer[i].shares = true;
    out->layer[i].keeper = keeper - 1;
  }
  return rc;
}

/* Layers that share keys and values may have an MLP of twice the width. */
static int configure_widths(const struct lls_json *json, struct lls_model_config *out,
                            struct lls_error *err)
{
  bool twice = false;
  int rc = lls_json_bool_or(json, "use_double_wide_mlp", false, &twice, err);
  for (uint32_t i = 0; i < out->layers; i++)
    if (twice && out->layer[i].shares)
      out->layer[i].ffn = 2 * out->ffn;
  return rc;
}

int lls_config_layer_inputs(const struct lls_json *json, struct lls_model_config *out,
                            struct lls_error *err)
{
  int rc = read_size(json, "hidden_size_per_layer_input", 256, &out->layer_inputs, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "vocab_size_per_layer_input", 262144,
                          &out->layer_input_vocab, err);
  return rc;
}

static int configure_mixture(const struct lls_json *json, struct lls_model_config *out,
                             struct lls_error *err)
{
  struct lls_mixture_config *m = &out->mixture;
  bool enabled = false;
  int rc = lls_json_bool_or(json, "enable_moe_block", false, &enabled, err);
  if (rc < 0 || !enabled)
    return rc;
  rc = lls_json_size(json, "num_experts", &m->experts, err);
  if (rc == 0)
    rc = lls_json_size(json, "top_k_experts", &m->active, err);
  if (rc == 0)
    rc = lls_json_size(json, "moe_intermediate_size", &m->ffn, err);
  m->normalise = m->beside = true;
  for (uint32_t i = 0; i < out->layers; i++)
    out->layer[i].mixture = true;
  return rc;
}

int lls_config_gemma4_graph(const struct lls_json *json, double cap,
                            struct lls_model_config *out, struct lls_error *err)
{
  int rc = lls_config_llama(json, out, err);
  if (rc == 0)
    rc = lls_config_activation(json, "hidden_activation", "gelu_pytorch_tanh",
                               &out->activation, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "tie_word_embeddings", true, &out->tied_embeddings, err);
  if (rc == 0)
    rc = lls_json_real_or(json, "final_logit_softcapping", cap, &cap, err);
  if (rc == 0 && out->layers > LLS_MAX_LAYERS)
    rc = lls_fail(err, -EINVAL, "%s: no model has %u layers", json->file, out->layers);
  out->norm_place = LLS_NORM_BOTH;
  out->qk_norm = LLS_QK_NORM_HEAD;
  out->v_norm = true;
  out->embedding_scale = sqrtf((float)out->hidden);
  out->attention_scale = 1;
  out->logit_cap = (float)cap;
  return rc;
}

static int configure_text(const struct lls_json *json, struct lls_model_config *out,
                          struct lls_error *err)
{
  const char *both_ways = "vision";
  int rc = lls_config_gemma4_graph(json, 0, out, err);
  if (rc == 0)
    rc = lls_json_string_or(json, "use_bidirectional_attention", "vision", &both_ways,
                            err);
  if (rc == 0 && strcmp(both_ways, "vision") != 0)
    rc = lls_fail(err, -ENOTSUP,
                  "%s: \"use_bidirectional_attention\" is \"%.32s\": only causal "
                  "attention of text is supported",
                  json->file, both_ways);
  out->layer_scalars = true;
  if (rc == 0)
    rc = configure_windows(json, out, err);
  if (rc == 0)
    rc = configure_heads(json, out, err);
  if (rc == 0)
    rc = lls_config_shared_layers(json, out, err);
  if (rc == 0)
    rc = configure_widths(json, out, err);
  if (rc == 0)
    rc = lls_config_layer_inputs(json, out, err);
  return rc < 0 ? rc : configure_mixture(json, out, err);
}

/* Google's folders omit these keys in "text_config"; the values are transformers'
 * defaults. */
static json_t *text_defaults(void)
{
  return json_pack("{s:i, s:i, s:i, s:i, s:i, s:f}", "vocab_size", 262144,
                   "num_attention_heads", 8, "num_key_value_heads", 4, "head_dim", 256,
                   "max_position_embeddings", 131072, "rms_norm_eps", 1e-6);
}

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  return lls_config_text_part(json, text_defaults(), out, configure_text, err);
}

static const char *const names[] = {"Gemma4ForConditionalGeneration", "Gemma4ForCausalLM",
                                    NULL};

const struct lls_architecture lls_gemma4 = {
    .title = "Gemma 4 (text)",
    .names = names,
    .configure = configure,
    .tensors =
        {
            LLS_LLAMA_NAMES,
            LLS_TEXT_PREFIXES,
            LLS_GEMMA_NORMS,
            LLS_LLAMA_QKV,
            LLS_LLAMA_MLP,
            LLS_LLAMA_QK_NORMS,
            LLS_LAYER_INPUTS,
            .layer_scalar = "layer_scalar",
            .router = "router.proj",
            .router_norm = "router.scale",
            .expert_scale = "router.per_expert_scale",
            .experts = "experts.",
            .expert_gate = "gate_proj",
            .expert_up = "up_proj",
            .expert_down = "down_proj",
            .expert_stacked_up = "gate_up_proj",
            .mixture_norm = "pre_feedforward_layernorm_2",
            .mixture_output_norm = "post_feedforward_layernorm_2",
            .beside_output_norm = "post_feedforward_layernorm_1",
        },
};
