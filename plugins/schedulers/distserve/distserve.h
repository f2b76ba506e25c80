/* SPDX-License-Identifier: Apache-2.0 */
/* What the two roles share; see README. */
#ifndef DISTSERVE_H
#define DISTSERVE_H

#include "../common/prefill_first.h"
#include "../common/prefiller.h"
#include "../common/scheduler.h"

struct distserve_params {
  int64_t prefill_batch, prefill_tokens, decode_batch;
  double accept_frac;
  int64_t preempt;
};

struct distserve {
  struct scheduler base;
  struct distserve_params params;
  struct prefiller prefiller;
  uint32_t waiting_units; /* in the last plan, of those taken over that have not run */
};

/* A request's scratch word, beside PREFILLER_ANSWER: since it came to this instance. */
#define HAS_RUN 0

void distserve_decode(struct distserve *, const struct lls_step_view *,
                      struct lls_plan *);

#endif
