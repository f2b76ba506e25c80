/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mistral Small 3.1 and 3.2, Ministral 3 and Devstral 2: a Mistral in "text_config",
 * beside an encoder of images, whose tensors are passed over. Queries of Ministral 3
 * grow with their position. "text_config" may be a Mistral 4 (deepseek.c).
 */
#include "core/model/architecture.h"

#include <string.h>

static int configure_text(const struct lls_json *json, struct lls_model_config *out,
                          struct lls_error *err)
{
  uint32_t window = 0;
  int rc = lls_config_llama(json, out, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "sliding_window", 0, &window, err);
  lls_config_window(out, window);
  return rc < 0 ? rc : lls_config_growth(json, out, err);
}

/* Mistral's folders omit these keys in "text_config"; the values are transformers'
 * defaults. */
static json_t *text_defaults(void)
{
  return json_pack("{s:i, s:i, s:i, s:i, s:f}", "num_key_value_heads", 8,
                   "num_attention_heads", 32, "num_hidden_layers", 32,
                   "max_position_embeddings", 131072, "rms_norm_eps", 1e-6);
}

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  const json_t *text = lls_json_get(json, "text_config");
  const char *type = json_string_value(json_object_get(text, "model_type"));
  if (type == NULL || strcmp(type, "mistral4") != 0)
    return lls_config_text_part(json, text_defaults(), out, configure_text, err);
  out->architecture = &lls_mistral4; /* whose tensors have other names */
  return lls_config_text_part(json, json_object(), out, lls_config_mistral4, err);
}

static const char *const names[] = {"Mistral3ForConditionalGeneration",
                                    "Ministral3ForCausalLM", NULL};

const struct lls_architecture lls_mistral3 = {
    .title = "Mistral Small 3, Ministral 3 (text)",
    .names = names,
    .configure = configure,
    .tensors = {LLS_LLAMA_NAMES, LLS_TEXT_PREFIXES, LLS_LLAMA_NORMS, LLS_LLAMA_QKV,
                LLS_LLAMA_MLP},
};
