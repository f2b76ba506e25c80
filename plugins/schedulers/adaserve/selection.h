/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AdaServe's two selections: which guesses a step verifies.
 *
 *   1. for deadlines: requests in descending order of the tokens that they need in this
 *      step. Each gets its likeliest guesses until the expected tokens are enough.
 *   2. for throughput: the likeliest guesses of all requests, as long as the
 *      budget lasts and they pay.
 *
 * A guess counts with the probability that it and all guesses before it are accepted. The
 * guesses of a request are a chain, so its likeliest ones are its first.
 */
#ifndef ADASERVE_SELECTION_H
#define ADASERVE_SELECTION_H

#include <llmserve/policy/heap.h>
#include <llmserve/scheduler.h>

/* User words of a request. */
enum {
  SELECTION_GUESSES = 1, /* of this plan */
  SELECTION_BEGAN_NS,    /* when its pace began to count: at its first token */
  SELECTION_BEGAN_AT,    /* the tokens that it had generated then */
};

struct selection_need {
  const struct lls_request *request;
  double tokens;      /* needed in this step; at most 1: no guess is needed */
  double probability; /* of all the guesses selected so far */
};

struct selection {
  struct selection_need *needs; /* (capacity) of the decodes */
  uint32_t *contexts;           /* (capacity) their cached tokens */
  struct lls_pol_heap likeliest;
  uint32_t n, capacity;
  uint32_t budget, for_deadlines, for_throughput; /* guesses, in the last plan */
};

int selection_init(struct selection *, uint32_t capacity);
void selection_free(struct selection *);

/* Selects among the guesses of the view's decodes. A step with them takes at most
 * `stretch` times as long as without, by the cost service; step_ns is the expected time
 * until the step has ended, 0: as the cost service says. */
void selection_choose(struct selection *, const struct lls_cost *,
                      const struct lls_step_view *, double stretch, double step_ns);
/* For lls_pol_drafts.of. */
uint32_t selection_of(void *, const struct lls_request *);
/* Notes a request that has got tokens at `now_ns`. */
void selection_note(const struct lls_request *, int64_t now_ns);

#endif
