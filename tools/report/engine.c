/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's part of a report: steps, preemptions, copies, and the run's timeline. */
#include "tools/report/internal.h"

static void merge(struct lls_bin *into, const struct lls_bin *more)
{
  into->arrivals += more->arrivals;
  into->tokens += more->tokens;
  into->batch_ns += more->batch_ns;
  into->decode_ns += more->decode_ns;
  into->waiting_ns += more->waiting_ns;
  into->units_ns += more->units_ns;
  into->busy_ns += more->busy_ns;
  into->prefill_tokens += more->prefill_tokens;
  into->looks += more->looks;
  into->look_running += more->look_running;
  into->look_waiting += more->look_waiting;
  into->look_cache += more->look_cache;
}

/* Doubles the bins' width by merging every two bins. */
static void widen(struct lls_timeline *timeline)
{
  struct lls_bin *bins = timeline->bins;
  for (int i = 0; i < LLS_TIMELINE_BINS / 2; i++) {
    struct lls_bin pair = bins[2 * i];
    merge(&pair, &bins[2 * i + 1]);
    bins[i] = pair;
  }
  for (int i = LLS_TIMELINE_BINS / 2; i < LLS_TIMELINE_BINS; i++)
    bins[i] = (struct lls_bin){0};
  timeline->width_ns *= 2;
}

struct lls_bin *lls_timeline_at(struct lls_timeline *timeline, int64_t now_ns)
{
  int64_t at = now_ns < 0 ? 0 : now_ns;
  while (at / timeline->width_ns >= LLS_TIMELINE_BINS)
    widen(timeline);
  return &timeline->bins[at / timeline->width_ns];
}

/* The share of a step that lies between from_ns and until_ns. */
static struct lls_bin part(const struct lls_report_step *step, int64_t from_ns,
                           int64_t until_ns)
{
  double ns = (double)(until_ns - from_ns);
  double share = step->duration_ns > 0 ? ns / (double)step->duration_ns : 1;
  return (struct lls_bin){.batch_ns = ns * step->requests,
                          .decode_ns = ns * step->decodes,
                          .waiting_ns = ns * step->waiting,
                          .units_ns = ns * (double)step->used_units,
                          .busy_ns = ns,
                          .prefill_tokens = share * step->prefill_tokens};
}

/* Divides a step among the bins that it covers: booked only where it begins, a step
 * longer than a bin would make the following bins look idle. */
static void add_to_timeline(struct lls_timeline *timeline,
                            const struct lls_report_step *step)
{
  int64_t at_ns = step->begin_ns, end_ns = step->begin_ns + step->duration_ns;
  lls_timeline_at(timeline, end_ns); /* may widen the bins, so it comes first */
  do {
    int64_t bin_end_ns = at_ns - at_ns % timeline->width_ns + timeline->width_ns;
    int64_t until_ns = bin_end_ns < end_ns ? bin_end_ns : end_ns;
    struct lls_bin more = part(step, at_ns, until_ns);
    merge(lls_timeline_at(timeline, at_ns), &more);
    at_ns = until_ns;
  } while (at_ns < end_ns);
}

void lls_report_step(struct lls_report *report, const struct lls_report_step *step)
{
  struct lls_engine_totals *e = &report->engine;
  double ns = (double)step->duration_ns;
  e->steps++;
  e->requests += step->requests;
  e->decodes += step->decodes;
  e->prefill_tokens += step->prefill_tokens;
  if (step->requests > e->max_requests)
    e->max_requests = step->requests;
  if (step->used_units > e->max_units)
    e->max_units = step->used_units;
  e->busy_ns += ns;
  e->requests_ns += ns * step->requests;
  e->units_ns += ns * (double)step->used_units;
  e->filled_ns += ns * (double)step->filled_units;
  if (step->plan_ns != LLS_NEVER) {
    e->plan_ns += (double)step->plan_ns;
    e->planned_ns += ns;
    lls_report_histogram_add(&e->plan, step->plan_ns);
  }
  add_to_timeline(&report->timeline, step);
}

void lls_report_preemption(struct lls_report *report, enum lls_preempt_mode mode)
{
  report->engine.preemptions[mode]++;
}

void lls_report_bytes(struct lls_report *report, enum lls_copy_way kind, uint64_t bytes)
{
  report->engine.bytes[kind] += bytes;
}

void lls_report_look(struct lls_report *report, int64_t now_ns,
                     const struct lls_report_look *look)
{
  const struct lls_bin seen = {.looks = 1,
                               .look_running = look->running,
                               .look_waiting = look->waiting,
                               .look_cache = look->cache};
  merge(lls_timeline_at(&report->timeline, now_ns), &seen);
  report->looks++;
}
