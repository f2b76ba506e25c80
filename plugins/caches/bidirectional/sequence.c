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
         !is_held(&m->sequences[m->parts[other].owner]);
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
  const struct block_set *full = set_of(m, LLS_LEFT_TO_RIGHT, m->side.block_tokens);
  uint32_t block = LLS_POL_NIL;
  if (q->displace)
    for (block = bidi_set_next(full, m->n_blocks, 0);
         block != LLS_POL_NIL && !can_displace(q, 2 * block + LLS_RIGHT_TO_LEFT);)
      block = bidi_set_next(full, m->n_blocks, block + 1);
  return block;
}

/* Returns a block whose part at this end has no owner: the one with most free slots,
 * the lowest of them; LLS_POL_NIL. With mode = off only blocks without an owner. */
static uint32_t find_block(const struct request *q)
{
  const struct bidirectional *m = q->m;
  bool left = q->s->end == LLS_LEFT_TO_RIGHT;
  uint32_t free = left ? 1 : (uint32_t)m->params.be_min_free_slots;
  uint32_t most_used = m->side.block_tokens - lls_pol_min(free, m->side.block_tokens);
  if (m->params.mode == LEFT_END)
    most_used = 0;
  for (uint32_t used = 0; used <= most_used; used++) {
    const struct block_set *blocks = set_of(m, q->s->end, used);
    if (blocks->n > 0)
      return bidi_set_next(blocks, m->n_blocks, 0);
  }
  return left ? find_displaceable(q) : LLS_POL_NIL;
}

/* Displaces the last n tokens of the part at the other end. */
static int displace(struct bidirectional *m, uint32_t other, uint32_t n)
{
  uint32_t until = end_of(m, other);
  int rc = bidi_checkpoint(m, other, until - n, until);
  if (rc < 0)
    return rc;
  bidi_resize(m, other, m->parts[other].count - n);
  add(m, &m->displaced, n);
  return 0;
}

/* Slots for up to n tokens from `first` on, in part *at while it can grow, else in a new
 * one after it; how many, or -ENOSPC. */
static int place_some(const struct request *q, uint32_t *at, uint32_t first, uint32_t n)
{
  struct bidirectional *m = q->m;
  bool grow = *at != LLS_POL_NIL && usable(q, *at) > m->parts[*at].count;
  uint32_t block = grow ? *at / 2 : find_block(q);
  if (block == LLS_POL_NIL || !has_room(m))
    return -ENOSPC;
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
      if (!q->displace)
        return some;
      q->displace = false;
      m->kept_by_host += lls_pol_slabs_available(&m->side.slabs[LLS_TIER_HOST]) == 0;
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
  for (uint32_t at = LLS_POL_NIL; missing_of(s) > 0;
       at = at != LLS_POL_NIL ? m->parts[at].next : s->first) {
    uint32_t next = at != LLS_POL_NIL ? m->parts[at].next : s->first,
             token = end_of(m, at);
    uint32_t until = next != LLS_POL_NIL ? m->parts[next].first : s->cached;
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

int bidi_reserve(struct bidirectional *m, struct sequence *s, uint32_t tokens,
                 bool displace)
{
  uint64_t length = (uint64_t)s->cached + tokens;
  if (length > m->most_tokens)
    return LLS_RESERVE_NEVER;
  struct request q = {.m = m,
                      .s = s,
                      .displace = displace && s->end == LLS_LEFT_TO_RIGHT &&
                                  m->n_host_blocks > 0 && m->params.mode == BOTH_ENDS};
  uint32_t mark = m->side.journal.n;
  if (s->slots >= length)
    return LLS_RESERVE_OK;
  if (hopeless(&q, (uint32_t)length - s->slots))
    return LLS_RESERVE_LATER;
  int rc = restore(&q);
  uint32_t at = s->last;
  if (rc == 0)
    rc = place(&q, &at, s->slots, (uint32_t)length - s->slots, false);
  if (rc < 0)
    lls_pol_journal_rollback(&m->side.journal, mark);
  return rc < 0 ? LLS_RESERVE_LATER : LLS_RESERVE_OK;
}

int bidi_bring_back(struct bidirectional *m, struct sequence *s)
{
  struct request q = {.m = m, .s = s};
  return hopeless(&q, missing_of(s)) ? -ENOSPC : restore(&q);
}

uint32_t bidi_tail(const struct bidirectional *m, const struct sequence *s)
{
  return s->last != LLS_POL_NIL ? m->side.block_tokens - m->parts[s->last].count -
                                      m->parts[s->last ^ 1].count
                                : 0;
}

uint32_t bidi_restore_units(const struct bidirectional *m, const struct sequence *s)
{
  uint32_t units = 0, token = 0;
  if (missing_of(s) == 0)
    return 0;
  for (uint32_t at = s->first, before = LLS_POL_NIL;;
       before = at, at = m->parts[at].next) {
    uint32_t until = at != LLS_POL_NIL ? m->parts[at].first : s->cached;
    uint32_t free =
        before != LLS_POL_NIL
            ? m->side.block_tokens - m->parts[before].count - m->parts[before ^ 1].count
            : 0;
    units += until - token > free ? m->units * blocks_of(m, until - token - free) : 0;
    if (at == LLS_POL_NIL)
      return units;
    token = end_of(m, at);
  }
}

/* ---- leaving ----------------------------------------------------------------------- */

/* Gives back the slots after the sequence's cached tokens. */
static void trim(struct bidirectional *m, struct sequence *s)
{
  while (in_step(s)) {
    uint32_t spare = s->slots - s->cached, count = m->parts[s->last].count;
    bidi_resize(m, s->last, count > spare ? count - spare : 0);
  }
}

void bidi_drop(struct bidirectional *m, struct sequence *s)
{
  while (s->last != LLS_POL_NIL)
    bidi_resize(m, s->last, 0);
  bidi_free_host(m, s);
  set(m, &s->cached, 0);
}

int bidi_swap_out(struct bidirectional *m, struct sequence *s)
{
  uint32_t mark = m->side.journal.n;
  trim(m, s);
  while (s->last != LLS_POL_NIL) {
    uint32_t part = s->last;
    int rc = has_room(m) ? bidi_checkpoint(m, part, m->parts[part].first, end_of(m, part))
                         : -ENOSPC;
    if (rc < 0) {
      lls_pol_journal_rollback(&m->side.journal, mark);
      return rc;
    }
    bidi_resize(m, part, 0);
  }
  return 0;
}

void bidi_computed(struct bidirectional *m, struct sequence *s, uint32_t cached)
{
  if (!in_step(s))
    return;
  s->cached = lls_pol_min(cached, s->slots);
  trim(m, s);
}
