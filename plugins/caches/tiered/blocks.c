/* SPDX-License-Identifier: Apache-2.0 */
/* Ownership of units: the free stacks of both tiers, the blocks of the index, rows, and
 * the lists in them. */
#include "tiered.h"

/* Most changes in the journal by one operation, per block and in addition. Room for them
 * is checked before the operation starts. */
#define CHANGES_PER_BLOCK 40
#define CHANGES_PER_VERB  32

bool tiered_can_note(const struct tiered *m, uint32_t blocks)
{
  return lls_pol_journal_has_room(&m->journal, CHANGES_PER_VERB +
                                                   (uint64_t)CHANGES_PER_BLOCK * blocks);
}

void tiered_free_known(struct tiered *m, uint32_t b)
{
  if (full_units(m) == 2)
    tiered_free_unit(m, false, m->v_units[b]);
  tiered_free_unit(m, false, b);
}

/* Takes a free unit, or one of the reusable block released first. */
uint32_t tiered_take_unit(struct tiered *m, bool on_host)
{
  struct tier *t = &m->tiers[on_host];
  if (!on_host && t->n_free == 0 && m->index.n_reusable > 0) {
    tiered_free_known(m, lls_pol_prefixes_evict(&m->index));
    set(m, &m->n_evicted, m->n_evicted + 1);
  }
  uint32_t unit = t->head;
  LLS_POL_CHECK(t->n_free > 0 && unit != LLS_POL_NIL);
  set(m, &t->head, t->next[unit]);
  set(m, &t->n_free, t->n_free - 1);
  return unit;
}

void tiered_free_unit(struct tiered *m, bool on_host, uint32_t unit)
{
  struct tier *t = &m->tiers[on_host];
  LLS_POL_CHECK(unit < t->n_units && t->n_free < t->n_units);
  set(m, &t->next[unit], t->head);
  set(m, &t->head, unit);
  set(m, &t->n_free, t->n_free + 1);
}

/* Writes entry i of a row's lists. Its first token and count depend on i alone. */
static void put(struct tiered *m, uint32_t row, uint32_t i, uint32_t k, uint32_t v)
{
  struct lls_block_entry *list = k_list(m, row);
  LLS_POL_CHECK(i < m->row_blocks);
  for (uint32_t n = 0; n < 2; n++, list += m->row_blocks) {
    list[i].first_token = i * m->block_tokens;
    list[i].count = (uint16_t)m->block_tokens;
    set(m, &list[i].block, n == 0 ? k : v);
  }
}

void tiered_put_known(struct tiered *m, uint32_t row, uint32_t i, uint32_t b)
{
  if (full_units(m) == 2)
    put(m, row, i, b, m->v_units[b]);
  else
    put(m, row, i, 2 * b, 2 * b + 1);
}

void tiered_take_list(struct tiered *m, const struct sequence *s, uint32_t row,
                      bool on_host, uint32_t begin, uint32_t end)
{
  uint32_t int8 = int8_blocks(m, s, on_host);
  for (uint32_t i = begin; i < end; i++) {
    uint32_t k = tiered_take_unit(m, on_host);
    if (i < int8)
      put(m, row, i, 2 * k, 2 * k + 1);
    else
      put(m, row, i, k, tiered_take_unit(m, on_host));
  }
}

void tiered_free_list(struct tiered *m, const struct sequence *s, uint32_t row,
                      bool on_host, uint32_t begin, uint32_t end)
{
  const struct lls_block_entry *k = k_list(m, row), *v = k + m->row_blocks;
  uint32_t int8 = int8_blocks(m, s, on_host);
  for (uint32_t i = end; i-- > begin;) {
    if (!on_host && i < s->indexed) {
      if (lls_pol_prefixes_let_go(&m->index, known_block(m, row, i)))
        tiered_free_known(m, known_block(m, row, i));
      continue;
    }
    if (i >= int8)
      tiered_free_unit(m, on_host, v[i].block);
    tiered_free_unit(m, on_host, i < int8 ? k[i].block / 2 : k[i].block);
  }
}

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
  struct lls_block_entry *k = k_list(m, row), *v = k + m->row_blocks;
  uint32_t int8 = int8_blocks(m, s, on_host);
  for (uint32_t i = 0; i < s->held; i++)
    k[i].form = v[i].form = i < int8 ? LLS_FORM_INT8 : LLS_FORM_KV;
}

void tiered_name_elements(struct tiered *m, struct sequence *s)
{
  s->touched = false;
  if (s->row != LLS_POL_NIL)
    name_row(m, s, s->row, s->place == ON_HOST);
  if (s->to_row != LLS_POL_NIL)
    name_row(m, s, s->to_row, s->place != ON_HOST);
}
