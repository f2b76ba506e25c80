/* SPDX-License-Identifier: Apache-2.0 */
/* Notes on sessions, which main posts to instances: when a step thread takes them, and
 * which instance is told that it has a session no more. */
#include "t/tap.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "core/cluster/remote_session.h"
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
  assert_int_equal(lls_sessions_init(&t->all, inboxes, NULL, 2, 10), 0);
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

/* ---- a process other than 0 -------------------------------------------------------- */

struct other {
  struct lls_inbox inbox;
  struct lls_guests *guests;
};

static void begin_other(struct other *o)
{
  assert_int_equal(lls_inbox_init(&o->inbox, 4), 0);
  assert_int_equal(lls_guests_create(&o->inbox, &o->guests), 0);
}

static void end_other(struct other *o)
{
  lls_inbox_free(&o->inbox);
  lls_guests_free(o->guests);
}

/* A request of the session has run here, with two whole blocks of four tokens. */
static struct lls_live_session *ran_here(struct other *o, uint64_t session,
                                         uint64_t request)
{
  static struct lls_key keys[3] = {{{1, 2}}, {{3, 4}}, {{5, 6}}};
  struct lls_live live = {.view = {.id = request, .cached_tokens = 11},
                          .keys = {.all = keys, .n = 3, .block_tokens = 4},
                          .sessions = lls_guests_find(o->guests, session, 7, "chat", 4)};
  assert_non_null(live.sessions);
  live.session = live.sessions;
  lls_guests_ended(o->guests, &live);
  return live.sessions;
}

static void say(struct other *o, uint32_t kind, uint64_t session, uint64_t request)
{
  const struct lls_session_word word = {.session = session,
                                        .request = request,
                                        .kind = kind,
                                        .ended_by = LLS_SESSION_TOOL_CALL,
                                        .ended_ns = 50,
                                        .returns_ns = 90};
  lls_guests_take(o->guests, &word);
}

/* The step thread decides on a lease when it takes the note: so the note waits for
 * process 0, which alone knows that the answer called a tool. */
static void test_an_end_waits_for_process_0(void **state)
{
  (void)state;
  struct other o;
  begin_other(&o);
  struct lls_live_session *s = ran_here(&o, 3, 100);
  assert_null(o.inbox.notes);
  say(&o, LLS_SESSION_LEFT, 3, 99); /* of a request that ended before it came */
  say(&o, LLS_SESSION_LEFT, 4, 100);
  assert_null(o.inbox.notes);
  say(&o, LLS_SESSION_LEFT, 3, 100);
  const struct lls_session_note *note = o.inbox.notes;
  assert_non_null(note);
  assert_ptr_equal(note->session, s);
  assert_int_equal(note->kind, LLS_SESSION_LEFT);
  assert_int_equal(note->ended_by, LLS_SESSION_TOOL_CALL);
  assert_int_equal(note->ended_ns, 50);
  assert_int_equal(note->returns_ns, 90);
  assert_int_equal(note->n_keys, 2);
  assert_int_equal(note->tokens, 8);
  assert_int_equal(note->keys[1].word[1], 4);
  say(&o, LLS_SESSION_LEFT, 3, 100);
  assert_null(note->next); /* once */
  say(&o, LLS_SESSION_MOVED, 3, 0);
  assert_int_equal(note->next->kind, LLS_SESSION_MOVED);
  end_other(&o);
}

/* Takes the notes as a step thread does; all of them are used. */
static uint32_t take_notes(struct other *o)
{
  struct lls_inbox_content c;
  uint32_t n = 0;
  assert_int_equal(lls_inbox_content_init(&c, 4), 0);
  lls_inbox_take(&o->inbox, INT64_MAX, &c);
  for (const struct lls_session_note *note = c.notes; note != NULL; note = note->next)
    n += note->kind == LLS_SESSION_CLOSED;
  if (c.notes != NULL)
    lls_inbox_return_notes(&o->inbox, c.notes);
  lls_inbox_content_free(&c);
  return n;
}

/* Process 0 forgets one; it gave this process up, and all of them end. A session of the
 * same id that comes then is another one. */
static void test_sessions_end_here(void **state)
{
  (void)state;
  struct other o;
  begin_other(&o);
  ran_here(&o, 3, 100);
  struct lls_live_session *s = ran_here(&o, 5, 101);
  say(&o, LLS_SESSION_CLOSED, 3, 0);
  say(&o, LLS_SESSION_CLOSED, 3, 0);
  assert_int_equal(take_notes(&o), 1);
  assert_false(lls_guests_clear(o.guests));
  assert_ptr_not_equal(lls_guests_find(o.guests, 5, 7, "chat", 4), s);
  assert_int_equal(take_notes(&o), 1);
  assert_false(lls_guests_clear(o.guests)); /* the new one */
  assert_int_equal(take_notes(&o), 1);
  assert_true(lls_guests_clear(o.guests));
  end_other(&o);
}

/* The table posts to the stand-in of an instance in another process what it posts to
 * others; the word has all that a note has, but for the keys. */
static void test_an_answer_ends_in_another_process(void **state)
{
  (void)state;
  struct table t;
  const bool remote[] = {false, true};
  begin(&t);
  memcpy(t.all.remote, remote, sizeof remote);
  struct lls_live live = {.view = {.tenant_name = "ann", .id = 8}};
  const struct lls_session_use use = {.name = "chat", .away_ns = 30};
  lls_sessions_enter(&t.all, &use, &live);
  lls_sessions_place(&t.all, &live, 1);
  live.view.instance = 1;
  t.all.leaving.ended_by = LLS_SESSION_TOOL_CALL;
  lls_sessions_leave(&t.all, &live, 70);
  assert_null(t.inboxes[0].notes);
  assert_non_null(t.inboxes[1].notes);
  const struct lls_session_word word = lls_session_word_of(t.inboxes[1].notes);
  assert_int_equal(word.session, live.sessions->view.id);
  assert_int_equal(word.request, 8);
  assert_int_equal(word.kind, LLS_SESSION_LEFT);
  assert_int_equal(word.ended_by, LLS_SESSION_TOOL_CALL);
  assert_int_equal(word.ended_ns, 70);
  assert_int_equal(word.returns_ns, 100);
  end(&t);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_an_answer_ends_elsewhere),
      cmocka_unit_test(test_a_note_wakes_the_step_thread),
      cmocka_unit_test(test_an_end_waits_for_process_0),
      cmocka_unit_test(test_sessions_end_here),
      cmocka_unit_test(test_an_answer_ends_in_another_process),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
