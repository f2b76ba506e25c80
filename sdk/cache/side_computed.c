/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a step in side.h: full blocks become known, or small, and blocks that no
 * later step reads are given back. */
#include "side_inside.h"

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

/* Makes the i-th block known, or goes over to the equal one that is. A block becomes
 * small before it is known: what the tree has is never written. False: it waits. */
static bool make_known(struct lls_pol_side *m, struct lls_pol_sequence *s,
                       const struct lls_request *r, uint32_t group, uint32_t i,
                       bool fresh)
{
  if (fresh && side_known(m, r, group, i) == LLS_POL_NIL &&
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
  uint32_t gone = lls_pol_max(list->gone, side_needless(m, group, s->cached));
  list->small -= side_count_small(m, s, group, list->gone, gone);
  side_let_go(m, s, group, list->gone, gone);
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
