/* SPDX-License-Identifier: Apache-2.0 */
/* State changes of the hostile cache manager; see cache_hostile.h. */
#include "t/plugin/cache_hostile.h"

#include <stdlib.h>
#include <string.h>

static void *must(void *pointer)
{
  if (pointer == NULL)
    abort();
  return pointer;
}

/* ---- undo ----------------------------------------------------------------------- */

static void *duplicate(const void *data, size_t bytes)
{
  void *copy = must(malloc(bytes + 1));
  if (bytes > 0)
    memcpy(copy, data, bytes);
  return copy;
}

static struct units copy_units(const struct units *u)
{
  return (struct units){duplicate(u->free, u->total * sizeof *u->free), u->n, u->total};
}

void hostile_put_aside(struct hostile *h, struct sequence *s)
{
  if (h->n_undo == h->undo_capacity) {
    h->undo_capacity = 2 * h->undo_capacity + 64;
    h->undo = must(realloc(h->undo, h->undo_capacity * sizeof *h->undo));
  }
  struct undo *u = &h->undo[h->n_undo++];
  *u = (struct undo){.sequence = s,
                     .before = *s,
                     .device = copy_units(&h->device),
                     .host = copy_units(&h->host),
                     .n_copies = h->n_copies};
  u->before.list.entries =
      duplicate(s->list.entries, s->list.n * sizeof(struct lls_block_entry));
}

static void free_undo(struct undo *u)
{
  free(u->before.list.entries);
  free(u->device.free);
  free(u->host.free);
}

static void restore_units(struct units *to, const struct units *from)
{
  to->n = from->n;
  memcpy(to->free, from->free, from->total * sizeof *to->free);
}

void hostile_undo(struct hostile *h, uint32_t n)
{
  while (h->n_undo > n) {
    struct undo *u = &h->undo[--h->n_undo];
    struct sequence *s = u->sequence, before = u->before;
    memcpy(s->list.entries, before.list.entries,
           before.list.n * sizeof(struct lls_block_entry));
    before.list.entries = s->list.entries;
    *s = before;
    restore_units(&h->device, &u->device);
    restore_units(&h->host, &u->host);
    h->n_copies = u->n_copies;
    free_undo(u);
  }
}

void hostile_forget(struct hostile *h)
{
  while (h->n_undo > 0)
    free_undo(&h->undo[--h->n_undo]);
}

/* ---- blocks --------------------------------------------------------------------- */

static uint32_t take(struct hostile *h, struct units *u)
{
  uint32_t i = contract_between(&h->contract, 0, u->n - 1), unit = u->free[i];
  u->free[i] = u->free[--u->n];
  return unit;
}

static void add_copy(struct hostile *h, uint32_t from, uint32_t to,
                     const struct lls_block_entry *e, uint32_t slots, uint32_t source,
                     uint32_t target)
{
  if (h->n_copies == h->copies_capacity) {
    h->copies_capacity = 2 * h->copies_capacity + 64;
    h->copies = must(realloc(h->copies, h->copies_capacity * sizeof *h->copies));
  }
  bool left = e->direction == LLS_LEFT_TO_RIGHT;
  h->copies[h->n_copies++] = (struct lls_copy){
      .source_tier = (uint8_t)from,
      .target_tier = (uint8_t)to,
      .order = LLS_COPY_BEFORE_STEP,
      .slot = (uint16_t)(left ? 0 : h->block_tokens - slots),
      .n_slots = (uint16_t)slots,
      .source = source,
      .target = target,
  };
}

/* ---- sequences ------------------------------------------------------------------ */

/* Makes wasteful entries only while there is plenty of memory, so that no request
 * starves because of them. */
static struct lls_block_entry make_entry(struct hostile *h, uint32_t first_token)
{
  struct contract *c = &h->contract;
  bool uneven = h->device.n > h->device.total / 2 && contract_chance(c, h->uneven);
  bool right = c->host->engine->right_to_left && contract_chance(c, 50);
  return (struct lls_block_entry){
      .block = take(h, &h->device),
      .first_token = first_token,
      .count =
          (uint16_t)(uneven ? contract_between(c, 1, h->block_tokens) : h->block_tokens),
      .direction = right ? LLS_RIGHT_TO_LEFT : LLS_LEFT_TO_RIGHT,
  };
}

bool hostile_grow(struct hostile *h, struct sequence *s, uint32_t tokens)
{
  struct list *l = &s->list;
  while (l->room < tokens) {
    if (h->device.n == 0)
      return false;
    l->entries[l->n] = make_entry(h, l->room);
    l->room += l->entries[l->n++].count;
  }
  return true;
}

void hostile_drop(struct hostile *h, struct sequence *s)
{
  struct units *u = s->on_host ? &h->host : &h->device;
  struct list *l = &s->list;
  while (l->n > 0)
    u->free[u->n++] = l->entries[--l->n].block;
  l->room = 0;
  s->on_host = false;
  s->cached = 0;
}

static void move_entry(struct hostile *h, struct sequence *s, struct lls_block_entry *e,
                       struct units *from, struct units *to)
{
  uint32_t used = s->cached - e->first_token, source = e->block;
  e->block = take(h, to);
  add_copy(h, s->on_host ? LLS_TIER_HOST : LLS_TIER_DEVICE,
           s->on_host ? LLS_TIER_DEVICE : LLS_TIER_HOST, e,
           used < e->count ? used : e->count, source, e->block);
  from->free[from->n++] = source;
}

bool hostile_move(struct hostile *h, struct sequence *s)
{
  struct units *from = s->on_host ? &h->host : &h->device;
  struct units *to = s->on_host ? &h->device : &h->host;
  struct list *l = &s->list;
  while (l->n > 0 && l->entries[l->n - 1].first_token >= s->cached) { /* empty ones */
    l->room -= l->entries[--l->n].count;
    from->free[from->n++] = l->entries[l->n].block;
  }
  for (uint32_t j = 0; j < l->n; j++) {
    if (to->n == 0)
      return false;
    move_entry(h, s, &l->entries[j], from, to);
  }
  s->on_host = !s->on_host;
  return true;
}

bool hostile_alone(const struct hostile *h, const struct sequence *s)
{
  for (uint32_t i = 0; i < h->n_slots; i++) {
    const struct sequence *other = &h->sequences[i];
    if (other != s && other->handle != NULL && other->list.n > 0 && !other->on_host)
      return false;
  }
  return true;
}
