/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assigns classes, tenants and deadlines as the papers do:
 *
 *   fixed TTFT and TBT          Apt-Serve, section 6.1; BROS, section 6 (with classes)
 *   by length group and scale   AccelGen, section 5: TTFT = mean prompt time of the
 *                               512-token length group x scale in [0.5, 1.5], TBT x scale
 *                               in [0.75, 1.25]
 *   completion by length        deadlines for jobs (JCT)
 *
 * The mean prompt time of a group is slo_ttft + slo_ttft_per_token x (mean prompt of the
 * group), from the workload's own prompts.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/config/grid.h"
#include "tools/workload/build.h"
#include "tools/workload/random.h"
#include "tools/workload/lengths.h"

#define MAX_CHOICES 32

static struct lls_random of_row(const struct lls_workload_options *o,
                                enum lls_stream stream, uint32_t index)
{
  return lls_random_at((uint64_t)o->seed, stream, index);
}

/* ---- classes and tenants ----------------------------------------------------------- */

const char *lls_item_tenant(uint32_t tenant, char out[LLS_ITEM_TENANT_BYTES])
{
  out[0] = '\0';
  if (tenant > 0)
    snprintf(out, LLS_ITEM_TENANT_BYTES, "tenant-%u", tenant);
  return out;
}

static void set_class(const struct lls_workload_options *o, uint32_t index,
                      struct lls_item *row)
{
  struct lls_random random = of_row(o, LLS_STREAM_CLASS, index);
  double at = lls_random_uniform(&random);
  if (row->request_class != LLS_CLASS_NONE)
    return;
  if (at < o->realtime_share)
    row->request_class = LLS_CLASS_REALTIME;
  else if (at < o->realtime_share + o->best_effort_share) {
    row->request_class = LLS_CLASS_BEST_EFFORT;
    row->priority = (int32_t)o->best_effort_priority;
  }
}

/* Draws tenant k with probability in proportion to 1/k^skew; `sum` is the sum over all
 * tenants. */
static uint32_t draw_tenant(const struct lls_workload_options *o, double sum,
                            uint32_t index)
{
  struct lls_random random = of_row(o, LLS_STREAM_TENANT, index);
  double at = lls_random_uniform(&random) * sum;
  int64_t k = 1;
  for (; k < o->tenants; k++) {
    at -= pow((double)k, -o->tenant_skew);
    if (at < 0)
      break;
  }
  return (uint32_t)k;
}

int lls_set_classes(const struct lls_workload_options *o, struct lls_rows *rows,
                    struct lls_error *err)
{
  double sum = 0;
  if (o->realtime_share + o->best_effort_share > 1 + 1e-9)
    return lls_fail(
        err, -EINVAL,
        "--realtime-share and --best-effort-share: expected at most 1 together, "
        "found %g",
        o->realtime_share + o->best_effort_share);
  for (int64_t k = 1; k <= o->tenants; k++)
    sum += pow((double)k, -o->tenant_skew);
  for (uint32_t i = 0; i < rows->n; i++) {
    set_class(o, i, &rows->items[i]);
    if (o->tenants > 0)
      rows->items[i].tenant = draw_tenant(o, sum, i);
  }
  if (o->tenants > 0)
    rows->n_tenants = (uint32_t)o->tenants;
  return 0;
}

/* ---- scales ------------------------------------------------------------------------ */

struct scale {
  double values[MAX_CHOICES]; /* (n) one of them is drawn; n 0: uniform */
  unsigned n;
  double low, high;
};

static int parse_scale(const char *name, const char *text, struct scale *out,
                       struct lls_error *err)
{
  *out = (struct scale){0};
  if (lls_range_parse(text, &out->low, &out->high) == 0 && out->low > 0)
    return 0;
  for (const char *at = text; out->n < MAX_CHOICES;) {
    char *end;
    double value = strtod(at, &end);
    if (end == at || !(value > 0) || isinf(value) || (*end != '\0' && *end != '|'))
      break;
    out->values[out->n++] = value;
    if (*end == '\0')
      return 0;
    at = end + 1;
  }
  return lls_fail(err, -EINVAL, "%s: expected a number, A..B or A|B|C; found '%s'", name,
                  text);
}

static double draw_scale(const struct scale *scale, struct lls_random random)
{
  if (scale->n > 0)
    return scale->values[lls_random_below(&random, scale->n)];
  return scale->low + (scale->high - scale->low) * lls_random_uniform(&random);
}

/* ---- deadlines of one class -------------------------------------------------------- */

static int64_t *slo_by_name(struct lls_slo *slo, const char *name, size_t length)
{
  static const char *const names[] = {"ttft", "tbt", "tpot", "completion", "e2el"};
  int64_t *members[] = {&slo->ttft_ns, &slo->tbt_ns, &slo->tpot_ns, &slo->completion_ns,
                        &slo->completion_ns};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strlen(names[i]) == length && strncmp(names[i], name, length) == 0)
      return members[i];
  return NULL;
}

/* Parses "ttft=400,tpot=200", in milliseconds. */
static int parse_deadlines(const char *text, const char *end, struct lls_slo *slo)
{
  while (text < end) {
    const char *equals = memchr(text, '=', (size_t)(end - text));
    int64_t *member =
        equals != NULL ? slo_by_name(slo, text, (size_t)(equals - text)) : NULL;
    char *after;
    double ms = member != NULL ? strtod(equals + 1, &after) : 0;
    if (!(ms > 0) || ms > 1e12 || (after != end && *after != ','))
      return -EINVAL;
    *member = llround(ms * 1e6);
    text = after + (after != end);
  }
  return 0;
}

static int parse_class(const char *line, size_t length, struct lls_slo *by_class)
{
  static const char *const names[] = {"none", "realtime", "best_effort"};
  const char *colon = memchr(line, ':', length);
  for (unsigned i = 0; i < 3 && colon != NULL; i++)
    if (strlen(names[i]) == (size_t)(colon - line) &&
        strncmp(names[i], line, strlen(names[i])) == 0)
      return parse_deadlines(colon + 1, line + length, &by_class[i]);
  return -EINVAL;
}

/* ---- all of them ------------------------------------------------------------------- */

struct rules {
  const struct lls_workload_options *o;
  struct lls_slo by_class[3]; /* SLOs by enum lls_class */
  struct scale ttft, tbt, completion;
  double *group_mean; /* (n_groups) mean prompt tokens of each group */
  uint32_t n_groups;
};

static const struct lls_slo no_slo = {LLS_NEVER, LLS_NEVER, LLS_NEVER, LLS_NEVER};

static int parse_rules(const struct lls_workload_options *o, struct rules *rules,
                       struct lls_error *err)
{
  const struct lls_slo all = {o->slo_ttft, o->slo_tbt, o->slo_tpot, o->slo_completion};
  size_t length;
  *rules = (struct rules){.o = o, .by_class = {all, all, no_slo}};
  int rc = parse_scale("--slo-ttft-scale", o->slo_ttft_scale, &rules->ttft, err);
  if (rc == 0)
    rc = parse_scale("--slo-tbt-scale", o->slo_tbt_scale, &rules->tbt, err);
  if (rc == 0)
    rc = parse_scale("--slo-completion-scale", o->slo_completion_scale,
                     &rules->completion, err);
  if (rc < 0)
    return rc;
  const char *at = o->slo_class;
  for (const char *line; (line = lls_option_next(&at, &length)) != NULL;)
    if (parse_class(line, length, rules->by_class) < 0)
      return lls_fail(err, -EINVAL,
                      "--slo-class: expected CLASS:ttft=MS,tbt=MS,tpot=MS,completion=MS "
                      "with class none, realtime or best_effort; found '%.*s'",
                      (int)length, line);
  return 0;
}

static uint32_t group_of(const struct rules *rules, const struct lls_item *row)
{
  return (row->prompt_tokens - 1) / (uint32_t)rules->o->slo_group_tokens;
}

static int find_groups(struct rules *rules, const struct lls_rows *rows)
{
  for (uint32_t i = 0; i < rows->n; i++)
    if (group_of(rules, &rows->items[i]) >= rules->n_groups)
      rules->n_groups = group_of(rules, &rows->items[i]) + 1;
  rules->group_mean = calloc(rules->n_groups, sizeof *rules->group_mean);
  uint32_t *count = calloc(rules->n_groups, sizeof *count);
  if (rules->group_mean == NULL || count == NULL) {
    free(count);
    return -ENOMEM;
  }
  for (uint32_t i = 0; i < rows->n; i++) {
    uint32_t group = group_of(rules, &rows->items[i]);
    double difference = rows->items[i].prompt_tokens - rules->group_mean[group];
    rules->group_mean[group] += difference / ++count[group];
  }
  free(count);
  return 0;
}

static void deadline(int64_t *out, int64_t base, double more, double scale)
{
  if (*out == LLS_NEVER && base != LLS_NEVER)
    *out = llround(((double)base + more) * scale);
}

static void set_slo(const struct rules *rules, uint32_t index, struct lls_item *row)
{
  const struct lls_workload_options *o = rules->o;
  const struct lls_slo *base = &rules->by_class[row->request_class];
  double tbt = draw_scale(&rules->tbt, of_row(o, LLS_STREAM_TBT, index));
  uint32_t group = group_of(rules, row);
  deadline(&row->slo.ttft_ns, base->ttft_ns,
           (double)o->slo_ttft_per_token * rules->group_mean[group],
           draw_scale(&rules->ttft, of_row(o, LLS_STREAM_TTFT, index)));
  deadline(&row->slo.tbt_ns, base->tbt_ns, 0, tbt);
  deadline(&row->slo.tpot_ns, base->tpot_ns, 0, tbt);
  deadline(&row->slo.completion_ns, base->completion_ns,
           (double)o->slo_completion_per_token * row->output_tokens,
           draw_scale(&rules->completion, of_row(o, LLS_STREAM_COMPLETION, index)));
}

int lls_set_slos(const struct lls_workload_options *o, struct lls_rows *rows,
                 struct lls_error *err)
{
  struct rules rules;
  int rc = parse_rules(o, &rules, err);
  if (rc < 0)
    return rc;
  if (find_groups(&rules, rows) < 0)
    rc = lls_fail(err, -ENOMEM, "no memory for the workload");
  for (uint32_t i = 0; rc == 0 && i < rows->n; i++)
    set_slo(&rules, i, &rows->items[i]);
  free(rules.group_mean);
  return rc;
}
