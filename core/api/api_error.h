/* SPDX-License-Identifier: Apache-2.0 */
/* Errors in the shape that clients of OpenAI's API expect: all four keys, always. */
#ifndef LLS_API_API_ERROR_H
#define LLS_API_API_ERROR_H

#include <jansson.h>

#include "core/base/error.h"
#include "core/http/exchange.h"

struct lls_api_error {
  unsigned status;      /* HTTP status */
  const char *code;     /* static, or NULL */
  char param[96];       /* the parameter that is wrong, or "" */
  unsigned retry_after; /* seconds, for 429 and 503; 0: unknown, 1 is sent */
  bool hopeless;        /* the same request can never succeed: clients need not retry */
  /* of a prompt that is too long: its tokens, and the context's; else 0 */
  size_t prompt_tokens, context_tokens;
  struct lls_error message; /* one sentence */
};

/* Fills *error. Returns -1, so that a check can `return lls_api_fail(...)`. */
int lls_api_fail(struct lls_api_error *error, unsigned status, const char *code,
                 const char *param, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Returns {"error": {...}}, or NULL if out of memory. */
json_t *lls_api_error_json(const struct lls_api_error *error);
/* Returns its message as a JSON string, or NULL if out of memory. */
json_t *lls_api_error_message(const struct lls_api_error *error);

/* Answers the exchange with the error, in the shape of its dialect (dialect.h). */
void lls_api_error_reply(struct lls_http_exchange *exchange,
                         const struct lls_api_error *error);

/* Answers the exchange with `json`, and releases the reference. */
void lls_api_reply_json(struct lls_http_exchange *exchange, unsigned status,
                        json_t *json);

/* Callback of the HTTP server: writes the body of the answer to bytes that are not a
 * valid HTTP request. */
void lls_api_error_body(void *context, unsigned status, const char *reason,
                        struct lls_text *out);

#endif
