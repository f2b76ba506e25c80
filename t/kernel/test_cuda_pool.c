/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of blocks on the CUDA device: random lists of copies, whole blocks and slots,
 * before a step and during it, against the same lists on the CPU. The pool's contents
 * are read by attention, from one row that sees one token: its result is that token's
 * V.
 */
#include "t/kernel/pair.h"

#include "t/simt/include/cuda_runtime_api.h"

#define BLOCK_UNITS   4 /* room for a block in KV form, or for two in INT8 */
#define HALF          2
#define DEVICE_BLOCKS 6
#define HOST_BLOCKS   4
#define DEVICE_UNITS  (BLOCK_UNITS * DEVICE_BLOCKS)
#define HOST_UNITS    (BLOCK_UNITS * HOST_BLOCKS)
#define BLOCK_TOKENS  4
#define HEADS         2
#define HEAD_DIM      8
#define COLUMNS       (3 * HEADS * HEAD_DIM)
#define SLOTS         (DEVICE_BLOCKS * BLOCK_TOKENS)

static const struct lls_attention_shape attention = {
    .heads = HEADS, .kv_heads = HEADS, .head_dim = HEAD_DIM, .scale = 1};

/* A step with one row for each slot of the pool, which holds K and V. */
struct all_slots {
  struct lls_block_entry entries[SLOTS];
  struct lls_step_sequence sequences[SLOTS];
  uint32_t row_sequence[SLOTS];
  struct lls_device_step step;
};

/* Slot i is the only token of an entry that ends, or begins, there. */
static void make_slots(struct all_slots *a, uint32_t block_units)
{
  memset(a, 0, sizeof *a);
  for (uint32_t i = 0; i < SLOTS; i++) {
    uint32_t slot = i % BLOCK_TOKENS;
    a->entries[i] = (struct lls_block_entry){.block = i / BLOCK_TOKENS * block_units,
                                             .count = BLOCK_TOKENS};
    a->sequences[i] =
        (struct lls_step_sequence){.kv = {.entries = &a->entries[i], .n = 1},
                                   .first_row = i,
                                   .n_rows = 1,
                                   .context = slot};
    a->row_sequence[i] = i;
  }
  a->step = (struct lls_device_step){.n_rows = SLOTS,
                                     .n_sequences = SLOTS,
                                     .sequence = a->row_sequence,
                                     .sequences = a->sequences};
}

/* Gives every slot vectors of its own, in K those of V. */
static void write_all(struct lls_device *d, struct lls_pool *pool, float *qkv)
{
  enum { N = HEADS * HEAD_DIM };
  static struct all_slots a;
  for (float *row = qkv; row < qkv + SLOTS * COLUMNS; row += COLUMNS)
    memcpy(row + N, row + 2 * N, N * sizeof *row);
  void *in = pair_put(d, qkv, SLOTS, COLUMNS);
  make_slots(&a, BLOCK_UNITS);
  assert_int_equal(d->ops->step_begin(d, pool, &a.step), 0);
  for (uint32_t layer = 0; layer < 2; layer++)
    d->ops->cache_write(d, &attention, layer, in);
  pair_end(d);
  pair_release(d, in);
}

/* The V of every slot: a window of one token sees only that. */
static void read_all(struct lls_device *d, struct lls_pool *pool, float *out)
{
  static struct all_slots a;
  struct lls_attention_shape one = attention;
  float *zeros = calloc(SLOTS * COLUMNS, sizeof *zeros);
  void *in = pair_put(d, zeros, SLOTS, COLUMNS);
  void *to = pair_buffer(d, SLOTS, HEADS * HEAD_DIM);
  one.window = 1;
  make_slots(&a, BLOCK_UNITS);
  for (uint32_t layer = 0; layer < 2; layer++) {
    assert_int_equal(d->ops->step_begin(d, pool, &a.step), 0);
    d->ops->attention(d, &one, layer, in, to);
    pair_get(d, to, SLOTS * HEADS * HEAD_DIM, out + layer * SLOTS * HEADS * HEAD_DIM);
    pair_end(d);
  }
  pair_release(d, in);
  pair_release(d, to);
  free(zeros);
}

static uint32_t random_block(bool host)
{
  return random_bits() % (host ? HOST_BLOCKS : DEVICE_BLOCKS) * BLOCK_UNITS;
}

static struct lls_copy random_copy(void)
{
  uint32_t way = random_between(0, 2);
  struct lls_copy c = {.source_tier = way == 1, .target_tier = way == 2};
  c.slot = (uint16_t)random_between(0, BLOCK_TOKENS);
  c.n_slots = (uint16_t)random_between(0, BLOCK_TOKENS - c.slot);
  if (random_bits() % 2)
    c.slot = 0, c.n_slots = BLOCK_TOKENS;
  c.source = random_block(lls_copy_way(&c) == LLS_COPY_HOST_TO_DEVICE);
  c.target = random_block(lls_copy_way(&c) == LLS_COPY_DEVICE_TO_HOST);
  if (lls_copy_way(&c) != LLS_COPY_DEVICE_TO_DEVICE || c.source != c.target)
    c.shift = (int16_t)(random_between(0, BLOCK_TOKENS - c.n_slots) - c.slot);
  return c;
}

#define N_COPIES 40

/* Does the copies, and a step concurrently. */
static void copy_all(struct lls_device *d, struct lls_pool *pool,
                     const struct lls_copy *copies, uint32_t n)
{
  const struct lls_device_step nothing = {0};
  assert_int_equal(d->ops->pool_copy(d, pool, copies, n), 0);
  assert_int_equal(d->ops->step_begin(d, pool, &nothing), 0);
  pair_end(d);
}

/* one_way: all copy slots from the host, so that one launch does many. */
static void copies(const struct pair *p, bool one_way)
{
  static const struct lls_pool_shape shape = {.layers = 2,
                                              .kv_heads = HEADS,
                                              .head_dim = HEAD_DIM,
                                              .block_tokens = BLOCK_TOKENS,
                                              .device_units = DEVICE_UNITS,
                                              .host_units = HOST_UNITS};
  enum { N = 2 * SLOTS * HEADS * HEAD_DIM };
  struct lls_pool_shape typed = shape;
  typed.element = p->numbers;
  struct lls_copy list[HOST_BLOCKS + N_COPIES] = {{0}};
  float *qkv = pair_random(p, SLOTS * COLUMNS, random_float), *result[2];
  for (uint32_t i = 0; i < HOST_BLOCKS; i++) /* the host tier has something in it */
    list[i] = (struct lls_copy){.target_tier = LLS_TIER_HOST,
                                .n_slots = BLOCK_TOKENS,
                                .source = i * BLOCK_UNITS,
                                .target = i * BLOCK_UNITS};
  for (uint32_t i = 0; i < N_COPIES; i++) {
    struct lls_copy *c = &list[HOST_BLOCKS + i];
    do
      *c = random_copy();
    while (one_way &&
           (lls_copy_way(c) != LLS_COPY_HOST_TO_DEVICE || c->n_slots == BLOCK_TOKENS));
    list[HOST_BLOCKS + i].order = i % 8 == 7 ? LLS_COPY_ASYNC : LLS_COPY_BEFORE_STEP;
  }
  for (int i = 0; i < 2; i++) {
    struct lls_device *d = i == 0 ? p->cpu : p->cuda;
    struct lls_pool *pool;
    result[i] = malloc(N * sizeof **result);
    assert_int_equal(d->ops->pool_create(d, &typed, &pool, NULL), 0);
    write_all(d, pool, qkv);
    copy_all(d, pool, list, HOST_BLOCKS + N_COPIES);
    read_all(d, pool, result[i]);
    d->ops->pool_destroy(d, pool);
  }
  pair_compare(p, "copies", result[1], result[0], N, 0, 0);
  free(result[0]);
  free(result[1]);
  free(qkv);
}

/* A step reads blocks after the copies that were ordered before it, and copies wait for
 * the step that wrote their blocks. */
static void order(const struct pair *p)
{
  for (int i = 0; i < 10; i++)
    copies(p, i % 2 == 1);
}

/* ---- int8 -------------------------------------------------------------------------- */

/* The contents of half of a block's room, as far as it may be read, at its first unit. An
 * int8 block takes at most a half, and no other block is in the room of a KV block. */
enum content { JUNK, MODEL, MODEL_END, INT8 };

struct contents {
  enum content unit[2][DEVICE_UNITS + HOST_UNITS]; /* of the device, of the host */
};

static bool is_int8(uint32_t form)
{
  return form == LLS_FORM_INT8;
}

static bool holds(const enum content *unit, uint32_t form, uint32_t block)
{
  return is_int8(form) ? unit[block] == INT8
                       : unit[block] == MODEL && unit[block + HALF] == MODEL_END;
}

static void put(enum content *unit, uint32_t form, uint32_t block)
{
  unit[block] = is_int8(form) ? INT8 : MODEL;
  if (is_int8(form))
    unit[block ^ HALF] = unit[block ^ HALF] == INT8 ? INT8 : JUNK;
  else
    unit[block + HALF] = MODEL_END;
}

static uint32_t random_block_in(bool host, uint32_t form)
{
  return random_block(host) + (is_int8(form) ? random_bits() % 2 * HALF : 0);
}

/* A random possible copy of a whole block to any other unit. */
static struct lls_copy random_int8_copy(struct contents *now)
{
  for (;;) {
    uint32_t way = random_between(0, 2);
    struct lls_copy c = {.source_tier = way == 1,
                         .target_tier = way == 2,
                         .n_slots = BLOCK_TOKENS,
                         .order = random_bits() % 8 == 0,
                         .source_form = random_bits() % 2 ? LLS_FORM_INT8 : LLS_FORM_KV,
                         .target_form = random_bits() % 2 ? LLS_FORM_INT8 : LLS_FORM_KV};
    bool from_host = lls_copy_way(&c) == LLS_COPY_HOST_TO_DEVICE;
    bool to_host = lls_copy_way(&c) == LLS_COPY_DEVICE_TO_HOST;
    c.source = random_block_in(from_host, c.source_form);
    c.target = random_block_in(to_host, c.target_form);
    bool same = lls_copy_way(&c) == LLS_COPY_DEVICE_TO_DEVICE &&
                c.source / BLOCK_UNITS == c.target / BLOCK_UNITS;
    if (same || !holds(now->unit[from_host], c.source_form, c.source))
      continue;
    put(now->unit[to_host], c.target_form, c.target);
    return c;
  }
}

/* V of every slot of int8 blocks. */
static void read_int8(struct lls_device *d, struct lls_pool *pool,
                      const enum content *unit, float *out)
{
  static struct all_slots a;
  struct lls_attention_shape one = attention;
  enum { N = HEADS * HEAD_DIM };
  float *zeros = calloc(SLOTS * COLUMNS, sizeof *zeros);
  void *in = pair_put(d, zeros, SLOTS, COLUMNS);
  void *to = pair_buffer(d, SLOTS, N);
  one.window = 1;
  for (uint32_t side = 0; side < 2; side++) {
    make_slots(&a, BLOCK_UNITS);
    for (uint32_t i = 0; i < SLOTS; i++) { /* unit 0 is also read as other rows' blocks */
      uint32_t block = a.entries[i].block + side * HALF;
      bool there = unit[block] == INT8;
      a.entries[i].block = there ? block : 0;
      a.entries[i].form = there ? LLS_FORM_INT8 : LLS_FORM_KV;
      a.entries[i].direction = i % 3 == 0;
    }
    for (uint32_t layer = 0; layer < 2; layer++, out += SLOTS * N) {
      assert_int_equal(d->ops->step_begin(d, pool, &a.step), 0);
      d->ops->attention(d, &one, layer, in, to);
      pair_get(d, to, SLOTS * N, out);
      pair_end(d);
      for (uint32_t i = 0; i < SLOTS; i++)
        if (a.entries[i].form == LLS_FORM_KV)
          memset(out + i * N, 0, N * sizeof *out);
    }
  }
  pair_release(d, in);
  pair_release(d, to);
  free(zeros);
}

/* Blocks are quantised, widened and moved between both tiers in any order: the result
 * equals the CPU's, in f32 to the last bit, which requires the same bytes. */
static void int8_copies(const struct pair *p)
{
  enum { N = SLOTS * HEADS * HEAD_DIM, LIST = 60 };
  const struct lls_pool_shape shape = {.layers = 2,
                                       .kv_heads = HEADS,
                                       .head_dim = HEAD_DIM,
                                       .block_tokens = BLOCK_TOKENS,
                                       .element = p->numbers,
                                       .device_units = DEVICE_UNITS,
                                       .host_units = HOST_UNITS,
                                       .int8 = LLS_INT8_ALL};
  struct contents now = {0};
  struct lls_copy list[LIST];
  for (uint32_t i = 0; i < DEVICE_BLOCKS; i++)
    put(now.unit[0], LLS_FORM_KV, i * BLOCK_UNITS);
  for (uint32_t i = 0; i < LIST; i++)
    list[i] = random_int8_copy(&now);
  float *qkv = pair_random(p, SLOTS * COLUMNS, random_activation), *result[2];
  for (int i = 0; i < 2; i++) {
    struct lls_device *d = i == 0 ? p->cpu : p->cuda;
    struct lls_pool *pool;
    result[i] = calloc(2 * N + 4 * N, sizeof **result);
    assert_int_equal(d->ops->pool_create(d, &shape, &pool, NULL), 0);
    write_all(d, pool, qkv);
    copy_all(d, pool, list, LIST);
    read_all(d, pool, result[i]);
    read_int8(d, pool, now.unit[0], result[i] + 2 * N);
    d->ops->pool_destroy(d, pool);
    /* only values of blocks in the cache's own element */
    for (uint32_t j = 0; j < 2 * N; j++)
      if (!holds(now.unit[0], LLS_FORM_KV,
                 j % N / (BLOCK_TOKENS * HEADS * HEAD_DIM) * BLOCK_UNITS))
        result[i][j] = 0;
  }
  pair_compare(p, "blocks", result[1], result[0], 2 * N, 0, 0);
  pair_compare(p, "int8 blocks", result[1] + 2 * N, result[0] + 2 * N, 4 * N,
               p->numbers == LLS_F32 ? 0 : pair_epsilon(p), 0);
  free(result[0]);
  free(result[1]);
  free(qkv);
}

static void int8_order(const struct pair *p)
{
  for (int i = 0; i < 40; i++)
    int8_copies(p);
}

static void outside(const struct pair *p)
{
  const struct lls_pool_shape shape = {.layers = 1,
                                       .kv_heads = 1,
                                       .head_dim = 8,
                                       .block_tokens = 4,
                                       .element = LLS_BF16,
                                       .device_units = 4,
                                       .host_units = 2};
  const struct lls_copy bad[] = {
      {.target_tier = LLS_TIER_HOST, .n_slots = 4, .source = 3},
      {.target_tier = LLS_TIER_HOST, .n_slots = 4, .target = 1},
      {.source_tier = LLS_TIER_HOST, .n_slots = 4, .source = 1},
      {.n_slots = 4, .target = 3},
      {.slot = 1, .n_slots = 4},
      {.source_tier = LLS_TIER_HOST, .target_tier = LLS_TIER_HOST, .n_slots = 4},
      {.target_tier = LLS_TIER_HOST, .n_slots = 4, .target_form = LLS_FORM_INT8},
      {.order = 2, .n_slots = 4},
  };
  struct lls_pool *pool;
  struct lls_device *d = p->cuda;
  assert_int_equal(d->ops->pool_create(d, &shape, &pool, NULL), 0);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_int_equal(d->ops->pool_copy(d, pool, &bad[i], 1), -EINVAL);
  d->ops->pool_destroy(d, pool);
  struct lls_pool_shape huge = shape;
  huge.device_units = UINT32_MAX;
  huge.layers = 1000;
  struct lls_error err = {""};
  assert_int_equal(d->ops->pool_create(d, &huge, &pool, &err), -ENOMEM);
  assert_non_null(strstr(err.text, "GPU"));
}

/* The units of the last block have blocks 0 and 1 in int8. */
#define FIRST_INT8 (BLOCK_UNITS * (DEVICE_BLOCKS - 1))

static void quantise_two(struct lls_device *d, struct lls_pool *pool)
{
  struct lls_copy list[2];
  for (uint32_t i = 0; i < 2; i++)
    list[i] = (struct lls_copy){.n_slots = BLOCK_TOKENS,
                                .source = i * BLOCK_UNITS,
                                .target = FIRST_INT8 + i * HALF,
                                .target_form = LLS_FORM_INT8};
  copy_all(d, pool, list, 2);
}

/* The pool that blocks are pulled from has int8 ones, and the other has none. */
static struct lls_pool *source_pool(struct lls_device *d,
                                    const struct lls_pool_shape *shape, float *numbers)
{
  struct lls_pool_shape with_scales = *shape;
  struct lls_pool *pool;
  with_scales.int8 = LLS_INT8_ALL;
  assert_int_equal(d->ops->pool_create(d, &with_scales, &pool, NULL), 0);
  write_all(d, pool, numbers);
  quantise_two(d, pool);
  return pool;
}

static struct lls_pull random_pull(void)
{
  struct lls_pull c = {.source = random_bits() % (DEVICE_BLOCKS - 1) * BLOCK_UNITS,
                       .target = random_block(false),
                       .source_form = LLS_FORM_KV,
                       .n_slots = (uint16_t)random_between(0, BLOCK_TOKENS)};
  if (random_bits() % 2)
    c.n_slots = BLOCK_TOKENS;
  c.source_slot = (uint16_t)random_between(0, BLOCK_TOKENS - c.n_slots);
  c.target_slot = (uint16_t)random_between(0, BLOCK_TOKENS - c.n_slots);
  if (random_bits() % 3 == 0) {
    c.source = FIRST_INT8 + random_bits() % 2 * HALF;
    c.source_form = LLS_FORM_INT8;
  }
  return c;
}

/* Pulls from one device's pool into another's, and reads the other pool. */
static void pull_all(struct lls_device *to, struct lls_device *from,
                     const struct lls_pool_shape *shape, float *there, float *here,
                     const struct lls_pull *list, float *result)
{
  const struct lls_device_step nothing = {0};
  struct lls_pool *source = source_pool(from, shape, there), *target;
  assert_int_equal(to->ops->pool_create(to, shape, &target, NULL), 0);
  write_all(to, target, here);
  assert_int_equal(to->ops->pool_pull(to, target, from, source, list, N_COPIES), 0);
  assert_int_equal(to->ops->step_begin(to, target, &nothing), 0);
  pair_end(to);
  read_all(to, target, result);
  from->ops->pool_destroy(from, source);
  to->ops->pool_destroy(to, target);
}

/* other: the GPU that the blocks come from. */
static void pulls_from(const struct pair *p, struct lls_device *other)
{
  enum { N = 2 * SLOTS * HEADS * HEAD_DIM };
  const struct lls_pool_shape shape = {.layers = 2,
                                       .kv_heads = HEADS,
                                       .head_dim = HEAD_DIM,
                                       .block_tokens = BLOCK_TOKENS,
                                       .element = p->numbers,
                                       .device_units = DEVICE_UNITS};
  struct lls_pull list[N_COPIES];
  float *there = pair_random(p, SLOTS * COLUMNS, random_float);
  float *here = pair_random(p, SLOTS * COLUMNS, random_float);
  float *expected = malloc(N * sizeof *expected), *result = malloc(N * sizeof *result);
  for (uint32_t i = 0; i < N_COPIES; i++)
    list[i] = random_pull();
  pull_all(p->cpu, p->cpu, &shape, there, here, list, expected);
  pull_all(p->cuda, other, &shape, there, here, list, result);
  pair_compare(p, "pulls", result, expected, N, 0, 0);
  free(there);
  free(here);
  free(expected);
  free(result);
}

/* Within a GPU and, emulated, between two GPUs with and without access to each
 * other. */
static void pulls(const struct pair *p)
{
  pulls_from(p, p->cuda);
  for (int reach = 0; reach < 2 && !p->on_gpu; reach++) {
    struct lls_device_options options = pair_options(p->numbers, 256);
    struct lls_device *other;
    struct lls_error err = {""};
    options.index = 1;
    simt_gpus(1, reach);
    assert_int_equal(lls_device_module.create(&options, &other, &err), -ENODEV);
    assert_non_null(strstr(err.text, "this machine has 1"));
    simt_gpus(2, reach);
    struct pair between = *p;
    assert_int_equal(lls_device_module.create(&options, &other, &err), 0);
    options.index = 0;
    assert_int_equal(lls_device_module.create(&options, &between.cuda, &err), 0);
    pulls_from(&between, other);
    assert_true((simt_direct_copies() > 0) == (reach == 1));
    between.cuda->ops->destroy(between.cuda);
    other->ops->destroy(other);
    simt_gpus(1, 0);
  }
}

/* The same through memory, as between processes. */
static void pack_all(struct lls_device *to, struct lls_device *from, char *packed,
                     const struct lls_pool_shape *shape, float *there, float *here,
                     const struct lls_pull *list, float *result)
{
  struct lls_pool *source = source_pool(from, shape, there), *target;
  char *at = packed;
  assert_int_equal(to->ops->pool_create(to, shape, &target, NULL), 0);
  write_all(to, target, here);
  assert_int_equal(from->ops->pool_pack(from, source, list, N_COPIES, packed), 0);
  for (uint32_t i = 0; i < N_COPIES; i++) { /* piece by piece */
    assert_int_equal(to->ops->pool_unpack(to, target, &list[i], 1, at), 0);
    at += lls_pulled_bytes(shape, &list[i]);
  }
  const struct lls_pull outside = {
      .source = DEVICE_UNITS, .target = DEVICE_UNITS, .n_slots = 1};
  assert_int_equal(from->ops->pool_pack(from, source, &outside, 1, packed), -EINVAL);
  assert_int_equal(to->ops->pool_unpack(to, target, &outside, 1, packed), -EINVAL);
  read_all(to, target, result);
  from->ops->pool_destroy(from, source);
  to->ops->pool_destroy(to, target);
}

/* Through the GPU's own memory: its bytes must equal the packed form in host memory. */
static void pieces(const struct pair *p, const struct lls_pool_shape *shape, float *there,
                   float *here, const struct lls_pull *list, float *result)
{
  const struct lls_device_ops *ops = p->cuda->ops;
  size_t bytes = N_COPIES * lls_form_bytes(shape, LLS_FORM_KV), head = sizeof(uint64_t),
         packed = 0;
  void *piece = NULL, *host = NULL;
  assert_int_equal(ops->alloc(p->cuda, LLS_MEMORY_PIECES, head + bytes, &piece), 0);
  assert_int_equal(ops->alloc(p->cuda, LLS_MEMORY_PINNED, head + bytes, &host), 0);
  memset(host, 7, head);
  assert_int_equal(ops->piece_write(p->cuda, piece, host, head), 0);
  pack_all(p->cuda, p->cuda, (char *)piece + head, shape, there, here, list, result);
  for (uint32_t i = 0; i < N_COPIES; i++)
    packed += lls_pulled_bytes(shape, &list[i]);
  memset(host, 0, head + bytes);
  assert_int_equal(ops->piece_read(p->cuda, piece, host, head + packed), 0);
  for (size_t i = 0; i < head; i++)
    assert_int_equal(((char *)host)[i], 7);
  struct lls_pool *source = source_pool(p->cpu, shape, there);
  char *expected = malloc(bytes);
  assert_int_equal(p->cpu->ops->pool_pack(p->cpu, source, list, N_COPIES, expected), 0);
  assert_memory_equal((char *)host + head, expected, packed);
  p->cpu->ops->pool_destroy(p->cpu, source);
  free(expected);
  ops->release(p->cuda, LLS_MEMORY_PIECES, piece);
  ops->release(p->cuda, LLS_MEMORY_PINNED, host);
}

/* Also from a CPU's pool: the packed form is the same on all devices. */
static void packs(const struct pair *p)
{
  enum { N = 2 * SLOTS * HEADS * HEAD_DIM };
  const struct lls_pool_shape shape = {.layers = 2,
                                       .kv_heads = HEADS,
                                       .head_dim = HEAD_DIM,
                                       .block_tokens = BLOCK_TOKENS,
                                       .element = p->numbers,
                                       .device_units = DEVICE_UNITS};
  struct lls_device *const ways[][2] = {
      {p->cpu, p->cpu}, {p->cuda, p->cuda}, {p->cuda, p->cpu}, {p->cpu, p->cuda}};
  struct lls_pull list[N_COPIES];
  float *there = pair_random(p, SLOTS * COLUMNS, random_float);
  float *here = pair_random(p, SLOTS * COLUMNS, random_float);
  float *expected = malloc(N * sizeof *expected), *result = malloc(N * sizeof *result);
  for (uint32_t i = 0; i < N_COPIES; i++)
    list[i] = random_pull();
  pull_all(p->cpu, p->cpu, &shape, there, here, list, expected);
  void *packed = NULL;
  size_t bytes = N_COPIES * lls_form_bytes(&shape, LLS_FORM_KV);
  assert_int_equal(p->cuda->ops->alloc(p->cuda, LLS_MEMORY_PINNED, bytes, &packed), 0);
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    pack_all(ways[i][1], ways[i][0], packed, &shape, there, here, list, result);
    pair_compare(p, "packs", result, expected, N, 0, 0);
  }
  pieces(p, &shape, there, here, list, result);
  pair_compare(p, "pieces", result, expected, N, 0, 0);
  p->cuda->ops->release(p->cuda, LLS_MEMORY_PINNED, packed);
  free(there);
  free(here);
  free(expected);
  free(result);
}

static void test_packs(void **state)
{
  (void)state;
  each_pair(LLS_F32, 256, packs);
  each_pair(LLS_BF16, 256, packs);
}

static void test_pulls(void **state)
{
  (void)state;
  each_pair(LLS_F32, 256, pulls);
  each_pair(LLS_BF16, 256, pulls);
}

static void test_copies(void **state)
{
  (void)state;
  each_pair(LLS_F32, 256, order);
  each_pair(LLS_BF16, 256, order);
}

static void test_int8_copies(void **state)
{
  (void)state;
  each_pair(LLS_F32, 256, int8_order);
  each_pair(LLS_BF16, 256, int8_order);
}

static void test_outside(void **state)
{
  (void)state;
  each_pair(LLS_BF16, 256, outside);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_copies),  cmocka_unit_test(test_int8_copies),
      cmocka_unit_test(test_pulls),   cmocka_unit_test(test_packs),
      cmocka_unit_test(test_outside),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
