/* SPDX-License-Identifier: Apache-2.0 */
/*
 * States of sequences in a step (LLS_GROUP_STATE): checks the lists that the cache
 * manager made of them, and cuts the rows of a sequence into spans where a list wants a
 * copy of the state, so that a device only knows blocks that it reads and writes.
 */
#include <errno.h>

#include "core/engine/engine_internal.h"

int lls_engine_check_states(const struct lls_engine *e, const struct lls_group_list *l,
                            uint32_t group, uint32_t context, struct lls_error *err)
{
  uint32_t units = e->groups[group].form_units[LLS_FORM_STATE], before = context;
  if (l->n_entries == 0 || l->n_restored > 0)
    return lls_fail(err, -EINVAL, "group %u has no state of the sequence", group);
  if (l->entries[0].first_token != context)
    return lls_fail(err, -EINVAL,
                    "group %u has the state after %u tokens, where %u are cached", group,
                    l->entries[0].first_token, context);
  for (uint32_t i = 0; i < l->n_entries; i++) {
    const struct lls_block_entry *entry = &l->entries[i];
    bool between = i > 0 && i + 1 < l->n_entries;
    if (entry->count != 0 ||
        (entry->form != LLS_FORM_NONE && entry->form != LLS_FORM_STATE))
      return lls_fail(err, -EINVAL, "entry %u of group %u is no state", i, group);
    if (entry->block + (uint64_t)units > e->pool_shape.device_units)
      return lls_fail(err, -EINVAL, "state of %u units from unit %u on of %u in the pool",
                      units, entry->block, e->pool_shape.device_units);
    if (between && entry->first_token <= before)
      return lls_fail(err, -EINVAL,
                      "group %u has the state after %u tokens behind that after %u",
                      group, entry->first_token, before);
    before = between ? entry->first_token : before;
  }
  return 0;
}

/* The group of states, which is the last one; UINT32_MAX: there is none. */
static uint32_t state_group(const struct lls_engine *e)
{
  uint32_t last = e->caps.n_groups - 1;
  return !e->config.encoder && lls_engine_group_is_state(e, last) ? last : UINT32_MAX;
}

/* Adds the spans of the rows that are text, cut where the list wants a copy of the
 * state. Returns the block that goes on. */
static uint32_t lay_out_text(struct lls_engine *e, const struct lls_engine_sequence *s,
                             const struct lls_group_list *l, struct lls_state_span *span)
{
  uint32_t n_rows = s->n_tokens - s->drafts, done = 0, first_row = span->first_row;
  for (uint32_t i = l->n_entries > 1; i < l->n_entries; i++) {
    bool last = i + 1 == l->n_entries;
    uint32_t until = last ? n_rows : l->entries[i].first_token - s->context;
    if (until > n_rows)
      continue; /* the step is shorter than what was reserved, or the rest are guesses */
    LLS_CHECK(e->step.n_spans < 2 * e->options.max_tokens);
    span->target = l->entries[i].block;
    span->first_row = first_row + done;
    span->n_rows = until - done;
    e->spans[e->step.n_spans++] = *span;
    span->turn++; /* of spans, not of entries: devices begin with turn 0 */
    span->source = span->target;
    done = until;
  }
  return span->source;
}

void lls_engine_lay_out_spans(struct lls_engine *e, const struct lls_engine_sequence *s,
                              uint32_t index, uint32_t first_row)
{
  uint32_t group = state_group(e);
  if (group == UINT32_MAX)
    return;
  const struct lls_group_list *l = &s->table->lists[group];
  struct lls_state_span span = {
      .source = s->context > 0 ? l->entries[0].block : LLS_NO_STATE,
      .first_row = first_row,
  };
  span.source = lay_out_text(e, s, l, &span);
  if (s->drafts == 0)
    return;
  span.target = LLS_NO_STATE;
  span.first_row = first_row + s->n_tokens - s->drafts;
  span.n_rows = s->drafts;
  span.spare = e->tails.n_folds;
  e->spans[e->step.n_spans++] = span;
  lls_engine_add_tail(e, s, l, index, span.first_row);
}
