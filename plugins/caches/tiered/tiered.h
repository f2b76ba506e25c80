/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tiered cache manager's state, shared by its files (ALISE, section 3.3 and 3.4).
 *
 * A block holds K and V of block_tokens tokens. In the cache's own numbers it takes two
 * unit blocks, one for K and one for V; in int8 one, K in its first half and V in its
 * second. Which blocks are int8 follows from where a sequence is and how many tokens it
 * has: the full ones, on the host unless [cache] int8 = off, on the device with `all`. So
 * nothing has to be remembered of it, and what int8 saves is units that are free.
 *
 * Full blocks on the device may be shared (policy/prefixes.h). A block goes there by the
 * number of its K unit, which is an int8 block's only one; all blocks of the index are
 * int8, or none is. The first `indexed` ones of a sequence are in the index; of others
 * the index has no holders, for their only one is the sequence. A block that nobody holds
 * but that is known yet counts as free.
 *
 * A sequence is on the device or on the host as a whole, or on its way: then it has a
 * second row with the blocks it is moving to, and `left` says how far it is: the last
 * block goes first, for what others may find of it is to be let go in that order. Copies
 * of a transfer are listed in commit, so many a step as the link carries while the step
 * computes; on_transfer frees what they have left.
 *
 * Invariants, checked by audit:
 *   1. Every unit of a tier is in one list, or on the tier's free stack, or its block is
 *      in the index.
 *   2. A list covers all cached tokens of its sequence.
 *   3. With `all` one device unit, free or to be had from the index, is never given to a
 *      sequence: making a full block int8 takes one before it frees two, so it can always
 *      be done.
 *   4. Every word that a transaction changes goes through set(), which writes down the
 *      old value. Entries' elements follow from the rest and are put right in commit, for
 *      the sequences whose rows a transaction has touched.
 */
#ifndef TIERED_H
#define TIERED_H

#include <llmserve/cache.h>

#include <llmserve/policy/prefixes.h>
#include <llmserve/policy/window.h>

struct params {
  double share; /* of a step's time that transfers may take of the link */
  bool prefix_sharing;
};

enum place { NOWHERE, ON_DEVICE, ON_HOST };

struct sequence { /* of one slot */
  uint64_t request;
  uint8_t admitted; /* 0 or 1, as `touched`: no bool, for a state may say anything */
  uint32_t place;   /* enum place; of one that moves: where it comes from */
  uint32_t row;     /* of its lists; LLS_POL_NIL while it holds nothing */
  uint32_t gone;    /* leading blocks that were given back: before every layer's window */
  uint32_t held;    /* blocks on each of its lists, with those */
  uint32_t cached;  /* tokens computed */
  uint32_t indexed; /* leading blocks that are in the index; 0 on the host */
  uint32_t transfer; /* 0 = it does not move */
  uint32_t to_row;   /* of the lists it moves to; LLS_POL_NIL */
  uint32_t left;   /* of one that moves: the blocks before this one are where they were */
  uint32_t listed; /* the copies of this one and those behind were given to the engine */
  uint8_t touched; /* on the list of m->touched */
};

struct tier {
  uint32_t *next; /* (n_units) stack of free ones */
  uint32_t n_units;
  uint32_t head, n_free;
};

struct copy_list {
  struct lls_copy *copies; /* (max) */
  uint32_t n, max;
};

struct tiered {
  const struct lls_host *host;
  struct params params;
  uint32_t int8; /* enum lls_int8 */
  uint32_t block_tokens, n_slots, n_rows;
  uint32_t row_blocks; /* longest list */
  struct lls_pol_window window;
  uint64_t unit_bytes;

  struct tier tiers[2];          /* device, host */
  struct lls_pol_prefixes index; /* of full blocks on the device, by K unit */
  uint32_t
      *v_units; /* (n_units of the device) of blocks in the index that are not int8 */
  uint32_t n_evicted; /* from the index, since the last commit */
  uint32_t *row_next; /* (n_rows) stack of free ones */
  uint32_t row_head, n_rows_free;
  struct sequence *sequences;      /* (n_slots) */
  struct lls_block_entry *entries; /* (n_rows, 2, row_blocks) a row's K list, then V */
  uint32_t *marks;                 /* (most units of a tier) for audit */
  uint32_t *row_marks;             /* (n_rows) likewise */
  uint32_t *touched, n_touched;    /* (n_slots) slots, in this transaction */
  uint32_t *moving, n_moving;      /* (n_slots) slots, oldest transfer first */

  struct copy_list pending; /* of the step to come: full blocks made int8 */
  struct copy_list now;     /* of this step */
  uint32_t last_transfer;

  uint32_t free_at_begin;
  struct lls_pol_journal journal; /* of the open transaction */
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

/* Leading blocks of a sequence that are int8 in a tier. */
static inline uint32_t int8_blocks(const struct tiered *m, const struct sequence *s,
                                   bool on_host)
{
  return m->int8 >= (on_host ? LLS_INT8_SWAPPED : LLS_INT8_ALL)
             ? s->cached / m->block_tokens
             : 0;
}

/* Units of blocks [gone, blocks) of it in a tier. */
static inline uint32_t units_of(const struct tiered *m, const struct sequence *s,
                                bool on_host, uint32_t blocks)
{
  uint32_t int8 = int8_blocks(m, s, on_host);
  uint32_t narrow = lls_pol_min(blocks, int8) - lls_pol_min(s->gone, int8);
  return 2 * (blocks - s->gone) - narrow;
}

/* The device units that sequences may have: all but the one of invariant 3. */
static inline uint32_t spare_units(const struct tiered *m)
{
  return m->int8 == LLS_INT8_ALL ? 1 : 0;
}

/* Units of a full block on the device. */
static inline uint32_t full_units(const struct tiered *m)
{
  return m->int8 == LLS_INT8_ALL ? 1 : 2;
}

/* Those that can be taken: free, or of blocks that nobody holds. */
static inline uint32_t units_to_be_had(const struct tiered *m, bool on_host)
{
  uint32_t n = m->tiers[on_host].n_free;
  return on_host ? n : n + full_units(m) * m->index.n_reusable;
}

static inline uint32_t free_units_of(const struct tiered *m, bool on_host)
{
  uint32_t spare = on_host ? 0 : spare_units(m), n = units_to_be_had(m, on_host);
  return n > spare ? n - spare : 0;
}

static inline struct lls_block_entry *k_list(const struct tiered *m, uint32_t row)
{
  return m->entries + (size_t)row * 2 * m->row_blocks;
}

/* Number in the index of a full block on the device. */
static inline uint32_t known_block(const struct tiered *m, uint32_t row, uint32_t i)
{
  uint32_t k = k_list(m, row)[i].block;
  return m->int8 == LLS_INT8_ALL ? k / 2 : k;
}

/* Blocks on the list of where it is, or comes from. */
static inline uint32_t blocks_there(const struct sequence *s)
{
  return s->transfer != 0 ? s->left : s->held;
}

/* ---- blocks.c: units, rows and lists of them */
bool tiered_can_note(const struct tiered *, uint32_t blocks);
uint32_t tiered_take_unit(struct tiered *, bool on_host);
void tiered_free_unit(struct tiered *, bool on_host, uint32_t unit);
/* A block that has left the index: its units. */
void tiered_free_known(struct tiered *, uint32_t block);
/* The i-th block of a list on the device is the one of the index. */
void tiered_put_known(struct tiered *, uint32_t row, uint32_t i, uint32_t block);
/* Blocks [begin, end) of a row get units; there must be enough. */
void tiered_take_list(struct tiered *, const struct sequence *, uint32_t row,
                      bool on_host, uint32_t begin, uint32_t end);
void tiered_free_list(struct tiered *, const struct sequence *, uint32_t row,
                      bool on_host, uint32_t begin, uint32_t end);
uint32_t tiered_take_row(struct tiered *);
void tiered_free_row(struct tiered *, uint32_t row);
/* Its rows have changed hands: their elements are put right in commit. */
void tiered_touch(struct tiered *, struct sequence *);
void tiered_name_elements(struct tiered *, struct sequence *);

/* ---- prefix.c: what a sequence has to do with the index of full blocks */
uint32_t tiered_prefix(struct tiered *, struct sequence *, const struct lls_request *,
                       bool take);
/* Its blocks that have left the window are given back, others that have become full
 * become known, or int8, or both. */
void tiered_computed(struct tiered *, struct sequence *, const struct lls_request *,
                     uint32_t cached);
/* Frees blocks of a sequence that has just been dropped which no other holds and no
 * other block of the index comes after; s is what it was before. */
void tiered_forget(struct tiered *, const struct sequence *s);
/* How many of its blocks others hold too. */
uint32_t tiered_shared_blocks(const struct tiered *, const struct sequence *);

/* ---- sequence.c: what is done to one sequence */
uint32_t tiered_units_needed(const struct tiered *, const struct sequence *,
                             const struct lls_request *, uint32_t tokens);
int tiered_reserve(struct tiered *, struct sequence *, const struct lls_request *,
                   uint32_t tokens);
void tiered_drop(struct tiered *, struct sequence *);
int tiered_swap_out(struct tiered *, struct sequence *);

/* ---- transfer.c: on its way between the tiers while others compute */
bool tiered_copies_have_room(const struct tiered *, uint32_t blocks);
/* Copies of blocks [begin, end) from its row to another one in the other tier. */
void tiered_copy_blocks(struct tiered *, const struct sequence *, uint32_t to_row,
                        enum lls_copy_kind, uint32_t begin, uint32_t end,
                        uint32_t transfer);
int tiered_start(struct tiered *, struct sequence *, bool to_host);
/* Lists what the link carries in this step. */
void tiered_list_transfers(struct tiered *);
/* The listed copies of a transfer have ended. */
void tiered_transferred(struct tiered *, uint32_t transfer);

/* ---- state.c: handed over to another generation */
int tiered_export(struct tiered *, struct lls_blob *);
/* Leaves the manager in disorder when it fails: make it empty again. */
int tiered_import(struct tiered *, const struct lls_blob *);

/* ---- audit.c */
int tiered_audit(struct tiered *, const struct lls_sink *);

#endif
