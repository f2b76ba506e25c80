/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that takes time between a request and its answer: reading, rendering and
 * tokenising a body, writing a long answer. Little of it is done at once, on [main]; much
 * of it on a thread of libuv's pool, so that no other stream waits for it.
 *
 *   begin --little--> run, answer, destroy                         all on [main]
 *     +-----much----> WAITING --> run, on a thread --> answer, destroy   on [main]
 *
 * At most LLS_WORK_AT_ONCE are run at a time: that bounds what they take of processors
 * and memory. Clients take turns, each with its oldest, a client being a tenant or,
 * without one, an address. One place is for small bodies alone, so that a large schema,
 * which may take seconds to compile, holds up no small one of anybody's. A client that
 * goes away while its work waits takes it along; while it runs, run goes on to its end
 * and answer is left out.
 *
 * Ownership: run touches the work itself, which is its alone while it runs, and what
 * config points to and no one changes (tokenizer, template, names). api and exchange
 * belong to [main].
 */
#ifndef LLS_API_WORK_H
#define LLS_API_WORK_H

#include "core/api/api_internal.h"

#define LLS_WORK_AT_ONCE 2
/* Bytes of a body that are worth a thread: the worst take some 4 ms of a core. */
#define LLS_WORK_LARGE 16384
/* Bytes from which on it may be seconds: all places but one are for these. */
#define LLS_WORK_HEAVY 65536
/* Bytes of a body whose memory is given back to the system at once: a trim takes some
 * 0.1 ms for a heap of 10 MiB, reading such a body several. */
#define LLS_WORK_TRIM (256 << 10)

/* First member of what a kind of work needs more; allocated by its maker. */
struct lls_work {
  /* On any thread. */
  void (*run)(struct lls_work *work);
  /* After run, on main: answers the exchange, or passes it on. */
  void (*answer)(struct lls_work *work, struct lls_http_exchange *exchange);
  /* On main, last: frees the work, whether it was run or not. */
  void (*destroy)(struct lls_work *work);
  struct lls_text body;         /* of the request */
  size_t held;                  /* [main] its bytes that the HTTP server counts */
  struct lls_api_config config; /* as it was when the work began: main may change it */

  struct lls_api *api;                /* [main] */
  struct lls_http_exchange *exchange; /* [main] NULL: the client is gone */
  struct lls_work *prev, *next;       /* [main] in api->works, until it has run */
  uint32_t client;                    /* [main] by whom turns are taken */
  size_t bytes;                       /* [main] of its body */
  bool running;                       /* [main] */
  bool offline;                       /* [main] there never was an exchange */
  uv_work_t job;
};

/* Takes over the work, the exchange until `answer`, and the exchange's body. exchange
 * NULL: nobody can go away, work->body is the maker's to set, and answer is given NULL.
 */
void lls_work_begin(struct lls_api *api, struct lls_http_exchange *exchange,
                    struct lls_work *work, bool large);

/* True if no work waits or runs, nor an errand in the store. */
bool lls_work_idle(const struct lls_api *api);

#endif
