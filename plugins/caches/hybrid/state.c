/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hands the state over to another generation or another cache manager. The blob has the
 * blocks of each sequence, from which the rest follows.
 */
#include "hybrid.h"

#include <llmserve/policy/holdings.h>

static const uint32_t forms[N_LISTS] = {LLS_FORM_KV, LLS_FORM_HIDDEN};

static bool is_held(const struct sequence *s)
{
  return s->admitted && s->row != LLS_POL_NIL;
}

static uint32_t lists_of(const struct sequence *s)
{
  return (s->held[LIST_KV] > 0) + (s->held[LIST_X] > 0);
}

static char *write_sequence(const struct hybrid *m, uint32_t slot, char *to)
{
  const struct sequence *s = &m->sequences[slot];
  const struct lls_holding h = {.request = s->request,
                                .slot = slot,
                                .cached_tokens = s->cached,
                                .n_lists = lists_of(s)};
  to = lls_pol_holding_write(to, &h);
  for (uint32_t list = 0; list < N_LISTS; list++) {
    struct lls_held_list head = {.form = forms[list], .n_blocks = s->held[list]};
    if (head.n_blocks > 0)
      to = lls_pol_holding_write_list(to, &head, list_of(m, s, list));
  }
  return to;
}

int hybrid_export(struct hybrid *m, struct lls_blob *out)
{
  struct lls_holdings head = {.bytes = sizeof head,
                              .block_tokens = m->block_tokens,
                              .device_units = m->blocks.n_slabs * m->blocks.slab_units};
  if (m->journal.open)
    return -EBUSY;
  for (uint32_t i = 0; i < m->n_slots; i++)
    if (is_held(&m->sequences[i])) {
      const struct sequence *s = &m->sequences[i];
      head.bytes +=
          lls_pol_holding_bytes(lists_of(s), (size_t)s->held[LIST_KV] + s->held[LIST_X]);
      head.n++;
    }
  char *to = malloc(head.bytes);
  if (to == NULL)
    return -ENOMEM;
  *out =
      (struct lls_blob){.version = LLS_STATE_HOLDINGS, .bytes = head.bytes, .data = to};
  memcpy(to, &head, sizeof head);
  to += sizeof head;
  for (uint32_t i = 0; i < m->n_slots; i++)
    if (is_held(&m->sequences[i]))
      to = write_sequence(m, i, to);
  return 0;
}

/* Points `by` to the lists by form; false: a list of another form, or two of one. */
static bool sort(const struct lls_pol_held *lists, uint32_t n,
                 const struct lls_pol_held *by[N_LISTS])
{
  by[LIST_KV] = by[LIST_X] = NULL;
  for (uint32_t i = 0; i < n && i < LLS_POL_HELD_LISTS; i++) {
    enum list list = list_in(lists[i].list.form);
    if (lists[i].list.form != forms[list] || lists[i].list.group != 0 ||
        lists[i].list.first_token != 0 || by[list] != NULL)
      return false;
    by[list] = &lists[i];
  }
  return n > 0 && n <= LLS_POL_HELD_LISTS;
}

/* True for a holding that this manager could have made itself. */
static bool can_hold(const struct hybrid *m, const struct lls_holding *h,
                     const struct lls_pol_held *const by[N_LISTS])
{
  const struct lls_pol_held *covering = by[LIST_KV] != NULL ? by[LIST_KV] : by[LIST_X];
  for (uint32_t list = 0; list < N_LISTS; list++)
    if (by[list] != NULL && by[list]->list.n_blocks > m->row_blocks)
      return false;
  return (by[LIST_X] == NULL || m->offers_hidden) && h->slot < m->n_slots &&
         !m->sequences[h->slot].admitted && m->n_rows_free > 0 &&
         covering->list.n_blocks >= blocks_of(m, h->cached_tokens);
}

/* Takes all blocks of the lists, or none. */
static bool claim(struct hybrid *m, const struct lls_pol_held *const by[N_LISTS])
{
  for (uint32_t list = 0; list < N_LISTS; list++) {
    uint32_t n = by[list] != NULL ? by[list]->list.n_blocks : 0, i = 0;
    while (i < n && chains_claim(&m->blocks, list, lls_pol_held_unit(by[list], i)))
      i++;
    if (i == n)
      continue;
    while (i-- > 0)
      chains_give_back(&m->blocks, lls_pol_held_unit(by[list], i));
    for (i = list > 0 && by[0] != NULL ? by[0]->list.n_blocks : 0; i-- > 0;)
      chains_give_back(&m->blocks, lls_pol_held_unit(by[0], i));
    return false;
  }
  return true;
}

static void take_over(struct hybrid *m, const struct lls_holding *h,
                      const struct lls_pol_held *const by[N_LISTS])
{
  struct sequence *s = &m->sequences[h->slot];
  *s = (struct sequence){.request = h->request,
                         .admitted = true,
                         .form = forms[by[LIST_KV] != NULL ? LIST_KV : LIST_X],
                         .row = m->row_head,
                         .cached = h->cached_tokens};
  m->row_head = m->row_next[s->row];
  m->n_rows_free--;
  for (uint32_t list = 0; list < N_LISTS; list++) {
    s->held[list] = by[list] != NULL ? by[list]->list.n_blocks : 0;
    for (uint32_t i = 0; i < s->held[list]; i++)
      list_of(m, s, list)[i] = (struct lls_block_entry){
          .block = lls_pol_held_unit(by[list], i),
          .first_token = i * m->block_tokens,
          .count = (uint16_t)m->block_tokens,
          .form = (uint8_t)forms[list],
      };
  }
}

int hybrid_import(struct hybrid *m, const struct lls_blob *in)
{
  struct lls_pol_holdings walk;
  struct lls_holding h;
  struct lls_pol_held lists[LLS_POL_HELD_LISTS];
  const struct lls_pol_held *by[N_LISTS];
  uint32_t n, units = m->blocks.n_slabs * m->blocks.slab_units;
  int rc =
      lls_pol_holdings_open(&walk, in, m->block_tokens, units, m->blocks.units[LIST_KV]);
  if (rc < 0)
    return m->host->fail(m->host->context, rc, "state of another pool");
  while (lls_pol_holdings_next(&walk, &h, lists, &n))
    if (sort(lists, n, by) && can_hold(m, &h, by) && claim(m, by))
      take_over(m, &h, by);
  if (walk.torn)
    return m->host->fail(m->host->context, -EINVAL, "a state that was cut off");
  return 0;
}
