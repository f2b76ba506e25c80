/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ALISE's scheduler in parts: what a job's remaining time is, which level that makes and
 * how long it will wait (time.c), what predictions have been worth (worth.c), which have
 * not run for how long (ages.c), and which run (alise.c).
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

/* Asks the core's cost model; keeps what it had as long as that does not know. True:
 * they are others now. */
bool alise_learn_times(struct alise_times *, const struct lls_cost *);

/*
 * T = (prefilled ? 0 : s' t0) + max(1, left) (alpha s + beta), with s' the tokens still
 * to prefill, s those of the prompt; left is Lh - g, or what alise_worth_left says.
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

/* T of all live jobs, summed up by level, and how many they are. */
struct alise_waits {
  int64_t of_level[ALISE_MOST_LEVELS + 1];
  uint32_t jobs[ALISE_MOST_LEVELS + 1];
};

/* EWT = min(sum of T over the jobs of lower levels, time until its promotion). */
int64_t alise_ewt(const struct alise_waits *, uint32_t level, int64_t until_promotion);

/* ---- worth.c ---- */

#define ALISE_RATIOS 97 /* bins of actual / predicted, eight for each doubling */

/* Tokens left, in predicted lengths: at - slope g / Lh; at = 0: no answer was so long. */
struct alise_line {
  double at, slope;
};

struct alise_worth {
  double n[ALISE_RATIOS], sum[ALISE_RATIOS]; /* answers, and their ratios, by bin */
  struct alise_line left[ALISE_RATIOS];      /* by the bin of g / Lh */
  uint32_t seen, next;                       /* answers; at which `left` is made anew */
};

/* An answer has ended; true if what is left of others is from now on another. */
bool alise_worth_learn(struct alise_worth *, uint32_t predicted, uint32_t actual);

/* Tokens left of an answer that was predicted to have `length` and has `generated`; 0 as
 * long as that is not known. */
double alise_worth_left(const struct alise_worth *, uint32_t length, uint32_t generated);

/* ---- ages.c ---- */

/* Requests that wait for ageing, in the order they ran last. */
struct alise_ages {
  struct alise_age *all; /* (max_requests) by slot */
  uint32_t oldest, newest;
};

int alise_ages_init(struct alise_ages *, uint32_t max_requests);
void alise_ages_free(struct alise_ages *);
/* It ran last, or came, at that time. */
void alise_ages_set(struct alise_ages *, const struct lls_request *, int64_t ran_ns);
void alise_ages_remove(struct alise_ages *, const struct lls_request *);
/* NULL if there is none; *ran_ns when it ran. */
const struct lls_request *alise_ages_oldest(const struct alise_ages *, int64_t *ran_ns);

#endif
