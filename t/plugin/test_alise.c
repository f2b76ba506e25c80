/* SPDX-License-Identifier: Apache-2.0 */
/* ALISE's scheduler: remaining time and levels by hand, the order of requests,
 * promotions. */
#include "t/tap.h"

#include "plugins/schedulers/alise/alise.h"
#include <llmserve/policy/ahead.h>
#include "t/plugin/bed.h"

#include <math.h>

static const struct alise_times times = {.t0 = 2e5, .alpha = 1e3, .beta = 2e7};

static struct lls_request request(uint32_t prompt, uint32_t generated, uint32_t cached)
{
  return (struct lls_request){
      .prompt_tokens = prompt, .generated_tokens = generated, .cached_tokens = cached};
}

static void assert_seconds(double ns, double seconds)
{
  if (ns < seconds * 1e9 - 1 || ns > seconds * 1e9 + 1)
    fail_msg("%g ns, expected %g s", ns, seconds);
}

static void test_remaining_time(void **state)
{
  (void)state;
  struct lls_request r = request(500, 0, 0);
  assert_seconds(alise_remaining(&times, &r, 200), 0.100 + 4.100);
  r = request(500, 50, 549);
  assert_seconds(alise_remaining(&times, &r, 150), 3.075);
  r = request(100, 30, 129); /* longer than predicted: at least one token is left */
  assert_seconds(alise_remaining(&times, &r, 0), 0.0201);
  r = request(500, 50, 0); /* dropped: prompt and answer must be prefilled again */
  assert_seconds(alise_remaining(&times, &r, 150), 550 * 2e-4 + 3.075);
}

static void test_levels(void **state)
{
  (void)state;
  const struct alise_levels levels = {.n = 6, .first = 0.5e9, .ratio = 2};
  static const struct {
    double seconds;
    uint32_t level;
  } cases[] = {{.1, 1}, {.5, 1}, {.51, 2}, {1, 2},  {1.01, 3},
               {2, 3},  {4, 4},  {8, 5},   {16, 6}, {100, 6}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_int_equal(alise_level(&levels, cases[i].seconds * 1e9), cases[i].level);
}

/* ---- what predictions are worth ---------------------------------------------------- */

static void learn(struct alise_worth *w, uint32_t n, uint32_t predicted, uint32_t actual)
{
  for (uint32_t i = 0; i < n; i++)
    alise_worth_learn(w, predicted, actual);
}

static void assert_left(const struct alise_worth *w, uint32_t length, uint32_t generated,
                        double expected)
{
  double left = alise_worth_left(w, length, generated);
  if (fabs(left - expected) > 1e-6 * expected)
    fail_msg("%g tokens left after %u of %u, expected %g", left, generated, length,
             expected);
}

static void test_true_predictions_stay_true(void **state)
{
  (void)state;
  struct alise_worth w = {0};
  learn(&w, 63, 100, 100);
  assert_left(&w, 200, 0, 0); /* no prediction and no answers yet */
  learn(&w, 1, 100, 100);
  for (uint32_t g = 0; g < 777; g++)
    assert_left(&w, 777, g, 777 - g);
  assert_left(&w, 777, 777, 0); /* no answer was this long */
}

/* Half of the answers have half of the predicted length, the other half twice it. */
static void test_what_is_left_by_hand(void **state)
{
  (void)state;
  struct alise_worth w = {0};
  for (int i = 0; i < 32; i++) {
    learn(&w, 1, 100, 50);
    learn(&w, 1, 10, 20);
  }
  /* 50 tokens, by then half of the answers have ended: less than the mean of 125 */
  assert_left(&w, 100, 0, 100);
  assert_left(&w, 100, 30, 40);
  assert_left(&w, 100, 60, 140); /* it is one of the long answers */
  assert_left(&w, 100, 199, 1);
  /* one of ten is this long: the end of the other nine counts */
  w = (struct alise_worth){0};
  learn(&w, 58, 100, 50);
  learn(&w, 6, 100, 800);
  assert_left(&w, 100, 0, 50 * 64.0 / 58);
  assert_left(&w, 100, 51, 749);
}

/* Predictors may change, so old answers count less and less. */
static void test_old_answers_are_forgotten(void **state)
{
  (void)state;
  struct alise_worth w = {0};
  learn(&w, 10000, 100, 100);
  learn(&w, 60000, 100, 200);
  assert_true(alise_worth_left(&w, 100, 0) > 199);
}

static void test_ages(void **state)
{
  (void)state;
  struct lls_request r[5] = {
      {.slot = 3}, {.slot = 1}, {.slot = 4}, {.slot = 0}, {.slot = 2}};
  static const uint32_t order[] = {0, 3, 2, 4, 1};
  struct alise_ages a;
  int64_t ns;
  assert_int_equal(alise_ages_init(&a, 5), 0);
  assert_null(alise_ages_oldest(&a, &ns));
  for (int i = 0; i < 4; i++)
    alise_ages_set(&a, &r[i], 10 + i);
  alise_ages_set(&a, &r[1], 20);
  alise_ages_set(&a, &r[2], 14);
  alise_ages_set(&a, &r[4], 15); /* it arrived before the second ran */
  for (int i = 0; i < 5; i++) {
    assert_ptr_equal(alise_ages_oldest(&a, &ns), &r[order[i]]);
    alise_ages_remove(&a, &r[order[i]]);
    alise_ages_remove(&a, &r[order[i]]);
  }
  assert_null(alise_ages_oldest(&a, &ns));
  alise_ages_free(&a);
}

/* ---- who runs ---------------------------------------------------------------------- */

static struct bed_options one_at_a_time(const char *const *parameters)
{
  return (struct bed_options){
      .scheduler = {"alise", parameters},
      .cache = {"paged", NULL},
      .block_tokens = 16,
      .device_units = 100,
      .max_tokens = 512,
      .max_sequences = 8,
      .max_context = 256,
      .max_requests = 8,
      .audit_every = 1,
  };
}

static struct lls_live *submit(struct bed *bed, uint32_t predicted)
{
  int32_t tokens[16] = {0};
  bed->next.predicted = predicted;
  bed->next.max_new_tokens = 400;
  return bed_submit(bed, tokens, 16, predicted);
}

static void test_the_shorter_takes_the_place(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = one_at_a_time(POLICY_PARAMETERS("max_seqs", "1", "age", "0"));
  assert_int_equal(bed_open(&bed, &o), 0);
  struct lls_live *longer = submit(&bed, 100);
  bed_step(&bed);
  bed_step(&bed);
  assert_int_equal(longer->view.generated_tokens, 2);
  struct lls_live *shorter = submit(&bed, 10);
  bed_step(&bed);
  assert_int_equal(shorter->view.generated_tokens, 1);
  assert_int_equal(longer->view.generated_tokens, 2);
  bed_finish(&bed, 200);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 2);
  bed_close(&bed);
}

/* A step of the bed takes 1 ms and 0.1 for each token: a request that has not run for
 * ten is promoted for three, some eight steps later. */
static void test_the_aged_is_lifted(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o =
      one_at_a_time(POLICY_PARAMETERS("max_seqs", "1", "age", "10ms", "boost", "3ms"));
  assert_int_equal(bed_open(&bed, &o), 0);
  struct lls_live *shorter = submit(&bed, 40), *longer = submit(&bed, 100);
  uint32_t waited = 0;
  for (; longer->view.generated_tokens == 0 && waited < 30; waited++)
    bed_step(&bed);
  assert_in_range(waited, 7, 10);
  uint32_t said = shorter->view.generated_tokens;
  assert_in_range(said, 6, 9);
  for (int i = 0; i < 60 && shorter->view.generated_tokens == said; i++)
    bed_step(&bed);
  assert_true(shorter->view.generated_tokens > said); /* and demoted again */
  assert_in_range(longer->view.generated_tokens, 2, 60);
  bed_finish(&bed, 300);
  bed_close(&bed);
}

/* Eight prompts of 100 tokens, memory for three of them: all waiting requests soon
 * exceed `age`, and a prefill takes ten times the boost. If each took another's memory
 * it would be the next to lose its own, and hardly any token would be generated. */
static void expect_no_thrashing(struct bed_options *o, uint64_t most)
{
  int32_t tokens[100] = {0};
  struct bed bed;
  o->device_units = 54;
  o->max_tokens = 100;
  o->scheduler.parameters = POLICY_PARAMETERS("age", "20ms", "boost", "1ms", "preempt",
                                              "swap", "watermark", "0");
  assert_int_equal(bed_open(&bed, o), 0);
  for (int32_t i = 0; i < 8; i++) {
    tokens[0] = i; /* no prefix is shared */
    bed.next.predicted = 20 + (uint32_t)i;
    bed_submit(&bed, tokens, 100, bed.next.predicted);
  }
  bed_finish(&bed, 200);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 8);
  assert_in_range(bed.preempted_recompute, 0, most);
  bed_close(&bed);
}

static void test_ageing_takes_free_memory_only(void **state)
{
  (void)state;
  struct bed_options o = one_at_a_time(NULL);
  expect_no_thrashing(&o, 4);
}

static void test_nor_does_it_where_the_host_is_small(void **state)
{
  (void)state;
  struct bed_options o = one_at_a_time(NULL);
  o.cache.name = "tiered";
  o.host_units = 8; /* too small for any of them */
  expect_no_thrashing(&o, 4);
}

/* ---- memory ahead of need ---------------------------------------------------------- */

/* Four jobs by hand, K = 3 s: T .444 on level 1; .603 on 2, which ran just now; 3.075
 * on 4, one second ago; 8.060 on 6, which arrived 2.9 s ago. */
static void test_ewt_by_hand(void **state)
{
  (void)state;
  const struct alise_waits waits = {
      .of_level = {[1] = 444000000, [2] = 603000000, [4] = 3075000000, [6] = 8060000000}};
  const int64_t s = LLS_NS_PER_S;
  assert_int_equal(alise_ewt(&waits, 1, 3 * s), 0);
  assert_int_equal(alise_ewt(&waits, 2, 3 * s), 444000000);
  assert_int_equal(alise_ewt(&waits, 4, 2 * s), 444000000 + 603000000);
  assert_int_equal(alise_ewt(&waits, 6, s / 10), s / 10); /* promotion is near */
  assert_int_equal(alise_ewt(&waits, 6, INT64_MAX), 4122000000);
  assert_int_equal(alise_ewt(&waits, 6, -s), 0); /* it is overdue */
}

#define MOST 12

static const uint32_t *described_units;

static uint32_t units_of(const struct lls_request *r)
{
  return described_units[r->slot];
}

static int capacity(void *context, uint32_t tier, struct lls_capacity *out)
{
  (void)tier;
  out->free_units = *(const uint32_t *)context;
  return 0;
}

static int info(void *context, const struct lls_request *r, struct lls_cache_info *out)
{
  (void)context;
  out->device_units = units_of(r);
  return 0;
}

static int need(void *context, const struct lls_request *r, uint32_t tokens,
                uint32_t form, struct lls_need *out)
{
  (void)context, (void)tokens, (void)form;
  out->restore_units = r->state == LLS_PREEMPTED ? units_of(r) : 0;
  out->new_units = r->state == LLS_PREEMPTED ? 0 : units_of(r);
  return 0;
}

/* Random jobs, sizes and free memory: the decisions must follow the rules. */
static void decide_once(uint64_t *dice, struct lls_pol_ahead *a)
{
#define DRAW(n)                                                                          \
  (uint32_t)((*dice = *dice * UINT64_C(6364136223846793005) + 1) >> 33) % (n)
  struct lls_request requests[MOST] = {0};
  uint32_t units[MOST], n = 1 + DRAW(MOST), free_units = DRAW(30), margin = DRAW(8);
  const struct lls_cache_service cache = {
      .context = &free_units, .capacity = capacity, .info = info, .need = need};
  const struct lls_step_view view = {.cache = &cache};
  static const uint32_t states[] = {LLS_WAITING, LLS_PREEMPTED, LLS_DECODING};
  described_units = units;
  lls_pol_ahead_begin(a, &view);
  for (uint32_t i = 0; i < n; i++) {
    requests[i] = (struct lls_request){.id = i, .slot = i, .state = states[DRAW(3)]};
    units[i] = 1 + DRAW(20);
    const struct lls_pol_ahead_candidate c = {
        .request = &requests[i], .level = DRAW(4), .ewt = DRAW(3), .key = DRAW(100)};
    lls_pol_ahead_add(a, &c);
  }
  lls_pol_ahead_decide(a, n, margin);
  uint32_t kept = 0, came = 0, left = 0;
  for (uint32_t i = 0; i < n; i++) {
    const struct lls_pol_ahead_candidate *j = &a->jobs[i];
    uint32_t size = units_of(j->request);
    if (i > 0)
      assert_true(j[-1].level < j->level ||
                  (j[-1].level == j->level && j[-1].ewt <= j->ewt));
    assert_true(j->decision != LLS_POL_AHEAD_LEAVES || j->request->state == LLS_DECODING);
    assert_true(j->decision != LLS_POL_AHEAD_COMES || j->request->state == LLS_PREEMPTED);
    left += j->decision == LLS_POL_AHEAD_LEAVES;
    came += j->decision == LLS_POL_AHEAD_COMES ? size : 0;
    assert_true(j->decision != LLS_POL_AHEAD_COMES ||
                left == 0); /* all offloaded requests rank below it */
    kept += j->on_device && j->decision == LLS_POL_AHEAD_STAYS ? size : 0;
  }
  assert_true(came <= free_units); /* an upload takes free memory */
  assert_true(kept + came <= a->units);
  assert_true(a->jobs[0].decision != LLS_POL_AHEAD_LEAVES);
#undef DRAW
}

/* No upload evicts a job of higher priority: it takes free memory, and all requests
 * offloaded by the same plan rank below it. */
static void test_decisions(void **state)
{
  (void)state;
  struct lls_pol_ahead a = {0};
  uint64_t dice = 7;
  assert_int_equal(lls_pol_ahead_init(&a, MOST), 0);
  for (int i = 0; i < 20000; i++)
    decide_once(&dice, &a);
  lls_pol_ahead_free(&a);
}

static void test_first_of_a_heap(void **state)
{
  (void)state;
  struct lls_request requests[60] = {0};
  void *first[LLS_POL_HEAP_LOOKED_AT];
  struct lls_pol_heap h;
  assert_int_equal(lls_pol_heap_init(&h, 60), 0);
  for (uint32_t i = 0; i < 60; i++) {
    requests[i].id = i * 37 % 60;
    lls_pol_heap_push(&h, (struct lls_pol_heap_entry){.key = (int64_t)requests[i].id / 3,
                                                      .tie = requests[i].id,
                                                      .item = &requests[i]});
  }
  assert_int_equal(lls_pol_heap_first(&h, 1000, first), LLS_POL_HEAP_LOOKED_AT);
  for (uint32_t i = 0; i < LLS_POL_HEAP_LOOKED_AT; i++)
    assert_int_equal(((const struct lls_request *)first[i])->id, i);
  assert_int_equal(h.n, 60);
  lls_pol_heap_free(&h);
}

/* A long answer among short ones that never cease: it never waits longer than K, the
 * boosts of those promoted before it, and a step. */
static void test_nobody_waits_beyond_the_bound(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = one_at_a_time(
      POLICY_PARAMETERS("max_seqs", "1", "age", "20ms", "boost", "0.3ms", "lifted", "1"));
  o.device_units = 400; /* enough for all: no request is prefilled again */
  assert_int_equal(bed_open(&bed, &o), 0);
  struct lls_live *jobs[6];
  int64_t last_ns[6], worst_ns = 0;
  for (uint32_t i = 0; i < 6; i++) {
    jobs[i] = submit(&bed, 190);
    last_ns[i] = bed.now_ns;
  }
  for (int step = 0; step < 150; step++) { /* none of them ends */
    uint32_t said[6];
    for (uint32_t i = 0; i < 6; i++)
      said[i] = jobs[i]->view.generated_tokens;
    bed_step(&bed);
    for (uint32_t i = 0; i < 6; i++) {
      if (jobs[i]->view.generated_tokens > said[i])
        last_ns[i] = bed.now_ns;
      worst_ns = bed.now_ns - last_ns[i] > worst_ns ? bed.now_ns - last_ns[i] : worst_ns;
    }
  }
  /* K, a step, and five earlier boosts, each of three steps of 1.1 ms of which 0.1 ms
   * counts, the first one longer by a prompt */
  assert_in_range(worst_ns, 20000000, 20000000 + 1100000 + 5 * (3 * 1100000 + 1500000));
  for (uint32_t i = 0; i < 6; i++)
    bed_cancel(&bed, jobs[i]);
  bed_close(&bed);
}

static int64_t a_ms(void *context, uint32_t tokens, uint32_t context_tokens)
{
  (void)context;
  (void)tokens;
  (void)context_tokens;
  return 1000000;
}

/* Two requests alternate on one seat. In step 256 tokens turn out to cost a twentieth
 * of the estimate: with new costs either would rank before the other, if the other kept
 * its old rank while it is resident and does not run. */
static void test_new_costs_count_for_all_alike(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o =
      one_at_a_time(POLICY_PARAMETERS("max_seqs", "1", "age", "0", "preempt", "swap"));
  o.cache.name = "tiered";
  o.host_units = 100;
  o.max_context = 512;
  assert_int_equal(bed_open(&bed, &o), 0);
  submit(&bed, 400);
  for (int step = 0; step < 250; step++)
    bed_step(&bed);
  submit(&bed, 130); /* of the 150 tokens that the other request leaves */
  bed.cost.prefill_ns = bed.cost.decode_ns = a_ms;
  bed_finish(&bed, 400);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 2);
  bed_close(&bed);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_remaining_time),
      cmocka_unit_test(test_levels),
      cmocka_unit_test(test_true_predictions_stay_true),
      cmocka_unit_test(test_what_is_left_by_hand),
      cmocka_unit_test(test_old_answers_are_forgotten),
      cmocka_unit_test(test_ages),
      cmocka_unit_test(test_the_shorter_takes_the_place),
      cmocka_unit_test(test_the_aged_is_lifted),
      cmocka_unit_test(test_ageing_takes_free_memory_only),
      cmocka_unit_test(test_nor_does_it_where_the_host_is_small),
      cmocka_unit_test(test_ewt_by_hand),
      cmocka_unit_test(test_decisions),
      cmocka_unit_test(test_first_of_a_heap),
      cmocka_unit_test(test_nobody_waits_beyond_the_bound),
      cmocka_unit_test(test_new_costs_count_for_all_alike),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
