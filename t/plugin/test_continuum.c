/* SPDX-License-Identifier: Apache-2.0 */
/* Continuum: the order of programs, and how long an idle session is kept. */
#include "t/tap.h"

#include "t/plugin/script.h"

#define S LLS_NS_PER_S

static const struct bed_options defaults = {
    .scheduler = {"continuum", POLICY_PARAMETERS("max_seqs", "1")},
    .cache = {"paged", POLICY_PARAMETERS("prefix_sharing", "off")},
    .block_tokens = 16,
    .device_units = 400,
    .max_tokens = 4096,
    .max_sequences = 64,
    .max_context = 1024,
    .max_requests = 64,
    .prefill_ns = 1000000,
    .audit_every = 1,
};

/* The second turn of `a` goes before b and c, which came after a's first. */
static void test_programs_by_arrival(void **state)
{
  (void)state;
  const struct lls_session a = {.size = sizeof a, .id = 1},
                           b = {.size = sizeof b, .id = 2};
  struct bed bed;
  assert_int_equal(bed_open(&bed, &defaults), 0);
  bed.next.session = &a;
  submit(&bed, 10, 1);
  bed_step(&bed);
  bed.next.session = &b;
  submit(&bed, 11, 1);
  bed.next.session = NULL;
  submit(&bed, 12, 1);
  bed.next.session = &a;
  submit(&bed, 13, 1);
  bed_step(&bed);
  assert_int_equal(planned(&bed, 3), 13);
  bed_step(&bed);
  assert_int_equal(planned(&bed, 1), 11);
  bed_step(&bed);
  assert_int_equal(planned(&bed, 2), 12);
  bed_finish(&bed, 10);
  bed_close(&bed);
}

/* The place of a waiting request, which lls_pol_ranked_dump writes: the arrival of its
 * program, at most `ahead` before its own. */
static uint64_t place_of(struct bed *bed, const struct lls_session *session, uint32_t n)
{
  bed->next.session = session;
  const struct lls_live *live = submit(bed, n, 1);
  bed_step(bed);
  uint64_t place = live->view.user[1];
  bed_finish(bed, 10);
  return place;
}

/* An answer without a tool's call ends the program: the next turn is of a new one, and
 * goes behind programs that came meanwhile. */
static void test_a_program_ends(void **state)
{
  (void)state;
  struct lls_session a = {.size = sizeof a, .id = 1, .alive = 1, .ended_ns = LLS_NEVER};
  struct bed bed;
  assert_int_equal(bed_open(&bed, &defaults), 0);
  uint64_t first = place_of(&bed, &a, 10);
  a.ended_by = LLS_SESSION_TOOL_CALL;
  a.ended_ns = 1;
  assert_int_equal(place_of(&bed, &a, 11), first);
  a.ended_by = LLS_SESSION_STOPPED;
  a.alive = 2; /* another request of it runs */
  assert_int_equal(place_of(&bed, &a, 12), first);
  a.alive = 1;
  uint64_t next = place_of(&bed, &a, 13);
  assert_true(next > first);
  a.ended_by = LLS_SESSION_TOOL_CALL;
  assert_int_equal(place_of(&bed, &a, 14), next);
  bed_close(&bed);
}

/* A late program does not wait for ever: no request is put before another that arrived
 * more than `ahead` earlier. A step begins a millisecond after the one before. */
static void test_ahead(void **state)
{
  (void)state;
  struct lls_session a = {.size = sizeof a, .id = 1, .alive = 1, .ended_ns = LLS_NEVER};
  struct bed bed;
  struct bed_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("max_seqs", "1", "ahead", "3ms");
  assert_int_equal(bed_open(&bed, &o), 0);
  uint64_t first = place_of(&bed, &a, 10);
  assert_int_equal(place_of(&bed, &a, 11), first);
  for (int i = 0; i < 5; i++)
    bed_step(&bed);
  bed.next.session = &a;
  const struct lls_live *live = submit(&bed, 12, 1);
  bed_step(&bed);
  assert_int_equal(live->view.user[1], live->view.arrival_ns - 3000000);
  assert_true(live->view.user[1] > first);
  bed_finish(&bed, 10);
  bed_close(&bed);
}

/* Plans an instance with nothing but this session, and returns until when it is kept, in
 * ns after its end; LLS_NEVER: not at all. */
static int64_t kept_at(struct bed *bed, const struct lls_session *session, int64_t now_ns)
{
  struct lls_plan_item items[4];
  const struct lls_session *list[] = {session};
  const struct lls_step_view view = {
      .size = sizeof view,
      .now_ns = now_ns,
      .max_tokens = 4096,
      .max_sequences = 64,
      .cache = &bed->in->service,
      .n_sessions = 1,
      .sessions = list,
  };
  struct lls_plan plan = {.size = sizeof plan, .max_items = 4, .items = items};
  assert_int_equal(bed->s->plan(bed->scheduler_self, &view, &plan), 0);
  if (plan.n_items == 0)
    return LLS_NEVER;
  assert_int_equal(plan.n_items, 1);
  assert_int_equal(items[0].kind, LLS_PLAN_RETAIN);
  assert_int_equal(items[0].mode, LLS_TIER_DEVICE);
  assert_int_equal(items[0].request, session->id);
  return items[0].until_ns - session->ended_ns;
}

static int64_t kept(struct bed *bed, const struct lls_session *session)
{
  return kept_at(bed, session, session->ended_ns);
}

/* 10,000 tokens take 10 s to compute again. A median of 2 s: 2 s * log2(10 ln 2 / 2) =
 * 3.5864 s; a median of 10 s is too long. */
static void test_time_to_live(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("most", "5s", "keep", "on");
  assert_int_equal(bed_open(&bed, &o), 0);
  struct lls_session s = {.size = sizeof s,
                          .id = 77,
                          .ended_by = LLS_SESSION_TOOL_CALL,
                          .tokens = 10000,
                          .on_device = 10000,
                          .ended_ns = 100 * S,
                          .returns_ns = 102 * S,
                          .until_ns = LLS_NEVER};
  assert_in_range(kept(&bed, &s), 3586000000, 3587000000);
  s.returns_ns = 110 * S;
  assert_int_equal(kept(&bed, &s), LLS_NEVER);
  s.returns_ns = LLS_NEVER; /* nothing is known of the tool */
  assert_int_equal(kept(&bed, &s), 2 * S);
  s.returns_ns = 102 * S;
  s.tokens = 1000000; /* 1000 s: longer than the longest */
  assert_int_equal(kept(&bed, &s), 5 * S);
  s.ended_by = LLS_SESSION_STOPPED;
  assert_int_equal(kept(&bed, &s), LLS_NEVER);
  s.ended_by = LLS_SESSION_TOOL_CALL;
  s.until_ns = 105 * S; /* is kept already */
  assert_int_equal(kept(&bed, &s), LLS_NEVER);
  s.until_ns = LLS_NEVER;
  s.on_device = 0; /* is gone already */
  assert_int_equal(kept(&bed, &s), LLS_NEVER);
  bed_close(&bed);
}

/* A session that was asked for and is not kept, say for lack of room, is asked for again
 * after a while, or at once after its next answer. */
static void test_asks_again(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("keep", "on");
  struct lls_session s = {.size = sizeof s, .id = 5, .returns_ns = LLS_NEVER};
  assert_int_equal(bed_open(&bed, &o), 0);
  bed.next.session = &s;
  submit(&bed, 10, 1);
  bed_step(&bed);
  bed_finish(&bed, 10);
  s.ended_by = LLS_SESSION_TOOL_CALL;
  s.tokens = s.on_device = 100;
  s.ended_ns = 100 * S;
  s.until_ns = LLS_NEVER;
  assert_int_equal(kept(&bed, &s), 2 * S);
  assert_int_equal(kept_at(&bed, &s, s.ended_ns + S / 20), LLS_NEVER);
  assert_int_equal(kept_at(&bed, &s, s.ended_ns + S / 5), 2 * S);
  s.ended_ns += S / 4;
  assert_int_equal(kept(&bed, &s), 2 * S);
  bed_close(&bed);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_programs_by_arrival),
      cmocka_unit_test(test_a_program_ends),
      cmocka_unit_test(test_ahead),
      cmocka_unit_test(test_time_to_live),
      cmocka_unit_test(test_asks_again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
