/* SPDX-License-Identifier: Apache-2.0 */
/* Binding and adding figures; see loop_status.h. */
#include "core/instance/loop_status.h"

#include <string.h>

/* Histogram bounds of plan calls and of the tokens of a step; the latter are vLLM's. */
static const double plan_bounds[] = {1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4,
                                     2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 0.1};
static const double step_bounds[] = {1,   8,    16,   32,   64,   128,  256,
                                     512, 1024, 2048, 4096, 8192, 16384};

void lls_loop_status_bind(struct lls_loop_status *status)
{
  status->plan_seconds.bounds = plan_bounds;
  status->plan_seconds.n_bounds = sizeof plan_bounds / sizeof plan_bounds[0];
  status->step_tokens.bounds = step_bounds;
  status->step_tokens.n_bounds = sizeof step_bounds / sizeof step_bounds[0];
}

/* Adds estimates, as means over all steps. */
static void add_estimates(struct lls_cost_accuracy *sum,
                          const struct lls_cost_accuracy *more)
{
  double n = (double)sum->steps + more->steps;
  if (n == 0)
    return;
  sum->error = (sum->error * sum->steps + more->error * more->steps) / n;
  sum->bias = (sum->bias * sum->steps + more->bias * more->steps) / n;
  sum->steps += more->steps;
}

static void add_counters(struct lls_loop_status *sum, const struct lls_loop_status *more)
{
  sum->arrived += more->arrived;
  sum->handed_over += more->handed_over;
  sum->taken_over += more->taken_over;
  sum->handed_bytes += more->handed_bytes;
  sum->handed_ns += more->handed_ns;
  sum->steps += more->steps;
  sum->plans_refused += more->plans_refused;
  sum->plans_late += more->plans_late;
  sum->items_refused += more->items_refused;
  sum->prompt_tokens += more->prompt_tokens;
  sum->generated_tokens += more->generated_tokens;
  sum->forced_tokens += more->forced_tokens;
  sum->drafted_tokens += more->drafted_tokens;
  sum->accepted_tokens += more->accepted_tokens;
  sum->grammar_work += more->grammar_work;
  sum->postponed_draws += more->postponed_draws;
  sum->shared_tokens += more->shared_tokens;
  sum->shared_on_host += more->shared_on_host;
  sum->shared_on_disk += more->shared_on_disk;
  sum->disk_blocks_total += more->disk_blocks_total;
  sum->disk_blocks_used += more->disk_blocks_used;
  sum->disk_blocks_held += more->disk_blocks_held;
  sum->disk_fetched_tokens += more->disk_fetched_tokens;
  sum->disk_written_bytes += more->disk_written_bytes;
  sum->disk_read_bytes += more->disk_read_bytes;
  sum->disk_failed += more->disk_failed;
  sum->sessions_retained += more->sessions_retained;
  sum->sessions_fetched += more->sessions_fetched;
  sum->sessions_leased += more->sessions_leased;
  sum->preempted_recompute += more->preempted_recompute;
  sum->preempted_swap += more->preempted_swap;
  sum->displaced += more->displaced;
  sum->predicted += more->predicted;
  sum->prediction_error += more->prediction_error;
  sum->drafts += more->drafts;
  for (int i = 0; i < LLS_MAX_DRAFTS; i++)
    sum->accepted_at[i] += more->accepted_at[i];
  sum->draft_ns_sum += more->draft_ns_sum;
  sum->copied_bytes += more->copied_bytes;
  for (int reason = 0; reason <= LLS_FINISH_ERROR; reason++)
    sum->finished[reason] += more->finished[reason];
  sum->reload_recomputed += more->reload_recomputed;
  sum->plan_ns_sum += more->plan_ns_sum;
  sum->step_ns_sum += more->step_ns_sum;
  sum->device_ns_sum += more->device_ns_sum;
  sum->batch_tokens_sum += more->batch_tokens_sum;
  sum->batch_sequences_sum += more->batch_sequences_sum;
  lls_histogram_merge(&sum->plan_seconds, &more->plan_seconds);
  lls_histogram_merge(&sum->step_tokens, &more->step_tokens);
  add_estimates(&sum->estimates, &more->estimates);
}

static void add_levels(struct lls_loop_status *sum, const struct lls_loop_status *more)
{
  sum->waiting += more->waiting;
  sum->reading += more->reading;
  sum->pending_tokens += more->pending_tokens;
  sum->running += more->running;
  sum->preempted += more->preempted;
  sum->offered += more->offered;
  sum->device_units_total += more->device_units_total;
  sum->device_units_free += more->device_units_free;
  sum->host_units_total += more->host_units_total;
  sum->host_units_free += more->host_units_free;
  for (int form = 0; form <= LLS_FORM_HIDDEN; form++) {
    sum->cached_on_device[form] += more->cached_on_device[form];
    sum->cached_on_host[form] += more->cached_on_host[form];
  }
}

static void add_policy(struct lls_policy_status *sum,
                       const struct lls_policy_status *more)
{
  sum->refusals += more->refusals;
  sum->breaches += more->breaches;
}

void lls_loop_status_add(struct lls_loop_status *sum, const struct lls_loop_status *more)
{
  add_counters(sum, more);
  add_levels(sum, more);
  for (uint32_t i = 0; i < LLS_KINDS; i++)
    add_policy(&sum->policies.by_kind[i], &more->policies.by_kind[i]);
  if (more->fallen_back && !sum->fallen_back) {
    sum->fallen_back = true;
    memcpy(sum->fallback_reason, more->fallback_reason, sizeof sum->fallback_reason);
  }
}
