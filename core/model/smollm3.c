/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SmolLM3: Llama's graph, in which some layers have attention without positions (NoPE,
 * arXiv 2501.18795): every fourth layer, unless the file lists them.
 */
#include "core/model/architecture.h"

#include <errno.h>

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  uint32_t interval = 0;
  int rc = lls_config_llama(json, out, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "no_rope_layer_interval", 4, &interval, err);
  const json_t *list = lls_json_get(json, "no_rope_layers");
  if (rc == 0 && list != NULL && json_array_size(list) != out->layers)
    rc = lls_fail(err, -EINVAL, "%s: \"no_rope_layers\" should be a list of %u numbers",
                  json->file, out->layers);
  for (uint32_t i = 0; rc == 0 && i < out->layers && i < LLS_MAX_LAYERS; i++) {
    bool rotated = list != NULL ? json_integer_value(json_array_get(list, i)) != 0
                                : (i + 1) % interval != 0;
    out->layer[i].rope = rotated ? LLS_LAYER_ROPE : LLS_LAYER_ROPE_OFF;
  }
  return rc < 0 ? rc : lls_config_qwen_window(json, out, err);
}

static const char *const names[] = {"SmolLM3ForCausalLM", NULL};

const struct lls_architecture lls_smollm3 = {
    .title = "SmolLM3",
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
