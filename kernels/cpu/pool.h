/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The unit blocks of one instance, on the device and on the host.
 *
 * A unit block is (layers, kv_heads, block_tokens, head_dim) of the cache's element, so
 * that moving a whole block between tiers is one copy and a slot is one contiguous
 * vector. K is stored like V: turning a tile of K around while it is widened to f32
 * costs the attention kernel no more than widening it (attention_simd.h), and a copy of
 * single slots need not know what a block holds.
 */
#ifndef LLS_CPU_POOL_H
#define LLS_CPU_POOL_H

#include "core/engine/device.h"

struct lls_pool {
  struct lls_pool_shape shape;
  size_t slot_bytes; /* one vector: head_dim elements */
  size_t head_bytes; /* block_tokens of them */
  size_t unit_bytes;
  char *device; /* (device_units, unit_bytes) */
  char *host;   /* (host_units, unit_bytes), NULL if there are none */
};

/* Offset of a head of a layer inside every unit block. */
static inline size_t lls_pool_head_offset(const struct lls_pool *p, uint32_t layer,
                                          uint32_t kv_head)
{
  return ((size_t)layer * p->shape.kv_heads + kv_head) * p->head_bytes;
}

/* Index of the entry of a list that holds a token; the list must cover it. */
uint32_t lls_pool_find(const struct lls_block_entry *list, uint32_t n, uint32_t token);

#endif
