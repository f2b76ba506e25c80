/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A loop whose scheduler and cache manager record what they are shown of sessions, and do
 * with sessions what a test wants; the real policies below do all else.
 */
#ifndef LLS_T_WATCHED_SESSIONS_H
#define LLS_T_WATCHED_SESSIONS_H

#include <errno.h>
#include <string.h>

#include "t/clients.h"

#define S LLS_NS_PER_S

/* Records what the policies were shown. */
static struct {
  struct lls_plugin_module scheduler, cache;
  const struct lls_scheduler_vtable *below;
  const struct lls_cache_vtable *cache_below;
  uint32_t requests, ended, released;
  uint64_t last_released; /* id of a session */
  uint32_t n_sessions;
  struct lls_session first;
  struct lls_key first_key;
  /* items that the scheduler plans for the first session */
  uint32_t plans_kind, plans_tier;
  int64_t plans_until_ns;
  uint32_t plans;
  int64_t plans_again_ns; /* after a plan without requests */
  /* the manager's last lease, and what it answers instead of the manager below; 0: not */
  uint32_t retains, fetches;
  struct lls_retained lease;
  int answers;
  bool no_pair; /* the manager has neither */
  /* instead of the manager below: it has room for two leases, of these sessions */
  bool has_two;
  uint64_t leased[2];
} seen;

static inline void see_arrival(void *self, const struct lls_request *r)
{
  seen.requests += r->session != NULL && r->session->alive > 0;
  if (seen.below->on_arrival != NULL)
    seen.below->on_arrival(self, r);
}

static inline int see_plan(void *self, const struct lls_step_view *view,
                           struct lls_plan *plan)
{
  seen.n_sessions = view->n_sessions;
  if (view->n_sessions > 0) {
    seen.first = *view->sessions[0];
    if (seen.first.n_keys > 0)
      seen.first_key = seen.first.keys[0];
  }
  for (uint32_t i = 0; i < view->n_sessions; i++)
    assert_int_equal(view->sessions[i]->alive, 0);
  int rc = seen.below->plan(self, view, plan);
  seen.plans++;
  if (seen.plans_again_ns > 0 && plan->n_items == 0)
    plan->idle_until_ns = view->now_ns + seen.plans_again_ns;
  if (view->n_sessions > 0 && seen.plans_kind == LLS_PLAN_RETAIN)
    lls_plan_retain(plan, view->sessions[0], seen.plans_tier, seen.plans_until_ns);
  if (view->n_sessions > 0 && seen.plans_kind == LLS_PLAN_FETCH)
    lls_plan_fetch(plan, view->sessions[0], seen.plans_tier);
  return rc;
}

/* Keeps or drops the session. Returns -ENOSPC if two others are kept. */
static inline int keep_one_of_two(const struct lls_retained *r)
{
  uint64_t *place = NULL;
  for (uint32_t i = 0; i < 2; i++)
    if (seen.leased[i] == r->session || (seen.leased[i] == 0 && place == NULL))
      place = &seen.leased[i];
  if (place == NULL)
    return r->until_ns > 0 ? -ENOSPC : 0;
  if (r->until_ns > 0)
    *place = r->session;
  else if (*place == r->session)
    *place = 0;
  return r->until_ns > 0 ? (int)(8 * r->n_keys) : 0;
}

static inline int see_retain(void *self, const struct lls_retained *r)
{
  if (r->until_ns == 0 && r->n_keys > 0) /* a count of what is there */
    return seen.cache_below->retain(self, r);
  seen.retains++;
  seen.lease = *r;
  if (seen.has_two)
    return keep_one_of_two(r);
  return seen.answers != 0 ? seen.answers : seen.cache_below->retain(self, r);
}

static inline int see_fetch(void *self, const struct lls_retained *r)
{
  seen.fetches++;
  return seen.answers != 0 ? seen.answers : seen.cache_below->fetch(self, r);
}

static inline void see_end(void *self, const struct lls_session *s)
{
  (void)self;
  assert_int_equal(s->size, sizeof *s);
  seen.ended++;
}

static inline void see_release(void *self, const struct lls_request *r,
                               const struct lls_release *how)
{
  assert_ptr_equal(how->session, r->session);
  seen.released++;
  seen.last_released = how->session != NULL ? how->session->id : 0;
  seen.cache_below->release(self, r, how);
}

static inline void stand_between(void *context, struct lls_loop_policies *p)
{
  (void)context;
  seen.below = &p->scheduler.module->scheduler;
  seen.scheduler = *p->scheduler.module;
  seen.scheduler.scheduler.plan = see_plan;
  seen.scheduler.scheduler.on_arrival = see_arrival;
  seen.scheduler.scheduler.on_session_end = see_end;
  p->scheduler.module = &seen.scheduler;
  seen.cache_below = &p->cache.module->cache;
  seen.cache = *p->cache.module;
  seen.cache.cache.release = see_release;
  if (!seen.no_pair) {
    seen.cache.cache.retain = see_retain;
    seen.cache.cache.fetch = see_fetch;
  } else {
    seen.cache.cache.retain = seen.cache.cache.fetch = NULL;
  }
  p->cache.module = &seen.cache;
}

static inline void open_watched(struct harness *h, uint32_t instances)
{
  struct harness_options o = client_options("fcfs");
  bool no_pair = seen.no_pair;
  memset(&seen, 0, sizeof seen);
  seen.no_pair = no_pair;
  o.leases = (struct lls_lease_limits){.tool_ns = 60 * S};
  o.instances = instances;
  o.cache = (struct harness_policy){"paged", NULL};
  o.replace = stand_between;
  open_or_fail(h, &o);
}

static inline void on_turn_event(void *context, const struct lls_event *event)
{
  struct harness *h = context;
  if (event->kind == LLS_EVENT_FINISHED)
    lls_loop_session_calls(h->loop, event, "search");
  on_event(NULL, event);
}

/* Runs a turn of 20 tokens that begins at `first`. */
static inline void run_turn_of(struct harness *h, const char *tenant, uint32_t number,
                               const char *session, int32_t first)
{
  struct client c = {0};
  int32_t tokens[20];
  for (int32_t i = 0; i < 20; i++)
    tokens[i] = first + i;
  struct lls_submission s = harness_submission(tokens, 20, 6, &c);
  s.session.name = session;
  s.tenant_name = tenant;
  s.tenant = number;
  assert_int_equal(lls_loop_submit(h->loop, &s, &c.id, NULL), 0);
  for (int i = 0; i < 1000 && !lls_loop_idle(h->loop); i++) {
    assert_true(lls_loop_step(h->loop) >= 0);
    lls_loop_events(h->loop, on_turn_event, h);
  }
  assert_int_equal(c.finished, 1);
}

static inline void run_turn(struct harness *h, const char *session, int32_t first)
{
  run_turn_of(h, "", 0, session, first);
}

#endif
