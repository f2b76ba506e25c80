/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows what a cache manager reports of its blocks (`changes`), as a router does: a
 * block is stored once and removed once, no tier has more blocks than room, and a prefix
 * that the manager finds is of blocks that it has shown, neither fewer nor more.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "tools/plugin-check/watch.h"

struct place { /* a key of the table, without gaps */
  struct lls_key key;
  uint32_t group, tier;
};

struct shown {
  UT_hash_handle hh;
  struct place place;
};

static struct shown *find(const struct witness *w, const struct lls_key *key,
                          uint32_t group, uint32_t tier)
{
  struct shown *s;
  struct place place;
  memset(&place, 0, sizeof place);
  place.key = *key;
  place.group = group;
  place.tier = tier;
  HASH_FIND(hh, w->shown, &place, sizeof place, s);
  return s;
}

static void follow(struct witness *w, const struct lls_block_change *c)
{
  bool comes = c->kind == LLS_BLOCK_STORED;
  struct shown *s = find(w, &c->key, c->group, c->tier);
  if (c->kind != LLS_BLOCK_STORED && c->kind != LLS_BLOCK_REMOVED)
    found(w->watch->findings, "changes: a change of kind %u", c->kind);
  else if (comes == (s != NULL))
    found(w->watch->findings,
          "changes: key %016" PRIx64 " of group %u, tier %u is %s, but it was %sthere",
          c->key.word[0], c->group, c->tier, comes ? "stored" : "removed",
          comes ? "" : "not ");
  if (comes && s == NULL) {
    s = calloc(1, sizeof *s);
    if (s == NULL)
      abort();
    s->place.key = c->key;
    s->place.group = c->group;
    s->place.tier = c->tier;
    HASH_ADD(hh, w->shown, place, sizeof s->place, s);
  } else if (!comes && s != NULL) {
    HASH_DEL(w->shown, s);
    free(s);
  }
}

static size_t changes(void *self, struct lls_block_change *out, size_t max)
{
  struct witness *w = self;
  struct call call = watch_enter(w, "changes", TAG_STEP);
  size_t n = w->real->cache.changes(w->self, out, max);
  watch_leave(w, call);
  for (size_t i = 0; i < n && i < max; i++)
    follow(w, &out[i]);
  w->has_shown = true;
  w->is_at_rest = n < max; /* else some may be left for the next call */
  return n;
}

/* Returns how many of the request's blocks, from the first on, have been shown in every
 * group that reads all, on the device or in any tier. */
static uint32_t run_of(const struct witness *w, const struct lls_request *r,
                       uint32_t tiers)
{
  const struct lls_engine_caps *engine = w->core->engine;
  for (uint32_t i = 0; i < r->n_keys; i++)
    for (uint32_t group = 0; group < engine->n_groups; group++) {
      bool is_there = engine->groups[group]->kind != LLS_GROUP_FULL;
      for (uint32_t tier = 0; tier < tiers; tier++)
        is_there |= find(w, &r->keys[i], group, tier) != NULL;
      if (!is_there)
        return i;
    }
  return r->n_keys;
}

/* Not of managers that convert full blocks, which may put a block into the index when a
 * transaction begins. */
void watch_changes_prefix(struct witness *w, const struct lls_request *r, uint32_t tokens)
{
  uint32_t block_tokens = w->geometry.block_tokens, blocks = tokens / block_tokens;
  struct lls_cache_info info = {.size = sizeof info};
  if (!w->has_shown || w->watch->light || w->geometry.device_form != LLS_FORM_NONE ||
      w->core->engine->n_groups > 1 ||
      w->core->engine->groups[0]->kind != LLS_GROUP_FULL || tokens == 0)
    return;
  if (w->real->cache.info(w->self, r, &info) < 0 || info.cached_tokens > 0)
    return; /* it has taken its prefix */
  if (run_of(w, r, LLS_TIER_DISK + 1) < blocks)
    found(w->watch->findings,
          "prefix: %u blocks of request %" PRIu64
          ", of which `changes` has shown %u: it has not said that they were stored",
          blocks, r->id, run_of(w, r, LLS_TIER_DISK + 1));
  uint32_t most = (lls_request_length(r) - 1) / block_tokens, run = run_of(w, r, 1);
  if (w->is_at_rest && (run < most ? run : most) > blocks)
    found(w->watch->findings,
          "prefix: %u blocks of request %" PRIu64
          ", but `changes` has shown %u on the device: it has not said that they left",
          blocks, r->id, run);
}

void watch_changes_free(struct witness *w)
{
  struct shown *s, *next;
  HASH_ITER(hh, w->shown, s, next)
  {
    HASH_DEL(w->shown, s);
    free(s);
  }
}

void watch_changes(struct lls_cache_vtable *ours)
{
  WATCHED(ours, changes);
}
