/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ALISE's scheduler in three parts: what a job's remaining time is and which level that
 * makes (time.c), who has memory on the device (ahead.c), and who runs (alise.c).
 */
#ifndef ALISE_H
#define ALISE_H

#include <llmserve/scheduler.h>

#include "../common/heap.h"

/* T of a job in nanoseconds: a prompt token costs t0, a token of the answer alpha for
 * each prompt token before it, and beta (ALISE, section 3.2). */
struct alise_times {
  double t0, alpha, beta;
};

/* Asks the core's cost model; keeps what it had as long as that does not know. */
void alise_learn_times(struct alise_times *, const struct lls_cost *);

/*
 * T = (prefilled ? 0 : s' t0) + max(1, length - g) (alpha s + beta), with s' the tokens
 * still to prefill, s those of the prompt, g the generated ones.
 */
double alise_remaining(const struct alise_times *, const struct lls_request *,
                       uint32_t length);

struct alise_levels {
  uint32_t n;   /* h */
  double first; /* q0, nanoseconds */
  double ratio; /* r */
};

/* 1 if T <= q0, else min(h, 1 + ceil(log_r(T / q0))). */
uint32_t alise_level(const struct alise_levels *, double remaining);

/* ---- ahead.c ---- */

#define ALISE_MOST_LEVELS 32
#define ALISE_LOOKED_AT   32 /* jobs off the device, of a plan */

/* T of all live jobs, summed up by level. */
struct alise_waits {
  int64_t of_level[ALISE_MOST_LEVELS + 1];
};

/* EWT = min(sum of T over the jobs of lower levels, time until its promotion). */
int64_t alise_ewt(const struct alise_waits *, uint32_t level, int64_t until_promotion);

enum alise_decision { ALISE_STAYS, ALISE_COMES, ALISE_LEAVES };

struct alise_candidate {
  const struct lls_request *request;
  int64_t level;    /* 0: lifted */
  int64_t ewt, key; /* key: the order inside of equal EWT */
  uint32_t units;   /* it has on the device, or would take there */
  bool on_device;
  uint32_t decision; /* enum alise_decision */
};

struct alise_ahead { /* of one plan */
  const struct lls_step_view *view;
  struct alise_candidate *jobs; /* (max_requests + LOOKED_AT) */
  uint32_t n;
  uint64_t units, free_units; /* that all of them may have; of which nobody has */
};

int alise_ahead_init(struct alise_ahead *, uint32_t max_requests);
void alise_ahead_free(struct alise_ahead *);
void alise_ahead_begin(struct alise_ahead *, const struct lls_step_view *);
/* Of the candidate request, level, ewt and key are set. */
void alise_ahead_add(struct alise_ahead *, const struct alise_candidate *);
/* The first of a heap, in order; at most LOOKED_AT. */
uint32_t alise_first_of(const struct heap *, const struct lls_request *out[],
                        uint32_t max);
/* Sorts the jobs and sets their decisions: `seats` of them at most, `margin` units are
 * left free. */
void alise_ahead_decide(struct alise_ahead *, uint32_t seats, uint32_t margin);

#endif
