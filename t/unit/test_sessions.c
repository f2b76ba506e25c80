/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of sessions: which requests are of one, how long a tool keeps it away, and
 * that none is forgotten before its time.
 */
#include "t/tap.h"

#include <stdio.h>

#include "core/instance/inbox.h"
#include "core/instance/request.h"
#include "core/loop/sessions.h"

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
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
