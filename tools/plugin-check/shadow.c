/* SPDX-License-Identifier: Apache-2.0 */
/* See shadow.h. */
#include "tools/plugin-check/shadow.h"

#include <stdlib.h>
#include <string.h>

void shadow_free(struct shadow *s)
{
  free(s->tiers[LLS_TIER_DEVICE]);
  free(s->tiers[LLS_TIER_HOST]);
  *s = (struct shadow){0};
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
    s->tiers[tier] =
        calloc((size_t)2 * units[tier] * g->block_tokens + 1, sizeof *s->tiers[tier]);
    if (s->tiers[tier] == NULL)
      abort();
  }
}

/* NULL: outside. A block of int8 numbers is half of a unit and counts halves; one of the
 * model's numbers begins where its unit does. */
static uint64_t *slot_at(const struct shadow *s, uint32_t tier, uint32_t block,
                         uint32_t element, uint32_t slot)
{
  uint64_t half = element == LLS_ELEMENT_INT8 ? block : (uint64_t)2 * block;
  if (element > LLS_ELEMENT_INT8 || half >= (uint64_t)2 * s->units[tier] ||
      slot >= s->block_tokens)
    return NULL;
  return &s->tiers[tier][half * s->block_tokens + slot];
}

/* Numbers of the model take both halves of a unit: what was in the other one is gone. */
static void clear_other_half(const struct shadow *s, uint64_t *at, uint32_t element,
                             uint32_t n)
{
  if (element == LLS_ELEMENT_MODEL)
    memset(at + s->block_tokens, 0, n * sizeof *at);
}

bool shadow_copy(struct shadow *s, const struct lls_copy *c)
{
  uint32_t from = c->kind == LLS_COPY_HOST_TO_DEVICE ? LLS_TIER_HOST : LLS_TIER_DEVICE;
  uint32_t to = c->kind == LLS_COPY_DEVICE_TO_HOST ? LLS_TIER_HOST : LLS_TIER_DEVICE;
  int64_t target = (int64_t)c->slot + c->shift;
  bool whole =
      c->source_element == LLS_ELEMENT_MODEL && c->target_element == LLS_ELEMENT_MODEL;
  if (c->kind > LLS_COPY_DEVICE_TO_DEVICE || c->n_slots == 0 || target < 0 ||
      c->slot + c->n_slots > s->block_tokens || target + c->n_slots > s->block_tokens ||
      (!whole && c->n_slots != s->block_tokens))
    return false;
  const uint64_t *source = slot_at(s, from, c->source, c->source_element, c->slot);
  uint64_t *place = slot_at(s, to, c->target, c->target_element, (uint32_t)target);
  if (source == NULL || place == NULL)
    return false;
  memmove(place, source, c->n_slots * sizeof *place);
  clear_other_half(s, place, c->target_element, c->n_slots);
  return true;
}

/* ---- tokens in slots ---------------------------------------------------------- */

struct walk { /* along a list, in token order */
  const char *name;
  uint64_t kind; /* of its vectors */
  const struct lls_block_entry *entries;
  uint32_t count, at;
};

struct lists { /* that hold what there is of a sequence */
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

/* The entry of a token, NULL if the list has none for it. */
static const struct lls_block_entry *entry_of(struct walk *w, uint32_t token)
{
  while (w->at < w->count &&
         token - w->entries[w->at].first_token >= w->entries[w->at].count)
    w->at++;
  return w->at < w->count ? &w->entries[w->at] : NULL;
}

/* The slot of a token, NULL if there is none. */
static uint64_t *slot_of(const struct shadow *s, const struct lls_block_entry *e,
                         uint32_t token)
{
  if (e == NULL)
    return NULL;
  uint32_t slot = token - e->first_token;
  if (e->direction == LLS_RIGHT_TO_LEFT)
    slot = s->block_tokens - 1 - slot;
  return slot_at(s, LLS_TIER_DEVICE, e->block, e->element, slot);
}

/* Of a token and all before it, given the hash of those before. */
static uint64_t next_hash(uint64_t before, int32_t token)
{
  return (before ^ (uint64_t)(uint32_t)token ^ UINT64_C(0x9E3779B97F4A7C15)) *
         UINT64_C(0x100000001b3);
}

static uint64_t mark_of(uint64_t hash, uint64_t kind)
{
  return (hash ^ kind) * UINT64_C(0xD1342543DE82EF95) | 1; /* 0 = never written */
}

/* Only the model's numbers are computed: a slot of int8 stays as it is. */
static void write_token(const struct shadow *s, struct walk *w, uint32_t token,
                        uint64_t hash)
{
  const struct lls_block_entry *e = entry_of(w, token);
  uint64_t *slot = slot_of(s, e, token);
  if (slot == NULL || e->element != LLS_ELEMENT_MODEL)
    return;
  *slot = mark_of(hash, w->kind);
  clear_other_half(s, slot, e->element, 1);
}

void shadow_write(struct shadow *s, const struct lls_block_table *t,
                  const struct lls_request *r, uint32_t from, uint32_t until)
{
  bool hidden = t->form == LLS_FORM_HIDDEN, restored = !hidden && t->x_count > 0;
  struct lists l = lists_of(t, hidden);
  uint64_t hash = 0;
  for (uint32_t i = 0; i < until; i++) {
    hash = next_hash(hash, r->tokens[i]);
    for (uint32_t k = 0; k < l.n && (i >= from || restored); k++)
      write_token(s, &l.walks[k], i, hash);
  }
}

uint32_t shadow_verify(const struct shadow *s, const struct lls_block_table *t,
                       const struct lls_request *r, uint32_t until, const char **list)
{
  struct lists l = lists_of(t, t->form == LLS_FORM_HIDDEN || t->x_count > 0);
  uint64_t hash = 0;
  for (uint32_t i = 0; i < until; i++) {
    hash = next_hash(hash, r->tokens[i]);
    for (uint32_t k = 0; k < l.n; k++) {
      struct walk *w = &l.walks[k];
      const uint64_t *slot = slot_of(s, entry_of(w, i), i);
      *list = w->name;
      if (slot == NULL || *slot != mark_of(hash, w->kind))
        return i;
    }
  }
  return until;
}

uint32_t shadow_token_in(const struct shadow *s, uint32_t k_block, uint32_t v_block,
                         uint32_t slot, const struct lls_request *r)
{
  const uint64_t *k = slot_at(s, LLS_TIER_DEVICE, k_block, LLS_ELEMENT_MODEL, slot);
  const uint64_t *v = slot_at(s, LLS_TIER_DEVICE, v_block, LLS_ELEMENT_MODEL, slot);
  const struct lists l = lists_of(&(struct lls_block_table){0}, false);
  uint64_t hash = 0;
  for (uint32_t i = 0; k != NULL && v != NULL && i < lls_request_length(r); i++) {
    hash = next_hash(hash, r->tokens[i]);
    if (*k == mark_of(hash, l.walks[0].kind) && *v == mark_of(hash, l.walks[1].kind))
      return i;
  }
  return UINT32_MAX;
}
