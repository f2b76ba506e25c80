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
 * and the one that is written (lls_block_table). It is made only if there is room.
 */
#include "side_inside.h"

/* A state costs as much as the K and V of hundreds or thousands of tokens. */
#define CHECKPOINT 512

/* Checkpoints inside of a step, at most. */
#define CHECKPOINTS (LLS_POL_MAX_STATES - 2)

/* ---- what a step writes ------------------------------------------------------------ */

/* May others read the state that the sequence has? */
static bool is_shared(const struct lls_pol_side *m, const struct lls_pol_sequence *s,
                      uint32_t group)
{
  if (s->where != LLS_POL_ON_DEVICE || side_list(m, s, group)->past == 0)
    return false;
  uint32_t unit = side_unit(m, s, group, 0);
  return lls_pol_tree_has(&m->tree, LLS_TIER_DEVICE, unit) ||
         lls_pol_slabs_holders(&m->slabs[LLS_TIER_DEVICE], unit) > 1;
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

bool side_states_suffice(const struct lls_pol_side *m, const struct lls_pol_sequence *s,
                         const struct lls_request *r, uint32_t group, uint32_t tokens)
{
  uint32_t at[CHECKPOINTS], past = side_list(m, s, group)->past;
  return past >= side_states_wanted(m, s, group) &&
         (past > 1 || checkpoints_in(m, s, r, tokens, at) == 0);
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
                      const struct lls_request *r, uint32_t group, uint32_t tokens)
{
  struct lls_pol_list *list = side_list(m, s, group);
  uint32_t wanted = side_states_wanted(m, s, group);
  uint32_t at[CHECKPOINTS], n = list->past > 1 ? 0 : checkpoints_in(m, s, r, tokens, at);
  while (list->past < wanted)
    if (!add_state(m, s, group))
      return false;
  if (n > 0 && list->past == 1 && !add_state(m, s, group))
    return true; /* without checkpoints */
  for (uint32_t i = 0; i < n && add_state(m, s, group); i++) {
    uint32_t last = list->past - 1, unit = side_unit(m, s, group, last);
    uint32_t target = side_unit(m, s, group, last - 1);
    lls_pol_rows_put_state(&m->rows, s, group, last - 1, unit, at[i]);
    lls_pol_rows_put_state(&m->rows, s, group, last, target, s->cached);
  }
  return true;
}

void side_states_hold(struct lls_pol_side *m, const struct lls_pol_sequence *s,
                      const struct lls_request *r, uint32_t group, uint32_t blocks)
{
  uint32_t node = lls_pol_tree_find(&m->tree, &r->keys[blocks - 1]);
  uint32_t unit = lls_pol_tree_block(&m->tree, node, group, LLS_TIER_DEVICE);
  lls_pol_tree_hold(&m->tree, LLS_TIER_DEVICE, unit);
  lls_pol_rows_put_state(&m->rows, s, group, 0, unit, blocks * m->block_tokens);
  side_set(m, &side_list(m, s, group)->past, 1);
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
