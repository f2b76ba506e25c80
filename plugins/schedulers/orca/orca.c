/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orca: scheduling by iteration, first come, first served, with room for a request's
 * longest answer set aside when it starts. Nothing is ever preempted: what was set aside
 * suffices (unless reserve = oracle or pow2 believed a prediction that was too short).
 */
#include "../../common/reservation.h"
#include <llmserve/policy/fit.h>
#include <llmserve/policy/scheduler.h>
#include <llmserve/policy/step.h>

#include <errno.h>
#include <stdlib.h>

struct params {
  int64_t max_bs, reserve, max_len;
};

struct orca {
  struct lls_pol_scheduler base;
  struct params params;
  uint64_t reserved; /* units, in the last plan */
  struct lls_pol_fit fit;
};

/* User words: what is set aside for a request that runs. */
enum { TOKENS, UNITS };

/* Returns the units for `tokens` of r in all, as the cache counts them. */
static uint32_t units_of(const struct lls_pol_step *s, const struct lls_request *r,
                         uint32_t tokens)
{
  struct lls_need need = {.size = sizeof need};
  struct lls_cache_info info = {.size = sizeof info};
  s->cache->need(s->cache->context, r, tokens - r->cached_tokens, LLS_FORM_NONE, &need);
  s->cache->info(s->cache->context, r, &info);
  return need.new_units + info.device_units;
}

static void set_aside(const struct lls_pol_step *s, const struct lls_request *r,
                      uint32_t tokens)
{
  r->user[TOKENS] = tokens;
  r->user[UNITS] = units_of(s, r, tokens);
}

static uint32_t reservation(const struct orca *o, const struct lls_pol_step *s,
                            const struct lls_request *r)
{
  uint32_t most = lls_pol_fit_tokens(&o->fit, s->total_units);
  uint32_t context = o->base.host->engine->max_context;
  return reservation_of(r, o->params.reserve, (uint32_t)o->params.max_len,
                        lls_pol_min(most, context));
}

/* Returns n_rsrv, the units set aside for all resident requests. A request that has
 * outgrown its reservation gets a larger one. */
static uint64_t reserved_units(const struct orca *o, const struct lls_pol_step *s)
{
  uint64_t n = 0;
  for (uint32_t i = 0; i < s->tail; i++) {
    const struct lls_request *r = s->order[i];
    if (lls_request_length(r) > r->user[TOKENS])
      set_aside(s, r, reservation(o, s, r));
    n += r->user[UNITS];
  }
  return n;
}

/* Plans all resident requests, prefills and decodes alike (Algorithm 1). */
static void run_running(const struct orca *o, struct lls_pol_step *s)
{
  for (uint32_t i = 0; i < s->tail && s->tokens > 0 && s->sequences > 0; i++) {
    const struct lls_request *r = s->order[i];
    uint32_t pending = lls_request_pending(r);
    uint32_t tokens =
        lls_pol_step_chunk(s, o->base.host->engine, pending, s->view->max_tokens, false);
    if (tokens > 0 && lls_pol_step_grow(s, i, pending))
      lls_pol_step_run(s, r, tokens);
  }
}

/* Starts a request. Returns true if it runs or was rejected, so that the next one may
 * be tried. */
static bool start(struct orca *o, struct lls_pol_step *s, const struct lls_request *r)
{
  uint32_t pending = lls_pol_step_pending(s, r);
  if (lls_pol_step_too_long(s, o->base.host->engine, r, pending))
    return true;
  uint32_t tokens =
      lls_pol_step_chunk(s, o->base.host->engine, pending, s->view->max_tokens, true);
  set_aside(s, r, reservation(o, s, r));
  if (r->user[UNITS] > s->total_units) {
    lls_plan_reject(s->plan, r, LLS_FINISH_CAPACITY);
    return true;
  }
  if (tokens == 0 || o->reserved + r->user[UNITS] > s->total_units)
    return false;
  int rc = lls_pol_step_reserve(s, r, pending);
  if (rc == LLS_RESERVE_LATER) /* room enough, but not in one piece */
    return false;
  if (rc != LLS_RESERVE_OK) {
    lls_plan_reject(s->plan, r, LLS_FINISH_CAPACITY);
    return true;
  }
  o->reserved += r->user[UNITS];
  lls_pol_step_run(s, r, tokens);
  return true;
}

static int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  struct orca *o = self;
  struct lls_pol_step s;
  lls_pol_step_begin(&s, view, out, 0);
  lls_pol_step_drafts(&s, o->base.host->cost);
  s.no_margin = true;
  lls_pol_fit_look(&o->fit, view);
  run_running(o, &s);
  uint32_t most = lls_pol_min((uint32_t)o->params.max_bs, view->max_sequences);
  uint32_t seats = s.tail < most ? most - s.tail : 0;
  o->reserved = reserved_units(o, &s);
  for (uint32_t i = 0; i < view->n_waiting && s.preempted == 0 && seats > 0; i++) {
    uint32_t runs = s.runs;
    if (!start(o, &s, view->waiting[i]))
      break;
    seats -= s.runs - runs;
  }
  lls_pol_step_end(&s);
  return 0;
}

static void caps(void *self, struct lls_scheduler_caps *out)
{
  (void)self;
  out->needs = LLS_NEEDS_MIXED_BATCH;
  lls_pol_step_preferences(out, LLS_POL_STEP_RECOMPUTE);
}

static void stats(void *self, const struct lls_sink *sink)
{
  const struct orca *o = self;
  sink->number(sink->context, "reserved_units", (double)o->reserved);
}

static const struct lls_param parameters[] = {
    LLS_PARAM_INT(struct params, max_bs, "8", 1, 65536, "sequences",
                  "most sequences that run at once", .flags = LLS_PARAM_RELOADABLE),
    RESERVATION_PARAMETERS(struct params),
};

static int create(const struct lls_host *host, const void *params, void **self)
{
  struct orca *o = LLS_POL_SCHEDULER_NEW(struct orca, host, parameters, params);
  if (o == NULL)
    return -ENOMEM;
  lls_pol_fit_init(&o->fit, host->engine);
  *self = o;
  return 0;
}

static const struct lls_scheduler_vtable vtable = {
    .api_version = LLS_API_VERSION,
    .size = sizeof vtable,
    .create = create,
    .destroy = free,
    .caps = caps,
    .plan = plan,
    .stats = stats,
    .dump = lls_pol_scheduler_dump,
    .reconfigure = lls_pol_scheduler_reconfigure,
};

LLS_POL_SCHEDULER_PLUGIN("orca", struct params,
                         "Orca: room for the longest answer set aside");
