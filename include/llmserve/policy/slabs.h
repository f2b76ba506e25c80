/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The units of one tier, given out in blocks of several sizes.
 *
 * A *block* is some consecutive units; a *class* is all blocks of one size. The tier is
 * cut into *slabs* of equal size, each of which is free or has blocks of one class. With
 * one class a slab is a block, and the allocator is a stack. With several, a slab is that
 * small multiple of the largest block with which the least is lost.
 *
 * A block is free, held by at least one holder, or *kept*: taken, but with no holder. A
 * kept block counts as free memory, since its owner gives it up when asked.
 *
 * A class takes blocks from its fullest slab first, so that other slabs become free as a
 * whole. A class that needs a slab where none is free gets one of these:
 *   - a block of its own class that was kept, if none of another class was kept longer
 *   - a slab of another class. The owner gives up the kept blocks of that class that are
 *     worth least. If this frees no slab as a whole before there are some slabs' worth of
 *     holes, the slab with the fewest blocks is emptied by copies into them.
 *
 * Invariants, checked by audit:
 *   1. The units of two blocks never overlap, and no block crosses the end of its slab.
 *   2. As many slabs of a class are on its lists as have both free and taken blocks.
 *   3. Every word that a transaction changes goes through the journal.
 * Property, tested by t/unit/test_slabs: what lls_pol_slabs_fits allows can be taken.
 *
 * All functions run on the [step] thread, init and free on [main]. Units and blocks are
 * numbers within the tier.
 */
#ifndef LLS_POL_SLABS_H
#define LLS_POL_SLABS_H

#include <llmserve/policy/journal.h>
#include <llmserve/policy/report.h>
#include <llmserve/policy/state.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LLS_POL_MAX_CLASSES 16

struct lls_pol_slab {
  uint32_t kind;           /* class; LLS_POL_NIL: the slab is free */
  uint32_t n_used, n_held; /* blocks taken; of these, those with a holder */
  uint32_t first_free;     /* stack of blocks given back, or LLS_POL_NIL */
  uint32_t n_fresh;        /* blocks from this one on were never taken */
  uint32_t previous, next; /* slabs of the class with as many free blocks; free slabs */
};

struct lls_pol_slab_class {
  uint32_t block_units;
  uint32_t per_slab;   /* blocks of a slab */
  uint32_t first_list; /* index in `lists` of the class's first list */
  uint32_t first_word;
  uint32_t n_slabs, n_used, n_held;
};

/* The owner of the blocks, as the allocator calls it: with `context` first. */
struct lls_pol_slabs_owner {
  void *context;
  /* Returns the kept block of a class that is worth least, and since when it was kept:
   * any number that grows. LLS_POL_NIL: none is kept. */
  uint32_t (*victim)(void *context, uint32_t kind, uint32_t *since);
  /* Gives up a kept block, and all blocks that are useless without it, by
   * lls_pol_slabs_free. Here and below: returns false if the journal or the list of
   * copies is full. */
  bool (*drop)(void *context, uint32_t unit);
  /* Blocks were moved: those that begin `block_units` units apart from unit `first` on
   * are now at to[0], to[1] ...; LLS_POL_NIL: that block was free. The owner must use
   * the new units from now on, with at most LLS_POL_MOVED_CHANGES changes for each
   * block and each of its holders, and list the copies, all before the step. NULL if
   * blocks cannot be copied within the tier: then only slabs without holders are
   * emptied. */
  bool (*moved)(void *context, uint32_t first, uint32_t block_units, const uint32_t *to,
                uint32_t n);
};

#define LLS_POL_MOVED_CHANGES 8

struct lls_pol_slabs {
  struct lls_pol_journal *journal;
  struct lls_pol_slabs_owner owner;
  uint32_t most_moved; /* units that a step moves, apart from the last verb's */
  /* slabs that fits leaves alone, and available and usable do not count: for an owner
   * that takes a block of one class before it frees one of another. Set after init. */
  uint32_t spare;
  uint32_t slab_units, n_slabs, n_classes;
  uint32_t blocks_per_slab; /* blocks of the smallest class in a slab */
  struct lls_pol_slab_class classes[LLS_POL_MAX_CLASSES];

  struct lls_pol_slab *slabs; /* (n_slabs) */
  uint32_t *holders;          /* (n_slabs, blocks_per_slab) LLS_POL_NIL: free */
  uint32_t *next;             /* (as holders) in the stack of a slab */
  uint32_t *lists;            /* slabs by class and free blocks */
  uint32_t *words;            /* a bit for each list that is not empty */
  uint32_t *marks;            /* (n_slabs) for audits */
  uint32_t *pins;             /* (n_slabs) blocks that must stay where they are */
  uint32_t *to;               /* (blocks_per_slab) where blocks of a slab have moved */
  uint32_t n_lists, n_words;

  uint32_t free_slab, n_free_slabs;
  uint32_t n_moved; /* units moved since begin */
  uint32_t closing; /* slab that is being emptied, or LLS_POL_NIL */
  bool may_move;    /* the operation may empty slabs by copies */
};

/* For `n_units` units and blocks of these sizes, each a size once; journal and owner are
 * set before. -EINVAL where the largest block has no room, -ENOMEM. Then make_empty. */
int lls_pol_slabs_init(struct lls_pol_slabs *, uint32_t n_units,
                       const uint32_t *block_units, uint32_t n_classes);
void lls_pol_slabs_destroy(struct lls_pol_slabs *);
void lls_pol_slabs_make_empty(struct lls_pol_slabs *);

/* Begins a step: nothing was moved yet. */
void lls_pol_slabs_begin(struct lls_pol_slabs *);
/* Begins a verb, an operation that may take blocks: it moves as much as it must, but
 * only if earlier verbs of the step have moved less than most_moved. So each step can
 * do at least one verb. */
void lls_pol_slabs_verb(struct lls_pol_slabs *);

/* Returns the class of blocks of block_units, or LLS_POL_NIL. */
uint32_t lls_pol_slabs_class(const struct lls_pol_slabs *, uint32_t block_units);
/* Returns the number of a taken block, below lls_pol_slabs_blocks, for arrays by
 * block. */
uint32_t lls_pol_slabs_number(const struct lls_pol_slabs *, uint32_t unit);
static inline uint32_t lls_pol_slabs_blocks(const struct lls_pol_slabs *s)
{
  return s->n_slabs * s->blocks_per_slab;
}

/* Takes a block of the class, with one holder. Returns its first unit; LLS_POL_NIL if
 * there is none, this step may move no more, or the journal is full. Blocks already
 * moved stay moved until a rollback. */
uint32_t lls_pol_slabs_take(struct lls_pol_slabs *, uint32_t kind);
/* For a tier whose slabs are blocks: is that one free? Takes it, with one holder, and
 * returns its first unit; the journal must have room. */
bool lls_pol_slabs_is_free(const struct lls_pol_slabs *, uint32_t slab);
uint32_t lls_pol_slabs_take_slab(struct lls_pol_slabs *, uint32_t slab);
/* Adds a holder. */
void lls_pol_slabs_hold(struct lls_pol_slabs *, uint32_t unit);
/* Removes a holder. Returns true if it was the last one: the owner keeps the block or
 * frees it. */
bool lls_pol_slabs_let_go(struct lls_pol_slabs *, uint32_t unit);
/* Frees a block without holders that its owner does not keep. */
void lls_pol_slabs_free(struct lls_pol_slabs *, uint32_t unit);
uint32_t lls_pol_slabs_holders(const struct lls_pol_slabs *, uint32_t unit);
/* Is it the first unit of a taken block? Any number may be asked for. */
bool lls_pol_slabs_is_taken(const struct lls_pol_slabs *, uint32_t unit);

/* Returns true if that many blocks of each class can be taken, with any number of
 * moves. If blocks cannot be moved, take may still find none. */
bool lls_pol_slabs_fits(const struct lls_pol_slabs *, const uint32_t *blocks);
/* And if nothing else was held? */
bool lls_pol_slabs_fits_alone(const struct lls_pol_slabs *, const uint32_t *blocks);
/* Can a block of the class be had, while nothing is dropped or moved? */
bool lls_pol_slabs_has_free(const struct lls_pol_slabs *, uint32_t kind);
/* The units that no block has, and those of blocks without a holder. */
void lls_pol_slabs_count(const struct lls_pol_slabs *, uint32_t *n_free, uint32_t *kept);
/* Return the units in whole slabs; and of these, the units without a holder, minus
 * those that cutting slabs may waste: one slab for each class with several blocks per
 * slab. If blocks can be moved, any set of blocks with that many units fits, where a
 * block counts as `units` of its class: its part of a slab, with what the slab's end
 * wastes. `usable`: the units that are available if nothing is held. */
uint32_t lls_pol_slabs_total(const struct lls_pol_slabs *);
uint32_t lls_pol_slabs_available(const struct lls_pol_slabs *);
uint32_t lls_pol_slabs_usable(const struct lls_pol_slabs *);
uint32_t lls_pol_slabs_units(const struct lls_pol_slabs *, uint32_t kind);

/* A held block must not be moved until it is unpinned as often: a copy beside the steps
 * reads or writes it. Take may then find no block though one would fit. */
void lls_pol_slabs_pin(struct lls_pol_slabs *, uint32_t unit);
void lls_pol_slabs_unpin(struct lls_pol_slabs *, uint32_t unit);

/* For an import into an empty tier: gives a block its holder, if the unit begins a
 * block of the class in a slab that is free or of that class. Call settle afterwards,
 * which makes the lists. */
bool lls_pol_slabs_claim(struct lls_pol_slabs *, uint32_t kind, uint32_t unit);
/* Takes a claim back. */
void lls_pol_slabs_unclaim(struct lls_pol_slabs *, uint32_t unit);
void lls_pol_slabs_settle(struct lls_pol_slabs *);

void lls_pol_slabs_pass(struct lls_pol_slabs *, struct lls_pol_state_walk *);
/* Returns false if numbers are out of range: nothing may then be looked up. */
bool lls_pol_slabs_audit(struct lls_pol_slabs *, struct lls_pol_report *);

#ifdef __cplusplus
}
#endif

#endif
