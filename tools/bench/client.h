/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP side of the load generator: POST and GET to one server over connections that
 * are kept and used again, answers are read as they arrive.
 *
 * A connection belongs to one fetch at a time. A connection that the server has closed
 * between two requests is noticed only by the next request, which is then sent once
 * more on a new connection, while its clock continues. Everything happens on one uv
 * loop.
 */
#ifndef LLS_BENCH_CLIENT_H
#define LLS_BENCH_CLIENT_H

#include <uv.h>

#include "core/base/error.h"
#include "core/base/text.h"

struct lls_client;
struct lls_connection;

/* A request. It belongs to the caller until on_end or lls_fetch_cancel. */
struct lls_fetch {
  void *context;
  /* Called with the data of each server-sent event as soon as it is complete; may be
   * NULL. */
  void (*on_event)(struct lls_fetch *, const char *data, size_t length);
  /* Called when the request was handed to the kernel; may be NULL. */
  void (*on_sent)(struct lls_fetch *);
  /* Called once at the end. 0: the answer is complete; -errno: it is not. */
  void (*on_end)(struct lls_fetch *, int status);
  uint64_t bytes_per_second; /* limit of the reading rate; 0: none */
  unsigned status;           /* HTTP status; 0 before an answer */
  struct lls_text body;      /* the answer if it is no event stream, up to 1 MiB */
  struct lls_text request;   /* head and body; owned by the fetch until it ends */
  struct lls_connection *connection;
};

/* Resolves the host's name immediately. */
int lls_client_create(uv_loop_t *, const char *host, const char *port,
                      struct lls_client **out, struct lls_error *err);
/* Closes idle connections; no fetch may be under way. Free the client after the loop
 * has ended. */
void lls_client_close(struct lls_client *);
void lls_client_free(struct lls_client *);

/* Sends fetch->request. Failures are reported through on_end, never from this call. */
void lls_fetch_send(struct lls_client *, struct lls_fetch *);
/* Closes the connection; on_end is not called. Not to be called after on_end. */
void lls_fetch_cancel(struct lls_fetch *);

/* Connections made since the beginning. */
uint64_t lls_client_connections(const struct lls_client *);

#endif
