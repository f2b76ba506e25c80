/* SPDX-License-Identifier: Apache-2.0 */
/* audit: the whole state as text, equal for equal states, and every invariant checked. */
#include "hybrid.h"

#include <string.h>

struct audit {
  struct lls_pol_report report;
  struct hybrid *m;
  uint32_t n_met; /* blocks */
};

/* Keeps the first thing that is wrong. */
static bool check(struct audit *a, bool good, const char *what, uint32_t which)
{
  return lls_pol_report_check(&a->report, good, what, which);
}

static void say(struct audit *a, const char *what, uint32_t number)
{
  lls_pol_report_say(&a->report, "%s %" PRIu32, what, number);
  lls_pol_report_end_line(&a->report);
}

/* A block with an owner: taken, and met for the first time. */
static void meet(struct audit *a, enum list list, uint32_t unit)
{
  if (!check(a, chains_has(&a->m->blocks, list, unit), "a block that is not taken", unit))
    return;
  check(a, a->m->marks[unit] == 0, "a block in two places", unit);
  a->m->marks[unit] = 1;
  a->n_met++;
}

static void audit_list(struct audit *a, const struct sequence *s, enum list list)
{
  const struct hybrid *m = a->m;
  static const char *const names[] = {"  kv", "  x"};
  static const uint8_t forms[] = {LLS_FORM_KV, LLS_FORM_HIDDEN};
  const struct lls_block_entry *entries = list_of(m, s, list);
  for (uint32_t i = 0; i < s->held[list]; i++) {
    say(a, names[list], entries[i].block);
    meet(a, list, entries[i].block);
    check(a, entries[i].first_token == i * m->block_tokens, "an entry out of place", i);
    check(a, entries[i].count == m->block_tokens && entries[i].form == forms[list],
          "an entry of another size or form", i);
  }
}

static void audit_sequence(struct audit *a, uint32_t slot)
{
  const struct hybrid *m = a->m;
  const struct sequence *s = &m->sequences[slot];
  check(a, (s->row != LLS_POL_NIL) == (s->form != LLS_FORM_NONE), "a form without lists",
        slot);
  check(a, s->admitted || s->row == LLS_POL_NIL, "units without an owner", slot);
  if (!s->admitted)
    return;
  say(a, "sequence", slot);
  say(a, "  form", s->form);
  say(a, "  cached", s->cached);
  if (s->row == LLS_POL_NIL)
    return;
  check(a, s->row < m->n_rows, "a row outside", s->row);
  check(a, s->held[list_in(s->form)] >= blocks_of(m, s->cached),
        "cached tokens without a block", slot);
  audit_list(a, s, LIST_KV);
  audit_list(a, s, LIST_X);
}

int hybrid_audit(struct hybrid *m, const struct lls_sink *sink)
{
  struct audit a = {.report = {.m = m, .host = m->host, .sink = sink}, .m = m};
  uint32_t taken = 0;
  memset(m->marks, 0,
         (size_t)m->blocks.n_slabs * m->blocks.slab_units * sizeof *m->marks);
  for (uint32_t i = 0; i < m->n_slots; i++)
    audit_sequence(&a, i);
  chains_audit(&m->blocks, &a.report);
  for (uint32_t i = 0; i < m->blocks.n_slabs; i++)
    taken += (uint32_t)__builtin_popcount(m->blocks.slabs[i].used);
  check(&a, taken == a.n_met, "a block without an owner", taken - a.n_met);
  return a.report.result;
}
