/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One HTTP request to the process of a model, over its Unix socket, and the answer as it
 * arrives. Each request has a connection of its own, which costs some 20 us and leaves
 * nothing to be reused in a wrong state. Everything runs on [main].
 */
#ifndef LLS_ROUTING_UPSTREAM_H
#define LLS_ROUTING_UPSTREAM_H

#include <uv.h>

#include "core/base/text.h"

/* The state that all upstreams of a server share. */
struct lls_upstreams {
  uv_loop_t *uv;
  const void *thread; /* [main] */
  size_t most_read;   /* bytes of one read, at most those of `buffer` */
  char buffer[65536]; /* parsed before the next read */
  /* Called when a request's body has been freed; may be NULL. */
  void (*freed)(void *context, size_t bytes);
  void *context;
  unsigned open; /* connections whose handles are not closed yet */
  size_t unsent; /* bytes of pieces (lls_upstream_send) that no process has taken */
};

struct lls_upstream;

/* The head of an answer. */
struct lls_upstream_head {
  unsigned status;
  int64_t length;               /* of the body, or -1: it ends where it ends */
  const struct lls_text *lines; /* headers: name, NUL, value, NUL, and so on */
};

/* How the answer arrives. `end` is called once, last, unless the owner closes first: rc
 * is 0, or a negative errno if the answer is not complete. */
struct lls_upstream_reader {
  void *context;
  void (*head)(void *context, const struct lls_upstream_head *head);
  void (*body)(void *context, const char *data, size_t length);
  void (*end)(void *context, int rc);
};

/*
 * Connects to the socket and sends head and body, which it takes over whatever it
 * returns. The head is complete, with its empty line; for `no_body` (HEAD) no body is
 * expected in the answer. Returns 0, or a negative errno without any callback.
 */
int lls_upstream_open(struct lls_upstreams *all, const char *path, struct lls_text *head,
                      struct lls_text *body, bool no_body,
                      const struct lls_upstream_reader *reader,
                      struct lls_upstream **out);

/*
 * For a request whose body follows in pieces: called right after lls_upstream_open, with
 * an empty body. The answer is not read before lls_upstream_resume, which is called after
 * the last piece: a process may answer before it has read all of a body.
 * `taken` is called when the process has taken a piece, or cannot take any more.
 */
void lls_upstream_stream(struct lls_upstream *upstream, void (*taken)(void *context));

/* Sends a piece, which it takes over. Returns 0 or -ENOMEM. After an error of the socket
 * pieces are dropped; the answer, or its lack, tells why. */
int lls_upstream_send(struct lls_upstream *upstream, struct lls_text *piece);

/* Returns the bytes of pieces that the process has not taken. */
size_t lls_upstream_unsent(const struct lls_upstream *upstream);

/* Stop reading the answer, and continue. */
void lls_upstream_pause(struct lls_upstream *upstream);
void lls_upstream_resume(struct lls_upstream *upstream);

/* For `end` of a request that failed: if the process did not accept the connection, so
 * that it has seen nothing, returns true and gives the body back. */
bool lls_upstream_take_back(struct lls_upstream *upstream, struct lls_text *body);

/* Ends the connection, which cancels the request; no callback follows. */
void lls_upstream_close(struct lls_upstream *upstream);

#endif
