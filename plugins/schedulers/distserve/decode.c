/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A decode instance (or a mixed one, which also prefills). Its requests run first come,
 * first served; if memory is short the last one is swapped out, as in vLLM
 * (<llmserve/policy/prefill_first.h>). Then offers are taken over, as long as requests
 * that were taken over but have not run hold little memory.
 */
#include "distserve.h"

static uint32_t units_of(const struct lls_step_view *view, const struct lls_request *r)
{
  struct lls_cache_info info = {.size = sizeof info};
  view->cache->info(view->cache->context, r, &info);
  return info.device_units;
}

/* Returns the units of requests that were taken over and have not run on this
 * instance. */
static uint32_t waiting_units(const struct lls_step_view *view)
{
  uint32_t units = 0;
  for (uint32_t i = 0; i < view->n_running; i++)
    if (view->running[i]->user[HAS_RUN] == 0)
      units += units_of(view, view->running[i]);
  return units;
}

static uint32_t needed_units(const struct lls_step_view *view,
                             const struct lls_request *r)
{
  struct lls_need need = {.size = sizeof need};
  view->cache->need(view->cache->context, r, r->cached_tokens, r->form, &need);
  return need.new_units;
}

/* Takes offers over in order of arrival while waiting units < accept_frac of all and they
 * fit; returns how many. A request larger than the whole cache is taken over as well, so
 * that the core refuses it with LLS_REFUSED_NEVER_FITS. */
static uint32_t accept(struct distserve *d, const struct lls_step_view *view,
                       struct lls_plan *out)
{
  struct lls_capacity capacity = {.size = sizeof capacity};
  view->cache->capacity(view->cache->context, LLS_TIER_DEVICE, &capacity);
  double most = d->params.accept_frac * capacity.total_units;
  uint32_t waiting = waiting_units(view), free_units = capacity.free_units, taken = 0;
  d->waiting_units = waiting;
  for (uint32_t i = 0; i < view->n_offered && (double)waiting < most; i++) {
    const struct lls_request *r = view->offered[i];
    uint32_t units = needed_units(view, r);
    if (units > free_units && units <= capacity.total_units)
      break;
    lls_plan_migrate(out, r, view->instance);
    waiting += units;
    free_units -= lls_pol_min(units, free_units);
    taken++;
  }
  return taken;
}

/* DistServe's decode engine awaits its migrations before each iteration, and their copies
 * are on the stream that computes: a step that copies does nothing else. */
static bool accept_alone(struct distserve *d, const struct lls_step_view *view,
                         struct lls_plan *out)
{
  return d->params.migration == MIGRATION_BLOCKING && accept(d, view, out) > 0;
}

void distserve_decode(struct distserve *d, const struct lls_step_view *view,
                      struct lls_plan *out)
{
  const struct distserve_params *p = &d->params;
  const struct lls_pol_prefill_first_params params = {.max_tokens = p->prefill_tokens,
                                                      .max_seqs = p->decode_batch,
                                                      .preempt = p->preempt};
  if (accept_alone(d, view, out))
    return;
  lls_pol_prefill_first_plan_in_order(d->base.host, &params, view, out);
  if (p->migration == MIGRATION_OVERLAPPED)
    accept(d, view, out);
  if (view->n_offered > 0 && out->idle_until_ns == LLS_NEVER)
    out->idle_until_ns = lls_time_after(view->now_ns, LLS_NS_PER_S / 1000);
}
