/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Common parts of schedulers while they make a plan: freeing memory for running
 * requests by preempting the last ones, admitting waiting requests above a watermark,
 * bringing back swapped requests. Each scheduler decides the order, when to do which,
 * and for how many tokens.
 *
 * There is no state besides the view: its lists are in arrival order, and a preempted
 * request is among the waiting (or preempted) ones at its old place. Whether memory
 * suffices is decided by reserving it in the step's transaction, never by arithmetic;
 * the two numbers that are compared, the watermark and one free block, are only safety
 * margins.
 *
 * This code is linked into each plugin that uses it.
 */
#ifndef LLS_POL_STEP_H
#define LLS_POL_STEP_H

#include <llmserve/policy/drafts.h>
#include <llmserve/policy/number.h>
#include <llmserve/scheduler.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lls_pol_step { /* one plan in the making */
  const struct lls_step_view *view;
  const struct lls_cache_service *cache;
  struct lls_plan *plan;
  uint32_t tokens;    /* tokens that may still be added to the plan */
  uint32_t sequences; /* sequences that may still be added to the plan */
  uint32_t prompts;   /* prompt tokens in the plan */
  uint32_t runs;      /* items that run something */
  uint32_t preempted; /* requests preempted in this plan */
  /* (view->n_running) requests on the device, in the order of view->running unless the
   * scheduler sets another one: the last is preempted first */
  const struct lls_request *const *order;
  uint32_t tail;  /* order[tail] and after have been preempted in this plan */
  bool no_margin; /* growing needs exactly its units, not a whole free block */
  uint32_t total_units, watermark_units;
  uint32_t sure; /* growths by a block possible without checking the free memory */
  struct lls_pol_drafts drafts; /* see lls_pol_step_drafts */
  uint32_t draft_tokens; /* of the step that guesses may take; decodes have theirs */
};

/* Reserves unconditionally, if possible also for the guesses that are verified with all
 * pending tokens. Returns enum lls_reserve_result or -errno. */
int lls_pol_step_reserve(struct lls_pol_step *, const struct lls_request *,
                         uint32_t tokens);
/* ... in enum lls_form `form`, with enum lls_reserve_flags. */
int lls_pol_step_reserve_as(struct lls_pol_step *, const struct lls_request *,
                            uint32_t tokens, uint32_t form, uint32_t flags);
uint32_t lls_pol_step_free_units(const struct lls_pol_step *);

enum lls_pol_step_answer {
  LLS_POL_STEP_YES,
  LLS_POL_STEP_NOT_NOW,
  LLS_POL_STEP_REJECTED
};

void lls_pol_step_begin(struct lls_pol_step *, const struct lls_step_view *,
                        struct lls_plan *, double watermark);
/* Chooses the guesses that this plan verifies (drafts.h): lls_pol_step_reserve reserves
 * for them, and lls_pol_step_run plans them. Without this call it is none. Called when
 * `tokens` is set; a decode that runs later keeps its tokens of the step. */
void lls_pol_step_drafts(struct lls_pol_step *, const struct lls_cost *);
/* ... or those of a policy's own choice. */
void lls_pol_step_own_drafts(struct lls_pol_step *, const struct lls_pol_drafts *);
/* Returns how many guesses a run of `tokens` verifies. */
uint32_t lls_pol_step_drafts_of(const struct lls_pol_step *, const struct lls_request *,
                                uint32_t tokens);
/* Sets the time of the next plan if there is work but this plan is empty. */
void lls_pol_step_end(struct lls_pol_step *);

/* Plans `tokens` of a request whose memory is reserved. */
void lls_pol_step_run(struct lls_pol_step *, const struct lls_request *, uint32_t tokens);

/* Returns the tokens to compute until the next one is emitted; prefixes shared by the
 * cache are free. */
uint32_t lls_pol_step_pending(const struct lls_pol_step *, const struct lls_request *);

/*
 * Returns how many of a prompt's `pending` tokens fit into the step if all its prompts
 * together may have `budget`: all; with `whole`, all or none, except for a prompt
 * longer than any budget, which is cut and is the step's only prompt. For an engine
 * that cannot chunk it is all or none, within the engine's own limit instead.
 */
uint32_t lls_pol_step_chunk(const struct lls_pol_step *, const struct lls_engine_caps *,
                            uint32_t pending, uint32_t budget, bool whole);

/* Returns true if the engine can never run that many tokens at once; the request is
 * then rejected. */
bool lls_pol_step_too_long(struct lls_pol_step *, const struct lls_engine_caps *,
                           const struct lls_request *, uint32_t pending);

/* Rejects r if its prompt leaves no watermark even in an empty cache; then returns
 * true. */
bool lls_pol_step_never_fits(struct lls_pol_step *, const struct lls_request *);

/* Takes r off the device: in the mode that the core chose, or by recompute if the host
 * is full. */
bool lls_pol_step_take_off(struct lls_pol_step *, const struct lls_request *);

/* Reserves memory for `tokens` more of order[i], if necessary by preempting requests
 * after it, the last one first, and order[i] itself if it is the last. Returns true if
 * it can run. */
bool lls_pol_step_grow(struct lls_pol_step *, uint32_t i, uint32_t tokens);

/* Returns how many of a decode's tokens fit into the step: one, and the forced tokens
 * before it. */
static inline uint32_t lls_pol_step_decode_tokens(const struct lls_pol_step *s,
                                                  const struct lls_request *r)
{
  return lls_pol_min(lls_request_pending(r), s->tokens);
}

/* Runs the decode order[i] if it can grow. Returns its number of tokens, or 0. */
uint32_t lls_pol_step_decode(struct lls_pol_step *, uint32_t i);

/* Reserves memory for all `pending` tokens of a waiting request, leaving the watermark
 * free. */
enum lls_pol_step_answer lls_pol_step_admit(struct lls_pol_step *,
                                            const struct lls_request *, uint32_t pending);

/* Reserves memory for a preempted request, for its previous tokens and `pending` more,
 * leaving a block free. */
enum lls_pol_step_answer lls_pol_step_bring_back(struct lls_pol_step *,
                                                 const struct lls_request *,
                                                 uint32_t pending);

/* ---- parameters of all schedulers -------------------------------------------------- */

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

/* Fills caps with the order of preference: swap (if preferred), recompute; and says that
 * the scheduler calls lls_pol_step_drafts. */
void lls_pol_step_preferences(struct lls_scheduler_caps *, int64_t preempt);

#ifdef __cplusplus
}
#endif

#endif
