/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One workload through one machine: hands out what is due, steps the loop, collects what
 * becomes of each request, and lets time pass where nothing can run.
 */
#ifndef LLS_SIM_TOOL_RUN_H
#define LLS_SIM_TOOL_RUN_H

#include <jansson.h>

#include "tools/report/report.h"
#include "tools/sim/options.h"

/* The result of a run. */
struct lls_sim_result {
  struct lls_report *report;
  json_t *machine;   /* what it ran on, and what of that is no metric */
  json_t *decisions; /* where they parted from those of a log; NULL: none was given */
};

/* Builds the machine and runs the workload to its end. On failure there is nothing to
 * free. */
int lls_sim_run(const struct lls_sim_tool_options *, const struct lls_workload *,
                struct lls_sim_result *out, struct lls_error *err);
void lls_sim_result_free(struct lls_sim_result *);

#endif
