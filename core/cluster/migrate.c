/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Migration: a request moves from one instance (the source) to another (the target)
 * together with its cached blocks. These words are used wherever a request migrates:
 *
 *   offered   The source's scheduler plans LLS_PLAN_MIGRATE to the target. The request is
 *             posted to the target as an offer. Its blocks stay at the source and are not
 *             written; the source's cache manager knows them by a copy of the request's
 *             view until the offer is settled. If blocks become INT8 in that very step,
 *             the offer is posted after the step.
 *   incoming  The target shows the offer to its scheduler, which takes the request by
 *             planning LLS_PLAN_MIGRATE to the target itself. Until then it waits.
 *   shifted   The target has the blocks moved between device and host memory of the
 *             source (offered.c). Only blocks on the source's device can be taken.
 *   taken     The target's cache has reserved memory. Its engine copies the blocks while
 *             the step is computed; from another process they are fetched concurrently
 *             with the steps, however many steps that takes (fetch.h, migrate_take.c).
 *   settled   The request lives at the target, and the source releases the blocks.
 *   returned  An offer that the target can never hold goes back to the source, and so
 *             does every offer at a reload.
 *
 * Status and metrics count both ends: handed_over counts offers at the source, taken_over
 * counts settled requests at the target. A reload hands over the state of a policy,
 * not requests (reload.h).
 *
 * 1. A request may be cancelled at any time. Its owner is the instance which has it in
 *    its lists; the owner informs the other instance that the blocks are free. So the KV
 *    of a request exists once, except during the step that copies it.
 * 2. `settled` is posted before the request's end is published, and is handled before
 *    arrivals. So a slot is free in every cache manager before main reuses it.
 */
#include "core/cluster/migrate.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/least.h"
#include "core/cluster/fetch.h"
#include "core/cluster/offered.h"
#include "core/cluster/peer_load.h"
#include "core/cluster/pulls.h"
#include "core/engine/engine.h"
#include "core/instance/cache_answers.h"
#include "core/instance/inbox.h"
#include "core/instance/instance.h"
#include "core/instance/lifecycle.h"
#include "core/instance/request.h"
#include "core/instance/running_policy.h"

/* ---- memory ----------------------------------------------------------------------- */

int lls_migrate_init(struct lls_instance *in, uint32_t max_requests)
{
  LLS_ON_STEP(in);
  struct lls_migration *h = &in->migration;
  int rc = lls_request_list_init(&h->incoming, max_requests);
  rc |= lls_request_list_init(&h->fetching, max_requests);
  if (rc < 0 || in->n_peers < 2)
    return rc;
  const struct lls_pool_shape *pool = lls_engine_pool_shape(in->engine);
  h->copies.max = (uint32_t)lls_least_size(UINT32_MAX, (size_t)pool->device_units +
                                                           in->caps.max_context);
  h->max_taken = max_requests;
  h->offered = calloc(in->table->slots, sizeof *h->offered);
  h->taken = calloc(h->max_taken, sizeof(struct lls_live *));
  h->pulls = calloc(h->max_taken, sizeof *h->pulls);
  h->copies.list = calloc(h->copies.max, sizeof *h->copies.list);
  bool all = h->offered != NULL && h->taken != NULL && h->pulls != NULL &&
             h->copies.list != NULL;
  return all ? lls_offered_init(in, max_requests) : -ENOMEM;
}

void lls_migrate_fini(struct lls_instance *in)
{
  LLS_ON_STEP(in);
  struct lls_migration *h = &in->migration;
  lls_request_list_free(&h->incoming);
  lls_request_list_free(&h->fetching);
  lls_offered_fini(in);
  free(h->offered);
  free(h->taken);
  free(h->pulls);
  free(h->copies.list);
}

/* ---- offered, at the source ------------------------------------------------------- */

/* Copies the entries with cached tokens to m->entries, which outlive the transaction.
 * Returns false if they are too many, or if hidden form is being converted, which ends
 * with this step. */
static bool keep_lists(struct lls_instance *in, struct lls_live *live)
{
  struct lls_move *m = &live->move;
  struct lls_block_table table;
  m->cached_tokens = live->view.cached_tokens;
  m->late = false;
  if (lls_cache_table(in, &live->view, &table) < 0 ||
      !lls_lists_copy(&m->blocks, table.lists, table.n_groups, m->cached_tokens,
                      m->entries, m->max_entries))
    return false;
  for (size_t i = 0; i < lls_lists_entries(&m->blocks); i++)
    m->late |= m->entries[i].form == LLS_FORM_INT8;
  return true;
}

static void post_offer(struct lls_instance *in, struct lls_live *live)
{
  uint32_t target = live->move.to;
  live->move.mailed_ns = lls_instance_now(in);
  lls_peer_loads_sent(in, live, target);
  lls_inbox_post(in->peers[target]->inbox, live);
}

static void make_offer(struct lls_instance *in, struct lls_live *live, uint32_t target)
{
  struct lls_policies *p = &in->policies;
  struct lls_request *v = &live->view;
  lls_instance_catch_up(in); /* publish the last step's tokens before the offer */
  if (LLS_SCHEDULER_HAS(p, on_finish))
    LLS_CALL(p, scheduler, on_finish, v, LLS_FINISH_NONE);
  lls_lifecycle_leave_drafter(in, live, LLS_FINISH_NONE);
  lls_lifecycle_tell_predictor(in, live, LLS_FINISH_NONE);
  lls_session_leave(in, live);
  in->migration.offered[v->slot] = *v;
  in->migration.offered[v->slot].tokens =
      NULL; /* the request owns them and may end first */
  in->migration.offered[v->slot].user = NULL;
  in->migration.offered[v->slot].n_expected = 0;
  in->migration.offered[v->slot].drafted_tokens = 0;
  in->migration.n_offered++;
  lls_offered_put(in, v->slot, target);
  in->status.handed_over++;
  lls_lifecycle_set_state(in, live, LLS_MOVING);
  lls_request_list_remove(&in->moving, v);
  in->table->by_slot[v->slot] = NULL;
  live->announced = false;
  live->named_in_step = 0; /* each instance counts its own steps */
  live->move.mail = LLS_MAIL_OFFER;
  live->move.source = in->info.index;
  live->move.to = target;
  if (!live->move.late) {
    post_offer(in, live);
    return;
  }
  live->next = in->migration.late;
  in->migration.late = live;
}

void lls_migrate_offer(struct lls_instance *in)
{
  LLS_ON_STEP(in);
  for (uint32_t i = 0; i < in->plan.n_items; i++) {
    const struct lls_plan_item *item = &in->plan.items[i];
    struct lls_live *live = lls_request_table_find(in->table, item->request);
    if (item->kind != LLS_PLAN_MIGRATE || live == NULL || item->target == in->info.index)
      continue;
    if (keep_lists(in, live))
      make_offer(in, live, item->target);
    else
      lls_lifecycle_refuse(in, live, LLS_REFUSED_UNSUPPORTED);
  }
}

void lls_migrate_offer_late(struct lls_instance *in)
{
  struct lls_live *next;
  LLS_ON_STEP(in);
  for (struct lls_live *live = in->migration.late; live != NULL; live = next) {
    next = live->next;
    post_offer(in, live);
  }
  in->migration.late = NULL;
}

/* Releases the blocks of an offered request that was taken or has ended. The cache
 * manager may keep them as a prefix. */
static void settle(struct lls_instance *in, uint32_t slot)
{
  lls_offered_drop(in, slot);
  lls_cache_release(in, &in->migration.offered[slot], LLS_KEEP_PREFIX);
  in->migration.offered[slot] = (struct lls_request){0};
  in->migration.n_offered--;
}

void lls_migrate_settle(struct lls_instance *in)
{
  LLS_ON_STEP(in);
  for (uint32_t i = 0; i < in->content.n_settled; i++)
    settle(in, in->content.settled[i].slot);
}

static uint32_t state_of(const struct lls_request *v)
{
  if (v->residency == LLS_RESIDENT_MOVING)
    return LLS_MOVING;
  if (v->residency == LLS_RESIDENT_HOST || v->residency == LLS_RESIDENT_PARTIAL)
    return LLS_PREEMPTED;
  return lls_request_decodes(v) ? LLS_DECODING : LLS_PREFILLING;
}

static bool was_cancelled(const struct lls_instance *in, const struct lls_request *v)
{
  return atomic_load(&in->cancelled[v->slot]) == v->id;
}

void lls_migrate_settle_in(struct lls_instance *in, struct lls_live *live)
{
  struct lls_policies *p = &in->policies;
  struct lls_request *v = &live->view;
  LLS_ON_STEP(in);
  v->instance = in->info.index;
  v->state = LLS_FINISHED; /* finished: the request is in no list yet */
  lls_lifecycle_refresh(in, live);
  lls_lifecycle_set_state(in, live, state_of(v));
  for (uint32_t i = 0; i < LLS_USER_WORDS; i++)
    live->user[i] = 0;
  live->announced = true;
  lls_lifecycle_tell_drafter(in, live);
  if (LLS_SCHEDULER_HAS(p, on_arrival))
    LLS_CALL(p, scheduler, on_arrival, v);
}

/* Continues a request whose offer was returned, as if it had not been offered, except
 * that its blocks may be on the host now. */
static void come_back(struct lls_instance *in, struct lls_live *live)
{
  struct lls_request *v = &live->view;
  if (lls_offered_drop(in, v->slot))
    live->transfer = in->migration.offered_blocks[v->slot].transfer;
  in->table->by_slot[v->slot] = live;
  in->migration.offered[v->slot] = (struct lls_request){0};
  in->migration.n_offered--;
  lls_session_enter(in, live);
  lls_migrate_settle_in(in, live);
  if (was_cancelled(in, v))
    lls_lifecycle_finish(in, live, LLS_FINISH_CANCELLED);
  else if (live->move.refusal != 0)
    lls_lifecycle_refuse(in, live, live->move.refusal);
}

/* ---- incoming, at the target ------------------------------------------------------ */

static void send_back(struct lls_instance *in, struct lls_live *live, uint32_t refusal)
{
  lls_request_list_remove(&in->migration.incoming, &live->view);
  in->table->by_slot[live->view.slot] = NULL;
  lls_session_leave(in, live);
  live->named_in_step = 0;
  live->move.incoming = false;
  live->move.mail = LLS_MAIL_RETURN;
  live->move.mailed_ns = lls_instance_now(in);
  live->move.refusal = refusal;
  lls_inbox_post(in->peers[live->move.source]->inbox, live);
}

void lls_migrate_refuse(struct lls_instance *in, struct lls_live *live, uint32_t refusal)
{
  LLS_ON_STEP(in);
  lls_cache_release(in, &live->view, 0);
  send_back(in, live, refusal);
}

static void receive_offer(struct lls_instance *in, struct lls_live *live)
{
  struct lls_request *v = &live->view;
  in->table->by_slot[v->slot] = live;
  lls_session_enter(in, live);
  lls_request_list_insert(&in->migration.incoming, v);
  live->move.incoming = true;
  lls_peer_loads_received(in, live);
  int rc = LLS_CALL(&in->policies, cache, admit, v);
  if (rc < 0) {
    lls_lifecycle_log_refusal(in, live, rc);
    send_back(in, live, LLS_REFUSED_NEVER_FITS);
  } else if (was_cancelled(in, v)) {
    lls_lifecycle_finish(in, live, LLS_FINISH_CANCELLED);
  }
}

void lls_migrate_receive(struct lls_instance *in, struct lls_live *live)
{
  LLS_ON_STEP(in);
  if (live->move.mail == LLS_MAIL_OFFER)
    receive_offer(in, live);
  else
    come_back(in, live);
}

void lls_migrate_drop_broken(struct lls_instance *in)
{
  const struct lls_request_list *incoming = &in->migration.incoming;
  LLS_ON_STEP(in);
  for (uint32_t i = incoming->n; i-- > 0;) {
    struct lls_live *live = lls_live_of(incoming->items[i]);
    const struct lls_instance *source = in->peers[live->move.source];
    if (!atomic_load(&source->health.broken))
      continue;
    if (source->remote) /* process 0 has another instance prefill it again */
      lls_migrate_refuse(in, live, 0);
    else
      lls_lifecycle_finish(in, live, LLS_FINISH_ERROR);
  }
}

void lls_migrate_end_fetch(struct lls_instance *in, struct lls_live *live)
{
  LLS_ON_STEP(in);
  lls_fetches_drop(in->fetches, live->move.ticket);
  lls_request_list_remove(&in->migration.fetching, &live->view);
  live->move.fetching = false;
  lls_request_list_insert(&in->migration.incoming, &live->view);
}

void lls_migrate_return_all(struct lls_instance *in)
{
  const struct lls_request_list *incoming = &in->migration.incoming;
  LLS_ON_STEP(in);
  LLS_CHECK(!in->transaction.open);
  while (in->migration.fetching.n > 0)
    lls_migrate_end_fetch(in, lls_live_of(in->migration.fetching.items[0]));
  while (incoming->n > 0)
    lls_migrate_refuse(in, lls_live_of(incoming->items[incoming->n - 1]), 0);
}

/* Releases the blocks of all offered requests. A free slot has no prompt tokens, since a
 * request always has some. */
static void settle_all(struct lls_instance *in)
{
  for (uint32_t slot = 0; in->migration.n_offered > 0 && slot < in->table->slots; slot++)
    if (in->migration.offered[slot].prompt_tokens > 0)
      settle(in, slot);
}

void lls_migrate_forget_all(struct lls_instance *in)
{
  LLS_ON_STEP(in);
  LLS_CHECK(!in->transaction.open);
  lls_lifecycle_finish_all(in, LLS_FINISH_NONE);
  settle_all(in);
}
