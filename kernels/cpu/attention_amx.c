/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention of one KV head over a bf16 cache on AMX (amx.h): q and weights are rounded
 * to bf16; scores, softmax and sums are f32. Caches of f32 use the AVX-512 kernel.
 *
 * Queries are processed in groups of 16, one in each lane of a vector, and all matrices
 * are transposed, with a row for each token or dim:
 *
 *   scores (tokens, queries) = K (tokens, dims) q (dims, queries)       K as it is cached
 *   values (dims, queries)  += V (dims, tokens) p (tokens, queries)     V turned around
 *
 * So maxima, sums and masks need no exchange between lanes, two rows of weights are one
 * row of a B tile, and K is loaded from the cache directly where 16 tokens lie in one
 * block. Only V has to be transposed, once for all groups of a call.
 *
 * A row's result does not depend on the rest of the batch: each query has its own lane,
 * the tiles of 64 tokens are the same for all queries, masked tokens weigh exactly 0,
 * and a tile whose tokens are all masked leaves the query's state unchanged.
 *
 * Bytes of a call: tokens x head_dim x 2 (K, V) x 2, each read once.
 * Operations: queries (up to 16) x tokens x 4 head_dim on the tiles, and some 12 vector
 * instructions for 16 weights. In prefill the tile instructions with their loads and
 * stores take as long as the vector instructions; alternating between groups did not
 * make them overlap (measured).
 */
#include <math.h>

#include "kernels/cpu/amx.h"
#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/cpu.h"

#define GROUP  LANES /* queries of a group */
#define GROUPS (LLS_ATTENTION_QUERIES / GROUP)
#define DIMS   LLS_HEAD_DIM_MAX

_Static_assert(TILE == 4 * TILE_ROWS, "scores of a tile are four C tiles");

struct work {
  uint16_t q[GROUPS][DIMS * GROUP];   /* (dims / 32, 16 pairs, 16 queries, 2) */
  float values[GROUPS][DIMS * GROUP]; /* (dims, 16) */
  uint16_t v[TILE * DIMS];            /* (2, dims / 16, 16 dims, 32 tokens) */
  /* (tokens, dims): copies of tokens that are not contiguous */
  uint16_t k[TILE * DIMS];
  float s[TILE * GROUP];    /* (tokens, 16) scores */
  uint16_t p[TILE * GROUP]; /* (2, 16 pairs, 16 queries, 2) weights */
  float max[GROUPS][GROUP], sum[GROUPS][GROUP];
  int32_t position[GROUPS][GROUP];
  uint16_t zeros[DIMS];           /* stands in for a missing token */
  uint16_t wide[2 * TILE * DIMS]; /* (2 tokens, dims): INT8 tokens, widened to bf16 */
  struct tokens tokens[2];        /* tokens of this tile and of the next one */
};
_Static_assert(sizeof(struct work) <= LLS_ATTENTION_SCRATCH, "scratch is too small");

/* Where 16 tokens of K are: the first, and the bytes from one to the next. */
struct k_tile {
  const char *at;
  ptrdiff_t stride;
};

static uint32_t round_up(uint32_t n, uint32_t unit)
{
  return (n + unit - 1) / unit * unit;
}

/* ---- rearranging ----------------------------------------------------------------- */

/* Loads 16 bytes from each of four addresses into one vector. */
INLINE __m512i load_four(const char *a, const char *b, const char *c, const char *d)
{
#define QUARTER(p) _mm_loadu_si128((const __m128i *)(p))
  __m512i x = _mm512_castsi128_si512(QUARTER(a));
  x = _mm512_mask_broadcast_i32x4(x, 0x00f0, QUARTER(b));
  x = _mm512_mask_broadcast_i32x4(x, 0x0f00, QUARTER(c));
  return _mm512_mask_broadcast_i32x4(x, 0xf000, QUARTER(d));
#undef QUARTER
}

/* Transposes (16, 16) 32-bit words: word c of row r becomes word r of row c. */
INLINE void turn_words(const void *from, size_t stride, __m512i out[16])
{
  const char *p = from;
  UNROLL
  for (unsigned c = 0; c < 4; c++) {
    __m512i x[4];
    UNROLL
    for (unsigned i = 0; i < 4; i++) {
      const char *at = p + i * stride + c * 16;
      x[i] = load_four(at, at + 4 * stride, at + 8 * stride, at + 12 * stride);
    }
    __m512i a = _mm512_unpacklo_epi32(x[0], x[1]), b = _mm512_unpackhi_epi32(x[0], x[1]);
    __m512i d = _mm512_unpacklo_epi32(x[2], x[3]), e = _mm512_unpackhi_epi32(x[2], x[3]);
    out[4 * c] = _mm512_unpacklo_epi64(a, d);
    out[4 * c + 1] = _mm512_unpackhi_epi64(a, d);
    out[4 * c + 2] = _mm512_unpacklo_epi64(b, e);
    out[4 * c + 3] = _mm512_unpackhi_epi64(b, e);
  }
}

/* Transposes eight dims of 32 tokens, from `byte` of each token on: (8 dims, 32
 * tokens). */
INLINE void turn_tokens(const char *const token[32], size_t byte, uint16_t *to)
{
  __m512i x[8], y[8], z[8];
  UNROLL
  for (unsigned i = 0; i < 8; i++)
    x[i] = load_four(token[i] + byte, token[8 + i] + byte, token[16 + i] + byte,
                     token[24 + i] + byte);
  UNROLL
  for (unsigned i = 0; i < 4; i++) {
    y[i] = _mm512_unpacklo_epi16(x[2 * i], x[2 * i + 1]);     /* dims 0..3 of two */
    y[i + 4] = _mm512_unpackhi_epi16(x[2 * i], x[2 * i + 1]); /* dims 4..7 */
  }
  UNROLL
  for (unsigned i = 0; i < 4; i++) {
    z[2 * i] = _mm512_unpacklo_epi32(y[2 * i], y[2 * i + 1]); /* two dims of four */
    z[2 * i + 1] = _mm512_unpackhi_epi32(y[2 * i], y[2 * i + 1]);
  }
  UNROLL
  for (unsigned i = 0; i < 4; i++) {
    unsigned first = i / 2 * 4 + i % 2;
    _mm512_store_si512(to + 2 * i * 32, _mm512_unpacklo_epi64(z[first], z[first + 2]));
    _mm512_store_si512(to + (2 * i + 1) * 32,
                       _mm512_unpackhi_epi64(z[first], z[first + 2]));
  }
}

/* Widens INT8 tokens of one block to bf16; the tokens' addresses then point to the
 * copies. */
static void widen_run(struct work *w, struct tokens *t, uint32_t first, uint32_t n,
                      uint32_t head_dim)
{
  const uint16_t *scales = t->scales[first];
  for (uint32_t d = 0; d < head_dim; d += LANES) {
    __mmask16 mask = head_dim - d < LANES ? 0xff : 0xffff;
    vf step = _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, scales + d));
    vf least = _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, scales + head_dim + d));
    for (uint32_t i = first; i < first + n; i++) {
      __m512i q = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, t->at[i] + d));
      vf x = vfma(_mm512_cvtepi32_ps(q), step, least);
      _mm256_mask_storeu_epi16(w->wide + i * head_dim + d, mask,
                               (__m256i)_mm512_cvtneps_pbh(x));
    }
  }
  for (uint32_t i = first; i < first + n; i++)
    t->at[i] = (const char *)(w->wide + i * head_dim);
}

/* Widens a tile's INT8 tokens to bf16, which the tile instructions multiply. */
static void widen_int8(struct work *w, struct tokens *t, uint32_t first, uint32_t n,
                       uint32_t head_dim)
{
  for (uint32_t i = first, run; i < first + n; i += run) {
    for (run = 1; i + run < first + n && t->scales[i + run] == t->scales[i];)
      run++;
    if (t->scales[i] != NULL)
      widen_run(w, t, i, run, head_dim);
  }
}

/* Transposes the tile's V; dims up to a multiple of 16 and tokens up to 32 are
 * zeros. */
static void load_v(struct work *w, const char **token, uint32_t n, uint32_t head_dim)
{
  uint32_t dims = round_up(head_dim, TILE_ROWS);
  for (uint32_t i = n; i % 32 != 0; i++)
    token[i] = (const char *)w->zeros;
  for (uint32_t i = 0; i < n; i += 32) {
    uint16_t *to = w->v + i * dims;
    for (uint32_t d = 0; d < head_dim; d += 8)
      turn_tokens(token + i, d * 2, to + d * 32);
    if (head_dim < dims)
      memset(to + head_dim * 32, 0, (size_t)(dims - head_dim) * 64);
  }
}

/* 16 tokens of K, n of which exist: their place in the cache, or in `copy`. */
static struct k_tile k_tile(uint16_t *copy, const char *const *token, uint32_t n,
                            uint32_t head_dim)
{
  uint32_t dims = round_up(head_dim, TILE_DEPTH), known = 1;
  ptrdiff_t stride = n > 1 ? token[1] - token[0] : 0;
  while (known < n && token[known] - token[known - 1] == stride)
    known++;
  if (known == TILE_ROWS && head_dim == dims)
    return (struct k_tile){token[0], stride};
  for (uint32_t i = 0; i < TILE_ROWS; i++) {
    memcpy(copy + i * dims, token[i < n ? i : n - 1], head_dim * 2);
    memset(copy + i * dims + head_dim, 0, (dims - head_dim) * 2);
  }
  return (struct k_tile){(const char *)copy, (ptrdiff_t)dims * 2};
}

/* Loads the four K tiles; those beyond token n repeat the first. */
static void load_k(struct work *w, const char *const *token, uint32_t n,
                   uint32_t head_dim, struct k_tile k[4])
{
  for (uint32_t i = 0; i < 4; i++) {
    uint32_t first = i * TILE_ROWS, left = first < n ? n - first : 0;
    k[i] = left == 0 ? k[0]
                     : k_tile(w->k + first * DIMS, token + first,
                              left < TILE_ROWS ? left : TILE_ROWS, head_dim);
  }
}

/* Loads a group's queries as bf16 B tiles; w->s is used for the rows in between. */
static void load_q(const struct lls_attention_task *t, struct work *w, uint32_t group)
{
  uint32_t dims = round_up(t->head_dim, TILE_DEPTH), queries = t->n_rows * t->group;
  uint16_t *rows = w->k;
  memset(rows, 0, (size_t)GROUP * dims * 2);
  for (uint32_t i = 0; i < GROUP; i++) {
    uint32_t query = group * GROUP + i, row = query / t->group;
    bool real = query < queries;
    w->position[group][i] = (int32_t)(t->first_position + (real ? row : t->n_rows - 1));
    const float *q = t->q + row * t->q_stride + query % t->group * t->head_dim;
    for (uint32_t d = 0; real && d < t->head_dim; d += LANES) {
      vf x = vget(q + d, t->head_dim - d);
      _mm256_storeu_si256((__m256i *)(rows + i * dims + d),
                          (__m256i)_mm512_cvtneps_pbh(x));
    }
  }
  for (uint32_t d = 0; d < dims; d += TILE_DEPTH) {
    __m512i pair[16];
    turn_words(rows + d, dims * 2, pair);
    for (unsigned i = 0; i < 16; i++)
      _mm512_store_si512(w->q[group] + d * GROUP + i * 32, pair[i]);
  }
}

/* ---- tiles ----------------------------------------------------------------------- */

/* s = K q */
static void multiply_scores(struct work *w, const struct k_tile k[4], const uint16_t *q,
                            uint32_t head_dim)
{
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (uint32_t d = 0; d < head_dim; d += TILE_DEPTH) {
    _tile_loadd(4, q + d * GROUP, 64);
    _tile_loadd(5, k[0].at + d * 2, k[0].stride);
    _tile_dpbf16ps(0, 5, 4);
    _tile_loadd(6, k[1].at + d * 2, k[1].stride);
    _tile_dpbf16ps(1, 6, 4);
    _tile_loadd(7, k[2].at + d * 2, k[2].stride);
    _tile_dpbf16ps(2, 7, 4);
    _tile_loadd(5, k[3].at + d * 2, k[3].stride);
    _tile_dpbf16ps(3, 5, 4);
  }
  _tile_stored(0, w->s, 64);
  _tile_stored(1, w->s + 256, 64);
  _tile_stored(2, w->s + 512, 64);
  _tile_stored(3, w->s + 768, 64);
}

/* values (tiles x 16 dims, 16) += V p over `halves` x 32 tokens; v_stride: elements
 * from one dim tile of V to the next half. */
INLINE void multiply_dims(float *values, const uint16_t *v, size_t v_stride,
                          const uint16_t *p, uint32_t halves, const unsigned tiles)
{
#define EACH(what)                                                                       \
  do {                                                                                   \
    what(0);                                                                             \
    if (tiles > 1)                                                                       \
      what(1);                                                                           \
    if (tiles > 2)                                                                       \
      what(2);                                                                           \
    if (tiles > 3)                                                                       \
      what(3);                                                                           \
  } while (0)
#define LOAD(i)  _tile_loadd(i, values + (i)*256, 64)
#define STORE(i) _tile_stored(i, values + (i)*256, 64)
#define MULTIPLY(i)                                                                      \
  do {                                                                                   \
    _tile_loadd(5, v + (i)*512, 64);                                                     \
    _tile_dpbf16ps(i, 5, 4);                                                             \
  } while (0)
  EACH(LOAD);
  for (uint32_t half = 0; half < halves; half++, v += v_stride, p += 512) {
    _tile_loadd(4, p, 64);
    EACH(MULTIPLY);
  }
  EACH(STORE);
#undef MULTIPLY
#undef STORE
#undef LOAD
#undef EACH
}

static void multiply_values(struct work *w, float *values, uint32_t n, uint32_t head_dim)
{
  uint32_t dims = round_up(head_dim, TILE_ROWS), halves = (n + 31) / 32;
  for (uint32_t d = 0; d < dims; d += 64) {
    const uint16_t *v = w->v + d * 32;
    float *to = values + d * GROUP;
    switch (dims - d) {
    case 16:
      multiply_dims(to, v, dims * 32, w->p, halves, 1);
      break;
    case 32:
      multiply_dims(to, v, dims * 32, w->p, halves, 2);
      break;
    case 48:
      multiply_dims(to, v, dims * 32, w->p, halves, 3);
      break;
    default:
      multiply_dims(to, v, dims * 32, w->p, halves, 4);
    }
  }
}

/* ---- softmax --------------------------------------------------------------------- */

/*
 * 2^x for x <= 0, 0 below -126 and for NaN: 2^floor(x) times a cubic in the rest, which
 * is 1 at 0 and off by 8.6e-5 of the value at most (least largest error, by Lawson's
 * algorithm), a twentieth of what rounding to bf16 takes off. Subnormal results are not
 * computed, since they would take microcode.
 */
INLINE vf exp2_short(vf x)
{
  vmask normal = vless(vset(-126.0f), x);
  vf f = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  vf p = vfma(vset(0.0770670422f), f, vset(0.2276449908f));
  p = vfma(p, f, vset(0.6951167866f));
  p = vfma(p, f, vset(1.0f));
  return _mm512_maskz_scalef_ps(normal, p, x);
}

/* Sets the scores of masked tokens to -inf, if there are any. */
static void mask(const struct lls_attention_task *t, const struct work *w, uint32_t group,
                 uint32_t first, uint32_t n, float *s)
{
  const __m512i now = _mm512_set1_epi32((int32_t)first);
  __m512i position = _mm512_load_si512(w->position[group]);
  __m512i last = _mm512_sub_epi32(position, now); /* relative to first, as oldest */
  __m512i oldest = _mm512_set1_epi32((int32_t)(t->oldest - first));
  if (t->window != 0 && t->window <= INT32_MAX)
    oldest = _mm512_max_epi32(
        oldest, _mm512_sub_epi32(last, _mm512_set1_epi32((int32_t)t->window - 1)));
  int32_t past = (int32_t)round_up(n, 32);
  if (past == (int32_t)n && _mm512_reduce_min_epi32(last) >= past - 1 &&
      _mm512_reduce_max_epi32(oldest) <= 0)
    return;
  for (int32_t i = 0; i < past; i++) {
    __m512i token = _mm512_set1_epi32(i);
    __mmask16 seen = _mm512_cmple_epi32_mask(token, last);
    seen = _mm512_mask_cmpge_epi32_mask(seen, token, oldest);
    if (i >= (int32_t)n)
      seen = 0;
    vstore(s + i * GROUP, vselect(seen, vload(s + i * GROUP), vset(-INFINITY)));
  }
}

/* Scales and caps scores; those of masked tokens may be anything. */
static void cap_scores(const struct lls_attention_task *t, float *s, uint32_t rows)
{
  float slope = 2 * t->scale / t->soft_cap;
  for (uint32_t i = 0; i < rows; i++)
    vstore(s + i * GROUP, vcap(vload(s + i * GROUP), slope, t->soft_cap));
}

/* Scales scores and adds ALiBi's terms: a row of s has the 16 queries of one token. */
static void add_slopes(const struct lls_attention_task *t, uint32_t group, uint32_t first,
                       float *s, uint32_t rows)
{
  _Alignas(64) float slopes[GROUP];
  for (uint32_t i = 0; i < GROUP; i++)
    slopes[i] = t->slopes[(group * GROUP + i) % t->group];
  for (uint32_t i = 0; i < rows; i++) {
    vf far = vmul(vload(slopes), vset(tile_distance(t, first + i)));
    vstore(s + i * GROUP, vfma(vload(s + i * GROUP), vset(t->scale), far));
  }
}

INLINE vf largest(const float *s, uint32_t rows)
{
  vf top[4];
  UNROLL
  for (unsigned j = 0; j < 4; j++)
    top[j] = vload(s + j * GROUP);
  for (uint32_t i = 4; i < rows; i += 4) {
    UNROLL
    for (unsigned j = 0; j < 4; j++)
      top[j] = vmax(vload(s + (i + j) * GROUP), top[j]);
  }
  return vmax(vmax(top[0], top[1]), vmax(top[2], top[3]));
}

/* p = 2^(scale s - max) for four tokens at a time, rounded to pairs of bf16; returns
 * their sum. */
INLINE vf weigh(struct work *w, uint32_t rows, float scale, vf max, struct ahead *ahead)
{
  const __m512i pairs =
      _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23,
                       7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  vf sum[4] = {vzero(), vzero(), vzero(), vzero()};
  for (uint32_t i = 0; i < rows; i += 4) {
    vf x[4];
    fetch(ahead);
    UNROLL
    for (unsigned j = 0; j < 4; j++) {
      vf s = vload(w->s + (i + j) * GROUP);
      x[j] = exp2_short(_mm512_fmsub_ps(s, vset(scale), max));
      sum[j] = vadd(sum[j], x[j]);
    }
    UNROLL
    for (unsigned j = 0; j < 4; j += 2) {
      __m512i both = (__m512i)_mm512_cvtne2ps_pbh(x[j + 1], x[j]);
      _mm512_store_si512(w->p + (i + j) * GROUP, _mm512_permutexvar_epi16(pairs, both));
    }
  }
  return vadd(vadd(sum[0], sum[1]), vadd(sum[2], sum[3]));
}

/* Scales the earlier sums by `decay`, which is 1 where the maximum did not grow. */
INLINE void decay_values(float *values, uint32_t dims, vf decay)
{
  if (_mm512_cmp_ps_mask(decay, vset(1.0f), _CMP_NEQ_UQ) == 0)
    return;
  for (uint32_t d = 0; d < dims; d++)
    vstore(values + d * GROUP, vmul(vload(values + d * GROUP), decay));
}

/* ---- the whole ------------------------------------------------------------------- */

static void attend_group(const struct lls_attention_task *t, struct work *w,
                         uint32_t group, const struct k_tile k[4], uint32_t first,
                         uint32_t n, struct ahead *ahead)
{
  float scale = t->scale * 1.44269504f, *values = w->values[group];
  uint32_t rows = round_up(n, 32);
  multiply_scores(w, k, w->q[group], t->head_dim);
  SETTLE_MEMORY(w);
  if (t->soft_cap > 0) {
    cap_scores(t, w->s, rows);
    scale = 1.44269504f;
  }
  if (t->slopes != NULL) {
    add_slopes(t, group, first, w->s, rows);
    scale = 1.44269504f;
  }
  mask(t, w, group, first, n, w->s);
  vf before = vload(w->max[group]);
  vf max = vmax(vmul(largest(w->s, rows), vset(scale)), before);
  vf decay = exp2_short(vsub(before, max));
  vf sum = weigh(w, rows, scale, max, ahead);
  vstore(w->max[group], max);
  vstore(w->sum[group], vfma(vload(w->sum[group]), decay, sum));
  decay_values(values, t->head_dim, decay);
  SETTLE_MEMORY(w);
  multiply_values(w, values, n, t->head_dim);
  SETTLE_MEMORY(w);
}

static void attend_tile(const struct lls_attention_task *t, struct work *w,
                        struct tokens *tokens, uint32_t first, uint32_t n,
                        struct ahead *ahead)
{
  uint32_t begin, end;
  struct k_tile k[4];
  tile_queries(t, first, n, &begin, &end);
  if (begin >= end)
    return;
  if (tokens->int8) {
    widen_int8(w, tokens, 0, n, t->head_dim);
    widen_int8(w, tokens, TILE, n, t->head_dim);
  }
  load_k(w, tokens->at, n, t->head_dim, k);
  load_v(w, tokens->at + TILE, n, t->head_dim);
  SETTLE_MEMORY(w);
  uint32_t group = begin / GROUP, past = (end + GROUP - 1) / GROUP;
  ahead->helping = ahead->left / ((past - group) * (round_up(n, 32) / 4)) + 1;
  for (; group < past; group++)
    attend_group(t, w, group, k, first, n, ahead);
}

/* Writes the state of a group's queries, transposed back: a row for each query. */
static void write_state(const struct lls_attention_task *t, const struct work *w,
                        uint32_t group, const struct lls_attention_state *out)
{
  uint32_t first = group * GROUP, n = t->n_rows * t->group - first;
  uint32_t dims = round_up(t->head_dim, 16), stride = lls_attention_stride(t->head_dim);
  n = n < GROUP ? n : GROUP;
  memcpy(out->max + first, w->max[group], n * sizeof(float));
  memcpy(out->sum + first, w->sum[group], n * sizeof(float));
  for (uint32_t d = 0; d < dims; d += 16) {
    __m512i row[16];
    turn_words(w->values[group] + d * GROUP, GROUP * sizeof(float), row);
    for (uint32_t i = 0; i < n; i++)
      _mm512_storeu_si512(out->values + (first + i) * stride + d, row[i]);
  }
}

static void attend(const struct lls_attention_task *t, uint32_t begin, uint32_t end,
                   const struct lls_attention_state *out, void *scratch)
{
  struct work *w = scratch;
  uint32_t groups = round_up(t->n_rows * t->group, GROUP) / GROUP, n, n_next;
  size_t values_bytes = (size_t)round_up(t->head_dim, 16) * GROUP * sizeof(float);
  memset(w->zeros, 0, sizeof w->zeros);
  for (uint32_t i = 0; i < groups; i++) {
    load_q(t, w, i);
    memset(w->values[i], 0, values_bytes);
    vstore(w->max[i], vset(-FLT_MAX));
    vstore(w->sum[i], vzero());
  }
  tile_range(t, &begin, &end);
  if (begin < end) {
    struct cursor k = cursor_at(&t->k, begin), v = cursor_at(&t->v, begin);
    amx_begin();
    n = tile_addresses(&k, &v, begin, end, &w->tokens[0]);
    for (unsigned now = 0; begin < end; begin += n, n = n_next, now = !now) {
      n_next = tile_addresses(&k, &v, begin + n, end, &w->tokens[!now]);
      struct ahead ahead = {w->tokens[!now].at, n_next == 0 ? 0 : TILE + n_next, 0,
                            usual_bytes(&t->k)};
      attend_tile(t, w, &w->tokens[now], begin, n, &ahead);
    }
    amx_end();
  }
  for (uint32_t i = 0; i < groups; i++)
    write_state(t, w, i, out);
}

void lls_cpu_attention_amx(struct lls_cpu_attention_kernels *k)
{
  k->attend_bf16 = attend;
}
