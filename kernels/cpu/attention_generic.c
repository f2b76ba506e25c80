/* SPDX-License-Identifier: Apache-2.0 */
/* Attention in plain C, one query after the other, sums in double: the reference. */
#include <math.h>

#include "kernels/cpu/attention_tile.h"

static float element(const char *vector, bool bf16, uint32_t d)
{
  uint32_t bits;
  if (!bf16) {
    memcpy(&bits, vector + d * 4, 4);
  } else {
    uint16_t half;
    memcpy(&half, vector + d * 2, 2);
    bits = (uint32_t)half << 16;
  }
  float x;
  memcpy(&x, &bits, 4);
  return x;
}

static double dot(const float *q, const char *k, bool bf16, uint32_t n)
{
  double sum = 0;
  for (uint32_t d = 0; d < n; d++)
    sum += (double)q[d] * (double)element(k, bf16, d);
  return sum;
}

/* One query over the tokens of a tile that it sees; state in double, values (head_dim).
 */
static void attend_query(const struct lls_attention_task *t, const float *q,
                         const char *const *k, const char *const *v, uint32_t n,
                         double *max, double *sum, double *values)
{
  for (uint32_t i = 0; i < n; i++) {
    double score =
        dot(q, k[i], t->bf16, t->head_dim) * (double)t->scale * 1.4426950408889634;
    double decay = 1;
    if (score > *max) {
      decay = exp2(*max - score);
      *max = score;
    }
    double p = exp2(score - *max);
    *sum = *sum * decay + p;
    for (uint32_t d = 0; d < t->head_dim; d++)
      values[d] = values[d] * decay + p * (double)element(v[i], t->bf16, d);
  }
}

static void attend_tokens(const struct lls_attention_task *t, uint32_t row, uint32_t head,
                          uint32_t begin, uint32_t end,
                          const struct lls_attention_state *out)
{
  const char *tokens[2 * TILE];
  const float *q = t->q + row * t->q_stride + head * t->head_dim;
  uint32_t query = row * t->group + head;
  double max = (double)-FLT_MAX, sum = 0, values[LLS_HEAD_DIM_MAX] = {0};
  struct cursor k = cursor_at(&t->k, begin), v = cursor_at(&t->v, begin);
  for (uint32_t token = begin, n; token < end; token += n) {
    uint32_t first, last;
    n = tile_addresses(&k, &v, token, end, tokens);
    tile_visible(t->first_position + row, t->window, token, n, &first, &last);
    if (first < last)
      attend_query(t, q, tokens + first, tokens + TILE + first, last - first, &max, &sum,
                   values);
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
