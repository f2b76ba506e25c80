/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AccelGen's rules one by one: the worked examples of budget, slack, and deadlines of
 * whole requests. test_accelgen_select.c tests the selection.
 */
#include "t/tap.h"

#include "plugins/schedulers/accelgen/accelgen.h"
#include "t/dice.h"

#include <math.h>

#define MS    INT64_C(1000000)
#define BLOCK 32

static void expect_near(double found, double expected, double error)
{
  if (fabs(found - expected) > error)
    fail_msg("%.9g, not %.9g", found, expected);
}

/* ---- budget, pace ------------------------------------------------------------------ */

static const struct accelgen_params as_in_the_paper = {
    .s_pf = 768,
    .t_pf = 160 * MS,
    .s_min = 64,
    .gamma = 750 * MS,
    .urgent_eps = 0.1,
    .long_tokens = 4096,
    .kvc_headroom = 1,
    .extend = true,
    .one_step = true,
    .t_max_window = 100,
    .p_preempt = 0.01,
    .p_max = 2000 * MS,
    .tbt_slo = 187500000,
    .ttft_slo = LLS_NEVER,
    .ttft_scale = 4,
    .chunk = true,
    .order = true,
    .batch = true,
    .max_seqs = 256,
    .look = 4096,
};

static void test_budget(void **state)
{
  (void)state;
  static const struct {
    double slo_ms;
    uint32_t tokens;
  } examples[] = {{100, 480},  {140.625, 675}, {187.5, 900}, {234.375, 1125},
                  {500, 2400}, {700, 3072},    {1, 64},      {160, 768}};
  struct accelgen_pace pace;
  assert_int_equal(accelgen_pace_init(&pace, &as_in_the_paper), 0);
  for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
    assert_int_equal(accelgen_budget(&pace, &as_in_the_paper,
                                     (int64_t)(examples[i].slo_ms * (double)MS)),
                     examples[i].tokens);
  assert_int_equal(accelgen_budget(&pace, &as_in_the_paper, LLS_NEVER), 768);
  accelgen_pace_free(&pace);
}

/* Compares with a linear search in a window. */
static void test_longest_step(void **state)
{
  (void)state;
  enum { STEPS = 5000 };
  static int64_t durations[STEPS];
  struct dice d = {3};
  for (int64_t window = 1; window <= 40; window += 13) {
    struct accelgen_params params = as_in_the_paper;
    struct accelgen_pace pace;
    params.t_max_window = window;
    assert_int_equal(accelgen_pace_init(&pace, &params), 0);
    for (int n = 0; n < STEPS; n++) {
      int64_t longest = n < 6 ? params.t_pf : 0;
      for (int i = n - 1; n >= 6 && i >= 0 && i >= n - window; i--)
        longest = durations[i] > longest ? durations[i] : longest;
      assert_int_equal(accelgen_longest_step(&pace), longest);
      durations[n] = dice(&d, 1, 50);
      accelgen_pace_step(&pace, durations[n]);
    }
    accelgen_pace_free(&pace);
  }
}

/* 5 ms for reading weights, then 0.1 ms a token and 2 ms a step. */
static int64_t roofline(void *context, uint32_t tokens, uint32_t context_tokens)
{
  (void)context, (void)context_tokens;
  int64_t compute = tokens * MS / 10;
  return (compute > 5 * MS ? compute : 5 * MS) + 2 * MS;
}

static int64_t unknown(void *context, uint32_t tokens, uint32_t context_tokens)
{
  (void)context, (void)tokens, (void)context_tokens;
  return LLS_NEVER;
}

/* n / (0.1 n + 2) is 99 % of its value at 2048 from 1,000 on. */
static void test_pivot(void **state)
{
  (void)state;
  struct accelgen_params params = as_in_the_paper;
  struct accelgen_pace pace;
  struct lls_cost cost = {.size = sizeof cost, .prefill_ns = unknown};
  params.s_pf = params.t_pf = LLS_NEVER;
  assert_int_equal(accelgen_pace_init(&pace, &params), 0);
  assert_false(accelgen_pace_measure(&pace, &params, &cost, 2048));
  assert_int_equal(pace.t_pf, 0);
  cost.prefill_ns = roofline;
  assert_true(accelgen_pace_measure(&pace, &params, &cost, 2048));
  assert_int_equal(pace.s_pf, 1024);
  assert_int_equal(pace.t_pf, 104400000);
  expect_near(pace.chunk, 512, 0);
  params.s_pf = 500;
  pace.s_pf = 500;
  assert_true(accelgen_pace_measure(&pace, &params, &cost, 2048));
  assert_int_equal(pace.s_pf, 500);
  assert_int_equal(pace.t_pf, 52 * MS);
  accelgen_pace_free(&pace);
}

/* ---- slack ------------------------------------------------------------------------- */

struct scene { /* a hand-made view: T_max 0.15 s, L_c 400 */
  struct accelgen a;
  struct accelgen_job jobs[4];
  struct accelgen_candidate candidates[5];
  struct lls_request requests[4];
  const struct lls_request *lists[2][4];
  struct lls_cache_service cache;
  struct lls_step_view view;
};

static uint32_t no_prefix(void *context, const struct lls_request *r)
{
  (void)context, (void)r;
  return 0;
}

static void scene_free(struct scene *s)
{
  accelgen_pace_free(&s->a.pace);
  lls_pol_urgent_free(&s->a.waiting);
}

static void scene_init(struct scene *s)
{
  *s = (struct scene){.a = {.params = as_in_the_paper}, .cache = {.prefix = no_prefix}};
  s->a.jobs = s->jobs;
  s->a.candidates = s->candidates;
  assert_int_equal(lls_pol_urgent_init(&s->a.waiting, 4), 0);
  assert_int_equal(accelgen_pace_init(&s->a.pace, &s->a.params), 0);
  accelgen_pace_chunk(&s->a.pace, 1, 400);
  for (int i = 0; i < 6; i++)
    accelgen_pace_step(&s->a.pace, 150 * MS);
  s->view = (struct lls_step_view){.now_ns = 100000 * MS,
                                   .max_tokens = 4096,
                                   .running = s->lists[0],
                                   .waiting = s->lists[1],
                                   .cache = &s->cache};
}

static struct lls_request *enter(struct scene *s, uint32_t prompt, int64_t waited_ms)
{
  uint32_t i = s->view.n_running + s->view.n_waiting;
  struct lls_request *r = &s->requests[i];
  int64_t then = s->view.now_ns - waited_ms * MS;
  *r = (struct lls_request){
      .id = i,
      .slot = i,
      .prompt_tokens = prompt,
      .max_new_tokens = 200,
      .arrival_ns = then,
      .queue_enter_ns = then,
      .last_token_ns = then,
      .slo = {LLS_NEVER, LLS_NEVER, LLS_NEVER, LLS_NEVER},
  };
  s->lists[1][s->view.n_waiting++] = r;
  return r;
}

static struct lls_request *decode(struct scene *s, uint32_t prompt)
{
  struct lls_request *r = enter(s, prompt, 0);
  r->state = LLS_DECODING;
  r->generated_tokens = 1;
  r->cached_tokens = prompt;
  s->lists[0][s->view.n_running++] = s->lists[1][--s->view.n_waiting];
  return r;
}

static const struct accelgen_candidate *looked_at(struct scene *s, uint64_t id)
{
  for (uint32_t i = 0; i < s->a.n_all; i++)
    if (s->candidates[i].id == id)
      return &s->candidates[i];
  fail_msg("request %llu was not looked at", (unsigned long long)id);
  return NULL;
}

static void look(struct scene *s)
{
  for (uint32_t i = 0; i < s->view.n_running + s->view.n_waiting; i++)
    accelgen_arrived(&s->a, &s->requests[i]);
  accelgen_look(&s->a, &s->view);
}

static void test_slack(void **state)
{
  (void)state;
  struct scene s;
  scene_init(&s);
  decode(&s, 50);
  enter(&s, 300, 200)->slo.ttft_ns = 900 * MS;
  enter(&s, 8192, 500)->slo.ttft_ns = 9000 * MS; /* N_ck 21 */
  enter(&s, 300, 1000)->slo.ttft_ns = 900 * MS;  /* T_r -0.25 < -T_max */
  look(&s);
  expect_near((double)looked_at(&s, 1)->slack, 550e6, 0);
  expect_near((double)looked_at(&s, 2)->slack, 5350e6, 0);
  expect_near((double)looked_at(&s, 0)->slack, 37.5e6, 0);
  assert_true(looked_at(&s, 0)->urgent); /* <= 0.165 */
  assert_false(looked_at(&s, 1)->urgent);
  assert_true(looked_at(&s, 3)->late);
  assert_int_equal(s.candidates[s.a.head].id, 1);
  assert_int_equal(s.a.slo_min, 187500000);
  /* the first is a short prompt: 0.1875 of the decode counts */
  assert_int_equal(accelgen_step_budget(&s.a, &s.view), 900);
  s.a.params.late = ACCELGEN_FIRST;
  look(&s);
  assert_false(looked_at(&s, 3)->late);
  assert_true(looked_at(&s, 3)->urgent);
  assert_int_equal(s.candidates[s.a.head].id, 3);
  s.a.params.order = false;
  look(&s);
  assert_false(looked_at(&s, 3)->urgent);
  assert_int_equal(s.candidates[s.a.head].id, 3); /* the first to come */
  scene_free(&s);
}

/* If prompts are short so is L_c: with 20 tokens 100 are five chunks, late by 50 ms,
 * and leave the step a fifth of that less than T_max: 140 ms, 672 tokens. Since these
 * hold 671 beside the decode, 100 are one chunk, and the decode's 187.5 ms are the
 * tightest: 900. */
static void test_one_chunk_is_what_a_step_holds(void **state)
{
  (void)state;
  struct scene s;
  scene_init(&s);
  accelgen_pace_chunk(&s.a.pace, 1, 20);
  decode(&s, 50);
  enter(&s, 100, 200)->slo.ttft_ns = 900 * MS;
  enter(&s, 672, 200)->slo.ttft_ns = 9000 * MS; /* N_ck 34, until 899 fit in addition */
  look(&s);
  expect_near((double)looked_at(&s, 1)->slack, -50e6, 0);
  assert_int_equal(accelgen_step_budget(&s.a, &s.view), 672);
  look(&s);
  expect_near((double)looked_at(&s, 1)->slack, 550e6, 0);
  expect_near((double)looked_at(&s, 2)->slack, 3700e6, 0);
  assert_int_equal(accelgen_step_budget(&s.a, &s.view), 900);
  look(&s);
  expect_near((double)looked_at(&s, 2)->slack, 8650e6, 0);
  scene_free(&s);
}

/* The paper's N_ck, independent of the last step's free budget. */
static void test_chunks_of_the_paper(void **state)
{
  (void)state;
  struct scene s;
  scene_init(&s);
  s.a.params.one_step = false;
  accelgen_pace_chunk(&s.a.pace, 1, 20);
  decode(&s, 50);
  enter(&s, 100, 200)->slo.ttft_ns = 900 * MS; /* N_ck 5, T_max 150 ms */
  look(&s);
  expect_near((double)looked_at(&s, 1)->slack, -50e6, 0);
  assert_true(accelgen_step_budget(&s.a, &s.view) > 101);
  look(&s);
  expect_near((double)looked_at(&s, 1)->slack, -50e6, 0);
  scene_free(&s);
}

/* A long queue: candidates are its first half of `look`, its last half, and one between
 * them as long as it can be in time. */
static void test_a_long_queue(void **state)
{
  (void)state;
  struct scene s;
  scene_init(&s);
  for (int i = 0; i < 4; i++)
    enter(&s, 300, 400 - 100 * i)->slo.ttft_ns = 900 * MS;
  s.requests[2].slo.ttft_ns = 199 * MS; /* it has waited for 200 */
  s.a.params.look = 3;
  look(&s);
  assert_int_equal(s.a.n_all, 3);
  assert_int_equal(s.candidates[0].id, 0);
  assert_int_equal(s.candidates[1].id, 1);
  assert_int_equal(s.candidates[2].id, 3);
  s.requests[2].slo.ttft_ns = 900 * MS;
  look(&s);
  assert_int_equal(s.a.n_all, 4);
  assert_int_equal(s.candidates[2].id, 2);
  s.a.params.look = 4;
  look(&s);
  assert_int_equal(s.a.n_all, 4);
  scene_free(&s);
}

/* A prompt of several chunks gets a share of the time left in each step: N_ck 21, 5.35
 * s / 21 + 0.15 s = 0.40476 s make 1,942 tokens. A late head limits nothing. */
static void test_budget_of_the_head(void **state)
{
  (void)state;
  struct scene s;
  scene_init(&s);
  struct lls_request *r = enter(&s, 8192, 500);
  r->slo.ttft_ns = 9000 * MS;
  look(&s);
  assert_int_equal(accelgen_step_budget(&s.a, &s.view), 1942);
  r->prompt_tokens = 300;
  r->slo.ttft_ns = 600 * MS;
  look(&s);
  assert_int_equal(accelgen_step_budget(&s.a, &s.view), 2880);
  r->slo.ttft_ns = 100 * MS;
  look(&s);
  assert_true(looked_at(&s, 0)->late);
  assert_int_equal(accelgen_step_budget(&s.a, &s.view), 768);
  s.a.params.chunk = false;
  decode(&s, 10);
  look(&s);
  assert_int_equal(accelgen_step_budget(&s.a, &s.view), 768);
  scene_free(&s);
}

/* A request without a deadline gets the section's: in a group of 512 tokens, four times
 * 160 ms * 512 / 768. */
static void test_deadlines_of_the_section(void **state)
{
  (void)state;
  struct scene s;
  scene_init(&s);
  const struct lls_request *r = enter(&s, 300, 0);
  expect_near((double)accelgen_ttft_slo(&s.a, r), 426.667e6, 1e3);
  r = enter(&s, 513, 0);
  expect_near((double)accelgen_ttft_slo(&s.a, r), 853.333e6, 1e3);
  s.a.pace.t_pf = 10 * MS;
  assert_int_equal(accelgen_ttft_slo(&s.a, r), 300 * MS);
  s.a.params.ttft_slo = 5 * MS;
  assert_int_equal(accelgen_ttft_slo(&s.a, r), 5 * MS);
  scene_free(&s);
}

/* ---- deadlines of whole requests --------------------------------------------------- */

static void test_jct_example(void **state)
{
  (void)state;
  static const double waits[] = {0, .2, 0, .3, .05};
  static const double allowed[] = {.125862, .251724, .177586, .303448, .129310, .205172};
  int64_t step = 150 * MS, now = 0, slo = 60000 * MS;
  double pause = 20e6; /* P_max P */
  uint32_t n_ck = 3, s_g = 200;
  struct accelgen_jct j = {0};
  expect_near((double)accelgen_jct_work(n_ck, s_g, step, pause), 34.45e9, 0);
  for (int i = 0;; i++) {
    int64_t work = accelgen_jct_work(n_ck, s_g, step, pause);
    accelgen_jct_wait(&j, now, slo - now, work, n_ck + s_g);
    expect_near((double)j.base * 1e-9, .125862, 1e-6);
    expect_near((double)j.allowed * 1e-9, allowed[i], 1e-6);
    if (i == 5)
      break;
    accelgen_jct_waited(&j, (int64_t)(waits[i] * 1e9));
    now += (int64_t)(waits[i] * 1e9) + step + (n_ck > 0 ? 0 : (int64_t)pause);
    n_ck > 0 ? n_ck-- : s_g--;
  }
  expect_near((double)j.bank * 1e-9, .0793, 1e-4);
}

/* The bank always equals the sum of the bases minus the time waited. */
static void test_bank_is_conserved(void **state)
{
  (void)state;
  struct dice d = {5};
  for (int run = 0; run < 200; run++) {
    struct accelgen_jct j = {0};
    int64_t now = 0, bases = 0, waited = 0, slo = dice(&d, 1, 60) * 1000 * MS;
    for (uint32_t left = 100; left > 0; left--) {
      int64_t work = accelgen_jct_work(0, left, dice(&d, 1, 200) * MS, 1e6);
      accelgen_jct_wait(&j, now, slo - now, work, left);
      assert_true(slo - now - work < 0 ? j.allowed == slo - now - work : j.allowed >= 0);
      int64_t wait = dice(&d, 0, 400) * MS;
      accelgen_jct_waited(&j, wait);
      bases += j.base;
      waited += wait;
      now += wait + dice(&d, 1, 200) * MS;
      assert_int_equal(j.bank, bases - waited);
    }
  }
}

/* A request's slack is its allowed wait minus the time waited; without a predictor S_g
 * is max_new_tokens. 1 chunk and 200 tokens of 0.15 s + 2 s * 0.01 take 34.15 s of
 * 60. */
static void test_jct_of_a_request(void **state)
{
  (void)state;
  struct scene s;
  scene_init(&s);
  struct lls_request *r = enter(&s, 100, 0);
  r->slo.completion_ns = 60000 * MS;
  look(&s);
  double base = (60 - 34.15) / 201 * 1e9;
  expect_near((double)looked_at(&s, 0)->slack, base, 1);
  s.view.now_ns += 100 * MS;
  accelgen_look(&s.a, &s.view);
  expect_near((double)looked_at(&s, 0)->slack, base - 100e6, 1);
  struct lls_step_result result = {.request = r, .tokens = 100, .emitted = 1};
  struct lls_step_report report = {.size = sizeof report,
                                   .started_ns = s.view.now_ns,
                                   .ended_ns = s.view.now_ns + 150 * MS,
                                   .n_results = 1,
                                   .results = &result};
  r->cached_tokens = 100;
  r->generated_tokens = 1;
  r->state = LLS_DECODING;
  accelgen_ran(&s.a, &report);
  expect_near((double)s.jobs[0].jct.bank, base - 100e6, 1);
  r->prediction = (struct lls_prediction){.length = 20, .source = LLS_PREDICTED_MODEL};
  accelgen_arrived(&s.a, r); /* 19 tokens: hardly anything of its time is work */
  assert_true(s.jobs[0].jct.allowed > 2 * (int64_t)base);
  r->slo.tbt_ns = 100 * MS; /* deadlines of iterations go before */
  accelgen_arrived(&s.a, r);
  assert_false(s.jobs[0].is_jct);
  scene_free(&s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_budget),
      cmocka_unit_test(test_longest_step),
      cmocka_unit_test(test_pivot),
      cmocka_unit_test(test_slack),
      cmocka_unit_test(test_one_chunk_is_what_a_step_holds),
      cmocka_unit_test(test_chunks_of_the_paper),
      cmocka_unit_test(test_a_long_queue),
      cmocka_unit_test(test_budget_of_the_head),
      cmocka_unit_test(test_deadlines_of_the_section),
      cmocka_unit_test(test_jct_example),
      cmocka_unit_test(test_bank_is_conserved),
      cmocka_unit_test(test_jct_of_a_request),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
