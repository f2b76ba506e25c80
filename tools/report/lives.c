/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The phases of a few requests, for a plot: those in the middle of the load, when the
 * server is busiest. More than LLS_REPORT_LIVES bars cannot be told apart.
 */
#include <math.h>

#include "tools/report/internal.h"

static uint32_t first_of(const struct lls_report *report)
{
  uint32_t n = report->workload->n_items;
  return n > LLS_REPORT_LIVES ? (n - LLS_REPORT_LIVES) / 2 : 0;
}

static struct lls_life *life_of(struct lls_report *report, const struct lls_item *item)
{
  uint32_t first = first_of(report);
  return item->index >= first && item->index - first < LLS_REPORT_LIVES
             ? &report->lives[item->index - first]
             : NULL;
}

void lls_report_life(struct lls_report *report, const struct lls_track *track,
                     const struct lls_life *life)
{
  struct lls_life *kept = life_of(report, track->outcome.item);
  if (kept != NULL)
    *kept = *life;
}

/* Notes phases from an outcome: a client only sees whether a token has arrived yet. */
static void note_outcome(struct lls_life *life, const struct lls_report_outcome *o)
{
  lls_life_note(life, LLS_PHASE_QUEUED, o->started_ns);
  if (o->first_scheduled_ns != LLS_NEVER)
    lls_life_note(life, LLS_PHASE_PREFILL, o->first_scheduled_ns);
  if (o->first_token_ns != LLS_NEVER)
    lls_life_note(life, LLS_PHASE_DECODE, o->first_token_ns);
}

static json_t *seconds(int64_t ns)
{
  return json_real(round((double)ns / 1e3) / 1e6);
}

static json_t *row_json(const struct lls_life *life, const struct lls_report_outcome *o)
{
  json_t *phases = json_array();
  for (uint32_t i = 0; i < life->n; i++) {
    json_array_append_new(phases, json_integer(life->changes[i].phase));
    json_array_append_new(phases, seconds(life->changes[i].at_ns));
  }
  return json_pack("{s:I, s:o, s:o}", "request", (json_int_t)o->item->index, "ended_s",
                   seconds(o->ended_ns), "phases", phases);
}

/* Lists requests in order of arrival. */
json_t *lls_report_lives(const struct lls_report *report)
{
  const struct lls_report_outcome *by_item[LLS_REPORT_LIVES] = {NULL};
  uint32_t first = first_of(report);
  json_t *rows = json_array();
  for (uint32_t i = 0; i < report->n_outcomes; i++) {
    uint32_t index = report->outcomes[i].item->index;
    if (index >= first && index - first < LLS_REPORT_LIVES)
      by_item[index - first] = &report->outcomes[i];
  }
  for (uint32_t i = 0; i < LLS_REPORT_LIVES; i++) {
    struct lls_life life = report->lives[i];
    if (by_item[i] == NULL)
      continue;
    if (life.n == 0)
      note_outcome(&life, by_item[i]);
    json_array_append_new(rows, row_json(&life, by_item[i]));
  }
  return rows;
}
