/* SPDX-License-Identifier: Apache-2.0 */
/* Makes some blocks of a batch of attention INT8. */
#ifndef LLS_KERNEL_ATTENTION_INT8_H
#define LLS_KERNEL_ATTENTION_INT8_H

#include "t/kernel/attention_batch.h"

#include "kernels/cpu/pool.h"

/* Replaces the source values of an INT8 block's tokens by the dequantised ones. */
static inline void read_int8(const struct batch *b, struct sequence *s,
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
static inline void quantise_some(struct batch *b, struct sequence *s)
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

static inline void quantise_contexts(struct batch *b)
{
  for (uint32_t i = 0; i < b->n_sequences; i++)
    quantise_some(b, &b->sequences[i]);
}

#endif
