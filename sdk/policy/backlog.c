/* SPDX-License-Identifier: Apache-2.0 */
/* See backlog.h. */
#include <llmserve/policy/backlog.h>
#include <llmserve/policy/check.h>

#include <errno.h>
#include <stdlib.h>

static bool off_device(const struct lls_request *r)
{
  return r->state == LLS_WAITING || r->state == LLS_PREEMPTED;
}

static bool contains(const struct lls_pol_backlog *b, const struct lls_request *r)
{
  return r->user[0] != 0 && b->container->has(b->self, r);
}

int lls_pol_backlog_init(struct lls_pol_backlog *b, struct lls_pol_scheduler *scheduler,
                         const struct lls_pol_backlog_container *container, void *self)
{
  const struct lls_host *host = scheduler->host;
  uint32_t capacity = host->engine->max_requests;
  *b = (struct lls_pol_backlog){
      .host = host, .container = container, .self = self, .capacity = capacity};
  scheduler->backlog = b;
  b->noted = malloc(((size_t)capacity + 1) * sizeof *b->noted);
  return b->noted != NULL ? 0 : -ENOMEM;
}

void lls_pol_backlog_free(struct lls_pol_backlog *b)
{
  free(b->noted);
}

void lls_pol_backlog_add(struct lls_pol_backlog *b, const struct lls_request *r)
{
  if (contains(b, r) || !off_device(r))
    return;
  LLS_POL_CHECK(b->n < b->capacity);
  b->container->insert(b->self, r);
  b->n++;
  LLS_POL_CHECK(contains(b, r));
}

void lls_pol_backlog_remove(struct lls_pol_backlog *b, const struct lls_request *r)
{
  if (!contains(b, r))
    return;
  LLS_POL_CHECK(b->n > 0);
  b->container->remove(b->self, r);
  b->n--;
  LLS_POL_CHECK(!contains(b, r));
}

void lls_pol_backlog_changed(struct lls_pol_backlog *b, const struct lls_request *r)
{
  if (!contains(b, r))
    return;
  b->container->remove(b->self, r);
  b->container->insert(b->self, r);
}

void lls_pol_backlog_many_changed(struct lls_pol_backlog *b)
{
  b->stale = true;
}

static void add_all(struct lls_pol_backlog *b, const struct lls_request *const *list,
                    uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    lls_pol_backlog_add(b, list[i]);
}

void lls_pol_backlog_begin(struct lls_pol_backlog *b, const struct lls_step_view *view)
{
  for (uint32_t i = 0; i < b->n_noted; i++) {
    const struct lls_request *r = b->host->find(b->host->context, b->noted[i]);
    if (r != NULL)
      lls_pol_backlog_add(b, r);
  }
  b->n_noted = 0;
  LLS_POL_CHECK(view->n_waiting + view->n_preempted <= b->capacity);
  if (!b->stale && b->n == view->n_waiting + view->n_preempted)
    return;
  b->container->clear(b->self);
  b->n = 0;
  b->stale = false;
  add_all(b, view->preempted, view->n_preempted);
  add_all(b, view->waiting, view->n_waiting);
}

static void note(struct lls_pol_backlog *b, uint64_t request)
{
  if (b->n_noted < b->capacity)
    b->noted[b->n_noted++] = request;
  else
    b->stale = true;
}

void lls_pol_backlog_end(struct lls_pol_backlog *b, const struct lls_plan *plan)
{
  for (uint32_t i = 0; i < plan->n_items; i++)
    if (plan->items[i].kind == LLS_PLAN_PREEMPT)
      note(b, plan->items[i].request);
}

void lls_pol_backlog_note(struct lls_pol_backlog *b, const struct lls_request *r)
{
  note(b, r->id);
}

bool lls_pol_backlog_take(struct lls_pol_backlog *b, const struct lls_request *r)
{
  if (contains(b, r))
    note(b, r->id);
  lls_pol_backlog_remove(b, r);
  b->stale |= !off_device(r);
  return off_device(r);
}

static struct lls_pol_backlog *backlog_of(void *self)
{
  return ((struct lls_pol_scheduler *)self)->backlog;
}

void lls_pol_backlog_on_arrival(void *self, const struct lls_request *r)
{
  lls_pol_backlog_add(backlog_of(self), r);
}

void lls_pol_backlog_on_prediction(void *self, const struct lls_request *r)
{
  lls_pol_backlog_changed(backlog_of(self), r);
}

void lls_pol_backlog_on_finish(void *self, const struct lls_request *r, uint32_t reason)
{
  (void)reason;
  lls_pol_backlog_remove(backlog_of(self), r);
}

/* An offload has ended: the request waits on the host, as a member of the backlog. */
void lls_pol_backlog_on_transfer(void *self, uint64_t transfer,
                                 const struct lls_request *r)
{
  (void)transfer;
  lls_pol_backlog_add(backlog_of(self), r);
}
