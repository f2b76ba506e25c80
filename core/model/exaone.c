/* SPDX-License-Identifier: Apache-2.0 */
/*
 * EXAONE 4 (arXiv 2507.11407): branches read x without a norm and their outputs are
 * normed; query and key of each head are normed. In models with sliding layers, the
 * others have no positions.
 */
#include "core/model/architecture.h"

#include <errno.h>
#include <string.h>

/* The pattern is a number, every how many layers one attends to everything, or letters,
 * such as LLLG. */
static int read_pattern(const struct lls_json *json, uint32_t *every,
                        struct lls_error *err)
{
  const json_t *pattern = lls_json_get(json, "sliding_window_pattern");
  if (!json_is_string(pattern))
    return lls_json_size_or(json, "sliding_window_pattern", 4, every, err);
  const char *letters = json_string_value(pattern);
  *every = (uint32_t)strlen(letters);
  if (strspn(letters, "L") + 1 == *every && letters[*every - 1] == 'G')
    return 0;
  return lls_fail(err, -ENOTSUP,
                  "%s: \"sliding_window_pattern\" is \"%.32s\"; letters L and one G at "
                  "the end are supported",
                  json->file, letters);
}

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  uint32_t window = 0, every = 4;
  bool listed = false;
  int rc = lls_config_llama(json, out, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "sliding_window", 0, &window, err);
  if (rc == 0)
    rc = read_pattern(json, &every, err);
  if (rc == 0)
    rc = lls_config_layer_types(json, out, window, &listed, err);
  for (uint32_t i = 0; rc == 0 && i < out->layers && i < LLS_MAX_LAYERS; i++) {
    struct lls_layer_config *layer = &out->layer[i];
    if (!listed)
      layer->window = (i + 1) % every != 0 ? window : 0;
    layer->rope = window == 0 || layer->window > 0 ? LLS_LAYER_ROPE : LLS_LAYER_ROPE_OFF;
  }
  out->norm_place = LLS_NORM_OUTPUT;
  out->qk_norm = LLS_QK_NORM_HEAD;
  return rc;
}

static const char *const names[] = {"Exaone4ForCausalLM", NULL};

const struct lls_architecture lls_exaone4 = {
    .title = "EXAONE 4",
    .names = names,
    .configure = configure,
    .tensors =
        {
            LLS_LLAMA_TENSORS,
            LLS_LLAMA_QKV,
            LLS_LLAMA_MLP,
            LLS_LLAMA_QK_NORMS,
            .attention_norm = "post_attention_layernorm",
            .mlp_norm = "post_feedforward_layernorm",
        },
};
