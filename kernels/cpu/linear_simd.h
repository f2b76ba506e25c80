/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tiles of a vector level, included by linear_avx2.c, linear_avx512.c and
 * linear_neon.c, which define the most sums of a tile (MAX_SUMS vectors) and its panels
 * for each number of rows. Both multipliers are kept busy by 8 sums in registers (latency
 * 4, two a cycle); x is read once, broadcast, for all panels.
 *
 * Weights become f32 in registers: bf16 by a shift and a mask, f16 by a conversion
 * instruction. Where the CPU multiplies pairs of bf16 (PAIRS), x is rounded to bf16 and
 * the weights are used as they are. A group is (inputs, rows), in pairs (inputs / 2,
 * rows, 2).
 *
 * Bytes and operations of one pass over a panel: 16 x inputs x (4 or 2) read once,
 * 2 x 16 x inputs x rows operations.
 */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/simd.h"

#define VECTORS (LLS_PANEL / LANES) /* vectors of a panel's outputs */

#ifdef __aarch64__

INLINE vf load_even(const char *p) /* the even elements of LANES pairs of bf16 */
{
  return vreinterpretq_f32_u32(vshlq_n_u32(vld1q_u32((const uint32_t *)p), 16));
}
INLINE vf load_odd(const char *p)
{
  uint32x4_t pairs = vld1q_u32((const uint32_t *)p);
  return vreinterpretq_f32_u32(vandq_u32(pairs, vdupq_n_u32(0xffff0000)));
}

#elif defined __AVX512F__

INLINE vf load_even(const char *p) /* the even elements of LANES pairs of bf16 */
{
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(p), 16));
}
INLINE vf load_odd(const char *p)
{
  __m512i high = _mm512_set1_epi32((int)0xffff0000);
  return _mm512_castsi512_ps(_mm512_and_si512(_mm512_loadu_si512(p), high));
}

#else

INLINE vf load_even(const char *p)
{
  __m256i pairs = _mm256_loadu_si256((const __m256i *)p);
  return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
}
/* volatile: the mask is loaded for each use, since all 16 registers are taken */
static const volatile __m256i high = {
    (long long)0xffff0000ffff0000, (long long)0xffff0000ffff0000,
    (long long)0xffff0000ffff0000, (long long)0xffff0000ffff0000};
INLINE vf load_odd(const char *p)
{
  __m256i pairs = _mm256_loadu_si256((const __m256i *)p);
  return _mm256_castsi256_ps(_mm256_and_si256(pairs, high));
}

#endif

/* Vector v of the outputs of one of the two inputs that begin at w: the second if
 * `odd`. */
INLINE vf load_weight(const char *w, enum lls_packed packed, const int odd, const int v)
{
  size_t at = (size_t)(odd * LLS_PANEL + v * LANES);
  switch (packed) {
  case LLS_PACKED_F32:
    return vload((const float *)w + at);
  case LLS_PACKED_F16:
    return vload_f16((const uint16_t *)w + at);
  default:
    return odd ? load_odd(w + v * LANES * 4) : load_even(w + v * LANES * 4);
  }
}

/*
 * sum (panels, rows, VECTORS) += the two inputs at x (2, rows) times those at w. The
 * compiler needs this order to keep all sums in registers: weights first, of one panel
 * with AVX2, of all panels with AVX-512.
 */
INLINE void multiply_two(const char *w, size_t panel_bytes, const float *x,
                         const int panels, const int rows, enum lls_packed packed,
                         vf *sum)
{
  const int set = VECTORS == 1 ? panels : 1, sets = panels / set;
  UNROLL
  for (int i = 0; i < 2 * sets; i++) {
    const int odd = i / sets, first = i % sets * set;
    vf b[4];
    UNROLL
    for (int k = 0; k < set * VECTORS; k++)
      b[k] =
          load_weight(w + (first + k / VECTORS) * panel_bytes, packed, odd, k % VECTORS);
    UNROLL
    for (int r = 0; r < rows; r++) {
      vf xr = vset(x[odd * rows + r]);
      UNROLL
      for (int k = 0; k < set * VECTORS; k++) {
        vf *s = sum + ((first + k / VECTORS) * rows + r) * VECTORS + k % VECTORS;
        *s = vfma(xr, b[k], *s);
      }
    }
  }
}

#ifdef PAIRS
/* The same as multiply_two for pairs of bf16: x (rows, 2). */
INLINE void multiply_pair(const char *w, size_t panel_bytes, const uint32_t *x,
                          const int panels, const int rows, vf *sum)
{
  __m512bh b[8];
  UNROLL
  for (int p = 0; p < panels; p++)
    b[p] = (__m512bh)_mm512_loadu_si512(w + p * panel_bytes);
  UNROLL
  for (int r = 0; r < rows; r++) {
    __m512bh xr = (__m512bh)_mm512_set1_epi32((int)x[r]);
    UNROLL
    for (int p = 0; p < panels; p++)
      sum[p * rows + r] = _mm512_dpbf16_ps(sum[p * rows + r], xr, b[p]);
  }
}
#endif

/* Multiplies all `inputs` at w and x, and prefetches the lines at `ahead` in the same
 * streams. */
INLINE void multiply(const char *w, const char *ahead, size_t panel_bytes, const char *x,
                     size_t inputs, const int panels, const int rows,
                     enum lls_packed packed, vf *sum)
{
  const size_t two_bytes = 2 * LLS_PANEL * lls_packed_bytes(packed);
  for (size_t k = 0; k < inputs; k += 2) {
    UNROLL
    for (int p = 0; p < panels; p++) {
      prefetch_l1(ahead + p * panel_bytes);
      if (packed == LLS_PACKED_F32)
        prefetch_l1(ahead + p * panel_bytes + 64);
    }
#ifdef PAIRS
    if (packed == LLS_PACKED_BF16) {
      multiply_pair(w, panel_bytes, (const uint32_t *)x, panels, rows, sum);
      x += (size_t)rows * 2 * sizeof(uint16_t);
    } else
#endif
    {
      multiply_two(w, panel_bytes, (const float *)x, panels, rows, packed, sum);
      x += (size_t)rows * 2 * sizeof(float);
    }
    w += two_bytes;
    ahead += two_bytes;
  }
}

/* Stores sum (panels, rows, VECTORS) into sums (panels, sum_stride), or adds it if
 * `more`. */
INLINE void keep(const struct lls_tile *t, float *sums, bool more, const int panels,
                 const int rows, const vf *sum)
{
  UNROLL
  for (int p = 0; p < panels; p++) {
    UNROLL
    for (int i = 0; i < rows * VECTORS; i++) {
      float *to = sums + p * t->sum_stride + i * LANES;
      vf s = sum[p * rows * VECTORS + i];
      vstore(to, more ? vadd(vload(to), s) : s);
    }
  }
}

/* Multiplies `panels` panels, from `first` on. */
INLINE void part(const struct lls_tile *t, size_t first, const int panels, const int rows,
                 const size_t x_bytes, enum lls_packed packed)
{
  const size_t input_bytes = LLS_PANEL * lls_packed_bytes(packed);
  const char *w = t->weight + first * t->panel_bytes, *x = t->x;
  /* The input to prefetch at k: k + lead or, in the next panels, k - (inputs -
   * lead). */
  size_t turn = t->inputs - t->lead;
  const char *same = t->lead != 0 ? w + t->lead * input_bytes : t->x_next;
  const char *next = w + panels * t->panel_bytes - turn * input_bytes;
  for (size_t k = 0, end; k < t->inputs; k = end) {
    end = t->inputs - k < LLS_DEPTH ? t->inputs : k + LLS_DEPTH;
    size_t middle = turn < k ? k : turn < end ? turn : end;
    vf sum[MAX_SUMS];
    UNROLL
    for (int i = 0; i < MAX_SUMS; i++)
      sum[i] = vzero();
    multiply(w + k * input_bytes, same + k * input_bytes, t->panel_bytes,
             x + k * rows * x_bytes, middle - k, panels, rows, packed, sum);
    multiply(w + middle * input_bytes, next + middle * input_bytes, t->panel_bytes,
             x + middle * rows * x_bytes, end - middle, panels, rows, packed, sum);
    keep(t, t->sums + first * t->sum_stride, t->more || k > 0, panels, rows, sum);
  }
}

/* Multiplies all panels, `panels` at a time. */
INLINE void run(const struct lls_tile *t, const int panels, const int rows,
                const size_t x_bytes, enum lls_packed packed)
{
  size_t i = 0;
  for (; i + (size_t)panels <= t->panels; i += (size_t)panels)
    part(t, i, panels, rows, x_bytes, packed);
  for (; i < t->panels; i++)
    part(t, i, 1, rows, x_bytes, packed);
}

/* Writes y (rows, outputs) from the sums, row by row, since rows of y are far apart. */
INLINE void finish_as(const struct lls_finish *f, const bool scale, const bool bias,
                      const bool add)
{
  for (size_t row = 0; row < f->rows; row++) {
    float *y = f->y + row * f->y_stride;
    const float *sums = f->sums + row * LLS_PANEL;
    for (size_t o = 0; o < f->outputs; o += LANES) {
      vf s = vload(sums + o / LLS_PANEL * f->sum_stride + o % LLS_PANEL);
      if (scale)
        s = vmul(s, vload(f->scale + o));
      if (bias)
        s = vadd(s, vload(f->bias + o));
      if (add)
        s = vadd(s, vget(y + o, f->outputs - o));
      vput(y + o, f->outputs - o, s);
    }
  }
}

static void finish(const struct lls_finish *f)
{
  if (f->scale == NULL && f->bias == NULL)
    finish_as(f, false, false, f->add);
  else if (f->scale == NULL)
    finish_as(f, false, true, f->add);
  else
    finish_as(f, true, f->bias != NULL, f->add);
}
