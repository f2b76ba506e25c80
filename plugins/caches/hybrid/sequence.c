/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on one sequence in a transaction: reserving slots for more tokens in its
 * form, changing from hidden to KV form, and dropping it.
 */
#include "hybrid.h"

#include <errno.h>

/* Most changes in the journal by one operation, per block and in addition. Room for them
 * is checked before the operation starts. */
#define CHANGES_PER_BLOCK (CHAINS_CHANGES + 1)
#define CHANGES_PER_VERB  24

static bool can_note(const struct hybrid *m, uint32_t blocks)
{
  return lls_pol_journal_has_room(&m->journal, CHANGES_PER_VERB +
                                                   (uint64_t)CHANGES_PER_BLOCK * blocks);
}

/* ---- blocks and rows --------------------------------------------------------------- */

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

/* The last block of a list, or LLS_POL_NIL. */
static uint32_t last_of(const struct hybrid *m, const struct sequence *s, enum list list)
{
  uint32_t held = s->row != LLS_POL_NIL ? s->held[list] : 0;
  return held > 0 ? list_of(m, s, list)[held - 1].block : LLS_POL_NIL;
}

static void grow(struct hybrid *m, struct sequence *s, enum list list, uint32_t to)
{
  uint32_t last = last_of(m, s, list);
  LLS_POL_CHECK(s->row < m->n_rows && to <= m->row_blocks);
  for (uint32_t i = s->held[list]; i < to; i++) {
    struct lls_block_entry *entry = &list_of(m, s, list)[i];
    last = chains_take(&m->blocks, list, last);
    entry->first_token = i * m->block_tokens;
    entry->count = (uint16_t)m->block_tokens;
    entry->form = list == LIST_X ? LLS_FORM_HIDDEN : LLS_FORM_KV;
    set(m, &entry->block, last);
  }
  if (to > s->held[list])
    set(m, &s->held[list], to);
}

static void free_list(struct hybrid *m, struct sequence *s, enum list list)
{
  for (uint32_t i = s->held[list]; i-- > 0;)
    chains_give_back(&m->blocks, list_of(m, s, list)[i].block);
  if (s->held[list] > 0)
    set(m, &s->held[list], 0);
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

uint32_t hybrid_slabs_needed(const struct hybrid *m, const struct sequence *s,
                             uint32_t tokens, uint32_t form)
{
  enum list list = list_in(form);
  uint32_t wanted = blocks_of(m, (uint64_t)s->cached + tokens), held = s->held[list];
  return wanted > held
             ? chains_slabs_for(&m->blocks, list, wanted - held, last_of(m, s, list))
             : 0;
}

/* True if the sequence may take the form: any form while it has no cached token, its own,
 * or KV. */
static bool may_take(const struct sequence *s, uint32_t form)
{
  return s->cached == 0 || s->form == form || form == LLS_FORM_KV;
}

/* Returns the number of slabs that a sequence of `blocks` blocks takes alone. */
static uint32_t slabs_alone(const struct hybrid *m, uint32_t form, uint32_t blocks)
{
  return chains_slabs_for(&m->blocks, list_in(form), blocks, LLS_POL_NIL);
}

int hybrid_reserve(struct hybrid *m, struct sequence *s, uint32_t tokens, uint32_t form)
{
  uint32_t wanted = blocks_of(m, (uint64_t)s->cached + tokens);
  if (!may_take(s, form))
    return -ENOTSUP;
  if (wanted > m->row_blocks || slabs_alone(m, form, wanted) > m->blocks.n_slabs)
    return LLS_RESERVE_NEVER;
  uint32_t needed = hybrid_slabs_needed(m, s, tokens, form);
  if (needed > m->blocks.n_free || (s->row == LLS_POL_NIL && m->n_rows_free == 0) ||
      !can_note(m, wanted + s->held[LIST_X] + s->held[LIST_KV]))
    return LLS_RESERVE_LATER;
  if (s->cached == 0 && s->form != form)
    hybrid_drop(m, s); /* room that was made for it in another form */
  if (s->row == LLS_POL_NIL)
    take_row(m, s);
  set(m, &s->form, form);
  grow(m, s, list_in(form), wanted);
  return LLS_RESERVE_OK;
}

/* ---- letting go -------------------------------------------------------------------- */

void hybrid_forget_x(struct hybrid *m, struct sequence *s)
{
  if (s->form != LLS_FORM_KV || s->held[LIST_X] == 0)
    return;
  free_list(m, s, LIST_X);
  m->host->count(m->host->context, "made_kv", 1);
}

void hybrid_drop(struct hybrid *m, struct sequence *s)
{
  if (s->row == LLS_POL_NIL)
    return;
  free_list(m, s, LIST_X);
  free_list(m, s, LIST_KV);
  free_row(m, s);
  set(m, &s->form, LLS_FORM_NONE);
  set(m, &s->cached, 0);
}
