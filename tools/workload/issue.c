/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which item is sent next; see issue.h. */
#include "tools/workload/issue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A turn that will be sent. */
struct due {
  int64_t at_ns;
  uint32_t index;
};

struct lls_issuer {
  const struct lls_workload *workload;
  uint32_t max_concurrency;
  uint32_t n_timed;     /* items with an arrival time; they come first in the workload */
  uint32_t next_timed;  /* index of the next timed item to hand out */
  uint32_t first_batch; /* index of the first item of a batch */
  struct due *due;      /* (n_due) turns whose predecessor has ended, the next one last */
  uint32_t n_due;
  int64_t due_ns;                  /* see lls_issuer_due_ns */
  uint32_t next_batch;             /* index of the next item of a batch */
  uint32_t live_timed, live_batch; /* handed out and not yet ended */
};

/* Counts the timed items that turns follow: of these turns one at most waits at a
 * time. */
static uint32_t count_chains(const struct lls_issuer *issuer)
{
  uint32_t n = 0;
  for (uint32_t i = 0; i < issuer->n_timed; i++)
    n += issuer->workload->items[i].next != LLS_NO_ITEM;
  return n;
}

int lls_issuer_create(const struct lls_workload *workload, uint32_t max_concurrency,
                      struct lls_issuer **out)
{
  struct lls_issuer *issuer = calloc(1, sizeof *issuer);
  if (issuer == NULL)
    return -ENOMEM;
  issuer->workload = workload;
  issuer->max_concurrency = max_concurrency;
  while (issuer->n_timed < workload->n_items &&
         workload->items[issuer->n_timed].batch == 0 &&
         !lls_item_follows(&workload->items[issuer->n_timed]))
    issuer->n_timed++;
  issuer->first_batch = issuer->n_timed;
  while (issuer->first_batch < workload->n_items &&
         workload->items[issuer->first_batch].batch == 0)
    issuer->first_batch++;
  issuer->next_batch = issuer->first_batch;
  issuer->due = calloc(count_chains(issuer) + (size_t)1, sizeof *issuer->due);
  if (issuer->due == NULL) {
    free(issuer);
    return -ENOMEM;
  }
  *out = issuer;
  return 0;
}

void lls_issuer_destroy(struct lls_issuer *issuer)
{
  if (issuer != NULL)
    free(issuer->due);
  free(issuer);
}

static bool timed_left(const struct lls_issuer *issuer)
{
  return issuer->next_timed < issuer->n_timed || issuer->n_due > 0;
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
  bool begun = next > issuer->first_batch && items[next - 1].batch == items[next].batch;
  return begun || (issuer->live_batch == 0 && batches_left(issuer));
}

/* Makes a turn due, after all that are due later. */
static void add_due(struct lls_issuer *issuer, uint32_t index, int64_t at_ns)
{
  uint32_t place = issuer->n_due;
  while (place > 0 && issuer->due[place - 1].at_ns <= at_ns)
    place--;
  memmove(&issuer->due[place + 1], &issuer->due[place],
          (issuer->n_due - place) * sizeof *issuer->due);
  issuer->due[place] = (struct due){.at_ns = at_ns, .index = index};
  issuer->n_due++;
}

/* Returns the next item that a time makes due, and removes it: a timed one, or a turn
 * whose wait is over. Sets *wake_ns instead if its time has not come. */
static const struct lls_item *take_timed(struct lls_issuer *issuer, int64_t now_ns,
                                         int64_t *wake_ns)
{
  const struct lls_item *items = issuer->workload->items;
  bool any = issuer->next_timed < issuer->n_timed;
  const struct due *turn = issuer->n_due > 0 ? &issuer->due[issuer->n_due - 1] : NULL;
  int64_t timed_ns = any ? items[issuer->next_timed].arrival_ns : INT64_MAX;
  int64_t due_ns = turn != NULL && turn->at_ns < timed_ns ? turn->at_ns : timed_ns;
  if (due_ns > now_ns) {
    *wake_ns = due_ns;
    return NULL;
  }
  issuer->due_ns = due_ns;
  if (due_ns == timed_ns)
    return &items[issuer->next_timed++];
  issuer->n_due--;
  return &items[turn->index];
}

int64_t lls_issuer_due_ns(const struct lls_issuer *issuer)
{
  return issuer->due_ns;
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
    issuer->due_ns = LLS_NEVER;
    return &items[issuer->next_batch++];
  }
  if (!timed_left(issuer))
    return NULL;
  const struct lls_item *item = take_timed(issuer, now_ns, wake_ns);
  issuer->live_timed += item != NULL;
  return item;
}

void lls_issuer_ended(struct lls_issuer *issuer, const struct lls_item *item,
                      int64_t ended_ns)
{
  if (item->next != LLS_NO_ITEM)
    add_due(issuer, item->next, ended_ns + item->wait_ns);
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
  return issuer->next_batch;
}
