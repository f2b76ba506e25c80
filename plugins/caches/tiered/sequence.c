/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on one sequence: reserving slots for more tokens, swapping in if it must run
 * at once, dropping and swapping out.
 *
 * Blocks that a copy before the step reads may be given to another sequence in the same
 * step: copies end before the forward pass writes, and are carried out in list order.
 */
#include "tiered.h"

#include <errno.h>

/* Leading blocks that the sequence does not need. A request that arrives from another
 * instance with cached tokens lacks the blocks before its window from the start. */
static uint32_t gone_of(const struct tiered *m, const struct sequence *s,
                        const struct lls_request *r)
{
  return s->place == NOWHERE ? lls_pol_window_gone(&m->window, r->cached_tokens)
                             : s->gone;
}

uint32_t tiered_units_needed(const struct tiered *m, const struct sequence *s,
                             const struct lls_request *r, uint32_t tokens)
{
  uint32_t gone = gone_of(m, s, r), held = s->held - s->gone;
  uint32_t peak = lls_pol_window_peak(&m->window, r, s->cached, gone, tokens);
  return peak > held ? m->units[WIDE] * (peak - held) : 0;
}

/* Moves all blocks of the sequence to the other tier, by copies before the step. */
static void change_tier(struct tiered *m, struct sequence *s, bool to_host)
{
  LLS_POL_CHECK(s->transfer == 0 && s->to_row == LLS_POL_NIL);
  uint32_t row = tiered_take_row(m);
  tiered_take_list(m, s, row, to_host, s->gone, s->held);
  tiered_copy_blocks(m, s, row, to_host, s->gone, s->held, 0);
  tiered_free_list(m, s, s->row, !to_host, s->gone, s->held);
  tiered_free_row(m, s->row);
  set(m, &s->row, row);
  set(m, &s->place, to_host ? ON_HOST : ON_DEVICE);
  set(m, &s->indexed, 0); /* indexed again when the sequence is back on the device */
  tiered_touch(m, s);
}

static void begin_list(struct tiered *m, struct sequence *s, uint32_t gone)
{
  set(m, &s->row, tiered_take_row(m));
  set(m, &s->place, ON_DEVICE);
  set(m, &s->gone, gone);
  set(m, &s->held, gone);
}

int tiered_reserve(struct tiered *m, struct sequence *s, const struct lls_request *r,
                   uint32_t tokens)
{
  uint32_t gone = gone_of(m, s, r), past = lls_pol_max(s->held, gone);
  uint64_t length =
      (uint64_t)s->cached + lls_pol_window_reserved(&m->window, r, s->cached, tokens);
  uint32_t wanted = lls_pol_max(blocks_of(m, length), past);
  uint32_t usable = m->tiers[false].n_slabs - spare_slabs(m), more = wanted - past;
  bool back = s->place == ON_HOST;
  uint32_t kept = s->place == NOWHERE ? 0 : slabs_for(m, s, false, s->held);
  if (wanted > m->row_blocks || kept + more > usable)
    return LLS_RESERVE_NEVER;
  uint32_t taken = more + (back ? kept : 0);
  if (s->transfer != 0 || taken > free_slabs_of(m, false))
    return LLS_RESERVE_LATER;
  if (taken == 0 && s->place == ON_DEVICE)
    return LLS_RESERVE_OK;
  bool row = s->row == LLS_POL_NIL || back;
  if ((row && m->n_rows_free == 0) ||
      !tiered_can_note(m, wanted - (back ? gone : past)) ||
      (back && !tiered_copies_have_room(m, s->held - s->gone)))
    return LLS_RESERVE_LATER;
  if (back)
    change_tier(m, s, false);
  if (s->row == LLS_POL_NIL)
    begin_list(m, s, gone);
  tiered_take_list(m, s, s->row, false, s->held, wanted);
  LLS_POL_CHECK(slabs_to_be_had(m, false) >= spare_slabs(m)); /* invariant 3 */
  set(m, &s->held, wanted);
  tiered_touch(m, s);
  return LLS_RESERVE_OK;
}

static void forget_transfer(struct tiered *m, struct sequence *s)
{
  uint32_t slot = (uint32_t)(s - m->sequences), i = 0;
  if (s->transfer == 0)
    return;
  while (m->moving[i] != slot)
    i++;
  LLS_POL_CHECK(i < m->n_moving);
  for (; i + 1 < m->n_moving; i++)
    set(m, &m->moving[i], m->moving[i + 1]);
  set(m, &m->n_moving, m->n_moving - 1);
  set(m, &s->transfer, 0);
}

void tiered_drop(struct tiered *m, struct sequence *s)
{
  if (s->place == NOWHERE)
    return;
  if (s->to_row != LLS_POL_NIL) {
    tiered_free_list(m, s, s->to_row, s->place != ON_HOST, s->gone, s->held);
    tiered_free_row(m, s->to_row);
    set(m, &s->to_row, LLS_POL_NIL);
  }
  tiered_free_list(m, s, s->row, s->place == ON_HOST, s->gone, blocks_there(s));
  forget_transfer(m, s);
  tiered_free_row(m, s->row);
  set(m, &s->row, LLS_POL_NIL);
  set(m, &s->place, NOWHERE);
  set(m, &s->gone, 0);
  set(m, &s->held, 0);
  set(m, &s->cached, 0);
  set(m, &s->indexed, 0);
  set(m, &s->left, 0);
  set(m, &s->listed, 0);
  tiered_touch(m, s);
}

int tiered_swap_out(struct tiered *m, struct sequence *s)
{
  uint32_t n = blocks_of(m, s->cached);
  if (s->transfer != 0)
    return -EBUSY;
  if (s->place != ON_DEVICE)
    return 0;
  if (n == 0) { /* room but no token: nothing to keep */
    tiered_drop(m, s);
    return 0;
  }
  if (slabs_for(m, s, true, n) > free_slabs_of(m, true) || m->n_rows_free == 0 ||
      !tiered_copies_have_room(m, n - s->gone) || !tiered_can_note(m, s->held - s->gone))
    return -ENOSPC;
  tiered_free_list(m, s, s->row, false, n, s->held);
  set(m, &s->held, n);
  change_tier(m, s, true);
  return 0;
}
