/* SPDX-License-Identifier: Apache-2.0 */
/* Runs one simulation; see measure.h. */
#include "tools/whatif/measure.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json_parse.h"
#include "tools/whatif/nameless.h"

#define FIXED_ARGUMENTS 28

/* ---- metrics ---------------------------------------------------------------------- */

double metric_of(const json_t *report, const struct lls_objective *m)
{
  const json_t *value = json_object_get(report, m->key);
  if (json_is_object(value)) /* an object such as slo_attainment */
    value = json_object_get(value, "all");
  return json_is_number(value) ? json_number_value(value) : NAN;
}

double metric_apart(double x, double base)
{
  return base > 0 ? x / base - 1 : NAN;
}

/* ---- running it ------------------------------------------------------------------- */

struct arguments {
  char **items; /* (room + 1) with a NULL at the end */
  size_t n, room;
};

static void add(struct arguments *a, const char *text)
{
  a->items[a->n++] = (char *)text; /* exec does not change it */
}

static void add_option(struct arguments *a, const char *name, const char *value)
{
  add(a, name);
  add(a, value);
}

static size_t count_lines(const char *lines)
{
  size_t n = 0;
  for (const char *at = lines; at != NULL && *at != '\0'; at = strchr(at, '\n')) {
    at += *at == '\n';
    n += *at != '\0';
  }
  return n;
}

/* Splits the lines, and adds each as an argument after the option. */
static void add_lines(struct arguments *a, const char *option, char *lines)
{
  char *rest = lines;
  if (count_lines(lines) == 0)
    return;
  add(a, option);
  for (char *line = strtok_r(lines, "\n", &rest); line != NULL;
       line = strtok_r(NULL, "\n", &rest))
    add(a, line);
}

static void list_arguments(const struct simulation *s, const char *report,
                           const char *beside, const char *slower, struct arguments *a)
{
  const struct whatif_options *o = s->options;
  add(a, "llmserve-sim");
  add(a, "--quiet");
  add_option(a, "--config", s->running->config);
  add_option(a, "--trace", s->running->history);
  add_option(a, "--dataset-name", "decisions");
  add_option(a, "--profile", s->profile->path);
  add_option(a, "--profile-error", slower);
  add_option(a, "--plan-time", beside);
  add_option(a, "--json", report);
  if (o->model[0] != '\0')
    add_option(a, "--model", o->model);
}

static int run(const struct simulation *s, char *settings, char *goodput,
               const char *report, struct lls_error *err)
{
  const struct child_limits limits = {.time_ns = s->options->most_time,
                                      .memory_bytes = s->options->most_memory,
                                      .idle = true};
  char beside[32], slower[32];
  size_t room = FIXED_ARGUMENTS + count_lines(settings) + count_lines(goodput);
  struct arguments a = {.items = calloc(room + 1, sizeof *a.items), .room = room};
  if (a.items == NULL)
    return lls_fail(err, -ENOMEM, "no memory");
  snprintf(beside, sizeof beside, "%" PRId64 "us", s->beside_ns / 1000);
  snprintf(slower, sizeof slower, "%g", s->slower);
  list_arguments(s, report, beside, slower, &a);
  add_lines(&a, "--goodput", goodput);
  add_lines(&a, "--set", settings);
  int rc = child_run(a.items, &limits, err);
  free(a.items);
  return rc;
}

static int run_for_report(const struct simulation *s, char *settings, char *goodput,
                          json_t **report, struct lls_error *err)
{
  struct nameless file;
  json_error_t why;
  int rc = nameless_create(&file, err);
  if (rc < 0)
    return rc;
  rc = run(s, settings, goodput, file.path, err);
  if (rc == 0 && (*report = lls_json_parse_file(file.path, 0, &why)) == NULL)
    rc = lls_fail(err, -EPROTO, "the report of a simulation: %s", why.text);
  nameless_close(&file);
  return rc;
}

int simulate(const struct simulation *s, const char *settings, json_t **report,
             struct lls_error *err)
{
  char *all = NULL, *goodput = strdup(s->options->goodput);
  *report = NULL;
  if (asprintf(&all, "%s%s", s->running->settings, settings) < 0)
    all = NULL;
  int rc = all != NULL && goodput != NULL ? run_for_report(s, all, goodput, report, err)
                                          : lls_fail(err, -ENOMEM, "no memory");
  free(all);
  free(goodput);
  return rc;
}
