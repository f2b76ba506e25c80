/* SPDX-License-Identifier: Apache-2.0 */
/* Ownership of blocks: the blocks of both tiers, those of the index, rows, and the lists
 * in them. */
#include "tiered.h"

/* Most changes in the journal by one operation, per block, per block that leaves the
 * index, and in addition. Room for them is checked before the operation starts. */
#define CHANGES_PER_BLOCK    96
#define CHANGES_PER_EVICTION 40
#define CHANGES_PER_VERB     64

bool tiered_can_note(const struct tiered *m, uint32_t blocks)
{
  return lls_pol_journal_has_room(
      &m->journal, CHANGES_PER_VERB + (uint64_t)CHANGES_PER_BLOCK * blocks +
                       (uint64_t)CHANGES_PER_EVICTION * m->index.n_reusable);
}

/* ---- slabs of the device without a holder ------------------------------------------ */

static bool is_idle(const struct tiered *m, uint32_t slab)
{
  return m->tiers[false].slabs[slab].used != 0 && m->holders[slab] == 0;
}

/* Counts a slab that was idle before a change, or not. */
static void count_idle(struct tiered *m, uint32_t slab, bool before)
{
  bool after = is_idle(m, slab);
  if (before != after)
    set(m, &m->n_idle, m->n_idle + after - before);
}

static void add_holder(struct tiered *m, uint32_t unit, uint32_t n)
{
  uint32_t slab = unit / m->tiers[false].slab_units;
  bool before = is_idle(m, slab);
  set(m, &m->holders[slab], m->holders[slab] + n);
  count_idle(m, slab, before);
}

void tiered_hold_known(struct tiered *m, uint32_t b)
{
  if (m->index.blocks[b].references == 0)
    add_holder(m, b * m->index_units, 1);
  lls_pol_prefixes_hold(&m->index, b);
}

/* Frees a block of the device that has no holder. */
static void free_unheld(struct tiered *m, uint32_t unit)
{
  uint32_t slab = unit / m->tiers[false].slab_units;
  bool before = is_idle(m, slab);
  chains_give_back(&m->tiers[false], unit);
  count_idle(m, slab, before);
}

void tiered_free_known(struct tiered *m, uint32_t b)
{
  free_unheld(m, b * m->index_units);
}

void tiered_let_go_known(struct tiered *m, uint32_t b)
{
  bool last = m->index.blocks[b].references == 1;
  bool gone = lls_pol_prefixes_let_go(&m->index, b);
  if (last)
    add_holder(m, b * m->index_units, UINT32_MAX);
  if (gone)
    tiered_free_known(m, b);
}

/* ---- blocks ------------------------------------------------------------------------ */

/* Evicts the reusable blocks released first until a slab of the device is free. */
static void make_room(struct tiered *m)
{
  while (m->tiers[false].n_free == 0 && m->index.n_reusable > 0) {
    tiered_free_known(m, lls_pol_prefixes_evict(&m->index));
    set(m, &m->n_evicted, m->n_evicted + 1);
  }
}

uint32_t tiered_take_block(struct tiered *m, bool on_host, enum size size, uint32_t after)
{
  struct chains *tier = &m->tiers[on_host];
  if (on_host)
    return chains_take(tier, size, LLS_POL_NIL);
  bool before = chains_go_on(tier, size, after) && is_idle(m, after / tier->slab_units);
  if (!chains_go_on(tier, size, after))
    make_room(m);
  uint32_t unit = chains_take(tier, size, after), slab = unit / tier->slab_units;
  set(m, &m->holders[slab], m->holders[slab] + 1);
  count_idle(m, slab, before);
  return unit;
}

void tiered_free_block(struct tiered *m, bool on_host, uint32_t unit)
{
  if (on_host) {
    chains_give_back(&m->tiers[true], unit);
    return;
  }
  add_holder(m, unit, UINT32_MAX);
  free_unheld(m, unit);
}

/* First token and count depend on the place in the row alone. */
void tiered_put(struct tiered *m, uint32_t row, uint32_t i, uint32_t unit)
{
  struct lls_block_entry *e = &list_of(m, row)[i];
  LLS_POL_CHECK(i < m->row_blocks);
  e->first_token = i * m->block_tokens;
  e->count = (uint16_t)m->block_tokens;
  set(m, &e->block, unit);
}

void tiered_put_known(struct tiered *m, uint32_t row, uint32_t i, uint32_t b)
{
  tiered_put(m, row, i, b * m->index_units);
}

void tiered_take_list(struct tiered *m, const struct sequence *s, uint32_t row,
                      bool on_host, uint32_t begin, uint32_t end)
{
  uint32_t int8 = int8_blocks(m, s, on_host), after = LLS_POL_NIL;
  for (uint32_t i = begin; i < end; i++) {
    after = tiered_take_block(m, on_host, i < int8 ? NARROW : WIDE, after);
    tiered_put(m, row, i, after);
  }
}

void tiered_free_list(struct tiered *m, const struct sequence *s, uint32_t row,
                      bool on_host, uint32_t begin, uint32_t end)
{
  const struct lls_block_entry *list = list_of(m, row);
  for (uint32_t i = end; i-- > begin;)
    if (!on_host && i < s->indexed)
      tiered_let_go_known(m, known_block(m, row, i));
    else
      tiered_free_block(m, on_host, list[i].block);
}

/* ---- rows -------------------------------------------------------------------------- */

uint32_t tiered_take_row(struct tiered *m)
{
  uint32_t row = m->row_head;
  LLS_POL_CHECK(m->n_rows_free > 0 && row != LLS_POL_NIL);
  set(m, &m->row_head, m->row_next[row]);
  set(m, &m->n_rows_free, m->n_rows_free - 1);
  return row;
}

void tiered_free_row(struct tiered *m, uint32_t row)
{
  LLS_POL_CHECK(row < m->n_rows && m->n_rows_free < m->n_rows);
  set(m, &m->row_next[row], m->row_head);
  set(m, &m->row_head, row);
  set(m, &m->n_rows_free, m->n_rows_free + 1);
}

void tiered_touch(struct tiered *m, struct sequence *s)
{
  if (s->touched)
    return;
  LLS_POL_CHECK(m->n_touched < m->n_slots);
  s->touched = true;
  m->touched[m->n_touched++] = (uint32_t)(s - m->sequences);
}

static void name_row(struct tiered *m, const struct sequence *s, uint32_t row,
                     bool on_host)
{
  struct lls_block_entry *list = list_of(m, row);
  uint32_t int8 = int8_blocks(m, s, on_host);
  for (uint32_t i = 0; i < s->held; i++)
    list[i].form = i < int8 ? LLS_FORM_INT8 : LLS_FORM_KV;
}

void tiered_name_forms(struct tiered *m, struct sequence *s)
{
  s->touched = false;
  if (s->row != LLS_POL_NIL)
    name_row(m, s, s->row, s->place == ON_HOST);
  if (s->to_row != LLS_POL_NIL)
    name_row(m, s, s->to_row, s->place != ON_HOST);
}
