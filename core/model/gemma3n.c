/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text part of Gemma 3n (transformers' gemma3n): Gemma 3's norms and windows, values
 * that are normed, scores without a scale, last layers that attend to the keys and values
 * of earlier ones, inputs of each layer from the token, and
 *
 * - AltUp: four hidden states of a token, of which layers compute with the first one;
 * - LAUREL: a low-rank product beside attention;
 * - in the first layers, an MLP of which only gates far above their mean stay open;
 * - an MLP whose width may differ between layers.
 */
#include <errno.h>
#include <math.h>

#include "core/model/architecture.h"

/* ---- MLPs ------------------------------------------------------------------------- */

/* Reads the widths if they are a list, and leaves the largest one in its place. */
static int configure_widths(const struct lls_json *json, struct lls_model_config *out,
                            struct lls_error *err)
{
  const json_t *list = lls_json_get(json, "intermediate_size");
  size_t n = json_array_size(list);
  json_int_t most = 0;
  if (!json_is_array(list))
    return 0;
  for (size_t i = 0; i < n && i < LLS_MAX_LAYERS; i++) {
    json_int_t width = json_integer_value(json_array_get(list, i));
    if (width <= 0 || width > 1 << 24)
      return lls_fail(err, -EINVAL, "%s: \"intermediate_size\" of layer %zu is no width",
                      json->file, i);
    out->layer[i].ffn = (uint32_t)width;
    most = width > most ? width : most;
  }
  if (n != (size_t)json_integer_value(lls_json_get(json, "num_hidden_layers")))
    return lls_fail(err, -EINVAL,
                    "%s: \"intermediate_size\" has %zu widths, which are not as many as "
                    "layers",
                    json->file, n);
  return json_object_set_new(json->root, "intermediate_size", json_integer(most)) == 0
             ? 0
             : lls_fail(err, -ENOMEM, "out of memory");
}

/* Returns the number below which a share of a normal distribution lies. */
static double quantile(double share)
{
  double low = -40, high = 40;
  for (int i = 0; i < 100; i++) {
    double middle = (low + high) / 2;
    *(0.5 * erfc(-middle * M_SQRT1_2) < share ? &low : &high) = middle;
  }
  return low;
}

static int configure_cuts(const struct lls_json *json, struct lls_model_config *out,
                          struct lls_error *err)
{
  const json_t *pattern = lls_json_get(json, "activation_sparsity_pattern");
  if (json_is_array(pattern) && json_array_size(pattern) != out->layers)
    return lls_fail(err, -EINVAL,
                    "%s: \"activation_sparsity_pattern\" should be a list of %u numbers",
                    json->file, out->layers);
  for (uint32_t i = 0; i < out->layers; i++) {
    double share = out->layers > 10 && i < 10 ? 0.95 : 0;
    const json_t *item = json_is_array(pattern) ? json_array_get(pattern, i) : pattern;
    if (item != NULL)
      share = json_is_number(item) ? json_number_value(item) : -1;
    if (!(share >= 0 && share < 1))
      return lls_fail(err, -EINVAL,
                      "%s: \"activation_sparsity_pattern\" of layer %u should be a share "
                      "of less than 1",
                      json->file, i);
    out->layer[i].cuts_gates = share > 0;
    out->layer[i].gate_cut = share > 0 ? (float)quantile(share) : 0;
  }
  return 0;
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
  if (rc == 0)
    rc = lls_config_local_rope(json, "rope_local_base_freq", out, err);
  for (uint32_t i = 0; rc == 0 && i < out->layers; i++) {
    if (!listed)
      out->layer[i].window = (i + 1) % 5 != 0 ? window : 0;
    out->layer[i].rope = out->layer[i].window > 0 ? LLS_LAYER_ROPE_LOCAL : LLS_LAYER_ROPE;
  }
  return rc;
}

static int configure_streams(const struct lls_json *json, struct lls_model_config *out,
                             struct lls_error *err)
{
  static const char *const training[] = {"altup_coef_clip", NULL};
  const json_t *active = lls_json_get(json, "altup_active_idx");
  lls_config_pass_over(json, training);
  if (json_is_integer(active) && json_integer_value(active) != 0)
    return lls_fail(err, -ENOTSUP, "%s: \"altup_active_idx\" is %d: only 0 is supported",
                    json->file, (int)json_integer_value(active));
  int rc = lls_json_size_or(json, "altup_num_inputs", 4, &out->streams.n, err);
  if (rc == 0 && (out->streams.n < 2 || out->streams.n > LLS_MAX_STREAMS))
    rc = lls_fail(err, -ENOTSUP, "%s: \"altup_num_inputs\" is %u: 2 to %d are supported",
                  json->file, out->streams.n, LLS_MAX_STREAMS);
  if (rc == 0)
    rc = lls_json_bool_or(json, "altup_correct_scale", true, &out->streams.scaled, err);
  return rc < 0 ? rc : lls_json_size_or(json, "laurel_rank", 64, &out->laurel, err);
}

static int configure_text(const struct lls_json *json, struct lls_model_config *out,
                          struct lls_error *err)
{
  int rc = configure_widths(json, out, err);
  if (rc == 0)
    rc = lls_config_gemma4_graph(json, 30, out, err);
  if (rc == 0)
    rc = configure_windows(json, out, err);
  if (rc == 0)
    rc = lls_config_shared_layers(json, out, err);
  if (rc == 0)
    rc = lls_config_layer_inputs(json, out, err);
  if (rc == 0)
    rc = configure_streams(json, out, err);
  return rc < 0 ? rc : configure_cuts(json, out, err);
}

/* Keys that Google's folders may omit in "text_config"; the values are transformers'
 * defaults. */
static json_t *text_defaults(void)
{
  return json_pack("{s:i, s:i, s:i, s:i, s:i, s:f}", "vocab_size", 262400,
                   "num_attention_heads", 8, "num_key_value_heads", 2, "head_dim", 256,
                   "max_position_embeddings", 32768, "rms_norm_eps", 1e-6);
}

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  return lls_config_text_part(json, text_defaults(), out, configure_text, err);
}

static const char *const names[] = {"Gemma3nForConditionalGeneration",
                                    "Gemma3nForCausalLM", NULL};

const struct lls_architecture lls_gemma3n = {
    .title = "Gemma 3n (text)",
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
            .stream_in = "altup_projections.",
            .stream_out = "altup_unembed_projections.",
            .stream_norm = "altup.router_norm",
            .stream_router = "altup.modality_router",
            .stream_predict = "altup.prediction_coefs",
            .stream_correct = "altup.correction_coefs",
            .stream_scale = "altup.correct_output_scale",
            .laurel_down = "laurel.linear_left",
            .laurel_up = "laurel.linear_right",
            .laurel_norm = "laurel.post_laurel_norm",
        },
};
