/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs one workload through one machine: submits requests that are due, steps the loop,
 * records the outcome of each request, and lets time pass when nothing can run.
 */
#ifndef LLS_SIM_TOOL_RUN_H
#define LLS_SIM_TOOL_RUN_H

#include <jansson.h>

#include "tools/report/report.h"
#include "tools/sim/options.h"

/* The result of a run. */
struct lls_sim_result {
  struct lls_report *report;
  json_t *machine;   /* description of the machine, with values that are no metrics */
  json_t *decisions; /* comparison with a decision log; NULL: no log was given */
};

/* Builds the machine and runs the workload to its end. On failure nothing is to be
 * freed. */
int lls_sim_run(const struct lls_sim_tool_options *, const struct lls_workload *,
                struct lls_sim_result *out, struct lls_error *err);
void lls_sim_result_free(struct lls_sim_result *);

#endif
