/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on one sequence in a transaction: reserving slots for more tokens in its
 * form, changing from hidden to KV form, and dropping it.
 */
#include "hybrid.h"

#include <errno.h>

/* Most changes in the journal by one operation, per unit and in addition. Room for them
 * is checked before the operation starts. */
#define CHANGES_PER_UNIT 5
#define CHANGES_PER_VERB 16

static bool can_note(const struct hybrid *m, uint32_t units)
{
  return lls_pol_journal_has_room(&m->journal,
                                  CHANGES_PER_VERB + (uint64_t)CHANGES_PER_UNIT * units);
}

/* ---- units and rows ---------------------------------------------------------------- */

static uint32_t take_unit(struct hybrid *m)
{
  uint32_t unit = m->unit_head;
  LLS_POL_CHECK(m->n_free > 0 && unit < m->n_units);
  set(m, &m->unit_head, m->unit_next[unit]);
  set(m, &m->n_free, m->n_free - 1);
  return unit;
}

static void free_unit(struct hybrid *m, uint32_t unit)
{
  LLS_POL_CHECK(unit < m->n_units && m->n_free < m->n_units);
  set(m, &m->unit_next[unit], m->unit_head);
  set(m, &m->unit_head, unit);
  set(m, &m->n_free, m->n_free + 1);
}

static void take_row(struct hybrid *m, struct sequence *s)
{
  LLS_POL_CHECK(s->row == LLS_POL_NIL && m->n_rows_free > 0 && m->row_head < m->n_rows);
  set(m, &s->row, m->row_head);
  set(m, &m->row_head, m->row_next[s->row]);
  set(m, &m->n_rows_free, m->n_rows_free - 1);
}

static void free_row(struct hybrid *m, struct sequence *s)
{
  LLS_POL_CHECK(s->row < m->n_rows && m->n_rows_free < m->n_rows);
  set(m, &m->row_next[s->row], m->row_head);
  set(m, &m->row_head, s->row);
  set(m, &m->n_rows_free, m->n_rows_free + 1);
  set(m, &s->row, LLS_POL_NIL);
}

static void put(struct hybrid *m, const struct sequence *s, enum list list, uint32_t i)
{
  struct lls_block_entry *entry = &list_of(m, s, list)[i];
  LLS_POL_CHECK(s->row < m->n_rows && i < m->row_blocks);
  entry->first_token = i * m->block_tokens;
  entry->count = (uint16_t)m->block_tokens;
  set(m, &entry->block, take_unit(m));
}

/* K and V in turn: as long as none is in hidden form, a block's K and V are units 2b
 * and 2b + 1, as a manager of such pairs can take them over. */
static void grow_kv(struct hybrid *m, const struct sequence *s, uint32_t to)
{
  for (uint32_t i = s->held_kv; i < to; i++) {
    put(m, s, LIST_K, i);
    put(m, s, LIST_V, i);
  }
}

static void grow_x(struct hybrid *m, const struct sequence *s, uint32_t to)
{
  for (uint32_t i = s->held_x; i < to; i++)
    put(m, s, LIST_X, i);
}

static void free_kv(struct hybrid *m, const struct sequence *s)
{
  for (uint32_t i = s->held_kv; i-- > 0;) {
    free_unit(m, list_of(m, s, LIST_V)[i].block);
    free_unit(m, list_of(m, s, LIST_K)[i].block);
  }
}

static void free_x(struct hybrid *m, const struct sequence *s)
{
  for (uint32_t i = s->held_x; i-- > 0;)
    free_unit(m, list_of(m, s, LIST_X)[i].block);
}

/* ---- reserve ----------------------------------------------------------------------- */

uint32_t hybrid_form(const struct hybrid *m, const struct sequence *s, uint32_t asked)
{
  if (asked != LLS_FORM_NONE)
    return asked;
  if (s->form != LLS_FORM_NONE)
    return s->form;
  return m->offers_hidden && m->params.form == DEFAULT_HIDDEN ? LLS_FORM_HIDDEN
                                                              : LLS_FORM_KV;
}

uint32_t hybrid_units_needed(const struct hybrid *m, const struct sequence *s,
                             uint32_t tokens, uint32_t form)
{
  uint32_t wanted = blocks_of(m, (uint64_t)s->cached + tokens);
  uint32_t held = form == LLS_FORM_HIDDEN ? s->held_x : s->held_kv;
  return wanted > held ? units_of(form, wanted - held) : 0;
}

/* True if the sequence may take the form: any form while it has no cached token, its own,
 * or KV. */
static bool may_take(const struct sequence *s, uint32_t form)
{
  return s->cached == 0 || s->form == form || form == LLS_FORM_KV;
}

int hybrid_reserve(struct hybrid *m, struct sequence *s, uint32_t tokens, uint32_t form)
{
  uint32_t wanted = blocks_of(m, (uint64_t)s->cached + tokens);
  if (!may_take(s, form))
    return -ENOTSUP;
  if (wanted > m->row_blocks || units_of(form, wanted) > m->n_units)
    return LLS_RESERVE_NEVER;
  uint32_t needed = hybrid_units_needed(m, s, tokens, form);
  if (needed > m->n_free || (s->row == LLS_POL_NIL && m->n_rows_free == 0) ||
      !can_note(m, needed + s->held_x + 2 * s->held_kv))
    return LLS_RESERVE_LATER;
  if (s->cached == 0 && s->form != form)
    hybrid_drop(m, s); /* room that was made for it in another form */
  if (s->row == LLS_POL_NIL)
    take_row(m, s);
  set(m, &s->form, form);
  if (form == LLS_FORM_HIDDEN && wanted > s->held_x) {
    grow_x(m, s, wanted);
    set(m, &s->held_x, wanted);
  } else if (form == LLS_FORM_KV && wanted > s->held_kv) {
    grow_kv(m, s, wanted);
    set(m, &s->held_kv, wanted);
  }
  LLS_POL_CHECK(wanted <= (form == LLS_FORM_HIDDEN ? s->held_x : s->held_kv));
  return LLS_RESERVE_OK;
}

/* ---- letting go -------------------------------------------------------------------- */

void hybrid_forget_x(struct hybrid *m, struct sequence *s)
{
  if (s->form != LLS_FORM_KV || s->held_x == 0)
    return;
  free_x(m, s);
  set(m, &s->held_x, 0);
  m->host->count(m->host->context, "made_kv", 1);
}

void hybrid_drop(struct hybrid *m, struct sequence *s)
{
  if (s->row == LLS_POL_NIL)
    return;
  free_x(m, s);
  free_kv(m, s);
  free_row(m, s);
  set(m, &s->form, LLS_FORM_NONE);
  set(m, &s->held_kv, 0);
  set(m, &s->held_x, 0);
  set(m, &s->cached, 0);
}
