/* SPDX-License-Identifier: Apache-2.0 */
/* The tree's nodes and the blocks of its places: which exist, which have holders, and
 * which leave first; see tree.h. */
#include <llmserve/policy/tree.h>

#include <llmserve/policy/number.h>

#include "table.h"

#include <stdlib.h>
#include <string.h>

/* Most changes in the journal when a node and all of its blocks leave: per block. */
#define LEAVE_CHANGES 64

/* Blocks that are tried before one leaves that others follow. */
#define MOST_TRIED 32

static void set(struct lls_pol_tree *t, uint32_t *where, uint32_t value)
{
  lls_pol_journal_set(t->journal, where, value);
}

/* ---- places -------------------------------------------------------------------- */

static uint32_t place_at(const struct lls_pol_tree *t, uint32_t node, uint32_t group,
                         uint32_t tier)
{
  return (node * t->n_groups + group) * t->n_tiers + tier;
}

static uint32_t node_of(const struct lls_pol_tree *t, uint32_t place)
{
  return place / t->n_tiers / t->n_groups;
}

static uint32_t group_of(const struct lls_pol_tree *t, uint32_t place)
{
  return place / t->n_tiers % t->n_groups;
}

/* Returns where a taken block's place is stored. */
static uint32_t *place_of(const struct lls_pol_tree *t, uint32_t tier, uint32_t unit)
{
  const struct lls_pol_tree_tier *at = &t->tiers[tier];
  return &at->place_of[lls_pol_slabs_number(at->slabs, unit)];
}

static struct lls_pol_kept *kept_of(struct lls_pol_tree *t, uint32_t tier, uint32_t unit)
{
  struct lls_pol_tree_tier *at = &t->tiers[tier];
  return &at->kept[at->slabs->slabs[unit / at->slabs->slab_units].kind];
}

uint32_t lls_pol_tree_block(const struct lls_pol_tree *t, uint32_t node, uint32_t group,
                            uint32_t tier)
{
  return t->places[place_at(t, node, group, tier)].unit;
}

static bool reads_all(const struct lls_pol_tree *t, uint32_t group)
{
  return t->groups[group]->kind == LLS_GROUP_FULL;
}

/* Returns true if the node has a block of the group in one of these tiers. */
static bool has_block(const struct lls_pol_tree *t, uint32_t node, uint32_t group,
                      uint32_t tiers)
{
  for (uint32_t tier = 0; tier < t->n_tiers; tier++)
    if (tiers >> tier & 1 && lls_pol_tree_block(t, node, group, tier) != LLS_POL_NIL)
      return true;
  return false;
}

/* ---- nodes --------------------------------------------------------------------- */

/* A key is as good as random: it needs no hash function. */
static uint32_t *bucket_of(const struct lls_pol_tree *t, const struct lls_key *key)
{
  return &t->buckets[(uint32_t)key->word[0] & t->bucket_mask];
}

uint32_t lls_pol_tree_find(const struct lls_pol_tree *t, const struct lls_key *key)
{
  uint32_t node = *bucket_of(t, key);
  while (node != LLS_POL_NIL && !lls_key_equal(&t->keys[node], key))
    node = t->nodes[node].bucket_next;
  return node;
}

static void link_node(struct lls_pol_tree *t, uint32_t node, uint32_t parent)
{
  t->nodes[node].parent = parent;
  if (parent == LLS_POL_NIL)
    return;
  t->nodes[node].parent_made = t->nodes[parent].made;
  t->nodes[parent].children++;
}

static uint32_t make_node(struct lls_pol_tree *t, uint32_t parent,
                          const struct lls_key *key)
{
  uint32_t node = t->free_node, *bucket = bucket_of(t, key);
  LLS_POL_CHECK(node != LLS_POL_NIL && !t->journal->open);
  t->free_node = t->nodes[node].bucket_next;
  t->n_used++;
  t->nodes[node] = (struct lls_pol_node){.made = t->n_made++, .bucket_next = *bucket};
  t->keys[node] = *key;
  *bucket = node;
  link_node(t, node, parent);
  return node;
}

/* The key stays in keys: a rollback needs it. */
static void free_node(struct lls_pol_tree *t, uint32_t node)
{
  struct lls_pol_node *n = &t->nodes[node];
  uint32_t parent = lls_pol_tree_parent(t, node);
  uint32_t *link = bucket_of(t, &t->keys[node]);
  while (*link != node)
    link = &t->nodes[*link].bucket_next;
  set(t, link, n->bucket_next);
  if (parent != LLS_POL_NIL)
    set(t, &t->nodes[parent].children, t->nodes[parent].children - 1);
  set(t, &n->bucket_next, t->free_node);
  set(t, &t->free_node, node);
  set(t, &t->n_used, t->n_used - 1);
}

/* ---- lists of kept blocks ------------------------------------------------------ */

static void keep(struct lls_pol_tree *t, uint32_t tier, uint32_t place)
{
  struct lls_pol_tree_place *p = &t->places[place];
  struct lls_pol_kept *list = kept_of(t, tier, p->unit);
  set(t, &p->previous, list->last);
  set(t, &p->next, LLS_POL_NIL);
  set(t, &p->since, t->clock);
  set(t, &t->clock, t->clock + 1);
  set(t, list->last == LLS_POL_NIL ? &list->first : &t->places[list->last].next, place);
  set(t, &list->last, place);
  if (list->ahead == LLS_POL_NIL)
    set(t, &list->ahead, place);
  set(t, &list->n, list->n + 1);
}

static void unkeep(struct lls_pol_tree *t, uint32_t tier, uint32_t place)
{
  struct lls_pol_tree_place *p = &t->places[place];
  struct lls_pol_kept *list = kept_of(t, tier, p->unit);
  LLS_POL_CHECK(list->n > 0);
  if (list->ahead == place)
    set(t, &list->ahead, p->next);
  set(t, p->previous == LLS_POL_NIL ? &list->first : &t->places[p->previous].next,
      p->next);
  set(t, p->next == LLS_POL_NIL ? &list->last : &t->places[p->next].previous,
      p->previous);
  set(t, &list->n, list->n - 1);
}

/* ---- leaving ------------------------------------------------------------------- */

/* Removes the block from the tree, and frees it if it has no holders. */
static void leave_place(struct lls_pol_tree *t, uint32_t tier, uint32_t place)
{
  struct lls_pol_tree_place *p = &t->places[place];
  struct lls_pol_slabs *slabs = t->tiers[tier].slabs;
  struct lls_pol_node *node = &t->nodes[node_of(t, place)];
  uint32_t unit = p->unit;
  bool is_kept = lls_pol_slabs_holders(slabs, unit) == 0;
  if (is_kept)
    unkeep(t, tier, place);
  set(t, place_of(t, tier, unit), LLS_POL_NIL);
  set(t, &p->unit, LLS_POL_NIL);
  set(t, &node->n_blocks, node->n_blocks - 1);
  lls_pol_tree_note(t, place);
  if (is_kept)
    lls_pol_slabs_free(slabs, unit);
}

/* Returns true if the node's blocks of other groups can be used. */
static bool is_whole(const struct lls_pol_tree *t, uint32_t node)
{
  for (uint32_t group = 0; group < t->n_groups; group++)
    if (reads_all(t, group) && !has_block(t, node, group, UINT32_MAX))
      return false;
  return true;
}

/* Returns true if a kept block may leave now: no later block needs it. */
static bool may_leave(const struct lls_pol_tree *t, uint32_t tier, uint32_t place)
{
  uint32_t node = node_of(t, place), group = group_of(t, place);
  return !reads_all(t, group) || t->nodes[node].children == 0 ||
         has_block(t, node, group, ~(UINT32_C(1) << tier));
}

static void leave(struct lls_pol_tree *t, uint32_t tier, uint32_t place)
{
  uint32_t node = node_of(t, place);
  leave_place(t, tier, place);
  if (!is_whole(t, node))
    for (uint32_t group = 0; group < t->n_groups; group++)
      for (uint32_t at = 0; at < t->n_tiers; at++)
        if (lls_pol_tree_block(t, node, group, at) != LLS_POL_NIL)
          leave_place(t, at, place_at(t, node, group, at));
  if (t->nodes[node].n_blocks == 0)
    free_node(t, node);
}

/* ---- callbacks of the slabs ---------------------------------------------------- */

static uint32_t victim(void *context, uint32_t kind, uint32_t *since)
{
  const struct lls_pol_tree_tier *at = context;
  const struct lls_pol_tree *t = at->tree;
  uint32_t first = at->kept[kind].first, place = first;
  for (uint32_t i = 0; i < MOST_TRIED && place != LLS_POL_NIL; i++)
    if (may_leave(t, at->number, place))
      break;
    else
      place = t->places[place].next;
  if (place == LLS_POL_NIL || !may_leave(t, at->number, place))
    place = first;
  if (place == LLS_POL_NIL)
    return place;
  *since = t->places[place].since;
  return t->places[place].unit;
}

/* Blocks that others follow leave too: as the victim, or with their slab. */
static bool drop(void *context, uint32_t unit)
{
  struct lls_pol_tree_tier *at = context;
  struct lls_pol_tree *t = at->tree;
  uint32_t place = *place_of(t, at->number, unit);
  uint64_t changes = (uint64_t)LEAVE_CHANGES * t->n_groups * t->n_tiers;
  if (!lls_pol_journal_has_room(t->journal, changes))
    return false;
  set(t, &t->n_dropped, t->n_dropped + 1);
  if (t->leaves != NULL && at->number == LLS_TIER_DEVICE && t->journal->open)
    t->leaves(t->manager, place);
  if (t->places[place].unit != LLS_POL_NIL) /* else with a block that left for its copy */
    leave(t, at->number, place);
  return true;
}

void lls_pol_tree_moved(struct lls_pol_tree *t, uint32_t tier, uint32_t from, uint32_t to)
{
  uint32_t *old = place_of(t, tier, from), place = *old;
  if (place == LLS_POL_NIL)
    return;
  set(t, old, LLS_POL_NIL);
  set(t, place_of(t, tier, to), place);
  set(t, &t->places[place].unit, to);
}

/* ---- creation and end ---------------------------------------------------------- */

static bool allocate_tier(struct lls_pol_tree *t, uint32_t tier)
{
  struct lls_pol_tree_tier *at = &t->tiers[tier];
  uint32_t blocks = lls_pol_slabs_blocks(at->slabs);
  at->tree = t;
  at->number = tier;
  at->slabs->owner.context = at;
  at->slabs->owner.victim = victim;
  at->slabs->owner.drop = drop;
  at->place_of = table_calloc((size_t)blocks + 1, sizeof *at->place_of);
  t->n_nodes += blocks;
  return at->place_of != NULL;
}

int lls_pol_tree_init(struct lls_pol_tree *t)
{
  bool done = true;
  t->n_nodes = 0;
  for (uint32_t tier = 0; tier < t->n_tiers; tier++)
    done &= allocate_tier(t, tier);
  t->bucket_mask = 1;
  while (t->bucket_mask < t->n_nodes)
    t->bucket_mask = 2 * t->bucket_mask + 1;
  size_t places = (size_t)t->n_nodes * t->n_groups * t->n_tiers;
  t->nodes = table_calloc(t->n_nodes, sizeof *t->nodes);
  t->keys = table_calloc(t->n_nodes, sizeof *t->keys);
  t->places = table_calloc(places, sizeof *t->places);
  t->buckets = table_calloc((size_t)t->bucket_mask + 1, sizeof *t->buckets);
  t->marks = calloc(t->n_nodes, sizeof *t->marks);
  t->due_first = t->due_last = t->leaving = LLS_POL_NIL;
  t->shown = t->shows_changes ? calloc(places, sizeof *t->shown) : NULL;
  done &= t->shown != NULL || !t->shows_changes;
  return done && t->nodes && t->keys && t->places && t->buckets && t->marks ? 0 : -ENOMEM;
}

void lls_pol_tree_destroy(struct lls_pol_tree *t)
{
  for (uint32_t tier = 0; tier < t->n_tiers; tier++)
    free(t->tiers[tier].place_of);
  free(t->nodes);
  free(t->keys);
  free(t->places);
  free(t->buckets);
  free(t->marks);
  free(t->shown);
}

void lls_pol_tree_make_empty(struct lls_pol_tree *t)
{
  size_t places = (size_t)t->n_nodes * t->n_groups * t->n_tiers;
  for (uint32_t i = 0; i < t->n_nodes; i++)
    t->nodes[i] = (struct lls_pol_node){
        .parent = LLS_POL_NIL, .bucket_next = i + 1 < t->n_nodes ? i + 1 : LLS_POL_NIL};
  memset(t->places, 0xff, places * sizeof *t->places);
  memset(t->buckets, 0xff, ((size_t)t->bucket_mask + 1) * sizeof *t->buckets);
  for (uint32_t tier = 0; tier < t->n_tiers; tier++) {
    struct lls_pol_tree_tier *at = &t->tiers[tier];
    memset(at->place_of, 0xff, lls_pol_slabs_blocks(at->slabs) * sizeof *at->place_of);
    for (uint32_t kind = 0; kind < LLS_POL_MAX_CLASSES; kind++)
      at->kept[kind] = (struct lls_pol_kept){
          .first = LLS_POL_NIL, .last = LLS_POL_NIL, .ahead = LLS_POL_NIL};
  }
  t->free_node = t->n_nodes > 0 ? 0 : LLS_POL_NIL;
  t->n_used = t->n_made = t->clock = t->n_dropped = 0;
  lls_pol_tree_note_all(t);
}

void lls_pol_tree_pass(struct lls_pol_tree *t, struct lls_pol_state_walk *w)
{
  size_t places = (size_t)t->n_nodes * t->n_groups * t->n_tiers;
  lls_pol_state_pass(w, &t->free_node, sizeof t->free_node);
  lls_pol_state_pass(w, &t->n_used, sizeof t->n_used);
  lls_pol_state_pass(w, &t->n_made, sizeof t->n_made);
  lls_pol_state_pass(w, &t->clock, sizeof t->clock);
  lls_pol_state_pass(w, t->nodes, t->n_nodes * sizeof *t->nodes);
  lls_pol_state_pass(w, t->keys, t->n_nodes * sizeof *t->keys);
  lls_pol_state_pass(w, t->places, places * sizeof *t->places);
  lls_pol_state_pass(w, t->buckets, ((size_t)t->bucket_mask + 1) * sizeof *t->buckets);
  for (uint32_t tier = 0; tier < t->n_tiers; tier++) {
    struct lls_pol_tree_tier *at = &t->tiers[tier];
    lls_pol_state_pass(w, at->place_of,
                       lls_pol_slabs_blocks(at->slabs) * sizeof *at->place_of);
    lls_pol_state_pass(w, at->kept, sizeof at->kept);
  }
  lls_pol_tree_note_all(t);
}

/* ---- holders ------------------------------------------------------------------- */

void lls_pol_tree_hold(struct lls_pol_tree *t, uint32_t tier, uint32_t unit)
{
  struct lls_pol_slabs *slabs = t->tiers[tier].slabs;
  if (lls_pol_slabs_holders(slabs, unit) == 0)
    unkeep(t, tier, *place_of(t, tier, unit));
  lls_pol_slabs_hold(slabs, unit);
}

void lls_pol_tree_let_go(struct lls_pol_tree *t, uint32_t tier, uint32_t unit)
{
  struct lls_pol_slabs *slabs = t->tiers[tier].slabs;
  uint32_t place = *place_of(t, tier, unit);
  if (!lls_pol_slabs_let_go(slabs, unit))
    return;
  if (place == LLS_POL_NIL)
    lls_pol_slabs_free(slabs, unit);
  else
    keep(t, tier, place);
}

bool lls_pol_tree_has(const struct lls_pol_tree *t, uint32_t tier, uint32_t unit)
{
  return *place_of(t, tier, unit) != LLS_POL_NIL;
}

void lls_pol_tree_forget(struct lls_pol_tree *t, uint32_t tier, uint32_t unit)
{
  uint32_t place = *place_of(t, tier, unit);
  if (place != LLS_POL_NIL && lls_pol_slabs_holders(t->tiers[tier].slabs, unit) == 0 &&
      may_leave(t, tier, place))
    leave(t, tier, place);
}

void lls_pol_tree_remove(struct lls_pol_tree *t, uint32_t tier, uint32_t unit)
{
  uint32_t place = *place_of(t, tier, unit);
  LLS_POL_CHECK(place != LLS_POL_NIL && !reads_all(t, group_of(t, place)));
  set(t, &t->n_dropped, t->n_dropped + 1);
  leave(t, tier, place);
}

/* Returns true if a group reads all tokens: a node is then useless without its parent. */
static bool has_family(const struct lls_pol_tree *t)
{
  for (uint32_t group = 0; group < t->n_groups; group++)
    if (reads_all(t, group))
      return true;
  return false;
}

/* Returns the node of the i-th of these keys, which is made if necessary and if it
 * could be found later; or LLS_POL_NIL. */
static uint32_t node_for(struct lls_pol_tree *t, const struct lls_key *keys, uint32_t i,
                         uint32_t group)
{
  uint32_t node = lls_pol_tree_find(t, &keys[i]), parent = LLS_POL_NIL;
  if (node != LLS_POL_NIL) { /* whose parent may have left and come again */
    if (has_family(t) && i > 0 && lls_pol_tree_parent(t, node) == LLS_POL_NIL)
      link_node(t, node, lls_pol_tree_find(t, &keys[i - 1]));
    return node;
  }
  if (has_family(t)) {
    if (!reads_all(t, group))
      return LLS_POL_NIL;
    if (i > 0) {
      parent = lls_pol_tree_find(t, &keys[i - 1]);
      if (parent == LLS_POL_NIL || !is_whole(t, parent))
        return LLS_POL_NIL;
    }
  }
  return make_node(t, parent, &keys[i]);
}

void lls_pol_tree_add(struct lls_pol_tree *t, uint32_t node, uint32_t group,
                      uint32_t tier, uint32_t unit)
{
  uint32_t place = place_at(t, node, group, tier);
  LLS_POL_CHECK(t->places[place].unit == LLS_POL_NIL && t->nodes[node].n_blocks > 0);
  set(t, &t->places[place].unit, unit);
  set(t, &t->nodes[node].n_blocks, t->nodes[node].n_blocks + 1);
  set(t, place_of(t, tier, unit), place);
  lls_pol_tree_note(t, place);
}

void lls_pol_tree_touch(struct lls_pol_tree *t, uint32_t tier, uint32_t unit,
                        uint32_t since)
{
  uint32_t place = *place_of(t, tier, unit);
  LLS_POL_CHECK(place != LLS_POL_NIL);
  if (lls_pol_slabs_holders(t->tiers[tier].slabs, unit) > 0)
    return;
  if (kept_of(t, tier, unit)->last == place) { /* as after let_go: it stays there */
    set(t, &t->clock, t->clock + 1);
  } else {
    unkeep(t, tier, place);
    keep(t, tier, place);
  }
  set(t, &t->places[place].since, since);
}

void lls_pol_tree_offer(struct lls_pol_tree *t, uint32_t tier, uint32_t unit)
{
  uint32_t place = *place_of(t, tier, unit);
  struct lls_pol_kept *list = kept_of(t, tier, unit);
  LLS_POL_CHECK(place != LLS_POL_NIL);
  if (list->first == place || lls_pol_slabs_holders(t->tiers[tier].slabs, unit) > 0)
    return;
  unkeep(t, tier, place);
  set(t, &t->places[place].previous, LLS_POL_NIL);
  set(t, &t->places[place].next, list->first);
  set(t, &t->places[place].since, t->places[list->first].since);
  set(t, &t->places[list->first].previous, place);
  set(t, &list->first, place);
  set(t, &list->n, list->n + 1);
}

uint32_t lls_pol_tree_put(struct lls_pol_tree *t, const struct lls_key *keys, uint32_t i,
                          uint32_t group, uint32_t tier, uint32_t unit)
{
  uint32_t node = node_for(t, keys, i, group);
  LLS_POL_CHECK(!lls_pol_tree_has(t, tier, unit));
  if (node == LLS_POL_NIL)
    return unit;
  uint32_t place = place_at(t, node, group, tier);
  if (t->places[place].unit != LLS_POL_NIL)
    return t->places[place].unit;
  t->places[place].unit = unit;
  t->nodes[node].n_blocks++;
  *place_of(t, tier, unit) = place;
  lls_pol_tree_note(t, place);
  return unit;
}

/* ---- prefixes ------------------------------------------------------------------ */

uint32_t lls_pol_tree_begin(const struct lls_pol_tree *t, uint32_t group, uint32_t n)
{
  if (t->groups[group]->kind == LLS_GROUP_STATE)
    return n > 0 ? n - 1 : 0;
  return lls_group_begin(t->groups[group], n * t->block_tokens) / t->block_tokens;
}

/* Counts, for each group, the consecutive blocks that end with this node's. */
static void go_on(const struct lls_pol_tree *t, uint32_t node, uint32_t tiers,
                  uint32_t *runs)
{
  for (uint32_t group = 0; group < t->n_groups; group++)
    if (node != LLS_POL_NIL && has_block(t, node, group, tiers))
      runs[group]++;
    else
      runs[group] = 0;
}

void lls_pol_tree_match(const struct lls_pol_tree *t, const struct lls_key *keys,
                        uint32_t n, uint32_t tiers, struct lls_pol_match *out)
{
  uint32_t runs[LLS_POL_MAX_GROUPS] = {0};
  *out = (struct lls_pol_match){0, 0};
  for (uint32_t i = 1; i <= n; i++) {
    bool is_known = true, is_hit = true;
    go_on(t, lls_pol_tree_find(t, &keys[i - 1]), tiers, runs);
    for (uint32_t group = 0; group < t->n_groups; group++) {
      bool has_all = runs[group] >= i - lls_pol_tree_begin(t, group, i);
      is_hit &= has_all;
      is_known &= has_all || !reads_all(t, group);
    }
    if (!is_known)
      return;
    if (is_hit)
      out->n = i;
    out->known = has_family(t) ? i : out->n;
  }
}
