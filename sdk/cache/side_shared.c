/* SPDX-License-Identifier: Apache-2.0 */
/* Prefixes of side.h: what a waiting request takes from the tree, what an ended one
 * leaves there, and what outlives the process. */
#include "side_inside.h"

/* Changes in the journal for a block that is held. */
#define CHANGES_PER_HOLD 16

/* ---- blocks on the host ------------------------------------------------------------ */

/* The blocks that a prefix of n blocks gives their first holder, by class: those that
 * lack on the device, and those that are kept there. Returns the tokens that any of the
 * former is of. */
static uint32_t count_lacking(const struct lls_pol_side *m, const struct lls_request *r,
                              uint32_t n, uint32_t *blocks, uint32_t *all)
{
  const struct lls_pol_slabs *slabs = &m->slabs[LLS_TIER_DEVICE];
  uint32_t tokens = 0;
  for (uint32_t i = 0; i < n; i++) {
    bool lacks = false;
    for (uint32_t group = 0; group < m->n_groups; group++) {
      uint32_t kind = m->full[LLS_TIER_DEVICE][group].kind;
      if (i < lls_pol_tree_begin(&m->tree, group, n))
        continue;
      uint32_t unit = side_known(m, r, group, i);
      all[kind]++;
      if (unit == LLS_POL_NIL)
        blocks[kind]++;
      else if (lls_pol_slabs_holders(slabs, unit) == 0)
        blocks[slabs->slabs[unit / slabs->slab_units].kind]++;
      lacks |= unit == LLS_POL_NIL;
    }
    tokens += lacks ? m->block_tokens : 0;
  }
  return tokens;
}

static bool bring_block(struct lls_pol_side *m, const struct lls_pol_sequence *s,
                        const struct lls_request *r, uint32_t group, uint32_t i)
{
  uint32_t node = lls_pol_tree_find(&m->tree, &r->keys[i]);
  uint32_t from = lls_pol_tree_block(&m->tree, node, group, LLS_TIER_HOST);
  if (!side_can_note(m, 2) || !lls_pol_side_can_copy(m, 1))
    return false;
  uint32_t to = lls_pol_slabs_take(&m->slabs[LLS_TIER_DEVICE],
                                   m->full[LLS_TIER_DEVICE][group].kind);
  if (to == LLS_POL_NIL)
    return false;
  side_copy_known(m, group, LLS_TIER_HOST, from, to, LLS_COPY_BEFORE_STEP);
  lls_pol_tree_add(&m->tree, node, group, LLS_TIER_DEVICE, to);
  if (side_is_state(m, group))
    lls_pol_rows_put_state(&m->rows, s, group, 0, to, (i + 1) * m->block_tokens);
  else
    side_put(m, s, LLS_TIER_DEVICE, group, i, to, 0);
  side_set(m, &m->n_from_host, m->n_from_host + 1);
  return true;
}

/* The block of the tree that is on the host alone, of those that a request reads which
 * begins after n blocks; or LLS_POL_NIL. */
static uint32_t on_host_alone(const struct lls_pol_side *m, const struct lls_request *r,
                              uint32_t group, uint32_t i, uint32_t n)
{
  const struct lls_pol_tree *t = &m->tree;
  uint32_t node = lls_pol_tree_find(t, &r->keys[i]);
  if (i < lls_pol_tree_begin(t, group, n) ||
      lls_pol_tree_block(t, node, group, LLS_TIER_DEVICE) != LLS_POL_NIL)
    return LLS_POL_NIL;
  return lls_pol_tree_block(t, node, group, LLS_TIER_HOST);
}

/* Brings the blocks of a prefix of n blocks that are on the host alone: the last one
 * first, as a sequence would have released them. All are held at first, or they would
 * leave the host for blocks that leave the device for them. In the end they are the
 * first to leave: the device has them, and they are copied again when it loses them. */
static bool bring_blocks(struct lls_pol_side *m, const struct lls_pol_sequence *s,
                         const struct lls_request *r, uint32_t n)
{
  lls_pol_slabs_verb(&m->slabs[LLS_TIER_DEVICE]);
  for (uint32_t pass = 0; pass < 2; pass++)
    for (uint32_t i = n; i-- > 0;)
      for (uint32_t group = 0; group < m->n_groups; group++) {
        uint32_t from = on_host_alone(m, r, group, i, n);
        if (from != LLS_POL_NIL && pass == 0)
          lls_pol_tree_hold(&m->tree, LLS_TIER_HOST, from);
        if (from == LLS_POL_NIL || pass == 0)
          continue;
        if (!bring_block(m, s, r, group, i))
          return false;
        lls_pol_tree_let_go(&m->tree, LLS_TIER_HOST, from);
        lls_pol_tree_offer(&m->tree, LLS_TIER_HOST, from);
      }
  return true;
}

/* ---- a waiting request ------------------------------------------------------------- */

/* Holds the blocks of a group that are read from block n on, but for those on the host.
 */
static void hold_blocks(struct lls_pol_side *m, struct lls_pol_sequence *s,
                        const struct lls_request *r, uint32_t group, uint32_t n)
{
  struct lls_pol_list *list = lls_pol_rows_list(&m->rows, s, group);
  uint32_t gone = lls_pol_tree_begin(&m->tree, group, n);
  for (uint32_t i = gone; i < n; i++) {
    uint32_t unit = side_known(m, r, group, i);
    if (unit == LLS_POL_NIL)
      continue;
    lls_pol_tree_hold(&m->tree, LLS_TIER_DEVICE, unit);
    side_put(m, s, LLS_TIER_DEVICE, group, i, unit, 0);
  }
  lls_pol_journal_set(&m->journal, &list->gone, gone);
  lls_pol_journal_set(&m->journal, &list->past, n);
  lls_pol_journal_set(&m->journal, &list->known, n);
}

/* Gives the sequence n blocks of the tree; false: it needs a rollback. */
static bool take_prefix(struct lls_pol_side *m, struct lls_pol_sequence *s,
                        const struct lls_request *r, uint32_t n)
{
  lls_pol_rows_begin(&m->rows, s);
  for (uint32_t group = 0; group < m->n_groups; group++)
    if (side_is_state(m, group))
      side_states_hold(m, s, r, group, n);
    else
      hold_blocks(m, s, r, group, n);
  lls_pol_journal_set(&m->journal, &s->cached, n * m->block_tokens);
  return bring_blocks(m, s, r, n);
}

/* Says how many blocks of the tree the request may take: those on the device alone where
 * the device could never have all. */
static struct lls_pol_match match(const struct lls_pol_side *m,
                                  const struct lls_request *r, uint32_t *on_host,
                                  uint32_t *lacking)
{
  uint32_t all[LLS_POL_MAX_CLASSES] = {0};
  uint32_t most = lls_pol_min(lls_pol_min(r->n_keys, m->rows.row_blocks),
                              (lls_request_length(r) - 1) / m->block_tokens);
  struct lls_pol_match found;
  lls_pol_tree_match(&m->tree, r->keys, most, side_tiers(m), &found);
  *on_host = m->tree.n_tiers > 1 ? count_lacking(m, r, found.n, lacking, all) : 0;
  if (*on_host > 0 && !lls_pol_slabs_fits_alone(&m->slabs[LLS_TIER_DEVICE], all)) {
    *on_host = 0;
    lls_pol_tree_match(&m->tree, r->keys, most, 1u << LLS_TIER_DEVICE, &found);
  }
  return found;
}

/* Whole blocks, and at least one token is left to compute, or there would be no logits.
 * If blocks on the host get no room now, nothing is taken and the reserve that follows
 * says LATER. */
uint32_t lls_pol_side_prefix(struct lls_pol_side *m, struct lls_pol_sequence *s,
                             const struct lls_request *r, bool take, uint32_t *on_host)
{
  uint32_t lacking[LLS_POL_MAX_CLASSES] = {0}, mark = m->journal.n;
  *on_host = 0;
  if (s->where != LLS_POL_NOWHERE)
    return s->cached;
  if (!m->shares || m->rows.n_free == 0 || lls_request_length(r) == 0)
    return 0;
  const struct lls_pol_match found = match(m, r, on_host, lacking);
  uint64_t changes = CHANGES_PER_HOLD * ((uint64_t)found.n + 1) * m->n_groups;
  if (take && lls_pol_journal_has_room(&m->journal, 1))
    side_set(m, &s->branch, found.known > found.n ? found.known * m->block_tokens : 0);
  if (found.n == 0 || !lls_pol_journal_has_room(&m->journal, changes))
    return 0;
  if (!take)
    return found.n * m->block_tokens;
  if ((*on_host == 0 || side_fits(m, s, lacking)) && take_prefix(m, s, r, found.n))
    return s->cached;
  lls_pol_journal_rollback(&m->journal, mark);
  side_set(m, &m->lacking, (uint32_t)(s - m->rows.sequences) + 1);
  *on_host = 0;
  return 0;
}

static void use_block(struct lls_pol_side *m, uint32_t node, uint32_t group)
{
  for (uint32_t tier = 0; tier < m->tree.n_tiers; tier++) {
    uint32_t unit = lls_pol_tree_block(&m->tree, node, group, tier);
    if (unit != LLS_POL_NIL)
      lls_pol_tree_touch(&m->tree, tier, unit, m->tree.clock);
  }
}

void side_use(struct lls_pol_side *m, const struct lls_request *r)
{
  struct lls_pol_match found;
  uint32_t most = lls_pol_min(r->n_keys, m->rows.row_blocks);
  lls_pol_tree_match(&m->tree, r->keys, most, side_tiers(m), &found);
  for (uint32_t i = found.n; i-- > 0;)
    for (uint32_t group = m->n_groups; group-- > 0;)
      if (i >= lls_pol_tree_begin(&m->tree, group, found.n))
        use_block(m, lls_pol_tree_find(&m->tree, &r->keys[i]), group);
}

static void forget_block(struct lls_pol_side *m, const struct lls_key *key,
                         uint32_t group)
{
  for (uint32_t tier = m->tree.n_tiers; tier-- > 0;) {
    uint32_t node = lls_pol_tree_find(&m->tree, key);
    uint32_t unit = node != LLS_POL_NIL ? lls_pol_tree_block(&m->tree, node, group, tier)
                                        : LLS_POL_NIL;
    if (unit != LLS_POL_NIL)
      lls_pol_tree_forget(&m->tree, tier, unit);
  }
}

void lls_pol_side_forget(struct lls_pol_side *m, const struct lls_request *r)
{
  for (uint32_t i = r->n_keys; i-- > 0;)
    for (uint32_t group = m->n_groups; group-- > 0;)
      forget_block(m, &r->keys[i], group);
}

/* ---- prefixes that outlive the process --------------------------------------------- */

static uint32_t node_of(const struct lls_pol_side *m, uint32_t place)
{
  return place / m->tree.n_tiers / m->n_groups;
}

struct listing {
  struct lls_kept_block *out; /* (max) */
  size_t n, max;
  uint32_t *index; /* (n_nodes) of the node's first block in out, or one of these two */
};

#define OF_NO_USE LLS_NO_BLOCK
#define UNLISTED  (LLS_NO_BLOCK - 1)

static bool has_listed(const struct listing *l, uint32_t node)
{
  return l->index[node] < UNLISTED;
}

static uint32_t written_form(const struct lls_pol_side *m, uint32_t group)
{
  return m->host->engine->groups[group]->forms[0].form;
}

static bool is_listed(const struct lls_pol_side *m, uint32_t group, uint32_t unit)
{
  return unit != LLS_POL_NIL && !side_is_small(m, LLS_TIER_DEVICE, group, unit) &&
         lls_pol_slabs_holders(&m->slabs[LLS_TIER_DEVICE], unit) == 0;
}

/* Lists a node's kept blocks of all groups together: a prefix is found where all groups
 * have it. Nothing is listed of a node whose parent is not, nor without the block of the
 * group that reads all. */
static void list_node(const struct lls_pol_side *m, uint32_t node, struct listing *l)
{
  const struct lls_pol_tree *t = &m->tree;
  uint32_t parent = lls_pol_tree_parent(t, node);
  if (l->index[node] != UNLISTED || (parent != LLS_POL_NIL && !has_listed(l, parent)))
    return;
  uint32_t before = parent == LLS_POL_NIL ? LLS_NO_BLOCK : l->index[parent];
  for (uint32_t group = 0; group < m->n_groups && l->n < l->max; group++) {
    uint32_t unit = lls_pol_tree_block(t, node, group, LLS_TIER_DEVICE);
    bool can = is_listed(m, group, unit);
    if (!can && m->host->engine->groups[group]->kind == LLS_GROUP_FULL)
      return;
    if (!can)
      continue;
    if (!has_listed(l, node))
      l->index[node] = (uint32_t)l->n;
    l->out[l->n++] = (struct lls_kept_block){.parent = before,
                                             .group = group,
                                             .form = written_form(m, group),
                                             .unit = unit,
                                             .key = t->keys[node]};
  }
}

/* Finds the nodes of use: blocks of tokens are of none without a state after them. */
static void find_useful(const struct lls_pol_side *m, struct listing *l)
{
  const struct lls_pol_tree *t = &m->tree;
  for (uint32_t node = 0; node < t->n_nodes; node++)
    l->index[node] = m->rows.states == 0 ? UNLISTED : OF_NO_USE;
  for (uint32_t group = 0; group < m->n_groups; group++)
    for (uint32_t node = 0; node < t->n_nodes && side_is_state(m, group); node++)
      if (lls_pol_tree_block(t, node, group, LLS_TIER_DEVICE) != LLS_POL_NIL)
        for (uint32_t at = node; at != LLS_POL_NIL && l->index[at] == OF_NO_USE;
             at = lls_pol_tree_parent(t, at))
          l->index[at] = UNLISTED;
}

/* Lists kept blocks in the form that steps write, the last released first, so that each
 * parent, which is released after its children, precedes them. Group 0 reads all if any
 * group does, so its list has all nodes; else each group's list has some, and parents
 * are not known: each block is listed as a prompt's first. */
size_t lls_pol_side_kept(struct lls_pol_side *m, struct lls_kept_block *out, size_t max)
{
  const struct lls_pol_tree *t = &m->tree;
  const struct lls_pol_tree_tier *tier = &t->tiers[LLS_TIER_DEVICE];
  struct listing l = {.out = out, .max = max, .index = t->marks};
  lls_pol_leases_expire(&m->leases, INT64_MAX); /* nothing waits for them any more */
  find_useful(m, &l);
  for (uint32_t group = 0; group < m->n_groups; group++)
    for (uint32_t place = tier->kept[m->kinds[LLS_TIER_DEVICE][group]].last;
         place != LLS_POL_NIL; place = t->places[place].previous)
      if (place / t->n_tiers % m->n_groups == group)
        list_node(m, node_of(m, place), &l);
  return l.n;
}

/* Returns false if there is no room, or if the tree cannot use the block: it has an equal
 * one, or lacks what the block is of no use without. */
static bool adopt_block(struct lls_pol_side *m, struct lls_kept_block *blocks, size_t i)
{
  struct lls_kept_block *kept = &blocks[i];
  struct lls_key keys[2];
  uint32_t depth = kept->parent != LLS_NO_BLOCK;
  if (kept->group >= m->n_groups || kept->form != written_form(m, kept->group) ||
      (depth && kept->parent >= i))
    return false;
  if (depth)
    keys[0] = blocks[kept->parent].key;
  keys[depth] = kept->key;
  uint32_t unit = lls_pol_slabs_take(&m->slabs[LLS_TIER_DEVICE],
                                     m->kinds[LLS_TIER_DEVICE][kept->group]);
  if (unit == LLS_POL_NIL)
    return false;
  kept->unit =
      lls_pol_tree_put(&m->tree, keys, depth, kept->group, LLS_TIER_DEVICE, unit);
  if (kept->unit == unit && lls_pol_tree_has(&m->tree, LLS_TIER_DEVICE, unit))
    return true;
  lls_pol_tree_let_go(&m->tree, LLS_TIER_DEVICE, unit);
  return false;
}

void lls_pol_side_share(struct lls_pol_side *m, bool shares)
{
  m->shares = shares;
  lls_pol_tree_hide(&m->tree, !shares);
}

/* Blocks that were kept for longest make room. None moves: a copy that is listed for it
 * would run after the core has filled what it reads.
 *
 * Holds all adopted blocks at first, then releases them in their former order. */
size_t lls_pol_side_adopt(struct lls_pol_side *m, struct lls_kept_block *blocks, size_t n)
{
  size_t taken = 0;
  m->slabs[LLS_TIER_DEVICE].may_move = false;
  while (m->shares && taken < n && adopt_block(m, blocks, taken))
    taken++;
  for (size_t i = taken; i-- > 0;)
    lls_pol_tree_let_go(&m->tree, LLS_TIER_DEVICE, blocks[i].unit);
  return taken;
}
