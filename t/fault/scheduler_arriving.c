/* SPDX-License-Identifier: Apache-2.0 */
/* Runs requests in order of arrival, and logs what it sees of requests that wait for
 * their beginning from disk. */
#include "t/fault/fixture.h"

struct arriving {
  const struct lls_host *host;
  uint32_t most; /* seen in a plan */
};

static int create(const struct lls_host *host, const void *params, void **self)
{
  static struct arriving a;
  (void)params;
  a = (struct arriving){.host = host};
  *self = &a;
  return 0;
}

static void look(struct arriving *a, const struct lls_step_view *v)
{
  const struct lls_cache_service *c = v->cache;
  if (v->n_arriving <= a->most)
    return;
  a->most = v->n_arriving;
  const struct lls_request *last = v->arriving[a->most - 1];
  a->host->log(a->host->context, LLS_LOG_WARNING,
               "arriving: %u, the last of %u tokens, reserve %d", a->most,
               last->prompt_tokens, c->reserve(c->context, last, 1, LLS_FORM_NONE, 0));
}

static void on_arrival(void *self, const struct lls_request *r)
{
  struct arriving *a = self;
  if (a->most > 0)
    a->host->log(a->host->context, LLS_LOG_WARNING, "arrived: %u tokens",
                 r->prompt_tokens);
}

static void run(const struct lls_step_view *v, const struct lls_request *r,
                uint32_t *tokens, struct lls_plan *out)
{
  const struct lls_cache_service *c = v->cache;
  uint32_t pending = lls_request_pending(r);
  if (r->cached_tokens == 0)
    pending -= c->prefix(c->context, r);
  uint32_t n = pending < *tokens ? pending : *tokens;
  if (n == 0 || c->reserve(c->context, r, n, LLS_FORM_NONE, 0) != LLS_RESERVE_OK)
    return;
  lls_plan_run(out, r, n);
  *tokens -= n;
}

static int plan(void *self, const struct lls_step_view *v, struct lls_plan *out)
{
  uint32_t tokens = v->max_tokens;
  look(self, v);
  for (uint32_t i = 0; i < v->n_running; i++)
    run(v, v->running[i], &tokens, out);
  for (uint32_t i = 0; i < v->n_waiting; i++)
    run(v, v->waiting[i], &tokens, out);
  return 0;
}

static const struct lls_scheduler_vtable vtable = {
    FIXTURE_SCHEDULER_HEAD, .create = create, .destroy = fixture_destroy,
    .caps = fixture_caps,   .plan = plan,     .on_arrival = on_arrival,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    FIXTURE_HEAD(LLS_KIND_SCHEDULER),
    FIXTURE_TEXTS("arriving"),
    .vtable = &vtable,
};
