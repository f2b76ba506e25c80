/* SPDX-License-Identifier: Apache-2.0 */
/* What the two roles share; see README. */
#ifndef DISTSERVE_H
#define DISTSERVE_H

#include "../common/prefill_first.h"
#include "../common/scheduler.h"

struct distserve_params {
  int64_t prefill_batch, prefill_tokens, decode_batch;
  double accept_frac;
  int64_t preempt;
};

struct distserve {
  struct scheduler base;
  struct distserve_params params;
  uint32_t next_target;   /* decode instances in turn */
  uint32_t waiting_units; /* in the last plan, of those taken over that have not run */
};

/* A request's scratch words. */
enum {
  HAS_RUN, /* since it came to this instance */
  ANSWER,  /* of the instance that it was offered to: enum lls_refusal, or 0 */
};

void distserve_prefill(struct distserve *, const struct lls_step_view *,
                       struct lls_plan *);
void distserve_decode(struct distserve *, const struct lls_step_view *,
                      struct lls_plan *);
uint32_t distserve_target(struct distserve *); /* the next offer's */

#endif
