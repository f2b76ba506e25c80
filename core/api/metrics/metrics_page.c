/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /metrics: the series that vLLM's dashboards and the Kubernetes inference gateway
 * read, with vLLM's names, units and meanings (metrics_vllm.c), and this server's own
 * as llmserve_* (metrics_llmserve.c). Options add the series that dashboards of other
 * servers read (metrics_dialects.c).
 */
#include <dirent.h>
#include <sys/resource.h>
#include <stdio.h>
#include <unistd.h>

#include "core/api/metrics/prometheus.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- the numbers kept here ------------------------------------------------------ */

static const double ttft_bounds[] = {.001, .005, .01, .02, .04, .06, .08, .1,
                                     .25,  .5,   .75, 1,   2.5, 5,   7.5, 10,
                                     20,   40,   80,  160, 640, 2560};
static const double token_bounds[] = {.01, .025, .05, .075, .1,  .15, .2, .3, .4, .5,
                                      .75, 1,    2.5, 5,    7.5, 10,  20, 40, 80};
static const double request_bounds[] = {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                        30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
static const double length_bounds[] = {1,   2,   5,    10,   20,   50,  100,
                                       200, 500, 1000, 2000, 5000, 1e4, 2e4,
                                       5e4, 1e5, 2e5,  5e5,  1e6,  2e6};
static const double n_bounds[] = {1, 2, 5, 10, 20};

/* Returns the number of histogram bounds up to the model's maximum context, as in
 * vLLM. */
static unsigned length_bounds_within(uint32_t max_context)
{
  unsigned n = 1;
  while (n < COUNT(length_bounds) && length_bounds[n] <= max_context)
    n++;
  return n;
}

void lls_api_stats_init(struct lls_api_stats *stats, uint32_t max_context)
{
  struct lls_histogram *stages[] = {&stats->e2e, &stats->queue, &stats->prefill,
                                    &stats->decode, &stats->inference};
  struct lls_histogram *lengths[] = {&stats->prompt_tokens, &stats->generation_tokens,
                                     &stats->max_tokens, &stats->computed_tokens,
                                     &stats->max_generation};
  *stats = (struct lls_api_stats){0};
  lls_histogram_init(&stats->ttft, ttft_bounds, COUNT(ttft_bounds));
  lls_histogram_init(&stats->inter_token, token_bounds, COUNT(token_bounds));
  lls_histogram_init(&stats->per_output_token, token_bounds, COUNT(token_bounds));
  lls_histogram_init(&stats->n, n_bounds, COUNT(n_bounds));
  for (size_t i = 0; i < COUNT(stages); i++)
    lls_histogram_init(stages[i], request_bounds, COUNT(request_bounds));
  for (size_t i = 0; i < COUNT(lengths); i++)
    lls_histogram_init(lengths[i], length_bounds, length_bounds_within(max_context));
}

/* ---- the process, as Prometheus' own clients name it ---------------------------- */

/* Returns the number of open files, or -1 without /proc. */
static int open_files(void)
{
  DIR *folder = opendir("/proc/self/fd");
  int n = 0;
  if (folder == NULL)
    return -1;
  while (readdir(folder) != NULL)
    n++;
  closedir(folder);
  return n - 3; /* less ".", ".." and the folder itself */
}

static double virtual_bytes(void)
{
  unsigned long pages = 0;
  FILE *file = fopen("/proc/self/statm", "re");
  if (file == NULL)
    return 0;
  if (fscanf(file, "%lu", &pages) != 1)
    pages = 0;
  fclose(file);
  return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

void lls_page_process(struct lls_page *page, const struct lls_api *api)
{
  struct rusage used;
  size_t resident = 0;
  getrusage(RUSAGE_SELF, &used);
  uv_resident_set_memory(&resident);
  lls_page_number(page, "process_cpu_seconds_total", "counter",
                  "Total user and system CPU time spent in seconds.",
                  (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                      (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
  lls_page_gauge(page, "process_resident_memory_bytes", "Resident memory size in bytes.",
                 (double)resident);
  struct rlimit files;
  getrlimit(RLIMIT_NOFILE, &files);
  lls_page_gauge(page, "process_virtual_memory_bytes", "Virtual memory size in bytes.",
                 virtual_bytes());
  lls_page_gauge(page, "process_open_fds", "Number of open file descriptors.",
                 open_files());
  lls_page_gauge(page, "process_max_fds", "Maximum number of open file descriptors.",
                 (double)files.rlim_cur);
  lls_page_gauge(page, "process_start_time_seconds",
                 "Start time of the process since unix epoch in seconds.",
                 (double)api->created_s);
}

/* ---- the page --------------------------------------------------------------------- */

static void write_page(struct lls_page *page, const struct lls_api *api)
{
  struct lls_loop_status status;
  lls_loop_status(api->config.loop, &status);
  lls_metrics_label(&page->labels, "model_name", api->model_name);
  lls_metrics_label(&page->labels, "engine", "0");
  lls_page_vllm(page, api, &status);
  if (api->config.limits.metrics_legacy)
    lls_page_legacy(page, api, &status);
  if (api->config.limits.metrics_llamacpp)
    lls_page_llamacpp(page, api, &status);
  lls_page_llmserve(page, api, &status);
  lls_page_http(page, api);
  lls_page_process(page, api);
}

void lls_handle_metrics(void *context, struct lls_http_exchange *exchange)
{
  const struct lls_api *api = context;
  struct lls_page page = {0};
  char began[24];
  write_page(&page, context);
  if (api->config.limits.metrics_llamacpp) { /* llama.cpp's header */
    snprintf(began, sizeof began, "%lld", (long long)api->created_s);
    lls_http_add_header(exchange, "Process-Start-Time-Unix", began);
  }
  lls_http_reply(exchange, 200, "text/plain; version=0.0.4; charset=utf-8",
                 page.text.data, page.text.length);
  lls_text_free(&page.text);
  lls_text_free(&page.labels);
}
