/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places of sequences: regions in order of their base, first fit, moving, and the
 * journal.
 *
 * There are as many regions as sequences on the device, a few hundred at most, so a
 * sorted array is walked.
 */
#include "contiguous.h"

#include <llmserve/policy/check.h>

#include <string.h>

static uint32_t end_of(const struct sequence *s)
{
  return s->base + s->blocks;
}

/* ---- the order ------------------------------------------------------------------ */

static uint32_t place_in_order(const struct contiguous *m, uint32_t base)
{
  uint32_t i = 0;
  while (i < m->n_order && m->sequences[m->order[i]].base < base)
    i++;
  return i;
}

static void take_out(struct contiguous *m, uint32_t slot)
{
  const struct sequence *s = &m->sequences[slot];
  if (s->blocks == 0)
    return;
  uint32_t i = place_in_order(m, s->base);
  LLS_POL_CHECK(i < m->n_order && m->order[i] == slot && s->blocks <= m->held);
  m->n_order--;
  m->held -= s->blocks;
  memmove(&m->order[i], &m->order[i + 1], (m->n_order - i) * sizeof *m->order);
}

static void put_in(struct contiguous *m, uint32_t slot)
{
  const struct sequence *s = &m->sequences[slot];
  if (s->blocks == 0)
    return;
  uint32_t i = place_in_order(m, s->base);
  LLS_POL_CHECK(m->n_order < m->n_slots && end_of(s) <= m->n_blocks);
  LLS_POL_CHECK(i == 0 || end_of(&m->sequences[m->order[i - 1]]) <= s->base);
  LLS_POL_CHECK(i == m->n_order || end_of(s) <= m->sequences[m->order[i]].base);
  memmove(&m->order[i + 1], &m->order[i], (m->n_order - i) * sizeof *m->order);
  m->order[i] = slot;
  m->n_order++;
  m->held += s->blocks;
}

static void replace(struct contiguous *m, uint32_t slot, struct sequence s)
{
  take_out(m, slot);
  m->sequences[slot] = s;
  m->listed[slot].blocks = 0;
  put_in(m, slot);
}

void contiguous_set(struct contiguous *m, uint32_t slot, struct sequence s)
{
  LLS_POL_CHECK(!m->open || m->n_changes < m->max_changes);
  LLS_POL_CHECK(s.cached <= (uint64_t)s.blocks * m->block_tokens);
  if (m->open)
    m->journal[m->n_changes++] = (struct change){slot, m->n_copies, m->sequences[slot]};
  replace(m, slot, s);
}

void contiguous_undo(struct contiguous *m, uint32_t to)
{
  while (m->n_changes > to) {
    const struct change *c = &m->journal[--m->n_changes];
    m->n_copies = c->n_copies;
    replace(m, c->slot, c->old);
  }
}

/* ---- room ----------------------------------------------------------------------- */

/* Walks the gaps, as if `without` held nothing; the first of at least `blocks`, or the
 * size of the largest. */
static bool find_gap(const struct contiguous *m, uint32_t without, uint32_t blocks,
                     uint32_t *base, uint32_t *largest)
{
  uint32_t from = 0;
  *largest = 0;
  for (uint32_t i = 0; i <= m->n_order; i++) {
    if (i < m->n_order && m->order[i] == without)
      continue;
    const struct sequence *s = i < m->n_order ? &m->sequences[m->order[i]] : NULL;
    uint32_t gap = (s != NULL ? s->base : m->n_blocks) - from;
    *base = from;
    if (gap >= blocks)
      return true;
    if (gap > *largest)
      *largest = gap;
    if (s != NULL)
      from = end_of(s);
  }
  return false;
}

uint32_t contiguous_largest_gap(const struct contiguous *m)
{
  uint32_t base, largest;
  find_gap(m, UINT32_MAX, UINT32_MAX, &base, &largest);
  return largest;
}

static bool can_grow_in_place(const struct contiguous *m, uint32_t slot, uint32_t blocks)
{
  const struct sequence *s = &m->sequences[slot];
  if (s->blocks == 0)
    return false;
  uint32_t i = place_in_order(m, s->base) + 1;
  uint32_t end = i < m->n_order ? m->sequences[m->order[i]].base : m->n_blocks;
  return end - s->base >= blocks;
}

/* The two places may overlap, so the copies start at the end that nothing is moved to
 * before it was read. Copies are carried out in the order of the list. */
static void copy_blocks(struct contiguous *m, uint32_t from, uint32_t to, uint32_t cached)
{
  uint32_t n = blocks_of(m, cached);
  LLS_POL_CHECK(m->n_copies + (uint64_t)n <= m->max_copies);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t at = to < from ? i : n - 1 - i, left = cached - at * m->block_tokens;
    m->copies[m->n_copies++] = (struct lls_copy){
        .order = LLS_COPY_BEFORE_STEP,
        .source_form = LLS_FORM_KV,
        .target_form = LLS_FORM_KV,
        .n_slots = (uint16_t)(left < m->block_tokens ? left : m->block_tokens),
        .source = (from + at) * m->units,
        .target = (to + at) * m->units,
    };
  }
}

bool contiguous_place(struct contiguous *m, uint32_t slot, uint32_t blocks)
{
  struct sequence s = m->sequences[slot];
  uint32_t base = s.base, largest, moved = blocks_of(m, s.cached);
  if (m->n_changes == m->max_changes)
    return false;
  if (!can_grow_in_place(m, slot, blocks) &&
      (!find_gap(m, slot, blocks, &base, &largest) ||
       m->n_copies + moved > m->max_copies))
    return false;
  uint32_t from = s.base;
  bool moves = s.blocks > 0 && base != from;
  s.base = base;
  s.blocks = blocks;
  contiguous_set(m, slot, s);
  if (moves)
    copy_blocks(m, from, base, s.cached);
  return true;
}
