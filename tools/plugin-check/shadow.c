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
  void *slots = calloc((size_t)2 * units * block_tokens + 1, size);
  if (slots == NULL)
    abort();
  return slots;
}

void shadow_resize(struct shadow *s, const struct lls_cache_geometry *g)
{
  const uint32_t units[] = {g->device_units, g->host_units};
  if (s->tiers[0] != NULL && s->block_tokens == g->block_tokens &&
      s->units[0] == units[0] && s->units[1] == units[1])
    return;
  shadow_free(s);
  s->block_tokens = g->block_tokens;
  for (uint32_t tier = LLS_TIER_DEVICE; tier <= LLS_TIER_HOST; tier++) {
    s->units[tier] = units[tier];
    s->tiers[tier] = slots_of(units[tier], g->block_tokens, sizeof *s->tiers[tier]);
  }
  s->read_by = slots_of(units[0], g->block_tokens, sizeof *s->read_by);
  s->written_by = slots_of(units[0], g->block_tokens, sizeof *s->written_by);
}

void shadow_begin(struct shadow *s)
{
  size_t slots = (size_t)2 * s->units[LLS_TIER_DEVICE] * s->block_tokens;
  if (!s->has_async)
    return;
  memset(s->read_by, 0, slots * sizeof *s->read_by);
  memset(s->written_by, 0, slots * sizeof *s->written_by);
  s->has_async = false;
}

/* Returns a slot's marks; NULL: the block is outside of the pool. An int8 block is half
 * of a unit and is numbered in halves; a block of the model's element begins where its
 * unit does. */
static uint64_t *slot_at(const struct shadow *s, uint32_t tier, uint32_t block,
                         uint32_t form, uint32_t slot)
{
  uint64_t half = form == LLS_FORM_INT8 ? block : (uint64_t)2 * block;
  if (form > LLS_FORM_INT8 || half >= (uint64_t)2 * s->units[tier] ||
      slot >= s->block_tokens)
    return NULL;
  return &s->tiers[tier][half * s->block_tokens + slot];
}

/* A block of the model's element uses both halves of a unit, so the other half's
 * contents are lost. */
static void clear_other_half(const struct shadow *s, uint64_t *at, uint32_t form,
                             uint32_t n)
{
  if (form != LLS_FORM_INT8)
    memset(at + s->block_tokens, 0, n * sizeof *at);
}

/* Marks n slots as busy from one slot of the device on; a block of the model's element
 * occupies both halves of the unit. */
static void occupy(const struct shadow *s, uint32_t *by, const uint64_t *first,
                   uint32_t form, uint32_t n, uint32_t index)
{
  size_t at = (size_t)(first - s->tiers[LLS_TIER_DEVICE]);
  for (uint32_t i = 0; i < n; i++) {
    by[at + i] = index + 1;
    if (form != LLS_FORM_INT8)
      by[at + s->block_tokens + i] = index + 1;
  }
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
  const uint64_t *source = slot_at(s, from, c->source, c->source_form, c->slot);
  uint64_t *place = slot_at(s, to, c->target, c->target_form, (uint32_t)target);
  if (source == NULL || place == NULL)
    return false;
  memmove(place, source, c->n_slots * sizeof *place);
  clear_other_half(s, place, c->target_form, c->n_slots);
  if (c->order != LLS_COPY_ASYNC)
    return true;
  s->has_async = true;
  if (from == LLS_TIER_DEVICE)
    occupy(s, s->read_by, source, c->source_form, c->n_slots, index);
  if (to == LLS_TIER_DEVICE)
    occupy(s, s->written_by, place, c->target_form, c->n_slots, index);
  return true;
}

/* ---- tokens in slots ---------------------------------------------------------- */

struct walk { /* a walk along a block list, in token order */
  const char *name;
  uint64_t kind; /* kind of vector in the list */
  const struct lls_block_entry *entries;
  uint32_t count, at;
};

struct lists { /* the lists that hold all of a sequence */
  struct walk walks[2];
  uint32_t n;
};

static struct lists lists_of(const struct lls_block_table *t, bool hidden)
{
  if (hidden)
    return (struct lists){{{"X", 3, t->x, t->x_count, 0}}, 1};
  return (struct lists){{{"K", 1, t->k, t->k_count, 0}, {"V", 2, t->v, t->v_count, 0}},
                        2};
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

/* Returns the slot of a token; NULL if it has none. */
static uint64_t *slot_of(const struct shadow *s, const struct lls_block_entry *e,
                         uint32_t token)
{
  if (e == NULL)
    return NULL;
  uint32_t slot = token - e->first_token;
  if (e->direction == LLS_RIGHT_TO_LEFT)
    slot = s->block_tokens - 1 - slot;
  return slot_at(s, LLS_TIER_DEVICE, e->block, e->form, slot);
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
  uint64_t *slot = slot_of(s, e, token);
  if (slot == NULL || e->form == LLS_FORM_INT8)
    return;
  *slot = mark_of(hash, w->kind);
  clear_other_half(s, slot, e->form, 1);
}

void shadow_write(struct shadow *s, const struct lls_block_table *t,
                  const struct lls_request *r, uint32_t from, uint32_t until)
{
  bool hidden = t->form == LLS_FORM_HIDDEN, restored = !hidden && t->x_count > 0;
  struct lists l = lists_of(t, hidden);
  uint64_t hash = first_hash(r);
  for (uint32_t i = 0; i < until; i++) {
    hash = next_hash(hash, r->tokens[i]);
    for (uint32_t k = 0; k < l.n && (i >= from || restored); k++)
      write_token(s, &l.walks[k], i, hash);
  }
}

uint32_t shadow_verify(const struct shadow *s, const struct lls_block_table *t,
                       const struct lls_request *r, uint32_t window, uint32_t until,
                       const char **list)
{
  bool hidden = t->form == LLS_FORM_HIDDEN || t->x_count > 0;
  struct lists l = lists_of(t, hidden);
  uint32_t from = hidden ? 0 : lls_window_begin(until, window);
  uint64_t hash = first_hash(r);
  for (uint32_t i = 0; i < until; i++) {
    hash = next_hash(hash, r->tokens[i]);
    for (uint32_t k = 0; k < l.n && i >= from; k++) {
      struct walk *w = &l.walks[k];
      const uint64_t *slot = slot_of(s, entry_of(w, i), i);
      *list = w->name;
      if (slot == NULL || *slot != mark_of(hash, w->kind))
        return i;
    }
  }
  return until;
}

/* Returns 1 + the index of the ASYNC copy that uses a token's slot; 0: none. */
static uint32_t user_of(const struct shadow *s, const uint32_t *by,
                        const struct lls_block_entry *e, uint32_t token)
{
  const uint64_t *slot = slot_of(s, e, token);
  if (slot == NULL)
    return 0;
  size_t at = (size_t)(slot - s->tiers[LLS_TIER_DEVICE]);
  return by[at] == 0 && e->form != LLS_FORM_INT8 ? by[at + s->block_tokens] : by[at];
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

uint32_t shadow_collide(const struct shadow *s, const struct lls_block_table *t,
                        uint32_t from, uint32_t until, uint32_t *index)
{
  bool hidden = t->form == LLS_FORM_HIDDEN, restored = !hidden && t->x_count > 0;
  struct lists read = lists_of(t, hidden || restored), written = lists_of(t, hidden);
  uint32_t at = until;
  for (uint32_t k = 0; s->has_async && k < read.n && at == until; k++) {
    at = collide(s, read.walks[k], false, 0, from, index);
    at = at < from ? at : until;
  }
  for (uint32_t k = 0; s->has_async && k < written.n && at == until; k++)
    at = collide(s, written.walks[k], true, restored ? 0 : from, until, index);
  return at;
}

uint32_t shadow_token_in(const struct shadow *s, uint32_t k_block, uint32_t v_block,
                         uint32_t slot, const struct lls_request *r)
{
  const uint64_t *k = slot_at(s, LLS_TIER_DEVICE, k_block, LLS_FORM_KV, slot);
  const uint64_t *v = slot_at(s, LLS_TIER_DEVICE, v_block, LLS_FORM_KV, slot);
  const struct lists l = lists_of(&(struct lls_block_table){0}, false);
  uint64_t hash = first_hash(r);
  for (uint32_t i = 0; k != NULL && v != NULL && i < lls_request_length(r); i++) {
    hash = next_hash(hash, r->tokens[i]);
    if (*k == mark_of(hash, l.walks[0].kind) && *v == mark_of(hash, l.walks[1].kind))
      return i;
  }
  return UINT32_MAX;
}
