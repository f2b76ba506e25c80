/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Block tables for the engine. A sequence's lists stay where they are from step to step,
 * and only what has changed is written: a decode's last entry. The core keeps lists too,
 * by where they lie, and compares.
 *
 * A row has room for parts of a single token. There are twice as many rows as a step has
 * sequences; the one that has not run for longest gives up its row when another one needs
 * it. Untouched room costs address space only.
 */
#include "bidirectional.h"

#include <errno.h>

void bidi_empty_rows(struct bidirectional *m)
{
  for (uint32_t i = 0; i < m->n_rows; i++)
    m->rows[i] = (struct row){.owner = LLS_POL_NIL, .step = m->step};
  m->step++;
}

void bidi_free_row(struct bidirectional *m, struct sequence *s)
{
  if (s->row != LLS_POL_NIL)
    m->rows[s->row].owner = LLS_POL_NIL;
  s->row = LLS_POL_NIL;
  s->listed = 0;
}

/* Returns the next row, from row_hand on, not used in this step; LLS_POL_NIL if all are
 * used. */
static uint32_t next_row(struct bidirectional *m)
{
  for (uint32_t i = 0; i < m->n_rows; i++) {
    uint32_t row = m->row_hand;
    m->row_hand = row + 1 < m->n_rows ? row + 1 : 0;
    if (m->rows[row].step != m->step)
      return row;
  }
  return LLS_POL_NIL;
}

static bool take_row(struct bidirectional *m, struct sequence *s)
{
  uint32_t row = next_row(m);
  if (row == LLS_POL_NIL)
    return false;
  if (m->rows[row].owner != LLS_POL_NIL)
    bidi_free_row(m, &m->sequences[m->rows[row].owner]);
  m->rows[row].owner = (uint32_t)(s - m->sequences);
  s->row = row;
  return true;
}

/* Writes entries from the last one back to the first that has not changed. */
static void write_entries(const struct bidirectional *m, struct sequence *s,
                          struct lls_block_entry *list)
{
  uint32_t at = s->last;
  LLS_POL_CHECK(s->listed <= s->parts && s->parts <= m->row_entries);
  for (uint32_t i = s->parts; i-- > s->listed; at = m->parts[at].previous)
    list[i] = bidi_entry(m, at);
  s->listed = s->parts;
}

int bidi_table(struct bidirectional *m, struct sequence *s, struct lls_block_table *out)
{
  if (s->row == LLS_POL_NIL && !take_row(m, s))
    return -ENOBUFS;
  struct lls_block_entry *list = m->entries + (size_t)s->row * m->row_entries;
  m->rows[s->row].step = m->step;
  write_entries(m, s, list);
  uint32_t n_groups = m->side.n_groups;
  struct lls_group_list *lists =
      &m->side.rows.tables[(size_t)(s - m->sequences) * n_groups];
  lists[0] = (struct lls_group_list){.entries = list, .n_entries = s->parts};
  *out = (struct lls_block_table){.n_groups = n_groups, .lists = lists};
  return 0;
}
