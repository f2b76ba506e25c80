/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention of one KV head with vectors, included by attention_avx2.c,
 * _avx512.c and _neon.c.
 *
 * Tokens are processed in tiles of 64. A tile's K is transposed to (dim, token) and its
 * V stays (token, dim), both widened to f32 in the thread's scratch, or kept as pairs
 * of bf16 (attention_load.h). Then, for all queries: scores = q K, softmax, values =
 * decay values + p V, the two products in panels of columns that stay in L1 while up to
 * 6 queries at a time are multiplied with them. Every sum has one accumulator and a
 * fixed order, however the queries are grouped, so a row's result does not depend on
 * the rows computed with it.
 *
 * Bytes of a call: tokens x head_dim x 2 (K, V) x element, each read once.
 * Operations: queries x visible tokens x (4 head_dim + about 20 for the exponential).
 */
#ifndef LLS_CPU_ATTENTION_SIMD_H
#define LLS_CPU_ATTENTION_SIMD_H

#include <math.h>

#include "kernels/cpu/attention_load.h"

#define ROWS 6 /* most queries in a product: 12 sums and 3 operands fit in registers */

/* ---- products -------------------------------------------------------------------- */

struct matrix {
  float *at;
  size_t stride; /* in floats, from row to row */
};

/* a b + sum of f32, or of words that are pairs of bf16, which AVX-512 multiplies in one
 * instruction. */
INLINE vf vdot(vf a, vf b, vf sum, const bool pairs)
{
#ifdef __AVX512BF16__
  if (pairs)
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
#endif
  (void)pairs;
  return vfma(a, b, sum);
}

/* out (R, C vectors) = out * decay + a (R, depth) b (depth, C vectors). */
INLINE void product(unsigned R, unsigned C, const float *a, size_t a_stride,
                    unsigned depth, const float *b, size_t b_stride, const float *decay,
                    float *out, size_t out_stride, const bool pairs)
{
  vf sum[ROWS][8];
  UNROLL
  for (unsigned r = 0; r < R; r++) {
    UNROLL
    for (unsigned c = 0; c < C; c++)
      sum[r][c] = decay == NULL
                      ? vzero()
                      : vmul(vload(out + r * out_stride + c * LANES), vset(decay[r]));
  }
  for (unsigned d = 0; d < depth; d++, b += b_stride) {
    UNROLL
    for (unsigned r = 0; r < R; r++) {
      vf x = vset(a[r * a_stride + d]);
      UNROLL
      for (unsigned c = 0; c < C; c++)
        sum[r][c] = vdot(x, vload(b + c * LANES), sum[r][c], pairs);
    }
  }
  UNROLL
  for (unsigned r = 0; r < R; r++) {
    UNROLL
    for (unsigned c = 0; c < C; c++)
      vstore(out + r * out_stride + c * LANES, sum[r][c]);
  }
}

/* Returns the width of a panel of columns, in vectors; with few rows it can be
 * larger. */
INLINE unsigned panel_vectors(unsigned rows, size_t columns)
{
#if LANES == 4
  unsigned widest = rows <= 2 ? 8 : 4;
#else
  unsigned widest = rows == 1 ? 64 / LANES : rows == 2 ? 4 : 2;
#endif
  while (widest * LANES > columns)
    widest /= 2;
  return widest;
}

/* Returns the number of panels in `multiply`; each prefetches one burst for each block
 * of rows. */
INLINE unsigned panels_of(unsigned rows, size_t columns)
{
  unsigned n = 0;
  for (size_t j = 0; j < columns; j += panel_vectors(rows, columns - j) * LANES)
    n++;
  return n;
}

/*
 * out (rows, columns) = out * decay + a (rows, depth) b (depth, columns); decay NULL: 0.
 * columns is a multiple of 16.
 */
INLINE void multiply(unsigned rows, struct matrix a, unsigned depth, struct matrix b,
                     const float *decay, struct matrix out, size_t columns,
                     const bool pairs, struct ahead *ahead)
{
#define PANEL(R, C)                                                                      \
  case (R)*16 + (C):                                                                     \
    product(R, C, a.at + i * a.stride, a.stride, depth, b.at + j, b.stride,              \
            decay == NULL ? NULL : decay + i, out.at + i * out.stride + j, out.stride,   \
            pairs);                                                                      \
    break
  unsigned blocks = (rows + ROWS - 1) / ROWS, vectors;
  for (size_t j = 0; j < columns; j += vectors * LANES) {
    vectors = panel_vectors(rows, columns - j);
    for (unsigned block = 0; block < blocks; block++) {
      unsigned i = rows * block / blocks, n = rows * (block + 1) / blocks - i;
      fetch(ahead);
      switch (n * 16 + vectors) {
#if LANES == 4
        PANEL(1, 8);
        PANEL(2, 8);
        PANEL(3, 4);
        PANEL(4, 4);
        PANEL(5, 4);
        PANEL(6, 4);
#elif LANES == 16
        PANEL(1, 1);
        PANEL(2, 1);
        PANEL(3, 1);
        PANEL(4, 1);
        PANEL(5, 1);
        PANEL(6, 1);
#else
        PANEL(1, 8);
#endif
        PANEL(1, 4);
        PANEL(2, 4);
#if LANES != 4
        PANEL(1, 2);
        PANEL(2, 2);
        PANEL(3, 2);
        PANEL(4, 2);
        PANEL(5, 2);
        PANEL(6, 2);
#endif
      }
    }
  }
#undef PANEL
}

/* ---- softmax --------------------------------------------------------------------- */

/*
 * 2^x of four vectors, x <= 0. The four are interleaved, since each step has a latency
 * of four cycles. The result is 0 below -126 and for NaN; otherwise the power series of
 * e^(f ln 2) to the 6th power on [-1/2, 1/2], whose relative error is 1.2e-7.
 */
INLINE void exp2_four(vf x[4])
{
  static const float series[] = {1.5403530e-4f, 1.3333558e-3f, 9.6181291e-3f,
                                 5.5504109e-2f, 2.4022651e-1f, 6.9314718e-1f,
                                 1.0f};
  vf n[4], f[4], p[4];
  UNROLL
  for (unsigned i = 0; i < 4; i++) {
    n[i] = vround(x[i]);
    f[i] = vsub(x[i], n[i]);
    p[i] = vset(series[0]);
  }
  UNROLL
  for (unsigned c = 1; c < 7; c++) {
    UNROLL
    for (unsigned i = 0; i < 4; i++)
      p[i] = vfma(p[i], f[i], vset(series[c]));
  }
  UNROLL
  for (unsigned i = 0; i < 4; i++)
    x[i] = vselect(vless(vset(-126.0f), x[i]), vpower2(p[i], n[i]), vzero());
}

/* Sets the scores of masked tokens to -inf. */
INLINE void mask(float *s, uint32_t columns, uint32_t begin, uint32_t end)
{
  for (uint32_t i = 0; i < begin && i < columns; i++)
    s[i] = -INFINITY;
  for (uint32_t i = end; i < columns; i++)
    s[i] = -INFINITY;
}

/* Scales and caps a query's scores; those of masked tokens may be anything. */
static void cap_scores(const struct lls_attention_task *t, float *s)
{
  float slope = 2 * t->scale / t->soft_cap;
  for (uint32_t i = 0; i < TILE; i += LANES)
    vstore(s + i, vcap(vload(s + i), slope, t->soft_cap));
}

/* Scales a query's scores and adds ALiBi's distances (TILE) times a slope. */
static void slope_scores(const struct lls_attention_task *t, const float *distances,
                         float slope, float *s)
{
  for (uint32_t i = 0; i < TILE; i += LANES) {
    vf far = vmul(vload(distances + i), vset(slope));
    vstore(s + i, vfma(vload(s + i), vset(t->scale), far));
  }
}

/* Adds ALiBi's terms to rows [begin, end) of s, a tile that begins with `token`. */
static void add_slopes(const struct lls_attention_task *t, uint32_t token, uint32_t begin,
                       uint32_t end, struct work *w)
{
  _Alignas(64) float distances[TILE];
  for (uint32_t i = 0; i < TILE; i++)
    distances[i] = tile_distance(t, token + i);
  for (uint32_t i = begin; i < end; i++)
    slope_scores(t, distances, t->slopes[i % t->group], w->s + i * TILE);
}

/* Scales scores and adds numbers by distance to rows [begin, end) of s, a tile that
 * begins with `token`. */
static void add_relative(const struct lls_attention_task *t, uint32_t token,
                         uint32_t begin, uint32_t end, struct work *w)
{
  for (uint32_t i = begin; i < end; i++) {
    const float *add = t->relative + i % t->group * t->relative_columns + token;
    float *s = w->s + i * TILE;
    add -= i / t->group;
    for (uint32_t j = 0; j < TILE; j += LANES)
      vstore(s + j, vfma(vload(s + j), vset(t->scale), vload(add + j)));
  }
}

INLINE float largest(const float *s, uint32_t columns)
{
  vf top = vload(s);
  for (uint32_t i = LANES; i < columns; i += LANES)
    top = vmax(vload(s + i), top);
  return vmaximum(top);
}

/* s = 2^(scale s - max); returns the sum of s. */
INLINE float weigh(float *s, uint32_t columns, float scale, float max)
{
  vf sum = vzero();
  for (uint32_t i = 0; i < columns; i += 4 * LANES) {
    vf x[4];
    UNROLL
    for (unsigned j = 0; j < 4; j++)
      x[j] = vfma(vload(s + i + j * LANES), vset(scale), vset(-max));
    exp2_four(x);
    UNROLL
    for (unsigned j = 0; j < 4; j++) {
      vstore(s + i + j * LANES, x[j]);
      sum = vadd(sum, x[j]);
    }
  }
  return vsum(sum);
}

/* Turns rows [begin, end) of s into weights under the new maximum; `decay` gets the
 * factors for the old sums. */
static void softmax(const struct lls_attention_task *t, uint32_t token, uint32_t n,
                    uint32_t begin, uint32_t end, const struct lls_attention_state *out,
                    struct work *w)
{
  bool scaled = t->soft_cap > 0 || t->slopes != NULL || t->relative != NULL;
  float scale = (scaled ? 1 : t->scale) * 1.44269504f;
  for (uint32_t i = begin; t->soft_cap > 0 && i < end; i++)
    cap_scores(t, w->s + i * TILE);
  if (t->slopes != NULL)
    add_slopes(t, token, begin, end, w);
  if (t->relative != NULL)
    add_relative(t, token, begin, end, w);
  for (uint32_t i = begin; i < end; i++) {
    uint32_t first, last;
    tile_visible(t, i / t->group, token, n, &first, &last);
    mask(w->s + i * TILE, TILE, first, last);
    float max = largest(w->s + i * TILE, TILE) * scale;
    max = max > out->max[i] ? max : out->max[i];
    w->decay[i] = out->max[i] - max;
    out->max[i] = max;
  }
  for (uint32_t i = begin; i < end; i += 4 * LANES) {
    vf x[4];
    UNROLL
    for (unsigned j = 0; j < 4; j++)
      x[j] = vload(w->decay + i + j * LANES);
    exp2_four(x);
    UNROLL
    for (unsigned j = 0; j < 4; j++)
      vstore(w->decay + i + j * LANES, x[j]);
  }
  for (uint32_t i = begin; i < end; i++)
    out->sum[i] =
        out->sum[i] * w->decay[i] + weigh(w->s + i * TILE, TILE, scale, out->max[i]);
}

/* ---- the whole ------------------------------------------------------------------- */

INLINE void attend_tile(const struct lls_attention_task *t, uint32_t token, uint32_t n,
                        const struct lls_attention_state *out, struct work *w,
                        const bool pairs, struct ahead *ahead)
{
  uint32_t begin, end, stride = lls_attention_stride(t->head_dim);
  tile_queries(t, token, n, &begin, &end);
  if (begin >= end)
    return;
  struct matrix q = {w->q + begin * t->head_dim, t->head_dim};
  struct matrix s = {w->s + begin * TILE, TILE};
  struct matrix values = {out->values + begin * stride, stride};
  struct matrix k = {w->k, K_STRIDE}, v = {w->v, V_STRIDE(t->head_dim)};
  uint32_t columns = (n + 15) & ~15u, depth = pairs ? t->head_dim / 2 : t->head_dim;
  unsigned panels = panels_of(end - begin, columns) + panels_of(end - begin, stride);
  ahead->helping = ahead->left / (panels * ((end - begin + ROWS - 1) / ROWS)) + 1;
  multiply(end - begin, q, depth, k, NULL, s, columns, pairs, ahead);
  softmax(t, token, n, begin, end, out, w);
  for (uint32_t i = begin; pairs && i < end; i++)
    narrow(w->s + i * TILE, TILE, w->s + i * TILE);
  multiply(end - begin, s, pairs ? (n + 1) / 2 : n, v, w->decay + begin, values, stride,
           pairs, ahead);
}

INLINE void load_q(const struct lls_attention_task *t, const bool pairs, struct work *w)
{
  uint32_t row_floats = t->group * t->head_dim;
  for (uint32_t row = 0; row < t->n_rows; row++) {
    const float *q = t->q + row * t->q_stride;
    float *to = w->q + row * row_floats;
    if (!pairs)
      memcpy(to, q, row_floats * sizeof(float));
    for (uint32_t i = 0; pairs && i < row_floats; i += t->head_dim)
      narrow(q + i, t->head_dim, to + i);
  }
}

INLINE void attend_as(const struct lls_attention_task *t, uint32_t begin, uint32_t end,
                      const struct lls_attention_state *out, const bool pairs,
                      struct work *w)
{
  uint32_t n, n_next;
  state_clear(out, t->n_rows * t->group, lls_attention_stride(t->head_dim));
  tile_range(t, &begin, &end);
  if (begin >= end)
    return;
  load_q(t, pairs, w);
  struct cursor k = cursor_at(&t->k, begin), v = cursor_at(&t->v, begin);
  n = tile_addresses(&k, &v, begin, end, &w->tokens[0]);
  for (unsigned now = 0; begin < end; begin += n, n = n_next, now = !now) {
    n_next = tile_addresses(&k, &v, begin + n, end, &w->tokens[!now]);
    struct ahead ahead = {w->tokens[!now].at, n_next == 0 ? 0 : TILE + n_next, 0,
                          usual_bytes(&t->k)};
    if (pairs)
      load_tile(t, true, true, w, &w->tokens[now], n);
    else if (t->bf16)
      load_tile(t, true, false, w, &w->tokens[now], n);
    else
      load_tile(t, false, false, w, &w->tokens[now], n);
    attend_tile(t, begin, n, out, w, pairs, &ahead);
  }
}

static void attend(const struct lls_attention_task *t, uint32_t begin, uint32_t end,
                   const struct lls_attention_state *out, void *scratch)
{
  attend_as(t, begin, end, out, false, scratch);
}

#endif
