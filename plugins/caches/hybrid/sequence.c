/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on one sequence: reserving slots for more tokens in its form, and changing
 * from hidden to KV form.
 */
#include "hybrid.h"

#include <errno.h>

/* Changes in the journal for a block that is given back. */
#define CHANGES_PER_BLOCK 48

static enum list list_in(uint32_t form)
{
  return form == LLS_FORM_HIDDEN ? LIST_X : LIST_KV;
}

static uint32_t blocks_of(const struct hybrid *m, const struct lls_pol_sequence *s,
                          uint32_t tokens)
{
  return lls_pol_side_blocks(&m->side, (uint64_t)s->cached + tokens);
}

uint32_t hybrid_form_of(const struct hybrid *m, const struct lls_pol_sequence *s)
{
  if (s->where == LLS_POL_NOWHERE)
    return LLS_FORM_NONE;
  return held_of(m, s, LIST_KV) > 0 ? LLS_FORM_KV : LLS_FORM_HIDDEN;
}

uint32_t hybrid_form(const struct hybrid *m, const struct lls_pol_sequence *s,
                     uint32_t asked)
{
  if (asked != LLS_FORM_NONE)
    return asked;
  if (s->where != LLS_POL_NOWHERE)
    return hybrid_form_of(m, s);
  return m->offers_hidden && m->params.form == DEFAULT_HIDDEN ? LLS_FORM_HIDDEN
                                                              : LLS_FORM_KV;
}

uint32_t hybrid_units_needed(const struct hybrid *m, const struct lls_pol_sequence *s,
                             uint32_t tokens, uint32_t form)
{
  enum list list = list_in(form);
  uint32_t wanted = blocks_of(m, s, tokens), held = held_of(m, s, list);
  return wanted > held ? m->side.units[LLS_TIER_DEVICE][list] * (wanted - held) : 0;
}

/* True if the sequence may take the form: any form while it has no cached token, its own,
 * or KV. */
static bool may_take(const struct hybrid *m, const struct lls_pol_sequence *s,
                     uint32_t form)
{
  return s->cached == 0 || form == LLS_FORM_KV || hybrid_form_of(m, s) == form;
}

/* Is there room for that many blocks of a list; or would there be, if the sequence was
 * alone? */
static bool has_room(const struct hybrid *m, enum list list, uint32_t blocks, bool alone)
{
  const struct lls_pol_slabs *slabs = &m->side.slabs[LLS_TIER_DEVICE];
  uint32_t taken[LLS_POL_MAX_CLASSES] = {0};
  taken[m->side.kinds[LLS_TIER_DEVICE][list]] = blocks;
  return alone ? lls_pol_slabs_fits_alone(slabs, taken)
               : lls_pol_slabs_fits(slabs, taken);
}

/* After LATER the core rolls back the blocks that it took. */
int hybrid_reserve(struct hybrid *m, struct lls_pol_sequence *s, uint32_t tokens,
                   uint32_t form)
{
  struct lls_pol_side *side = &m->side;
  enum list list = list_in(form);
  uint32_t wanted = blocks_of(m, s, tokens), held = held_of(m, s, list);
  if (!may_take(m, s, form))
    return -ENOTSUP;
  if (wanted > side->rows.row_blocks || !has_room(m, list, wanted, true))
    return LLS_RESERVE_NEVER;
  if (wanted <= held)
    return LLS_RESERVE_OK;
  if (!has_room(m, list, wanted - held, false) ||
      (s->row == LLS_POL_NIL && side->rows.n_free == 0) ||
      !lls_pol_journal_has_room(&side->journal, CHANGES_PER_BLOCK))
    return LLS_RESERVE_LATER;
  if (s->cached == 0 && held == 0 && lls_pol_side_drop(side, s) < 0)
    return LLS_RESERVE_LATER; /* room that was made for it in another form */
  if (s->row == LLS_POL_NIL)
    lls_pol_rows_begin(&side->rows, s);
  lls_pol_journal_set(&side->journal, &s->partial, 1);
  lls_pol_slabs_verb(&side->slabs[LLS_TIER_DEVICE]);
  return lls_pol_side_grow(side, s, list, wanted) ? LLS_RESERVE_OK : LLS_RESERVE_LATER;
}

void hybrid_forget_x(struct hybrid *m, struct lls_pol_sequence *s)
{
  const struct lls_host *host = m->side.host;
  if (held_of(m, s, LIST_KV) == 0 || held_of(m, s, LIST_X) == 0)
    return;
  lls_pol_side_shrink(&m->side, s, LIST_X, 0);
  host->count(host->context, "made_kv", 1);
}
