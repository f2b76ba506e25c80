/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP side of the load generator: POST and GET to one server over connections that
 * are kept and used again, answers read as they come.
 *
 * A connection belongs to one fetch at a time. One that the server has closed between two
 * requests is noticed only by the next, which then goes to a fresh one, once and with its
 * clock running. Everything happens on one uv loop.
 */
#ifndef LLS_BENCH_CLIENT_H
#define LLS_BENCH_CLIENT_H

#include <uv.h>

#include "core/base/error.h"
#include "core/base/text.h"

struct lls_client;
struct lls_connection;

/* One request; the caller's memory until on_end or lls_fetch_cancel. */
struct lls_fetch {
  void *context;
  /* The data of one server-sent event, as soon as it is whole; may be NULL. */
  void (*on_event)(struct lls_fetch *, const char *data, size_t length);
  /* The request has been handed to the kernel; may be NULL. */
  void (*on_sent)(struct lls_fetch *);
  /* 0: the answer is complete; -errno: it is not, and will not be. */
  void (*on_end)(struct lls_fetch *, int status);
  uint64_t bytes_per_second; /* read no faster; 0: as fast as it comes */
  unsigned status;           /* HTTP's; 0 before there is an answer */
  struct lls_text body;      /* of an answer that is no event stream, up to 1 MiB */
  struct lls_text request;   /* head and body; owned by the fetch until it ends */
  struct lls_connection *connection;
};

/* Looks the name up, at once. */
int lls_client_create(uv_loop_t *, const char *host, const char *port,
                      struct lls_client **out, struct lls_error *err);
/* Closes what is idle; nothing may be under way. Free it when the loop has ended. */
void lls_client_close(struct lls_client *);
void lls_client_free(struct lls_client *);

/* Sends fetch->request. Failures come through on_end, never from here. */
void lls_fetch_send(struct lls_client *, struct lls_fetch *);
/* Hangs up; on_end is not called. Not after on_end. */
void lls_fetch_cancel(struct lls_fetch *);

/* Connections made since the beginning. */
uint64_t lls_client_connections(const struct lls_client *);

#endif
