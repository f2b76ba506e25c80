/* SPDX-License-Identifier: Apache-2.0 */
/* The contents of all slots, and the check that a step reads what was computed; see
 * groups.h. */
#include "tools/plugin-check/groups.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void groups_memory_init(struct groups_memory *m, uint32_t units)
{
  m->units = units;
  m->slots = calloc((size_t)units + 1, sizeof *m->slots);
  m->owner = calloc((size_t)units + 1, sizeof *m->owner);
  if (m->slots == NULL || m->owner == NULL)
    abort();
}

void groups_memory_free(struct groups_memory *m)
{
  free(m->slots);
  free(m->owner);
}

/* ---- blocks ----------------------------------------------------------------------- */

struct groups_block {
  struct groups_memory *memory;
  uint32_t unit, units, group, form;
};

/* False, after a finding: there is no such block. `what`: who names it. */
static bool block_at(struct groups_rig *r, uint32_t tier, uint32_t group, uint32_t form,
                     uint32_t unit, const char *what, struct groups_block *out)
{
  const struct lls_group_form *f =
      group < r->set->n ? lls_group_form_of(r->groups[group], form) : NULL;
  if (f == NULL || tier > LLS_TIER_HOST ||
      unit + (uint64_t)f->block_units > r->tiers[tier].units) {
    found(r->findings,
          "%s: %s names unit %u of tier %u, form %u of group %u, which is not there",
          r->set->name, what, unit, tier, form, group);
    return false;
  }
  *out = (struct groups_block){&r->tiers[tier], unit, f->block_units, group, f->form};
  return true;
}

/* The block's units are its own from now on. */
static void own(const struct groups_block *b)
{
  for (uint32_t u = b->unit; u < b->unit + b->units; u++)
    b->memory->owner[u] = b->unit + 1;
}

/* Returns the first unit into which another block was written since; UINT32_MAX: none. */
static uint32_t lost_unit(const struct groups_block *b)
{
  for (uint32_t u = b->unit; u < b->unit + b->units; u++)
    if (b->memory->owner[u] != b->unit + 1)
      return u;
  return UINT32_MAX;
}

/* Returns a slot's mark: it depends on the contents, the group and the form. */
static uint64_t mark_in(const struct groups_block *b, uint64_t contents)
{
  return contents == 0 ? 0
                       : contents ^ b->group * UINT64_C(0x9E3779B97F4A7C15) ^
                             b->form * UINT64_C(0xC2B2AE3D27D4EB4F);
}

static uint64_t *slot_in(const struct groups_block *b, uint32_t slot)
{
  return &b->memory->slots[b->unit][slot];
}

/* Returns the contents of a request's state after some tokens; a state is in slot 0. */
static uint64_t state_after(const struct groups_request *q, uint32_t tokens)
{
  return tokens == 0 ? 0 : q->contents[tokens - 1] ^ UINT64_C(0xA0761D6478BD642F);
}

/* ---- copies ----------------------------------------------------------------------- */

static void copy_one(struct groups_rig *r, const struct lls_copy *c)
{
  struct groups_block from, to;
  bool state = c->group < r->set->n && r->groups[c->group]->kind == LLS_GROUP_STATE;
  uint32_t n = state && c->n_slots == 0 ? 1 : c->n_slots;
  if (!block_at(r, c->source_tier, c->group, c->source_form, c->source, "a copy",
                &from) ||
      !block_at(r, c->target_tier, c->group, c->target_form, c->target, "a copy", &to))
    return;
  if (c->slot + n > GROUPS_TOKENS || c->slot + c->shift < 0 ||
      c->slot + c->shift + n > GROUPS_TOKENS) {
    found(r->findings, "%s: a copy of slots %u to %u, shifted by %d, of a block of %d",
          r->set->name, c->slot, c->slot + n, c->shift, GROUPS_TOKENS);
    return;
  }
  uint64_t buffer[GROUPS_TOKENS];
  memcpy(buffer, slot_in(&from, c->slot), n * sizeof *buffer);
  bool whole = lost_unit(&from) == UINT32_MAX;
  own(&to);
  for (uint32_t i = 0; i < n; i++) /* of a form's contents the other form is made */
    *slot_in(&to, (uint32_t)(c->slot + c->shift) + i) =
        whole ? mark_in(&to, mark_in(&from, buffer[i])) : 0;
}

void groups_copy(struct groups_rig *r, bool beside)
{
  const struct lls_copy *copies = NULL;
  size_t n = r->module->cache.copies(r->self, &copies);
  for (size_t i = 0; i < n; i++)
    if ((copies[i].order == LLS_COPY_ASYNC) == beside)
      copy_one(r, &copies[i]);
}

/* ---- tokens ----------------------------------------------------------------------- */

static const struct lls_block_entry *entry_of(const struct lls_group_list *l,
                                              uint32_t token)
{
  for (uint32_t i = 0; i < l->n_entries; i++)
    if (token >= l->entries[i].first_token &&
        token - l->entries[i].first_token < l->entries[i].count)
      return &l->entries[i];
  return NULL;
}

static uint32_t slot_of(const struct lls_block_entry *e, uint32_t token)
{
  uint32_t i = token - e->first_token;
  return e->direction == LLS_RIGHT_TO_LEFT ? GROUPS_TOKENS - 1 - i : i;
}

/* The block and slot of a token that the step reads or writes. */
static bool place_of(struct groups_rig *r, const struct groups_request *q,
                     const struct lls_group_list *l, uint32_t group, uint32_t token,
                     struct groups_block *b, uint32_t *slot)
{
  const struct lls_block_entry *e = entry_of(l, token);
  if (e == NULL || e->count > GROUPS_TOKENS) {
    found(r->findings,
          "%s: token %u of request %" PRIu64
          " is not in its list of group %u, where a step "
          "after %u tokens reads from token %u on",
          r->set->name, token, q->view.id, group, q->context,
          lls_group_begin(r->groups[group], q->context));
    return false;
  }
  *slot = slot_of(e, token);
  return block_at(r, LLS_TIER_DEVICE, group, e->form, e->block, "an entry", b);
}

static void judge_token(struct groups_rig *r, const struct groups_request *q,
                        const struct groups_block *b, uint32_t slot, uint32_t token)
{
  uint32_t lost = lost_unit(b);
  if (lost != UINT32_MAX && b->memory->owner[lost] != 0)
    found(r->findings,
          "%s: unit %u of the block at %u of group %u is also one of the block at %u: "
          "token %u of request %" PRIu64 " is lost",
          r->set->name, lost, b->unit, b->group, b->memory->owner[lost] - 1, token,
          q->view.id);
  else if (*slot_in(b, slot) != mark_in(b, q->contents[token]))
    found(r->findings,
          "%s: token %u of request %" PRIu64 " is not in the block at %u, form %u, where "
          "its list of group %u has it",
          r->set->name, token, q->view.id, b->unit, b->form, b->group);
}

/* Do the entries of tokens [from, until) hold them? */
static void judge_tokens(struct groups_rig *r, const struct groups_request *q,
                         const struct lls_group_list *l, uint32_t group, uint32_t from,
                         uint32_t until)
{
  struct groups_block b;
  uint32_t slot, before = r->findings->n;
  for (uint32_t p = from; p < until && r->findings->n == before; p++) {
    if (!place_of(r, q, l, group, p, &b, &slot))
      return;
    r->others += b.form != r->groups[group]->forms[0].form;
    judge_token(r, q, &b, slot, p);
  }
}

/* The contents of a slot into which a guess was written that was not accepted. */
#define WRONG_GUESS UINT64_C(0x8EBC6AF09C88C6E3)

static void write_tokens(struct groups_rig *r, const struct groups_request *q,
                         const struct lls_group_list *l, uint32_t group)
{
  struct groups_block b;
  uint32_t slot;
  uint32_t text = q->context + q->run + q->accepted;
  for (uint32_t p = q->context; p < q->context + q->run + q->guesses; p++) {
    if (!place_of(r, q, l, group, p, &b, &slot))
      return;
    if (!(lls_group_form_of(r->groups[group], b.form)->flags & LLS_FORM_WRITTEN)) {
      found(r->findings,
            "%s: token %u of request %" PRIu64 " is to be written in form %u",
            r->set->name, p, q->view.id, b.form);
      return;
    }
    own(&b);
    *slot_in(&b, slot) = p < text ? mark_in(&b, q->contents[p]) : WRONG_GUESS;
  }
}

/* ---- states ----------------------------------------------------------------------- */

/* A list of states: the first one is read, the last one is written, and those between
 * get the state after first_token tokens. */
static void judge_state(struct groups_rig *r, const struct groups_request *q,
                        const struct lls_group_list *l, uint32_t group)
{
  struct groups_block b;
  uint32_t after = q->context;
  if (l->n_entries == 0) {
    found(r->findings, "%s: request %" PRIu64 " has no state in group %u", r->set->name,
          q->view.id, group);
    return;
  }
  if (l->entries[0].first_token != after)
    found(r->findings,
          "%s: the state of request %" PRIu64 " is that after %u tokens, "
          "where %u are cached",
          r->set->name, q->view.id, l->entries[0].first_token, after);
  for (uint32_t i = 0; i < l->n_entries; i++)
    if (!block_at(r, LLS_TIER_DEVICE, group, l->entries[i].form, l->entries[i].block,
                  "an entry", &b))
      return;
  block_at(r, LLS_TIER_DEVICE, group, l->entries[0].form, l->entries[0].block, "an entry",
           &b);
  if (after > 0 && (lost_unit(&b) != UINT32_MAX ||
                    *slot_in(&b, 0) != mark_in(&b, state_after(q, after))))
    found(r->findings,
          "%s: the block at %u is not the state of request %" PRIu64 " after %u tokens",
          r->set->name, b.unit, q->view.id, after);
}

static void put_state(struct groups_rig *r, const struct groups_request *q,
                      const struct lls_block_entry *e, uint32_t group, uint32_t after)
{
  struct groups_block b;
  if (!block_at(r, LLS_TIER_DEVICE, group, e->form, e->block, "an entry", &b))
    return;
  own(&b);
  *slot_in(&b, 0) = mark_in(&b, state_after(q, after));
}

static void write_state(struct groups_rig *r, const struct groups_request *q,
                        const struct lls_group_list *l, uint32_t group)
{
  uint32_t end = q->context + q->run;
  for (uint32_t i = 1; i + 1 < l->n_entries; i++)
    if (l->entries[i].first_token <= end)
      put_state(r, q, &l->entries[i], group, l->entries[i].first_token);
  if (l->n_entries > 0)
    put_state(r, q, &l->entries[l->n_entries - 1], group, end);
}

/* ---- steps ------------------------------------------------------------------------ */

static bool is_state(const struct groups_rig *r, uint32_t group)
{
  return r->groups[group]->kind == LLS_GROUP_STATE;
}

void groups_read(struct groups_rig *r, struct groups_request *q,
                 struct lls_block_table *t)
{
  int rc = r->module->cache.table(r->self, &q->view, t);
  if (rc != 0 || t->n_groups != r->set->n || t->lists == NULL) {
    found(r->findings, "%s: table returns %d with %u lists where there are %u groups",
          r->set->name, rc, t->n_groups, r->set->n);
    *t = (struct lls_block_table){0};
    return;
  }
  for (uint32_t group = 0; group < t->n_groups; group++)
    if (is_state(r, group))
      judge_state(r, q, &t->lists[group], group);
    else
      judge_tokens(r, q, &t->lists[group], group,
                   lls_group_begin(r->groups[group], q->context), q->context);
}

void groups_write(struct groups_rig *r, const struct groups_request *q,
                  const struct lls_block_table *t)
{
  for (uint32_t group = 0; group < t->n_groups; group++)
    if (is_state(r, group))
      write_state(r, q, &t->lists[group], group);
    else
      write_tokens(r, q, &t->lists[group], group);
}

void groups_verify(struct groups_rig *r, const struct groups_request *q,
                   const struct lls_block_table *t)
{
  for (uint32_t group = 0; group < t->n_groups; group++)
    if (!is_state(r, group))
      judge_tokens(r, q, &t->lists[group], group,
                   lls_group_begin(r->groups[group], q->context),
                   q->context + q->run + q->accepted);
}
