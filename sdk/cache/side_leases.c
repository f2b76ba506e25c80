/* SPDX-License-Identifier: Apache-2.0 */
/* Leases of side.h: what a session retains, and when leases end before their time. They
 * hold memory that waits for a request which may never come, so a request that has the
 * device to itself never waits for them. */
#include "side_inside.h"

#include <errno.h>

int lls_pol_side_retain(struct lls_pol_side *m, const struct lls_retained *what)
{
  int64_t now = m->host->now(m->host->context);
  if (what->tier >= m->tree.n_tiers || !m->shares)
    return -ENOTSUP;
  bool keeps = what->until_ns > now;
  int n = lls_pol_leases_take(&m->leases, what->session, what->tier, what->keys,
                              keeps ? what->n_keys : 0, what->until_ns);
  if (!keeps && n == 0) {
    struct lls_pol_match found;
    lls_pol_tree_match(&m->tree, what->keys, what->n_keys, 1u << what->tier, &found);
    n = (int)found.n;
  }
  return n > 0 ? n * (int)m->block_tokens : n;
}

/* ---- fetch ------------------------------------------------------------------------ */

struct fetched {
  const struct lls_key *keys;
  uint32_t n, tier;
};

/* The block of a node in the tier, or LLS_POL_NIL. */
static uint32_t block_in(const struct lls_pol_side *m, const struct fetched *f,
                         uint32_t i, uint32_t group, uint32_t tier)
{
  uint32_t node = lls_pol_tree_find(&m->tree, &f->keys[i]);
  return lls_pol_tree_block(&m->tree, node, group, tier);
}

/* Counts by class what lacks in the tier; how many blocks. */
static uint32_t count_lacking_of(const struct lls_pol_side *m, const struct fetched *f,
                                 uint32_t *blocks)
{
  uint32_t n = 0;
  for (uint32_t group = 0; group < m->n_groups; group++)
    for (uint32_t i = lls_pol_tree_begin(&m->tree, group, f->n); i < f->n; i++)
      if (block_in(m, f, i, group, f->tier) == LLS_POL_NIL) {
        blocks[m->full[f->tier][group].kind]++;
        n++;
      }
  return n;
}

/* Holds a block in the tier, a copy of the other tier's. */
static bool hold_copy(struct lls_pol_side *m, const struct fetched *f, uint32_t i,
                      uint32_t group)
{
  uint32_t from_tier = LLS_TIER_HOST - f->tier;
  uint32_t to = lls_pol_slabs_take(&m->slabs[f->tier], m->full[f->tier][group].kind);
  if (to == LLS_POL_NIL)
    return false;
  uint32_t from = block_in(m, f, i, group, from_tier);
  side_copy_known(m, group, from_tier, from, to, LLS_COPY_BEFORE_STEP);
  lls_pol_tree_add(&m->tree, lls_pol_tree_find(&m->tree, &f->keys[i]), group, f->tier,
                   to);
  return true;
}

/* The first pass holds the blocks that the tier has, so that they do not leave for those
 * that the second one takes. In the end all are kept, the last block released first, and
 * the last to leave: also those of a session whose other blocks are read from disk. */
static bool fetch(struct lls_pol_side *m, const struct fetched *f)
{
  struct lls_pol_tree *t = &m->tree;
  bool copying = false;
  for (uint32_t pass = 0; pass < 2; pass++, copying = true)
    for (uint32_t group = 0; group < m->n_groups; group++)
      for (uint32_t i = lls_pol_tree_begin(t, group, f->n); i < f->n; i++) {
        uint32_t there = block_in(m, f, i, group, f->tier);
        if (!copying && there != LLS_POL_NIL)
          lls_pol_tree_hold(t, f->tier, there);
        if (copying && there == LLS_POL_NIL && !hold_copy(m, f, i, group))
          return false;
      }
  for (uint32_t i = f->n; i-- > 0;)
    for (uint32_t group = m->n_groups; group-- > 0;)
      if (i >= lls_pol_tree_begin(t, group, f->n))
        lls_pol_tree_let_go(t, f->tier, block_in(m, f, i, group, f->tier));
  return true;
}

int lls_pol_side_fetch(struct lls_pol_side *m, const struct lls_retained *what)
{
  uint32_t lacking[LLS_POL_MAX_CLASSES] = {0}, mark = m->journal.n;
  struct lls_pol_match found;
  if (what->tier >= m->tree.n_tiers || !m->shares)
    return -ENOTSUP;
  lls_pol_tree_match(&m->tree, what->keys, what->n_keys, side_tiers(m), &found);
  const struct fetched f = {what->keys, found.n, what->tier};
  uint32_t n = count_lacking_of(m, &f, lacking);
  int tokens = (int)(f.n * m->block_tokens);
  if (!side_can_note(m, 2 * (uint64_t)m->n_groups * f.n) || !lls_pol_side_can_copy(m, n))
    return n == 0 ? tokens : -ENOBUFS;
  lls_pol_slabs_verb(&m->slabs[f.tier]);
  uint32_t most_leaving = m->most_leaving;
  m->most_leaving = 0; /* or blocks leave the host that are to be copied from it */
  bool done = lls_pol_slabs_fits(&m->slabs[f.tier], lacking) && fetch(m, &f);
  m->most_leaving = most_leaving;
  if (done)
    return tokens;
  lls_pol_journal_rollback(&m->journal, mark);
  return -ENOSPC;
}

/* ---- ends ------------------------------------------------------------------------- */

/* Has no other sequence blocks on the device? Those that wait on the host have rows. */
static bool is_alone(const struct lls_pol_side *m, const struct lls_pol_sequence *s)
{
  if (m->rows.n_free + (s->row != LLS_POL_NIL) == m->rows.n_rows)
    return true;
  for (uint32_t i = 0; i < m->rows.n_slots; i++)
    if (&m->rows.sequences[i] != s && m->rows.sequences[i].where == LLS_POL_ON_DEVICE)
      return false;
  return true;
}

void side_note_crowd(struct lls_pol_side *m, const struct lls_pol_sequence *s,
                     uint64_t units)
{
  if (m->leases.n > 0 && units > lls_pol_slabs_available(&m->slabs[LLS_TIER_DEVICE]) &&
      is_alone(m, s))
    m->crowded = true;
}

bool side_fits(struct lls_pol_side *m, const struct lls_pol_sequence *s,
               const uint32_t *blocks)
{
  if (lls_pol_slabs_fits(&m->slabs[LLS_TIER_DEVICE], blocks))
    return true;
  return m->leases.n > 0 && is_alone(m, s) &&
         lls_pol_leases_make_room(&m->leases, LLS_TIER_DEVICE, blocks);
}

void side_end_leases(struct lls_pol_side *m)
{
  if (m->leases.n > 0)
    lls_pol_leases_expire(&m->leases, m->host->now(m->host->context));
  if (m->crowded)
    lls_pol_leases_end(&m->leases, LLS_TIER_DEVICE);
  m->crowded = false;
}
