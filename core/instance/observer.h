/* SPDX-License-Identifier: Apache-2.0 */
/* An observer watches the decisions of an instance and takes no part in them. */
#ifndef LLS_INSTANCE_OBSERVER_H
#define LLS_INSTANCE_OBSERVER_H

#include <llmserve/types.h>

struct lls_step_report;
struct lls_step_view;

/* Counts at the end of a step, for an observer. */
struct lls_loop_census {
  uint32_t waiting, running, preempted; /* preempted includes moving ones */
  uint32_t
      offered; /* requests that other instances offer and this one has not taken yet */
  /* cached tokens of running requests, on the device */
  uint64_t cached_tokens;
  uint32_t device_units_total, device_units_free;
  int64_t plan_ns; /* duration of the plan call by the plan clock */
};

/*
 * Callbacks for an observer (the simulator's report, the decision log). They are called
 * on the step thread and must not call the loop. NULL: not called.
 */
struct lls_loop_observer {
  void *context;
  void (*on_arrival)(void *context, const struct lls_request *); /* prediction is set */
  /* The plan that is carried out. own: made by the scheduler, not by the built-in
   * order. */
  void (*on_plan)(void *context, const struct lls_step_view *, const struct lls_plan *,
                  bool own);
  void (*on_step)(void *context, const struct lls_step_report *,
                  const struct lls_loop_census *);
  void (*on_finish)(void *context, const struct lls_request *); /* finish_reason is set */
};

#endif
