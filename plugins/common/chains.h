/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of one or two sizes from the units of one tier. The tier is an array of *slabs*
 * of equally many units; a slab is free, or has blocks of one size only. So a slab whose
 * blocks have all been given back serves either size, whatever the order in which blocks
 * came and went; units behind the last slab are not used.
 *
 * Which blocks share a slab is for the manager to say. `chained`: only blocks that follow
 * each other in a sequence, so that slabs become free with their sequence and no block
 * has ever to be moved; at most one slab of a sequence is in part unused. Else any:
 * better where slabs have many blocks, and a slab may stay in part unused for long.
 *
 * Every word that a transaction changes goes through the journal.
 */
#ifndef CHAINS_H
#define CHAINS_H

#include <llmserve/policy/journal.h>
#include <llmserve/policy/report.h>
#include <llmserve/policy/state.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CHAINS_SIZES 2
/* Most words of the journal that one take or one release changes. */
#define CHAINS_CHANGES 14

struct chains_slab {
  uint32_t size;           /* index of its blocks' size; LLS_POL_NIL: it is free */
  uint32_t used;           /* a bit for each block that is taken */
  uint32_t previous, next; /* in the list that it is on */
};

struct chains {
  struct lls_pol_journal *journal;
  bool chained;
  uint32_t n_sizes;
  uint32_t units[CHAINS_SIZES];  /* of a block */
  uint32_t blocks[CHAINS_SIZES]; /* of a slab */
  uint32_t slab_units, n_slabs;
  struct chains_slab *slabs; /* (n_slabs) */
  uint32_t *marks;           /* (n_slabs) for audits */
  uint32_t free_first, n_free;
  uint32_t partial[CHAINS_SIZES]; /* first slab with room, unless chained */
  uint32_t room[CHAINS_SIZES];    /* free blocks in slabs of that size */
};

/* n_units in all, with blocks of units[0], and of units[1] unless that is 0. The first
 * size is the larger one. -ENOMEM. Then make_empty. */
int chains_init(struct chains *, struct lls_pol_journal *, uint32_t n_units,
                const uint32_t units[CHAINS_SIZES], bool chained);
void chains_free(struct chains *);
void chains_make_empty(struct chains *);

/* Is there room for the next block of a sequence behind block `after` (LLS_POL_NIL: none)
 * in after's slab? */
bool chains_go_on(const struct chains *, uint32_t size, uint32_t after);
/* Slabs that n blocks of a size take beyond those that have room: in a chain behind
 * `after`. */
uint32_t chains_slabs_for(const struct chains *, uint32_t size, uint32_t n,
                          uint32_t after);
/* The first unit of a block; there must be room. */
uint32_t chains_take(struct chains *, uint32_t size, uint32_t after);
void chains_give_back(struct chains *, uint32_t unit);
/* Takes a certain block: into an empty manager, or false: it is taken, or is none. */
bool chains_claim(struct chains *, uint32_t size, uint32_t unit);

/* Returns the units of free slabs and of free blocks in other slabs. */
uint32_t chains_free_units(const struct chains *);
/* Is that block of a size taken? */
bool chains_has(const struct chains *, uint32_t size, uint32_t unit);

void chains_pass(struct chains *, struct lls_pol_state_walk *);
/* Lists and counts; says in which order slabs are taken. */
void chains_audit(struct chains *, struct lls_pol_report *);

#ifdef __cplusplus
}
#endif

#endif
