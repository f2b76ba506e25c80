/* SPDX-License-Identifier: Apache-2.0 */
/* A reserve in side.h: what it takes is counted first, by class, so that it begins only
 * where all of it has room. */
#include "side_inside.h"

/* The end of the group's list once `tokens` more have room. Where blocks leave, as many
 * as a step computes are enough: later tokens take the room of blocks that have left, so
 * a prompt may be longer than the pool. Tokens copied from another instance come at once.
 */
static uint64_t past_for(const struct lls_pol_side *m, const struct lls_pol_sequence *s,
                         const struct lls_request *r, uint32_t group, uint32_t tokens)
{
  if (!side_reads_all(m, group) && r->cached_tokens <= s->cached)
    tokens = lls_pol_min(tokens, m->host->engine->max_step_tokens);
  return ((uint64_t)s->cached + tokens + m->block_tokens - 1) / m->block_tokens;
}

/* By class: what a reserve takes, and what the sequence then has in all. */
struct wanted {
  uint32_t taken[LLS_POL_MAX_CLASSES], all[LLS_POL_MAX_CLASSES];
  uint32_t past[LLS_POL_MAX_GROUPS], gone[LLS_POL_MAX_GROUPS];
  bool any;
};

/* One state is enough for a sequence that has the pool alone: no other one reads it. */
static void count_states(const struct lls_pol_side *m, const struct lls_pol_sequence *s,
                         uint32_t group, bool back, struct wanted *w)
{
  uint32_t kind = m->kinds[LLS_TIER_DEVICE][group], held = side_list(m, s, group)->past;
  uint32_t wanted = side_states_wanted(m, s, group);
  w->all[kind]++;
  w->taken[kind] += back ? wanted : wanted - held;
}

/* Adds what a group takes; `back`: all of it is on the host. */
static void count_group(const struct lls_pol_side *m, const struct lls_pol_sequence *s,
                        uint32_t group, bool back, struct wanted *w)
{
  const struct lls_pol_list *list = side_list(m, s, group);
  uint32_t kind = m->kinds[LLS_TIER_DEVICE][group];
  uint32_t small_kind = m->full[LLS_TIER_DEVICE][group].kind;
  uint32_t held = list->past - lls_pol_min(list->past, w->gone[group]);
  uint32_t small = lls_pol_min(s->cached / m->block_tokens, list->past);
  small -= lls_pol_min(small, w->gone[group]);
  if (!back)
    small = list->small;
  w->all[small_kind] += small;
  w->all[kind] += w->past[group] - w->gone[group] - small;
  w->taken[kind] += w->past[group] - w->gone[group] - held;
  if (back) {
    w->taken[small_kind] += small;
    w->taken[kind] += held - small;
  }
}

/* False: the lists have no room for `tokens` more. */
static bool count_wanted(const struct lls_pol_side *m, const struct lls_pol_sequence *s,
                         const struct lls_request *r, uint32_t tokens, struct wanted *w)
{
  bool back = s->where == LLS_POL_ON_HOST;
  *w = (struct wanted){.any = s->where == LLS_POL_NOWHERE || back};
  for (uint32_t group = 0; group < m->own_groups; group++)
    w->all[m->kinds[LLS_TIER_DEVICE][group]] += lls_pol_side_peak(m, s, r, group, tokens);
  for (uint32_t group = m->own_groups; group < m->n_groups; group++) {
    if (side_is_state(m, group)) {
      w->any |= side_list(m, s, group)->past < side_states_wanted(m, s, group);
      count_states(m, s, group, back, w);
      continue;
    }
    uint64_t past = past_for(m, s, r, group, tokens);
    uint32_t gone = side_gone(m, s, r, group);
    uint32_t now = lls_pol_max(side_list(m, s, group)->past, gone);
    if (past > m->rows.row_blocks)
      return false;
    w->gone[group] = gone;
    w->past[group] = lls_pol_max((uint32_t)past, now);
    w->any |= w->past[group] > now;
    count_group(m, s, group, back, w);
  }
  return true;
}

/* ---- taking -------------------------------------------------------------------- */

/* Brings all lists back from the host; what is back already may move with its slab. */
static bool bring_back(struct lls_pol_side *m, struct lls_pol_sequence *s)
{
  for (uint32_t group = 0; group < m->n_groups; group++) {
    struct lls_pol_list *list = side_list(m, s, group);
    for (uint32_t i = list->gone; i < list->past; i++) {
      if (!side_change_tier(m, s, group, i, LLS_TIER_DEVICE))
        return false;
      side_set(m, &list->back, i + 1);
    }
  }
  for (uint32_t group = 0; group < m->n_groups; group++)
    side_set(m, &side_list(m, s, group)->back, 0);
  side_set(m, &s->where, LLS_POL_ON_DEVICE);
  return true;
}

static bool place(struct lls_pol_side *m, struct lls_pol_sequence *s,
                  const struct wanted *w)
{
  bool begins = s->where == LLS_POL_NOWHERE;
  if (begins)
    lls_pol_rows_begin(&m->rows, s);
  for (uint32_t group = 0; group < m->n_groups && begins; group++) {
    side_set(m, &side_list(m, s, group)->gone, w->gone[group]);
    side_set(m, &side_list(m, s, group)->past, w->gone[group]);
  }
  if (s->where == LLS_POL_ON_HOST && !bring_back(m, s))
    return false;
  for (uint32_t group = 0; group < m->n_groups; group++)
    if (side_is_state(m, group) ? !side_states_grow(m, s, group)
                                : !lls_pol_side_grow(m, s, group, w->past[group]))
      return false;
  return true;
}

/* Do the blocks that it has suffice? So it is for nearly every decode. */
static bool has_room(const struct lls_pol_side *m, const struct lls_pol_sequence *s,
                     uint32_t tokens)
{
  if (s->where != LLS_POL_ON_DEVICE)
    return false;
  for (uint32_t group = m->own_groups; group < m->n_groups; group++)
    if (side_is_state(m, group)
            ? side_list(m, s, group)->past < side_states_wanted(m, s, group)
            : (uint64_t)side_list(m, s, group)->past * m->block_tokens <
                  (uint64_t)s->cached + tokens)
      return false;
  return true;
}

/* Takes what a step of `tokens` tokens needs. */
static int take_needs(struct lls_pol_side *m, struct lls_pol_sequence *s,
                      const struct lls_request *r, uint32_t tokens)
{
  struct lls_pol_slabs *slabs = &m->slabs[LLS_TIER_DEVICE];
  struct wanted w;
  if (has_room(m, s, tokens))
    return LLS_RESERVE_OK;
  if (!count_wanted(m, s, r, tokens, &w))
    return LLS_RESERVE_NEVER;
  if (!w.any)
    return LLS_RESERVE_OK;
  if (!lls_pol_slabs_fits_alone(slabs, w.all))
    return LLS_RESERVE_NEVER;
  if ((s->row == LLS_POL_NIL && m->rows.n_free == 0) || !side_can_note(m, 1) ||
      !side_fits(m, s, w.taken))
    return LLS_RESERVE_LATER;
  lls_pol_slabs_verb(slabs);
  return place(m, s, &w) ? LLS_RESERVE_OK : LLS_RESERVE_LATER;
}

int lls_pol_side_reserve(struct lls_pol_side *m, struct lls_pol_sequence *s,
                         const struct lls_request *r, uint32_t tokens)
{
  if (m->lacking == (uint32_t)(s - m->rows.sequences) + 1)
    return LLS_RESERVE_LATER;
  int rc = take_needs(m, s, r, tokens);
  if (rc != LLS_RESERVE_OK || m->rows.states == 0)
    return rc;
  return side_states_wish(m, s, r, tokens) ? LLS_RESERVE_OK : LLS_RESERVE_LATER;
}
