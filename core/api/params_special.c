/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the parameters that are more than a number; see params_internal.h. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/api/params_internal.h"
#include "core/base/sha256.h"
#include "core/lora/lora_set.h"

#define HASH_DIGITS 12 /* hash digits that end a shortened tenant name */

#define MAX_STOP_STRINGS 16
#define MAX_STOP_BYTES   1024
#define MAX_STOP_TOKENS  4096 /* each generated token is compared with all of them */

static int out_of_memory(struct lls_api_error *error)
{
  return lls_api_fail(error, 503, NULL, NULL, "out of memory");
}

int lls_param_model(const json_t *value, const char *name,
                    const struct lls_params_context *context, struct lls_api_params *out,
                    struct lls_api_error *error)
{
  char shown[96];
  if (json_is_string(value) && context->adapters != NULL)
    out->adapter = lls_lora_set_find(context->adapters, json_string_value(value));
  if (out->adapter != NULL)
    return 0;
  if (json_is_string(value) &&
      (context->limits->any_model == LLS_ANY_MODEL_TRUE ||
       strcmp(json_string_value(value), context->model_name) == 0))
    return 0;
  lls_json_excerpt(value, shown, sizeof shown);
  if (!json_is_string(value))
    return lls_api_fail(error, 400, NULL, name, "'model' must be a string, not %s",
                        shown);
  return lls_api_fail(error, 404, "model_not_found", name,
                      "the model %s does not exist here; this server has \"%s\"", shown,
                      context->model_name);
}

int lls_param_seed(const json_t *value, const char *name,
                   const struct lls_params_context *context, struct lls_api_params *out,
                   struct lls_api_error *error)
{
  (void)context;
  int64_t seed;
  char shown[48];
  if (!lls_json_integer(value, &seed))
    return lls_api_fail(error, 400, NULL, name,
                        "'seed' must be an integer from %lld to %lld, not %s", LLONG_MIN,
                        LLONG_MAX, lls_json_excerpt(value, shown, sizeof shown));
  out->has_seed = seed != -1; /* -1 means a random seed in vLLM and llama.cpp */
  out->seed = (uint64_t)seed;
  return 0;
}

static int add_stop(const json_t *value, const char *name, struct lls_stop_set *set,
                    struct lls_api_error *error)
{
  size_t length = json_string_length(value);
  if (!json_is_string(value) || length == 0 || length > MAX_STOP_BYTES)
    return lls_api_fail(error, 400, NULL, name,
                        "'stop' must be a string or an array of strings, each of 1 to %d "
                        "bytes",
                        MAX_STOP_BYTES);
  char *text = malloc(length);
  if (text == NULL)
    return out_of_memory(error);
  memcpy(text, json_string_value(value), length);
  set->strings[set->count++] = (struct lls_stop_string){text, length};
  return 0;
}

int lls_param_stop(const json_t *value, const char *name,
                   const struct lls_params_context *context, struct lls_api_params *out,
                   struct lls_api_error *error)
{
  (void)context;
  size_t count = json_is_array(value) ? json_array_size(value) : 1;
  if (count > MAX_STOP_STRINGS)
    return lls_api_fail(error, 400, NULL, name,
                        "'stop' has %zu strings; at most %d are possible", count,
                        MAX_STOP_STRINGS);
  out->stop.strings = calloc(count + 1, sizeof *out->stop.strings);
  if (out->stop.strings == NULL)
    return out_of_memory(error);
  if (!json_is_array(value))
    return add_stop(value, name, &out->stop, error);
  for (size_t i = 0; i < count; i++)
    if (add_stop(json_array_get(value, i), name, &out->stop, error) != 0)
      return -1;
  return 0;
}

static int add_stop_regex(const json_t *value, const char *name,
                          struct lls_api_params *out, struct lls_api_error *error)
{
  struct lls_error err = {0};
  size_t length = json_string_length(value);
  if (!json_is_string(value) || length == 0 || length > MAX_STOP_BYTES)
    return lls_api_fail(error, 400, NULL, name,
                        "'%s' must be a regular expression or an array of them, each of "
                        "1 to %d bytes",
                        name, MAX_STOP_BYTES);
  int rc = lls_regex_finder_create(json_string_value(value), length,
                                   &out->stop_regex[out->n_stop_regex], &err);
  if (rc == -ENOMEM)
    return out_of_memory(error);
  if (rc < 0)
    return lls_api_fail(error, 400, NULL, name, "'%s': %s", name,
                        lls_error_text(&err, rc));
  out->n_stop_regex++;
  return 0;
}

int lls_param_stop_regex(const json_t *value, const char *name,
                         const struct lls_params_context *context,
                         struct lls_api_params *out, struct lls_api_error *error)
{
  (void)context;
  size_t count = json_is_array(value) ? json_array_size(value) : 1;
  if (count > MAX_STOP_STRINGS)
    return lls_api_fail(error, 400, NULL, name,
                        "'%s' has %zu expressions; at most %d are possible", name, count,
                        MAX_STOP_STRINGS);
  out->stop_regex = calloc(count + 1, sizeof *out->stop_regex);
  if (out->stop_regex == NULL)
    return out_of_memory(error);
  if (!json_is_array(value))
    return add_stop_regex(value, name, out, error);
  for (size_t i = 0; i < count; i++)
    if (add_stop_regex(json_array_get(value, i), name, out, error) != 0)
      return -1;
  return 0;
}

int lls_param_stop_token_ids(const json_t *value, const char *name,
                             const struct lls_params_context *context,
                             struct lls_api_params *out, struct lls_api_error *error)
{
  if (!json_is_array(value))
    return lls_api_fail(error, 400, NULL, name, "'%s' must be an array of token ids",
                        name);
  if (json_array_size(value) > MAX_STOP_TOKENS)
    return lls_api_fail(error, 400, NULL, name,
                        "'%s' has %zu ids; at most %d are possible", name,
                        json_array_size(value), MAX_STOP_TOKENS);
  return lls_json_token_ids(value, name, context->vocab, &out->stop_tokens,
                            &out->n_stop_tokens, error);
}

int lls_param_class(const json_t *value, const char *name,
                    const struct lls_params_context *context, struct lls_api_params *out,
                    struct lls_api_error *error)
{
  (void)context;
  char shown[48];
  const char *text = json_is_string(value) ? json_string_value(value) : "";
  if (strcmp(text, "realtime") == 0)
    out->request_class = LLS_CLASS_REALTIME;
  else if (strcmp(text, "best_effort") == 0)
    out->request_class = LLS_CLASS_BEST_EFFORT;
  else
    return lls_api_fail(error, 400, NULL, name,
                        "'class' must be \"realtime\" or \"best_effort\", not %s",
                        lls_json_excerpt(value, shown, sizeof shown));
  return 0;
}

const char *lls_service_tier(uint32_t request_class)
{
  static const char *const tiers[] = {"default", "priority", "flex"};
  return tiers[request_class];
}

int lls_param_tier(const json_t *value, const char *name,
                   const struct lls_params_context *context, struct lls_api_params *out,
                   struct lls_api_error *error)
{
  (void)context;
  static const struct {
    const char *tier;
    uint32_t request_class;
  } tiers[] = {
      {"auto", LLS_CLASS_NONE},         {"default", LLS_CLASS_NONE},
      {"scale", LLS_CLASS_NONE},        {"flex", LLS_CLASS_BEST_EFFORT},
      {"priority", LLS_CLASS_REALTIME}, {"fast", LLS_CLASS_REALTIME},
  };
  char shown[48];
  const char *text = json_is_string(value) ? json_string_value(value) : "";
  for (size_t i = 0; i < sizeof tiers / sizeof tiers[0]; i++) {
    if (strcmp(text, tiers[i].tier) != 0)
      continue;
    out->request_class = tiers[i].request_class;
    return 0;
  }
  return lls_api_fail(error, 400, NULL, name,
                      "'service_tier' must be one of \"auto\", \"default\", \"flex\", "
                      "\"scale\", \"priority\", \"fast\", not %s",
                      lls_json_excerpt(value, shown, sizeof shown));
}

/* Ends the shown tenant name with a hash of the full name, so that two names that are
 * shortened alike stay different. */
static void tell_apart(struct lls_api_params *params, const char *name)
{
  char hex[LLS_SHA256_HEX];
  size_t most = sizeof params->tenant - 1 - HASH_DIGITS - 1;
  size_t length = strlen(params->tenant);
  struct lls_sha256 sum;
  lls_sha256_begin(&sum);
  lls_sha256_add(&sum, name, strlen(name));
  lls_sha256_end(&sum, hex);
  length = length < most ? length : most;
  while (length > 0 && ((unsigned char)params->tenant[length] & 0xc0) == 0x80)
    length--; /* cut before a character, not inside it */
  snprintf(params->tenant + length, sizeof params->tenant - length, "~%.*s", HASH_DIGITS,
           hex);
}

void lls_api_params_set_tenant(struct lls_api_params *params, const char *name)
{
  size_t length = 0;
  json_t *valid = json_string(name); /* NULL if it is not UTF-8 */
  for (; name[length] != '\0' && length + 1 < sizeof params->tenant; length++) {
    unsigned char c = (unsigned char)name[length];
    bool shown = c >= 0x20 && c != 0x7f && (c < 0x80 || valid != NULL);
    params->tenant[length] = shown ? (char)c : '?';
  }
  json_decref(valid);
  while (name[length] != '\0' && length > 0 &&
         ((unsigned char)name[length] & 0xc0) == 0x80)
    length--; /* cut before a character, not inside it */
  params->tenant[length] = '\0';
  if (strcmp(params->tenant, name) != 0)
    tell_apart(params, name);
}

int lls_param_user(const json_t *value, const char *name,
                   const struct lls_params_context *context, struct lls_api_params *out,
                   struct lls_api_error *error)
{
  (void)context;
  char shown[48];
  if (!json_is_string(value))
    return lls_api_fail(error, 400, NULL, name, "'user' must be a string, not %s",
                        lls_json_excerpt(value, shown, sizeof shown));
  lls_api_params_set_tenant(out, json_string_value(value));
  return 0;
}

int lls_param_cache_salt(const json_t *value, const char *name,
                         const struct lls_params_context *context,
                         struct lls_api_params *out, struct lls_api_error *error)
{
  (void)context;
  size_t length = json_string_length(value);
  if (!json_is_string(value) || length == 0 || length >= sizeof out->cache_salt)
    return lls_api_fail(error, 400, NULL, name,
                        "'cache_salt' must be a string of 1 to %zu bytes: requests share "
                        "prefixes with those of the same salt",
                        sizeof out->cache_salt - 1);
  memcpy(out->cache_salt, json_string_value(value), length + 1);
  out->cache_salt_bytes = length;
  return 0;
}

int lls_param_encoding_format(const json_t *value, const char *name,
                              const struct lls_params_context *context,
                              struct lls_api_params *out, struct lls_api_error *error)
{
  (void)context;
  const char *text = json_string_value(value);
  char shown[48];
  out->base64 = text != NULL && strcmp(text, "base64") == 0;
  if (out->base64 || (text != NULL && strcmp(text, "float") == 0))
    return 0;
  return lls_api_fail(error, 400, NULL, name,
                      "'%s' must be \"float\" or \"base64\", not %s", name,
                      lls_json_excerpt(value, shown, sizeof shown));
}

int lls_param_modalities(const json_t *value, const char *name,
                         const struct lls_params_context *context,
                         struct lls_api_params *out, struct lls_api_error *error)
{
  (void)context;
  (void)out;
  size_t i;
  const json_t *item;
  char shown[48];
  if (!json_is_array(value))
    return lls_api_fail(error, 400, NULL, name, "'%s' must be an array of strings", name);
  json_array_foreach((json_t *)value, i, item)
  {
    if (!json_is_string(item) || strcmp(json_string_value(item), "text") != 0)
      return lls_api_fail(error, 400, "unsupported_parameter", name,
                          "'%s' has %s; this model answers with \"text\" only", name,
                          lls_json_excerpt(item, shown, sizeof shown));
  }
  return 0;
}

int lls_param_truncation_side(const json_t *value, const char *name,
                              const struct lls_params_context *context,
                              struct lls_api_params *out, struct lls_api_error *error)
{
  char shown[48];
  const char *text = json_string_value(value);
  bool right = text != NULL && strcmp(text, "right") == 0;
  bool left = text != NULL && strcmp(text, "left") == 0;
  out->cut_end = right;
  if (right || (left && !context->is_encoder))
    return 0;
  if (left)
    return lls_api_fail(error, 400, "unsupported_parameter", name,
                        "'%s' must be \"right\", the side that this model's texts lose",
                        name);
  return lls_api_fail(error, 400, NULL, name,
                      "'%s' must be \"left\" or \"right\", not %s", name,
                      lls_json_excerpt(value, shown, sizeof shown));
}

int lls_param_true(const json_t *value, const char *name,
                   const struct lls_params_context *context, struct lls_api_params *out,
                   struct lls_api_error *error)
{
  char shown[48];
  (void)context;
  (void)out;
  if (json_is_true(value))
    return 0;
  return lls_api_fail(error, 400, "unsupported_parameter", name,
                      "'%s' can only be true here, not %s", name,
                      lls_json_excerpt(value, shown, sizeof shown));
}
