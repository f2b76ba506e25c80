/* SPDX-License-Identifier: Apache-2.0 */
/* Follows requests from issue to end; see report.h. After a buffer has grown to the
 * longest answer, no token causes an allocation. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/report/internal.h"

/* beyond this number tokens are not counted by the second */
#define SECONDS_MAX (1u << 24)
/* weight of a prompt token in a tenant's service (VTC, section 4) */
#define PROMPT_WEIGHT  1.0
#define OUTPUT_WEIGHT  2.0
#define LARGEST_SPREAD 4096 /* most gaps above the 99th percentile of one request */

/* ---- options ----------------------------------------------------------------------- */

static int parse_goodput(const char *text, struct lls_goodput *out, struct lls_error *err)
{
  static const char *const keys[] = {"ttft", "tpot", "e2el", "itl_p99", "itl_max"};
  int64_t *members[] = {&out->ttft_ns, &out->tpot_ns, &out->e2el_ns, &out->itl_p99_ns,
                        &out->itl_max_ns};
  size_t length;
  *out =
      (struct lls_goodput){false, LLS_NEVER, LLS_NEVER, LLS_NEVER, LLS_NEVER, LLS_NEVER};
  for (const char *line; (line = lls_option_next(&text, &length)) != NULL;) {
    const char *colon = memchr(line, ':', length);
    size_t i = 0;
    char *end = NULL;
    while (i < 5 && (colon == NULL || strlen(keys[i]) != (size_t)(colon - line) ||
                     strncmp(keys[i], line, (size_t)(colon - line)) != 0))
      i++;
    double ms = i < 5 ? strtod(colon + 1, &end) : -1;
    if (!(ms >= 0) || ms > 1e12 || end != line + length)
      return lls_fail(err, -EINVAL,
                      "--goodput: expected KEY:MS with key ttft, tpot, e2el, itl_p99 or "
                      "itl_max; found '%.*s'",
                      (int)length, line);
    *members[i] = llround(ms * 1e6);
    out->set = true;
  }
  return 0;
}

static bool has_percentile(const struct lls_report *report, double percent)
{
  for (uint32_t i = 0; i < report->n_percentiles; i++)
    if (report->percentiles[i] == percent)
      return true;
  return false;
}

static int parse_percentiles(struct lls_report *report, const char *text,
                             struct lls_error *err)
{
  static const double always[] = {50, 90, 99};
  memcpy(report->percentiles, always, sizeof always);
  report->n_percentiles = sizeof always / sizeof *always;
  for (const char *at = text; at != NULL && *at != '\0';) {
    char *end;
    double percent = strtod(at, &end);
    if (end == at || (*end != '\0' && *end != ',') || !(percent > 0 && percent < 100) ||
        report->n_percentiles == LLS_PERCENTILES_MAX)
      return lls_fail(err, -EINVAL,
                      "--metric-percentiles: expected at most %d numbers between 0 and "
                      "100; found '%s'",
                      LLS_PERCENTILES_MAX - 3, text);
    if (!has_percentile(report, percent))
      report->percentiles[report->n_percentiles++] = percent;
    at = end + (*end == ',');
  }
  return 0;
}

static int parse_shown(struct lls_report *report, const char *text, struct lls_error *err)
{
  static const char *const names[] = {"ttft", "tpot", "itl", "e2el"};
  report->shown = text == NULL ? ~0u : 0;
  while (text != NULL && *text != '\0') {
    size_t length = strcspn(text, ","), i = 0;
    while (i < 4 && (strlen(names[i]) != length || strncmp(names[i], text, length) != 0))
      i++;
    if (i == 4)
      return lls_fail(err, -EINVAL,
                      "--percentile-metrics: expected some of ttft,tpot,itl,e2el; found "
                      "'%.*s'",
                      (int)length, text);
    report->shown |= 1u << i;
    text += length + (text[length] == ',');
  }
  return 0;
}

int lls_report_create(const struct lls_workload *workload,
                      const struct lls_report_options *options, struct lls_report **out,
                      struct lls_error *err)
{
  struct lls_report *report = calloc(1, sizeof *report);
  if (report == NULL)
    return lls_fail(err, -ENOMEM, "no memory for a report");
  report->workload = workload;
  report->options = *options;
  report->timeline.width_ns = LLS_NS_PER_S / 10;
  report->outcomes = calloc(workload->n_items + 1, sizeof *report->outcomes);
  report->service = calloc(workload->n_tenants + 1, sizeof *report->service);
  int rc = parse_goodput(options->goodput, &report->goodput, err);
  if (rc == 0)
    rc = parse_percentiles(report, options->percentiles, err);
  if (rc == 0)
    rc = parse_shown(report, options->shown, err);
  if (rc == 0 && (report->outcomes == NULL || report->service == NULL))
    rc = lls_fail(err, -ENOMEM, "no memory for a report");
  if (rc < 0) {
    lls_report_destroy(report);
    return rc;
  }
  *out = report;
  return 0;
}

void lls_report_destroy(struct lls_report *report)
{
  if (report == NULL)
    return;
  for (uint32_t i = 0; i < report->n_outcomes; i++) {
    free(report->outcomes[i].gaps);
    free(report->outcomes[i].text);
  }
  for (uint32_t i = 0; i < report->n_spare; i++)
    free(report->spare[i].data);
  free(report->spare);
  free(report->outcomes);
  free(report->service);
  free(report->tokens_by_second);
  free(report);
}

/* ---- gaps -------------------------------------------------------------------------- */

static void take_spare(struct lls_report *report, struct lls_track *track)
{
  if (report->n_spare == 0)
    return;
  struct gap_buffer *buffer = &report->spare[--report->n_spare];
  track->outcome.gaps = buffer->data;
  track->capacity = buffer->capacity;
}

static void give_spare(struct lls_report *report, struct lls_track *track)
{
  if (report->n_spare == report->spare_capacity) {
    uint32_t capacity = report->spare_capacity > 0 ? 2 * report->spare_capacity : 64;
    struct gap_buffer *spare = reallocarray(report->spare, capacity, sizeof *spare);
    if (spare != NULL) {
      report->spare = spare;
      report->spare_capacity = capacity;
    }
  }
  if (report->n_spare < report->spare_capacity)
    report->spare[report->n_spare++] =
        (struct gap_buffer){track->outcome.gaps, track->capacity};
  else
    free(track->outcome.gaps);
  track->outcome.gaps = NULL;
}

static void add_per_token(struct lls_report *report, const struct lls_track *track,
                          int64_t gap_ns, uint32_t count)
{
  if (!report->options.per_token ||
      track->outcome.started_ns < report->options.warm_up_ns)
    return;
  for (uint32_t i = 0; i < count; i++)
    lls_report_histogram_add(&report->gaps_per_token, gap_ns / count);
}

static int add_gap(struct lls_report *report, struct lls_track *track, int64_t gap_ns)
{
  struct lls_report_outcome *o = &track->outcome;
  if (o->n_gaps == track->capacity) {
    uint32_t capacity = track->capacity > 0 ? 2 * track->capacity : 128;
    int64_t *gaps = reallocarray(o->gaps, capacity, sizeof *gaps);
    if (gaps == NULL)
      return -ENOMEM;
    o->gaps = gaps;
    track->capacity = capacity;
  }
  o->gaps[o->n_gaps++] = gap_ns;
  o->gap_sum_ns += gap_ns;
  if (gap_ns > o->gap_max_ns)
    o->gap_max_ns = gap_ns;
  if (o->started_ns >= report->options.warm_up_ns)
    lls_report_histogram_add(&report->gaps, gap_ns);
  return 0;
}

/*
 * Returns the 99th percentile, linear between ranks as numpy does it. Only the largest
 * n/100 + 2 gaps matter, so they are kept sorted during one pass over the gaps: sorting
 * every answer would cost more than simulating it.
 */
static int64_t percentile_99(const int64_t *gaps, uint32_t n)
{
  int64_t largest[LARGEST_SPREAD];
  if (n == 0)
    return 0;
  double rank = 0.99 * (n - 1);
  uint32_t below = (uint32_t)rank, wanted = n - below, kept = 0;
  if (wanted > LARGEST_SPREAD)
    wanted = LARGEST_SPREAD;
  for (uint32_t i = 0; i < n; i++) {
    if (kept == wanted && gaps[i] <= largest[kept - 1])
      continue;
    uint32_t at = kept < wanted ? kept++ : kept - 1;
    for (; at > 0 && largest[at - 1] < gaps[i]; at--)
      largest[at] = largest[at - 1];
    largest[at] = gaps[i];
  }
  double low = (double)largest[kept - 1], high = (double)largest[kept > 1 ? kept - 2 : 0];
  return llround(low + (rank - below) * (high - low));
}

/* ---- a request's life -------------------------------------------------------------- */

void lls_report_begin(struct lls_report *report, struct lls_track *track,
                      const struct lls_item *item, int64_t started_ns)
{
  *track = (struct lls_track){
      .outcome = {.item = item,
                  .started_ns = started_ns,
                  .first_scheduled_ns = LLS_NEVER,
                  .first_token_ns = LLS_NEVER,
                  .first_content_ns = LLS_NEVER,
                  .last_token_ns = LLS_NEVER},
  };
  take_spare(report, track);
  lls_timeline_at(&report->timeline, started_ns)->arrivals++;
}

static void count_by_second(struct lls_report *report, int64_t now_ns, uint32_t count)
{
  size_t second = now_ns < 0 ? 0 : (size_t)(now_ns / LLS_NS_PER_S);
  if (second >= SECONDS_MAX)
    return;
  if (second >= report->n_seconds) {
    size_t n = report->n_seconds > 0 ? report->n_seconds : 1024;
    while (n <= second)
      n *= 2;
    uint64_t *grown = reallocarray(report->tokens_by_second, n, sizeof *grown);
    if (grown == NULL)
      return;
    memset(grown + report->n_seconds, 0, (n - report->n_seconds) * sizeof *grown);
    report->tokens_by_second = grown;
    report->n_seconds = n;
  }
  report->tokens_by_second[second] += count;
}

/* Adds to a tenant's service; the prompt is added with the first token. */
static void serve_tenant(struct lls_report *report, const struct lls_report_outcome *o,
                         int64_t now_ns, uint32_t count)
{
  if (now_ns > report->workload->last_arrival_ns)
    return;
  double service = OUTPUT_WEIGHT * count;
  if (o->first_token_ns == LLS_NEVER)
    service += PROMPT_WEIGHT * o->item->prompt_tokens;
  report->service[o->item->tenant] += service;
}

/* Counts a token in its iteration: one late token makes the iteration late, since the
 * tightest deadline counts. */
static void count_iteration(struct lls_iterations *i, int64_t now_ns, bool in_time)
{
  if (i->n == 0 || i->at_ns != now_ns) {
    *i = (struct lls_iterations){
        .at_ns = now_ns, .n = i->n + 1, .in_time = i->in_time + 1};
  }
  if (!in_time && !i->late) {
    i->late = true;
    i->in_time--;
  }
}

static void check_deadline(struct lls_report *report, struct lls_report_outcome *o,
                           int64_t slo_ns, int64_t began_ns, int64_t now_ns)
{
  if (slo_ns == LLS_NEVER)
    return;
  bool in_time = now_ns - began_ns <= slo_ns;
  o->deadlines++;
  o->deadlines_met += in_time;
  count_iteration(&report->iterations, now_ns, in_time);
}

int lls_report_tokens(struct lls_report *report, struct lls_track *track, int64_t now_ns,
                      uint32_t count)
{
  struct lls_report_outcome *o = &track->outcome;
  int rc = 0;
  count_by_second(report, now_ns, count);
  serve_tenant(report, o, now_ns, count);
  lls_timeline_at(&report->timeline, now_ns)->tokens += count;
  if (o->first_token_ns == LLS_NEVER) {
    o->first_token_ns = now_ns;
    check_deadline(report, o, o->item->slo.ttft_ns, o->started_ns, now_ns);
  } else {
    rc = add_gap(report, track, now_ns - o->last_token_ns);
    add_per_token(report, track, now_ns - o->last_token_ns, count);
    check_deadline(report, o, o->item->slo.tbt_ns, o->last_token_ns, now_ns);
  }
  o->last_token_ns = now_ns;
  o->tokens += count;
  return rc;
}

void lls_report_end(struct lls_report *report, struct lls_track *track,
                    enum lls_outcome_status status, int64_t now_ns)
{
  struct lls_report_outcome *o = &track->outcome;
  o->status = status;
  o->ended_ns = now_ns;
  o->gap_p99_ns = percentile_99(o->gaps, o->n_gaps);
  report->tokens_untold |= o->untold;
  if (!report->options.keep_gaps)
    give_spare(report, track);
  if (report->n_outcomes < report->workload->n_items) {
    report->outcomes[report->n_outcomes++] = *o;
  } else {
    free(o->gaps);
    free(o->text);
  }
  o->gaps = NULL;
  o->text = NULL;
}

const struct lls_report_outcome *lls_report_outcomes(const struct lls_report *report,
                                                     size_t *n)
{
  *n = report->n_outcomes;
  return report->outcomes;
}
