/* SPDX-License-Identifier: Apache-2.0 */
/* Non-negative least squares with few terms; see fit.h. */
#include "core/cost/fit.h"

#include <errno.h>
#include <math.h>
#include <string.h>

void lls_fit_reset(struct lls_fit *f, uint32_t n)
{
  memset(f, 0, sizeof *f);
  f->n = n;
  for (uint32_t i = 0; i < n; i++)
    f->ridge[i] = 1e-6;
}

void lls_fit_add(struct lls_fit *f, const double *x, double y, double forget)
{
  for (uint32_t i = 0; i < f->n; i++) {
    for (uint32_t j = 0; j < f->n; j++)
      f->xx[i][j] = f->xx[i][j] * forget + x[i] * x[j];
    f->xy[i] = f->xy[i] * forget + x[i] * y;
  }
}

struct equations {
  uint32_t n;
  double a[LLS_FIT_MAX][LLS_FIT_MAX + 1];
};

static void eliminate(struct equations *e, uint32_t pivot, uint32_t k)
{
  for (uint32_t r = 0; r < e->n; r++) {
    if (r == pivot)
      continue;
    double factor = e->a[r][k] / e->a[pivot][k];
    for (uint32_t c = 0; c <= e->n; c++)
      e->a[r][c] -= factor * e->a[pivot][c];
  }
}

/* Gauss-Jordan elimination with row pivots. */
static void solve_equations(struct equations *e, double *out)
{
  bool done[LLS_FIT_MAX] = {false};
  uint32_t row_of[LLS_FIT_MAX];
  for (uint32_t k = 0; k < e->n; k++) {
    uint32_t pivot = e->n;
    for (uint32_t r = 0; r < e->n; r++)
      if (!done[r] && (pivot == e->n || fabs(e->a[r][k]) > fabs(e->a[pivot][k])))
        pivot = r;
    done[pivot] = true;
    row_of[k] = pivot;
    eliminate(e, pivot, k);
  }
  for (uint32_t k = 0; k < e->n; k++)
    out[k] = e->a[row_of[k]][e->n] / e->a[row_of[k]][k];
}

/* Solves the scaled equations of the terms in use; all other coefficients are 0. */
static void solve_once(const struct lls_fit *f, const bool *used, double *out)
{
  struct equations e = {.n = 0};
  uint32_t term[LLS_FIT_MAX];
  double solved[LLS_FIT_MAX], scale[LLS_FIT_MAX];
  for (uint32_t i = 0; i < f->n; i++) {
    out[i] = 0;
    if (used[i]) {
      scale[e.n] = 1 / sqrt(f->xx[i][i]);
      term[e.n++] = i;
    }
  }
  for (uint32_t i = 0; i < e.n; i++) {
    for (uint32_t j = 0; j < e.n; j++)
      e.a[i][j] = f->xx[term[i]][term[j]] * scale[i] * scale[j];
    e.a[i][i] += f->ridge[term[i]];
    e.a[i][e.n] = f->xy[term[i]] * scale[i];
  }
  solve_equations(&e, solved);
  for (uint32_t i = 0; i < e.n; i++)
    out[term[i]] = solved[i] * scale[i];
}

int lls_fit_solve(struct lls_fit *f)
{
  bool used[LLS_FIT_MAX], any = false;
  for (uint32_t i = 0; i < f->n; i++) {
    used[i] = f->xx[i][i] > 0;
    any = any || used[i];
  }
  if (!any)
    return -ENODATA;
  for (uint32_t worst = 0; worst < f->n;) {
    solve_once(f, used, f->coefficients);
    double least = 0; /* scaled by the term's magnitude, to make terms comparable */
    worst = f->n;
    for (uint32_t i = 0; i < f->n; i++) {
      double share = f->coefficients[i] * sqrt(f->xx[i][i]);
      if (used[i] && share < least) {
        least = share;
        worst = i;
      }
    }
    if (worst < f->n)
      used[worst] = false;
  }
  f->solved = true;
  return 0;
}

double lls_fit_predict(const struct lls_fit *f, const double *x)
{
  if (!f->solved)
    return -1;
  double y = 0;
  for (uint32_t i = 0; i < f->n; i++)
    y += f->coefficients[i] * x[i];
  return y;
}
