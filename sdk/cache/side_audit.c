/* SPDX-License-Identifier: Apache-2.0 */
/* Audits all parts of side.h, and that the lists of sequences hold what the slabs say. */
#include "side_inside.h"

#include <string.h>

/* Counts a sequence's blocks of a group in marks. */
static void count_list(struct lls_pol_side *m, struct lls_pol_report *a,
                       const struct lls_pol_sequence *s, uint32_t group, uint32_t tier)
{
  const struct lls_pol_list *list = lls_pol_rows_list(&m->rows, s, group);
  const struct lls_pol_slabs *slabs = &m->slabs[tier];
  uint32_t small = 0;
  uint32_t needless = lls_group_begin(m->host->engine->groups[group], s->cached);
  bool state = side_is_state(m, group);
  lls_pol_report_check(
      a, state || s->cached == 0 || list->gone <= needless / m->block_tokens,
      "given back what is read", s->row);
  for (uint32_t i = list->gone; i < list->past && a->result == 0; i++) {
    uint32_t unit = lls_pol_rows_entries(&m->rows, s, group)[i].block;
    if (!lls_pol_report_check(a, lls_pol_slabs_is_taken(slabs, unit), "no such block",
                              unit))
      return;
    m->marks[lls_pol_slabs_number(slabs, unit)]++;
    uint32_t kind = slabs->slabs[unit / slabs->slab_units].kind;
    small += side_is_small(m, tier, group, unit);
    lls_pol_report_check(
        a, kind == m->kinds[tier][group] || kind == m->full[tier][group].kind,
        "a block of another size", unit);
    lls_pol_report_check(a,
                         lls_pol_rows_entries(&m->rows, s, group)[i].form ==
                             side_form(m, tier, group, unit),
                         "a block in another form", unit);
    lls_pol_report_check(a,
                         tier != LLS_TIER_DEVICE || i < list->known ||
                             (state && (i + 1 < list->past || i == 0)) ||
                             !lls_pol_tree_has(&m->tree, tier, unit),
                         "a block in the tree may be written", unit);
  }
  lls_pol_report_check(a, small == list->small && small <= s->cached / m->block_tokens,
                       "small blocks are counted wrong", s->row);
}

static void audit_tier(struct lls_pol_side *m, struct lls_pol_report *a, uint32_t tier)
{
  const struct lls_pol_slabs *slabs = &m->slabs[tier];
  uint32_t blocks = lls_pol_slabs_blocks(slabs);
  memset(m->marks, 0, blocks * sizeof *m->marks);
  for (uint32_t i = 0; i < m->rows.n_slots; i++) {
    const struct lls_pol_sequence *s = &m->rows.sequences[i];
    if (s->where == (tier == LLS_TIER_HOST ? LLS_POL_ON_HOST : LLS_POL_ON_DEVICE))
      for (uint32_t group = 0; group < m->n_groups; group++)
        count_list(m, a, s, group, tier);
  }
  if (tier < m->tree.n_tiers)
    lls_pol_leases_mark(&m->leases, tier, m->marks);
  if (m->mark != NULL)
    m->mark(m, tier, m->marks);
  for (uint32_t i = 0; i < blocks && a->result == 0; i++)
    lls_pol_report_check(
        a, m->marks[i] == (slabs->holders[i] == LLS_POL_NIL ? 0 : slabs->holders[i]),
        "holders are counted wrong", i);
}

int lls_pol_side_audit(struct lls_pol_side *m, const struct lls_sink *sink)
{
  struct lls_pol_report a = {.m = m, .host = m->host, .sink = sink};
  for (uint32_t tier = 0; tier < m->n_tiers; tier++)
    if (!lls_pol_slabs_audit(&m->slabs[tier], &a))
      return a.result;
  if (!lls_pol_tree_audit(&m->tree, &a) || !lls_pol_rows_audit(&m->rows, &a))
    return a.result;
  lls_pol_leases_audit(&m->leases, &a);
  for (uint32_t tier = 0; tier < m->n_tiers && a.result == 0; tier++)
    audit_tier(m, &a, tier);
  lls_pol_report_say(&a, "copies %" PRIu32 ", pending %" PRIu32,
                     m->journal.open ? m->n_copies : 0, m->n_pending);
  lls_pol_report_end_line(&a);
  if (a.result == 0 && m->audit != NULL)
    m->audit(m, &a);
  return a.result;
}
