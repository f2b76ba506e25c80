/* SPDX-License-Identifier: Apache-2.0 */
/* Computes metrics from outcomes. Deviations are those of the population, and
 * percentiles interpolate linearly between ranks, as numpy's defaults in vLLM's
 * tool. */
#include "tools/report/metrics.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "tools/report/internal.h"

#define NS_PER_MS 1e6

/* ---- spreads ----------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double percentile(const double *sorted, uint64_t n, double percent)
{
  double rank = percent / 100 * (double)(n - 1);
  uint64_t below = (uint64_t)rank;
  if (below + 1 >= n)
    return sorted[n - 1];
  return sorted[below] + (rank - (double)below) * (sorted[below + 1] - sorted[below]);
}

/* Computes the spread; sorts the samples. */
static struct lls_spread spread_of(const struct lls_metrics *m, double *samples,
                                   uint64_t n)
{
  struct lls_spread s = {.n = n};
  double squares = 0;
  if (n == 0)
    return s;
  qsort(samples, n, sizeof *samples, ascending);
  for (uint64_t i = 0; i < n; i++)
    s.mean += samples[i] / (double)n;
  for (uint64_t i = 0; i < n; i++)
    squares += (samples[i] - s.mean) * (samples[i] - s.mean);
  s.std = sqrt(squares / (double)n);
  s.median = percentile(samples, n, 50);
  s.max = samples[n - 1];
  for (uint32_t i = 0; i < m->n_percentiles; i++)
    s.percentiles[i] = percentile(samples, n, m->percentiles[i]);
  for (int i = 0; i < LLS_QUANTILES; i++)
    s.quantiles[i] = percentile(samples, n, i);
  return s;
}

static struct lls_spread spread_of_gaps(const struct lls_metrics *m,
                                        const struct lls_report_histogram *h)
{
  struct lls_spread s = {.n = h->n};
  if (h->n == 0)
    return s;
  s.mean = h->mean / NS_PER_MS;
  s.std = sqrt(h->squares / (double)h->n) / NS_PER_MS;
  s.median = lls_report_histogram_percentile(h, 50) / NS_PER_MS;
  s.max = (double)h->max / NS_PER_MS;
  for (uint32_t i = 0; i < m->n_percentiles; i++)
    s.percentiles[i] = lls_report_histogram_percentile(h, m->percentiles[i]) / NS_PER_MS;
  for (int i = 0; i < LLS_QUANTILES; i++)
    s.quantiles[i] = lls_report_histogram_percentile(h, i) / NS_PER_MS;
  return s;
}

/* ---- one request ------------------------------------------------------------------- */

static bool counted(const struct lls_report *report, const struct lls_report_outcome *o)
{
  return o->started_ns >= report->options.warm_up_ns;
}

static bool completed(const struct lls_report_outcome *o)
{
  return o->status == LLS_OUTCOME_COMPLETED && o->tokens > 0;
}

static int64_t latency(const struct lls_report_outcome *o)
{
  return o->last_token_ns - o->started_ns;
}

/* NaN if the request has no TPOT. */
static double tpot(const struct lls_report_outcome *o)
{
  return o->tokens < 2 ? NAN
                       : (double)(o->last_token_ns - o->first_token_ns) / (o->tokens - 1);
}

/* A request's sample in ms; NaN if it has none. */
typedef double (*sample)(const struct lls_report_outcome *);

static double sample_ttft(const struct lls_report_outcome *o)
{
  return completed(o) ? (double)(o->first_token_ns - o->started_ns) / NS_PER_MS : NAN;
}

static double sample_tpot(const struct lls_report_outcome *o)
{
  return completed(o) ? tpot(o) / NS_PER_MS : NAN;
}

static double sample_e2el(const struct lls_report_outcome *o)
{
  return completed(o) ? (double)latency(o) / NS_PER_MS : NAN;
}

static double sample_normalised(const struct lls_report_outcome *o)
{
  return completed(o) ? (double)latency(o) / NS_PER_MS / o->tokens : NAN;
}

static double sample_queueing(const struct lls_report_outcome *o)
{
  return completed(o) && o->first_scheduled_ns != LLS_NEVER
             ? (double)(o->first_scheduled_ns - o->started_ns) / NS_PER_MS
             : NAN;
}

static double sample_lateness(const struct lls_report_outcome *o)
{
  return o->item->batch == 0 && !lls_item_follows(o->item)
             ? (double)(o->started_ns - o->item->arrival_ns) / NS_PER_MS
             : NAN;
}

static double sample_first_content(const struct lls_report_outcome *o)
{
  return completed(o) && o->first_content_ns != LLS_NEVER
             ? (double)(o->first_content_ns - o->started_ns) / NS_PER_MS
             : NAN;
}

static double sample_prediction_error(const struct lls_report_outcome *o)
{
  return completed(o) && o->predicted_tokens > 0
             ? fabs((double)o->predicted_tokens - o->tokens)
             : NAN;
}

#define ANY_CLASS LLS_CLASSES

static struct lls_spread spread_over(const struct lls_report *report, uint32_t class,
                                     sample of, double *samples,
                                     const struct lls_metrics *m)
{
  uint64_t n = 0;
  for (uint32_t i = 0; i < report->n_outcomes; i++) {
    const struct lls_report_outcome *o = &report->outcomes[i];
    if (!counted(report, o) || (class != ANY_CLASS && o->item->request_class != class))
      continue;
    double value = of(o);
    if (!isnan(value))
      samples[n++] = value;
  }
  return spread_of(m, samples, n);
}

static void take_spreads(const struct lls_report *report, double *samples,
                         struct lls_metrics *m)
{
  const struct {
    struct lls_spread *out;
    sample of;
  } rows[] = {
      {&m->ttft, sample_ttft},
      {&m->tpot, sample_tpot},
      {&m->e2el, sample_e2el},
      {&m->normalised, sample_normalised},
      {&m->queueing, sample_queueing},
      {&m->lateness, sample_lateness},
      {&m->first_content, sample_first_content},
      {&m->prediction_error, sample_prediction_error},
  };
  for (size_t row = 0; row < sizeof rows / sizeof *rows; row++)
    *rows[row].out = spread_over(report, ANY_CLASS, rows[row].of, samples, m);
  m->itl = spread_of_gaps(m, &report->gaps);
  if (!report->tokens_untold)
    m->itl_per_token = spread_of_gaps(m, &report->gaps_per_token);
}

/* Throughput of a class: counts completions between the class's first start and the
 * last start of all requests. */
static void take_throughput(const struct lls_report *report, uint32_t class,
                            struct lls_class_metrics *out)
{
  int64_t first = INT64_MAX, last = 0;
  uint64_t requests = 0, tokens = 0;
  for (uint32_t i = 0; i < report->n_outcomes; i++) {
    const struct lls_report_outcome *o = &report->outcomes[i];
    if (!counted(report, o))
      continue;
    last = o->started_ns > last ? o->started_ns : last;
    if (o->item->request_class == class && o->started_ns < first)
      first = o->started_ns;
  }
  for (uint32_t i = 0; i < report->n_outcomes; i++) {
    const struct lls_report_outcome *o = &report->outcomes[i];
    bool counts = counted(report, o) && completed(o) && o->ended_ns <= last &&
                  o->item->request_class == class;
    requests += counts;
    tokens += counts ? o->tokens : 0;
  }
  if (last <= first)
    return;
  double seconds = (double)(last - first) / LLS_NS_PER_S;
  out->request_throughput = (double)requests / seconds;
  out->output_throughput = (double)tokens / seconds;
}

static void take_classes(const struct lls_report *report, double *samples,
                         struct lls_metrics *m)
{
  for (uint32_t class = 0; class < LLS_CLASSES; class ++) {
    struct lls_class_metrics *c = &m->classes[class];
    c->ttft = spread_over(report, class, sample_ttft, samples, m);
    c->tpot = spread_over(report, class, sample_tpot, samples, m);
    c->normalised = spread_over(report, class, sample_normalised, samples, m);
    take_throughput(report, class, c);
  }
}

/* ---- deadlines --------------------------------------------------------------------- */

/* Counts one deadline of a request; returns false if the request has it and missed
 * it. */
static bool judge(struct lls_met *met, int64_t slo_ns, bool done, double took_ns)
{
  if (slo_ns == LLS_NEVER)
    return true;
  bool in_time = done && !(took_ns > (double)slo_ns);
  met->n++;
  met->met += in_time;
  return in_time;
}

static bool judge_own(struct lls_attainment *a, const struct lls_report_outcome *o)
{
  const struct lls_slo *slo = &o->item->slo;
  bool done = completed(o);
  double ttft = (double)(o->first_token_ns - o->started_ns);
  bool good = judge(&a->ttft, slo->ttft_ns, o->first_token_ns != LLS_NEVER, ttft);
  good &= judge(&a->tbt, slo->tbt_ns, done, (double)o->gap_p99_ns);
  good &= judge(&a->tpot, slo->tpot_ns, done, tpot(o));
  good &= judge(&a->completion, slo->completion_ns, done, (double)latency(o));
  return good && done;
}

/* vLLM takes the TPOT of a one-token answer as 0. */
static bool judge_goodput(const struct lls_goodput *g, const struct lls_report_outcome *o)
{
  struct lls_met any;
  bool good = completed(o);
  good &= judge(&any, g->ttft_ns, good, (double)(o->first_token_ns - o->started_ns));
  good &= judge(&any, g->tpot_ns, good, tpot(o));
  good &= judge(&any, g->e2el_ns, good, (double)latency(o));
  good &= judge(&any, g->itl_p99_ns, good, (double)o->gap_p99_ns);
  return good & judge(&any, g->itl_max_ns, good, (double)o->gap_max_ns);
}

static bool has_slo(const struct lls_slo *slo)
{
  return slo->ttft_ns != LLS_NEVER || slo->tbt_ns != LLS_NEVER ||
         slo->tpot_ns != LLS_NEVER || slo->completion_ns != LLS_NEVER;
}

/* Does a request count? All do but those in the warm-up and those that the load itself
 * cut short. */
static bool judged(const struct lls_report *report, const struct lls_report_outcome *o)
{
  return counted(report, o) && o->status != LLS_OUTCOME_CANCELLED;
}

static void attain(const struct lls_goodput *goodput, struct lls_attainment *a,
                   const struct lls_report_outcome *o)
{
  bool good = judge_own(a, o), any = has_slo(&o->item->slo);
  if (goodput->set) {
    any = true;
    good = judge_goodput(goodput, o);
  }
  a->issued++;
  a->completed += completed(o);
  a->all.n += any;
  a->all.met += any && good;
  a->deadlines += o->deadlines;
  a->deadlines_met += o->deadlines_met;
  if (any && good)
    a->good_tokens += o->tokens;
}

struct lls_attainment lls_report_tenant(const struct lls_report *report, uint32_t tenant)
{
  struct lls_attainment a = {0};
  for (uint32_t i = 0; i < report->n_outcomes; i++) {
    const struct lls_report_outcome *o = &report->outcomes[i];
    if (o->item->tenant == tenant && judged(report, o))
      attain(&report->goodput, &a, o);
  }
  return a;
}

/* ---- all of them ------------------------------------------------------------------- */

static void count(struct lls_metrics *m, const struct lls_report_outcome *o)
{
  m->issued++;
  m->completed += completed(o);
  m->cancelled += o->status == LLS_OUTCOME_CANCELLED;
  m->failed += !completed(o) && o->status != LLS_OUTCOME_CANCELLED;
  m->preemptions += o->preemptions;
  if (!completed(o))
    return;
  m->prompt_tokens += o->item->prompt_tokens;
  m->output_tokens += o->tokens;
}

static void take_counts(const struct lls_report *report, struct lls_metrics *m)
{
  int64_t first = INT64_MAX, last = 0;
  double waited = 0, lasted = 0;
  for (uint32_t i = 0; i < report->n_outcomes; i++) {
    const struct lls_report_outcome *o = &report->outcomes[i];
    if (!counted(report, o))
      continue;
    count(m, o);
    first = o->started_ns < first ? o->started_ns : first;
    last = o->ended_ns > last ? o->ended_ns : last;
    if (completed(o) && o->first_scheduled_ns != LLS_NEVER) {
      waited += (double)(o->first_scheduled_ns - o->started_ns);
      lasted += (double)latency(o);
    }
    if (!judged(report, o))
      continue;
    attain(&report->goodput, &m->by_class[o->item->request_class], o);
    attain(&report->goodput, &m->all, o);
  }
  m->duration_s = last > first ? (double)(last - first) / LLS_NS_PER_S : 0;
  m->queueing_share = lasted > 0 ? waited / lasted : NAN;
  for (size_t i = 0; i < report->n_seconds; i++)
    if (report->tokens_by_second[i] > m->max_tokens_per_s)
      m->max_tokens_per_s = report->tokens_by_second[i];
}

/* The most simultaneous requests, from the sorted starts and ends. */
static void take_concurrency(const struct lls_report *report, double *starts,
                             double *ends, struct lls_metrics *m)
{
  uint32_t n = report->n_outcomes, ended = 0;
  for (uint32_t i = 0; i < n; i++) {
    starts[i] = (double)report->outcomes[i].started_ns;
    ends[i] = (double)report->outcomes[i].ended_ns;
  }
  qsort(starts, n, sizeof *starts, ascending);
  qsort(ends, n, sizeof *ends, ascending);
  for (uint32_t i = 0; i < n; i++) {
    while (ended < n && ends[ended] <= starts[i] && ended < i)
      ended++;
    if (i + 1 - ended > m->max_concurrent)
      m->max_concurrent = i + 1 - ended;
  }
}

/* Jain's index (1984) over the tenants that sent requests: 1 if all got equal service,
 * 1/n if one of n got everything. */
static void take_fairness(const struct lls_report *report, struct lls_metrics *m)
{
  double sum = 0, squares = 0, least = INFINITY, most = 0;
  uint32_t n = report->workload->n_tenants;
  m->jain_fairness = NAN;
  for (uint32_t i = 1; i <= n; i++) {
    double service = report->service[i];
    sum += service;
    squares += service * service;
    least = fmin(least, service);
    most = fmax(most, service);
  }
  if (n == 0 || squares == 0)
    return;
  m->jain_fairness = sum * sum / (n * squares);
  m->service_difference = most - least;
}

int lls_report_metrics(const struct lls_report *report, struct lls_metrics *out)
{
  double *samples = calloc(2 * (size_t)report->n_outcomes + 2, sizeof *samples);
  if (samples == NULL)
    return -ENOMEM;
  *out = (struct lls_metrics){.n_percentiles = report->n_percentiles};
  for (uint32_t i = 0; i < report->n_percentiles; i++)
    out->percentiles[i] = report->percentiles[i];
  take_spreads(report, samples, out);
  take_classes(report, samples, out);
  take_counts(report, out);
  take_concurrency(report, samples, samples + report->n_outcomes, out);
  take_fairness(report, out);
  out->steady = lls_report_steady(report);
  free(samples);
  return 0;
}
