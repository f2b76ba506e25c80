/* SPDX-License-Identifier: Apache-2.0 */
/* Non-negative least squares over at most five terms; see fit.h. */
#include "core/cost/fit.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define N LLS_FIT_TERMS

void lls_fit_reset(struct lls_fit *f)
{
  memset(f, 0, sizeof *f);
}

void lls_fit_add(struct lls_fit *f, const double x[N], double y, double forget)
{
  for (int i = 0; i < N; i++) {
    for (int j = 0; j < N; j++)
      f->xx[i][j] = f->xx[i][j] * forget + x[i] * x[j];
    f->xy[i] = f->xy[i] * forget + x[i] * y;
  }
}

/* Gauss-Jordan with row pivots on the scaled equations of the terms in use. */
static void solve_scaled(double a[N][N + 1], const bool used[N], double out[N])
{
  bool done[N] = {false};
  int row_of[N] = {0};
  for (int k = 0; k < N; k++) {
    if (!used[k])
      continue;
    int pivot = -1;
    for (int r = 0; r < N; r++)
      if (used[r] && !done[r] && (pivot < 0 || fabs(a[r][k]) > fabs(a[pivot][k])))
        pivot = r;
    done[pivot] = true;
    row_of[k] = pivot;
    for (int r = 0; r < N; r++) {
      if (r == pivot || !used[r])
        continue;
      double factor = a[r][k] / a[pivot][k];
      for (int c = 0; c <= N; c++)
        a[r][c] -= factor * a[pivot][c];
    }
  }
  for (int k = 0; k < N; k++)
    out[k] = used[k] ? a[row_of[k]][N] / a[row_of[k]][k] : 0;
}

static void solve_once(const struct lls_fit *f, const bool used[N], double out[N])
{
  double a[N][N + 1], scale[N];
  for (int i = 0; i < N; i++)
    scale[i] = f->xx[i][i] > 0 ? 1 / sqrt(f->xx[i][i]) : 0;
  for (int i = 0; i < N; i++) {
    for (int j = 0; j < N; j++)
      a[i][j] = f->xx[i][j] * scale[i] * scale[j];
    a[i][i] += 1e-6;
    a[i][N] = f->xy[i] * scale[i];
  }
  solve_scaled(a, used, out);
  for (int i = 0; i < N; i++)
    out[i] *= scale[i];
}

int lls_fit_solve(struct lls_fit *f)
{
  if (f->xx[0][0] <= 0)
    return -ENODATA;
  bool used[N];
  for (int i = 0; i < N; i++)
    used[i] = f->xx[i][i] > 0;
  for (bool negative = true; negative;) {
    negative = false;
    solve_once(f, used, f->coefficients);
    for (int i = 0; i < N; i++)
      if (used[i] && f->coefficients[i] < 0) {
        used[i] = false;
        negative = true;
      }
  }
  f->solved = true;
  return 0;
}

double lls_fit_predict(const struct lls_fit *f, const double x[N])
{
  if (!f->solved)
    return -1;
  double y = 0;
  for (int i = 0; i < N; i++)
    y += f->coefficients[i] * x[i];
  return y;
}
