/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which guesses a step verifies where requests have paces (a TPOT or a time between
 * tokens), by the two selections of "AdaServe: Accelerating Multi-SLO LLM Serving with
 * SLO-Customized Speculative Decoding" (Li et al., 2025):
 *
 *   1. for deadlines: requests in descending order of the tokens that they need in this
 *      step. Each gets its likeliest guesses until the expected tokens are enough.
 *   2. for throughput: the likeliest guesses of all requests, as long as the
 *      budget lasts and they pay.
 *
 * A guess counts with the probability that it and all guesses before it are accepted. The
 * guesses of a request are a chain, so its likeliest ones are its first. Where no request
 * has a pace, the guesses are those that pay (drafts.h).
 */
#ifndef LLS_POL_PACED_H
#define LLS_POL_PACED_H

#include <llmserve/policy/drafts.h>
#include <llmserve/policy/heap.h>
#include <llmserve/scheduler.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The user words of a request that are not the scheduler's own. */
enum {
  LLS_POL_PACED_GUESSES = 1, /* of this plan */
  LLS_POL_PACED_BEGAN_NS,    /* when its pace began to count: at its first token */
  LLS_POL_PACED_BEGAN_AT,    /* the tokens that it had generated then */
};

struct lls_pol_paced_need {
  const struct lls_request *request;
  double tokens;      /* needed in this step; at most 1: no guess is needed */
  double probability; /* of all the guesses selected so far */
};

struct lls_pol_paced {
  struct lls_pol_paced_need *needs; /* (capacity) of the decodes */
  uint32_t *contexts;               /* (capacity) their cached tokens */
  struct lls_pol_heap likeliest;
  uint32_t n, capacity;
  uint32_t budget, for_deadlines, for_throughput; /* guesses, in the last plan */
};

/* capacity: most requests. Returns 0 or -ENOMEM; it must be freed even then. */
int lls_pol_paced_init(struct lls_pol_paced *, uint32_t capacity);
void lls_pol_paced_free(struct lls_pol_paced *);

/* Selects among the guesses of the view's decodes. A step with them takes at most
 * `stretch` times as long as without, by the cost service; step_ns is the expected time
 * until the step has ended, 0: as the cost service says. */
void lls_pol_paced_choose(struct lls_pol_paced *, const struct lls_cost *,
                          const struct lls_step_view *, double stretch, double step_ns);
/* For lls_pol_drafts.of (lls_pol_step_own_drafts). */
uint32_t lls_pol_paced_of(void *, const struct lls_request *);
/* Notes a request that has got tokens at `now_ns`; called for each result of a step. */
void lls_pol_paced_note(const struct lls_request *, int64_t now_ns);

#ifdef __cplusplus
}
#endif

#endif
