/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The units of one instance, on the device and on the host; core/device/device.h says
 * what a block of them holds. Moving a whole block between tiers is one copy, and a slot
 * is one contiguous vector.
 * K is stored like V: transposing a tile of K while widening it costs the attention
 * kernel no more than widening alone (attention_simd.h), and a copy of single slots is
 * the same for K and V.
 */
#ifndef LLS_CPU_POOL_H
#define LLS_CPU_POOL_H

#include "core/device/device.h"

struct lls_pool {
  struct lls_pool_shape shape, groups[LLS_MAX_GROUPS]; /* as a group's blocks are in it */
  /* of a group's blocks: one vector of head_dim elements; block_tokens of them; K, V or
   * X */
  size_t slot_bytes[LLS_MAX_GROUPS], head_bytes[LLS_MAX_GROUPS],
      side_bytes[LLS_MAX_GROUPS];
  size_t unit_bytes;
  char *device; /* (device_units, unit_bytes) */
  char *host;   /* (host_units, unit_bytes), NULL without a host tier */

  /* Only with scratch_blocks: K and V restored for the present layer, and intermediate
   * results. */
  char *scratch;     /* (scratch_blocks, 2, kv_heads, head_bytes) restored K, then V */
  float *restored_x; /* (LLS_RESTORE_ROWS, kv columns) this rank's part of X */
  /* (LLS_RESTORE_ROWS, hidden) X of all ranks; equals restored_x for a single rank */
  float *whole_x;
  float *restored; /* (LLS_RESTORE_ROWS, 2 kv columns) k, v */
  /* (n_angles of max_context, rotary_dims), laid out as in rope.c, by position */
  float *angles;
  uint32_t n_angles;

  /* For rows that attend to X directly (absorb.c), where head_dim is a multiple of
   * LLS_PANEL. Heads and hidden are those of all ranks; a single rank's part is the
   * whole. */
  float *absorbed;      /* (LLS_ABSORB_ROWS, heads, hidden) */
  float *absorbed_part; /* (LLS_ABSORB_ROWS, heads, share of hidden) */
  float *scores;        /* (LLS_ABSORB_ROWS, heads, max_context) */
};

#define LLS_RESTORE_ROWS                                                                 \
  512 /* tokens restored at a time: a matrix product of many rows */

#define LLS_ABSORB_ROWS 16 /* rows that read Wk and Wv together */

/* The vectors of one side (K, V or X), layer and head in all blocks of a list. */
struct lls_pool_units {
  char *base; /* slot 0, if the block begins with unit 0 */
  size_t unit_bytes;
  uint32_t group;
};

/* Offset of a head of a layer in a side; layers are those of the group. */
static inline size_t lls_pool_head_offset(const struct lls_pool *p, uint32_t group,
                                          uint32_t layer, uint32_t kv_head)
{
  return ((size_t)layer * p->groups[group].kv_heads + kv_head) * p->head_bytes[group];
}

static inline struct lls_pool_units lls_pool_units(const struct lls_pool *p,
                                                   const struct lls_step_sequence *s,
                                                   bool is_v, uint32_t group,
                                                   uint32_t layer, uint32_t kv_head)
{
  size_t layer_bytes = p->groups[group].kv_heads * p->head_bytes[group];
  if (s->scratch)
    return (struct lls_pool_units){p->scratch + (is_v ? layer_bytes : 0) +
                                       kv_head * p->head_bytes[group],
                                   2 * layer_bytes, group};
  bool second = is_v && !p->shape.latent;
  return (struct lls_pool_units){p->device + (second ? p->side_bytes[group] : 0) +
                                     lls_pool_head_offset(p, group, layer, kv_head),
                                 p->unit_bytes, group};
}

/* Offset of a token's slot in the group's block of entry e, from the head's slot 0. */
static inline size_t lls_pool_slot_offset(const struct lls_pool *p, uint32_t group,
                                          const struct lls_block_entry *e, uint32_t token)
{
  uint32_t index = token - e->first_token;
  uint32_t slot =
      e->direction == LLS_LEFT_TO_RIGHT ? index : p->shape.block_tokens - 1 - index;
  return slot * p->slot_bytes[group];
}

/* A block of one of the tiers, INT8 or of the cache's element: both sides. */
struct lls_pool_block {
  char *numbers; /* (2, layers, kv_heads, block_tokens, head_dim) */
  /* (2, layers, kv_heads, 2, head_dim); NULL: the block has the cache's element */
  uint16_t *scales;
};

/* Copies a whole block, with conversion; int8.c. */
struct lls_cpu_int8_kernels;
void lls_cpu_convert(const struct lls_cpu_int8_kernels *, const struct lls_pool_shape *,
                     struct lls_pool_block from, struct lls_pool_block to);

/* Widens n_slots slots of an INT8 block, from one slot on, into a block of the cache's
 * element. */
void lls_cpu_widen(const struct lls_cpu_int8_kernels *, const struct lls_pool_shape *,
                   struct lls_pool_block from, uint32_t from_slot, char *to,
                   uint32_t to_slot, uint32_t n_slots);

struct lls_cpu_device;

/* Writes a row (kv_heads, head_dim) to a token's slot in all heads. */
void lls_pool_write_slot(const struct lls_cpu_device *, struct lls_pool_units,
                         const float *row, const struct lls_block_entry *e,
                         uint32_t token);

/* Reads X of a token in a layer, widened; restore.c. */
void lls_pool_read_x(const struct lls_pool *, uint32_t layer,
                     const struct lls_step_list *, uint32_t token, float *to);

/* Returns the index of the entry of a list that holds a token; the list must cover
 * it. */
uint32_t lls_pool_find(const struct lls_block_entry *list, uint32_t n, uint32_t token);

#endif
