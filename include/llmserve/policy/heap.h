/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A binary heap, smallest (key, tie) first, whose items know their positions: `place`
 * of an entry points to a word of its item with the entry's index + 1, or 0 while the
 * item is in no heap. So an item can be removed from the middle.
 *
 * A heap is used instead of a sorted array: with 16,000 waiting requests a step removes
 * and inserts a few dozen, and moving half of such an array takes longer than all of
 * them.
 */
#ifndef LLS_POL_HEAP_H
#define LLS_POL_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lls_pol_heap_entry {
  int64_t key;
  uint64_t tie;
  void *item;
  uint64_t *place; /* NULL: the item does not need its position */
};

struct lls_pol_heap {
  struct lls_pol_heap_entry *entries; /* (capacity) the smallest one first */
  uint32_t n, capacity;
};

int lls_pol_heap_init(struct lls_pol_heap *, uint32_t capacity);
void lls_pol_heap_free(struct lls_pol_heap *);

/* There must be room. */
void lls_pol_heap_push(struct lls_pol_heap *, struct lls_pol_heap_entry);
/* Removes and returns the smallest entry; there must be one. */
struct lls_pol_heap_entry lls_pol_heap_pop(struct lls_pol_heap *);
struct lls_pol_heap_entry lls_pol_heap_remove(struct lls_pol_heap *, uint32_t index);
/* Orders entries that were written to entries[0..n) directly. */
void lls_pol_heap_build(struct lls_pol_heap *);
void lls_pol_heap_clear(struct lls_pol_heap *);

#define LLS_POL_HEAP_LOOKED_AT 32

/* Writes the first `max` items in order, at most LLS_POL_HEAP_LOOKED_AT, without
 * removing them. Returns their number. */
uint32_t lls_pol_heap_first(const struct lls_pol_heap *, uint32_t max,
                            void *out[LLS_POL_HEAP_LOOKED_AT]);

static inline bool lls_pol_heap_before(const struct lls_pol_heap_entry *a,
                                       const struct lls_pol_heap_entry *b)
{
  return a->key < b->key || (a->key == b->key && a->tie < b->tie);
}

#ifdef __cplusplus
}
#endif

#endif
