/* SPDX-License-Identifier: Apache-2.0 */
/* Forms of blocks in side.h: which a tier's full blocks have, and the copies that change
 * them. */
#include "side_inside.h"

#include <llmserve/policy/count.h>

/* ---- copies ------------------------------------------------------------------------ */

bool lls_pol_side_can_copy(const struct lls_pol_side *m, uint64_t copies)
{
  return (m->journal.open ? m->n_copies : m->n_pending) + copies <= m->max_copies &&
         lls_pol_journal_has_room(&m->journal, copies);
}

void lls_pol_side_copy(struct lls_pol_side *m, const struct lls_copy *copy)
{
  LLS_POL_CHECK(lls_pol_side_can_copy(m, 1));
  if (!m->journal.open) {
    m->pending[m->n_pending++] = *copy;
    return;
  }
  m->copies[m->n_copies] = *copy;
  side_set(m, &m->n_copies, m->n_copies + 1);
}

/* ---- blocks ------------------------------------------------------------------------ */

void side_put(struct lls_pol_side *m, const struct lls_pol_sequence *s, uint32_t tier,
              uint32_t group, uint32_t i, uint32_t unit, uint32_t was)
{
  struct lls_pol_list *list = side_list(m, s, group);
  if (side_is_state(m, group)) {
    lls_pol_rows_put_state(&m->rows, s, group, i, unit, s->cached);
    return;
  }
  uint32_t is = side_is_small(m, tier, group, unit);
  if (is != was)
    side_set(m, &list->small, list->small + is - was);
  lls_pol_rows_put(&m->rows, s, group, i, unit, side_form(m, tier, group, unit));
}

uint32_t lls_pol_side_take(struct lls_pol_side *m, const struct lls_pol_sequence *s,
                           uint32_t tier, uint32_t group, uint32_t i)
{
  bool full = (uint64_t)(i + 1) * m->block_tokens <= s->cached;
  if (!side_can_note(m, 1))
    return LLS_POL_NIL;
  return lls_pol_slabs_take(&m->slabs[tier],
                            full ? m->full[tier][group].kind : m->kinds[tier][group]);
}

bool side_make_small(struct lls_pol_side *m, const struct lls_pol_sequence *s,
                     uint32_t group, uint32_t i, bool may_move)
{
  struct lls_pol_slabs *slabs = &m->slabs[LLS_TIER_DEVICE];
  const struct lls_pol_side_form *full = &m->full[LLS_TIER_DEVICE][group];
  if (!side_has_small(m, LLS_TIER_DEVICE, group) ||
      side_is_small(m, LLS_TIER_DEVICE, group, side_unit(m, s, group, i)) ||
      !lls_pol_side_can_copy(m, 1 + (uint64_t)slabs->blocks_per_slab))
    return true;
  lls_pol_slabs_begin(slabs);
  slabs->may_move = may_move;
  uint32_t to = lls_pol_slabs_take(slabs, full->kind);
  if (to == LLS_POL_NIL)
    return may_move;
  uint32_t from = side_unit(m, s, group, i); /* after the take, which may have moved it */
  const struct lls_copy copy = {.order = LLS_COPY_BEFORE_STEP,
                                .group = (uint8_t)group,
                                .target_form = (uint8_t)full->form,
                                .n_slots = (uint16_t)m->block_tokens,
                                .source = from,
                                .target = to};
  lls_pol_side_copy(m, &copy);
  side_put(m, s, LLS_TIER_DEVICE, group, i, to, 0);
  lls_pol_tree_let_go(&m->tree, LLS_TIER_DEVICE, from);
  lls_pol_count(m->host, "blocks_quantised", 1);
  return true;
}

void side_wait(struct lls_pol_side *m, const struct lls_pol_sequence *s)
{
  bool *waits = &m->waits[s - m->rows.sequences];
  m->n_waiting += !*waits;
  *waits = true;
}

/* Converts the full blocks that the tree does not have: other sequences read the rest. */
static void make_small(struct lls_pol_side *m, const struct lls_pol_sequence *s)
{
  if (s->where != LLS_POL_ON_DEVICE || s->partial)
    return;
  for (uint32_t group = 0; group < m->n_groups; group++) {
    const struct lls_pol_list *list = side_list(m, s, group);
    uint32_t full = lls_pol_min(s->cached / m->block_tokens, list->past);
    uint32_t first = lls_pol_max(list->known, list->gone);
    for (uint32_t i = first; side_has_small(m, LLS_TIER_DEVICE, group) && i < full; i++)
      side_make_small(m, s, group, i, true);
  }
}

void side_make_waiting_small(struct lls_pol_side *m)
{
  for (uint32_t slot = 0; slot < m->rows.n_slots && m->n_waiting > 0; slot++)
    if (m->waits[slot]) {
      m->waits[slot] = false;
      m->n_waiting--;
      make_small(m, &m->rows.sequences[slot]);
    }
}
