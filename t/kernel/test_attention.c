/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention over block tables at every ISA level of this CPU against softmax(q K) V in
 * double. K and V get into the pool by cache_write, so that both agree on where a token
 * lies; tables are as untidy as the SDK allows: any block size, blocks anywhere, partly
 * filled, from either end, K and V cut differently.
 *
 * Tolerance: a score is a sum of head_dim products in f32, so it is off by at most
 * SCORE_EPSILON of the magnitudes added, which changes weights by that part; weights and
 * their sum add VALUE_EPSILON of the largest value. Over a cache of bf16 AMX rounds q, as
 * the reference then does, and weights, which adds AMX_EPSILON of the largest value.
 */
#include "t/kernel/fixture.h"

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/number.h"
#include "kernels/cpu/pool.h"

#define SCORE_EPSILON 1e-6
#define VALUE_EPSILON 4e-6
#define AMX_EPSILON   2.2e-3 /* 2^-9 of rounding weights, 1e-4 of their cubic */

#define MAX_ROWS      512
#define MAX_SEQUENCES 12
#define MAX_TOKENS    2600

struct shape {
  uint32_t kv_heads, group, head_dim, block_tokens, window;
  enum lls_dtype element;
  bool int8; /* some full blocks are */
};

struct sequence {
  uint32_t context, n_rows;
  float *qkv; /* (context + n_rows, columns), INT8 tokens as they are read */
  bool *int8; /* (2, context + n_rows) of K, of V: in a block of INT8 */
  struct lls_block_table table;
  struct lls_block_entry *k, *v;
};

struct batch {
  struct lls_device *device;
  struct shape shape;
  struct lls_attention_shape attention;
  size_t columns, out_columns;
  struct lls_pool *pool;
  uint32_t *blocks, n_blocks, used; /* in a random order */
  struct sequence sequences[MAX_SEQUENCES];
  uint32_t n_sequences;
};

#define LAYERS 2
#define LAYER  1

/* ---- making a batch -------------------------------------------------------------- */

static void open_batch(struct batch *b, struct lls_device *device,
                       const struct shape *shape, uint32_t n_blocks)
{
  *b = (struct batch){.device = device, .shape = *shape, .n_blocks = n_blocks};
  uint32_t heads = shape->kv_heads * shape->group;
  b->attention = (struct lls_attention_shape){
      .heads = heads,
      .kv_heads = shape->kv_heads,
      .head_dim = shape->head_dim,
      .scale = 1 / sqrtf((float)shape->head_dim),
      .window = shape->window,
  };
  b->columns = (heads + 2 * shape->kv_heads) * shape->head_dim;
  b->out_columns = heads * shape->head_dim;
  const struct lls_pool_shape pool = {
      .layers = LAYERS,
      .kv_heads = shape->kv_heads,
      .head_dim = shape->head_dim,
      .block_tokens = shape->block_tokens,
      .element = shape->element,
      .device_units = n_blocks,
      .int8 = shape->int8 ? LLS_INT8_ALL : LLS_INT8_OFF,
  };
  assert_int_equal(device->ops->pool_create(device, &pool, &b->pool, NULL), 0);
  b->blocks = malloc(n_blocks * sizeof *b->blocks);
  for (uint32_t i = 0; i < n_blocks; i++) {
    uint32_t j = random_between(0, i);
    b->blocks[i] = b->blocks[j];
    b->blocks[j] = i;
  }
}

static void close_batch(struct batch *b)
{
  for (uint32_t i = 0; i < b->n_sequences; i++) {
    free(b->sequences[i].qkv);
    free(b->sequences[i].int8);
    free(b->sequences[i].k);
    free(b->sequences[i].v);
  }
  free(b->blocks);
  b->device->ops->pool_destroy(b->device, b->pool);
}

/* A list over n tokens; one in four entries is not full, each has a direction. */
static uint32_t make_list(struct batch *b, uint32_t n, bool tidy,
                          struct lls_block_entry **out)
{
  struct lls_block_entry *list = malloc((n + 1) * sizeof *list);
  uint32_t entries = 0, most = b->shape.block_tokens;
  for (uint32_t token = 0; token < n; token += list[entries++].count) {
    uint32_t count = !tidy && random_bits() % 4 == 0 ? random_between(1, most) : most;
    assert_true(b->used < b->n_blocks);
    list[entries] = (struct lls_block_entry){
        .block = b->blocks[b->used++],
        .first_token = token,
        .count = (uint16_t)(count < n - token ? count : n - token),
        .direction = tidy || random_bits() % 2 ? LLS_LEFT_TO_RIGHT : LLS_RIGHT_TO_LEFT,
    };
  }
  *out = list;
  return entries;
}

static void add_sequence(struct batch *b, uint32_t context, uint32_t n_rows, bool tidy)
{
  struct sequence *s = &b->sequences[b->n_sequences++];
  uint32_t n = context + n_rows;
  s->context = context;
  s->n_rows = n_rows;
  s->qkv = malloc(n * b->columns * sizeof(float));
  s->int8 = calloc(2 * (size_t)n, sizeof *s->int8);
  fill_random(s->qkv, n * b->columns);
  s->table.form = LLS_FORM_KV;
  s->table.k_count = make_list(b, n, tidy, &s->k);
  s->table.v_count = make_list(b, n, tidy, &s->v);
  s->table.k = s->k;
  s->table.v = s->v;
}

/* ---- running it ------------------------------------------------------------------ */

struct part { /* rows [first, first + n) of a sequence */
  uint32_t sequence, first, n;
};

/* Writes these rows to the cache and, if out is wanted, attends: out (rows, columns). */
static void run_parts(const struct batch *b, const struct part *parts, uint32_t n_parts,
                      float *out)
{
  struct lls_step_sequence sequences[MAX_SEQUENCES];
  uint32_t row_sequence[MAX_TOKENS], rows = 0;
  for (uint32_t i = 0; i < n_parts; i++) {
    sequences[i] = (struct lls_step_sequence){
        .table = &b->sequences[parts[i].sequence].table,
        .first_row = rows,
        .n_rows = parts[i].n,
        .context = parts[i].first,
    };
    for (uint32_t r = 0; r < parts[i].n; r++)
      row_sequence[rows++] = i;
  }
  float *qkv = malloc(rows * b->columns * sizeof *qkv);
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
  free(qkv);
}

/* Fills the cache with the contexts. */
static void write_contexts(const struct batch *b)
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

static uint32_t run_all(const struct batch *b, float *out)
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

/* ---- int8 ------------------------------------------------------------------------ */

/* What the tokens of an INT8 block are read as goes to where their K or V came from. */
static void read_int8(const struct batch *b, struct sequence *s,
                      const struct lls_block_entry *e, uint32_t first_column)
{
  const struct lls_pool *p = b->pool;
  uint32_t dims = b->shape.head_dim, slots = b->shape.block_tokens;
  for (uint32_t head = 0; head < b->shape.kv_heads; head++) {
    size_t index = (size_t)LAYER * b->shape.kv_heads + head;
    const uint8_t *q = (const uint8_t *)p->device + e->block * (p->unit_bytes / 2) +
                       index * slots * dims;
    const uint16_t *scales =
        p->device_scales + e->block * (lls_scale_bytes(&p->shape) / 2) + index * 2 * dims;
    for (uint32_t i = 0; i < slots; i++) {
      uint32_t slot = e->direction == LLS_LEFT_TO_RIGHT ? i : slots - 1 - i;
      float *x = s->qkv + (e->first_token + i) * b->columns + first_column + head * dims;
      for (uint32_t d = 0; d < dims; d++) {
        float got = lls_f16_to_f32(scales[dims + d]) +
                    lls_f16_to_f32(scales[d]) * q[slot * dims + d];
        double step = lls_f16_to_f32(scales[d]), was = (double)x[d];
        if (b->shape.element == LLS_BF16)
          was = lls_bf16_to_f32(lls_f32_to_bf16(x[d]));
        if (fabs((double)got - was) > step * 0.50001 + fabs(was) * 1e-6)
          fail_msg("%.9g was quantised to %.9g in steps of %.9g", was, (double)got, step);
        x[d] = got;
      }
    }
  }
}

/* Makes every other full block of the contexts one of INT8, as a manager would. */
static void quantise_list(struct batch *b, struct sequence *s,
                          struct lls_block_entry *list, uint32_t n, bool *int8,
                          uint32_t column)
{
  for (uint32_t i = 0; i < n; i++) {
    struct lls_block_entry *e = &list[i];
    if (e->count != b->shape.block_tokens || e->first_token + e->count > s->context ||
        random_bits() % 2 == 0)
      continue;
    const struct lls_copy copy = {
        .kind = LLS_COPY_DEVICE_TO_DEVICE,
        .n_slots = e->count,
        .source = e->block,
        .target = 2 * b->blocks[b->used++] + random_bits() % 2,
        .target_element = LLS_ELEMENT_INT8,
    };
    assert_true(b->used <= b->n_blocks);
    assert_int_equal(b->device->ops->pool_copy(b->device, b->pool, &copy, 1), 0);
    e->block = copy.target;
    e->element = LLS_ELEMENT_INT8;
    memset(int8 + e->first_token, true, e->count);
    read_int8(b, s, e, column);
  }
}

static void quantise_contexts(struct batch *b)
{
  uint32_t kv = b->attention.heads * b->shape.head_dim;
  for (uint32_t i = 0; i < b->n_sequences; i++) {
    struct sequence *s = &b->sequences[i];
    quantise_list(b, s, s->k, s->table.k_count, s->int8, kv);
    quantise_list(b, s, s->v, s->table.v_count, s->int8 + s->context + s->n_rows,
                  kv + b->shape.kv_heads * b->shape.head_dim);
  }
}

/* ---- the reference --------------------------------------------------------------- */

/* AMX multiplies bf16, in heads of any number of dims that vectors can take. */
static bool rounds(const struct batch *b)
{
  return lls_cpu(b->device)->isa == LLS_ISA_AMX && b->shape.element == LLS_BF16 &&
         b->shape.head_dim % 8 == 0;
}

/* As attention takes a number of the cache: INT8 ones are only rounded for AMX. */
static double cached(const struct batch *b, bool int8, float x)
{
  bool bf16 = int8 ? rounds(b) : b->shape.element == LLS_BF16;
  return bf16 ? lls_bf16_to_f32(lls_f32_to_bf16(x)) : x;
}

/* One head of one row: out (head_dim); returns the tolerance. */
static double reference(const struct batch *b, const struct sequence *s, uint32_t row,
                        uint32_t head, double *out)
{
  const struct shape *shape = &b->shape;
  uint32_t position = s->context + row, n = shape->head_dim, first = 0;
  uint32_t k_column = (b->attention.heads + head / shape->group) * n;
  uint32_t v_column = k_column + shape->kv_heads * n;
  const float *given = s->qkv + position * b->columns + head * n;
  double q[256];
  for (uint32_t d = 0; d < n; d++)
    q[d] = rounds(b) ? lls_bf16_to_f32(lls_f32_to_bf16(given[d])) : given[d];
  double score[MAX_TOKENS], top = -INFINITY, sum = 0, added = 0, largest = 0;
  if (shape->window > 0 && position >= shape->window)
    first = position + 1 - shape->window;
  for (uint32_t t = first; t <= position; t++) {
    const float *k = s->qkv + t * b->columns + k_column;
    double magnitude = 0;
    score[t] = 0;
    for (uint32_t d = 0; d < n; d++) {
      score[t] += q[d] * cached(b, s->int8[t], k[d]) * (double)b->attention.scale;
      magnitude += fabs(q[d] * cached(b, s->int8[t], k[d])) * (double)b->attention.scale;
    }
    top = fmax(top, score[t]);
    added = fmax(added, magnitude);
  }
  memset(out, 0, n * sizeof *out);
  for (uint32_t t = first; t <= position; t++) {
    const float *v = s->qkv + t * b->columns + v_column;
    bool v8 = s->int8[s->context + s->n_rows + t];
    double weight = exp(score[t] - top);
    sum += weight;
    for (uint32_t d = 0; d < n; d++) {
      out[d] += weight * cached(b, v8, v[d]);
      largest = fmax(largest, fabs(cached(b, v8, v[d])));
    }
  }
  for (uint32_t d = 0; d < n; d++)
    out[d] /= sum;
  return (VALUE_EPSILON + (rounds(b) ? AMX_EPSILON : 0) + SCORE_EPSILON * added) *
         largest;
}

static void check_rows(const struct batch *b, const float *out)
{
  double wanted[256];
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

static void check(struct batch *b)
{
  float *out = malloc(MAX_ROWS * b->out_columns * sizeof *out);
  write_contexts(b);
  if (b->shape.int8)
    quantise_contexts(b);
  run_all(b, out);
  check_rows(b, out);
  free(out);
}

/* ---- tests ----------------------------------------------------------------------- */

/* Decodes, prefills and chunks of ragged lengths together. */
static void mixed_batch(struct lls_device *device, const struct shape *shape)
{
  struct batch b;
  uint32_t tokens = 5 * 90 + 2 * 190;
  open_batch(&b, device, shape, 6 * tokens + 16);
  for (int i = 0; i < 3; i++)
    add_sequence(&b, random_between(0, 130), 1, i == 0);
  add_sequence(&b, 0, random_between(2, 90), true);
  add_sequence(&b, random_between(1, 130), random_between(2, 60), false);
  add_sequence(&b, 0, 1, false);
  check(&b);
  close_batch(&b);
}

static void head_dims(struct lls_device *device)
{
  static const uint32_t dims[] = {8, 16, 24, 40, 64, 80, 96, 104, 128, 192, 256, 12, 1};
  for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
    for (int bf16 = 0; bf16 < 2; bf16++) {
      struct shape shape = {
          .kv_heads = 2,
          .group = random_between(1, 3),
          .head_dim = dims[i],
          .block_tokens = 16,
          .element = bf16 ? LLS_BF16 : LLS_F32,
      };
      mixed_batch(device, &shape);
    }
  }
}

static void test_head_dims(void **state)
{
  (void)state;
  each_level(2, MAX_ROWS, 4096, head_dims);
}

static void block_sizes(struct lls_device *device)
{
  static const uint32_t sizes[] = {1, 2, 3, 5, 8, 16, 31, 32, 64, 100, 128};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    struct shape shape = {
        .kv_heads = 1,
        .group = 2,
        .head_dim = 16,
        .block_tokens = sizes[i],
        .element = i % 2 ? LLS_BF16 : LLS_F32,
    };
    mixed_batch(device, &shape);
  }
}

static void test_block_sizes(void **state)
{
  (void)state;
  each_level(2, MAX_ROWS, 4096, block_sizes);
}

/* Queries are taken up to six at a time; all remainders, and more than an item holds. */
static void groups(struct lls_device *device)
{
  static const uint32_t sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 71, 128};
  for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
    struct shape shape = {
        .kv_heads = 1,
        .group = sizes[i / 2],
        .head_dim = 16,
        .block_tokens = 16,
        .element = i % 2 ? LLS_BF16 : LLS_F32,
    };
    struct batch b;
    open_batch(&b, device, &shape, 200);
    add_sequence(&b, 77, 1, false);
    add_sequence(&b, 3, 11, false);
    check(&b);
    close_batch(&b);
  }
}

static void test_groups(void **state)
{
  (void)state;
  each_level(2, MAX_ROWS, 4096, groups);
}

/* Blocks of INT8 between others, in heads and blocks of all sizes. */
static void int8_blocks(struct lls_device *device)
{
  static const uint32_t dims[] = {8, 16, 24, 64, 80, 128, 256, 12, 1};
  static const uint32_t sizes[] = {1, 4, 16, 16, 32, 100, 7, 16, 16};
  for (size_t i = 0; i < 2 * sizeof dims / sizeof *dims; i++) {
    struct shape shape = {
        .kv_heads = 2,
        .group = random_between(1, 3),
        .head_dim = dims[i / 2],
        .block_tokens = sizes[i / 2],
        .element = i % 2 ? LLS_BF16 : LLS_F32,
        .int8 = true,
    };
    mixed_batch(device, &shape);
  }
}

static void test_int8_blocks(void **state)
{
  (void)state;
  each_level(2, MAX_ROWS, 4096, int8_blocks);
}

static void windows(struct lls_device *device)
{
  static const uint32_t sizes[] = {1, 2, 7, 63, 64, 65, 100, 1000};
  for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
    struct shape shape = {
        .kv_heads = 1,
        .group = 3,
        .head_dim = 16,
        .block_tokens = 16,
        .element = i % 2 ? LLS_BF16 : LLS_F32,
        .window = sizes[i / 2],
    };
    mixed_batch(device, &shape);
  }
}

static void test_windows(void **state)
{
  (void)state;
  each_level(2, MAX_ROWS, 4096, windows);
}

/* Contexts of several chunks, which threads share, with and without a window. */
static void long_contexts(struct lls_device *device)
{
  static const uint32_t sizes[] = {0, 500, 1500};
  for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
    struct shape shape = {
        .kv_heads = 1,
        .group = 2,
        .head_dim = 16,
        .block_tokens = 32,
        .element = i % 2 ? LLS_BF16 : LLS_F32,
        .window = sizes[i / 2],
    };
    struct batch b;
    open_batch(&b, device, &shape, 1000);
    add_sequence(&b, 2500, 1, false);
    add_sequence(&b, 1000, 40, true);
    add_sequence(&b, 30, 1, false);
    check(&b);
    close_batch(&b);
  }
}

static void test_long_contexts(void **state)
{
  (void)state;
  each_level(1, MAX_ROWS, 4096, long_contexts);
  each_level(5, MAX_ROWS, 4096, long_contexts);
}

/* Two sequences fill the same blocks from both ends, as direction is meant. */
static void shared_blocks(struct lls_device *device)
{
  struct shape shape = {
      .kv_heads = 2, .group = 2, .head_dim = 16, .block_tokens = 16, .element = LLS_F32};
  struct batch b;
  open_batch(&b, device, &shape, 100);
  add_sequence(&b, 9, 1, true); /* one block of K and one of V, 10 of 16 slots */
  add_sequence(&b, 4, 2, true); /* 6 slots */
  b.sequences[1].k[0].block = b.sequences[0].k[0].block;
  b.sequences[1].v[0].block = b.sequences[0].v[0].block;
  b.sequences[1].k[0].direction = b.sequences[1].v[0].direction = LLS_RIGHT_TO_LEFT;
  check(&b);
  close_batch(&b);
}

static void test_shared_blocks(void **state)
{
  (void)state;
  each_level(1, MAX_ROWS, 4096, shared_blocks);
}

/* The whole prompt at once, then in pieces among other work: the same bits. */
static void same_bits_of(struct lls_device *device, const struct shape *shape)
{
  static const uint32_t pieces[] = {1, 3, 64, 100, 1, 1, 90, 17, 200, 1, 34};
  struct batch b;
  uint32_t n = 512, done = 0;
  open_batch(&b, device, shape, 600);
  add_sequence(&b, 0, n, true);
  add_sequence(&b, 1800, 1, true);
  write_contexts(&b);
  float *whole = malloc(MAX_ROWS * b.out_columns * sizeof *whole);
  float *part = malloc(MAX_ROWS * b.out_columns * sizeof *part);
  run_parts(&b, &(struct part){0, 0, n}, 1, whole);
  for (size_t i = 0; i < sizeof pieces / sizeof *pieces; done += pieces[i++]) {
    const struct part parts[] = {{1, 1800, 1}, {0, done, pieces[i]}};
    run_parts(&b, parts, 2, part);
    assert_memory_equal(part + b.out_columns, whole + done * b.out_columns,
                        pieces[i] * b.out_columns * sizeof *part);
  }
  assert_int_equal(done, n);
  free(whole);
  free(part);
  close_batch(&b);
}

static void same_bits(struct lls_device *device)
{
  static const struct shape shapes[] = {
      {.kv_heads = 2, .group = 3, .head_dim = 24, .block_tokens = 16},
      {.kv_heads = 1, .group = 8, .head_dim = 64, .block_tokens = 16, .window = 100},
  };
  for (size_t i = 0; i < 4; i++) {
    struct shape shape = shapes[i / 2];
    shape.element = i % 2 ? LLS_BF16 : LLS_F32;
    same_bits_of(device, &shape);
  }
}

static void test_same_bits_in_any_pieces(void **state)
{
  (void)state;
  each_level(2, MAX_ROWS, 4096, same_bits);
}

/* A long context on one thread and shared by many. */
static void test_same_bits_on_any_threads(void **state)
{
  (void)state;
  struct shape shape = {
      .kv_heads = 1, .group = 4, .head_dim = 32, .block_tokens = 16, .element = LLS_BF16};
  for (size_t i = 0; i < N_LEVELS; i++) {
    float out[2][4 * 32 * 3];
    for (uint32_t threads = 1; threads <= 7; threads += 6) {
      struct lls_device *device = create_device(levels[i], threads, MAX_ROWS, 4096);
      if (device == NULL)
        continue;
      struct batch b;
      random_state = 7;
      open_batch(&b, device, &shape, 1000);
      add_sequence(&b, 2590, 1, false);
      add_sequence(&b, 1200, 2, false);
      write_contexts(&b);
      run_all(&b, out[threads / 7]);
      close_batch(&b);
      device->ops->destroy(device);
      if (threads == 7)
        assert_memory_equal(out[0], out[1], sizeof out[0]);
    }
  }
}

/* Empty steps, and shapes that the pool was not made for. */
static void refusals(struct lls_device *device)
{
  struct shape shape = {
      .kv_heads = 1, .group = 1, .head_dim = 8, .block_tokens = 16, .element = LLS_F32};
  struct batch b;
  float out[8];
  open_batch(&b, device, &shape, 10);
  run_parts(&b, NULL, 0, out);
  const struct lls_device_step step = {0};
  struct lls_attention_shape other = b.attention;
  other.head_dim = 16;
  assert_int_equal(device->ops->step_begin(device, b.pool, &step), 0);
  device->ops->attention(device, &other, 0, out, out);
  assert_int_equal(device->ops->step_end(device, NULL), -EINVAL);
  assert_int_equal(device->ops->step_begin(device, b.pool, &step), 0);
  device->ops->attention(device, &b.attention, LAYERS, out, out);
  assert_int_equal(device->ops->step_end(device, NULL), -EINVAL);
  close_batch(&b);
}

static void test_refusals(void **state)
{
  (void)state;
  each_level(1, MAX_ROWS, 4096, refusals);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_head_dims),
      cmocka_unit_test(test_block_sizes),
      cmocka_unit_test(test_groups),
      cmocka_unit_test(test_int8_blocks),
      cmocka_unit_test(test_windows),
      cmocka_unit_test(test_long_contexts),
      cmocka_unit_test(test_shared_blocks),
      cmocka_unit_test(test_same_bits_in_any_pieces),
      cmocka_unit_test(test_same_bits_on_any_threads),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
