/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole state as one blob, so that another generation of this plugin takes over every
 * block where it lies: what holds for this pool and no other comes first and must be
 * equal, then the arrays as they are, then the block numbers of each list. A list itself
 * is not copied: it has room for a full context and is mostly empty.
 */
#include "paged.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STATE_VERSION 2

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
  size_t bytes = sizeof(struct pool);
  parts_of(m, parts);
  for (size_t i = 0; i < N_PARTS; i++)
    bytes += parts[i].bytes;
  return bytes;
}

int paged_export(struct paged *m, struct lls_blob *out)
{
  struct part parts[N_PARTS];
  struct pool pool = pool_of(m);
  if (m->journal.open)
    return -EBUSY;
  size_t bytes = fixed_bytes(m) + listed_blocks(m) * sizeof(uint32_t);
  char *to = malloc(bytes);
  if (to == NULL)
    return -ENOMEM;
  *out = (struct lls_blob){.version = STATE_VERSION, .bytes = bytes, .data = to};
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

int paged_import(struct paged *m, const struct lls_blob *in)
{
  struct part parts[N_PARTS];
  struct pool pool = pool_of(m);
  size_t fixed = fixed_bytes(m);
  const struct lls_host *h = m->host;
  if (in->version != STATE_VERSION)
    return h->fail(h->context, -ENOTSUP, "state of version %u, expected %u", in->version,
                   STATE_VERSION);
  if (in->bytes < fixed || memcmp(in->data, &pool, sizeof pool) != 0)
    return h->fail(h->context, -ENOTSUP, "state of another pool");
  const char *from = (const char *)in->data + sizeof pool;
  parts_of(m, parts);
  for (size_t i = 0; i < N_PARTS; from += parts[i++].bytes)
    memcpy(parts[i].at, from, parts[i].bytes);
  return read_lists(m, from, in->bytes - fixed);
}
