/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First come, first served with continuous batching, prefill first: vLLM's scheduling.
 * The algorithm is in <llmserve/policy/prefill_first.h>; the order is that of the view.
 */
#include <llmserve/policy/prefill_first.h>
#include <llmserve/policy/scheduler.h>

#include <errno.h>
#include <stdlib.h>

struct fcfs {
  struct lls_pol_scheduler base;
  struct lls_pol_prefill_first_params params;
};

static int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  const struct fcfs *f = self;
  lls_pol_prefill_first_plan_in_order(f->base.host, &f->params, view, out);
  return 0;
}

static void caps(void *self, struct lls_scheduler_caps *out)
{
  lls_pol_step_preferences(out, ((const struct fcfs *)self)->params.preempt);
}

static const struct lls_param parameters[] = {
    LLS_POL_PREFILL_FIRST_PARAMETERS(struct lls_pol_prefill_first_params),
};

static int create(const struct lls_host *host, const void *params, void **self)
{
  *self = LLS_POL_SCHEDULER_NEW(struct fcfs, host, parameters, params);
  return *self != NULL ? 0 : -ENOMEM;
}

static const struct lls_scheduler_vtable vtable = {
    .api_version = LLS_API_VERSION,
    .size = sizeof vtable,
    .create = create,
    .destroy = free,
    .caps = caps,
    .plan = plan,
    .dump = lls_pol_scheduler_dump,
    .reconfigure = lls_pol_scheduler_reconfigure,
};

LLS_POL_SCHEDULER_PLUGIN(
    "fcfs", struct lls_pol_prefill_first_params,
    "continuous batching, prefill first, preempts the newest (vLLM)");
