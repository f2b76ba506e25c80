/* SPDX-License-Identifier: Apache-2.0 */
/* The series of vLLM, under its names, labels, units and meanings. */
#include <time.h>

#include "core/api/metrics/prometheus.h"
#include "core/lora/lora_set.h"

static double usage_of(uint32_t total, uint32_t free_units)
{
  return total > 0 ? 1 - (double)free_units / (double)total : 0;
}

static void cache_config(struct lls_page *page, const struct lls_api *api,
                         const struct lls_loop_status *status)
{
  static const char name[] = "vllm:cache_config_info";
  struct lls_text labels = {0};
  char block[16], blocks[16];
  snprintf(block, sizeof block, "%u", api->config.block_tokens);
  snprintf(blocks, sizeof blocks, "%u", status->device_units_total / 2); /* K and V */
  lls_metrics_label(&labels, "engine", "0");
  lls_metrics_label(&labels, "block_size", block);
  lls_metrics_label(&labels, "num_gpu_blocks", blocks);
  lls_page_head(page, name, "gauge", "Information of the LLMEngine CacheConfig");
  if (!labels.failed)
    lls_metrics_sample(&page->text, name, labels.data, 1);
  lls_text_free(&labels);
}

static void request_success(struct lls_page *page, const struct lls_api_stats *stats)
{
  static const char name[] = "vllm:request_success_total";
  static const char *const reasons[LLS_OUTCOMES] = {"stop", "length", "abort", "error"};
  lls_page_head(page, name, "counter", "Count of successfully processed requests.");
  for (unsigned i = 0; i < LLS_OUTCOMES; i++)
    lls_page_labelled(page, name, (double)stats->finished[i], "finished_reason",
                      reasons[i], NULL);
  /* vLLM ends answers that repeat themselves; this server does not */
  lls_page_labelled(page, name, 0, "finished_reason", "repetition", NULL);
}

static void waiting_by_reason(struct lls_page *page, const struct lls_loop_status *status)
{
  static const char name[] = "vllm:num_requests_waiting_by_reason";
  lls_page_head(page, name, "gauge", "Number of waiting requests by reason.");
  lls_page_labelled(page, name, status->waiting, "reason", "capacity", NULL);
  lls_page_labelled(page, name, status->preempted, "reason", "deferred", NULL);
}

static void sleep_state(struct lls_page *page)
{
  static const char name[] = "vllm:engine_sleep_state";
  lls_page_head(page, name, "gauge", "Engine sleep state; this engine is always awake.");
  lls_page_labelled(page, name, 1, "sleep_state", "awake", NULL);
  lls_page_labelled(page, name, 0, "sleep_state", "weights_offloaded", NULL);
  lls_page_labelled(page, name, 0, "sleep_state", "discard_all", NULL);
}

static void add_running(void *context, const struct lls_adapter *adapter, bool loaded,
                        uint32_t users)
{
  struct lls_text *names = context;
  if (loaded && users > 0)
    lls_text_printf(names, "%s%s", names->length > 0 ? "," : "", adapter->name);
}

/* The inference gateway's endpoint pickers read this series, so it is there without
 * adapters, too. */
static void lora_info(struct lls_page *page, const struct lls_api *api)
{
  static const char name[] = "vllm:lora_requests_info";
  struct lls_lora_set *set = api->config.adapters;
  struct lls_text labels = {0}, running = {0};
  char most[16];
  snprintf(most, sizeof most, "%u",
           set != NULL ? lls_lora_set_bounds(set)->max_loaded : 0);
  if (set != NULL)
    lls_lora_set_each(set, add_running, &running);
  lls_metrics_label(&labels, "max_lora", most);
  lls_metrics_label(&labels, "waiting_lora_adapters", "");
  lls_metrics_label(&labels, "running_lora_adapters",
                    running.data != NULL ? running.data : "");
  lls_text_free(&running);
  lls_page_head(page, name, "gauge", "Running stats on lora requests.");
  if (!labels.failed)
    lls_metrics_sample(&page->text, name, labels.data, (double)time(NULL));
  lls_text_free(&labels);
}

static void vllm_gauges(struct lls_page *page, const struct lls_api *api,
                        const struct lls_loop_status *status)
{
  lls_page_gauge(page, "vllm:num_requests_running",
                 "Number of requests in model execution batches.", status->running);
  lls_page_gauge(page, "vllm:num_requests_waiting",
                 "Number of requests waiting to be processed.",
                 status->waiting + status->preempted);
  waiting_by_reason(page, status);
  sleep_state(page);
  lora_info(page, api);
  lls_page_gauge(page, "vllm:kv_cache_usage_perc",
                 "KV-cache usage. 1 means 100 percent usage.",
                 usage_of(status->device_units_total, status->device_units_free));
  cache_config(page, api, status);
}

static void prompt_tokens_by_source(struct lls_page *page,
                                    const struct lls_loop_status *status)
{
  static const char name[] = "vllm:prompt_tokens_by_source_total";
  uint64_t shared = status->shared_tokens;
  uint64_t computed = status->prompt_tokens > shared ? status->prompt_tokens - shared : 0;
  lls_page_head(page, name, "counter",
                "Number of prompt tokens by where they came from.");
  lls_page_labelled(page, name, (double)computed, "source", "local_compute", NULL);
  lls_page_labelled(page, name, (double)shared, "source", "local_cache_hit", NULL);
  lls_page_labelled(page, name, 0, "source", "external_kv_transfer", NULL);
}

/* Writes a counter that is always 0, for dashboards that divide by it or sum it. */
static void never(struct lls_page *page, const char *name, const char *help)
{
  lls_page_counter(page, name, help, 0);
}

/* Writes the counters of guesses; a position is the place of a guess in its draft. */
static void spec_decode(struct lls_page *page, const struct lls_loop_status *status)
{
  static const char name[] = "vllm:spec_decode_num_accepted_tokens_per_pos_total";
  uint32_t places = LLS_MAX_DRAFTS;
  lls_page_counter(page, "vllm:spec_decode_num_drafts_total",
                   "Number of drafts that steps have verified.", status->drafts);
  lls_page_counter(page, "vllm:spec_decode_num_draft_tokens_total",
                   "Number of draft tokens.", status->drafted_tokens);
  lls_page_counter(page, "vllm:spec_decode_num_accepted_tokens_total",
                   "Number of accepted draft tokens.", status->accepted_tokens);
  while (places > 0 && status->accepted_at[places - 1] == 0)
    places--;
  if (places > 0)
    lls_page_head(page, name, "counter", "Accepted tokens by their place in the draft.");
  for (uint32_t i = 0; i < places; i++) {
    char place[16];
    snprintf(place, sizeof place, "%u", i);
    lls_page_labelled(page, name, (double)status->accepted_at[i], "position", place,
                      NULL);
  }
}

static void vllm_counters(struct lls_page *page, const struct lls_api *api,
                          const struct lls_loop_status *status)
{
  lls_page_counter(page, "vllm:num_preemptions_total",
                   "Cumulative number of preemption from the engine.",
                   status->preempted_recompute + status->preempted_swap);
  lls_page_counter(page, "vllm:prompt_tokens_total",
                   "Number of prefill tokens processed.", status->prompt_tokens);
  lls_page_counter(page, "vllm:prompt_tokens_cached_total",
                   "Number of prompt tokens whose cache was shared.",
                   status->shared_tokens);
  lls_page_counter(page, "vllm:generation_tokens_total",
                   "Number of generation tokens processed.", status->generated_tokens);
  prompt_tokens_by_source(page, status);
  lls_page_counter(page, "vllm:prefix_cache_queries_total",
                   "Prefix cache queries, in terms of number of queried tokens.",
                   status->prompt_tokens);
  lls_page_counter(page, "vllm:prefix_cache_hits_total",
                   "Prefix cache hits, in terms of number of cached tokens.",
                   status->shared_tokens);
  request_success(page, &api->stats);
  spec_decode(page, status);
  never(page, "vllm:external_prefix_cache_queries_total",
        "Prefix cache queries to other instances, in tokens; there are none.");
  never(page, "vllm:external_prefix_cache_hits_total",
        "Prefix cache hits in other instances, in tokens; there are none.");
  never(page, "vllm:mm_cache_queries_total",
        "Queries of the cache of images; models here read text only.");
  never(page, "vllm:mm_cache_hits_total",
        "Hits in the cache of images; models here read text only.");
}

static void vllm_histograms(struct lls_page *page, const struct lls_api_stats *stats)
{
  lls_page_histogram(page, "vllm:time_to_first_token_seconds",
                     "Histogram of time to first token in seconds.", &stats->ttft);
  lls_page_histogram(page, "vllm:inter_token_latency_seconds",
                     "Histogram of inter-token latency in seconds.", &stats->inter_token);
  lls_page_histogram(page, "vllm:request_time_per_output_token_seconds",
                     "Histogram of time per output token of each request.",
                     &stats->per_output_token);
  lls_page_histogram(page, "vllm:e2e_request_latency_seconds",
                     "Histogram of end to end request latency in seconds.", &stats->e2e);
  lls_page_histogram(page, "vllm:request_queue_time_seconds",
                     "Histogram of time spent waiting, from arrival to the first step.",
                     &stats->queue);
  lls_page_histogram(page, "vllm:request_prefill_time_seconds",
                     "Histogram of time from the first step to the first token.",
                     &stats->prefill);
  lls_page_histogram(page, "vllm:request_decode_time_seconds",
                     "Histogram of time from the first to the last token.",
                     &stats->decode);
  lls_page_histogram(page, "vllm:request_inference_time_seconds",
                     "Histogram of time from the first step to the last token.",
                     &stats->inference);
  lls_page_histogram(page, "vllm:request_prompt_tokens",
                     "Number of prefill tokens of a request.", &stats->prompt_tokens);
  lls_page_histogram(page, "vllm:request_generation_tokens",
                     "Number of generation tokens of a request.",
                     &stats->generation_tokens);
  lls_page_histogram(page, "vllm:request_params_max_tokens",
                     "Histogram of the max_tokens request parameter.",
                     &stats->max_tokens);
  lls_page_histogram(page, "vllm:request_max_num_generation_tokens",
                     "Histogram of the longest choice's tokens of a request.",
                     &stats->max_generation);
  lls_page_histogram(page, "vllm:request_prefill_kv_computed_tokens",
                     "Histogram of prompt tokens that were computed, not shared.",
                     &stats->computed_tokens);
  lls_page_histogram(page, "vllm:request_params_n",
                     "Histogram of the n request parameter.", &stats->n);
}

void lls_page_vllm(struct lls_page *page, const struct lls_api *api,
                   const struct lls_loop_status *status)
{
  vllm_gauges(page, api, status);
  vllm_counters(page, api, status);
  vllm_histograms(page, &api->stats);
  lls_page_histogram(page, "vllm:iteration_tokens_total",
                     "Histogram of number of tokens per engine step.",
                     &status->step_tokens);
}
