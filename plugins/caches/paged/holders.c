/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who has what: how many blocks a sequence shares, whose going frees most, who holds a
 * block. Questions for schedulers; nothing changes.
 */
#include "paged.h"

#include "../common/victims.h"

/* Who holds a block holds the blocks before it too (invariant 2), so the shared ones come
 * first and bisection finds where they end: the core asks for every request, every step.
 */
uint32_t paged_shared_blocks(const struct paged *m, const struct sequence *s)
{
  uint32_t low = 0, high = s->held;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (m->blocks[block_at(m, s, middle)].references > 1)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* By how many blocks that nobody else holds it would free. */
static bool describe(const void *manager, uint32_t slot, struct victim *out)
{
  const struct paged *m = manager;
  const struct sequence *s = &m->sequences[slot];
  if (!s->admitted || s->place != ON_DEVICE)
    return false;
  *out = (struct victim){s->request, s->held - paged_shared_blocks(m, s)};
  return true;
}

int paged_victims(struct paged *m, uint64_t *requests, size_t max)
{
  return victims_list(m, m->n_slots, describe, requests, max);
}

/* By slot. A block of the index is at the same place of all lists that have it, but they
 * are walked whole: nobody asks often. */
int paged_peers(struct paged *m, uint32_t unit, uint64_t *requests, size_t max)
{
  size_t n = 0;
  for (uint32_t slot = 0; slot < m->n_slots && n < max; slot++) {
    const struct sequence *s = &m->sequences[slot];
    bool has = false;
    for (uint32_t i = 0; s->admitted && s->place == ON_DEVICE && i < s->held; i++)
      has |= block_at(m, s, i) == unit / 2;
    if (has)
      requests[n++] = s->request;
  }
  return (int)n;
}
