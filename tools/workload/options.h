/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a workload, equal in both tools. Their names are those of vLLM's
 * `bench serve` where it has them; options.c has their descriptions. */
#ifndef LLS_WORKLOAD_OPTIONS_H
#define LLS_WORKLOAD_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/cli/cli.h"

enum lls_arrivals {
  LLS_ARRIVALS_AUTO, /* the trace's times; Gamma if it has none, or if a rate is set */
  LLS_ARRIVALS_TRACE,
  LLS_ARRIVALS_GAMMA,
  LLS_ARRIVALS_UNIFORM,
  LLS_ARRIVALS_ONCE,
};

struct lls_workload_options {
  /* source */
  const char *trace;
  const char *dataset_name;
  const char *dataset_path;
  const char *tokenizer;
  int64_t num_prompts;
  int64_t seed;
  bool disable_shuffle;
  bool no_oversample;
  /* lengths */
  const char *input_lengths;
  const char *output_lengths;
  int64_t input_len;
  int64_t output_len;
  int64_t random_input_len;
  int64_t random_output_len;
  double random_range_ratio;
  int64_t random_prefix_len;
  int64_t prefix_repetition_prefix_len;
  int64_t prefix_repetition_suffix_len;
  int64_t prefix_repetition_num_prefixes;
  int64_t prefix_repetition_output_len;
  const char *agents_turns;
  int64_t agents_prefix_len;
  int64_t agents_num_prefixes;
  const char *agents_first_lengths;
  const char *agents_added_lengths;
  const char *agents_output_lengths;
  const char *agents_tools;
  int64_t min_len;
  int64_t max_input_len;
  int64_t max_total_len;
  int64_t max_new_tokens;
  /* arrivals */
  int64_t arrivals;
  const char *request_rate;
  double burstiness;
  double cv;
  int64_t duration;
  double time_scale;
  int64_t jitter;
  const char *ramp_up_strategy;
  double ramp_up_start_rps;
  double ramp_up_end_rps;
  /* classes and SLOs */
  double realtime_share;
  double best_effort_share;
  int64_t best_effort_priority;
  int64_t slo_ttft;
  int64_t slo_ttft_per_token;
  int64_t slo_group_tokens;
  int64_t slo_tbt;
  int64_t slo_tpot;
  int64_t slo_completion;
  int64_t slo_completion_per_token;
  const char *slo_ttft_scale;
  const char *slo_tbt_scale;
  const char *slo_completion_scale;
  const char *slo_class;
  int64_t tenants;
  double tenant_skew;
  /* best-effort batches in addition to the other requests */
  int64_t batch_size;
  int64_t batch_count;
  int64_t batch_period;
  const char *batch_input_lengths;
  const char *batch_output_lengths;
};

extern const struct lls_option_group lls_workload_option_group;

#endif
