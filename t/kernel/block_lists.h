/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Block lists as irregular as the SDK allows: blocks anywhere in the pool, some partly
 * filled, from either end; the other end often belongs to another list, or to a later
 * part of the same one.
 */
#ifndef LLS_KERNEL_BLOCK_LISTS_H
#define LLS_KERNEL_BLOCK_LISTS_H

#include "t/kernel/fixture.h"

#define MAX_UNITS 8192
#define MAX_ENDS  64

struct block_lists {
  uint32_t order[MAX_UNITS], n, used; /* blocks in a random order */
  uint32_t block_tokens, block_units;
  /* free ends of partly filled blocks, and their slots */
  struct lls_block_entry ends[MAX_ENDS];
  uint32_t n_ends, n_shared;
};

/* Units of the largest block in a form that the pool's device has: with few tokens that
 * is INT8, for its scales. */
static inline uint32_t most_block_units(const struct lls_pool_shape *s)
{
  uint32_t wide = lls_form_units(s, LLS_FORM_KV);
  uint32_t int8 = lls_pool_has_int8(s, false) ? lls_form_units(s, LLS_FORM_INT8) : 0;
  return int8 > wide ? int8 : wide;
}

static inline void block_lists_init(struct block_lists *b, uint32_t n,
                                    uint32_t block_tokens, uint32_t block_units)
{
  assert_true(n <= MAX_UNITS);
  b->n = n;
  b->used = b->n_ends = b->n_shared = 0;
  b->block_tokens = block_tokens;
  b->block_units = block_units;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t j = random_between(0, i);
    b->order[i] = b->order[j];
    b->order[j] = i;
  }
}

static inline uint32_t block_lists_take(struct block_lists *b)
{
  assert_true(b->used < b->n);
  return b->order[b->used++] * b->block_units;
}

/* One in four entries is not full. */
static inline struct lls_block_entry untidy_entry(struct block_lists *b)
{
  uint32_t most = b->block_tokens;
  if (b->n_ends > 0 && random_bits() % 2 == 0) {
    struct lls_block_entry e = b->ends[--b->n_ends];
    e.count = (uint16_t)random_between(1, e.count);
    b->n_shared++;
    return e;
  }
  struct lls_block_entry e = {
      .block = block_lists_take(b),
      .count = (uint16_t)(random_bits() % 4 == 0 ? random_between(1, most) : most),
      .direction = random_bits() % 2 ? LLS_LEFT_TO_RIGHT : LLS_RIGHT_TO_LEFT};
  if (e.count < most && b->n_ends < MAX_ENDS)
    b->ends[b->n_ends++] = (struct lls_block_entry){
        .block = e.block,
        .count = (uint16_t)(most - e.count),
        .direction =
            e.direction == LLS_LEFT_TO_RIGHT ? LLS_RIGHT_TO_LEFT : LLS_LEFT_TO_RIGHT};
  return e;
}

/* Makes a list for n tokens, whose last entry has space for more; whole blocks from the
 * left if it is tidy. Returns the number of entries. */
static inline uint32_t block_list(struct block_lists *b, uint32_t n, bool tidy,
                                  struct lls_block_entry **out)
{
  struct lls_block_entry *list = malloc((n + 1) * sizeof *list);
  uint32_t entries = 0;
  for (uint32_t token = 0; token < n; token += list[entries++].count) {
    list[entries] = tidy ? (struct lls_block_entry){.block = block_lists_take(b),
                                                    .count = (uint16_t)b->block_tokens}
                         : untidy_entry(b);
    list[entries].first_token = token;
  }
  *out = list;
  return entries;
}

/* Returns the first token that a layer with this window sees from `context` on. */
static inline uint32_t oldest_seen(uint32_t context, uint32_t window)
{
  return window > 0 && context >= window ? context + 1 - window : 0;
}

/* Removes the leading entries whose tokens are all before `oldest`; returns the first
 * remaining token. */
static inline uint32_t give_back(struct lls_step_list *list, uint32_t oldest)
{
  while (list->n > 0 && list->entries->first_token + list->entries->count <= oldest)
    list->entries++, list->n--;
  return list->n > 0 ? list->entries->first_token : 0;
}

/* Sets the first rows' values to NaN. */
static inline void poison(float *at, size_t columns, size_t width, uint32_t n_rows)
{
  for (uint32_t i = 0; i < n_rows; i++)
    for (size_t d = 0; d < width; d++)
      at[i * columns + d] = NAN;
}

#endif
