/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention of one KV head with vectors, included by attention_avx2.c and _avx512.c.
 *
 * Tokens are taken in tiles of 64. A tile's K is turned around (dim, token) and its V
 * kept (token, dim), both widened to f32 in the thread's scratch. Then, for all queries:
 * scores = q K, softmax, values = decay values + p V, the two products in panels of
 * columns that stay in the first-level cache while the queries pass over them, up to 6
 * at a time. Every sum has one accumulator and a fixed order, however the queries
 * are grouped, so that a row's result does not depend on which rows are computed with it.
 *
 * Bytes of a call: tokens x head_dim x 2 (K, V) x element, each read once.
 * Operations: queries x visible tokens x (4 head_dim + about 20 for the exponential).
 */
#ifndef LLS_CPU_ATTENTION_SIMD_H
#define LLS_CPU_ATTENTION_SIMD_H

#include <math.h>

#include "kernels/cpu/attention_tile.h"
#include "core/device/numbers.h"
#include "kernels/cpu/simd.h"

#define ROWS 6 /* most queries of a product: 12 sums and 3 operands in registers */

/* From row to row of a tile; not a power of two, which would be one set of the cache. */
#define K_STRIDE           (TILE + 16)
#define V_STRIDE(head_dim) ((((head_dim) + 15) & ~15u) + 16)

struct work {
  float q[LLS_ATTENTION_QUERIES * LLS_HEAD_DIM_MAX]; /* (queries, head_dim) */
  float s[LLS_ATTENTION_QUERIES * TILE];      /* (queries, tokens) scores, weights */
  float decay[LLS_ATTENTION_QUERIES + 64];    /* four vectors at a time */
  float k[LLS_HEAD_DIM_MAX * K_STRIDE];       /* (head_dim, tokens) */
  float v[TILE * V_STRIDE(LLS_HEAD_DIM_MAX)]; /* (tokens, head_dim) */
  float wide[8 * LLS_HEAD_DIM_MAX];           /* eight tokens, some of which are INT8 */
  struct tokens tokens[2];                    /* this tile's and the next one's */
};
_Static_assert(sizeof(struct work) <= LLS_ATTENTION_SCRATCH, "scratch is too small");

/* ---- products -------------------------------------------------------------------- */

struct matrix {
  float *at;
  size_t stride; /* from row to row */
};

/* out (R, C vectors) = out * decay + a (R, depth) b (depth, C vectors). */
INLINE void product(unsigned R, unsigned C, const float *a, size_t a_stride,
                    unsigned depth, const float *b, size_t b_stride, const float *decay,
                    float *out, size_t out_stride)
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
        sum[r][c] = vfma(x, vload(b + c * LANES), sum[r][c]);
    }
  }
  UNROLL
  for (unsigned r = 0; r < R; r++) {
    UNROLL
    for (unsigned c = 0; c < C; c++)
      vstore(out + r * out_stride + c * LANES, sum[r][c]);
  }
}

/* How wide a panel of columns can be, in vectors; few rows need more of them. */
INLINE unsigned panel_vectors(unsigned rows, size_t columns)
{
  unsigned widest = rows == 1 ? 64 / LANES : rows == 2 ? 4 : 2;
  while (widest * LANES > columns)
    widest /= 2;
  return widest;
}

/* Panels of `multiply`, each of which asks for a helping for each block of rows. */
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
static void multiply(unsigned rows, struct matrix a, unsigned depth, struct matrix b,
                     const float *decay, struct matrix out, size_t columns,
                     struct ahead *ahead)
{
#define PANEL(R, C)                                                                      \
  case (R)*16 + (C):                                                                     \
    product(R, C, a.at + i * a.stride, a.stride, depth, b.at + j, b.stride,              \
            decay == NULL ? NULL : decay + i, out.at + i * out.stride + j, out.stride);  \
    break
  unsigned blocks = (rows + ROWS - 1) / ROWS, vectors;
  for (size_t j = 0; j < columns; j += vectors * LANES) {
    vectors = panel_vectors(rows, columns - j);
    for (unsigned block = 0; block < blocks; block++) {
      unsigned i = rows * block / blocks, n = rows * (block + 1) / blocks - i;
      fetch(ahead);
      switch (n * 16 + vectors) {
#if LANES == 16
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
        PANEL(1, 2);
        PANEL(2, 2);
        PANEL(3, 2);
        PANEL(4, 2);
        PANEL(5, 2);
        PANEL(6, 2);
      }
    }
  }
#undef PANEL
}

/* ---- the tile -------------------------------------------------------------------- */

/* Four 32-bit words of eight tokens, turned around: out[i] holds word i of each. */
INLINE void turn(const char *const token[8], size_t byte, __m256 out[4])
{
  __m256 x[4];
  UNROLL
  for (unsigned i = 0; i < 4; i++)
    x[i] = _mm256_insertf128_ps(
        _mm256_castps128_ps256(_mm_loadu_ps((const float *)(token[i] + byte))),
        _mm_loadu_ps((const float *)(token[i + 4] + byte)), 1);
  __m256 a = _mm256_unpacklo_ps(x[0], x[1]), b = _mm256_unpackhi_ps(x[0], x[1]);
  __m256 c = _mm256_unpacklo_ps(x[2], x[3]), d = _mm256_unpackhi_ps(x[2], x[3]);
  out[0] = _mm256_shuffle_ps(a, c, 0x44);
  out[1] = _mm256_shuffle_ps(a, c, 0xee);
  out[2] = _mm256_shuffle_ps(b, d, 0x44);
  out[3] = _mm256_shuffle_ps(b, d, 0xee);
}

/* A word of bf16 is two dims: the even one moves up, the odd one is there already. */
INLINE void load_k_bf16(const char *const token[8], uint32_t head_dim, float *k)
{
  const __m256 high = _mm256_castsi256_ps(_mm256_set1_epi32((int)0xffff0000));
  for (uint32_t d = 0; d < head_dim; d += 8, k += 8 * K_STRIDE) {
    __m256 word[4];
    turn(token, d * 2, word);
    UNROLL
    for (unsigned i = 0; i < 4; i++) {
      __m256i even = _mm256_slli_epi32(_mm256_castps_si256(word[i]), 16);
      _mm256_storeu_ps(k + 2 * i * K_STRIDE, _mm256_castsi256_ps(even));
      _mm256_storeu_ps(k + (2 * i + 1) * K_STRIDE, _mm256_and_ps(word[i], high));
    }
  }
}

INLINE void load_k_f32(const char *const token[8], uint32_t head_dim, float *k)
{
  for (uint32_t d = 0; d < head_dim; d += 4, k += 4 * K_STRIDE) {
    __m256 word[4];
    turn(token, d * 4, word);
    UNROLL
    for (unsigned i = 0; i < 4; i++)
      _mm256_storeu_ps(k + i * K_STRIDE, word[i]);
  }
}

/* One token's V, widened; the dims up to a multiple of 16 are zeros. */
INLINE void load_v(const char *token, bool bf16, uint32_t head_dim, float *v)
{
  for (uint32_t d = 0; d < head_dim; d += 8) {
    __m256 x;
    if (bf16) {
      __m128i raw = _mm_loadu_si128((const __m128i *)(token + d * 2));
      x = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(raw), 16));
    } else {
      x = _mm256_loadu_ps((const float *)(token + d * 4));
    }
    _mm256_storeu_ps(v + d, x);
  }
  if (head_dim % 16 != 0)
    _mm256_storeu_ps(v + head_dim, _mm256_setzero_ps());
}

/* The same of a token of bytes. */
INLINE void load_int8(const char *token, const uint16_t *scales, uint32_t head_dim,
                      float *out)
{
  for (uint32_t d = 0; d < head_dim; d += 8) {
    __m128i bytes = _mm_loadl_epi64((const __m128i *)(token + d));
    __m256 q = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
    __m256 step = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(scales + d)));
    __m256 least =
        _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(scales + head_dim + d)));
    _mm256_storeu_ps(out + d, _mm256_fmadd_ps(q, step, least));
  }
}

INLINE bool any_int8(const struct tokens *t, uint32_t first)
{
  bool any = false;
  for (uint32_t i = first; t->int8 && i < first + 8; i++)
    any |= t->scales[i] != NULL;
  return any;
}

/* Eight tokens of K of which some are INT8: all of them made wide, then turned. */
static void load_k_mixed(const struct lls_attention_task *t, bool bf16, struct work *w,
                         const struct tokens *tokens, uint32_t first)
{
  const char *token[8];
  uint32_t stride = t->head_dim;
  for (uint32_t i = 0; i < 8; i++) {
    float *to = w->wide + i * stride;
    const char *at = tokens->at[first + i];
    token[i] = (const char *)to;
    for (uint32_t d = 0; tokens->scales[first + i] == NULL && d < stride; d++)
      to[d] = bf16 ? lls_bf16_to_f32(((const uint16_t *)at)[d]) : ((const float *)at)[d];
    if (tokens->scales[first + i] != NULL)
      load_int8(at, tokens->scales[first + i], stride, to);
  }
  load_k_f32(token, stride, w->k + first);
}

/* Widens n tokens into the tile; scores of those beyond, up to sixteens, are masked. */
INLINE void load_tile(const struct lls_attention_task *t, bool bf16, struct work *w,
                      const struct tokens *tokens, uint32_t n)
{
  uint32_t v_stride = V_STRIDE(t->head_dim);
  for (uint32_t i = 0; i < n; i += 8) {
    if (any_int8(tokens, i))
      load_k_mixed(t, bf16, w, tokens, i);
    else if (bf16)
      load_k_bf16(tokens->at + i, t->head_dim, w->k + i);
    else
      load_k_f32(tokens->at + i, t->head_dim, w->k + i);
  }
  for (uint32_t i = 0; i < n; i++) {
    const uint16_t *scales = tokens->int8 ? tokens->scales[TILE + i] : NULL;
    float *to = w->v + i * v_stride;
    if (scales == NULL) {
      load_v(tokens->at[TILE + i], bf16, t->head_dim, to);
    } else {
      load_int8(tokens->at[TILE + i], scales, t->head_dim, to);
      if (t->head_dim % 16 != 0)
        _mm256_storeu_ps(to + t->head_dim, _mm256_setzero_ps());
    }
  }
}

/* ---- softmax --------------------------------------------------------------------- */

/*
 * 2^x of four vectors, x <= 0: steps taken side by side since each waits four cycles
 * for the one before. 0 below -126 and for what is not a number; else the power series of
 * e^(f ln 2) to the 6th power on [-1/2, 1/2], which leaves out 1.2e-7 of the value.
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

/* Scores of the tokens that a query does not see become -inf. */
INLINE void mask(float *s, uint32_t columns, uint32_t begin, uint32_t end)
{
  for (uint32_t i = 0; i < begin && i < columns; i++)
    s[i] = -INFINITY;
  for (uint32_t i = end; i < columns; i++)
    s[i] = -INFINITY;
}

/* A query's scores, scaled and capped; those that nobody sees may be anything. */
static void cap_scores(const struct lls_attention_task *t, float *s)
{
  float slope = 2 * t->scale / t->soft_cap;
  for (uint32_t i = 0; i < TILE; i += LANES)
    vstore(s + i, vcap(vload(s + i), slope, t->soft_cap));
}

INLINE float largest(const float *s, uint32_t columns)
{
  vf top = vload(s);
  for (uint32_t i = LANES; i < columns; i += LANES)
    top = vmax(vload(s + i), top);
  return vmaximum(top);
}

/* s = 2^(scale s - max); the sum of it. */
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

/* Rows [begin, end) of s: weights under the new max; decay: what the old sums
 * are worth. */
static void softmax(const struct lls_attention_task *t, uint32_t token, uint32_t n,
                    uint32_t begin, uint32_t end, const struct lls_attention_state *out,
                    struct work *w)
{
  float scale = (t->soft_cap > 0 ? 1 : t->scale) * 1.44269504f;
  for (uint32_t i = begin; t->soft_cap > 0 && i < end; i++)
    cap_scores(t, w->s + i * TILE);
  for (uint32_t i = begin; i < end; i++) {
    uint32_t first, last;
    tile_visible(t->first_position + i / t->group, t->window, token, n, &first, &last);
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

static void attend_tile(const struct lls_attention_task *t, uint32_t token, uint32_t n,
                        const struct lls_attention_state *out, struct work *w,
                        struct ahead *ahead)
{
  uint32_t begin, end, stride = lls_attention_stride(t->head_dim);
  tile_queries(t, token, n, &begin, &end);
  if (begin >= end)
    return;
  struct matrix q = {w->q + begin * t->head_dim, t->head_dim};
  struct matrix s = {w->s + begin * TILE, TILE};
  struct matrix values = {out->values + begin * stride, stride};
  struct matrix k = {w->k, K_STRIDE}, v = {w->v, V_STRIDE(t->head_dim)};
  uint32_t columns = (n + 15) & ~15u;
  unsigned panels = panels_of(end - begin, columns) + panels_of(end - begin, stride);
  ahead->helping = ahead->left / (panels * ((end - begin + ROWS - 1) / ROWS)) + 1;
  multiply(end - begin, q, t->head_dim, k, NULL, s, columns, ahead);
  softmax(t, token, n, begin, end, out, w);
  multiply(end - begin, s, n, v, w->decay + begin, values, stride, ahead);
}

static void attend(const struct lls_attention_task *t, uint32_t begin, uint32_t end,
                   const struct lls_attention_state *out, void *scratch)
{
  struct work *w = scratch;
  uint32_t queries = t->n_rows * t->group, n, n_next, row_floats = t->group * t->head_dim;
  state_clear(out, queries, lls_attention_stride(t->head_dim));
  tile_range(t, &begin, &end);
  if (begin >= end)
    return;
  for (uint32_t row = 0; row < t->n_rows; row++)
    memcpy(w->q + row * row_floats, t->q + row * t->q_stride, row_floats * sizeof(float));
  struct cursor k = cursor_at(&t->k, begin), v = cursor_at(&t->v, begin);
  n = tile_addresses(&k, &v, begin, end, &w->tokens[0]);
  for (unsigned now = 0; begin < end; begin += n, n = n_next, now = !now) {
    n_next = tile_addresses(&k, &v, begin + n, end, &w->tokens[!now]);
    struct ahead ahead = {w->tokens[!now].at, n_next == 0 ? 0 : TILE + n_next, 0,
                          t->k.slot_bytes};
    if (t->bf16)
      load_tile(t, true, w, &w->tokens[now], n);
    else
      load_tile(t, false, w, &w->tokens[now], n);
    attend_tile(t, begin, n, out, w, &ahead);
  }
}

#endif
