/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events as the clients of OpenAI's API read them. */
#ifndef LLS_HTTP_SSE_H
#define LLS_HTTP_SSE_H

#include "core/http/exchange.h"

#define LLS_SSE_TYPE "text/event-stream; charset=utf-8"

/* A comment, which clients pass over: a sign of life for proxies between. */
void lls_sse_comment(struct lls_http_exchange *exchange);
void lls_sse_begin(struct lls_http_exchange *exchange);
/* One event: "data: " text and a blank line. The text has no line end in it. */
void lls_sse_data(struct lls_http_exchange *exchange, const char *text, size_t length);
/* The same with its name before it. */
void lls_sse_event(struct lls_http_exchange *exchange, const char *name, const char *text,
                   size_t length);
/* The event "[DONE]", and the end of the answer. */
void lls_sse_end(struct lls_http_exchange *exchange);

#endif
