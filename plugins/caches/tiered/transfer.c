/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transfers: moving sequences between the tiers while steps compute.
 *
 * The target blocks are taken when a transfer starts, so that it never stops half way for
 * lack of memory. The engine gets the copies block by block, in each step as many as the
 * link carries in `share` of a step's time; offloads before uploads, since they free
 * memory. A step with more copies would have to wait for them, and all its requests too.
 */
#include "tiered.h"

#include <errno.h>

#define STEPS 32 /* the mean of their times estimates the next step's */

bool tiered_copies_have_room(const struct tiered *m, uint32_t blocks)
{
  return m->now.n + (uint64_t)blocks <= m->now.max;
}

static uint32_t used_slots(const struct tiered *m, const struct sequence *s, uint32_t i)
{
  return lls_pol_min(m->block_tokens, s->cached - i * m->block_tokens);
}

void tiered_copy_blocks(struct tiered *m, const struct sequence *s, uint32_t to_row,
                        bool to_host, uint32_t begin, uint32_t end, uint32_t transfer)
{
  const struct lls_block_entry *from = list_of(m, s->row), *to = list_of(m, to_row);
  uint32_t n = m->now.n;
  LLS_POL_CHECK(end <= s->held && tiered_copies_have_room(m, end - begin));
  for (uint32_t i = begin; i < end; i++)
    m->now.copies[n++] = (struct lls_copy){
        .source_tier = to_host ? LLS_TIER_DEVICE : LLS_TIER_HOST,
        .target_tier = to_host ? LLS_TIER_HOST : LLS_TIER_DEVICE,
        .order = transfer != 0 ? LLS_COPY_ASYNC : LLS_COPY_BEFORE_STEP,
        .source_form = i < int8_blocks(m, s, !to_host) ? LLS_FORM_INT8 : LLS_FORM_KV,
        .target_form = i < int8_blocks(m, s, to_host) ? LLS_FORM_INT8 : LLS_FORM_KV,
        .n_slots = (uint16_t)used_slots(m, s, i),
        .source = from[i].block,
        .target = to[i].block,
        .transfer = transfer,
    };
  set(m, &m->now.n, n);
}

int tiered_start(struct tiered *m, struct sequence *s, bool to_host)
{
  uint32_t n = blocks_of(m, s->cached);
  if (s->transfer != 0)
    return -EBUSY;
  if (s->place != (to_host ? ON_DEVICE : ON_HOST) || n == 0)
    return -EINVAL;
  if (slabs_for(m, s, to_host, n) > free_slabs_of(m, to_host) || m->n_rows_free == 0 ||
      !tiered_can_note(m, s->held - s->gone))
    return -ENOSPC;
  tiered_free_list(m, s, s->row, !to_host, n, s->held);
  set(m, &s->held, n);
  set(m, &s->to_row, tiered_take_row(m));
  tiered_take_list(m, s, s->to_row, to_host, s->gone, n);
  set(m, &s->left, n);
  set(m, &s->listed, n);
  if (++m->last_transfer == 0)
    m->last_transfer = 1;
  set(m, &s->transfer, m->last_transfer);
  LLS_POL_CHECK(m->n_moving < m->n_slots);
  set(m, &m->moving[m->n_moving], (uint32_t)(s - m->sequences));
  set(m, &m->n_moving, m->n_moving + 1);
  tiered_touch(m, s);
  return 0;
}

/* Returns the units that the link carries during a step; all if its speed is
 * unknown. */
static uint64_t budget(const struct tiered *m)
{
  const struct lls_cost *cost = m->host->cost;
  struct lls_step_statistics steps = {.size = sizeof steps};
  int64_t thousand =
      cost->transfer_ns(cost->context, 1000 * m->unit_bytes, LLS_LINK_HOST);
  cost->statistics(cost->context, STEPS, &steps);
  if (thousand <= 0 || steps.steps == 0 || steps.mean_ns <= 0)
    return UINT64_MAX;
  double units = 1000 * m->params.share * (double)steps.mean_ns / (double)thousand;
  return units < 1 ? 1 : (uint64_t)units;
}

/* Lists copies of a sequence's next blocks, the last block first; at least one if there
 * is any budget left. */
static void list_some(struct tiered *m, struct sequence *s, uint64_t *left)
{
  bool to_host = s->place == ON_DEVICE;
  uint32_t end = s->left, begin = end;
  while (*left > 0 && begin > s->gone && tiered_copies_have_room(m, end + 1 - begin)) {
    begin--;
    uint32_t units = m->units[begin < int8_blocks(m, s, to_host) ? NARROW : WIDE];
    *left -= *left < units ? *left : units;
  }
  tiered_copy_blocks(m, s, s->to_row, to_host, begin, end, s->transfer);
  s->listed = begin;
}

void tiered_list_transfers(struct tiered *m)
{
  uint64_t left = m->n_moving > 0 ? budget(m) : 0;
  for (uint32_t place = ON_DEVICE; place <= ON_HOST; place++)
    for (uint32_t i = 0; i < m->n_moving; i++)
      if (m->sequences[m->moving[i]].place == place)
        list_some(m, &m->sequences[m->moving[i]], &left);
}

static void arrive(struct tiered *m, struct sequence *s)
{
  uint32_t slot = (uint32_t)(s - m->sequences), i = 0;
  while (m->moving[i] != slot)
    i++;
  LLS_POL_CHECK(i < m->n_moving && s->to_row != LLS_POL_NIL);
  for (m->n_moving--; i < m->n_moving; i++)
    m->moving[i] = m->moving[i + 1];
  m->host->count(m->host->context, s->place == ON_DEVICE ? "offloads" : "uploads", 1);
  tiered_free_row(m, s->row);
  s->row = s->to_row;
  s->place = s->place == ON_DEVICE ? ON_HOST : ON_DEVICE;
  s->to_row = LLS_POL_NIL;
  s->transfer = s->left = s->listed = s->indexed = 0;
}

void tiered_transferred(struct tiered *m, uint32_t transfer)
{
  for (uint32_t i = 0; i < m->n_moving; i++) {
    struct sequence *s = &m->sequences[m->moving[i]];
    if (s->transfer != transfer)
      continue;
    LLS_POL_CHECK(s->gone <= s->listed && s->listed <= s->left && s->left <= s->held);
    tiered_free_list(m, s, s->row, s->place == ON_HOST, s->listed, s->left);
    s->left = s->listed;
    if (s->left == s->gone)
      arrive(m, s);
    return;
  }
}
