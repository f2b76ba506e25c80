/* SPDX-License-Identifier: Apache-2.0 */
/* A run as JSON: vLLM's keys with vLLM's meanings, and additional keys of ours. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/report/internal.h"

#define TENANTS_MAX 256

/* Adds a number; null if it is unknown. */
static void put(json_t *object, const char *key, double value)
{
  json_object_set_new(object, key, isfinite(value) ? json_real(value) : json_null());
}

static void put_count(json_t *object, const char *key, uint64_t value)
{
  json_object_set_new(object, key, json_integer((json_int_t)value));
}

static void put_text(json_t *object, const char *key, const char *text)
{
  json_object_set_new(object, key, text != NULL ? json_string(text) : json_null());
}

/* ---- vLLM's keys ------------------------------------------------------------------- */

/* Adds lines of KEY=VALUE. */
static void put_metadata(json_t *object, const char *lines)
{
  size_t length;
  for (const char *line; (line = lls_option_next(&lines, &length)) != NULL;) {
    const char *equals = memchr(line, '=', length);
    char key[128];
    if (equals == NULL)
      continue;
    snprintf(key, sizeof key, "%.*s", (int)(equals - line), line);
    json_object_set_new(object, key,
                        json_stringn(equals + 1, length - (size_t)(equals + 1 - line)));
  }
}

static void put_header(json_t *object, const struct lls_report *report,
                       const struct lls_report_header *h)
{
  put_text(object, "tool", h->tool);
  put_text(object, "date", h->date);
  put_text(object, "endpoint_type", h->endpoint_type);
  put_text(object, "backend", h->backend);
  put_text(object, "label", h->label);
  put_text(object, "model_id", h->model_id);
  put_text(object, "tokenizer_id", h->tokenizer_id);
  put_text(object, "workload", report->workload->source);
  put_count(object, "seed", report->workload->seed);
  put_count(object, "num_prompts", report->workload->n_items);
  if (isinf(h->request_rate))
    put_text(object, "request_rate", "inf");
  else
    put(object, "request_rate", h->request_rate);
  put(object, "burstiness", h->burstiness);
  json_object_set_new(object, "max_concurrency",
                      h->max_concurrency > 0 ? json_integer(h->max_concurrency)
                                             : json_null());
  put_metadata(object, h->metadata);
}

static void put_totals(json_t *object, const struct lls_metrics *m)
{
  double s = m->duration_s > 0 ? m->duration_s : INFINITY;
  put(object, "duration", m->duration_s);
  put_count(object, "issued", m->issued);
  put_count(object, "completed", m->completed);
  put_count(object, "failed", m->failed);
  put_count(object, "cancelled", m->cancelled);
  put_count(object, "total_input_tokens", m->prompt_tokens);
  put_count(object, "total_output_tokens", m->output_tokens);
  put(object, "request_throughput", m->completed / s);
  put(object, "request_goodput", m->all.all.n > 0 ? m->all.all.met / s : NAN);
  put(object, "goodput_tokens_per_s",
      m->all.all.n > 0 ? (double)m->all.good_tokens / s : NAN);
  put(object, "output_throughput", (double)m->output_tokens / s);
  put(object, "total_token_throughput",
      (double)(m->prompt_tokens + m->output_tokens) / s);
  put_count(object, "max_output_tokens_per_s", m->max_tokens_per_s);
  put_count(object, "max_concurrent_requests", m->max_concurrent);
}

/* Adds mean_X, median_X, std_X, max_X, p99_X ... */
static void put_spread(json_t *object, const struct lls_metrics *m, const char *name,
                       const struct lls_spread *s)
{
  const struct {
    const char *prefix;
    double value;
  } rows[] = {{"mean", s->mean}, {"median", s->median}, {"std", s->std}, {"max", s->max}};
  char key[64];
  for (size_t i = 0; i < 4; i++) {
    snprintf(key, sizeof key, "%s_%s", rows[i].prefix, name);
    put(object, key, s->n > 0 ? rows[i].value : NAN);
  }
  for (uint32_t i = 0; i < m->n_percentiles; i++) {
    snprintf(key, sizeof key, "p%g_%s", m->percentiles[i], name);
    put(object, key, s->n > 0 ? s->percentiles[i] : NAN);
  }
}

/* Adds the points of a CDF: the value at each percent. */
static void put_quantiles(json_t *object, const char *key, const struct lls_spread *s)
{
  json_t *list = json_array();
  for (int i = 0; i < LLS_QUANTILES && s->n > 0; i++)
    json_array_append_new(list, json_real(s->quantiles[i]));
  json_object_set_new(object, key, list);
}

static json_t *quantiles_json(const struct lls_metrics *m)
{
  json_t *object = json_object();
  put_quantiles(object, "ttft_ms", &m->ttft);
  put_quantiles(object, "tpot_ms", &m->tpot);
  put_quantiles(object, "itl_ms", &m->itl);
  put_quantiles(object, "e2el_ms", &m->e2el);
  put_quantiles(object, "normalised_latency_ms", &m->normalised);
  return object;
}

/* ---- ours -------------------------------------------------------------------------- */

static void put_share(json_t *object, const char *key, double met, double n)
{
  if (n > 0)
    put(object, key, met / n);
}

static json_t *attainment_json(const struct lls_attainment *a)
{
  json_t *object = json_object();
  put_count(object, "issued", a->issued);
  put_count(object, "completed", a->completed);
  put_share(object, "all", a->all.met, a->all.n);
  put_share(object, "ttft", a->ttft.met, a->ttft.n);
  put_share(object, "p99_tbt", a->tbt.met, a->tbt.n);
  put_share(object, "tpot", a->tpot.met, a->tpot.n);
  put_share(object, "completion", a->completion.met, a->completion.n);
  put_share(object, "tokens", (double)a->deadlines_met, (double)a->deadlines);
  return object;
}

static json_t *class_json(const struct lls_metrics *m, const struct lls_class_metrics *c)
{
  json_t *object = json_object();
  put(object, "request_throughput", c->request_throughput);
  put(object, "output_throughput", c->output_throughput);
  put_spread(object, m, "ttft_ms", &c->ttft);
  put_spread(object, m, "tpot_ms", &c->tpot);
  put_spread(object, m, "normalised_latency_ms", &c->normalised);
  return object;
}

/* Adds two objects by class, for classes with requests. */
static void put_classes(json_t *object, const struct lls_metrics *m)
{
  static const char *const names[] = {"none", "realtime", "best_effort"};
  json_t *attainment = json_object(), *classes = json_object();
  for (int i = 0; i < LLS_CLASSES; i++) {
    if (m->by_class[i].issued == 0)
      continue;
    json_object_set_new(attainment, names[i], attainment_json(&m->by_class[i]));
    json_object_set_new(classes, names[i], class_json(m, &m->classes[i]));
  }
  json_object_set_new(object, "slo_attainment_by_class", attainment);
  json_object_set_new(object, "by_class", classes);
}

/* Attainment by tenant number, for the first TENANTS_MAX only, since each tenant takes
 * a pass over all requests. */
static json_t *tenants_json(const struct lls_report *report)
{
  uint32_t n = report->workload->n_tenants;
  json_t *object = json_object();
  for (uint32_t tenant = 1; tenant <= n && tenant <= TENANTS_MAX; tenant++) {
    struct lls_attainment a = lls_report_tenant(report, tenant);
    char name[16];
    snprintf(name, sizeof name, "%u", tenant);
    if (a.issued > 0)
      json_object_set_new(object, name, attainment_json(&a));
  }
  return object;
}

/* Returns the metrics of the steady part, or null if there is none. */
static json_t *steady_json(const struct lls_steady *s)
{
  if (s->to_s == 0)
    return json_null();
  json_t *object = json_object();
  put(object, "from_s", s->from_s);
  put(object, "to_s", s->to_s);
  put_count(object, "requests", s->requests);
  put(object, "request_throughput", s->request_throughput);
  put(object, "output_throughput", s->output_throughput);
  put(object, "mean_ttft_ms", s->mean_ttft_ms);
  put(object, "mean_tpot_ms", s->mean_tpot_ms);
  return object;
}

static json_t *engine_json(const struct lls_report *report)
{
  const struct lls_engine_totals *e = &report->engine;
  double ns = e->busy_ns > 0 ? e->busy_ns : NAN,
         units = (double)report->options.memory_units;
  json_t *object = json_object();
  put_count(object, "steps", e->steps);
  put(object, "mean_step_ms", e->busy_ns / (double)e->steps / 1e6);
  put(object, "busy_s", e->busy_ns / LLS_NS_PER_S);
  put(object, "mean_batch", e->requests_ns / ns);
  put(object, "mean_batch_by_step", (double)e->requests / (double)e->steps);
  put_count(object, "max_batch", e->max_requests);
  put_count(object, "decode_tokens", e->decodes);
  put_count(object, "prefill_tokens", e->prefill_tokens);
  put_count(object, "preemptions_recompute", e->preemptions[LLS_PREEMPT_RECOMPUTE]);
  put_count(object, "preemptions_swap", e->preemptions[LLS_PREEMPT_SWAP]);
  put_count(object, "preemptions_defer", e->preemptions[LLS_PREEMPT_DEFER]);
  put_count(object, "bytes_device_to_host", e->bytes[LLS_COPY_DEVICE_TO_HOST]);
  put_count(object, "bytes_host_to_device", e->bytes[LLS_COPY_HOST_TO_DEVICE]);
  put_count(object, "bytes_device_to_device", e->bytes[LLS_COPY_DEVICE_TO_DEVICE]);
  put(object, "memory_units", units > 0 ? units : NAN);
  put(object, "occupancy", units > 0 ? e->units_ns / ns / units : NAN);
  put(object, "max_occupancy", units > 0 ? (double)e->max_units / units : NAN);
  const struct lls_iterations *i = &report->iterations;
  put(object, "iterations_in_time", i->n > 0 ? (double)i->in_time / (double)i->n : NAN);
  put(object, "fragmentation", e->units_ns > 0 ? 1 - e->filled_ns / e->units_ns : NAN);
  if (e->plan.n == 0)
    return object;
  put(object, "mean_plan_us", e->plan.mean / 1e3);
  put(object, "p99_plan_us", lls_report_histogram_percentile(&e->plan, 99) / 1e3);
  put(object, "plan_share", e->plan_ns / e->planned_ns);
  return object;
}

static void append(json_t *lists, const char *key, double value)
{
  json_t *list = json_object_get(lists, key);
  if (list == NULL) {
    list = json_array();
    json_object_set_new(lists, key, list);
  }
  json_array_append_new(list, json_real(value));
}

/* Appends polled values; a bin without a poll repeats the bin before. */
static void append_looks(json_t *object, const struct lls_bin *bin, struct lls_bin *last)
{
  if (bin->looks > 0)
    *last = *bin;
  double n = last->looks > 0 ? last->looks : 1;
  append(object, "requests_running", last->look_running / n);
  append(object, "requests_waiting", last->look_waiting / n);
  if (!isnan(last->look_cache))
    append(object, "cache_used", last->look_cache / n);
}

/* Returns the timeline for plots: a list for each quantity, with a value for each
 * bin. */
static json_t *timeline_json(const struct lls_report *report)
{
  const struct lls_timeline *t = &report->timeline;
  struct lls_bin last = {0};
  json_t *object = json_object();
  bool engine = report->engine.steps > 0;
  int n = LLS_TIMELINE_BINS;
  double s = (double)t->width_ns / LLS_NS_PER_S;
  while (n > 0 && t->bins[n - 1].tokens == 0 && t->bins[n - 1].busy_ns == 0 &&
         t->bins[n - 1].arrivals == 0)
    n--;
  put(object, "bin_s", s);
  for (int i = 0; i < n; i++) {
    const struct lls_bin *b = &t->bins[i];
    double ns = b->busy_ns > 0 ? b->busy_ns : 1;
    append(object, "arrivals_per_s", (double)b->arrivals / s);
    append(object, "tokens_per_s", (double)b->tokens / s);
    if (report->looks > 0)
      append_looks(object, b, &last);
    if (!engine)
      continue;
    append(object, "prefill_tokens_per_s", b->prefill_tokens / s);
    append(object, "batch", b->batch_ns / ns);
    append(object, "decodes", b->decode_ns / ns);
    append(object, "waiting", b->waiting_ns / ns);
    append(object, "units", b->units_ns / ns);
    append(object, "busy", b->busy_ns / (double)t->width_ns);
  }
  return object;
}

/* ---- request by request ------------------------------------------------------------ */

static int in_order(const void *a, const void *b)
{
  const struct lls_report_outcome *x = *(const struct lls_report_outcome *const *)a;
  const struct lls_report_outcome *y = *(const struct lls_report_outcome *const *)b;
  return x->item->index < y->item->index ? -1 : 1;
}

static json_t *gaps_json(const struct lls_report_outcome *o)
{
  json_t *list = json_array();
  for (uint32_t i = 0; o->gaps != NULL && i < o->n_gaps; i++)
    json_array_append_new(list, json_real((double)o->gaps[i] / LLS_NS_PER_S));
  return list;
}

static json_t *seconds(int64_t from_ns, int64_t to_ns)
{
  bool known = from_ns != LLS_NEVER && to_ns != LLS_NEVER;
  return json_real(known ? (double)(to_ns - from_ns) / LLS_NS_PER_S : 0);
}

#define LISTS 10

/* Appends to vLLM's lists, in seconds, and to ours, the number of its session (0: of
 * none); values that a failed request lacks are 0. */
static void put_request(json_t *lists[LISTS], const struct lls_report_outcome *o)
{
  json_t *text = o->text != NULL ? json_stringn(o->text, o->text_bytes) : NULL;
  json_t *const values[LISTS] = {
      json_integer(o->item->prompt_tokens),
      json_integer(o->tokens),
      seconds(o->started_ns, o->first_token_ns),
      gaps_json(o),
      seconds(o->started_ns, o->last_token_ns),
      seconds(0, o->started_ns),
      seconds(lls_item_follows(o->item) ? o->started_ns : o->item->arrival_ns,
              o->started_ns),
      text != NULL ? text : json_string(""), /* no text, or not UTF-8 */
      json_string(o->error),
      json_integer(o->item->session_number),
  };
  for (int i = 0; i < LISTS; i++)
    json_array_append_new(lists[i], values[i]);
}

static int put_requests(json_t *object, const struct lls_report *report)
{
  static const char *const keys[LISTS] = {
      "input_lens",  "output_lens", "ttfts",           "itls",   "latencies",
      "start_times", "queue_times", "generated_texts", "errors", "sessions"};
  uint32_t n = report->n_outcomes;
  const struct lls_report_outcome **sorted =
      calloc(n + 1, sizeof(struct lls_report_outcome *));
  json_t *lists[LISTS];
  if (sorted == NULL)
    return -ENOMEM;
  for (uint32_t i = 0; i < n; i++)
    sorted[i] = &report->outcomes[i];
  qsort(sorted, n, sizeof *sorted, in_order);
  for (int i = 0; i < LISTS; i++) {
    lists[i] = json_array();
    json_object_set_new(object, keys[i], lists[i]);
  }
  for (uint32_t i = 0; i < n; i++)
    put_request(lists, sorted[i]);
  free(sorted);
  return 0;
}

json_t *lls_report_failures(const struct lls_report *report)
{
  json_t *kinds = json_object();
  for (uint32_t i = 0; i < report->n_outcomes; i++) {
    const char *error = report->outcomes[i].error;
    if (error[0] == '\0' || report->outcomes[i].status != LLS_OUTCOME_FAILED)
      continue;
    json_int_t before = json_integer_value(json_object_get(kinds, error));
    json_object_set_new(kinds, error, json_integer(before + 1));
  }
  return kinds;
}

/* ---- all of it --------------------------------------------------------------------- */

static void put_metrics(json_t *object, const struct lls_metrics *m)
{
  put_totals(object, m);
  put_spread(object, m, "ttft_ms", &m->ttft);
  put_spread(object, m, "tpot_ms", &m->tpot);
  put_spread(object, m, "itl_ms", &m->itl);
  put_spread(object, m, "e2el_ms", &m->e2el);
  put_spread(object, m, "normalised_latency_ms", &m->normalised);
  put_spread(object, m, "sched_lag_ms", &m->lateness);
  if (m->itl_per_token.n > 0)
    put_spread(object, m, "itl_per_token_ms", &m->itl_per_token);
  json_object_set_new(object, "steady_state", steady_json(&m->steady));
  if (m->first_content.n > 0)
    put_spread(object, m, "first_content_ttft_ms", &m->first_content);
  if (m->queueing.n > 0)
    put_spread(object, m, "queueing_ms", &m->queueing);
  if (m->prediction_error.n > 0)
    put_spread(object, m, "prediction_error_tokens", &m->prediction_error);
  json_object_set_new(object, "quantiles", quantiles_json(m));
  put(object, "queueing_share", m->queueing_share);
  put_count(object, "preemptions", m->preemptions);
  json_object_set_new(object, "slo_attainment", attainment_json(&m->all));
  put_classes(object, m);
  put(object, "jain_fairness", m->jain_fairness);
  put(object, "max_service_difference",
      isnan(m->jain_fairness) ? NAN : m->service_difference);
}

json_t *lls_report_json(const struct lls_report *report,
                        const struct lls_report_header *header, bool detailed)
{
  struct lls_metrics metrics;
  json_t *object = json_object();
  if (object == NULL || lls_report_metrics(report, &metrics) < 0) {
    json_decref(object);
    return NULL;
  }
  put_header(object, report, header);
  json_object_set_new(object, "slos", lls_report_slos(report));
  put_metrics(object, &metrics);
  if (report->workload->n_tenants > 0)
    json_object_set_new(object, "slo_attainment_by_tenant", tenants_json(report));
  json_object_set_new(object, "failures", lls_report_failures(report));
  if (report->engine.steps > 0)
    json_object_set_new(object, "engine", engine_json(report));
  json_object_set_new(object, "timeline", timeline_json(report));
  json_object_set_new(object, "lives", lls_report_lives(report));
  if (detailed && put_requests(object, report) < 0) {
    json_decref(object);
    return NULL;
  }
  return object;
}

int lls_report_append(const json_t *result, const char *path, struct lls_error *err)
{
  FILE *file = fopen(path, "a");
  bool good = file != NULL &&
              json_dumpf(result, file, JSON_COMPACT | JSON_REAL_PRECISION(12)) == 0 &&
              fputc('\n', file) != EOF;
  int rc = good ? 0 : -(errno != 0 ? errno : EIO);
  if (file != NULL && fclose(file) != 0 && rc == 0)
    rc = -errno;
  return rc == 0 ? 0
                 : lls_fail(err, rc, "%s: cannot be written: %s", path, strerror(-rc));
}

/* Returns false for a descriptor or a device, which has no folder for a temporary
 * file. */
static bool is_replaced(const char *path)
{
  return strncmp(path, "/proc/", 6) != 0 && strncmp(path, "/dev/", 5) != 0;
}

int lls_report_write(const json_t *result, const char *path, struct lls_error *err)
{
  char beside[4096];
  if (!is_replaced(path))
    return json_dump_file(result, path, LLS_RESULT_FORMAT) == 0
               ? 0
               : lls_fail(err, -EIO, "%s: cannot be written", path);
  int length = snprintf(beside, sizeof beside, "%s.%ld", path, (long)getpid());
  if (length < 0 || (size_t)length >= sizeof beside)
    return lls_fail(err, -ENAMETOOLONG, "%s: the path is too long", path);
  if (json_dump_file(result, beside, LLS_RESULT_FORMAT) != 0 ||
      rename(beside, path) != 0) {
    int rc = -(errno != 0 ? errno : EIO);
    unlink(beside);
    return lls_fail(err, rc, "%s: cannot be written: %s", path, strerror(-rc));
  }
  return 0;
}
