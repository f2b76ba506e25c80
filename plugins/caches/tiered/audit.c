/* SPDX-License-Identifier: Apache-2.0 */
/* audit: the whole state as text, equal for equal states, and every invariant checked. */
#include "tiered.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct audit {
  struct tiered *m;
  const struct lls_sink *sink;
  bool on_host; /* the tier that is looked at */
  int result;
};

/* Keeps the first thing that is wrong. */
static void check(struct audit *a, bool good, const char *what, uint32_t which)
{
  if (!good && a->result == 0)
    a->result = a->m->host->fail(a->m->host->context, -EIO, "audit: %s (%" PRIu32 ")",
                                 what, which);
}

static void say(struct audit *a, const char *what, uint32_t number)
{
  char line[64];
  snprintf(line, sizeof line, "%s %" PRIu32, what, number);
  a->sink->text(a->sink->context, line);
}

/* A unit with an owner: met for the first time. */
static void meet(struct audit *a, uint32_t unit)
{
  bool inside = unit < a->m->tiers[a->on_host].n_units;
  check(a, inside, "a unit outside the pool", unit);
  if (!inside)
    return;
  check(a, a->m->marks[unit] == 0, "a unit in two places", unit);
  a->m->marks[unit] = 1;
}

static void audit_list(struct audit *a, const struct sequence *s, uint32_t row,
                       uint32_t begin)
{
  const struct tiered *m = a->m;
  const struct lls_block_entry *k = k_list(m, row), *v = k + m->row_blocks;
  uint32_t int8 = int8_blocks(m, s, a->on_host);
  for (uint32_t i = begin; i < s->held && a->result == 0; i++) {
    bool narrow = i < int8;
    say(a, narrow ? "  int8" : "  k", k[i].block);
    say(a, "  v", v[i].block);
    meet(a, narrow ? k[i].block / 2 : k[i].block);
    if (narrow)
      check(a, v[i].block == k[i].block + 1 && k[i].block % 2 == 0, "halves apart", i);
    else
      meet(a, v[i].block);
    check(a, k[i].first_token == i * m->block_tokens && k[i].count == m->block_tokens,
          "an entry out of place", i);
    if (!m->journal.open)
      check(a, k[i].element == narrow && v[i].element == narrow, "another element", i);
  }
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
  if (!s->admitted || s->row == LLS_POL_NIL || a->result != 0)
    return;
  check(a, s->row < m->n_rows && s->held <= m->row_blocks, "a row outside", s->row);
  check(a, s->held >= blocks_of(m, s->cached), "cached tokens without a block", slot);
  check(a, s->gone <= s->held, "more blocks given back than there were", slot);
  check(a, s->cached == 0 || s->gone <= lls_pol_window_gone(&m->window, s->cached),
        "given back what is read", slot);
  check(a, s->moved <= s->listed && s->listed <= s->held, "moved too far", slot);
  if (a->result != 0)
    return;
  say(a, "sequence", slot);
  say(a, "  place", s->place);
  say(a, "  cached", s->cached);
  say(a, "  moved", s->moved);
  if ((s->place == ON_HOST) == a->on_host)
    audit_list(a, s, s->row, lls_pol_max(s->moved, s->gone));
  else if (s->to_row != LLS_POL_NIL)
    audit_list(a, s, s->to_row, s->gone);
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
  check(a, a->on_host || t->n_free >= spare_units(a->m), "the spare unit is taken", n);
}

/* Rows of lists: each with one sequence or on the free stack. */
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

/* Those that move, and no others, each once. */
static void audit_moving(struct audit *a)
{
  const struct tiered *m = a->m;
  uint32_t n = 0;
  for (uint32_t i = 0; i < m->n_slots; i++)
    n += m->sequences[i].transfer != 0;
  check(a, n == m->n_moving, "transfers miscounted", n);
  for (uint32_t i = 0; i < m->n_moving && a->result == 0; i++)
    check(a, m->moving[i] < m->n_slots && m->sequences[m->moving[i]].transfer != 0,
          "one that does not move", i);
}

int tiered_audit(struct tiered *m, const struct lls_sink *sink)
{
  struct audit a = {.m = m, .sink = sink};
  audit_moving(&a);
  audit_rows(&a);
  for (int tier = 0; tier < 2; tier++) {
    a.on_host = tier == 1;
    memset(m->marks, 0, m->tiers[tier].n_units * sizeof *m->marks);
    for (uint32_t i = 0; i < m->n_slots; i++)
      audit_sequence(&a, i);
    audit_stack(&a);
    for (uint32_t i = 0; i < m->tiers[tier].n_units; i++)
      check(&a, m->marks[i] == 1, "a unit without an owner", i);
  }
  return a.result;
}
