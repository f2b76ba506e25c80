/* SPDX-License-Identifier: Apache-2.0 */
/* audit: the whole state as text, equal for equal states, and every invariant checked. */
#include "tiered.h"

#include <string.h>

struct audit {
  struct lls_pol_report report;
  struct tiered *m;
  bool on_host; /* the tier being checked */
};

/* Keeps the first thing that is wrong. */
static bool check(struct audit *a, bool good, const char *what, uint32_t which)
{
  return lls_pol_report_check(&a->report, good, what, which);
}

static bool failed(const struct audit *a)
{
  return a->report.result != 0;
}

static void say(struct audit *a, const char *what, uint32_t number)
{
  lls_pol_report_say(&a->report, "%s %" PRIu32, what, number);
  lls_pol_report_end_line(&a->report);
}

/* Checks that a unit with an owner occurs for the first time. */
static void meet(struct audit *a, uint32_t unit)
{
  bool inside = unit < a->m->tiers[a->on_host].n_units;
  check(a, inside, "a unit outside the pool", unit);
  if (!inside)
    return;
  check(a, a->m->marks[unit] == 0, "a unit in two places", unit);
  a->m->marks[unit] = 1;
}

/* Marks an indexed block that a sequence holds. */
static void meet_known(struct audit *a, uint32_t row, uint32_t i)
{
  struct tiered *m = a->m;
  uint32_t b = known_block(m, row, i), v = k_list(m, row)[m->row_blocks + i].block;
  if (!check(a, b < m->index.n_blocks, "a block outside the pool", b))
    return;
  check(a, m->index.blocks[b].parent != LLS_POL_NIL, "not in the index", b);
  check(a, full_units(m) == 1 || v == m->v_units[b], "another V unit", b);
  m->index.marks[b]++;
}

static void audit_entry(struct audit *a, const struct sequence *s, uint32_t row,
                        uint32_t i)
{
  const struct tiered *m = a->m;
  const struct lls_block_entry *k = &k_list(m, row)[i], *v = k + m->row_blocks;
  bool narrow = i < int8_blocks(m, s, a->on_host);
  say(a, narrow ? "  int8" : "  k", k->block);
  say(a, "  v", v->block);
  check(a, !narrow || (v->block == k->block + 1 && k->block % 2 == 0), "halves apart", i);
  if (!a->on_host && i < s->indexed) {
    meet_known(a, row, i);
  } else {
    meet(a, narrow ? k->block / 2 : k->block);
    if (!narrow)
      meet(a, v->block);
  }
  check(a, k->first_token == i * m->block_tokens && k->count == m->block_tokens,
        "an entry out of place", i);
  if (!m->journal.open)
    check(a, (k->form == LLS_FORM_INT8) == narrow && v->form == k->form, "another form",
          i);
}

static void audit_list(struct audit *a, const struct sequence *s, uint32_t row,
                       uint32_t end)
{
  for (uint32_t i = s->gone; i < end && !failed(a); i++)
    audit_entry(a, s, row, i);
}

static void audit_sequence(struct audit *a, uint32_t slot)
{
  const struct tiered *m = a->m;
  const struct sequence *s = &m->sequences[slot];
  check(a, s->admitted <= 1 && s->touched <= 1, "no truth value", slot);
  check(a, (s->row != LLS_POL_NIL) == (s->place != NOWHERE), "a place without lists",
        slot);
  check(a, s->admitted || s->row == LLS_POL_NIL, "units without an owner", slot);
  check(a, (s->transfer != 0) == (s->to_row != LLS_POL_NIL), "a transfer without lists",
        slot);
  if (!s->admitted || s->row == LLS_POL_NIL || failed(a))
    return;
  check(a, s->row < m->n_rows && s->held <= m->row_blocks, "a row outside", s->row);
  check(a, s->held >= blocks_of(m, s->cached), "cached tokens without a block", slot);
  check(a, s->gone <= s->held, "more blocks given back than there were", slot);
  check(a, s->cached == 0 || s->gone <= lls_pol_window_gone(&m->window, s->cached),
        "given back what is read", slot);
  check(a,
        s->transfer == 0 ||
            (s->gone <= s->listed && s->listed <= s->left && s->left <= s->held),
        "moved too far", slot);
  check(a, s->indexed <= s->cached / m->block_tokens && s->indexed <= s->held,
        "known before it is full", slot);
  check(a, s->indexed == 0 || s->place == ON_DEVICE, "known on the host", slot);
  if (failed(a))
    return;
  say(a, "sequence", slot);
  say(a, "  place", s->place);
  say(a, "  cached", s->cached);
  say(a, "  indexed", s->indexed);
  say(a, "  left", s->left);
  if ((s->place == ON_HOST) == a->on_host)
    audit_list(a, s, s->row, blocks_there(s));
  else if (s->to_row != LLS_POL_NIL)
    audit_list(a, s, s->to_row, s->held);
}

static void audit_stack(struct audit *a)
{
  const struct tier *t = &a->m->tiers[a->on_host];
  uint32_t n = 0;
  for (uint32_t unit = t->head; unit != LLS_POL_NIL && n < t->n_units; n++) {
    say(a, "free", unit);
    meet(a, unit);
    unit = unit < t->n_units ? t->next[unit] : LLS_POL_NIL;
  }
  check(a, n == t->n_free, "free units miscounted", n);
}

/* Checks the index: its counts of holders, and that its units are in no other list. */
static void audit_known(struct audit *a)
{
  struct tiered *m = a->m;
  for (uint32_t b = 0; b < m->index.n_blocks && !failed(a); b++) {
    const struct lls_pol_block *block = &m->index.blocks[b];
    check(a, m->index.marks[b] == block->references, "holders are counted wrong", b);
    if (block->parent == LLS_POL_NIL)
      continue;
    meet(a, b);
    if (full_units(m) == 2)
      meet(a, m->v_units[b]);
  }
  if (!failed(a))
    lls_pol_prefixes_audit(&m->index, &a->report);
  check(a, units_to_be_had(m, false) >= spare_units(m), "the spare unit is taken",
        m->tiers[0].n_free);
}

/* Checks that each row belongs to one sequence or is on the free stack. */
static void audit_rows(struct audit *a)
{
  const struct tiered *m = a->m;
  uint32_t used = 0, n = 0, row = m->row_head;
  memset(m->row_marks, 0, m->n_rows * sizeof *m->row_marks);
  for (; row < m->n_rows && n <= m->n_rows; n++, row = m->row_next[row])
    check(a, m->row_marks[row]++ == 0, "a row twice on the free stack", row);
  check(a, row == LLS_POL_NIL && n == m->n_rows_free, "free rows miscounted", n);
  for (uint32_t i = 0; i < m->n_slots; i++) {
    const uint32_t rows[] = {m->sequences[i].row, m->sequences[i].to_row};
    for (uint32_t k = 0; k < 2; k++) {
      if (rows[k] == LLS_POL_NIL)
        continue;
      bool inside = rows[k] < m->n_rows;
      check(a, inside && m->row_marks[rows[k]]++ == 0, "a row of two", rows[k]);
      used++;
    }
  }
  check(a, n + used == m->n_rows, "rows lost", used);
}

/* Checks that `moving` has each sequence that moves once, and no other. */
static void audit_moving(struct audit *a)
{
  const struct tiered *m = a->m;
  uint32_t n = 0;
  for (uint32_t i = 0; i < m->n_slots; i++)
    n += m->sequences[i].transfer != 0;
  check(a, n == m->n_moving, "transfers miscounted", n);
  for (uint32_t i = 0; i < m->n_moving && !failed(a); i++)
    check(a, m->moving[i] < m->n_slots && m->sequences[m->moving[i]].transfer != 0,
          "one that does not move", i);
}

int tiered_audit(struct tiered *m, const struct lls_sink *sink)
{
  struct audit a = {.report = {.m = m, .host = m->host, .sink = sink}, .m = m};
  if (!lls_pol_prefixes_audit_index(&m->index, &a.report))
    return a.report.result;
  audit_moving(&a);
  audit_rows(&a);
  memset(m->index.marks, 0, m->index.n_blocks * sizeof *m->index.marks);
  for (int tier = 0; tier < 2; tier++) {
    a.on_host = tier == 1;
    memset(m->marks, 0, m->tiers[tier].n_units * sizeof *m->marks);
    for (uint32_t i = 0; i < m->n_slots; i++)
      audit_sequence(&a, i);
    audit_stack(&a);
    if (!a.on_host)
      audit_known(&a);
    for (uint32_t i = 0; i < m->tiers[tier].n_units; i++)
      check(&a, m->marks[i] == 1, "a unit without an owner", i);
  }
  return a.report.result;
}
