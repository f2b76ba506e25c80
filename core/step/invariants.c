/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Invariants of an instance between two steps, checked in builds with --enable-checks:
 * each request is in its slot and in exactly one list, the list of its state; no
 * transaction is open. A policy's answers (capacity, audit) are not checked here: a
 * policy that contradicts itself is a plugin's bug and must not end the server.
 */
#include "core/step/phases.h"

#include "core/instance/instance.h"
#include "core/instance/request.h"

static bool belongs(const struct lls_instance *in, const struct lls_request_list *list,
                    uint32_t state)
{
  if (list == &in->migration.fetching)
    list =
        &in->migration.incoming; /* the fetching ones have the states of offered ones */
  switch (state) {
  case LLS_WAITING:
    return list == &in->waiting || list == &in->migration.incoming;
  case LLS_PREFILLING:
  case LLS_DECODING:
    return list == &in->running || list == &in->migration.incoming;
  case LLS_PREEMPTED:
    return list == &in->preempted;
  default:
    return state == LLS_MOVING &&
           (list == &in->moving || list == &in->migration.incoming);
  }
}

/* Ids ascend, so no request is twice in a list. Each request is in its slot, which holds
 * one request: if as many slots are taken as all lists have items, none is in two
 * lists. */
static void check_list(const struct lls_instance *in, const struct lls_request_list *list)
{
  LLS_CHECK(list->n <= list->capacity);
  for (uint32_t i = 0; i < list->n; i++) {
    const struct lls_request *v = list->items[i];
    const struct lls_live *live = lls_live_of(v);
    LLS_CHECK(i == 0 || list->items[i - 1]->id < v->id);
    LLS_CHECK(v->slot < in->table->slots && in->table->by_slot[v->slot] == live);
    LLS_CHECK(belongs(in, list, v->state));
    bool fetching = list == &in->migration.fetching;
    LLS_CHECK(live->move.incoming == (fetching || list == &in->migration.incoming));
    LLS_CHECK(live->move.fetching == fetching);
    LLS_CHECK(live->placed == LLS_PLACED_NOT);
    LLS_CHECK(lls_request_length(v) <= live->max_length);
    LLS_CHECK(v->cached_tokens <= lls_request_length(v));
  }
}

void lls_instance_check(const struct lls_instance *in)
{
  uint32_t taken = 0;
  if (!LLS_CHECKING)
    return;
  LLS_ON_STEP(in);
  check_list(in, &in->waiting);
  check_list(in, &in->running);
  check_list(in, &in->preempted);
  check_list(in, &in->moving);
  check_list(in, &in->migration.incoming);
  check_list(in, &in->migration.fetching);
  for (uint32_t slot = 0; slot < in->table->slots; slot++)
    taken += in->table->by_slot[slot] != NULL;
  LLS_CHECK(taken == lls_instance_alive(in));
  LLS_CHECK(!in->transaction.open && in->transaction.n_done == 0);
  LLS_CHECK(in->health.failed || in->migration.n_taken == 0);
  LLS_CHECK(in->migration.n_shifting <= in->migration.n_offered);
}
