/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Qwen2 (arXiv 2407.10671) and Qwen2.5: Llama's graph with biases on query, key and
 * value. If the window is switched on, the layers from max_window_layers on have it.
 * MiMo-7B is a Qwen2 beside layers that predict further tokens, which are passed over.
 */
#include "core/model/architecture.h"

int lls_config_qwen_window(const struct lls_json *json, struct lls_model_config *out,
                           struct lls_error *err)
{
  bool on = false, listed;
  uint32_t window = 0;
  int rc = lls_json_bool_or(json, "use_sliding_window", false, &on, err);
  json_int_t first = json_integer_value(lls_json_get(json, "max_window_layers"));
  if (rc == 0 && !on && lls_json_get(json, "use_sliding_window") != NULL)
    /* the window is switched off: marks its key as read */
    lls_json_get(json, "sliding_window");
  if (rc < 0 || !on)
    return rc;
  rc = lls_json_size_or(json, "sliding_window", 4096, &window, err);
  if (rc == 0)
    rc = lls_config_layer_types(json, out, window, &listed, err);
  if (rc < 0 || listed)
    return rc;
  for (json_int_t i = first < 0 ? 0 : first; i < out->layers && i < LLS_MAX_LAYERS; i++)
    out->layer[i].window = window;
  return rc;
}

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  int rc = lls_config_llama(json, out, err);
  lls_json_get(json, "num_nextn_predict_layers"); /* of MiMo, in tensors of other names */
  lls_json_get(json, "use_mtp");
  out->qkv_bias = true;
  out->output_bias = false;
  return rc < 0 ? rc : lls_config_qwen_window(json, out, err);
}

static const char *const names[] = {"Qwen2ForCausalLM", "Qwen2Model", "MiMoForCausalLM",
                                    NULL};

const struct lls_architecture lls_qwen2 = {
    .title = "Qwen2 and 2.5, MiMo",
    .names = names,
    .configure = configure,
    .tensors =
        {
            LLS_LLAMA_TENSORS,
            LLS_LLAMA_NORMS,
            LLS_LLAMA_QKV,
            LLS_LLAMA_MLP,
        },
};
