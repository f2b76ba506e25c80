/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scheduler that moves requests; see mover.h. Its randomness comes from the host. To
 * keep requests going, at most one request at a time moves to another instance, so that
 * its space can always be found there; and after some plans in which nothing ran, the
 * youngest request gives up its memory.
 */
#include "config.h"

#include "tools/plugin-check/mover.h"

#include <errno.h>
#include <stdlib.h>

#include <llmserve/scheduler.h>

#define STUCK 3 /* plans in a row in which nothing ran */

struct mover {
  const struct lls_host *host;
  uint32_t idle_plans; /* plans in a row in which nothing ran */
};

static uint32_t below(const struct mover *m, uint32_t n)
{
  return (uint32_t)(m->host->random(m->host->context, 0) % n);
}

struct draft { /* the plan being made */
  struct lls_plan *plan;
  const struct lls_step_view *view;
  uint32_t tokens, sequences; /* remaining of the engine's limits */
  bool hands_over;
};

static void run(struct draft *d, const struct lls_request *r)
{
  uint32_t pending = lls_request_pending(r),
           n = pending < d->tokens ? pending : d->tokens;
  if (n == 0 || d->sequences == 0)
    return;
  lls_plan_run(d->plan, r, n);
  d->tokens -= n;
  d->sequences--;
}

static bool may_hand_over(const struct mover *m, const struct draft *d,
                          const struct lls_request *r)
{
  return m->host->topology->n_instances > 1 && d->view->n_leaving == 0 &&
         !d->hands_over && r->missing_tokens == 0;
}

static void hand_over(const struct mover *m, struct draft *d, const struct lls_request *r)
{
  uint32_t n = m->host->topology->n_instances;
  lls_plan_migrate(d->plan, r, (d->view->instance + 1 + below(m, n - 1)) % n);
  d->hands_over = true;
}

static void place_running(const struct mover *m, struct draft *d,
                          const struct lls_request *r)
{
  uint32_t drawn = below(m, 16);
  if (drawn == 0 && m->host->engine->async_transfers)
    lls_plan_add(d->plan, LLS_PLAN_OFFLOAD, r);
  else if (drawn == 1 && may_hand_over(m, d, r))
    hand_over(m, d, r);
  else if (drawn == 2 && d->view->preempt_mode != LLS_PREEMPT_NONE)
    lls_plan_preempt(d->plan, r, d->view->preempt_mode);
  else if (drawn != 3)
    run(d, r);
}

static void place_preempted(const struct mover *m, struct draft *d,
                            const struct lls_request *r)
{
  bool moves = m->host->engine->async_transfers && r->residency == LLS_RESIDENT_HOST;
  if (moves && below(m, 3) == 0)
    lls_plan_add(d->plan, LLS_PLAN_UPLOAD, r);
  else
    run(d, r);
}

static int plan(void *self, const struct lls_step_view *v, struct lls_plan *out)
{
  struct mover *m = self;
  struct draft d = {out, v, v->max_tokens, v->max_sequences, false};
  bool stuck = m->idle_plans++ >= STUCK;
  for (uint32_t i = 0; i < v->n_offered; i++)
    if (stuck || below(m, 2) == 0)
      lls_plan_migrate(out, v->offered[i], v->instance);
  for (uint32_t i = 0; i < v->n_running; i++)
    if (stuck && i + 1 == v->n_running)
      lls_plan_preempt(out, v->running[i], LLS_PREEMPT_RECOMPUTE);
    else
      place_running(m, &d, v->running[i]);
  for (uint32_t i = 0; i < v->n_preempted; i++)
    place_preempted(m, &d, v->preempted[i]);
  for (uint32_t i = 0; i < v->n_waiting; i++)
    run(&d, v->waiting[i]);
  return 0;
}

static void on_step(void *self, const struct lls_step_report *report)
{
  (void)report;
  ((struct mover *)self)->idle_plans = 0;
}

static void caps(void *self, struct lls_scheduler_caps *out)
{
  (void)self;
  out->needs = LLS_USES_ROLES;
  out->n_preempt = 2;
  out->preempt[0] = LLS_PREEMPT_SWAP;
  out->preempt[1] = LLS_PREEMPT_RECOMPUTE;
}

static int create(const struct lls_host *host, const void *params, void **self)
{
  struct mover *m = calloc(1, sizeof *m);
  (void)params;
  if (m == NULL)
    return -ENOMEM;
  m->host = host;
  *self = m;
  return 0;
}

static const struct lls_plugin descriptor = {
    .api_version = LLS_API_VERSION,
    .size = sizeof descriptor,
    .kind = LLS_KIND_SCHEDULER,
    .id = "mover",
    .version = PACKAGE_VERSION,
    .description = "moves requests about, by dice",
    .licence = "Apache-2.0",
};

const struct lls_plugin_module mover_module = {
    .descriptor = &descriptor,
    .scheduler = {.api_version = LLS_API_VERSION,
                  .size = sizeof(struct lls_scheduler_vtable),
                  .create = create,
                  .destroy = free,
                  .caps = caps,
                  .plan = plan,
                  .on_step = on_step},
};
