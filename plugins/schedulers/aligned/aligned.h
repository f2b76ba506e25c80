/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AlignedServe's scheduler, as its files share it; see README.
 *
 * Every request that is prefilled is in one of four places, wherever its cache is:
 *
 *   POOL     in the tree
 *   NEXT     of the batch that runs next: the paper's Candidate Batch Buffer
 *   SPARE    of the batch that runs, and not on the device or without room yet: its
 *            Candidate Requests Buffer
 *   RUNNING  decoded in every step
 *
 * and all others, which have tokens to compute before they are decoded, are in the QUEUE,
 * which is the view's. Places are decisions, and stay what they are if a plan is not
 * carried out: a request that runs and is not on the device is just brought there again.
 * Only whether a request is prefilled is not ours to decide; it is looked at when
 * something may have changed it, and of all if a count differs from the view's
 * (members.c).
 *
 * Requests that others offer (role decode) have places too, while their blocks are still
 * where they were prefilled.
 */
#ifndef ALIGNED_H
#define ALIGNED_H

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

struct member {                      /* of a slot */
  const struct lls_request *request; /* NULL: none; one that is offered: in plan only */
  uint64_t id;
  uint8_t place;
  bool offered;     /* another instance has it still */
  bool partial;     /* of the queue, and something of it is cached */
  bool fresh;       /* in the list of those to look at */
  bool leaves;      /* was sent to the host */
  uint32_t at;      /* RUNNING: in the list */
  uint32_t tag;     /* RUNNING: of its batch */
  uint64_t seen;    /* offered: 1 + the step */
  uint64_t stocked; /* the last plan that wanted it on the device of who has it */
  uint64_t named;   /* the plan that has taken it off the device, or ended it */
  /* the batch that it left for want of memory: SPARE again, if it is offered meanwhile */
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
  struct lls_pol_prefiller prefiller; /* of the role */

  struct member *members; /* (max_requests) */
  struct tree tree;       /* POOL */
  struct buffer next, spare;
  uint32_t *running, n_running;    /* slots */
  uint32_t *fresh, n_fresh;        /* slots to look at when the next plan begins */
  uint32_t *offers, n_offers;      /* slots */
  uint32_t *found;                 /* of a search */
  uint32_t n_prefilled, n_partial; /* here: not those that are offered */
  uint32_t block_tokens, window_tokens;
  uint64_t plans;

  uint32_t tag;              /* of the newest batch */
  struct tree_range lengths; /* that it had when it was made */
  bool joined;               /* it is of all lengths, or what was left was as large */
  bool closed;               /* others starve: none but of its own lengths joins it */
  uint64_t steps;            /* of it since then */
  uint64_t peak_blocks;      /* most that ran since then */
  int64_t since_ns;          /* when it was */
  double batch_ns;           /* from one switch to the next, in the mean */
  struct tree_range next_lengths;
  bool next_is_all;
  uint64_t class_blocks;
  uint32_t next_found;             /* NEXT: enum search_case */
  uint32_t arriving;               /* of NEXT, on their way when the last plan ended */
  bool moves;                      /* memory moves beside steps */
  bool ahead;                      /* and the next batch is brought here before */
  bool remote;                     /* the pool is of the instances that prefill */
  uint64_t leaving_units;          /* handed to those, and not there yet */
  struct lls_pol_place prefillers; /* whose turn it is to take those that go home */
  uint32_t n_leaving;              /* handed over */
  uint32_t idle_plans;             /* one after the other in which none ran or moved */
  bool gives_way;                  /* what leaves goes before what is offered */
  bool prompts_ran;                /* in the last plan */
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

/* A block of tokens, in KV form, takes a unit for K and one for V (cache.h). */
#define BLOCK_UNITS 2

/* Where every layer has a window a sequence holds no more than that sees. */
static inline uint32_t blocks_of(const struct aligned *a, uint32_t tokens)
{
  if (a->window_tokens > 0)
    tokens = lls_pol_min(tokens, a->window_tokens + a->block_tokens);
  return (tokens + a->block_tokens - 1) / a->block_tokens;
}

/* It is on the device, and not about to leave it. One that was dropped may have been
 * prefilled again to the last token but one: it is not decoding by its state yet. */
static inline bool is_resident(const struct aligned *a, uint32_t slot)
{
  const struct member *m = &a->members[slot];
  uint32_t state = m->request->state;
  return !m->offered && m->named != a->plans &&
         (state == LLS_DECODING || state == LLS_PREFILLING);
}

/* ---- members.c: places of requests */
void members_set(struct aligned *, uint32_t slot, enum place, int64_t now_ns);
/* It ends with CAPACITY. */
void members_reject(struct aligned *, struct lls_pol_step *, uint32_t slot);
void members_begin(struct aligned *, const struct lls_step_view *);
void members_on_arrival(void *self, const struct lls_request *);
void members_on_finish(void *self, const struct lls_request *, uint32_t reason);
void members_on_step(struct aligned *, const struct lls_step_report *);
/* Where a buffer's first of at least that length is. */
uint32_t buffer_find(const struct aligned *, const struct buffer *, uint32_t length);

/* ---- batch.c: what runs next */
void batch_form(struct aligned *, struct lls_pol_step *);
uint64_t batch_blocks(const struct aligned *);
int64_t batch_room(const struct aligned *, const struct lls_pol_step *);
bool batch_is_low(const struct aligned *, const struct lls_pol_step *, double times);
bool batch_is_due(const struct aligned *, const struct lls_pol_step *);
void batch_switch(struct aligned *, struct lls_pol_step *);
void batch_fill(struct aligned *, struct lls_pol_step *, uint32_t seats);
/* Those of the pool that would join it next, so many blocks of them. */
void batch_candidates(const struct aligned *, uint64_t blocks, struct search_batch *);
struct tree_range batch_range(const struct aligned *);
uint32_t batch_median(const struct aligned *);

/* ---- decode.c: the running batch */
void decode_plan(struct aligned *, struct lls_pol_step *);
/* Units that n running requests must leave free to grow into. */
uint32_t decode_headroom(const struct aligned *, const struct lls_pol_step *, uint32_t n);
/* Units it takes to decode it here. */
uint32_t decode_units(struct aligned *, const struct lls_pol_step *,
                      const struct lls_request *);
uint32_t decode_need(const struct aligned *);
uint32_t decode_choose_victim(struct aligned *); /* a place in `running` */

/* ---- home.c: back to the instances that prefill */
void home_begin(struct aligned *, const struct lls_step_view *);
/* False: it can't go there. */
bool home_send(struct aligned *, struct lls_pol_step *, uint32_t slot);

/* ---- moves.c: memory ahead of need */
void moves_plan(struct aligned *, struct lls_pol_step *);

/* ---- queue.c: prompts beside decodes, on an instance that does both */
void queue_plan(struct aligned *, struct lls_pol_step *);

#endif
