/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hybrid cache manager's state, shared by its files (Apt-Serve, section 4).
 *
 * One pool of unit blocks, any of which holds K, V or X of block_tokens tokens. A
 * sequence in KV form has a K list and a V list of equal length, one in hidden form an X
 * list, half as many units for the same tokens. While it changes from hidden to KV form,
 * from reserve to computed, it has all three lists: the engine restores X into the K and
 * V blocks in that step.
 *
 * Invariants, checked by audit:
 *   1. Every unit is on one list of one sequence, or on the free stack.
 *   2. A list covers all cached tokens of its sequence; no entry of it is skipped.
 *   3. Every word that a transaction changes goes through set(), which writes down the
 * old value; rolling back puts the old values back, last one first.
 */
#ifndef HYBRID_H
#define HYBRID_H

#include <llmserve/cache.h>

#include <llmserve/policy/journal.h>

struct params {
  int64_t form;   /* enum default_form */
  double max_eta; /* hidden form is offered up to this ratio of bytes */
};

enum default_form { DEFAULT_KV, DEFAULT_HIDDEN };

enum list { LIST_K, LIST_V, LIST_X, N_LISTS };

struct sequence { /* one for each slot */
  uint64_t request;
  bool admitted;
  uint32_t form;    /* enum lls_form; NONE while it holds no block */
  uint32_t row;     /* row of its lists; LLS_POL_NIL while it holds no block */
  uint32_t held_kv; /* entries of its K list, and of its V list */
  uint32_t held_x;  /* entries of its X list */
  uint32_t cached;  /* tokens computed */
};

struct hybrid {
  const struct lls_host *host;
  struct params params;
  bool engine_can, offers_hidden;
  char why_not[160]; /* reason, if hidden form is not offered */
  uint32_t block_tokens, n_units, n_slots, n_rows;
  uint32_t row_blocks; /* entries of the longest list: a full context */

  uint32_t *unit_next; /* (n_units) stack of free units */
  uint32_t unit_head, n_free;
  uint32_t *row_next; /* (n_rows) stack of free rows */
  uint32_t row_head, n_rows_free;
  struct sequence *sequences;      /* (n_slots) */
  struct lls_block_entry *entries; /* (n_rows, N_LISTS, row_blocks) */
  uint32_t *marks;                 /* (n_units) for audit */

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

/* Returns the units that `blocks` of a sequence take in a form. */
static inline uint32_t units_of(uint32_t form, uint32_t blocks)
{
  return form == LLS_FORM_HIDDEN ? blocks : 2 * blocks;
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
/* Units it would take to hold `tokens` more in that form. */
uint32_t hybrid_units_needed(const struct hybrid *, const struct sequence *,
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
