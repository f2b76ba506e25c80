/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the invariants of tree.h and writes the tree as text, which is equal for equal
 * states. */
#include <llmserve/policy/tree.h>

#include <string.h>

static void clear_marks(struct lls_pol_tree *t)
{
  memset(t->marks, 0, t->n_nodes * sizeof *t->marks);
}

/* Each node is either free or in one chain of the index; marks those in use. */
static bool audit_nodes(struct lls_pol_tree *t, struct lls_pol_report *a)
{
  uint32_t n_free = 0;
  clear_marks(t);
  for (uint32_t n = t->free_node; n != LLS_POL_NIL; n = t->nodes[n].bucket_next) {
    if (!lls_pol_report_check(a, n < t->n_nodes, "free nodes lead outside", n) ||
        !lls_pol_report_check(a, t->marks[n]++ == 0, "twice among the free nodes", n))
      return false;
    n_free++;
  }
  for (uint32_t i = 0; i <= t->bucket_mask; i++)
    for (uint32_t n = t->buckets[i]; n != LLS_POL_NIL; n = t->nodes[n].bucket_next)
      if (!lls_pol_report_check(a, n < t->n_nodes, "the index leads outside", n) ||
          !lls_pol_report_check(a, t->marks[n] == 0, "twice in the index", n) ||
          !lls_pol_report_check(a, ((uint32_t)t->keys[n].word[0] & t->bucket_mask) == i,
                                "in a wrong chain of the index", n))
        return false;
      else
        t->marks[n] = 2;
  lls_pol_report_say(a, "nodes %" PRIu32 ", clock %" PRIu32, t->n_used, t->clock);
  lls_pol_report_end_line(a);
  return lls_pol_report_check(a, n_free == t->n_nodes - t->n_used,
                              "free nodes are counted wrong", n_free);
}

static void audit_place(struct lls_pol_tree *t, struct lls_pol_report *a, uint32_t place)
{
  const struct lls_pol_tree_tier *at = &t->tiers[place % t->n_tiers];
  uint32_t unit = t->places[place].unit, group = place / t->n_tiers % t->n_groups;
  if (!lls_pol_report_check(a, lls_pol_slabs_is_taken(at->slabs, unit),
                            "no such block in the tree", unit))
    return;
  lls_pol_report_say(a, "; group %" PRIu32 " tier %" PRIu32 " unit %" PRIu32, group,
                     at->number, unit);
  lls_pol_report_say(a, " held %" PRIu32, lls_pol_slabs_holders(at->slabs, unit));
  lls_pol_report_check(a, at->place_of[lls_pol_slabs_number(at->slabs, unit)] == place,
                       "a block in the tree names another place", unit);
}

/* Prints a node with its blocks and adds it to its parent's children in marks. */
static void audit_node(struct lls_pol_tree *t, struct lls_pol_report *a, uint32_t n)
{
  const struct lls_pol_node *node = &t->nodes[n];
  uint32_t per_node = t->n_groups * t->n_tiers, count = 0;
  lls_pol_report_say(a, "node %" PRIu32 ": after %" PRId32 ", key %016" PRIx64, n,
                     (int32_t)lls_pol_tree_parent(t, n), t->keys[n].word[0]);
  for (uint32_t place = n * per_node; place < (n + 1) * per_node; place++)
    if (t->places[place].unit != LLS_POL_NIL) {
      audit_place(t, a, place);
      count++;
    }
  lls_pol_report_end_line(a);
  lls_pol_report_check(a, count > 0 && count == node->n_blocks,
                       "a node's blocks are counted wrong", n);
  lls_pol_report_check(a, lls_pol_tree_find(t, &t->keys[n]) == n, "a key has two nodes",
                       n);
}

static void audit_children(struct lls_pol_tree *t, struct lls_pol_report *a)
{
  for (uint32_t n = 0; n < t->n_nodes; n++)
    t->marks[n] = t->marks[n] == 2 ? 1 : 0; /* 1 + the children that are seen */
  for (uint32_t n = 0; n < t->n_nodes && a->result == 0; n++) {
    uint32_t parent = lls_pol_tree_parent(t, n);
    if (t->marks[n] == 0 || parent == LLS_POL_NIL)
      continue;
    if (lls_pol_report_check(a, parent < t->n_nodes && t->marks[parent] > 0,
                             "a node lacks its parent", n))
      t->marks[parent]++;
  }
  for (uint32_t n = 0; n < t->n_nodes; n++)
    lls_pol_report_check(a, t->marks[n] == 0 || t->marks[n] == 1 + t->nodes[n].children,
                         "children are counted wrong", n);
}

/* Checks the order in which blocks on the device lost their last holder: a sequence
 * releases its last block first, so a parent loses its holder after its child. */
static void audit_order(struct lls_pol_tree *t, struct lls_pol_report *a, uint32_t tier,
                        uint32_t place)
{
  uint32_t group = place / t->n_tiers % t->n_groups;
  uint32_t parent = lls_pol_tree_parent(t, place / t->n_tiers / t->n_groups);
  if (tier != LLS_TIER_DEVICE || t->groups[group]->kind != LLS_GROUP_FULL ||
      parent == LLS_POL_NIL)
    return;
  const struct lls_pol_slabs *slabs = t->tiers[tier].slabs;
  const struct lls_pol_tree_place *p =
      &t->places[(parent * t->n_groups + group) * t->n_tiers + tier];
  lls_pol_report_check(a,
                       p->unit == LLS_POL_NIL ||
                           lls_pol_slabs_holders(slabs, p->unit) > 0 ||
                           (int32_t)(p->since - t->places[place].since) > 0,
                       "kept for longer than its child", place);
}

static void audit_kept(struct lls_pol_tree *t, struct lls_pol_report *a, uint32_t tier,
                       uint32_t kind)
{
  const struct lls_pol_tree_tier *at = &t->tiers[tier];
  const struct lls_pol_slabs *s = at->slabs;
  const struct lls_pol_kept *list = &at->kept[kind];
  uint32_t places = t->n_nodes * t->n_groups * t->n_tiers, n = 0, before = LLS_POL_NIL;
  bool has_mark = list->ahead == LLS_POL_NIL;
  lls_pol_report_say(a, "kept, tier %" PRIu32 " class %" PRIu32 ":", tier, kind);
  for (uint32_t p = list->first; p != LLS_POL_NIL && a->result == 0; n++) {
    if (!lls_pol_report_check(a, p < places && n < list->n, "kept leads outside", p) ||
        !lls_pol_report_check(
            a, p % t->n_tiers == tier && lls_pol_slabs_is_taken(s, t->places[p].unit),
            "kept, but not in the tree", p))
      break;
    uint32_t unit = t->places[p].unit;
    if (p == list->ahead)
      lls_pol_report_say(a, " |");
    lls_pol_report_say(a, " %" PRIu32, unit);
    has_mark |= p == list->ahead;
    lls_pol_report_check(a, s->slabs[unit / s->slab_units].kind == kind,
                         "kept in a wrong list", unit);
    lls_pol_report_check(a, lls_pol_slabs_holders(s, unit) == 0, "kept and held", unit);
    lls_pol_report_check(a, t->places[p].previous == before, "broken list of kept blocks",
                         unit);
    audit_order(t, a, tier, p);
    before = p;
    p = t->places[p].next;
  }
  lls_pol_report_end_line(a);
  lls_pol_report_check(a, has_mark, "the mark is on no kept block", list->ahead);
  lls_pol_report_check(a, n == list->n && list->last == before,
                       "kept blocks are counted wrong", n);
  lls_pol_report_check(a, n == s->classes[kind].n_used - s->classes[kind].n_held,
                       "neither held nor kept", n);
}

/* Each place that a block names has that block. */
static void audit_places(struct lls_pol_tree *t, struct lls_pol_report *a, uint32_t tier)
{
  const struct lls_pol_tree_tier *at = &t->tiers[tier];
  uint32_t places = t->n_nodes * t->n_groups * t->n_tiers, n = 0, found = 0;
  for (uint32_t p = tier; p < places; p += t->n_tiers) {
    bool is_there = t->places[p].unit != LLS_POL_NIL;
    n += is_there;
    lls_pol_report_check(a, !is_there || t->marks[p / t->n_tiers / t->n_groups] > 0,
                         "a free node has a block", p);
  }
  for (uint32_t i = 0; i < lls_pol_slabs_blocks(at->slabs); i++)
    found += at->place_of[i] != LLS_POL_NIL;
  lls_pol_report_check(a, n == found, "a block names a place without it", found);
}

bool lls_pol_tree_audit(struct lls_pol_tree *t, struct lls_pol_report *a)
{
  if (!audit_nodes(t, a))
    return false;
  for (uint32_t n = 0; n < t->n_nodes && a->result == 0; n++)
    if (t->marks[n] == 2)
      audit_node(t, a, n);
  if (a->result == 0)
    audit_children(t, a);
  for (uint32_t tier = 0; tier < t->n_tiers && a->result == 0; tier++) {
    audit_places(t, a, tier);
    for (uint32_t kind = 0; kind < t->tiers[tier].slabs->n_classes; kind++)
      audit_kept(t, a, tier, kind);
  }
  return a->result == 0;
}
