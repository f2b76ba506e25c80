/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First come, first served with continuous batching, prefill first: vLLM's scheduling.
 * What it does is in common/prefill_first.h; its order is that of the view.
 */
#include "../common/prefill_first.h"
#include "../common/scheduler.h"

#include <errno.h>
#include <stdlib.h>

struct fcfs {
  struct scheduler base;
  struct prefill_first_params params;
};

static int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  const struct fcfs *f = self;
  prefill_first_plan_in_order(f->base.host, &f->params, view, out);
  return 0;
}

static void caps(void *self, struct lls_scheduler_caps *out)
{
  step_preferences(out, ((const struct fcfs *)self)->params.preempt);
}

static const struct lls_param parameters[] = {
    PREFILL_FIRST_PARAMETERS(struct prefill_first_params),
};

static int create(const struct lls_host *host, const void *params, void **self)
{
  *self = SCHEDULER_NEW(struct fcfs, host, parameters, params);
  return *self != NULL ? 0 : -ENOMEM;
}

static const struct lls_scheduler_vtable vtable = {
    .api_version = LLS_API_VERSION,
    .size = sizeof vtable,
    .create = create,
    .destroy = free,
    .caps = caps,
    .plan = plan,
    .dump = scheduler_dump,
    .reconfigure = scheduler_reconfigure,
};

SCHEDULER_PLUGIN("fcfs", struct prefill_first_params,
                 "continuous batching, prefill first, preempts the newest (vLLM)");
