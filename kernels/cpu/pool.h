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

#include "core/device/device.h"

struct lls_pool {
  struct lls_pool_shape shape;
  size_t slot_bytes; /* one vector: head_dim elements */
  size_t head_bytes; /* block_tokens of them */
  size_t unit_bytes;
  char *device; /* (device_units, unit_bytes) */
  char *host;   /* (host_units, unit_bytes), NULL if there are none */
  /* Scales of the halves of units: (2 units, layers, kv_heads, 2, head_dim); int8.c. NULL
   * where the tier has no INT8 blocks. */
  uint16_t *device_scales, *host_scales;

  /* With scratch_units: K and V restored in the layer under way, and on the way there. */
  char *scratch;     /* (scratch_units, kv_heads, head_bytes) */
  float *restored_x; /* (LLS_RESTORE_ROWS, kv columns) this rank's part of X */
  float *whole_x;    /* (LLS_RESTORE_ROWS, hidden) of all ranks; restored_x if alone */
  float *restored;   /* (LLS_RESTORE_ROWS, 2 kv columns) k, v */
  float *angles; /* (n_angles of max_context, rotary_dims) as of rope.c, by position */
  uint32_t n_angles;

  /* Likewise, where head_dim is a multiple of LLS_PANEL: of rows that attend to X. Heads
   * and hidden are those of all ranks; the part is the whole where one is alone. */
  float *absorbed;      /* (LLS_ABSORB_ROWS, heads, hidden) */
  float *absorbed_part; /* (LLS_ABSORB_ROWS, heads, share of hidden) */
  float *scores;        /* (LLS_ABSORB_ROWS, heads, max_context) */
};

#define LLS_RESTORE_ROWS                                                                 \
  512 /* tokens restored at a time: a matrix product of many rows */

#define LLS_ABSORB_ROWS 16 /* that read Wk and Wv together */

/* The units that a sequence's K and V lists name. */
struct lls_pool_units {
  char *base; /* unit 0's slot 0 of a layer and head */
  size_t unit_bytes;
};

/* Offset of a head of a layer inside every unit block. */
static inline size_t lls_pool_head_offset(const struct lls_pool *p, uint32_t layer,
                                          uint32_t kv_head)
{
  return ((size_t)layer * p->shape.kv_heads + kv_head) * p->head_bytes;
}

static inline struct lls_pool_units lls_pool_units(const struct lls_pool *p,
                                                   const struct lls_step_sequence *s,
                                                   uint32_t layer, uint32_t kv_head)
{
  size_t layer_bytes = p->shape.kv_heads * p->head_bytes;
  if (s->scratch)
    return (struct lls_pool_units){p->scratch + kv_head * p->head_bytes, layer_bytes};
  return (struct lls_pool_units){p->device + lls_pool_head_offset(p, layer, kv_head),
                                 p->unit_bytes};
}

/* Where slot of `token` begins in the unit of entry e, behind a head's slot 0. */
static inline size_t lls_pool_slot_offset(const struct lls_pool *p,
                                          const struct lls_block_entry *e, uint32_t token)
{
  uint32_t index = token - e->first_token;
  uint32_t slot =
      e->direction == LLS_LEFT_TO_RIGHT ? index : p->shape.block_tokens - 1 - index;
  return slot * p->slot_bytes;
}

/* A block of either element in one of the tiers. */
struct lls_pool_block {
  char *numbers;    /* (layers, kv_heads, block_tokens, head_dim) */
  uint16_t *scales; /* (layers, kv_heads, 2, head_dim); NULL: of the cache's element */
};

/* One whole block to another; int8.c. */
struct lls_cpu_int8_kernels;
void lls_cpu_convert(const struct lls_cpu_int8_kernels *, const struct lls_pool_shape *,
                     struct lls_pool_block from, struct lls_pool_block to);

/* n_slots of an INT8 one, from one slot on, to those of one of the cache's element. */
void lls_cpu_widen(const struct lls_cpu_int8_kernels *, const struct lls_pool_shape *,
                   struct lls_pool_block from, uint32_t from_slot, char *to,
                   uint32_t to_slot, uint32_t n_slots);

struct lls_cpu_device;

/* Writes a row (kv_heads, head_dim) to a token's slot in all heads. */
void lls_pool_write_slot(const struct lls_cpu_device *, struct lls_pool_units,
                         const float *row, const struct lls_block_entry *e,
                         uint32_t token);

/* X of a token in a layer, widened; restore.c. */
void lls_pool_read_x(const struct lls_pool *, uint32_t layer,
                     const struct lls_block_table *, uint32_t token, float *to);

/* Index of the entry of a list that holds a token; the list must cover it. */
uint32_t lls_pool_find(const struct lls_block_entry *list, uint32_t n, uint32_t token);

#endif
