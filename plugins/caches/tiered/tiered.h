/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tiered cache manager's state, shared by its files (ALISE, section 3.3 and 3.4).
 *
 * A block is *wide*, in the cache's own numbers, or *narrow*, in int8. A sequence's full
 * blocks are narrow on the host unless [cache] int8 = off, and on the device with `all`.
 * So the form of a block follows from its sequence's tier and length and is not stored,
 * and the units saved by int8 are free units. A tier's blocks are in slabs (chains.h).
 * On the device a slab has blocks of one sequence alone, or of those that share them.
 *
 * Full blocks on the device may be shared (policy/prefixes.h). The index numbers a block
 * by its first unit / index_units; either all blocks of the index are narrow, or none.
 * The first `indexed` blocks of a sequence are in the index; the index counts no holders
 * for the rest, which only the sequence holds. A slab of the device that has blocks and
 * no holder of any is *idle*: it counts as free, since its blocks can be evicted.
 *
 * A sequence is on the device or on the host as a whole, or moves between them. Then it
 * has a second row with its target blocks, and blocks before `left` are still to be
 * moved: the last block goes first, since shared blocks must be released in that order.
 * Copies of a transfer are listed in commit, as many in a step as the link carries while
 * the step computes; on_transfer frees their source blocks.
 *
 * Invariants, checked by audit:
 *   1. Every block that is taken from a tier is in one list, or in the index.
 *   2. A list covers all cached tokens of its sequence.
 *   3. With `all` one slab of the device, free or idle, is never given to a sequence:
 *      converting a full block to int8 takes at most one slab before it frees one, so it
 *      is always possible.
 *   4. Every word that a transaction changes goes through set(), which writes down the
 *      old value. The forms in entries follow from the other fields and are set
 *      in commit, for the sequences whose rows a transaction has touched.
 */
#ifndef TIERED_H
#define TIERED_H

#include <llmserve/cache.h>

#include <llmserve/policy/prefixes.h>
#include <llmserve/policy/window.h>

#include "../../common/chains.h"

struct params {
  double share; /* fraction of a step's time in which transfers may use the link */
  bool prefix_sharing;
};

enum place { NOWHERE, ON_DEVICE, ON_HOST };
enum size { WIDE, NARROW }; /* of blocks: index of the slabs' sizes */

struct sequence { /* one for each slot */
  uint64_t request;
  uint8_t admitted; /* 0 or 1, as `touched`; not bool: a state may hold any byte */
  uint32_t place;   /* enum place; while it moves: the source */
  uint32_t row;     /* row of its lists; LLS_POL_NIL while it holds no block */
  uint32_t gone;    /* leading blocks that were given back: before every layer's window */
  uint32_t held;    /* blocks on its list, the given back ones included */
  uint32_t cached;  /* tokens computed */
  uint32_t indexed; /* leading blocks that are in the index; 0 on the host */
  uint32_t transfer; /* number of its transfer; 0 = it does not move */
  uint32_t to_row;   /* row of its target lists, or LLS_POL_NIL */
  uint32_t left;     /* while it moves: blocks before this one are at the source yet */
  uint32_t listed;   /* the engine has the copies of the blocks from this one on */
  uint8_t touched;   /* the sequence's slot is in m->touched */
};

struct copy_list {
  struct lls_copy *copies; /* (max) */
  uint32_t n, max;
};

struct tiered {
  const struct lls_host *host;
  struct params params;
  bool narrow[2];    /* full blocks are, by tier: device, host */
  uint32_t units[2]; /* of a block, by enum size */
  uint32_t block_tokens, n_slots, n_rows;
  uint32_t row_blocks; /* entries of the longest list */
  struct lls_pol_window window;
  uint64_t unit_bytes;

  struct chains tiers[2];        /* device, host */
  struct lls_pol_prefixes index; /* of full blocks on the device */
  uint32_t index_units;          /* of a block of the index */
  uint32_t *holders;             /* (slabs of the device) blocks that sequences hold */
  uint32_t n_idle;               /* slabs of the device */
  uint32_t n_evicted;            /* from the index, since the last commit */
  uint32_t *row_next;            /* (n_rows) stack of free rows */
  uint32_t row_head, n_rows_free;
  struct sequence *sequences;      /* (n_slots) */
  struct lls_group_list *lists;    /* (n_slots) of tables */
  struct lls_block_entry *entries; /* (n_rows, row_blocks) */
  uint32_t *marks;                 /* (most units of a tier) for audit */
  uint32_t *row_marks;             /* (n_rows) for audit */
  /* (n_slots) slots of the sequences changed in this transaction */
  uint32_t *touched, n_touched;
  uint32_t *moving, n_moving; /* (n_slots) slots, oldest transfer first */

  struct copy_list pending; /* copies for the next step: full blocks to int8 */
  struct copy_list now;     /* copies of this step */
  uint32_t last_transfer;

  uint32_t free_at_begin;
  struct lls_pol_journal journal; /* undo log of the open transaction */
};

/* Every change of the state goes through here. */
static inline void set(struct tiered *m, uint32_t *where, uint32_t value)
{
  lls_pol_journal_set(&m->journal, where, value);
}

static inline uint32_t blocks_of(const struct tiered *m, uint64_t tokens)
{
  return lls_pol_window_blocks(&m->window, tokens);
}

/* Leading blocks of a sequence that are narrow in a tier. */
static inline uint32_t int8_blocks(const struct tiered *m, const struct sequence *s,
                                   bool on_host)
{
  return m->narrow[on_host] ? s->cached / m->block_tokens : 0;
}

/* Returns the number of narrow blocks among the sequence's blocks [gone, blocks) in a
 * tier. */
static inline uint32_t narrow_of(const struct tiered *m, const struct sequence *s,
                                 bool on_host, uint32_t blocks)
{
  uint32_t int8 = int8_blocks(m, s, on_host);
  return lls_pol_min(blocks, int8) - lls_pol_min(s->gone, int8);
}

/* Returns the units that blocks [gone, blocks) of the sequence take in a tier. */
static inline uint32_t units_of(const struct tiered *m, const struct sequence *s,
                                bool on_host, uint32_t blocks)
{
  uint32_t narrow = narrow_of(m, s, on_host, blocks);
  return m->units[WIDE] * (blocks - s->gone - narrow) + m->units[NARROW] * narrow;
}

/* Slabs that it takes to bring these blocks into a tier. */
static inline uint32_t slabs_for(const struct tiered *m, const struct sequence *s,
                                 bool on_host, uint32_t blocks)
{
  const struct chains *tier = &m->tiers[on_host];
  uint32_t narrow = narrow_of(m, s, on_host, blocks);
  return chains_slabs_for(tier, WIDE, blocks - s->gone - narrow, LLS_POL_NIL) +
         (narrow > 0 ? chains_slabs_for(tier, NARROW, narrow, LLS_POL_NIL) : 0);
}

/* Slabs of the device that no sequence may have: the one of invariant 3. */
static inline uint32_t spare_slabs(const struct tiered *m)
{
  return m->narrow[false] ? 1 : 0;
}

/* Slabs that can be taken: free ones, and on the device idle ones. */
static inline uint32_t slabs_to_be_had(const struct tiered *m, bool on_host)
{
  return m->tiers[on_host].n_free + (on_host ? 0 : m->n_idle);
}

/* Returns the slabs that sequences may have. */
static inline uint32_t free_slabs_of(const struct tiered *m, bool on_host)
{
  uint32_t spare = on_host ? 0 : spare_slabs(m), n = slabs_to_be_had(m, on_host);
  return n > spare ? n - spare : 0;
}

static inline uint32_t free_units_of(const struct tiered *m, bool on_host)
{
  return on_host ? chains_free_units(&m->tiers[true])
                 : free_slabs_of(m, false) * m->tiers[false].slab_units;
}

static inline struct lls_block_entry *list_of(const struct tiered *m, uint32_t row)
{
  return m->entries + (size_t)row * m->row_blocks;
}

/* Returns the index's number of the i-th block of a row, a full block on the device. */
static inline uint32_t known_block(const struct tiered *m, uint32_t row, uint32_t i)
{
  return list_of(m, row)[i].block / m->index_units;
}

/* Returns the blocks on the list in the tier that the sequence is in or moves from. */
static inline uint32_t blocks_there(const struct sequence *s)
{
  return s->transfer != 0 ? s->left : s->held;
}

/* ---- blocks.c: blocks, rows and lists of them */
bool tiered_can_note(const struct tiered *, uint32_t blocks);
/* A block with one holder, on the device behind its sequence's block `after`, or
 * LLS_POL_NIL. */
uint32_t tiered_take_block(struct tiered *, bool on_host, enum size, uint32_t after);
/* Frees a block of a list that is not in the index. */
void tiered_free_block(struct tiered *, bool on_host, uint32_t unit);
/* One more holds a block of the index, and one less does. */
void tiered_hold_known(struct tiered *, uint32_t block);
void tiered_let_go_known(struct tiered *, uint32_t block);
/* Frees a block that has left the index. */
void tiered_free_known(struct tiered *, uint32_t block);
/* Makes the i-th block of a list the one that begins with that unit. */
void tiered_put(struct tiered *, uint32_t row, uint32_t i, uint32_t unit);
/* Makes the i-th block of a device list the index's `block`. */
void tiered_put_known(struct tiered *, uint32_t row, uint32_t i, uint32_t block);
/* Takes blocks [begin, end) of a row; there must be room. */
void tiered_take_list(struct tiered *, const struct sequence *, uint32_t row,
                      bool on_host, uint32_t begin, uint32_t end);
void tiered_free_list(struct tiered *, const struct sequence *, uint32_t row,
                      bool on_host, uint32_t begin, uint32_t end);
uint32_t tiered_take_row(struct tiered *);
void tiered_free_row(struct tiered *, uint32_t row);
/* Notes that the sequence's rows have changed: commit sets their forms. */
void tiered_touch(struct tiered *, struct sequence *);
void tiered_name_forms(struct tiered *, struct sequence *);

/* ---- prefix.c: a sequence's use of the index of full blocks */
uint32_t tiered_prefix(struct tiered *, struct sequence *, const struct lls_request *,
                       bool take);
/* Gives back blocks that have left the window; blocks that have become full are indexed,
 * converted to int8, or both. */
void tiered_computed(struct tiered *, struct sequence *, const struct lls_request *,
                     uint32_t cached);
/* Frees blocks of a dropped sequence that no other sequence holds and that have no child
 * in the index; s is the sequence's state before the drop. */
void tiered_forget(struct tiered *, const struct sequence *s);
/* Returns the number of the sequence's blocks that other sequences hold as well. */
uint32_t tiered_shared_blocks(const struct tiered *, const struct sequence *);

/* ---- sequence.c: operations on one sequence */
uint32_t tiered_units_needed(const struct tiered *, const struct sequence *,
                             const struct lls_request *, uint32_t tokens);
int tiered_reserve(struct tiered *, struct sequence *, const struct lls_request *,
                   uint32_t tokens);
void tiered_drop(struct tiered *, struct sequence *);
int tiered_swap_out(struct tiered *, struct sequence *);

/* ---- transfer.c: moving sequences between the tiers while steps compute */
bool tiered_copies_have_room(const struct tiered *, uint32_t blocks);
/* Lists copies of blocks [begin, end) from the sequence's row to one in the other tier.
 */
void tiered_copy_blocks(struct tiered *, const struct sequence *, uint32_t to_row,
                        bool to_host, uint32_t begin, uint32_t end, uint32_t transfer);
int tiered_start(struct tiered *, struct sequence *, bool to_host);
/* Lists as many copies of transfers as the link carries in this step. */
void tiered_list_transfers(struct tiered *);
/* Called when the listed copies of a transfer have ended: frees their source blocks. */
void tiered_transferred(struct tiered *, uint32_t transfer);

/* ---- state.c: handing the state over to another generation */
int tiered_export(struct tiered *, struct lls_blob *);
/* Replaces the state by an exported one. On failure the manager is inconsistent: the
 * caller must make it empty again. */
int tiered_import(struct tiered *, const struct lls_blob *);

/* ---- audit.c */
int tiered_audit(struct tiered *, const struct lls_sink *);

#endif
