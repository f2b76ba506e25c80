/* SPDX-License-Identifier: Apache-2.0 */
/*
 * audit: the whole state as text, equal for equal states, and every invariant of
 * bidirectional.h checked. A state read from a blob may hold any values, so each index is
 * checked for its range before it is used.
 */
#include "bidirectional.h"

#include <llmserve/policy/report.h>

#include <string.h>

/* ---- parts ------------------------------------------------------------------------- */

static void audit_part(struct lls_pol_report *a, uint32_t part)
{
  const struct bidirectional *m = a->m;
  const struct part *p = &m->parts[part];
  struct block_set free = set_of(m, part % 2, m->parts[part ^ 1].count);
  lls_pol_report_check(a, (p->owner == LLS_POL_NIL) == (p->count == 0),
                       "slots without an owner, or none", part);
  lls_pol_report_check(a, bidi_set_has(free, part / 2) == (p->owner == LLS_POL_NIL),
                       "not in the set where it belongs", part);
}

static void audit_blocks(struct lls_pol_report *a)
{
  const struct bidirectional *m = a->m;
  uint64_t bits = 0, unowned = 0, listed = 0, used[2] = {0};
  for (uint32_t part = 0; part < 2 * m->n_blocks; part++) {
    audit_part(a, part);
    used[part % 2] += m->parts[part].count;
    unowned += m->parts[part].owner == LLS_POL_NIL;
  }
  for (uint32_t i = 0; i < 2 * (m->side.block_tokens + 1); i++)
    for (uint32_t w = 0; w < words_of(m->n_blocks); w++)
      bits += (uint32_t)__builtin_popcount(set_of(m, 0, i).words[w]);
  lls_pol_report_check(a, bits == unowned, "sets miscounted", (uint32_t)bits);
  for (uint32_t slot = 0; slot < m->n_slots; slot++)
    listed += m->sequences[slot].parts;
  lls_pol_report_check(a, listed + unowned == 2 * (uint64_t)m->n_blocks,
                       "a part lost by its owner", (uint32_t)listed);
  for (uint32_t end = 0; end < 2; end++)
    lls_pol_report_check(a, used[end] == m->used[end], "slots miscounted", m->used[end]);
}

/* ---- sequences --------------------------------------------------------------------- */

/* Checks that each missing token of a gap has a copy on the host. */
static void audit_gap(struct lls_pol_report *a, const struct sequence *s, uint32_t from,
                      uint32_t until)
{
  const struct bidirectional *m = a->m;
  for (uint32_t token = from; token < until && a->result == 0; token++) {
    uint32_t block = table_of(m, s)[token / m->side.block_tokens],
             i = token % m->side.block_tokens;
    bool copied = block != 0 && m->host_blocks[block - 1].owner == s - m->sequences &&
                  m->host_bits[(size_t)(block - 1) * m->bit_words + i / 32] >> i % 32 & 1;
    lls_pol_report_check(a, copied, "a missing token without a copy", token);
  }
}

/* Checks one part of a list; returns false if its link to the next part is invalid. No
 * part is met twice, since each says which one precedes it. */
static bool audit_link(struct lls_pol_report *a, uint32_t slot, uint32_t part,
                       uint32_t before, uint32_t token)
{
  const struct bidirectional *m = a->m;
  const struct sequence *s = &m->sequences[slot];
  if (!lls_pol_report_check(a, part < 2 * m->n_blocks && part % 2 == s->end,
                            "no such part", part))
    return false;
  const struct part *p = &m->parts[part];
  lls_pol_report_say(a, " %" PRIu32 "@%" PRIu32 "+%" PRIu32, p->first, part / 2,
                     p->count);
  return lls_pol_report_check(a, p->owner == slot && p->previous == before,
                              "a broken list", part) &&
         lls_pol_report_check(a,
                              p->first >= token && p->count <= m->side.block_tokens &&
                                  p->first <= m->most_tokens,
                              "tokens out of order", part);
}

/* Entries that will not be written again are as they are to be. */
static void audit_entry(struct lls_pol_report *a, uint32_t slot, uint32_t i,
                        uint32_t part)
{
  const struct bidirectional *m = a->m;
  const struct sequence *s = &m->sequences[slot];
  if (i >= s->listed)
    return;
  const struct lls_block_entry *e =
      lls_pol_rows_entries(&m->side.rows, side_of(m, s), 0) + i;
  struct lls_block_entry wanted = bidi_entry(m, part);
  lls_pol_report_check(a, memcmp(e, &wanted, sizeof wanted) == 0, "an old entry", slot);
}

static void audit_list(struct lls_pol_report *a, uint32_t slot)
{
  const struct bidirectional *m = a->m;
  const struct sequence *s = &m->sequences[slot];
  uint32_t before = LLS_POL_NIL, parts = 0, slots = 0, sharing = 0, token = s->gone;
  for (uint32_t at = s->first; at != LLS_POL_NIL; before = at, at = m->parts[at].next) {
    if (!audit_link(a, slot, at, before, token))
      return;
    audit_gap(a, s, token, lls_pol_min(m->parts[at].first, cached_of(m, s)));
    audit_entry(a, slot, parts, at);
    token = end_of(m, at);
    slots += m->parts[at].count;
    sharing += m->parts[at ^ 1].owner != LLS_POL_NIL;
    parts++;
  }
  audit_gap(a, s, token, cached_of(m, s));
  lls_pol_report_check(a, before == s->last && parts == s->parts, "a list miscounted",
                       slot);
  lls_pol_report_check(a, slots == s->slots && sharing == s->sharing, "slots miscounted",
                       slot);
  lls_pol_report_check(a, token <= cached_of(m, s) || s->gone + slots == token,
                       "room behind a gap", slot);
}

static void audit_sequence(struct lls_pol_report *a, uint32_t slot)
{
  const struct bidirectional *m = a->m;
  const struct sequence *s = &m->sequences[slot];
  lls_pol_report_check(a, s->end <= 1 && s->moving <= TO_DEVICE, "no such state", slot);
  lls_pol_report_check(a,
                       side_of(m, s)->admitted ||
                           (s->slots | cached_of(m, s) | s->parts | s->host_blocks) == 0,
                       "slots without an owner", slot);
  uint32_t cached = cached_of(m, s);
  uint32_t begin = lls_group_begin(m->side.host->engine->groups[0], cached);
  if (!lls_pol_report_check(a, cached <= m->most_tokens, "too many tokens", slot) ||
      !lls_pol_report_check(a, s->gone <= (cached > 0 ? begin : m->most_tokens),
                            "given back what is read", slot) ||
      !side_of(m, s)->admitted)
    return;
  lls_pol_report_say(a,
                     "slot %" PRIu32 ": request %" PRIu64 " from end %" PRIu32
                     ", cached %" PRIu32 ", gone %" PRIu32 ", missing %" PRIu32 ", parts",
                     slot, side_of(m, s)->request, s->end, cached, s->gone,
                     missing_of(m, s));
  audit_list(a, slot);
  lls_pol_report_end_line(a);
}

/* ---- the host ---------------------------------------------------------------------- */

static uint32_t missing_in(const struct bidirectional *m, const struct host_block *h)
{
  const struct sequence *s = &m->sequences[h->owner];
  uint32_t from = h->group * m->side.block_tokens, until = from + m->side.block_tokens;
  from = lls_pol_max(from, s->gone);
  until = lls_pol_min(until, cached_of(m, s));
  uint32_t missing = until > from ? until - from : 0;
  for (uint32_t at = s->first; at != LLS_POL_NIL && m->parts[at].first < until;
       at = m->parts[at].next) {
    uint32_t low = lls_pol_max(m->parts[at].first, from), high = end_of(m, at);
    high = lls_pol_min(high, until);
    missing -= high > low ? high - low : 0;
  }
  return missing;
}

/* Checks that owners' tables and host blocks agree; must pass before either is used. */
static bool audit_tables(struct lls_pol_report *a)
{
  const struct bidirectional *m = a->m;
  uint32_t held = 0, counted = 0;
  for (uint32_t b = 0; b < m->n_host_blocks; b++) {
    const struct host_block *h = &m->host_blocks[b];
    if (h->owner == LLS_POL_NIL)
      continue;
    if (!lls_pol_report_check(a, h->owner < m->n_slots && h->group < m->groups,
                              "a host block without an owner", b))
      return false;
    const struct sequence *s = &m->sequences[h->owner];
    lls_pol_report_check(a, table_of(m, s)[h->group] == b + 1, "not in its owner's table",
                         b);
    held++;
  }
  for (uint32_t slot = 0; slot < m->n_slots; slot++)
    counted += m->sequences[slot].host_blocks;
  lls_pol_report_check(a, counted == held, "host blocks miscounted", held);
  return a->result == 0;
}

static void audit_host(struct lls_pol_report *a)
{
  const struct bidirectional *m = a->m;
  const struct lls_pol_slabs *pool = &m->side.slabs[LLS_TIER_HOST];
  uint32_t idle = 0;
  for (uint32_t b = 0; b < m->n_host_blocks; b++) {
    const struct host_block *h = &m->host_blocks[b];
    const uint32_t *bits = m->host_bits + (size_t)b * m->bit_words;
    lls_pol_report_check(a,
                         h->owner == LLS_POL_NIL ||
                             lls_pol_slabs_is_taken(pool, unit_of(m, LLS_TIER_HOST, b)),
                         "a host block lost", b);
    if (h->owner == LLS_POL_NIL)
      continue;
    lls_pol_report_say(a, "host %" PRIu32 ": slot %" PRIu32 " group %" PRIu32, b,
                       h->owner, h->group);
    for (uint32_t i = 0; i < m->bit_words; i++)
      lls_pol_report_say(a, " %08" PRIx32, bits[i]);
    lls_pol_report_end_line(a);
    lls_pol_report_check(a, h->missing == missing_in(m, h), "missing tokens miscounted",
                         b);
    idle += is_idle(m, h);
  }
  const struct lls_pol_slab_class *c = &pool->classes[m->side.kinds[LLS_TIER_HOST][0]];
  lls_pol_report_check(a, idle == c->n_used - c->n_held, "idle blocks miscounted", idle);
  lls_pol_report_check(a, m->host_hand < lls_pol_max(1, m->n_host_blocks),
                       "the hand is outside", m->host_hand);
  lls_pol_report_say(a, "host hand %" PRIu32, m->host_hand);
  lls_pol_report_end_line(a);
}

/* A block of the device has a holder for each part with an owner, one of the host while
 * it is not idle. */
void bidi_mark(void *manager, uint32_t tier, uint32_t *marks)
{
  const struct bidirectional *m = manager;
  for (uint32_t part = 0; tier == LLS_TIER_DEVICE && part < 2 * m->n_blocks; part++)
    marks[part / 2] += m->parts[part].owner != LLS_POL_NIL;
  for (uint32_t b = 0; tier == LLS_TIER_HOST && b < m->n_host_blocks; b++)
    marks[b] += m->host_blocks[b].owner != LLS_POL_NIL && !is_idle(m, &m->host_blocks[b]);
}

void bidi_audit(void *manager, struct lls_pol_report *a)
{
  struct bidirectional *m = manager;
  for (uint32_t part = 0; part < 2 * m->n_blocks; part++)
    if (!lls_pol_report_check(a,
                              m->parts[part].count + (uint64_t)m->parts[part ^ 1].count <=
                                  m->side.block_tokens,
                              "two tokens in a slot", part))
      return;
  if (!audit_tables(a))
    return;
  for (uint32_t slot = 0; slot < m->n_slots; slot++)
    audit_sequence(a, slot);
  audit_blocks(a);
  if (a->result == 0)
    audit_host(a);
  lls_pol_report_say(a, "tokens %" PRIu32 " %" PRIu32 " %" PRIu32, m->counts[DISPLACED],
                     m->counts[CHECKPOINTED], m->counts[RESTORED]);
  lls_pol_report_end_line(a);
}
