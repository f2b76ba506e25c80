/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of answers that the client has not yet taken.
 *
 * Bytes go straight to the socket while it takes them (one writev per token and no copy:
 * the usual case). What it doesn't take is kept in two buffers, one being written and one
 * that grows meanwhile, so a slow reader costs a bounded amount of memory and one write
 * request, however many pieces it lags behind.
 */
#ifndef LLS_HTTP_OUTPUT_H
#define LLS_HTTP_OUTPUT_H

#include <uv.h>

#include "core/base/text.h"

struct lls_http_output {
  uv_stream_t *stream;
  void (*on_drained)(struct lls_http_output *); /* the last byte has been taken */
  void (*on_failed)(struct lls_http_output *);  /* the other side is gone */
  uv_write_t write;
  bool writing;
  struct lls_text in_flight, waiting;
  uint64_t total; /* bytes ever sent here */
  size_t *unread; /* bytes that all outputs of the server keep */
};

/* The most bytes kept: of this output, and of all the server's before this piece. */
struct lls_http_room {
  size_t own, all;
};

/* 0; -ENOBUFS: more bytes would be waiting than there is room for; or the socket's error.
 */
int lls_http_output_send(struct lls_http_output *output, const uv_buf_t *pieces,
                         unsigned count, struct lls_http_room room);

/* Bytes that the socket has not taken. */
size_t lls_http_output_unsent(const struct lls_http_output *output);

void lls_http_output_free(struct lls_http_output *output);

#endif
