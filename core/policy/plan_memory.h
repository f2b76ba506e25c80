/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that a scheduler's plan callback gets: the view, its lists, the cache
 * service, the plan and the plan's items. All parts are copies in a separate mapping,
 * rewritten before every plan, so that a scheduler that overwrites any part spoils one
 * plan and nothing of the core. After each part come 64 KiB of unused memory; a write
 * beyond them hits a page without access, inside the plugin's call.
 */
#ifndef LLS_POLICY_PLAN_MEMORY_H
#define LLS_POLICY_PLAN_MEMORY_H

#include <llmserve/scheduler.h>

#include "core/instance/step_state.h"

/* n_loads: number of instances of the topology. Returns -ENOMEM without memory. */
int lls_plan_memory_init(struct lls_plan_memory *, uint32_t max_items,
                         uint32_t max_listed, uint32_t n_loads, uint32_t max_results);
/* May be called after a failed init, too. */
void lls_plan_memory_free(struct lls_plan_memory *);

/* Writes an empty plan, and copies of the view and of everything it points to except the
 * requests. */
void lls_plan_memory_fill(struct lls_plan_memory *, const struct lls_step_view *);

/* Copies the scheduler's plan to `plan`, whose items array (max_items) belongs to the
 * core. Returns NULL, or what is wrong with the plan: "it ...". */
const char *lls_plan_memory_take(const struct lls_plan_memory *, struct lls_plan *plan);

/* Returns a copy of n results for a report. */
const struct lls_step_result *lls_plan_memory_results(struct lls_plan_memory *,
                                                      const struct lls_step_result *,
                                                      uint32_t n);

#endif
