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
  int n = lls_pol_leases_take(&m->leases, what->session, what->tier, what->keys,
                              what->until_ns > now ? what->n_keys : 0, what->until_ns);
  return n > 0 ? n * (int)m->block_tokens : n;
}

int lls_pol_side_fetch(struct lls_pol_side *m, const struct lls_retained *what)
{
  struct lls_pol_match found;
  if (what->tier >= m->tree.n_tiers || !m->shares)
    return -ENOTSUP;
  lls_pol_tree_match(&m->tree, what->keys, what->n_keys, 1u << what->tier, &found);
  return (int)(found.n * m->block_tokens);
}

/* ---- ends ------------------------------------------------------------------------- */

/* Has no other sequence blocks? */
static bool is_alone(const struct lls_pol_side *m, const struct lls_pol_sequence *s)
{
  return m->rows.n_free + (s->row != LLS_POL_NIL) == m->rows.n_rows;
}

void side_note_crowd(struct lls_pol_side *m, const struct lls_pol_sequence *s,
                     uint64_t units)
{
  if (m->leases.n > 0 && is_alone(m, s) &&
      units > lls_pol_slabs_available(&m->slabs[LLS_TIER_DEVICE]))
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
  uint32_t all[LLS_POL_MAX_CLASSES];
  if (m->leases.n > 0)
    lls_pol_leases_expire(&m->leases, m->host->now(m->host->context));
  for (uint32_t i = 0; i < LLS_POL_MAX_CLASSES; i++)
    all[i] = UINT32_MAX;
  if (m->crowded)
    lls_pol_leases_make_room(&m->leases, LLS_TIER_DEVICE, all);
  m->crowded = false;
}
