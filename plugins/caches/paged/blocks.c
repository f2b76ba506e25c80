/* SPDX-License-Identifier: Apache-2.0 */
/* Ownership of blocks: the stacks of free device blocks, of free host blocks and of free
 * rows for block lists. */
#include "paged.h"

static void push_free(struct paged *m, uint32_t b)
{
  set(m, &m->index.blocks[b].next, m->free_head);
  set(m, &m->free_head, b);
  set(m, &m->n_free, m->n_free + 1);
}

static uint32_t pop_free(struct paged *m)
{
  uint32_t b = m->free_head;
  LLS_POL_CHECK(m->n_free > 0 && b < m->n_blocks && m->index.blocks[b].references == 0);
  set(m, &m->free_head, m->index.blocks[b].next);
  set(m, &m->n_free, m->n_free - 1);
  return b;
}

/* If no block is free, evicts the reusable block released first. Without a window its
 * children were released, and so evicted, before it. */
uint32_t paged_take(struct paged *m)
{
  uint32_t b;
  if (m->n_free > 0) {
    b = pop_free(m);
  } else {
    b = lls_pol_prefixes_evict(&m->index);
    set(m, &m->n_evicted, m->n_evicted + 1);
  }
  lls_pol_prefixes_own(&m->index, b);
  return b;
}

void paged_let_go(struct paged *m, uint32_t b)
{
  if (lls_pol_prefixes_let_go(&m->index, b))
    push_free(m, b);
}

void paged_forget(struct paged *m, const struct sequence *s)
{
  uint32_t first = s->gone;
  if (s->place != ON_DEVICE)
    return;
  while (first > 0 && first < s->indexed &&
         lls_pol_prefixes_is_parent(&m->index, block_at(m, s, first - 1),
                                    block_at(m, s, first)))
    first--;
  for (uint32_t i = s->past; i-- > first;)
    if (lls_pol_prefixes_forget(&m->index, block_at(m, s, i)))
      push_free(m, block_at(m, s, i));
}

uint32_t paged_take_host(struct paged *m)
{
  uint32_t b = m->host_head;
  LLS_POL_CHECK(m->n_host_free > 0 && b < m->n_host_blocks);
  set(m, &m->host_head, m->host_next[b]);
  set(m, &m->n_host_free, m->n_host_free - 1);
  return b;
}

void paged_free_host(struct paged *m, uint32_t b)
{
  set(m, &m->host_next[b], m->host_head);
  set(m, &m->host_head, b);
  set(m, &m->n_host_free, m->n_host_free + 1);
}

uint32_t paged_take_row(struct paged *m)
{
  uint32_t row = m->row_head;
  LLS_POL_CHECK(m->n_rows_free > 0 && row < m->n_rows);
  set(m, &m->row_head, m->row_next[row]);
  set(m, &m->n_rows_free, m->n_rows_free - 1);
  return row;
}

void paged_free_row(struct paged *m, uint32_t row)
{
  set(m, &m->row_next[row], m->row_head);
  set(m, &m->row_head, row);
  set(m, &m->n_rows_free, m->n_rows_free + 1);
}

/* All of an entry but its block number depends on its place in the row alone, so only the
 * number has to be written down for rollback. */
void paged_put(struct paged *m, const struct sequence *s, uint32_t i, uint32_t b)
{
  struct lls_block_entry *e = &list_of(m, s->row)[i];
  LLS_POL_CHECK(s->row < m->n_rows && i < m->row_blocks);
  e->first_token = i * m->block_tokens;
  e->count = (uint16_t)m->block_tokens;
  e->form = LLS_FORM_KV;
  set(m, &e->block, b * m->units);
}
