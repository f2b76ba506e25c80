/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of the tree in side.h on their way to the host. A block that waits on the device
 * for its memory to be needed is copied ahead of need, beside the steps: when it leaves
 * the device, a later prompt finds it on the host. The copy needs no holder. It is listed
 * when the transaction ends, and nothing takes the block before the next one begins, when
 * the step and its copies have ended.
 *
 * A step may want the memory of blocks before any step could copy them: those of a
 * request that has just ended. Such a block is copied before the step, which takes a
 * twentieth of the time to compute it again (Llama 3 8B on an A100: 80 us and 1.6 ms).
 * The step is longer for it, so managers bound the units (most_leaving).
 */
#include "side_inside.h"

/* Blocks that a step looks at, copied or not: some 50 us. A long session that ends leaves
 * thousands at once. */
#define MOST_LOOKED_AT 256

/* A step copies blocks as they leave while the journal has room for them: for this number
 * of the largest kind. Most take a fifth of that: some 2,500 leave the device of a model
 * with one group, 200 ms of the link above. */
#define MOST_LEAVING 512

void side_copy_known(struct lls_pol_side *m, uint32_t group, uint32_t from_tier,
                     uint32_t from, uint32_t to, uint32_t order)
{
  uint32_t to_tier = LLS_TIER_HOST - from_tier;
  const struct lls_copy copy = {
      .source_tier = (uint8_t)from_tier,
      .target_tier = (uint8_t)to_tier,
      .order = (uint8_t)order,
      .group = (uint8_t)group,
      .source_form = (uint8_t)side_form(m, from_tier, group, from),
      .target_form = (uint8_t)side_form(m, to_tier, group, to),
      .n_slots = (uint16_t)(side_is_state(m, group) ? 0 : m->block_tokens),
      .source = from,
      .target = to,
  };
  lls_pol_side_copy(m, &copy);
}

/* The host has free memory, or its block that leaves first was used before the other. */
static bool has_room(const struct lls_pol_side *m, uint32_t group, uint32_t since)
{
  uint32_t kind = m->full[LLS_TIER_HOST][group].kind;
  const struct lls_pol_kept *kept = &m->tree.tiers[LLS_TIER_HOST].kept[kind];
  if (lls_pol_slabs_has_free(&m->slabs[LLS_TIER_HOST], kind))
    return true;
  return kept->first != LLS_POL_NIL &&
         (int32_t)(m->tree.places[kept->first].since - since) < 0;
}

/* Copies the block of a place on the device; units of the host that the copy takes. If
 * it takes none, nothing has left the host for it. */
static uint32_t copy_place(struct lls_pol_side *m, uint32_t place, uint32_t order)
{
  struct lls_pol_tree *t = &m->tree;
  uint32_t mark = m->journal.n;
  uint32_t group = place / t->n_tiers % t->n_groups;
  uint32_t node = place / t->n_tiers / t->n_groups, since = t->places[place].since;
  if (lls_pol_tree_block(t, node, group, LLS_TIER_HOST) != LLS_POL_NIL ||
      !has_room(m, group, since))
    return 0;
  uint32_t to =
      lls_pol_slabs_take(&m->slabs[LLS_TIER_HOST], m->full[LLS_TIER_HOST][group].kind);
  /* without a unit the place's block has left with what left the host */
  if (to == LLS_POL_NIL || t->places[place].unit == LLS_POL_NIL || !side_can_note(m, 1)) {
    lls_pol_journal_rollback(&m->journal, mark);
    return 0;
  }
  side_copy_known(m, group, LLS_TIER_DEVICE, t->places[place].unit, to, order);
  lls_pol_tree_add(t, node, group, LLS_TIER_HOST, to);
  lls_pol_tree_let_go(t, LLS_TIER_HOST, to);
  lls_pol_tree_touch(t, LLS_TIER_HOST, to, since);
  side_set(m, &m->n_to_host, m->n_to_host + 1);
  return m->full[LLS_TIER_HOST][group].units;
}

/* ---- blocks that leave before a step has copied them ------------------------------- */

static uint32_t changes_to_copy(const struct lls_pol_side *m)
{
  return 4 * SIDE_CHANGES + 64 * m->n_groups * m->tree.n_tiers;
}

uint32_t side_leaving_changes(const struct lls_pol_side *m)
{
  return m->tree.n_tiers > 1 ? MOST_LEAVING * changes_to_copy(m) : 0;
}

void side_begin_leaving(struct lls_pol_side *m)
{
  uint32_t all = side_leaving_changes(m);
  m->journal.max -= all - m->leaving_changes;
  m->leaving_changes = all;
  m->leaving_units = 0;
}

/* Callers have checked the journal's room for changes of their own, and that one copy can
 * be listed. The copy has room of its own, and the journal grows by what it notes: a slab
 * of the host that gives all of its blocks up notes more than most copies. */
void side_leaves(void *manager, uint32_t place)
{
  struct lls_pol_side *m = manager;
  struct lls_pol_journal *j = &m->journal;
  uint32_t before = j->n, max = j->max;
  if (m->leaving_units >= m->most_leaving || m->leaving_changes < changes_to_copy(m) ||
      !m->shares || !lls_pol_side_can_copy(m, 2))
    return;
  j->max = before + m->leaving_changes;
  uint32_t units = copy_place(m, place, LLS_COPY_BEFORE_STEP);
  if (units > 0)
    side_set(m, &m->leaving_units, m->leaving_units + units);
  LLS_POL_CHECK(j->n - before <= m->leaving_changes);
  j->max = max + (j->n - before);
  m->leaving_changes -= j->n - before;
}

/* ---- blocks that wait -------------------------------------------------------------- */

/* The list whose next block was released first; NULL if none has one. */
static struct lls_pol_kept *oldest(struct lls_pol_side *m)
{
  struct lls_pol_tree_tier *at = &m->tree.tiers[LLS_TIER_DEVICE];
  const struct lls_pol_tree_place *places = m->tree.places;
  struct lls_pol_kept *best = NULL;
  for (uint32_t kind = 0; kind < at->slabs->n_classes; kind++) {
    struct lls_pol_kept *list = &at->kept[kind];
    if (list->ahead != LLS_POL_NIL &&
        (best == NULL ||
         (int32_t)(places[list->ahead].since - places[best->ahead].since) < 0))
      best = list;
  }
  return best;
}

bool lls_pol_side_wants_host(const struct lls_pol_side *m)
{
  const struct lls_pol_tree_tier *at = &m->tree.tiers[LLS_TIER_DEVICE];
  bool wants = false;
  for (uint32_t kind = 0; kind < at->slabs->n_classes; kind++)
    wants |= at->kept[kind].ahead != LLS_POL_NIL;
  return wants && m->tree.n_tiers > 1 && m->shares;
}

void lls_pol_side_to_host(struct lls_pol_side *m, uint64_t units)
{
  struct lls_pol_kept *list;
  if (m->tree.n_tiers < 2 || !m->shares)
    return;
  lls_pol_slabs_verb(&m->slabs[LLS_TIER_HOST]);
  for (uint32_t i = 0; i < MOST_LOOKED_AT && units > 0 && (list = oldest(m)) != NULL &&
                       side_can_note(m, 4) && lls_pol_side_can_copy(m, 1);
       i++) {
    uint32_t place = list->ahead, copied = copy_place(m, place, LLS_COPY_ASYNC);
    if (list->ahead == place)
      side_set(m, &list->ahead, m->tree.places[place].next);
    units -= copied < units ? copied : units;
  }
}
