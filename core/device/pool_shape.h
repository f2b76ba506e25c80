/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Types of numbers, and the pool of a device as a shape: how large its blocks are, what
 * lies inside of it, and which copies it can carry out. The rules are the same for all
 * devices.
 */
#ifndef LLS_DEVICE_POOL_SHAPE_H
#define LLS_DEVICE_POOL_SHAPE_H

#include <llmserve/types.h>

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

/* Where blocks of int8 numbers may lie: [cache] int8. */
enum lls_int8 {
  LLS_INT8_OFF,
  LLS_INT8_SWAPPED, /* on the host */
  LLS_INT8_ALL,     /* on the device too */
};

/*
 * A pool is an array of units in each tier, and a block is consecutive units. What a
 * block holds, with one *side* (layers, kv_heads, block_tokens, head_dim) numbers:
 *
 *   KV      a side of K, then a side of V, in the cache's own type; of a latent model
 *           (MLA) only a side of K, in which V is contained
 *   HIDDEN  a side of X
 *   INT8    the bytes of a side of K, those of V, then the scales of K and those of V:
 *           (layers, kv_heads, 2, head_dim) in f16 for a side, the steps of the channels,
 *           then their least numbers
 *   STATE   in a group that keeps states: f32 numbers of each layer one after the other
 *           (lls_state_place), of all tokens of a sequence
 */
#define LLS_MAX_GROUPS 4 /* of layers, see llmserve/types.h */

struct lls_pool_shape {
  /* of the group whose blocks are meant; of a pool: of group 0 */
  uint32_t layers, kv_heads, head_dim;
  uint32_t block_tokens;   /* slots a block has in each layer */
  enum lls_dtype element;  /* F32 or BF16 (F16 models are cached as BF16 or F32) */
  uint32_t device_units;   /* units on the device */
  uint32_t host_units;     /* and on the host, 0 = no host tier */
  uint32_t scratch_blocks; /* of one layer each, for K and V restored from X; 0 = none */
  uint32_t max_context;    /* tokens of a sequence; only needed with scratch_blocks */
  bool latent;             /* V is the first part of K, and has no side of its own */
  uint32_t int8;           /* enum lls_int8: tiers that have INT8 blocks */
  uint32_t n_groups;       /* 0: one, of `layers` layers */
  uint32_t group_layers[LLS_MAX_GROUPS];
  /* heads of each group; 0: those of group 0 */
  uint32_t group_kv_heads[LLS_MAX_GROUPS], group_head_dim[LLS_MAX_GROUPS];
  /* bytes of a block of a group that keeps states; 0: it keeps K and V */
  uint64_t group_state[LLS_MAX_GROUPS];
  uint64_t state; /* lls_group_shape: bytes of a block of that group's states */
};

static inline uint32_t lls_pool_groups(const struct lls_pool_shape *s)
{
  return s->n_groups > 0 ? s->n_groups : 1;
}

/* The same pool, as the blocks of one of its groups are in it. */
static inline struct lls_pool_shape lls_group_shape(const struct lls_pool_shape *s,
                                                    uint32_t group)
{
  struct lls_pool_shape one = *s;
  if (s->n_groups == 0)
    return one;
  one.layers = s->group_layers[group];
  if (s->group_kv_heads[group] > 0)
    one.kv_heads = s->group_kv_heads[group];
  if (s->group_head_dim[group] > 0)
    one.head_dim = s->group_head_dim[group];
  one.state = s->group_state[group];
  return one;
}

static inline size_t lls_common_divisor(size_t a, size_t b)
{
  while (b != 0) {
    size_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

static inline size_t lls_side_numbers(const struct lls_pool_shape *s)
{
  return (size_t)s->layers * s->kv_heads * s->head_dim * s->block_tokens;
}

/* Bytes of a side in the cache's own type. */
static inline size_t lls_side_bytes(const struct lls_pool_shape *s)
{
  return lls_side_numbers(s) * lls_dtype_bytes(s->element);
}

/* Bytes of the scales of one side of an INT8 block. */
static inline size_t lls_scale_bytes(const struct lls_pool_shape *s)
{
  return (size_t)s->layers * s->kv_heads * 2 * s->head_dim * 2;
}

static inline bool lls_pool_has_int8(const struct lls_pool_shape *s, bool host)
{
  return s->int8 >= (host ? LLS_INT8_SWAPPED : LLS_INT8_ALL);
}

/* Does the group keep a state of each sequence? */
static inline bool lls_group_is_state(const struct lls_pool_shape *s, uint32_t group)
{
  return s->n_groups > 0 && s->group_state[group] > 0;
}

/* The sides of a block in that form; NONE is KV. */
static inline uint32_t lls_form_sides(const struct lls_pool_shape *s, uint32_t form)
{
  return form == LLS_FORM_HIDDEN || s->latent ? 1 : 2;
}

/* Bytes of a block in that form; NONE is KV. All blocks of a group of states are states.
 */
static inline size_t lls_form_bytes(const struct lls_pool_shape *s, uint32_t form)
{
  if (s->state > 0)
    return (size_t)s->state;
  if (form == LLS_FORM_INT8)
    return lls_form_sides(s, form) * (lls_side_numbers(s) + lls_scale_bytes(s));
  return lls_form_sides(s, form) * lls_side_bytes(s);
}

/* The largest part of which the sides of every group of K and V are a multiple: layers of
 * one head, whose size those of all heads are a multiple of. No layers: all groups keep
 * states. */
static inline struct lls_pool_shape lls_unit_part(const struct lls_pool_shape *s)
{
  size_t numbers = 0, head_dim = 0;
  for (uint32_t i = 0; i < lls_pool_groups(s); i++) {
    const struct lls_pool_shape one = lls_group_shape(s, i);
    if (one.state > 0)
      continue;
    head_dim = lls_common_divisor(head_dim, one.head_dim);
    numbers =
        lls_common_divisor(numbers, (size_t)one.layers * one.kv_heads * one.head_dim);
  }
  struct lls_pool_shape part = *s;
  part.head_dim = (uint32_t)head_dim;
  part.kv_heads = 1;
  part.layers = head_dim > 0 ? (uint32_t)(numbers / head_dim) : 0;
  part.state = 0;
  return part;
}

/*
 * Bytes of a unit, whole vectors, made for lls_unit_part: a group of more numbers has
 * blocks of more units, and no group wastes any. With INT8 blocks it is the most that all
 * forms are multiples of, so that none wastes any either. A state takes as many units as
 * it needs, of which the last is not full; without K and V it is one unit.
 */
static inline size_t lls_unit_bytes(const struct lls_pool_shape *s)
{
  const struct lls_pool_shape part = lls_unit_part(s);
  if (part.layers == 0)
    return (size_t)s->group_state[0];
  size_t vector = part.head_dim * lls_dtype_bytes(s->element);
  size_t unit = lls_form_bytes(&part, LLS_FORM_KV) / 2;
  size_t int8 = (lls_form_bytes(&part, LLS_FORM_INT8) + vector - 1) / vector * vector;
  return lls_common_divisor(unit, s->int8 != LLS_INT8_OFF ? int8 : 0);
}

/* Units of a block in that form. */
static inline uint32_t lls_form_units(const struct lls_pool_shape *s, uint32_t form)
{
  size_t unit = lls_unit_bytes(s);
  return (uint32_t)((lls_form_bytes(s, form) + unit - 1) / unit);
}

/* Units of a block in that form of one of the pool's groups. */
static inline uint32_t lls_group_units(const struct lls_pool_shape *s, uint32_t group,
                                       uint32_t form)
{
  const struct lls_pool_shape one = lls_group_shape(s, group);
  return lls_form_units(&one, form);
}

/* Units of a block of each group that keeps K and V, in KV form; one, if none does. */
static inline uint32_t lls_all_units(const struct lls_pool_shape *s)
{
  uint32_t units = 0;
  for (uint32_t i = 0; i < lls_pool_groups(s); i++)
    units += lls_group_is_state(s, i) ? 0 : lls_group_units(s, i, LLS_FORM_KV);
  return units > 0 ? units : 1;
}

/* Tokens that the units of a tier hold in KV form, if no group gives any back. */
static inline size_t lls_pool_tokens(const struct lls_pool_shape *s, uint32_t units)
{
  return (size_t)(units / lls_all_units(s)) * s->block_tokens;
}

enum lls_copy_way {
  LLS_COPY_DEVICE_TO_HOST,
  LLS_COPY_HOST_TO_DEVICE,
  LLS_COPY_DEVICE_TO_DEVICE,
};

/* The way of a copy that fits, see lls_copy_fits. */
static inline enum lls_copy_way lls_copy_way(const struct lls_copy *c)
{
  if (c->target_tier == LLS_TIER_HOST)
    return LLS_COPY_DEVICE_TO_HOST;
  return c->source_tier == LLS_TIER_HOST ? LLS_COPY_HOST_TO_DEVICE
                                         : LLS_COPY_DEVICE_TO_DEVICE;
}

/* The form on one side of a copy, where NONE is KV. */
static inline uint32_t lls_form_or_kv(uint32_t form)
{
  return form == LLS_FORM_NONE ? (uint32_t)LLS_FORM_KV : form;
}

/* Is it how the group whose shape it is keeps states? */
static inline bool lls_form_is_state(const struct lls_pool_shape *s, uint32_t form)
{
  return s->state > 0 && (form == LLS_FORM_NONE || form == LLS_FORM_STATE);
}

/* Bytes that go over the link, or are written: the narrower side's. */
static inline uint64_t lls_copied_bytes(const struct lls_pool_shape *s,
                                        const struct lls_copy *c)
{
  uint32_t form = c->source_form == LLS_FORM_INT8 ? (uint32_t)LLS_FORM_INT8
                                                  : (uint32_t)c->target_form;
  const struct lls_pool_shape one = lls_group_shape(s, c->group);
  if (one.state > 0)
    return one.state;
  return lls_form_bytes(&one, form) * (uint64_t)c->n_slots / s->block_tokens;
}

/* Does a block in that form, of the group whose shape it is, lie in the tier's units? */
static inline bool lls_block_fits(const struct lls_pool_shape *s, bool host,
                                  uint32_t form, uint32_t block)
{
  bool kv = form < LLS_FORM_INT8 || (form == LLS_FORM_INT8 && lls_pool_has_int8(s, host));
  if (s->state > 0 ? !lls_form_is_state(s, form) : !kv)
    return false;
  uint64_t units = host ? s->host_units : s->device_units;
  return block + (uint64_t)lls_form_units(s, form) <= units;
}

static inline bool lls_copy_shift_fits(const struct lls_pool_shape *s,
                                       const struct lls_copy *c)
{
  int32_t to = (int32_t)c->slot + c->shift;
  bool same_block =
      lls_copy_way(c) == LLS_COPY_DEVICE_TO_DEVICE && c->source == c->target;
  return to >= 0 && (uint32_t)to + c->n_slots <= s->block_tokens &&
         (c->shift == 0 || !same_block);
}

/* Would a copy within the device write over what it still has to read? */
static inline bool lls_copy_overlaps(const struct lls_pool_shape *s,
                                     const struct lls_copy *c)
{
  uint64_t source_end = c->source + (uint64_t)lls_form_units(s, c->source_form);
  uint64_t target_end = c->target + (uint64_t)lls_form_units(s, c->target_form);
  return lls_copy_way(c) == LLS_COPY_DEVICE_TO_DEVICE && c->source < target_end &&
         c->target < source_end;
}

/* Is a copy inside the pool, and one that it can carry out, by the shape of its group? */
static inline bool lls_group_copy_fits(const struct lls_pool_shape *s,
                                       const struct lls_copy *c)
{
  if (s->state > 0) /* as a whole, which 0 slots mean */
    return c->n_slots == 0 && c->shift == 0 &&
           lls_block_fits(s, c->source_tier == LLS_TIER_HOST, c->source_form,
                          c->source) &&
           lls_block_fits(s, c->target_tier == LLS_TIER_HOST, c->target_form,
                          c->target) &&
           !lls_copy_overlaps(s, c);
  uint32_t from = lls_form_or_kv(c->source_form), to = lls_form_or_kv(c->target_form);
  if (!lls_block_fits(s, c->source_tier == LLS_TIER_HOST, from, c->source) ||
      !lls_block_fits(s, c->target_tier == LLS_TIER_HOST, to, c->target))
    return false;
  if ((from == LLS_FORM_HIDDEN) != (to == LLS_FORM_HIDDEN))
    return false;
  bool int8 = from == LLS_FORM_INT8 || to == LLS_FORM_INT8;
  return (!int8 || c->n_slots == s->block_tokens) &&
         (!lls_copy_overlaps(s, c) || (from == to && c->source == c->target));
}

/*
 * Is that copy inside the pool, and one that it can carry out? The rules of types.h, for
 * every device.
 */
static inline bool lls_copy_fits(const struct lls_pool_shape *s, const struct lls_copy *c)
{
  if (c->source_tier > LLS_TIER_HOST || c->target_tier > LLS_TIER_HOST ||
      c->source_tier + c->target_tier > LLS_TIER_HOST || c->order > LLS_COPY_ASYNC ||
      c->group >= lls_pool_groups(s) ||
      (uint32_t)c->slot + c->n_slots > s->block_tokens || !lls_copy_shift_fits(s, c))
    return false;
  const struct lls_pool_shape one = lls_group_shape(s, c->group);
  return lls_group_copy_fits(&one, c);
}

/*
 * Slots of a block of another device's pool, on their way to one of this, in every layer;
 * or a state, as a whole.
 * Slot order is kept. The target is in KV form, or HIDDEN as the source is. If the source
 * is INT8 it goes over the link as it is, whole, and the slots are made wide where they
 * come to, so that this pool needs no INT8 blocks.
 */
struct lls_pull {
  uint32_t source, target; /* blocks on the devices */
  uint16_t source_slot, target_slot, n_slots;
  uint8_t source_form; /* enum lls_form */
  uint8_t group;
};

static inline bool lls_pull_is_int8(const struct lls_pull *c)
{
  return c->source_form == LLS_FORM_INT8;
}

static inline uint32_t lls_pull_target_form(const struct lls_pull *c)
{
  return c->source_form == LLS_FORM_HIDDEN ? LLS_FORM_HIDDEN : LLS_FORM_KV;
}

/* Each side by the pool that it is of. */
static inline bool lls_pull_source_fits(const struct lls_pool_shape *s,
                                        const struct lls_pull *c)
{
  if (c->group >= lls_pool_groups(s))
    return false;
  const struct lls_pool_shape one = lls_group_shape(s, c->group);
  return lls_block_fits(&one, false, c->source_form, c->source) &&
         (uint32_t)c->source_slot + c->n_slots <= s->block_tokens;
}

static inline bool lls_pull_target_fits(const struct lls_pool_shape *s,
                                        const struct lls_pull *c)
{
  if (c->group >= lls_pool_groups(s))
    return false;
  const struct lls_pool_shape one = lls_group_shape(s, c->group);
  uint32_t form = one.state > 0 ? c->source_form : lls_pull_target_form(c);
  return (one.state > 0 || c->source_form <= LLS_FORM_INT8) &&
         lls_block_fits(&one, false, form, c->target) &&
         (uint32_t)c->source_slot + c->n_slots <= s->block_tokens &&
         (uint32_t)c->target_slot + c->n_slots <= s->block_tokens;
}

/* Do blocks of the two mean the same? */
static inline bool lls_pools_match(const struct lls_pool_shape *a,
                                   const struct lls_pool_shape *b)
{
  bool alike = lls_pool_groups(a) == lls_pool_groups(b) &&
               a->block_tokens == b->block_tokens && a->element == b->element &&
               a->latent == b->latent;
  for (uint32_t i = 0; i < lls_pool_groups(a) && alike; i++) {
    const struct lls_pool_shape x = lls_group_shape(a, i), y = lls_group_shape(b, i);
    alike = x.layers == y.layers && x.kv_heads == y.kv_heads &&
            x.head_dim == y.head_dim && x.state == y.state;
  }
  return alike;
}

static inline uint64_t lls_pulled_bytes(const struct lls_pool_shape *s,
                                        const struct lls_pull *c)
{
  const struct lls_pool_shape one = lls_group_shape(s, c->group);
  uint64_t bytes = lls_form_bytes(&one, c->source_form);
  return lls_pull_is_int8(c) || one.state > 0 ? bytes
                                              : bytes / s->block_tokens * c->n_slots;
}

#endif
