/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state handed over to another generation: the side's (policy/side.h), which has the
 * blocks, then the arrays that say who has which slots; sets and tables follow
 * from them.
 *
 * Another manager can take those sequences that lie as in every manager: all on the
 * device, from the left, in full blocks with none at the other end. While a state is
 * written, the side's list of the first group, which is empty otherwise, shows their
 * parts. Sequences from another manager come in this list: here they get left parts,
 * whatever their class, and are never displaced.
 */
#include "bidirectional.h"

#include <llmserve/policy/state.h>

/* ---- sequences as in every manager ------------------------------------------------- */

static bool lies_as_usual(const struct bidirectional *m, const struct sequence *s)
{
  if (s->slots == 0 || s->gone > 0 || s->end != LLS_LEFT_TO_RIGHT || s->sharing > 0 ||
      s->slots != cached_of(m, s) || s->moving != NOT_MOVING)
    return false;
  for (uint32_t at = s->first; at != s->last; at = m->parts[at].next)
    if (m->parts[at].count != m->side.block_tokens)
      return false;
  return true;
}

/* Shows the parts of such sequences as the side's lists, until hide. */
static void show(struct bidirectional *m)
{
  for (uint32_t i = 0; i < m->n_slots; i++) {
    struct sequence *s = &m->sequences[i];
    if (!lies_as_usual(m, s))
      continue;
    bidi_list(m, s);
    side_of(m, s)->partial = 0;
    lls_pol_rows_list(&m->side.rows, side_of(m, s), 0)->past = s->parts;
  }
}

static void hide(struct bidirectional *m)
{
  for (uint32_t i = 0; i < m->n_slots; i++) {
    struct lls_pol_sequence *s = &m->side.rows.sequences[i];
    s->partial = s->row != LLS_POL_NIL;
    lls_pol_rows_list(&m->side.rows, s, 0)->past = 0;
  }
}

/* Gives a sequence from another manager its blocks, which the side has claimed. */
static void take_over(struct bidirectional *m, uint32_t slot)
{
  const struct lls_pol_rows *rows = &m->side.rows;
  const struct lls_pol_sequence *from = &rows->sequences[slot];
  struct lls_pol_slabs *pool = &m->side.slabs[LLS_TIER_DEVICE];
  struct sequence *s = &m->sequences[slot];
  *s = (struct sequence){.first = LLS_POL_NIL, .last = LLS_POL_NIL};
  for (uint32_t i = 0; i < lls_pol_rows_held(rows, from, 0); i++) {
    uint32_t unit = lls_pol_rows_entries(rows, from, 0)[i].block;
    if (s->slots < from->cached)
      bidi_open(m, s, lls_pol_slabs_number(pool, unit), s->last, s->slots,
                lls_pol_min(m->side.block_tokens, from->cached - s->slots));
    else if (lls_pol_slabs_let_go(pool, unit))
      lls_pol_slabs_free(pool, unit);
  }
}

/* ---- for this one ------------------------------------------------------------------ */

/* Derives the other members from the arrays, as far as these make sense. */
static int derive(struct bidirectional *m)
{
  for (uint32_t part = 0; part < 2 * m->n_blocks; part++)
    if (m->parts[part].count > m->side.block_tokens)
      return -EINVAL;
  bidi_make_sets(m);
  for (uint32_t b = 0; b < m->n_host_blocks; b++) {
    const struct host_block *h = &m->host_blocks[b];
    if (h->owner == LLS_POL_NIL)
      continue;
    if (h->owner >= m->n_slots || h->group >= m->groups)
      return -EINVAL;
    table_of(m, &m->sequences[h->owner])[h->group] = b + 1;
  }
  for (uint32_t i = 0; i < m->n_slots; i++)
    m->sequences[i].listed = 0;
  hide(m);
  return 0;
}

int bidi_pass(void *manager, struct lls_pol_state_walk *w)
{
  struct bidirectional *m = manager;
  lls_pol_state_pass(w, &m->host_hand, sizeof m->host_hand);
  lls_pol_state_pass(w, m->used, sizeof m->used);
  lls_pol_state_pass(w, m->parts, (size_t)2 * m->n_blocks * sizeof *m->parts);
  lls_pol_state_pass(w, m->sequences, m->n_slots * sizeof *m->sequences);
  lls_pol_state_pass(w, m->host_blocks, m->n_host_blocks * sizeof *m->host_blocks);
  lls_pol_state_pass(w, m->host_bits,
                     (size_t)m->n_host_blocks * m->bit_words * sizeof *m->host_bits);
  if (lls_pol_state_is_torn(w))
    return -EINVAL;
  return lls_pol_state_is_read(w) ? derive(m) : 0;
}

void bidi_make_empty(void *manager)
{
  struct bidirectional *m = manager;
  for (uint32_t i = 0; i < 2 * m->n_blocks; i++)
    m->parts[i] =
        (struct part){.owner = LLS_POL_NIL, .previous = LLS_POL_NIL, .next = LLS_POL_NIL};
  for (uint32_t i = 0; i < m->n_slots; i++)
    m->sequences[i] = (struct sequence){.first = LLS_POL_NIL, .last = LLS_POL_NIL};
  for (uint32_t i = 0; i < m->n_host_blocks; i++)
    m->host_blocks[i] = (struct host_block){.owner = LLS_POL_NIL};
  m->host_hand = m->used[0] = m->used[1] = 0;
  memset(m->host_bits, 0, (size_t)m->n_host_blocks * m->bit_words * sizeof *m->host_bits);
  memset(m->host_table, 0, (size_t)m->n_slots * m->groups * sizeof *m->host_table);
  bidi_make_sets(m);
}

int bidi_export(void *self, struct lls_blob *out)
{
  struct bidirectional *m = self;
  if (m->side.journal.open)
    return -EBUSY;
  show(m);
  int rc = lls_pol_side_export(&m->side, out);
  hide(m);
  return rc;
}

int bidi_import(void *self, const struct lls_blob *in)
{
  struct bidirectional *m = self;
  int rc = lls_pol_side_import(&m->side, in);
  for (uint32_t i = 0; i < m->n_slots && rc == 0; i++)
    if (lls_pol_rows_held(&m->side.rows, &m->side.rows.sequences[i], 0) > 0)
      take_over(m, i);
  hide(m);
  rc = lls_pol_state_audit(m, rc, lls_pol_face_audit);
  if (rc < 0)
    lls_pol_side_make_empty(&m->side);
  return rc;
}
