/* SPDX-License-Identifier: Apache-2.0 */
/* Asks one question; see question.h. */
#include "tools/whatif/question.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/whatif/calibrate.h"
#include "tools/whatif/steady.h"
#include "tools/whatif/verdict.h"

/* ---- comparing -------------------------------------------------------------------- */

static void tell_progress(const struct whatif_options *o, const char *name, size_t i,
                          size_t n)
{
  if (!o->quiet)
    fprintf(stderr, "llmserve-whatif: %zu of %zu: %s\n", i + 1, n, name);
}

/* Drops a result whose scheduler was disabled: its numbers are those of the built-in
 * order, which is no candidate. */
static void leave_out_switched_off(struct result *r)
{
  const json_t *machine = json_object_get(r->report, "machine");
  if (!json_is_true(json_object_get(machine, "fallen_back")))
    return;
  json_decref(r->report);
  r->report = NULL;
  lls_fail(
      &r->why, -EPROTO,
      "its scheduler was switched off for its plans; llmserve-sim has them in its log");
}

static double token_apart(const json_t *report, const struct traffic *t)
{
  const struct lls_objective *tpot = lls_objective_find("tpot");
  return t->metrics != NULL
             ? metric_apart(metric_of(report, tpot), metric_of(t->metrics, tpot))
             : NAN;
}

/* Simulates the running policies, again with each new profile if one turns out not to
 * fit this device. */
static int simulate_running(struct simulation *s, const struct traffic *t,
                            struct result *r, struct lls_error *err)
{
  for (;;) {
    s->beside_ns = 0;
    int rc = simulate(s, r->settings, &r->report, &r->why);
    if (rc < 0)
      return lls_fail(err, rc, "what runs cannot be simulated: %s", r->why.text);
    calibrate(s, t, &r->report);
    profile_judge(s->profile, r->report, token_apart(r->report, t));
    rc = s->profile->fits ? 0 : profile_replace(s->running, s->profile, err);
    if (rc <= 0)
      return rc;
    json_decref(r->report);
    r->report = NULL;
  }
}

/* Simulates all candidates, the running policies first. That one must succeed; any
 * other that fails is left out, with the reason. */
static int simulate_all(struct simulation *s, const struct traffic *t,
                        struct result *results, size_t n, struct lls_error *err)
{
  tell_progress(s->options, results[0].name, 0, n);
  int rc = simulate_running(s, t, &results[0], err);
  for (size_t i = 1; rc == 0 && i < n; i++) {
    struct result *r = &results[i];
    tell_progress(s->options, r->name, i, n);
    if (simulate(s, r->settings, &r->report, &r->why) == 0)
      leave_out_switched_off(r);
  }
  return rc;
}

static int keep(const struct verdict *v, const struct result *runs, struct answered *out,
                struct lls_error *err)
{
  *out = (struct answered){0};
  if (v->best == NULL)
    return 0;
  out->best = strdup(v->best->name);
  out->settings = strdup(v->best->settings);
  if (asprintf(&out->sentence,
               "%s would have served the last minutes better than %s: %s by %.0f %% "
               "(simulated; differences of less than %.0f %% are not told)",
               v->best->name, runs->name, v->objective->name, 100 * v->gain,
               100 * v->margin) < 0)
    out->sentence = NULL;
  if (out->best != NULL && out->settings != NULL && out->sentence != NULL)
    return 0;
  answered_free(out);
  return lls_fail(err, -ENOMEM, "no memory for the answer");
}

static int tell(const struct simulation *s, const struct verdict *v,
                const struct result *results, size_t n, const struct traffic *t,
                struct lls_error *err)
{
  const struct whatif_options *o = s->options;
  if (!o->notify) {
    verdict_print(v, results, n, t);
    profile_print(s->profile);
  }
  if (o->json[0] == '\0')
    return 0;
  json_t *json = verdict_json(v, results, n, t);
  json_object_set_new(json, "profile", profile_json(s->profile));
  int rc = json == NULL ? lls_fail(err, -ENOMEM, "no memory for the answer")
           : json_dump_file(json, o->json, JSON_INDENT(1)) < 0
               ? lls_fail(err, -EIO, "%s: cannot be written", o->json)
               : 0;
  json_decref(json);
  return rc;
}

static int compare(struct simulation *s, const struct lls_candidates *all,
                   const struct traffic *t, const struct lls_objective *objective,
                   struct answered *out, struct lls_error *err)
{
  size_t n = all->n + 1;
  struct result *results = calloc(n, sizeof *results);
  if (results == NULL)
    return lls_fail(err, -ENOMEM, "no memory for the results");
  results[0] = (struct result){.name = s->running->name, .settings = ""};
  for (size_t i = 0; i < all->n; i++)
    results[i + 1] =
        (struct result){.name = all->items[i].name, .settings = all->items[i].settings};
  int rc = simulate_all(s, t, results, n, err);
  if (rc == 0) {
    struct verdict v = judge(results, n, s, t, objective);
    steady(s, &v, results, n);
    choose(&v, results, n);
    rc = tell(s, &v, results, n, t, err);
    if (rc == 0)
      rc = keep(&v, &results[0], out, err);
  }
  for (size_t i = 0; i < n; i++)
    json_decref(results[i].report);
  free(results);
  return rc;
}

/* ---- one after the other ---------------------------------------------------------- */

static int with_profile(const struct simulation *s, const struct lls_candidates *all,
                        const struct traffic *t, struct answered *out,
                        struct lls_error *err)
{
  const struct whatif_options *o = s->options;
  const char *wanted = strcmp(o->objective, "auto") != 0 ? o->objective
                       : t->has_slos                     ? "goodput"
                                                         : "latency";
  const struct lls_objective *objective = lls_objective_find(wanted);
  struct simulation with = *s;
  struct profile profile;
  int rc = lls_objective_check(wanted, err);
  if (rc < 0)
    return lls_fail_at(err, rc, "--objective");
  with.profile = &profile;
  rc = profile_find(o, s->running, &profile, err);
  if (rc == 0)
    rc = compare(&with, all, t, objective, out, err);
  profile_free(&profile);
  return rc;
}

static int measured(const struct simulation *s, struct lls_error *err)
{
  struct profile profile;
  int rc = profile_find(s->options, s->running, &profile, err);
  if (rc == 0)
    puts(profile.path);
  profile_free(&profile);
  return rc;
}

int question_ask(const struct whatif_options *o, const struct lls_candidates *all,
                 struct answered *out, struct lls_error *err)
{
  struct running running;
  struct traffic traffic;
  *out = (struct answered){0};
  int rc = running_ask(o, &running, err);
  if (rc < 0)
    return rc;
  const struct simulation s = {.options = o, .running = &running};
  if (o->measure)
    rc = measured(&s, err);
  else if ((rc = traffic_read(running.history, o->goodput, &traffic, err)) == 0) {
    rc = with_profile(&s, all, &traffic, out, err);
    traffic_free(&traffic);
  }
  running_free(&running);
  return rc;
}

void answered_free(struct answered *a)
{
  free(a->best);
  free(a->settings);
  free(a->sentence);
  *a = (struct answered){0};
}
