/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch of attention for both devices of a pair: contexts written to the cache, some of
 * their full blocks made int8 if that is wanted, and all rows attending at once.
 */
#ifndef LLS_KERNEL_PAIR_ATTENTION_H
#define LLS_KERNEL_PAIR_ATTENTION_H

#include "t/kernel/pair.h"

#define PAIR_LAYERS    2
#define PAIR_LAYER     1
#define PAIR_SEQUENCES 8
#define PAIR_COLUMNS   8192

struct pair_shape {
  uint32_t kv_heads, group, head_dim, block_tokens, window, rotary;
  enum lls_dtype element;
  float soft_cap;
  bool sinks;
  uint32_t turns; /* windows that come in between */
  bool int8;      /* about every other full block of the contexts */
};

struct pair_sequence {
  uint32_t context, n_rows;
  struct lls_block_table written, read; /* read: as written, but for int8 blocks */
  struct lls_block_entry *lists[4];     /* K and V of both */
  float *qkv;                           /* (context + n_rows, columns) */
};

struct pair_batch {
  const struct pair *p;
  struct pair_shape shape;
  struct pair_heads heads;
  struct block_lists blocks;
  struct pair_sequence sequences[PAIR_SEQUENCES];
  uint32_t n_sequences;
  struct lls_copy copies[1024]; /* that make blocks int8 */
  uint32_t n_copies;
};

/* ---- making a batch ---------------------------------------------------------------- */

static inline struct pair_batch *pair_batch_open(const struct pair *p,
                                                 const struct pair_shape *shape)
{
  struct pair_batch *b = calloc(1, sizeof *b);
  b->p = p;
  b->shape = *shape;
  pair_heads_init(&b->heads, shape->kv_heads * shape->group, shape->kv_heads,
                  shape->head_dim, shape->rotary);
  b->heads.attention.window = shape->window;
  b->heads.attention.soft_cap = shape->soft_cap;
  block_lists_init(&b->blocks, 1024, shape->block_tokens);
  return b;
}

static inline void pair_batch_close(struct pair_batch *b)
{
  for (uint32_t i = 0; i < b->n_sequences; i++) {
    for (int j = 0; j < 4; j++)
      free(b->sequences[i].lists[j]);
    free(b->sequences[i].qkv);
  }
  free(b);
}

/* A copy of a list, in which some full blocks of the context are int8 ones. */
static inline struct lls_block_entry *pair_quantised(struct pair_batch *b,
                                                     const struct lls_block_entry *list,
                                                     uint32_t n, uint32_t context)
{
  struct lls_block_entry *out = malloc((n + 1) * sizeof *out);
  memcpy(out, list, n * sizeof *out);
  for (struct lls_block_entry *e = out; b->shape.int8 && e < out + n; e++) {
    if (e->count != b->shape.block_tokens || e->first_token + e->count > context ||
        random_bits() % 2 == 0)
      continue;
    assert_true(b->n_copies < 1024);
    struct lls_copy *c = &b->copies[b->n_copies++];
    *c = (struct lls_copy){
        .kind = LLS_COPY_DEVICE_TO_DEVICE,
        .n_slots = e->count,
        .source = e->block,
        .target = 2 * block_lists_take(&b->blocks) + random_bits() % 2,
        .target_element = LLS_ELEMENT_INT8,
    };
    e->block = c->target;
    e->element = LLS_ELEMENT_INT8;
  }
  return out;
}

/* The lists that are read lose what no row sees, which is no number. */
static inline void pair_give_back(const struct pair_batch *b, struct pair_sequence *s)
{
  uint32_t widest = b->shape.window + 5 * b->shape.turns;
  uint32_t oldest = lls_window_begin(s->context, widest), hd = b->shape.head_dim;
  float *k = s->qkv + (size_t)b->heads.attention.heads * hd;
  size_t width = (size_t)b->shape.kv_heads * hd;
  poison(k, b->heads.columns, width, give_back(&s->read.k, &s->read.k_count, oldest));
  poison(k + width, b->heads.columns, width,
         give_back(&s->read.v, &s->read.v_count, oldest));
}

static inline void pair_batch_add(struct pair_batch *b, uint32_t context, uint32_t n_rows,
                                  bool tidy)
{
  struct pair_sequence *s = &b->sequences[b->n_sequences++];
  struct lls_block_table *t = &s->written;
  uint32_t n = context + n_rows;
  s->context = context;
  s->n_rows = n_rows;
  s->qkv = pair_random(b->p, (size_t)n * b->heads.columns, random_float);
  t->form = LLS_FORM_KV;
  t->k_count = block_list(&b->blocks, n, tidy, &s->lists[0]);
  t->v_count = block_list(&b->blocks, n, tidy, &s->lists[1]);
  s->lists[2] = pair_quantised(b, s->lists[0], t->k_count, context);
  s->lists[3] = pair_quantised(b, s->lists[1], t->v_count, context);
  s->read = *t;
  t->k = s->lists[0];
  t->v = s->lists[1];
  s->read.k = s->lists[2];
  s->read.v = s->lists[3];
  if (b->shape.window > 0)
    pair_give_back(b, s);
}

/* ---- running it -------------------------------------------------------------------- */

/* One step; out (rows, out_columns) or NULL. */
static inline void pair_batch_step(const struct pair_batch *b, struct lls_device *d,
                                   struct lls_pool *pool, const struct pair_step *s,
                                   float *out)
{
  struct lls_attention_shape shape = b->heads.attention;
  const struct lls_attention_shape *a = &shape;
  float numbers[128], *sinks = NULL;
  uint32_t rows = s->step.n_rows;
  for (uint32_t i = 0; i < shape.heads && b->shape.sinks; i++)
    numbers[i] = (float)i - 1;
  const struct lls_tensor_view view = view_of(numbers, 1, shape.heads);
  if (b->shape.sinks)
    assert_int_equal(d->ops->vector_create(d, &view, &sinks, NULL), 0);
  shape.sinks = sinks;
  void *in = pair_put(d, s->rows, rows, b->heads.columns);
  void *to = pair_buffer(d, rows, b->heads.out_columns);
  assert_int_equal(d->ops->step_begin(d, pool, &s->step), 0);
  if (b->shape.rotary > 0)
    d->ops->rope(d, a, &b->heads.rope, in);
  d->ops->cache_write(d, a, PAIR_LAYER, in);
  if (out != NULL) {
    for (uint32_t other = 0; other < b->shape.turns; other++) {
      struct lls_attention_shape wider = shape; /* as other layers may have it */
      wider.window = shape.window + 5 * (other + 1);
      d->ops->attention(d, &wider, PAIR_LAYER, in, to);
      d->ops->attention(d, a, PAIR_LAYER, in, to);
    }
    d->ops->attention(d, a, PAIR_LAYER, in, to);
    pair_get(d, to, (size_t)rows * b->heads.out_columns, out);
  }
  pair_end(d);
  pair_release(d, in);
  pair_release(d, to);
  if (sinks != NULL)
    pair_release(d, sinks);
}

static inline void pair_batch_context(const struct pair_batch *b, struct lls_device *d,
                                      struct lls_pool *pool,
                                      const struct pair_sequence *s)
{
  for (uint32_t token = 0, n; token < s->context; token += n) {
    struct pair_step step;
    n = s->context - token < PAIR_ROWS ? s->context - token : PAIR_ROWS;
    pair_step_open(&step, b->heads.columns);
    pair_step_add(&step, &s->written, token, n,
                  s->qkv + (size_t)token * b->heads.columns);
    pair_batch_step(b, d, pool, &step, NULL);
    pair_step_close(&step);
  }
}

/* Fills a pool with the contexts and attends from all rows; how many there are. */
static inline uint32_t pair_batch_run(const struct pair_batch *b, struct lls_device *d,
                                      float *out)
{
  const struct lls_pool_shape shape = {
      .layers = PAIR_LAYERS,
      .kv_heads = b->shape.kv_heads,
      .head_dim = b->shape.head_dim,
      .block_tokens = b->shape.block_tokens,
      .element = b->shape.element,
      .device_units = b->blocks.n,
      .int8 = b->shape.int8 ? LLS_INT8_ALL : LLS_INT8_OFF,
  };
  struct pair_step step;
  struct lls_pool *pool;
  assert_int_equal(d->ops->pool_create(d, &shape, &pool, NULL), 0);
  pair_step_open(&step, b->heads.columns);
  for (uint32_t i = 0; i < b->n_sequences; i++) {
    const struct pair_sequence *s = &b->sequences[i];
    pair_batch_context(b, d, pool, s);
    pair_step_add(&step, &s->read, s->context, s->n_rows,
                  s->qkv + (size_t)s->context * b->heads.columns);
  }
  assert_int_equal(d->ops->pool_copy(d, pool, b->copies, b->n_copies), 0);
  pair_batch_step(b, d, pool, &step, out);
  pair_step_close(&step);
  d->ops->pool_destroy(d, pool);
  return step.step.n_rows;
}

/* Tensor cores round weights and int8 numbers to bf16, by 2^-9 of each: the result is off
 * by that part of the largest value, beside its own rounding. */
static inline void pair_batch_check(const struct pair_batch *b)
{
  size_t most = PAIR_ROWS * (size_t)b->heads.out_columns;
  float *wanted = malloc(most * sizeof *wanted), *got = malloc(most * sizeof *got);
  uint32_t rows = pair_batch_run(b, b->p->cpu, wanted);
  pair_batch_run(b, b->p->cuda, got);
  bool bf16 = b->p->numbers == LLS_BF16 || b->shape.element == LLS_BF16;
  pair_compare(b->p, "attention", got, wanted, (size_t)rows * b->heads.out_columns,
               pair_epsilon(b->p), bf16 ? 0.006 : 1e-5);
  free(wanted);
  free(got);
}

/* Decodes, whole prompts and a chunk, of ragged lengths, over lists in order and not. */
static inline void pair_batch_mixed(const struct pair *p, const struct pair_shape *shape)
{
  struct pair_batch *b = pair_batch_open(p, shape);
  pair_batch_add(b, random_between(0, 70), 1, true);
  pair_batch_add(b, random_between(60, 130), 1, false);
  pair_batch_add(b, 0, random_between(2, 40), true);
  pair_batch_add(b, random_between(1, 100), random_between(2, 20), false);
  pair_batch_add(b, 0, 1, false);
  pair_batch_check(b);
  pair_batch_close(b);
}

/* The same decode again and again is first run, then captured, then launched as a graph,
 * whatever its tables, tokens and lengths are by then. */
static inline void pair_decode_repeatedly(const struct pair *p,
                                          const struct pair_shape *shape)
{
  for (uint32_t length = 200; length < 205; length++) {
    struct pair_batch *b = pair_batch_open(p, shape);
    for (uint32_t i = 0; i < 3; i++)
      pair_batch_add(b, length / (i + 1), 1, i > 0);
    pair_batch_check(b);
    pair_batch_close(b);
  }
}

/* A test of each pair of devices that there is. */
#define PAIR_TEST(name)                                                                  \
  static void test_##name(void **state)                                                  \
  {                                                                                      \
    (void)state;                                                                         \
    each_pair(LLS_F32, PAIR_COLUMNS, name);                                              \
    each_pair(LLS_BF16, PAIR_COLUMNS, name);                                             \
  }

#endif
