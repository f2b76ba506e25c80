/* SPDX-License-Identifier: Apache-2.0 */
/* audit: the whole state as text, equal for equal states, and every invariant checked. */
#include "tiered.h"

#include <string.h>

struct audit {
  struct lls_pol_report report;
  struct tiered *m;
  bool on_host;   /* the tier that the audit walks */
  uint32_t n_met; /* blocks of it */
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

/* Checks that a block with an owner is taken and occurs for the first time. */
static void meet(struct audit *a, enum size size, uint32_t unit)
{
  const struct chains *tier = &a->m->tiers[a->on_host];
  if (!check(a, chains_has(tier, size, unit), "a block that is not taken", unit))
    return;
  check(a, a->m->marks[unit] == 0, "a block in two places", unit);
  a->m->marks[unit] = 1;
  a->n_met++;
}

/* Marks an indexed block that a sequence holds. */
static void meet_known(struct audit *a, uint32_t row, uint32_t i)
{
  struct tiered *m = a->m;
  uint32_t b = known_block(m, row, i);
  if (!check(a, b < m->index.n_blocks && b * m->index_units == list_of(m, row)[i].block,
             "a block outside the pool", b))
    return;
  check(a, m->index.blocks[b].parent != LLS_POL_NIL, "not in the index", b);
  m->index.marks[b]++;
}

static void audit_entry(struct audit *a, const struct sequence *s, uint32_t row,
                        uint32_t i)
{
  const struct tiered *m = a->m;
  const struct lls_block_entry *e = &list_of(m, row)[i];
  bool narrow = i < int8_blocks(m, s, a->on_host);
  say(a, narrow ? "  int8" : "  kv", e->block);
  if (!a->on_host && i < s->indexed)
    meet_known(a, row, i);
  else
    meet(a, narrow ? NARROW : WIDE, e->block);
  check(a, e->first_token == i * m->block_tokens && e->count == m->block_tokens,
        "an entry out of place", i);
  if (!m->journal.open)
    check(a, e->form == (narrow ? LLS_FORM_INT8 : LLS_FORM_KV), "another form", i);
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

/* Checks that all blocks that are taken from the tier have an owner. */
static void audit_slabs(struct audit *a)
{
  struct chains *tier = &a->m->tiers[a->on_host];
  uint32_t taken = 0;
  chains_audit(tier, &a->report);
  for (uint32_t i = 0; i < tier->n_slabs; i++)
    taken += (uint32_t)__builtin_popcount(tier->slabs[i].used);
  check(a, taken == a->n_met, "a block without an owner", taken - a->n_met);
}

/* Checks the index: its counts of holders, and that its blocks are in no other list. */
static void audit_known(struct audit *a)
{
  struct tiered *m = a->m;
  for (uint32_t b = 0; b < m->index.n_blocks && !failed(a); b++) {
    const struct lls_pol_block *block = &m->index.blocks[b];
    check(a, m->index.marks[b] == block->references, "holders are counted wrong", b);
    if (block->parent != LLS_POL_NIL)
      meet(a, m->narrow[false] ? NARROW : WIDE, b * m->index_units);
  }
  if (!failed(a))
    lls_pol_prefixes_audit(&m->index, &a->report);
  check(a, slabs_to_be_had(m, false) >= spare_slabs(m), "the spare slab is taken",
        m->tiers[0].n_free);
}

/* Checks the holders of slabs: those of the index, and the lists' own blocks. */
static void audit_idle(struct audit *a)
{
  struct tiered *m = a->m;
  const struct chains *tier = &m->tiers[false];
  uint32_t idle = 0;
  for (uint32_t slab = 0; slab < tier->n_slabs && !failed(a); slab++) {
    uint32_t held = (uint32_t)__builtin_popcount(tier->slabs[slab].used);
    uint32_t first = slab * tier->slab_units / m->index_units;
    for (uint32_t b = first; b < first + tier->slab_units / m->index_units; b++)
      held -=
          m->index.blocks[b].parent != LLS_POL_NIL && m->index.blocks[b].references == 0;
    check(a, held == m->holders[slab], "holders of a slab miscounted", slab);
    idle += tier->slabs[slab].used != 0 && held == 0;
  }
  check(a, idle == m->n_idle, "idle slabs miscounted", idle);
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
    a.n_met = 0;
    memset(m->marks, 0,
           (size_t)m->tiers[tier].n_slabs * m->tiers[tier].slab_units * sizeof *m->marks);
    for (uint32_t i = 0; i < m->n_slots; i++)
      audit_sequence(&a, i);
    if (!a.on_host)
      audit_known(&a);
    audit_slabs(&a);
    if (!a.on_host)
      audit_idle(&a);
  }
  return a.report.result;
}
