/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A margin for steps that are filled up to a deadline, learned from how far the cost
 * model was off.
 *
 * A step filled to exactly its deadline by an estimate that is 2 % too low is late, and
 * so is every one after it. The margin is a quantile of time taken over time estimated,
 * of those steps that were filled: after each it moves by a small part, up as often as
 * one step in so many may be late (stochastic approximation: Robbins and Monro, 1951). An
 * estimate that is exact has a margin of 1.
 *
 * A margin that is far too large would keep itself so: a few steps that took long for
 * another reason make it 2.6, no step has room for prompts then, and none is filled that
 * could show that it is wrong. So all steps are compared, those of decodes alone too, and
 * the margin is no larger than 1.2 times the worst of the last 64 to 128 of them.
 */
#ifndef LLS_POL_MARGIN_H
#define LLS_POL_MARGIN_H

#include <llmserve/host.h>
#include <llmserve/scheduler.h>

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lls_pol_margin {
  double quantile;     /* part of the filled steps that shall end in time; 0: no margin */
  double ratio;        /* so far: time taken over time estimated */
  int64_t deadline_ns; /* of the step, LLS_NEVER: it is not filled */
  int64_t estimated_ns;           /* of the last plan, LLS_NEVER: nothing is known */
  bool has_prompts;               /* it has some: it may be filled */
  double worst, worst_before;     /* of the last steps, and of as many before them */
  uint32_t n_worst;               /* steps that worst is of */
  struct lls_chunk_shape *chunks; /* (max_sequences) */
  uint32_t *decodes;              /* (max_sequences) */
  uint32_t max_sequences;
};

/* -ENOMEM. */
int lls_pol_margin_init(struct lls_pol_margin *, uint32_t max_sequences);
void lls_pol_margin_free(struct lls_pol_margin *);

/* A plan begins; quantile: as above, 0..1. */
void lls_pol_margin_begin(struct lls_pol_margin *, double quantile);
/* A step of this time by the cost model may take so long. */
static inline int64_t lls_pol_margin_takes(const struct lls_pol_margin *m, int64_t ns)
{
  return m->quantile > 0 ? (int64_t)((double)ns * m->ratio) : ns;
}
/* The plan is filled up to this deadline: what the cost model may say of it. */
int64_t lls_pol_margin_within(struct lls_pol_margin *, int64_t deadline_ns);
/* The plan is whole: its time is estimated, to be compared with what it takes. */
void lls_pol_margin_planned(struct lls_pol_margin *, const struct lls_host *,
                            const struct lls_step_view *, const struct lls_plan *);
/* It ran. */
void lls_pol_margin_ran(struct lls_pol_margin *, const struct lls_step_report *);

#ifdef __cplusplus
}
#endif

#endif
