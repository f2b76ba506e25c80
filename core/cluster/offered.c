/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves of offered requests' blocks between device and host memory of the source, the
 * instance that offered the request and still has its blocks. The target, which may take
 * the request, plans such a move as OFFLOAD or UPLOAD of the incoming request. So a
 * decode instance can keep its pool in the host memory of the prefill instance, and have
 * the next batch uploaded there before it takes that batch over.
 *
 * lls_offered_blocks.place says which instance may change the state of the blocks:
 *
 *   DEVICE, HOST  The blocks are at rest on the source's device or host. Only the target
 *                 may act: it takes the request over, or asks for a move.
 *   MOVING        The target has asked for a move. Only the source may act: it starts the
 *                 transfer, an upload as soon as there is memory, and writes DEVICE or
 *                 HOST when the transfer has ended.
 *
 * So neither instance waits for the other, and nothing is locked. A request may end or be
 * returned while it is MOVING: then its slot is dropped from the list `shifting`, and the
 * cache manager releases it like any other request which ends during a transfer.
 *
 * After a move the source's block lists are copied to `entries`, because the request may
 * end at the target at the same time and so cannot hold them.
 */
#include "core/cluster/offered.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/pack.h"
#include "core/cluster/pulls.h"
#include "core/engine/engine.h"
#include "core/instance/cache_answers.h"
#include "core/instance/inbox.h"
#include "core/instance/instance.h"
#include "core/instance/request.h"
#include "core/instance/running_policy.h"

/* ---- memory ----------------------------------------------------------------------- */

int lls_offered_init(struct lls_instance *in, uint32_t max_requests)
{
  LLS_ON_STEP(in);
  struct lls_migration *h = &in->migration;
  const struct lls_pool_shape *pool = lls_engine_pool_shape(in->engine);
  h->max_entries = in->caps.n_groups * (in->caps.max_context / pool->block_tokens + 2);
  h->offered_blocks = calloc(in->table->slots, sizeof *h->offered_blocks);
  h->shifting = calloc(max_requests, sizeof *h->shifting);
  if (pool->host_units > 0) /* unused, these cost address space only */
    h->entries = calloc((size_t)in->table->slots * h->max_entries, sizeof *h->entries);
  bool all = h->offered_blocks != NULL && h->shifting != NULL &&
             (pool->host_units == 0 || h->entries != NULL);
  return all ? 0 : -ENOMEM;
}

int lls_offered_init_remote(struct lls_instance *in, const struct lls_instance *like,
                            uint32_t slots)
{
  struct lls_migration *h = &in->migration;
  LLS_ON_STEP(in);
  h->max_entries = like->migration.max_entries;
  h->offered_blocks = calloc(slots, sizeof *h->offered_blocks);
  if (like->migration.entries != NULL)
    h->entries = calloc((size_t)slots * h->max_entries, sizeof *h->entries);
  return h->offered_blocks != NULL &&
                 (h->entries != NULL || like->migration.entries == NULL)
             ? 0
             : -ENOMEM;
}

void lls_offered_fini(struct lls_instance *in)
{
  LLS_ON_STEP(in);
  free(in->migration.offered_blocks);
  free(in->migration.shifting);
  free(in->migration.entries);
}

/* ---- at the source ---------------------------------------------------------------- */

void lls_offered_put(struct lls_instance *in, uint32_t slot, uint32_t target)
{
  struct lls_offered_blocks *offered = &in->migration.offered_blocks[slot];
  LLS_ON_STEP(in);
  offered->target = target;
  offered->started = offered->shifted = false;
  offered->since_ns = lls_instance_now(in);
  atomic_store(&offered->place, LLS_OFFERED_DEVICE);
}

bool lls_offered_drop(struct lls_instance *in, uint32_t slot)
{
  struct lls_migration *h = &in->migration;
  uint32_t n = 0;
  LLS_ON_STEP(in);
  for (uint32_t i = 0; i < h->n_shifting; i++)
    if (h->shifting[i] != slot)
      h->shifting[n++] = h->shifting[i];
  h->n_shifting = n;
  return h->offered_blocks[slot].started;
}

void lls_offered_receive_shifts(struct lls_instance *in)
{
  struct lls_migration *h = &in->migration;
  LLS_ON_STEP(in);
  for (uint32_t i = 0; i < in->content.n_shifts; i++) {
    const struct lls_shift *shift = &in->content.shifts[i];
    if (h->offered[shift->slot].id != shift->request)
      continue; /* the request has ended */
    h->offered_blocks[shift->slot].to_host = shift->to_host;
    h->shifting[h->n_shifting++] = shift->slot;
  }
}

/* Sends the place and the block lists to a target in another process, which cannot read
 * them. */
static void send_place(struct lls_instance *in, const struct lls_offered_blocks *offered,
                       uint32_t place)
{
  uint32_t slot = (uint32_t)(offered - in->migration.offered_blocks);
  const struct lls_block_lists *l = &offered->blocks;
  struct lls_pack p = {0};
  LLS_PACK(&p, place);
  LLS_PACK(&p, offered->shifted);
  LLS_PACK(&p, *l);
  if (offered->shifted)
    lls_pack_put(&p, l->lists[0].entries,
                 lls_lists_entries(l) * sizeof *l->lists[0].entries);
  if (p.failed) { /* no memory: the target sees it MOVING until the request ends */
    free(p.data);
    return;
  }
  lls_inbox_placed(
      in->peers[offered->target]->inbox,
      &(struct lls_placed_there){.data = p.data, .bytes = p.n, .slot = slot});
}

static void write_place(struct lls_instance *in, struct lls_offered_blocks *offered,
                        uint32_t place)
{
  offered->started = false;
  offered->since_ns = lls_instance_now(in);
  if (in->peers[offered->target]->remote)
    send_place(in, offered, place);
  atomic_store(&offered->place, place);
}

/* Returns true if the move has started or, an upload without memory, waits. If the cache
 * manager refuses for another reason, the blocks stay where they are. */
static bool start(struct lls_instance *in, uint32_t slot)
{
  struct lls_policies *p = &in->policies;
  struct lls_offered_blocks *offered = &in->migration.offered_blocks[slot];
  const struct lls_request *v = &in->migration.offered[slot];
  int rc = -ENOTSUP;
  if (in->caps.async_transfers) {
    uint32_t mark = LLS_CALL(p, cache, mark);
    rc = offered->to_host ? LLS_CALL(p, cache, offload, v, &offered->transfer)
                          : LLS_CALL(p, cache, upload, v, &offered->transfer);
    if (rc < 0)
      LLS_CALL(p, cache, rollback, mark);
  }
  offered->started = rc == 0;
  if (rc == 0 || (rc == -ENOSPC && !offered->to_host))
    return true;
  write_place(in, offered, offered->to_host ? LLS_OFFERED_DEVICE : LLS_OFFERED_HOST);
  return false;
}

void lls_offered_start_moves(struct lls_instance *in)
{
  struct lls_migration *h = &in->migration;
  uint32_t n = 0;
  LLS_ON_STEP(in);
  LLS_CHECK(in->transaction.open);
  for (uint32_t i = 0; i < h->n_shifting; i++)
    if (h->offered_blocks[h->shifting[i]].started || start(in, h->shifting[i]))
      h->shifting[n++] = h->shifting[i];
  h->n_shifting = n;
}

/* Copies the block lists after a move, for the target. If there are none or they have too
 * many entries there are none for it, and the blocks cannot be copied. */
static void keep_table(struct lls_instance *in, uint32_t slot)
{
  struct lls_migration *h = &in->migration;
  struct lls_offered_blocks *offered = &h->offered_blocks[slot];
  struct lls_block_entry *to = h->entries + (size_t)slot * h->max_entries;
  struct lls_block_table table;
  int rc = lls_cache_table(in, &h->offered[slot], &table);
  offered->shifted = true;
  if (rc < 0 || !lls_lists_copy(&offered->blocks, table.lists, table.n_groups, UINT32_MAX,
                                to, h->max_entries))
    offered->blocks = (struct lls_block_lists){0};
}

static bool has_arrived(struct lls_instance *in, uint32_t slot)
{
  struct lls_policies *p = &in->policies;
  struct lls_offered_blocks *offered = &in->migration.offered_blocks[slot];
  struct lls_cache_info info;
  if (!offered->started)
    return false;
  LLS_CALL(p, cache, on_transfer, offered->transfer);
  int rc = lls_cache_info(in, &in->migration.offered[slot], &info);
  if (rc == 0 && info.residency == LLS_RESIDENT_MOVING)
    return false;
  bool on_host = rc == 0 && info.residency == LLS_RESIDENT_HOST;
  if (!on_host)
    keep_table(in, slot);
  write_place(in, offered, on_host ? LLS_OFFERED_HOST : LLS_OFFERED_DEVICE);
  return true;
}

void lls_offered_finish_moves(struct lls_instance *in)
{
  struct lls_migration *h = &in->migration;
  uint32_t n = 0;
  LLS_ON_STEP(in);
  LLS_CHECK(!in->transaction.open);
  for (uint32_t i = 0; i < h->n_shifting; i++)
    if (!has_arrived(in, h->shifting[i]))
      h->shifting[n++] = h->shifting[i];
  h->n_shifting = n;
}

bool lls_offered_are_moving(const struct lls_instance *in)
{
  const struct lls_migration *h = &in->migration;
  LLS_ON_STEP(in);
  for (uint32_t i = 0; i < h->n_shifting; i++)
    if (h->offered_blocks[h->shifting[i]].started)
      return true;
  return false;
}

void lls_offered_receive_place(struct lls_instance *in, struct lls_unpack *u,
                               uint32_t slot)
{
  struct lls_migration *h = &in->migration;
  struct lls_offered_blocks *offered = &h->offered_blocks[slot];
  struct lls_block_lists l;
  uint32_t place = LLS_OFFERED_DEVICE;
  bool shifted = false;
  LLS_UNPACK(u, place);
  LLS_UNPACK(u, shifted);
  LLS_UNPACK(u, l);
  size_t n = u->failed ? 0 : lls_lists_entries(&l);
  const void *entries = shifted ? lls_unpack_bytes(u, n * sizeof *h->entries) : NULL;
  if (u->failed || atomic_load(&offered->place) != LLS_OFFERED_MOVING)
    return; /* the request has ended; another may have its slot */
  if (shifted && n <= h->max_entries && h->entries != NULL &&
      l.n_groups <= LLS_MAX_GROUPS) {
    struct lls_block_entry *to = h->entries + (size_t)slot * h->max_entries;
    memcpy(to, entries, n * sizeof *to);
    lls_lists_move(&l, to);
    offered->blocks = l;
    offered->shifted = true;
  }
  atomic_store(&offered->place, place);
}

/* ---- at the target ----------------------------------------------------------------- */

static struct lls_offered_blocks *offered_of(const struct lls_instance *in,
                                             const struct lls_live *live)
{
  return &in->peers[live->move.source]->migration.offered_blocks[live->view.slot];
}

/* Residency at this instance's time: in a simulation the source's clock may be ahead. */
static uint32_t residency_of(const struct lls_instance *in, const struct lls_live *live)
{
  const struct lls_offered_blocks *offered = offered_of(in, live);
  uint32_t place = atomic_load(&offered->place);
  if (place == LLS_OFFERED_MOVING || offered->since_ns > lls_instance_now(in))
    return LLS_RESIDENT_MOVING;
  return place == LLS_OFFERED_DEVICE ? LLS_RESIDENT_DEVICE : LLS_RESIDENT_HOST;
}

void lls_offered_refresh_views(struct lls_instance *in)
{
  const struct lls_request_list *incoming = &in->migration.incoming;
  LLS_ON_STEP(in);
  for (uint32_t i = 0; i < incoming->n; i++) {
    struct lls_live *live = lls_live_of(incoming->items[i]);
    live->view.residency = residency_of(in, live);
  }
}

void lls_offered_request_moves(struct lls_instance *in)
{
  LLS_ON_STEP(in);
  for (uint32_t i = 0; i < in->plan.n_items; i++) {
    const struct lls_plan_item *item = &in->plan.items[i];
    struct lls_live *live = lls_request_table_find(in->table, item->request);
    if ((item->kind != LLS_PLAN_OFFLOAD && item->kind != LLS_PLAN_UPLOAD) ||
        live == NULL || !live->move.incoming)
      continue;
    atomic_store(&offered_of(in, live)->place, LLS_OFFERED_MOVING);
    live->view.residency = LLS_RESIDENT_MOVING;
    lls_inbox_shift(in->peers[live->move.source]->inbox,
                    &(struct lls_shift){.request = live->view.id,
                                        .slot = live->view.slot,
                                        .to_host = item->kind == LLS_PLAN_OFFLOAD,
                                        .mailed_ns = lls_instance_now(in)});
  }
}

bool lls_offered_find_lists(struct lls_instance *in, struct lls_live *live)
{
  const struct lls_offered_blocks *offered = offered_of(in, live);
  struct lls_move *m = &live->move;
  LLS_ON_STEP(in);
  if (!offered->shifted)
    return true;
  const struct lls_block_lists *l = &offered->blocks;
  return lls_lists_entries(l) > 0 &&
         lls_lists_copy(&m->blocks, l->lists, l->n_groups, UINT32_MAX, m->entries,
                        m->max_entries);
}
