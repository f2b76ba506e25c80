/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fetches the blocks of requests that move between processes, concurrently with the
 * steps of both.
 *
 * The instance that takes over a request has reserved memory for it, and sends an
 * order: the slots that it needs of each block. In the other process the channel's
 * thread packs these slots into pieces, as many as the channel has room for; here the
 * channel's thread unpacks them into the blocks of its own instance, in their layout.
 * No step waits for a fetch or reads the blocks: at the target the request owns them,
 * and no policy plans it until the fetch is complete; at the source they are kept
 * unchanged until the request is settled.
 *
 * A dropped fetch writes nothing from that moment on, so its blocks can be given to
 * another request at once.
 *
 * If an instance has several ranks, each rank fetches its part of the blocks from the
 * rank with the same part. The calls of rank 0's step thread are sent to the other
 * ranks, which repeat them between the same two steps (lls_fetches_heed). Each rank
 * reports when its part is complete, and a fetch is complete when all parts are.
 */
#ifndef LLS_CLUSTER_FETCH_H
#define LLS_CLUSTER_FETCH_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/base/pack.h"

#define LLS_MAX_FETCHES 8 /* requests fetched at once; more wait at the target */

struct lls_engine;
struct lls_fetched;
struct lls_fetches;
struct lls_channel;
struct lls_pull;
struct lls_request;

/* The use of links (links.h) for blocks. NEEDED: having none is an error. */
enum lls_link_use { LLS_LINKS_NONE, LLS_LINKS_TRIED, LLS_LINKS_NEEDED };

struct lls_fetches_options {
  struct lls_engine *engine;
  struct lls_channel *channel;
  enum lls_link_use links;
  bool gpu_aware;     /* the channel can send from GPU memory, and then does so if the
                       * engine has a GPU */
  int64_t timeout_ns; /* longest time without progress of a piece on a link */
};

/* [main] */
int lls_fetches_create(const struct lls_fetches_options *, struct lls_fetches **out,
                       struct lls_error *err);
void lls_fetches_destroy(struct lls_fetches *); /* call it before the channel and the
                                                 * engine are destroyed */
bool lls_fetches_are_on_gpu(const struct lls_fetches *);
/* Returns why LLS_LINKS_TRIED has no links; "" if it has some, or was not set. */
const char *lls_fetches_why_no_links(const struct lls_fetches *);

/* [step] Prepares a fetch, which begins at the next release; the list is copied.
 * Returns 0 or -ENOMEM. */
int lls_fetches_begin(struct lls_fetches *, const struct lls_request *, uint32_t source,
                      const struct lls_pull *list, uint32_t n, uint64_t *ticket);
/* Starts prepared fetches: call it when the step has ended whose copies empty their
 * target blocks. */
void lls_fetches_release(struct lls_fetches *);
void lls_fetches_drop(struct lls_fetches *, uint64_t ticket);
/* [step] On all ranks except rank 0: repeats a call of rank 0's. */
int lls_fetches_heed(struct lls_fetches *, const void *note, size_t bytes,
                     struct lls_error *err);

/* All functions below are the channel thread's. Call this one before its first use of
 * the channel. */
void lls_fetches_begin_thread(struct lls_fetches *);

/* Gets the next order to send to an instance: `pack`, if not empty, is an order for
 * lls_fetches_serve; otherwise the ticket is to be dropped. Returns false if there is
 * none. */
struct lls_fetch_order {
  uint32_t source;
  uint64_t ticket;
  struct lls_pack pack;
};
bool lls_fetches_next_order(struct lls_fetches *, struct lls_fetch_order *out);

/* Handles an order of instance `from`, or drops it. Returns false if the order cannot
 * be served. */
bool lls_fetches_serve(struct lls_fetches *, uint32_t from, uint64_t ticket,
                       struct lls_unpack *);
void lls_fetches_unserve(struct lls_fetches *, uint32_t from, uint64_t ticket);
/* Sends pieces that there is room for, and receives pieces. Returns true if there was
 * any. */
bool lls_fetches_move(struct lls_fetches *);
/* Gets a fetch that has ended: it is complete, or its source has failed or is apart
 * (apart.h). Returns false if there is none. */
bool lls_fetches_next_done(struct lls_fetches *, struct lls_fetched *out);
/* Notes that another rank has completed its part of a fetch, of `bytes` bytes. */
void lls_fetches_add_part(struct lls_fetches *, uint64_t ticket, uint64_t bytes);
/* Fails a fetch, because the source cannot serve it or another rank failed to fetch its
 * part. */
void lls_fetches_fail(struct lls_fetches *, uint64_t ticket);
/* Gets a sentence on how blocks are sent between this instance and another one from now
 * on. Returns false if nothing has changed. */
bool lls_fetches_news(struct lls_fetches *, uint32_t *from, uint32_t *to,
                      struct lls_error *text);
/* lose: an instance has ended or was given up, so its fetches fail; find: it has come
 * back. */
void lls_fetches_lose(struct lls_fetches *, uint32_t index);
void lls_fetches_find(struct lls_fetches *, uint32_t index);
/* Data from an instance, and to it, was lost, but it was not: its fetches fail. */
void lls_fetches_cut(struct lls_fetches *, uint32_t index);

#endif
