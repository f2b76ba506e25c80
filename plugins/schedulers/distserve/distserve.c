/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prefill and decode on instances of their own, first come, first served on both
 * (DistServe; see README). This file has the parts that the roles share.
 */
#include "distserve.h"

#include <errno.h>
#include <stdlib.h>

static void prefill(struct distserve *d, const struct lls_step_view *view,
                    struct lls_plan *out)
{
  const struct lls_pol_prefiller_limits limits = {
      .tokens = (uint32_t)d->params.prefill_tokens,
      .batch = (uint32_t)d->params.prefill_batch};
  d->prefiller.place.in_turn = d->params.placement == PLACEMENT_TURN;
  lls_pol_prefiller_plan(&d->prefiller, d->base.host, &limits, view, out);
}

static int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  struct distserve *d = self;
  d->leaving = view->n_leaving;
  if (view->role == LLS_ROLE_PREFILL)
    prefill(d, view, out);
  else
    distserve_decode(d, view, out);
  return 0;
}

/* Clears the user words of a request that is new, or arrives from another instance. */
static void on_arrival(void *self, const struct lls_request *r)
{
  (void)self;
  r->user[HAS_RUN] = r->user[LLS_POL_PREFILLER_ANSWER] = 0;
}

static void on_refused(void *self, const struct lls_request *r, uint32_t refusal)
{
  const struct distserve *d = self;
  if (lls_pol_prefiller_refused(r, refusal))
    lls_pol_scheduler_count(&d->base, "returned", 1);
}

static void on_step(void *self, const struct lls_step_report *report)
{
  (void)self;
  for (uint32_t i = 0; i < report->n_results; i++)
    report->results[i].request->user[HAS_RUN] = 1;
}

static void caps(void *self, struct lls_scheduler_caps *out)
{
  out->needs = LLS_NEEDS_ROLES;
  lls_pol_step_preferences(out, ((const struct distserve *)self)->params.preempt);
}

static void stats(void *self, const struct lls_sink *sink)
{
  const struct distserve *d = self;
  sink->number(sink->context, "taken_units_waiting", d->waiting_units);
  sink->number(sink->context, "leaving", d->leaving);
}

static const struct lls_param parameters[] = {
    LLS_PARAM_INT(struct distserve_params, prefill_batch, "128", 1, 65536, "sequences",
                  "most prompts in one step of a prefill instance",
                  .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_INT(struct distserve_params, prefill_tokens, "2048", 1, 1e6, "tokens",
                  "most tokens of prompts in one step", .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_INT(struct distserve_params, decode_batch, "256", 1, 65536, "sequences",
                  "most sequences that run at once on a decode instance",
                  .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_FLOAT(struct distserve_params, accept_frac, "0.05", 0.001, 1, "",
                    "a decode instance takes over more requests while those that have "
                    "not run there yet hold less than this fraction of its cache",
                    .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_CHOICE(struct distserve_params, preempt, "swap", "recompute|swap",
                     "how a decode instance makes room: sequences are moved to the host, "
                     "or dropped and prefilled again there"),
    LLS_PARAM_CHOICE(struct distserve_params, migration, "overlapped",
                     "overlapped|blocking",
                     "whether decodes continue while blocks of other requests are copied "
                     "from a prefill instance, or wait",
                     .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_CHOICE(
        struct distserve_params, placement, "load", "load|turn",
        "a decode instance for a prefilled request: the least loaded one, or "
        "each in turn",
        .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_EXPERIMENTAL),
};

static int create(const struct lls_host *host, const void *params, void **self)
{
  *self = LLS_POL_SCHEDULER_NEW(struct distserve, host, parameters, params);
  return *self != NULL ? 0 : -ENOMEM;
}

static const struct lls_scheduler_vtable vtable = {
    .api_version = LLS_API_VERSION,
    .size = sizeof vtable,
    .create = create,
    .destroy = free,
    .caps = caps,
    .plan = plan,
    .on_arrival = on_arrival,
    .on_refused = on_refused,
    .on_step = on_step,
    .stats = stats,
    .dump = lls_pol_scheduler_dump,
    .reconfigure = lls_pol_scheduler_reconfigure,
};

LLS_POL_SCHEDULER_PLUGIN("distserve", struct distserve_params,
                         "prefill and decode on instances of their own (DistServe)");
