/* SPDX-License-Identifier: Apache-2.0 */
/* audit: prints every region in order and checks the invariants of contiguous.h. */
#include "contiguous.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

static int wrong(const struct contiguous *m, const char *what, uint32_t slot)
{
  return m->host->fail(m->host->context, -EIO, "audit: %s (slot %" PRIu32 ")", what,
                       slot);
}

static int check(const struct contiguous *m, uint32_t slot, uint32_t end_before)
{
  const struct sequence *s = &m->sequences[slot];
  if (!s->admitted)
    return wrong(m, "region without an owner", slot);
  if (s->base < end_before)
    return wrong(m, "regions overlap", slot);
  if (s->blocks == 0 || s->base + s->blocks > m->n_blocks)
    return wrong(m, "region outside the pool", slot);
  if (s->cached > s->blocks * m->block_tokens)
    return wrong(m, "more tokens than room", slot);
  return 0;
}

static int check_rest(const struct contiguous *m, uint32_t held)
{
  uint32_t n = 0;
  for (uint32_t i = 0; i < m->n_slots; i++) {
    n += m->sequences[i].blocks > 0;
    if (m->sequences[i].blocks == 0 && m->sequences[i].cached > 0)
      return wrong(m, "tokens without a region", i);
  }
  if (n != m->n_order)
    return wrong(m, "a region is missing in the order", n);
  return held != m->held ? wrong(m, "held blocks are counted wrong", held) : 0;
}

int contiguous_audit(struct contiguous *m, const struct lls_sink *sink)
{
  uint32_t end = 0, held = 0;
  int rc = 0;
  for (uint32_t i = 0; i < m->n_order; i++) {
    const struct sequence *s = &m->sequences[m->order[i]];
    char line[128];
    snprintf(line, sizeof line,
             "slot %" PRIu32 ": request %" PRIu64 " at %" PRIu32 ", %" PRIu32
             " blocks, cached %" PRIu32,
             m->order[i], s->request, s->base, s->blocks, s->cached);
    sink->text(sink->context, line);
    int bad = check(m, m->order[i], end);
    rc = rc == 0 ? bad : rc;
    end = s->base + s->blocks;
    held += s->blocks;
  }
  char line[64];
  snprintf(line, sizeof line, "held %" PRIu32 " copies %" PRIu32, m->held, m->n_copies);
  sink->text(sink->context, line);
  return rc == 0 ? check_rest(m, held) : rc;
}
