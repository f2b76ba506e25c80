/* SPDX-License-Identifier: Apache-2.0 */
/* Audits the transfers of tiered.h. */
#include "tiered.h"

#include <string.h>

static void audit_transfer(struct tiered *m, struct lls_pol_report *a, uint32_t slot)
{
  const struct lls_pol_sequence *s = &m->side.rows.sequences[slot];
  const struct lls_pol_sequence *to = target_of(m, s);
  const struct transfer *t = &m->transfers[slot];
  if (!lls_pol_report_check(
          a, s->partial == (t->number != 0) && s->partial == (to->row != LLS_POL_NIL),
          "a transfer without a target", slot) ||
      !s->partial)
    return;
  lls_pol_report_check(
      a, s->where != LLS_POL_NOWHERE && s->where != to->where && s->cached == to->cached,
      "a transfer to another place", slot);
  lls_pol_report_say(a, "transfer %" PRIu32 " of slot %" PRIu32 ", listed from",
                     t->number, slot);
  for (uint32_t group = 0; group < m->side.n_groups; group++) {
    const struct lls_pol_list *list = lls_pol_rows_list(&m->side.rows, s, group);
    lls_pol_report_say(a, " %" PRIu32, t->listed[group]);
    lls_pol_report_check(a,
                         list->gone <= t->listed[group] && t->listed[group] <= list->past,
                         "moved too far", slot);
  }
  lls_pol_report_end_line(a);
}

/* Counts a sequence's device blocks in marks, by slab. */
static void mark_slabs(struct tiered *m, const struct lls_pol_sequence *s)
{
  for (uint32_t group = 0; group < m->side.n_groups; group++) {
    const struct lls_pol_list *list = lls_pol_rows_list(&m->side.rows, s, group);
    for (uint32_t i = list->gone; i < list->past; i++)
      m->side.marks[lls_pol_rows_entries(&m->side.rows, s, group)[i].block /
                    m->side.slabs[LLS_TIER_DEVICE].slab_units]++;
  }
}

static void audit_pins(struct tiered *m, struct lls_pol_report *a)
{
  const struct lls_pol_slabs *slabs = &m->side.slabs[LLS_TIER_DEVICE];
  memset(m->side.marks, 0, slabs->n_slabs * sizeof *m->side.marks);
  for (uint32_t slot = 0; slot < m->n_slots; slot++) {
    const struct lls_pol_sequence *s = &m->side.rows.sequences[slot];
    if (s->partial)
      mark_slabs(m, s->where == LLS_POL_ON_DEVICE ? s : target_of(m, s));
  }
  for (uint32_t slab = 0; slab < slabs->n_slabs; slab++)
    lls_pol_report_check(a, m->side.marks[slab] == slabs->pins[slab],
                         "pins are counted wrong", slab);
}

/* Checks that `moving` has each sequence that moves once, and no other. */
static void audit_moving(struct tiered *m, struct lls_pol_report *a)
{
  uint32_t n = 0;
  for (uint32_t slot = 0; slot < m->n_slots; slot++)
    n += m->side.rows.sequences[slot].partial;
  lls_pol_report_check(a, n == m->n_moving, "transfers are counted wrong", n);
  for (uint32_t i = 0; i < m->n_moving && a->result == 0; i++)
    lls_pol_report_check(
        a, m->moving[i] < m->n_slots && m->side.rows.sequences[m->moving[i]].partial,
        "a sequence that does not move", i);
}

void tiered_audit(void *manager, struct lls_pol_report *a)
{
  struct tiered *m = manager;
  for (uint32_t slot = 0; slot < m->n_slots && a->result == 0; slot++)
    audit_transfer(m, a, slot);
  if (a->result == 0) {
    audit_moving(m, a);
    audit_pins(m, a);
  }
}
