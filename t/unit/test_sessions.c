/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions: which requests are of one, how long a tool keeps it away, that none is
 * forgotten before its time, and what a scheduler and a cache manager see of it.
 */
#include "t/tap.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/instance/inbox.h"
#include "core/instance/request.h"
#include "core/loop/sessions.h"
#include "t/clients.h"

#define S LLS_NS_PER_S

/* ---- times of tools --------------------------------------------------------------- */

static void test_the_median_of_a_tool(void **state)
{
  (void)state;
  struct lls_tool_times t = {0};
  assert_int_equal(lls_tool_times_median(&t, "a", 1), LLS_NEVER);
  lls_tool_times_learn(&t, "a", 1, 9 * S);
  lls_tool_times_learn(&t, "a", 1, 1 * S);
  lls_tool_times_learn(&t, "a", 1, 2 * S);
  lls_tool_times_learn(&t, "b", 1, 50 * S);
  assert_int_equal(lls_tool_times_median(&t, "a", 1), 2 * S);
  assert_int_equal(lls_tool_times_median(&t, "b", 1), 50 * S);
  for (int i = 0; i < LLS_TOOL_TIMES; i++) /* only the last ones count */
    lls_tool_times_learn(&t, "a", 1, 30 * S);
  assert_int_equal(lls_tool_times_median(&t, "a", 1), 30 * S);
  lls_tool_times_free(&t);
}

static void test_tools_are_bounded(void **state)
{
  (void)state;
  struct lls_tool_times t = {0};
  char name[16];
  lls_tool_times_learn(&t, "old", 3, S);
  lls_tool_times_learn(&t, "used", 4, S);
  for (int i = 0; i < LLS_TOOLS; i++) {
    lls_tool_times_learn(&t, name, (size_t)snprintf(name, sizeof name, "tool-%d", i), S);
    lls_tool_times_learn(&t, "used", 4, S);
  }
  assert_int_equal(t.n, LLS_TOOLS);
  assert_int_equal(lls_tool_times_median(&t, "old", 3), LLS_NEVER);
  assert_int_equal(lls_tool_times_median(&t, "used", 4), S);
  lls_tool_times_free(&t);
}

/* A tenant with many tools drives out its own. */
static void test_tools_are_the_tenants(void **state)
{
  (void)state;
  struct lls_tool_times t = {0};
  char name[32];
  lls_tool_times_learn(&t, "ann\0find", 8, 3 * S);
  for (int i = 0; i < 2 * LLS_TOOLS; i++) {
    int bytes = snprintf(name, sizeof name, "bob_tool-%d", i);
    name[3] = '\0';
    lls_tool_times_learn(&t, name, (size_t)bytes, S);
  }
  assert_int_equal(t.n, LLS_TOOLS);
  assert_int_equal(lls_tool_times_median(&t, "ann\0find", 8), 3 * S);
  assert_int_equal(lls_tool_times_median(&t, "bob\0tool-0", 10), LLS_NEVER);
  assert_int_equal(lls_tool_times_median(&t, name, 12), S);
  assert_int_equal(lls_tool_times_median(&t, "ann\0tool-511", 12), LLS_NEVER);
  lls_tool_times_free(&t);
  assert_null(t.tenants);
}

/* ---- the table -------------------------------------------------------------------- */

struct table {
  struct lls_inbox inbox;
  struct lls_sessions all;
};

static void begin(struct table *t, uint32_t max_idle)
{
  assert_int_equal(lls_inbox_init(&t->inbox, 4), 0);
  struct lls_inbox *inbox = &t->inbox;
  assert_int_equal(lls_sessions_init(&t->all, &inbox, NULL, 1, max_idle), 0);
}

static void end(struct table *t)
{
  lls_inbox_free(&t->inbox);
  lls_sessions_free(&t->all);
}

/* A turn from begin_s to end_s, which calls a tool unless `tool` is NULL. Returns the id
 * of its session, 0 without one. */
static uint64_t turn(struct table *t, const char *tenant,
                     const struct lls_session_use *use, const char *tool, int64_t begin_s,
                     int64_t end_s)
{
  struct lls_live live = {.view = {.tenant_name = tenant, .arrival_ns = begin_s * S}};
  lls_sessions_enter(&t->all, use, &live);
  if (live.sessions == NULL)
    return 0;
  live.session = &live.sessions[0];
  t->all.leaving = (struct lls_session_leaving){.ended_by = LLS_SESSION_STOPPED};
  if (tool != NULL)
    lls_sessions_call(&t->all, &live, tool);
  lls_sessions_leave(&t->all, &live, end_s * S);
  return live.session->view.id;
}

static uint64_t named(struct table *t, const char *tenant, const char *name)
{
  static int64_t now_s;
  now_s++;
  return turn(t, tenant, &(struct lls_session_use){.name = name}, NULL, now_s, now_s);
}

static void test_names_are_the_tenants(void **state)
{
  (void)state;
  struct table t;
  begin(&t, 10);
  uint64_t first = named(&t, "ann", "chat");
  assert_int_not_equal(first, 0);
  assert_int_equal(named(&t, "ann", "chat"), first);
  assert_int_not_equal(named(&t, "bob", "chat"), first);
  assert_int_not_equal(named(&t, "ann", "other"), first);
  assert_int_not_equal(named(&t, "", "ann"), first);
  assert_int_equal(turn(&t, "ann", &(struct lls_session_use){0}, NULL, 0, 0), 0);
  assert_int_equal(t.all.n, 4);
  end(&t);
}

/* A request continues the session of the answer that it names, if its tenant is the
 * same. */
static void test_an_answer_is_continued(void **state)
{
  (void)state;
  struct table t;
  begin(&t, 10);
  const struct lls_session_use first = {.becomes = "resp_1"};
  const struct lls_session_use second = {.continues = "resp_1", .becomes = "resp_2"};
  const struct lls_session_use third = {.continues = "resp_2", .becomes = "resp_3"};
  uint64_t id = turn(&t, "ann", &first, NULL, 1, 2);
  assert_int_equal(turn(&t, "ann", &second, NULL, 3, 4), id);
  assert_int_not_equal(turn(&t, "bob", &third, NULL, 5, 6), id);
  assert_int_equal(turn(&t, "ann", &third, NULL, 5, 6), id);
  /* an older answer begins another session */
  assert_int_not_equal(turn(&t, "ann", &second, NULL, 7, 8), id);
  end(&t);
}

struct found {
  uint64_t id;
  struct lls_session_row row;
};

static void look(void *context, const struct lls_session_row *row)
{
  struct found *f = context;
  if (row->id == f->id)
    f->row = *row;
}

static struct lls_session_row row_of(const struct table *t, uint64_t id)
{
  struct found f = {.id = id};
  lls_sessions_list(&t->all, look, &f);
  return f.row;
}

static int64_t returns_of(const struct table *t, uint64_t id)
{
  int64_t ns = row_of(t, id).returns_ns;
  return ns == LLS_NEVER ? ns : ns / S;
}

/* The time of a tool is learnt from all sessions of a tenant; a hint of the client's
 * counts more. */
static void test_when_a_session_returns(void **state)
{
  (void)state;
  struct table t;
  begin(&t, 10);
  const struct lls_session_use a = {.name = "a"}, b = {.name = "b"};
  const struct lls_session_use hinted = {.name = "b", .away_ns = 7 * S};
  const struct lls_session_use kept = {.name = "b", .keep_ns = 300 * S};
  uint64_t of_a = turn(&t, "ann", &a, "ls", 0, 10);
  assert_int_equal(returns_of(&t, of_a), LLS_NEVER);
  assert_int_equal(row_of(&t, of_a).ended_by, LLS_SESSION_TOOL_CALL);
  turn(&t, "ann", &a, "ls", 14, 20); /* it took 4 s */
  uint64_t of_b = turn(&t, "ann", &b, "ls", 30, 40);
  assert_int_equal(returns_of(&t, of_b), 44);
  turn(&t, "ann", &hinted, "ls", 44, 50);
  assert_int_equal(returns_of(&t, of_b), 57);
  turn(&t, "ann", &kept, "unknown", 60, 70);
  assert_int_equal(returns_of(&t, of_b), 370);
  turn(&t, "ann", &b, NULL, 80, 90);
  assert_int_equal(row_of(&t, of_b).ended_by, LLS_SESSION_STOPPED);
  assert_int_equal(returns_of(&t, of_b), LLS_NEVER);
  uint64_t other = turn(&t, "bob", &a, "ls", 100, 110);
  assert_int_equal(returns_of(&t, other), LLS_NEVER);
  end(&t);
}

/* The oldest session makes room: of the tenant that has most. */
static void test_the_table_is_bounded(void **state)
{
  (void)state;
  struct table t;
  char name[16];
  begin(&t, 8);
  uint64_t anns = named(&t, "ann", "first"), bobs = 0;
  for (int i = 0; i < 50; i++) {
    snprintf(name, sizeof name, "%d", i);
    uint64_t id = named(&t, "bob", name);
    bobs = i == 0 ? id : bobs;
  }
  assert_int_equal(t.all.n_idle, 8);
  assert_int_equal(t.all.n, 8);
  assert_int_equal(named(&t, "ann", "first"), anns);
  assert_int_not_equal(named(&t, "bob", "0"), bobs);
  assert_int_equal(named(&t, "ann", "first"), anns);
  end(&t);
}

/* ---- in a loop -------------------------------------------------------------------- */

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

static void see_arrival(void *self, const struct lls_request *r)
{
  seen.requests += r->session != NULL && r->session->alive > 0;
  if (seen.below->on_arrival != NULL)
    seen.below->on_arrival(self, r);
}

static int see_plan(void *self, const struct lls_step_view *view, struct lls_plan *plan)
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
static int keep_one_of_two(const struct lls_retained *r)
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

static int see_retain(void *self, const struct lls_retained *r)
{
  if (r->until_ns == 0 && r->n_keys > 0) /* a count of what is there */
    return seen.cache_below->retain(self, r);
  seen.retains++;
  seen.lease = *r;
  if (seen.has_two)
    return keep_one_of_two(r);
  return seen.answers != 0 ? seen.answers : seen.cache_below->retain(self, r);
}

static int see_fetch(void *self, const struct lls_retained *r)
{
  seen.fetches++;
  return seen.answers != 0 ? seen.answers : seen.cache_below->fetch(self, r);
}

static void see_end(void *self, const struct lls_session *s)
{
  (void)self;
  assert_int_equal(s->size, sizeof *s);
  seen.ended++;
}

static void see_release(void *self, const struct lls_request *r,
                        const struct lls_release *how)
{
  assert_ptr_equal(how->session, r->session);
  seen.released++;
  seen.last_released = how->session != NULL ? how->session->id : 0;
  seen.cache_below->release(self, r, how);
}

static void stand_between(void *context, struct lls_loop_policies *p)
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

static void open_watched(struct harness *h, uint32_t instances)
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

static void on_turn_event(void *context, const struct lls_event *event)
{
  struct harness *h = context;
  if (event->kind == LLS_EVENT_FINISHED)
    lls_loop_session_calls(h->loop, event, "search");
  on_event(NULL, event);
}

/* Runs a turn of 20 tokens that begins at `first`. */
static void run_turn_of(struct harness *h, const char *tenant, uint32_t number,
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

static void run_turn(struct harness *h, const char *session, int32_t first)
{
  run_turn_of(h, "", 0, session, first);
}

static void test_policies_see_sessions(void **state)
{
  (void)state;
  struct harness h;
  open_watched(&h, 1);
  run_turn(&h, "agent", 1);
  assert_int_equal(seen.requests, 1);
  assert_int_equal(seen.n_sessions, 0);
  assert_int_equal(seen.last_released, 1);
  run_turn(&h, NULL, 50);
  assert_int_equal(seen.requests, 1);
  assert_int_equal(seen.last_released, 0);
  assert_int_equal(seen.n_sessions, 1);
  assert_string_equal(seen.first.name, "agent");
  assert_int_equal(seen.first.ended_by, LLS_SESSION_TOOL_CALL);
  assert_int_equal(seen.first.n_keys, 3); /* 20 + 5 computed tokens in blocks of 8 */
  assert_int_equal(seen.first.tokens, 24);
  const struct lls_key before = seen.first_key;
  run_turn(&h, "agent", 1);
  assert_int_equal(seen.n_sessions, 0); /* its request is alive */
  assert_int_equal(seen.requests, 2);
  run_turn(&h, "agent", 90);
  run_turn(&h, NULL, 50);
  assert_false(lls_key_equal(&seen.first_key, &before));
  assert_true(seen.first.returns_ns > seen.first.ended_ns); /* "search" was learnt */
  assert_int_equal(seen.ended, 0);
  harness_close(&h);
  assert_int_equal(seen.ended, 1);
}

/* A server without requests plans for its sessions when an answer has left one, and again
 * at the time that the scheduler names. */
static void test_an_idle_server_plans_for_sessions(void **state)
{
  (void)state;
  struct harness h;
  open_watched(&h, 1);
  seen.plans_kind = LLS_PLAN_FETCH;
  seen.plans_tier = LLS_TIER_DEVICE;
  seen.plans_again_ns = S / 1000;
  run_turn(&h, "agent", 1);
  uint32_t plans = seen.plans;
  assert_int_equal(seen.fetches, 0);
  assert_true(lls_loop_step(h.loop) >= 0);
  assert_int_equal(seen.plans, plans + 1);
  assert_int_equal(seen.fetches, 1);
  seen.plans_again_ns = 0; /* the second time it names none */
  assert_true(lls_loop_idle_ns(h.loop) <= S / 1000);
  for (int64_t ns; (ns = lls_loop_idle_ns(h.loop)) != LLS_NEVER;) {
    nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
    assert_true(lls_loop_step(h.loop) >= 0);
  }
  assert_int_equal(seen.plans, plans + 2);
  assert_int_equal(seen.fetches, 2);
  harness_close(&h);
}

/* The instance that had the session before does not show it any more. */
static void test_a_session_moves(void **state)
{
  (void)state;
  struct harness h;
  struct lls_loop_status status;
  uint32_t role;
  open_watched(&h, 2);
  run_turn(&h, "agent", 1);
  run_turn(&h, "agent", 100); /* nothing to find: the other instance had fewer */
  lls_loop_instance_status(h.loop, 1, &role, &status);
  assert_int_equal(status.arrived, 1);
  run_turn(&h, NULL, 1); /* on the first one, which has its beginning */
  lls_loop_instance_status(h.loop, 0, &role, &status);
  assert_int_equal(status.arrived, 2);
  assert_int_equal(seen.n_sessions, 0);
  harness_close(&h);
  assert_int_equal(seen.ended, 2); /* each instance's part */
}

/* ---- leases ----------------------------------------------------------------------- */

static struct lls_loop_status status_of(struct harness *h)
{
  struct lls_loop_status s;
  lls_loop_status(h->loop, &s);
  return s;
}

/* Without a scheduler that plans for sessions, the one that called a tool is kept for
 * lease_tool, until its next answer. */
static void test_a_call_is_kept(void **state)
{
  (void)state;
  struct harness h;
  open_watched(&h, 1);
  run_turn(&h, "agent", 1);
  assert_int_equal(seen.retains, 0); /* in the next step */
  run_turn(&h, NULL, 50);
  assert_int_equal(seen.retains, 1);
  assert_int_equal(seen.lease.session, 1);
  assert_int_equal(seen.lease.tier, LLS_TIER_DEVICE);
  assert_int_equal(seen.lease.n_keys, 3);
  assert_int_equal(seen.lease.until_ns, seen.first.ended_ns + 60 * S);
  assert_int_equal(status_of(&h).sessions_retained, 1);
  assert_int_equal(status_of(&h).sessions_leased, 1);
  run_turn(&h, "agent", 1);
  run_turn(&h, NULL, 50);
  assert_int_equal(seen.retains, 3); /* the end of the first one, and another */
  assert_int_equal(status_of(&h).sessions_leased, 1);
  assert_int_equal(seen.first.on_device, 24);
  harness_close(&h);
}

static void test_a_scheduler_decides(void **state)
{
  (void)state;
  struct harness h;
  open_watched(&h, 1);
  seen.plans_kind = LLS_PLAN_FETCH;
  seen.plans_tier = LLS_TIER_DEVICE;
  run_turn(&h, "agent", 1);
  run_turn(&h, NULL, 50);
  assert_in_range(seen.fetches, 1, 100);
  assert_int_equal(seen.retains, 0); /* it plans for sessions: nothing is usual */
  assert_int_equal(seen.first.on_device, 24);
  seen.plans_kind = LLS_PLAN_RETAIN;
  seen.plans_until_ns = INT64_MAX;
  run_turn(&h, NULL, 50);
  assert_in_range(seen.retains, 1, 100);
  assert_int_equal(seen.lease.until_ns, INT64_MAX);
  assert_int_equal(seen.first.until_ns, INT64_MAX);
  assert_int_equal(status_of(&h).sessions_leased, 1);
  seen.plans_until_ns = 0;
  run_turn(&h, NULL, 50);
  assert_int_equal(status_of(&h).sessions_leased, 0);
  assert_int_equal(status_of(&h).plans_refused, 0);
  harness_close(&h);
}

/* The core counts what the manager refuses, or cannot do; requests do not suffer. */
static void test_a_lease_is_refused(void **state)
{
  (void)state;
  struct harness h;
  const int answers[] = {-ENOSPC, -EBUSY, -ENOTSUP, 25};
  for (uint32_t i = 0; i < 5; i++) {
    seen.no_pair = i == 4;
    open_watched(&h, 1);
    run_turn(&h, "agent", 1);
    seen.answers = i < 4 ? answers[i] : 0;
    seen.plans_kind = LLS_PLAN_RETAIN;
    seen.plans_until_ns = INT64_MAX;
    run_turn(&h, NULL, 50);
    struct lls_loop_status s = status_of(&h);
    assert_in_range(s.items_refused, 1, 100);
    assert_int_equal(s.sessions_leased, 0);
    assert_int_equal(s.plans_refused, 0);
    assert_int_equal(s.policies.cache.breaches > 0, i == 3); /* more than it has */
    harness_close(&h);
  }
  seen.no_pair = false;
}

/* A tenant with more leased tokens makes room for one with fewer, but not the other way
 * round. */
static void test_tenants_divide_leases(void **state)
{
  (void)state;
  struct harness h;
  open_watched(&h, 1);
  seen.has_two = true;
  run_turn_of(&h, "ann", 2, "a", 1);  /* session 1 */
  run_turn_of(&h, "ann", 2, "b", 30); /* session 2 */
  run_turn_of(&h, "bob", 3, "c", 60); /* session 3 */
  assert_int_equal(seen.leased[0], 1);
  assert_int_equal(seen.leased[1], 2);
  run_turn_of(&h, "bob", 3, "d", 90); /* session 4 */
  assert_int_equal(seen.leased[0], 3);
  assert_int_equal(seen.leased[1], 2);
  run_turn_of(&h, "", 0, NULL, 120);
  assert_int_equal(seen.leased[0], 3);
  assert_int_equal(seen.leased[1], 2);
  assert_int_equal(status_of(&h).sessions_leased, 2);
  harness_close(&h);
}

/* A bad item costs the whole plan, and requests still end. */
static void test_a_bad_item(void **state)
{
  (void)state;
  struct harness h;
  open_watched(&h, 1);
  run_turn(&h, "agent", 1);
  seen.plans_kind = LLS_PLAN_RETAIN;
  seen.plans_tier = LLS_TIER_DISK + 1;
  seen.retains = 0;
  run_turn(&h, NULL, 50);
  assert_in_range(status_of(&h).plans_refused, 1, 100);
  assert_in_range(seen.retains, 0, 1); /* the usual lease */
  harness_close(&h);
}

static void note_there(void *context, const struct lls_session_row *row)
{
  *(uint32_t *)context = row->there[LLS_TIER_DEVICE];
}

static uint32_t there(struct harness *h)
{
  uint32_t tokens = UINT32_MAX;
  lls_loop_each_session(h->loop, note_there, &tokens);
  return tokens;
}

/* Blocks of an idle session leave for other requests', and its part says so. */
static void test_blocks_that_left(void **state)
{
  (void)state;
  struct harness h;
  struct harness_options o = client_options("fcfs");
  o.cache = (struct harness_policy){"paged", NULL};
  open_or_fail(&h, &o);
  run_turn(&h, "agent", 1);
  run_turn(&h, NULL, 1);
  assert_in_range(there(&h), 20, 26);
  for (int32_t i = 2; i < 200 && there(&h) > 0; i++)
    run_turn(&h, NULL, i);
  assert_int_equal(there(&h), 0);
  harness_close(&h);
}

/* Keys of blocks are bounded, too: sessions with many of them make room. */
static void test_keys_are_bounded(void **state)
{
  (void)state;
  struct harness h;
  struct harness_options o = client_options("fcfs");
  uint32_t alive, idle;
  o.cache = (struct harness_policy){"paged", NULL};
  o.leases.key_bytes = 10 * sizeof(struct lls_key);
  open_or_fail(&h, &o);
  for (int32_t i = 0; i < 5; i++) {
    char name[16];
    snprintf(name, sizeof name, "%d", i);
    run_turn(&h, name, 30 * i);
  }
  lls_loop_count_sessions(h.loop, &alive, &idle);
  assert_int_equal(alive, 0);
  assert_in_range(idle, 1, 3); /* a turn leaves four blocks */
  harness_close(&h);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_the_median_of_a_tool),
      cmocka_unit_test(test_tools_are_bounded),
      cmocka_unit_test(test_tools_are_the_tenants),
      cmocka_unit_test(test_names_are_the_tenants),
      cmocka_unit_test(test_an_answer_is_continued),
      cmocka_unit_test(test_when_a_session_returns),
      cmocka_unit_test(test_the_table_is_bounded),
      cmocka_unit_test(test_policies_see_sessions),
      cmocka_unit_test(test_an_idle_server_plans_for_sessions),
      cmocka_unit_test(test_a_session_moves),
      cmocka_unit_test(test_a_call_is_kept),
      cmocka_unit_test(test_a_scheduler_decides),
      cmocka_unit_test(test_a_lease_is_refused),
      cmocka_unit_test(test_tenants_divide_leases),
      cmocka_unit_test(test_a_bad_item),
      cmocka_unit_test(test_blocks_that_left),
      cmocka_unit_test(test_keys_are_bounded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
