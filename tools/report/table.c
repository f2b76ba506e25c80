/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the table of a run: the lines of vLLM's `bench serve`, in its layout, then
 * ours. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "tools/report/internal.h"

#define WIDTH 50
#define GIB   (1024.0 * 1024 * 1024)

static void rule(FILE *out, const char *title, char fill)
{
  int length = (int)strlen(title), left = (WIDTH - length) / 2;
  for (int i = 0; i < left; i++)
    fputc(fill, out);
  fputs(title, out);
  for (int i = left + length; i < WIDTH; i++)
    fputc(fill, out);
  fputc('\n', out);
}

static void line(FILE *out, const char *name, double value, int digits)
{
  char text[32];
  snprintf(text, sizeof text, "%.*f", digits, value);
  fprintf(out, "%-40s %-10s\n", name, text);
}

static void print_spread(FILE *out, const struct lls_metrics *m, const char *title,
                         const char *name, const struct lls_spread *s)
{
  char text[64];
  if (s->n == 0)
    return;
  rule(out, title, '-');
  snprintf(text, sizeof text, "Mean %s (ms):", name);
  line(out, text, s->mean, 2);
  snprintf(text, sizeof text, "Median %s (ms):", name);
  line(out, text, s->median, 2);
  for (uint32_t i = 1; i < m->n_percentiles; i++) {
    snprintf(text, sizeof text, "P%g %s (ms):", m->percentiles[i], name);
    line(out, text, s->percentiles[i], 2);
  }
}

static void print_failures(const struct lls_report *report, FILE *out)
{
  json_t *kinds = lls_report_failures(report), *count;
  const char *kind;
  char text[128];
  json_object_foreach(kinds, kind, count)
  {
    snprintf(text, sizeof text, "  %s:", kind);
    line(out, text, (double)json_integer_value(count), 0);
  }
  json_decref(kinds);
}

/* ---- vLLM's lines --------------------------------------------------------------- */

static void print_totals(const struct lls_report *report,
                         const struct lls_report_header *h, const struct lls_metrics *m,
                         FILE *out)
{
  double s = m->duration_s > 0 ? m->duration_s : INFINITY;
  line(out, "Successful requests:", m->completed, 0);
  line(out, "Failed requests:", m->failed, 0);
  print_failures(report, out);
  if (m->cancelled > 0)
    line(out, "Cancelled requests:", m->cancelled, 0);
  if (h->max_concurrency > 0)
    line(out, "Maximum request concurrency:", h->max_concurrency, 0);
  if (isfinite(h->request_rate))
    line(out, "Request rate configured (RPS):", h->request_rate, 2);
  line(out, "Benchmark duration (s):", m->duration_s, 2);
  line(out, "Total input tokens:", (double)m->prompt_tokens, 0);
  line(out, "Total generated tokens:", (double)m->output_tokens, 0);
  line(out, "Request throughput (req/s):", m->completed / s, 2);
  if (m->all.all.n > 0)
    line(out, "Request goodput (req/s):", m->all.all.met / s, 2);
  line(out, "Output token throughput (tok/s):", (double)m->output_tokens / s, 2);
  line(out, "Peak output token throughput (tok/s):", (double)m->max_tokens_per_s, 2);
  line(out, "Peak concurrent requests:", m->max_concurrent, 2);
  line(out, "Total token throughput (tok/s):",
       (double)(m->prompt_tokens + m->output_tokens) / s, 2);
}

/* ---- ours -------------------------------------------------------------------------- */

static void print_met(FILE *out, const char *class, const char *what,
                      const struct lls_met *met)
{
  char text[64];
  if (met->n == 0)
    return;
  snprintf(text, sizeof text, "%s%s (%%):", class, what);
  line(out, text, 100.0 * met->met / met->n, 2);
}

static void print_attainment(FILE *out, const char *class, const struct lls_attainment *a)
{
  char text[64];
  print_met(out, class, "all SLOs", &a->all);
  print_met(out, class, "TTFT", &a->ttft);
  print_met(out, class, "P99 TBT", &a->tbt);
  print_met(out, class, "TPOT", &a->tpot);
  print_met(out, class, "completion", &a->completion);
  if (a->deadlines == 0)
    return;
  snprintf(text, sizeof text, "%stokens in time (%%):", class);
  line(out, text, 100.0 * (double)a->deadlines_met / (double)a->deadlines, 2);
}

static const char *const classes[] = {"no class: ", "realtime: ", "best effort: "};

static void print_class(FILE *out, const char *class, const struct lls_class_metrics *c)
{
  const struct {
    const char *what;
    double value;
  } rows[] = {{"throughput (req/s)", c->request_throughput},
              {"mean TTFT (ms)", c->ttft.mean},
              {"mean TPOT (ms)", c->tpot.mean},
              {"mean normalised (ms)", c->normalised.mean}};
  char text[64];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    snprintf(text, sizeof text, "%s%s:", class, rows[i].what);
    line(out, text, rows[i].value, 2);
  }
}

/* Prints the classes if there are several. */
static void print_classes(const struct lls_metrics *m, FILE *out)
{
  unsigned used = 0;
  for (int i = 0; i < LLS_CLASSES; i++)
    used += m->by_class[i].issued > 0;
  if (used < 2)
    return;
  rule(out, "By class, while requests come", '-');
  for (int i = 0; i < LLS_CLASSES; i++)
    if (m->by_class[i].issued > 0)
      print_class(out, classes[i], &m->classes[i]);
}

static void print_slos(const struct lls_metrics *m, FILE *out)
{
  unsigned used = 0;
  if (m->all.all.n == 0)
    return;
  rule(out, "SLO attainment, of all issued", '-');
  print_attainment(out, "", &m->all);
  for (int i = 0; i < LLS_CLASSES; i++)
    used += m->by_class[i].issued > 0;
  for (int i = 0; i < LLS_CLASSES && used > 1; i++)
    print_attainment(out, classes[i], &m->by_class[i]);
}

static void print_steady(const struct lls_steady *s, FILE *out)
{
  if (s->requests == 0)
    return;
  rule(out, "Steady State", '-');
  line(out, "From (s):", s->from_s, 2);
  line(out, "To (s):", s->to_s, 2);
  line(out, "Requests:", s->requests, 0);
  line(out, "Request throughput (req/s):", s->request_throughput, 2);
  line(out, "Output token throughput (tok/s):", s->output_throughput, 2);
  line(out, "Mean TTFT (ms):", s->mean_ttft_ms, 2);
  line(out, "Mean TPOT (ms):", s->mean_tpot_ms, 2);
}

static void print_engine(const struct lls_report *report, FILE *out)
{
  const struct lls_engine_totals *e = &report->engine;
  double ns = e->busy_ns > 0 ? e->busy_ns : 1;
  if (e->steps == 0)
    return;
  rule(out, "Engine", '-');
  line(out, "Steps:", (double)e->steps, 0);
  line(out, "Mean step (ms):", e->busy_ns / (double)e->steps / 1e6, 3);
  line(out, "Mean batch (requests, by time):", e->requests_ns / ns, 2);
  line(out, "Largest batch:", e->max_requests, 0);
  line(out, "Preemptions by recompute:", (double)e->preemptions[LLS_PREEMPT_RECOMPUTE],
       0);
  line(out, "Preemptions by swap:", (double)e->preemptions[LLS_PREEMPT_SWAP], 0);
  line(out, "Device to host (GiB):", (double)e->bytes[LLS_COPY_DEVICE_TO_HOST] / GIB, 3);
  line(out, "Host to device (GiB):", (double)e->bytes[LLS_COPY_HOST_TO_DEVICE] / GIB, 3);
  line(out, "Device to device (GiB):", (double)e->bytes[LLS_COPY_DEVICE_TO_DEVICE] / GIB,
       3);
  if (report->options.memory_units > 0)
    line(out, "Cache occupancy (%):",
         100 * e->units_ns / ns / (double)report->options.memory_units, 2);
  if (e->units_ns > 0)
    line(out, "Cache fragmentation (%):", 100 * (1 - e->filled_ns / e->units_ns), 2);
  if (e->plan.n > 0) {
    line(out, "Mean plan time (us):", e->plan.mean / 1e3, 2);
    line(out, "P99 plan time (us):", lls_report_histogram_percentile(&e->plan, 99) / 1e3,
         2);
  }
}

static void print_ours(const struct lls_report *report, const struct lls_metrics *m,
                       FILE *out)
{
  print_spread(out, m, "Normalised Latency (per token)", "normalised", &m->normalised);
  print_classes(m, out);
  print_slos(m, out);
  print_steady(&m->steady, out);
  if (!isnan(m->queueing_share))
    line(out, "Queueing, share of latency (%):", 100 * m->queueing_share, 2);
  if (!isnan(m->jain_fairness)) {
    rule(out, "Fairness over tenants", '-');
    line(out, "Jain index:", m->jain_fairness, 4);
    line(out, "Largest difference of service:", m->service_difference, 0);
  }
  print_engine(report, out);
}

int lls_report_print(const struct lls_report *report, const struct lls_report_header *h,
                     FILE *out)
{
  struct lls_metrics m;
  int rc = lls_report_metrics(report, &m);
  if (rc < 0)
    return rc;
  rule(out, " Serving Benchmark Result ", '=');
  print_totals(report, h, &m, out);
  if (report->shown & LLS_SHOWN_TTFT)
    print_spread(out, &m, "Time to First Token", "TTFT", &m.ttft);
  if (report->shown & LLS_SHOWN_TPOT)
    print_spread(out, &m, "Time per Output Token (excl. 1st token)", "TPOT", &m.tpot);
  if (report->shown & LLS_SHOWN_ITL)
    print_spread(out, &m, "Inter-token Latency", "ITL", &m.itl);
  if (report->shown & LLS_SHOWN_E2EL)
    print_spread(out, &m, "End-to-end Latency", "E2EL", &m.e2el);
  print_ours(report, &m, out);
  rule(out, "", '=');
  return 0;
}
