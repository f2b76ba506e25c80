/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hybrid cache manager's state, shared by its files (Apt-Serve, section 4).
 *
 * One pool, in slabs of blocks in KV or in hidden form (chains.h). A sequence in KV form
 * has a list of KV blocks, one in hidden form a list of blocks of X, half as large for
 * the same tokens. While it changes from hidden to KV form, from reserve to computed, it
 * has both lists: the engine restores X into the KV blocks in that step. A slab has
 * blocks of one sequence, so that it is free when that has gone.
 *
 * Invariants, checked by audit:
 *   1. Every block that is taken is on one list of one sequence.
 *   2. A list covers all cached tokens of its sequence; no entry of it is skipped.
 *   3. Every word that a transaction changes goes through set(), which writes down the
 * old value; rolling back puts the old values back, last one first.
 */
#ifndef HYBRID_H
#define HYBRID_H

#include <llmserve/cache.h>

#include <llmserve/policy/journal.h>

#include "../../common/chains.h"

struct params {
  int64_t form;   /* enum default_form */
  double max_eta; /* hidden form is offered up to this ratio of bytes */
};

enum default_form { DEFAULT_KV, DEFAULT_HIDDEN };

enum list { LIST_KV, LIST_X, N_LISTS }; /* and sizes of blocks */

struct sequence { /* one for each slot */
  uint64_t request;
  bool admitted;
  uint32_t form;          /* enum lls_form; NONE while it holds no block */
  uint32_t row;           /* row of its lists; LLS_POL_NIL while it holds no block */
  uint32_t held[N_LISTS]; /* entries of its lists */
  uint32_t cached;        /* tokens computed */
};

struct hybrid {
  const struct lls_host *host;
  struct params params;
  bool offers_hidden;
  char why_not[160]; /* reason, if hidden form is not offered */
  uint32_t block_tokens, n_slots, n_rows;
  uint32_t row_blocks; /* entries of the longest list: a full context */

  struct chains blocks; /* by enum list */
  uint32_t *row_next;   /* (n_rows) stack of free rows */
  uint32_t row_head, n_rows_free;
  struct sequence *sequences;      /* (n_slots) */
  struct lls_block_entry *entries; /* (n_rows, N_LISTS, row_blocks) */
  struct lls_group_list *tables;   /* (n_slots) */
  uint32_t *marks;                 /* (units of the pool) for audit */

  uint32_t free_at_begin;
  struct lls_pol_journal journal; /* undo log of the open transaction */
};

/* Every change of the state goes through here. */
static inline void set(struct hybrid *m, uint32_t *where, uint32_t value)
{
  lls_pol_journal_set(&m->journal, where, value);
}

static inline uint32_t blocks_of(const struct hybrid *m, uint64_t tokens)
{
  return (uint32_t)((tokens + m->block_tokens - 1) / m->block_tokens);
}

static inline enum list list_in(uint32_t form)
{
  return form == LLS_FORM_HIDDEN ? LIST_X : LIST_KV;
}

static inline struct lls_block_entry *list_of(const struct hybrid *m,
                                              const struct sequence *s, enum list list)
{
  return m->entries + ((size_t)s->row * N_LISTS + list) * m->row_blocks;
}

/* ---- sequence.c: operations on one sequence */
/* Returns the form in which reserve(asked) holds the sequence; asked = NONE: the
 * manager's choice. */
uint32_t hybrid_form(const struct hybrid *, const struct sequence *, uint32_t asked);
/* Slabs it would take to hold `tokens` more in that form. */
uint32_t hybrid_slabs_needed(const struct hybrid *, const struct sequence *,
                             uint32_t tokens, uint32_t form);
int hybrid_reserve(struct hybrid *, struct sequence *, uint32_t tokens, uint32_t form);
void hybrid_drop(struct hybrid *, struct sequence *);
/* Frees the X list after the engine has restored it: the sequence is then in KV form. */
void hybrid_forget_x(struct hybrid *, struct sequence *);

/* ---- state.c: handing the state over to another generation or another manager */
int hybrid_export(struct hybrid *, struct lls_blob *);
/* Leaves out sequences that this manager can't hold. On failure the manager is
 * inconsistent: the caller must make it empty again. */
int hybrid_import(struct hybrid *, const struct lls_blob *);

/* ---- audit.c */
int hybrid_audit(struct hybrid *, const struct lls_sink *);

#endif
