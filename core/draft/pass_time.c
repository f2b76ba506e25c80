/* SPDX-License-Identifier: Apache-2.0 */
/* See pass_time.h. */
#include "core/draft/pass_time.h"

#include "core/base/least.h"

#define FORGET 0.98 /* the weight of a pass falls by this with each later one */
#define DOUBT  0.98
#define FIRST  32 /* rows of a pass before any was measured */

void lls_pass_time_add(struct lls_pass_time *t, uint32_t rows, int64_t ns)
{
  int64_t expected_ns = lls_pass_time_of(t, rows);
  double x = (double)rows;
  double y = (double)(expected_ns > 0 ? lls_least_i64(ns, 2 * expected_ns) : ns);
  t->n = t->n * FORGET + 1;
  t->rows = t->rows * FORGET + x;
  t->ns = t->ns * FORGET + y;
  t->rows_rows = t->rows_rows * FORGET + x * x;
  t->rows_ns = t->rows_ns * FORGET + x * y;
}

/* Sets the line's time of a row, and of no row; neither is negative. */
static void fit(const struct lls_pass_time *t, double *row, double *none)
{
  double mean = t->rows / t->n, spread = t->rows_rows / t->n - mean * mean;
  double slope = (t->rows_ns / t->n - mean * t->ns / t->n) / (spread > 0 ? spread : 1);
  if (spread < 0.25 || slope < 0) /* all passes had about as many rows */
    slope = 0;
  double rest = t->ns / t->n - slope * mean;
  if (rest < 0) {
    rest = 0;
    slope = t->ns / t->rows;
  }
  *row = slope;
  *none = rest;
}

int64_t lls_pass_time_of(const struct lls_pass_time *t, uint32_t rows)
{
  double row, none;
  if (t->n <= 0)
    return 0;
  fit(t, &row, &none);
  return (int64_t)(none + row * (double)rows);
}

uint32_t lls_pass_time_rows(const struct lls_pass_time *t, int64_t left_ns, uint32_t most)
{
  double row, none, left = (double)left_ns;
  if (t->n <= 0)
    return lls_least_u32(most, FIRST);
  fit(t, &row, &none);
  if (none > left)
    return 0;
  /* few passes, or all alike, say little of many more rows */
  double seen = t->rows / t->n, rows = row > 0 ? (left - none) / row : (double)most;
  if (row <= 0 && rows > 2 * seen + FIRST)
    rows = 2 * seen + FIRST;
  return rows < (double)most ? (uint32_t)rows : most;
}

void lls_pass_time_doubt(struct lls_pass_time *t)
{
  t->ns *= DOUBT;
  t->rows_ns *= DOUBT;
}
