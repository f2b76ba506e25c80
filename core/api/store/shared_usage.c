/* SPDX-License-Identifier: Apache-2.0 */
/* Writes once a second how much tenants have used here, and reads how much they have used
 * at other replicas. */
#include <stdlib.h>

#include "core/api/accounts.h"
#include "core/api/store/store_front.h"
#include "core/api/store/shared_usage.h"

#define PERIOD_NS LLS_NS_PER_S

struct telling {
  struct lls_store_job job;
  struct lls_api *api;
  struct lls_tenant_usage *own, *others; /* (n_own), (n_others) */
  size_t n_own, n_others;
  int status;
};

static void run(struct lls_store_job *job, struct lls_store *store)
{
  struct telling *telling = (struct telling *)job;
  telling->status = lls_usage_put(store, telling->own, telling->n_own, NULL);
  if (telling->status == 0)
    telling->status =
        lls_usage_of_others(store, &telling->others, &telling->n_others, NULL);
}

static void done(struct lls_store_job *job)
{
  struct telling *telling = (struct telling *)job;
  struct lls_api *api = telling->api;
  struct lls_store_front *front = api->front;
  /* the use before this process began may be older than a minute */
  if (telling->status == 0)
    lls_accounts_note_others(api, telling->others, telling->n_others, front->knows_usage);
  else
    lls_accounts_report_again(api);
  front->knows_usage |= telling->status == 0;
  front->tells_usage = false;
  free(telling->own);
  free(telling->others);
  free(telling);
  lls_store_errand_over(api);
}

void lls_shared_usage_tick(struct lls_api *api)
{
  struct lls_store_front *front = api->front;
  int64_t now_ns = (int64_t)uv_hrtime();
  LLS_API_ON_MAIN(api);
  if (front == NULL || front->store == NULL || front->tells_usage || api->draining ||
      now_ns - front->told_ns < PERIOD_NS || !lls_store_is_shared(front->store) ||
      !lls_accounts_are_limited(api))
    return;
  struct telling *telling = calloc(1, sizeof *telling);
  if (telling == NULL)
    return;
  *telling = (struct telling){.job = {.run = run, .done = done}, .api = api};
  telling->n_own = lls_accounts_report(api, &telling->own);
  front->tells_usage = true;
  front->told_ns = now_ns;
  lls_store_errand(api, &telling->job);
}
