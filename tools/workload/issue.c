/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which item is sent next; see issue.h. */
#include "tools/workload/issue.h"

#include <errno.h>
#include <stdlib.h>

struct lls_issuer {
  const struct lls_workload *workload;
  uint32_t max_concurrency;
  uint32_t n_timed;    /* items with an arrival time; they come first in the workload */
  uint32_t next_timed; /* index of the next timed item to hand out */
  uint32_t next_batch; /* index of the next item of a batch */
  uint32_t live_timed, live_batch; /* handed out and not yet ended */
};

int lls_issuer_create(const struct lls_workload *workload, uint32_t max_concurrency,
                      struct lls_issuer **out)
{
  struct lls_issuer *issuer = calloc(1, sizeof *issuer);
  if (issuer == NULL)
    return -ENOMEM;
  issuer->workload = workload;
  issuer->max_concurrency = max_concurrency;
  while (issuer->n_timed < workload->n_items &&
         workload->items[issuer->n_timed].batch == 0)
    issuer->n_timed++;
  issuer->next_batch = issuer->n_timed;
  *out = issuer;
  return 0;
}

void lls_issuer_destroy(struct lls_issuer *issuer)
{
  free(issuer);
}

static bool timed_left(const struct lls_issuer *issuer)
{
  return issuer->next_timed < issuer->n_timed;
}

/* Are batches left? They repeat while timed items still arrive; without timed items
 * each runs once. */
static bool batches_left(const struct lls_issuer *issuer)
{
  return issuer->next_batch < issuer->workload->n_items &&
         (timed_left(issuer) || issuer->n_timed == 0);
}

/* Is an item of a batch due: of the present batch, or the first one of the next batch
 * because none is active? */
static bool batch_due(const struct lls_issuer *issuer)
{
  const struct lls_item *items = issuer->workload->items;
  uint32_t next = issuer->next_batch;
  if (next >= issuer->workload->n_items)
    return false;
  bool begun = next > issuer->n_timed && items[next - 1].batch == items[next].batch;
  return begun || (issuer->live_batch == 0 && batches_left(issuer));
}

const struct lls_item *lls_issuer_next(struct lls_issuer *issuer, int64_t now_ns,
                                       int64_t *wake_ns)
{
  const struct lls_item *items = issuer->workload->items;
  uint32_t live = issuer->live_timed + issuer->live_batch;
  *wake_ns = LLS_NEVER;
  if (issuer->max_concurrency > 0 && live >= issuer->max_concurrency)
    return NULL;
  if (batch_due(issuer)) {
    issuer->live_batch++;
    return &items[issuer->next_batch++];
  }
  if (!timed_left(issuer))
    return NULL;
  if (items[issuer->next_timed].arrival_ns > now_ns) {
    *wake_ns = items[issuer->next_timed].arrival_ns;
    return NULL;
  }
  issuer->live_timed++;
  return &items[issuer->next_timed++];
}

void lls_issuer_ended(struct lls_issuer *issuer, const struct lls_item *item)
{
  if (item->batch != 0)
    issuer->live_batch--;
  else
    issuer->live_timed--;
}

bool lls_issuer_done(const struct lls_issuer *issuer)
{
  return issuer->live_timed + issuer->live_batch == 0 && !timed_left(issuer) &&
         !batch_due(issuer);
}

uint32_t lls_issuer_total(const struct lls_issuer *issuer)
{
  return issuer->n_timed + (issuer->next_batch - issuer->n_timed);
}
