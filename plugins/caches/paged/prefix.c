/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Automatic prefix sharing: an index of full blocks by (parent block, token ids).
 *
 * The index is a tree of token blocks laid out in a hash table. Two blocks are the same
 * if their parents are the same block and their tokens are equal; the hash chooses a
 * bucket and decides nothing, so no collision can hand one client another's text.
 *
 * Blocks get into the index through computed() alone, when their contents exist. A
 * sequence that has computed a block that the index knows already (two equal prompts at
 * once) goes over to the known one and frees its own.
 */
#include "paged.h"

#include <string.h>

static uint32_t bucket_of(const struct paged *m, uint32_t parent, const int32_t *tokens)
{
  uint64_t h = parent + UINT64_C(0x9e3779b97f4a7c15);
  for (uint32_t i = 0; i < m->block_tokens; i++)
    h = (h ^ (uint32_t)tokens[i]) * UINT64_C(0xff51afd7ed558ccd), h ^= h >> 32;
  return (uint32_t)h & m->bucket_mask;
}

static int32_t *contents_of(const struct paged *m, uint32_t b)
{
  return m->contents + (size_t)b * m->block_tokens;
}

uint32_t paged_find(const struct paged *m, uint32_t parent, const int32_t *tokens)
{
  uint32_t b = m->buckets[bucket_of(m, parent, tokens)];
  while (b != LLS_POL_NIL &&
         (m->blocks[b].parent != parent ||
          memcmp(contents_of(m, b), tokens, m->block_tokens * sizeof *tokens)))
    b = m->blocks[b].bucket_next;
  return b;
}

static void insert(struct paged *m, uint32_t b, uint32_t parent, const int32_t *tokens)
{
  uint32_t *bucket = &m->buckets[bucket_of(m, parent, tokens)];
  memcpy(contents_of(m, b), tokens, m->block_tokens * sizeof *tokens);
  set(m, &m->blocks[b].parent, parent);
  set(m, &m->blocks[b].bucket_next, *bucket);
  set(m, bucket, b);
  if (parent != ROOT)
    set(m, &m->blocks[parent].children, m->blocks[parent].children + 1);
}

/* contents stay as they are: if this is rolled back they are needed again, and none
 * overwrites them before computed(), after the commit. */
void paged_unindex(struct paged *m, uint32_t b)
{
  uint32_t *link = &m->buckets[bucket_of(m, m->blocks[b].parent, contents_of(m, b))];
  while (*link != b)
    link = &m->blocks[*link].bucket_next;
  set(m, link, m->blocks[b].bucket_next);
  uint32_t parent = m->blocks[b].parent;
  if (parent != ROOT)
    set(m, &m->blocks[parent].children, m->blocks[parent].children - 1);
  set(m, &m->blocks[b].parent, LLS_POL_NIL);
}

/* How many leading blocks of the request the index has, and how many of them none
 * holds. */
static uint32_t match(const struct paged *m, const struct lls_request *r,
                      uint32_t *unheld)
{
  uint32_t most = lls_request_length(r) / m->block_tokens, n = 0, parent = ROOT;
  if (most > m->row_blocks)
    most = m->row_blocks;
  *unheld = 0;
  for (; n < most; n++) {
    uint32_t b = paged_find(m, parent, r->tokens + (size_t)n * m->block_tokens);
    if (b == LLS_POL_NIL)
      break;
    *unheld += m->blocks[b].references == 0;
    parent = b;
  }
  /* All tokens are there: the last one is computed again for its logits, into a copy of
   * its block (copy-on-write in reserve). Without a block for the copy the request leaves
   * that one alone, or it might wait for ever for memory that it holds itself. */
  if (n > 0 && n * m->block_tokens == lls_request_length(r) && available(m) == *unheld)
    n--;
  return n;
}

static void take_blocks(struct paged *m, struct sequence *s, const struct lls_request *r,
                        uint32_t n)
{
  uint32_t parent = ROOT;
  set(m, &s->row, paged_take_row(m));
  for (uint32_t i = 0; i < n; i++) {
    uint32_t b = paged_find(m, parent, r->tokens + (size_t)i * m->block_tokens);
    paged_hold(m, b);
    paged_put(m, s, i, b);
    parent = b;
  }
  set(m, &s->place, ON_DEVICE);
  set(m, &s->held, n);
  set(m, &s->indexed, n);
}

uint32_t paged_prefix(struct paged *m, struct sequence *s, const struct lls_request *r,
                      bool take)
{
  if (s->place != NOWHERE)
    return s->cached;
  if (!m->prefix_sharing || m->n_rows_free == 0)
    return 0;
  uint32_t unheld, n = match(m, r, &unheld);
  if (n == 0 || !can_note(m, n))
    return 0;
  uint32_t tokens = n * m->block_tokens;
  if (tokens == lls_request_length(r))
    tokens--; /* one must be left to compute, or there would be no logits */
  if (take) {
    take_blocks(m, s, r, n);
    set(m, &s->cached, tokens);
  }
  return tokens;
}

void paged_index(struct paged *m, struct sequence *s, const struct lls_request *r)
{
  for (; s->indexed < s->cached / m->block_tokens; s->indexed++) {
    uint32_t i = s->indexed, own = block_at(m, s, i);
    uint32_t parent = i == 0 ? ROOT : block_at(m, s, i - 1);
    const int32_t *tokens = r->tokens + (size_t)i * m->block_tokens;
    uint32_t known = paged_find(m, parent, tokens);
    if (known == LLS_POL_NIL) {
      insert(m, own, parent, tokens);
    } else {
      paged_hold(m, known);
      paged_put(m, s, i, known);
      paged_let_go(m, own);
    }
  }
}

void paged_forget(struct paged *m, const struct sequence *s)
{
  if (s->place != ON_DEVICE)
    return;
  for (uint32_t i = s->held; i-- > 0;) {
    uint32_t b = block_at(m, s, i);
    const struct block *block = &m->blocks[b];
    if (block->references == 0 && block->parent != LLS_POL_NIL && block->children == 0)
      paged_free_reusable(m, b);
  }
}

/* A sequence that holds a block holds the blocks before it too (invariant 2), so the
 * shared ones come first and bisection finds where they end: the core asks for every
 * request, every step.
 */
uint32_t paged_shared_blocks(const struct paged *m, const struct sequence *s)
{
  uint32_t low = 0, high = s->held;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (m->blocks[block_at(m, s, middle)].references > 1)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}
