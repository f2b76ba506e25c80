/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The usual policy for a sequence's blocks, in all groups of layers: blocks on demand,
 * prefixes shared (tree.h), sequences dropped or swapped to the host as a whole, and
 * blocks given back that no later step reads; of groups of kind STATE one block, and
 * checkpoints in the tree. A manager is made of this and of its own
 * idea; with none it is `paged`.
 *
 * What a reserve took before it said LATER the core rolls back; other verbs do all or
 * nothing. Blocks that a copy reads may be given to another sequence in the same
 * step: all copies end before the forward pass writes, in the order they are listed.
 *
 * All functions run on the [step] thread but create and destroy, which run on [main].
 * Tokens and blocks are of one sequence, units of a tier.
 */
#ifndef LLS_POL_SIDE_H
#define LLS_POL_SIDE_H

#include <llmserve/cache.h>
#include <llmserve/policy/leases.h>
#include <llmserve/policy/rows.h>
#include <llmserve/policy/tree.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LLS_POL_TIERS 2 /* device, host */

struct lls_pol_side_form { /* the form that a group's full blocks have in a tier */
  uint32_t form;
  uint32_t units; /* of such a block, as lls_pol_slabs_units counts them */
  uint32_t kind;  /* class of such blocks in the tier's slabs */
};

struct lls_pol_side_wish { /* a sequence's checkpoints, until the transaction ends */
  uint32_t due, listed;
  uint32_t at[LLS_POL_MAX_STATES - 2]; /* tokens after which one is made in the step; 0 */
};

/* A manager's state begins with this. */
struct lls_pol_side {
  const struct lls_host *host;
  bool shares; /* what is computed is put into the tree, and looked for there */
  /* set before create: the tree has blocks on the host, too */
  bool shares_host;
  /* set before create: a sequence keeps blocks that no step reads any more */
  bool keeps_all;
  /* set before create: the groups are lists of the engine's group 0, each in its form, of
   * which a sequence may have one alone (`partial`) */
  bool one_group;
  /* set before create: full blocks get the forms that the geometry names */
  bool converts;
  /* set before create: more sequences, after the requests' own, for the manager */
  uint32_t more_slots;
  /* set before create: the manager itself keeps the blocks of that number of groups, the
   * first ones, of which the lists here are empty (`partial`) */
  uint32_t own_groups;
  /* set before create: room for what the manager itself changes and copies in a step */
  uint32_t more_changes, more_copies;
  /* set before create: the writer of a state and its version, up to 8 letters; NULL: the
   * state is not handed over */
  const char *writer;
  /* optional, set before create: the manager's own part of a state, of an audit */
  int (*pass)(void *manager, struct lls_pol_state_walk *);
  void (*audit)(void *manager, struct lls_pol_report *);
  /* optional, set behind create, then call make_empty: the manager's part of that */
  void (*make_empty)(void *manager);
  /* optional, set before create: adds the holders of a tier's blocks that are in no list
   * to `marks`, by lls_pol_slabs_number */
  void (*mark)(void *manager, uint32_t tier, uint32_t *marks);
  /* optional, set before create: as the slabs' `moved`, for blocks in no list; the copies
   * are listed already */
  bool (*moved)(void *manager, uint32_t first, uint32_t block_units, const uint32_t *to,
                uint32_t n);
  uint32_t block_tokens, n_groups, n_tiers;
  /* by tier and group, of a block as steps compute it: its class, its units as
   * lls_pol_slabs_units counts them */
  uint32_t kinds[LLS_POL_TIERS][LLS_POL_MAX_GROUPS];
  uint32_t units[LLS_POL_TIERS][LLS_POL_MAX_GROUPS];
  /* Form that full blocks have: with converts that of the geometry, else the same. A
   * block that gets no room in it stays as it is: its form follows from its slab's class.
   */
  struct lls_pol_side_form full[LLS_POL_TIERS][LLS_POL_MAX_GROUPS];

  struct lls_pol_journal journal; /* of the open transaction */
  struct lls_pol_slabs slabs[LLS_POL_TIERS];
  struct lls_pol_tree tree; /* of blocks on the device; with shares_host on both tiers */
  uint32_t lacking;         /* slot + 1: blocks of its prefix get no room on the device */
  uint32_t n_from_host, n_to_host; /* blocks of the tree, in this transaction */
  /* With shares_host: blocks of the tree that leave the device are copied to the host
   * before the step, if the host lacks them and has no older ones; until this number of
   * the host's units has been copied so in the transaction. */
  uint32_t most_leaving;
  uint32_t leaving_units;   /* copied so in this transaction */
  uint32_t leaving_changes; /* changes in the journal that are left for these copies */
  struct lls_pol_leases leases; /* of the tree's blocks */
  bool crowded; /* a sequence that is alone asked for more than leases leave */
  struct lls_pol_rows rows;
  uint32_t *marks; /* (blocks of a tier) for audits */
  /* by slot: full blocks wait until the next transaction to be converted, since blocks
   * that steps still read would have to move */
  bool *waits;
  uint32_t n_waiting;

  struct lls_pol_side_wish *wishes; /* (slots) */
  uint32_t *wishing;                /* (max_wishing) slots, each once */
  uint32_t n_wishing, max_wishing;
  uint32_t wish_changes; /* changes in the journal that are for wishes alone */

  struct lls_copy *copies;  /* (max_copies) of this step */
  struct lls_copy *pending; /* (max_copies) copies that come first in the next step */
  uint32_t n_copies, n_pending, max_copies;
  uint32_t available_at_begin;
};

/* Makes all parts, for the engine's groups; -errno with a sentence through host->fail,
 * and then destroy is still due. */
int lls_pol_side_create(struct lls_pol_side *, const struct lls_host *,
                        const struct lls_cache_geometry *);
void lls_pol_side_destroy(struct lls_pol_side *);
void lls_pol_side_make_empty(struct lls_pol_side *);

/* Blocks of a list that has `tokens` tokens. */
static inline uint32_t lls_pol_side_blocks(const struct lls_pol_side *m, uint64_t tokens)
{
  return (uint32_t)((tokens + m->block_tokens - 1) / m->block_tokens);
}

/* New units that the sequence takes while it grows by `tokens`. */
uint32_t lls_pol_side_need(const struct lls_pol_side *, const struct lls_pol_sequence *,
                           const struct lls_request *, uint32_t tokens);
/* The most blocks of the group that the sequence holds at once while it grows by
 * `tokens`, in steps as long as may be. */
uint32_t lls_pol_side_peak(const struct lls_pol_side *, const struct lls_pol_sequence *,
                           const struct lls_request *, uint32_t group, uint32_t tokens);
/* Units that the sequence holds, and that its blocks would take in a tier. */
uint32_t lls_pol_side_units(const struct lls_pol_side *, const struct lls_pol_sequence *);
uint32_t lls_pol_side_units_in(const struct lls_pol_side *,
                               const struct lls_pol_sequence *, uint32_t tier);
/* Adds the blocks [gone, past) of every list to `blocks`, by their classes in a tier. */
void lls_pol_side_count(const struct lls_pol_side *, const struct lls_pol_sequence *,
                        uint32_t tier, uint32_t past, uint32_t *blocks);
/* Units that other sequences hold too, and the cached tokens of group 0 in them. */
void lls_pol_side_shared(const struct lls_pol_side *, const struct lls_pol_sequence *,
                         uint32_t *units, uint32_t *tokens);

/* enum lls_reserve_result: makes room for `tokens` more, and brings the sequence back
 * from the host. */
int lls_pol_side_reserve(struct lls_pol_side *, struct lls_pol_sequence *,
                         const struct lls_request *, uint32_t tokens);
/* Makes checkpoints of states that the transaction's steps pass, of the room that is
 * left: last of all before its commit, since a step without such room writes over a
 * checkpoint.
 */
void lls_pol_side_keep_states(struct lls_pol_side *);
/* Holds the prefix of a waiting request that the tree has; how many tokens, and how many
 * of them are brought from the host. Without `take` it changes nothing. */
uint32_t lls_pol_side_prefix(struct lls_pol_side *, struct lls_pol_sequence *,
                             const struct lls_request *, bool take, uint32_t *on_host);
/* Lists copies to the host of kept blocks that it lacks, the first to leave first, of at
 * most `units` units of the host, beside the step: the last copies of a transaction,
 * after keep_states. */
void lls_pol_side_to_host(struct lls_pol_side *, uint64_t units);
/* Returns true if a kept block of the device was not looked at yet for that. */
bool lls_pol_side_wants_host(const struct lls_pol_side *);
/* Gives all blocks back; -ENOBUFS: the journal is full. */
int lls_pol_side_drop(struct lls_pol_side *, struct lls_pol_sequence *);
/* Gives back the blocks that have room but no token. */
int lls_pol_side_trim(struct lls_pol_side *, struct lls_pol_sequence *);
/* Takes a block of a tier for the i-th of a list, in the form that it has there. Returns
 * LLS_POL_NIL if there is none; blocks already taken stay so until a rollback. */
uint32_t lls_pol_side_take(struct lls_pol_side *, const struct lls_pol_sequence *,
                           uint32_t tier, uint32_t group, uint32_t i);
/* Takes blocks for [past, end) of a sequence's list, in the tier that it is in. */
bool lls_pol_side_grow(struct lls_pol_side *, struct lls_pol_sequence *, uint32_t group,
                       uint32_t end);
/* Gives back the blocks [begin, past) of a sequence's list. */
void lls_pol_side_shrink(struct lls_pol_side *, struct lls_pol_sequence *, uint32_t group,
                         uint32_t begin);
/* Slots in use of the i-th block, which a copy names; a state is copied as a whole, by 0
 * slots. */
uint32_t lls_pol_side_slots(const struct lls_pol_side *, const struct lls_pol_sequence *,
                            uint32_t group, uint32_t i);
/* Can that many copies be listed? They are of the open transaction, or, outside of one,
 * come first in the next. */
bool lls_pol_side_can_copy(const struct lls_pol_side *, uint64_t copies);
void lls_pol_side_copy(struct lls_pol_side *, const struct lls_copy *);
/* -ENOSPC where the host has no room. */
int lls_pol_side_swap_out(struct lls_pol_side *, struct lls_pol_sequence *);
/* Takes note that `cached` tokens are computed: full blocks become known, and blocks that
 * no later step reads are given back. */
void lls_pol_side_computed(struct lls_pol_side *, struct lls_pol_sequence *,
                           const struct lls_request *, uint32_t cached);
/* Removes the request's blocks from the tree, but for those that a sequence holds or that
 * another block follows. */
void lls_pol_side_forget(struct lls_pol_side *, const struct lls_request *);

/* Sets `shares`, after create. What was shared before is not found while it is false. */
void lls_pol_side_share(struct lls_pol_side *, bool shares);

/* A vtable's `retain`, `fetch`. Leases end before a sequence that is alone on the device
 * would wait for their memory. */
int lls_pol_side_retain(struct lls_pol_side *, const struct lls_retained *);
int lls_pol_side_fetch(struct lls_pol_side *, const struct lls_retained *);

/* A vtable's `kept`, `adopt`, `export_state`; import leaves the side in disorder when it
 * fails. */
size_t lls_pol_side_kept(struct lls_pol_side *, struct lls_kept_block *, size_t max);
size_t lls_pol_side_adopt(struct lls_pol_side *, struct lls_kept_block *, size_t n);
int lls_pol_side_export(struct lls_pol_side *, struct lls_blob *);
int lls_pol_side_import(struct lls_pol_side *, const struct lls_blob *);
int lls_pol_side_audit(struct lls_pol_side *, const struct lls_sink *);

#ifdef __cplusplus
}
#endif

#endif
