/* SPDX-License-Identifier: Apache-2.0 */
/* The index and the list of reusable blocks; see prefixes.h. */
#include <llmserve/policy/prefixes.h>

#include <llmserve/policy/number.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void set(struct lls_pol_prefixes *p, uint32_t *where, uint32_t value)
{
  lls_pol_journal_set(p->journal, where, value);
}

/* ---- life ------------------------------------------------------------------------- */

int lls_pol_prefixes_init(struct lls_pol_prefixes *p)
{
  p->bucket_mask = 1;
  while (p->bucket_mask < 2 * (uint64_t)p->n_blocks)
    p->bucket_mask = 2 * p->bucket_mask + 1;
  p->blocks = (struct lls_pol_block *)calloc(p->n_blocks, sizeof *p->blocks);
  p->keys = (struct lls_key *)calloc(p->n_blocks, sizeof *p->keys);
  p->buckets = (uint32_t *)calloc((size_t)p->bucket_mask + 1, sizeof *p->buckets);
  p->marks = (uint32_t *)calloc(p->n_blocks, sizeof *p->marks);
  return p->blocks && p->keys && p->buckets && p->marks ? 0 : -ENOMEM;
}

void lls_pol_prefixes_free(struct lls_pol_prefixes *p)
{
  free(p->blocks);
  free(p->keys);
  free(p->buckets);
  free(p->marks);
}

void lls_pol_prefixes_make_empty(struct lls_pol_prefixes *p)
{
  const struct lls_pol_block none = {
      .previous = LLS_POL_NIL, .parent = LLS_POL_NIL, .bucket_next = LLS_POL_NIL};
  for (uint32_t b = 0; b < p->n_blocks; b++)
    p->blocks[b] = none;
  memset(p->buckets, 0xff, ((size_t)p->bucket_mask + 1) * sizeof *p->buckets);
  p->reusable_first = p->reusable_last = LLS_POL_NIL;
  p->n_reusable = 0;
}

/* ---- the index -------------------------------------------------------------------- */

/* A key is as good as random: it needs no hash. */
static uint32_t *bucket_of(const struct lls_pol_prefixes *p, const struct lls_key *key)
{
  return &p->buckets[(uint32_t)key->word[0] & p->bucket_mask];
}

/* Returns the generation of a block; 0 for the root, which is never evicted. */
static uint32_t generation_of(const struct lls_pol_prefixes *p, uint32_t block)
{
  return block == LLS_POL_ROOT ? 0 : p->blocks[block].generation;
}

uint32_t lls_pol_prefixes_find(const struct lls_pol_prefixes *p, uint32_t parent,
                               const struct lls_key *key)
{
  uint32_t b = *bucket_of(p, key);
  uint32_t generation = generation_of(p, parent);
  while (b != LLS_POL_NIL &&
         (p->blocks[b].parent != parent || p->blocks[b].parent_generation != generation ||
          !lls_key_equal(&p->keys[b], key)))
    b = p->blocks[b].bucket_next;
  return b;
}

uint32_t lls_pol_prefixes_next(const struct lls_pol_prefixes *p,
                               const struct lls_request *r, uint32_t i, uint32_t parent)
{
  return lls_pol_prefixes_find(p, parent, &r->keys[i]);
}

uint32_t lls_pol_prefixes_match(const struct lls_pol_prefixes *p,
                                const struct lls_request *r, uint32_t most)
{
  uint32_t n = 0;
  most = lls_pol_min(most, r->n_keys);
  for (uint32_t parent = LLS_POL_ROOT; n < most; n++) {
    parent = lls_pol_prefixes_next(p, r, n, parent);
    if (parent == LLS_POL_NIL)
      break;
  }
  return n;
}

void lls_pol_prefixes_insert(struct lls_pol_prefixes *p, uint32_t b, uint32_t parent,
                             const struct lls_key *key)
{
  uint32_t *bucket = bucket_of(p, key);
  p->keys[b] = *key;
  set(p, &p->blocks[b].parent, parent);
  set(p, &p->blocks[b].parent_generation, generation_of(p, parent));
  set(p, &p->blocks[b].bucket_next, *bucket);
  set(p, bucket, b);
  if (parent != LLS_POL_ROOT)
    set(p, &p->blocks[parent].children, p->blocks[parent].children + 1);
}

bool lls_pol_prefixes_is_parent(const struct lls_pol_prefixes *p, uint32_t block,
                                uint32_t next)
{
  return p->blocks[next].parent == block &&
         p->blocks[next].parent_generation == p->blocks[block].generation;
}

/* Takes block b out of the index. Its key stays: a rollback needs it again, and only an
 * insert overwrites it, which comes after the commit. */
static void leave_index(struct lls_pol_prefixes *p, uint32_t b)
{
  struct lls_pol_block *block = &p->blocks[b];
  uint32_t *link = bucket_of(p, &p->keys[b]);
  while (*link != b)
    link = &p->blocks[*link].bucket_next;
  set(p, link, block->bucket_next);
  uint32_t parent = block->parent;
  if (parent != LLS_POL_ROOT && lls_pol_prefixes_is_parent(p, parent, b))
    set(p, &p->blocks[parent].children, p->blocks[parent].children - 1);
  set(p, &block->parent, LLS_POL_NIL);
  set(p, &block->generation, block->generation + 1);
  set(p, &block->children, 0);
}

/* ---- holders ---------------------------------------------------------------------- */

static void append_reusable(struct lls_pol_prefixes *p, uint32_t b)
{
  struct lls_pol_block *block = &p->blocks[b];
  LLS_POL_CHECK(block->references == 0 && block->parent != LLS_POL_NIL);
  set(p, &block->previous, p->reusable_last);
  set(p, &block->next, LLS_POL_NIL);
  if (p->reusable_last == LLS_POL_NIL)
    set(p, &p->reusable_first, b);
  else
    set(p, &p->blocks[p->reusable_last].next, b);
  set(p, &p->reusable_last, b);
  set(p, &p->n_reusable, p->n_reusable + 1);
}

static void remove_reusable(struct lls_pol_prefixes *p, uint32_t b)
{
  const struct lls_pol_block *block = &p->blocks[b];
  LLS_POL_CHECK(p->n_reusable > 0 && block->references == 0);
  if (block->previous == LLS_POL_NIL)
    set(p, &p->reusable_first, block->next);
  else
    set(p, &p->blocks[block->previous].next, block->next);
  if (block->next == LLS_POL_NIL)
    set(p, &p->reusable_last, block->previous);
  else
    set(p, &p->blocks[block->next].previous, block->previous);
  set(p, &p->n_reusable, p->n_reusable - 1);
}

void lls_pol_prefixes_own(struct lls_pol_prefixes *p, uint32_t b)
{
  LLS_POL_CHECK(p->blocks[b].references == 0 && p->blocks[b].parent == LLS_POL_NIL);
  set(p, &p->blocks[b].references, 1);
}

void lls_pol_prefixes_hold(struct lls_pol_prefixes *p, uint32_t b)
{
  if (p->blocks[b].references == 0)
    remove_reusable(p, b);
  set(p, &p->blocks[b].references, p->blocks[b].references + 1);
}

bool lls_pol_prefixes_let_go(struct lls_pol_prefixes *p, uint32_t b)
{
  LLS_POL_CHECK(b < p->n_blocks && p->blocks[b].references > 0);
  set(p, &p->blocks[b].references, p->blocks[b].references - 1);
  if (p->blocks[b].references > 0)
    return false;
  if (p->blocks[b].parent == LLS_POL_NIL)
    return true;
  append_reusable(p, b);
  return false;
}

uint32_t lls_pol_prefixes_evict(struct lls_pol_prefixes *p)
{
  uint32_t b = p->reusable_first;
  LLS_POL_CHECK(b != LLS_POL_NIL && (p->orphans || p->blocks[b].children == 0));
  remove_reusable(p, b);
  leave_index(p, b);
  return b;
}

bool lls_pol_prefixes_forget(struct lls_pol_prefixes *p, uint32_t b)
{
  const struct lls_pol_block *block = &p->blocks[b];
  if (block->references > 0 || block->parent == LLS_POL_NIL || block->children > 0)
    return false;
  remove_reusable(p, b);
  leave_index(p, b);
  return true;
}

/* Counts the blocks in list[begin, end) that several sequences hold. Without a window a
 * sequence that holds a block holds the blocks before it too, so shared blocks come first
 * and bisection finds where they end: the core calls this for every request in every
 * step. With a window they may be anywhere in the range, so all blocks are visited. */
uint32_t lls_pol_prefixes_shared(const struct lls_pol_prefixes *p,
                                 const struct lls_block_entry *list, uint32_t units,
                                 uint32_t begin, uint32_t end)
{
  uint32_t low = begin, high = end, count = 0;
  for (uint32_t i = low; p->orphans && i < high; i++)
    count += p->blocks[list[i].block / units].references > 1;
  if (p->orphans)
    return count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (p->blocks[list[middle].block / units].references > 1)
      low = middle + 1;
    else
      high = middle;
  }
  return low - begin;
}

void lls_pol_prefixes_pass(struct lls_pol_prefixes *p, struct lls_pol_state_walk *w)
{
  lls_pol_state_pass(w, &p->reusable_first, sizeof p->reusable_first);
  lls_pol_state_pass(w, &p->reusable_last, sizeof p->reusable_last);
  lls_pol_state_pass(w, &p->n_reusable, sizeof p->n_reusable);
  lls_pol_state_pass(w, p->blocks, p->n_blocks * sizeof *p->blocks);
  lls_pol_state_pass(w, p->keys, p->n_blocks * sizeof *p->keys);
  lls_pol_state_pass(w, p->buckets, ((size_t)p->bucket_mask + 1) * sizeof *p->buckets);
}
