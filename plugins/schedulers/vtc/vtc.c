/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual token counter: vLLM's scheduling, fair by tenant. Each tenant has a counter of
 * the service it received, divided by the tenant's weight. The next request is the oldest
 * one of the waiting tenant with the least counter. When a tenant without requests sends
 * one again, its counter is raised to the least counter of the waiting tenants, so that
 * no tenant saves up service. A tenant that always has requests waiting falls behind
 * another one by at most a constant. A tenant of weight 3 gets three times as much as one
 * of weight 1.
 */
#include <llmserve/policy/check.h>
#include <llmserve/policy/heap.h>
#include <llmserve/policy/lists.h>
#include <llmserve/policy/prefill_first.h>
#include <llmserve/policy/weights.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct params {
  /* first member, since the shared parameter table has offsets from here */
  struct lls_pol_prefill_first_params batch;
  double w_in, w_out;
  int64_t max_tenants;
  const char *weights;
};

struct tenant {
  int64_t counter; /* thousandths of weighted tokens */
  uint64_t place;  /* place in the heap of tenants that wait, see heap.h */
};

struct vtc {
  struct lls_pol_scheduler base;
  struct params params;
  struct lls_pol_lists waiting; /* waiting requests, one list for each tenant */
  struct tenant *tenants;       /* (max_tenants) */
  struct lls_pol_heap active;   /* tenants with a waiting request, by counter */
  uint32_t last_left;           /* the tenant whose queue became empty last */
};

/* User words of a request: CHARGED when its prompt was paid; the weight that it came
 * with, a double, which is looked up once. */
enum { PAID = 1, WEIGHT = 2 };
enum { CHARGED = 1 };

static uint32_t tenant_of(void *scheduler, const struct lls_request *r)
{
  const struct vtc *v = scheduler;
  return r->tenant % (uint32_t)v->params.max_tenants;
}

static void push_tenant(struct vtc *v, uint32_t tenant)
{
  struct tenant *t = &v->tenants[tenant];
  lls_pol_heap_push(&v->active,
                    (struct lls_pol_heap_entry){t->counter, tenant, t, &t->place});
}

static void on_emptied(void *scheduler, uint32_t tenant, bool empty)
{
  struct vtc *v = scheduler;
  if (!empty) {
    LLS_POL_CHECK(v->tenants[tenant].place == 0);
    push_tenant(v, tenant);
    return;
  }
  LLS_POL_CHECK(v->tenants[tenant].place != 0);
  lls_pol_heap_remove(&v->active, (uint32_t)v->tenants[tenant].place - 1);
  v->last_left = tenant;
}

static double weight_of(const struct vtc *v, const struct lls_request *r)
{
  double weight;
  memcpy(&weight, &r->user[WEIGHT], sizeof weight);
  if (weight > 0)
    return weight;
  weight = lls_pol_weight(v->params.weights, r->tenant_name);
  memcpy(&r->user[WEIGHT], &weight, sizeof weight);
  return weight;
}

/* c_i <- c_i + price * tokens / weight of i */
static void charge(struct vtc *v, const struct lls_request *r, double price,
                   uint32_t tokens)
{
  uint32_t tenant = tenant_of(v, r);
  struct tenant *t = &v->tenants[tenant];
  t->counter += (int64_t)(1000 * price * tokens / weight_of(v, r));
  if (t->place != 0) {
    lls_pol_heap_remove(&v->active, (uint32_t)t->place - 1);
    push_tenant(v, tenant);
  }
}

/* Raises the counter of a tenant that has begun to wait (Algorithm 2, the monitoring
 * stream): c_u <- max(c_u, least counter of the waiting tenants), or, if none waits,
 * max(c_u, counter of the tenant that left last). */
static void lift(struct vtc *v, uint32_t tenant)
{
  struct tenant *t = &v->tenants[tenant];
  int64_t least =
      v->active.n > 0 ? v->active.entries[0].key : v->tenants[v->last_left].counter;
  if (t->counter < least)
    t->counter = least;
}

static void on_arrival(void *self, const struct lls_request *r)
{
  struct vtc *v = self;
  uint32_t tenant = tenant_of(v, r);
  if (lls_pol_lists_length(&v->waiting, tenant) == 0)
    lift(v, tenant);
  lls_pol_backlog_add(&v->waiting.backlog, r);
}

/* c_i <- c_i + w_out * the tokens that requests of i emitted in the step */
static void on_step(void *self, const struct lls_step_report *report)
{
  struct vtc *v = self;
  for (uint32_t i = 0; i < report->n_results; i++)
    if (report->results[i].emitted > 0)
      charge(v, report->results[i].request, v->params.w_out, report->results[i].emitted);
}

/* ---- the plan ------------------------------------------------------------------- */

struct walk {
  struct vtc *vtc;
  const struct lls_request *asked; /* given out, not let in (yet) */
};

/* k <- argmin of the waiting tenants' counters; returns the earliest request of k. */
static const struct lls_request *next(void *context)
{
  struct walk *w = context;
  struct vtc *v = w->vtc;
  w->asked = NULL;
  while (w->asked == NULL && v->active.n > 0)
    w->asked = lls_pol_lists_pop(&v->waiting, (uint32_t)v->active.entries[0].tie);
  return w->asked;
}

/* c_k <- c_k + w_in * input length; only once, however often the request is
 * preempted. */
static void let_in(void *context, const struct lls_request *r)
{
  struct walk *w = context;
  w->asked = NULL;
  if (r->user[PAID] == CHARGED)
    return;
  r->user[PAID] = CHARGED;
  charge(w->vtc, r, w->vtc->params.w_in, r->prompt_tokens);
}

static int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  struct vtc *v = self;
  struct walk walk = {.vtc = v};
  const struct lls_pol_admission admission = {
      .context = &walk, .next = next, .let_in = let_in};
  lls_pol_backlog_begin(&v->waiting.backlog, view);
  lls_pol_prefill_first_plan(v->base.host, &v->params.batch, &admission, view, out);
  if (walk.asked != NULL) /* the request still waits, and so does its tenant */
    lls_pol_backlog_add(&v->waiting.backlog, walk.asked);
  lls_pol_backlog_end(&v->waiting.backlog, out);
  return 0;
}

static void caps(void *self, struct lls_scheduler_caps *out)
{
  lls_pol_step_preferences(out, ((const struct vtc *)self)->params.batch.preempt);
}

/* Writes the number of waiting tenants, and the least and the most service that any
 * had. */
static void stats(void *self, const struct lls_sink *sink)
{
  const struct lls_pol_heap *active = &((const struct vtc *)self)->active;
  int64_t least = active->n > 0 ? active->entries[0].key : 0, most = least;
  for (uint32_t i = 0; i < active->n; i++)
    most = active->entries[i].key > most ? active->entries[i].key : most;
  sink->number(sink->context, "tenants_waiting", active->n);
  sink->number(sink->context, "least_served", (double)least / 1000);
  sink->number(sink->context, "most_served", (double)most / 1000);
}

static void dump(void *self, const struct lls_sink *sink)
{
  const struct vtc *v = self;
  lls_pol_scheduler_dump(self, sink);
  for (uint32_t i = 0; i < v->waiting.n_groups; i++) {
    char line[80];
    if (v->tenants[i].counter == 0 && lls_pol_lists_length(&v->waiting, i) == 0)
      continue;
    snprintf(line, sizeof line, "tenant %" PRIu32 " counter %.3f waiting %" PRIu32, i,
             (double)v->tenants[i].counter / 1000, lls_pol_lists_length(&v->waiting, i));
    sink->text(sink->context, line);
  }
  lls_pol_lists_dump(&v->waiting, sink);
}

/* ---- state ---------------------------------------------------------------------- */

/* The service that tenants received survives a reload, so that none starts with a full
 * share. Waiting requests are in the next view, and the paid prompts in the requests'
 * user words. */
#define STATE_COUNTERS 1

struct counters {
  uint32_t n, last_left;
  int64_t of[]; /* (n) by tenant */
};

static int export_state(void *self, struct lls_blob *out)
{
  const struct vtc *v = self;
  uint32_t n = (uint32_t)v->params.max_tenants;
  size_t bytes = sizeof(struct counters) + n * sizeof(int64_t);
  struct counters *c = malloc(bytes);
  if (c == NULL)
    return -ENOMEM;
  c->n = n;
  c->last_left = v->last_left;
  for (uint32_t i = 0; i < n; i++)
    c->of[i] = v->tenants[i].counter;
  *out = (struct lls_blob){.version = STATE_COUNTERS, .bytes = bytes, .data = c};
  return 0;
}

/* Imports a state with as many tenants; with another max_tenants requests would share
 * other counters. */
static int import_state(void *self, const struct lls_blob *in)
{
  struct vtc *v = self;
  struct counters head;
  if (in->version != STATE_COUNTERS || in->bytes < sizeof head)
    return -ENOTSUP;
  memcpy(&head, in->data, sizeof head);
  if (head.n != v->params.max_tenants || head.last_left >= head.n ||
      in->bytes != sizeof head + head.n * sizeof(int64_t))
    return -ENOTSUP;
  v->last_left = head.last_left;
  for (uint32_t i = 0; i < head.n; i++)
    memcpy(&v->tenants[i].counter,
           (const char *)in->data + sizeof head + i * sizeof(int64_t), sizeof(int64_t));
  return 0;
}

/* ---- life ----------------------------------------------------------------------- */

static const struct lls_param parameters[] = {
    LLS_POL_PREFILL_FIRST_PARAMETERS(struct lls_pol_prefill_first_params),
    LLS_PARAM_FLOAT(struct params, w_in, "1", 0, 1000, "",
                    "what a token of a prompt costs its tenant",
                    .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_FLOAT(struct params, w_out, "2", 0, 1000, "",
                    "what a token of an answer costs its tenant",
                    .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_INT(struct params, max_tenants, "4096", 1, 1e6, "tenants",
                  "counters; more tenants than that share them"),
    LLS_PARAM_STRING(struct params, weights, "",
                     "shares of tenants by name, as in alice:3, bob:0.5; of others 1",
                     .flags = LLS_PARAM_RELOADABLE),
};

static void destroy(void *self)
{
  struct vtc *v = self;
  lls_pol_lists_free(&v->waiting);
  lls_pol_heap_free(&v->active);
  free(v->tenants);
  free(v);
}

static int reconfigure(void *self, const void *params)
{
  const struct lls_host *host = ((const struct vtc *)self)->base.host;
  int rc =
      lls_pol_weights_check(host, "weights", ((const struct params *)params)->weights);
  return rc < 0 ? rc : lls_pol_scheduler_reconfigure(self, params);
}

static int create(const struct lls_host *host, const void *params, void **self)
{
  if (lls_pol_weights_check(host, "weights", ((const struct params *)params)->weights) <
      0)
    return -EINVAL;
  struct vtc *v = LLS_POL_SCHEDULER_NEW(struct vtc, host, parameters, params);
  if (v == NULL)
    return -ENOMEM;
  uint32_t n = (uint32_t)v->params.max_tenants;
  v->tenants = calloc(n, sizeof *v->tenants);
  int rc = v->tenants == NULL ? -ENOMEM : lls_pol_heap_init(&v->active, n);
  if (rc == 0)
    rc = lls_pol_lists_init(&v->waiting, &v->base, n, tenant_of);
  v->waiting.emptied = on_emptied;
  if (rc < 0)
    destroy(v);
  else
    *self = v;
  return rc;
}

static const struct lls_scheduler_vtable vtable = {
    .api_version = LLS_API_VERSION,
    .size = sizeof vtable,
    .create = create,
    .destroy = destroy,
    .caps = caps,
    .plan = plan,
    .on_arrival = on_arrival,
    .on_step = on_step,
    .on_finish = lls_pol_backlog_on_finish,
    .stats = stats,
    .dump = dump,
    .reconfigure = reconfigure,
    .export_state = export_state,
    .import_state = import_state,
};

LLS_POL_SCHEDULER_PLUGIN("vtc", struct params, "virtual token counter: fair by tenant");
