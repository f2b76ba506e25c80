/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of answers that the client has not taken yet.
 *
 * Bytes go straight to the socket while it accepts them (one writev per token and no
 * copy: the usual case; with TLS one record per token). Other bytes are kept in two
 * buffers, one that is being written and one that grows meanwhile. A slow reader
 * therefore costs a bounded amount of memory and one write request, however many pieces
 * it lags behind.
 */
#ifndef LLS_HTTP_OUTPUT_H
#define LLS_HTTP_OUTPUT_H

#include <uv.h>

#include "core/base/text.h"
#include "core/http/tls.h"

struct lls_http_output {
  uv_stream_t *stream;
  struct lls_tls_stream *tls; /* of the connection, NULL: bytes are sent as they are */
  void (*on_drained)(struct lls_http_output *); /* the socket has taken the last byte */
  void (*on_failed)(struct lls_http_output *);  /* the client closed the connection */
  uv_write_t write;
  bool writing;
  struct lls_text in_flight, waiting;
  uint64_t total; /* bytes sent since the connection began */
  size_t *unread; /* the server's sum of the bytes that all outputs keep */
};

/* Limits on kept bytes: `own` of this output, `all` of the whole server before this
 * piece. */
struct lls_http_room {
  size_t own, all;
};

/* Returns 0; -ENOBUFS if a limit on kept bytes would be exceeded; or the socket's
 * error. With TLS the records count. */
int lls_http_output_send(struct lls_http_output *output, const uv_buf_t *pieces,
                         unsigned count, struct lls_http_room room);

/* Sends the records that TLS has made by itself: of the handshake, and the last one.
 * Returns what lls_http_output_send does. */
int lls_http_output_flush(struct lls_http_output *output, struct lls_http_room room);

/* Returns the bytes that the socket has not taken. */
size_t lls_http_output_unsent(const struct lls_http_output *output);

void lls_http_output_free(struct lls_http_output *output);

#endif
