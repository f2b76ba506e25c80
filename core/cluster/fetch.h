/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of requests that move between processes, beside the steps of both.
 *
 * The instance that takes a request over has reserved room for it, and asks: of these
 * blocks those slots. The channel's thread of the other process packs them, a piece at a
 * time and as many pieces as the channel has room for, and the channel's thread here
 * unpacks what comes into the blocks of its own instance, in their layout. No step waits
 * for any of it, nor looks at the blocks: here they are the request's, which no policy
 * plans before they are there, and there they are kept and not written until it is
 * settled.
 *
 * A fetch that is dropped writes nothing from that moment on, so that its blocks can go
 * to another request at once.
 *
 * Where an instance has several ranks each fetches its part of the blocks, from the rank
 * with the same part. What the first one's step thread does here it tells the others, who
 * do it between the same two steps (lls_fetches_heed); they tell when they have theirs,
 * and a fetch is over when all have.
 */
#ifndef LLS_CLUSTER_FETCH_H
#define LLS_CLUSTER_FETCH_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/base/pack.h"

#define LLS_MAX_FETCHES 8 /* requests on their way to an instance; more wait there */

struct lls_engine;
struct lls_fetched;
struct lls_fetches;
struct lls_channel;
struct lls_pull;
struct lls_request;

/* Blocks go by links (links.h) where there are some: NEEDED: else there is an error. */
enum lls_link_use { LLS_LINKS_NONE, LLS_LINKS_TRIED, LLS_LINKS_NEEDED };

struct lls_fetches_options {
  struct lls_engine *engine;
  struct lls_channel *channel;
  enum lls_link_use links;
  bool gpu_aware; /* the channel takes what is in a GPU's memory, where they then go from
                   * and to, if the engine has one */
  int64_t timeout_ns; /* of a piece on a link */
};

/* [main] */
int lls_fetches_create(const struct lls_fetches_options *, struct lls_fetches **out,
                       struct lls_error *err);
void lls_fetches_destroy(struct lls_fetches *); /* before the channel and the engine */
bool lls_fetches_are_on_gpu(const struct lls_fetches *);
/* Why LLS_LINKS_TRIED has none; "": it has, or was not asked. */
const char *lls_fetches_why_no_links(const struct lls_fetches *);

/* [step] Begins to fetch, once it is released; the list is copied. -ENOMEM. */
int lls_fetches_begin(struct lls_fetches *, const struct lls_request *, uint32_t source,
                      const struct lls_pull *list, uint32_t n, uint64_t *ticket);
/* Those begun may come: the step has ended whose copies empty the blocks they go to. */
void lls_fetches_release(struct lls_fetches *);
void lls_fetches_drop(struct lls_fetches *, uint64_t ticket);
/* [step] of another rank than the first: what the first one's has done. */
int lls_fetches_heed(struct lls_fetches *, const void *note, size_t bytes,
                     struct lls_error *err);

/* The rest is the channel's thread's, which calls this before it uses the channel. */
void lls_fetches_begin_thread(struct lls_fetches *);

/* The next that is to be told to an instance: pack, if any, is what lls_fetches_serve
 * wants to hear there, else the ticket is to be dropped. False: nothing. */
struct lls_fetch_order {
  uint32_t source;
  uint64_t ticket;
  struct lls_pack pack;
};
bool lls_fetches_next_order(struct lls_fetches *, struct lls_fetch_order *out);

/* Instance `from` wants blocks of this one, or no longer. False: it cannot have them. */
bool lls_fetches_serve(struct lls_fetches *, uint32_t from, uint64_t ticket,
                       struct lls_unpack *);
void lls_fetches_unserve(struct lls_fetches *, uint32_t from, uint64_t ticket);
/* Sends what there is room for, takes what has come. True: there was something. */
bool lls_fetches_move(struct lls_fetches *);
/* A fetch that is over: all is there, or the source is gone. False: none. */
bool lls_fetches_next_done(struct lls_fetches *, struct lls_fetched *out);
/* Another rank's part of it is there, so many bytes. */
void lls_fetches_add_part(struct lls_fetches *, uint64_t ticket, uint64_t bytes);
/* Its source cannot serve it, or another rank has failed to fetch its part. */
void lls_fetches_fail(struct lls_fetches *, uint64_t ticket);
/* How blocks go to another instance from now on: a sentence. False: no news. */
bool lls_fetches_news(struct lls_fetches *, uint32_t *to, struct lls_error *text);
/* An instance is gone, or given up; and has come back. */
void lls_fetches_lose(struct lls_fetches *, uint32_t index);
void lls_fetches_find(struct lls_fetches *, uint32_t index);

#endif
