/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A margin for steps that are filled up to a deadline, learned from the errors of the
 * cost model.
 *
 * A step that is filled exactly to its deadline by an estimate 2 % too low is late, and
 * so is every later one. The margin is a quantile of measured time over estimated time,
 * over the filled steps: after each step it moves by a small amount, in such a ratio up
 * and down that the desired fraction of steps ends in time (stochastic approximation:
 * Robbins and Monro, 1951). Exact estimates give a margin of 1.
 *
 * A margin far too large would never shrink: a few steps that took long for another
 * reason raise it to 2.6; then no step has time for prompts, and no filled step can
 * show that the margin is wrong. So all steps are compared, including those of decodes
 * only, and the margin is at most 1.2 times the worst of the last 64 to 128 of them.
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
  double quantile;      /* fraction of the filled steps that must end in time; 0: no
                         * margin */
  double ratio;         /* current margin: measured time over estimated time */
  int64_t deadline_ns;  /* latest end of the step; LLS_NEVER: the step is not filled */
  int64_t estimated_ns; /* time estimated for the last plan; LLS_NEVER: unknown */
  bool has_prompts;     /* the step has prompts, so it may be filled */
  double worst, worst_before;     /* worst ratio of the last steps, and of as many
                                   * steps before them */
  uint32_t n_worst;               /* number of steps in worst */
  struct lls_chunk_shape *chunks; /* (max_sequences) */
  uint32_t *decodes;              /* (max_sequences) */
  uint32_t max_sequences;
};

/* Returns 0 or -ENOMEM. */
int lls_pol_margin_init(struct lls_pol_margin *, uint32_t max_sequences);
void lls_pol_margin_free(struct lls_pol_margin *);

/* Call it when a plan begins; quantile as in the struct, 0..1. */
void lls_pol_margin_begin(struct lls_pol_margin *, double quantile);
/* Returns the time to plan for a step with this estimate. */
static inline int64_t lls_pol_margin_takes(const struct lls_pol_margin *m, int64_t ns)
{
  return m->quantile > 0 ? (int64_t)((double)ns * m->ratio) : ns;
}
/* The plan is filled up to this deadline. Returns the limit for the cost model's
 * estimate. */
int64_t lls_pol_margin_within(struct lls_pol_margin *, int64_t deadline_ns);
/* Call it when the plan is complete: stores its estimate, for comparison with its
 * time. */
void lls_pol_margin_planned(struct lls_pol_margin *, const struct lls_host *,
                            const struct lls_step_view *, const struct lls_plan *);
/* Call it when the step has run. */
void lls_pol_margin_ran(struct lls_pol_margin *, const struct lls_step_report *);

#ifdef __cplusplus
}
#endif

#endif
