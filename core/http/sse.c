/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the event stream; see sse.h. */
#include "core/http/sse.h"

#include <string.h>

void lls_sse_begin(struct lls_http_exchange *exchange)
{
  lls_http_add_header(exchange, "cache-control", "no-cache");
  /* stops nginx from buffering */
  lls_http_add_header(exchange, "x-accel-buffering", "no");
  lls_http_stream_begin(exchange, 200, LLS_SSE_TYPE);
}

void lls_sse_data(struct lls_http_exchange *exchange, const char *text, size_t length)
{
  char before[] = "data: ", after[] = "\n\n";
  uv_buf_t pieces[] = {
      uv_buf_init(before, sizeof before - 1),
      uv_buf_init((char *)text, (unsigned)length),
      uv_buf_init(after, sizeof after - 1),
  };
  lls_http_stream_write(exchange, pieces, 3);
}

void lls_sse_event(struct lls_http_exchange *exchange, const char *name, const char *text,
                   size_t length)
{
  char before[] = "event: ", between[] = "\ndata: ", after[] = "\n\n";
  uv_buf_t pieces[] = {
      uv_buf_init(before, sizeof before - 1),
      uv_buf_init((char *)name, (unsigned)strlen(name)),
      uv_buf_init(between, sizeof between - 1),
      uv_buf_init((char *)text, (unsigned)length),
      uv_buf_init(after, sizeof after - 1),
  };
  lls_http_stream_write(exchange, pieces, 5);
}

void lls_sse_comment(struct lls_http_exchange *exchange)
{
  char line[] = ": keep-alive\n\n";
  uv_buf_t piece = uv_buf_init(line, sizeof line - 1);
  lls_http_stream_write(exchange, &piece, 1);
}

void lls_sse_end(struct lls_http_exchange *exchange)
{
  lls_sse_data(exchange, "[DONE]", 6);
  lls_http_stream_end(exchange);
}
