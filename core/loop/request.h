/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request while it is alive: the view that policies see, and what only the core needs.
 *
 * Made on [main] at submission with every byte it will ever need, handed to [step]
 * through the inbox, and freed on [main] when its FINISHED event has been handed out. In
 * between only [step] touches it.
 *
 * Ids carry their slot: id = sequence * slots + slot, with slots a power of two. So ids
 * increase with arrival, and an id finds its request in one load: no hash on the step
 * path.
 */
#ifndef LLS_LOOP_REQUEST_H
#define LLS_LOOP_REQUEST_H

#include "core/loop/loop.h"

/* What the open transaction has done for a request; cleared at its end. */
enum lls_placed {
  LLS_PLACED_NOT,
  LLS_PLACED_RESERVED,
  LLS_PLACED_PREEMPTED,
  LLS_PLACED_MOVING, /* its transfer starts */
};

struct lls_live {
  struct lls_request view; /* first: policies' handles are pointers to it */
  struct lls_live *next;   /* link in the inbox */
  void *owner;             /* main's; back in every event */
  int32_t *tokens;         /* (max_length) prompt then output; in this allocation */
  uint32_t max_length;
  struct lls_sampling sampling;
  uint32_t min_new_tokens;
  /* (n_stop_tokens) the client's and, unless it ignores them, the model's; in this
   * allocation */
  int32_t *stop_tokens;
  uint32_t n_stop_tokens;
  /* (prompt_tokens) or NULL; each entry is written once, before the first token is
   * sent, and then is main's to read; in this allocation */
  struct lls_sampled *scores;
  uint32_t n_scored; /* of them are there, the first, which has nothing, included */
  uint32_t score_logprobs;
  char *label; /* in this allocation */
  char *text;  /* (text_bytes) or NULL; in this allocation */
  size_t text_bytes;
  uint64_t user[LLS_USER_WORDS];
  int64_t first_token_ns;
  bool announced; /* the scheduler knows it: on_finish is due */

  uint32_t placed;       /* enum lls_placed */
  uint32_t preempt_mode; /* of LLS_PLACED_PREEMPTED */
  /* of LLS_PLACED_RESERVED: tokens cached before, to be computed now, and asked for (more
   * than computed if others had some of them) */
  uint32_t context, run_tokens, asked_tokens;
  uint64_t transfer;      /* the cache manager's, of LLS_MOVING */
  bool was_decoding;      /* before this step: its place in the cache stays as it was */
  uint64_t named_in_step; /* 1 + the last plan that named it: finds duplicates */
  bool doomed;            /* can never be placed: ends after this step's commit */
};

static inline struct lls_live *lls_live_of(const struct lls_request *view)
{
  return (struct lls_live *)(uintptr_t)view;
}

/* Prompt tokens still to be scored: each needs the row before it to be computed, so
 * nothing of the prompt may be taken from others. */
static inline uint32_t lls_live_unscored(const struct lls_live *live)
{
  return live->scores != NULL ? live->view.prompt_tokens - live->n_scored : 0;
}

/* [main] */
struct lls_live *lls_live_create(const struct lls_submission *, uint64_t id,
                                 uint32_t slot, uint32_t max_new_tokens, int64_t now_ns,
                                 const int32_t *eos_tokens, uint32_t n_eos_tokens);
void lls_live_free(struct lls_live *);

/*
 * Slots and who is in them. [main] takes and gives back slots, [step] finds requests: the
 * two halves share no member but `slots`.
 */
struct lls_request_table {
  uint32_t slots;            /* power of two */
  uint32_t *free_slots;      /* [main] (slots) stack */
  uint32_t n_free;           /* [main] */
  uint64_t sequence;         /* [main] of the next id */
  struct lls_live **by_slot; /* [step] (slots) NULL where nobody lives */
};

int lls_request_table_init(struct lls_request_table *, uint32_t max_requests);
void lls_request_table_free(struct lls_request_table *);

/* [main] -ENOSPC if all slots are taken. */
int lls_request_table_take(struct lls_request_table *, uint32_t *slot, uint64_t *id);
void lls_request_table_give_back(struct lls_request_table *, uint32_t slot);

/* [step] NULL if it is not alive. */
static inline struct lls_live *lls_request_table_find(const struct lls_request_table *t,
                                                      uint64_t id)
{
  struct lls_live *live = t->by_slot[id & (t->slots - 1)];
  return live != NULL && live->view.id == id ? live : NULL;
}

#endif
