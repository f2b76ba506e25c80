/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ownership of blocks: the stack of free blocks, the list of reusable ones, reference
 * counts; and the stacks of free host blocks and of free rows for block lists.
 */
#include "paged.h"

static void push_free(struct paged *m, uint32_t b)
{
  set(m, &m->blocks[b].next, m->free_head);
  set(m, &m->free_head, b);
  set(m, &m->n_free, m->n_free + 1);
}

static uint32_t pop_free(struct paged *m)
{
  uint32_t b = m->free_head;
  LLS_POL_CHECK(m->n_free > 0 && b < m->n_blocks && m->blocks[b].references == 0);
  set(m, &m->free_head, m->blocks[b].next);
  set(m, &m->n_free, m->n_free - 1);
  return b;
}

static void append_reusable(struct paged *m, uint32_t b)
{
  struct block *block = &m->blocks[b];
  LLS_POL_CHECK(block->references == 0 && block->parent != LLS_POL_NIL);
  set(m, &block->previous, m->reusable_last);
  set(m, &block->next, LLS_POL_NIL);
  if (m->reusable_last == LLS_POL_NIL)
    set(m, &m->reusable_first, b);
  else
    set(m, &m->blocks[m->reusable_last].next, b);
  set(m, &m->reusable_last, b);
  set(m, &m->n_reusable, m->n_reusable + 1);
}

static void remove_reusable(struct paged *m, uint32_t b)
{
  const struct block *block = &m->blocks[b];
  LLS_POL_CHECK(m->n_reusable > 0 && block->references == 0);
  if (block->previous == LLS_POL_NIL)
    set(m, &m->reusable_first, block->next);
  else
    set(m, &m->blocks[block->previous].next, block->next);
  if (block->next == LLS_POL_NIL)
    set(m, &m->reusable_last, block->previous);
  else
    set(m, &m->blocks[block->next].previous, block->previous);
  set(m, &m->n_reusable, m->n_reusable - 1);
}

uint32_t paged_take(struct paged *m)
{
  uint32_t b;
  if (m->n_free > 0) {
    b = pop_free(m);
  } else { /* the one that was let go first; its children went before, without a window */
    b = m->reusable_first;
    LLS_POL_CHECK(b != LLS_POL_NIL &&
                  (m->window.tokens > 0 || m->blocks[b].children == 0));
    remove_reusable(m, b);
    paged_unindex(m, b);
    set(m, &m->n_evicted, m->n_evicted + 1);
  }
  set(m, &m->blocks[b].references, 1);
  return b;
}

void paged_free_reusable(struct paged *m, uint32_t b)
{
  remove_reusable(m, b);
  paged_unindex(m, b);
  push_free(m, b);
}

void paged_hold(struct paged *m, uint32_t b)
{
  if (m->blocks[b].references == 0)
    remove_reusable(m, b);
  set(m, &m->blocks[b].references, m->blocks[b].references + 1);
}

void paged_let_go(struct paged *m, uint32_t b)
{
  LLS_POL_CHECK(b < m->n_blocks && m->blocks[b].references > 0);
  set(m, &m->blocks[b].references, m->blocks[b].references - 1);
  if (m->blocks[b].references > 0)
    return;
  if (m->blocks[b].parent != LLS_POL_NIL)
    append_reusable(m, b);
  else
    push_free(m, b);
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
static void put_entry(struct paged *m, struct lls_block_entry *e, uint32_t i,
                      uint32_t unit)
{
  e->first_token = i * m->block_tokens;
  e->count = (uint16_t)m->block_tokens;
  set(m, &e->block, unit);
}

void paged_put(struct paged *m, const struct sequence *s, uint32_t i, uint32_t b)
{
  struct lls_block_entry *k = k_list(m, s->row);
  LLS_POL_CHECK(s->row < m->n_rows && i < m->row_blocks);
  put_entry(m, &k[i], i, 2 * b);
  put_entry(m, &k[m->row_blocks + i], i, 2 * b + 1);
}
