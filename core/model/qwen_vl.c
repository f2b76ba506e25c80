/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text parts of Qwen2-VL and 2.5-VL (arXiv 2502.13923) and of Qwen3-VL, which are
 * Qwen2 and Qwen3. A rotation that splits its pairs among three numbers of a position
 * ("mrope") is the ordinary one for text.
 */
#include "core/model/architecture.h"

static int configure_qwen2(const struct lls_json *json, struct lls_model_config *out,
                           struct lls_error *err)
{
  int rc = lls_config_llama(json, out, err);
  out->qkv_bias = true;
  out->output_bias = false;
  return rc < 0 ? rc : lls_config_qwen_window(json, out, err);
}

static int configure_qwen3(const struct lls_json *json, struct lls_model_config *out,
                           struct lls_error *err)
{
  int rc = lls_config_llama(json, out, err);
  out->qk_norm = LLS_QK_NORM_HEAD;
  return rc < 0 ? rc : lls_config_qwen_window(json, out, err);
}

static int configure_2(const struct lls_json *json, struct lls_model_config *out,
                       struct lls_error *err)
{
  return lls_config_text_part(json, json_object(), out, configure_qwen2, err);
}

static int configure_3(const struct lls_json *json, struct lls_model_config *out,
                       struct lls_error *err)
{
  return lls_config_text_part(json, json_object(), out, configure_qwen3, err);
}

static const char *const names_2[] = {"Qwen2VLForConditionalGeneration",
                                      "Qwen2_5_VLForConditionalGeneration", NULL};
static const char *const names_3[] = {"Qwen3VLForConditionalGeneration", NULL};

const struct lls_architecture lls_qwen2_vl = {
    .title = "Qwen2-VL and 2.5-VL (text)",
    .names = names_2,
    .configure = configure_2,
    .tensors = {LLS_LLAMA_NAMES, LLS_TEXT_PREFIXES, LLS_LLAMA_NORMS, LLS_LLAMA_QKV,
                LLS_LLAMA_MLP},
};

const struct lls_architecture lls_qwen3_vl = {
    .title = "Qwen3-VL (text)",
    .names = names_3,
    .configure = configure_3,
    .tensors = {LLS_LLAMA_NAMES, LLS_TEXT_PREFIXES, LLS_LLAMA_NORMS, LLS_LLAMA_QKV,
                LLS_LLAMA_MLP, LLS_LLAMA_QK_NORMS},
};
