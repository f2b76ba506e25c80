/* SPDX-License-Identifier: Apache-2.0 */
/* llmserve-sim's own options; those of the workload are tools/workload/options.h. */
#ifndef LLS_SIM_TOOL_OPTIONS_H
#define LLS_SIM_TOOL_OPTIONS_H

#include <stdbool.h>

#include "tools/cli/cli.h"

enum lls_sim_device_choice {
  LLS_SIM_DEVICE_SIM,
  LLS_SIM_DEVICE_CPU,
  LLS_SIM_DEVICE_CUDA
};

struct lls_sim_tool_options {
  const char *config;
  const char *policies; /* configurations, separated by commas */
  const char *set;      /* lines of SECTION.KEY=VALUE */
  const char *profile, *estimate;
  double profile_error, estimate_error;
  const char *model;
  int64_t ranks, stages;
  int64_t device; /* enum lls_sim_device_choice */
  bool cpu_time;
  int64_t plan_time;
  double draft_acceptance; /* 0: the configured drafter guesses */
  /* of struct lls_guesses, where rows of the workload say their acceptance; else NULL */
  double (*acceptance_of)(const void *owner, double otherwise);
  int64_t placing; /* enum lls_placing_rule */
  int64_t max_concurrency;
  const char *json;
  const char *record, *against, *replay; /* paths of decision logs */
  const char *write_lengths;             /* path for a file of the true lengths */
  bool save_detailed;
  bool measure_plans;
  bool quiet;
  const char *goodput;
  const char *metric_percentiles;
  const char *metadata;
  const char *label;
  int64_t warm_up;
  bool help, version;
  /* no option: a trace that may contain served steps; NULL: none */
  const char *history;
  /* no option: the parent process shows the progress of all runs */
  bool one_of_many;
};

extern const struct lls_option_group lls_sim_option_group;

#endif
