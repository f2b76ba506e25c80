/* SPDX-License-Identifier: Apache-2.0 */
/* See backlog.h. */
#include "backlog.h"

#include <errno.h>
#include <stdlib.h>

static bool off_device(const struct lls_request *r)
{
  return r->state == LLS_WAITING || r->state == LLS_PREEMPTED;
}

static bool contains(const struct lls_request *r)
{
  return r->user[0] != 0;
}

int backlog_init(struct backlog *b, struct scheduler *scheduler,
                 const struct backlog_container *container, void *self)
{
  const struct lls_host *host = scheduler->host;
  uint32_t capacity = host->engine->max_requests;
  *b = (struct backlog){
      .host = host, .container = container, .self = self, .capacity = capacity};
  scheduler->backlog = b;
  b->noted = malloc(((size_t)capacity + 1) * sizeof *b->noted);
  return b->noted != NULL ? 0 : -ENOMEM;
}

void backlog_free(struct backlog *b)
{
  free(b->noted);
}

void backlog_add(struct backlog *b, const struct lls_request *r)
{
  if (contains(r) || !off_device(r))
    return;
  b->container->insert(b->self, r);
  b->n++;
}

void backlog_remove(struct backlog *b, const struct lls_request *r)
{
  if (!contains(r))
    return;
  b->container->remove(b->self, r);
  b->n--;
}

void backlog_changed(struct backlog *b, const struct lls_request *r)
{
  if (!contains(r))
    return;
  b->container->remove(b->self, r);
  b->container->insert(b->self, r);
}

void backlog_many_changed(struct backlog *b)
{
  b->stale = true;
}

static void add_all(struct backlog *b, const struct lls_request *const *list, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    backlog_add(b, list[i]);
}

void backlog_begin(struct backlog *b, const struct lls_step_view *view)
{
  for (uint32_t i = 0; i < b->n_noted; i++) {
    const struct lls_request *r = b->host->find(b->host->context, b->noted[i]);
    if (r != NULL)
      backlog_add(b, r);
  }
  b->n_noted = 0;
  if (!b->stale && b->n == view->n_waiting + view->n_preempted)
    return;
  b->container->clear(b->self);
  b->n = 0;
  b->stale = false;
  add_all(b, view->preempted, view->n_preempted);
  add_all(b, view->waiting, view->n_waiting);
}

static void note(struct backlog *b, uint64_t request)
{
  if (b->n_noted < b->capacity)
    b->noted[b->n_noted++] = request;
  else
    b->stale = true;
}

void backlog_end(struct backlog *b, const struct lls_plan *plan)
{
  for (uint32_t i = 0; i < plan->n_items; i++)
    if (plan->items[i].kind == LLS_PLAN_PREEMPT)
      note(b, plan->items[i].request);
}

void backlog_note(struct backlog *b, const struct lls_request *r)
{
  note(b, r->id);
}

bool backlog_take(struct backlog *b, const struct lls_request *r)
{
  if (contains(r))
    note(b, r->id);
  backlog_remove(b, r);
  b->stale |= !off_device(r);
  return off_device(r);
}

static struct backlog *backlog_of(void *self)
{
  return ((struct scheduler *)self)->backlog;
}

void backlog_on_arrival(void *self, const struct lls_request *r)
{
  backlog_add(backlog_of(self), r);
}

void backlog_on_prediction(void *self, const struct lls_request *r)
{
  backlog_changed(backlog_of(self), r);
}

void backlog_on_finish(void *self, const struct lls_request *r, uint32_t reason)
{
  (void)reason;
  backlog_remove(backlog_of(self), r);
}

/* Who has come to the host waits there among the others. */
void backlog_on_transfer(void *self, uint64_t transfer, const struct lls_request *r,
                         uint32_t status)
{
  (void)transfer, (void)status;
  backlog_add(backlog_of(self), r);
}
