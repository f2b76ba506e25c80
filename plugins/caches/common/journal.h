/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transaction as a journal of (word, old value): rolling back puts the old values back,
 * last one first, so that it is exact by construction. And the few words that cache
 * managers kept in such a way have in common.
 */
#ifndef JOURNAL_H
#define JOURNAL_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#define NIL UINT32_MAX /* no index */

struct change {
  uint32_t *where;
  uint32_t old;
};

struct journal {
  bool open;              /* a transaction is */
  struct change *changes; /* (max) */
  uint32_t n, max;
};

static inline int journal_begin(struct journal *j)
{
  if (j->open)
    return -EBUSY;
  j->open = true;
  j->n = 0;
  return 0;
}

static inline int journal_rollback(struct journal *j, uint32_t to)
{
  if (!j->open || to > j->n)
    return -EINVAL;
  while (j->n > to) {
    const struct change *c = &j->changes[--j->n];
    *c->where = c->old;
  }
  return 0;
}

static inline int journal_commit(struct journal *j)
{
  if (!j->open)
    return -EINVAL;
  j->open = false;
  j->n = 0;
  return 0;
}

/* Asked for before a verb starts: it must not stop half-way. */
static inline bool journal_has_room(const struct journal *j, uint64_t changes)
{
  return !j->open || j->n + changes <= j->max;
}

static inline void journal_set(struct journal *j, uint32_t *where, uint32_t value)
{
  if (j->open)
    j->changes[j->n++] = (struct change){where, *where};
  *where = value;
}

/* A stack of 0..n - 1, linked by index. */
static inline void chain_stack(uint32_t *head, uint32_t *next, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    next[i] = i + 1 < n ? i + 1 : NIL;
  *head = n > 0 ? 0 : NIL;
}

static inline uint32_t min_u32(uint32_t a, uint32_t b)
{
  return a < b ? a : b;
}

static inline uint32_t max_u32(uint32_t a, uint32_t b)
{
  return a > b ? a : b;
}

#endif
