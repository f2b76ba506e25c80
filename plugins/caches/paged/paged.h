/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The paged cache manager's state, shared by its files.
 *
 * A *block* is a pair of unit blocks, 2b for K and 2b + 1 for V, of the same block_tokens
 * tokens. Every device block is in exactly one of three places:
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
 *   2. Of a sequence's list the first `gone` blocks have been given back, where every
 * layer has a window: none is read any more. Their numbers stay in the row, and mean
 *      nothing but in paged_forget.
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

struct sequence { /* of one slot */
  uint64_t request;
  uint8_t admitted; /* 0 or 1; no bool, for a state may say anything */
  uint32_t place;   /* enum place */
  uint32_t row;     /* of its block list; LLS_POL_NIL while it holds nothing */
  uint32_t gone;    /* leading blocks that were given back */
  uint32_t past;    /* blocks on its list, with those: it holds [gone, past) */
  uint32_t cached;  /* tokens computed */
  uint32_t indexed; /* leading blocks that are in the index */
};

struct paged {
  const struct lls_host *host;
  bool prefix_sharing;
  uint32_t block_tokens, n_blocks, n_host_blocks, n_slots, n_rows;
  uint32_t
      row_blocks; /* longest list: a full context, or, without a window, all blocks */
  struct lls_pol_window window;

  struct lls_pol_prefixes index;   /* of full blocks; who holds which block */
  uint32_t *host_next;             /* (n_host_blocks) stack of free ones */
  uint32_t *row_next;              /* (n_rows) stack of free ones */
  struct sequence *sequences;      /* (n_slots) */
  struct lls_block_entry *entries; /* (n_rows, 2, row_blocks) a row's K list, then V */
  uint32_t *marks; /* (max of n_blocks, n_host_blocks, n_rows) for audit */

  uint32_t free_head, n_free;
  uint32_t host_head, n_host_free;
  uint32_t row_head, n_rows_free;

  struct lls_copy *copies; /* (max_copies) of this step */
  uint32_t n_copies, max_copies;

  uint32_t available_at_begin;
  uint32_t n_evicted;             /* from the index, in this transaction */
  struct lls_pol_journal journal; /* of the open transaction */
};

/* Every change of the state goes through here. */
static inline void set(struct paged *m, uint32_t *where, uint32_t value)
{
  lls_pol_journal_set(&m->journal, where, value);
}

/* Changes that a verb makes per block, and besides; asked for before it starts. */
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

/* Leading blocks that nothing behind so many tokens reads. */
static inline uint32_t needless_blocks(const struct paged *m, uint32_t cached)
{
  return lls_pol_window_gone(&m->window, cached);
}

static inline uint32_t available(const struct paged *m)
{
  return m->n_free + m->index.n_reusable;
}

static inline struct lls_block_entry *k_list(const struct paged *m, uint32_t row)
{
  return m->entries + (size_t)row * 2 * m->row_blocks;
}

/* Block number of a K entry; of the device or of the host, wherever the sequence is. */
static inline uint32_t block_at(const struct paged *m, const struct sequence *s,
                                uint32_t i)
{
  return k_list(m, s->row)[i].block / 2;
}

/* ---- blocks.c: ownership of blocks */
/* A block to write to; there must be one available. */
uint32_t paged_take(struct paged *);
void paged_let_go(struct paged *, uint32_t block);
uint32_t paged_take_host(struct paged *);
void paged_free_host(struct paged *, uint32_t block);
uint32_t paged_take_row(struct paged *);
void paged_free_row(struct paged *, uint32_t row);
/* Puts block number `block` at place i of the list: both its units. */
void paged_put(struct paged *, const struct sequence *, uint32_t i, uint32_t block);

/* ---- prefix.c: the index of full blocks */
uint32_t paged_prefix(struct paged *, struct sequence *, const struct lls_request *,
                      bool take);
void paged_index(struct paged *, struct sequence *, const struct lls_request *);
/* Frees blocks of a sequence that has just been dropped which no other holds and no
 * other block of the index comes after; s is what it was before. */
void paged_forget(struct paged *, const struct sequence *s);
/* Its blocks that other sequences hold, too. */
uint32_t paged_shared_blocks(const struct paged *, const struct sequence *);
/* As the members of the vtable. */
size_t paged_kept(struct paged *, struct lls_kept_block *out, size_t max);
size_t paged_adopt(struct paged *, struct lls_kept_block *, size_t n);

/* ---- sequence.c: what is done to one sequence */
/* Blocks that it will hold at most on its way to `tokens` more, in steps as long as may
 * be. */
uint32_t paged_peak(const struct paged *, const struct sequence *,
                    const struct lls_request *, uint32_t tokens);
int paged_reserve(struct paged *, struct sequence *, const struct lls_request *,
                  uint32_t tokens);
/* Gives back the blocks that have left the window. */
void paged_trim(struct paged *, struct sequence *);
void paged_drop(struct paged *, struct sequence *);
int paged_swap_out(struct paged *, struct sequence *);

/* ---- state.c: handed over to another generation */
int paged_export(struct paged *, struct lls_blob *);
/* Leaves the manager in disorder when it fails: make it empty again. */
int paged_import(struct paged *, const struct lls_blob *);

/* ---- audit.c */
int paged_audit(struct paged *, const struct lls_sink *);

#endif
