/* SPDX-License-Identifier: Apache-2.0 */
/* AccelGen: plans of whole loads, and the conditions that every plan must satisfy. */
#include "t/tap.h"

#include "t/plugin/script.h"

#include <math.h>

#define MS    INT64_C(1000000)
#define BLOCK 32

static const struct bed_options defaults = {
    .scheduler = {"accelgen", NULL},
    .cache = {"paged", (const char *const[]){"prefix_sharing", "off", NULL}},
    .block_tokens = BLOCK,
    .device_units = 2000,
    .max_tokens = 4096,
    .max_sequences = 128,
    .max_context = 11000,
    .max_requests = 64,
    .audit_every = 1,
};

static struct lls_live *submit_long(struct bed *bed, uint32_t length, uint32_t output)
{
  static const int32_t tokens[11000];
  return bed_submit(bed, tokens, length, output);
}

/* ERA: budget 512, prompts of 10,214 and 10,252 tokens: the first is done after 20
 * steps, the second after 40, holding 195,080 token-steps of memory. */
static void test_one_long_prompt_at_a_time(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("s_pf", "512", "kvc_headroom", "1");
  assert_int_equal(bed_open(&bed, &o), 0);
  bed.next.slo = (struct lls_slo){3600000 * MS, 1000 * MS, LLS_NEVER, LLS_NEVER};
  submit_long(&bed, 10214, 1);
  submit_long(&bed, 10252, 1);
  uint64_t held = 0;
  for (int step = 1; step <= 40; step++) {
    bed_step(&bed);
    for (uint32_t i = 0; i < bed.o.max_requests; i++)
      held += bed.by_slot[i] != NULL ? bed.by_slot[i]->view.cached_tokens : 0;
    assert_int_equal(bed.finished[LLS_FINISH_LENGTH], step >= 40 ? 2 : step >= 20);
  }
  assert_int_equal(held, 195080);
  bed_close(&bed);
}

/* With chunk_short off only prompts that are long, or longer than the budget, are cut
 * at the budget; a short one that may wait runs whole or not at all. */
static void test_what_is_cut(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.scheduler.parameters =
      POLICY_PARAMETERS("s_pf", "512", "long_tokens", "600", "chunk_short", "false");
  assert_int_equal(bed_open(&bed, &o), 0);
  bed.next.slo = (struct lls_slo){600000 * MS, 1000 * MS, LLS_NEVER, LLS_NEVER};
  submit(&bed, 300, 3);
  submit(&bed, 290, 3);
  expect_plan(&bed, "0:300");
  expect_plan(&bed, "0:1 1:290");
  submit(&bed, 700, 2);
  expect_plan(&bed, "0:1 1:1 2:510");
  submit(&bed, 320, 2);
  submit(&bed, 800, 2);
  /* 511 tokens: the rest of 2, which continues first, or 3; 4 may not begin in addition
   * to 2 */
  expect_plan(&bed, "1:1 3:320 2:190 4:1");
  expect_plan(&bed, "2:1 3:1 4:510");
  bed_finish(&bed, 20);
  bed_close(&bed);
}

/* With 0.1 ms a token and T_pf = 51.2 ms, 512 tokens: deadlines of 25.6 ms halve that.
 * An urgent prompt takes what is left although it is short; a late one waits for the
 * others, then gets the rest. */
static void test_urgent_and_late(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.prefill_ns = MS / 10;
  o.scheduler.parameters = POLICY_PARAMETERS("s_pf", "512", "kvc_headroom", "1");
  assert_int_equal(bed_open(&bed, &o), 0);
  bed.next.slo = (struct lls_slo){60000 * MS, 25600000, LLS_NEVER, LLS_NEVER};
  submit(&bed, 100, 30);
  expect_plan(&bed, "0:100");
  bed.next.slo.ttft_ns = MS / 2; /* T_r < -T_max from the beginning */
  submit(&bed, 200, 2);
  bed.next.slo.ttft_ns = 90 * MS;
  submit(&bed, 245, 2);
  bed.next.slo.ttft_ns = 70 * MS;
  submit(&bed, 240, 2);
  expect_plan(&bed, "0:1 3:240 2:15");
  assert_true(dumps(&bed, "budget_tokens 256"));
  expect_plan(&bed, "0:1 3:1 2:230 1:24");
  expect_plan(&bed, "0:1 2:1 1:176");
  bed_finish(&bed, 40);
  bed_close(&bed);
}

/* Memory for sixteen blocks: growing decodes take memory from the running prompt. */
static void test_who_makes_room(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.device_units = 32;
  o.scheduler.parameters = POLICY_PARAMETERS("s_pf", "200", "kvc_headroom", "0");
  assert_int_equal(bed_open(&bed, &o), 0);
  bed.next.slo = (struct lls_slo){600000 * MS, 1000 * MS, LLS_NEVER, LLS_NEVER};
  submit(&bed, 94, 20);
  submit(&bed, 95, 20);
  expect_plan(&bed, "1:95 0:94"); /* three blocks each */
  submit(&bed, 450, 2);
  expect_plan(&bed, "0:1 1:1 2:198");
  expect_plan(&bed, "0:1 1:1 2:90"); /* two blocks and 26 slots */
  expect_plan(&bed, "-2 0:1 1:1");
  bed_finish(&bed, 100);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 3);
  bed_close(&bed);
}

/* Eight blocks, three of a decode: a prompt of five must leave the decode a block to
 * grow, so it is cut. */
static void test_headroom(void **state)
{
  (void)state;
  for (int headroom = 0; headroom <= 1; headroom++) { /* blocks */
    struct bed bed;
    struct bed_options o = defaults;
    o.device_units = 16;
    o.scheduler.parameters =
        POLICY_PARAMETERS("s_pf", "200", "kvc_headroom", headroom ? "1" : "0");
    assert_int_equal(bed_open(&bed, &o), 0);
    bed.next.slo = (struct lls_slo){600000 * MS, 1000 * MS, LLS_NEVER, LLS_NEVER};
    submit(&bed, 90, 3);
    expect_plan(&bed, "0:90");
    submit(&bed, 150, 2);
    expect_plan(&bed, headroom ? "0:1 1:128" : "0:1 1:150");
    bed_finish(&bed, 10);
    bed_close(&bed);
  }
}

/* Twenty blocks, a fifth of which must stay free of late prompts: a late one may have
 * sixteen. */
static void test_late_leave_a_reserve(void **state)
{
  (void)state;
  for (uint32_t length = 512; length <= 513; length++) {
    struct bed bed;
    struct bed_options o = defaults;
    o.prefill_ns = MS / 10;
    o.device_units = 40;
    o.scheduler.parameters =
        POLICY_PARAMETERS("s_pf", "600", "s_min", "600", "late_reserve", "0.2",
                          "kvc_headroom", "1", "chunk_short", "false");
    assert_int_equal(bed_open(&bed, &o), 0);
    bed.next.slo = (struct lls_slo){60000 * MS, 60000 * MS, LLS_NEVER, LLS_NEVER};
    submit(&bed, 20, 3);
    expect_plan(&bed, "0:20");
    bed.next.slo.ttft_ns = MS / 2;
    submit(&bed, length - 64, 2);
    expect_plan(&bed, length == 512 ? "0:1 1:448" : "0:1");
    bed_finish(&bed, 20);
    bed_close(&bed);
  }
}

static void test_capacity(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.device_units = 16; /* 256 tokens */
  assert_int_equal(bed_open(&bed, &o), 0);
  submit(&bed, 225, 2); /* all but one block is 224 */
  expect_plan(&bed, "x0");
  assert_int_equal(bed.finished[LLS_FINISH_CAPACITY], 1);
  submit(&bed, 224, 100);
  bed_finish(&bed, 100);
  assert_int_equal(bed.finished[LLS_FINISH_CAPACITY], 2);
  bed_close(&bed);
}

/* Checks the invariants of every plan. */
static void check_plan(struct bed *bed)
{
  uint32_t tokens = 0, begun = 0;
  bool decode_left = false, prompt_stayed = false;
  for (uint32_t i = 0; i < bed->plan.n_items; i++) {
    const struct lls_plan_item *item = &bed->plan.items[i];
    const struct lls_live *r = bed_find(bed, item->request);
    tokens += item->kind == LLS_PLAN_RUN ? item->tokens : 0;
    if (item->kind == LLS_PLAN_PREEMPT)
      decode_left |= r != NULL && r->view.generated_tokens > 0 && bed->n_running > 0;
  }
  bed_dump(bed);
  const char *at = strstr(bed->text, "\nbudget_tokens ");
  assert_non_null(at);
  assert_true(tokens <= strtoul(at + strlen("\nbudget_tokens "), NULL, 10));
  assert_true(bed->plan.n_items > 0); /* some request is active */
  for (uint32_t i = 0; i < bed->o.max_requests; i++) {
    const struct lls_live *r = bed->by_slot[i];
    if (r == NULL || r->view.state != LLS_PREFILLING)
      continue;
    prompt_stayed |= planned(bed, bed_number(bed, r->view.id)) == 0;
    begun += lls_request_length(&r->view) >= 64;
  }
  assert_true(begun <= 1);
  assert_false(decode_left && prompt_stayed);
}

/* The queue in a dump is ordered by slack, late requests last. */
static void check_order(struct bed *bed)
{
  double last = -INFINITY;
  bool late_seen = false;
  for (const char *at = bed->text; (at = strstr(at, " slack ")) != NULL; at++) {
    double slack = strtod(at + strlen(" slack "), NULL);
    size_t length = strcspn(at, "\n");
    bool late = length > 5 && strncmp(at + length - 5, " late", 5) == 0;
    assert_true(late >= late_seen);
    assert_true(late != late_seen || slack >= last);
    late_seen = late;
    last = slack;
  }
}

static void test_what_holds_of_every_plan(void **state)
{
  (void)state;
  uint32_t preempted = 0;
  for (uint64_t seed = 1; seed <= 150; seed++) {
    struct bed bed;
    struct bed_options o = defaults;
    o.seed = seed;
    o.prefill_ns = MS / 10;
    o.max_context = 400;
    o.max_requests = 16;
    o.audit_every = 0;
    struct dice d = {seed};
    o.device_units = 2 * dice(&d, 8, 40);
    o.scheduler.parameters =
        POLICY_PARAMETERS("s_pf", "48", "s_min", "16", "long_tokens", "64");
    assert_int_equal(bed_open(&bed, &o), 0);
    uint32_t submitted = 0;
    while (submitted < 40 || bed_alive(&bed) > 0) {
      for (uint32_t n = bed_between(&bed, 0, 3); n > 0 && submitted < 40; n--) {
        bed.next.slo =
            (struct lls_slo){bed_between(&bed, 1, 400) * MS,
                             bed_between(&bed, 2, 20) * MS, LLS_NEVER, LLS_NEVER};
        uint32_t length = bed_between(&bed, 1, bed_between(&bed, 0, 3) > 0 ? 60 : 200);
        submitted += bed_alive(&bed) < o.max_requests &&
                     submit(&bed, length, bed_between(&bed, 1, 60)) != NULL;
      }
      if (bed_alive(&bed) == 0)
        continue;
      bed_step(&bed);
      check_plan(&bed);
      check_order(&bed);
      assert_true(bed.step < 5000);
    }
    preempted += bed.preempted_recompute;
    assert_int_equal(bed.finished[LLS_FINISH_LENGTH] + bed.finished[LLS_FINISH_CAPACITY],
                     40);
    bed_close(&bed);
  }
  assert_true(preempted > 100); /* memory was short */
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_one_long_prompt_at_a_time),
      cmocka_unit_test(test_what_is_cut),
      cmocka_unit_test(test_urgent_and_late),
      cmocka_unit_test(test_who_makes_room),
      cmocka_unit_test(test_headroom),
      cmocka_unit_test(test_late_leave_a_reserve),
      cmocka_unit_test(test_capacity),
      cmocka_unit_test(test_what_holds_of_every_plan),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
