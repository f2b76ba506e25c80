/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention over int8 blocks mixed with others, at every ISA level of this CPU, against
 * softmax(q K) V in double of the dequantised values, which are within half a step of
 * the written ones.
 */
#include "t/kernel/attention_int8.h"

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
    mixed_batch(device, &shape, quantise_contexts);
  }
}

/* Runs mixed_batch with INT8 blocks of latents. */
static void int8_latents(struct lls_device *device)
{
  static const uint32_t dims[] = {576, 40, 12};
  for (size_t i = 0; i < 2 * sizeof dims / sizeof *dims; i++) {
    struct shape shape = {
        .kv_heads = 1,
        .group = 4,
        .head_dim = dims[i / 2],
        .block_tokens = 16,
        .element = i % 2 ? LLS_BF16 : LLS_F32,
        .int8 = true,
        .latent = true,
    };
    mixed_batch(device, &shape, quantise_contexts);
  }
}

static void test_int8_latents(void **state)
{
  (void)state;
  each_level(2, MAX_ROWS, 4096, int8_latents);
}

static void test_int8_blocks(void **state)
{
  (void)state;
  each_level(2, MAX_ROWS, 4096, int8_blocks);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_int8_blocks),
                                     cmocka_unit_test(test_int8_latents)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
