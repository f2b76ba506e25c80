/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Common parts of schedulers while they make a plan: making room for running requests at
 * the cost of the last ones, letting waiting requests in above a watermark, bringing
 * swapped requests back. Each scheduler decides in which order, when it does which, and
 * for how many tokens.
 *
 * There is no state besides the view: its lists are in arrival order, a request that was
 * preempted is among the waiting (or preempted) ones at its old place. Memory is decided
 * by reserving it in the step's transaction, never by arithmetic; the two numbers that
 * are compared, watermark and one free block, are margins and not the truth.
 *
 * Linked into each plugin that uses it.
 */
#ifndef LLS_POL_STEP_H
#define LLS_POL_STEP_H

#include <llmserve/policy/number.h>
#include <llmserve/scheduler.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lls_pol_step { /* one plan in the making */
  const struct lls_step_view *view;
  const struct lls_cache_service *cache;
  struct lls_plan *plan;
  uint32_t tokens;    /* that may still be added to the plan */
  uint32_t sequences; /* likewise */
  uint32_t prompts;   /* tokens in the plan that are not of decodes */
  uint32_t runs;      /* items that run something */
  uint32_t preempted; /* in this plan */
  /* (view->n_running) requests on the device, in the order of view->running unless the
   * scheduler sets another: the last gives way first */
  const struct lls_request *const *order;
  uint32_t tail;  /* order[tail] and after have been preempted in this plan */
  bool no_margin; /* growing asks for what it takes, not for a whole free block */
  uint32_t total_units, watermark_units;
  uint32_t sure; /* growths by a block that need no look at the free memory */
};

/* Reserves without any condition; enum lls_reserve_result or -errno. */
int lls_pol_step_reserve(struct lls_pol_step *, const struct lls_request *,
                         uint32_t tokens);
uint32_t lls_pol_step_free_units(const struct lls_pol_step *);

enum lls_pol_step_answer {
  LLS_POL_STEP_YES,
  LLS_POL_STEP_NOT_NOW,
  LLS_POL_STEP_REJECTED
};

void lls_pol_step_begin(struct lls_pol_step *, const struct lls_step_view *,
                        struct lls_plan *, double watermark);
/* Says when to ask again if there is work but the plan is empty. */
void lls_pol_step_end(struct lls_pol_step *);

/* Plans `tokens` of a request whose memory is reserved. */
void lls_pol_step_run(struct lls_pol_step *, const struct lls_request *, uint32_t tokens);

/* Tokens to compute until the next one comes out; others' cached prefixes are free. */
uint32_t lls_pol_step_pending(const struct lls_pol_step *, const struct lls_request *);

/* How many of a prompt's `pending` tokens the step has room for, if all prompts together
 * may have `budget`: all; with `whole`, all or none, but for a prompt that no budget
 * would ever hold, which is cut and is the step's only prompt. An engine that can't cut
 * gets all or none, within its own limit instead. */
uint32_t lls_pol_step_chunk(const struct lls_pol_step *, const struct lls_engine_caps *,
                            uint32_t pending, uint32_t budget, bool whole);

/* True if the engine can't ever run that many at once; it is rejected then. */
bool lls_pol_step_too_long(struct lls_pol_step *, const struct lls_engine_caps *,
                           const struct lls_request *, uint32_t pending);

/* Rejects r if its prompt leaves no watermark even in an empty cache. */
bool lls_pol_step_never_fits(struct lls_pol_step *, const struct lls_request *);

/* Takes r off the device: in the mode that the core chose, or by recompute if the host
 * has no room. */
bool lls_pol_step_take_off(struct lls_pol_step *, const struct lls_request *);

/* Room for `tokens` more of order[i], if need be at the cost of those after it, the last
 * first, and of itself if it is the last. True: it can run. */
bool lls_pol_step_grow(struct lls_pol_step *, uint32_t i, uint32_t tokens);

/* Tokens of a decode that the step has room for: one, and those that were forced before
 * it. */
static inline uint32_t lls_pol_step_decode_tokens(const struct lls_pol_step *s,
                                                  const struct lls_request *r)
{
  return lls_pol_min(lls_request_pending(r), s->tokens);
}

/* Runs the decode order[i] if it can grow; how many tokens of it, or 0. */
uint32_t lls_pol_step_decode(struct lls_pol_step *, uint32_t i);

/* Room for all `pending` tokens of a waiting request, leaving the watermark free. */
enum lls_pol_step_answer lls_pol_step_admit(struct lls_pol_step *,
                                            const struct lls_request *, uint32_t pending);

/* Room for a preempted request, what it had and `pending` tokens, leaving a
 * block free. */
enum lls_pol_step_answer lls_pol_step_bring_back(struct lls_pol_step *,
                                                 const struct lls_request *,
                                                 uint32_t pending);

/* ---- parameters that all have ------------------------------------------------------ */

enum lls_pol_step_preempt { LLS_POL_STEP_RECOMPUTE, LLS_POL_STEP_SWAP };

/* Entries of a parameter table whose struct has double watermark, int64_t preempt. */
#define LLS_POL_STEP_PARAMETERS(STRUCT)                                                  \
  LLS_POL_STEP_WATERMARK(STRUCT, "0.01"), LLS_POL_STEP_PREEMPT(STRUCT)
#define LLS_POL_STEP_WATERMARK(STRUCT, DEFAULT)                                          \
  LLS_PARAM_FLOAT(STRUCT, watermark, DEFAULT, 0, 0.2, "",                                \
                  "part of the cache that must stay free when a request is let in",      \
                  .flags = LLS_PARAM_RELOADABLE)
#define LLS_POL_STEP_PREEMPT(STRUCT)                                                     \
  LLS_PARAM_CHOICE(STRUCT, preempt, "recompute", "recompute|swap",                       \
                   "how running requests make room: dropped and prefilled again, "       \
                   "or moved to the host")
#define LLS_POL_STEP_MAX_SEQS(STRUCT, DEFAULT)                                           \
  LLS_PARAM_INT(STRUCT, max_seqs, DEFAULT, 1, 65536, "sequences",                        \
                "most sequences that run at once", .flags = LLS_PARAM_RELOADABLE)
#define LLS_POL_STEP_MAX_TOKENS(STRUCT)                                                  \
  LLS_PARAM_INT(STRUCT, max_tokens, "2048", 1, 1e6, "tokens",                            \
                "most tokens of prompts in one step", .flags = LLS_PARAM_RELOADABLE)

/* Fills caps with the order of preference: swap (if wanted), recompute. */
void lls_pol_step_preferences(struct lls_scheduler_caps *, int64_t preempt);

#ifdef __cplusplus
}
#endif

#endif
