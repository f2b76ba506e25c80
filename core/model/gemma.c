/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gemma 2 (arXiv 2408.00118) and the text part of Gemma 3 (arXiv 2503.19786): norms
 * before and after each branch, whose weights are stored minus one; a scaled embedding;
 * sliding layers, every other one in Gemma 2, five of six in Gemma 3. Gemma 2 caps
 * scores and logits; Gemma 3 instead norms queries and keys, and rotates the sliding
 * layers with another theta. Folders of Gemma 3 that also read images have the text
 * part in "text_config" and below "language_model."; the rest is ignored.
 */
#include <math.h>

#include "core/model/architecture.h"

/* If the file does not list the layers, every `every`-th one attends to everything. */
static int configure_layers(const struct lls_json *json, uint32_t every,
                            struct lls_model_config *out, struct lls_error *err)
{
  uint32_t window = 0;
  bool listed = false;
  int rc = lls_json_size_or(json, "sliding_window", 4096, &window, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "sliding_window_pattern", every, &every, err);
  if (rc == 0)
    rc = lls_config_layer_types(json, out, window, &listed, err);
  for (uint32_t i = 0; rc == 0 && !listed && i < out->layers && i < LLS_MAX_LAYERS; i++)
    out->layer[i].window = (i + 1) % every != 0 ? window : 0;
  return rc;
}

static int configure(const struct lls_json *json, uint32_t every,
                     struct lls_model_config *out, struct lls_error *err)
{
  double scalar = 256;
  int rc = lls_config_llama(json, out, err);
  if (rc == 0)
    rc = lls_config_activation(json, "hidden_activation", "gelu_pytorch_tanh",
                               &out->activation, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "tie_word_embeddings", true, &out->tied_embeddings, err);
  if (rc == 0)
    rc = lls_json_real_or(json, "query_pre_attn_scalar", scalar, &scalar, err);
  if (rc < 0)
    return rc;
  out->norm_place = LLS_NORM_BOTH;
  out->norm_offset = 1;
  out->embedding_scale = sqrtf((float)out->hidden);
  out->attention_scale = (float)(1 / sqrt(scalar));
  return configure_layers(json, every, out, err);
}

static int configure_gemma2(const struct lls_json *json, struct lls_model_config *out,
                            struct lls_error *err)
{
  double attention = 0, logits = 0;
  int rc = configure(json, 2, out, err);
  if (rc == 0)
    rc = lls_json_real_or(json, "attn_logit_softcapping", 0, &attention, err);
  if (rc == 0)
    rc = lls_json_real_or(json, "final_logit_softcapping", 0, &logits, err);
  out->attention_cap = (float)attention;
  out->logit_cap = (float)logits;
  return rc;
}

int lls_config_gemma3_text(const struct lls_json *json, struct lls_model_config *out,
                           struct lls_error *err)
{
  int rc = configure(json, 6, out, err);
  if (rc == 0)
    rc = lls_config_local_rope(json, "rope_local_base_freq", out, err);
  out->qk_norm = LLS_QK_NORM_HEAD;
  for (uint32_t i = 0; rc == 0 && i < out->layers && i < LLS_MAX_LAYERS; i++)
    out->layer[i].rope = out->layer[i].window > 0 ? LLS_LAYER_ROPE_LOCAL : LLS_LAYER_ROPE;
  return rc;
}

/* Google's folders omit these keys in "text_config"; the values are transformers'
 * defaults. */
static json_t *text_defaults(void)
{
  return json_pack("{s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:f, s:i, s:i}", "vocab_size",
                   262208, "num_attention_heads", 8, "num_key_value_heads", 4, "head_dim",
                   256, "max_position_embeddings", 131072, "rms_norm_eps", 1e-6,
                   "rope_theta", 1e6, "rope_local_base_freq", 1e4,
                   "query_pre_attn_scalar", 256, "sliding_window", 4096);
}

static int configure_gemma3(const struct lls_json *json, struct lls_model_config *out,
                            struct lls_error *err)
{
  return lls_config_text_part(json, text_defaults(), out, lls_config_gemma3_text, err);
}

static const char *const names_2[] = {"Gemma2ForCausalLM", NULL};
static const char *const names_3[] = {"Gemma3ForCausalLM",
                                      "Gemma3ForConditionalGeneration", NULL};

const struct lls_architecture lls_gemma2 = {
    .title = "Gemma 2",
    .names = names_2,
    .configure = configure_gemma2,
    .tensors = {LLS_LLAMA_TENSORS, LLS_GEMMA_NORMS, LLS_LLAMA_QKV, LLS_LLAMA_MLP},
};

const struct lls_architecture lls_gemma3 = {
    .title = "Gemma 3 (text)",
    .names = names_3,
    .configure = configure_gemma3,
    .tensors =
        {
            LLS_LLAMA_NAMES,
            LLS_GEMMA_NORMS,
            LLS_LLAMA_QKV,
            LLS_LLAMA_MLP,
            .prefixes = {"model.", "language_model.model.", "model.language_model."},
            .q_norm = "self_attn.q_norm",
            .k_norm = "self_attn.k_norm",
        },
};
