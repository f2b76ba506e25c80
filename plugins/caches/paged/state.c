/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole state as one blob, so that another generation of this plugin takes over
 * every block in place. It contains, in this order: the units of each sequence, in the
 * format that every manager reads; the pool's sizes, which must be equal; the arrays,
 * unchanged; the block numbers of each list. The lists themselves are not copied: each
 * has room for a full context and is mostly empty.
 *
 * From another manager's blob, sequences are taken whose blocks begin where blocks of
 * this manager do, and are not shared. All other blocks become free, and the index is
 * empty.
 */
#include "paged.h"

#include <llmserve/policy/holdings.h>
#include <llmserve/policy/state.h>

/* Precedes the part that only this plugin reads; the number is the version of this part.
 */
static const char own[8] = "paged 6";

struct pool { /* must be equal in both generations */
  uint32_t units, block_tokens, n_blocks, n_host_blocks, n_slots, n_rows, row_blocks,
      window;
};

static struct pool pool_of(const struct paged *m)
{
  return (struct pool){m->units,   m->block_tokens, m->n_blocks,   m->n_host_blocks,
                       m->n_slots, m->n_rows,       m->row_blocks, m->window.tokens};
}

/* True if another manager can take the sequence: all its blocks are on the device. */
static bool is_whole(const struct sequence *s)
{
  return s->admitted && s->row != LLS_POL_NIL && s->place == ON_DEVICE && s->gone == 0;
}

static struct lls_holdings count_holdings(const struct paged *m)
{
  struct lls_holdings head = {.bytes = sizeof head,
                              .block_tokens = m->block_tokens,
                              .device_units = m->units * m->n_blocks};
  for (uint32_t i = 0; i < m->n_slots; i++)
    if (is_whole(&m->sequences[i])) {
      head.bytes += lls_pol_holding_bytes(1, held(&m->sequences[i]));
      head.n++;
    }
  return head;
}

static void write_holdings(const struct paged *m, const struct lls_holdings *head,
                           char *to)
{
  memcpy(to, head, sizeof *head);
  to += sizeof *head;
  for (uint32_t i = 0; i < m->n_slots; i++) {
    const struct sequence *s = &m->sequences[i];
    if (!is_whole(s))
      continue;
    struct lls_holding h = {
        .request = s->request, .slot = i, .cached_tokens = s->cached, .n_lists = 1};
    struct lls_held_list list = {.form = LLS_FORM_KV, .n_blocks = held(s)};
    to = lls_pol_holding_write(to, &h);
    to = lls_pol_holding_write_list(to, &list, list_of(m, s->row));
  }
}

/* Writes or reads the arrays; a reader has checked before that the pools are equal. */
static void pass_arrays(struct paged *m, struct lls_pol_state_walk *w)
{
  char name[sizeof own];
  struct pool pool = pool_of(m);
  /* the heads of the lists and their lengths lie together */
  size_t heads = offsetof(struct paged, n_rows_free) + sizeof m->n_rows_free -
                 offsetof(struct paged, free_head);
  memcpy(name, own, sizeof own);
  lls_pol_state_pass(w, name, sizeof name);
  lls_pol_state_pass(w, &pool, sizeof pool);
  lls_pol_state_pass(w, &m->free_head, heads);
  lls_pol_prefixes_pass(&m->index, w);
  lls_pol_state_pass(w, m->host_next, (size_t)m->n_host_blocks * sizeof *m->host_next);
  lls_pol_state_pass(w, m->row_next, m->n_rows * sizeof *m->row_next);
  lls_pol_state_pass(w, m->sequences, m->n_slots * sizeof *m->sequences);
}

/* Reads or writes the block numbers of all lists. */
static int pass_lists(struct paged *m, struct lls_pol_state_walk *w)
{
  for (uint32_t i = 0; i < m->n_slots; i++) {
    const struct sequence *s = &m->sequences[i];
    if (s->row == LLS_POL_NIL)
      continue;
    if (s->row >= m->n_rows || s->past > m->row_blocks || s->gone > s->past)
      return -EINVAL;
    for (uint32_t b = s->gone; b < s->past; b++) {
      uint32_t block = block_at(m, s, b);
      lls_pol_state_pass(w, &block, sizeof block);
      if (lls_pol_state_is_read(w))
        paged_put(m, s, b, block);
    }
  }
  return 0;
}

static int pass_own(void *manager, struct lls_pol_state_walk *w)
{
  pass_arrays(manager, w);
  return lls_pol_state_is_torn(w) ? -EINVAL : pass_lists(manager, w);
}

int paged_export(struct paged *m, struct lls_blob *out)
{
  struct lls_holdings head = count_holdings(m);
  if (m->journal.open)
    return -EBUSY;
  int rc = lls_pol_state_export(m, pass_own, head.bytes, LLS_STATE_HOLDINGS, out);
  if (rc == 0)
    write_holdings(m, &head, out->data);
  return rc;
}

/* ---- from another manager ---------------------------------------------------------- */

static bool can_hold(const struct paged *m, const struct lls_holding *h,
                     const struct lls_held_list *list)
{
  return h->slot < m->n_slots && !m->sequences[h->slot].admitted && m->n_rows_free > 0 &&
         list->n_blocks <= m->row_blocks &&
         list->n_blocks >= blocks_of(m, h->cached_tokens);
}

/* Gives a sequence from another manager all of its blocks, or none. */
static bool claim(struct paged *m, const struct lls_pol_held *held)
{
  uint32_t i = 0;
  for (; i < held->list.n_blocks; i++) {
    uint32_t block = lls_pol_held_block(held, i, m->units, m->n_blocks);
    if (block == m->n_blocks || m->index.blocks[block].references > 0)
      break;
    m->index.blocks[block].references = 1;
  }
  if (i == held->list.n_blocks)
    return true;
  while (i-- > 0)
    m->index.blocks[lls_pol_held_unit(held, i) / m->units].references = 0;
  return false;
}

static void take_over(struct paged *m, const struct lls_holding *h,
                      const struct lls_pol_held *held)
{
  struct sequence *s = &m->sequences[h->slot];
  *s = (struct sequence){.request = h->request,
                         .admitted = true,
                         .place = ON_DEVICE,
                         .row = paged_take_row(m),
                         .past = held->list.n_blocks,
                         .cached = h->cached_tokens};
  for (uint32_t i = 0; i < held->list.n_blocks; i++)
    paged_put(m, s, i, lls_pol_held_unit(held, i) / m->units);
}

/* Sets the free stack to all blocks without a holder. */
static void free_the_others(struct paged *m)
{
  m->free_head = LLS_POL_NIL;
  m->n_free = 0;
  for (uint32_t block = m->n_blocks; block-- > 0;)
    if (m->index.blocks[block].references == 0) {
      m->index.blocks[block].next = m->free_head;
      m->free_head = block;
      m->n_free++;
    }
}

static int import_holdings(struct paged *m, struct lls_pol_holdings *walk)
{
  struct lls_holding h;
  struct lls_pol_held lists[LLS_POL_HELD_LISTS];
  uint32_t n;
  while (lls_pol_holdings_next(walk, &h, lists, &n))
    if (lls_pol_holding_is_plain(lists, n) && can_hold(m, &h, &lists[0].list) &&
        claim(m, &lists[0]))
      take_over(m, &h, &lists[0]);
  free_the_others(m);
  return walk->torn ? -EINVAL : 0;
}

int paged_import(struct paged *m, const struct lls_blob *in)
{
  const struct lls_host *h = m->host;
  struct pool pool = pool_of(m);
  struct lls_pol_holdings walk;
  int rc =
      lls_pol_holdings_open(&walk, in, m->block_tokens, m->units * m->n_blocks, m->units);
  if (rc < 0)
    return h->fail(h->context, rc, "state of another pool");
  size_t bytes = in->bytes - (size_t)(walk.end - (const char *)in->data);
  bool same = lls_pol_state_is_of(walk.end, bytes, own, sizeof own, &pool, sizeof pool);
  return same ? lls_pol_state_import(m, pass_own, walk.end, bytes)
              : import_holdings(m, &walk);
}
