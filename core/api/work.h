/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that takes time between a request and its answer: reading, rendering and
 * tokenising a body, writing a long answer. A small piece of work runs at once, on
 * [main]; a large one on a thread of libuv's pool, so that no other stream waits for
 * it.
 *
 *   begin --small---> run, answer, destroy                         all on [main]
 *     +-----large---> WAITING --> run, on a thread --> answer, destroy   on [main]
 *
 * At most LLS_WORK_AT_ONCE run at a time, which bounds the processors and memory used.
 * Clients take turns, each with its oldest work; a client is a tenant or, without one,
 * an address. One of the places is reserved for bodies below LLS_WORK_HEAVY, so that a
 * large schema, which may take seconds to compile, does not delay small bodies. If a
 * client disconnects while its work waits, the work is dropped; if its work is running,
 * run completes and answer is not called.
 *
 * Ownership: run may use the work itself, which no other thread uses meanwhile, and the
 * immutable objects that config points to (tokenizer, template, names). api and
 * exchange belong to [main].
 */
#ifndef LLS_API_WORK_H
#define LLS_API_WORK_H

#include "core/api/api_internal.h"

#define LLS_WORK_AT_ONCE 2
/* A body of this many bytes runs on a thread: the worst smaller one takes some 4 ms of a
 * core. */
#define LLS_WORK_LARGE 16384
/* A body of this many bytes may take seconds; such work may use all places but one. */
#define LLS_WORK_HEAVY 65536
/* Bytes of a body whose memory is given back to the system at once: a trim takes some
 * 0.1 ms for a heap of 10 MiB, reading such a body several. */
#define LLS_WORK_TRIM (256 << 10)

/* The first member of the struct of each kind of work; the caller of lls_work_begin
 * allocates it. */
struct lls_work {
  /* [any] Does the work. */
  void (*run)(struct lls_work *work);
  /* [main] After run: answers the exchange, or passes it on. */
  void (*answer)(struct lls_work *work, struct lls_http_exchange *exchange);
  /* [main] Last: frees the work, whether it was run or not. */
  void (*destroy)(struct lls_work *work);
  struct lls_text body;         /* the request's body */
  size_t held;                  /* [main] bytes of body counted by the HTTP server */
  struct lls_api_config config; /* a copy: main may change the api's meanwhile */

  struct lls_api *api;                /* [main] */
  struct lls_http_exchange *exchange; /* [main] NULL: the client has disconnected */
  /* [main] links of api->works, until the work has run */
  struct lls_work *prev, *next;
  uint32_t client; /* [main] a hash of the client, for turns */
  size_t bytes;    /* [main] size of the body */
  bool running;    /* [main] */
  bool offline;    /* [main] began without an exchange */
  uv_work_t job;
};

/* Takes over the work, the exchange until `answer`, and the exchange's body. exchange
 * NULL: the work has no client; the caller sets work->body, and answer gets NULL. */
void lls_work_begin(struct lls_api *api, struct lls_http_exchange *exchange,
                    struct lls_work *work, bool large);

/* Returns true if no work waits or runs and the store has no job of a client. */
bool lls_work_idle(const struct lls_api *api);

#endif
