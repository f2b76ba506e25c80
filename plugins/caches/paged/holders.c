/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who has what: how many blocks a sequence shares, whose going frees most, who holds a
 * block. Questions for schedulers; nothing changes.
 */
#include "paged.h"

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

struct victim {
  uint64_t request;
  uint32_t freed; /* blocks that nobody else holds */
};

static bool before(const struct victim *a, const struct victim *b)
{
  return a->freed > b->freed || (a->freed == b->freed && a->request > b->request);
}

static bool describe(const struct paged *m, uint32_t slot, struct victim *out)
{
  const struct sequence *s = &m->sequences[slot];
  if (!s->admitted || s->place != ON_DEVICE)
    return false;
  *out = (struct victim){s->request, s->held - paged_shared_blocks(m, s)};
  return true;
}

/* The next in order after `last`; false if there is none. */
static bool find_next(const struct paged *m, const struct victim *last,
                      struct victim *out)
{
  bool found = false;
  for (uint32_t slot = 0; slot < m->n_slots; slot++) {
    struct victim v;
    if (!describe(m, slot, &v) || (last != NULL && !before(last, &v)) ||
        (found && !before(&v, out)))
      continue;
    *out = v;
    found = true;
  }
  return found;
}

/* Those on the device, whose going frees most first; the newest of equals. A pass over
 * the slots for each: schedulers ask for a few. */
int paged_victims(struct paged *m, uint64_t *requests, size_t max)
{
  struct victim last, next;
  size_t n = 0;
  for (; n < max && find_next(m, n > 0 ? &last : NULL, &next); n++) {
    requests[n] = next.request;
    last = next;
  }
  return (int)n;
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
