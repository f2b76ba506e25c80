/* SPDX-License-Identifier: Apache-2.0 */
/* Notes on sessions, which main posts to instances: when a step thread takes them, and
 * which instance is told that it has a session no more. */
#include "t/tap.h"

#include <pthread.h>
#include <unistd.h>

#include "core/instance/inbox.h"
#include "core/instance/request.h"
#include "core/loop/sessions.h"

/* A table of two instances. */
struct table {
  struct lls_inbox inboxes[2];
  struct lls_sessions all;
};

static void begin(struct table *t)
{
  struct lls_inbox *inboxes[] = {&t->inboxes[0], &t->inboxes[1]};
  assert_int_equal(lls_inbox_init(inboxes[0], 4), 0);
  assert_int_equal(lls_inbox_init(inboxes[1], 4), 0);
  assert_int_equal(lls_sessions_init(&t->all, inboxes, 2, 10), 0);
}

static void end(struct table *t)
{
  lls_inbox_free(&t->inboxes[0]);
  lls_inbox_free(&t->inboxes[1]);
  lls_sessions_free(&t->all);
}

/* A request that is placed on instance 0, and ends on `instance`. */
static void turn(struct table *t, uint32_t instance, int64_t ended_ns)
{
  struct lls_live live = {.view = {.tenant_name = "ann"}};
  const struct lls_session_use use = {.name = "chat"};
  lls_sessions_enter(&t->all, &use, &live);
  assert_non_null(live.sessions);
  lls_sessions_place(&t->all, &live, 0);
  live.session = &live.sessions[instance];
  lls_sessions_leave(&t->all, &live, ended_ns);
}

/* The first instance must not show the session of a request that another one took
 * over. */
static void test_an_answer_ends_elsewhere(void **state)
{
  (void)state;
  struct table t;
  begin(&t);
  turn(&t, 0, 1);
  turn(&t, 1, 2);
  const struct lls_session_note *first = t.inboxes[0].notes;
  assert_int_equal(first->kind, LLS_SESSION_LEFT);
  assert_non_null(first->next);
  assert_int_equal(first->next->kind, LLS_SESSION_MOVED);
  assert_null(first->next->next);
  assert_int_equal(t.inboxes[1].notes->kind, LLS_SESSION_LEFT);
  assert_null(t.inboxes[1].notes->next);
  end(&t);
}

static void *wait_for_mail(void *inbox)
{
  lls_inbox_wait(inbox, LLS_NEVER);
  return NULL;
}

/* An instance without requests takes notes, too: main cannot free a closed session
 * before. */
static void test_a_note_wakes_the_step_thread(void **state)
{
  (void)state;
  struct table t;
  pthread_t waits;
  begin(&t);
  alarm(20); /* ends a test that would wait for ever */
  assert_int_equal(pthread_create(&waits, NULL, wait_for_mail, &t.inboxes[0]), 0);
  turn(&t, 0, 1);
  assert_int_equal(pthread_join(waits, NULL), 0);
  alarm(0);
  assert_non_null(t.inboxes[0].notes);
  end(&t);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_an_answer_ends_elsewhere),
      cmocka_unit_test(test_a_note_wakes_the_step_thread),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
