/* SPDX-License-Identifier: Apache-2.0 */
/* Judges the simulated candidates; see verdict.h. */
#include "tools/whatif/verdict.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/whatif/steady.h"

/* The margin if the traffic has no times: the error that bench/fidelity allows the
 * simulator. */
#define ASSUMED_MARGIN 0.15

/* Other policies need not have the same time beyond the device's as the running one
 * that it was fitted to: with 40 % of a token's time fitted, simulated and served times
 * of others differed by up to 10 % (experiments/results/whatif-2026-11-27.md). */
#define FITTED_MARGIN 0.2

/* ---- judging ---------------------------------------------------------------------- */

double gain_over(const json_t *report, const json_t *base, const struct lls_objective *m)
{
  double apart = metric_apart(metric_of(report, m), metric_of(base, m));
  return m->more ? apart : -apart;
}

static double error_of(const json_t *simulated, const struct traffic *t,
                       const struct lls_objective *m)
{
  return fabs(metric_apart(metric_of(simulated, m), metric_of(t->metrics, m)));
}

/* Returns the simulation's error in the objective; if the history cannot give it, the
 * largest of the errors that it can give. */
static double margin_of(const json_t *simulated, const struct traffic *t,
                        const struct lls_objective *objective)
{
  static const char *const others[] = {"throughput", "ttft", "tpot", "latency"};
  bool told = !(objective->key == lls_objective_find("goodput")->key && t->gaps);
  double error = told ? error_of(simulated, t, objective) : NAN, worst = NAN;
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    worst = fmax(worst, error_of(simulated, t, lls_objective_find(others[i])));
  return isnan(error) ? worst : error;
}

struct verdict judge(struct result *results, size_t n, const struct simulation *s,
                     const struct traffic *t, const struct lls_objective *objective)
{
  const json_t *base = results[0].report;
  struct verdict v = {.objective = objective,
                      .gain = NAN,
                      .beside_ns = s->beside_ns,
                      .fitted = s->fitted};
  v.margin = t->metrics != NULL
                 ? margin_of(base, t, objective) + FITTED_MARGIN * s->fitted
                 : NAN;
  v.assumed = isnan(v.margin);
  if (v.assumed)
    v.margin = ASSUMED_MARGIN;
  for (size_t i = 0; i < n; i++) {
    struct result *r = &results[i];
    r->gain = gain_over(r->report, base, objective);
    r->told = fabs(r->gain) > v.margin;
    if (i > 0)
      v.gain = fmax(v.gain, r->gain); /* fmax returns the other value if one is NaN */
  }
  return v;
}

void choose(struct verdict *v, const struct result *results, size_t n)
{
  for (size_t i = 1; i < n; i++) {
    const struct result *r = &results[i];
    if (r->told && r->gain > 0 && (v->best == NULL || r->gain > v->best->gain))
      v->best = r;
  }
  if (v->best != NULL)
    v->gain = v->best->gain;
}

/* ---- for people ------------------------------------------------------------------- */

static const char *const columns[] = {"ttft",        "ttft_p99", "tpot",       "latency",
                                      "latency_p99", "stall",    "throughput", "goodput",
                                      "met",         "preempted"};
#define COLUMNS (sizeof columns / sizeof *columns)

static void print_row(const char *name, const json_t *report, double gain, bool told)
{
  printf("%-34.34s", name);
  for (size_t i = 0; i < COLUMNS; i++) {
    double value = metric_of(report, lls_objective_find(columns[i]));
    if (isnan(value))
      printf(" %10s", "-");
    else
      printf(" %10.*f", value < 100 ? 2 : 0, value);
  }
  if (isnan(gain))
    puts("");
  else
    printf(" %+8.1f %%%s\n", 100 * gain, told ? "" : " ~");
}

/* Prints attainment by class or tenant if there are several: a row for each
 * candidate. */
static void print_shares(const char *title, const char *key, const struct result *results,
                         size_t n)
{
  const json_t *first = json_object_get(results[0].report, key);
  const char *name;
  json_t *share;
  if (json_object_size(first) < 2)
    return;
  printf("\n%-34s", title);
  json_object_foreach((json_t *)first, name, share) printf(" %10s", name);
  puts("");
  for (size_t i = 0; i < n; i++) {
    if (results[i].report == NULL)
      continue;
    printf("%-34.34s", results[i].name);
    json_object_foreach((json_t *)first, name, share)
    {
      const json_t *all = json_object_get(
          json_object_get(json_object_get(results[i].report, key), name), "all");
      if (json_is_number(all))
        printf(" %10.2f", json_number_value(all));
      else
        printf(" %10s", "-");
    }
    puts("");
  }
}

static void print_verdict(const struct verdict *v, const struct traffic *t)
{
  const char *name = v->objective->name;
  if (v->assumed)
    printf("\nThe traffic does not say how it was served.");
  else
    printf(
        "\nSimulated and served are %.1f %% apart%s; a step took %.2f ms more than the "
        "profile says,\n%.0f %% of a token's time.",
        100 * (v->margin - FITTED_MARGIN * v->fitted), t->gaps ? " at worst" : "",
        (double)v->beside_ns * 1e-6, 100 * v->fitted);
  printf(" Differences of less than %.1f %% are not told (~),\nnor those that steps of "
         "%.0f %% more or less time would end.\n",
         100 * v->margin, 100 * STEADY_PART);
  if (v->best == NULL) {
    printf("No difference that can be told: at best %s would be %+.1f %%.\n", name,
           isnan(v->gain) ? 0 : 100 * v->gain);
    return;
  }
  printf("Best: %s, whose %s would be %.1f %% better. As settings:\n\n%s", v->best->name,
         name, 100 * v->gain, v->best->settings);
}

void verdict_print(const struct verdict *v, const struct result *results, size_t n,
                   const struct traffic *t)
{
  printf("%u requests in %.1f minutes. Times in ms, stall: the longest gap within an "
         "answer; throughput in\ntokens/s, goodput in requests/s, met: the share of "
         "requests whose SLOs were met; last: how much\nbetter %s is than what "
         "runs.\n\n%-34s",
         t->requests, t->seconds / 60, v->objective->name, "");
  for (size_t i = 0; i < COLUMNS; i++)
    printf(" %10s", columns[i]);
  puts("");
  if (t->metrics != NULL)
    print_row("as it was served", t->metrics, NAN, true);
  for (size_t i = 0; i < n; i++)
    if (results[i].report != NULL)
      print_row(results[i].name, results[i].report, i > 0 ? results[i].gain : NAN,
                results[i].told);
  for (size_t i = 0; i < n; i++)
    if (results[i].report == NULL)
      printf("%-34.34s left out: %s\n", results[i].name, results[i].why.text);
  print_shares("SLOs met, by class", "slo_attainment_by_class", results, n);
  print_shares("SLOs met, by tenant", "slo_attainment_by_tenant", results, n);
  print_verdict(v, t);
}

/* ---- for programs ----------------------------------------------------------------- */

static json_t *number_or_null(double value)
{
  return isfinite(value) ? json_real(value) : json_null();
}

/* Returns the metrics of a report, without the data of plots and origins, which are
 * most of it. */
static json_t *numbers_of(const json_t *report)
{
  static const char *const left_out[] = {"quantiles", "timeline", "lives", "machine",
                                         "made_by"};
  json_t *numbers = json_copy((json_t *)report);
  for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
    json_object_del(numbers, left_out[i]);
  return numbers;
}

static json_t *result_json(const struct result *r)
{
  if (r->report == NULL)
    return json_pack("{s:s, s:s, s:s}", "name", r->name, "settings", r->settings, "error",
                     r->why.text);
  return json_pack("{s:s, s:s, s:o, s:b, s:o}", "name", r->name, "settings", r->settings,
                   "gain", number_or_null(r->gain), "told", r->told, "report",
                   numbers_of(r->report));
}

json_t *verdict_json(const struct verdict *v, const struct result *results, size_t n,
                     const struct traffic *t)
{
  json_t *list = json_array();
  for (size_t i = 0; i < n; i++)
    json_array_append_new(list, result_json(&results[i]));
  return json_pack(
      "{s:I, s:f, s:s, s:s, s:b, s:f, s:b, s:f, s:f, s:f, s:o, s:s?, s:O?, s:o}",
      "requests", (json_int_t)t->requests, "seconds", t->seconds, "objective",
      v->objective->name, "metric", v->objective->key, "more", v->objective->more,
      "margin", v->margin, "margin_assumed", v->assumed, "profile_error", STEADY_PART,
      "beside_ms", (double)v->beside_ns * 1e-6, "fitted", v->fitted, "gain",
      number_or_null(v->gain), "best", v->best != NULL ? v->best->name : NULL, "served",
      t->metrics, "results", list);
}
