/* SPDX-License-Identifier: Apache-2.0 */
/* The row kernels in plain C, with sums and functions in double: the reference. */
#include "kernels/cpu/rows.h"
#include "core/device/numbers.h"

#include <math.h>

static void norm_rms(const float *x, const float *weight, float epsilon, size_t n,
                     float *y)
{
  double squares = 0;
  for (size_t i = 0; i < n; i++)
    squares += (double)x[i] * (double)x[i];
  double factor = 1 / sqrt(squares / (double)n + (double)epsilon);
  for (size_t i = 0; i < n; i++)
    y[i] = (float)((double)x[i] * factor * (double)weight[i]);
}

static void norm_layer(const float *x, const float *weight, const float *bias,
                       float epsilon, size_t n, float *y)
{
  double sum = 0, squares = 0;
  for (size_t i = 0; i < n; i++)
    sum += (double)x[i];
  double mean = sum / (double)n;
  for (size_t i = 0; i < n; i++)
    squares += ((double)x[i] - mean) * ((double)x[i] - mean);
  double factor = 1 / sqrt(squares / (double)n + (double)epsilon);
  for (size_t i = 0; i < n; i++)
    y[i] = (float)(((double)x[i] - mean) * factor * (double)weight[i] + (double)bias[i]);
}

static double activation(enum lls_activation kind, double x)
{
  switch (kind) {
  case LLS_ACT_RELU:
    return x > 0 ? x : 0;
  case LLS_ACT_GELU:
    return x * 0.5 * erfc(-x * M_SQRT1_2);
  case LLS_ACT_GELU_TANH:
    return x * 0.5 * (1 + tanh(M_2_SQRTPI * M_SQRT1_2 * (x + 0.044715 * x * x * x)));
  case LLS_ACT_TANH:
    return tanh(x);
  case LLS_ACT_SILU:
    return x / (1 + exp(-x));
  case LLS_ACT_SQUARED_RELU:
    return x > 0 ? x * x : 0;
  case LLS_ACT_CLAMPED_SWIGLU:
    return fmin(x, 7) / (1 + exp(-1.702 * fmin(x, 7)));
  }
  return x;
}

static void activate(enum lls_activation kind, float *x, size_t n)
{
  for (size_t i = 0; i < n; i++)
    x[i] = (float)activation(kind, (double)x[i]);
}

static void gated(enum lls_activation kind, const float *gate, const float *up, size_t n,
                  float *y)
{
  for (size_t i = 0; i < n; i++) {
    double u = (double)up[i];
    if (kind == LLS_ACT_CLAMPED_SWIGLU)
      u = fmax(fmin(u, 7), -7) + 1;
    y[i] = (float)(activation(kind, (double)gate[i]) * u);
  }
}

static void cap_row(float scale, float cap, float *x, size_t n)
{
  for (size_t i = 0; i < n; i++)
    x[i] = (float)((double)cap * tanh((double)x[i] * (double)scale / (double)cap));
}

static void add(const float *x, size_t n, float *y)
{
  for (size_t i = 0; i < n; i++)
    y[i] += x[i];
}

static void rotate(const float *cosine, const float *sine, size_t n, float *a, float *b)
{
  for (size_t i = 0; i < n; i++) {
    double x = (double)a[i], y = (double)b[i];
    a[i] = (float)(x * (double)cosine[i] - y * (double)sine[i]);
    b[i] = (float)(y * (double)cosine[i] + x * (double)sine[i]);
  }
}

static void to_bf16(const float *x, size_t n, uint16_t *y)
{
  for (size_t i = 0; i < n; i++)
    y[i] = lls_f32_to_bf16(x[i]);
}

static float max(const float *x, size_t n)
{
  float top = -INFINITY;
  for (size_t i = 0; i < n; i++)
    top = x[i] > top ? x[i] : top;
  return top;
}

static void dots(const float *q, const float *x, size_t stride, size_t n_rows, size_t n,
                 float *out)
{
  for (size_t row = 0; row < n_rows; row++, x += stride) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
      sum += (double)q[i] * (double)x[i];
    out[row] = (float)sum;
  }
}

static void weigh(const float *p, const float *x, size_t stride, size_t n_rows, size_t n,
                  float *y)
{
  for (size_t row = 0; row < n_rows; row++, x += stride)
    for (size_t i = 0; i < n; i++)
      y[i] += p[row] * x[i];
}

static double exp_sum(const float *x, float top, float scale, size_t n, float *y)
{
  double sum = 0;
  for (size_t i = 0; i < n; i++) {
    double p = exp(((double)x[i] - (double)top) * (double)scale);
    y[i] = isnan(p) ? 0 : (float)p;
    sum += (double)y[i];
  }
  return sum;
}

void lls_cpu_rows_generic(struct lls_cpu_row_kernels *k)
{
  *k = (struct lls_cpu_row_kernels){
      .norm_rms = norm_rms,
      .norm_layer = norm_layer,
      .activate = activate,
      .gated = gated,
      .cap = cap_row,
      .add = add,
      .rotate = rotate,
      .to_bf16 = to_bf16,
      .max = max,
      .dots = dots,
      .weigh = weigh,
      .exp_sum = exp_sum,
  };
}
