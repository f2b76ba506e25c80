/* SPDX-License-Identifier: Apache-2.0 */
/* Reads which session a request is of, and when it returns: OpenAI's prompt_cache_key and
 * prompt_cache_retention. The headers for it are in request_headers.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/api/params_internal.h"
#include "core/base/sha256.h"

/* True for a name that operators can be shown. */
static bool is_shown(const char *name, size_t bytes)
{
  json_t *valid = json_stringn(name, bytes); /* NULL if it is not UTF-8 */
  bool shown = valid != NULL;
  json_decref(valid);
  for (size_t i = 0; i < bytes; i++)
    shown &= (unsigned char)name[i] >= 0x20 && name[i] != 0x7f;
  return shown;
}

void lls_api_params_set_session(struct lls_api_params *params, const char *name,
                                size_t bytes)
{
  struct lls_sha256 sum;
  _Static_assert(sizeof params->session >= LLS_SHA256_HEX, "a hash is a name");
  if (bytes < sizeof params->session && is_shown(name, bytes)) {
    memcpy(params->session, name, bytes);
    params->session[bytes] = '\0';
    return;
  }
  lls_sha256_begin(&sum);
  lls_sha256_add(&sum, name, bytes);
  lls_sha256_end(&sum, params->session);
}

int lls_param_cache_key(const json_t *value, const char *name,
                        const struct lls_params_context *context,
                        struct lls_api_params *out, struct lls_api_error *error)
{
  (void)context;
  char shown[48];
  if (!json_is_string(value))
    return lls_api_fail(error, 400, NULL, name, "'%s' must be a string, not %s", name,
                        lls_json_excerpt(value, shown, sizeof shown));
  lls_api_params_set_session(out, json_string_value(value), json_string_length(value));
  return 0;
}

/* Reads a time such as "5m". Returns 0 if it is none. */
static int64_t read_span(const char *text)
{
  char *unit;
  double number = strtod(text, &unit);
  double seconds = strcmp(unit, "s") == 0   ? 1
                   : strcmp(unit, "m") == 0 ? 60
                   : strcmp(unit, "h") == 0 ? 3600
                                            : 0;
  double ns = number * seconds * 1e9;
  return ns >= 1 && ns <= 1e18 ? (int64_t)ns : 0;
}

int lls_param_cache_retention(const json_t *value, const char *name,
                              const struct lls_params_context *context,
                              struct lls_api_params *out, struct lls_api_error *error)
{
  (void)context;
  char shown[48];
  const char *text = json_string_value(value);
  bool no_time =
      text != NULL && (strcmp(text, "in_memory") == 0 || strcmp(text, "in-memory") == 0);
  out->keep_ns = text != NULL && !no_time ? read_span(text) : 0;
  if (no_time || out->keep_ns > 0)
    return 0;
  return lls_api_fail(error, 400, NULL, name,
                      "'%s' must be \"in_memory\" or a time such as \"5m\" or \"24h\", "
                      "not %s",
                      name, lls_json_excerpt(value, shown, sizeof shown));
}
