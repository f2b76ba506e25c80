/* SPDX-License-Identifier: Apache-2.0 */
/* Errors in the shape that clients of OpenAI's API expect: all four keys, always. */
#ifndef LLS_API_API_ERROR_H
#define LLS_API_API_ERROR_H

#include <jansson.h>

#include "core/base/error.h"
#include "core/http/exchange.h"

struct lls_api_error {
  unsigned status;      /* of HTTP */
  const char *code;     /* static, or NULL */
  char param[96];       /* the parameter it is about, or "" */
  unsigned retry_after; /* seconds, for 429 and 503; 0 = no better guess than one */
  bool hopeless;        /* the same request can never succeed: clients need not retry */
  struct lls_error message; /* one sentence */
};

/* Fills the error; returns -1, so that a check can return it. */
int lls_api_fail(struct lls_api_error *error, unsigned status, const char *code,
                 const char *param, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* {"error": {...}}, or NULL without memory. */
json_t *lls_api_error_json(const struct lls_api_error *error);

/* Answers the exchange with it. */
void lls_api_error_reply(struct lls_http_exchange *exchange,
                         const struct lls_api_error *error);

/* Answers the exchange with JSON, which is released. */
void lls_api_reply_json(struct lls_http_exchange *exchange, unsigned status,
                        json_t *json);

/* For the HTTP server: the body of an answer to what is no request. */
void lls_api_error_body(void *context, unsigned status, const char *reason,
                        struct lls_text *out);

#endif
