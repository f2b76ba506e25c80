/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Automatic prefix sharing: a sequence's use of the index of full blocks.
 *
 * Only computed() adds blocks to the index, when their contents exist. If a sequence has
 * computed a block that the index has already (two equal prompts at once), it takes the
 * indexed block and frees its own.
 */
#include "paged.h"

/* Returns how many of the request's indexed blocks [from, n) have no holder. */
static uint32_t unheld(const struct paged *m, const struct lls_request *r, uint32_t from,
                       uint32_t n)
{
  uint32_t parent = LLS_POL_ROOT, count = 0;
  for (uint32_t i = 0; i < n; i++) {
    parent = lls_pol_prefixes_next(&m->index, r, i, parent);
    count += i >= from && m->index.blocks[parent].references == 0;
  }
  return count;
}

/* How many leading blocks of the request can be taken from the index. */
static uint32_t match(const struct paged *m, const struct lls_request *r)
{
  uint32_t length = lls_request_length(r);
  uint32_t n = lls_pol_prefixes_match(&m->index, r, m->row_blocks);
  /* All tokens are cached: the last one is computed again for its logits, into a copy
   * of its block (copy-on-write in reserve). If there is no block for the copy, the
   * request does not take the last block, or it might wait forever for memory that it
   * holds itself. */
  if (n > 0 && n * m->block_tokens == length &&
      available(m) == unheld(m, r, needless_blocks(m, length - 1), n))
    n--;
  return n;
}

/* Takes n blocks from the index. Blocks before the window at `tokens` are released again,
 * which makes them the newest of the reusable list. The last block is always held, since
 * the next one is indexed as its child. */
static void take_blocks(struct paged *m, struct sequence *s, const struct lls_request *r,
                        uint32_t n, uint32_t tokens)
{
  uint32_t parent = LLS_POL_ROOT, gone = lls_pol_min(needless_blocks(m, tokens), n - 1);
  set(m, &s->row, paged_take_row(m));
  for (uint32_t i = 0; i < n; i++) {
    parent = lls_pol_prefixes_next(&m->index, r, i, parent);
    lls_pol_prefixes_hold(&m->index, parent);
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

/* Adds a sequence's full blocks to the index. A block given back before it was indexed
 * (of a sequence that was on the host, or was handed over) can't be a parent: then no
 * further block of the sequence is added. */
void paged_index(struct paged *m, struct sequence *s, const struct lls_request *r)
{
  if (s->gone > 0 && s->indexed <= s->gone)
    return;
  for (; s->indexed < s->cached / m->block_tokens; s->indexed++) {
    uint32_t i = s->indexed, own = block_at(m, s, i);
    uint32_t parent = i == 0 ? LLS_POL_ROOT : block_at(m, s, i - 1);
    uint32_t known = lls_pol_prefixes_next(&m->index, r, i, parent);
    if (known == LLS_POL_NIL) {
      lls_pol_prefixes_insert(&m->index, own, parent, &r->keys[i]);
    } else {
      lls_pol_prefixes_hold(&m->index, known);
      paged_put(m, s, i, known);
      paged_let_go(m, own);
    }
  }
}

/* ---- prefixes that outlive the process --------------------------------------------- */

/* Lists reusable blocks, the last released first, so that each parent, which is released
 * after its children, precedes them. With a window a parent may have been evicted; then
 * the child is left out. */
size_t paged_kept(struct paged *m, struct lls_kept_block *out, size_t max)
{
  size_t n = 0;
  uint32_t *place = m->marks; /* (n_blocks) in out */
  for (uint32_t b = 0; b < m->n_blocks; b++)
    place[b] = LLS_NO_BLOCK;
  for (uint32_t b = m->index.reusable_last; b != LLS_POL_NIL && n < max;
       b = m->index.blocks[b].previous) {
    const struct lls_pol_block *block = &m->index.blocks[b];
    bool first = block->parent == LLS_POL_ROOT;
    if (!first && (place[block->parent] == LLS_NO_BLOCK ||
                   block->parent_generation != m->index.blocks[block->parent].generation))
      continue;
    place[b] = (uint32_t)n;
    out[n++] =
        (struct lls_kept_block){.parent = first ? LLS_NO_BLOCK : place[block->parent],
                                .form = LLS_FORM_KV,
                                .unit = b * m->units,
                                .key = m->index.keys[b]};
  }
  return n;
}

/* Returns false if the block is of another group or form, if its parent was not adopted,
 * or if the index has the block. */
static bool adopt_block(struct paged *m, struct lls_kept_block *blocks, size_t i)
{
  struct lls_kept_block *kept = &blocks[i];
  uint32_t parent = LLS_POL_ROOT;
  if (kept->group != 0 || kept->form != LLS_FORM_KV ||
      (kept->parent != LLS_NO_BLOCK && kept->parent >= i))
    return false;
  if (kept->parent != LLS_NO_BLOCK)
    parent = blocks[kept->parent].unit / m->units;
  if (lls_pol_prefixes_find(&m->index, parent, &kept->key) != LLS_POL_NIL)
    return false;
  uint32_t b = paged_take(m);
  lls_pol_prefixes_insert(&m->index, b, parent, &kept->key);
  kept->unit = b * m->units;
  return true;
}

/* Holds all adopted blocks at first, then releases them in their former order. */
size_t paged_adopt(struct paged *m, struct lls_kept_block *blocks, size_t n)
{
  size_t taken = 0;
  while (m->prefix_sharing && taken < n && m->n_free > 0 && adopt_block(m, blocks, taken))
    taken++;
  for (size_t i = taken; i-- > 0;)
    paged_let_go(m, blocks[i].unit / m->units);
  return taken;
}

uint32_t paged_shared_blocks(const struct paged *m, const struct sequence *s)
{
  return lls_pol_prefixes_shared(&m->index, list_of(m, s->row), m->units, s->gone,
                                 s->past);
}
