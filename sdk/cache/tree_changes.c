/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds what has changed in the tree since it was last shown; see tree.h. The lists of
 * due places are not part of a transaction: a place whose change was rolled back is due
 * and equals what was shown. A list has a place once at most, so it is bounded without
 * loss.
 *
 * Blocks that have left are shown before those that have come: a key's block may have
 * left one place and come to another.
 */
#include <llmserve/policy/tree.h>

static bool is_there(const struct lls_pol_tree *t, uint32_t place)
{
  return !t->is_hidden && t->places[place].unit != LLS_POL_NIL;
}

static bool differs(const struct lls_pol_tree *t, uint32_t place)
{
  const struct lls_pol_tree_shown *shown = &t->shown[place];
  uint32_t node = place / t->n_tiers / t->n_groups;
  return is_there(t, place) != shown->is_shown ||
         (shown->is_shown && !lls_key_equal(&shown->key, &t->keys[node]));
}

static void unlink_due(struct lls_pol_tree *t, uint32_t place)
{
  struct lls_pol_tree_shown *s = &t->shown[place];
  *(s->previous == LLS_POL_NIL ? &t->due_first : &t->shown[s->previous].next) = s->next;
  *(s->next == LLS_POL_NIL ? &t->due_last : &t->shown[s->next].previous) = s->previous;
  s->is_due = false;
}

void lls_pol_tree_note(struct lls_pol_tree *t, uint32_t place)
{
  if (t->shown == NULL)
    return;
  struct lls_pol_tree_shown *s = &t->shown[place];
  if (s->is_due)
    unlink_due(t, place);
  s->is_due = true;
  s->next = LLS_POL_NIL;
  s->previous = t->due_last;
  *(t->due_last == LLS_POL_NIL ? &t->due_first : &t->shown[t->due_last].next) = place;
  t->due_last = place;
  if (!s->is_shown || s->may_leave)
    return;
  s->may_leave = true;
  s->next_leaving = t->leaving;
  t->leaving = place;
}

void lls_pol_tree_note_all(struct lls_pol_tree *t)
{
  uint32_t places = t->n_nodes * t->n_groups * t->n_tiers;
  if (t->shown == NULL)
    return;
  for (uint32_t place = 0; place < places; place++)
    if (differs(t, place))
      lls_pol_tree_note(t, place);
}

void lls_pol_tree_hide(struct lls_pol_tree *t, bool hidden)
{
  bool changes = t->is_hidden != hidden;
  t->is_hidden = hidden;
  if (changes)
    lls_pol_tree_note_all(t);
}

static struct lls_block_change change(const struct lls_pol_tree *t, uint32_t place,
                                      uint32_t kind)
{
  return (struct lls_block_change){.kind = kind,
                                   .group = place / t->n_tiers % t->n_groups,
                                   .tier = place % t->n_tiers,
                                   .key = t->shown[place].key};
}

static size_t show_leaving(struct lls_pol_tree *t, struct lls_block_change *out,
                           size_t max)
{
  size_t n = 0;
  while (t->leaving != LLS_POL_NIL && n < max) {
    uint32_t place = t->leaving;
    struct lls_pol_tree_shown *s = &t->shown[place];
    t->leaving = s->next_leaving;
    s->may_leave = false;
    if (differs(t, place)) {
      out[n++] = change(t, place, LLS_BLOCK_REMOVED);
      s->is_shown = false;
    }
    if (s->is_shown || !is_there(t, place))
      unlink_due(t, place);
  }
  return n;
}

size_t lls_pol_tree_changes(struct lls_pol_tree *t, struct lls_block_change *out,
                            size_t max)
{
  if (t->shown == NULL)
    return 0;
  size_t n = show_leaving(t, out, max);
  while (t->due_first != LLS_POL_NIL && n < max) {
    uint32_t place = t->due_first;
    unlink_due(t, place);
    if (!is_there(t, place))
      continue; /* it has come and left */
    t->shown[place].is_shown = true;
    t->shown[place].key = t->keys[place / t->n_tiers / t->n_groups];
    out[n++] = change(t, place, LLS_BLOCK_STORED);
  }
  return n;
}
