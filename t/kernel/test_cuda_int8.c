/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention of the CUDA device over int8 blocks mixed with others, chosen separately
 * for K and V, against the CPU's: with and without tensor cores, for blocks shorter
 * than one round of widening and longer than a tile, filled from either end.
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
        .int8 = true,
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
      .element = p->numbers == LLS_F32 ? LLS_BF16 : LLS_F32,
      .int8 = true,
  };
  pair_batch_mixed(p, &shape);
}

static void block_sizes(const struct pair *p)
{
  static const uint32_t sizes[] = {1, 3, 4, 8, 31, 32, 64, 100};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    const struct pair_shape shape = {
        .kv_heads = 1,
        .group = 2,
        .head_dim = i % 2 ? 64 : 128,
        .block_tokens = sizes[i],
        .element = p->numbers,
        .int8 = true,
    };
    pair_batch_mixed(p, &shape);
  }
}

/* Batches with 16 queries and more, which other kernels compute; with a window that
 * begins inside a block; with contexts that are split. */
static void loads(const struct pair *p)
{
  static const uint32_t groups[] = {1, 8, 17}, windows[] = {0, 65, 300};
  for (size_t i = 0; i < 9; i++) {
    const struct pair_shape shape = {
        .kv_heads = 1,
        .group = groups[i / 3],
        .head_dim = 64,
        .block_tokens = 16,
        .window = windows[i % 3],
        .element = p->numbers,
        .int8 = true,
    };
    struct pair_batch *b = pair_batch_open(p, &shape);
    pair_batch_add(b, random_between(500, 1200), 1, i % 2);
    pair_batch_add(b, 130, 20, false);
    pair_batch_add(b, 64, 2, true);
    pair_batch_check(b);
    pair_batch_close(b);
  }
}

/* Queries with values beyond f16's range. */
static void far_queries(const struct pair *p)
{
  static const float times[] = {0x1p20f, 0x1p-40f, 0x1p100f};
  for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
    const struct pair_shape shape = {
        .kv_heads = 1,
        .group = 4,
        .head_dim = 64,
        .block_tokens = 16,
        .element = p->numbers,
        .int8 = true,
    };
    struct pair_batch *b = pair_batch_open(p, &shape);
    pair_batch_add(b, 300, 1, true);
    float *q = b->sequences[0].qkv + 300 * b->heads.columns;
    for (uint32_t d = 0; d < b->heads.attention.heads * shape.head_dim; d++)
      q[d] *= times[i];
    b->heads.attention.scale /= times[i];
    pair_batch_check(b);
    pair_batch_close(b);
  }
}

/* Graphs take the elements with the tables. */
static void repeated_decodes(const struct pair *p)
{
  const struct pair_shape shape = {
      .kv_heads = 2,
      .group = 2,
      .head_dim = 64,
      .block_tokens = 16,
      .element = p->numbers,
      .int8 = true,
  };
  pair_decode_repeatedly(p, &shape);
}

PAIR_TEST(head_dims)
PAIR_TEST(caches)
PAIR_TEST(block_sizes)
PAIR_TEST(loads)
PAIR_TEST(far_queries)
PAIR_TEST(repeated_decodes)

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_head_dims),   cmocka_unit_test(test_caches),
      cmocka_unit_test(test_block_sizes), cmocka_unit_test(test_loads),
      cmocka_unit_test(test_far_queries), cmocka_unit_test(test_repeated_decodes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
