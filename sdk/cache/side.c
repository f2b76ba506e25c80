/* SPDX-License-Identifier: Apache-2.0 */
/* A sequence's blocks of all groups: how many it needs, taking, giving back, swapping.
 * See side.h; side_create.c makes the parts, side_shared.c shares. */
#include <llmserve/policy/side.h>

#include <errno.h>

/* Changes in the journal for a block that is taken, given back or copied. */
#define CHANGES_PER_BLOCK 48

static void set(struct lls_pol_side *m, uint32_t *where, uint32_t value)
{
  lls_pol_journal_set(&m->journal, where, value);
}

static struct lls_pol_list *list_of(const struct lls_pol_side *m,
                                    const struct lls_pol_sequence *s, uint32_t group)
{
  return lls_pol_rows_list(&m->rows, s, group);
}

static uint32_t unit_at(const struct lls_pol_side *m, const struct lls_pol_sequence *s,
                        uint32_t group, uint32_t i)
{
  return lls_pol_rows_entries(&m->rows, s, group)[i].block;
}

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
  return m->keeps_all ? 0 : lls_group_begin(group_of(m, group), cached) / m->block_tokens;
}

/* Leading blocks that the sequence does not need. A request that arrives from another
 * instance with cached tokens lacks the blocks before its window from the start. */
static uint32_t gone_of(const struct lls_pol_side *m, const struct lls_pol_sequence *s,
                        const struct lls_request *r, uint32_t group)
{
  return s->where == LLS_POL_NOWHERE ? needless(m, group, r->cached_tokens)
                                     : list_of(m, s, group)->gone;
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

/* The most blocks of the group that the sequence holds at once while it grows, in steps
 * as long as may be. */
static uint32_t peak(const struct lls_pol_side *m, const struct lls_pol_sequence *s,
                     const struct lls_request *r, uint32_t group, uint32_t tokens)
{
  uint32_t all = blocks_of(m, (uint64_t)s->cached + tokens);
  uint32_t left = all - lls_pol_min(all, gone_of(m, s, r, group));
  uint32_t step = lls_pol_min(lls_pol_min(tokens, lls_request_pending(r)),
                              m->host->engine->max_step_tokens);
  uint64_t window = group_of(m, group)->window;
  return reads_all(m, group) ? left : lls_pol_min(left, blocks_of(m, window + step) + 1);
}

uint32_t lls_pol_side_need(const struct lls_pol_side *m, const struct lls_pol_sequence *s,
                           const struct lls_request *r, uint32_t tokens)
{
  uint32_t units = 0;
  for (uint32_t group = 0; group < m->n_groups; group++) {
    uint32_t wanted = peak(m, s, r, group, tokens);
    uint32_t held = lls_pol_rows_held(&m->rows, s, group);
    units += m->units[group] * (wanted > held ? wanted - held : 0);
  }
  return units;
}

/* How many blocks of a list more than one sequence holds. Where a token reads all before
 * it, who holds a block holds those before it too, so shared blocks come first and
 * bisection finds where they end: the core asks for every request in every step. */
static uint32_t shared_blocks(const struct lls_pol_side *m,
                              const struct lls_pol_sequence *s, uint32_t group)
{
  const struct lls_pol_list *list = list_of(m, s, group);
  const struct lls_pol_slabs *slabs = &m->slabs[LLS_TIER_DEVICE];
  uint32_t low = list->gone, high = lls_pol_max(low, list->known), count = 0;
  for (uint32_t i = low; i < high && !reads_all(m, group); i++)
    count += lls_pol_slabs_holders(slabs, unit_at(m, s, group, i)) > 1;
  if (!reads_all(m, group))
    return count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (lls_pol_slabs_holders(slabs, unit_at(m, s, group, middle)) > 1)
      low = middle + 1;
    else
      high = middle;
  }
  return low - list->gone;
}

uint32_t lls_pol_side_units(const struct lls_pol_side *m,
                            const struct lls_pol_sequence *s)
{
  uint32_t units = 0;
  for (uint32_t group = 0; group < m->n_groups; group++)
    units += m->units[group] * lls_pol_rows_held(&m->rows, s, group);
  return units;
}

void lls_pol_side_shared(const struct lls_pol_side *m, const struct lls_pol_sequence *s,
                         uint32_t *units, uint32_t *tokens)
{
  *units = *tokens = 0;
  for (uint32_t group = 0; group < m->n_groups && s->where == LLS_POL_ON_DEVICE;
       group++) {
    uint32_t blocks = shared_blocks(m, s, group);
    *units += m->units[group] * blocks;
    if (group == 0)
      *tokens = lls_pol_min(blocks * m->block_tokens, s->cached);
  }
}

/* ---- blocks ----------------------------------------------------------------------- */

/* Slots in use of the sequence's i-th block. */
static uint32_t used_slots(const struct lls_pol_side *m, const struct lls_pol_sequence *s,
                           uint32_t i)
{
  return lls_pol_min(m->block_tokens, s->cached - i * m->block_tokens);
}

static bool can_note(const struct lls_pol_side *m, uint64_t blocks)
{
  return lls_pol_journal_has_room(&m->journal, CHANGES_PER_BLOCK * (blocks + 1));
}

/* Takes blocks for [list->past, past). */
static bool take_blocks(struct lls_pol_side *m, struct lls_pol_sequence *s,
                        uint32_t group, uint32_t past)
{
  struct lls_pol_list *list = list_of(m, s, group);
  for (uint32_t i = list->past; i < past; i++) {
    uint32_t unit = can_note(m, 1)
                        ? lls_pol_slabs_take(&m->slabs[LLS_TIER_DEVICE], m->kinds[group])
                        : LLS_POL_NIL;
    if (unit == LLS_POL_NIL)
      return false;
    lls_pol_rows_put(&m->rows, s, group, i, unit);
    set(m, &list->past, i + 1);
  }
  return true;
}

/* One less holds the block. On the host, which the tree does not have, that is its only
 * holder. */
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
  if (m->n_copies == m->max_copies || !can_note(m, 1))
    return false;
  to = lls_pol_slabs_take(&m->slabs[to_tier], m->kinds[group]);
  if (to == LLS_POL_NIL)
    return false;
  from = unit_at(m, s, group, i); /* after the take, which may have moved the block */
  m->copies[m->n_copies] = (struct lls_copy){
      .source_tier = (uint8_t)from_tier,
      .target_tier = (uint8_t)to_tier,
      .order = LLS_COPY_BEFORE_STEP,
      .group = (uint8_t)group,
      .n_slots = (uint16_t)used_slots(m, s, i),
      .source = from,
      .target = to,
  };
  set(m, &m->n_copies, m->n_copies + 1);
  lls_pol_rows_put(&m->rows, s, group, i, to);
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

/* False: the lists have no room for `tokens` more. */
static bool count_wanted(const struct lls_pol_side *m, const struct lls_pol_sequence *s,
                         const struct lls_request *r, uint32_t tokens, struct wanted *w)
{
  bool back = s->where == LLS_POL_ON_HOST;
  *w = (struct wanted){.any = s->where == LLS_POL_NOWHERE || back};
  for (uint32_t group = 0; group < m->n_groups; group++) {
    uint64_t past = past_for(m, s, r, group, tokens);
    uint32_t gone = gone_of(m, s, r, group);
    uint32_t now = lls_pol_max(list_of(m, s, group)->past, gone);
    if (past > m->rows.row_blocks)
      return false;
    w->gone[group] = gone;
    w->past[group] = lls_pol_max((uint32_t)past, now);
    w->all[m->kinds[group]] += w->past[group] - gone;
    w->taken[m->kinds[group]] += w->past[group] - (back ? gone : now);
    w->any |= w->past[group] > now;
  }
  return true;
}

/* Brings all lists back from the host; what is back already may move with its slab. */
static bool bring_back(struct lls_pol_side *m, struct lls_pol_sequence *s)
{
  for (uint32_t group = 0; group < m->n_groups; group++) {
    struct lls_pol_list *list = list_of(m, s, group);
    for (uint32_t i = list->gone; i < list->past; i++) {
      if (!change_tier(m, s, group, i, LLS_TIER_DEVICE))
        return false;
      set(m, &list->back, i + 1);
    }
  }
  for (uint32_t group = 0; group < m->n_groups; group++)
    set(m, &list_of(m, s, group)->back, 0);
  set(m, &s->where, LLS_POL_ON_DEVICE);
  return true;
}

static bool place(struct lls_pol_side *m, struct lls_pol_sequence *s,
                  const struct wanted *w)
{
  bool begins = s->where == LLS_POL_NOWHERE;
  if (begins)
    lls_pol_rows_begin(&m->rows, s);
  for (uint32_t group = 0; group < m->n_groups && begins; group++) {
    set(m, &list_of(m, s, group)->gone, w->gone[group]);
    set(m, &list_of(m, s, group)->past, w->gone[group]);
  }
  if (s->where == LLS_POL_ON_HOST && !bring_back(m, s))
    return false;
  for (uint32_t group = 0; group < m->n_groups; group++)
    if (!take_blocks(m, s, group, w->past[group]))
      return false;
  return true;
}

/* Do the blocks that it has suffice? So it is for nearly every decode. */
static bool has_room(const struct lls_pol_side *m, const struct lls_pol_sequence *s,
                     uint32_t tokens)
{
  if (s->where != LLS_POL_ON_DEVICE)
    return false;
  for (uint32_t group = 0; group < m->n_groups; group++)
    if ((uint64_t)list_of(m, s, group)->past * m->block_tokens <
        (uint64_t)s->cached + tokens)
      return false;
  return true;
}

int lls_pol_side_reserve(struct lls_pol_side *m, struct lls_pol_sequence *s,
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
  if ((s->row == LLS_POL_NIL && m->rows.n_free == 0) || !can_note(m, 1) ||
      !lls_pol_slabs_fits(slabs, w.taken))
    return LLS_RESERVE_LATER;
  lls_pol_slabs_verb(slabs);
  return place(m, s, &w) ? LLS_RESERVE_OK : LLS_RESERVE_LATER;
}

/* ---- giving back ------------------------------------------------------------------ */

/* Blocks [begin, end) of the group's list, the last one first. */
static void let_go(struct lls_pol_side *m, const struct lls_pol_sequence *s,
                   uint32_t group, uint32_t begin, uint32_t end)
{
  uint32_t tier = s->where == LLS_POL_ON_HOST ? LLS_TIER_HOST : LLS_TIER_DEVICE;
  for (uint32_t i = end; i-- > begin;)
    give_back(m, tier, unit_at(m, s, group, i));
}

int lls_pol_side_drop(struct lls_pol_side *m, struct lls_pol_sequence *s)
{
  uint64_t blocks = 0;
  if (s->where == LLS_POL_NOWHERE)
    return 0;
  for (uint32_t group = 0; group < m->n_groups; group++)
    blocks += lls_pol_rows_held(&m->rows, s, group);
  if (!can_note(m, blocks))
    return -ENOBUFS;
  for (uint32_t group = m->n_groups; group-- > 0;)
    let_go(m, s, group, list_of(m, s, group)->gone, list_of(m, s, group)->past);
  lls_pol_rows_end(&m->rows, s);
  return 0;
}

/* Moves what is cached of the group to the host; the rest is given back. */
static bool swap_group(struct lls_pol_side *m, struct lls_pol_sequence *s, uint32_t group,
                       uint32_t past)
{
  struct lls_pol_list *list = list_of(m, s, group);
  if (!can_note(m, list->past - past))
    return false;
  let_go(m, s, group, past, list->past);
  set(m, &list->past, past);
  set(m, &list->known, 0); /* put into the tree again when the sequence is back */
  for (uint32_t i = past; i-- > list->gone;)
    if (!change_tier(m, s, group, i, LLS_TIER_HOST))
      return false;
  return true;
}

int lls_pol_side_swap_out(struct lls_pol_side *m, struct lls_pol_sequence *s)
{
  uint32_t past = blocks_of(m, s->cached), mark = m->journal.n;
  uint32_t taken[LLS_POL_MAX_CLASSES] = {0};
  if (s->where != LLS_POL_ON_DEVICE)
    return 0;
  if (past == 0) /* room but no token: nothing to keep */
    return lls_pol_side_drop(m, s);
  for (uint32_t group = 0; group < m->n_groups; group++)
    taken[m->kinds[group]] += past - list_of(m, s, group)->gone;
  if (!lls_pol_slabs_fits(&m->slabs[LLS_TIER_HOST], taken))
    return -ENOSPC;
  for (uint32_t group = 0; group < m->n_groups; group++)
    if (!swap_group(m, s, group, past)) {
      lls_pol_journal_rollback(&m->journal, mark);
      return -ENOSPC;
    }
  set(m, &s->where, LLS_POL_ON_HOST);
  return 0;
}

/* ---- after a step ----------------------------------------------------------------- */

/* Makes the i-th block known, or goes over to the equal one that is. */
static void make_known(struct lls_pol_side *m, struct lls_pol_sequence *s,
                       const struct lls_request *r, uint32_t group, uint32_t i)
{
  uint32_t own = unit_at(m, s, group, i);
  uint32_t known = lls_pol_tree_put(&m->tree, r->keys, i, group, LLS_TIER_DEVICE, own);
  if (known == own)
    return;
  lls_pol_tree_hold(&m->tree, LLS_TIER_DEVICE, known);
  lls_pol_rows_put(&m->rows, s, group, i, known);
  lls_pol_tree_let_go(&m->tree, LLS_TIER_DEVICE, own);
}

void lls_pol_side_computed(struct lls_pol_side *m, struct lls_pol_sequence *s,
                           const struct lls_request *r, uint32_t cached)
{
  uint32_t full = cached / m->block_tokens;
  s->cached = cached;
  for (uint32_t group = 0; group < m->n_groups; group++) {
    struct lls_pol_list *list = list_of(m, s, group);
    for (uint32_t i = lls_pol_max(list->known, list->gone); m->shares && i < full; i++) {
      make_known(m, s, r, group, i);
      list->known = i + 1;
    }
  }
  for (uint32_t group = 0; group < m->n_groups; group++) {
    struct lls_pol_list *list = list_of(m, s, group);
    uint32_t gone = lls_pol_max(list->gone, needless(m, group, cached));
    let_go(m, s, group, list->gone, gone);
    list->gone = gone;
  }
}
