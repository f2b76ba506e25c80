/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of DeepSeek V3.2 (DSA): which of the tokens that a row sees it attends to.
 * A thread takes rows. It widens keys a tile at a time, adds up a score for each token,
 * and keeps the tokens that may still be among the best: when twice as many are kept as
 * are wanted, the best of them stay, in their order. So a row needs room for them alone,
 * however long its context is, and its choice does not depend on other rows.
 *
 * Bytes of a row: tokens x dim x element of keys. Operations: 2 heads x dim for each
 * token, and some 10 for the choice.
 */
#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ops.h"

#include <errno.h>

#include "core/device/numbers.h"

#define DIM_MAX 1024 /* numbers of a key */

/* Scores are compared as these, which are ordered as floats are and have no NaN. */
static uint32_t ordered(float score)
{
  uint32_t bits;
  memcpy(&bits, &score, sizeof bits);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

/* A thread's scratch, and the tokens that are kept of a row. */
struct choice {
  struct tokens at;
  float keys[TILE * DIM_MAX]; /* (tokens, dim) */
  float dots[TILE], sums[TILE];
  uint32_t n;
  uint32_t least;  /* no score below this one is among the best any more */
  uint32_t room[]; /* (3, 2 chosen) tokens, their scores, and a copy of those */
};

struct choosing {
  struct lls_cpu_device *device;
  const struct lls_attention_shape *shape;
  const struct lls_index_shape *index;
  uint32_t layer;
  const float *q, *weights;
  uint32_t *tokens;
};

/* ---- the best ---------------------------------------------------------------------- */

/* Returns the number that would be at place k if n of them were sorted, largest first;
 * they are reordered (Hoare's quickselect). */
static uint32_t largest(uint32_t *x, uint32_t n, uint32_t k)
{
  uint32_t low = 0, high = n - 1;
  while (low < high) {
    uint32_t pivot = x[low + (high - low) / 2], i = low, j = high;
    for (;;) {
      while (x[i] > pivot)
        i++;
      while (x[j] < pivot)
        j--;
      if (i >= j)
        break;
      uint32_t t = x[i];
      x[i++] = x[j];
      x[j--] = t;
    }
    if (k <= j)
      high = j;
    else
      low = j + 1;
  }
  return x[k];
}

/* Keeps the best `chosen` of the tokens, in their order. */
static void keep_best(struct choice *c, uint32_t chosen)
{
  uint32_t *tokens = c->room, *scores = c->room + 2 * chosen, *copy = scores + 2 * chosen;
  uint32_t equals = chosen, kept = 0;
  memcpy(copy, scores, c->n * sizeof *copy);
  c->least = largest(copy, c->n, chosen - 1);
  for (uint32_t i = 0; i < c->n; i++)
    equals -= scores[i] > c->least;
  for (uint32_t i = 0; i < c->n; i++) {
    bool equal = scores[i] == c->least && equals > 0;
    equals -= equal;
    if (scores[i] <= c->least && !equal)
      continue;
    tokens[kept] = tokens[i];
    scores[kept++] = scores[i];
  }
  c->n = kept;
}

static void add_scores(struct choice *c, uint32_t first, uint32_t n, uint32_t chosen)
{
  uint32_t *tokens = c->room, *scores = c->room + 2 * chosen;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t score = ordered(c->sums[i]);
    if (c->n >= chosen && score <= c->least) /* of equals the earlier ones stay */
      continue;
    if (c->n == 2 * chosen)
      keep_best(c, chosen);
    tokens[c->n] = first + i;
    scores[c->n++] = score;
  }
}

/* ---- scores ------------------------------------------------------------------------ */

/* Widens the key of token i of a tile, the last `dim` numbers of what is cached. */
static void widen(const struct choosing *w, const struct lls_kv_list *k,
                  const struct tokens *at, uint32_t i, float *to)
{
  uint32_t dim = w->index->dim, first = w->shape->head_dim - dim;
  const char *from = at->at[i];
  const uint16_t *scales = at->int8 ? at->scales[i] : NULL;
  if (scales != NULL) {
    for (uint32_t d = 0; d < dim; d++)
      to[d] = lls_f16_to_f32(scales[k->head_dim + first + d]) +
              lls_f16_to_f32(scales[first + d]) * (float)(uint8_t)from[first + d];
  } else if (w->device->pool->shape.element == LLS_BF16) {
    for (uint32_t d = 0; d < dim; d++)
      to[d] = lls_bf16_to_f32(((const uint16_t *)(const void *)from)[first + d]);
  } else {
    memcpy(to, (const float *)(const void *)from + first, dim * sizeof *to);
  }
}

/* Sets c->sums to the scores of a tile's n tokens for a row. */
static void score_tile(const struct choosing *w, struct choice *c, size_t row, uint32_t n)
{
  uint32_t dim = w->index->dim, heads = w->index->heads;
  const float *q = w->q + row * heads * dim, *weights = w->weights + row * heads;
  memset(c->sums, 0, sizeof c->sums);
  for (uint32_t head = 0; head < heads; head++, q += dim) {
    w->device->kernels.rows.dots(q, c->keys, dim, n, dim, c->dots);
    for (uint32_t i = 0; i < n; i++)
      c->sums[i] += c->dots[i] > 0 ? weights[head] * c->dots[i] : 0;
  }
}

static void choose_row(const struct choosing *w, const struct lls_step_sequence *s,
                       uint32_t row, struct choice *c)
{
  uint32_t seen = s->context + row + 1, chosen = w->index->chosen;
  const struct lls_kv_list k =
      lls_cpu_kv_list(w->device, w->shape, w->layer, 0, s, false);
  struct cursor cursor = cursor_at(&k, 0), unused = cursor;
  c->n = c->least = 0;
  for (uint32_t token = 0, n; token < seen; token += n) {
    n = tile_addresses(&cursor, &unused, token, seen, &c->at);
    for (uint32_t i = 0; i < n; i++)
      widen(w, &k, &c->at, i, c->keys + (size_t)i * w->index->dim);
    score_tile(w, c, s->first_row + row, n);
    add_scores(c, token, n, chosen);
  }
  keep_best(c, chosen);
  memcpy(w->tokens + (s->first_row + row) * (size_t)chosen, c->room,
         chosen * sizeof *w->tokens);
}

/* Threads take every n-th row: later rows of a prompt see more. */
static void choose_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct choosing *w = arg;
  const struct lls_device_step *step = w->device->step;
  const struct lls_step_sequence *s = lls_step_group(step, w->shape->group);
  struct choice *c = lls_cpu_scratch(w->device, thread);
  for (uint32_t i = 0; i < step->n_sequences; i++)
    for (uint32_t row = 0; row < s[i].n_rows; row++)
      if ((s[i].first_row + row) % n_threads == thread &&
          s[i].context + row >= w->index->chosen)
        choose_row(w, &s[i], row, c);
}

void lls_cpu_choose(struct lls_device *device, const struct lls_attention_shape *shape,
                    const struct lls_index_shape *index, uint32_t layer, const void *q,
                    const void *weights, uint32_t *tokens)
{
  struct lls_cpu_device *d = lls_cpu(device);
  struct choosing w = {d, shape, index, layer, q, weights, tokens};
  size_t room = sizeof(struct choice) + 6 * index->chosen * sizeof(uint32_t);
  if (index->dim > DIM_MAX || index->dim > shape->head_dim ||
      room > LLS_ATTENTION_SCRATCH) {
    lls_cpu_step_fail(d, -ENOTSUP, "an index of %u tokens by keys of %u numbers",
                      index->chosen, index->dim);
    return;
  }
  lls_cpu_run_rows(d, choose_task, &w, d->step->n_rows,
                   (size_t)index->heads * index->dim * TILE);
}
