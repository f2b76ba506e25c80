/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many of a drafter's guesses a step verifies: as many as let it emit the most tokens
 * in a time. A step of D decodes that verifies k guesses takes T(k) by the cost service,
 * of which T0 is the time of its prompts alone, and emits D + G(k) tokens, where a guess
 * counts with the odds that it and all before it are right. The step that maximises
 *
 *   (D + G(k)) / (T(k) - T0)
 *
 * verifies the guesses whose odds are at least
 *
 *   least = t (D + G(k)) / (T(k) - T0),  t = (T(k) - T(0)) / k: the time of one
 *
 * (Dinkelbach, "On nonlinear fractional programming", 1967), and none if that is no
 * better than k = 0. With few decodes a step's time is that of reading the weights, t is
 * small, and unlikely guesses are worth verifying; the more sequences a step has, the
 * less another token costs without guesses, and k falls to 0.
 */
#ifndef LLS_POL_DRAFTS_H
#define LLS_POL_DRAFTS_H

#include <llmserve/scheduler.h>

#ifdef __cplusplus
extern "C" {
#endif

/* With more decodes a step verifies none. */
#define LLS_POL_DRAFTS_DECODES 256

struct lls_pol_drafts {
  double least; /* odds of the least likely guess that is verified; above 1: none is */
  /* A policy's own choice instead: returns how many of the request's guesses are
   * verified, and is given `context`. NULL: by `least`. */
  uint32_t (*of)(void *context, const struct lls_request *);
  void *context;
  uint32_t fewest; /* guesses of each request that are verified in any case */
};

/* A choice of no guess. */
#define LLS_POL_DRAFTS_NONE                                                              \
  {                                                                                      \
    2, NULL, NULL, 0                                                                     \
  }

/* Chooses for a step that runs all decodes of the view, and at least the view's
 * min_drafts of each. */
void lls_pol_drafts_choose(struct lls_pol_drafts *, const struct lls_cost *,
                           const struct lls_step_view *);
/* Returns how many guesses a step can verify at most (lls_plan_run_drafts). */
uint32_t lls_pol_drafts_most(const struct lls_step_view *);
/* Returns how many of the request's guesses are chosen. */
uint32_t lls_pol_drafts_of(const struct lls_pol_drafts *, const struct lls_request *);

#ifdef __cplusplus
}
#endif

#endif
