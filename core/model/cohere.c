/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command R and R7B, Command A and Aya (Cohere): attention and MLP read one norm, a
 * LayerNorm without biases, and are added in parallel; neighbouring dimensions of a head
 * rotate together; logits are scaled. In the second generation most layers slide, and
 * the others have no positions.
 */
#include "core/model/architecture.h"

#include <errno.h>
#include <string.h>

static int configure_1(const struct lls_json *json, struct lls_model_config *out,
                       struct lls_error *err)
{
  double scale = 0.0625;
  int rc = lls_config_llama(json, out, err);
  if (rc == 0)
    rc = lls_config_layer_norm(json, "layer_norm_eps", out, err);
  if (rc == 0)
    rc = lls_json_real_or(json, "logit_scale", scale, &scale, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "tie_word_embeddings", true, &out->tied_embeddings, err);
  out->norm_unbiased = out->parallel_residual = out->paired_rope = true;
  out->logit_scale = (float)scale;
  return rc;
}

/* Checks keys that the second generation's files have, each with one value. */
static int check_kind(const struct lls_json *json, struct lls_error *err)
{
  static const char *const kinds[][2] = {
      {"position_embedding_type", "rope_gptj"},
      {"order_of_interleaved_layers", "local_attn_first"}};
  static const char *const switches[] = {"use_gated_activation", "use_parallel_block"};
  int rc = 0;
  for (size_t i = 0; rc == 0 && i < 2; i++) {
    const char *kind;
    bool on;
    rc = lls_json_string_or(json, kinds[i][0], kinds[i][1], &kind, err);
    if (rc == 0 && strcmp(kind, kinds[i][1]) != 0)
      rc = lls_fail(err, -ENOTSUP, "%s: \"%s\" is \"%.32s\"; %s is supported", json->file,
                    kinds[i][0], kind, kinds[i][1]);
    if (rc == 0)
      rc = lls_json_bool_or(json, switches[i], true, &on, err);
    if (rc == 0 && !on)
      rc = lls_fail(err, -ENOTSUP, "%s: \"%s\" is false; true is supported", json->file,
                    switches[i]);
  }
  lls_json_get(json, "use_parallel_embedding"); /* about training on several machines */
  lls_json_get(json, "use_embedding_sharing");  /* repeats tie_word_embeddings */
  return rc;
}

static int configure_2(const struct lls_json *json, struct lls_model_config *out,
                       struct lls_error *err)
{
  uint32_t window = 0, every = 4;
  bool listed = false;
  int rc = configure_1(json, out, err);
  if (rc == 0)
    rc = check_kind(json, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "sliding_window", 4096, &window, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "sliding_window_pattern", every, &every, err);
  if (rc == 0)
    rc = lls_config_layer_types(json, out, window, &listed, err);
  for (uint32_t i = 0; rc == 0 && i < out->layers && i < LLS_MAX_LAYERS; i++) {
    if (!listed)
      out->layer[i].window = (i + 1) % every != 0 ? window : 0;
    out->layer[i].rope = out->layer[i].window > 0 ? LLS_LAYER_ROPE : LLS_LAYER_ROPE_OFF;
  }
  return rc;
}

static const char *const names_1[] = {"CohereForCausalLM", NULL};
static const char *const names_2[] = {"Cohere2ForCausalLM", NULL};

#define COHERE_NORMS .attention_norm = "input_layernorm", .mlp_norm = "input_layernorm"

const struct lls_architecture lls_cohere = {
    .title = "Command R",
    .names = names_1,
    .configure = configure_1,
    .tensors = {LLS_LLAMA_TENSORS, COHERE_NORMS, LLS_LLAMA_QKV, LLS_LLAMA_MLP},
};

const struct lls_architecture lls_cohere2 = {
    .title = "Command R7B and A",
    .names = names_2,
    .configure = configure_2,
    .tensors = {LLS_LLAMA_TENSORS, COHERE_NORMS, LLS_LLAMA_QKV, LLS_LLAMA_MLP},
};
