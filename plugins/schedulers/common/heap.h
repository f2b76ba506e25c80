/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A binary heap, smallest (key, tie) first, whose items know where they are: `place` of
 * an entry points to a word of its item that holds the entry's index + 1, 0 while it is
 * in no heap. So an item can be taken out of the middle.
 *
 * A heap and not a sorted array: with 16,000 waiting a step takes out and puts back a few
 * dozen, and moving half of such an array takes longer than all of them together.
 */
#ifndef HEAP_H
#define HEAP_H

#include <stdbool.h>
#include <stdint.h>

struct heap_entry {
  int64_t key;
  uint64_t tie;
  void *item;
  uint64_t *place; /* NULL: the item doesn't know */
};

struct heap {
  struct heap_entry *entries; /* (capacity) the smallest first */
  uint32_t n, capacity;
};

int heap_init(struct heap *, uint32_t capacity);
void heap_free(struct heap *);

/* There must be room. */
void heap_push(struct heap *, struct heap_entry);
/* The smallest; there must be one. */
struct heap_entry heap_pop(struct heap *);
struct heap_entry heap_remove(struct heap *, uint32_t index);
/* Puts the entries in order after they were written to entries[0..n) directly. */
void heap_build(struct heap *);
void heap_clear(struct heap *);

#define HEAP_LOOKED_AT 32

/* The first `max` in order, HEAP_LOOKED_AT at most, which all stay where they are; how
 * many there are. */
uint32_t heap_first(const struct heap *, uint32_t max, void *out[HEAP_LOOKED_AT]);

static inline bool heap_before(const struct heap_entry *a, const struct heap_entry *b)
{
  return a->key < b->key || (a->key == b->key && a->tie < b->tie);
}

#endif
