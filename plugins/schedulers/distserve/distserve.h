/* SPDX-License-Identifier: Apache-2.0 */
/* DistServe's scheduler: parts shared by the roles prefill and decode; see README. */
#ifndef DISTSERVE_H
#define DISTSERVE_H

#include <llmserve/policy/prefill_first.h>
#include <llmserve/policy/prefiller.h>
#include <llmserve/policy/scheduler.h>

enum placement { PLACEMENT_LOAD, PLACEMENT_TURN };
enum migration { MIGRATION_OVERLAPPED, MIGRATION_BLOCKING };

struct distserve_params {
  int64_t prefill_batch, prefill_tokens, decode_batch;
  double accept_frac;
  int64_t preempt, migration, placement;
};

struct distserve {
  struct lls_pol_scheduler base;
  struct distserve_params params;
  struct lls_pol_prefiller prefiller;
  /* units of requests taken over that had not run yet in the last plan */
  uint32_t waiting_units;
  uint32_t leaving; /* last plan: requests being handed over */
};

/* Index of a request's user word that says if it has run on this instance; the word
 * LLS_POL_PREFILLER_ANSWER is the other one in use. */
#define HAS_RUN 0

void distserve_decode(struct distserve *, const struct lls_step_view *,
                      struct lls_plan *);

#endif
