/* SPDX-License-Identifier: Apache-2.0 */
/* A cache manager under watch: checks its answers about memory and the contents of
 * slots; see watch.h. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/plugin-check/watch.h"

/* ---- life --------------------------------------------------------------------- */

/* Returns the memory of an instance, which is kept when its policies are replaced. */
static struct memory *memory_of(struct watch *w, const void *instance, uint32_t n_slots)
{
  struct memory *m = w->memories;
  while (m->instance != NULL && m->instance != instance)
    m++;
  assert(m < w->memories + MAX_INSTANCES);
  m->instance = instance;
  if (m->transfers == NULL)
    m->transfers = calloc(n_slots, sizeof *m->transfers);
  if (m->transfers == NULL)
    abort();
  return m;
}

static int create(const struct lls_host *core, const void *params,
                  const struct lls_cache_geometry *g, void **self)
{
  const struct handed *handed = params;
  struct witness *w = watch_create(handed, core);
  w->geometry = *g;
  w->n_slots = 2 * core->engine->max_requests; /* the number of slots is a power of two */
  w->placed = calloc(w->n_slots, sizeof *w->placed);
  if (w->placed == NULL)
    abort();
  /* each instance has a separate copy of the topology, which identifies it */
  w->memory = memory_of(w->watch, core->topology, w->n_slots);
  shadow_resize(&w->memory->shadow, g, core->engine->groups[0]);
  struct call call = watch_enter(w, "create", TAG_MAIN);
  int rc = w->real->cache.create(&w->host, handed->params, g, &w->self);
  watch_leave(w, call);
  if (rc != 0) {
    free(w->placed);
  } else {
    w->next = w->watch->caches;
    w->watch->caches = w;
  }
  return watch_created(w, rc, self);
}

static void forget_placed(struct witness *w, uint32_t slot)
{
  free(w->placed[slot].left_behind.entries);
  w->placed[slot] = (struct placed){0};
}

static void destroy(void *self)
{
  struct witness *w = self;
  struct call call = watch_enter(w, "destroy", TAG_MAIN);
  if (w->self != NULL)
    w->real->cache.destroy(w->self);
  watch_leave(w, call);
  watch_forget_marks(w, 0);
  watch_changes_free(w);
  free(w->marks);
  for (uint32_t i = 0; i < w->n_slots; i++)
    forget_placed(w, i);
  free(w->placed);
  struct witness **at = &w->watch->caches;
  while (*at != w)
    at = &(*at)->next;
  *at = w->next;
  free(w);
}

static int reconfigure(void *self, const void *params)
{
  struct witness *w = self;
  const struct handed *handed = params;
  struct call call = watch_enter(w, "reconfigure", TAG_MAIN);
  int rc = w->real->cache.reconfigure(w->self, handed->params);
  watch_leave(w, call);
  return rc;
}

/* ---- memory ------------------------------------------------------------------- */

static int capacity(void *self, uint32_t tier, struct lls_capacity *out)
{
  struct witness *w = self;
  struct call call = watch_enter(w, "capacity", TAG_STEP);
  int rc = w->real->cache.capacity(w->self, tier, out);
  watch_leave(w, call);
  uint32_t most =
      tier == LLS_TIER_DEVICE ? w->geometry.device_units : w->geometry.host_units;
  if (rc == 0 && tier <= LLS_TIER_HOST &&
      (out->free_units > out->total_units || out->total_units > most))
    found(w->watch->findings, "capacity: %u units free of %u, in a pool of %u",
          out->free_units, out->total_units, most);
  return rc;
}

/* Is r alone on the device? No other request has memory there, and none was taken off
 * it in this step. */
static bool is_alone(struct witness *w, const struct lls_request *r)
{
  for (uint32_t i = 0; i < w->n_slots; i++) {
    const struct placed *p = &w->placed[i];
    struct lls_cache_info info = {.size = sizeof info};
    if (p->preempted || p->left)
      return false;
    if (p->request == NULL || p->request == r)
      continue;
    if (w->real->cache.info(w->self, p->request, &info) < 0 || info.device_units > 0)
      return false;
  }
  return true;
}

static void judge_refusal(struct witness *w, const struct lls_request *r, uint32_t tokens,
                          int rc)
{
  uint32_t wanted = r->cached_tokens + tokens, slots = w->geometry.block_tokens;
  uint32_t block_units = w->core->engine->groups[0]->forms[0].block_units;
  uint32_t units = block_units * ((wanted + slots - 1) / slots);
  if (units > w->geometry.device_units / 2)
    return; /* the rest may be the manager's own reserve */
  if (rc == LLS_RESERVE_NEVER)
    found(w->watch->findings,
          "reserve says NEVER to %u tokens, %u units, in a pool of %u", wanted, units,
          w->geometry.device_units);
  else if (rc == LLS_RESERVE_LATER && r->cached_tokens == 0 && is_alone(w, r))
    found(w->watch->findings,
          "reserve says LATER to %u tokens, %u units, with no other request in a pool of "
          "%u: "
          "there is nothing to wait for",
          wanted, units, w->geometry.device_units);
}

static int reserve(void *self, const struct lls_request *r, uint32_t tokens,
                   uint32_t form, uint32_t flags)
{
  struct witness *w = self;
  struct call call = watch_enter(w, "reserve", TAG_STEP);
  int rc = w->real->cache.reserve(w->self, r, tokens, form, flags);
  w->is_at_rest = false;
  watch_leave(w, call);
  if (rc > LLS_RESERVE_NEVER)
    found(w->watch->findings, "reserve returned %d: expected enum lls_reserve_result",
          rc);
  else if (rc != LLS_RESERVE_OK && !w->watch->light && !w->watch->any_refusal)
    judge_refusal(w, r, tokens, rc);
  if (w->watch->journal != NULL)
    fprintf(w->watch->journal, "step %" PRIu64 " reserve %" PRIu64 " %u: %d\n", w->step,
            r->id, tokens, rc);
  return rc;
}

static int preempt(void *self, const struct lls_request *r, uint32_t mode)
{
  struct witness *w = self;
  struct call call = watch_enter(w, "preempt", TAG_STEP);
  int rc = w->real->cache.preempt(w->self, r, mode);
  w->is_at_rest = false;
  watch_leave(w, call);
  w->placed[r->slot].preempted |= rc == 0;
  if (w->watch->journal != NULL)
    fprintf(w->watch->journal, "step %" PRIu64 " preempt %" PRIu64 " %u: %d\n", w->step,
            r->id, mode, rc);
  return rc;
}

/* ---- what slots hold ---------------------------------------------------------- */

static int table(void *self, const struct lls_request *r, struct lls_block_table *out)
{
  struct witness *w = self;
  struct call call = watch_enter(w, "table", TAG_STEP);
  int rc = w->real->cache.table(w->self, r, out);
  watch_leave(w, call);
  if (rc < 0)
    found(w->watch->findings,
          "table of request %" PRIu64 ", which was reserved, failed: %s", r->id,
          strerror(-rc));
  struct placed *p = &w->placed[r->slot];
  p->list = rc == 0 && out->n_groups > 0 ? out->lists[0] : (struct lls_group_list){0};
  p->context = r->cached_tokens;
  p->in_step = rc == 0;
  p->returned = p->left;
  p->left = false;
  if (rc == 0 && w->host.topology->n_instances > 1)
    watch_keep_list(w, r, &p->list);
  if (w->watch->journal != NULL)
    for (uint32_t i = 0; i < p->list.n_entries; i++)
      fprintf(w->watch->journal, "step %" PRIu64 " table %" PRIu64 " %u: %u\n", w->step,
              r->id, i, p->list.entries[i].block);
  return rc;
}

static size_t copies(void *self, const struct lls_copy **out)
{
  struct witness *w = self;
  struct call call = watch_enter(w, "copies", TAG_STEP);
  size_t n = w->real->cache.copies(w->self, out);
  watch_leave(w, call);
  for (size_t i = 0; i < n && !w->watch->light; i++) {
    const struct lls_copy *c = &(*out)[i];
    watch_transfers_copy(w, c, i);
    if (!shadow_copy(&w->memory->shadow, c, (uint32_t)i))
      found(w->watch->findings,
            "copies: number %zu reaches outside: tier %u to %u, block %u to %u, slots %u "
            "+ %u, "
            "shift %d",
            i, c->source_tier, c->target_tier, c->source, c->target, c->slot, c->n_slots,
            c->shift);
  }
  return n;
}

/* Marks the forward pass over one sequence, concurrent with the ASYNC copies of the
 * step. */
static void compute(struct witness *w, const struct lls_request *r, uint32_t until)
{
  const struct placed *p = &w->placed[r->slot];
  const char *list = "";
  uint32_t copy = 0, at = shadow_verify(&w->memory->shadow, &p->list, r,
                                        w->core->engine->groups[0], p->context, &list);
  if (at < p->context && p->returned)
    watch_found_gone(w, r, at, list);
  else if (at < p->context)
    found(w->watch->findings,
          "token %u of request %" PRIu64 " is not where its %s list says in step %" PRIu64
          ": another token has been written there, or it was never copied",
          at, r->id, list, w->step);
  at = shadow_collide(&w->memory->shadow, &p->list, p->context, until, &copy);
  if (at < until)
    found(w->watch->findings,
          "token %u of request %" PRIu64 " is %s in step %" PRIu64
          " where ASYNC copy %u of the same step %s: either may come first",
          at, r->id, at < p->context ? "read" : "written", w->step, copy,
          at < p->context ? "writes" : "reads or writes");
  shadow_write(&w->memory->shadow, &p->list, r, p->context, until);
}

static void computed(void *self, const struct lls_request *r, uint32_t cached_tokens)
{
  struct witness *w = self;
  struct placed *p = &w->placed[r->slot];
  if (p->in_step && !w->watch->light && cached_tokens == p->context)
    watch_taken_over(w, r);
  else if (p->in_step && !w->watch->light)
    compute(w, r, cached_tokens);
  p->in_step = false;
  struct call call = watch_enter(w, "computed", TAG_STEP);
  w->real->cache.computed(w->self, r, cached_tokens);
  watch_leave(w, call);
}

static int admit(void *self, const struct lls_request *r)
{
  struct witness *w = self;
  struct call call = watch_enter(w, "admit", TAG_STEP);
  int rc = w->real->cache.admit(w->self, r);
  watch_leave(w, call);
  forget_placed(w, r->slot);
  w->memory->transfers[r->slot] = (struct transfer){0};
  w->memory->transfers[r->slot] = (struct transfer){0};
  w->placed[r->slot].request = rc == 0 ? r : NULL;
  return rc;
}

static void release(void *self, const struct lls_request *r,
                    const struct lls_release *how)
{
  struct witness *w = self;
  struct call call = watch_enter(w, "release", TAG_STEP);
  w->real->cache.release(w->self, r, how);
  w->is_at_rest = false;
  watch_leave(w, call);
  forget_placed(w, r->slot);
  w->memory->transfers[r->slot] = (struct transfer){0};
}

static int info(void *self, const struct lls_request *r, struct lls_cache_info *out)
{
  struct witness *w = self;
  struct call call = watch_enter(w, "info", TAG_STEP);
  int rc = w->real->cache.info(w->self, r, out);
  watch_leave(w, call);
  if (rc == 0 &&
      (out->missing_tokens > out->cached_tokens || out->owned_units > out->device_units))
    found(w->watch->findings,
          "info: %u tokens missing of %u cached, %u units owned of %u held",
          out->missing_tokens, out->cached_tokens, out->owned_units, out->device_units);
  /* a request taken over in a reload was not placed before */
  w->placed[r->slot].request = r;
  return rc;
}

static int prefix(void *self, const struct lls_request *r, bool take,
                  struct lls_prefix *out)
{
  struct witness *w = self;
  struct call call = watch_enter(w, "prefix", TAG_STEP);
  int rc = w->real->cache.prefix(w->self, r, take, out);
  watch_leave(w, call);
  if (rc == 0 && out->tokens >= lls_request_length(r))
    found(w->watch->findings,
          "prefix: %u tokens of request %" PRIu64
          ", which has %u: the last one must be left to compute",
          out->tokens, r->id, lls_request_length(r));
  else if (rc == 0)
    watch_changes_prefix(w, r, out->tokens);
  w->is_at_rest &= !take;
  return rc;
}

/* ---- passed on ---------------------------------------------------------------- */

typedef const struct lls_request *request;

PASS(int, cache, need, TAG_STEP,
     (void *self, request r, uint32_t tokens, uint32_t form, struct lls_need *out),
     w->self, r, tokens, form, out)
PASS(uint32_t, cache, preempt_modes, TAG_MAIN, (void *self), w->self)
PASS(int, cache, forms, TAG_STEP, (void *self, struct lls_form_info *out, size_t max),
     w->self, out, max)
PASS(int, cache, retain, TAG_STEP, (void *self, const struct lls_retained *r), w->self, r)
PASS(int, cache, fetch, TAG_STEP, (void *self, const struct lls_retained *r), w->self, r)
PASS(bool, cache, wants_step, TAG_STEP, (void *self), w->self)
static void stats(void *self, const struct lls_sink *s)
{
  struct witness *w = self;
  watch_stats(w, w->real->cache.stats, s);
}

PASS(int, cache, export_state, TAG_MAIN, (void *self, struct lls_blob *b), w->self, b)
PASS_IMPORT(cache)

void watch_cache(struct watched *out)
{
  struct lls_cache_vtable *ours = &out->module.cache;
  WATCHED(ours, create);
  WATCHED(ours, destroy);
  WATCHED(ours, capacity);
  WATCHED(ours, need);
  WATCHED(ours, reserve);
  WATCHED(ours, preempt);
  WATCHED(ours, admit);
  WATCHED(ours, release);
  WATCHED(ours, info);
  WATCHED(ours, table);
  WATCHED(ours, copies);
  WATCHED(ours, computed);
  WATCHED(ours, preempt_modes);
  WATCHED(ours, prefix);
  WATCHED(ours, forms);
  WATCHED(ours, retain);
  WATCHED(ours, fetch);
  WATCHED(ours, wants_step);
  WATCHED(ours, stats);
  WATCHED(ours, reconfigure);
  WATCHED(ours, export_state);
  WATCHED(ours, import_state);
  watch_audits(ours);
  watch_transactions(ours);
  watch_changes(ours);
  watch_transfers(ours);
}
