/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's metrics under other names: those that vLLM no longer uses ([server]
 * metrics_legacy), for old dashboards, and those of llama.cpp's server, which have no
 * labels ([server] metrics_llamacpp).
 */
#include "core/api/metrics/prometheus.h"

static double ratio(double a, double b)
{
  return b > 0 ? a / b : 0;
}

void lls_page_legacy(struct lls_page *page, const struct lls_api *api,
                     const struct lls_loop_status *status)
{
  double total = status->device_units_total, unused = status->device_units_free;
  lls_page_gauge(page, "vllm:gpu_cache_usage_perc",
                 "Old name of vllm:kv_cache_usage_perc.", ratio(total - unused, total));
  lls_page_counter(page, "vllm:gpu_prefix_cache_queries_total",
                   "Old name of vllm:prefix_cache_queries_total.", status->prompt_tokens);
  lls_page_counter(page, "vllm:gpu_prefix_cache_hits_total",
                   "Old name of vllm:prefix_cache_hits_total.", status->shared_tokens);
  lls_page_gauge(page, "vllm:gpu_prefix_cache_hit_rate",
                 "Share of the tokens of prompts that were found in the cache.",
                 ratio((double)status->shared_tokens, (double)status->prompt_tokens));
  lls_page_gauge(page, "vllm:num_requests_swapped",
                 "Requests that were preempted and wait to continue.", status->preempted);
  lls_page_histogram(page, "vllm:time_per_output_token_seconds",
                     "Old name of vllm:inter_token_latency_seconds.",
                     &api->stats.inter_token);
}

static void llamacpp_tokens(struct lls_page *page, const struct lls_api *api,
                            const struct lls_loop_status *status)
{
  uint64_t computed = status->prompt_tokens > status->shared_tokens
                          ? status->prompt_tokens - status->shared_tokens
                          : 0;
  double reading_s = api->stats.prefill.sum, writing_s = api->stats.decode.sum;
  lls_page_counter(page, "llamacpp:prompt_tokens_total",
                   "Number of prompt tokens processed, excluding cached tokens",
                   computed);
  lls_page_counter(page, "llamacpp:prompt_tokens_cached_total",
                   "Number of prompt tokens reused from the cache",
                   status->shared_tokens);
  lls_page_number(page, "llamacpp:prompt_seconds_total", "counter",
                  "Total time spent processing prompts", reading_s);
  lls_page_counter(page, "llamacpp:tokens_predicted_total",
                   "Number of generation tokens processed", status->generated_tokens);
  lls_page_number(page, "llamacpp:tokens_predicted_seconds_total", "counter",
                  "Total time spent generating tokens", writing_s);
  /* averages since the start: if they were reset at each scrape, two scrapers would
   * disturb each other */
  lls_page_gauge(page, "llamacpp:prompt_tokens_seconds",
                 "Average prompt throughput in tokens/s.",
                 ratio((double)computed, reading_s));
  lls_page_gauge(page, "llamacpp:predicted_tokens_seconds",
                 "Average generation throughput in tokens/s.",
                 ratio((double)status->generated_tokens, writing_s));
}

void lls_page_llamacpp(struct lls_page *page, const struct lls_api *api,
                       const struct lls_loop_status *status)
{
  llamacpp_tokens(page, api, status);
  lls_page_counter(page, "llamacpp:n_decode_total", "Total number of steps",
                   status->steps);
  lls_page_gauge(page, "llamacpp:n_tokens_max",
                 "Largest observed sequence length (prompt + generation)",
                 (double)api->stats.longest);
  lls_page_gauge(page, "llamacpp:requests_processing", "Number of requests processing",
                 status->running);
  lls_page_gauge(page, "llamacpp:requests_deferred", "Number of requests deferred",
                 status->waiting + status->preempted);
  lls_page_gauge(page, "llamacpp:n_busy_slots_per_decode",
                 "Average number of sequences per step",
                 ratio((double)status->batch_sequences_sum, (double)status->steps));
}
