/* SPDX-License-Identifier: Apache-2.0 */
/* The marks of the simulated cache's contents; see shadow.h. */
#include "tools/plugin-check/shadow.h"

#include <stdlib.h>
#include <string.h>

void shadow_free(struct shadow *s)
{
  free(s->tiers[LLS_TIER_DEVICE]);
  free(s->tiers[LLS_TIER_HOST]);
  free(s->read_by);
  free(s->written_by);
  *s = (struct shadow){0};
}

static void *slots_of(uint32_t units, uint32_t block_tokens, size_t size)
{
  void *slots = calloc((size_t)units * block_tokens + 1, size);
  if (slots == NULL)
    abort();
  return slots;
}

void shadow_resize(struct shadow *s, const struct lls_cache_geometry *g,
                   const struct lls_group *group)
{
  const uint32_t units[] = {g->device_units, g->host_units};
  uint32_t form_units[LLS_FORM_INT8 + 1] = {0};
  for (uint32_t form = 0; form <= LLS_FORM_INT8; form++) {
    const struct lls_group_form *f = lls_group_form_of(group, form);
    form_units[form] = f != NULL ? f->block_units : 0;
  }
  if (s->tiers[0] != NULL && s->block_tokens == g->block_tokens &&
      s->units[0] == units[0] && s->units[1] == units[1] &&
      memcmp(form_units, s->form_units, sizeof form_units) == 0)
    return;
  shadow_free(s);
  s->block_tokens = g->block_tokens;
  memcpy(s->form_units, form_units, sizeof form_units);
  for (uint32_t tier = LLS_TIER_DEVICE; tier <= LLS_TIER_HOST; tier++) {
    s->units[tier] = units[tier];
    s->tiers[tier] = slots_of(units[tier], g->block_tokens, sizeof *s->tiers[tier]);
  }
  s->read_by = slots_of(units[0], g->block_tokens, sizeof *s->read_by);
  s->written_by = slots_of(units[0], g->block_tokens, sizeof *s->written_by);
}

void shadow_begin(struct shadow *s)
{
  size_t slots = (size_t)s->units[LLS_TIER_DEVICE] * s->block_tokens;
  if (!s->has_async)
    return;
  memset(s->read_by, 0, slots * sizeof *s->read_by);
  memset(s->written_by, 0, slots * sizeof *s->written_by);
  s->has_async = false;
}

/* ---- slots of a block --------------------------------------------------------- */

struct place { /* a slot of a block; units = 0: outside of the pool */
  uint32_t form, units;
  size_t first, stride; /* in the tier's marks: of its first unit, from unit to unit */
};

static struct place place_at(const struct shadow *s, uint32_t tier, uint32_t form,
                             uint32_t block, uint32_t slot)
{
  form = form == LLS_FORM_NONE ? (uint32_t)LLS_FORM_KV : form;
  if (tier > LLS_TIER_HOST || form > LLS_FORM_INT8 || slot >= s->block_tokens ||
      block + (uint64_t)s->form_units[form] > s->units[tier])
    return (struct place){0};
  return (struct place){form, s->form_units[form], (size_t)block * s->block_tokens + slot,
                        s->block_tokens};
}

/* The mark of one of a block's units. */
static uint64_t part_of(uint64_t mark, const struct place *p, uint32_t unit)
{
  uint64_t of = p->form * UINT64_C(0x9E3779B97F4A7C15);
  of += unit * UINT64_C(0xC2B2AE3D27D4EB4F);
  return mark == 0 ? 0 : mark ^ of;
}

static void put(const struct shadow *s, uint32_t tier, const struct place *p,
                uint64_t mark)
{
  for (uint32_t unit = 0; unit < p->units; unit++)
    s->tiers[tier][p->first + unit * p->stride] = part_of(mark, p, unit);
}

/* 0: never written, or by a block in another form, or of another place. */
static uint64_t get(const struct shadow *s, uint32_t tier, const struct place *p)
{
  if (p->units == 0)
    return 0;
  uint64_t first = s->tiers[tier][p->first];
  uint64_t mark = first ^ part_of(~UINT64_C(0), p, 0) ^ ~UINT64_C(0);
  if (first == 0)
    return 0;
  for (uint32_t unit = 0; unit < p->units; unit++)
    if (s->tiers[tier][p->first + unit * p->stride] != part_of(mark, p, unit))
      return 0;
  return mark;
}

static void occupy(uint32_t *by, const struct place *p, uint32_t index)
{
  for (uint32_t unit = 0; unit < p->units; unit++)
    by[p->first + unit * p->stride] = index + 1;
}

bool shadow_copy(struct shadow *s, const struct lls_copy *c, uint32_t index)
{
  uint32_t from = c->source_tier, to = c->target_tier;
  int64_t target = (int64_t)c->slot + c->shift;
  bool whole = c->source_form != LLS_FORM_INT8 && c->target_form != LLS_FORM_INT8;
  if (from + to > LLS_TIER_HOST || c->group > 0 || c->n_slots == 0 || target < 0 ||
      c->slot + c->n_slots > s->block_tokens || target + c->n_slots > s->block_tokens ||
      (!whole && c->n_slots != s->block_tokens))
    return false;
  s->has_async |= c->order == LLS_COPY_ASYNC;
  for (uint32_t n = 0; n < c->n_slots; n++) {
    uint32_t i = c->shift > 0 ? c->n_slots - 1 - n : n; /* in one block they overlap */
    struct place source = place_at(s, from, c->source_form, c->source, c->slot + i);
    struct place place = place_at(s, to, c->target_form, c->target, (uint32_t)target + i);
    if (source.units == 0 || place.units == 0)
      return false;
    put(s, to, &place, get(s, from, &source));
    if (c->order == LLS_COPY_ASYNC && from == LLS_TIER_DEVICE)
      occupy(s->read_by, &source, index);
    if (c->order == LLS_COPY_ASYNC && to == LLS_TIER_DEVICE)
      occupy(s->written_by, &place, index);
  }
  return true;
}

/* ---- tokens in slots ---------------------------------------------------------- */

struct walk { /* a walk along a block list, in token order */
  const char *name;
  uint64_t kind; /* kind of vector in the list */
  const struct lls_block_entry *entries;
  uint32_t count, at;
};

static bool is_hidden(const struct lls_group_list *l)
{
  return l->n_entries > 0 && l->entries[0].form == LLS_FORM_HIDDEN;
}

/* Returns the list that the step writes: of X, or of K and V. */
static struct walk written_of(const struct lls_group_list *l)
{
  bool hidden = is_hidden(l);
  return (struct walk){hidden ? "X" : "KV", hidden ? 3 : 1, l->entries, l->n_entries, 0};
}

/* Returns the list that the step reads of earlier steps. */
static struct walk read_of(const struct lls_group_list *l)
{
  return l->n_restored > 0 ? (struct walk){"X", 3, l->restored, l->n_restored, 0}
                           : written_of(l);
}

/* Returns the entry of a token; NULL if the list has none for it. */
static const struct lls_block_entry *entry_of(struct walk *w, uint32_t token)
{
  if (w->at < w->count && token < w->entries[w->at].first_token)
    return NULL; /* the list begins after this token */
  while (w->at < w->count &&
         token - w->entries[w->at].first_token >= w->entries[w->at].count)
    w->at++;
  return w->at < w->count ? &w->entries[w->at] : NULL;
}

/* Returns the slot of a token; outside if it has none. */
static struct place slot_of(const struct shadow *s, const struct lls_block_entry *e,
                            uint32_t token)
{
  if (e == NULL)
    return (struct place){0};
  uint32_t slot = token - e->first_token;
  if (e->direction == LLS_RIGHT_TO_LEFT)
    slot = s->block_tokens - 1 - slot;
  return place_at(s, LLS_TIER_DEVICE, e->form, e->block, slot);
}

/* Returns the first hash of a request. Blocks of the salted tenant differ from all
 * others, even for the same tokens. */
static uint64_t first_hash(const struct lls_request *r)
{
  return r->tenant == FAR_TENANT ? UINT64_C(0xA0761D6478BD642F) : 0;
}

/* Returns the hash of a token and all tokens before it, from the hash of those
 * before. */
static uint64_t next_hash(uint64_t before, int32_t token)
{
  return (before ^ (uint64_t)(uint32_t)token ^ UINT64_C(0x9E3779B97F4A7C15)) *
         UINT64_C(0x100000001b3);
}

static uint64_t mark_of(uint64_t hash, uint64_t kind)
{
  /* 0 is reserved for slots never written */
  return (hash ^ kind) * UINT64_C(0xD1342543DE82EF95) | 1;
}

/* Sets the mark of a token. The step computes only the model's element, so int8 slots
 * stay as they are. */
static void write_token(const struct shadow *s, struct walk *w, uint32_t token,
                        uint64_t hash)
{
  const struct lls_block_entry *e = entry_of(w, token);
  struct place place = slot_of(s, e, token);
  if (place.form != LLS_FORM_INT8)
    put(s, LLS_TIER_DEVICE, &place, mark_of(hash, w->kind));
}

void shadow_write(struct shadow *s, const struct lls_group_list *l,
                  const struct lls_request *r, uint32_t from, uint32_t until)
{
  struct walk w = written_of(l);
  uint64_t hash = first_hash(r);
  for (uint32_t i = 0; i < until; i++) {
    hash = next_hash(hash, r->tokens[i]);
    if (i >= from || l->n_restored > 0)
      write_token(s, &w, i, hash);
  }
}

uint32_t shadow_verify(const struct shadow *s, const struct lls_group_list *l,
                       const struct lls_request *r, const struct lls_group *group,
                       uint32_t until, const char **name)
{
  struct walk w = read_of(l);
  uint32_t from = w.kind == 3 ? 0 : lls_group_begin(group, until);
  uint64_t hash = first_hash(r);
  *name = w.name;
  for (uint32_t i = 0; i < until; i++) {
    hash = next_hash(hash, r->tokens[i]);
    if (i < from)
      continue;
    struct place place = slot_of(s, entry_of(&w, i), i);
    if (get(s, LLS_TIER_DEVICE, &place) != mark_of(hash, w.kind))
      return i;
  }
  return until;
}

/* Returns 1 + the index of the ASYNC copy that uses a token's slot; 0: none. */
static uint32_t user_of(const struct shadow *s, const uint32_t *by,
                        const struct lls_block_entry *e, uint32_t token)
{
  struct place place = slot_of(s, e, token);
  uint32_t user = 0;
  for (uint32_t unit = 0; unit < place.units && user == 0; unit++)
    user = by[place.first + unit * place.stride];
  return user;
}

/* Returns the first token of [from, until) whose slot a copy writes or, if the pass
 * writes it, reads. */
static uint32_t collide(const struct shadow *s, struct walk w, bool writes, uint32_t from,
                        uint32_t until, uint32_t *index)
{
  for (uint32_t i = from; i < until; i++) {
    const struct lls_block_entry *e = entry_of(&w, i);
    uint32_t by = user_of(s, s->written_by, e, i);
    if (by == 0 && writes)
      by = user_of(s, s->read_by, e, i);
    if (by == 0)
      continue;
    *index = by - 1;
    return i;
  }
  return until;
}

uint32_t shadow_collide(const struct shadow *s, const struct lls_group_list *l,
                        uint32_t from, uint32_t until, uint32_t *index)
{
  if (!s->has_async)
    return until;
  uint32_t at = collide(s, read_of(l), false, 0, from, index);
  if (at < from)
    return at;
  return collide(s, written_of(l), true, l->n_restored > 0 ? 0 : from, until, index);
}

uint32_t shadow_token_in(const struct shadow *s, uint32_t block, uint32_t slot,
                         const struct lls_request *r)
{
  struct place place = place_at(s, LLS_TIER_DEVICE, LLS_FORM_KV, block, slot);
  uint64_t hash = first_hash(r), mark = get(s, LLS_TIER_DEVICE, &place);
  for (uint32_t i = 0; mark != 0 && i < lls_request_length(r); i++) {
    hash = next_hash(hash, r->tokens[i]);
    if (mark == mark_of(hash, written_of(&(struct lls_group_list){0}).kind))
      return i;
  }
  return UINT32_MAX;
}
