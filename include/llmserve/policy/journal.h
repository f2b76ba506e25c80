/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transaction as a journal of (word, old value): rolling back restores the old values
 * in reverse order, so it is exact by construction. And helpers for words that cache
 * managers change this way.
 */
#ifndef LLS_POL_JOURNAL_H
#define LLS_POL_JOURNAL_H

#include <llmserve/policy/number.h>

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include <llmserve/policy/check.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LLS_POL_NIL UINT32_MAX /* no index */

/* A word that may have been declared as something else, such as two short numbers. */
typedef uint32_t lls_pol_word __attribute__((may_alias));

struct lls_pol_change {
  uint32_t *where;
  uint32_t old;
};

struct lls_pol_journal {
  bool open;                      /* a transaction is open */
  struct lls_pol_change *changes; /* (max) */
  uint32_t n, max;
};

static inline int lls_pol_journal_begin(struct lls_pol_journal *j)
{
  if (j->open)
    return -EBUSY;
  j->open = true;
  j->n = 0;
  return 0;
}

static inline int lls_pol_journal_rollback(struct lls_pol_journal *j, uint32_t to)
{
  if (!j->open || to > j->n)
    return -EINVAL;
  while (j->n > to) {
    const struct lls_pol_change *c = &j->changes[--j->n];
    *(lls_pol_word *)c->where = c->old;
  }
  return 0;
}

static inline int lls_pol_journal_commit(struct lls_pol_journal *j)
{
  if (!j->open)
    return -EINVAL;
  j->open = false;
  j->n = 0;
  return 0;
}

/* Call it before an operation begins, since it must not stop half-way. */
static inline bool lls_pol_journal_has_room(const struct lls_pol_journal *j,
                                            uint64_t changes)
{
  return !j->open || j->n + changes <= j->max;
}

static inline void lls_pol_journal_set(struct lls_pol_journal *j, uint32_t *where,
                                       uint32_t value)
{
  LLS_POL_CHECK(!j->open || j->n < j->max); /* has_room was called */
  if (j->open) {
    struct lls_pol_change *c = &j->changes[j->n++];
    c->where = where;
    c->old = *(const lls_pol_word *)where;
  }
  *(lls_pol_word *)where = value;
}

/* Makes a stack of 0..n - 1, linked by index. */
static inline void lls_pol_chain_stack(uint32_t *head, uint32_t *next, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    next[i] = i + 1 < n ? i + 1 : LLS_POL_NIL;
  *head = n > 0 ? 0 : LLS_POL_NIL;
}

#ifdef __cplusplus
}
#endif

#endif
