/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads a tile of K and V from the cache into the thread's scratch, for
 * attention_simd.h. K is transposed, V is not. Both are widened to f32 or, for AVX-512,
 * kept as pairs of bf16 in 32-bit words: two dims of K, or two tokens of V.
 */
#ifndef LLS_CPU_ATTENTION_LOAD_H
#define LLS_CPU_ATTENTION_LOAD_H

#include "kernels/cpu/attention_tile.h"
#include "core/device/numbers.h"
#include "kernels/cpu/eight.h"

/* floats from row to row of a tile; a power of two would use one cache set only */
#define K_STRIDE           (TILE + 16)
#define V_STRIDE(head_dim) ((((head_dim) + 15) & ~15u) + 16)

struct work {
  float q[LLS_ATTENTION_QUERIES * LLS_HEAD_DIM_MAX]; /* (queries, head_dim) */
  float s[LLS_ATTENTION_QUERIES * TILE];      /* (queries, tokens) scores, weights */
  float decay[LLS_ATTENTION_QUERIES + 64];    /* factors for four vectors at a time */
  float k[LLS_HEAD_DIM_MAX * K_STRIDE];       /* (head_dim, tokens) */
  float v[TILE * V_STRIDE(LLS_HEAD_DIM_MAX)]; /* (tokens, head_dim) */
  /* eight widened tokens, when some of them are INT8 */
  float wide[8 * LLS_HEAD_DIM_MAX];
  /* (2, HEAD_DIM_MAX) widened scales of the block `scales_of`, padded with zeros */
  float scale[2 * LLS_HEAD_DIM_MAX];
  const uint16_t *scales_of;
  struct tokens tokens[2]; /* tokens of this tile and of the next one */
};
_Static_assert(sizeof(struct work) <= LLS_ATTENTION_SCRATCH, "scratch is too small");

/* Loads min(n, LANES) values of an INT8 token; lanes beyond n are 0, since the padded
 * scales are. */
INLINE vf load_codes(const char *codes, const float *scale, size_t n)
{
  vf q = vget_u8((const uint8_t *)codes, n);
  return vfma(q, vload(scale), vload(scale + LLS_HEAD_DIM_MAX));
}

/* A 32-bit word holds two bf16 dims: the even one is shifted up, the odd one is in
 * place. */
INLINE void load_k_bf16(const char *const token[8], uint32_t head_dim, float *k)
{
  for (uint32_t d = 0; d < head_dim; d += 8, k += 8 * K_STRIDE) {
    eight word[4];
    turn(token, d * 2, word);
    UNROLL
    for (unsigned i = 0; i < 4; i++) {
      eight_store(k + 2 * i * K_STRIDE, eight_even(word[i]));
      eight_store(k + (2 * i + 1) * K_STRIDE, eight_odd(word[i]));
    }
  }
}

INLINE void load_k_f32(const char *const token[8], uint32_t head_dim, float *k)
{
  for (uint32_t d = 0; d < head_dim; d += 4, k += 4 * K_STRIDE) {
    eight word[4];
    turn(token, d * 4, word);
    UNROLL
    for (unsigned i = 0; i < 4; i++)
      eight_store(k + i * K_STRIDE, word[i]);
  }
}

#ifdef __AVX512BF16__
/* Stores K as (head_dim / 2, tokens) words, each a pair of adjacent dims. */
INLINE void load_k_pairs(const char *const token[8], uint32_t head_dim, float *k)
{
  for (uint32_t d = 0; d < head_dim; d += 8, k += 4 * K_STRIDE) {
    eight word[4];
    turn(token, d * 2, word);
    UNROLL
    for (unsigned i = 0; i < 4; i++)
      eight_store(k + i * K_STRIDE, word[i]);
  }
}

INLINE __m512i load_words(const char *token, uint32_t d, uint32_t head_dim)
{
  __mmask16 mask = head_dim - d < 16 ? 0xff : 0xffff;
  return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, token + d * 2));
}

/* Stores V as (head_dim) words, each one dim of two tokens; the second is 0 if n is
 * 1. */
INLINE void load_v_pairs(const char *const *token, uint32_t n, uint32_t head_dim,
                         float *v)
{
  for (uint32_t d = 0; d < head_dim; d += 16) {
    __m512i pair = load_words(token[0], d, head_dim);
    if (n > 1)
      pair =
          _mm512_or_si512(pair, _mm512_slli_epi32(load_words(token[1], d, head_dim), 16));
    _mm512_storeu_si512(v + d, pair);
  }
}

/* The same as load_v_pairs for INT8 tokens of one block. */
INLINE void load_v_pairs_int8(const char *const *token, uint32_t n, const float *scale,
                              uint32_t head_dim, float *v)
{
  const __m512i pairs =
      _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23,
                       7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  for (uint32_t d = 0; d < head_dim; d += 16) {
    vf a = load_codes(token[0] + d, scale + d, head_dim - d);
    vf b = n > 1 ? load_codes(token[1] + d, scale + d, head_dim - d) : vzero();
    __m512i both = (__m512i)_mm512_cvtne2ps_pbh(b, a);
    _mm512_storeu_si512(v + d, _mm512_permutexvar_epi16(pairs, both));
  }
}

/* 32-bit words of two dims, both rounded to bf16. */
INLINE __m256 pair_of(__m256 even, __m256 odd)
{
  const __m256i pairs =
      _mm256_set_epi16(15, 7, 14, 6, 13, 5, 12, 4, 11, 3, 10, 2, 9, 1, 8, 0);
  __m256i both = (__m256i)_mm256_cvtne2ps_pbh(odd, even);
  return _mm256_castsi256_ps(_mm256_permutexvar_epi16(pairs, both));
}

/* Rounds n floats to pairs of bf16; out may be x. n is a multiple of 8. */
INLINE void narrow(const float *x, uint32_t n, float *out)
{
  for (uint32_t i = 0; i < n; i += 16) {
    __m256i some = (__m256i)_mm512_cvtneps_pbh(vget(x + i, n - i));
    _mm256_mask_storeu_epi32(out + i / 2, n - i < 16 ? 0x0f : 0xff, some);
  }
}
#else
INLINE void load_k_pairs(const char *const token[8], uint32_t head_dim, float *k)
{
  (void)token, (void)head_dim, (void)k;
}
INLINE void load_v_pairs(const char *const *token, uint32_t n, uint32_t head_dim,
                         float *v)
{
  (void)token, (void)n, (void)head_dim, (void)v;
}
INLINE void load_v_pairs_int8(const char *const *token, uint32_t n, const float *scale,
                              uint32_t head_dim, float *v)
{
  (void)token, (void)n, (void)scale, (void)head_dim, (void)v;
}
INLINE eight pair_of(eight even, eight odd)
{
  (void)odd;
  return even;
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
    if (bf16)
      eight_store(v + d, eight_bf16(token + d * 2));
    else
      eight_store(v + d, eight_load((const float *)(token + d * 4)));
  }
  if (head_dim % 16 != 0)
    eight_store(v + head_dim, eight_zero());
}

/* ---- INT8 ------------------------------------------------------------------------ */

/*
 * INT8 values, least + step q (int8.c), are computed in registers while a tile is
 * loaded. In pairs they are rounded to bf16, with a relative error of 2^-9 like that of
 * a bf16 cache. Steps and least values are widened once for all tokens of a block,
 * since these are consecutive.
 */
INLINE const float *widen_scales(struct work *w, const uint16_t *scales,
                                 uint32_t head_dim)
{
  if (w->scales_of == scales)
    return w->scale;
  for (uint32_t i = 0; i < 2; i++) {
    float *to = w->scale + i * LLS_HEAD_DIM_MAX;
    for (uint32_t d = 0; d < head_dim; d += 8)
      eight_store(to + d, eight_f16(scales + i * head_dim + d));
    if (head_dim % 16 != 0)
      eight_store(to + head_dim, eight_zero());
  }
  w->scales_of = scales;
  return w->scale;
}

/* Loads one token, widened. */
INLINE void load_int8(const char *token, const float *scale, uint32_t head_dim,
                      float *out)
{
  uint32_t rest = head_dim % LANES, whole = head_dim - rest;
  for (uint32_t d = 0; d < whole; d += LANES)
    vstore(out + d, load_codes(token + d, scale + d, LANES));
  if (rest > 0)
    vstore_part(out + whole, rest, load_codes(token + whole, scale + whole, rest));
}

/* Transposes 16 dims of eight tokens, or the last 8 of head_dim; a 32-bit word is four
 * dims of a token. */
INLINE void turn_codes(const char *const token[8], uint32_t d, uint32_t head_dim,
                       eight out[4])
{
  char rest[8][16];
  const char *at[8];
  if (head_dim - d >= 16) {
    turn(token, d, out);
    return;
  }
  for (uint32_t i = 0; i < 8; i++) {
    memcpy(rest[i], token[i] + d, 8);
    memset(rest[i] + 8, 0, 8);
    at[i] = rest[i];
  }
  turn(at, 0, out);
}

/* Loads eight tokens of one INT8 block. */
INLINE void load_k_int8(const char *const token[8], const float *scale, uint32_t head_dim,
                        const bool pairs, float *k)
{
  size_t row = 0;
  for (uint32_t d = 0; d < head_dim; d += 16) {
    eight word[4];
    turn_codes(token, d, head_dim, word);
    uint32_t words = head_dim - d < 16 ? 2 : 4;
    for (uint32_t i = 0; i < words; i++) {
      const float *at = scale + d + 4 * i;
      eight x[4];
      UNROLL
      for (unsigned j = 0; j < 4; j++)
        x[j] = eight_scaled(eight_byte(word[i], j), at[j], at[LLS_HEAD_DIM_MAX + j]);
      if (pairs) {
        eight_store(k + row++ * K_STRIDE, pair_of(x[0], x[1]));
        eight_store(k + row++ * K_STRIDE, pair_of(x[2], x[3]));
      } else {
        UNROLL
        for (unsigned j = 0; j < 4; j++)
          eight_store(k + row++ * K_STRIDE, x[j]);
      }
    }
  }
}

/* Widens one token, INT8 or not, into w->wide, at its place among eight. */
INLINE const char *make_wide(const struct lls_attention_task *t, bool bf16,
                             struct work *w, const char *at, const uint16_t *scales,
                             uint32_t place, const bool pairs)
{
  float *to = w->wide + place * t->head_dim;
  for (uint32_t d = 0; scales == NULL && d < t->head_dim; d++)
    to[d] = bf16 ? lls_bf16_to_f32(((const uint16_t *)at)[d]) : ((const float *)at)[d];
  if (scales != NULL)
    load_int8(at, widen_scales(w, scales, t->head_dim), t->head_dim, to);
  if (pairs)
    narrow(to, t->head_dim, to);
  return (const char *)to;
}

/* Loads eight tokens of K from several blocks, some of which are INT8. */
INLINE void load_k_mixed(const struct lls_attention_task *t, bool bf16, const bool pairs,
                         struct work *w, const struct tokens *tokens, uint32_t first)
{
  const char *token[8];
  for (uint32_t i = 0; i < 8; i++)
    token[i] =
        make_wide(t, bf16, w, tokens->at[first + i], tokens->scales[first + i], i, pairs);
  if (pairs)
    load_k_pairs(token, t->head_dim, w->k + first);
  else
    load_k_f32(token, t->head_dim, w->k + first);
}

/* Do n tokens all share the same scales, or all have none? */
INLINE bool alike(const struct tokens *t, uint32_t first, uint32_t n)
{
  bool same = true;
  for (uint32_t i = first + 1; t->int8 && i < first + n; i++)
    same &= t->scales[i] == t->scales[first];
  return same;
}

INLINE const uint16_t *scales_at(const struct tokens *t, uint32_t i)
{
  return t->int8 ? t->scales[i] : NULL;
}

/* ---- the tile -------------------------------------------------------------------- */

INLINE void load_tile_k(const struct lls_attention_task *t, bool bf16, const bool pairs,
                        struct work *w, const struct tokens *tokens, uint32_t n)
{
  for (uint32_t i = 0; i < n; i += 8) {
    const uint16_t *scales = scales_at(tokens, i);
    if (!alike(tokens, i, 8))
      load_k_mixed(t, bf16, pairs, w, tokens, i);
    else if (scales != NULL)
      load_k_int8(tokens->at + i, widen_scales(w, scales, t->head_dim), t->head_dim,
                  pairs, w->k + i);
    else if (pairs)
      load_k_pairs(tokens->at + i, t->head_dim, w->k + i);
    else if (bf16)
      load_k_bf16(tokens->at + i, t->head_dim, w->k + i);
    else
      load_k_f32(tokens->at + i, t->head_dim, w->k + i);
  }
}

/* Stores V as (tokens / 2, head_dim) words. */
INLINE void load_tile_v_pairs(const struct lls_attention_task *t, struct work *w,
                              const struct tokens *tokens, uint32_t n)
{
  float *to = w->v;
  for (uint32_t i = 0; i < n; i += 2, to += V_STRIDE(t->head_dim)) {
    uint32_t both = n - i < 2 ? 1 : 2;
    const uint16_t *scales = scales_at(tokens, TILE + i);
    const char *token[2] = {tokens->at[TILE + i], tokens->at[TILE + i + both - 1]};
    bool same = alike(tokens, TILE + i, both);
    if (same && scales != NULL) {
      load_v_pairs_int8(token, both, widen_scales(w, scales, t->head_dim), t->head_dim,
                        to);
      continue;
    }
    for (uint32_t j = 0; j < both && !same; j++)
      token[j] = make_wide(t, true, w, token[j], tokens->scales[TILE + i + j], j, true);
    load_v_pairs(token, both, t->head_dim, to);
  }
}

INLINE void load_tile_v(const struct lls_attention_task *t, bool bf16, struct work *w,
                        const struct tokens *tokens, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++) {
    const uint16_t *scales = scales_at(tokens, TILE + i);
    float *to = w->v + i * V_STRIDE(t->head_dim);
    if (scales == NULL) {
      load_v(tokens->at[TILE + i], bf16, t->head_dim, to);
    } else {
      load_int8(tokens->at[TILE + i], widen_scales(w, scales, t->head_dim), t->head_dim,
                to);
      if (t->head_dim % 16 != 0)
        eight_store(to + t->head_dim, eight_zero());
    }
  }
}

/* Loads n tokens; the scores of padding tokens, up to a multiple of 16, are masked
 * later. */
INLINE void load_tile(const struct lls_attention_task *t, bool bf16, const bool pairs,
                      struct work *w, const struct tokens *tokens, uint32_t n)
{
  /* the block at this address may have changed since the last call */
  w->scales_of = NULL;
  load_tile_k(t, bf16, pairs, w, tokens, n);
  if (pairs)
    load_tile_v_pairs(t, w, tokens, n);
  else
    load_tile_v(t, bf16, w, tokens, n);
}

#endif
