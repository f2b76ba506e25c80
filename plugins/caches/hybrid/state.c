/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hands the state over to another generation or another cache manager. The blob has the
 * units of each sequence, from which the rest follows. Units without an owner go to the
 * free stack in order, so that K and V of a block are adjacent again.
 */
#include "hybrid.h"

#include <llmserve/policy/holdings.h>

static bool is_held(const struct sequence *s)
{
  return s->admitted && s->row != LLS_POL_NIL;
}

int hybrid_export(struct hybrid *m, struct lls_blob *out)
{
  struct lls_holdings head = {
      .bytes = sizeof head, .block_tokens = m->block_tokens, .device_units = m->n_units};
  if (m->journal.open)
    return -EBUSY;
  for (uint32_t i = 0; i < m->n_slots; i++)
    if (is_held(&m->sequences[i])) {
      head.bytes +=
          lls_pol_holding_bytes(m->sequences[i].held_kv, m->sequences[i].held_x);
      head.n++;
    }
  char *to = malloc(head.bytes);
  if (to == NULL)
    return -ENOMEM;
  *out =
      (struct lls_blob){.version = LLS_STATE_HOLDINGS, .bytes = head.bytes, .data = to};
  memcpy(to, &head, sizeof head);
  to += sizeof head;
  for (uint32_t i = 0; i < m->n_slots; i++) {
    const struct sequence *s = &m->sequences[i];
    if (!is_held(s))
      continue;
    struct lls_holding h = {.request = s->request,
                            .slot = i,
                            .form = s->form,
                            .cached_tokens = s->cached,
                            .kv_count = s->held_kv,
                            .x_count = s->held_x};
    to = lls_pol_holding_write(to, &h, list_of(m, s, LIST_K), list_of(m, s, LIST_V),
                               list_of(m, s, LIST_X));
  }
  return 0;
}

/* True for a holding that this manager could have made itself. */
static bool can_hold(const struct hybrid *m, const struct lls_holding *h)
{
  bool hidden = h->form == LLS_FORM_HIDDEN;
  uint32_t covering = hidden ? h->x_count : h->kv_count;
  return (hidden ? m->offers_hidden : h->form == LLS_FORM_KV) && h->slot < m->n_slots &&
         !m->sequences[h->slot].admitted && m->n_rows_free > 0 &&
         h->kv_count <= m->row_blocks && h->x_count <= m->row_blocks &&
         covering >= blocks_of(m, h->cached_tokens);
}

/* Marks a list's units as used. Returns false if one is outside the pool or used
 * already. */
static bool claim(struct hybrid *m, const char *units, uint32_t n)
{
  uint32_t i = 0;
  for (; i < n; i++) {
    uint32_t unit = lls_pol_holding_unit(units, i);
    if (unit >= m->n_units || m->marks[unit] != 0)
      break;
    m->marks[unit] = 1;
  }
  if (i == n)
    return true;
  while (i-- > 0)
    m->marks[lls_pol_holding_unit(units, i)] = 0;
  return false;
}

static void take_over(struct hybrid *m, const struct lls_holding *h, const char *units)
{
  struct sequence *s = &m->sequences[h->slot];
  const uint32_t held[N_LISTS] = {h->kv_count, h->kv_count, h->x_count};
  *s = (struct sequence){.request = h->request,
                         .admitted = true,
                         .form = h->form,
                         .row = m->row_head,
                         .held_kv = h->kv_count,
                         .held_x = h->x_count,
                         .cached = h->cached_tokens};
  m->row_head = m->row_next[s->row];
  m->n_rows_free--;
  for (uint32_t list = 0; list < N_LISTS; list++)
    for (uint32_t i = 0; i < held[list]; i++, units += sizeof(uint32_t))
      list_of(m, s, list)[i] = (struct lls_block_entry){
          .block = lls_pol_holding_unit(units, 0),
          .first_token = i * m->block_tokens,
          .count = (uint16_t)m->block_tokens,
      };
}

static void free_the_others(struct hybrid *m)
{
  m->unit_head = LLS_POL_NIL;
  m->n_free = 0;
  for (uint32_t unit = m->n_units; unit-- > 0;)
    if (m->marks[unit] == 0) {
      m->unit_next[unit] = m->unit_head;
      m->unit_head = unit;
      m->n_free++;
    }
}

int hybrid_import(struct hybrid *m, const struct lls_blob *in)
{
  struct lls_pol_holdings walk;
  struct lls_holding h;
  const char *units;
  int rc = lls_pol_holdings_open(&walk, in, m->block_tokens, m->n_units);
  if (rc < 0)
    return m->host->fail(m->host->context, rc, "state of another pool");
  memset(m->marks, 0, m->n_units * sizeof *m->marks);
  while (lls_pol_holdings_next(&walk, &h, &units))
    if (can_hold(m, &h) && claim(m, units, 2 * h.kv_count + h.x_count))
      take_over(m, &h, units);
  free_the_others(m);
  if (walk.torn)
    return m->host->fail(m->host->context, -EINVAL, "a state that was cut off");
  return 0;
}
