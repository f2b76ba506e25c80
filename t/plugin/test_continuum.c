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
      cmocka_unit_test(test_time_to_live),
      cmocka_unit_test(test_asks_again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
