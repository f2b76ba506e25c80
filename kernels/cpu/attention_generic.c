/* SPDX-License-Identifier: Apache-2.0 */
/* Attention in plain C, one query after the other, with sums in double: the
 * reference. */
#include <math.h>

#include "kernels/cpu/attention_tile.h"
#include "core/device/numbers.h"

/* A token's vector; if it has scales, its elements are INT8. */
struct vector {
  const char *at;
  const uint16_t *scales; /* (2, n) or NULL */
  uint32_t n;
  bool bf16;
};

static float element(const struct vector *v, uint32_t d)
{
  uint32_t bits;
  if (v->scales != NULL)
    return lls_f16_to_f32(v->scales[v->n + d]) +
           lls_f16_to_f32(v->scales[d]) * (float)(uint8_t)v->at[d];
  if (!v->bf16) {
    memcpy(&bits, v->at + d * 4, 4);
  } else {
    uint16_t half;
    memcpy(&half, v->at + d * 2, 2);
    bits = (uint32_t)half << 16;
  }
  return lls_bits_to_f32(bits);
}

static struct vector vector_at(const struct lls_attention_task *t,
                               const struct tokens *tokens, uint32_t i)
{
  return (struct vector){tokens->at[i], tokens->int8 ? tokens->scales[i] : NULL,
                         t->head_dim, t->bf16};
}

static double dot(const float *q, const struct vector *k)
{
  double sum = 0;
  for (uint32_t d = 0; d < k->n; d++)
    sum += (double)q[d] * (double)element(k, d);
  return sum;
}

/* The numbers added to scaled scores: slope (distance + i), or relative[i]. */
struct bias {
  double slope, distance; /* of token 0 of the tile */
  const float *relative;  /* or NULL */
};

static struct bias bias_at(const struct lls_attention_task *t, uint32_t row,
                           uint32_t head, uint32_t token)
{
  struct bias b = {.distance = (double)tile_distance(t, token)};
  if (t->slopes != NULL)
    b.slope = (double)t->slopes[head];
  if (t->relative != NULL)
    b.relative = t->relative + head * t->relative_columns + token - row;
  return b;
}

/* One query over the visible tokens of a tile; state and values (head_dim) in double. */
static void attend_query(const struct lls_attention_task *t, const float *q,
                         const struct bias *bias, const struct tokens *tokens,
                         uint32_t begin, uint32_t end, double *max, double *sum,
                         double *values)
{
  for (uint32_t i = begin; i < end; i++) {
    struct vector k = vector_at(t, tokens, i), v = vector_at(t, tokens, TILE + i);
    double score = dot(q, &k) * (double)t->scale, cap = (double)t->soft_cap;
    score += bias->slope * (bias->distance + i);
    score += bias->relative != NULL ? (double)bias->relative[i] : 0;
    score = (cap > 0 ? cap * tanh(score / cap) : score) * 1.4426950408889634;
    double decay = 1;
    if (score > *max) {
      decay = exp2(*max - score);
      *max = score;
    }
    double p = exp2(score - *max);
    *sum = *sum * decay + p;
    for (uint32_t d = 0; d < t->head_dim; d++)
      values[d] = values[d] * decay + p * (double)element(&v, d);
  }
}

static void attend_tokens(const struct lls_attention_task *t, uint32_t row, uint32_t head,
                          uint32_t begin, uint32_t end,
                          const struct lls_attention_state *out)
{
  struct tokens tokens;
  const float *q = t->q + row * t->q_stride + head * t->head_dim;
  uint32_t query = row * t->group + head;
  double max = (double)-FLT_MAX, sum = 0, values[LLS_HEAD_DIM_MAX] = {0};
  struct cursor k = cursor_at(&t->k, begin), v = cursor_at(&t->v, begin);
  for (uint32_t token = begin, n; token < end; token += n) {
    uint32_t first, last;
    n = tile_addresses(&k, &v, token, end, &tokens);
    tile_visible(t, row, token, n, &first, &last);
    struct bias bias = bias_at(t, row, head, token);
    if (first < last)
      attend_query(t, q, &bias, &tokens, first, last, &max, &sum, values);
  }
  out->max[query] = (float)max;
  out->sum[query] = (float)sum;
  for (uint32_t d = 0; d < t->head_dim; d++)
    out->values[query * lls_attention_stride(t->head_dim) + d] = (float)values[d];
}

static void attend(const struct lls_attention_task *t, uint32_t begin, uint32_t end,
                   const struct lls_attention_state *out, void *scratch)
{
  (void)scratch;
  state_clear(out, t->n_rows * t->group, lls_attention_stride(t->head_dim));
  tile_range(t, &begin, &end);
  if (begin >= end)
    return;
  for (uint32_t row = 0; row < t->n_rows; row++) {
    for (uint32_t head = 0; head < t->group; head++)
      attend_tokens(t, row, head, begin, end, out);
  }
}

void lls_cpu_attention_generic(struct lls_cpu_attention_kernels *k)
{
  k->attend = attend;
  k->attend_bf16 = attend;
  k->attend_any = attend;
}
