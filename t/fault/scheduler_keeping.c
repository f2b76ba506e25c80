/* SPDX-License-Identifier: Apache-2.0 */
/* Runs requests in order of arrival. Of sessions without a request, one whose name begins
 * with k is kept on disk for an hour, with g for no longer, and one whose name begins
 * with f is brought from disk to the device whenever it is not there, for 10 tries. */
#include "t/fault/fixture.h"

#define TRIES 10

struct keeping {
  uint64_t kept[64]; /* by session: the end of the answer that was kept */
  uint32_t tries[64];
};

static int create(const struct lls_host *host, const void *params, void **self)
{
  static struct keeping k;
  (void)params, (void)host;
  k = (struct keeping){.kept = {0}};
  *self = &k;
  return 0;
}

static void look(struct keeping *k, const struct lls_step_view *v,
                 const struct lls_session *s, struct lls_plan *out)
{
  uint64_t *kept = &k->kept[s->id % 64];
  uint32_t *tries = &k->tries[s->id % 64];
  bool fresh = *kept != (uint64_t)s->ended_ns;
  if (fresh)
    *tries = 0;
  if ((s->name[0] == 'k' || s->name[0] == 'g' || s->name[0] == 'a') && fresh &&
      s->on_disk >= s->tokens) {
    bool lasts = s->name[0] != 'g';
    lls_plan_retain(out, s, LLS_TIER_DISK,
                    v->now_ns + (lasts ? INT64_C(3600000000000) : 1));
    *kept = (uint64_t)s->ended_ns;
  }
  if ((s->name[0] == 'f' || s->name[0] == 'a') && s->on_device == 0 && s->on_disk > 0 &&
      ++*tries <= TRIES) {
    lls_plan_fetch(out, s, LLS_TIER_DEVICE);
    *kept = (uint64_t)s->ended_ns;
  }
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
  for (uint32_t i = 0; i < v->n_running; i++)
    run(v, v->running[i], &tokens, out);
  for (uint32_t i = 0; i < v->n_waiting; i++)
    run(v, v->waiting[i], &tokens, out);
  for (uint32_t i = 0; i < v->n_sessions; i++)
    look(self, v, v->sessions[i], out);
  out->idle_until_ns = v->now_ns + 10000000;
  return 0;
}

static const struct lls_scheduler_vtable vtable = {
    FIXTURE_SCHEDULER_HEAD, .create = create, .destroy = fixture_destroy,
    .caps = fixture_caps,   .plan = plan,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    FIXTURE_HEAD(LLS_KIND_SCHEDULER),
    FIXTURE_TEXTS("keeping"),
    .vtable = &vtable,
};
