/* SPDX-License-Identifier: Apache-2.0 */
/* See shadow.h. */
#include "tools/plugin-check/shadow.h"

#include <stdlib.h>
#include <string.h>

void shadow_free(struct shadow *s)
{
  free(s->device);
  free(s->host);
  *s = (struct shadow){0};
}

void shadow_resize(struct shadow *s, const struct lls_cache_geometry *g)
{
  if (s->device != NULL && s->block_tokens == g->block_tokens &&
      s->device_units == g->device_units && s->host_units == g->host_units)
    return;
  shadow_free(s);
  s->block_tokens = g->block_tokens;
  s->device_units = g->device_units;
  s->host_units = g->host_units;
  s->device = calloc((size_t)g->device_units * g->block_tokens + 1, sizeof *s->device);
  s->host = calloc((size_t)g->host_units * g->block_tokens + 1, sizeof *s->host);
  if (s->device == NULL || s->host == NULL)
    abort();
}

bool shadow_copy(struct shadow *s, const struct lls_copy *c)
{
  uint64_t *from = c->kind == LLS_COPY_HOST_TO_DEVICE ? s->host : s->device;
  uint64_t *to = c->kind == LLS_COPY_DEVICE_TO_HOST ? s->host : s->device;
  uint32_t from_units = from == s->host ? s->host_units : s->device_units;
  uint32_t to_units = to == s->host ? s->host_units : s->device_units;
  if (c->kind > LLS_COPY_DEVICE_TO_DEVICE || c->source >= from_units ||
      c->target >= to_units || c->slot + c->n_slots > s->block_tokens ||
      c->slot + c->shift < 0 ||
      (uint32_t)(c->slot + c->shift) + c->n_slots > s->block_tokens)
    return false;
  memmove(to + (size_t)c->target * s->block_tokens + (size_t)(c->slot + c->shift),
          from + (size_t)c->source * s->block_tokens + c->slot, c->n_slots * sizeof *to);
  return true;
}

/* ---- tokens in slots ---------------------------------------------------------- */

struct walk { /* along a list, in token order */
  const struct lls_block_entry *entries;
  uint32_t count, at;
};

/* The slot of a token, NULL if the list has none for it. */
static uint64_t *slot_of(const struct shadow *s, struct walk *w, uint32_t token)
{
  while (w->at < w->count &&
         token - w->entries[w->at].first_token >= w->entries[w->at].count)
    w->at++;
  if (w->at == w->count)
    return NULL;
  const struct lls_block_entry *e = &w->entries[w->at];
  uint32_t slot = token - e->first_token;
  if (e->direction == LLS_RIGHT_TO_LEFT)
    slot = s->block_tokens - 1 - slot;
  if (e->block >= s->device_units || slot >= s->block_tokens)
    return NULL;
  return &s->device[(size_t)e->block * s->block_tokens + slot];
}

/* Of a token and all before it, given the hash of those before. */
static uint64_t next_hash(uint64_t before, int32_t token)
{
  return (before ^ (uint64_t)(uint32_t)token ^ UINT64_C(0x9E3779B97F4A7C15)) *
         UINT64_C(0x100000001b3);
}

enum { K_MARK = 1, V_MARK = 2 };

static uint64_t mark_of(uint64_t hash, uint64_t kind)
{
  return (hash ^ kind) * UINT64_C(0xD1342543DE82EF95) | 1; /* 0 = never written */
}

void shadow_write(struct shadow *s, const struct lls_block_table *t,
                  const struct lls_request *r, uint32_t from, uint32_t until)
{
  struct walk k = {t->k, t->k_count, 0}, v = {t->v, t->v_count, 0};
  uint64_t hash = 0;
  for (uint32_t i = 0; i < until; i++) {
    hash = next_hash(hash, r->tokens[i]);
    if (i < from)
      continue;
    uint64_t *k_slot = slot_of(s, &k, i), *v_slot = slot_of(s, &v, i);
    if (k_slot != NULL)
      *k_slot = mark_of(hash, K_MARK);
    if (v_slot != NULL)
      *v_slot = mark_of(hash, V_MARK);
  }
}

uint32_t shadow_verify(const struct shadow *s, const struct lls_block_table *t,
                       const struct lls_request *r, uint32_t until, const char **list)
{
  struct walk k = {t->k, t->k_count, 0}, v = {t->v, t->v_count, 0};
  uint64_t hash = 0;
  for (uint32_t i = 0; i < until; i++) {
    hash = next_hash(hash, r->tokens[i]);
    const uint64_t *k_slot = slot_of(s, &k, i), *v_slot = slot_of(s, &v, i);
    *list = "K";
    if (k_slot == NULL || *k_slot != mark_of(hash, K_MARK))
      return i;
    *list = "V";
    if (v_slot == NULL || *v_slot != mark_of(hash, V_MARK))
      return i;
  }
  return until;
}
