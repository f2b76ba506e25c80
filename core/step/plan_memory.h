/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that a scheduler's plan callback gets: the view, its lists, the cache
 * service, the plan and the plan's items. All of it is a copy in a mapping of its own,
 * written anew before every plan, so that a scheduler that writes over any of it spoils
 * one plan and nothing of the core. 64 KiB that nobody uses follow each part; a write
 * that goes further hits a page without access, inside the plugin's call.
 */
#ifndef LLS_STEP_PLAN_MEMORY_H
#define LLS_STEP_PLAN_MEMORY_H

#include <llmserve/scheduler.h>

#include "core/instance/step_state.h"

/* n_loads: instances of the topology. -ENOMEM. */
int lls_plan_memory_init(struct lls_plan_memory *, uint32_t max_items,
                         uint32_t max_listed, uint32_t n_loads, uint32_t max_results);
void lls_plan_memory_free(struct lls_plan_memory *); /* also after a failed init */

/* Writes an empty plan, and copies of the view and of all that it points to but for the
 * requests themselves. */
void lls_plan_memory_fill(struct lls_plan_memory *, const struct lls_step_view *);

/* Copies the plan as the scheduler left it to `plan`, whose items are the
 * core's own (max_items). Returns NULL, or what is wrong with it: "it ...". */
const char *lls_plan_memory_take(const struct lls_plan_memory *, struct lls_plan *plan);

/* Returns a copy of n results for a report. */
const struct lls_step_result *lls_plan_memory_results(struct lls_plan_memory *,
                                                      const struct lls_step_result *,
                                                      uint32_t n);

#endif
