/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What first-come-first-served schedulers over a paged cache have in common: making room
 * for who runs by preempting the newest, letting in who waits above a watermark, bringing
 * back who was swapped out. Each scheduler decides when it does which, and for how many
 * tokens.
 *
 * There is no state besides the view: its lists are in arrival order, a request that was
 * preempted is among the waiting (or preempted) ones at its old place. Memory is decided
 * by reserving it in the step's transaction, never by arithmetic; the two numbers that
 * are compared, watermark and one free block, are margins and not the truth.
 *
 * Linked into each plugin that uses it.
 */
#ifndef STEP_H
#define STEP_H

#include <llmserve/scheduler.h>

struct step { /* one plan in the making */
  const struct lls_step_view *view;
  const struct lls_cache_service *cache;
  struct lls_plan *plan;
  uint32_t tokens;    /* that may still be added to the plan */
  uint32_t sequences; /* likewise */
  uint32_t runs;      /* items that run something */
  uint32_t preempted; /* in this plan */
  uint32_t tail;      /* running[tail] and after have been preempted in this plan */
  uint32_t total_units, watermark_units;
  uint32_t sure; /* growths by a block that need no look at the free memory */
};

enum step_answer { STEP_YES, STEP_NOT_NOW, STEP_REJECTED };

void step_begin(struct step *, const struct lls_step_view *, struct lls_plan *,
                double watermark);
/* Says when to ask again if there is work but the plan is empty. */
void step_end(struct step *);

/* Plans `tokens` of a request whose memory is reserved. */
void step_run(struct step *, const struct lls_request *, uint32_t tokens);

/* Tokens to compute until the next one comes out; others' cached prefixes are free. */
uint32_t step_pending(const struct step *, const struct lls_request *);

/* Room for `tokens` more of running[i], if need be at the cost of those that came after
 * it, the newest first, and of itself if it is the newest. True: it can run. */
bool step_grow(struct step *, uint32_t i, uint32_t tokens);

/* Room for all `pending` tokens of a waiting request, leaving the watermark free. */
enum step_answer step_admit(struct step *, const struct lls_request *, uint32_t pending);

/* Room for a preempted request, what it had and `pending` tokens, leaving a block free.
 */
enum step_answer step_bring_back(struct step *, const struct lls_request *,
                                 uint32_t pending);

/* ---- parameters that all have ------------------------------------------------------ */

enum step_preempt { STEP_RECOMPUTE, STEP_SWAP };

/* Entries of a parameter table whose struct has double watermark, int64_t preempt. */
#define STEP_PARAMETERS(STRUCT)                                                          \
  LLS_PARAM_FLOAT(STRUCT, watermark, "0.01", 0, 0.2, "",                                 \
                  "part of the cache that must stay free when a request is let in"),     \
      LLS_PARAM_CHOICE(STRUCT, preempt, "recompute", "recompute|swap",                   \
                       "how running requests make room: dropped and prefilled again, "   \
                       "or moved to the host")

/* Fills caps with the order of preference: swap (if wanted), recompute. */
void step_preferences(struct lls_scheduler_caps *, int64_t preempt);

#endif
