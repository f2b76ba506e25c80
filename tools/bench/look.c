/* SPDX-License-Identifier: Apache-2.0 */
/* Polls GET /metrics for the timeline; see look.h. */
#include "tools/bench/look.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PERIOD_MS 500

/* Returns the sum of a gauge's samples, and their number in *n. */
static double gauge(const char *page, const char *name, unsigned *n)
{
  size_t length = strlen(name);
  double sum = 0;
  *n = 0;
  for (const char *line = page; line != NULL && *line != '\0';
       line = strchr(line, '\n')) {
    line += *line == '\n';
    const char *value = line + length;
    if (strncmp(line, name, length) != 0 || (*value != '{' && *value != ' '))
      continue;
    /* the label values of these gauges contain no space */
    value = line + strcspn(line, " \n");
    sum += strtod(value, NULL);
    ++*n;
  }
  return sum;
}

static void take(struct lls_look *look, const char *page)
{
  unsigned n, n_cache;
  struct lls_report_look seen = {.running = gauge(page, "vllm:num_requests_running", &n),
                                 .waiting = gauge(page, "vllm:num_requests_waiting", &n)};
  double cache = gauge(page, "vllm:kv_cache_usage_perc", &n_cache);
  if (n_cache == 0)
    cache = gauge(page, "vllm:gpu_cache_usage_perc", &n_cache);
  seen.cache = n_cache > 0 ? cache / n_cache : NAN;
  if (n > 0)
    lls_report_look(look->report, (int64_t)uv_hrtime() - look->began_ns, &seen);
  else
    uv_timer_stop(&look->timer);
}

static void on_end(struct lls_fetch *fetch, int status)
{
  struct lls_look *look = fetch->context;
  look->asking = false;
  take(look, status == 0 && fetch->status == 200 && fetch->body.length > 0
                 ? fetch->body.data
                 : "");
  lls_text_free(&fetch->body);
  lls_text_free(&fetch->request);
}

static void on_timer(uv_timer_t *timer)
{
  struct lls_look *look = timer->data;
  const struct lls_bench *b = look->bench;
  if (look->asking)
    return;
  look->fetch = (struct lls_fetch){.context = look, .on_end = on_end};
  lls_text_printf(&look->fetch.request, "GET %s/metrics HTTP/1.1\r\nHost: %s\r\n%s\r\n",
                  b->prefix, b->host, b->headers);
  look->asking = true;
  lls_fetch_send(b->client, &look->fetch);
}

void lls_look_begin(struct lls_look *look, struct lls_bench *bench,
                    struct lls_report *report, int64_t began_ns)
{
  *look = (struct lls_look){.bench = bench, .report = report, .began_ns = began_ns};
  uv_timer_init(&bench->uv, &look->timer);
  look->timer.data = look;
  uv_timer_start(&look->timer, on_timer, 0, PERIOD_MS);
}

void lls_look_end(struct lls_look *look)
{
  if (look->asking) {
    lls_fetch_cancel(&look->fetch);
    lls_text_free(&look->fetch.body);
    lls_text_free(&look->fetch.request);
  }
  look->asking = false;
  uv_close((uv_handle_t *)&look->timer, NULL);
}
