/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transfers: moving sequences between the tiers while steps compute.
 *
 * The target blocks are taken when a transfer starts, so that it never stops half way for
 * lack of memory. The engine gets the copies block by block, in each step as many as the
 * link carries in `share` of a step's time; offloads before uploads, since they free
 * memory. A step with more copies would have to wait for them, and all its requests too.
 */
#include "tiered.h"

#include <errno.h>

#define STEPS 32 /* the mean of their times estimates the next step's */

/* Changes in the journal for a block that is given back. */
#define CHANGES_PER_BLOCK 48

static void set(struct tiered *m, uint32_t *where, uint32_t value)
{
  lls_pol_journal_set(&m->side.journal, where, value);
}

static struct lls_pol_list *list_of(const struct tiered *m,
                                    const struct lls_pol_sequence *s, uint32_t group)
{
  return lls_pol_rows_list(&m->side.rows, s, group);
}

/* ---- pins ------------------------------------------------------------- */

typedef void pin_or_unpin(struct lls_pol_slabs *, uint32_t unit);

static void pin_blocks(struct tiered *m, const struct lls_pol_sequence *s, uint32_t group,
                       uint32_t begin, uint32_t end, pin_or_unpin *pin)
{
  const struct lls_block_entry *entries = lls_pol_rows_entries(&m->side.rows, s, group);
  for (uint32_t i = begin; i < end; i++)
    pin(&m->side.slabs[LLS_TIER_DEVICE], entries[i].block);
}

/* All blocks on the device of a transfer of s. */
static void pin_transfer(struct tiered *m, const struct lls_pol_sequence *s,
                         pin_or_unpin *pin)
{
  const struct lls_pol_sequence *here =
      s->where == LLS_POL_ON_DEVICE ? s : target_of(m, s);
  for (uint32_t group = 0; group < m->side.n_groups; group++) {
    const struct lls_pol_list *list = list_of(m, here, group);
    pin_blocks(m, here, group, list->gone, list->past, pin);
  }
}

/* ---- start and end ------------------------------------------------------------- */

/* The end of a group's list that has the cached tokens and no more room: a state is one
 * block, however many tokens it has seen. */
static uint32_t past_of(const struct tiered *m, const struct lls_pol_sequence *s,
                        uint32_t group)
{
  if (lls_pol_rows_is_state(&m->side.rows, group))
    return 1;
  return lls_pol_side_blocks(&m->side, s->cached);
}

/* Takes the blocks that the sequence goes to. */
static int take_target(struct tiered *m, struct lls_pol_sequence *s, uint32_t tier)
{
  struct lls_pol_side *side = &m->side;
  struct lls_pol_sequence *to = target_of(m, s);
  uint32_t blocks[LLS_POL_MAX_CLASSES] = {0};
  lls_pol_side_count(side, s, tier, lls_pol_side_blocks(side, s->cached), blocks);
  if (!lls_pol_slabs_fits(&side->slabs[tier], blocks) || side->rows.n_free == 0 ||
      !lls_pol_journal_has_room(&side->journal, CHANGES_PER_BLOCK) ||
      lls_pol_side_trim(side, s) < 0)
    return -ENOSPC;
  lls_pol_slabs_verb(&side->slabs[tier]);
  lls_pol_rows_begin(&side->rows, to);
  set(m, &to->where, tier == LLS_TIER_HOST ? LLS_POL_ON_HOST : LLS_POL_ON_DEVICE);
  set(m, &to->cached, s->cached);
  for (uint32_t group = 0; group < side->n_groups; group++) {
    set(m, &list_of(m, to, group)->gone, list_of(m, s, group)->gone);
    set(m, &list_of(m, to, group)->past, list_of(m, s, group)->gone);
    if (!lls_pol_side_grow(side, to, group, past_of(m, s, group)))
      return -ENOSPC;
  }
  return 0;
}

int tiered_start(struct tiered *m, struct lls_pol_sequence *s, bool to_host)
{
  uint32_t mark = m->side.journal.n, slot = slot_of(m, s);
  struct transfer *t = &m->transfers[slot];
  if (s->partial)
    return -EBUSY;
  if (s->where != (to_host ? LLS_POL_ON_DEVICE : LLS_POL_ON_HOST) || s->cached == 0)
    return -EINVAL;
  int rc = take_target(m, s, to_host ? LLS_TIER_HOST : LLS_TIER_DEVICE);
  uint64_t blocks = (uint64_t)m->side.n_groups * m->side.rows.row_blocks;
  if (rc == 0 && !lls_pol_journal_has_room(&m->side.journal, blocks + CHANGES_PER_BLOCK))
    rc = -ENOSPC;
  if (rc < 0) {
    lls_pol_journal_rollback(&m->side.journal, mark);
    return rc;
  }
  pin_transfer(m, s, lls_pol_slabs_pin);
  for (uint32_t group = 0; group < m->side.n_groups; group++)
    set(m, &t->listed[group], list_of(m, s, group)->past);
  if (++m->last_transfer == 0)
    m->last_transfer = 1;
  set(m, &t->number, m->last_transfer);
  set(m, &s->partial, 1);
  set(m, &m->moving[m->n_moving], slot);
  set(m, &m->n_moving, m->n_moving + 1);
  return 0;
}

/* The sequence moves no more. */
static void forget(struct tiered *m, struct lls_pol_sequence *s)
{
  uint32_t i = 0;
  while (m->moving[i] != slot_of(m, s))
    i++;
  LLS_POL_CHECK(i < m->n_moving);
  for (; i + 1 < m->n_moving; i++)
    set(m, &m->moving[i], m->moving[i + 1]);
  set(m, &m->n_moving, m->n_moving - 1);
  set(m, &m->transfers[slot_of(m, s)].number, 0);
  for (uint32_t group = 0; group < m->side.n_groups; group++)
    set(m, &m->transfers[slot_of(m, s)].listed[group], 0);
  set(m, &s->partial, 0);
}

int tiered_stop(struct tiered *m, struct lls_pol_sequence *s)
{
  uint64_t blocks = 0;
  if (!s->partial)
    return 0;
  for (uint32_t group = 0; group < m->side.n_groups; group++)
    blocks += lls_pol_rows_held(&m->side.rows, target_of(m, s), group);
  if (!lls_pol_journal_has_room(&m->side.journal,
                                CHANGES_PER_BLOCK * (3 * blocks + 2) + m->n_slots))
    return -ENOBUFS;
  pin_transfer(m, s, lls_pol_slabs_unpin);
  forget(m, s);
  return lls_pol_side_drop(&m->side, target_of(m, s));
}

/* The sequence has its target's place and blocks. */
static void arrive(struct tiered *m, struct lls_pol_sequence *s)
{
  struct lls_pol_sequence *to = target_of(m, s);
  const struct lls_host *host = m->side.host;
  host->count(host->context, s->where == LLS_POL_ON_DEVICE ? "offloads" : "uploads", 1);
  pin_transfer(m, s, lls_pol_slabs_unpin);
  forget(m, s);
  lls_pol_rows_end(&m->side.rows, s);
  for (uint32_t group = 0; group < m->side.n_groups; group++) {
    *list_of(m, s, group) = *list_of(m, to, group);
    *list_of(m, to, group) = (struct lls_pol_list){0};
  }
  s->row = to->row;
  s->where = to->where;
  s->cached = to->cached;
  *to = (struct lls_pol_sequence){.admitted = 1, .row = LLS_POL_NIL};
}

/* ---- copies ------------------------------------------------------------- */

uint32_t tiered_link_units(const struct tiered *m)
{
  const struct lls_cost *cost = m->side.host->cost;
  struct lls_step_statistics steps = {.size = sizeof steps};
  int64_t thousand =
      cost->transfer_ns(cost->context, 1000 * m->unit_bytes, LLS_LINK_HOST);
  cost->statistics(cost->context, STEPS, &steps);
  if (thousand <= 0 || steps.steps == 0 || steps.mean_ns <= 0)
    return UINT32_MAX;
  double units = 1000 * m->params.share * (double)steps.mean_ns / (double)thousand;
  return units < 1 ? 1 : units < UINT32_MAX ? (uint32_t)units : UINT32_MAX;
}

/* Lists the copy of the i-th block. Returns the units that it fills. */
static uint32_t list_block(struct tiered *m, const struct lls_pol_sequence *s,
                           uint32_t group, uint32_t i)
{
  struct lls_pol_side *side = &m->side;
  const struct lls_pol_sequence *to = target_of(m, s);
  const struct lls_block_entry *source = lls_pol_rows_entries(&side->rows, s, group) + i;
  const struct lls_block_entry *target = lls_pol_rows_entries(&side->rows, to, group) + i;
  uint32_t tier = to->where == LLS_POL_ON_HOST ? LLS_TIER_HOST : LLS_TIER_DEVICE;
  const struct lls_copy copy = {
      .source_tier = (uint8_t)(LLS_TIER_HOST - tier),
      .target_tier = (uint8_t)tier,
      .order = LLS_COPY_ASYNC,
      .group = (uint8_t)group,
      .source_form = source->form,
      .target_form = target->form,
      .n_slots = (uint16_t)lls_pol_side_slots(side, s, group, i),
      .source = source->block,
      .target = target->block,
      .transfer = m->transfers[slot_of(m, s)].number,
  };
  lls_pol_side_copy(side, &copy);
  return target->form == LLS_FORM_NONE ? side->units[tier][group]
                                       : side->full[tier][group].units;
}

/* Lists copies of a sequence's next blocks, the last block first; at least one if there
 * is any budget left. Blocks that it has still are copied again: the copies were listed
 * by another generation. */
static void list_some(struct tiered *m, const struct lls_pol_sequence *s, uint64_t *left)
{
  struct transfer *t = &m->transfers[slot_of(m, s)];
  for (uint32_t group = m->side.n_groups; group-- > 0;) {
    uint32_t gone = list_of(m, s, group)->gone, units;
    t->listed[group] = list_of(m, s, group)->past;
    for (; *left > 0 && t->listed[group] > gone && lls_pol_side_can_copy(&m->side, 1);
         *left -= *left < units ? *left : units)
      units = list_block(m, s, group, --t->listed[group]);
  }
}

void tiered_list_transfers(struct tiered *m)
{
  uint64_t left = m->n_moving > 0 || m->params.to_host ? m->link_units : 0;
  uint64_t leaving = m->side.leaving_units; /* have the link first, but for a block */
  left = left > leaving ? left - leaving : left > 0;
  for (uint32_t where = LLS_POL_ON_DEVICE; where <= LLS_POL_ON_HOST; where++)
    for (uint32_t i = 0; i < m->n_moving; i++) {
      const struct lls_pol_sequence *s = &m->side.rows.sequences[m->moving[i]];
      if (s->where == where)
        list_some(m, s, &left);
    }
  if (m->params.to_host)
    lls_pol_side_to_host(&m->side, left);
}

/* The copies listed so far have ended. */
static void free_sources(struct tiered *m, struct lls_pol_sequence *s)
{
  const struct transfer *t = &m->transfers[slot_of(m, s)];
  uint32_t left = 0;
  for (uint32_t group = m->side.n_groups; group-- > 0;) {
    const struct lls_pol_list *list = list_of(m, s, group);
    if (s->where == LLS_POL_ON_DEVICE)
      pin_blocks(m, s, group, t->listed[group], list->past, lls_pol_slabs_unpin);
    lls_pol_side_shrink(&m->side, s, group, t->listed[group]);
    left += list->past - list->gone;
  }
  if (left == 0)
    arrive(m, s);
}

void tiered_transferred(struct tiered *m, uint32_t transfer)
{
  for (uint32_t i = 0; i < m->n_moving; i++)
    if (m->transfers[m->moving[i]].number == transfer) {
      free_sources(m, &m->side.rows.sequences[m->moving[i]]);
      return;
    }
}
