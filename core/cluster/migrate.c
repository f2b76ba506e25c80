/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Migration: a request moves from one instance to another with what is cached of it. The
 * words, here and wherever a request migrates:
 *
 *   left     its scheduler plans LLS_PLAN_MIGRATE to another instance: the request is
 *            posted there as an offer. Its blocks stay and are not written; the cache
 *            manager here knows them under a copy of the view until it is settled.
 *            Blocks may become INT8 in that very step: then it is posted after it.
 *   offered  the other instance shows it to its scheduler, which takes it by planning
 *            LLS_PLAN_MIGRATE to itself. Until then it waits, and its blocks are where
 *            they were.
 *   shifted  the one that it is offered to has the blocks moved between device and host
 *            where they are (left.c). Only from that device it can be taken.
 *   taken    there is room: the engine that receives the blocks copies them while that
 *            step is computed; from another process they are fetched beside the steps,
 *            however many that takes (fetch.h): migrate_take.c.
 *   settled  it lives here now, and the instance it came from lets go of the blocks.
 *   returned an offer that this instance can never hold goes back where it came from, and
 *            every offer at a reload.
 *
 * Status and metrics count both ends: handed_over has left, taken_over is settled. What a
 * reload hands over is the state of a policy, and no request (reload.h).
 *
 * A request may be cancelled at any time: it has one owner, the instance whose lists it
 * is in, and the other one is told what became of the blocks. So KV exists once but for
 * the step of the copy.
 *
 * Order. `settled` is posted before the request's end is published, and taken before
 * arrivals, so that a slot is free in every cache manager before main gives it away
 * again.
 */
#include "core/cluster/migrate.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/least.h"
#include "core/cluster/fetch.h"
#include "core/cluster/left.h"
#include "core/cluster/peer_load.h"
#include "core/instance/cache_answers.h"
#include "core/instance/instance.h"
#include "core/instance/lifecycle.h"

/* ---- memory ----------------------------------------------------------------------- */

int lls_migrate_init(struct lls_instance *in, uint32_t max_requests)
{
  LLS_ON_STEP(in);
  struct lls_migration *h = &in->migration;
  int rc = lls_request_list_init(&h->offered, max_requests);
  rc |= lls_request_list_init(&h->fetching, max_requests);
  if (rc < 0 || in->n_peers < 2)
    return rc;
  const struct lls_pool_shape *pool = lls_engine_pool_shape(in->engine);
  h->copies.max = (uint32_t)lls_least_size(UINT32_MAX, (size_t)pool->device_units +
                                                           in->caps.max_context);
  h->max_taken = max_requests;
  h->left = calloc(in->table->slots, sizeof *h->left);
  h->taken = calloc(h->max_taken, sizeof(struct lls_live *));
  h->pulls = calloc(h->max_taken, sizeof *h->pulls);
  h->copies.list = calloc(h->copies.max, sizeof *h->copies.list);
  bool all =
      h->left != NULL && h->taken != NULL && h->pulls != NULL && h->copies.list != NULL;
  return all ? lls_left_init(in, max_requests) : -ENOMEM;
}

void lls_migrate_fini(struct lls_instance *in)
{
  LLS_ON_STEP(in);
  struct lls_migration *h = &in->migration;
  lls_request_list_free(&h->offered);
  lls_request_list_free(&h->fetching);
  lls_left_fini(in);
  free(h->left);
  free(h->taken);
  free(h->pulls);
  free(h->copies.list);
}

/* ---- leave ------------------------------------------------------------------------ */

/* Keeps what of a list has tokens in it, beyond the transaction. False: there are too
 * many entries. */
static bool keep(struct lls_move *m, uint32_t *used, const struct lls_block_entry **list,
                 uint32_t *n)
{
  struct lls_block_entry *to = m->entries + *used;
  uint32_t i = 0;
  for (; i < *n && (*list)[i].first_token < m->cached_tokens; i++) {
    if (i == m->max_entries - *used)
      return false;
    to[i] = (*list)[i];
    m->late |= to[i].element == LLS_ELEMENT_INT8;
  }
  *list = to;
  *used += *n = i;
  return true;
}

static bool keep_table(struct lls_instance *in, struct lls_live *live)
{
  struct lls_move *m = &live->move;
  struct lls_block_table *t = &m->blocks;
  uint32_t used = 0;
  m->cached_tokens = live->view.cached_tokens;
  m->late = false;
  if (lls_cache_table(in, &live->view, t) < 0)
    return false;
  if (t->form == LLS_FORM_KV && t->x_count > 0)
    return false; /* on its way from hidden form: next step it has arrived */
  return keep(m, &used, &t->k, &t->k_count) && keep(m, &used, &t->v, &t->v_count) &&
         keep(m, &used, &t->x, &t->x_count);
}

static void offer(struct lls_instance *in, struct lls_live *live)
{
  uint32_t target = live->move.to;
  live->move.mailed_ns = lls_instance_now(in);
  lls_peer_loads_sent(in, live, target);
  lls_inbox_post(in->peers[target]->inbox, live);
}

static void leave(struct lls_instance *in, struct lls_live *live, uint32_t target)
{
  struct lls_policies *p = &in->policies;
  struct lls_request *v = &live->view;
  lls_instance_catch_up(in); /* its tokens of the step before are sent before it is */
  if (LLS_SCHEDULER_HAS(p, on_finish))
    LLS_CALL(p, scheduler, on_finish, v, LLS_FINISH_NONE);
  lls_lifecycle_tell_predictor(in, live, LLS_FINISH_NONE);
  in->migration.left[v->slot] = *v;
  in->migration.left[v->slot].tokens = NULL; /* are the request's, which may end first */
  in->migration.left[v->slot].user = NULL;
  in->migration.n_left++;
  lls_left_put(in, v->slot, target);
  in->status.handed_over++;
  lls_lifecycle_set_state(in, live, LLS_MOVING);
  lls_request_list_remove(&in->moving, v);
  in->table->by_slot[v->slot] = NULL;
  live->announced = false;
  live->named_in_step = 0; /* steps are counted by each instance */
  live->move.mail = LLS_MAIL_OFFER;
  live->move.source = in->info.index;
  live->move.to = target;
  if (!live->move.late) {
    offer(in, live);
    return;
  }
  live->next = in->migration.late;
  in->migration.late = live;
}

void lls_migrate_leave(struct lls_instance *in)
{
  LLS_ON_STEP(in);
  for (uint32_t i = 0; i < in->plan.n_items; i++) {
    const struct lls_plan_item *item = &in->plan.items[i];
    struct lls_live *live = lls_request_table_find(in->table, item->request);
    if (item->kind != LLS_PLAN_MIGRATE || live == NULL || item->target == in->info.index)
      continue;
    if (keep_table(in, live))
      leave(in, live, item->target);
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
    offer(in, live);
  }
  in->migration.late = NULL;
}

/* The request has left or ended: no request owns its blocks now. The manager may keep
 * them as a prefix. */
static void settle(struct lls_instance *in, uint32_t slot)
{
  struct lls_policies *p = &in->policies;
  lls_left_drop(in, slot);
  LLS_CALL(p, cache, release, &in->migration.left[slot], LLS_KEEP_PREFIX);
  in->migration.left[slot] = (struct lls_request){0};
  in->migration.n_left--;
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
  v->state = LLS_FINISHED; /* of no list */
  lls_lifecycle_refresh(in, live);
  lls_lifecycle_set_state(in, live, state_of(v));
  for (uint32_t i = 0; i < LLS_USER_WORDS; i++)
    live->user[i] = 0;
  live->announced = true;
  if (LLS_SCHEDULER_HAS(p, on_arrival))
    LLS_CALL(p, scheduler, on_arrival, v);
}

/* No instance wanted it: as if it had never left, but that it may be on the host. */
static void come_back(struct lls_instance *in, struct lls_live *live)
{
  struct lls_request *v = &live->view;
  if (lls_left_drop(in, v->slot))
    live->transfer = in->migration.shelf[v->slot].transfer;
  in->table->by_slot[v->slot] = live;
  in->migration.left[v->slot] = (struct lls_request){0};
  in->migration.n_left--;
  lls_migrate_settle_in(in, live);
  if (was_cancelled(in, v))
    lls_lifecycle_finish(in, live, LLS_FINISH_CANCELLED);
  else if (live->move.refusal != 0)
    lls_lifecycle_refuse(in, live, live->move.refusal);
}

/* ---- offered ---------------------------------------------------------------------- */

static void send_back(struct lls_instance *in, struct lls_live *live, uint32_t refusal)
{
  lls_request_list_remove(&in->migration.offered, &live->view);
  in->table->by_slot[live->view.slot] = NULL;
  live->named_in_step = 0;
  live->move.offered = false;
  live->move.mail = LLS_MAIL_RETURN;
  live->move.mailed_ns = lls_instance_now(in);
  live->move.refusal = refusal;
  lls_inbox_post(in->peers[live->move.source]->inbox, live);
}

void lls_migrate_refuse(struct lls_instance *in, struct lls_live *live, uint32_t refusal)
{
  LLS_ON_STEP(in);
  LLS_CALL(&in->policies, cache, release, &live->view, 0);
  send_back(in, live, refusal);
}

static void receive_offer(struct lls_instance *in, struct lls_live *live)
{
  struct lls_request *v = &live->view;
  in->table->by_slot[v->slot] = live;
  lls_request_list_insert(&in->migration.offered, v);
  live->move.offered = true;
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
  const struct lls_request_list *offered = &in->migration.offered;
  LLS_ON_STEP(in);
  for (uint32_t i = offered->n; i-- > 0;) {
    struct lls_live *live = lls_live_of(offered->items[i]);
    const struct lls_instance *source = in->peers[live->move.source];
    if (!atomic_load(&source->broken))
      continue;
    if (source->far) /* it is prefilled again, elsewhere */
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
  lls_request_list_insert(&in->migration.offered, &live->view);
}

void lls_migrate_return_all(struct lls_instance *in)
{
  const struct lls_request_list *offered = &in->migration.offered;
  LLS_ON_STEP(in);
  LLS_CHECK(!in->transaction.open);
  while (in->migration.fetching.n > 0)
    lls_migrate_end_fetch(in, lls_live_of(in->migration.fetching.items[0]));
  while (offered->n > 0)
    lls_migrate_refuse(in, lls_live_of(offered->items[offered->n - 1]), 0);
}

/* Nobody wants the blocks of those that left. A request has tokens: an entry without any
 * is of none. */
static void settle_all(struct lls_instance *in)
{
  for (uint32_t slot = 0; in->migration.n_left > 0 && slot < in->table->slots; slot++)
    if (in->migration.left[slot].prompt_tokens > 0)
      settle(in, slot);
}

void lls_migrate_forget_all(struct lls_instance *in)
{
  LLS_ON_STEP(in);
  LLS_CHECK(!in->transaction.open);
  lls_lifecycle_finish_all(in, LLS_FINISH_NONE);
  settle_all(in);
}
