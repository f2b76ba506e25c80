/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AlignedServe's scheduler, as its files share it; see README.
 *
 * Every prefilled request has one of four places, whichever tier holds its cache:
 *
 *   POOL     in the tree
 *   NEXT     member of the next batch: the paper's Candidate Batch Buffer
 *   SPARE    member of the running batch, but off the device or without memory to run:
 *            the paper's Candidate Requests Buffer
 *   RUNNING  decoded in every step
 *
 * A request with prompt tokens to compute has the place QUEUE; its order is that of the
 * view. Places are decisions and remain if a plan is not carried out: a RUNNING request
 * that is not on the device is uploaded again. Only whether a request is prefilled is not
 * decided here; it is checked when an event may have changed it, and for all requests if
 * a count differs from the view's (members.c).
 *
 * Requests offered by other instances (role decode) have places too, while their blocks
 * are still on the instance that prefilled them.
 */
#ifndef ALIGNED_H
#define ALIGNED_H

#include <llmserve/policy/fit.h>
#include <llmserve/policy/prefiller.h>
#include <llmserve/policy/scheduler.h>
#include "search.h"

enum expand { EXPAND_FULL, EXPAND_MIN };
enum victim { VICTIM_LONGEST, VICTIM_RANDOM };
enum batching { BATCHING_PREFIX, BATCHING_FCFS };
enum rest { REST_EVICT, REST_STAY };
enum pool { POOL_PREFILL, POOL_DECODE };
enum prefetch { PREFETCH_AUTO, PREFETCH_ON, PREFETCH_OFF };

struct aligned_params {
  int64_t len_max, leaf_width, rmin, expand, switch_below, victim, starve, max_wait;
  int64_t rest, headroom_iters, batching, prefetch, preempt, pool;
  int64_t prefill_batch, prefill_tokens;
  double bmax_frac, fill_frac, class_frac, rmin_frac, switch_frac, starve_rounds, slack;
  double bring_at, watermark, prefill_share, offers_frac, crb_frac;
};

enum place { QUEUE, POOL, NEXT, SPARE, RUNNING };

struct member { /* one for each slot */
  /* NULL: the slot is not in use; if offered, valid within a plan only */
  const struct lls_request *request;
  uint64_t id;
  uint8_t place;
  bool offered;     /* the request's cache is still on the instance that offers it */
  bool partial;     /* QUEUE, with some tokens cached */
  bool fresh;       /* the slot is in the list `fresh`, to be checked */
  bool leaves;      /* the request's offload was planned */
  uint32_t at;      /* RUNNING: index in `running` */
  uint32_t tag;     /* RUNNING: its batch */
  uint64_t seen;    /* offered: 1 + the step it was last seen in */
  uint64_t stocked; /* last plan that wanted it on the device of its instance */
  uint64_t named;   /* the plan that took it off the device or ended it */
  /* the batch it left because memory was short: SPARE again if it is offered before the
   * batch ends */
  uint64_t spare_id;
  uint32_t spare_tag;
};

/* Slots by length, the shortest first, then by arrival. */
struct buffer {
  uint32_t *slots; /* (max_requests) */
  uint32_t n;
};

struct aligned {
  struct lls_pol_scheduler base;
  struct aligned_params params;
  /* the scheduler's part if the instance has the prefill role */
  struct lls_pol_prefiller prefiller;

  struct member *members; /* (max_requests) */
  struct tree tree;       /* POOL */
  struct buffer next, spare;
  uint32_t *running, n_running; /* slots */
  uint32_t *fresh, n_fresh;     /* slots to check when the next plan begins */
  uint32_t *offers, n_offers;   /* slots */
  uint32_t *found;              /* slots that a search returned */
  /* prefilled, and partly prefilled, requests on this instance, without offered ones */
  uint32_t n_prefilled, n_partial;
  uint32_t block_tokens, window_tokens;
  struct lls_pol_fit fit; /* tokens in units */
  uint64_t plans;

  /* the newest batch */
  uint32_t tag;
  struct tree_range lengths; /* range of lengths when it was formed */
  bool joined; /* the batch has all lengths, or the old batch's remainder was as large */
  bool closed; /* other lengths starve: only its own lengths may join */
  uint64_t steps;       /* steps since the batch was formed */
  uint64_t peak_blocks; /* most blocks that ran since then */
  int64_t since_ns;     /* time it was formed */
  double batch_ns;      /* mean time between two batch switches */
  struct tree_range next_lengths;
  bool next_is_all;
  uint64_t class_blocks;
  uint32_t next_found; /* NEXT: enum search_case */
  uint32_t arriving;   /* requests in NEXT being uploaded after last plan */
  bool moves;          /* memory is transferred during steps */
  bool ahead;          /* the next batch is uploaded before it runs */
  bool remote;         /* POOL requests are kept on prefill instances */
  /* units of requests on their way to prefill instances */
  uint64_t leaving_units;
  struct lls_pol_place prefillers; /* chooses the instance that takes one back */
  uint32_t n_leaving;              /* requests handed over */
  uint32_t idle_plans;             /* plans in a row in which no request ran or moved */
  bool gives_way;                  /* returns come before taking over offers */
  bool prompts_ran;                /* the last plan ran prompts */
  int64_t debt_ns;                 /* time of decodes until the next prompts */
};

static inline struct member *member_of(struct aligned *a, const struct lls_request *r)
{
  return &a->members[r->slot];
}

static inline uint32_t length_of(const struct aligned *a, uint32_t slot)
{
  return a->members[slot].request->cached_tokens;
}

/* Blocks a sequence of `tokens` holds: with a window in every layer, only the window's.
 */
static inline uint32_t blocks_of(const struct aligned *a, uint32_t tokens)
{
  if (a->window_tokens > 0)
    tokens = lls_pol_min(tokens, a->window_tokens + a->block_tokens);
  return (tokens + a->block_tokens - 1) / a->block_tokens;
}

/* Units that a sequence of `tokens` holds. */
static inline int64_t units_of(const struct aligned *a, uint32_t tokens)
{
  return a->window_tokens > 0 ? (int64_t)a->fit.growth_units * blocks_of(a, tokens)
                              : (int64_t)lls_pol_fit_units(&a->fit, tokens);
}

/* True if the request is on the device and this plan does not take it off. The state
 * PREFILLING counts: a dropped request may have been prefilled again up to its last token
 * but one. */
static inline bool is_resident(const struct aligned *a, uint32_t slot)
{
  const struct member *m = &a->members[slot];
  uint32_t state = m->request->state;
  return !m->offered && m->named != a->plans &&
         (state == LLS_DECODING || state == LLS_PREFILLING);
}

/* ---- members.c: places of requests */
void members_set(struct aligned *, uint32_t slot, enum place, int64_t now_ns);
/* Ends the request with LLS_FINISH_CAPACITY. */
void members_reject(struct aligned *, struct lls_pol_step *, uint32_t slot);
void members_begin(struct aligned *, const struct lls_step_view *);
void members_on_arrival(void *self, const struct lls_request *);
void members_on_finish(void *self, const struct lls_request *, uint32_t reason);
void members_on_step(struct aligned *, const struct lls_step_report *);
/* Returns the index of a buffer's first request of at least `length` tokens. */
uint32_t buffer_find(const struct aligned *, const struct buffer *, uint32_t length);

/* ---- batch.c: forming the next batch and switching to it */
void batch_form(struct aligned *, struct lls_pol_step *);
uint64_t batch_blocks(const struct aligned *);
int64_t batch_room(const struct aligned *, const struct lls_pol_step *);
bool batch_is_low(const struct aligned *, const struct lls_pol_step *, double times);
bool batch_is_due(const struct aligned *, const struct lls_pol_step *);
void batch_switch(struct aligned *, struct lls_pol_step *);
void batch_fill(struct aligned *, struct lls_pol_step *, uint32_t seats);
/* Finds requests of the pool that would join the running batch next, up to `blocks`. */
void batch_candidates(const struct aligned *, uint64_t blocks, struct search_batch *);
struct tree_range batch_range(const struct aligned *);
uint32_t batch_median(const struct aligned *);

/* ---- decode.c: the running batch */
void decode_plan(struct aligned *, struct lls_pol_step *);
/* Returns the units that n running requests must leave free to grow into. */
uint32_t decode_headroom(const struct aligned *, const struct lls_pol_step *, uint32_t n);
/* Returns the units needed to decode the request on this instance. */
uint32_t decode_units(struct aligned *, const struct lls_pol_step *,
                      const struct lls_request *);
uint32_t decode_need(const struct aligned *);
uint32_t decode_choose_victim(struct aligned *); /* a place in `running` */

/* ---- home.c: returning requests to the prefill instances */
void home_begin(struct aligned *, const struct lls_step_view *);
/* Returns false if no instance can take the request. */
bool home_send(struct aligned *, struct lls_pol_step *, uint32_t slot);

/* ---- moves.c: memory ahead of need */
void moves_plan(struct aligned *, struct lls_pol_step *);

/* ---- queue.c: prompts, on an instance that prefills and decodes */
void queue_plan(struct aligned *, struct lls_pol_step *);

#endif
