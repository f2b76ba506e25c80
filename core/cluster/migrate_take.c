/* SPDX-License-Identifier: Apache-2.0 */
/* Incoming requests which the plan takes (migrate.c): memory is reserved in the
 * transaction; after its commit the blocks are copied by the engine's step or fetched
 * concurrently with the steps; then the request lives here. */
#include "core/cluster/migrate.h"

#include <errno.h>

#include "core/cluster/fetch.h"
#include "core/cluster/offered.h"
#include "core/cluster/pulls.h"
#include "core/engine/engine.h"
#include "core/instance/block_events.h"
#include "core/instance/cache_answers.h"
#include "core/instance/inbox.h"
#include "core/instance/instance.h"
#include "core/instance/lifecycle.h"
#include "core/instance/request.h"
#include "core/instance/running_policy.h"
#include "core/instance/transaction.h"

/* ---- memory ----------------------------------------------------------------------- */

/* Returns true if LLS_MAX_FETCHES are under way or planned, so that this one must
 * wait. */
static bool must_wait(const struct lls_instance *in, const struct lls_live *live)
{
  const struct lls_migration *h = &in->migration;
  uint32_t n = h->fetching.n;
  if (!in->peers[live->move.source]->remote)
    return false;
  for (uint32_t i = 0; i < h->n_taken; i++)
    n += in->peers[h->taken[i]->move.source]->remote;
  return n >= LLS_MAX_FETCHES;
}

static void take(struct lls_instance *in, struct lls_live *live)
{
  struct lls_policies *p = &in->policies;
  struct lls_migration *h = &in->migration;
  if (live->view.residency != LLS_RESIDENT_DEVICE || must_wait(in, live)) {
    lls_lifecycle_refuse(in, live, LLS_REFUSED_NO_MEMORY); /* upload it first */
    return;
  }
  if (!lls_offered_find_lists(in, live)) {
    live->move.refusal = LLS_REFUSED_UNSUPPORTED;
    return;
  }
  uint32_t mark = LLS_CALL(p, cache, mark);
  int rc = LLS_CALL(p, cache, reserve, &live->view, live->move.cached_tokens,
                    lls_list_form(&live->move.blocks.lists[0]), 0);
  if (rc == LLS_RESERVE_OK) {
    live->placed = LLS_PLACED_TAKEN;
    lls_transaction_note(in, live, mark);
    h->taken[h->n_taken++] = live;
    return;
  }
  LLS_CALL(p, cache, rollback, mark);
  if (rc == LLS_RESERVE_LATER)
    lls_lifecycle_refuse(in, live, LLS_REFUSED_NO_MEMORY);
  else
    live->move.refusal =
        rc == LLS_RESERVE_NEVER ? LLS_REFUSED_NEVER_FITS : LLS_REFUSED_UNSUPPORTED;
}

void lls_migrate_take(struct lls_instance *in)
{
  LLS_ON_STEP(in);
  LLS_CHECK(in->transaction.open);
  in->migration.n_taken = in->migration.copies.n = in->migration.n_pulls = 0;
  for (uint32_t i = 0; i < in->plan.n_items; i++) {
    const struct lls_plan_item *item = &in->plan.items[i];
    struct lls_live *live = lls_request_table_find(in->table, item->request);
    if (item->kind == LLS_PLAN_MIGRATE && live != NULL && live->move.incoming &&
        item->target == in->info.index)
      take(in, live);
  }
}

/* ---- copies ----------------------------------------------------------------------- */

/* Fetches the blocks of the copies from `first` on from another process, and removes
 * these copies from those that the step makes. */
static bool fetch(struct lls_instance *in, struct lls_live *live, uint32_t first)
{
  struct lls_migration *h = &in->migration;
  struct lls_move *m = &live->move;
  uint32_t n = h->copies.n - first;
  h->copies.n = first;
  if (lls_fetches_begin(in->fetches, &live->view, m->source, h->copies.list + first, n,
                        &m->ticket) < 0)
    return false;
  lls_request_list_remove(&h->incoming, &live->view);
  lls_request_list_insert(&h->fetching, &live->view);
  m->fetching = true;
  m->began_ns = lls_instance_now(in);
  return true;
}

static bool pull(struct lls_instance *in, struct lls_live *live)
{
  struct lls_migration *h = &in->migration;
  const struct lls_move *m = &live->move;
  struct lls_block_table to;
  uint32_t first = h->copies.n;
  if (lls_cache_table(in, &live->view, &to) < 0 ||
      !lls_pulls_append(&h->copies, &m->blocks, &to, m->cached_tokens, in->caps.groups,
                        lls_engine_pool_shape(in->engine)->block_tokens))
    return false;
  const struct lls_instance *source = in->peers[m->source];
  if (source->remote)
    return fetch(in, live, first);
  h->pulls[h->n_pulls++] = (struct lls_engine_pull){
      .from = source->engine, .n = h->copies.n - first, .list = h->copies.list + first};
  return true;
}

/* Releases the reserved memory of a request whose blocks cannot be copied. */
static void untake(struct lls_instance *in, struct lls_live *live)
{
  lls_migrate_refuse(in, live, LLS_REFUSED_UNSUPPORTED);
}

/* Returns the incoming requests that this step found can never be taken. */
static void return_misfits(struct lls_instance *in)
{
  const struct lls_request_list *incoming = &in->migration.incoming;
  for (uint32_t i = incoming->n; i-- > 0;) {
    struct lls_live *live = lls_live_of(incoming->items[i]);
    if (live->move.refusal != 0)
      lls_migrate_refuse(in, live, live->move.refusal);
  }
}

void lls_migrate_pull(struct lls_instance *in)
{
  struct lls_migration *h = &in->migration;
  uint32_t n = h->n_taken;
  LLS_ON_STEP(in);
  LLS_CHECK(!in->transaction.open);
  h->n_taken = 0;
  for (uint32_t i = 0; i < n; i++) {
    struct lls_live *live = h->taken[i];
    live->placed = LLS_PLACED_NOT;
    if (!pull(in, live))
      untake(in, live);
    else if (!live->move.fetching)
      h->taken[h->n_taken++] = live;
  }
  return_misfits(in);
}

uint64_t lls_migrate_bytes(const struct lls_instance *in)
{
  const struct lls_migration *h = &in->migration;
  LLS_ON_STEP(in);
  const struct lls_pool_shape *pool = lls_engine_pool_shape(in->engine);
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < h->copies.n; i++)
    bytes += lls_pulled_bytes(pool, &h->copies.list[i]);
  return bytes;
}

/* ---- arrived ---------------------------------------------------------------------- */

/* All blocks have been copied. */
static void arrive(struct lls_instance *in, struct lls_live *live)
{
  struct lls_request *v = &live->view;
  live->move.incoming = false;
  LLS_CALL(&in->policies, cache, computed, v, v->cached_tokens);
  lls_block_events_note(in, live, 0, v->cached_tokens);
  lls_inbox_settle(in->peers[live->move.source]->inbox, v->slot, lls_instance_now(in));
  in->status.taken_over++;
  lls_migrate_settle_in(in, live);
}

void lls_migrate_arrived(struct lls_instance *in)
{
  struct lls_migration *h = &in->migration;
  LLS_ON_STEP(in);
  for (uint32_t i = 0; i < h->n_taken; i++) {
    lls_request_list_remove(&h->incoming, &h->taken[i]->view);
    arrive(in, h->taken[i]);
  }
  h->n_taken = 0;
  if (h->fetching.n > 0)
    lls_fetches_release(in->fetches);
}

/* Computes a request here whose blocks do not arrive, from its tokens: its source would
 * offer it again, perhaps to this instance. */
static void compute_again(struct lls_instance *in, struct lls_live *live)
{
  struct lls_request *v = &live->view;
  lls_cache_release(in, v, 0);
  lls_request_list_remove(&in->migration.incoming, v);
  in->table->by_slot[v->slot] = NULL;
  lls_session_leave(in, live);
  live->move.incoming = false;
  lls_inbox_settle(in->peers[live->move.source]->inbox, v->slot, lls_instance_now(in));
  lls_lifecycle_compute_again(in, live);
}

void lls_migrate_fetched(struct lls_instance *in)
{
  struct lls_migration *h = &in->migration;
  LLS_ON_STEP(in);
  for (uint32_t i = 0; i < in->content.n_fetched; i++) {
    const struct lls_fetched *f = &in->content.fetched[i];
    struct lls_live *live = lls_request_table_find(in->table, f->request);
    if (live == NULL || !live->move.fetching || live->move.ticket != f->ticket)
      continue; /* the request has ended meanwhile */
    if (f->good) {
      lls_request_list_remove(&h->fetching, &live->view);
      live->move.fetching = false;
      in->status.handed_bytes += f->bytes;
      in->status.handed_ns += lls_instance_now(in) - live->move.began_ns;
      arrive(in, live);
      continue;
    }
    lls_migrate_end_fetch(in, live);
    if (atomic_load(&in->peers[live->move.source]->health.broken))
      lls_migrate_refuse(in, live, 0); /* process 0 has it computed elsewhere */
    else
      compute_again(in, live);
  }
}
