/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Llama 4 (Scout, Maverick), alone or as the text part of a model that reads images.
 * Most layers rotate positions and attend within chunks of tokens; the others do
 * neither, and their queries grow with their position. Queries and keys of the first are
 * normed without weights. Layers may alternate between an MLP and a mixture, whose
 * experts' inputs are multiplied by the router's weights, and which has a shared expert.
 */
#include "core/model/architecture.h"

#include <errno.h>

/* True if the list, which may be missing or empty, holds the number. */
static bool listed(const json_t *list, uint32_t number)
{
  for (size_t i = 0; i < json_array_size(list); i++)
    if (json_integer_value(json_array_get(list, i)) == number)
      return true;
  return false;
}

/* Reads which layers are mixtures: those of a list, or every n-th. */
static int read_mixture(const struct lls_json *json, struct lls_model_config *out,
                        struct lls_error *err)
{
  struct lls_mixture_config *m = &out->mixture;
  uint32_t every = 1;
  const json_t *layers = lls_json_get(json, "moe_layers");
  m->ffn = m->shared = out->ffn;
  m->logistic = m->weighs_input = true;
  int rc = lls_json_size(json, "num_local_experts", &m->experts, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "num_experts_per_tok", 1, &m->active, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "intermediate_size_mlp", 16384, &out->ffn, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "interleave_moe_layer_step", 1, &every, err);
  for (uint32_t i = 0; rc == 0 && i < out->layers && i < LLS_MAX_LAYERS; i++)
    out->layer[i].mixture =
        json_is_array(layers) ? listed(layers, i) : (i + 1) % every == 0;
  return rc;
}

/* Reads which layers rotate positions: a list has 1 for those, and if it is missing or
 * empty every n-th does not. */
static int read_rotation(const struct lls_json *json, struct lls_model_config *out,
                         struct lls_error *err)
{
  const json_t *rotates = lls_json_get(json, "no_rope_layers");
  uint32_t every = 4;
  int rc = lls_json_size_or(json, "no_rope_layer_interval", 4, &every, err);
  size_t n = json_array_size(rotates);
  if (rc == 0 && n > 0 && n < out->layers)
    return lls_fail(err, -EINVAL, "%s: \"no_rope_layers\" should be a list of %u numbers",
                    json->file, out->layers);
  for (uint32_t i = 0; rc == 0 && i < out->layers && i < LLS_MAX_LAYERS; i++) {
    bool on = n > 0 ? json_integer_value(json_array_get(rotates, i)) != 0
                    : (i + 1) % every != 0;
    out->layer[i].rope = on ? LLS_LAYER_ROPE : LLS_LAYER_ROPE_OFF;
  }
  return rc;
}

/* Reads which layers attend within chunks: by their types, or those that rotate. */
static int read_chunks(const struct lls_json *json, struct lls_model_config *out,
                       struct lls_error *err)
{
  bool chunked[LLS_MAX_LAYERS], found = false;
  const json_t *size = lls_json_get(json, "attention_chunk_size");
  uint32_t chunk = 8192;
  int rc = json_is_null(size)
               ? 0
               : lls_json_size_or(json, "attention_chunk_size", chunk, &chunk, err);
  if (rc == 0)
    rc = lls_config_two_kinds(json, out->layers, "full_attention", "chunked_attention",
                              chunked, &found, err);
  for (uint32_t i = 0; rc == 0 && i < out->layers && i < LLS_MAX_LAYERS; i++) {
    bool on =
        found ? chunked[i] : out->layer[i].rope == LLS_LAYER_ROPE && !json_is_null(size);
    out->layer[i].chunked = on && chunk < out->max_context;
    out->layer[i].window = out->layer[i].chunked ? chunk : 0;
  }
  return rc;
}

/* Reads how queries grow in layers without rotation; the switch is a number in older
 * files. */
static int read_growth(const struct lls_json *json, struct lls_model_config *out,
                       struct lls_error *err)
{
  const json_t *tuned = lls_json_get(json, "attn_temperature_tuning");
  uint32_t every = 8192;
  double factor = 0.1;
  int rc = lls_json_size_or(json, "floor_scale", every, &every, err);
  if (rc == 0)
    rc = lls_json_real_or(json, "attn_scale", factor, &factor, err);
  bool on = tuned == NULL || json_is_true(tuned) || json_integer_value(tuned) != 0;
  out->growth = (struct lls_query_growth){
      .factor = on ? (float)factor : 0, .every = every, .offset = 1};
  out->growth_unrotated = true;
  return rc;
}

static int configure_text(const struct lls_json *json, struct lls_model_config *out,
                          struct lls_error *err)
{
  bool normed = true;
  int rc = lls_config_llama(json, out, err);
  if (rc == 0)
    rc = read_mixture(json, out, err);
  if (rc == 0)
    rc = read_rotation(json, out, err);
  if (rc == 0)
    rc = read_chunks(json, out, err);
  if (rc == 0)
    rc = read_growth(json, out, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "use_qk_norm", true, &normed, err);
  lls_json_get(json, "for_llm_compressor"); /* a layout of experts while quantising */
  out->qk_norm = normed ? LLS_QK_NORM_HEAD : LLS_QK_NORM_NONE;
  out->qk_norm_plain = normed;
  out->rope_before_norm = out->paired_rope = true;
  return rc;
}

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  return lls_config_text_part(json, json_object(), out, configure_text, err);
}

static const char *const names[] = {"Llama4ForCausalLM", "Llama4ForConditionalGeneration",
                                    NULL};

const struct lls_architecture lls_llama4 = {
    .title = "Llama 4 (text)",
    .names = names,
    .configure = configure,
    .tensors = {LLS_TEXT_PREFIXES,
                LLS_LLAMA_NORMS,
                LLS_LLAMA_QKV,
                .embedding = "embed_tokens",
                .final_norm = "norm",
                .head = "lm_head",
                .layers = "layers.",
                .output = "self_attn.o_proj",
                .gate = "feed_forward.gate_proj",
                .up = "feed_forward.up_proj",
                .down = "feed_forward.down_proj",
                .router = "feed_forward.router",
                .experts = "feed_forward.experts.",
                .expert_gate = "gate_proj",
                .expert_up = "up_proj",
                .expert_down = "down_proj",
                .expert_stacked_up = "gate_up_proj",
                .experts_turned = true,
                .shared_gate = "feed_forward.shared_expert.gate_proj",
                .shared_up = "feed_forward.shared_expert.up_proj",
                .shared_down = "feed_forward.shared_expert.down_proj"},
};
