/* SPDX-License-Identifier: Apache-2.0 */
/* See prefiller.h. */
#include <llmserve/policy/prefiller.h>

#include <llmserve/policy/prompts.h>

/* Offers a prefilled request to a decode instance. Ends it if no decode instance can ever
 * hold it. Decodes it here, in the same steps as prompts, if its cache cannot be copied
 * or no decode instance is found. */
static void offer(struct lls_pol_prefiller *p, const struct lls_host *host,
                  struct lls_pol_step *s, const struct lls_request *r)
{
  uint64_t answer = r->user[LLS_POL_PREFILLER_ANSWER];
  uint32_t to = LLS_POL_PLACE_NOWHERE;
  if (answer == 0)
    to = lls_pol_place(&p->place, host->topology, s->view, LLS_ROLE_DECODE, r);
  if (answer == LLS_REFUSED_NEVER_FITS)
    lls_plan_reject(s->plan, r, LLS_FINISH_CAPACITY);
  else if (to != LLS_POL_PLACE_NOWHERE)
    lls_plan_migrate(s->plan, r, to);
  else if (s->tokens > 0 && s->sequences > 0 &&
           lls_pol_step_reserve(s, r, lls_pol_step_decode_tokens(s, r)) == LLS_RESERVE_OK)
    lls_pol_step_run(s, r, lls_pol_step_decode_tokens(s, r));
}

/* Empty plans in a row after which the offers in both directions are taken to be
 * deadlocked: they fill the memory of both instances. */
#define PATIENCE 8

static bool is_stuck(const struct lls_pol_prefiller *p, const struct lls_host *host,
                     const struct lls_step_view *view)
{
  return p->idle_plans > PATIENCE && view->n_leaving > 0 && host->engine->async_transfers;
}

static uint32_t units_here(const struct lls_pol_step *s, const struct lls_request *r)
{
  struct lls_need need = {.size = sizeof need};
  s->cache->need(s->cache->context, r, r->cached_tokens, LLS_FORM_NONE, &need);
  return need.new_units;
}

/* Takes over a decode instance's victims from its device; returns the units still free.
 * A request larger than the whole cache is taken over as well, so that the core refuses
 * it with LLS_REFUSED_NEVER_FITS. In a deadlock, a request that does not fit is offloaded
 * to the decode instance's host memory. */
static int64_t take_over(const struct lls_pol_prefiller *p, const struct lls_host *host,
                         struct lls_pol_step *s)
{
  const struct lls_step_view *view = s->view;
  int64_t free_units = lls_pol_step_free_units(s);
  bool stuck = is_stuck(p, host, view);
  for (uint32_t i = 0; i < view->n_offered; i++) {
    const struct lls_request *r = view->offered[i];
    if (r->residency != LLS_RESIDENT_DEVICE)
      continue;
    uint32_t units = units_here(s, r);
    if (units <= free_units || units > s->total_units) {
      lls_plan_migrate(s->plan, r, view->instance);
      free_units -= units;
    } else if (stuck) {
      lls_plan_add(s->plan, LLS_PLAN_OFFLOAD, r);
    }
  }
  return free_units;
}

/* Uploads victims from the decode instance's host memory to its device, as many as the
 * free units here can then take over. Units for uploads under way are deducted first:
 * such an upload may wait for memory of other victims there, and these for room here. */
static void call_back(struct lls_pol_step *s, int64_t free_units)
{
  const struct lls_step_view *view = s->view;
  for (uint32_t i = 0; i < view->n_offered; i++) {
    uint32_t units = units_here(s, view->offered[i]);
    if (view->offered[i]->residency == LLS_RESIDENT_MOVING && units <= free_units)
      free_units -= units;
  }
  for (uint32_t i = 0; i < view->n_offered; i++) {
    const struct lls_request *r = view->offered[i];
    if (r->residency != LLS_RESIDENT_HOST)
      continue;
    uint32_t units = units_here(s, r);
    if (units > free_units && units <= s->total_units)
      continue;
    lls_plan_add(s->plan, LLS_PLAN_UPLOAD, r);
    free_units -= units;
  }
}

/* Continues a preempted request, such as a returned offer that lies on the host; ends it
 * if no decode instance can ever hold it. */
static void bring_back(const struct lls_pol_prompts *prompts, struct lls_pol_step *s,
                       const struct lls_request *r)
{
  if (r->user[LLS_POL_PREFILLER_ANSWER] == LLS_REFUSED_NEVER_FITS)
    lls_plan_reject(s->plan, r, LLS_FINISH_CAPACITY);
  else
    lls_pol_prompts_go_on(prompts, s, r);
}

/* True if admitting r leaves limits->keep_free of the cache free. A request alone is
 * always admitted: no other request could free memory for it. */
static bool leaves_room(const struct lls_pol_prefiller_limits *limits,
                        struct lls_pol_step *s, const struct lls_request *r)
{
  struct lls_need need = {.size = sizeof need};
  uint32_t keep = (uint32_t)(limits->keep_free * s->total_units);
  if (keep == 0 || (s->tail == 0 && s->runs == 0 && s->view->n_leaving == 0))
    return true;
  s->cache->need(s->cache->context, r, lls_pol_step_pending(s, r), LLS_FORM_NONE, &need);
  return (uint64_t)need.new_units + keep <= lls_pol_step_free_units(s);
}

void lls_pol_prefiller_plan(struct lls_pol_prefiller *p, const struct lls_host *host,
                            const struct lls_pol_prefiller_limits *limits,
                            const struct lls_step_view *view, struct lls_plan *out)
{
  struct lls_pol_step s;
  const struct lls_pol_prompts prompts = {
      .engine = host->engine,
      .budget = lls_pol_min(limits->tokens, view->max_tokens),
      .batch = lls_pol_min(limits->batch, view->max_sequences),
  };
  lls_pol_step_begin(&s, view, out, 0);
  lls_pol_place_begin(&p->place);
  for (uint32_t i = 0; i < view->n_running; i++)
    if (view->running[i]->state == LLS_DECODING)
      offer(p, host, &s, view->running[i]);
    else
      lls_pol_prompts_go_on(&prompts, &s, view->running[i]);
  for (uint32_t i = 0; i < view->n_preempted; i++)
    bring_back(&prompts, &s, view->preempted[i]);
  call_back(&s, take_over(p, host, &s));
  for (uint32_t i = 0; i < view->n_waiting; i++)
    if (!leaves_room(limits, &s, view->waiting[i]) ||
        !lls_pol_prompts_admit(&prompts, &s, view->waiting[i]))
      break;
  p->idle_plans = out->n_items == 0 ? p->idle_plans + 1 : 0;
  lls_pol_step_end(&s);
}

bool lls_pol_prefiller_refused(const struct lls_request *r, uint32_t refusal)
{
  bool never = refusal == LLS_REFUSED_NEVER_FITS || refusal == LLS_REFUSED_UNSUPPORTED;
  if (never)
    r->user[LLS_POL_PREFILLER_ANSWER] = refusal;
  return never;
}
