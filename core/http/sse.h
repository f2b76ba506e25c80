/* SPDX-License-Identifier: Apache-2.0 */
/* Writes server-sent events in the form that clients of OpenAI's API read. */
#ifndef LLS_HTTP_SSE_H
#define LLS_HTTP_SSE_H

#include "core/http/exchange.h"

#define LLS_SSE_TYPE "text/event-stream; charset=utf-8"

/* Sends a comment, which clients ignore: it shows proxies between that the stream is
 * alive. */
void lls_sse_comment(struct lls_http_exchange *exchange);
void lls_sse_begin(struct lls_http_exchange *exchange);
/* Sends one event: "data: ", the text and a blank line. The text has no line end. */
void lls_sse_data(struct lls_http_exchange *exchange, const char *text, size_t length);
/* Sends the event with its name before the data. */
void lls_sse_event(struct lls_http_exchange *exchange, const char *name, const char *text,
                   size_t length);
/* Sends the event "[DONE]" and ends the answer. */
void lls_sse_end(struct lls_http_exchange *exchange);

#endif
