/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ALISE's scheduler in parts: a job's remaining time, level and estimated waiting time
 * (time.c), corrections learnt from past predictions (worth.c), the order in which jobs
 * last ran, for ageing (ages.c), and the plan (alise.c).
 */
#ifndef ALISE_H
#define ALISE_H

#include <llmserve/scheduler.h>

/* ---- time.c ---- */

/* T of a job in nanoseconds: a prompt token costs t0, a token of the answer alpha for
 * each prompt token before it, and beta (ALISE, section 3.2). */
struct alise_times {
  double t0, alpha, beta;
};

/* Takes the times from the core's cost model; keeps the old ones while the model has no
 * estimates. Returns true if they changed. */
bool alise_learn_times(struct alise_times *, const struct lls_cost *);

/*
 * T = (prefilled ? 0 : s' t0) + max(1, left) (alpha s + beta), with s' the tokens still
 * to prefill, s those of the prompt; left is Lh - g, or the result of alise_worth_left.
 */
double alise_remaining(const struct alise_times *, const struct lls_request *,
                       double left);

struct alise_levels {
  uint32_t n;   /* h */
  double first; /* q0, nanoseconds */
  double ratio; /* r */
};

/* 1 if T <= q0, else min(h, 1 + ceil(log_r(T / q0))). */
uint32_t alise_level(const struct alise_levels *, double remaining);

#define ALISE_MOST_LEVELS 32

/* Sum of T over the live jobs of each level, and their number. */
struct alise_waits {
  int64_t of_level[ALISE_MOST_LEVELS + 1];
  uint32_t jobs[ALISE_MOST_LEVELS + 1];
};

/* Returns EWT: min(sum of T over the jobs of lower levels, time until its
 * promotion). */
int64_t alise_ewt(const struct alise_waits *, uint32_t level, int64_t until_promotion);

/* ---- worth.c ---- */

#define ALISE_RATIOS 97 /* bins of actual / predicted, eight for each doubling */

/* Tokens left as a multiple of the predicted length: at - slope g / Lh. at = 0: no answer
 * was that long so far. */
struct alise_line {
  double at, slope;
};

struct alise_worth {
  /* for each bin: number of answers, sum of their ratios */
  double n[ALISE_RATIOS], sum[ALISE_RATIOS];
  struct alise_line left[ALISE_RATIOS]; /* for each bin of g / Lh */
  uint32_t seen, next;                  /* answers so far; recompute `left` at */
};

/* Counts a finished answer; returns true if `left` was recomputed. */
bool alise_worth_learn(struct alise_worth *, uint32_t predicted, uint32_t actual);

/* Expected tokens left of an answer with predicted length `length` and `generated` tokens
 * so far; 0 if too few answers have been seen. */
double alise_worth_left(const struct alise_worth *, uint32_t length, uint32_t generated);

/* ---- ages.c ---- */

/* Requests that may age, in the order of the time they last ran. */
struct alise_ages {
  struct alise_age *all; /* (max_requests) by slot */
  uint32_t oldest, newest;
};

int alise_ages_init(struct alise_ages *, uint32_t max_requests);
void alise_ages_free(struct alise_ages *);
/* Sets the time at which the request last ran, or arrived. */
void alise_ages_set(struct alise_ages *, const struct lls_request *, int64_t ran_ns);
void alise_ages_remove(struct alise_ages *, const struct lls_request *);
/* Returns the request that ran longest ago, or NULL; *ran_ns is the time at which it
 * ran. */
const struct lls_request *alise_ages_oldest(const struct alise_ages *, int64_t *ran_ns);

#endif
