/* SPDX-License-Identifier: Apache-2.0 */
/* How many blocks and units in side.h: what a sequence needs, holds and shares. */
#include "side_inside.h"

/* Units of `blocks` blocks, of which `small` have the form of full blocks. */
static uint32_t units_of(const struct lls_pol_side *m, uint32_t tier, uint32_t group,
                         uint32_t blocks, uint32_t small)
{
  return m->full[tier][group].units * small + m->units[tier][group] * (blocks - small);
}

/* ---- what it needs ------------------------------------------------------------- */

uint32_t side_needless(const struct lls_pol_side *m, uint32_t group, uint32_t cached)
{
  if (m->keeps_all || group < m->own_groups || side_is_state(m, group))
    return 0;
  return lls_group_begin(side_group(m, group), cached) / m->block_tokens;
}

uint32_t side_gone(const struct lls_pol_side *m, const struct lls_pol_sequence *s,
                   const struct lls_request *r, uint32_t group)
{
  return s->where == LLS_POL_NOWHERE ? side_needless(m, group, r->cached_tokens)
                                     : side_list(m, s, group)->gone;
}

uint32_t lls_pol_side_peak(const struct lls_pol_side *m, const struct lls_pol_sequence *s,
                           const struct lls_request *r, uint32_t group, uint32_t tokens)
{
  uint32_t all = lls_pol_side_blocks(m, (uint64_t)s->cached + tokens);
  uint32_t left = all - lls_pol_min(all, side_gone(m, s, r, group));
  uint32_t step = lls_pol_min(lls_pol_min(tokens, lls_request_pending(r)),
                              m->host->engine->max_step_tokens);
  uint64_t window = side_group(m, group)->window;
  if (side_is_state(m, group))
    return side_states_wanted(m, s, group);
  return side_reads_all(m, group)
             ? left
             : lls_pol_min(left, lls_pol_side_blocks(m, window + step) + 1);
}

uint32_t lls_pol_side_need(const struct lls_pol_side *m, const struct lls_pol_sequence *s,
                           const struct lls_request *r, uint32_t tokens)
{
  uint32_t units = 0;
  for (uint32_t group = m->own_groups; group < m->n_groups; group++) {
    uint32_t wanted = lls_pol_side_peak(m, s, r, group, tokens);
    uint32_t held = lls_pol_rows_held(&m->rows, s, group);
    units += m->units[LLS_TIER_DEVICE][group] * (wanted > held ? wanted - held : 0);
  }
  return units;
}

/* ---- what it shares ------------------------------------------------------------ */

/* How many blocks of a list more than one sequence holds. Where a token reads all before
 * it, who holds a block holds those before it too, so shared blocks come first and
 * bisection finds where they end: the core asks for every request in every step. */
static uint32_t shared_blocks(const struct lls_pol_side *m,
                              const struct lls_pol_sequence *s, uint32_t group)
{
  const struct lls_pol_list *list = side_list(m, s, group);
  const struct lls_pol_slabs *slabs = &m->slabs[LLS_TIER_DEVICE];
  uint32_t end = side_is_state(m, group) ? list->past : list->known;
  uint32_t low = list->gone, high = lls_pol_max(low, end), count = 0;
  for (uint32_t i = low; i < high && !side_reads_all(m, group); i++)
    count += lls_pol_slabs_holders(slabs, side_unit(m, s, group, i)) > 1;
  if (!side_reads_all(m, group))
    return count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (lls_pol_slabs_holders(slabs, side_unit(m, s, group, middle)) > 1)
      low = middle + 1;
    else
      high = middle;
  }
  return low - list->gone;
}

/* Units of the first blocks of a list, all of which are full. */
static uint32_t units_of_full(const struct lls_pol_side *m,
                              const struct lls_pol_sequence *s, uint32_t group,
                              uint32_t blocks)
{
  const struct lls_pol_list *list = side_list(m, s, group);
  uint32_t end = list->gone + blocks, small = blocks;
  if (list->small !=
      s->cached / m->block_tokens - list->gone) /* some had no room in it */
    small = side_count_small(m, s, group, list->gone, end);
  return units_of(m, LLS_TIER_DEVICE, group, blocks, small);
}

void lls_pol_side_shared(const struct lls_pol_side *m, const struct lls_pol_sequence *s,
                         uint32_t *units, uint32_t *tokens)
{
  *units = *tokens = 0;
  for (uint32_t group = 0; group < m->n_groups && s->where == LLS_POL_ON_DEVICE;
       group++) {
    uint32_t blocks = shared_blocks(m, s, group);
    *units += units_of_full(m, s, group, blocks);
    if (group == 0)
      *tokens = lls_pol_min(blocks * m->block_tokens, s->cached);
  }
}

/* ---- what it holds ------------------------------------------------------------- */

static uint32_t full_of(const struct lls_pol_side *m, const struct lls_pol_sequence *s,
                        uint32_t group)
{
  const struct lls_pol_list *list = side_list(m, s, group);
  uint32_t full = lls_pol_min(s->cached / m->block_tokens, list->past);
  return full > list->gone ? full - list->gone : 0;
}

uint32_t lls_pol_side_units(const struct lls_pol_side *m,
                            const struct lls_pol_sequence *s)
{
  uint32_t tier = side_tier(s), units = 0;
  for (uint32_t group = 0; group < m->n_groups; group++)
    units += units_of(m, tier, group, lls_pol_rows_held(&m->rows, s, group),
                      side_list(m, s, group)->small);
  return units;
}

uint32_t lls_pol_side_units_in(const struct lls_pol_side *m,
                               const struct lls_pol_sequence *s, uint32_t tier)
{
  uint32_t units = 0;
  for (uint32_t group = 0; group < m->n_groups; group++)
    units += units_of(m, tier, group, lls_pol_rows_held(&m->rows, s, group),
                      full_of(m, s, group));
  return units;
}

void lls_pol_side_count(const struct lls_pol_side *m, const struct lls_pol_sequence *s,
                        uint32_t tier, uint32_t past, uint32_t *blocks)
{
  for (uint32_t group = m->own_groups; group < m->n_groups; group++) {
    uint32_t gone = side_list(m, s, group)->gone, full = full_of(m, s, group);
    if (side_is_state(m, group)) {
      blocks[m->kinds[tier][group]] += lls_pol_min(1, side_list(m, s, group)->past);
      continue;
    }
    blocks[m->full[tier][group].kind] += full;
    blocks[m->kinds[tier][group]] += past - gone - full;
  }
}

uint32_t side_count_small(const struct lls_pol_side *m, const struct lls_pol_sequence *s,
                          uint32_t group, uint32_t begin, uint32_t end)
{
  uint32_t n = 0, tier = side_tier(s);
  if (side_list(m, s, group)->small == 0)
    return 0;
  for (uint32_t i = begin; i < end; i++)
    n += side_is_small(m, tier, group, side_unit(m, s, group, i));
  return n;
}
