/* SPDX-License-Identifier: Apache-2.0 */
/* Reads logprob_token_ids, the tokens whose probabilities a client wants to see;
 * chat_template, a program of the client's that this server renders its messages with;
 * and lora, llama.cpp's choice of an adapter. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/api/params_internal.h"
#include "core/lora/lora_set.h"
#include "text/template/template.h"
#include "text/tokenizer/tokenizer.h"

#define MAX_TEMPLATE_BYTES (1 << 18)

/* ---- logprob_token_ids ------------------------------------------------------------- */

static bool has_id(const struct lls_api_params *params, int32_t id)
{
  for (uint32_t i = 0; i < params->n_logprob_ids; i++)
    if (params->logprob_ids[i] == id)
      return true;
  return false;
}

int lls_param_logprob_ids(const json_t *value, const char *name,
                          const struct lls_params_context *context,
                          struct lls_api_params *out, struct lls_api_error *error)
{
  int32_t *ids;
  size_t n;
  if (!json_is_array(value) || json_array_size(value) > LLS_MAX_LOGPROBS)
    return lls_api_fail(error, 400, NULL, name,
                        "'%s' must be an array of at most %d token ids", name,
                        LLS_MAX_LOGPROBS);
  if (lls_json_token_ids(value, name, context->vocab, &ids, &n, error) != 0)
    return -1;
  for (size_t i = 0; i < n; i++)
    if (!has_id(out, ids[i]))
      out->logprob_ids[out->n_logprob_ids++] = ids[i];
  free(ids);
  return 0;
}

int lls_params_check_logprob_ids(const struct lls_params_context *context,
                                 const struct lls_api_params *params,
                                 struct lls_api_error *error)
{
  static const char name[] = "logprob_token_ids";
  const char *why = NULL;
  if (params->n_logprob_ids == 0)
    return 0;
  if (params->logprobs == LLS_UNSET)
    why = "is only for requests with 'logprobs'";
  else if (params->max_tokens == 0)
    why = "needs tokens that are generated: 'max_tokens' is 0";
  else if (params->drawn_logprobs)
    why = "is not for requests with 'post_sampling_probs'";
  if (why != NULL)
    return lls_api_fail(error, 400, NULL, name, "'%s' %s", name, why);
  if (!context->few_samplers)
    return 0;
  return lls_api_fail(error, 400, "unsupported_parameter", name,
                      "'%s' is not supported by this server's device: [engine] device = "
                      "cpu has it",
                      name);
}

/* ---- chat_template ----------------------------------------------------------------- */

/* Returns the text of a special token, which the caller frees; NULL: there is none. */
static char *special(const struct lls_tokenizer *tokenizer, int32_t id)
{
  size_t length = 0;
  const char *text = id >= 0 ? lls_tokenizer_string(tokenizer, id, &length) : NULL;
  return text != NULL ? strndup(text, length) : NULL;
}

int lls_param_chat_template(const json_t *value, const char *name,
                            const struct lls_params_context *context,
                            struct lls_api_params *out, struct lls_api_error *error)
{
  struct lls_error why = {0};
  const char *source = json_string_value(value);
  if (lls_param_asks_nothing(value))
    return 0;
  if (!context->limits->trust_chat_template)
    return lls_api_fail(error, 400, "unsupported_parameter", name,
                        "'%s' is not supported here: [model] chat_template sets it, and "
                        "[server] trust_chat_template = true lets requests set it",
                        name);
  if (source == NULL || json_string_length(value) > MAX_TEMPLATE_BYTES ||
      strlen(source) < json_string_length(value))
    return lls_api_fail(error, 400, NULL, name,
                        "'%s' must be a string of at most %d bytes, a Jinja template",
                        name, MAX_TEMPLATE_BYTES);
  char *bos = special(context->tokenizer, lls_tokenizer_bos(context->tokenizer));
  char *eos = special(context->tokenizer, lls_tokenizer_eos(context->tokenizer));
  int rc = lls_chat_template_compile(source, bos, eos, &out->chat_template, &why);
  free(bos);
  free(eos);
  if (rc == 0 && lls_chat_template_problem(out->chat_template) != NULL)
    return lls_api_fail(error, 400, NULL, name, "'%s' can't be used: %s", name,
                        lls_chat_template_problem(out->chat_template));
  if (rc == 0)
    return 0;
  return lls_api_fail(error, rc == -ENOMEM ? 503 : 400, NULL, name,
                      "'%s' can't be used: %s", name, lls_error_text(&why, rc));
}

/* ---- lora -------------------------------------------------------------------------- */

/* Takes the adapter of {"id": PLACE, "scale": NUMBER}; a scale of 0 leaves it out. */
static int take_adapter(const json_t *item, const char *name, struct lls_lora_set *set,
                        struct lls_scaled_adapter *out, struct lls_api_error *error)
{
  int64_t id;
  double scale = json_number_value(json_object_get(item, "scale"));
  if (!lls_json_integer(json_object_get(item, "id"), &id) || id < 0 || id > INT32_MAX ||
      !json_is_number(json_object_get(item, "scale")) || !isfinite((float)scale))
    return lls_api_fail(error, 400, NULL, name,
                        "'%s' must be an array of objects with a number 'id' and a "
                        "number 'scale'",
                        name);
  struct lls_adapter *adapter = set != NULL ? lls_lora_set_at(set, (uint32_t)id) : NULL;
  if (adapter == NULL)
    return lls_api_fail(error, 400, NULL, name,
                        "'%s' names adapter %lld; GET /lora-adapters lists those that "
                        "there are",
                        name, (long long)id);
  if (scale != 0 && out->adapter == NULL) {
    *out = (struct lls_scaled_adapter){adapter, (float)scale};
    return 0;
  }
  lls_adapter_unref(adapter);
  if (scale == 0)
    return 0;
  return lls_api_fail(error, 400, "unsupported_parameter", name,
                      "'%s': one adapter can have a scale, and the others 0", name);
}

int lls_params_adapter(const json_t *value, const char *name, struct lls_lora_set *set,
                       struct lls_scaled_adapter *out, struct lls_api_error *error)
{
  size_t i;
  const json_t *item;
  *out = (struct lls_scaled_adapter){0};
  if (!json_is_array(value))
    return lls_api_fail(error, 400, "unsupported_parameter", name,
                        "'%s' must be an array of adapters and their scales; else "
                        "'model' names the adapter",
                        name);
  json_array_foreach((json_t *)value, i, item)
  {
    if (take_adapter(item, name, set, out, error) != 0)
      return -1;
  }
  return 0;
}

int lls_param_lora(const json_t *value, const char *name,
                   const struct lls_params_context *context, struct lls_api_params *out,
                   struct lls_api_error *error)
{
  struct lls_scaled_adapter chosen;
  if (lls_param_asks_nothing(value))
    return 0;
  int rc = lls_params_adapter(value, name, context->adapters, &chosen, error);
  lls_adapter_unref(out->adapter);
  out->adapter = chosen.adapter;
  out->adapter_scale = chosen.scale;
  out->chooses_adapter = true;
  return rc;
}
