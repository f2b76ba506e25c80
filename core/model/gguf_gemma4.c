/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GGUF files of Gemma 4: sizes that differ between layers are lists in the metadata, the
 * part of a head that turns is a list of divisors, and a missing matrix of v says that
 * it is the one of k.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/model/gguf_gemma4.h"

const struct lls_gguf_pair lls_gguf_gemma4_tensors[] = {
    LLS_GGUF_LAYER_INPUTS,
    {"router.proj", "ffn_gate_inp"},
    {"pre_feedforward_layernorm_2", "pre_ffw_norm_2"},
    {"post_feedforward_layernorm_1", "post_ffw_norm_1"},
    {"post_feedforward_layernorm_2", "post_ffw_norm_2"},
    {NULL, NULL}};

/* The last two are compared with the head's size, and not keys of config.json. */
const struct lls_gguf_pair lls_gguf_gemma4_keys[] = {
    {"global_head_dim", "attention.key_length"},
    {"head_dim", "attention.key_length_swa"},
    {"num_kv_shared_layers", "attention.shared_kv_layers"},
    {"hidden_size_per_layer_input", "embedding_length_per_layer_input"},
    {"value_length", "attention.value_length_swa"},
    {"rotated", "rope.dimension_count_swa"},
    {NULL, NULL}};

static bool is_full(const json_t *config, size_t layer)
{
  const char *type =
      json_string_value(json_array_get(json_object_get(config, "layer_types"), layer));
  return type != NULL && strcmp(type, "full_attention") == 0;
}

/* Replaces a list by the number of the first layer that slides, or of the first that
 * does not. */
static void take_number(json_t *config, const char *key, bool full, const char *name)
{
  json_t *list = json_object_get(config, key);
  size_t i = 0;
  if (!json_is_array(list))
    return;
  while (i + 1 < json_array_size(list) && is_full(config, i) != full)
    i++;
  json_object_set(config, name, json_array_get(list, i));
}

static void describe_lists(json_t *config)
{
  const json_t *ffn = json_object_get(config, "intermediate_size");
  size_t n = json_array_size(ffn);
  if (n > 0) {
    json_int_t first = json_integer_value(json_array_get(ffn, 0));
    bool wide = json_integer_value(json_array_get(ffn, n - 1)) > first;
    json_object_set_new(config, "use_double_wide_mlp", json_boolean(wide));
    json_object_set_new(config, "intermediate_size", json_integer(first));
  }
  take_number(config, "num_key_value_heads", true, "num_global_key_value_heads");
  take_number(config, "num_key_value_heads", false, "num_key_value_heads");
}

static bool layer_has(const struct lls_gguf *g, size_t layer, const char *part)
{
  char name[64];
  snprintf(name, sizeof name, "blk.%zu.%s.weight", layer, part);
  return lls_gguf_tensor(g, name) != NULL;
}

static void describe_values(const struct lls_gguf *g, json_t *config)
{
  size_t i = 0, layers = json_array_size(json_object_get(config, "layer_types"));
  while (i < layers && !is_full(config, i))
    i++;
  if (layer_has(g, i, "attn_k") && !layer_has(g, i, "attn_v"))
    json_object_set_new(config, "attention_k_eq_v", json_true());
}

/* Returns the share of a head's pairs that turn: the others have huge divisors. */
static double turning_share(const struct lls_gguf *g)
{
  const struct lls_gguf_tensor *t = lls_gguf_tensor(g, "rope_freqs.weight");
  uint64_t turning = 0;
  if (t == NULL || t->n_dims != 1 || t->dtype != LLS_F32 || t->shape[0] == 0)
    return 1;
  for (uint64_t i = 0; i < t->shape[0]; i++) {
    float divisor;
    memcpy(&divisor, t->data + i * sizeof divisor, sizeof divisor);
    turning += divisor < 1e20f;
  }
  return fmin(((double)turning + 0.25) / (double)t->shape[0], 1);
}

static void describe_rotation(const struct lls_gguf *g, json_t *config)
{
  double theta = json_number_value(json_object_get(config, "rope_theta"));
  double local = json_number_value(json_object_get(config, "rope_local_base_freq"));
  static const char *const replaced[] = {"rope_scaling",          "rope_theta",
                                         "rope_local_base_freq",  "partial_rotary_factor",
                                         "query_pre_attn_scalar", NULL};
  for (size_t i = 0; replaced[i] != NULL; i++)
    json_object_del(config, replaced[i]);
  json_object_set_new(config, "rope_parameters",
                      json_pack("{s:{s:s, s:f, s:f}, s:{s:s, s:f}}", "full_attention",
                                "rope_type", "proportional", "partial_rotary_factor",
                                turning_share(g), "rope_theta", theta > 0 ? theta : 1e6,
                                "sliding_attention", "rope_type", "default", "rope_theta",
                                local > 0 ? local : 1e4));
}

static void describe_mixture(json_t *config)
{
  json_t *active = json_object_get(config, "num_experts_per_tok");
  bool enabled = json_object_get(config, "num_experts") != NULL;
  json_object_set_new(config, "enable_moe_block", json_boolean(enabled));
  if (active != NULL)
    json_object_set(config, "top_k_experts", active);
  json_object_del(config, "num_experts_per_tok");
  json_object_del(config, "num_local_experts");
  json_object_del(config, "norm_topk_prob");
}

void lls_gguf_describe_gemma4(const struct lls_gguf *g, json_t *config)
{
  const struct lls_gguf_tensor *inputs =
      lls_gguf_tensor(g, "per_layer_token_embd.weight");
  json_t *head_dim = json_object_get(config, "head_dim");
  describe_lists(config);
  describe_values(g, config);
  describe_rotation(g, config);
  describe_mixture(config);
  if (inputs != NULL)
    json_object_set_new(config, "vocab_size_per_layer_input",
                        json_integer((json_int_t)inputs->shape[0]));
  /* Where they differ they stay, and are refused as keys of unknown meaning. */
  if (json_equal(json_object_get(config, "value_length"), head_dim))
    json_object_del(config, "value_length");
  if (json_equal(json_object_get(config, "rotated"), head_dim))
    json_object_del(config, "rotated");
}
