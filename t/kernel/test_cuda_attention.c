/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rope, cache_write and attention of the CUDA device against the CPU's, over the general
 * block table: any block size, blocks anywhere and partly filled, from either end, K and
 * V cut differently; decodes, chunks and whole prompts in one batch, with shared q heads
 * and windows, and contexts long enough to be shared out among blocks of threads.
 *
 * Tensor cores round weights to bf16, by 2^-9 of each: the result is off by that part of
 * the largest value, beside its own rounding.
 */
#include "t/kernel/pair.h"

#define LAYERS        2
#define LAYER         1
#define MAX_SEQUENCES 8
#define MAX_COLUMNS   4096

struct shape {
  uint32_t kv_heads, group, head_dim, block_tokens, window, rotary;
  enum lls_dtype element;
};

struct sequence {
  uint32_t context, n_rows;
  struct lls_block_table table;
  struct lls_block_entry *k, *v;
  float *qkv; /* (context + n_rows, columns) */
};

struct batch {
  const struct pair *p;
  struct shape shape;
  struct lls_attention_shape attention;
  struct lls_rope_shape rope;
  float frequency[128];
  uint32_t columns, out_columns;
  struct pair_blocks blocks;
  struct sequence sequences[MAX_SEQUENCES];
  uint32_t n_sequences;
};

/* ---- making a batch -----------------------------------------------------------------
 */

static struct batch *open_batch(const struct pair *p, const struct shape *shape)
{
  struct batch *b = calloc(1, sizeof *b);
  uint32_t heads = shape->kv_heads * shape->group;
  b->p = p;
  b->shape = *shape;
  b->attention = (struct lls_attention_shape){
      .heads = heads,
      .kv_heads = shape->kv_heads,
      .head_dim = shape->head_dim,
      .scale = 1 / sqrtf((float)shape->head_dim),
      .window = shape->window,
  };
  for (uint32_t i = 0; i < shape->rotary / 2; i++)
    b->frequency[i] = powf(10000, -2.0f * (float)i / (float)shape->rotary);
  b->rope = (struct lls_rope_shape){
      .head_dim = shape->head_dim,
      .rotary_dims = shape->rotary,
      .inverse_frequency = b->frequency,
      .attention_factor = 1.25f,
  };
  b->columns = (heads + 2 * shape->kv_heads) * shape->head_dim;
  b->out_columns = heads * shape->head_dim;
  pair_shuffle(&b->blocks, 1024, shape->block_tokens);
  return b;
}

static void close_batch(struct batch *b)
{
  for (uint32_t i = 0; i < b->n_sequences; i++) {
    free(b->sequences[i].qkv);
    free(b->sequences[i].k);
    free(b->sequences[i].v);
  }
  free(b);
}

static void add_sequence(struct batch *b, uint32_t context, uint32_t n_rows, bool tidy)
{
  struct sequence *s = &b->sequences[b->n_sequences++];
  uint32_t n = context + n_rows;
  s->context = context;
  s->n_rows = n_rows;
  s->qkv = pair_random(b->p, (size_t)n * b->columns, random_float);
  s->table.form = LLS_FORM_KV;
  s->table.k_count = pair_list(&b->blocks, n, tidy, &s->k);
  s->table.v_count = pair_list(&b->blocks, n, tidy, &s->v);
  s->table.k = s->k;
  s->table.v = s->v;
}

/* ---- running it ---------------------------------------------------------------------
 */

struct part { /* rows [first, first + n) of a sequence */
  uint32_t sequence, first, n;
};

/* One step over these rows; out (rows, out_columns) or NULL. */
static void run_parts(const struct batch *b, struct lls_device *d, struct lls_pool *pool,
                      const struct part *parts, uint32_t n_parts, float *out)
{
  struct lls_step_sequence sequences[MAX_SEQUENCES];
  uint32_t row_sequence[PAIR_ROWS], rows = 0;
  int32_t positions[PAIR_ROWS];
  float *qkv = malloc(PAIR_ROWS * (size_t)b->columns * sizeof *qkv);
  for (uint32_t i = 0; i < n_parts; i++) {
    const struct sequence *s = &b->sequences[parts[i].sequence];
    sequences[i] = (struct lls_step_sequence){.table = &s->table,
                                              .first_row = rows,
                                              .n_rows = parts[i].n,
                                              .context = parts[i].first};
    memcpy(qkv + (size_t)rows * b->columns, s->qkv + (size_t)parts[i].first * b->columns,
           (size_t)parts[i].n * b->columns * sizeof *qkv);
    for (uint32_t r = 0; r < parts[i].n; r++, rows++) {
      row_sequence[rows] = i;
      positions[rows] = (int32_t)(parts[i].first + r);
    }
  }
  assert_true(rows <= PAIR_ROWS);
  void *in = pair_put(d, qkv, rows, b->columns),
       *to = pair_buffer(d, rows, b->out_columns);
  const struct lls_device_step step = {
      .n_rows = rows,
      .n_sequences = n_parts,
      .positions = positions,
      .sequence = row_sequence,
      .sequences = sequences,
  };
  assert_int_equal(d->ops->step_begin(d, pool, &step), 0);
  if (b->shape.rotary > 0)
    d->ops->rope(d, &b->attention, &b->rope, in);
  d->ops->cache_write(d, &b->attention, LAYER, in);
  if (out != NULL) {
    d->ops->attention(d, &b->attention, LAYER, in, to);
    pair_get(d, to, (size_t)rows * b->out_columns, out);
  }
  pair_end(d);
  pair_release(d, in);
  pair_release(d, to);
  free(qkv);
}

/* Fills a pool with the contexts and attends from all rows. */
static uint32_t run_batch(const struct batch *b, struct lls_device *d, float *out)
{
  const struct lls_pool_shape shape = {
      .layers = LAYERS,
      .kv_heads = b->shape.kv_heads,
      .head_dim = b->shape.head_dim,
      .block_tokens = b->shape.block_tokens,
      .element = b->shape.element,
      .device_units = b->blocks.n,
  };
  struct lls_pool *pool;
  struct part parts[MAX_SEQUENCES];
  uint32_t rows = 0;
  assert_int_equal(d->ops->pool_create(d, &shape, &pool, NULL), 0);
  for (uint32_t i = 0; i < b->n_sequences; i++) {
    const struct sequence *s = &b->sequences[i];
    for (uint32_t token = 0, n; token < s->context; token += n) {
      n = s->context - token < PAIR_ROWS ? s->context - token : PAIR_ROWS;
      run_parts(b, d, pool, &(struct part){i, token, n}, 1, NULL);
    }
    parts[i] = (struct part){i, s->context, s->n_rows};
    rows += s->n_rows;
  }
  run_parts(b, d, pool, parts, b->n_sequences, out);
  d->ops->pool_destroy(d, pool);
  return rows;
}

static void check(const struct batch *b)
{
  size_t most = PAIR_ROWS * (size_t)b->out_columns;
  float *wanted = malloc(most * sizeof *wanted), *got = malloc(most * sizeof *got);
  uint32_t rows = run_batch(b, b->p->cpu, wanted);
  run_batch(b, b->p->cuda, got);
  bool bf16 = b->p->numbers == LLS_BF16 || b->shape.element == LLS_BF16;
  pair_compare(b->p, "attention", got, wanted, (size_t)rows * b->out_columns,
               pair_epsilon(b->p), bf16 ? 0.006 : 1e-5);
  free(wanted);
  free(got);
}

/* ---- tests --------------------------------------------------------------------------
 */

static void mixed_batch(const struct pair *p, const struct shape *shape)
{
  struct batch *b = open_batch(p, shape);
  add_sequence(b, random_between(0, 70), 1, true);
  add_sequence(b, random_between(60, 130), 1, false);
  add_sequence(b, 0, random_between(2, 40), true);
  add_sequence(b, random_between(1, 100), random_between(2, 20), false);
  add_sequence(b, 0, 1, false);
  check(b);
  close_batch(b);
}

/* Tensor cores take 64, 80, 96 and 128, and bf16 in a cache of bf16. */
static void head_dims(const struct pair *p)
{
  static const uint32_t dims[] = {64, 80, 96, 128, 8, 20, 256, 1};
  for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
    const struct shape shape = {
        .kv_heads = 2,
        .group = random_between(1, 3),
        .head_dim = dims[i],
        .block_tokens = 16,
        .rotary = i % 2 ? dims[i] / 4 * 2 : 0,
        .element = p->numbers,
    };
    mixed_batch(p, &shape);
  }
}

static void caches(const struct pair *p)
{
  const struct shape shape = {
      .kv_heads = 1,
      .group = 2,
      .head_dim = 64,
      .block_tokens = 16,
      .rotary = 64,
      .element = p->numbers == LLS_F32 ? LLS_BF16 : LLS_F32,
  };
  mixed_batch(p, &shape);
}

static void block_sizes(const struct pair *p)
{
  static const uint32_t sizes[] = {1, 3, 8, 31, 64, 100};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    const struct shape shape = {
        .kv_heads = 1,
        .group = 2,
        .head_dim = 64,
        .block_tokens = sizes[i],
        .element = p->numbers,
    };
    mixed_batch(p, &shape);
  }
}

/* q heads of a KV head: 16 fill a small item, 17 make a large one, 100 one a row. */
static void groups(const struct pair *p)
{
  static const uint32_t sizes[] = {1, 5, 8, 16, 17, 50, 100};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    const struct shape shape = {
        .kv_heads = 1,
        .group = sizes[i],
        .head_dim = sizes[i] > 50 ? 8 : 64,
        .block_tokens = 16,
        .element = p->numbers,
    };
    struct batch *b = open_batch(p, &shape);
    add_sequence(b, 77, 1, false);
    add_sequence(b, 3, 11, false);
    add_sequence(b, 64, 2, true);
    check(b);
    close_batch(b);
  }
}

static void windows(const struct pair *p)
{
  static const uint32_t sizes[] = {1, 7, 64, 65, 100, 1000};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    const struct shape shape = {
        .kv_heads = 1,
        .group = 3,
        .head_dim = 64,
        .block_tokens = 16,
        .window = sizes[i],
        .element = p->numbers,
    };
    mixed_batch(p, &shape);
  }
}

/* The emulated GPU has 4 multiprocessors: these contexts are cut in pieces, and the long
 * prompt's last rows are. */
static void long_contexts(const struct pair *p)
{
  static const uint32_t windows[] = {0, 600};
  for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
    const struct shape shape = {
        .kv_heads = 2,
        .group = 4,
        .head_dim = 64,
        .block_tokens = 32,
        .window = windows[i],
        .element = p->numbers,
    };
    struct batch *b = open_batch(p, &shape);
    add_sequence(b, 1500, 1, false);
    add_sequence(b, 30, 1, false);
    add_sequence(b, 700, 3, true);
    check(b);
    close_batch(b);
    b = open_batch(p, &shape);
    add_sequence(b, 1100, 40, true);
    check(b);
    close_batch(b);
  }
}

/* The same decode again and again is first run, then captured, then launched as a graph,
 * whatever its tables, tokens and lengths are by then. */
static void repeated_decodes(const struct pair *p)
{
  const struct shape shape = {
      .kv_heads = 2,
      .group = 2,
      .head_dim = 64,
      .block_tokens = 16,
      .rotary = 32,
      .element = p->numbers,
  };
  for (uint32_t length = 200; length < 205; length++) {
    struct batch *b = open_batch(p, &shape);
    for (uint32_t i = 0; i < 3; i++)
      add_sequence(b, length / (i + 1), 1, i > 0);
    check(b);
    close_batch(b);
  }
}

/* Another shape than the pool's. */
static void refusals(const struct pair *p)
{
  const struct lls_device_ops *ops = p->cuda->ops;
  const struct lls_pool_shape pool_shape = {.layers = 1,
                                            .kv_heads = 1,
                                            .head_dim = 64,
                                            .block_tokens = 16,
                                            .element = LLS_BF16,
                                            .device_units = 4};
  struct lls_pool *pool;
  struct lls_error err = {""};
  const struct lls_device_step step = {0};
  assert_int_equal(ops->pool_create(p->cuda, &pool_shape, &pool, NULL), 0);
  const struct lls_attention_shape wide = {.heads = 1, .kv_heads = 1, .head_dim = 128},
                                   right = {.heads = 1, .kv_heads = 1, .head_dim = 64};
  for (int i = 0; i < 3; i++) {
    assert_int_equal(ops->step_begin(p->cuda, pool, &step), 0);
    if (i == 0)
      ops->attention(p->cuda, &wide, 0, NULL, NULL);
    if (i == 1)
      ops->cache_write(p->cuda, &right, 1, NULL);
    assert_int_equal(ops->step_end(p->cuda, &err), i == 2 ? 0 : -EINVAL);
  }
  ops->pool_destroy(p->cuda, pool);
}

#define TEST(name)                                                                       \
  static void test_##name(void **state)                                                  \
  {                                                                                      \
    (void)state;                                                                         \
    each_pair(LLS_F32, MAX_COLUMNS * 2, name);                                           \
    each_pair(LLS_BF16, MAX_COLUMNS * 2, name);                                          \
  }

TEST(head_dims)
TEST(caches)
TEST(block_sizes)
TEST(groups)
TEST(windows)
TEST(long_contexts)
TEST(repeated_decodes)
TEST(refusals)

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_head_dims),        cmocka_unit_test(test_caches),
      cmocka_unit_test(test_block_sizes),      cmocka_unit_test(test_groups),
      cmocka_unit_test(test_windows),          cmocka_unit_test(test_long_contexts),
      cmocka_unit_test(test_repeated_decodes), cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
