/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Types of numbers, and the pool of a device as a shape: how large its blocks are, what
 * lies inside of it, and which copies it can carry out. The rules are the same for all
 * devices.
 */
#ifndef LLS_DEVICE_POOL_SHAPE_H
#define LLS_DEVICE_POOL_SHAPE_H

#include <llmserve/cache.h> /* enum lls_int8 */

enum lls_dtype {
  LLS_F32,
  LLS_F16,
  LLS_BF16,
  LLS_I8,
  /* Blocks of codes with scales, as in GGUF files (quantised.h). Only tensors of a
   * model have these types; a device converts them to its own format of weights. */
  LLS_Q4_0,
  LLS_Q4_1,
  LLS_Q5_0,
  LLS_Q5_1,
  LLS_Q8_0,
  LLS_Q4_K,
  LLS_Q5_K,
  LLS_Q6_K,
  LLS_MXFP4,
  LLS_Q2_K,
  LLS_Q3_K,
  LLS_IQ4_NL,
  LLS_IQ4_XS,
  LLS_IQ3_XXS,
  LLS_IQ3_S,
  LLS_IQ2_XXS,
  LLS_IQ2_XS,
  LLS_IQ2_S,
  LLS_IQ1_S,
  LLS_IQ1_M,
  LLS_TQ1_0,
  LLS_TQ2_0,
  /* Codes and scales are separate tensors: coded.h. */
  LLS_CODED,
};

/* Bytes of a number of a plain type; those of the others are in quantised.h. */
static inline size_t lls_dtype_bytes(enum lls_dtype t)
{
  return t == LLS_F32 ? 4 : t == LLS_I8 ? 1 : 2;
}

struct lls_pool_shape {
  uint32_t layers, kv_heads, head_dim;
  uint32_t block_tokens;  /* slots a unit block has in each layer */
  enum lls_dtype element; /* F32 or BF16 (F16 models are cached as BF16 or F32) */
  uint32_t device_units;  /* unit blocks on the device */
  uint32_t host_units;    /* and on the host, 0 = no host tier */
  uint32_t scratch_units; /* of one layer each, for K and V restored from X; 0 = none */
  uint32_t max_context;   /* tokens of a sequence; only needed with scratch_units */
  uint32_t int8;          /* enum lls_int8: tiers that have scales for INT8 blocks */
};

/* Bytes of one unit block: K, or V, or X vectors of block_tokens tokens in all layers. */
static inline size_t lls_unit_bytes(const struct lls_pool_shape *s)
{
  return (size_t)s->layers * s->kv_heads * s->head_dim * s->block_tokens *
         lls_dtype_bytes(s->element);
}

/* Where a tier has scales: bytes of those of one half unit block, (layers, kv_heads, 2,
 * head_dim) in f16: the steps of the channels, then their least numbers. */
static inline size_t lls_scale_bytes(const struct lls_pool_shape *s)
{
  return (size_t)s->layers * s->kv_heads * 2 * s->head_dim * 2;
}

static inline bool lls_pool_has_scales(const struct lls_pool_shape *s, bool host)
{
  return s->int8 >= (host ? LLS_INT8_SWAPPED : LLS_INT8_ALL);
}

/* Bytes of a unit block in a tier's memory, scales of both halves included. */
static inline size_t lls_unit_room(const struct lls_pool_shape *s, bool host)
{
  return lls_unit_bytes(s) + (lls_pool_has_scales(s, host) ? 2 * lls_scale_bytes(s) : 0);
}

/* Bytes that a copy moves on its side of that form, scales included. */
static inline size_t lls_block_bytes(const struct lls_pool_shape *s, uint32_t form)
{
  size_t numbers = (size_t)s->layers * s->kv_heads * s->head_dim * s->block_tokens;
  return form == LLS_FORM_INT8 ? numbers + lls_scale_bytes(s) : lls_unit_bytes(s);
}

enum lls_copy_way {
  LLS_COPY_DEVICE_TO_HOST,
  LLS_COPY_HOST_TO_DEVICE,
  LLS_COPY_DEVICE_TO_DEVICE
};

/* The way of a copy that fits, see lls_copy_fits. */
static inline enum lls_copy_way lls_copy_way(const struct lls_copy *c)
{
  bool from_host = c->source_tier == LLS_TIER_HOST;
  return c->target_tier == LLS_TIER_HOST ? LLS_COPY_DEVICE_TO_HOST
         : from_host                     ? LLS_COPY_HOST_TO_DEVICE
                                         : LLS_COPY_DEVICE_TO_DEVICE;
}

static inline bool lls_form_is_known(uint32_t form)
{
  return form <= LLS_FORM_INT8 && form != LLS_FORM_HIDDEN;
}

/* Bytes that go over the link, or are written: the narrower side's. */
static inline uint64_t lls_copied_bytes(const struct lls_pool_shape *s,
                                        const struct lls_copy *c)
{
  uint32_t form =
      c->source_form == LLS_FORM_INT8 ? LLS_FORM_INT8 : (uint32_t)c->target_form;
  return lls_block_bytes(s, form) * (uint64_t)c->n_slots / s->block_tokens;
}

static inline bool lls_copy_shift_fits(const struct lls_pool_shape *s,
                                       const struct lls_copy *c)
{
  int32_t to = (int32_t)c->slot + c->shift;
  bool same_unit = lls_copy_way(c) == LLS_COPY_DEVICE_TO_DEVICE && c->source == c->target;
  return to >= 0 && (uint32_t)to + c->n_slots <= s->block_tokens &&
         (c->shift == 0 || !same_unit);
}

/*
 * Is that copy inside the pool, and one that it can carry out? The rules of types.h, for
 * every device.
 */
static inline bool lls_copy_fits(const struct lls_pool_shape *s, const struct lls_copy *c)
{
  bool from_host = lls_copy_way(c) == LLS_COPY_HOST_TO_DEVICE;
  bool to_host = lls_copy_way(c) == LLS_COPY_DEVICE_TO_HOST;
  bool from_int8 = c->source_form == LLS_FORM_INT8;
  bool to_int8 = c->target_form == LLS_FORM_INT8;
  uint64_t sources = from_host ? s->host_units : s->device_units;
  uint64_t targets = to_host ? s->host_units : s->device_units;
  if (c->source_tier > LLS_TIER_HOST || c->target_tier > LLS_TIER_HOST ||
      c->source_tier + c->target_tier > LLS_TIER_HOST || c->order > LLS_COPY_ASYNC ||
      c->group > 0 || !lls_form_is_known(c->source_form) ||
      !lls_form_is_known(c->target_form) ||
      (uint32_t)c->slot + c->n_slots > s->block_tokens || !lls_copy_shift_fits(s, c))
    return false;
  if ((from_int8 && !lls_pool_has_scales(s, from_host)) ||
      (to_int8 && !lls_pool_has_scales(s, to_host)) ||
      ((from_int8 || to_int8) && c->n_slots != s->block_tokens))
    return false;
  if (lls_copy_way(c) == LLS_COPY_DEVICE_TO_DEVICE && from_int8 != to_int8 &&
      c->source >> from_int8 == c->target >> to_int8) /* over what it still has to read */
    return false;
  return c->source < sources << from_int8 && c->target < targets << to_int8;
}

/*
 * Slots of a unit block of another device's pool, on their way to one of this, in every
 * layer. Slot order is kept. The target is of the cache's own type. The source is that or
 * INT8, its number a half's: then it goes over the link as it is, whole, and the slots
 * are made wide where they come to, so that this pool needs no scales.
 */
struct lls_pull {
  uint32_t source, target; /* unit blocks on the devices */
  uint16_t source_slot, target_slot, n_slots;
  uint8_t source_form; /* enum lls_form */
};

static inline bool lls_pull_is_int8(const struct lls_pull *c)
{
  return c->source_form == LLS_FORM_INT8;
}

/* Each side by the pool that it is of. */
static inline bool lls_pull_source_fits(const struct lls_pool_shape *s,
                                        const struct lls_pull *c)
{
  bool int8 = lls_pull_is_int8(c);
  return lls_form_is_known(c->source_form) &&
         c->source < (uint64_t)s->device_units << int8 &&
         (!int8 || lls_pool_has_scales(s, false)) &&
         (uint32_t)c->source_slot + c->n_slots <= s->block_tokens;
}

static inline bool lls_pull_target_fits(const struct lls_pool_shape *s,
                                        const struct lls_pull *c)
{
  return lls_form_is_known(c->source_form) && c->target < s->device_units &&
         (uint32_t)c->source_slot + c->n_slots <= s->block_tokens &&
         (uint32_t)c->target_slot + c->n_slots <= s->block_tokens;
}

/* Do unit blocks of the two mean the same? */
static inline bool lls_pools_match(const struct lls_pool_shape *a,
                                   const struct lls_pool_shape *b)
{
  return a->layers == b->layers && a->kv_heads == b->kv_heads &&
         a->head_dim == b->head_dim && a->block_tokens == b->block_tokens &&
         a->element == b->element;
}

static inline uint64_t lls_pulled_bytes(const struct lls_pool_shape *s,
                                        const struct lls_pull *c)
{
  return lls_pull_is_int8(c) ? lls_block_bytes(s, LLS_FORM_INT8)
                             : lls_unit_bytes(s) / s->block_tokens * (uint64_t)c->n_slots;
}

#endif
