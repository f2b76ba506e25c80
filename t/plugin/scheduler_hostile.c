/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scheduler that makes random legal plans: nothing, some requests, odd chunks,
 * needless preemptions, memory reserved and released again, an occasional rejection. In
 * mode `illegal` every fourth plan has an item that must be refused. It checks the host
 * all the time (scheduler_watch.h).
 */
#include "t/plugin/scheduler_watch.h"

#include <stdlib.h>

enum { LEGAL, ILLEGAL, LATER };

struct params {
  int64_t seed, mode, rejects, forms;
};

struct hostile {
  struct watch watch;
  struct params params;
};

struct planning { /* the plan being made */
  struct contract *c;
  const struct lls_step_view *view;
  struct lls_plan *plan;
  uint32_t tokens, sequences; /* remaining limits */
  bool decodes_only, prefills_only;
  uint32_t forms; /* percentage of runs that request a cache form */
};

/* ---- legal plans ---------------------------------------------------------------- */

static uint32_t pending_of(const struct planning *p, const struct lls_request *r)
{
  const struct lls_cache_service *cache = p->view->cache;
  uint32_t taken = r->cached_tokens == 0 ? cache->prefix(cache->context, r) : 0;
  struct lls_prefix all = {.size = sizeof all, .tokens = UINT32_MAX};
  int rc = cache->prefix_info(cache->context, r, &all);
  CONTRACT(p->c, rc == 0 || (rc == -ENOTSUP && all.tokens == 0), "prefix_info: %d", rc);
  CONTRACT(p->c, r->cached_tokens > 0 || all.tokens == taken,
           "prefix_info: %u tokens, prefix: %u", all.tokens, taken);
  CONTRACT(p->c, taken < lls_request_pending(r), "prefix: nothing left to compute");
  return lls_request_pending(r) - taken;
}

/* Returns a cache form that the request may change to; NONE: no change. */
static uint32_t wish(const struct planning *p, const struct lls_request *r)
{
  bool hidden = (p->c->host->engine->forms & LLS_BIT_HIDDEN) != 0 &&
                (r->cached_tokens == 0 || r->form == LLS_FORM_HIDDEN);
  if (p->forms == 0 || !contract_chance(p->c, p->forms))
    return LLS_FORM_NONE;
  return hidden && contract_chance(p->c, 70) ? LLS_FORM_HIDDEN : LLS_FORM_KV;
}

/* Reserves memory in the plan, and sometimes rolls this back. Returns true if the
 * request may run. */
static bool try_reserve(struct planning *p, const struct lls_request *r, uint32_t tokens,
                        uint32_t form)
{
  const struct lls_cache_service *cache = p->view->cache;
  uint32_t flags = contract_chance(p->c, 20) ? LLS_MAY_DISPLACE : 0;
  uint32_t mark = cache->mark(cache->context);
  int rc = cache->reserve(cache->context, r, tokens, form, flags);
  CONTRACT(p->c, rc >= 0 && rc <= LLS_RESERVE_NEVER, "reserve: %d", rc);
  if (rc != LLS_RESERVE_OK)
    return false;
  if (contract_chance(p->c, 20)) {
    CONTRACT(p->c, cache->rollback(cache->context, mark) == 0, "rollback failed");
    return contract_chance(p->c, 50); /* otherwise the core has to reserve */
  }
  return true;
}

static void run(struct planning *p, const struct lls_request *r)
{
  bool decode = r->generated_tokens > 0 && lls_request_pending(r) == 1;
  if (p->sequences == 0 || (decode ? p->prefills_only : p->decodes_only))
    return;
  uint32_t pending = pending_of(p, r), tokens = pending;
  if (!p->c->host->engine->chunked_prefill)
    /* the core shortens the run to the pending tokens */
    tokens = pending = lls_request_pending(r);
  else if (contract_chance(p->c, 70))
    tokens = contract_between(p->c, 1, pending);
  if (tokens > p->tokens && p->c->host->engine->chunked_prefill)
    tokens = p->tokens;
  if (tokens == 0 || tokens > p->tokens)
    return;
  uint32_t form = wish(p, r), n_items = p->plan->n_items;
  if (contract_chance(p->c, 50) &&
      !try_reserve(p, r, contract_between(p->c, tokens, pending), form))
    return;
  lls_plan_run(p->plan, r, tokens);
  if (p->plan->n_items > n_items)
    p->plan->items[n_items].form = form;
  p->tokens -= tokens;
  p->sequences--;
}

static void preempt(struct planning *p, const struct lls_request *r)
{
  const struct lls_cache_service *cache = p->view->cache;
  static const uint32_t modes[] = {LLS_PREEMPT_RECOMPUTE, LLS_PREEMPT_SWAP,
                                   LLS_PREEMPT_DEFER};
  uint32_t mode = modes[contract_between(p->c, 0, 2)];
  if (!(p->c->host->engine->preempt_modes & 1u << mode))
    return;
  if (contract_chance(p->c, 50) && cache->preempt(cache->context, r, mode) < 0)
    return;
  lls_plan_preempt(p->plan, r, mode);
}

static void consider(struct hostile *h, struct planning *p, const struct lls_request *r)
{
  bool on_device = r->state == LLS_PREFILLING || r->state == LLS_DECODING;
  uint32_t roll = contract_between(p->c, 0, 999);
  if (roll < 200)
    return;
  if (roll < 230 && on_device)
    preempt(p, r);
  else if (roll >= 230 && roll < 230 + (uint32_t)h->params.rejects)
    lls_plan_reject(p->plan, r, roll % 2 ? LLS_FINISH_REJECTED : LLS_FINISH_CAPACITY);
  else
    run(p, r);
}

static const struct lls_request *nth(const struct lls_step_view *v, uint32_t i)
{
  if (i < v->n_running)
    return v->running[i];
  i -= v->n_running;
  if (i < v->n_preempted)
    return v->preempted[i];
  return v->waiting[i - v->n_preempted];
}

static void plan_legally(struct hostile *h, struct planning *p)
{
  const struct lls_step_view *v = p->view;
  uint32_t n = v->n_running + v->n_preempted + v->n_waiting;
  p->plan->idle_until_ns = v->now_ns + contract_between(p->c, 0, 2000000);
  if (n == 0 || contract_chance(p->c, 10))
    return;
  if (!p->c->host->engine->mixed_batch)
    *(contract_chance(p->c, 50) ? &p->decodes_only : &p->prefills_only) = true;
  uint32_t start = contract_between(p->c, 0, n - 1);
  for (uint32_t i = 0; i < n; i++)
    consider(h, p, nth(v, (start + i) % n));
}

/* ---- illegal ones --------------------------------------------------------------- */

/* A length above the pending tokens, or a partial prompt where prompts cannot be
 * cut. */
static uint32_t bad_length(const struct planning *p, const struct lls_request *r)
{
  uint32_t pending = lls_request_pending(r);
  return p->c->host->engine->chunked_prefill ? pending + 1 : pending - 1;
}

static void spoil(struct planning *p, const struct lls_request *r)
{
  struct lls_plan *plan = p->plan;
  const struct lls_request unknown = {.id = UINT64_MAX - contract_between(p->c, 0, 9)};
  struct lls_plan_item *item;
  switch (contract_between(p->c, 0, 9)) {
  case 0:
    lls_plan_run(plan, &unknown, 1);
    return;
  case 1:
    lls_plan_run(plan, r, bad_length(p, r));
    return;
  case 2:
    lls_plan_run(plan, r, 0);
    return;
  case 3: /* the same request twice */
    lls_plan_run(plan, r, 1);
    lls_plan_run(plan, r, 1);
    return;
  case 4:
    lls_plan_preempt(plan, r, LLS_PREEMPT_NONE);
    return;
  case 5:
    lls_plan_preempt(plan, r, contract_between(p->c, LLS_PREEMPT_DEFER + 1, UINT32_MAX));
    return;
  case 6:
    lls_plan_reject(plan, r, LLS_FINISH_STOP);
    return;
  case 7:
    lls_plan_add(plan, LLS_PLAN_REJECT + contract_between(p->c, 1, 1000), r);
    return;
  case 8:
    lls_plan_run(plan, r, 1);
    lls_plan_preempt(plan, r, LLS_PREEMPT_RECOMPUTE);
    return;
  default:
    item = lls_plan_add(plan, LLS_PLAN_RUN, r);
    if (item != NULL)
      item->tokens = 1, item->form = 77;
  }
}

/* Items of later versions, one each in turn; nothing else in the plan. */
static void plan_for_later(struct planning *p)
{
  const struct lls_request *r = nth(p->view, 0);
  uint32_t kind = LLS_PLAN_ENCODE + (uint32_t)(p->view->step / 4 % 4);
  struct lls_plan_item *item =
      lls_plan_add(p->plan, kind <= LLS_PLAN_FETCH ? kind : LLS_PLAN_RUN, r);
  item->tokens = lls_request_pending(r), item->drafts = 1;
}

/* ---- the vtable ----------------------------------------------------------------- */

static int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  struct hostile *h = self;
  struct planning p = {
      .c = &h->watch.contract,
      .view = view,
      .plan = out,
      .tokens = view->max_tokens,
      .sequences = view->max_sequences,
      .forms = (uint32_t)h->params.forms,
  };
  uint32_t n = view->n_running + view->n_preempted + view->n_waiting;
  watch_view(&h->watch, view, out);
  bool later = h->params.mode == LATER && view->step % 4 == 3 && n > 0;
  if (later)
    plan_for_later(&p);
  else
    plan_legally(h, &p);
  bool bad = h->params.mode == ILLEGAL && n > 0 && contract_chance(p.c, 25);
  if (bad)
    spoil(&p, nth(view, contract_between(p.c, 0, n - 1)));
  watch_plan(&h->watch, out, !bad && !later);
  return h->watch.contract.broken > 0 ? -EPROTO : 0;
}

static void caps(void *self, struct lls_scheduler_caps *out)
{
  (void)self;
  out->preempt[out->n_preempt++] = LLS_PREEMPT_SWAP;
  out->preempt[out->n_preempt++] = LLS_PREEMPT_RECOMPUTE;
}

static int create(const struct lls_host *host, const void *params, void **self)
{
  struct hostile *h = calloc(1, sizeof *h);
  if (h == NULL)
    return -ENOMEM;
  h->params = *(const struct params *)params;
  int rc = watch_init(&h->watch, host, (uint64_t)h->params.seed);
  if (rc < 0)
    free(h);
  else
    *self = h;
  return rc;
}

static void destroy(void *self)
{
  struct hostile *h = self;
  watch_free(&h->watch);
  free(h);
}

static void on_arrival(void *self, const struct lls_request *r)
{
  watch_arrival(&((struct hostile *)self)->watch, r);
}

static void on_prediction(void *self, const struct lls_request *r)
{
  watch_alive(&((struct hostile *)self)->watch, r, "on_prediction");
}

static void on_step(void *self, const struct lls_step_report *report)
{
  watch_report(&((struct hostile *)self)->watch, report);
}

static void on_finish(void *self, const struct lls_request *r, uint32_t reason)
{
  watch_finish(&((struct hostile *)self)->watch, r, reason);
}

static void on_refused(void *self, const struct lls_request *r, uint32_t refusal)
{
  watch_refused(&((struct hostile *)self)->watch, r, refusal);
}

static const struct lls_param parameters[] = {
    LLS_PARAM_INT(struct params, seed, "1", 0, 1e15, "", "of its random choices"),
    LLS_PARAM_CHOICE(struct params, mode, "legal", "legal|illegal|later",
                     "whether some plans are such that the core must refuse them"),
    LLS_PARAM_INT(struct params, rejects, "1", 0, 700, "",
                  "how many of 1000 looks at a request end in its rejection"),
    LLS_PARAM_INT(struct params, forms, "0", 0, 100, "percent",
                  "of runs that wish for a cache form"),
};

static const struct lls_scheduler_vtable vtable = {
    .api_version = LLS_API_VERSION,
    .size = sizeof vtable,
    .create = create,
    .destroy = destroy,
    .caps = caps,
    .plan = plan,
    .on_arrival = on_arrival,
    .on_prediction = on_prediction,
    .on_step = on_step,
    .on_finish = on_finish,
    .on_refused = on_refused,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    .api_version = LLS_API_VERSION,
    .size = sizeof llmserve_plugin,
    .kind = LLS_KIND_SCHEDULER,
    .id = "hostile",
    .version = "1.0",
    .description = "test fixture: plans anything it may, checks the host",
    .licence = "Apache-2.0",
    LLS_PLUGIN_PARAMS(parameters, struct params),
    .vtable = &vtable,
};
