/* SPDX-License-Identifier: Apache-2.0 */
/*
 * States in side.h: a sequence has one block in a group of kind STATE, which each step
 * rewrites. Where others may read it, because the tree or another sequence has it, a step
 * writes another block. What is worth finding again is put into the tree as a
 * *checkpoint*: the state at the last border of a block before the prompt's end, at the
 * border up to which others share the prompt's blocks of groups that read all, and every
 * CHECKPOINT tokens of an answer.
 *
 * A checkpoint inside of a step takes a block of its own, between the one that is read
 * and the one that is written (lls_block_table).
 *
 * A live sequence needs one block alone: a checkpoint is of use to others and to itself
 * after a preemption, so no reserve waits for the room of one and no request is preempted
 * for it. A step that accepts guesses may pass over the place of one in an answer, which
 * then is not kept: that costs a later turn at most CHECKPOINT tokens more. What a step
 * would keep is a *wish*, noted by reserve. When the transaction
 * ends, wishes get the room that is left. Where there is none a step writes over the
 * state that it reads, which leaves the tree before.
 */
#include "side_inside.h"

/* A state costs as much as the K and V of hundreds or thousands of tokens. */
#define CHECKPOINT 512

/* Checkpoints inside of a step, at most. */
#define CHECKPOINTS (LLS_POL_MAX_STATES - 2)

/* ---- what a step writes ------------------------------------------------------------ */

static bool has_state(const struct lls_pol_side *m, const struct lls_pol_sequence *s,
                      uint32_t group)
{
  return s->where == LLS_POL_ON_DEVICE && side_list(m, s, group)->past > 0;
}

/* Does another sequence read the state that this one has? */
static bool is_shared(const struct lls_pol_side *m, const struct lls_pol_sequence *s,
                      uint32_t group)
{
  return has_state(m, s, group) &&
         lls_pol_slabs_holders(&m->slabs[LLS_TIER_DEVICE], side_unit(m, s, group, 0)) > 1;
}

/* Would a step write over a checkpoint of the tree? */
static bool ends_checkpoint(const struct lls_pol_side *m,
                            const struct lls_pol_sequence *s, uint32_t group)
{
  return has_state(m, s, group) && side_list(m, s, group)->past == 1 &&
         lls_pol_tree_has(&m->tree, LLS_TIER_DEVICE, side_unit(m, s, group, 0));
}

uint32_t side_states_wanted(const struct lls_pol_side *m,
                            const struct lls_pol_sequence *s, uint32_t group)
{
  return lls_pol_max(side_list(m, s, group)->past, 1u + is_shared(m, s, group));
}

/* The border up to which a prompt that repeats this one finds blocks. */
static uint32_t prompt_border(const struct lls_pol_side *m, const struct lls_request *r)
{
  uint32_t tokens = r->prompt_tokens > 0 ? r->prompt_tokens - 1 : 0;
  return tokens - tokens % m->block_tokens;
}

/* Is the state after `tokens` tokens one to be kept? */
static bool is_checkpoint(const struct lls_pol_side *m, const struct lls_pol_sequence *s,
                          const struct lls_request *r, uint32_t tokens)
{
  if (!m->shares || tokens == 0 || tokens % m->block_tokens != 0 ||
      tokens / m->block_tokens > r->n_keys)
    return false;
  return tokens == prompt_border(m, r) || tokens == s->branch ||
         (tokens > r->prompt_tokens && tokens % CHECKPOINT < m->block_tokens);
}

/* Writes the checkpoints inside of a step of `tokens` tokens, rising; how many. */
static uint32_t checkpoints_in(const struct lls_pol_side *m,
                               const struct lls_pol_sequence *s,
                               const struct lls_request *r, uint32_t tokens,
                               uint32_t at[CHECKPOINTS])
{
  uint32_t n = 0, border = prompt_border(m, r);
  uint64_t end =
      (uint64_t)s->cached + lls_pol_min(tokens, m->host->engine->max_step_tokens);
  const uint32_t places[CHECKPOINTS] = {lls_pol_min(s->branch, border), border};
  if (r->cached_tokens > s->cached) /* they come from another instance */
    return 0;
  for (uint32_t i = 0; i < CHECKPOINTS; i++)
    if (places[i] > (n > 0 ? at[n - 1] : s->cached) && places[i] < end &&
        is_checkpoint(m, s, r, places[i]))
      at[n++] = places[i];
  return n;
}

/* ---- taking ------------------------------------------------------------------------ */

static bool add_state(struct lls_pol_side *m, const struct lls_pol_sequence *s,
                      uint32_t group)
{
  struct lls_pol_list *list = side_list(m, s, group);
  uint32_t unit = lls_pol_side_take(m, s, side_tier(s), group, list->past);
  if (unit == LLS_POL_NIL)
    return false;
  lls_pol_rows_put_state(&m->rows, s, group, list->past, unit, s->cached);
  side_set(m, &list->past, list->past + 1);
  return true;
}

bool side_states_grow(struct lls_pol_side *m, const struct lls_pol_sequence *s,
                      uint32_t group)
{
  uint32_t wanted = side_states_wanted(m, s, group);
  while (side_list(m, s, group)->past < wanted)
    if (!add_state(m, s, group))
      return false;
  return true;
}

void side_states_hold(struct lls_pol_side *m, const struct lls_pol_sequence *s,
                      const struct lls_request *r, uint32_t group, uint32_t blocks)
{
  uint32_t unit = side_known(m, r, group, blocks - 1);
  if (unit != LLS_POL_NIL) { /* else it comes from the host */
    lls_pol_tree_hold(&m->tree, LLS_TIER_DEVICE, unit);
    lls_pol_rows_put_state(&m->rows, s, group, 0, unit, blocks * m->block_tokens);
  }
  side_set(m, &side_list(m, s, group)->past, 1);
}

/* ---- wishes ------------------------------------------------------------------------ */

static struct lls_pol_side_wish *wish_of(const struct lls_pol_side *m,
                                         const struct lls_pol_sequence *s)
{
  return &m->wishes[s - m->rows.sequences];
}

bool side_states_wish(struct lls_pol_side *m, const struct lls_pol_sequence *s,
                      const struct lls_request *r, uint32_t tokens)
{
  struct lls_pol_side_wish *w = wish_of(m, s);
  uint32_t at[CHECKPOINTS] = {0}, n = checkpoints_in(m, s, r, tokens, at);
  bool due = n > 0;
  for (uint32_t group = 0; group < m->n_groups; group++)
    due |= side_is_state(m, group) && ends_checkpoint(m, s, group);
  if (!due && !w->due)
    return true;
  if (!side_can_note(m, 0) || (!w->listed && m->n_wishing == m->max_wishing))
    return false;
  side_set(m, &w->due, due);
  for (uint32_t i = 0; i < CHECKPOINTS; i++)
    side_set(m, &w->at[i], at[i]);
  if (w->listed)
    return true;
  side_set(m, &w->listed, 1);
  side_set(m, &m->wishing[m->n_wishing], (uint32_t)(s - m->rows.sequences));
  side_set(m, &m->n_wishing, m->n_wishing + 1);
  return true;
}

void side_states_withdraw(struct lls_pol_side *m, const struct lls_pol_sequence *s)
{
  if (wish_of(m, s)->due)
    side_set(m, &wish_of(m, s)->due, 0);
}

/* Adds a state if there is room. */
static bool add_if_room(struct lls_pol_side *m, const struct lls_pol_sequence *s,
                        uint32_t group)
{
  struct lls_pol_slabs *slabs = &m->slabs[LLS_TIER_DEVICE];
  uint32_t mark = m->journal.n, blocks[LLS_POL_MAX_CLASSES] = {0};
  blocks[m->kinds[LLS_TIER_DEVICE][group]] = 1;
  if (!side_can_note(m, 1) || !lls_pol_slabs_fits(slabs, blocks))
    return false;
  lls_pol_slabs_verb(slabs);
  if (add_state(m, s, group))
    return true;
  lls_pol_journal_rollback(&m->journal, mark);
  return false;
}

/* Puts a checkpoint before the last state of the list. */
static bool add_checkpoint(struct lls_pol_side *m, const struct lls_pol_sequence *s,
                           uint32_t group, uint32_t tokens)
{
  if (!add_if_room(m, s, group))
    return false;
  uint32_t last = side_list(m, s, group)->past - 1;
  uint32_t unit = side_unit(m, s, group, last);
  uint32_t target = side_unit(m, s, group, last - 1);
  lls_pol_rows_put_state(&m->rows, s, group, last - 1, unit, tokens);
  lls_pol_rows_put_state(&m->rows, s, group, last, target, s->cached);
  return true;
}

/* Keeps the state that the step reads if there is room for another one to write, and then
 * the checkpoints inside of the step, the first one first. */
static void grant(struct lls_pol_side *m, const struct lls_pol_sequence *s,
                  uint32_t group)
{
  const struct lls_pol_side_wish *w = wish_of(m, s);
  bool ends = ends_checkpoint(m, s, group);
  if (!has_state(m, s, group) || (!ends && w->at[0] == 0))
    return;
  bool room = side_list(m, s, group)->past > 1 || add_if_room(m, s, group);
  for (uint32_t i = 0; i < CHECKPOINTS && w->at[i] > 0 && room; i++)
    room = add_checkpoint(m, s, group, w->at[i]);
  if (ends && side_list(m, s, group)->past == 1)
    lls_pol_tree_remove(&m->tree, LLS_TIER_DEVICE, side_unit(m, s, group, 0));
}

void lls_pol_side_keep_states(struct lls_pol_side *m)
{
  m->journal.max += m->wish_changes;
  for (uint32_t i = 0; i < m->n_wishing; i++) {
    const struct lls_pol_sequence *s = &m->rows.sequences[m->wishing[i]];
    for (uint32_t group = 0; group < m->n_groups && wish_of(m, s)->due; group++)
      if (side_is_state(m, group))
        grant(m, s, group);
    *wish_of(m, s) = (struct lls_pol_side_wish){0};
  }
  m->n_wishing = 0;
  m->journal.max -= m->wish_changes;
}

/* ---- after a step ------------------------------------------------------------------ */

/* Puts a state into the tree as the one after `tokens` tokens. Returns the tree's, which
 * is another's if it had one. */
static uint32_t make_known(struct lls_pol_side *m, const struct lls_request *r,
                           uint32_t group, uint32_t tokens, uint32_t unit)
{
  if (lls_pol_tree_has(&m->tree, LLS_TIER_DEVICE, unit))
    return unit;
  return lls_pol_tree_put(&m->tree, r->keys, tokens / m->block_tokens - 1, group,
                          LLS_TIER_DEVICE, unit);
}

void side_states_computed(struct lls_pol_side *m, const struct lls_pol_sequence *s,
                          const struct lls_request *r, uint32_t group)
{
  struct lls_pol_list *list = side_list(m, s, group);
  if (list->past == 0)
    return;
  uint32_t last = list->past - 1, unit = side_unit(m, s, group, last);
  for (uint32_t i = 0; i < last; i++) {
    const struct lls_block_entry *e = lls_pol_rows_entries(&m->rows, s, group) + i;
    if (i > 0 && e->first_token <= s->cached)
      make_known(m, r, group, e->first_token, e->block);
    lls_pol_tree_let_go(&m->tree, LLS_TIER_DEVICE, e->block);
  }
  if (is_checkpoint(m, s, r, s->cached)) {
    uint32_t known = make_known(m, r, group, s->cached, unit);
    if (known != unit) {
      lls_pol_tree_hold(&m->tree, LLS_TIER_DEVICE, known);
      lls_pol_tree_let_go(&m->tree, LLS_TIER_DEVICE, unit);
      unit = known;
    }
  }
  lls_pol_rows_put_state(&m->rows, s, group, 0, unit, s->cached);
  list->past = 1;
}
