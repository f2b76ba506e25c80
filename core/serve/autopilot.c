/* SPDX-License-Identifier: Apache-2.0 */
/*
 * [server] autopilot: after each period of [server] history, llmserve-whatif simulates
 * how each configuration in [server] autopilot_policies would have served the traffic
 * of the period, and core/config/autopilot_rule.h decides whether to change. A change
 * is an ordinary reload with settings on top of the file. The file is not written, and
 * SIGHUP returns to it.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/config/autopilot_rule.h"
#include "core/serve/daemon.h"

#define SHORTEST_MS 1000 /* shortest time between rounds */

/* ---- acting ------------------------------------------------------------------------ */

static const json_t *result_of(const json_t *answer, const char *name)
{
  const json_t *list = json_object_get(answer, "results");
  for (size_t i = 1; i < json_array_size(list); i++) {
    const json_t *result = json_array_get(list, i);
    if (strcmp(json_string_value(json_object_get(result, "name")), name) == 0)
      return result;
  }
  return NULL;
}

/* Reads lines of SECTION.KEY=VALUE. */
static int read_settings(const char *lines, struct lls_changes *out)
{
  int rc = 0;
  for (const char *at = lines; rc == 0 && *at != '\0';) {
    size_t length = strcspn(at, "\n");
    char *line = strndup(at, length);
    char *equals = line != NULL ? strchr(line, '=') : NULL;
    if (equals != NULL)
      *equals = '\0';
    char *dot = equals != NULL ? strrchr(line, '.') : NULL;
    if (dot != NULL) {
      *dot = '\0';
      rc = lls_changes_set(out, line, dot + 1, equals + 1);
    }
    if (line == NULL)
      rc = -ENOMEM;
    free(line);
    at += length + (at[length] == '\n');
  }
  return rc;
}

static void change(struct server *s, const char *name)
{
  struct autopilot *a = &s->autopilot;
  const json_t *result = result_of(s->whatif.state.answer, name);
  struct lls_changes changes = {0};
  lls_changes_free(&a->before);
  int rc = lls_changes_add(&a->before, &s->config->changes);
  if (rc == 0)
    rc = read_settings(json_string_value(json_object_get(result, "settings")), &changes);
  snprintf(a->ran_before, sizeof a->ran_before, "%s", a->runs);
  snprintf(a->runs, sizeof a->runs, "%s", name);
  lls_log(&s->log, LLS_LOG_WARNING, "autopilot",
          "%s would have been better %d times in a row: it runs from now on", name,
          LLS_AUTOPILOT_ROUNDS);
  if (rc == 0)
    rc = server_change(s, &changes);
  if (rc < 0)
    lls_log(&s->log, LLS_LOG_ERROR, "autopilot", "out of memory: nothing is changed");
  lls_changes_free(&changes);
}

static void change_back(struct server *s)
{
  struct autopilot *a = &s->autopilot;
  lls_log(&s->log, LLS_LOG_WARNING, "autopilot",
          "%s has served worse than what ran before it, which runs again", a->runs);
  snprintf(a->runs, sizeof a->runs, "%s", a->ran_before);
  if (server_change_to(s, &a->before) < 0)
    lls_log(&s->log, LLS_LOG_ERROR, "autopilot", "out of memory: nothing is changed");
}

/* ---- rounds ------------------------------------------------------------------------ */

static double number(const json_t *value)
{
  return json_is_number(value) ? json_number_value(value) : NAN;
}

/* Returns the objective's value in a report of llmserve-sim, NaN if it has none. */
static double objective_of(const json_t *answer, const json_t *report)
{
  const char *key = json_string_value(json_object_get(answer, "metric"));
  const json_t *value = key != NULL ? json_object_get(report, key) : NULL;
  return number(json_is_object(value) ? json_object_get(value, "all") : value);
}

/* Warns of each configured candidate that could not be simulated. */
static void warn_of_failed(struct server *s, const json_t *results)
{
  size_t i;
  json_t *result;
  json_array_foreach(results, i, result)
  {
    const char *why = json_string_value(json_object_get(result, "error"));
    if (why != NULL)
      lls_log(&s->log, LLS_LOG_WARNING, "autopilot",
              "[server] autopilot_policies: %s is never chosen: %s",
              json_string_value(json_object_get(result, "name")), why);
  }
}

/* Warns if the device's profile did not predict the measured steps, or was fitted to
 * them; the same warning is not repeated in the next rounds. */
static void warn_of_profile(struct server *s, const json_t *answer)
{
  const json_t *profile = json_object_get(answer, "profile");
  const char *said = json_string_value(json_object_get(profile, "said"));
  char *last = s->autopilot.said;
  size_t most = sizeof s->autopilot.said - 1;
  if (said == NULL || strncmp(said, last, most) == 0)
    return;
  snprintf(last, most + 1, "%s", said);
  if (said[0] != '\0')
    lls_log(&s->log, LLS_LOG_WARNING, "autopilot", "%s", said);
}

static void on_answer(struct server *s)
{
  struct autopilot *a = &s->autopilot;
  const struct lls_whatif_state *state = &s->whatif.state;
  const json_t *answer = state->answer;
  if (state->stage != LLS_WHATIF_DONE) {
    lls_log(&s->log, LLS_LOG_INFO, "autopilot", "no answer: %s", state->reason);
    return;
  }
  const json_t *results = json_object_get(answer, "results");
  const json_t *runs = json_array_get(results, 0);
  const json_t *before = result_of(answer, a->ran_before);
  const struct lls_autopilot_round round = {
      .best = json_string_value(json_object_get(answer, "best")),
      .margin = number(json_object_get(answer, "margin")),
      .more = json_is_true(json_object_get(answer, "more")),
      .served = objective_of(answer, json_object_get(answer, "served")),
      .simulated = objective_of(answer, json_object_get(runs, "report")),
      .before = objective_of(answer, json_object_get(before, "report")),
  };
  warn_of_failed(s, results);
  warn_of_profile(s, answer);
  lls_log(&s->log, LLS_LOG_INFO, "autopilot", "best: %s",
          round.best != NULL ? round.best : "no significant difference");
  switch (lls_autopilot_tell(&a->rule, &round)) {
  case LLS_AUTOPILOT_CHANGE:
    change(s, round.best);
    break;
  case LLS_AUTOPILOT_BACK:
    change_back(s);
    break;
  case LLS_AUTOPILOT_STAY:
    break;
  }
}

static void on_measured(struct server *s)
{
  s->autopilot.measured = s->whatif.status == 0;
  if (!s->autopilot.measured)
    lls_log(&s->log, LLS_LOG_WARNING, "autopilot", "the device is not measured: %s",
            s->whatif.state.reason);
}

static void on_time(uv_timer_t *timer)
{
  struct server *s = timer->data;
  struct autopilot *a = &s->autopilot;
  const struct lls_whatif_question question = {s->config->server.autopilot_policies,
                                               s->config->server.autopilot_objective, ""};
  struct lls_error err = {0};
  if (!s->config->server.autopilot || s->stopping || s->reload != NULL ||
      server_whatif_runs(s))
    return;
  bool measure = !a->measured && lls_loop_idle(s->loop);
  int rc =
      server_ask_whatif(s, &question, measure, measure ? on_measured : on_answer, &err);
  if (rc < 0)
    lls_log(&s->log, LLS_LOG_WARNING, "autopilot", "%s", lls_error_text(&err, rc));
}

void server_steer(struct server *s)
{
  uint64_t ms = (uint64_t)(s->config->server.history / 1000000);
  if (s->history == NULL || s->closing)
    return;
  if (ms < SHORTEST_MS)
    ms = SHORTEST_MS;
  uv_timer_start(&s->autopilot.timer, on_time, ms, ms);
}
