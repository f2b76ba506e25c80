/* SPDX-License-Identifier: Apache-2.0 */
/* A sequence's blocks of all groups: how many it needs, taking, giving back, swapping.
 * See side.h; side_create.c makes the parts, side_shared.c shares, side_forms.c has the
 * forms of blocks. */
#include "side_inside.h"

#include <errno.h>

static uint32_t blocks_of(const struct lls_pol_side *m, uint64_t tokens)
{
  return (uint32_t)((tokens + m->block_tokens - 1) / m->block_tokens);
}

static const struct lls_group *group_of(const struct lls_pol_side *m, uint32_t group)
{
  return m->host->engine->groups[group];
}

/* ---- how many --------------------------------------------------------------------- */

/* Leading blocks that no step reads which begins behind `cached` tokens. */
static uint32_t needless(const struct lls_pol_side *m, uint32_t group, uint32_t cached)
{
  if (m->keeps_all || group < m->own_groups || side_is_state(m, group))
    return 0;
  return lls_group_begin(group_of(m, group), cached) / m->block_tokens;
}

/* Leading blocks that the sequence does not need. A request that arrives from another
 * instance with cached tokens lacks the blocks before its window from the start. */
static uint32_t gone_of(const struct lls_pol_side *m, const struct lls_pol_sequence *s,
                        const struct lls_request *r, uint32_t group)
{
  return s->where == LLS_POL_NOWHERE ? needless(m, group, r->cached_tokens)
                                     : side_list(m, s, group)->gone;
}

static bool reads_all(const struct lls_pol_side *m, uint32_t group)
{
  return m->keeps_all || group_of(m, group)->kind == LLS_GROUP_FULL;
}

/* The end of the group's list once `tokens` more have room. Where blocks leave, as many
 * as a step computes are enough: later tokens take the room of blocks that have left, so
 * a prompt may be longer than the pool. Tokens copied from another instance come at once.
 */
static uint64_t past_for(const struct lls_pol_side *m, const struct lls_pol_sequence *s,
                         const struct lls_request *r, uint32_t group, uint32_t tokens)
{
  if (!reads_all(m, group) && r->cached_tokens <= s->cached)
    tokens = lls_pol_min(tokens, m->host->engine->max_step_tokens);
  return ((uint64_t)s->cached + tokens + m->block_tokens - 1) / m->block_tokens;
}

uint32_t lls_pol_side_peak(const struct lls_pol_side *m, const struct lls_pol_sequence *s,
                           const struct lls_request *r, uint32_t group, uint32_t tokens)
{
  uint32_t all = blocks_of(m, (uint64_t)s->cached + tokens);
  uint32_t left = all - lls_pol_min(all, gone_of(m, s, r, group));
  uint32_t step = lls_pol_min(lls_pol_min(tokens, lls_request_pending(r)),
                              m->host->engine->max_step_tokens);
  uint64_t window = group_of(m, group)->window;
  if (side_is_state(m, group))
    return side_states_wanted(m, s, group);
  return reads_all(m, group) ? left : lls_pol_min(left, blocks_of(m, window + step) + 1);
}

uint32_t lls_pol_side_need(const struct lls_pol_side *m, const struct lls_pol_sequence *s,
                           const struct lls_request *r, uint32_t tokens)
{
  uint32_t units = 0;
  for (uint32_t group = m->own_groups; group < m->n_groups; group++) {
    uint32_t wanted = lls_pol_side_peak(m, s, r, group, tokens);
    uint32_t held = lls_pol_rows_held(&m->rows, s, group);
    units += m->units[LLS_TIER_DEVICE][group] * (wanted > held ? wanted - held : 0);
  }
  return units;
}

/* How many blocks of a list more than one sequence holds. Where a token reads all before
 * it, who holds a block holds those before it too, so shared blocks come first and
 * bisection finds where they end: the core asks for every request in every step. */
static uint32_t shared_blocks(const struct lls_pol_side *m,
                              const struct lls_pol_sequence *s, uint32_t group)
{
  const struct lls_pol_list *list = side_list(m, s, group);
  const struct lls_pol_slabs *slabs = &m->slabs[LLS_TIER_DEVICE];
  uint32_t end = side_is_state(m, group) ? list->past : list->known;
  uint32_t low = list->gone, high = lls_pol_max(low, end), count = 0;
  for (uint32_t i = low; i < high && !reads_all(m, group); i++)
    count += lls_pol_slabs_holders(slabs, side_unit(m, s, group, i)) > 1;
  if (!reads_all(m, group))
    return count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (lls_pol_slabs_holders(slabs, side_unit(m, s, group, middle)) > 1)
      low = middle + 1;
    else
      high = middle;
  }
  return low - list->gone;
}

/* Units of the first blocks of a list, all of which are full. */
static uint32_t units_of_full(const struct lls_pol_side *m,
                              const struct lls_pol_sequence *s, uint32_t group,
                              uint32_t blocks)
{
  const struct lls_pol_list *list = side_list(m, s, group);
  const struct lls_pol_side_form *full = &m->full[LLS_TIER_DEVICE][group];
  uint32_t end = list->gone + blocks, small = blocks;
  if (list->small !=
      s->cached / m->block_tokens - list->gone) /* some had no room in it */
    small = side_count_small(m, s, group, list->gone, end);
  return small * full->units + (blocks - small) * m->units[LLS_TIER_DEVICE][group];
}

void lls_pol_side_shared(const struct lls_pol_side *m, const struct lls_pol_sequence *s,
                         uint32_t *units, uint32_t *tokens)
{
  *units = *tokens = 0;
  for (uint32_t group = 0; group < m->n_groups && s->where == LLS_POL_ON_DEVICE;
       group++) {
    uint32_t blocks = shared_blocks(m, s, group);
    *units += units_of_full(m, s, group, blocks);
    if (group == 0)
      *tokens = lls_pol_min(blocks * m->block_tokens, s->cached);
  }
}

/* ---- blocks ----------------------------------------------------------------------- */

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

/* Drops one holder of a block. Without holders a device block stays in the tree for
 * later prompts; a host block, which is in no tree, becomes free. */
static void give_back(struct lls_pol_side *m, uint32_t tier, uint32_t unit)
{
  if (tier == LLS_TIER_DEVICE)
    lls_pol_tree_let_go(&m->tree, tier, unit);
  else if (lls_pol_slabs_let_go(&m->slabs[tier], unit))
    lls_pol_slabs_free(&m->slabs[tier], unit);
}

/* Copies the i-th block to a block of the other tier, and gives the old one back. */
static bool change_tier(struct lls_pol_side *m, struct lls_pol_sequence *s,
                        uint32_t group, uint32_t i, uint32_t to_tier)
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

/* ---- reserve ---------------------------------------------------------------------- */

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
    uint32_t gone = gone_of(m, s, r, group);
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

/* Brings all lists back from the host; what is back already may move with its slab. */
static bool bring_back(struct lls_pol_side *m, struct lls_pol_sequence *s)
{
  for (uint32_t group = 0; group < m->n_groups; group++) {
    struct lls_pol_list *list = side_list(m, s, group);
    for (uint32_t i = list->gone; i < list->past; i++) {
      if (!change_tier(m, s, group, i, LLS_TIER_DEVICE))
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
      !lls_pol_slabs_fits(slabs, w.taken))
    return LLS_RESERVE_LATER;
  lls_pol_slabs_verb(slabs);
  return place(m, s, &w) ? LLS_RESERVE_OK : LLS_RESERVE_LATER;
}

int lls_pol_side_reserve(struct lls_pol_side *m, struct lls_pol_sequence *s,
                         const struct lls_request *r, uint32_t tokens)
{
  int rc = take_needs(m, s, r, tokens);
  if (rc != LLS_RESERVE_OK || m->rows.states == 0)
    return rc;
  return side_states_wish(m, s, r, tokens) ? LLS_RESERVE_OK : LLS_RESERVE_LATER;
}

/* ---- giving back ------------------------------------------------------------------ */

/* Blocks [begin, end) of the group's list, the last one first. */
static void let_go(struct lls_pol_side *m, const struct lls_pol_sequence *s,
                   uint32_t group, uint32_t begin, uint32_t end)
{
  uint32_t tier = s->where == LLS_POL_ON_HOST ? LLS_TIER_HOST : LLS_TIER_DEVICE;
  for (uint32_t i = end; i-- > begin;)
    give_back(m, tier, side_unit(m, s, group, i));
}

void lls_pol_side_shrink(struct lls_pol_side *m, struct lls_pol_sequence *s,
                         uint32_t group, uint32_t begin)
{
  struct lls_pol_list *list = side_list(m, s, group);
  uint32_t small = side_count_small(m, s, group, begin, list->past);
  let_go(m, s, group, begin, list->past);
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
    uint32_t past = side_is_state(m, group) ? s->cached > 0 : blocks_of(m, s->cached);
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
    let_go(m, s, group, side_list(m, s, group)->gone, side_list(m, s, group)->past);
  side_states_withdraw(m, s);
  lls_pol_rows_end(&m->rows, s);
  return 0;
}

/* Moves all blocks of the group to the host, the last one first. */
static bool swap_group(struct lls_pol_side *m, struct lls_pol_sequence *s, uint32_t group)
{
  struct lls_pol_list *list = side_list(m, s, group);
  side_set(m, &list->known, 0); /* put into the tree again when the sequence is back */
  for (uint32_t i = list->past; i-- > list->gone;)
    if (!change_tier(m, s, group, i, LLS_TIER_HOST))
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
  uint32_t past = blocks_of(m, s->cached), mark = m->journal.n;
  if (s->where != LLS_POL_ON_DEVICE)
    return 0;
  if (past == 0) /* room but no token: nothing to keep */
    return lls_pol_side_drop(m, s);
  int rc = swap_out(m, s, past);
  if (rc < 0)
    lls_pol_journal_rollback(&m->journal, mark);
  return rc;
}

/* ---- after a step ----------------------------------------------------------------- */

/* The i-th block, in no tree yet, becomes the equal one that is. */
static void go_over(struct lls_pol_side *m, struct lls_pol_sequence *s, uint32_t group,
                    uint32_t i, uint32_t known)
{
  uint32_t own = side_unit(m, s, group, i);
  lls_pol_tree_hold(&m->tree, LLS_TIER_DEVICE, known);
  side_put(m, s, LLS_TIER_DEVICE, group, i, known,
           side_is_small(m, LLS_TIER_DEVICE, group, own));
  lls_pol_tree_let_go(&m->tree, LLS_TIER_DEVICE, own);
}

/* Is there an equal block in the tree? LLS_POL_NIL if not. */
static uint32_t equal_block(const struct lls_pol_side *m, const struct lls_request *r,
                            uint32_t group, uint32_t i)
{
  uint32_t node = lls_pol_tree_find(&m->tree, &r->keys[i]);
  return node == LLS_POL_NIL ? node
                             : lls_pol_tree_block(&m->tree, node, group, LLS_TIER_DEVICE);
}

/* Makes the i-th block known, or goes over to the equal one that is. A block becomes
 * small before it is known: what the tree has is never written. False: it waits. */
static bool make_known(struct lls_pol_side *m, struct lls_pol_sequence *s,
                       const struct lls_request *r, uint32_t group, uint32_t i,
                       bool fresh)
{
  if (fresh && equal_block(m, r, group, i) == LLS_POL_NIL &&
      !side_make_small(m, s, group, i, false))
    return false;
  uint32_t own = side_unit(m, s, group, i);
  uint32_t known = lls_pol_tree_put(&m->tree, r->keys, i, group, LLS_TIER_DEVICE, own);
  if (known != own)
    go_over(m, s, group, i, known);
  return true;
}

/* Full blocks from the `before`-th on are full since this step. */
static void note_full(struct lls_pol_side *m, struct lls_pol_sequence *s,
                      const struct lls_request *r, uint32_t group, uint32_t before)
{
  struct lls_pol_list *list = side_list(m, s, group);
  bool has_small = side_has_small(m, LLS_TIER_DEVICE, group);
  uint32_t full = s->cached / m->block_tokens;
  bool done = true;
  for (uint32_t i = lls_pol_max(list->known, list->gone); m->shares && i < full && done;
       i++) {
    done = make_known(m, s, r, group, i, has_small && i >= before);
    list->known = i + done;
  }
  for (uint32_t i = lls_pol_max(before, list->gone); !m->shares && has_small && i < full;
       i++)
    done &= side_make_small(m, s, group, i, false);
  if (!done)
    side_wait(m, s);
}

/* Gives back what no later step reads. */
static void trim_front(struct lls_pol_side *m, struct lls_pol_sequence *s, uint32_t group)
{
  struct lls_pol_list *list = side_list(m, s, group);
  uint32_t gone = lls_pol_max(list->gone, needless(m, group, s->cached));
  list->small -= side_count_small(m, s, group, list->gone, gone);
  let_go(m, s, group, list->gone, gone);
  list->gone = gone;
}

void lls_pol_side_computed(struct lls_pol_side *m, struct lls_pol_sequence *s,
                           const struct lls_request *r, uint32_t cached)
{
  uint32_t before = s->cached / m->block_tokens;
  s->cached = cached;
  for (uint32_t group = 0; group < m->n_groups; group++)
    if (side_is_state(m, group)) /* after the first group's block is in the tree */
      side_states_computed(m, s, r, group);
    else
      note_full(m, s, r, group, before);
  for (uint32_t group = 0; group < m->n_groups; group++)
    trim_front(m, s, group);
}
