/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tile of K and V from the cache into the thread's scratch, for attention_simd.h: K
 * turned around, V as it is, both widened to f32 or, for AVX-512, as pairs of bf16 in
 * words of 32 bits, two dims of K and two tokens of V.
 */
#ifndef LLS_CPU_ATTENTION_LOAD_H
#define LLS_CPU_ATTENTION_LOAD_H

#include "kernels/cpu/attention_tile.h"
#include "core/device/numbers.h"
#include "kernels/cpu/simd.h"

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

#ifdef __AVX512BF16__
/* (head_dim / 2, tokens) words: the pairs that lie together. */
INLINE void load_k_pairs(const char *const token[8], uint32_t head_dim, float *k)
{
  for (uint32_t d = 0; d < head_dim; d += 8, k += 4 * K_STRIDE) {
    __m256 word[4];
    turn(token, d * 2, word);
    UNROLL
    for (unsigned i = 0; i < 4; i++)
      _mm256_storeu_ps(k + i * K_STRIDE, word[i]);
  }
}

INLINE __m512i load_words(const char *token, uint32_t d, uint32_t head_dim)
{
  __mmask16 mask = head_dim - d < 16 ? 0xff : 0xffff;
  return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, token + d * 2));
}

/* (tokens / 2, head_dim) words: a dim of two tokens, the second one 0 if it is missing.
 */
INLINE void load_v_pairs(const char *const *token, uint32_t n, uint32_t head_dim,
                         float *v)
{
  for (uint32_t i = 0; i < n; i += 2, v += V_STRIDE(head_dim)) {
    for (uint32_t d = 0; d < head_dim; d += 16) {
      __m512i pair = load_words(token[i], d, head_dim);
      if (i + 1 < n)
        pair = _mm512_or_si512(
            pair, _mm512_slli_epi32(load_words(token[i + 1], d, head_dim), 16));
      _mm512_storeu_si512(v + d, pair);
    }
  }
}

INLINE void load_pairs(const struct lls_attention_task *t, struct work *w,
                       const struct tokens *tokens, uint32_t n)
{
  for (uint32_t i = 0; i < n; i += 8)
    load_k_pairs(tokens->at + i, t->head_dim, w->k + i);
  load_v_pairs(tokens->at + TILE, n, t->head_dim, w->v);
}

/* n numbers as pairs of bf16, which may take their place; n a multiple of 8. */
INLINE void narrow(const float *x, uint32_t n, float *out)
{
  for (uint32_t i = 0; i < n; i += 16) {
    __m256i some = (__m256i)_mm512_cvtneps_pbh(vget(x + i, n - i));
    _mm256_mask_storeu_epi32(out + i / 2, n - i < 16 ? 0x0f : 0xff, some);
  }
}
#else
INLINE void load_pairs(const struct lls_attention_task *t, struct work *w,
                       const struct tokens *tokens, uint32_t n)
{
  (void)t, (void)w, (void)tokens, (void)n;
}
INLINE void narrow(const float *x, uint32_t n, float *out)
{
  (void)x, (void)n, (void)out;
}
#endif

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

#endif
