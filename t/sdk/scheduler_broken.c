/* SPDX-License-Identifier: Apache-2.0 */
/* Breaks the contract in the way chosen by its parameter, for llmserve-plugin-check to
 * detect. */
#include <llmserve/scheduler.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

enum {
  NOTHING,
  SILENT,
  LEAK,
  STATIC,
  CRASH,
  HANG,
  WRITES,
  TAGS,
  SLOW,
  LIES,
  FORGETS,
  EXIT,
  NAMES,
  MOVING,  /* runs requests that are moving */
  STRANDS, /* requests that it sends to the host stay there */
  NOWHERE, /* hands a request over to an instance that does not exist */
  IGNORES, /* hands requests over, and accepts none */
  TABLE,   /* assumes a fixed number of tenants */
};

struct params {
  int64_t mode, limit;
};

struct broken {
  const struct lls_host *host;
  struct params params;
  uint64_t plans;
  uint64_t by_tenant[4];
};

static unsigned plans_of_all; /* mutable static data, which no plugin may have */

static void *volatile lost;
static volatile uint64_t burnt;

static void misbehave(struct broken *b, const struct lls_step_view *view)
{
  switch (b->params.mode) {
  case CRASH:
    if (b->plans == 10)
      raise(SIGSEGV);
    break;
  case HANG:
    while (b->plans == 10)
      burnt++;
    break;
  case EXIT:
    if (b->plans == 10)
      exit(0);
    break;
  case WRITES:
    if (view->n_waiting > 0)
      ((struct lls_request *)(uintptr_t)view->waiting[0])->priority++;
    break;
  case TABLE:
    for (uint32_t i = 0; i < view->n_waiting; i++)
      b->by_tenant[view->waiting[i]->tenant]++;
    break;
  case SLOW:
    for (uint32_t i = 0; i < 400 * view->n_waiting; i++)
      burnt++;
  }
}

/* Picks one request at a time, as t/plugin/scheduler_null.c does. */
static const struct lls_request *pick(const struct broken *b,
                                      const struct lls_step_view *view)
{
  if (b->params.mode == MOVING && view->n_moving > 0)
    return view->moving[0];
  if (view->n_running > 0)
    return view->running[0];
  if (view->n_preempted > 0 && b->params.mode != STRANDS)
    return view->preempted[0];
  return view->n_waiting > 0 ? view->waiting[0] : NULL;
}

/* Returns true if the request moves in this step instead of running. */
static bool moves(const struct broken *b, const struct lls_step_view *view,
                  const struct lls_request *r, struct lls_plan *out)
{
  int64_t mode = b->params.mode;
  uint32_t n = b->host->topology->n_instances;
  if (r == NULL || b->plans % 5 != 0 || view->n_running == 0 || view->n_moving > 0)
    return false;
  if ((mode == MOVING || mode == STRANDS) && b->host->engine->async_transfers)
    lls_plan_add(out, LLS_PLAN_OFFLOAD, r);
  else if ((mode == NOWHERE || mode == IGNORES) && n > 1)
    lls_plan_migrate(out, r, mode == NOWHERE ? 99 : (view->instance + 1) % n);
  return out->n_items > 0;
}

static int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  struct broken *b = self;
  const struct lls_request *r = pick(b, view);
  b->plans++;
  plans_of_all++;
  misbehave(b, view);
  if (moves(b, view, r, out))
    return 0;
  if (r == NULL || (b->params.mode == STATIC && plans_of_all % 3 == 0))
    return 0;
  if (b->params.mode == FORGETS && r->id % 5 == 4)
    return 0;
  uint32_t pending = lls_request_pending(r) + (b->params.mode == LIES);
  lls_plan_run(out, r, pending < view->max_tokens ? pending : view->max_tokens);
  return 0;
}

static void caps(void *self, struct lls_scheduler_caps *out)
{
  (void)self;
  (void)out;
}

static int create(const struct lls_host *host, const void *params, void **self)
{
  struct broken *b = calloc(1, sizeof *b);
  if (b == NULL)
    return -ENOMEM;
  *b = (struct broken){.host = host, .params = *(const struct params *)params};
  if (b->params.mode == SILENT && b->params.limit == 100) { /* without an error message */
    free(b);
    return -EINVAL;
  }
  if (b->params.mode == LEAK)
    lost = malloc(100);
  if (b->params.mode == TAGS)
    host->random(host->context, 0);
  *self = b;
  return 0;
}

static const struct lls_param parameters[] = {
    LLS_PARAM_CHOICE(
        struct params, mode, "nothing",
        "nothing|silent|leak|static|crash|hang|writes|tags|slow|lies|forgets|exit|names|"
        "moving|strands|nowhere|ignores|table",
        "what it does wrong"),
    LLS_PARAM_INT(struct params, limit, "1", 1, 100, "", "100 is not taken if silent"),
};

static void stats(void *self, const struct lls_sink *sink)
{
  const struct broken *b = self;
  sink->number(sink->context, b->params.mode == NAMES ? "Plans so far" : "plans",
               (double)b->plans);
}

static const struct lls_scheduler_vtable vtable = {
    .api_version = LLS_API_VERSION,
    .size = sizeof vtable,
    .create = create,
    .destroy = free,
    .caps = caps,
    .plan = plan,
    .stats = stats,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    .api_version = LLS_API_VERSION,
    .size = sizeof llmserve_plugin,
    .kind = LLS_KIND_SCHEDULER,
    .id = "broken",
    .version = "1.0",
    .description = "test fixture: breaks the contract as it is told",
    .licence = "Apache-2.0",
    LLS_PLUGIN_PARAMS(parameters, struct params),
    .vtable = &vtable,
};
