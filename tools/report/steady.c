/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steady part of a run, in which the load neither rises nor falls. With a
 * concurrency limit, it begins when 95 % of the limit are active and lasts until the
 * last time they are (as in vLLM's Rust client). An open load has no such level, so
 * there it begins when the average number of requests is active and lasts until the
 * last request is sent. A part shorter than 10 s or a tenth of the run does not count.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "tools/report/internal.h"

#define FULL        0.95
#define LEAST_NS    (10.0 * LLS_NS_PER_S)
#define LEAST_SHARE 0.1

/* A change of the number of active requests by one. */
struct change {
  int64_t at_ns;
  int by;
};

static int by_time(const void *a, const void *b)
{
  const struct change *x = a, *y = b;
  if (x->at_ns != y->at_ns)
    return x->at_ns < y->at_ns ? -1 : 1;
  return y->by - x->by; /* starts first: in a closed loop a successor keeps the level */
}

static size_t make_changes(const struct lls_report *report, struct change *changes)
{
  size_t n = 0;
  for (uint32_t i = 0; i < report->n_outcomes; i++) {
    changes[n++] = (struct change){report->outcomes[i].started_ns, 1};
    changes[n++] = (struct change){report->outcomes[i].ended_ns, -1};
  }
  qsort(changes, n, sizeof *changes, by_time);
  return n;
}

static int64_t last_start(const struct lls_report *report)
{
  int64_t last = INT64_MIN;
  for (uint32_t i = 0; i < report->n_outcomes; i++)
    if (report->outcomes[i].started_ns > last)
      last = report->outcomes[i].started_ns;
  return last;
}

/* Returns the average number of active requests until `end_ns`. */
static double mean_level(const struct change *changes, size_t n, int64_t end_ns)
{
  double area = 0;
  int level = 0;
  for (size_t i = 0; i + 1 < n && changes[i].at_ns < end_ns; i++) {
    level += changes[i].by;
    area += level * (double)(changes[i + 1].at_ns - changes[i].at_ns);
  }
  return end_ns > changes[0].at_ns ? area / (double)(end_ns - changes[0].at_ns)
                                   : INFINITY;
}

/* Finds the first time that at least `wanted` are active, and the last time. False:
 * never. */
static bool at_level(const struct change *changes, size_t n, double wanted,
                     int64_t *from_ns, int64_t *to_ns)
{
  int level = 0;
  bool any = false;
  for (size_t i = 0; i < n; i++) {
    bool was = level >= wanted;
    level += changes[i].by;
    if (!any && level >= wanted)
      *from_ns = changes[i].at_ns;
    any |= level >= wanted;
    if (was && level < wanted)
      *to_ns = changes[i].at_ns;
  }
  return any;
}

static bool long_enough(const struct change *changes, size_t n, int64_t from_ns,
                        int64_t to_ns)
{
  double all = (double)(changes[n - 1].at_ns - changes[0].at_ns);
  return (double)(to_ns - from_ns) >= fmax(LEAST_NS, LEAST_SHARE * all);
}

static bool find(const struct lls_report *report, int64_t *from_ns, int64_t *to_ns)
{
  double limit = FULL * report->options.max_concurrency;
  struct change *changes = calloc(2 * (size_t)report->n_outcomes + 1, sizeof *changes);
  size_t n = changes != NULL ? make_changes(report, changes) : 0;
  bool found = n > 0 && limit > 0 && at_level(changes, n, limit, from_ns, to_ns);
  if (n > 0 && !found) {
    int64_t end_ns = last_start(report), ignored;
    found = at_level(changes, n, mean_level(changes, n, end_ns), from_ns, &ignored);
    *to_ns = end_ns;
  }
  found = found && long_enough(changes, n, *from_ns, *to_ns);
  free(changes);
  return found;
}

/* Returns the tokens a second over the whole seconds between the two times. */
static double token_rate(const struct lls_report *report, int64_t from_ns, int64_t to_ns)
{
  int64_t first = (from_ns + LLS_NS_PER_S - 1) / LLS_NS_PER_S;
  int64_t end = to_ns / LLS_NS_PER_S;
  double tokens = 0;
  for (int64_t s = first; s < end && s < (int64_t)report->n_seconds; s++)
    tokens += (double)report->tokens_by_second[s];
  return end > first ? tokens / (double)(end - first) : NAN;
}

struct lls_steady lls_report_steady(const struct lls_report *report)
{
  struct lls_steady out = {0};
  int64_t from_ns, to_ns;
  if (!find(report, &from_ns, &to_ns))
    return out;
  double seconds = (double)(to_ns - from_ns) / LLS_NS_PER_S;
  out.from_s = (double)from_ns / LLS_NS_PER_S;
  out.to_s = (double)to_ns / LLS_NS_PER_S;
  out.output_throughput = token_rate(report, from_ns, to_ns);
  for (uint32_t i = 0; i < report->n_outcomes; i++) {
    const struct lls_report_outcome *o = &report->outcomes[i];
    if (o->status != LLS_OUTCOME_COMPLETED)
      continue;
    out.request_throughput += (o->ended_ns >= from_ns && o->ended_ns < to_ns) / seconds;
    if (o->started_ns < from_ns || o->started_ns > to_ns || o->tokens == 0)
      continue;
    out.requests++;
    out.mean_ttft_ms += (double)(o->first_token_ns - o->started_ns) / 1e6;
    if (o->tokens < 2)
      continue;
    out.with_tpot++;
    out.mean_tpot_ms +=
        (double)(o->last_token_ns - o->first_token_ns) / (o->tokens - 1) / 1e6;
  }
  out.mean_ttft_ms = out.requests > 0 ? out.mean_ttft_ms / out.requests : NAN;
  out.mean_tpot_ms = out.with_tpot > 0 ? out.mean_tpot_ms / out.with_tpot : NAN;
  return out;
}
