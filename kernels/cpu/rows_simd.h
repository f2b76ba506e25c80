/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The row kernels with vectors, included by rows_avx2.c, rows_avx512.c and
 * rows_neon.c. A row has a few thousand floats, which the product before has just
 * written, so they are in the cache and the instructions are the limit. Bytes and
 * operations are given where they matter.
 */
#ifndef LLS_CPU_ROWS_SIMD_H
#define LLS_CPU_ROWS_SIMD_H

#include <math.h>

#include "kernels/cpu/rows.h"
#include "kernels/cpu/simd.h"

/* Bytes 12 n, operations 4 n. */
static void norm_rms(const float *x, const float *weight, float epsilon, size_t n,
                     float *y)
{
  vf sum[2] = {vzero(), vzero()};
  for (size_t i = 0; i < n; i += 2 * LANES) {
    vf a = vget(x + i, n - i);
    sum[0] = vfma(a, a, sum[0]);
    if (n - i <= LANES)
      break;
    vf b = vget(x + i + LANES, n - i - LANES);
    sum[1] = vfma(b, b, sum[1]);
  }
  float mean = vsum(vadd(sum[0], sum[1])) / (float)n;
  vf factor = vset(1 / sqrtf(mean + epsilon));
  for (size_t i = 0; i < n; i += LANES) {
    vf a = vmul(vget(x + i, n - i), factor);
    vput(y + i, n - i, vmul(a, vget(weight + i, n - i)));
  }
}

INLINE float sum_row(const float *x, size_t n)
{
  vf sum = vzero();
  for (size_t i = 0; i < n; i += LANES)
    sum = vadd(sum, vget(x + i, n - i));
  return vsum(sum);
}

INLINE float sum_square_differences(const float *x, float mean, size_t n)
{
  vf sum = vzero();
  size_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    vf d = vsub(vload(x + i), vset(mean));
    sum = vfma(d, d, sum);
  }
  float rest = 0;
  for (; i < n; i++)
    rest += (x[i] - mean) * (x[i] - mean);
  return vsum(sum) + rest;
}

/* Bytes 16 n, operations 7 n. */
static void norm_layer(const float *x, const float *weight, const float *bias,
                       float epsilon, size_t n, float *y)
{
  float mean = sum_row(x, n) / (float)n;
  float variance = sum_square_differences(x, mean, n) / (float)n;
  vf factor = vset(1 / sqrtf(variance + epsilon));
  for (size_t i = 0; i < n; i += LANES) {
    vf a = vmul(vsub(vget(x + i, n - i), vset(mean)), factor);
    a = vfma(a, vget(weight + i, n - i), vget(bias + i, n - i));
    vput(y + i, n - i, a);
  }
}

/* ---- activations ----------------------------------------------------------------- */

INLINE vf silu(vf x)
{
  return vdiv(x, vadd(vset(1.0f), vexp(vsub(vzero(), x))));
}

/* x sigmoid(1.702 x) for x clamped to at most 7, times the other half clamped to
 * -6..8. */
INLINE vf clamped_silu(vf x)
{
  vf g = vmin(x, vset(7.0f));
  return vdiv(g, vadd(vset(1.0f), vexp(vmul(g, vset(-1.702f)))));
}

INLINE vf clamped_up(vf x)
{
  return vadd(vmax(vmin(x, vset(7.0f)), vset(-7.0f)), vset(1.0f));
}

/* x (1 + tanh u) / 2 is x / (1 + e^-2u). */
INLINE vf gelu_tanh(vf x)
{
  vf cube = vmul(vmul(x, x), x);
  vf u = vfma(cube, vset(0.044715f), x);
  vf e = vexp(vmul(u, vset(-1.5957691216f))); /* the factor is -2 sqrt(2 / pi) */
  return vdiv(x, vadd(vset(1.0f), e));
}

/*
 * x times the normal distribution: Abramowitz and Stegun, 7.1.26, whose error in erf is
 * below 1.5e-7. With t = 1 / (1 + p |x| / sqrt 2), the tail beyond |x| is
 * poly(t) e^(-x^2 / 2) / 2.
 */
INLINE vf gelu(vf x)
{
  vf size = vabs(x);
  vf t = vdiv(vset(1.0f), vfma(size, vset(0.3275911f * 0.70710678f), vset(1.0f)));
  vf poly = vset(1.061405429f);
  poly = vfma(poly, t, vset(-1.453152027f));
  poly = vfma(poly, t, vset(1.421413741f));
  poly = vfma(poly, t, vset(-0.284496736f));
  poly = vfma(poly, t, vset(0.254829592f));
  poly = vmul(vmul(poly, t), vset(0.5f));
  vf tail = vmul(poly, vexp(vmul(vmul(x, x), vset(-0.5f))));
  vf share = vselect(vless(x, vzero()), tail, vsub(vset(1.0f), tail));
  return vmul(x, share);
}

/* tanh x is 1 - 2 / (1 + e^2x). */
INLINE vf hyperbolic_tangent(vf x)
{
  vf e = vexp(vmul(x, vset(2.0f)));
  return vsub(vset(1.0f), vdiv(vset(2.0f), vadd(vset(1.0f), e)));
}

INLINE vf activation(const enum lls_activation kind, vf x)
{
  switch (kind) {
  case LLS_ACT_RELU:
    return vmax(x, vzero());
  case LLS_ACT_GELU:
    return gelu(x);
  case LLS_ACT_GELU_TANH:
    return gelu_tanh(x);
  case LLS_ACT_TANH:
    return hyperbolic_tangent(x);
  case LLS_ACT_SILU:
    return silu(x);
  case LLS_ACT_SQUARED_RELU:
    return vmul(vmax(x, vzero()), vmax(x, vzero()));
  case LLS_ACT_CLAMPED_SWIGLU:
    return clamped_silu(x);
  }
  return x;
}

INLINE void activate_row(const enum lls_activation kind, const float *gate,
                         const float *up, size_t n, float *y)
{
  for (size_t i = 0; i < n; i += LANES) {
    vf a = activation(kind, vget(gate + i, n - i));
    vf u = up == NULL ? vset(1.0f) : vget(up + i, n - i);
    if (kind == LLS_ACT_CLAMPED_SWIGLU && up != NULL)
      u = clamped_up(u);
    vput(y + i, n - i, up == NULL ? a : vmul(a, u));
  }
}

/* Bytes 12 n (8 n without up), operations about 20 n. */
INLINE void activate_any(enum lls_activation kind, const float *gate, const float *up,
                         size_t n, float *y)
{
  switch (kind) { /* a separate loop for each kind */
  case LLS_ACT_RELU:
    activate_row(LLS_ACT_RELU, gate, up, n, y);
    break;
  case LLS_ACT_GELU:
    activate_row(LLS_ACT_GELU, gate, up, n, y);
    break;
  case LLS_ACT_GELU_TANH:
    activate_row(LLS_ACT_GELU_TANH, gate, up, n, y);
    break;
  case LLS_ACT_TANH:
    activate_row(LLS_ACT_TANH, gate, up, n, y);
    break;
  case LLS_ACT_SILU:
    activate_row(LLS_ACT_SILU, gate, up, n, y);
    break;
  case LLS_ACT_SQUARED_RELU:
    activate_row(LLS_ACT_SQUARED_RELU, gate, up, n, y);
    break;
  case LLS_ACT_CLAMPED_SWIGLU:
    activate_row(LLS_ACT_CLAMPED_SWIGLU, gate, up, n, y);
    break;
  }
}

static void activate(enum lls_activation kind, float *x, size_t n)
{
  activate_any(kind, x, NULL, n, x);
}

static void gated(enum lls_activation kind, const float *gate, const float *up, size_t n,
                  float *y)
{
  activate_any(kind, gate, up, n, y);
}

/* ---- the rest -------------------------------------------------------------------- */

static void cap_row(float scale, float cap, float *x, size_t n)
{
  for (size_t i = 0; i < n; i += LANES)
    vput(x + i, n - i, vcap(vget(x + i, n - i), 2 * scale / cap, cap));
}

static void add(const float *x, size_t n, float *y)
{
  for (size_t i = 0; i < n; i += LANES)
    vput(y + i, n - i, vadd(vget(x + i, n - i), vget(y + i, n - i)));
}

static void rotate(const float *cosine, const float *sine, size_t n, float *a, float *b)
{
  for (size_t i = 0; i < n; i += LANES) {
    size_t left = n - i;
    vf c = vget(cosine + i, left), s = vget(sine + i, left);
    vf x = vget(a + i, left), y = vget(b + i, left);
    vput(a + i, left, vfnma(y, s, vmul(x, c)));
    vput(b + i, left, vfma(x, s, vmul(y, c)));
  }
}

static void to_bf16(const float *x, size_t n, uint16_t *y)
{
  size_t i = 0;
  for (; i + LANES <= n; i += LANES)
    vstore_bf16(y + i, vload(x + i));
  if (i < n) {
    uint16_t rest[LANES];
    vstore_bf16(rest, vload_part(x + i, n - i));
    memcpy(y + i, rest, (n - i) * sizeof *y);
  }
}

/* Bytes 4 n. vmax returns its second operand if the first is NaN. */
static float max(const float *x, size_t n)
{
  vf top[2] = {vset(-INFINITY), vset(-INFINITY)};
  size_t i = 0;
  for (; i + 2 * LANES <= n; i += 2 * LANES) {
    top[0] = vmax(vload(x + i), top[0]);
    top[1] = vmax(vload(x + i + LANES), top[1]);
  }
  float best = vmaximum(vmax(top[0], top[1]));
  for (; i < n; i++)
    best = x[i] > best ? x[i] : best;
  return best;
}

/* Bytes 8 n, operations about 18 n. Partial sums of 4,096 values, of fewer with four
 * lanes, keep the rounding error of a large vocabulary's sum below that of the values. */
static double exp_sum(const float *x, float top, float scale, size_t n, float *y)
{
  double total = 0;
  const size_t block = LANES == 4 ? 1024 : 4096;
  for (size_t begin = 0; begin < n; begin += block) {
    size_t end = begin + block < n ? begin + block : n;
    vf sum = vzero();
    for (size_t i = begin; i < end; i += LANES) {
      vf difference = vsub(vget(x + i, end - i), vset(top));
      vf p = vexp(vmul(difference, vset(scale)));
      vput(y + i, end - i, p);
      if (end - i < LANES)
        p = vload_part(y + i, end - i); /* lanes beyond the end are not zero */
      sum = vadd(sum, p);
    }
    total += (double)vsum(sum);
  }
  return total;
}

/* q is read once for four rows of x. */
static void dots(const float *q, const float *x, size_t stride, size_t n_rows, size_t n,
                 float *out)
{
  size_t row = 0;
  for (; row + 4 <= n_rows; row += 4, x += 4 * stride) {
    vf sum[4] = {vzero(), vzero(), vzero(), vzero()};
    for (size_t i = 0; i < n; i += LANES) {
      vf a = vget(q + i, n - i);
      UNROLL
      for (size_t j = 0; j < 4; j++)
        sum[j] = vfma(a, vget(x + j * stride + i, n - i), sum[j]);
    }
    for (size_t j = 0; j < 4; j++)
      out[row + j] = vsum(sum[j]);
  }
  for (; row < n_rows; row++, x += stride) {
    vf sum = vzero();
    for (size_t i = 0; i < n; i += LANES)
      sum = vfma(vget(q + i, n - i), vget(x + i, n - i), sum);
    out[row] = vsum(sum);
  }
}

/* Four vectors of y stay in registers while all rows of x are added. */
static void weigh(const float *p, const float *x, size_t stride, size_t n_rows, size_t n,
                  float *y)
{
  size_t i = 0;
  for (; i + 4 * LANES <= n; i += 4 * LANES) {
    vf sum[4];
    UNROLL
    for (size_t j = 0; j < 4; j++)
      sum[j] = vload(y + i + j * LANES);
    for (size_t row = 0; row < n_rows; row++) {
      vf weight = vset(p[row]);
      UNROLL
      for (size_t j = 0; j < 4; j++)
        sum[j] = vfma(weight, vload(x + row * stride + i + j * LANES), sum[j]);
    }
    UNROLL
    for (size_t j = 0; j < 4; j++)
      vstore(y + i + j * LANES, sum[j]);
  }
  for (; i < n; i += LANES) {
    vf sum = vget(y + i, n - i);
    for (size_t row = 0; row < n_rows; row++)
      sum = vfma(vset(p[row]), vget(x + row * stride + i, n - i), sum);
    vput(y + i, n - i, sum);
  }
}

static inline void fill(struct lls_cpu_row_kernels *k)
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

#endif
