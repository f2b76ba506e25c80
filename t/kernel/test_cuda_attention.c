/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rope, cache_write and attention of the CUDA device against the CPU's, over the general
 * block table: any block size, blocks anywhere and partly filled, from either end, K and
 * V cut differently; decodes, chunks and whole prompts in one batch, with shared q
 * heads and windows, and contexts long enough to be split among thread blocks.
 */
#include "t/kernel/pair_attention.h"

/* Tensor cores take 64, 80, 96 and 128, and bf16 in a cache of bf16. */
static void head_dims(const struct pair *p)
{
  static const uint32_t dims[] = {64, 80, 96, 128, 8, 20, 256, 1};
  for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
    const struct pair_shape shape = {
        .kv_heads = 2,
        .group = random_between(1, 3),
        .head_dim = dims[i],
        .block_tokens = 16,
        .rotary = i % 2 ? dims[i] / 4 * 2 : 0,
        .element = p->numbers,
    };
    pair_batch_mixed(p, &shape);
  }
}

static void caches(const struct pair *p)
{
  const struct pair_shape shape = {
      .kv_heads = 1,
      .group = 2,
      .head_dim = 64,
      .block_tokens = 16,
      .rotary = 64,
      .element = p->numbers == LLS_F32 ? LLS_BF16 : LLS_F32,
  };
  pair_batch_mixed(p, &shape);
}

static void block_sizes(const struct pair *p)
{
  static const uint32_t sizes[] = {1, 3, 8, 31, 64, 100};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    const struct pair_shape shape = {
        .kv_heads = 1,
        .group = 2,
        .head_dim = 64,
        .block_tokens = sizes[i],
        .element = p->numbers,
    };
    pair_batch_mixed(p, &shape);
  }
}

/* q heads of a KV head: 16 fill a small item, 17 make a large one, 100 one a row. */
static void groups(const struct pair *p)
{
  static const uint32_t sizes[] = {1, 5, 8, 16, 17, 50, 100};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    const struct pair_shape shape = {
        .kv_heads = 1,
        .group = sizes[i],
        .head_dim = sizes[i] > 50 ? 8 : 64,
        .block_tokens = 16,
        .element = p->numbers,
    };
    struct pair_batch *b = pair_batch_open(p, &shape);
    pair_batch_add(b, 77, 1, false);
    pair_batch_add(b, 3, 11, false);
    pair_batch_add(b, 64, 2, true);
    pair_batch_check(b);
    pair_batch_close(b);
  }
}

static void windows(const struct pair *p)
{
  static const uint32_t sizes[] = {1, 7, 64, 65, 100, 1000};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    const struct pair_shape shape = {
        .kv_heads = 1,
        .group = 3,
        .head_dim = 64,
        .block_tokens = 16,
        .window = sizes[i],
        .soft_cap = i % 2 == 0 ? 0 : 1.5f,
        .sinks = i % 3 == 0,
        .turns = i % 3,
        .element = p->numbers,
    };
    pair_batch_mixed(p, &shape);
  }
}

/* Chunks of tokens instead of windows; also where rows of a sequence are in two. */
static void chunks(const struct pair *p)
{
  static const uint32_t sizes[] = {1, 20, 64, 100, 1000};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i += TAP_STEP(2)) {
    const struct pair_shape shape = {
        .kv_heads = 1,
        .group = 2,
        .head_dim = i % 2 ? 128 : 64,
        .block_tokens = 16,
        .window = sizes[i],
        .chunked = true,
        .turns = i % 2,
        .element = p->numbers,
    };
    struct pair_batch *b = pair_batch_open(p, &shape);
    pair_batch_add(b, 99, 3, true);
    pair_batch_add(b, 0, 131, false);
    pair_batch_add(b, 190, 30, true);
    pair_batch_add(b, 400, 1, false);
    pair_batch_check(b);
    pair_batch_close(b);
  }
}

/* Scores that fall with the distance, and rows without k and v. */
static void slopes_and_queries(const struct pair *p)
{
  for (uint32_t i = 0; i < 4; i++) {
    const struct pair_shape shape = {
        .kv_heads = 2,
        .group = 2,
        .head_dim = i < 2 ? 64 : 20,
        .block_tokens = 16,
        .rotary = i % 2 ? 16 : 0,
        .slopes = i % 2 == 0,
        .queries_alone = i % 2 == 1,
        .element = p->numbers,
    };
    pair_batch_mixed(p, &shape);
  }
}

/* The emulated GPU has 4 multiprocessors: these contexts are cut in pieces, and the long
 * prompt's last rows are. */
static void long_contexts(const struct pair *p)
{
  static const uint32_t windows[] = {0, 600};
  for (size_t i = 0; i < sizeof windows / sizeof *windows; i += TAP_STEP(2)) {
    const struct pair_shape shape = {
        .kv_heads = 2,
        .group = 4,
        .head_dim = 64,
        .block_tokens = 32,
        .window = windows[i],
        .sinks = true,
        .element = p->numbers,
    };
    struct pair_batch *b = pair_batch_open(p, &shape);
    pair_batch_add(b, 1500, 1, false);
    pair_batch_add(b, 30, 1, false);
    pair_batch_add(b, 700, 3, true);
    pair_batch_check(b);
    pair_batch_close(b);
    b = pair_batch_open(p, &shape);
    pair_batch_add(b, 1100, 40, true);
    pair_batch_check(b);
    pair_batch_close(b);
  }
}

/* Several tiles of 128 tokens and several items of 128 queries; ends that are no multiple
 * of either, rows beside each other that see no common token, contexts in parts. On
 * Hopper, which the emulated GPU pretends to be, attend_hopper runs them. */
static void prompts(const struct pair *p)
{
  static const struct pair_shape shapes[] = {
      {.kv_heads = 2, .group = 1, .head_dim = 128, .block_tokens = 16},
      {.kv_heads = 1, .group = 4, .head_dim = 128, .block_tokens = 16, .sinks = true},
      {.kv_heads = 1, .group = 5, .head_dim = 64, .block_tokens = 32, .soft_cap = 1.5f},
      {.kv_heads = 1, .group = 8, .head_dim = 128, .block_tokens = 16, .window = 150},
      {.kv_heads = 2, .group = 2, .head_dim = 64, .block_tokens = 31, .window = 70},
  };
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i += TAP_STEP(2)) {
    struct pair_shape shape = shapes[i];
    if (p->numbers == LLS_F32) /* not by tensor cores */
      return;
    shape.element = LLS_BF16;
    struct pair_batch *b = pair_batch_open(p, &shape);
    pair_batch_add(b, 0, 131, true);
    pair_batch_add(b, 257, 61, true);
    pair_batch_add(b, 100, 50, false);
    pair_batch_add(b, 383, 1, true);
    pair_batch_check(b);
    pair_batch_clear(b);
    pair_batch_add(b, 700, 200, true);
    pair_batch_check(b);
    pair_batch_close(b);
  }
}

/* The result is the same to the bit when thread blocks end in another order: in every
 * other launch the emulator runs them from the last one to the first. */
static void same_again(const struct pair_batch *b, const struct pair_place *cuda)
{
  size_t most = PAIR_ROWS * (size_t)b->heads.out_columns;
  float *once = malloc(most * sizeof *once), *again = malloc(most * sizeof *again);
  uint32_t rows = pair_batch_run(b, cuda, once);
  pair_batch_run(b, cuda, again);
  assert_memory_equal(once, again, rows * (size_t)b->heads.out_columns * sizeof *once);
  free(once);
  free(again);
}

/* One long context and many short ones, more than blocks run at once: a lane has pieces
 * of several contexts, and a context has several lanes; with up to 8 queries, and with
 * more. */
static void uneven_batches(const struct pair *p)
{
  static const uint32_t contexts[] = {5, 900, 70, 63, 0, 128, 333, 64};
  static const uint32_t groups[] = {4, 8, 12}, windows[] = {0, 130};
  for (size_t i = 0; i < 6; i += TAP_STEP(5)) {
    const struct pair_shape shape = {
        .kv_heads = 2,
        .group = groups[i / 2],
        .head_dim = i % 2 ? 64 : 128,
        .block_tokens = 16,
        .window = windows[i % 2],
        .sinks = i % 3 == 0,
        .element = p->numbers,
    };
    struct pair_batch *b = pair_batch_open(p, &shape);
    for (size_t n = 0; n < sizeof contexts / sizeof *contexts; n++)
      pair_batch_add(b, contexts[n], n == 2 && i < 2 ? 2 : 1, n % 2);
    struct pair_place cpu = pair_place_open(b, p->cpu),
                      cuda = pair_place_open(b, p->cuda);
    pair_batch_compare(b, &cpu, &cuda);
    same_again(b, &cuda);
    pair_place_close(&cpu);
    pair_place_close(&cuda);
    pair_batch_close(b);
  }
}

/* Sequences fill the same blocks from both ends. */
static void shared_blocks(const struct pair *p)
{
  static const uint32_t sizes[] = {2, 16, 31};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    const struct pair_shape shape = {
        .kv_heads = 1,
        .group = 2,
        .head_dim = 64,
        .block_tokens = sizes[i],
        .element = p->numbers,
    };
    struct pair_batch *b = pair_batch_open(p, &shape);
    for (uint32_t n = 0; n < 8; n++)
      pair_batch_add(b, random_between(40, 80), n % 2 ? 1 : 7, false);
    assert_true(b->blocks.n_shared > 1);
    pair_batch_check(b);
    pair_batch_close(b);
  }
}

static void repeated_decodes(const struct pair *p)
{
  const struct pair_shape shape = {
      .kv_heads = 2,
      .group = 2,
      .head_dim = 64,
      .block_tokens = 16,
      .rotary = 32,
      .element = p->numbers,
  };
  pair_decode_repeatedly(p, &shape);
}

/* Decodes with guesses, eight rows in each step, cut differently: the graph that was
 * captured of one cut has a grid for the others, whose rows are pieces or large items. */
static void repeated_guesses(const struct pair *p)
{
  static const uint8_t cuts[][8] = {{4, 4}, {1, 7},    {8},       {2, 3, 3},
                                    {4, 4}, {5, 1, 2}, {1, 1, 6}, {3, 5}};
  static const uint32_t contexts[] = {5, 900, 70};
  const struct pair_shape shape = {
      .kv_heads = 2,
      .group = 4,
      .head_dim = 64,
      .block_tokens = 16,
      .element = p->numbers,
  };
  struct pair_batch *b = pair_batch_open(p, &shape);
  struct pair_place cpu = pair_place_open(b, p->cpu), cuda = pair_place_open(b, p->cuda);
  unsigned before = simt_graph_launches();
  for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
    for (size_t n = 0; n < 8 && cuts[i][n] > 0; n++)
      pair_batch_add(b, contexts[(i + n) % 3], cuts[i][n], n % 2);
    pair_batch_compare(b, &cpu, &cuda);
    pair_batch_clear(b);
  }
  if (!p->on_gpu)
    assert_true(simt_graph_launches() - before >= sizeof cuts / sizeof *cuts - 1);
  pair_batch_close(b);
  pair_place_close(&cpu);
  pair_place_close(&cuda);
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

PAIR_TEST(head_dims)
PAIR_TEST(caches)
PAIR_TEST(block_sizes)
PAIR_TEST(groups)
PAIR_TEST(windows)
PAIR_TEST(chunks)
PAIR_TEST(slopes_and_queries)
PAIR_TEST(long_contexts)
PAIR_TEST(uneven_batches)
PAIR_TEST(shared_blocks)
PAIR_TEST(repeated_decodes)
PAIR_TEST(repeated_guesses)
PAIR_TEST(refusals)
PAIR_TEST(prompts)

/* Without attend_hopper, as on other GPUs. */
static void test_without_hopper(void **state)
{
  setenv("LLS_CUDA_HOPPER", "0", 1);
  test_groups(state);
  test_prompts(state);
  unsetenv("LLS_CUDA_HOPPER");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_head_dims),
      cmocka_unit_test(test_caches),
      cmocka_unit_test(test_block_sizes),
      cmocka_unit_test(test_groups),
      cmocka_unit_test(test_windows),
      cmocka_unit_test(test_long_contexts),
      cmocka_unit_test(test_uneven_batches),
      cmocka_unit_test(test_shared_blocks),
      cmocka_unit_test(test_repeated_decodes),
      cmocka_unit_test(test_repeated_guesses),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_prompts),
      cmocka_unit_test(test_without_hopper),
      cmocka_unit_test(test_chunks),
      cmocka_unit_test(test_slopes_and_queries),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
