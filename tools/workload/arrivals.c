/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrival times of requests. Gaps and rescaling are those of vLLM's `bench serve`:
 * gamma with shape b and mean 1/rate; then all times are multiplied so that the last is
 * n/rate. So the offered rate is exact, and only the pattern is random.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tools/workload/build.h"
#include "tools/workload/random.h"

int lls_rate_parse(const char *text, double *rate, struct lls_error *err)
{
  char *end;
  if (strcmp(text, "auto") == 0) {
    *rate = NAN;
    return 0;
  }
  *rate = strtod(text, &end);
  if (end == text || *end != '\0' || !(*rate > 0))
    return lls_fail(
        err, -EINVAL,
        "--request-rate: expected requests per second, inf or auto; found '%s'", text);
  return 0;
}

/* ---- the trace's own times --------------------------------------------------------- */

static int by_arrival(const void *a, const void *b)
{
  const struct lls_item *x = a, *y = b;
  if (x->arrival_ns != y->arrival_ns)
    return x->arrival_ns < y->arrival_ns ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}

static void sort_rows(struct lls_rows *rows)
{
  for (uint32_t i = 0; i < rows->n; i++)
    rows->items[i].index = i;
  qsort(rows->items, rows->n, sizeof *rows->items, by_arrival);
}

/* Moves each arrival by a random part of the interval that it was rounded to. */
static void spread(const struct lls_workload_options *o, struct lls_rows *rows)
{
  int64_t grain = o->jitter == LLS_NEVER ? rows->grain_ns : o->jitter;
  for (uint32_t i = 0; i < rows->n && grain > 0; i++) {
    struct lls_random random = lls_random_at((uint64_t)o->seed, LLS_STREAM_JITTER, i);
    rows->items[i].arrival_ns += (int64_t)lls_random_below(&random, (uint64_t)grain);
  }
}

static int too_late(double ns, struct lls_error *err)
{
  return lls_fail(err, -ERANGE,
                  "the last request would come after %.3g days, and may after 400: set "
                  "another --time-scale or --request-rate",
                  ns / (86400.0 * LLS_NS_PER_S));
}

/* Multiplies all times by a factor or, if a rate is set, so that n requests arrive at
 * this mean rate. */
static int scale(struct lls_rows *rows, double factor, double rate, struct lls_error *err)
{
  double last = rows->n > 0 ? (double)rows->items[rows->n - 1].arrival_ns : 0;
  if (!isnan(rate))
    factor = isinf(rate) || last == 0 ? 0 : (double)rows->n / rate * LLS_NS_PER_S / last;
  if (last * factor > (double)LLS_TRACE_MAX_NS)
    return too_late(last * factor, err);
  for (uint32_t i = 0; factor != 1 && i < rows->n; i++)
    rows->items[i].arrival_ns = llround((double)rows->items[i].arrival_ns * factor);
  return 0;
}

static int from_trace(const struct lls_workload_options *o, double rate,
                      struct lls_rows *rows, struct lls_error *err)
{
  if (!rows->timed)
    return lls_fail(err, -EINVAL,
                    "--arrivals trace: the requests have no times; set --request-rate");
  spread(o, rows);
  sort_rows(rows);
  return scale(rows, o->time_scale, rate, err);
}

/* ---- made times -------------------------------------------------------------------- */

/* vLLM's --ramp-up-strategy: the rate before request i of n. */
static int ramped_rate(const struct lls_workload_options *o, double progress,
                       double *rate, struct lls_error *err)
{
  double from = o->ramp_up_start_rps, to = o->ramp_up_end_rps;
  if (strcmp(o->ramp_up_strategy, "linear") == 0)
    *rate = from + (to - from) * progress;
  else if (strcmp(o->ramp_up_strategy, "exponential") == 0)
    *rate = from * pow(to / from, progress);
  else if (strcmp(o->ramp_up_strategy, "none") != 0)
    return lls_fail(
        err, -EINVAL,
        "--ramp-up-strategy: expected none, linear or exponential; found '%s'",
        o->ramp_up_strategy);
  return 0;
}

static double gap(const struct lls_workload_options *o, double rate, uint32_t index)
{
  double shape = isnan(o->cv) ? o->burstiness : 1 / (o->cv * o->cv);
  struct lls_random random = lls_random_at((uint64_t)o->seed, LLS_STREAM_ARRIVAL, index);
  if (isinf(rate))
    return 0;
  if (o->arrivals == LLS_ARRIVALS_UNIFORM)
    return 1 / rate;
  return lls_random_gamma(&random, shape, 1 / (rate * shape));
}

static int make(const struct lls_workload_options *o, double rate, struct lls_rows *rows,
                struct lls_error *err)
{
  bool ramped = strcmp(o->ramp_up_strategy, "none") != 0;
  double at = 0;
  if (o->arrivals == LLS_ARRIVALS_ONCE || isnan(rate))
    rate = INFINITY;
  for (uint32_t i = 0; i < rows->n; i++) {
    int rc = ramped_rate(o, (double)i / rows->n, &rate, err);
    if (rc < 0)
      return rc;
    at += gap(o, rate, i);
    if (at * LLS_NS_PER_S > (double)LLS_TRACE_MAX_NS)
      return too_late(at * LLS_NS_PER_S, err);
    rows->items[i].arrival_ns = llround(at * LLS_NS_PER_S);
  }
  if (!ramped && !isinf(rate) && at > 0)
    return scale(rows, 1, rate, err);
  return 0;
}

int lls_set_arrivals(const struct lls_workload_options *o, struct lls_rows *rows,
                     struct lls_error *err)
{
  double rate;
  int rc = lls_rate_parse(o->request_rate, &rate, err);
  bool own = rows->timed && isnan(rate) && strcmp(o->ramp_up_strategy, "none") == 0;
  if (rc < 0)
    return rc;
  if (o->arrivals == LLS_ARRIVALS_TRACE || (o->arrivals == LLS_ARRIVALS_AUTO && own))
    rc = from_trace(o, rate, rows, err);
  else
    rc = make(o, rate, rows, err);
  if (rc < 0 || o->duration == LLS_NEVER)
    return rc;
  uint32_t n = 0;
  while (n < rows->n && rows->items[n].arrival_ns < o->duration)
    n++;
  rows->n = n;
  return n > 0 ? 0 : lls_fail(err, -EINVAL, "no request arrives within --duration");
}
