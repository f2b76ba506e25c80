/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on one sequence in a transaction: reserving slots for more tokens, with
 * copy-on-write and swap-in; dropping and swapping out; and giving back blocks that have
 * left the window.
 *
 * Blocks that a copy reads may be given to another sequence in the same step: all copies
 * end before the forward pass writes, and are carried out in the order they are listed.
 */
#include "paged.h"

#include <errno.h>

static bool copies_have_room(const struct paged *m, uint32_t blocks)
{
  return m->n_copies + (uint64_t)blocks <= m->max_copies;
}

/* Lists the copy of a block's first `slots` slots. */
static void copy_block(struct paged *m, enum lls_tier from, enum lls_tier to,
                       uint32_t source, uint32_t target, uint32_t slots)
{
  if (slots == 0) /* copy-on-write of a block of one token: it is computed again */
    return;
  m->copies[m->n_copies] = (struct lls_copy){
      .source_tier = (uint8_t)from,
      .target_tier = (uint8_t)to,
      .order = LLS_COPY_BEFORE_STEP,
      .source_form = LLS_FORM_KV,
      .target_form = LLS_FORM_KV,
      .n_slots = (uint16_t)slots,
      .source = source * m->units,
      .target = target * m->units,
  };
  set(m, &m->n_copies, m->n_copies + 1);
}

/* Slots in use of the sequence's i-th block. */
static uint32_t used_slots(const struct paged *m, const struct sequence *s, uint32_t i)
{
  return lls_pol_min(m->block_tokens, s->cached - i * m->block_tokens);
}

static void bring_back(struct paged *m, struct sequence *s)
{
  for (uint32_t i = s->gone; i < s->past; i++) {
    uint32_t from = block_at(m, s, i), to = paged_take(m);
    copy_block(m, LLS_TIER_HOST, LLS_TIER_DEVICE, from, to, used_slots(m, s, i));
    paged_put(m, s, i, to);
    paged_free_host(m, from);
  }
  set(m, &s->place, ON_DEVICE);
}

/* True if the next token's block is in the index, so that it must not be written. */
static bool must_copy(const struct paged *m, const struct sequence *s)
{
  return s->cached / m->block_tokens < s->indexed;
}

static void copy_on_write(struct paged *m, struct sequence *s)
{
  uint32_t i = s->cached / m->block_tokens;
  uint32_t from = block_at(m, s, i), to = paged_take(m);
  copy_block(m, LLS_TIER_DEVICE, LLS_TIER_DEVICE, from, to, used_slots(m, s, i));
  paged_put(m, s, i, to);
  paged_let_go(m, from);
  set(m, &s->indexed, i);
}

/* Leading blocks that the sequence does not need. A request that arrives from another
 * instance with cached tokens lacks the blocks before its window from the start. */
static uint32_t gone_of(const struct paged *m, const struct sequence *s,
                        const struct lls_request *r)
{
  return s->place == NOWHERE ? needless_blocks(m, r->cached_tokens) : s->gone;
}

uint32_t paged_peak(const struct paged *m, const struct sequence *s,
                    const struct lls_request *r, uint32_t tokens)
{
  return lls_pol_window_peak(&m->window, r, s->cached, gone_of(m, s, r), tokens);
}

/* Begins a sequence's block list, of which the first `gone` blocks are not held. */
static void begin_list(struct paged *m, struct sequence *s, uint32_t gone)
{
  set(m, &s->row, paged_take_row(m));
  set(m, &s->place, ON_DEVICE);
  set(m, &s->gone, gone);
  set(m, &s->past, gone);
}

int paged_reserve(struct paged *m, struct sequence *s, const struct lls_request *r,
                  uint32_t tokens)
{
  uint64_t length =
      (uint64_t)s->cached + lls_pol_window_reserved(&m->window, r, s->cached, tokens);
  uint32_t gone = gone_of(m, s, r), wanted = blocks_of(m, length);
  if (length > (uint64_t)m->row_blocks * m->block_tokens || wanted - gone > m->n_blocks)
    return LLS_RESERVE_NEVER;
  bool copy = tokens > 0 && must_copy(m, s), back = s->place == ON_HOST;
  uint32_t past = lls_pol_max(s->past, gone), more = wanted > past ? wanted - past : 0;
  uint32_t copied = copy + (back ? held(s) : 0), taken = more + copied;
  if (taken == 0 && s->place != NOWHERE)
    return LLS_RESERVE_OK;
  if (taken > available(m) || (s->row == LLS_POL_NIL && m->n_rows_free == 0) ||
      !can_note(m, taken) || !copies_have_room(m, copied))
    return LLS_RESERVE_LATER;

  if (back)
    bring_back(m, s);
  if (copy)
    copy_on_write(m, s);
  if (s->row == LLS_POL_NIL)
    begin_list(m, s, gone);
  for (uint32_t i = s->past; i < wanted; i++)
    paged_put(m, s, i, paged_take(m));
  if (more > 0)
    set(m, &s->past, wanted);
  return LLS_RESERVE_OK;
}

/* Keeps the last indexed block: it will be the parent of the next one. */
void paged_trim(struct paged *m, struct sequence *s)
{
  uint32_t gone = needless_blocks(m, s->cached);
  if (m->prefix_sharing && s->indexed > s->gone)
    gone = lls_pol_min(gone, s->indexed - 1);
  for (; s->gone < gone; s->gone++)
    paged_let_go(m, block_at(m, s, s->gone));
}

/* Releases the last block first, so that children are released before their parents. */
static void let_go_all(struct paged *m, const struct sequence *s)
{
  for (uint32_t i = s->past; i-- > s->gone;)
    if (s->place == ON_HOST)
      paged_free_host(m, block_at(m, s, i));
    else
      paged_let_go(m, block_at(m, s, i));
}

void paged_drop(struct paged *m, struct sequence *s)
{
  if (s->place == NOWHERE)
    return;
  let_go_all(m, s);
  paged_free_row(m, s->row);
  set(m, &s->row, LLS_POL_NIL);
  set(m, &s->place, NOWHERE);
  set(m, &s->gone, 0);
  set(m, &s->past, 0);
  set(m, &s->cached, 0);
  set(m, &s->indexed, 0);
}

int paged_swap_out(struct paged *m, struct sequence *s)
{
  uint32_t n = blocks_of(m, s->cached);
  if (s->place != ON_DEVICE)
    return 0;
  if (n == 0) { /* room but no token: nothing to keep */
    paged_drop(m, s);
    return 0;
  }
  if (n - s->gone > m->n_host_free || !copies_have_room(m, n - s->gone))
    return -ENOSPC;
  for (uint32_t i = s->past; i-- > s->gone;) {
    uint32_t from = block_at(m, s, i);
    if (i < n) {
      uint32_t to = paged_take_host(m);
      copy_block(m, LLS_TIER_DEVICE, LLS_TIER_HOST, from, to, used_slots(m, s, i));
      paged_put(m, s, i, to);
    }
    paged_let_go(m, from);
  }
  set(m, &s->place, ON_HOST);
  set(m, &s->past, n);
  set(m, &s->indexed, 0); /* indexed again when the sequence is back on the device */
  return 0;
}
