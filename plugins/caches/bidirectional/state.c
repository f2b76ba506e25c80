/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole state as one blob, so that another generation of this plugin takes over every
 * slot where it lies: which sequence holds which units, as any manager can read it, then
 * what must be equal in both, then the arrays that say it all; sets and tables follow
 * from them.
 *
 * Another manager can take those sequences that lie as in every manager: all on the
 * device, from the left, in full blocks with none at the other end. From another manager
 * come sequences whose blocks lie where blocks do: here they have left parts, whatever
 * their class, and are never displaced.
 */
#include "bidirectional.h"

#include <llmserve/policy/holdings.h>
#include <llmserve/policy/state.h>

/* Precedes the part that only this plugin reads; the number is its version. */
static const char own[16] = "bidirectional 3";

struct pool { /* must be equal in both generations */
  uint32_t units, block_tokens, n_blocks, n_host_blocks, n_slots, most_tokens, mode;
};

static struct pool pool_of(const struct bidirectional *m)
{
  return (struct pool){
      m->units,       m->block_tokens,         m->n_blocks, m->n_host_blocks, m->n_slots,
      m->most_tokens, (uint32_t)m->params.mode};
}

/* ---- for any manager --------------------------------------------------------------- */

static bool lies_as_usual(const struct bidirectional *m, const struct sequence *s)
{
  if (!s->admitted || s->slots == 0 || s->end != LLS_LEFT_TO_RIGHT || s->sharing > 0 ||
      s->slots != s->cached)
    return false;
  for (uint32_t at = s->first; at != s->last; at = m->parts[at].next)
    if (m->parts[at].count != m->block_tokens)
      return false;
  return true;
}

static struct lls_holdings count_holdings(const struct bidirectional *m)
{
  struct lls_holdings head = {.bytes = sizeof head,
                              .block_tokens = m->block_tokens,
                              .device_units = m->units * m->n_blocks};
  for (uint32_t i = 0; i < m->n_slots; i++)
    if (lies_as_usual(m, &m->sequences[i])) {
      head.bytes += lls_pol_holding_bytes(1, m->sequences[i].parts);
      head.n++;
    }
  return head;
}

static char *write_list(const struct bidirectional *m, const struct sequence *s, char *to)
{
  const struct lls_held_list list = {.form = LLS_FORM_KV, .n_blocks = s->parts};
  memcpy(to, &list, sizeof list);
  to += sizeof list;
  for (uint32_t at = s->first; at != LLS_POL_NIL; at = m->parts[at].next) {
    uint32_t unit = bidi_entry(m, at).block;
    memcpy(to, &unit, sizeof unit);
    to += sizeof unit;
  }
  return to;
}

static void write_holdings(const struct bidirectional *m, const struct lls_holdings *head,
                           char *to)
{
  memcpy(to, head, sizeof *head);
  to += sizeof *head;
  for (uint32_t i = 0; i < m->n_slots; i++) {
    const struct sequence *s = &m->sequences[i];
    if (!lies_as_usual(m, s))
      continue;
    struct lls_holding h = {
        .request = s->request, .slot = i, .cached_tokens = s->cached, .n_lists = 1};
    to = write_list(m, s, lls_pol_holding_write(to, &h));
  }
}

/* ---- for this one ------------------------------------------------------------------ */

static void pass_arrays(struct bidirectional *m, struct lls_pol_state_walk *w)
{
  char name[sizeof own];
  struct pool pool = pool_of(m);
  memcpy(name, own, sizeof own);
  lls_pol_state_pass(w, name, sizeof name);
  lls_pol_state_pass(w, &pool, sizeof pool);
  /* one piece: the members from host_head up to `copies`, the free stack's head and all
   * counts */
  lls_pol_state_pass(w, &m->host_head,
                     offsetof(struct bidirectional, copies) -
                         offsetof(struct bidirectional, host_head));
  lls_pol_state_pass(w, m->parts, (size_t)2 * m->n_blocks * sizeof *m->parts);
  lls_pol_state_pass(w, m->sequences, m->n_slots * sizeof *m->sequences);
  lls_pol_state_pass(w, m->host_blocks, m->n_host_blocks * sizeof *m->host_blocks);
  lls_pol_state_pass(w, m->host_bits,
                     (size_t)m->n_host_blocks * m->bit_words * sizeof *m->host_bits);
}

/* Derives the other members from the arrays, as far as these make sense. */
static int derive(struct bidirectional *m)
{
  for (uint32_t part = 0; part < 2 * m->n_blocks; part++)
    if (m->parts[part].count > m->block_tokens)
      return -EINVAL;
  bidi_empty_sets(m);
  bidi_fill_sets(m);
  for (uint32_t b = 0; b < m->n_host_blocks; b++) {
    const struct host_block *h = &m->host_blocks[b];
    if (h->owner == LLS_POL_NIL)
      continue;
    if (h->owner >= m->n_slots || h->group >= m->groups)
      return -EINVAL;
    table_of(m, &m->sequences[h->owner])[h->group] = b + 1;
  }
  bidi_empty_rows(m);
  for (uint32_t i = 0; i < m->n_slots; i++)
    m->sequences[i].row = LLS_POL_NIL, m->sequences[i].listed = 0;
  return 0;
}

static int pass_own(void *manager, struct lls_pol_state_walk *w)
{
  pass_arrays(manager, w);
  if (lls_pol_state_is_torn(w))
    return -EINVAL;
  return lls_pol_state_is_read(w) ? derive(manager) : 0;
}

int bidi_export(struct bidirectional *m, struct lls_blob *out)
{
  struct lls_holdings head = count_holdings(m);
  if (m->journal.open)
    return -EBUSY;
  int rc = lls_pol_state_export(m, pass_own, head.bytes, LLS_STATE_HOLDINGS, out);
  if (rc == 0)
    write_holdings(m, &head, out->data);
  return rc;
}

/* ---- from another manager ---------------------------------------------------------- */

static bool can_hold(const struct bidirectional *m, const struct lls_holding *h,
                     const struct lls_held_list *list)
{
  return h->slot < m->n_slots && !m->sequences[h->slot].admitted &&
         h->cached_tokens <= m->most_tokens &&
         list->n_blocks >= blocks_of(m, h->cached_tokens);
}

/* Takes all tokens of a sequence from another manager, or none. */
static void take_over(struct bidirectional *m, const struct lls_holding *h,
                      const struct lls_pol_held *held)
{
  struct sequence *s = &m->sequences[h->slot];
  *s = (struct sequence){.request = h->request,
                         .admitted = true,
                         .first = LLS_POL_NIL,
                         .last = LLS_POL_NIL,
                         .row = LLS_POL_NIL};
  for (uint32_t i = 0; s->slots < h->cached_tokens; i++) {
    uint32_t block = lls_pol_held_block(held, i, m->units, m->n_blocks);
    if (block == m->n_blocks || !bidi_set_has(set_of(m, LLS_LEFT_TO_RIGHT, 0), block)) {
      bidi_drop(m, s);
      s->admitted = false;
      return;
    }
    bidi_open(m, s, block, s->last, s->slots,
              lls_pol_min(m->block_tokens, h->cached_tokens - s->slots));
  }
  s->cached = h->cached_tokens;
}

static int import_holdings(struct bidirectional *m, struct lls_pol_holdings *walk)
{
  struct lls_holding h;
  struct lls_pol_held lists[LLS_POL_HELD_LISTS];
  uint32_t n;
  while (lls_pol_holdings_next(walk, &h, lists, &n))
    if (lls_pol_holding_is_plain(lists, n) && can_hold(m, &h, &lists[0].list))
      take_over(m, &h, &lists[0]);
  return walk->torn ? -EINVAL : 0;
}

int bidi_import(struct bidirectional *m, const struct lls_blob *in)
{
  const struct lls_host *h = m->host;
  struct pool pool = pool_of(m);
  struct lls_pol_holdings walk;
  int rc =
      lls_pol_holdings_open(&walk, in, m->block_tokens, m->units * m->n_blocks, m->units);
  if (rc < 0)
    return h->fail(h->context, rc, "state of another pool");
  size_t bytes = in->bytes - (size_t)(walk.end - (const char *)in->data);
  bool same = lls_pol_state_is_of(walk.end, bytes, own, sizeof own, &pool, sizeof pool);
  return same ? lls_pol_state_import(m, pass_own, walk.end, bytes)
              : import_holdings(m, &walk);
}
