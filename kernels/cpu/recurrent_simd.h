/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recurrent kernels with vectors, included by recurrent_avx2.c,
 * recurrent_avx512.c and recurrent_neon.c. A lane is a column of the state, so every sum
 * runs down the rows in their order, in one lane: neither the number of vectors in a
 * block nor the number of tokens in a pass changes a bit.
 */
#ifndef LLS_CPU_RECURRENT_SIMD_H
#define LLS_CPU_RECURRENT_SIMD_H

#include <math.h>

#include "kernels/cpu/recurrent.h"
#include "kernels/cpu/simd.h"

/* Tokens whose k, q and gates are made ready together: 2 x 8 KiB at 128 dims. */
#define TILE 16
/* Bytes from a state's use to its prefetch, which reaches into the next head's. */
#define AHEAD 4096
/* Columns that wait between two tiles. */
#define COLUMNS 256

_Static_assert(TILE % LANES == 0, "gates of a tile are whole vectors");

INLINE vf logistic(vf x)
{
  return vdiv(vset(1.0f), vadd(vset(1.0f), vexp(vsub(vzero(), x))));
}

/* ln(1 + e^x) = max(x, 0) + ln(1 + u), u = e^-|x| in 0..1. With z = u / (2 + u), at most
 * 1/3, ln(1 + u) = 2 (z + z^3 / 3 + z^5 / 5 + ...); the first term left out is below 2e-8
 * of the sum. */
INLINE vf softplus(vf x)
{
  vf u = vexp(vsub(vzero(), vabs(x)));
  vf z = vdiv(u, vadd(u, vset(2.0f)));
  vf square = vmul(z, z), p = vset(1.0f / 13);
  p = vfma(p, square, vset(1.0f / 11));
  p = vfma(p, square, vset(1.0f / 9));
  p = vfma(p, square, vset(1.0f / 7));
  p = vfma(p, square, vset(1.0f / 5));
  p = vfma(p, square, vset(1.0f / 3));
  p = vfma(p, square, vset(1.0f));
  return vfma(vadd(z, z), p, vmax(x, vzero()));
}

/* Vector j of a block, which is full or one vector with n columns. */
INLINE vf column_get(const float *p, size_t j, size_t n)
{
  return n >= LANES ? vload(p + j * LANES) : vload_part(p, n);
}
INLINE void column_put(float *p, size_t j, size_t n, vf v)
{
  if (n >= LANES)
    vstore(p + j * LANES, v);
  else
    vstore_part(p, n, v);
}

/* Values of one head in the tile's rows, from row `first` on; 0 behind n. */
INLINE void gather_gates(const struct lls_row_input *x, size_t first, size_t n,
                         size_t head, float *y)
{
  for (size_t t = 0; t < TILE; t++)
    y[t] = t < n ? x->at[(first + t) * x->stride + head] : 0;
}

/* Where columns of a head's state are read by the first pass, and written. */
struct state {
  const float *from;
  float *to;
  size_t rows, stride;
};

static struct state head_state(const struct lls_recurrent_span *s, size_t head,
                               size_t rows, size_t columns, size_t begin, size_t end)
{
  size_t at = head * rows * columns;
  if (s->from == NULL)
    for (size_t i = 0; i < rows; i++)
      memset(s->to + at + i * columns + begin, 0, (end - begin) * sizeof(float));
  at += begin;
  return (struct state){(s->from == NULL ? s->to : s->from) + at, s->to + at, rows,
                        columns};
}

/* ---- the short convolution ------------------------------------------------------- */

/* The kernel's inputs of one vector of channels, oldest first, in registers. */
INLINE vf conv_row(const struct lls_short_conv *c, const size_t width, const vf *weight,
                   vf *window, vf bias, size_t row, size_t channel, size_t n)
{
  vf u = vget(c->x.at + row * c->x.stride + channel, n);
  if (c->before.at != NULL)
    u = vmul(u, vget(c->before.at + row * c->before.stride + channel, n));
  UNROLL
  for (size_t j = 0; j + 1 < width; j++)
    bias = vfma(weight[j], window[j], bias);
  UNROLL
  for (size_t j = 0; j + 2 < width; j++)
    window[j] = window[j + 1];
  window[width - 2] = u;
  vf y = vfma(weight[width - 1], u, bias);
  if (c->silu)
    y = vmul(y, logistic(y));
  if (c->after.at != NULL)
    y = vmul(y, vget(c->after.at + row * c->after.stride + channel, n));
  return y;
}

INLINE void conv_vector(const struct lls_short_conv *c,
                        const struct lls_recurrent_span *s, const size_t width,
                        size_t channel, size_t n)
{
  vf weight[LLS_CONV_WIDTH], window[LLS_CONV_WIDTH];
  vf bias = c->bias == NULL ? vzero() : vget(c->bias + channel, n);
  UNROLL
  for (size_t j = 0; j < width; j++)
    weight[j] = vget(c->weight + j * c->channels + channel, n);
  UNROLL
  for (size_t j = 0; j + 1 < width; j++)
    window[j] = s->from == NULL ? vzero() : vget(s->from + j * c->channels + channel, n);
  for (size_t row = s->first_row; row < (size_t)s->first_row + s->n_rows; row++)
    vput(c->y.at + row * c->y.stride + channel, n,
         conv_row(c, width, weight, window, bias, row, channel, n));
  UNROLL
  for (size_t j = 0; j + 1 < width; j++)
    vput(s->to + j * c->channels + channel, n, window[j]);
}

INLINE void conv_width(const struct lls_short_conv *c, const struct lls_recurrent_span *s,
                       const size_t width, size_t begin, size_t end)
{
  for (size_t channel = begin; channel < end; channel += LANES)
    conv_vector(c, s, width, channel, end - channel);
}

/* Bytes 8 a row and channel (16 with both factors), operations 2 width, and about 20 for
 * SiLU. */
static void conv(const struct lls_short_conv *c, const struct lls_recurrent_span *s,
                 size_t begin, size_t end)
{
  switch (c->width) { /* a separate loop for each width */
  case 2:
    conv_width(c, s, 2, begin, end);
    break;
  case 3:
    conv_width(c, s, 3, begin, end);
    break;
  case 4:
    conv_width(c, s, 4, begin, end);
    break;
  case 5:
    conv_width(c, s, 5, begin, end);
    break;
  case 6:
    conv_width(c, s, 6, begin, end);
    break;
  case 7:
    conv_width(c, s, 7, begin, end);
    break;
  case 8:
    conv_width(c, s, 8, begin, end);
    break;
  }
}

/* ---- the gated delta rule -------------------------------------------------------- */

struct delta_tile {
  float k[TILE * LLS_RECURRENT_DIM], q[TILE * LLS_RECURRENT_DIM]; /* (n, key_dim) */
  float decay[TILE], beta[TILE];
  float known[COLUMNS]; /* k^T S of the next token */
  size_t first, n;      /* rows */
  size_t coming;        /* rows of the next tile */
};

/* A head is a short part of each row, too far from the next row's for the processor to
 * fetch by itself. */
INLINE size_t coming_rows(size_t left)
{
  return left < TILE ? left : TILE;
}
INLINE void fetch(const float *p, size_t n)
{
  for (size_t i = 0; i < n; i += 16)
    prefetch_l2(p + i);
}

/* y = x / sqrt(|x|^2 + epsilon) scale */
static void to_length(const float *x, size_t n, float epsilon, float scale, float *y)
{
  vf sum = vzero();
  for (size_t i = 0; i < n; i += LANES) {
    vf a = vget(x + i, n - i);
    sum = vfma(a, a, sum);
  }
  vf factor = vset(scale / sqrtf(vsum(sum) + epsilon));
  for (size_t i = 0; i < n; i += LANES)
    vput(y + i, n - i, vmul(vget(x + i, n - i), factor));
}

static void read_delta_tile(const struct lls_gated_delta *d, uint32_t head,
                            struct delta_tile *tile)
{
  const size_t key = (size_t)lls_delta_key_head(d, head) * d->key_dim;
  const size_t value = (size_t)head * d->value_dim, next = tile->first + tile->n;
  for (size_t row = next; row < next + tile->coming; row++) {
    fetch(d->k.at + row * d->k.stride + key, d->key_dim);
    fetch(d->q.at + row * d->q.stride + key, d->key_dim);
    fetch(d->v.at + row * d->v.stride + value, d->value_dim);
  }
  for (size_t t = 0; t < tile->n; t++) {
    size_t row = tile->first + t;
    to_length(d->k.at + row * d->k.stride + key, d->key_dim, d->epsilon, 1,
              tile->k + t * d->key_dim);
    to_length(d->q.at + row * d->q.stride + key, d->key_dim, d->epsilon, d->scale,
              tile->q + t * d->key_dim);
  }
  gather_gates(&d->a, tile->first, tile->n, head, tile->decay);
  gather_gates(&d->b, tile->first, tile->n, head, tile->beta);
  for (size_t t = 0; t < TILE; t += LANES) {
    vf dt = softplus(vadd(vload(tile->decay + t), vset(d->dt_bias[head])));
    vstore(tile->decay + t, vexp(vmul(dt, vset(d->rate[head]))));
    vstore(tile->beta + t, logistic(vload(tile->beta + t)));
  }
}

/* known = k^T S for n columns, in `vectors` vectors. */
INLINE void delta_known(const struct state *s, const float *k, const size_t vectors,
                        size_t n, float *known)
{
  vf sum[8];
  UNROLL
  for (size_t j = 0; j < vectors; j++)
    sum[j] = vzero();
  const float *row = s->from;
  for (size_t i = 0; i < s->rows; i++, row += s->stride) {
    vf weight = vset(k[i]);
    UNROLL
    for (size_t j = 0; j < vectors; j++)
      sum[j] = vfma(weight, column_get(row, j, n), sum[j]);
  }
  UNROLL
  for (size_t j = 0; j < vectors; j++)
    column_put(known, j, n, sum[j]);
}

/* A token changes columns so: S = decay S + k (beta (v - decay known)), out = q^T S,
 * known = next^T S. */
struct delta_token {
  const float *k, *q, *v, *next; /* next: the next token's k, or NULL */
  float *out, *known;
  float decay, beta;
};

/* Works on n columns, in `vectors` vectors. more: there is a next token. alone: there is
 * no other token, so the next head's state is to come from memory now. */
INLINE void delta_update(const struct delta_token *t, struct state s, const bool more,
                         const bool alone, const size_t vectors, size_t n)
{
  vf change[8], sum[8], ahead[4], decay = vset(t->decay);
  UNROLL
  for (size_t j = 0; j < vectors; j++) {
    vf new = vfnma(decay, column_get(t->known, j, n), column_get(t->v, j, n));
    change[j] = vmul(vset(t->beta), new);
    sum[j] = vzero();
    if (more)
      ahead[j] = vzero();
  }
  const size_t head = s.rows * s.stride;
  for (size_t i = 0; i < s.rows; i++, s.from += s.stride, s.to += s.stride) {
    vf k = vset(t->k[i]), q = vset(t->q[i]), next = more ? vset(t->next[i]) : vzero();
    UNROLL
    for (size_t j = 0; j < vectors; j++) {
      vf x = vfma(k, change[j], vmul(decay, column_get(s.from, j, n)));
      if (alone)
        prefetch_l2(s.from + head + j * LANES);
      column_put(s.to, j, n, x);
      sum[j] = vfma(q, x, sum[j]);
      if (more)
        ahead[j] = vfma(next, x, ahead[j]);
    }
  }
  UNROLL
  for (size_t j = 0; j < vectors; j++) {
    column_put(t->out, j, n, sum[j]);
    if (more)
      column_put(t->known, j, n, ahead[j]);
  }
}

INLINE struct delta_token delta_token(const struct lls_gated_delta *d,
                                      struct delta_tile *tile, size_t t, size_t column,
                                      size_t known)
{
  const size_t row = tile->first + t;
  return (struct delta_token){.k = tile->k + t * d->key_dim,
                              .q = tile->q + t * d->key_dim,
                              .v = d->v.at + row * d->v.stride + column,
                              .next = tile->k + (t + 1) * d->key_dim,
                              .out = d->out.at + row * d->out.stride + column,
                              .known = tile->known + known,
                              .decay = tile->decay[t],
                              .beta = tile->beta[t]};
}

/* The tile's tokens for n columns, of which the first has `known`. */
INLINE void delta_block(const struct lls_gated_delta *d, struct delta_tile *tile,
                        struct state s, size_t column, size_t known, const bool alone,
                        const size_t vectors, size_t n)
{
  for (size_t t = 0; !alone && t + 1 < tile->n; t++, s.from = s.to) {
    const struct delta_token token = delta_token(d, tile, t, column, known);
    delta_update(&token, s, true, false, vectors, n);
  }
  const struct delta_token last = delta_token(d, tile, tile->n - 1, column, known);
  delta_update(&last, s, false, alone, vectors, n);
}

/* Vectors whose sums a pass keeps in registers: all of this for one token, since its
 * state comes from memory; half if it computes the next token's `known` too. */
#if LANES == 4 /* 32 registers as with LANES = 16 */
#define DELTA_VECTORS(alone) ((alone) ? 8 : 4)
#else
#define DELTA_VECTORS(alone) (LANES / ((alone) ? 2 : 4))
#endif

INLINE void delta_blocks(const struct lls_gated_delta *d, struct delta_tile *tile,
                         struct state s, size_t column, const bool alone, size_t n)
{
  const size_t step = DELTA_VECTORS(alone) * LANES;
  size_t i = 0;
  for (; i + step <= n; i += step, s.from += step, s.to += step)
    delta_block(d, tile, s, column + i, i, alone, DELTA_VECTORS(alone), LANES);
  for (; i < n; i += LANES, s.from += LANES, s.to += LANES)
    delta_block(d, tile, s, column + i, i, alone, 1, n - i);
}

/* All tokens of a tile for columns [0, n) of the state given. */
static void delta_columns(const struct lls_gated_delta *d, struct delta_tile *tile,
                          struct state s, size_t column, size_t n)
{
  size_t i = 0;
  struct state at = s;
  for (; i + 8 * LANES <= n; i += 8 * LANES, at.from += 8 * LANES)
    delta_known(&at, tile->k, 8, LANES, tile->known + i);
  for (; i < n; i += LANES, at.from += LANES)
    delta_known(&at, tile->k, 1, n - i, tile->known + i);
  if (tile->n == 1)
    delta_blocks(d, tile, s, column, true, n);
  else
    delta_blocks(d, tile, s, column, false, n);
}

/* Bytes: the state once read and once written a span, and its columns in L1 or L2 for
 * each token; operations 8 a token and element of the state, of which the decay is 1. */
static void delta(const struct lls_gated_delta *d, const struct lls_recurrent_span *span,
                  uint32_t head, size_t begin, size_t end)
{
  const size_t columns = d->value_dim, last = (size_t)span->first_row + span->n_rows;
  struct state s = head_state(span, head, d->key_dim, columns, begin, end);
  struct delta_tile tile = {.first = span->first_row};
  for (; tile.first < last; tile.first += tile.n) {
    tile.n = last - tile.first < TILE ? last - tile.first : TILE;
    tile.coming = coming_rows(last - tile.first - tile.n);
    read_delta_tile(d, head, &tile);
    struct state part = s;
    for (size_t i = begin, n; i < end; i += n, part.from += n, part.to += n) {
      n = end - i < COLUMNS ? end - i : COLUMNS;
      delta_columns(d, &tile, part, head * columns + i, n);
    }
    s.from = s.to;
  }
}

/* ---- the state space ------------------------------------------------------------- */

struct space_tile {
  float dt[TILE], decay[TILE];
  const float *b, *c;        /* of the first row */
  size_t b_stride, c_stride; /* from row to row */
  size_t first, n, coming;   /* rows; rows of the next tile */
  float skip;
};

static void read_space_tile(const struct lls_state_space *p, uint32_t head,
                            struct space_tile *tile)
{
  const size_t group = (size_t)(head / (p->heads / p->groups)) * p->state_dim;
  tile->b = p->b.at + tile->first * p->b.stride + group;
  tile->c = p->c.at + tile->first * p->c.stride + group;
  const size_t x = (size_t)head * p->head_dim, next = tile->first + tile->n;
  for (size_t row = next; row < next + tile->coming; row++) {
    fetch(p->x.at + row * p->x.stride + x, p->head_dim);
    fetch(p->b.at + row * p->b.stride + group, p->state_dim);
    fetch(p->c.at + row * p->c.stride + group, p->state_dim);
  }
  gather_gates(&p->dt, tile->first, tile->n, head, tile->dt);
  for (size_t t = 0; t < TILE; t += LANES) {
    vf dt = softplus(vadd(vload(tile->dt + t), vset(p->dt_bias[head])));
    dt = vmin(vmax(dt, vset(p->dt_min)), vset(p->dt_max));
    vstore(tile->dt + t, dt);
    vstore(tile->decay + t, vexp(vmul(dt, vset(p->rate[head]))));
  }
}

/* Tokens [t, t + tokens) of the tile for n columns, in `vectors` vectors: an element of
 * the state is read and written once for all of these tokens. */
INLINE void space_pass(const struct lls_state_space *p, const struct space_tile *tile,
                       struct state s, size_t t, const size_t tokens, size_t column,
                       const size_t vectors, size_t n)
{
  vf sum[4][4], input[4][4], decay[4];
  const float *x = p->x.at + (tile->first + t) * p->x.stride + column;
  float *out = p->out.at + (tile->first + t) * p->out.stride + column;
  const float *b = tile->b + t * tile->b_stride, *c = tile->c + t * tile->c_stride;
  UNROLL
  for (size_t m = 0; m < tokens; m++) {
    decay[m] = vset(tile->decay[t + m]);
    UNROLL
    for (size_t j = 0; j < vectors; j++) {
      sum[m][j] = vzero();
      input[m][j] = vmul(vset(tile->dt[t + m]), column_get(x + m * p->x.stride, j, n));
    }
  }
  for (size_t i = 0; i < s.rows; i++, s.from += s.stride, s.to += s.stride) {
    UNROLL
    for (size_t j = 0; j < vectors; j++) {
      vf value = column_get(s.from, j, n);
      if (tokens == 1)
        prefetch_l1((const char *)(s.from + j * LANES) + AHEAD);
      UNROLL
      for (size_t m = 0; m < tokens; m++) {
        value = vfma(vset(b[m * tile->b_stride + i]), input[m][j], vmul(decay[m], value));
        sum[m][j] = vfma(vset(c[m * tile->c_stride + i]), value, sum[m][j]);
      }
      column_put(s.to, j, n, value);
    }
  }
  UNROLL
  for (size_t m = 0; m < tokens; m++) {
    UNROLL
    for (size_t j = 0; j < vectors; j++)
      column_put(
          out + m * p->out.stride, j, n,
          vfma(vset(tile->skip), column_get(x + m * p->x.stride, j, n), sum[m][j]));
  }
}

/* Vectors of a block: 4 tokens' sums and inputs take 8 registers a vector. One token
 * takes as many columns as are next to each other, since its state comes from memory. */
#define SPACE_VECTORS(tokens) ((tokens) == 1 ? 4 : LANES == 16 ? 2 : 1)

/* Tokens [t, t + tokens) of the tile for n columns of the state given; `column` in a
 * row. */
INLINE void space_columns(const struct lls_state_space *p, const struct space_tile *tile,
                          struct state s, size_t t, const size_t tokens, size_t column,
                          size_t n)
{
  const size_t step = SPACE_VECTORS(tokens) * LANES;
  size_t i = 0;
  for (; i + step <= n; i += step, s.from += step, s.to += step)
    space_pass(p, tile, s, t, tokens, column + i, SPACE_VECTORS(tokens), LANES);
  for (; i < n; i += LANES, s.from += LANES, s.to += LANES)
    space_pass(p, tile, s, t, tokens, column + i, 1, n - i);
}

/* Bytes: the state once read and once written a span, and its columns in L1 or L2 every 4
 * tokens; operations 5 a token and element of the state, of which the decay is 1. */
static void space(const struct lls_state_space *p, const struct lls_recurrent_span *span,
                  uint32_t head, size_t begin, size_t end)
{
  const size_t columns = p->head_dim, last = (size_t)span->first_row + span->n_rows;
  const size_t column = head * columns + begin, n = end - begin;
  struct state s = head_state(span, head, p->state_dim, columns, begin, end);
  struct space_tile tile = {.first = span->first_row,
                            .b_stride = p->b.stride,
                            .c_stride = p->c.stride,
                            .skip = p->d == NULL ? 0 : p->d[head]};
  for (; tile.first < last; tile.first += tile.n) {
    tile.n = last - tile.first < TILE ? last - tile.first : TILE;
    tile.coming = coming_rows(last - tile.first - tile.n);
    read_space_tile(p, head, &tile);
    size_t t = 0;
    for (; t + 4 <= tile.n; t += 4, s.from = s.to)
      space_columns(p, &tile, s, t, 4, column, n);
    for (; t < tile.n; t++, s.from = s.to)
      space_columns(p, &tile, s, t, 1, column, n);
  }
}

/* ---- the gated norm -------------------------------------------------------------- */

/* Bytes 16 n and 4 n of y, operations about 30 n. */
static void norm_group(const struct lls_gated_norm *g, const float *x, const float *gate,
                       const float *weight, float *y)
{
  const size_t n = g->columns;
  vf squares = vzero();
  for (size_t i = 0; i < n; i += LANES) {
    vf a = vget(x + i, n - i), z = vget(gate + i, n - i), both;
    z = vmul(z, logistic(z));
    both = vmul(a, z);
    squares = g->gate_first ? vfma(both, both, squares) : vfma(a, a, squares);
    vput(y + i, n - i, both);
  }
  vf factor = vset(1 / sqrtf(vsum(squares) / (float)n + g->epsilon));
  for (size_t i = 0; i < n; i += LANES)
    vput(y + i, n - i, vmul(vmul(vget(y + i, n - i), factor), vget(weight + i, n - i)));
}

static void norm(const struct lls_gated_norm *g, uint32_t row)
{
  for (size_t i = 0; i < g->groups; i++)
    norm_group(g, g->x.at + row * g->x.stride + i * g->columns,
               g->gate.at + row * g->gate.stride + i * g->columns,
               g->weight + i * g->weight_stride,
               g->y.at + row * g->y.stride + i * g->columns);
}

static inline void fill(struct lls_cpu_recurrent_kernels *k)
{
  *k = (struct lls_cpu_recurrent_kernels){
      .conv = conv, .delta = delta, .space = space, .norm = norm};
}

#endif
