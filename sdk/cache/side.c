/* SPDX-License-Identifier: Apache-2.0 */
/* A sequence's blocks of all groups: taken, given back, swapped. See side.h;
 * side_create.c makes the parts, side_count.c counts, side_reserve.c makes room,
 * side_computed.c ends a step, side_shared.c shares, side_forms.c has the
 * forms of blocks. */
#include "side_inside.h"

#include <errno.h>

/* ---- taking -------------------------------------------------------------------- */

uint32_t lls_pol_side_slots(const struct lls_pol_side *m,
                            const struct lls_pol_sequence *s, uint32_t group, uint32_t i)
{
  if (side_is_state(m, group))
    return 0;
  return lls_pol_min(m->block_tokens, s->cached - i * m->block_tokens);
}

bool lls_pol_side_grow(struct lls_pol_side *m, struct lls_pol_sequence *s, uint32_t group,
                       uint32_t end)
{
  struct lls_pol_list *list = side_list(m, s, group);
  uint32_t tier = side_tier(s);
  for (uint32_t i = list->past; i < end; i++) {
    uint32_t unit = lls_pol_side_take(m, s, tier, group, i);
    if (unit == LLS_POL_NIL)
      return false;
    side_put(m, s, tier, group, i, unit, 0);
    side_set(m, &list->past, i + 1);
  }
  return true;
}

/* Drops one holder of a block. Without holders a block of the tree stays there for later
 * prompts; another becomes free. */
static void give_back(struct lls_pol_side *m, uint32_t tier, uint32_t unit)
{
  if (tier < m->tree.n_tiers)
    lls_pol_tree_let_go(&m->tree, tier, unit);
  else if (lls_pol_slabs_let_go(&m->slabs[tier], unit))
    lls_pol_slabs_free(&m->slabs[tier], unit);
}

/* ---- giving back --------------------------------------------------------------- */

void side_let_go(struct lls_pol_side *m, const struct lls_pol_sequence *s, uint32_t group,
                 uint32_t begin, uint32_t end)
{
  for (uint32_t i = end; i-- > begin;)
    give_back(m, side_tier(s), side_unit(m, s, group, i));
}

void lls_pol_side_shrink(struct lls_pol_side *m, struct lls_pol_sequence *s,
                         uint32_t group, uint32_t begin)
{
  struct lls_pol_list *list = side_list(m, s, group);
  uint32_t small = side_count_small(m, s, group, begin, list->past);
  side_let_go(m, s, group, begin, list->past);
  side_set(m, &list->past, begin);
  side_set(m, &list->known, lls_pol_min(list->known, begin));
  side_set(m, &list->small, list->small - small);
}

int lls_pol_side_trim(struct lls_pol_side *m, struct lls_pol_sequence *s)
{
  if (!side_can_note(m, 0))
    return -ENOBUFS;
  side_states_withdraw(m, s);
  for (uint32_t group = 0; group < m->n_groups; group++) {
    uint32_t past =
        side_is_state(m, group) ? s->cached > 0 : lls_pol_side_blocks(m, s->cached);
    uint32_t now = side_list(m, s, group)->past;
    if (now > past && !side_can_note(m, now - past))
      return -ENOBUFS;
    if (now > past)
      lls_pol_side_shrink(m, s, group, past);
  }
  return 0;
}

int lls_pol_side_drop(struct lls_pol_side *m, struct lls_pol_sequence *s)
{
  uint64_t blocks = 0;
  if (s->where == LLS_POL_NOWHERE)
    return 0;
  for (uint32_t group = 0; group < m->n_groups; group++)
    blocks += lls_pol_rows_held(&m->rows, s, group);
  if (!side_can_note(m, blocks))
    return -ENOBUFS;
  for (uint32_t group = m->n_groups; group-- > 0;)
    side_let_go(m, s, group, side_list(m, s, group)->gone, side_list(m, s, group)->past);
  side_states_withdraw(m, s);
  lls_pol_rows_end(&m->rows, s);
  return 0;
}

/* ---- the other tier ------------------------------------------------------------ */

bool side_change_tier(struct lls_pol_side *m, struct lls_pol_sequence *s, uint32_t group,
                      uint32_t i, uint32_t to_tier)
{
  uint32_t from_tier = LLS_TIER_HOST - to_tier, from, to;
  if (!lls_pol_side_can_copy(m, 1))
    return false;
  to = lls_pol_side_take(m, s, to_tier, group, i);
  if (to == LLS_POL_NIL)
    return false;
  from = side_unit(m, s, group, i); /* after the take, which may have moved the block */
  const struct lls_copy copy = {
      .source_tier = (uint8_t)from_tier,
      .target_tier = (uint8_t)to_tier,
      .order = LLS_COPY_BEFORE_STEP,
      .group = (uint8_t)group,
      .source_form = (uint8_t)side_form(m, from_tier, group, from),
      .target_form = (uint8_t)side_form(m, to_tier, group, to),
      .n_slots = (uint16_t)lls_pol_side_slots(m, s, group, i),
      .source = from,
      .target = to,
  };
  lls_pol_side_copy(m, &copy);
  side_put(m, s, to_tier, group, i, to, side_is_small(m, from_tier, group, from));
  give_back(m, from_tier, from);
  return true;
}

/* Moves all blocks of the group to the host, the last one first. */
static bool swap_group(struct lls_pol_side *m, struct lls_pol_sequence *s, uint32_t group)
{
  struct lls_pol_list *list = side_list(m, s, group);
  side_set(m, &list->known, 0); /* put into the tree again when the sequence is back */
  for (uint32_t i = list->past; i-- > list->gone;)
    if (!side_change_tier(m, s, group, i, LLS_TIER_HOST))
      return false;
  return true;
}

/* All or nothing. */
static int swap_out(struct lls_pol_side *m, struct lls_pol_sequence *s, uint32_t past)
{
  uint32_t taken[LLS_POL_MAX_CLASSES] = {0};
  lls_pol_side_count(m, s, LLS_TIER_HOST, past, taken);
  if (!lls_pol_slabs_fits(&m->slabs[LLS_TIER_HOST], taken) || lls_pol_side_trim(m, s) < 0)
    return -ENOSPC;
  for (uint32_t group = 0; group < m->n_groups; group++)
    if (!side_can_note(m, 1) || !swap_group(m, s, group))
      return -ENOSPC;
  side_set(m, &s->where, LLS_POL_ON_HOST);
  return 0;
}

int lls_pol_side_swap_out(struct lls_pol_side *m, struct lls_pol_sequence *s)
{
  uint32_t past = lls_pol_side_blocks(m, s->cached), mark = m->journal.n;
  if (s->where != LLS_POL_ON_DEVICE)
    return 0;
  if (past == 0) /* room but no token: nothing to keep */
    return lls_pol_side_drop(m, s);
  int rc = swap_out(m, s, past);
  if (rc < 0)
    lls_pol_journal_rollback(&m->journal, mark);
  return rc;
}
