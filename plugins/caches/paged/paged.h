/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The paged cache manager's state, shared by its files.
 *
 * Block b begins with unit b * `units`. Every device block is in exactly one of three
 * places:
 *
 *   free       a stack; nothing of worth in it
 *   held       by `references` sequences
 *   reusable   not held but still in the prefix index: a list, least recently held
 *              first, that counts as free memory
 *
 * Invariants, all of them checked by audit, with those of policy/prefixes.h:
 *   1. Every word that a transaction changes goes through set(), which writes down the
 *      old value. Rolling back puts the old values back, last one first: exact by
 *      construction, the order of all lists included.
 *   2. If every layer has a window, the first `gone` blocks of a sequence's list have
 * been given back: none is read any more. Their numbers stay in the row for paged_forget
 *      alone.
 */
#ifndef PAGED_H
#define PAGED_H

#include <llmserve/cache.h>

#include <llmserve/policy/prefixes.h>
#include <llmserve/policy/window.h>

struct params {
  bool prefix_sharing;
};

enum place { NOWHERE, ON_DEVICE, ON_HOST };

struct sequence { /* one for each slot */
  uint64_t request;
  uint8_t admitted; /* 0 or 1; not bool: an imported state may hold any byte */
  uint32_t place;   /* enum place */
  uint32_t row;     /* row of its block list; LLS_POL_NIL while it holds no block */
  uint32_t gone;    /* leading blocks of the list that were given back */
  uint32_t past;    /* end of the list; the sequence holds blocks [gone, past) */
  uint32_t cached;  /* tokens computed */
  uint32_t indexed; /* leading blocks that are in the index */
};

struct paged {
  const struct lls_host *host;
  bool prefix_sharing;
  uint32_t units; /* of a block */
  uint32_t block_tokens, n_blocks, n_host_blocks, n_slots, n_rows;
  /* entries of the longest list: a full context, or, without a window, all blocks */
  uint32_t row_blocks;
  struct lls_pol_window window;

  /* index of full blocks; also counts the holders of all blocks */
  struct lls_pol_prefixes index;
  uint32_t *host_next;             /* (n_host_blocks) stack of free host blocks */
  uint32_t *row_next;              /* (n_rows) stack of free rows */
  struct sequence *sequences;      /* (n_slots) */
  struct lls_group_list *lists;    /* (n_slots) of tables */
  struct lls_block_entry *entries; /* (n_rows, row_blocks) */
  uint32_t *marks; /* (max of n_blocks, n_host_blocks, n_rows) for audit */

  uint32_t free_head, n_free;
  uint32_t host_head, n_host_free;
  uint32_t row_head, n_rows_free;

  struct lls_copy *copies; /* (max_copies) copies of this step */
  uint32_t n_copies, max_copies;

  uint32_t available_at_begin;
  uint32_t n_evicted;             /* blocks that left the index in this transaction */
  struct lls_pol_journal journal; /* undo log of the open transaction */
};

/* Every change of the state goes through here. */
static inline void set(struct paged *m, uint32_t *where, uint32_t value)
{
  lls_pol_journal_set(&m->journal, where, value);
}

/* Most changes in the journal by one operation, per block and in addition. Room for them
 * is checked before the operation starts. */
#define CHANGES_PER_BLOCK 16
#define CHANGES_PER_VERB  16

static inline bool can_note(const struct paged *m, uint32_t blocks)
{
  return lls_pol_journal_has_room(&m->journal, CHANGES_PER_VERB +
                                                   (uint64_t)CHANGES_PER_BLOCK * blocks);
}

static inline uint32_t blocks_of(const struct paged *m, uint64_t tokens)
{
  return lls_pol_window_blocks(&m->window, tokens);
}

static inline uint32_t held(const struct sequence *s)
{
  return s->past - s->gone;
}

/* Leading blocks that no token after the first `cached` ones attends to. */
static inline uint32_t needless_blocks(const struct paged *m, uint32_t cached)
{
  return lls_pol_window_gone(&m->window, cached);
}

static inline uint32_t available(const struct paged *m)
{
  return m->n_free + m->index.n_reusable;
}

static inline struct lls_block_entry *list_of(const struct paged *m, uint32_t row)
{
  return m->entries + (size_t)row * m->row_blocks;
}

/* Block number of the i-th entry, in the tier that the sequence is in. */
static inline uint32_t block_at(const struct paged *m, const struct sequence *s,
                                uint32_t i)
{
  return list_of(m, s->row)[i].block / m->units;
}

/* ---- blocks.c: ownership of blocks */
/* Takes a block to write to; one must be available. */
uint32_t paged_take(struct paged *);
void paged_let_go(struct paged *, uint32_t block);
uint32_t paged_take_host(struct paged *);
void paged_free_host(struct paged *, uint32_t block);
uint32_t paged_take_row(struct paged *);
void paged_free_row(struct paged *, uint32_t row);
/* Puts block number `block` at place i of the list. */
void paged_put(struct paged *, const struct sequence *, uint32_t i, uint32_t block);

/* ---- prefix.c: the index of full blocks */
uint32_t paged_prefix(struct paged *, struct sequence *, const struct lls_request *,
                      bool take);
void paged_index(struct paged *, struct sequence *, const struct lls_request *);
/* Frees blocks of a dropped sequence that no other sequence holds and that have no child
 * in the index; s is the sequence's state before the drop. */
void paged_forget(struct paged *, const struct sequence *s);
/* Returns the number of the sequence's blocks that other sequences hold as well. */
uint32_t paged_shared_blocks(const struct paged *, const struct sequence *);
/* Implement the vtable's `kept` and `adopt`. */
size_t paged_kept(struct paged *, struct lls_kept_block *out, size_t max);
size_t paged_adopt(struct paged *, struct lls_kept_block *, size_t n);

/* ---- sequence.c: operations on one sequence */
/* The most blocks the sequence holds at once while it grows by `tokens`, in steps as long
 * as possible. */
uint32_t paged_peak(const struct paged *, const struct sequence *,
                    const struct lls_request *, uint32_t tokens);
int paged_reserve(struct paged *, struct sequence *, const struct lls_request *,
                  uint32_t tokens);
/* Gives back the blocks that have left the window. */
void paged_trim(struct paged *, struct sequence *);
void paged_drop(struct paged *, struct sequence *);
int paged_swap_out(struct paged *, struct sequence *);

/* ---- state.c: handing the state over to another generation */
int paged_export(struct paged *, struct lls_blob *);
/* Replaces the state by an exported one. On failure the manager is inconsistent: the
 * caller must make it empty again. */
int paged_import(struct paged *, const struct lls_blob *);

/* ---- audit.c */
int paged_audit(struct paged *, const struct lls_sink *);

#endif
