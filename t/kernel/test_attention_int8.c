/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention over int8 blocks mixed with others, at every ISA level of this CPU, against
 * softmax(q K) V in double of the dequantised values, which are within half a step of
 * the written ones.
 */
#include "t/kernel/attention_batch.h"

#include "kernels/cpu/pool.h"

/* Replaces the source values of an INT8 block's tokens by the dequantised ones. */
static void read_int8(const struct batch *b, struct sequence *s,
                      const struct lls_block_entry *e, uint32_t side,
                      uint32_t first_column)
{
  const struct lls_pool *p = b->pool;
  uint32_t dims = b->shape.head_dim, slots = b->shape.block_tokens;
  for (uint32_t head = 0; head < b->shape.kv_heads; head++) {
    size_t index = (size_t)LAYER * b->shape.kv_heads + head;
    const char *block = p->device + e->block * p->unit_bytes;
    size_t numbers = lls_side_numbers(&p->shape);
    const uint8_t *q = (const uint8_t *)block + side * numbers + index * slots * dims;
    const uint16_t *scales =
        (const uint16_t *)(const void *)(block + (b->shape.latent ? 1 : 2) * numbers +
                                         side * lls_scale_bytes(&p->shape)) +
        index * 2 * dims;
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

/* Quantises every other full block of the contexts, as a cache manager would. */
static void quantise_some(struct batch *b, struct sequence *s)
{
  uint32_t kv = b->attention.heads * b->shape.head_dim;
  for (uint32_t i = 0; i < s->list.n; i++) {
    struct lls_block_entry *e = &s->entries[i];
    if (e->count != b->shape.block_tokens || e->first_token + e->count > s->context ||
        random_bits() % 2 == 0)
      continue;
    const struct lls_copy copy = {
        .n_slots = e->count,
        .source = e->block,
        .target = block_lists_take(&b->blocks),
        .target_form = LLS_FORM_INT8,
    };
    assert_int_equal(b->device->ops->pool_copy(b->device, b->pool, &copy, 1), 0);
    e->block = copy.target;
    e->form = LLS_FORM_INT8;
    memset(s->int8 + e->first_token, true, e->count);
    for (uint32_t side = 0; side < (b->shape.latent ? 1 : 2); side++)
      read_int8(b, s, e, side, kv + side * b->shape.kv_heads * b->shape.head_dim);
  }
}

static void quantise_contexts(struct batch *b)
{
  for (uint32_t i = 0; i < b->n_sequences; i++)
    quantise_some(b, &b->sequences[i]);
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
