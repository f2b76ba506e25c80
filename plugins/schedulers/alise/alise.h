/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ALISE's scheduler in two parts: what a job's remaining time is and which level that
 * makes (time.c), and who runs (alise.c).
 */
#ifndef ALISE_H
#define ALISE_H

#include <llmserve/scheduler.h>

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

#endif
