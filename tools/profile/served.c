/* SPDX-License-Identifier: Apache-2.0 */
/* Reads served steps from a history; see served.h. */
#include "tools/profile/served.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "tools/profile/measure.h"
#include "tools/workload/decision_file.h"

/* ---- reading ---------------------------------------------------------------------- */

/* Part i of n equal parts of a whole number; the parts add up to the whole. */
static uint32_t part_of(uint64_t whole, uint32_t i, uint32_t n)
{
  return (uint32_t)(whole * (i + 1) / n - whole * i / n);
}

static void add_chunks(const struct lls_step_sample *s, struct lls_shape *shape)
{
  for (uint32_t i = 0; i < s->chunks; i++) {
    uint32_t tokens = part_of(s->chunk_tokens, i, s->chunks);
    double seen = tokens > 0 ? (double)s->pairs / (double)s->chunk_tokens : 0;
    double context = seen - (tokens + 1) / 2.0;
    shape->parts[shape->n++] = (struct lls_shape_part){
        .tokens = tokens, .context = context > 0 ? (uint32_t)lround(context) : 0};
  }
}

static int take(const struct lls_step_sample *s, struct lls_profile_steps *out)
{
  struct lls_profile_point *points =
      reallocarray(out->points, out->n + 1, sizeof *points);
  if (points == NULL)
    return -ENOMEM;
  out->points = points;
  struct lls_shape shape = {
      .kind = s->chunks == 0    ? LLS_SHAPE_DECODE
              : s->decodes == 0 ? LLS_SHAPE_CHUNK
                                : LLS_SHAPE_MIXED,
      .parts = calloc((size_t)s->chunks + s->decodes, sizeof *shape.parts)};
  if (shape.parts == NULL)
    return -ENOMEM;
  for (uint32_t i = 0; i < s->decodes; i++)
    shape.parts[shape.n++] = (struct lls_shape_part){
        .tokens = 1, .context = part_of(s->cached, i, s->decodes)};
  add_chunks(s, &shape);
  for (uint32_t i = 0; i < shape.n; i++)
    shape.parts[i].drawn = i < s->drawn;
  out->points[out->n++] = (struct lls_profile_point){.shape = shape, .ns = (double)s->ns};
  return 0;
}

int lls_served_steps_read(const char *path, struct lls_profile_steps *out,
                          struct lls_error *err)
{
  struct lls_decision_file in;
  struct lls_decision_line line = {0};
  *out = (struct lls_profile_steps){.noise = 1};
  int rc = lls_decision_file_open(&in, path, err);
  if (rc < 0)
    return rc;
  while ((rc = lls_decision_file_next(&in, &line, err)) > 0)
    if (line.kind == 'T' && line.step.chunks + line.step.decodes > 0 &&
        take(&line.step, out) < 0) {
      rc = lls_fail(err, -ENOMEM, "%s: no memory for its steps", path);
      break;
    }
  lls_text_free(&line.items);
  lls_decision_file_close(&in);
  return rc;
}

/* ---- fits ------------------------------------------------------------------------- */

int lls_served_steps_fit(const struct lls_profile_point *points, size_t n,
                         const struct lls_cost_rates *rates, struct lls_served_fit *out)
{
  *out = (struct lls_served_fit){.times = NAN, .error = NAN};
  double *times = calloc(n + 1, sizeof *times);
  if (times == NULL)
    return -ENOMEM;
  for (size_t i = 0; i < n; i++)
    times[i] = lls_shape_ns(rates, &points[i].shape) / points[i].ns;
  if (n > 0)
    out->times = lls_median(times, n);
  for (size_t i = 0; i < n; i++)
    times[i] = fabs(times[i] - 1);
  if (n > 0)
    out->error = lls_median(times, n);
  free(times);
  return 0;
}
