/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Block lists as untidy as the SDK allows: units anywhere in the pool, some of them
 * filled in part, from either end, the other end of which is often another list's, or the
 * same one's further on.
 */
#ifndef LLS_KERNEL_BLOCK_LISTS_H
#define LLS_KERNEL_BLOCK_LISTS_H

#include "t/kernel/fixture.h"

#define MAX_UNITS 8192
#define MAX_ENDS  64

struct block_lists {
  uint32_t order[MAX_UNITS], n, used, block_tokens; /* units in a random order */
  struct lls_block_entry ends[MAX_ENDS];            /* that nobody has, and their slots */
  uint32_t n_ends, n_shared;
};

static inline void block_lists_init(struct block_lists *b, uint32_t n,
                                    uint32_t block_tokens)
{
  assert_true(n <= MAX_UNITS);
  b->n = n;
  b->used = b->n_ends = b->n_shared = 0;
  b->block_tokens = block_tokens;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t j = random_between(0, i);
    b->order[i] = b->order[j];
    b->order[j] = i;
  }
}

static inline uint32_t block_lists_take(struct block_lists *b)
{
  assert_true(b->used < b->n);
  return b->order[b->used++];
}

/* One in four is not full. */
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

/* A list for n tokens, of which the last entry has room for more; whole blocks from the
 * left if it is tidy. How many entries. */
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

/* Entries of which all tokens are before `oldest` leave the front of a list; the first
 * token that is left. */
static inline uint32_t give_back(const struct lls_block_entry **list, uint32_t *n,
                                 uint32_t oldest)
{
  while (*n > 0 && (*list)->first_token + (*list)->count <= oldest)
    ++*list, --*n;
  return *n > 0 ? (*list)->first_token : 0;
}

/* The first rows' numbers are none. */
static inline void poison(float *at, size_t columns, size_t width, uint32_t n_rows)
{
  for (uint32_t i = 0; i < n_rows; i++)
    for (size_t d = 0; d < width; d++)
      at[i * columns + d] = NAN;
}

#endif
