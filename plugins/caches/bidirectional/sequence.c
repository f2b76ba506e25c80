/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on one sequence: room for more tokens and for those that are missing,
 * taking slots from the other end of a block (BROS, section 5: FindPreemptBlock and
 * FindBlock), and the ways of leaving the device.
 */
#include "bidirectional.h"

#include <errno.h>

struct request { /* for slots of one sequence */
  struct bidirectional *m;
  struct sequence *s;
  bool displace; /* slots of best-effort sequences that are not in this step */
};

/* ---- where there are slots --------------------------------------------------------- */

static bool can_displace(const struct request *q, uint32_t other)
{
  const struct bidirectional *m = q->m;
  return q->displace && other % 2 == LLS_RIGHT_TO_LEFT &&
         m->parts[other].owner != LLS_POL_NIL &&
         !is_held(m, &m->sequences[m->parts[other].owner]);
}

/* Returns the most slots that a part at this end of the block may have. */
static uint32_t usable(const struct request *q, uint32_t part)
{
  uint32_t other = part ^ 1;
  return q->m->side.block_tokens -
         (can_displace(q, other) ? 0 : q->m->parts[other].count);
}

/* Returns the lowest block whose slots are all owned by a sequence that may be
 * displaced. */
static uint32_t find_displaceable(const struct request *q)
{
  const struct bidirectional *m = q->m;
  struct block_set full = set_of(m, LLS_LEFT_TO_RIGHT, m->side.block_tokens);
  uint32_t block = q->displace ? bidi_set_next(m, full, 0) : LLS_POL_NIL;
  while (block != LLS_POL_NIL && !can_displace(q, 2 * block + LLS_RIGHT_TO_LEFT))
    block = bidi_set_next(m, full, block + 1);
  return block;
}

/* Takes a block without owners, if there is one: the lowest where no other group has
 * blocks, else one that the slabs choose. */
static uint32_t take_block(const struct request *q)
{
  struct bidirectional *m = q->m;
  struct lls_pol_slabs *pool = &m->side.slabs[LLS_TIER_DEVICE];
  uint32_t kind = m->side.kinds[LLS_TIER_DEVICE][0];
  uint32_t blocks[LLS_POL_MAX_CLASSES] = {0};
  if (m->side.n_groups == 1) {
    uint32_t block = bidi_set_next(m, set_of(m, q->s->end, 0), 0);
    if (block != LLS_POL_NIL)
      lls_pol_slabs_take_slab(pool, block);
    return block;
  }
  blocks[kind] = 1;
  uint32_t unit =
      lls_pol_slabs_fits(pool, blocks) ? lls_pol_slabs_take(pool, kind) : LLS_POL_NIL;
  return unit != LLS_POL_NIL ? lls_pol_slabs_number(pool, unit) : unit;
}

/* Returns a block of which only the other end has an owner: the one with most free slots,
 * the lowest of them; LLS_POL_NIL. */
static uint32_t find_block(const struct request *q)
{
  const struct bidirectional *m = q->m;
  bool left = q->s->end == LLS_LEFT_TO_RIGHT;
  uint32_t free = left ? 1 : (uint32_t)m->params.be_min_free_slots;
  uint32_t most_used = m->side.block_tokens - lls_pol_min(free, m->side.block_tokens);
  for (uint32_t used = 1; used <= most_used; used++) {
    uint32_t block = bidi_set_next(m, set_of(m, q->s->end, used), 0);
    if (block != LLS_POL_NIL)
      return block;
  }
  return left ? find_displaceable(q) : LLS_POL_NIL;
}

/* Takes a block for a new part: one without owners; else, if mode is not off, it holds
 * that of find_block. */
static uint32_t get_block(const struct request *q)
{
  struct bidirectional *m = q->m;
  uint32_t block = take_block(q);
  if (block != LLS_POL_NIL || m->params.mode == LEFT_END)
    return block;
  block = find_block(q);
  if (block != LLS_POL_NIL)
    lls_pol_slabs_hold(&m->side.slabs[LLS_TIER_DEVICE],
                       unit_of(m, LLS_TIER_DEVICE, block));
  return block;
}

/* Returns the last part before a token: blocks may have moved when one was taken. */
static uint32_t part_before(const struct bidirectional *m, const struct sequence *s,
                            uint32_t token)
{
  uint32_t part = s->last;
  while (part != LLS_POL_NIL && m->parts[part].first >= token)
    part = m->parts[part].previous;
  return part;
}

/* Displaces the last n tokens of the part at the other end. */
static int displace(struct bidirectional *m, uint32_t other, uint32_t n)
{
  uint32_t until = end_of(m, other);
  int rc = bidi_checkpoint(m, other, until - n, until);
  if (rc < 0)
    return rc;
  bidi_resize(m, other, m->parts[other].count - n);
  add(m, &m->counts[DISPLACED], n);
  return 0;
}

/* Slots for up to n tokens from `first` on, in part *at while it can grow, else in a new
 * one after it; how many, or -ENOSPC. */
static int place_some(const struct request *q, uint32_t *at, uint32_t first, uint32_t n)
{
  struct bidirectional *m = q->m;
  bool grow = *at != LLS_POL_NIL && usable(q, *at) > m->parts[*at].count;
  if (!has_room(m))
    return -ENOSPC;
  uint32_t block = grow ? *at / 2 : get_block(q);
  if (block == LLS_POL_NIL || !has_room(m))
    return -ENOSPC;
  if (!grow)
    *at = part_before(m, q->s, first);
  uint32_t part = 2 * block + q->s->end, other = part ^ 1, had = m->parts[part].count;
  uint32_t count = lls_pol_min(usable(q, part), had + n);
  if (count + m->parts[other].count > m->side.block_tokens) {
    int rc = displace(m, other, count + m->parts[other].count - m->side.block_tokens);
    if (rc < 0)
      return rc;
  }
  if (grow)
    bidi_resize(m, part, count);
  else
    *at = bidi_open(m, q->s, block, *at, first, count);
  return (int)(count - had);
}

/* Slots for n tokens from `first` on, behind part *at. If the host has no room for what
 * would be displaced, without displacing. */
static int place(struct request *q, uint32_t *at, uint32_t first, uint32_t n, bool cached)
{
  struct bidirectional *m = q->m;
  while (n > 0) {
    uint32_t mark = m->side.journal.n;
    int some = place_some(q, at, first, n);
    if (some < 0) {
      lls_pol_journal_rollback(&m->side.journal, mark);
      *at = part_before(m, q->s, first);
      if (!q->displace)
        return some;
      q->displace = false;
      m->counts[KEPT] += lls_pol_slabs_available(&m->side.slabs[LLS_TIER_HOST]) == 0;
      continue;
    }
    if (cached)
      bidi_copy_back(m, *at, first, first + (uint32_t)some);
    first += (uint32_t)some;
    n -= (uint32_t)some;
  }
  return 0;
}

/* ---- room -------------------------------------------------------------------------- */

/* Gives the missing tokens slots: those that they had, if these are free, else new
 * parts right after these, since the order of parts is the order of tokens. */
static int restore(struct request *q)
{
  struct bidirectional *m = q->m;
  struct sequence *s = q->s;
  for (uint32_t at = LLS_POL_NIL; missing_of(m, s) > 0;
       at = at != LLS_POL_NIL ? m->parts[at].next : s->first) {
    uint32_t next = at != LLS_POL_NIL ? m->parts[at].next : s->first,
             token = next_token(m, s, at);
    uint32_t until = next != LLS_POL_NIL ? m->parts[next].first : cached_of(m, s);
    int rc = place(q, &at, token, until - token, true);
    if (rc < 0)
      return rc;
  }
  return 0;
}

/* True if the request needs more slots than the device has. */
static bool hopeless(const struct request *q, uint32_t slots)
{
  const struct bidirectional *m = q->m;
  uint64_t all = (uint64_t)m->n_blocks * m->side.block_tokens;
  uint64_t used = (uint64_t)m->used[0] + (q->displace ? 0 : m->used[1]);
  return slots > all - used;
}

/* Gives the sequence a row, and room in the groups but the first. */
static int reserve_others(struct bidirectional *m, struct sequence *s,
                          const struct lls_request *r, uint32_t tokens)
{
  int rc = lls_pol_side_reserve(&m->side, side_of(m, s), r, tokens);
  if (rc == LLS_RESERVE_OK && !side_of(m, s)->partial)
    set(m, &side_of(m, s)->partial, 1);
  return rc;
}

/* Leading tokens that no step reads which begins behind `cached` ones, in whole groups.
 */
static uint32_t needless(const struct bidirectional *m, uint32_t cached)
{
  uint32_t begin = lls_group_begin(m->side.host->engine->groups[0], cached);
  return begin - begin % m->side.block_tokens;
}

/* Returns how many of the tokens get slots now: with a window one step's, since later
 * ones take the slots of those that leave it; all that come from another instance. */
static uint32_t steps_of(const struct bidirectional *m, const struct sequence *s,
                         const struct lls_request *r, uint32_t tokens)
{
  return m->has_window && r->cached_tokens <= cached_of(m, s)
             ? lls_pol_min(tokens, m->side.host->engine->max_step_tokens)
             : tokens;
}

int bidi_reserve(struct bidirectional *m, struct sequence *s, const struct lls_request *r,
                 uint32_t tokens, bool displace)
{
  uint64_t length = (uint64_t)cached_of(m, s) + steps_of(m, s, r, tokens);
  if ((uint64_t)cached_of(m, s) + tokens > m->most_tokens ||
      lls_pol_side_peak(&m->side, side_of(m, s), r, 0, tokens) > m->n_blocks)
    return LLS_RESERVE_NEVER;
  struct request q = {.m = m,
                      .s = s,
                      .displace = displace && s->end == LLS_LEFT_TO_RIGHT &&
                                  m->n_host_blocks > 0 && m->params.mode == BOTH_ENDS};
  uint32_t mark = m->side.journal.n;
  bool begins = side_of(m, s)->where == LLS_POL_NOWHERE;
  int others = reserve_others(m, s, r, tokens);
  if (others != LLS_RESERVE_OK || room_of(s) >= length)
    return others;
  if (begins)
    set(m, &s->gone, needless(m, r->cached_tokens));
  int rc = hopeless(&q, (uint32_t)length - room_of(s)) ? -ENOSPC : restore(&q);
  uint32_t at = s->last;
  if (rc == 0)
    rc = place(&q, &at, room_of(s), (uint32_t)length - room_of(s), false);
  if (rc < 0)
    lls_pol_journal_rollback(&m->side.journal, mark);
  return rc < 0 ? LLS_RESERVE_LATER : LLS_RESERVE_OK;
}

uint32_t bidi_tail(const struct bidirectional *m, const struct sequence *s)
{
  return s->last != LLS_POL_NIL ? m->side.block_tokens - m->parts[s->last].count -
                                      m->parts[s->last ^ 1].count
                                : 0;
}

uint32_t bidi_restore_units(const struct bidirectional *m, const struct sequence *s)
{
  uint32_t units = 0, token = s->gone;
  if (missing_of(m, s) == 0)
    return 0;
  for (uint32_t at = s->first, before = LLS_POL_NIL;;
       before = at, at = m->parts[at].next) {
    uint32_t until = at != LLS_POL_NIL ? m->parts[at].first : cached_of(m, s);
    uint32_t free =
        before != LLS_POL_NIL
            ? m->side.block_tokens - m->parts[before].count - m->parts[before ^ 1].count
            : 0;
    units += until - token > free
                 ? m->units * lls_pol_side_blocks(&m->side, until - token - free)
                 : 0;
    if (at == LLS_POL_NIL)
      return units;
    token = end_of(m, at);
  }
}

/* ---- leaving ----------------------------------------------------------------------- */

/* Gives back the slots after the sequence's cached tokens. One that was to arrive from
 * another instance, and did not, has gone tokens that it never had. */
static void trim(struct bidirectional *m, struct sequence *s)
{
  while (in_step(m, s) && s->last != LLS_POL_NIL) {
    uint32_t spare = spare_of(m, s), count = m->parts[s->last].count;
    bidi_resize(m, s->last, count > spare ? count - spare : 0);
  }
  if (s->gone > cached_of(m, s))
    set(m, &s->gone, cached_of(m, s));
}

int bidi_drop(struct bidirectional *m, struct sequence *s)
{
  uint32_t mark = m->side.journal.n;
  if (!lls_pol_journal_has_room(&m->side.journal,
                                64 + UINT64_C(48) * s->parts +
                                    (32 + m->bit_words) * (uint64_t)s->host_blocks))
    return -ENOBUFS;
  while (s->last != LLS_POL_NIL)
    bidi_resize(m, s->last, 0);
  bidi_free_host(m, s, m->groups);
  set(m, &s->gone, 0);
  int rc = lls_pol_side_drop(&m->side, side_of(m, s));
  if (rc < 0)
    lls_pol_journal_rollback(&m->side.journal, mark);
  return rc;
}

/* The parts, the last one first. */
static int swap_parts(struct bidirectional *m, struct sequence *s)
{
  while (s->last != LLS_POL_NIL) {
    uint32_t part = s->last;
    int rc = has_room(m) ? bidi_checkpoint(m, part, m->parts[part].first, end_of(m, part))
                         : -ENOSPC;
    if (rc < 0)
      return rc;
    bidi_resize(m, part, 0);
  }
  return 0;
}

int bidi_swap_out(struct bidirectional *m, struct sequence *s)
{
  uint32_t mark = m->side.journal.n;
  int rc = lls_pol_side_swap_out(&m->side, side_of(m, s));
  trim(m, s);
  if (rc == 0)
    rc = swap_parts(m, s);
  if (rc < 0)
    lls_pol_journal_rollback(&m->side.journal, mark);
  return rc;
}

/* Gives back leading parts, and copies, of tokens that no later step reads. A part
 * with a later token stays. */
static void trim_front(struct bidirectional *m, struct sequence *s)
{
  uint32_t begin = needless(m, cached_of(m, s)), gone = begin;
  while (s->first != LLS_POL_NIL && end_of(m, s->first) <= begin)
    bidi_resize(m, s->first, 0);
  if (s->first != LLS_POL_NIL)
    gone = lls_pol_min(begin, m->parts[s->first].first);
  if (gone <= s->gone)
    return;
  bidi_free_host(m, s, begin / m->side.block_tokens);
  s->gone = gone;
}

void bidi_computed(struct bidirectional *m, struct sequence *s,
                   const struct lls_request *r, uint32_t cached)
{
  if (!in_step(m, s))
    return;
  lls_pol_side_computed(&m->side, side_of(m, s), r, lls_pol_min(cached, room_of(s)));
  trim(m, s);
  trim_front(m, s);
}
