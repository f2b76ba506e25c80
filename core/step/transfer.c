/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transfers: sequences that a plan moves between the tiers while other requests compute.
 * In each step the cache manager lists as many copies of its transfers as it chooses;
 * they have all ended when the engine's step has (core/engine/batch.h). Then the
 * manager's on_transfer is called, and info says whether the sequence has arrived or is
 * still moving.
 */
#include "core/step/phases.h"

#include <errno.h>

#include "core/instance/instance.h"
#include "core/instance/lifecycle.h"
#include "core/instance/request.h"
#include "core/instance/running_policy.h"
#include "core/instance/transaction.h"

static int start(struct lls_instance *in, struct lls_live *live, bool to_host)
{
  struct lls_policies *p = &in->policies;
  uint32_t mark = LLS_CALL(p, cache, mark);
  int rc = to_host ? LLS_CALL(p, cache, offload, &live->view, &live->transfer)
                   : LLS_CALL(p, cache, upload, &live->view, &live->transfer);
  if (rc < 0) {
    LLS_CALL(p, cache, rollback, mark);
    return rc;
  }
  live->placed = LLS_PLACED_MOVING;
  lls_transaction_note(in, live, mark);
  return 0;
}

void lls_transfer_place(struct lls_instance *in)
{
  LLS_ON_STEP(in);
  LLS_CHECK(in->transaction.open);
  for (uint32_t i = 0; i < in->plan.n_items; i++) {
    const struct lls_plan_item *item = &in->plan.items[i];
    struct lls_live *live = lls_request_table_find(in->table, item->request);
    bool to_host = item->kind == LLS_PLAN_OFFLOAD;
    if (live == NULL || live->move.incoming ||
        (!to_host && item->kind != LLS_PLAN_UPLOAD))
      continue;
    int rc = start(in, live, to_host);
    if (rc < 0)
      lls_lifecycle_refuse(
          in, live, rc == -ENOTSUP ? LLS_REFUSED_UNSUPPORTED : LLS_REFUSED_NO_MEMORY);
  }
}

void lls_transfer_start(struct lls_instance *in, struct lls_live *live)
{
  LLS_ON_STEP(in);
  if (live->view.state != LLS_PREEMPTED)
    live->view.preemptions++;
  lls_lifecycle_set_state(in, live, LLS_MOVING);
  lls_lifecycle_refresh(in, live);
}

/* Ends a transfer: on the host the request waits as preempted, else it can run at
 * once. */
static void arrive(struct lls_instance *in, struct lls_live *live)
{
  struct lls_policies *p = &in->policies;
  struct lls_request *v = &live->view;
  uint32_t state = lls_request_decodes(v) ? LLS_DECODING : LLS_PREFILLING;
  if (v->residency == LLS_RESIDENT_HOST) {
    state = LLS_PREEMPTED;
    v->queue_enter_ns = lls_instance_now(in);
    in->status.preempted_swap++;
  }
  lls_lifecycle_set_state(in, live, state);
  if (LLS_SCHEDULER_HAS(p, on_transfer))
    LLS_CALL(p, scheduler, on_transfer, live->transfer, v);
}

void lls_transfer_ended(struct lls_instance *in)
{
  struct lls_policies *p = &in->policies;
  LLS_ON_STEP(in);
  LLS_CHECK(!in->transaction.open);
  for (uint32_t i = 0; i < in->moving.n;) {
    struct lls_live *live = lls_live_of(in->moving.items[i]);
    LLS_CALL(p, cache, on_transfer, live->transfer);
    lls_lifecycle_refresh(in, live);
    if (live->view.residency == LLS_RESIDENT_MOVING)
      i++;
    else
      arrive(in, live); /* removes it from the list: i stays */
  }
}
