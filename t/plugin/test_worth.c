/* SPDX-License-Identifier: Apache-2.0 */
/* Worth: steps keep the gaps that streams ask for, on devices and loads of all kinds. */
#include "t/tap.h"

#include "t/plugin/script.h"

#include <math.h>

#define MS INT64_C(1000000)

static const struct bed_options defaults = {
    .scheduler = {"worth", NULL},
    .cache = {"paged", (const char *const[]){"prefix_sharing", "off", NULL}},
    .block_tokens = 16,
    .device_units = 4000,
    .max_tokens = 4096,
    .max_sequences = 128,
    .max_context = 2048,
    .max_requests = 128,
    .prefill_ns = MS / 10,
    .audit_every = 1,
};

/* Steps of 0.96 of the gap at 0.1 ms a token, without a margin: decodes and prompts
 * together. */
static void test_gaps(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("margin", "0");
  assert_int_equal(bed_open(&bed, &o), 0);
  bed.next.slo = (struct lls_slo){LLS_NEVER, 50 * MS, LLS_NEVER, LLS_NEVER};
  for (int i = 0; i < 30; i++)
    submit(&bed, 1, 30);
  bed_step(&bed);
  submit(&bed, 1200, 3);
  bed_step(&bed);
  assert_int_equal(planned(&bed, 30), 450); /* and 30 decodes: 48 ms */
  bed_step(&bed);
  assert_int_equal(planned(&bed, 30), 450);
  bed_finish(&bed, 300);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 31);
  bed_close(&bed);
}

/* One stream asks for a gap that no device can keep: it is ignored, and restricts no
 * other stream. */
static void test_gaps_that_cannot_be_kept(void **state)
{
  (void)state;
  for (int64_t gap = 1; gap < 100000; gap = 1000 * gap) { /* a decode takes 100,000 */
    struct bed bed;
    struct bed_options o = defaults;
    o.scheduler.parameters = POLICY_PARAMETERS("margin", "0");
    assert_int_equal(bed_open(&bed, &o), 0);
    for (int i = 0; i < 30; i++) {
      bed.next.slo = (struct lls_slo){LLS_NEVER, i == 7 ? gap : 50 * MS, LLS_NEVER,
                                      i == 8 ? INT64_MAX : LLS_NEVER};
      submit(&bed, 1, 30);
    }
    bed_step(&bed);
    submit(&bed, 1200, 3);
    bed_step(&bed);
    assert_int_equal(planned(&bed, 30), 450); /* and 30 decodes: 48 ms */
    bed_finish(&bed, 300);
    bed_close(&bed);
  }
}

/* A step takes 30 ms and what its tokens take. */
static int64_t thirty_ns(void *context, const struct lls_iteration_shape *shape)
{
  (void)context;
  int64_t ns = 30 * MS + shape->n_decodes * MS / 10;
  for (uint32_t i = 0; i < shape->n_chunks; i++)
    ns += shape->chunks[i].tokens * MS / 10;
  return ns;
}

/* Thirty steps took 2.6 times the estimate: by this no step keeps the gap of 50 ms. The
 * margin is then useless, and prompts begin while streams run; as soon as steps take
 * the estimated time it is forgotten. */
static void test_an_inflated_margin(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("gap", "50ms");
  assert_int_equal(bed_open(&bed, &o), 0);
  for (int i = 0; i < 9; i++)
    submit(&bed, 2000, 1);
  for (int i = 0; i < 30; i++) {
    lls_sim_next_step(bed.harness.device, 384 * MS / 10 * 26 / 10);
    bed_step(&bed);
  }
  assert_true(bed_figure(&bed, "margin_ratio") > 1.8);
  bed_finish(&bed, 300);
  bed.cost.iteration_ns = thirty_ns;
  for (uint32_t i = 0; i < 8; i++)
    submit(&bed, 100, 300);
  uint32_t most = 0;
  for (int i = 0; i < 150; i++) {
    lls_sim_next_step(bed.harness.device, 31 * MS);
    uint32_t n = bed_step(&bed);
    most = i < 5 && n > most ? n : most;
  }
  assert_true(most > 4);
  assert_true(bed_figure(&bed, "margin_ratio") < 1.2);
  bed_finish(&bed, 400);
  bed_close(&bed);
}

/* No stream asks for a gap: steps take 0.4 of 0.96 of the usual gap while there is a
 * stream and ten such steps are enough for all waiting prompts, else 0.96 of it. */
static void test_short_steps(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("margin", "0", "gap", "50ms", "chunk", "0");
  assert_int_equal(bed_open(&bed, &o), 0);
  submit(&bed, 1, 30);
  bed_step(&bed);
  submit(&bed, 1900, 3);
  bed_step(&bed);
  assert_int_equal(planned(&bed, 1), 191); /* and a decode: 19.2 ms */
  submit(&bed, 1900, 3);
  bed_step(&bed);
  assert_int_equal(planned(&bed, 1), 479); /* and a decode: 48 ms */
  bed_finish(&bed, 300);
  submit(&bed, 1900, 3);
  bed_step(&bed);
  assert_int_equal(planned(&bed, 3), 480); /* alone: 48 ms */
  bed_finish(&bed, 300);
  bed_close(&bed);
}

/* Where 512 tokens take longer than the usual gap, their time is it. Clients that
 * name a gap have theirs. */
static void test_slow_device(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("margin", "0", "gap", "10ms");
  assert_int_equal(bed_open(&bed, &o), 0);
  submit(&bed, 1, 30);
  bed_step(&bed);
  for (int i = 0; i < 2; i++)
    submit(&bed, 1900, 3);
  bed_step(&bed);
  assert_int_equal(planned(&bed, 1), 511); /* and a decode */
  bed_finish(&bed, 300);
  bed.next.slo.tbt_ns = 10 * MS;
  submit(&bed, 1, 300);
  bed_step(&bed);
  submit(&bed, 1900, 3);
  bed_step(&bed);
  assert_int_equal(planned(&bed, 4), 95); /* and a decode: 9.6 ms */
  bed_finish(&bed, 400);
  bed_close(&bed);
}

/* Two prompts of 300 and 400 tokens arrive together, the second with an answer of one
 * token. */
static void plan_short_answer(uint32_t request_class, uint32_t planned_of[2])
{
  struct bed bed;
  struct bed_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("margin", "0", "gap", "50ms", "chunk", "0");
  assert_int_equal(bed_open(&bed, &o), 0);
  submit(&bed, 480, 30);
  bed_step(&bed); /* 48 ms: the time of a token, as far as known */
  bed.next.request_class = request_class;
  submit(&bed, 300, 100);
  submit(&bed, 400, 1);
  bed_step(&bed);
  planned_of[0] = planned(&bed, 1);
  planned_of[1] = planned(&bed, 2);
  bed_finish(&bed, 300);
  bed_close(&bed);
}

/* For an answer of one token waiting weighs far more, except for best effort, where the
 * shorter prompt is first. */
static void test_short_answers(void **state)
{
  uint32_t planned_of[2];
  (void)state;
  plan_short_answer(LLS_CLASS_NONE, planned_of);
  assert_int_equal(planned_of[0], 0);
  assert_int_equal(planned_of[1], 191);
  plan_short_answer(LLS_CLASS_BEST_EFFORT, planned_of);
  assert_int_equal(planned_of[0], 191);
  assert_int_equal(planned_of[1], 0);
}

/* Steps of 48 ms count a quarter longer until thirty of them have run; these took first
 * 1.3 times, then 1.1 times the estimate, and only the latter counts. */
static void test_estimates_are_tried(void **state)
{
  (void)state;
  struct bed bed;
  assert_int_equal(bed_open(&bed, &defaults), 0);
  bed.next.slo = (struct lls_slo){LLS_NEVER, 50 * MS, LLS_NEVER, LLS_NEVER};
  submit(&bed, 1, 60);
  bed_step(&bed);
  for (int i = 0; i < 9; i++)
    submit(&bed, 2000, 1);
  for (int i = 0; i < 30; i++) {
    lls_sim_next_step(bed.harness.device, (i < 15 ? 13 : 11) * 384 * MS / 100);
    bed_step(&bed);
    uint32_t tokens = 0;
    for (uint32_t number = 0; number < 10; number++)
      tokens += planned(&bed, number);
    assert_in_range(tokens, 381, 384);
  }
  assert_true(fabs(bed_figure(&bed, "margin_ratio") - 1.1) < 0.01);
  bed_finish(&bed, 300);
  bed_close(&bed);
}

/* A hundred tokens take ten milliseconds, and one more for every hundred before them. */
static int64_t with_context_ns(void *context, const struct lls_iteration_shape *shape)
{
  (void)context;
  int64_t ns = shape->n_decodes * MS / 10;
  for (uint32_t i = 0; i < shape->n_chunks; i++)
    ns += shape->chunks[i].tokens * (MS / 10 + shape->chunks[i].context * MS / 10000);
  return ns;
}

/* The second prompt arrived before the first had computed their common prefix. When it
 * runs it has hundreds of cached tokens, so that the step has less space for it. */
static void test_prefixes_that_came_later(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  int32_t tokens[1000];
  o.cache.parameters = NULL;
  o.scheduler.parameters = POLICY_PARAMETERS("margin", "0");
  assert_int_equal(bed_open(&bed, &o), 0);
  bed.cost.iteration_ns = with_context_ns;
  bed.next.slo = (struct lls_slo){LLS_NEVER, 50 * MS, LLS_NEVER, LLS_NEVER};
  submit(&bed, 1, 30);
  bed_step(&bed);
  for (uint32_t i = 0; i < 1000; i++)
    tokens[i] = (int32_t)bed_between(&bed, 0, BED_VOCABULARY - 1);
  bed_submit(&bed, tokens, 479, 30);
  const struct lls_live *second = bed_submit(&bed, tokens, 1000, 30);
  bed_step(&bed);
  assert_int_equal(planned(&bed, 1), 479);
  assert_int_equal(second->view.cached_tokens, 0);
  bed_step(&bed);
  uint32_t n = planned(&bed, 2), before = second->view.cached_tokens - n;
  assert_int_equal(before, 464); /* whole blocks */
  const struct lls_chunk_shape chunk = {.tokens = n, .context = before};
  const struct lls_iteration_shape shape = {
      .chunks = &chunk, .n_chunks = 1, .n_decodes = 2};
  assert_in_range(with_context_ns(NULL, &shape), 47 * MS, 48 * MS);
  bed_finish(&bed, 100);
  bed_close(&bed);
}
int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gaps),
      cmocka_unit_test(test_gaps_that_cannot_be_kept),
      cmocka_unit_test(test_an_inflated_margin),
      cmocka_unit_test(test_short_steps),
      cmocka_unit_test(test_slow_device),
      cmocka_unit_test(test_short_answers),
      cmocka_unit_test(test_estimates_are_tried),
      cmocka_unit_test(test_prefixes_that_came_later),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
