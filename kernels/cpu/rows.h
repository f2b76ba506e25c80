/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that work on one row of n floats: norms, activations, rotation, rounding and
 * the reductions of sampling. n is any number; pointers need no alignment; an output
 * may be an input where the comment says so.
 */
#ifndef LLS_CPU_ROWS_H
#define LLS_CPU_ROWS_H

#include "core/device/device.h"
#include "kernels/cpu/isa.h"

struct lls_cpu_row_kernels {
  /* y = x / sqrt(mean(x^2) + epsilon) weight; y may be x */
  void (*norm_rms)(const float *x, const float *weight, float epsilon, size_t n,
                   float *y);
  /* y = (x - mean(x)) / sqrt(variance(x) + epsilon) weight + bias; y may be x */
  void (*norm_layer)(const float *x, const float *weight, const float *bias,
                     float epsilon, size_t n, float *y);
  /* x = act(x) */
  void (*activate)(enum lls_activation, float *x, size_t n);
  /* y = act(gate) up; y may be either */
  void (*gated)(enum lls_activation, const float *gate, const float *up, size_t n,
                float *y);
  /* x = cap tanh(scale x / cap) */
  void (*cap)(float scale, float cap, float *x, size_t n);
  /* y += x */
  void (*add)(const float *x, size_t n, float *y);
  /* (a, b) = (a cos - b sin, b cos + a sin) */
  void (*rotate)(const float *cosine, const float *sine, size_t n, float *a, float *b);
  /* rounds to nearest, ties to even */
  void (*to_bf16)(const float *x, size_t n, uint16_t *y);
  /* the largest of x, ignoring NaN; -INFINITY if there is none */
  float (*max)(const float *x, size_t n);
  /* out[i] = q . x[i], x (n_rows, n) with rows `stride` floats apart */
  void (*dots)(const float *q, const float *x, size_t stride, size_t n_rows, size_t n,
               float *out);
  /* y += sum of p[i] x[i], with x as in `dots` */
  void (*weigh)(const float *p, const float *x, size_t stride, size_t n_rows, size_t n,
                float *y);
  /* y = exp((x - max) scale), 0 for NaN; returns the sum of y; y may be x */
  double (*exp_sum)(const float *x, float max, float scale, size_t n, float *y);
};

#endif
