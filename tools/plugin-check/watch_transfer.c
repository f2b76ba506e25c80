/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transfers of a cache manager under watch: each has a unique number, is reported as
 * MOVING while under way, copies for its own request only, ends, and is then at its
 * destination.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/plugin-check/watch.h"

#define QUIET_MOST 64 /* consecutive steps in which a transfer may copy nothing */

static struct transfer *under_way(const struct witness *w, uint64_t id)
{
  for (uint32_t i = 0; i < w->n_slots; i++)
    if (w->memory->transfers[i].under_way && w->memory->transfers[i].id == id)
      return &w->memory->transfers[i];
  return NULL;
}

/* ---- begin --------------------------------------------------------------------- */

typedef int (*start_t)(void *self, const struct lls_request *, uint64_t *transfer);

/* Starts a transfer; as often as the state is audited, it is first rolled back, as the
 * core may do. */
static int try_twice(struct witness *w, start_t start, const struct lls_request *r,
                     uint64_t *transfer)
{
  uint32_t mark = w->real->cache.mark(w->self);
  char *before = watch_audit(w);
  int rc = start(w->self, r, transfer);
  if (rc == 0) {
    w->real->cache.rollback(w->self, mark);
    watch_compare(w, before, mark);
    rc = start(w->self, r, transfer);
  }
  free(before);
  return rc;
}

static int begin_transfer(struct witness *w, const char *name, start_t start,
                          const struct lls_request *r, uint64_t *transfer)
{
  struct findings *f = w->watch->findings;
  struct call call = watch_enter(w, name, TAG_STEP);
  int rc = w->audited ? try_twice(w, start, r, transfer) : start(w->self, r, transfer);
  watch_leave(w, call);
  if (w->watch->journal != NULL)
    fprintf(w->watch->journal, "step %" PRIu64 " %s %" PRIu64 ": %d\n", w->step, name,
            r->id, rc);
  if (rc > 0)
    found(f, "%s returned %d: expected 0 or a negative errno", name, rc);
  if (rc != 0)
    return rc;
  const struct transfer *other = under_way(w, *transfer);
  if (*transfer == 0)
    found(f, "%s gave request %" PRIu64 " transfer 0, which is the number of no transfer",
          name, r->id);
  else if (other != NULL)
    found(f,
          "%s gave request %" PRIu64 " transfer %" PRIu64
          ", which is under way for request %" PRIu64,
          name, r->id, *transfer, other->request->id);
  w->memory->transfers[r->slot] = (struct transfer){.request = r,
                                                    .id = *transfer,
                                                    .under_way = true,
                                                    .to_host = name[0] == 'o',
                                                    .new = true};
  return 0;
}

static int offload(void *self, const struct lls_request *r, uint64_t *transfer)
{
  struct witness *w = self;
  return begin_transfer(w, "offload", w->real->cache.offload, r, transfer);
}

static int upload(void *self, const struct lls_request *r, uint64_t *transfer)
{
  struct witness *w = self;
  return begin_transfer(w, "upload", w->real->cache.upload, r, transfer);
}

/* ---- under way ------------------------------------------------------------------ */

void watch_transfers_begin(struct witness *w)
{
  for (uint32_t i = 0; i < w->n_slots; i++)
    w->memory->transfers[i].listed = w->memory->transfers[i].heard = false;
}

void watch_transfers_committed(struct witness *w)
{
  for (uint32_t i = 0; i < w->n_slots; i++) {
    struct transfer *t = &w->memory->transfers[i];
    struct lls_cache_info info = {.size = sizeof info};
    if (!t->new)
      continue;
    t->new = false;
    if (w->real->cache.info(w->self, t->request, &info) < 0 ||
        info.residency != LLS_RESIDENT_MOVING)
      found(w->watch->findings,
            "info of request %" PRIu64 ", whose transfer %" PRIu64
            " has just begun: expected LLS_RESIDENT_MOVING, found residency %u",
            t->request->id, t->id, info.residency);
  }
}

void watch_transfers_copy(struct witness *w, const struct lls_copy *c, size_t index)
{
  struct findings *f = w->watch->findings;
  struct transfer *t = under_way(w, c->transfer);
  if (c->order != LLS_COPY_ASYNC) {
    if (c->transfer != 0)
      found(f, "copies: number %zu is of transfer %u and not ASYNC", index, c->transfer);
    return;
  }
  /* a checkpoint of blocks that stay where they are has ended with the step */
  if (t == NULL && c->transfer == 0 && c->target_tier == LLS_TIER_HOST)
    return;
  if (t == NULL) {
    found(f,
          "copies: number %zu is ASYNC, of transfer %u, which is not under way: it may "
          "still write when its memory is another's",
          index, c->transfer);
    return;
  }
  t->listed = true;
  if (c->source_tier != (t->to_host ? LLS_TIER_DEVICE : LLS_TIER_HOST) ||
      c->target_tier != (t->to_host ? LLS_TIER_HOST : LLS_TIER_DEVICE))
    found(f, "copies: number %zu is from tier %u to %u, and transfer %u is on its way %s",
          index, c->source_tier, c->target_tier, c->transfer,
          t->to_host ? "to the host" : "to the device");
}

/* ---- the end ---------------------------------------------------------------------- */

/* Checks a transfer that is reported as complete. */
static void judge_arrival(const struct witness *w, const struct transfer *t,
                          const struct lls_cache_info *info)
{
  const struct lls_request *r = t->request;
  bool to_host = t->to_host;
  uint32_t residency = to_host ? LLS_RESIDENT_HOST : LLS_RESIDENT_DEVICE;
  uint32_t missing = to_host ? r->cached_tokens : 0;
  if (info->cached_tokens != r->cached_tokens || info->missing_tokens != missing ||
      info->residency != residency)
    found(w->watch->findings,
          "transfer %" PRIu64 " took request %" PRIu64 " to the %s and ended: expected "
          "residency %u with %u tokens cached, %u of them missing on the device; info "
          "says residency %u, %u and %u",
          t->id, r->id, to_host ? "host" : "device", residency, r->cached_tokens, missing,
          info->residency, info->cached_tokens, info->missing_tokens);
}

/* Checks a transfer after a step in which it was under way. */
static void judge_step(struct witness *w, struct transfer *t)
{
  const struct lls_request *r = t->request;
  struct lls_cache_info info = {.size = sizeof info};
  if (t->heard)
    found(w->watch->findings,
          "on_transfer came twice in step %" PRIu64 " for transfer %" PRIu64, w->step,
          t->id);
  t->heard = true;
  t->quiet = t->listed ? 0 : t->quiet + 1;
  if (t->quiet == QUIET_MOST)
    found(w->watch->findings,
          "transfer %" PRIu64 " of request %" PRIu64
          " is under way, and has copied nothing for %d steps: it never ends",
          t->id, r->id, QUIET_MOST);
  if (w->real->cache.info(w->self, r, &info) < 0 || info.residency == LLS_RESIDENT_MOVING)
    return;
  judge_arrival(w, t, &info);
  t->under_way = false;
  w->watch->n_transfers++;
}

static void on_transfer(void *self, uint64_t transfer)
{
  struct witness *w = self;
  struct transfer *t = under_way(w, transfer);
  struct call call = watch_enter(w, "on_transfer", TAG_STEP);
  w->real->cache.on_transfer(w->self, transfer);
  watch_leave(w, call);
  /* a transfer that is not known here is of a manager whose state was not taken over */
  if (t != NULL && !w->watch->light)
    judge_step(w, t);
}

void watch_transfers(struct lls_cache_vtable *ours)
{
  WATCHED(ours, offload);
  WATCHED(ours, upload);
  WATCHED(ours, on_transfer);
}
