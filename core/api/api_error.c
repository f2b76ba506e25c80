/* SPDX-License-Identifier: Apache-2.0 */
/* Formats an error's message and its JSON object; see api_error.h. */
#include "core/api/api_error.h"

#include "core/api/dialect.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json_memory.h"
#include "text/base/utf8.h"

int lls_api_fail(struct lls_api_error *error, unsigned status, const char *code,
                 const char *param, const char *format, ...)
{
  va_list args;
  *error = (struct lls_api_error){.status = status, .code = code};
  snprintf(error->param, sizeof error->param, "%s", param != NULL ? param : "");
  va_start(args, format);
  vsnprintf(error->message.text, sizeof error->message.text, format, args);
  va_end(args);
  return -1;
}

static const char *error_type(unsigned status)
{
  if (status == 429)
    return "rate_limit_error";
  if (status == 403)
    return "permission_error";
  if (status == 504)
    return "timeout";
  return status < 500 ? "invalid_request_error" : "server_error";
}

/* Returns the text as valid UTF-8: a message that quotes the request may be cut inside
 * a character, or contain a path that is not UTF-8. */
static json_t *repaired(const char *text)
{
  struct lls_bytes valid = {0};
  lls_utf8_repair(text, strlen(text), &valid);
  json_t *string = valid.failed
                       ? NULL
                       : json_stringn(valid.length > 0 ? valid.data : "", valid.length);
  lls_bytes_free(&valid);
  return string;
}

json_t *lls_api_error_message(const struct lls_api_error *error)
{
  return repaired(error->message.text);
}

json_t *lls_api_error_json(const struct lls_api_error *error)
{
  json_t *param = error->param[0] != '\0' ? repaired(error->param) : json_null();
  return json_pack("{s:{s:o, s:s, s:o, s:s?}}", "error", "message",
                   repaired(error->message.text), "type", error_type(error->status),
                   "param", param, "code", error->code);
}

/* Answers with the error as the dialect writes it; dialect may be NULL. */
static void reply_in_shape(struct lls_http_exchange *exchange,
                           const struct lls_dialect *dialect,
                           const struct lls_api_error *error)
{
  unsigned status = error->status;
  json_t *json = dialect != NULL ? dialect->error(error) : lls_api_error_json(error);
  if (dialect != NULL && dialect->status != NULL)
    status = dialect->status(error);
  if (dialect != NULL && dialect->id_header != NULL)
    lls_json_put(&json, "request_id", json_string(exchange->id));
  lls_api_reply_json(exchange, status, json);
}

void lls_api_error_reply(struct lls_http_exchange *exchange,
                         const struct lls_api_error *error)
{
  bool again = (error->status == 429 || error->status == 503) && !error->hopeless;
  if (again) {
    char seconds[16];
    snprintf(seconds, sizeof seconds, "%u",
             error->retry_after > 0 ? error->retry_after : 1);
    lls_http_add_header(exchange, "retry-after", seconds);
  }
  snprintf(exchange->why, sizeof exchange->why, "%.*s", LLS_HTTP_WHY_BYTES - 1,
           error->message.text);
  if (error->hopeless)
    lls_http_add_header(exchange, "x-should-retry", "false");
  reply_in_shape(exchange, lls_dialect_of(exchange), error);
}

void lls_api_reply_json(struct lls_http_exchange *exchange, unsigned status, json_t *json)
{
  char *text = lls_json_text(json, JSON_COMPACT);
  if (text != NULL)
    lls_http_reply(exchange, status, "application/json", text, strlen(text));
  else
    lls_http_reply(exchange, 500, NULL, NULL, 0);
  free(text);
  json_decref(json);
}

void lls_api_error_body(void *context, unsigned status, const char *reason,
                        struct lls_text *out)
{
  (void)context;
  struct lls_api_error error;
  lls_api_fail(&error, status, NULL, NULL, "%s", reason);
  json_t *json = lls_api_error_json(&error);
  char *text = lls_json_text(json, JSON_COMPACT);
  if (text != NULL)
    lls_text_puts(out, text);
  free(text);
  json_decref(json);
}
