/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hidden form on the CUDA device against the CPU's: X of new tokens is stored, K
 * and V of earlier tokens are restored, rotated and attended to, for sequences in
 * hidden form, changing to KV form, and in KV form, in one step.
 *
 * In bf16 the CUDA device rounds k twice, before and after rope, as it does to k of the
 * KV form; the CPU once.
 */
#include "t/kernel/pair.h"

#define LAYERS        2
#define LAYER         1
#define MAX_SEQUENCES 6
#define MAX_COLUMNS   1024
#define MAX_CONTEXT   4096

struct shape {
  uint32_t heads, head_dim, block_tokens, rotary;
  enum lls_dtype element;
  uint32_t int8; /* enum lls_int8 of the pool; nothing here is in such blocks */
};

enum kind { HIDDEN, CONVERTED, PLAIN };

struct sequence {
  enum kind kind;
  uint32_t context, n_rows;
  struct lls_block_entry *entries[2];
  struct lls_step_list kv, hidden;
  float *h; /* (context + n_rows, columns) */
};

struct batch {
  const struct pair *p;
  struct shape shape;
  uint32_t columns, n_sequences, rows;
  struct pair_heads heads;
  struct lls_pool_shape pool;
  struct block_lists blocks, scratch;
  struct sequence sequences[MAX_SEQUENCES];
  float *weights, *bias, *qkv; /* (3 columns, columns), (3 columns), (rows, 3 columns) */
};

static struct batch *open_batch(const struct pair *p, const struct shape *shape)
{
  struct batch *b = calloc(1, sizeof *b);
  size_t columns = (size_t)shape->heads * shape->head_dim;
  b->p = p;
  b->shape = *shape;
  b->columns = (uint32_t)columns;
  pair_heads_init(&b->heads, shape->heads, shape->heads, shape->head_dim, shape->rotary);
  b->pool = (struct lls_pool_shape){
      .layers = LAYERS,
      .kv_heads = shape->heads,
      .head_dim = shape->head_dim,
      .block_tokens = shape->block_tokens,
      .element = shape->element,
      .scratch_blocks = 512,
      .max_context = MAX_CONTEXT,
      .int8 = shape->int8,
  };
  uint32_t units = most_block_units(&b->pool);
  b->pool.device_units = 1024 * units;
  block_lists_init(&b->blocks, 1024, shape->block_tokens, units);
  block_lists_init(&b->scratch, 512, shape->block_tokens, 1);
  b->weights = pair_random(p, 3 * columns * columns, random_float);
  b->bias = pair_random(p, 3 * columns, random_float);
  for (size_t i = 0; i < 3 * columns * columns; i++) /* by a power of two: still exact */
    b->weights[i] *= 0x1p-3f;
  return b;
}

static void close_batch(struct batch *b)
{
  for (uint32_t i = 0; i < b->n_sequences; i++) {
    free(b->sequences[i].entries[0]);
    free(b->sequences[i].entries[1]);
    free(b->sequences[i].h);
  }
  free(b->weights);
  free(b->bias);
  free(b->qkv);
  free(b);
}

static void add_sequence(struct batch *b, enum kind kind, uint32_t context,
                         uint32_t n_rows)
{
  struct sequence *s = &b->sequences[b->n_sequences++];
  struct block_lists *kv = kind == HIDDEN ? &b->scratch : &b->blocks;
  uint32_t n = context + n_rows;
  bool tidy = random_bits() % 2;
  s->kind = kind;
  s->context = context;
  s->n_rows = n_rows;
  s->h = pair_random(b->p, (size_t)n * b->columns, random_float);
  s->kv.n = block_list(kv, n, tidy, &s->entries[0]);
  s->kv.entries = s->entries[0];
  if (kind != PLAIN)
    s->hidden.n = block_list(&b->blocks, n, tidy, &s->entries[1]);
  s->hidden.entries = s->entries[1];
  b->rows += n_rows;
}

/* ---- running it -------------------------------------------------------------------- */

/* Stores X of rows [first, first + n), as if these were new tokens of a sequence in
 * hidden form. */
static void keep(const struct batch *b, struct lls_device *d, struct lls_pool *pool,
                 const struct sequence *s, uint32_t first, uint32_t n)
{
  struct pair_step step;
  pair_step_open(&step, b->columns);
  struct lls_step_sequence *in =
      pair_step_add(&step, &s->kv, first, n, s->h + (size_t)first * b->columns);
  in->hidden = s->hidden;
  in->scratch = true;
  void *h = pair_put(d, step.rows, n, b->columns);
  assert_int_equal(d->ops->step_begin(d, pool, &step.step), 0);
  d->ops->hidden_write(d, &b->heads.attention, LAYER, h);
  pair_end(d);
  pair_release(d, h);
  pair_step_close(&step);
}

static void run_step(const struct batch *b, struct lls_device *d, struct lls_pool *pool,
                     const struct lls_weight *weight, float *out)
{
  const struct lls_attention_shape *attention = &b->heads.attention;
  struct pair_step step;
  pair_step_open(&step, b->columns);
  for (uint32_t i = 0; i < b->n_sequences; i++) {
    const struct sequence *s = &b->sequences[i];
    struct lls_step_sequence *in = pair_step_add(&step, &s->kv, s->context, s->n_rows,
                                                 s->h + (size_t)s->context * b->columns);
    in->hidden = s->hidden;
    in->n_restored = s->kind == PLAIN ? 0 : s->context;
    in->scratch = s->kind == HIDDEN;
  }
  void *x = pair_put(d, step.rows, b->rows, b->columns);
  void *qkv = pair_put(d, b->qkv, b->rows, 3 * b->columns);
  void *to = pair_buffer(d, b->rows, b->columns);
  assert_int_equal(d->ops->step_begin(d, pool, &step.step), 0);
  d->ops->hidden_write(d, attention, LAYER, x);
  d->ops->restore(d, attention, &b->heads.rope, LAYER, weight);
  if (b->shape.rotary > 0)
    d->ops->rope(d, attention, &b->heads.rope, qkv);
  d->ops->cache_write(d, attention, LAYER, qkv);
  d->ops->attention(d, attention, LAYER, qkv, to);
  pair_get(d, to, (size_t)b->rows * b->columns, out);
  pair_end(d);
  pair_release(d, x);
  pair_release(d, qkv);
  pair_release(d, to);
  pair_step_close(&step);
}

static void run_batch(const struct batch *b, struct lls_device *d, float *out)
{
  const struct lls_tensor_view matrix = view_of(b->weights, 3 * b->columns, b->columns),
                               bias = view_of(b->bias, 1, 3 * b->columns);
  struct lls_pool *pool;
  struct lls_weight *weight;
  enum lls_weight_format format =
      b->p->numbers == LLS_F32 ? LLS_WEIGHTS_F32 : LLS_WEIGHTS_BF16;
  assert_int_equal(d->ops->weight_create(d, &matrix, &bias, 1, format, &weight, NULL), 0);
  assert_int_equal(d->ops->pool_create(d, &b->pool, &pool, NULL), 0);
  for (uint32_t i = 0; i < b->n_sequences; i++) {
    const struct sequence *s = &b->sequences[i];
    for (uint32_t token = 0, n; s->kind != PLAIN && token < s->context; token += n) {
      n = s->context - token < PAIR_ROWS ? s->context - token : PAIR_ROWS;
      keep(b, d, pool, s, token, n);
    }
  }
  for (int again = 0; again < 2; again++) /* K and V are restored in each step */
    run_step(b, d, pool, weight, out);
  d->ops->pool_destroy(d, pool);
  d->ops->weight_destroy(d, weight);
}

static void check(struct batch *b)
{
  size_t n = (size_t)b->rows * b->columns;
  float *wanted = malloc(n * sizeof *wanted), *got = malloc(n * sizeof *got);
  bool bf16 = b->p->numbers == LLS_BF16 || b->shape.element == LLS_BF16;
  b->qkv = pair_random(b->p, 3 * n, random_float);
  run_batch(b, b->p->cpu, wanted);
  run_batch(b, b->p->cuda, got);
  pair_compare(b->p, "hidden", got, wanted, n, pair_epsilon(b->p), bf16 ? 0.02 : 2e-5);
  free(wanted);
  free(got);
}

/* ---- tests ------------------------------------------------------------------------- */

static void mixed(const struct pair *p, const struct shape *shape)
{
  struct batch *b = open_batch(p, shape);
  add_sequence(b, HIDDEN, random_between(20, 90), 1);
  add_sequence(b, PLAIN, 0, random_between(2, 9));
  add_sequence(b, HIDDEN, random_between(1, 40), random_between(2, 20));
  add_sequence(b, CONVERTED, random_between(1, 60), 1);
  add_sequence(b, HIDDEN, 0, random_between(1, 17));
  check(b);
  close_batch(b);
}

static void shapes(const struct pair *p)
{
  static const struct shape all[] = {
      {.heads = 2, .head_dim = 64, .block_tokens = 16},                 /* OPT */
      {.heads = 1, .head_dim = 128, .block_tokens = 16, .rotary = 128}, /* Llama */
      {.heads = 2, .head_dim = 64, .block_tokens = 5, .rotary = 16},    /* NeoX */
      {.heads = 4, .head_dim = 20, .block_tokens = 8, .rotary = 10},
      {.heads = 2, .head_dim = 8, .block_tokens = 1, .rotary = 8},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    struct shape shape = all[i];
    for (int k = 0; k < 4; k++) {
      shape.element = k % 2 ? LLS_BF16 : LLS_F32;
      shape.int8 = k < 2 ? LLS_INT8_OFF : LLS_INT8_ALL;
      mixed(p, &shape);
    }
  }
}

/* More than one product takes. */
static void long_context(const struct pair *p)
{
  const struct shape shape = {
      .heads = 2, .head_dim = 8, .block_tokens = 16, .rotary = 8, .element = p->numbers};
  struct batch *b = open_batch(p, &shape);
  add_sequence(b, HIDDEN, 30, 1);
  add_sequence(b, CONVERTED, 2040, 1);
  add_sequence(b, HIDDEN, 100, 1);
  check(b);
  close_batch(b);
}

static void refusals(const struct pair *p)
{
  const struct lls_device_ops *ops = p->cuda->ops;
  const struct lls_pool_shape shape = {.layers = 1,
                                       .kv_heads = 1,
                                       .head_dim = 64,
                                       .block_tokens = 16,
                                       .element = LLS_BF16,
                                       .device_units = 4};
  const struct lls_attention_shape attention = {
      .heads = 1, .kv_heads = 1, .head_dim = 64};
  const struct lls_device_step step = {0};
  struct lls_error err = {""};
  struct lls_pool *pool;
  assert_int_equal(ops->pool_create(p->cuda, &shape, &pool, NULL), 0);
  assert_int_equal(ops->step_begin(p->cuda, pool, &step), 0);
  ops->hidden_write(p->cuda, &attention, 0, NULL);
  assert_int_equal(ops->step_end(p->cuda, &err), -ENOTSUP);
  assert_non_null(strstr(err.text, "without room for a hidden cache"));
  ops->pool_destroy(p->cuda, pool);
}

#define TEST(name)                                                                       \
  static void test_##name(void **state)                                                  \
  {                                                                                      \
    (void)state;                                                                         \
    each_pair(LLS_F32, MAX_COLUMNS, name);                                               \
    each_pair(LLS_BF16, MAX_COLUMNS, name);                                              \
  }

TEST(shapes)
TEST(long_context)
TEST(refusals)

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_shapes),
      cmocka_unit_test(test_long_context),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
