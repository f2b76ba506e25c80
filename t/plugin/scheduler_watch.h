/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the host's contract with a scheduler call by call: which requests are active,
 * that handles stay in place, that lists are sorted and contain each request once, that
 * time and progress only increase, and that every end is reported once.
 */
#ifndef LLS_T_SCHEDULER_WATCH_H
#define LLS_T_SCHEDULER_WATCH_H

#include "t/plugin/contract.h"

#include <llmserve/scheduler.h>

struct watched {                    /* the request in one slot */
  const struct lls_request *handle; /* NULL: the slot is free */
  uint64_t id;
  uint32_t prompt_tokens, generated_tokens;
  int32_t first_token;
  uint32_t planned; /* tokens that the last plan runs of it */
  uint64_t seen;    /* 1 + step of the last view that contained it */
};

struct watch {
  struct contract contract;
  struct watched *slots; /* (n_slots) */
  uint32_t n_slots, alive;
  uint64_t last_id, next_step;
  bool any_id, any_step;
  int64_t last_now_ns;
  bool trust_results; /* the last plan was valid, so the results must match it */
};

int watch_init(struct watch *, const struct lls_host *, uint64_t seed);
void watch_free(struct watch *);

void watch_arrival(struct watch *, const struct lls_request *);
void watch_finish(struct watch *, const struct lls_request *, uint32_t reason);
void watch_alive(struct watch *, const struct lls_request *, const char *callback);
void watch_refused(struct watch *, const struct lls_request *, uint32_t refusal);
void watch_view(struct watch *, const struct lls_step_view *, const struct lls_plan *);
/* Records the plan's runs, for watch_report. */
void watch_plan(struct watch *, const struct lls_plan *, bool good);
void watch_report(struct watch *, const struct lls_step_report *);

#endif
