/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch of attention on the CPU device, and its expected result: softmax(q K) V in
 * double. cache_write stores K and V in the pool, so both agree on the place of each
 * token. Tables are as irregular as the SDK allows: any block size, blocks anywhere,
 * partly filled, from either end.
 *
 * Tolerance: a score is a sum of head_dim products in f32, so it is off by at most
 * SCORE_EPSILON of the magnitudes added, which changes weights by the same relative
 * error; weights and their sum add VALUE_EPSILON of the largest value. Over a cache of
 * bf16 AMX and AVX-512 round q, as the reference then does, and weights, which adds
 * PAIRS_EPSILON of the largest value.
 */
#ifndef LLS_KERNEL_ATTENTION_BATCH_H
#define LLS_KERNEL_ATTENTION_BATCH_H

#include "t/kernel/block_lists.h"

#include "kernels/cpu/cpu.h"
#include "core/device/numbers.h"

#define SCORE_EPSILON 1e-6
#define VALUE_EPSILON 4e-6
#define PAIRS_EPSILON 2.2e-3 /* 2^-9 for rounding weights, 1e-4 for their cubic */

#define MAX_ROWS      512
#define MAX_SEQUENCES 12
#define MAX_TOKENS    2600

struct shape {
  uint32_t kv_heads, group, head_dim, block_tokens, window;
  enum lls_dtype element;
  bool int8;    /* some of the full blocks are int8 */
  bool latent;  /* V is K */
  bool chunked; /* the window is a chunk */
  float soft_cap;
  const float *sinks;  /* (kv_heads group), or NULL */
  const float *slopes; /* (kv_heads group) of ALiBi, or NULL */
};

struct sequence {
  uint32_t context, n_rows;
  /* (context + n_rows, columns), INT8 tokens with the values they are read as */
  float *qkv;
  bool *int8; /* (context + n_rows) the token is in an int8 block */
  struct lls_step_list list;
  struct lls_block_entry *entries;
};

struct batch {
  struct lls_device *device;
  struct shape shape;
  struct lls_attention_shape attention;
  size_t columns, out_columns;
  struct lls_pool *pool;
  struct block_lists blocks;
  struct sequence sequences[MAX_SEQUENCES];
  uint32_t n_sequences;
};

#define LAYERS 2
#define LAYER  1

/* ---- making a batch -------------------------------------------------------------- */

static inline void open_batch(struct batch *b, struct lls_device *device,
                              const struct shape *shape, uint32_t n_blocks)
{
  *b = (struct batch){.device = device, .shape = *shape};
  uint32_t heads = shape->kv_heads * shape->group;
  b->attention = (struct lls_attention_shape){
      .heads = heads,
      .kv_heads = shape->kv_heads,
      .head_dim = shape->head_dim,
      .scale = 1 / sqrtf((float)shape->head_dim),
      .window = shape->window,
      .chunked = shape->chunked,
      .soft_cap = shape->soft_cap,
      .sinks = shape->sinks,
      .slopes = shape->slopes,
      .latent = shape->latent,
  };
  b->columns = lls_qkv_width(&b->attention);
  b->out_columns = heads * shape->head_dim;
  struct lls_pool_shape pool = {
      .layers = LAYERS,
      .kv_heads = shape->kv_heads,
      .head_dim = shape->head_dim,
      .block_tokens = shape->block_tokens,
      .element = shape->element,
      .int8 = shape->int8 ? LLS_INT8_ALL : LLS_INT8_OFF,
      .latent = shape->latent,
  };
  uint32_t units = most_block_units(&pool);
  pool.device_units = n_blocks * units;
  assert_int_equal(device->ops->pool_create(device, &pool, &b->pool, NULL), 0);
  block_lists_init(&b->blocks, n_blocks, shape->block_tokens, units);
}

static inline void close_batch(struct batch *b)
{
  for (uint32_t i = 0; i < b->n_sequences; i++) {
    free(b->sequences[i].qkv);
    free(b->sequences[i].int8);
    free(b->sequences[i].entries);
  }
  b->device->ops->pool_destroy(b->device, b->pool);
}

static inline void add_sequence(struct batch *b, uint32_t context, uint32_t n_rows,
                                bool tidy)
{
  struct sequence *s = &b->sequences[b->n_sequences++];
  uint32_t n = context + n_rows;
  s->context = context;
  s->n_rows = n_rows;
  s->qkv = malloc(n * b->columns * sizeof(float));
  s->int8 = calloc(n, sizeof *s->int8);
  fill_random(s->qkv, n * b->columns);
  s->list.n = block_list(&b->blocks, n, tidy, &s->entries);
  s->list.entries = s->entries;
}

/* ---- running it ------------------------------------------------------------------ */

struct part { /* rows [first, first + n) of a sequence */
  uint32_t sequence, first, n;
};

/* Writes these rows to the cache and, unless out is NULL, attends: out (rows,
 * columns). */
static inline void run_parts(const struct batch *b, const struct part *parts,
                             uint32_t n_parts, float *out)
{
  struct lls_step_sequence sequences[MAX_SEQUENCES];
  uint32_t row_sequence[MAX_TOKENS], rows = 0;
  for (uint32_t i = 0; i < n_parts; i++) {
    sequences[i] = (struct lls_step_sequence){
        .kv = b->sequences[parts[i].sequence].list,
        .first_row = rows,
        .n_rows = parts[i].n,
        .context = parts[i].first,
    };
    for (uint32_t r = 0; r < parts[i].n; r++)
      row_sequence[rows++] = i;
  }
  float *qkv = guarded_alloc(rows * b->columns * sizeof *qkv);
  for (uint32_t i = 0; i < n_parts; i++)
    memcpy(qkv + sequences[i].first_row * b->columns,
           b->sequences[parts[i].sequence].qkv + parts[i].first * b->columns,
           parts[i].n * b->columns * sizeof *qkv);
  const struct lls_device_ops *ops = b->device->ops;
  const struct lls_device_step step = {
      .n_rows = rows,
      .n_sequences = n_parts,
      .sequence = row_sequence,
      .sequences = sequences,
  };
  assert_int_equal(ops->step_begin(b->device, b->pool, &step), 0);
  ops->cache_write(b->device, &b->attention, LAYER, qkv);
  if (out != NULL)
    ops->attention(b->device, &b->attention, LAYER, qkv, out);
  assert_int_equal(ops->step_end(b->device, NULL), 0);
  guarded_free(qkv);
}

/* Fills the cache with the contexts. */
static inline void write_contexts(const struct batch *b)
{
  for (uint32_t i = 0; i < b->n_sequences; i++) {
    uint32_t n;
    for (uint32_t token = 0; token < b->sequences[i].context; token += n) {
      n = b->sequences[i].context - token < MAX_ROWS ? b->sequences[i].context - token
                                                     : MAX_ROWS;
      run_parts(b, &(struct part){i, token, n}, 1, NULL);
    }
  }
}

static inline uint32_t run_all(const struct batch *b, float *out)
{
  struct part parts[MAX_SEQUENCES];
  uint32_t rows = 0;
  for (uint32_t i = 0; i < b->n_sequences; i++) {
    const struct sequence *s = &b->sequences[i];
    parts[i] = (struct part){i, s->context, s->n_rows};
    rows += s->n_rows;
  }
  assert_true(rows <= MAX_ROWS);
  run_parts(b, parts, b->n_sequences, out);
  return rows;
}

/* ---- what windows have left ------------------------------------------------------ */

static inline uint32_t first_seen(const struct shape *shape, uint32_t position)
{
  return shape->chunked ? position - position % shape->window
                        : oldest_seen(position, shape->window);
}

/* Drops the leading entries that no row sees from each list, and fills their blocks
 * with NaN, so that reading them shows in the result. */
static inline void give_back_all(struct batch *b)
{
  size_t k = (size_t)b->attention.heads * b->shape.head_dim;
  size_t v = k + (size_t)b->shape.kv_heads * b->shape.head_dim;
  for (uint32_t i = 0; i < b->n_sequences; i++) {
    struct sequence *s = &b->sequences[i];
    struct lls_step_list whole = s->list;
    uint32_t first = give_back(&s->list, first_seen(&b->shape, s->context));
    poison(s->qkv + k, b->columns, 2 * (v - k), first);
    struct lls_step_list left = s->list;
    s->list = whole;
    for (uint32_t token = 0, n; token < s->context; token += n) {
      n = s->context - token < MAX_ROWS ? s->context - token : MAX_ROWS;
      run_parts(b, &(struct part){i, token, n}, 1, NULL);
    }
    s->list = left;
  }
}

/* ---- the reference --------------------------------------------------------------- */

/* Are values rounded to bf16? Levels with a kernel of their own for bf16, AMX and
 * AVX-512, do that for head sizes that fit their vectors. */
static inline bool rounds(const struct batch *b)
{
  const struct lls_cpu_attention_kernels *k = &lls_cpu(b->device)->kernels.attention;
  return k->attend_bf16 != k->attend && b->shape.element == LLS_BF16 &&
         b->shape.head_dim % 8 == 0;
}

/* A cached value as attention uses it: INT8 values are rounded only where bf16 is
 * multiplied. */
static inline double cached(const struct batch *b, bool int8, float x)
{
  bool bf16 = int8 ? rounds(b) : b->shape.element == LLS_BF16;
  return bf16 ? lls_bf16_to_f32(lls_f32_to_bf16(x)) : x;
}

/* One head of one row: out (head_dim); returns the tolerance. */
static inline double reference(const struct batch *b, const struct sequence *s,
                               uint32_t row, uint32_t head, double *out)
{
  const struct shape *shape = &b->shape;
  uint32_t position = s->context + row, n = shape->head_dim,
           first = first_seen(shape, position);
  uint32_t k_column = (b->attention.heads + head / shape->group) * n;
  uint32_t v_column = k_column + (shape->latent ? 0 : shape->kv_heads * n);
  const float *given = s->qkv + position * b->columns + head * n;
  double q[LLS_HEAD_DIM_MAX];
  for (uint32_t d = 0; d < n; d++)
    q[d] = rounds(b) ? lls_bf16_to_f32(lls_f32_to_bf16(given[d])) : given[d];
  double score[MAX_TOKENS], top = -INFINITY, sum = 0, added = 0, largest = 0;
  for (uint32_t t = first; t <= position; t++) {
    const float *k = s->qkv + t * b->columns + k_column;
    double magnitude = 0;
    score[t] = 0;
    for (uint32_t d = 0; d < n; d++) {
      score[t] += q[d] * cached(b, s->int8[t], k[d]) * (double)b->attention.scale;
      magnitude += fabs(q[d] * cached(b, s->int8[t], k[d])) * (double)b->attention.scale;
    }
    if (shape->soft_cap > 0)
      score[t] = (double)shape->soft_cap * tanh(score[t] / (double)shape->soft_cap);
    if (shape->slopes != NULL)
      score[t] += (double)shape->slopes[head] * ((double)t - position);
    top = fmax(top, score[t]);
    added = fmax(added, magnitude);
  }
  if (shape->sinks != NULL) {
    top = fmax(top, (double)shape->sinks[head]);
    sum = exp((double)shape->sinks[head] - top);
  }
  memset(out, 0, n * sizeof *out);
  for (uint32_t t = first; t <= position; t++) {
    const float *v = s->qkv + t * b->columns + v_column;
    double weight = exp(score[t] - top);
    sum += weight;
    for (uint32_t d = 0; d < n; d++) {
      out[d] += weight * cached(b, s->int8[t], v[d]);
      largest = fmax(largest, fabs(cached(b, s->int8[t], v[d])));
    }
  }
  for (uint32_t d = 0; d < n; d++)
    out[d] /= sum;
  return (VALUE_EPSILON + (rounds(b) ? PAIRS_EPSILON : 0) + SCORE_EPSILON * added) *
         largest;
}

static inline void check_rows(const struct batch *b, const float *out)
{
  double wanted[LLS_HEAD_DIM_MAX];
  for (uint32_t i = 0; i < b->n_sequences; i++) {
    const struct sequence *s = &b->sequences[i];
    for (uint32_t row = 0; row < s->n_rows; row++, out += b->out_columns) {
      for (uint32_t head = 0; head < b->attention.heads; head++) {
        double tolerance = reference(b, s, row, head, wanted);
        for (uint32_t d = 0; d < b->shape.head_dim; d++)
          assert_near(b->device, "attention", d, out[head * b->shape.head_dim + d],
                      wanted[d], tolerance);
      }
    }
  }
}

/* prepare: called after the contexts are written, before all rows attend; NULL:
 * nothing. */
static inline void check(struct batch *b, void (*prepare)(struct batch *))
{
  float *out = guarded_alloc(MAX_ROWS * b->out_columns * sizeof *out);
  write_contexts(b);
  if (prepare != NULL)
    prepare(b);
  run_all(b, out);
  check_rows(b, out);
  guarded_free(out);
}

/* Decodes, prefills and chunks of ragged lengths together. */
static inline void mixed_batch(struct lls_device *device, const struct shape *shape,
                               void (*prepare)(struct batch *))
{
  struct batch b;
  uint32_t tokens = 5 * 90 + 2 * 190;
  open_batch(&b, device, shape, 6 * tokens + 16);
  for (int i = 0; i < 3; i++)
    add_sequence(&b, random_between(0, 130), 1, i == 0);
  add_sequence(&b, 0, random_between(2, 90), true);
  add_sequence(&b, random_between(1, 130), random_between(2, 60), false);
  add_sequence(&b, 0, 1, false);
  check(&b, prepare);
  close_batch(&b);
}

#endif
