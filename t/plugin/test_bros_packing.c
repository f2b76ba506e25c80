/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One plan of BROS: the worked examples, deadlines, memory, and the fit of its
 * estimate. test_bros_invariants.c has random instances.
 */
#include "t/plugin/bros_rig.h"

/* ---- the worked examples ------------------------------------------------------- */

/* 0 A, 1 B, 2 Q; 3 x, 4 y, 5 z. */
static void put_example(struct rig *g)
{
  rig_init(g);
  decode(g, RT, .150, 400);
  decode(g, RT, .020, 300);
  prompt(g, RT, .100, 200);
  decode(g, BE, 0, 900);
  put(g, BE, 0, 700, 40, 1);
  prompt(g, BE, 0, 800);
}

static void test_example_1(void **state)
{
  (void)state;
  struct rig g;
  put_example(&g);
  pack(&g, 4);
  expect_items(&g, "2 0 1 3"); /* {A, B, Q} and x */
  expect_number(g.b.t_res, .050, 1e-9);
  expect_number(bros_time(&g.b.cost, &g.b.load), .036235, 5e-7);
  assert_false(g.b.cost_exit);
  for (uint32_t i = 0; i < 3; i++)
    expect_number(bros_time_alone(&g.b.cost, &g.candidates[i]), i == 2 ? .01209 : .01205,
                  .00005);
  pack(&g, 2);
  expect_items(&g, "0 3"); /* x in the place of B */
  assert_true(g.b.n_replaced == 1);
  expect_number(bros_time(&g.b.cost, &g.b.load), .012103, 5e-7);
  struct bros_candidate z = {.tokens = 800, .prompt = true}, y = {.tokens = 1};
  y.context = 700;
  pack(&g, 4);
  bros_load_add(&g.b.load, &y);
  expect_number(bros_time(&g.b.cost, &g.b.load), .036289, 5e-7);
  bros_load_add(&g.b.load, &z);
  expect_number(bros_time(&g.b.cost, &g.b.load), .118209, 5e-7);
  rig_free(&g);
}

static void test_example_2(void **state)
{
  (void)state;
  struct rig g;
  rig_init(&g);
  decode(&g, RT, .25, 100);
  decode(&g, BE, 0, 900);
  put(&g, BE, 0, 700, 40, 1);
  prompt(&g, BE, 0, 800);
  pack(&g, 8);
  expect_number(g.candidates[0].slack, -.05, 1e-9);
  assert_false(g.candidates[0].attainable);
  expect_items(&g, "3 0 1 2");
  expect_number(g.b.t_res, .2, 1e-9);
  expect_number(bros_time(&g.b.cost, &g.b.load), .09744 + 40 * 2e-5, 5e-6);
  rig_free(&g);
  rig_init(&g);
  decode(&g, BE, 0, 900);
  put(&g, BE, 0, 700, 40, 1);
  prompt(&g, BE, 0, 800);
  pack(&g, 8);
  expect_items(&g, "2 0 1");
  assert_true(isinf(g.b.t_res));
  expect_number(bros_time(&g.b.cost, &g.b.load), .09738 + 40 * 2e-5, 5e-6);
  rig_free(&g);
}

static void test_adaptive_cap(void **state)
{
  (void)state;
  static const uint32_t expected[] = {256, 512, 1024, 1024, 128, 256, 512, 128, 128, 256};
  static const bool stops[] = {false, false, false, false, true,
                               false, false, true,  true};
  struct bros b = {.params = paper, .b_curr = 128};
  for (int i = 0; i < 10; i++) {
    b.cost_exit = i < 9 && stops[i];
    bros_adapt(&b);
    assert_int_equal(b.b_curr, expected[i]);
  }
}

/* ---- deadlines ----------------------------------------------------------------- */

static void test_t_avg(void **state)
{
  (void)state;
  struct bros b = {.params = paper, .t_avg = -1};
  bros_step_took(&b, .1);
  expect_number(b.t_avg, .1, 1e-12);
  bros_step_took(&b, .2);
  expect_number(b.t_avg, .11, 1e-12);
}

/* The request's own deadlines; the tighter of TPOT and TBT. */
static void test_own_deadlines(void **state)
{
  (void)state;
  struct rig g;
  rig_init(&g);
  prompt(&g, RT, .1, 10)->slo.ttft_ns = LLS_NS_PER_S;
  decode(&g, RT, .1, 10)->slo.tpot_ns = LLS_NS_PER_S / 2;
  g.r[1].slo.tbt_ns = LLS_NS_PER_S / 4;
  /* without a deadline it waits for the answer as a whole */
  decode(&g, LLS_CLASS_NONE, .1, 10);
  pack(&g, 8);
  /* candidates: running, preempted, waiting */
  expect_number(g.candidates[0].slack, .15, 1e-9);
  expect_number(g.candidates[1].slack, .1, 1e-9);
  expect_number(g.candidates[2].slack, .9, 1e-9);
  assert_int_equal(g.b.n_realtime, 3);
  rig_free(&g);
}

/* Four tokens a group, T_SLO = 4 * 0.2 for the last of them: slack = T_SLO - t - (k - 1)
 * T_avg. */
static void test_token_groups(void **state)
{
  (void)state;
  static const double slack[] = {.8 - 0 - 3 * .02, .8 - .1 - 2 * .02, .8 - .2 - .02,
                                 .8 - .3, .8 - 0 - 3 * .02};
  struct rig g;
  rig_init(&g);
  g.b.params.token_group = 4;
  struct lls_request *r = decode(&g, RT, 0, 50);
  for (int i = 0; i < 5; i++) { /* a token every 100 ms, the fourth at once */
    int64_t ago_ms = i == 4 ? 0 : 100 * i;
    if (i > 0)
      g.user[0][1] = (uint64_t)(NOW_S * LLS_NS_PER_S - ago_ms * 1000000);
    r->generated_tokens = 1 + (uint32_t)i;
    r->cached_tokens = lls_request_length(r) - 1;
    pack(&g, 8);
    expect_number(g.candidates[0].slack, slack[i], 1e-9);
    assert_int_equal(g.user[0][0], 1 + i / 4);
  }
  rig_free(&g);
}

/* Requests past their deadline come after those that can be in time; or by slack
 * alone. */
static void test_order_of_missed(void **state)
{
  (void)state;
  struct rig g;
  rig_init(&g);
  decode(&g, RT, .3, 100);
  decode(&g, RT, .1, 100);
  pack(&g, 1);
  expect_items(&g, "1");
  g.b.params.missed = BROS_FIRST;
  pack(&g, 1);
  expect_items(&g, "0");
  rig_free(&g);
}

/* A prompt that takes longer than the others can wait runs when it starves. */
static void test_starvation_guard(void **state)
{
  (void)state;
  struct rig g;
  rig_init(&g);
  struct lls_request *r = prompt(&g, RT, 9, 3000);
  decode(&g, RT, .1, 100);
  pack(&g, 8);
  expect_items(&g, "1");
  assert_true(g.b.cost_exit);
  r->last_token_ns -= LLS_NS_PER_S;
  pack(&g, 8);
  expect_items(&g, "0");
  assert_true(g.b.cost_exit);
  pack(&g, 8); /* another one not before a second has passed */
  expect_items(&g, "1");
  g.b.starved_ran_ns -= LLS_NS_PER_S;
  pack(&g, 8);
  expect_items(&g, "0");
  g.b.starved_ran_ns = 0;
  g.b.params.starve = 0;
  pack(&g, 8);
  expect_items(&g, "1");
  rig_free(&g);
}

/* No best-effort request fits in addition to the others: every fourth plan runs one
 * nevertheless, even if all seats are taken. */
static void test_be_min_share(void **state)
{
  (void)state;
  struct rig g;
  rig_init(&g);
  decode(&g, RT, .18, 100);
  decode(&g, RT, .18, 100);
  prompt(&g, BE, 0, 800);
  prompt(&g, BE, 0, 800);
  for (int plan = 1; plan <= 8; plan++) {
    pack(&g, 2);
    expect_items(&g, "0 1");
  }
  g.b.params.be_min_share = .25;
  for (int plan = 1; plan <= 8; plan++) {
    pack(&g, 2);
    expect_items(&g, plan % 4 == 0 ? "2 0" : "0 1");
    pack(&g, 8);
    expect_items(&g, ++plan % 4 == 0 ? "2 0 1" : "0 1");
  }
  rig_free(&g);
}

/* Without replacing, best-effort requests get the remaining memory. */
static void test_no_replace(void **state)
{
  (void)state;
  struct rig g;
  put_example(&g);
  g.b.params.replace = false;
  pack(&g, 2);
  expect_items(&g, "0 1");
  rig_free(&g);
}

/* A prompt takes most of the step, and guesses what no request of the batch needs. */
static void test_guesses_take_what_is_left(void **state)
{
  (void)state;
  struct rig g;
  static const float odds[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  rig_init(&g);
  g.engine.max_step_tokens = 70;
  for (uint32_t i = 0; i < 4; i++) {
    struct lls_request *r = decode(&g, BE, 0, 100);
    r->draft_odds = odds;
    r->drafted_tokens = 4;
  }
  prompt(&g, RT, .1, 60);
  pack(&g, 8);
  expect_items(&g, "4 0 1 2 3");
  for (uint32_t i = 0; i < 5; i++)
    assert_int_equal(g.items[i].drafts, i == 1 ? 4 : i == 2 ? 2 : 0); /* 70 - 60 - 4 */
  rig_free(&g);
}

/* ---- memory -------------------------------------------------------------------- */

/* Best-effort requests are dropped first, the latest first, then real-time ones, the
 * largest slack first; requests already considered stay. */
static void test_drops(void **state)
{
  (void)state;
  struct rig g;
  rig_init(&g);
  decode(&g, BE, 0, 100);
  decode(&g, BE, 0, 100);
  decode(&g, RT, .02, 100);
  decode(&g, RT, .01, 100);
  decode(&g, RT, .12, 100);
  put(&g, BE, 0, 100, 60, 1);
  prompt(&g, RT, .37, 20); /* the first in the queue */
  g.capacity = g.used;
  pack(&g, 1);
  expect_items(&g, "-5 6");
  g.r[6].prompt_tokens = 150;
  g.r[6].last_token_ns += 20000000;
  pack(&g, 1);
  expect_items(&g, "-5 -1 -0 6");
  g.r[6].prompt_tokens = 250;
  g.r[6].last_token_ns += 10000000;
  pack(&g, 1);
  expect_items(&g, "-5 -1 -0 -3 6");
  g.r[6].prompt_tokens = 541; /* it would take more than there is */
  pack(&g, 1);
  assert_true(item_of(&g, 6)->kind == LLS_PLAN_REJECT);
  rig_free(&g);
}

/* A best-effort request is not dropped either if no block would become free. */
static void test_no_drop_for_nothing(void **state)
{
  (void)state;
  struct rig g;
  rig_init(&g);
  decode(&g, BE, 0, 100);
  decode(&g, BE, 0, 100);
  prompt(&g, RT, .37, 20);
  g.shares[1] = true;
  g.capacity = g.used;
  pack(&g, 1);
  expect_items(&g, "-0 2");
  g.shares[0] = true;
  pack(&g, 1);
  assert_true(item_of(&g, 0) == NULL || item_of(&g, 0)->kind == LLS_PLAN_RUN);
  rig_free(&g);
}

/* One request has so little time left that the others, which have some, would all
 * become late for it: it is given up if not all can be in time. */
static void test_overload(void **state)
{
  (void)state;
  struct rig g;
  rig_init(&g);
  g.b.cost.decode = (struct bros_line){.a0 = 5e-3, .beta = 12e-3};
  decode(&g, RT, .18, 100);
  for (int i = 0; i < 20; i++)
    decode(&g, RT, .05, 100);
  pack(&g, 24);
  assert_int_equal(g.b.rt_ready.n, 1);
  g.b.params.overload = true;
  pack(&g, 24);
  assert_int_equal(g.b.rt_ready.n, 21); /* it is last */
  assert_int_equal(g.b.rt_ready.items[20]->request->id, 0);
  assert_int_equal(g.b.n_left_out, 1);
  expect_number(g.b.t_res, .15, 1e-9);
  g.b.cost.decode.beta = 0; /* with enough time, all in turns */
  pack(&g, 24);
  assert_int_equal(g.b.n_left_out, 0);
  expect_number(g.b.t_res, .02, 1e-9);
  rig_free(&g);
}

/* A best-effort prompt waits if the host could not hold all tokens that can be
 * displaced, as long as any other request runs; blocks have 16 tokens and two units. */
static void test_waits_for_host(void **state)
{
  (void)state;
  struct rig g;
  rig_init(&g);
  decode(&g, RT, .1, 100);
  decode(&g, BE, 0, 200);
  prompt(&g, BE, 0, 120);
  g.host_units = 200;
  g.host_free = 2 * 336 / 16; /* 200, 120 and the next one */
  pack(&g, 8);
  expect_items(&g, "2 0 1");
  g.host_free -= 2;
  pack(&g, 8);
  expect_items(&g, "0 1");
  g.host_free = g.host_units; /* no other request runs */
  pack(&g, 8);
  expect_items(&g, "2 0 1");
  g.host_free = 0;
  g.r[0].request_class = BE; /* no request displaces */
  pack(&g, 8);
  expect_items(&g, "2 0 1");
  rig_free(&g);
}

/* A best-effort prompt leaves free the memory that displaced requests need to return,
 * whether or not any other request runs; while it waits these are considered
 * nevertheless. */
static void test_prompts_wait_for_displaced(void **state)
{
  (void)state;
  struct rig g;
  rig_init(&g);
  decode(&g, RT, .1, 100);
  put(&g, BE, 0, 700, 40, 1); /* three blocks */
  prompt(&g, BE, 0, 80);
  prompt(&g, BE, 0, 60);
  uint32_t held = g.used;
  g.capacity = held + 1 + 80 + 47;
  pack(&g, 8);
  expect_items(&g, "0 1");
  g.capacity++;
  pack(&g, 8);
  expect_items(&g, "2 0 1");
  g.capacity = held + 1 + 41; /* no memory for a prompt in any case */
  pack(&g, 8);
  expect_items(&g, "0 1");
  g.capacity = 1000000;
  g.host_units = 200; /* likewise */
  pack(&g, 8);
  expect_items(&g, "0 1");
  g.host_units = 0;
  g.r[0].request_class = BE;
  g.r[0].state = LLS_PREEMPTED; /* of 100 tokens one block is missing */
  g.r[0].missing_tokens = 16;
  g.used = held - 16;
  g.capacity = g.used + 17 + 41 + 5;
  pack(&g, 8);
  expect_items(&g, "0 1");
  rig_free(&g);
}

/* A best-effort request gets its missing slots during the step, if T_res leaves the
 * link enough time; one displaced by this very plan waits. */
static void test_arriving(void **state)
{
  (void)state;
  struct rig g;
  rig_init(&g);
  g.engine.async_transfers = true;
  struct lls_request *real = decode(&g, RT, .1, 100); /* T_res is 0.1 s */
  decode(&g, BE, 0, 900);
  put(&g, BE, 0, 700, 40, 1);
  put(&g, BE, 0, 2900, 2800, 1); /* 56 ms of copies */
  pack(&g, 8);
  expect_items(&g, "0 1 ^2 ^3");
  expect_number(bros_time(&g.b.cost, &g.b.load), 2840 * 2e-5, 1e-9);
  assert_int_equal(g.n_taken, 2); /* the running requests */
  real->last_token_ns -= INT64_C(50000000);
  pack(&g, 8);
  expect_items(&g, "0 1 ^2");
  g.r[2].state = LLS_DECODING;
  pack(&g, 8);
  expect_items(&g, "0 1");
  rig_free(&g);
  rig_init(&g);
  g.engine.async_transfers = true;
  put(&g, BE, 0, 700, 40, 1);
  pack(&g, 8); /* with no step to overlap */
  expect_items(&g, "0");
  rig_free(&g);
}

/* No request is dropped for one that time excludes. */
static void test_no_drop_for_the_late(void **state)
{
  (void)state;
  struct rig g;
  rig_init(&g);
  decode(&g, BE, 0, 500);
  decode(&g, RT, .18, 100);
  prompt(&g, RT, 0, 300);
  g.capacity = g.used + 1;
  pack(&g, 8);
  expect_items(&g, "1");
  rig_free(&g);
}

/* A request that others were dropped for stays, since they would get their memory back.
 * Otherwise the memory reserved for a replaced request is released, and nothing
 * else. */
static void test_replacing_and_memory(void **state)
{
  (void)state;
  struct rig g;
  rig_init(&g);
  decode(&g, BE, 0, 20);
  decode(&g, BE, 0, 100);
  decode(&g, RT, .17, 50);
  prompt(&g, RT, 0, 60);
  g.capacity = g.used + 2;
  pack(&g, 2);
  expect_items(&g, "-1 3 2");
  g.capacity = g.used + 200;
  pack(&g, 2);
  expect_items(&g, "2 0");
  assert_true(g.b.n_replaced == 1);
  assert_int_equal(g.n_taken, 2);
  assert_int_equal(g.used, 20 + 100 + 50 + 2);
  rig_free(&g);
}

/* No request runs, except for the first one with the memory of the others. */
static void test_progress(void **state)
{
  (void)state;
  struct rig g;
  rig_init(&g);
  decode(&g, BE, 0, 100);
  decode(&g, BE, 0, 100);
  decode(&g, BE, 0, 100);
  g.capacity = g.used;
  pack(&g, 8);
  expect_items(&g, "-2 0");
  rig_free(&g);
}

/* A request that cannot grow even alone ends, and is not dropped for the next one as
 * well. */
static void test_rejected_is_not_dropped(void **state)
{
  (void)state;
  struct rig g;
  rig_init(&g);
  decode(&g, BE, 0, 100);
  prompt(&g, BE, 0, 50);
  g.capacity = 100;
  pack(&g, 8);
  expect_items(&g, "x0");
  rig_free(&g);
}

/* ---- the fit ------------------------------------------------------------------- */

/* The paper's form exactly. */
static int64_t exact_ns(void *context, const struct lls_iteration_shape *s)
{
  (void)context;
  double ln = 0, la = 0, n = s->n_decodes, t = 0;
  for (uint32_t i = 0; i < s->n_chunks; i++)
    ln += s->chunks[i].tokens;
  for (uint32_t i = 0; i < s->n_decodes; i++)
    la += s->decode_context[i];
  t += ln > 0 ? 1e-4 * ln + 2e-9 * ln * ln + 4e-3 : 0;
  t += n > 0 ? 5e-5 * n + 1e-9 * n * la + 12e-3 : 0;
  return (int64_t)(t * 1e9 + .5);
}

/* Longer prompts take less: the best line without negative terms is flat. */
static int64_t odd_ns(void *context, const struct lls_iteration_shape *s)
{
  return s->n_chunks > 0 ? 100000000 / s->chunks[0].tokens : exact_ns(context, s);
}

static int64_t no_ns(void *context, const struct lls_iteration_shape *s)
{
  (void)context, (void)s;
  return LLS_NEVER;
}

static void test_fit(void **state)
{
  (void)state;
  struct rig g;
  uint32_t contexts[MOST];
  struct lls_chunk_shape chunks[MOST];
  struct lls_cost cost = {.size = sizeof cost, .iteration_ns = no_ns};
  rig_init(&g);
  g.engine.max_step_tokens = 8192;
  g.engine.max_context = 2048;
  g.b.contexts = contexts;
  g.b.chunks = chunks;
  g.b.cost = (struct bros_cost){0};
  bros_fit(&g.b, &cost);
  assert_false(g.b.cost.known);
  cost.iteration_ns = exact_ns;
  bros_fit(&g.b, &cost);
  assert_true(g.b.cost.known);
  expect_number(g.b.cost.prefill.a0, 1e-4, 1e-9);
  expect_number(g.b.cost.prefill.a1, 2e-9, 1e-13);
  expect_number(g.b.cost.prefill.beta, 4e-3, 1e-8);
  expect_number(g.b.cost.decode.a0, 5e-5, 1e-9);
  expect_number(g.b.cost.decode.a1, 1e-9, 1e-13);
  expect_number(g.b.cost.decode.beta, 12e-3, 1e-8);
  cost.iteration_ns = odd_ns;
  bros_fit(&g.b, &cost);
  assert_true(g.b.cost.prefill.a0 == 0 && g.b.cost.prefill.a1 == 0);
  assert_true(g.b.cost.prefill.beta > 0);
  rig_free(&g);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_example_1),
      cmocka_unit_test(test_example_2),
      cmocka_unit_test(test_adaptive_cap),
      cmocka_unit_test(test_t_avg),
      cmocka_unit_test(test_own_deadlines),
      cmocka_unit_test(test_token_groups),
      cmocka_unit_test(test_order_of_missed),
      cmocka_unit_test(test_starvation_guard),
      cmocka_unit_test(test_be_min_share),
      cmocka_unit_test(test_no_replace),
      cmocka_unit_test(test_guesses_take_what_is_left),
      cmocka_unit_test(test_drops),
      cmocka_unit_test(test_no_drop_for_nothing),
      cmocka_unit_test(test_arriving),
      cmocka_unit_test(test_waits_for_host),
      cmocka_unit_test(test_prompts_wait_for_displaced),
      cmocka_unit_test(test_overload),
      cmocka_unit_test(test_no_drop_for_the_late),
      cmocka_unit_test(test_replacing_and_memory),
      cmocka_unit_test(test_progress),
      cmocka_unit_test(test_rejected_is_not_dropped),
      cmocka_unit_test(test_fit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
