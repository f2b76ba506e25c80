/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ownership of the ends of blocks: parts, their places on their owners' lists, and the
 * sets of blocks that have an end for another request.
 */
#include "bidirectional.h"

#include <string.h>

/* ---- sets of blocks ---------------------------------------------------------------- */

bool bidi_set_has(struct block_set s, uint32_t block)
{
  return s.words[block / 32] >> block % 32 & 1;
}

/* Puts a block into a set, or takes it out. */
static void put(struct bidirectional *m, struct block_set s, uint32_t block, bool in)
{
  uint32_t *word = &s.words[block / 32], *summary = &s.summary[block / 1024];
  uint32_t bit = 1u << block / 32 % 32;
  LLS_POL_CHECK(block < m->n_blocks && bidi_set_has(s, block) != in);
  set(m, word, *word ^ 1u << block % 32);
  set(m, summary, *word != 0 ? *summary | bit : *summary & ~bit);
}

static uint32_t lowest(uint32_t word)
{
  return (uint32_t)__builtin_ctz(word);
}

uint32_t bidi_set_next(const struct bidirectional *m, struct block_set s, uint32_t from)
{
  uint32_t word = from / 32, n_words = words_of(m->n_blocks);
  if (from >= m->n_blocks)
    return LLS_POL_NIL;
  uint32_t bits = s.words[word] & (UINT32_MAX << from % 32);
  if (bits != 0)
    return 32 * word + lowest(bits);
  word++;
  for (uint32_t i = word / 32; i < words_of(n_words); i++, word = 32 * i) {
    uint32_t words = s.summary[i] & (UINT32_MAX << word % 32);
    if (words != 0) {
      word = 32 * i + lowest(words);
      return 32 * word + lowest(s.words[word]);
    }
  }
  return LLS_POL_NIL;
}

void bidi_make_sets(struct bidirectional *m)
{
  memset(m->set_words, 0, bidi_set_bytes(m));
  for (uint32_t part = 0; part < 2 * m->n_blocks; part++)
    if (m->parts[part].owner == LLS_POL_NIL)
      put(m, set_of(m, part % 2, m->parts[part ^ 1].count), part / 2, true);
}

/* ---- parts ------------------------------------------------------------------------- */

static struct sequence *owner_of(const struct bidirectional *m, uint32_t part)
{
  uint32_t owner = m->parts[part].owner;
  return owner != LLS_POL_NIL ? &m->sequences[owner] : NULL;
}

/* Counts one shared part more, or less, for both owners of a block. */
static void count_sharing(struct bidirectional *m, struct sequence *s, uint32_t other,
                          uint32_t n)
{
  struct sequence *neighbour = owner_of(m, other);
  if (neighbour == NULL)
    return;
  add(m, &s->sharing, n);
  add(m, &neighbour->sharing, n);
}

static void link_part(struct bidirectional *m, struct sequence *s, uint32_t part,
                      uint32_t after)
{
  uint32_t before = after != LLS_POL_NIL ? m->parts[after].next : s->first;
  LLS_POL_CHECK(next_token(m, s, after) <= m->parts[part].first);
  set(m, &m->parts[part].previous, after);
  set(m, &m->parts[part].next, before);
  set(m, after != LLS_POL_NIL ? &m->parts[after].next : &s->first, part);
  set(m, before != LLS_POL_NIL ? &m->parts[before].previous : &s->last, part);
}

static void unlink_part(struct bidirectional *m, struct sequence *s, uint32_t part)
{
  uint32_t after = m->parts[part].previous, before = m->parts[part].next;
  LLS_POL_CHECK((after != LLS_POL_NIL ? m->parts[after].next : s->first) == part);
  LLS_POL_CHECK((before != LLS_POL_NIL ? m->parts[before].previous : s->last) == part);
  set(m, after != LLS_POL_NIL ? &m->parts[after].next : &s->first, before);
  set(m, before != LLS_POL_NIL ? &m->parts[before].previous : &s->last, after);
}

uint32_t bidi_open(struct bidirectional *m, struct sequence *s, uint32_t block,
                   uint32_t after, uint32_t first, uint32_t count)
{
  uint32_t part = 2 * block + s->end, other = part ^ 1;
  LLS_POL_CHECK(m->parts[part].owner == LLS_POL_NIL && m->parts[part].count == 0);
  LLS_POL_CHECK(count > 0 && count + m->parts[other].count <= m->side.block_tokens);
  put(m, set_of(m, s->end, m->parts[other].count), block, false);
  set(m, &m->parts[part].owner, (uint32_t)(s - m->sequences));
  set(m, &m->parts[part].first, first);
  if (after != s->last)
    s->listed = 0;
  link_part(m, s, part, after);
  add(m, &s->parts, 1);
  count_sharing(m, s, other, 1);
  bidi_resize(m, part, count);
  return part;
}

static void close_part(struct bidirectional *m, uint32_t part)
{
  struct sequence *s = owner_of(m, part);
  struct lls_pol_slabs *pool = &m->side.slabs[LLS_TIER_DEVICE];
  LLS_POL_CHECK(m->parts[part].count == 0 && s->parts > 0);
  unlink_part(m, s, part);
  add(m, &s->parts, UINT32_MAX);
  count_sharing(m, s, part ^ 1, UINT32_MAX);
  set(m, &m->parts[part].owner, LLS_POL_NIL);
  put(m, set_of(m, part % 2, m->parts[part ^ 1].count), part / 2, true);
  if (lls_pol_slabs_let_go(pool, unit_of_part(m, part)))
    lls_pol_slabs_free(pool, unit_of_part(m, part));
}

void bidi_resize(struct bidirectional *m, uint32_t part, uint32_t count)
{
  struct part *p = &m->parts[part];
  struct sequence *s = owner_of(m, part);
  uint32_t before = p->count, other = part ^ 1;
  LLS_POL_CHECK(s != NULL && count + m->parts[other].count <= m->side.block_tokens);
  LLS_POL_CHECK(before <= s->slots && before <= m->used[part % 2]);
  if (m->parts[other].owner == LLS_POL_NIL && before != count) {
    put(m, set_of(m, other % 2, before), part / 2, false);
    put(m, set_of(m, other % 2, count), part / 2, true);
  }
  s->listed = part == s->last ? lls_pol_min(s->listed, s->parts - 1) : 0;
  set(m, &p->count, count);
  add(m, &s->slots, count - before);
  add(m, &m->used[part % 2], count - before);
  if (count == 0)
    close_part(m, part);
}

void bidi_list(const struct bidirectional *m, struct sequence *s)
{
  struct lls_block_entry *list = lls_pol_rows_entries(&m->side.rows, side_of(m, s), 0);
  uint32_t at = s->last;
  LLS_POL_CHECK(s->listed <= s->parts && s->parts <= m->side.rows.row_blocks);
  for (uint32_t i = s->parts; i-- > s->listed; at = m->parts[at].previous)
    list[i] = bidi_entry(m, at);
  s->listed = s->parts;
}

/* ---- blocks of the slabs that move ------------------------------------------------- */

/* Is the block of a sequence that moves? Copies beside the step read or write it. */
static bool is_pinned(const struct bidirectional *m, uint32_t block)
{
  const struct sequence *left = owner_of(m, 2 * block),
                        *right = owner_of(m, 2 * block + 1);
  return (left != NULL && left->moving != NOT_MOVING) ||
         (right != NULL && right->moving != NOT_MOVING);
}

static void move_part(struct bidirectional *m, uint32_t from, uint32_t to)
{
  struct part *p = &m->parts[from];
  struct sequence *s = owner_of(m, from);
  if (s == NULL)
    return;
  set(m, &m->parts[to].owner, p->owner);
  set(m, &m->parts[to].first, p->first);
  set(m, &m->parts[to].count, p->count);
  set(m, &m->parts[to].previous, p->previous);
  set(m, &m->parts[to].next, p->next);
  set(m, p->previous != LLS_POL_NIL ? &m->parts[p->previous].next : &s->first, to);
  set(m, p->next != LLS_POL_NIL ? &m->parts[p->next].previous : &s->last, to);
  set(m, &p->owner, LLS_POL_NIL);
  set(m, &p->count, 0);
  s->listed = 0;
}

static void move_block(struct bidirectional *m, uint32_t from, uint32_t to)
{
  for (uint32_t end = 0; end < 2; end++) {
    uint32_t count = m->parts[2 * from + (end ^ 1)].count;
    put(m, set_of(m, end, 0), to, false);
    if (m->parts[2 * from + end].owner == LLS_POL_NIL) {
      put(m, set_of(m, end, count), from, false);
      put(m, set_of(m, end, count), to, true);
    }
    put(m, set_of(m, end, 0), from, true);
  }
  move_part(m, 2 * from, 2 * to);
  move_part(m, 2 * from + 1, 2 * to + 1);
}

bool bidi_blocks_moved(void *manager, uint32_t first, uint32_t block_units,
                       const uint32_t *to, uint32_t n)
{
  struct bidirectional *m = manager;
  const struct lls_pol_slabs *pool = &m->side.slabs[LLS_TIER_DEVICE];
  if (lls_pol_slabs_class(pool, block_units) != m->side.kinds[LLS_TIER_DEVICE][0])
    return true;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t from = lls_pol_slabs_number(pool, first + i * block_units);
    if (to[i] == LLS_POL_NIL)
      continue;
    if (is_pinned(m, from) || !has_room(m))
      return false;
    move_block(m, from, lls_pol_slabs_number(pool, to[i]));
  }
  return true;
}
