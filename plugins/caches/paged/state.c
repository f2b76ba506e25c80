/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole state as one blob, so that another generation of this plugin takes over every
 * block where it lies: who holds which units, as any manager can read it, then what holds
 * for this pool and no other, which must be equal, then the arrays as they are, then the
 * block numbers of each list. A list itself is not copied: it has room for a full context
 * and is mostly empty.
 *
 * From another manager: sequences whose K and V lie in unit pairs that nobody shares. Its
 * other blocks are free; an index it has none.
 */
#include "paged.h"

#include "../common/holdings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Before what is this plugin's alone; its number is the version of that. */
static const char own[8] = "paged 3";

struct pool { /* equal in both */
  uint32_t block_tokens, n_blocks, n_host_blocks, n_slots, n_rows, row_blocks;
};

static struct pool pool_of(const struct paged *m)
{
  return (struct pool){m->block_tokens, m->n_blocks, m->n_host_blocks,
                       m->n_slots,      m->n_rows,   m->row_blocks};
}

struct part {
  void *at;
  size_t bytes;
};

#define N_PARTS 7

static void parts_of(struct paged *m, struct part out[N_PARTS])
{
  /* the heads of the lists and their lengths lie together */
  size_t heads = offsetof(struct paged, n_rows_free) + sizeof m->n_rows_free -
                 offsetof(struct paged, free_head);
  const struct part parts[N_PARTS] = {
      {&m->free_head, heads},
      {m->blocks, m->n_blocks * sizeof *m->blocks},
      {m->contents, (size_t)m->n_blocks * m->block_tokens * sizeof *m->contents},
      {m->buckets, ((size_t)m->bucket_mask + 1) * sizeof *m->buckets},
      {m->host_next, (size_t)m->n_host_blocks * sizeof *m->host_next},
      {m->row_next, m->n_rows * sizeof *m->row_next},
      {m->sequences, m->n_slots * sizeof *m->sequences},
  };
  memcpy(out, parts, sizeof parts);
}

static size_t listed_blocks(const struct paged *m)
{
  size_t n = 0;
  for (uint32_t i = 0; i < m->n_slots; i++)
    n += m->sequences[i].row != NIL ? m->sequences[i].held : 0;
  return n;
}

static size_t fixed_bytes(struct paged *m)
{
  struct part parts[N_PARTS];
  size_t bytes = sizeof own + sizeof(struct pool);
  parts_of(m, parts);
  for (size_t i = 0; i < N_PARTS; i++)
    bytes += parts[i].bytes;
  return bytes;
}

static bool is_held(const struct sequence *s)
{
  return s->admitted && s->row != NIL && s->place == ON_DEVICE;
}

static struct lls_holdings count_holdings(const struct paged *m)
{
  struct lls_holdings head = {.bytes = sizeof head,
                              .block_tokens = m->block_tokens,
                              .device_units = 2 * m->n_blocks};
  for (uint32_t i = 0; i < m->n_slots; i++)
    if (is_held(&m->sequences[i])) {
      head.bytes += holding_bytes(m->sequences[i].held, 0);
      head.n++;
    }
  return head;
}

static char *write_holdings(const struct paged *m, const struct lls_holdings *head,
                            char *to)
{
  memcpy(to, head, sizeof *head);
  to += sizeof *head;
  for (uint32_t i = 0; i < m->n_slots; i++) {
    const struct sequence *s = &m->sequences[i];
    if (!is_held(s))
      continue;
    const struct lls_block_entry *k = k_list(m, s->row);
    struct lls_holding h = {.request = s->request,
                            .slot = i,
                            .form = LLS_FORM_KV,
                            .cached_tokens = s->cached,
                            .kv_count = s->held};
    to = holding_write(to, &h, k, k + m->row_blocks, NULL);
  }
  return to;
}

int paged_export(struct paged *m, struct lls_blob *out)
{
  struct part parts[N_PARTS];
  struct pool pool = pool_of(m);
  struct lls_holdings head = count_holdings(m);
  if (m->journal.open)
    return -EBUSY;
  size_t bytes = head.bytes + fixed_bytes(m) + listed_blocks(m) * sizeof(uint32_t);
  char *to = malloc(bytes);
  if (to == NULL)
    return -ENOMEM;
  *out = (struct lls_blob){.version = LLS_STATE_HOLDINGS, .bytes = bytes, .data = to};
  to = write_holdings(m, &head, to);
  memcpy(to, own, sizeof own);
  to += sizeof own;
  memcpy(to, &pool, sizeof pool);
  to += sizeof pool;
  parts_of(m, parts);
  for (size_t i = 0; i < N_PARTS; to += parts[i++].bytes)
    memcpy(to, parts[i].at, parts[i].bytes);
  for (uint32_t i = 0; i < m->n_slots; i++) {
    const struct sequence *s = &m->sequences[i];
    for (uint32_t b = 0; s->row != NIL && b < s->held; b++, to += sizeof(uint32_t)) {
      uint32_t block = block_at(m, s, b);
      memcpy(to, &block, sizeof block);
    }
  }
  return 0;
}

/* The lists of all sequences from the block numbers at `from`; -EINVAL if they don't fit.
 */
static int read_lists(struct paged *m, const char *from, size_t bytes)
{
  if (listed_blocks(m) * sizeof(uint32_t) != bytes)
    return -EINVAL;
  for (uint32_t i = 0; i < m->n_slots; i++) {
    const struct sequence *s = &m->sequences[i];
    if (s->row == NIL)
      continue;
    if (s->row >= m->n_rows || s->held > m->row_blocks)
      return -EINVAL;
    for (uint32_t b = 0; b < s->held; b++, from += sizeof(uint32_t)) {
      uint32_t block;
      memcpy(&block, from, sizeof block);
      paged_put(m, s, b, block);
    }
  }
  return 0;
}

static int import_own(struct paged *m, const char *from, size_t bytes)
{
  struct part parts[N_PARTS];
  size_t fixed = fixed_bytes(m);
  if (bytes < fixed)
    return -EINVAL;
  from += sizeof own + sizeof(struct pool);
  parts_of(m, parts);
  for (size_t i = 0; i < N_PARTS; from += parts[i++].bytes)
    memcpy(parts[i].at, from, parts[i].bytes);
  return read_lists(m, from, bytes - fixed);
}

/* ---- from another manager ---------------------------------------------------------- */

/* Block number of unit pair i: 2b and 2b + 1, of nobody else; NIL if it is no such. */
static uint32_t pair_at(const struct paged *m, const struct lls_holding *h,
                        const char *units, uint32_t i)
{
  uint32_t k = holding_unit(units, i), v = holding_unit(units, h->kv_count + i);
  bool pair = k % 2 == 0 && v == k + 1 && k / 2 < m->n_blocks;
  return pair && m->blocks[k / 2].references == 0 ? k / 2 : NIL;
}

static bool can_hold(const struct paged *m, const struct lls_holding *h)
{
  return h->form == LLS_FORM_KV && h->x_count == 0 && h->slot < m->n_slots &&
         !m->sequences[h->slot].admitted && m->n_rows_free > 0 &&
         h->kv_count <= m->row_blocks && h->kv_count >= blocks_of(m, h->cached_tokens);
}

/* All of its blocks, or none. */
static bool claim(struct paged *m, const struct lls_holding *h, const char *units)
{
  uint32_t i = 0;
  for (; i < h->kv_count; i++) {
    uint32_t block = pair_at(m, h, units, i);
    if (block == NIL)
      break;
    m->blocks[block].references = 1;
  }
  if (i == h->kv_count)
    return true;
  while (i-- > 0)
    m->blocks[holding_unit(units, i) / 2].references = 0;
  return false;
}

static void take_over(struct paged *m, const struct lls_holding *h, const char *units)
{
  struct sequence *s = &m->sequences[h->slot];
  *s = (struct sequence){.request = h->request,
                         .admitted = true,
                         .place = ON_DEVICE,
                         .row = paged_take_row(m),
                         .held = h->kv_count,
                         .cached = h->cached_tokens};
  for (uint32_t i = 0; i < h->kv_count; i++)
    paged_put(m, s, i, holding_unit(units, i) / 2);
}

/* The manager is empty: its free stack holds all blocks. */
static void free_the_others(struct paged *m)
{
  m->free_head = NIL;
  m->n_free = 0;
  for (uint32_t block = m->n_blocks; block-- > 0;)
    if (m->blocks[block].references == 0) {
      m->blocks[block].next = m->free_head;
      m->free_head = block;
      m->n_free++;
    }
}

static int import_holdings(struct paged *m, struct holdings *walk)
{
  struct lls_holding h;
  const char *units;
  while (holdings_next(walk, &h, &units))
    if (can_hold(m, &h) && claim(m, &h, units))
      take_over(m, &h, units);
  free_the_others(m);
  return walk->torn ? -EINVAL : 0;
}

int paged_import(struct paged *m, const struct lls_blob *in)
{
  const struct lls_host *h = m->host;
  struct pool pool = pool_of(m);
  struct holdings walk;
  int rc = holdings_open(&walk, in, m->block_tokens, 2 * m->n_blocks);
  if (rc < 0)
    return h->fail(h->context, rc, "state of another pool");
  size_t bytes = in->bytes - (size_t)(walk.end - (const char *)in->data);
  bool same = bytes >= sizeof own + sizeof pool &&
              memcmp(walk.end, own, sizeof own) == 0 &&
              memcmp(walk.end + sizeof own, &pool, sizeof pool) == 0;
  return same ? import_own(m, walk.end, bytes) : import_holdings(m, &walk);
}
