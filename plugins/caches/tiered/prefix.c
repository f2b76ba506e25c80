/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Full blocks: their conversion to int8 and their sharing through the index.
 *
 * Only computed() adds blocks to the index. An int8 block is indexed before its contents
 * exist: the copies that convert it come first in the next step, before all that read it.
 * If a sequence has computed a block that the index has already, it takes the indexed
 * block and frees its own.
 */
#include "tiered.h"

static void take_blocks(struct tiered *m, struct sequence *s, const struct lls_request *r,
                        uint32_t n)
{
  uint32_t parent = LLS_POL_ROOT, cached = n * m->block_tokens;
  uint32_t gone = lls_pol_min(lls_pol_window_gone(&m->window, cached), n - 1);
  set(m, &s->row, tiered_take_row(m));
  for (uint32_t i = 0; i < n; i++) {
    parent = lls_pol_prefixes_next(&m->index, r, i, parent);
    tiered_hold_known(m, parent);
    tiered_put_known(m, s->row, i, parent);
  }
  for (uint32_t i = gone; i-- > 0;) /* before the window: indexed, not held */
    tiered_let_go_known(m, known_block(m, s->row, i));
  set(m, &s->place, ON_DEVICE);
  set(m, &s->gone, gone);
  set(m, &s->held, n);
  set(m, &s->indexed, n);
  set(m, &s->cached, cached);
  tiered_touch(m, s);
}

/* Leaves at least one token to compute, without which there would be no logits. Indexed
 * blocks are never written, so the last block of a fully indexed prompt is computed
 * again.
 */
uint32_t tiered_prefix(struct tiered *m, struct sequence *s, const struct lls_request *r,
                       bool take)
{
  if (s->place != NOWHERE)
    return s->cached;
  if (!m->params.prefix_sharing || m->n_rows_free == 0)
    return 0;
  uint32_t n = lls_pol_prefixes_match(&m->index, r, m->row_blocks);
  if (n > 0 && n * m->block_tokens == lls_request_length(r))
    n--;
  if (n == 0 || !tiered_can_note(m, n))
    return 0;
  if (take)
    take_blocks(m, s, r, n);
  return n * m->block_tokens;
}

/* A full block of the sequence becomes a narrow one, behind the one before it. */
static void make_int8(struct tiered *m, const struct sequence *s, uint32_t i)
{
  struct lls_block_entry *e = list_of(m, s->row) + i;
  uint32_t after = i > s->gone ? e[-1].block : LLS_POL_NIL, wide = e->block;
  uint32_t unit = tiered_take_block(m, false, NARROW, after);
  LLS_POL_CHECK(m->pending.n < m->pending.max);
  m->pending.copies[m->pending.n++] = (struct lls_copy){
      .order = LLS_COPY_BEFORE_STEP,
      .source_form = LLS_FORM_KV,
      .target_form = LLS_FORM_INT8,
      .n_slots = (uint16_t)m->block_tokens,
      .source = wide,
      .target = unit,
  };
  e->block = unit;
  e->form = LLS_FORM_INT8;
  tiered_free_block(m, false, wide);
  m->host->count(m->host->context, "blocks_quantised", 1);
}

/* Replaces the i-th block, whose predecessors are indexed, by the equal block of the
 * index if there is one. */
static bool go_over(struct tiered *m, const struct sequence *s, const struct lls_key *key,
                    uint32_t parent, uint32_t i)
{
  struct lls_block_entry *e = list_of(m, s->row) + i;
  uint32_t known = lls_pol_prefixes_find(&m->index, parent, key);
  if (known == LLS_POL_NIL)
    return false;
  tiered_hold_known(m, known);
  tiered_free_block(m, false, e->block);
  tiered_put_known(m, s->row, i, known);
  e->form = m->narrow[false] ? LLS_FORM_INT8 : LLS_FORM_KV;
  return true;
}

static void make_known(struct tiered *m, const struct sequence *s,
                       const struct lls_key *key, uint32_t parent, uint32_t i)
{
  uint32_t b = known_block(m, s->row, i);
  lls_pol_prefixes_own(&m->index, b);
  lls_pol_prefixes_insert(&m->index, b, parent, key);
}

/* True if the sequence's blocks may be indexed. A block given back before it was indexed
 * (of a sequence that was on the host, or was handed over) can't be a parent. */
static bool is_shared(const struct tiered *m, const struct sequence *s)
{
  return m->params.prefix_sharing && (s->gone == 0 || s->indexed > s->gone);
}

/* Keeps the last indexed block: it will be the parent of the next one. */
static void trim(struct tiered *m, struct sequence *s)
{
  uint32_t gone = lls_pol_max(s->gone, lls_pol_window_gone(&m->window, s->cached));
  if (m->params.prefix_sharing && s->indexed > s->gone)
    gone = lls_pol_min(gone, s->indexed - 1);
  tiered_free_list(m, s, s->row, false, s->gone, gone);
  s->gone = gone;
}

void tiered_computed(struct tiered *m, struct sequence *s, const struct lls_request *r,
                     uint32_t cached)
{
  uint32_t before = lls_pol_max(int8_blocks(m, s, false), s->gone);
  bool shared = is_shared(m, s), int8 = m->narrow[false];
  uint32_t first = shared ? s->indexed : before, full = cached / m->block_tokens;
  s->cached = cached;
  for (uint32_t i = first; i < full && (shared || int8); i++) {
    const struct lls_key *key = &r->keys[i];
    uint32_t parent = LLS_POL_ROOT;
    if (shared && i > 0)
      parent = known_block(m, s->row, i - 1);
    bool known = shared && go_over(m, s, key, parent, i);
    if (!known && int8 && i >= before)
      make_int8(m, s, i);
    if (!known && shared)
      make_known(m, s, key, parent, i);
    s->indexed += shared;
  }
  trim(m, s);
  LLS_POL_CHECK(slabs_to_be_had(m, false) >= spare_slabs(m)); /* invariant 3 */
}

void tiered_forget(struct tiered *m, const struct sequence *s)
{
  uint32_t first = s->gone;
  if (s->place != ON_DEVICE || s->indexed == 0)
    return;
  while (first > 0 && first < s->indexed &&
         lls_pol_prefixes_is_parent(&m->index, known_block(m, s->row, first - 1),
                                    known_block(m, s->row, first)))
    first--;
  for (uint32_t i = lls_pol_min(s->indexed, blocks_there(s)); i-- > first;)
    if (lls_pol_prefixes_forget(&m->index, known_block(m, s->row, i)))
      tiered_free_known(m, known_block(m, s->row, i));
}

uint32_t tiered_shared_blocks(const struct tiered *m, const struct sequence *s)
{
  uint32_t end = lls_pol_min(s->indexed, blocks_there(s));
  if (end <= s->gone)
    return 0;
  return lls_pol_prefixes_shared(&m->index, list_of(m, s->row), m->index_units, s->gone,
                                 end);
}
