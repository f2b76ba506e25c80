/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Automatic prefix sharing: an index of full blocks by (parent block, token ids).
 *
 * The index is a tree of token blocks laid out in a hash table. Two blocks are the same
 * if their parents are the same block and their tokens are equal; the hash chooses a
 * bucket and decides nothing, so no collision can hand one client another's text. With a
 * window a block may leave the index before those that come after it, which then are not
 * found any more, and go when their turn comes.
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

/* 0 of the root, which never leaves. */
static uint32_t generation_of(const struct paged *m, uint32_t block)
{
  return block == ROOT ? 0 : m->blocks[block].generation;
}

uint32_t paged_find(const struct paged *m, uint32_t parent, const int32_t *tokens)
{
  uint32_t b = m->buckets[bucket_of(m, parent, tokens)];
  uint32_t generation = generation_of(m, parent);
  while (b != LLS_POL_NIL &&
         (m->blocks[b].parent != parent || m->blocks[b].parent_generation != generation ||
          memcmp(contents_of(m, b), tokens, m->block_tokens * sizeof *tokens)))
    b = m->blocks[b].bucket_next;
  return b;
}

static void insert(struct paged *m, uint32_t b, uint32_t parent, const int32_t *tokens)
{
  uint32_t *bucket = &m->buckets[bucket_of(m, parent, tokens)];
  memcpy(contents_of(m, b), tokens, m->block_tokens * sizeof *tokens);
  set(m, &m->blocks[b].parent, parent);
  set(m, &m->blocks[b].parent_generation, generation_of(m, parent));
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
  if (parent != ROOT && m->blocks[b].parent_generation == m->blocks[parent].generation)
    set(m, &m->blocks[parent].children, m->blocks[parent].children - 1);
  set(m, &m->blocks[b].parent, LLS_POL_NIL);
  set(m, &m->blocks[b].generation, m->blocks[b].generation + 1);
  set(m, &m->blocks[b].children, 0);
}

/* The block of a request behind `parent`, which has its tokens before. */
static uint32_t next_of(const struct paged *m, const struct lls_request *r, uint32_t i,
                        uint32_t parent)
{
  return paged_find(m, parent, r->tokens + (size_t)i * m->block_tokens);
}

/* How many of the request's blocks [from, n) none holds; the index has them. */
static uint32_t unheld(const struct paged *m, const struct lls_request *r, uint32_t from,
                       uint32_t n)
{
  uint32_t parent = ROOT, count = 0;
  for (uint32_t i = 0; i < n; i++) {
    parent = next_of(m, r, i, parent);
    count += i >= from && m->blocks[parent].references == 0;
  }
  return count;
}

/* How many leading blocks of the request the index has, if they serve. */
static uint32_t match(const struct paged *m, const struct lls_request *r)
{
  uint32_t length = lls_request_length(r), most = length / m->block_tokens, n = 0;
  if (most > m->row_blocks)
    most = m->row_blocks;
  for (uint32_t parent = ROOT; n < most; n++) {
    parent = next_of(m, r, n, parent);
    if (parent == LLS_POL_NIL)
      break;
  }
  /* All tokens are there: the last one is computed again for its logits, into a copy of
   * its block (copy-on-write in reserve). Without a block for the copy the request leaves
   * that one alone, or it might wait for ever for memory that it holds itself. */
  if (n > 0 && n * m->block_tokens == length &&
      available(m) == unheld(m, r, needless_blocks(m, length - 1), n))
    n--;
  return n;
}

/* Those that are before the window behind `tokens` are let go again: they are as good as
 * new in the reusable list. The last one is kept, for the next block comes after it. */
static void take_blocks(struct paged *m, struct sequence *s, const struct lls_request *r,
                        uint32_t n, uint32_t tokens)
{
  uint32_t parent = ROOT, gone = lls_pol_min(needless_blocks(m, tokens), n - 1);
  set(m, &s->row, paged_take_row(m));
  for (uint32_t i = 0; i < n; i++) {
    parent = next_of(m, r, i, parent);
    paged_hold(m, parent);
    paged_put(m, s, i, parent);
  }
  for (uint32_t i = gone; i-- > 0;)
    paged_let_go(m, block_at(m, s, i));
  set(m, &s->place, ON_DEVICE);
  set(m, &s->gone, gone);
  set(m, &s->past, n);
  set(m, &s->indexed, n);
}

uint32_t paged_prefix(struct paged *m, struct sequence *s, const struct lls_request *r,
                      bool take)
{
  if (s->place != NOWHERE)
    return s->cached;
  if (!m->prefix_sharing || m->n_rows_free == 0)
    return 0;
  uint32_t n = match(m, r);
  if (n == 0 || !can_note(m, n))
    return 0;
  uint32_t tokens = n * m->block_tokens;
  if (tokens == lls_request_length(r))
    tokens--; /* one must be left to compute, or there would be no logits */
  if (take) {
    take_blocks(m, s, r, n, tokens);
    set(m, &s->cached, tokens);
  }
  return tokens;
}

/* Nothing can come after a block that was given back before it was known (a sequence that
 * was on the host, or was handed over): then no more of it gets into the index. */
void paged_index(struct paged *m, struct sequence *s, const struct lls_request *r)
{
  if (s->indexed < s->gone)
    return;
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

/* ---- prefixes that outlive the process ------------------------------------------------
 */

/* The block that was let go last comes first: before it stands its parent, which is let
 * go after its children. With a window a parent may be gone; then the child is of no use.
 */
size_t paged_kept(struct paged *m, struct lls_kept_block *out, size_t max)
{
  size_t n = 0;
  uint32_t *place = m->marks; /* (n_blocks) in out */
  for (uint32_t b = 0; b < m->n_blocks; b++)
    place[b] = LLS_NO_BLOCK;
  for (uint32_t b = m->reusable_last; b != LLS_POL_NIL && n < max;
       b = m->blocks[b].previous) {
    const struct block *block = &m->blocks[b];
    bool first = block->parent == ROOT;
    if (!first && (place[block->parent] == LLS_NO_BLOCK ||
                   block->parent_generation != m->blocks[block->parent].generation))
      continue;
    place[b] = (uint32_t)n;
    out[n++] =
        (struct lls_kept_block){.parent = first ? LLS_NO_BLOCK : place[block->parent],
                                .k_unit = 2 * b,
                                .v_unit = 2 * b + 1,
                                .tokens = contents_of(m, b)};
  }
  return n;
}

/* False: it has no parent, or is there already. */
static bool adopt_block(struct paged *m, struct lls_kept_block *blocks, size_t i)
{
  struct lls_kept_block *kept = &blocks[i];
  uint32_t parent = ROOT;
  if (kept->parent != LLS_NO_BLOCK && kept->parent >= i)
    return false;
  if (kept->parent != LLS_NO_BLOCK)
    parent = blocks[kept->parent].k_unit / 2;
  if (paged_find(m, parent, kept->tokens) != LLS_POL_NIL)
    return false;
  uint32_t b = paged_take(m);
  insert(m, b, parent, kept->tokens);
  kept->k_unit = 2 * b;
  kept->v_unit = 2 * b + 1;
  return true;
}

/* All are held at first, and let go in the order in which they were. */
size_t paged_adopt(struct paged *m, struct lls_kept_block *blocks, size_t n)
{
  size_t taken = 0;
  while (m->prefix_sharing && taken < n && m->n_free > 0 && adopt_block(m, blocks, taken))
    taken++;
  for (size_t i = taken; i-- > 0;)
    paged_let_go(m, blocks[i].k_unit / 2);
  return taken;
}

/* Is the i-th block, which was given back, still what came before the next one? */
static bool is_still_there(const struct paged *m, const struct sequence *s, uint32_t i)
{
  const struct block *next = &m->blocks[block_at(m, s, i + 1)];
  uint32_t b = block_at(m, s, i);
  return next->parent == b && next->parent_generation == m->blocks[b].generation;
}

void paged_forget(struct paged *m, const struct sequence *s)
{
  uint32_t first = s->gone;
  if (s->place != ON_DEVICE)
    return;
  while (first > 0 && first < s->indexed && is_still_there(m, s, first - 1))
    first--;
  for (uint32_t i = s->past; i-- > first;) {
    uint32_t b = block_at(m, s, i);
    const struct block *block = &m->blocks[b];
    if (block->references == 0 && block->parent != LLS_POL_NIL && block->children == 0)
      paged_free_reusable(m, b);
  }
}

/* Without a window a sequence that holds a block holds the blocks before it too, so the
 * shared ones come first and bisection finds where they end: the core asks for every
 * request, every step. With one they may be anywhere in it.
 */
uint32_t paged_shared_blocks(const struct paged *m, const struct sequence *s)
{
  uint32_t low = s->gone, high = s->past, count = 0;
  for (uint32_t i = low; m->window.tokens > 0 && i < high; i++)
    count += m->blocks[block_at(m, s, i)].references > 1;
  if (m->window.tokens > 0)
    return count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (m->blocks[block_at(m, s, middle)].references > 1)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}
