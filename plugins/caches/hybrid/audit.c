/* SPDX-License-Identifier: Apache-2.0 */
/* audit: the whole state as text, equal for equal states, and every invariant checked. */
#include "hybrid.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct audit {
  struct hybrid *m;
  const struct lls_sink *sink;
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
  check(a, unit < a->m->n_units, "a unit outside the pool", unit);
  if (unit >= a->m->n_units)
    return;
  check(a, a->m->marks[unit] == 0, "a unit in two places", unit);
  a->m->marks[unit] = 1;
}

static void audit_list(struct audit *a, const struct sequence *s, enum list list,
                       uint32_t held)
{
  const struct hybrid *m = a->m;
  static const char *const names[] = {"  k", "  v", "  x"};
  const struct lls_block_entry *entries = list_of(m, s, list);
  for (uint32_t i = 0; i < held; i++) {
    say(a, names[list], entries[i].block);
    meet(a, entries[i].block);
    check(a, entries[i].first_token == i * m->block_tokens, "an entry out of place", i);
    check(a, entries[i].count == m->block_tokens, "an entry of another size", i);
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
  uint32_t covering = s->form == LLS_FORM_HIDDEN ? s->held_x : s->held_kv;
  check(a, covering >= blocks_of(m, s->cached), "cached tokens without a block", slot);
  audit_list(a, s, LIST_K, s->held_kv);
  audit_list(a, s, LIST_V, s->held_kv);
  audit_list(a, s, LIST_X, s->held_x);
}

static void audit_stack(struct audit *a)
{
  const struct hybrid *m = a->m;
  uint32_t n = 0;
  for (uint32_t unit = m->unit_head; unit != LLS_POL_NIL && n < m->n_units; n++) {
    say(a, "free", unit);
    meet(a, unit);
    unit = unit < m->n_units ? m->unit_next[unit] : LLS_POL_NIL;
  }
  check(a, n == m->n_free, "free units miscounted", n);
}

int hybrid_audit(struct hybrid *m, const struct lls_sink *sink)
{
  struct audit a = {.m = m, .sink = sink};
  memset(m->marks, 0, m->n_units * sizeof *m->marks);
  for (uint32_t i = 0; i < m->n_slots; i++)
    audit_sequence(&a, i);
  audit_stack(&a);
  for (uint32_t i = 0; i < m->n_units; i++)
    check(&a, m->marks[i] == 1, "a unit without an owner", i);
  return a.result;
}
