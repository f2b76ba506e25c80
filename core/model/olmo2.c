/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OLMo 2 (arXiv 2501.00656) and OLMo 3: branches read x without a norm, and their outputs
 * are normed before they are added; query and key are normed over their whole width, all
 * heads together. In OLMo 3 three of four layers slide, whose rotation is not scaled.
 */
#include "core/model/architecture.h"

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  int rc = lls_config_llama(json, out, err);
  out->norm_place = LLS_NORM_OUTPUT;
  out->qk_norm = LLS_QK_NORM_WHOLE;
  return rc;
}

/* If the file does not list the layers, every fourth one attends to everything. */
static int configure_3(const struct lls_json *json, struct lls_model_config *out,
                       struct lls_error *err)
{
  uint32_t window = 0;
  bool listed = false;
  int rc = configure(json, out, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "sliding_window", 4096, &window, err);
  if (rc == 0)
    rc = lls_config_layer_types(json, out, window, &listed, err);
  if (rc == 0)
    rc = lls_config_local_rope(json, "rope_theta", out, err);
  for (uint32_t i = 0; rc == 0 && i < out->layers && i < LLS_MAX_LAYERS; i++) {
    if (!listed)
      out->layer[i].window = (i + 1) % 4 != 0 ? window : 0;
    out->layer[i].rope = out->layer[i].window > 0 ? LLS_LAYER_ROPE_LOCAL : LLS_LAYER_ROPE;
  }
  return rc;
}

static const char *const names_3[] = {"Olmo3ForCausalLM", NULL};
static const char *const names[] = {"Olmo2ForCausalLM", NULL};

#define OLMO_TENSORS                                                                     \
  LLS_LLAMA_TENSORS, LLS_LLAMA_QKV, LLS_LLAMA_MLP, LLS_LLAMA_QK_NORMS,                   \
      .attention_norm = "post_attention_layernorm",                                      \
      .mlp_norm = "post_feedforward_layernorm"

const struct lls_architecture lls_olmo2 = {
    .title = "OLMo 2",
    .names = names,
    .configure = configure,
    .tensors = {OLMO_TENSORS},
};

const struct lls_architecture lls_olmo3 = {
    .title = "OLMo 3",
    .names = names_3,
    .configure = configure_3,
    .tensors = {OLMO_TENSORS},
};
