/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of K or V in int8, a scale for each channel of a head (ALISE, section 3.4): a
 * number x of a channel whose numbers in the block are least..most becomes
 *
 *   q = round((x - least) / step),  step = (most - least) / 255,  x' = least + step q
 *
 * The paper's form has a zero point, x' = step (q - z) with z = round(-least / step).
 * It is equivalent, but for a channel of large values that differ little, as in K, z is
 * too large for f16 to hold exactly, and least is not.
 *
 * least is rounded down to f16, and step, computed from the rounded least, up. So all
 * values lie between least and least + 255 step, none is clipped, and |x - x'| <= step
 * / 2 (but for the rounding of x' itself). Values beyond f16's 65504, and NaN, are
 * replaced by a finite value.
 *
 * A block of b tokens takes b + 4 bytes a channel; in bf16 it takes 2b. At b = 16 the
 * ratio is 0.625.
 */
#include "kernels/cpu/int8.h"
#include "kernels/cpu/pool.h"

#include <string.h>

/* Heads of all layers in the sides of a block. */
static size_t heads_of(const struct lls_pool_shape *s)
{
  return (size_t)lls_form_sides(s, LLS_FORM_INT8) * s->layers * s->kv_heads;
}

/* The slots of one head in the wide and the INT8 block. */
static struct lls_int8_head head_of(const struct lls_pool_shape *s, size_t head,
                                    struct lls_pool_block wide, uint32_t wide_slot,
                                    struct lls_pool_block int8, uint32_t slot,
                                    uint32_t n_slots)
{
  size_t first = head * s->block_tokens * s->head_dim;
  size_t number = lls_dtype_bytes(s->element);
  return (struct lls_int8_head){
      .numbers = wide.numbers + (first + (size_t)wide_slot * s->head_dim) * number,
      .codes = (uint8_t *)int8.numbers + first + (size_t)slot * s->head_dim,
      .scales = int8.scales + head * 2 * s->head_dim,
      .bf16 = s->element == LLS_BF16,
      .n_slots = n_slots,
      .dims = s->head_dim,
  };
}

void lls_cpu_widen(const struct lls_cpu_int8_kernels *k, const struct lls_pool_shape *s,
                   struct lls_pool_block from, uint32_t from_slot, char *to,
                   uint32_t to_slot, uint32_t n_slots)
{
  struct lls_pool_block wide = {.numbers = to};
  for (size_t head = 0; head < heads_of(s); head++) {
    struct lls_int8_head h = head_of(s, head, wide, to_slot, from, from_slot, n_slots);
    k->widen(&h, 0, s->head_dim);
  }
}

static void quantise_block(const struct lls_cpu_int8_kernels *k,
                           const struct lls_pool_shape *s, struct lls_pool_block from,
                           struct lls_pool_block to)
{
  for (size_t head = 0; head < heads_of(s); head++) {
    struct lls_int8_head h = head_of(s, head, from, 0, to, 0, s->block_tokens);
    k->quantise(&h, 0, s->head_dim);
  }
}

void lls_cpu_convert(const struct lls_cpu_int8_kernels *k, const struct lls_pool_shape *s,
                     struct lls_pool_block from, struct lls_pool_block to)
{
  if (from.scales == NULL) {
    quantise_block(k, s, from, to);
  } else if (to.scales == NULL) {
    lls_cpu_widen(k, s, from, 0, to.numbers, 0, s->block_tokens);
  } else {
    size_t sides = lls_form_sides(s, LLS_FORM_INT8);
    memmove(to.numbers, from.numbers, sides * lls_side_numbers(s));
    memmove(to.scales, from.scales, sides * lls_scale_bytes(s));
  }
}
