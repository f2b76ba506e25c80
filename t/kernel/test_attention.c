/* SPDX-License-Identifier: Apache-2.0 */
/* Attention over block tables at every ISA level of this CPU against softmax(q K) V in
 * double (attention_batch.h): shapes, block sizes, windows, long contexts, and that a
 * row's result depends neither on the batch nor on the threads. */
#include "t/kernel/attention_batch.h"

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
      mixed_batch(device, &shape, NULL);
    }
  }
}

static void test_head_dims(void **state)
{
  (void)state;
  each_level(2, MAX_ROWS, 4096, head_dims);
}

/* Blocks without V: latents, whose heads share one key-value head. */
static void latents(struct lls_device *device)
{
  static const uint32_t dims[] = {576, 288, 24, 20, 704}, heads[] = {3, 16, 128, 5, 3};
  for (size_t i = 0; i < 2 * sizeof dims / sizeof *dims; i++) {
    struct shape shape = {
        .kv_heads = 1,
        .group = heads[i / 2],
        .head_dim = dims[i / 2],
        .block_tokens = i / 2 == 1 ? 7 : 16,
        .element = i % 2 ? LLS_BF16 : LLS_F32,
        .latent = true,
    };
    mixed_batch(device, &shape, NULL);
  }
}

/* One row, whose heads several threads share, over more than a chunk of tokens. */
static void single_rows(struct lls_device *device)
{
  for (int i = 0; i < 4; i++) {
    struct shape shape = {
        .kv_heads = i % 2 ? 1 : 2,
        .group = 64,
        .head_dim = 40,
        .block_tokens = 16,
        .element = i % 2 ? LLS_BF16 : LLS_F32,
        .latent = i < 2,
    };
    struct batch b;
    open_batch(&b, device, &shape, 200);
    add_sequence(&b, 1500, 1, false);
    check(&b, NULL);
    close_batch(&b);
  }
}

static void test_latents(void **state)
{
  (void)state;
  each_level(2, MAX_ROWS, 4096, latents);
  each_level(5, MAX_ROWS, 4096, single_rows);
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
    mixed_batch(device, &shape, NULL);
  }
}

static void test_block_sizes(void **state)
{
  (void)state;
  each_level(2, MAX_ROWS, 4096, block_sizes);
}

/* Queries are taken up to six at a time: tests all remainders, and more queries than an
 * item holds. */
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
    check(&b, NULL);
    close_batch(&b);
  }
}

static void test_groups(void **state)
{
  (void)state;
  each_level(2, MAX_ROWS, 4096, groups);
}

/* Layers that see so many of the last tokens, or those of their own chunk. */
static void reaches(struct lls_device *device, bool chunked)
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
        .chunked = chunked,
    };
    mixed_batch(device, &shape, give_back_all);
  }
}

static void windows(struct lls_device *device)
{
  reaches(device, false);
}

static void chunks(struct lls_device *device)
{
  reaches(device, true);
}

/* Caps that leave scores unchanged, bend them and flatten them. */
static void caps(struct lls_device *device)
{
  static const float sizes[] = {50, 2, 0.3f};
  for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
    struct shape shape = {
        .kv_heads = 2,
        .group = 2,
        .head_dim = 32,
        .block_tokens = 16,
        .element = i % 2 ? LLS_BF16 : LLS_F32,
        .window = i == 1 ? 70 : 0,
        .soft_cap = sizes[i / 2],
    };
    mixed_batch(device, &shape, NULL);
  }
}

/* Two KV heads of two query heads each, with numbers for each of the four: with and
 * without a window, in both elements. */
static void four_heads(struct lls_device *device, const float *sinks, const float *slopes)
{
  for (size_t i = 0; i < 4; i++) {
    struct shape shape = {
        .kv_heads = 2,
        .group = 2,
        .head_dim = 32,
        .block_tokens = 16,
        .element = i % 2 ? LLS_BF16 : LLS_F32,
        .window = i < 2 ? 70 : 0,
        .sinks = sinks,
        .slopes = slopes,
    };
    mixed_batch(device, &shape, NULL);
  }
}

/* Sinks without effect, with a share of the weights, and with nearly all of them. */
static void sinks(struct lls_device *device)
{
  static const float numbers[] = {-40, 0, 1.5f, 30};
  four_heads(device, numbers, NULL);
}

/* Slopes of 2^-1, 2^-8 and between; with the largest, far tokens have no weight. */
static void slopes(struct lls_device *device)
{
  static const float numbers[] = {0.5f, 0.25f, 0.0625f, 0.00390625f};
  four_heads(device, NULL, numbers);
}

static void test_slopes(void **state)
{
  (void)state;
  each_level(2, MAX_ROWS, 4096, slopes);
}

static void test_sinks(void **state)
{
  (void)state;
  each_level(2, MAX_ROWS, 4096, sinks);
}

static void test_caps(void **state)
{
  (void)state;
  each_level(2, MAX_ROWS, 4096, caps);
}

static void test_windows(void **state)
{
  (void)state;
  each_level(2, MAX_ROWS, 4096, windows);
  each_level(2, MAX_ROWS, 4096, chunks);
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
    check(&b, shape.window > 0 ? give_back_all : NULL);
    close_batch(&b);
  }
}

static void test_long_contexts(void **state)
{
  (void)state;
  each_level(1, MAX_ROWS, 4096, long_contexts);
  each_level(5, MAX_ROWS, 4096, long_contexts);
}

/* Sequences fill the same blocks from both ends, decodes and chunks in one batch. */
static void shared_blocks(struct lls_device *device)
{
  static const uint32_t sizes[] = {2, 16, 31};
  for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
    struct shape shape = {.kv_heads = 2,
                          .group = 2,
                          .head_dim = 16,
                          .block_tokens = sizes[i / 2],
                          .element = i % 2 ? LLS_BF16 : LLS_F32};
    struct batch b;
    open_batch(&b, device, &shape, 1000);
    for (uint32_t n = 0; n < 12; n++)
      add_sequence(&b, random_between(40, 80), n % 2 ? 1 : 7, false);
    assert_true(b.blocks.n_shared > 1);
    check(&b, NULL);
    close_batch(&b);
  }
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
      cmocka_unit_test(test_latents),
      cmocka_unit_test(test_block_sizes),
      cmocka_unit_test(test_groups),
      cmocka_unit_test(test_windows),
      cmocka_unit_test(test_caps),
      cmocka_unit_test(test_long_contexts),
      cmocka_unit_test(test_shared_blocks),
      cmocka_unit_test(test_same_bits_in_any_pieces),
      cmocka_unit_test(test_same_bits_on_any_threads),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_sinks),
      cmocka_unit_test(test_slopes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
