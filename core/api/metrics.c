/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /metrics: the series that vLLM's dashboards and the Kubernetes inference gateway
 * read, under vLLM's names, units and meanings; and ours beside them as llmserve_.
 */
#include <sys/resource.h>
#include <unistd.h>

#include "core/api/internal.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- the numbers kept here ------------------------------------------------------ */

static const double ttft_bounds[] = {.001, .005, .01, .02, .04, .06, .08, .1,
                                     .25,  .5,   .75, 1,   2.5, 5,   7.5, 10,
                                     20,   40,   80,  160, 640, 2560};
static const double token_bounds[] = {.01, .025, .05, .075, .1,  .15, .2, .3, .4, .5,
                                      .75, 1,    2.5, 5,    7.5, 10,  20, 40, 80};
static const double request_bounds[] = {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                        30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
static const double length_bounds[] = {
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};

void lls_api_stats_init(struct lls_api_stats *stats)
{
  struct lls_histogram *stages[] = {&stats->e2e, &stats->queue, &stats->prefill,
                                    &stats->decode, &stats->inference};
  struct lls_histogram *lengths[] = {&stats->prompt_tokens, &stats->generation_tokens,
                                     &stats->max_tokens};
  *stats = (struct lls_api_stats){0};
  lls_histogram_init(&stats->ttft, ttft_bounds, COUNT(ttft_bounds));
  lls_histogram_init(&stats->inter_token, token_bounds, COUNT(token_bounds));
  lls_histogram_init(&stats->per_output_token, token_bounds, COUNT(token_bounds));
  for (size_t i = 0; i < COUNT(stages); i++)
    lls_histogram_init(stages[i], request_bounds, COUNT(request_bounds));
  for (size_t i = 0; i < COUNT(lengths); i++)
    lls_histogram_init(lengths[i], length_bounds, COUNT(length_bounds));
}

/* ---- writing -------------------------------------------------------------------- */

struct page {
  struct lls_text text;
  struct lls_text labels; /* model_name and engine, for the vllm: series */
};

static const char *page_labels(const struct page *page, const char *name)
{
  return name[0] == 'v' && page->labels.data != NULL ? page->labels.data : "";
}

static void number(struct page *page, const char *name, const char *type,
                   const char *help, double value)
{
  lls_metrics_head(&page->text, name, type, help);
  lls_metrics_sample(&page->text, name, page_labels(page, name), value);
}

static void gauge(struct page *page, const char *name, const char *help, double value)
{
  number(page, name, "gauge", help, value);
}

static void counter(struct page *page, const char *name, const char *help, uint64_t value)
{
  number(page, name, "counter", help, (double)value);
}

static void histogram(struct page *page, const char *name, const char *help,
                      const struct lls_histogram *values)
{
  lls_metrics_head(&page->text, name, "histogram", help);
  lls_metrics_histogram(&page->text, name, page_labels(page, name), values);
}

/* One sample of a family that has one more label. */
static void labelled(struct page *page, const char *name, const char *label,
                     const char *value, double number_of)
{
  struct lls_text labels = {0};
  lls_text_puts(&labels, page_labels(page, name));
  lls_metrics_label(&labels, label, value);
  if (!labels.failed)
    lls_metrics_sample(&page->text, name, labels.data, number_of);
  lls_text_free(&labels);
}

/* ---- vllm: ---------------------------------------------------------------------- */

static double usage_of(uint32_t total, uint32_t free_units)
{
  return total > 0 ? 1 - (double)free_units / (double)total : 0;
}

static void cache_config(struct page *page, const struct lls_api *api,
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
  lls_metrics_head(&page->text, name, "gauge",
                   "Information of the LLMEngine CacheConfig");
  if (!labels.failed)
    lls_metrics_sample(&page->text, name, labels.data, 1);
  lls_text_free(&labels);
}

static void request_success(struct page *page, const struct lls_api_stats *stats)
{
  static const char name[] = "vllm:request_success_total";
  static const char *const reasons[LLS_OUTCOMES] = {"stop", "length", "abort", "error"};
  lls_metrics_head(&page->text, name, "counter",
                   "Count of successfully processed requests.");
  for (unsigned i = 0; i < LLS_OUTCOMES; i++)
    labelled(page, name, "finished_reason", reasons[i], (double)stats->finished[i]);
}

static void vllm_gauges(struct page *page, const struct lls_api *api,
                        const struct lls_loop_status *status)
{
  gauge(page, "vllm:num_requests_running",
        "Number of requests in model execution batches.", status->running);
  gauge(page, "vllm:num_requests_waiting", "Number of requests waiting to be processed.",
        status->waiting + status->preempted);
  gauge(page, "vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.",
        usage_of(status->device_units_total, status->device_units_free));
  cache_config(page, api, status);
}

static void vllm_counters(struct page *page, const struct lls_api *api,
                          const struct lls_loop_status *status)
{
  counter(page, "vllm:num_preemptions_total",
          "Cumulative number of preemption from the engine.",
          status->preempted_recompute + status->preempted_swap);
  counter(page, "vllm:prompt_tokens_total", "Number of prefill tokens processed.",
          status->prompt_tokens);
  counter(page, "vllm:prompt_tokens_cached_total",
          "Number of prompt tokens whose cache was shared.", status->shared_tokens);
  counter(page, "vllm:generation_tokens_total", "Number of generation tokens processed.",
          status->generated_tokens);
  request_success(page, &api->stats);
}

static void vllm_histograms(struct page *page, const struct lls_api_stats *stats)
{
  histogram(page, "vllm:time_to_first_token_seconds",
            "Histogram of time to first token in seconds.", &stats->ttft);
  histogram(page, "vllm:inter_token_latency_seconds",
            "Histogram of inter-token latency in seconds.", &stats->inter_token);
  histogram(page, "vllm:request_time_per_output_token_seconds",
            "Histogram of time per output token of each request.",
            &stats->per_output_token);
  histogram(page, "vllm:e2e_request_latency_seconds",
            "Histogram of end to end request latency in seconds.", &stats->e2e);
  histogram(page, "vllm:request_queue_time_seconds",
            "Histogram of time spent waiting, from arrival to the first step.",
            &stats->queue);
  histogram(page, "vllm:request_prefill_time_seconds",
            "Histogram of time from the first step to the first token.", &stats->prefill);
  histogram(page, "vllm:request_decode_time_seconds",
            "Histogram of time from the first to the last token.", &stats->decode);
  histogram(page, "vllm:request_inference_time_seconds",
            "Histogram of time from the first step to the last token.",
            &stats->inference);
  histogram(page, "vllm:request_prompt_tokens", "Number of prefill tokens of a request.",
            &stats->prompt_tokens);
  histogram(page, "vllm:request_generation_tokens",
            "Number of generation tokens of a request.", &stats->generation_tokens);
  histogram(page, "vllm:request_params_max_tokens",
            "Histogram of the max_tokens request parameter.", &stats->max_tokens);
}

/* ---- llmserve_ ------------------------------------------------------------------ */

static void step_numbers(struct page *page, const struct lls_loop_status *status)
{
  counter(page, "llmserve_steps_total", "Steps run.", status->steps);
  counter(page, "llmserve_step_sequences_total", "Sequences in all steps together.",
          status->batch_sequences_sum);
  counter(page, "llmserve_step_tokens_total", "Tokens computed in all steps together.",
          status->batch_tokens_sum);
  counter(page, "llmserve_plans_refused_total",
          "Plans of the scheduler that were refused whole.", status->plans_refused);
  counter(page, "llmserve_plans_late_total", "Plans that overran their time.",
          status->plans_late);
  counter(page, "llmserve_plan_items_refused_total",
          "Items of plans that could not be placed.", status->items_refused);
  number(page, "llmserve_plan_seconds_total", "counter", "Time spent planning.",
         (double)status->plan_ns_sum / 1e9);
  number(page, "llmserve_step_seconds_total", "counter", "Time spent in steps.",
         (double)status->step_ns_sum / 1e9);
  number(page, "llmserve_device_seconds_total", "counter",
         "Time spent in the forward passes of steps.",
         (double)status->device_ns_sum / 1e9);
}

static void preemptions(struct page *page, const struct lls_loop_status *status)
{
  static const char name[] = "llmserve_preemptions_total";
  lls_metrics_head(&page->text, name, "counter", "Preemptions by kind.");
  labelled(page, name, "kind", "recompute", (double)status->preempted_recompute);
  labelled(page, name, "kind", "swap", (double)status->preempted_swap);
  counter(page, "llmserve_copied_bytes_total", "Bytes of cache copied between tiers.",
          status->copied_bytes);
}

static void cache_units(struct page *page, const struct lls_loop_status *status)
{
  static const char total[] = "llmserve_cache_units",
                    unused[] = "llmserve_cache_units_free";
  lls_metrics_head(&page->text, total, "gauge", "Unit blocks of the cache by tier.");
  labelled(page, total, "tier", "device", status->device_units_total);
  labelled(page, total, "tier", "host", status->host_units_total);
  lls_metrics_head(&page->text, unused, "gauge", "Unit blocks that are free.");
  labelled(page, unused, "tier", "device", status->device_units_free);
  labelled(page, unused, "tier", "host", status->host_units_free);
}

static void http_numbers(struct page *page, const struct lls_api *api)
{
  const struct lls_http_counters *http = lls_http_server_counters(api->http);
  gauge(page, "llmserve_http_connections", "Open connections.", http->open);
  gauge(page, "llmserve_http_requests_in_hand", "HTTP requests being answered.",
        http->busy);
  gauge(page, "llmserve_generations_live",
        "Generation requests that are not over yet in the step loop.", api->stats.live);
  counter(page, "llmserve_http_requests_total", "HTTP requests received.",
          http->requests);
  counter(page, "llmserve_http_connections_total", "Connections accepted.",
          http->accepted);
  counter(page, "llmserve_http_connections_refused_total",
          "Connections closed because there were too many.", http->refused);
  counter(page, "llmserve_http_malformed_total",
          "HTTP requests refused before they were complete.", http->malformed);
  counter(page, "llmserve_http_timeouts_total", "Connections closed for a timeout.",
          http->timeouts);
  counter(page, "llmserve_http_slow_readers_total",
          "Connections cut off because the answer was not read.", http->slow_readers);
  counter(page, "llmserve_http_clients_gone_total",
          "Clients that left before their answer was complete.", http->gone);
  counter(page, "llmserve_generations_refused_total",
          "Generation requests that were answered with an error at once.",
          api->stats.refused);
}

static void process_numbers(struct page *page, const struct lls_api *api)
{
  struct rusage used;
  size_t resident = 0;
  getrusage(RUSAGE_SELF, &used);
  uv_resident_set_memory(&resident);
  number(page, "process_cpu_seconds_total", "counter",
         "Total user and system CPU time spent in seconds.",
         (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
             (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
  gauge(page, "process_resident_memory_bytes", "Resident memory size in bytes.",
        (double)resident);
  gauge(page, "process_start_time_seconds",
        "Start time of the process since unix epoch in seconds.", (double)api->created_s);
}

static void write_page(struct page *page, const struct lls_api *api)
{
  struct lls_loop_status status;
  lls_loop_status(api->config.loop, &status);
  lls_metrics_label(&page->labels, "model_name", api->model_name);
  lls_metrics_label(&page->labels, "engine", "0");
  vllm_gauges(page, api, &status);
  vllm_counters(page, api, &status);
  vllm_histograms(page, &api->stats);
  step_numbers(page, &status);
  preemptions(page, &status);
  cache_units(page, &status);
  gauge(page, "llmserve_scheduler_fallback",
        "1 when the built-in order has replaced the scheduler.", status.fallen_back);
  http_numbers(page, api);
  process_numbers(page, api);
}

void lls_handle_metrics(void *context, struct lls_http_exchange *exchange)
{
  struct page page = {0};
  write_page(&page, context);
  lls_http_reply(exchange, 200, "text/plain; version=0.0.4; charset=utf-8",
                 page.text.data, page.text.length);
  lls_text_free(&page.text);
  lls_text_free(&page.labels);
}
