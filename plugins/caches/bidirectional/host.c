/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of tokens on the host. A copy is made when a token loses its slot, or during the
 * step before if this can be foreseen (transfer.c). It is kept for later displacements
 * until its memory is needed (BROS, section 5: checkpointing). A host block has a holder
 * while one of its tokens is not on the device, or its sequence moves; else
 * the host's slabs keep it (policy/slabs.h): it is *idle*.
 *
 * All copies of a step are carried out in the order in which they are listed, those
 * BEFORE_STEP before any slot is written. So a slot that such a copy reads may be given
 * away at once, and what was copied out can be copied back by the same step.
 */
#include "bidirectional.h"

#include <errno.h>

static uint32_t *bits_of(const struct bidirectional *m, uint32_t block)
{
  return m->host_bits + (size_t)block * m->bit_words;
}

static bool has_copy(const struct bidirectional *m, uint32_t block, uint32_t token)
{
  uint32_t i = token % m->side.block_tokens;
  return bits_of(m, block)[i / 32] >> i % 32 & 1;
}

/* Tokens [from, until) of one group. */
static void mark_copied(struct bidirectional *m, uint32_t block, uint32_t from,
                        uint32_t until)
{
  uint32_t i = from % m->side.block_tokens, end = i + until - from;
  while (i < end) {
    uint32_t *word = &bits_of(m, block)[i / 32], n = lls_pol_min(32 - i % 32, end - i);
    set(m, word, *word | (UINT32_MAX >> (32 - n)) << i % 32);
    i += n;
  }
}

/* ---- blocks ------------------------------------------------------------------------ */

static struct lls_pol_slabs *pool_of(struct bidirectional *m)
{
  return &m->side.slabs[LLS_TIER_HOST];
}

static void hold(struct bidirectional *m, uint32_t block)
{
  lls_pol_slabs_hold(pool_of(m), unit_of(m, LLS_TIER_HOST, block));
}

static void let_go(struct bidirectional *m, uint32_t block)
{
  lls_pol_slabs_let_go(pool_of(m), unit_of(m, LLS_TIER_HOST, block));
}

static void free_block(struct bidirectional *m, uint32_t block)
{
  struct host_block *h = &m->host_blocks[block];
  struct sequence *s = &m->sequences[h->owner];
  LLS_POL_CHECK(h->owner < m->n_slots && s->host_blocks > 0);
  LLS_POL_CHECK(table_of(m, s)[h->group] == block + 1);
  set(m, &table_of(m, s)[h->group], 0);
  add(m, &s->host_blocks, UINT32_MAX);
  if (!is_idle(m, h))
    let_go(m, block);
  for (uint32_t i = 0; i < m->bit_words; i++)
    if (bits_of(m, block)[i] != 0)
      set(m, &bits_of(m, block)[i], 0);
  set(m, &h->missing, 0);
  set(m, &h->owner, LLS_POL_NIL);
  lls_pol_slabs_free(pool_of(m), unit_of(m, LLS_TIER_HOST, block));
}

void bidi_hold_copies(struct bidirectional *m, const struct sequence *s, bool holds)
{
  uint32_t left = s->host_blocks;
  for (uint32_t group = 0; left > 0; group++) {
    uint32_t block = table_of(m, s)[group];
    left -= block != 0;
    if (block != 0 && m->host_blocks[block - 1].missing == 0)
      (holds ? hold : let_go)(m, block - 1);
  }
}

void bidi_free_host(struct bidirectional *m, struct sequence *s, uint32_t groups)
{
  for (uint32_t group = s->gone / m->side.block_tokens;
       group < groups && s->host_blocks > 0; group++)
    if (table_of(m, s)[group] != 0)
      free_block(m, table_of(m, s)[group] - 1);
}

/* Returns the next idle host block from host_hand on; there must be one. */
static uint32_t next_idle(void *self, uint32_t kind, uint32_t *since)
{
  const struct bidirectional *m = self;
  uint32_t block = m->host_hand;
  (void)kind, (void)since; /* no others are kept on the host */
  while (m->host_blocks[block].owner == LLS_POL_NIL ||
         !is_idle(m, &m->host_blocks[block]))
    block = block + 1 < m->n_host_blocks ? block + 1 : 0;
  return unit_of(m, LLS_TIER_HOST, block);
}

static bool drop_idle(void *self, uint32_t unit)
{
  struct bidirectional *m = self;
  uint32_t block = lls_pol_slabs_number(pool_of(m), unit);
  free_block(m, block);
  set(m, &m->host_hand, block + 1 < m->n_host_blocks ? block + 1 : 0);
  return true;
}

struct lls_pol_slabs_owner bidi_host_owner(struct bidirectional *m)
{
  return (struct lls_pol_slabs_owner){m, next_idle, drop_idle, NULL};
}

/* Returns the host block of a group of the sequence's tokens, a new one if there is
 * none; LLS_POL_NIL if the host is full. */
static uint32_t block_for(struct bidirectional *m, struct sequence *s, uint32_t group)
{
  uint32_t *entry = &table_of(m, s)[group];
  if (*entry != 0)
    return *entry - 1;
  uint32_t unit = lls_pol_slabs_take(pool_of(m), m->side.kinds[LLS_TIER_HOST][0]);
  if (unit == LLS_POL_NIL)
    return unit;
  uint32_t block = lls_pol_slabs_number(pool_of(m), unit);
  struct host_block *h = &m->host_blocks[block];
  LLS_POL_CHECK(h->owner == LLS_POL_NIL && h->missing == 0);
  set(m, &h->owner, (uint32_t)(s - m->sequences));
  set(m, &h->group, group);
  set(m, entry, block + 1);
  add(m, &s->host_blocks, 1);
  if (is_idle(m, h))
    let_go(m, block);
  return block;
}

/* ---- copies ------------------------------------------------------------------------ */

/* Returns the lowest slot of tokens [from, until) in a block filled from its end `end`,
 * in whose outermost slot token `first` is. */
static uint32_t slot_of(const struct bidirectional *m, uint32_t end, uint32_t first,
                        uint32_t from, uint32_t until)
{
  return end == LLS_LEFT_TO_RIGHT ? from - first : m->side.block_tokens - (until - first);
}

/* Tokens [from, until) of one group, between a part and a host block; of a
 * sequence that is being moved, as part of that. */
static void list_copies(struct bidirectional *m, uint32_t part, uint32_t block,
                        uint32_t from, uint32_t until, bool to_host,
                        enum lls_copy_order order)
{
  uint32_t end = part % 2, group = from - from % m->side.block_tokens;
  uint32_t owner = m->parts[part].owner;
  uint32_t here = slot_of(m, end, m->parts[part].first, from, until);
  uint32_t there = slot_of(m, end, group, from, until);
  LLS_POL_CHECK(from < until && until <= group + m->side.block_tokens);
  uint32_t device = unit_of_part(m, part), host = unit_of(m, LLS_TIER_HOST, block);
  const struct lls_copy copy = {
      .source_tier = to_host ? LLS_TIER_DEVICE : LLS_TIER_HOST,
      .target_tier = to_host ? LLS_TIER_HOST : LLS_TIER_DEVICE,
      .order = (uint8_t)order,
      .source_form = LLS_FORM_KV,
      .target_form = LLS_FORM_KV,
      .slot = (uint16_t)(to_host ? here : there),
      .n_slots = (uint16_t)(until - from),
      .shift = (int16_t)(to_host ? (int)there - (int)here : (int)here - (int)there),
      .source = to_host ? device : host,
      .target = to_host ? host : device,
      .transfer = m->sequences[owner].moving != NOT_MOVING ? owner + 1 : 0,
  };
  lls_pol_side_copy(&m->side, &copy);
}

/* Copies the tokens in [from, until) of one group that have no copy, by one copy from the
 * first to the last of them. Returns how many. */
static uint32_t copy_out(struct bidirectional *m, uint32_t part, uint32_t block,
                         uint32_t from, uint32_t until, enum lls_copy_order order)
{
  while (from < until && has_copy(m, block, from))
    from++;
  while (from < until && has_copy(m, block, until - 1))
    until--;
  if (from == until)
    return 0;
  list_copies(m, part, block, from, until, true, order);
  mark_copied(m, block, from, until);
  add(m, &m->counts[CHECKPOINTED], until - from);
  return until - from;
}

static uint32_t group_end(const struct bidirectional *m, uint32_t token, uint32_t until)
{
  return lls_pol_min(until, token - token % m->side.block_tokens + m->side.block_tokens);
}

int bidi_checkpoint(struct bidirectional *m, uint32_t part, uint32_t from, uint32_t until)
{
  struct sequence *s = &m->sequences[m->parts[part].owner];
  for (uint32_t end; from < until; from = end) {
    end = group_end(m, from, until);
    uint32_t block = block_for(m, s, from / m->side.block_tokens);
    if (block == LLS_POL_NIL)
      return -ENOSPC;
    copy_out(m, part, block, from, end, LLS_COPY_BEFORE_STEP);
    if (is_idle(m, &m->host_blocks[block]))
      hold(m, block);
    add(m, &m->host_blocks[block].missing, end - from);
  }
  return 0;
}

bool bidi_copy_ahead(struct bidirectional *m, uint32_t part)
{
  struct sequence *s = &m->sequences[m->parts[part].owner];
  uint32_t from = m->parts[part].first;
  uint32_t until = lls_pol_min(end_of(m, part), cached_of(m, s));
  for (uint32_t end; from < until; from = end) {
    uint32_t group = from / m->side.block_tokens;
    end = group_end(m, from, until);
    if (!has_room(m) ||
        (table_of(m, s)[group] == 0 &&
         !lls_pol_slabs_has_free(pool_of(m), m->side.kinds[LLS_TIER_HOST][0])))
      return false;
    uint32_t block = block_for(m, s, group);
    add(m, &m->counts[AHEAD], copy_out(m, part, block, from, end, LLS_COPY_ASYNC));
  }
  return true;
}

void bidi_copy_back(struct bidirectional *m, uint32_t part, uint32_t from, uint32_t until)
{
  struct sequence *s = &m->sequences[m->parts[part].owner];
  enum lls_copy_order order =
      s->moving != NOT_MOVING ? LLS_COPY_ASYNC : LLS_COPY_BEFORE_STEP;
  add(m, &m->counts[RESTORED], until - from);
  for (uint32_t end; from < until; from = end) {
    end = group_end(m, from, until);
    uint32_t block = table_of(m, s)[from / m->side.block_tokens] - 1;
    LLS_POL_CHECK(block < m->n_host_blocks && /* invariant 3 */
                  m->host_blocks[block].missing >= end - from);
    list_copies(m, part, block, from, end, false, order);
    add(m, &m->host_blocks[block].missing, from - end);
    if (m->host_blocks[block].missing > 0)
      continue;
    if (is_idle(m, &m->host_blocks[block]))
      let_go(m, block);
    if (!m->params.keep_host_copy && s->moving == NOT_MOVING)
      free_block(m, block);
  }
}
