/* SPDX-License-Identifier: Apache-2.0 */
/* Reports a fit's errors; see report.h. */
#include "tools/profile/report.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void print_errors(const char *what, const struct lls_cost_rates *rates,
                         const struct lls_profile_point *m, size_t n, int kind)
{
  double errors[LLS_MOST_PROFILE_STEPS];
  size_t k = 0;
  for (size_t i = 0; i < n; i++)
    if (kind < 0 || m[i].shape.kind == (uint32_t)kind)
      errors[k++] = 100 * fabs(lls_shape_ns(rates, &m[i].shape) / m[i].ns - 1);
  if (k == 0)
    return;
  qsort(errors, k, sizeof *errors, compare);
  printf("%-22s %6zu %9.1f %9.1f %9.1f\n", what, k, errors[k / 2], errors[k * 95 / 100],
         errors[k - 1]);
}

void lls_profile_print_fit(const struct lls_profile_steps *s, size_t used,
                           const struct lls_cost_rates *rates)
{
  const struct lls_profile_point *held = s->points + used;
  size_t n = s->n - used;
  printf("%-22s %6s %9s %9s %9s\n", "relative error, %", "steps", "median", "p95", "max");
  print_errors("of the fit", rates, s->points, used, -1);
  print_errors("held out", rates, held, n, -1);
  print_errors("  prefill chunks", rates, held, n, LLS_SHAPE_CHUNK);
  print_errors("  decodes", rates, held, n, LLS_SHAPE_DECODE);
  print_errors("  both", rates, held, n, LLS_SHAPE_MIXED);
  printf("noise: the same step's median is %.0f %% above its least time\n",
         100 * (s->noise - 1));
}

/* Writes a step's inputs to the fit and its estimate; held: it was held out of the
 * fit. */
static void write_step(FILE *out, const struct lls_cost_rates *rates,
                       const struct lls_profile_point *m, bool held)
{
  double rows = 0, drawn = 0, pairs = 0, cached = 0;
  for (uint32_t i = 0; i < m->shape.n; i++) {
    const struct lls_shape_part *p = &m->shape.parts[i];
    rows += p->tokens;
    drawn += p->drawn;
    if (p->tokens > 1)
      pairs += p->tokens * (p->context + (p->tokens + 1) / 2.0);
    else
      cached += p->context + 1.0;
  }
  fprintf(out, "%u,%u,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%d", m->shape.kind, m->shape.n, rows,
          drawn, pairs, cached, m->ns, lls_shape_ns(rates, &m->shape), held);
  for (uint32_t i = 0; i < m->shape.n; i++)
    fprintf(out, "%c%u+%u", i == 0 ? ',' : ' ', m->shape.parts[i].tokens,
            m->shape.parts[i].context);
  fputc('\n', out);
}

int lls_profile_write_steps(const char *path, const struct lls_profile_steps *s,
                            size_t used, const struct lls_cost_rates *rates,
                            struct lls_error *err)
{
  FILE *out = fopen(path, "we");
  if (out == NULL)
    return lls_fail(err, -errno, "%s: cannot be written: %s", path, strerror(errno));
  fputs("kind,sequences,rows,drawn,pairs,cached,ns,fitted_ns,held_out,parts\n", out);
  for (size_t i = 0; i < s->n; i++)
    write_step(out, rates, &s->points[i], i >= used);
  return fclose(out) == 0 ? 0 : lls_fail(err, -EIO, "%s: cannot be written", path);
}
