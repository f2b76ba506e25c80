/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of side.h: the form of a block, and the copies of a step. Not
 * installed. */
#ifndef SIDE_INSIDE_H
#define SIDE_INSIDE_H

#include <llmserve/policy/side.h>

/* Changes in the journal for a block that is taken, given back or copied. */
#define SIDE_CHANGES 48

static inline void side_set(struct lls_pol_side *m, uint32_t *where, uint32_t value)
{
  lls_pol_journal_set(&m->journal, where, value);
}

static inline bool side_can_note(const struct lls_pol_side *m, uint64_t blocks)
{
  return lls_pol_journal_has_room(&m->journal, SIDE_CHANGES * (blocks + 1));
}

static inline struct lls_pol_list *
side_list(const struct lls_pol_side *m, const struct lls_pol_sequence *s, uint32_t group)
{
  return lls_pol_rows_list(&m->rows, s, group);
}

static inline uint32_t side_unit(const struct lls_pol_side *m,
                                 const struct lls_pol_sequence *s, uint32_t group,
                                 uint32_t i)
{
  return lls_pol_rows_entries(&m->rows, s, group)[i].block;
}

/* The tiers in which the tree has blocks, a bit for each. */
static inline uint32_t side_tiers(const struct lls_pol_side *m)
{
  return (1u << m->tree.n_tiers) - 1;
}

/* Do full blocks of the group have a form of their own in the tier? */
static inline bool side_has_small(const struct lls_pol_side *m, uint32_t tier,
                                  uint32_t group)
{
  return m->full[tier][group].kind != m->kinds[tier][group];
}

/* The form of a block: 1 if it is the one of full blocks. Follows from its slab. */
static inline uint32_t side_is_small(const struct lls_pol_side *m, uint32_t tier,
                                     uint32_t group, uint32_t unit)
{
  const struct lls_pol_slabs *slabs = &m->slabs[tier];
  return side_has_small(m, tier, group) &&
         slabs->slabs[unit / slabs->slab_units].kind == m->full[tier][group].kind;
}

static inline uint32_t side_form(const struct lls_pol_side *m, uint32_t tier,
                                 uint32_t group, uint32_t unit)
{
  if (side_is_small(m, tier, group, unit))
    return m->full[tier][group].form;
  return m->one_group ? m->host->engine->groups[group]->forms[0].form : LLS_FORM_NONE;
}

/* The tier that a sequence is in; the device if in none. */
static inline uint32_t side_tier(const struct lls_pol_sequence *s)
{
  return s->where == LLS_POL_ON_HOST ? LLS_TIER_HOST : LLS_TIER_DEVICE;
}

static inline bool side_is_state(const struct lls_pol_side *m, uint32_t group)
{
  return lls_pol_rows_is_state(&m->rows, group);
}

static inline const struct lls_group *side_group(const struct lls_pol_side *m,
                                                 uint32_t group)
{
  return m->host->engine->groups[group];
}

/* Does a step read all blocks of the group, or do they stay as if it did? */
static inline bool side_reads_all(const struct lls_pol_side *m, uint32_t group)
{
  return m->keeps_all || side_group(m, group)->kind == LLS_GROUP_FULL;
}

/* The block in the tree that is equal to the request's i-th one; or LLS_POL_NIL. */
static inline uint32_t side_known(const struct lls_pol_side *m,
                                  const struct lls_request *r, uint32_t group, uint32_t i)
{
  uint32_t node = lls_pol_tree_find(&m->tree, &r->keys[i]);
  return node == LLS_POL_NIL ? node
                             : lls_pol_tree_block(&m->tree, node, group, LLS_TIER_DEVICE);
}

/* side_count.c. Leading blocks that no step reads which begins behind `cached` tokens. */
uint32_t side_needless(const struct lls_pol_side *, uint32_t group, uint32_t cached);
/* Leading blocks that the sequence does not need. A request that arrives from another
 * instance with cached tokens lacks the blocks before its window from the start. */
uint32_t side_gone(const struct lls_pol_side *, const struct lls_pol_sequence *,
                   const struct lls_request *, uint32_t group);
/* How many of the sequence's blocks [begin, end) have the form of full blocks. */
uint32_t side_count_small(const struct lls_pol_side *, const struct lls_pol_sequence *,
                          uint32_t group, uint32_t begin, uint32_t end);

/* side_leases.c. Before a transaction: ends leases whose time has come; and if a lone
 * sequence has asked for more memory than there is, all leases of the device. */
void side_end_leases(struct lls_pol_side *);
/* Notes that a sequence wants so many units; the scheduler may wait until they are free.
 */
void side_note_crowd(struct lls_pol_side *, const struct lls_pol_sequence *,
                     uint64_t units);
/* In a transaction, for a sequence that wants so many blocks of each class: true if they
 * fit, after leases have ended if the sequence is alone. */
bool side_fits(struct lls_pol_side *, const struct lls_pol_sequence *,
               const uint32_t *blocks);

/* side.c. Copies the i-th block to a block of the other tier, and gives the old one
 * back. */
bool side_change_tier(struct lls_pol_side *, struct lls_pol_sequence *, uint32_t group,
                      uint32_t i, uint32_t to_tier);
/* Gives back blocks [begin, end) of the group's list, the last one first. */
void side_let_go(struct lls_pol_side *, const struct lls_pol_sequence *, uint32_t group,
                 uint32_t begin, uint32_t end);

/* side_states.c, for groups of kind STATE. The states that a step needs: the one that it
 * reads, and another to write where other sequences read that. */
uint32_t side_states_wanted(const struct lls_pol_side *, const struct lls_pol_sequence *,
                            uint32_t group);
/* Takes the states that a step needs; false: there is no room. */
bool side_states_grow(struct lls_pol_side *, const struct lls_pol_sequence *,
                      uint32_t group);
/* Notes the checkpoints that a step of `tokens` tokens should leave, which
 * lls_pol_side_keep_states makes. False: the journal is full. */
bool side_states_wish(struct lls_pol_side *, const struct lls_pol_sequence *,
                      const struct lls_request *, uint32_t tokens);
/* The sequence has no step any more in this transaction. */
void side_states_withdraw(struct lls_pol_side *, const struct lls_pol_sequence *);
/* Holds the tree's state after the request's first `blocks` blocks. */
void side_states_hold(struct lls_pol_side *, const struct lls_pol_sequence *,
                      const struct lls_request *, uint32_t group, uint32_t blocks);
/* The state is that after s->cached tokens now. */
void side_states_computed(struct lls_pol_side *, const struct lls_pol_sequence *,
                          const struct lls_request *, uint32_t group);

/* side_host.c. Lists the copy of a full block of the tree from a tier to the other. */
void side_copy_known(struct lls_pol_side *, uint32_t group, uint32_t from_tier,
                     uint32_t from, uint32_t to, uint32_t order);
/* Changes in the journal, beyond its own, for blocks that are copied as they leave. */
uint32_t side_leaving_changes(const struct lls_pol_side *);
/* A transaction begins, in which no block has been copied as it left. */
void side_begin_leaving(struct lls_pol_side *);
/* The tree's `leaves`: copies the block to the host before the step, if it is not there
 * and the host has room. */
void side_leaves(void *, uint32_t place);

/* side_shared.c. Makes the blocks that an arriving request may take the last to leave:
 * the session that left them is back, and may wait for longer than blocks stay. Not in a
 * transaction. */
void side_use(struct lls_pol_side *, const struct lls_request *);

/* side_forms.c. Makes the i-th block of a sequence's list the one at `unit` of a tier;
 * `small` is counted where the list has a block there, whose form is `was`. */
void side_put(struct lls_pol_side *, const struct lls_pol_sequence *, uint32_t tier,
              uint32_t group, uint32_t i, uint32_t unit, uint32_t was);
/* Gives a block back that was full just now and takes a small one, if it can be had: the
 * copy is of the next step. Not in a transaction. False: it has to wait until blocks of
 * other sequences may move, side_make_waiting_small. */
bool side_make_small(struct lls_pol_side *, const struct lls_pol_sequence *,
                     uint32_t group, uint32_t i, bool may_move);
/* The sequence's full blocks wait. */
void side_wait(struct lls_pol_side *, const struct lls_pol_sequence *);
/* Converts the blocks that wait. Called before a transaction begins: the core has no
 * block tables then. */
void side_make_waiting_small(struct lls_pol_side *);

#endif
