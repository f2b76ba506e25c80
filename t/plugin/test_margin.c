/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The margin of steps that are filled up to a deadline: a device whose times are a
 * known factor of the cost model's, and steps filled up to the margin.
 */
#include "t/tap.h"

#include <llmserve/policy/margin.h>

#include <math.h>

#include "t/dice.h"

enum { SEQUENCES = 8, CONTEXT = 400, FILLS = 8000, SETTLED = 1000 };
static const int64_t token_ns = 100000, deadline_ns = 50000000;

struct rig {
  struct lls_request requests[SEQUENCES];
  struct lls_cost cost;
  struct lls_host host;
  struct lls_cache_service cache;
  struct lls_step_view view;
  struct lls_plan_item items[SEQUENCES];
  struct lls_plan plan;
  struct lls_pol_margin margin;
  struct dice dice;
};

/* A token takes 0.1 ms, as long as a thousand tokens of context. */
static int64_t iteration_ns(void *context, const struct lls_iteration_shape *shape)
{
  (void)context;
  int64_t ns = 0;
  for (uint32_t i = 0; i < shape->n_chunks; i++)
    ns += shape->chunks[i].tokens * token_ns + shape->chunks[i].context * 100;
  for (uint32_t i = 0; i < shape->n_decodes; i++)
    ns += token_ns + shape->decode_context[i] * 100;
  return ns;
}

static const struct lls_request *find(void *context, uint64_t id)
{
  struct rig *rig = context;
  return id < SEQUENCES ? &rig->requests[id] : NULL;
}

static uint32_t no_prefix(void *context, const struct lls_request *r)
{
  (void)context;
  (void)r;
  return 0;
}

static void set_up(struct rig *rig)
{
  *rig = (struct rig){.dice = {7}};
  rig->cost = (struct lls_cost){.size = sizeof rig->cost, .iteration_ns = iteration_ns};
  rig->host = (struct lls_host){
      .size = sizeof rig->host, .context = rig, .find = find, .cost = &rig->cost};
  rig->cache.prefix = no_prefix;
  rig->view.cache = &rig->cache;
  rig->plan.items = rig->items;
  rig->plan.max_items = SEQUENCES;
  for (uint32_t i = 0; i < SEQUENCES; i++)
    rig->requests[i] = (struct lls_request){
        .id = i, .cached_tokens = CONTEXT, .state = i == 0 ? LLS_WAITING : LLS_DECODING};
  assert_int_equal(lls_pol_margin_init(&rig->margin, SEQUENCES), 0);
}

/* Runs a step of seven decodes and a chunk of `tokens` tokens, which takes `factor`
 * times the model's estimate; returns its duration. */
static int64_t step(struct rig *rig, uint32_t tokens, double factor)
{
  rig->plan.n_items = 0;
  for (uint32_t i = 0; i < SEQUENCES; i++)
    lls_plan_run(&rig->plan, &rig->requests[i], i == 0 ? tokens : 1);
  lls_pol_margin_planned(&rig->margin, &rig->host, &rig->view, &rig->plan);
  int64_t fixed_ns = (SEQUENCES - 1) * token_ns + SEQUENCES * CONTEXT * 100;
  int64_t ns = (int64_t)(factor * (double)(fixed_ns + tokens * token_ns));
  const struct lls_step_report report = {.size = sizeof report, .ended_ns = ns};
  lls_pol_margin_ran(&rig->margin, &report);
  return ns;
}

/* Returns the share of steps in time, once settled, if each is as full as the margin
 * allows, on a device that takes error times the estimate, with random noise. */
static double in_time(struct rig *rig, double quantile, double error, double noise)
{
  int n = 0;
  for (int k = 0; k < FILLS; k++) {
    lls_pol_margin_begin(&rig->margin, quantile);
    int64_t within_ns = lls_pol_margin_within(&rig->margin, deadline_ns);
    int64_t left_ns = within_ns - (SEQUENCES - 1) * token_ns - SEQUENCES * CONTEXT * 100;
    double factor = error * (1 + noise * (dice(&rig->dice, 0, 2000) / 1000.0 - 1));
    int64_t ns = step(rig, (uint32_t)(left_ns / token_ns), factor);
    n += k >= FILLS - SETTLED && ns <= deadline_ns;
  }
  return n / (double)SETTLED;
}

static void test_a_wrong_estimate_is_made_up_for(void **state)
{
  (void)state;
  static const double errors[] = {0.8, 0.95, 1, 1.02, 1.05, 1.5};
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
    struct rig rig;
    set_up(&rig);
    assert_true(in_time(&rig, 0.99, errors[i], 0) >= 0.97);
    if (fabs(rig.margin.ratio - errors[i]) > 0.02 * errors[i])
      fail_msg("a ratio of %g, not about %g", rig.margin.ratio, errors[i]);
    lls_pol_margin_free(&rig.margin);
  }
}

static void test_the_quantile_is_kept(void **state)
{
  (void)state;
  static const double quantiles[] = {0.5, 0.9, 0.99};
  for (size_t i = 0; i < sizeof quantiles / sizeof *quantiles; i++) {
    struct rig rig;
    set_up(&rig);
    double found = in_time(&rig, quantiles[i], 1.05, 0.1);
    if (fabs(found - quantiles[i]) > 0.05)
      fail_msg("%g of the steps in time, not %g", found, quantiles[i]);
    lls_pol_margin_free(&rig.margin);
  }
}

static void test_without_a_margin(void **state)
{
  (void)state;
  struct rig rig;
  set_up(&rig);
  assert_true(in_time(&rig, 0, 1.02, 0) == 0);
  assert_true(in_time(&rig, 0, 1, 0) == 1);
  lls_pol_margin_free(&rig.margin);
}

/* Short steps and steps without a deadline do not change the margin. */
static void test_only_filled_steps_teach(void **state)
{
  (void)state;
  struct rig rig;
  set_up(&rig);
  double before = rig.margin.ratio;
  for (int k = 0; k < 100; k++) {
    lls_pol_margin_begin(&rig.margin, 0.99);
    step(&rig, 1000, 3);
    lls_pol_margin_begin(&rig.margin, 0.99);
    lls_pol_margin_within(&rig.margin, deadline_ns);
    step(&rig, 10, 3);
  }
  assert_true(rig.margin.ratio == before);
  lls_pol_margin_free(&rig.margin);
}

/* A margin inflated by old steps decreases again, even if no step has space for prompts
 * that could show that it is wrong; a correct margin does not. */
static void test_an_inflated_margin_heals(void **state)
{
  (void)state;
  static const double taken[] = {1, 1.5, 2.5};
  for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
    struct rig rig;
    set_up(&rig);
    rig.margin.ratio = 2.6;
    rig.requests[0].state = LLS_DECODING;
    for (int k = 0; k < 150; k++) {
      lls_pol_margin_begin(&rig.margin, 0.99);
      lls_pol_margin_within(&rig.margin, deadline_ns);
      step(&rig, 1, taken[i]);
    }
    assert_true(fabs(rig.margin.ratio - (i < 2 ? taken[i] : 2.6)) < 0.01);
    lls_pol_margin_free(&rig.margin);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_wrong_estimate_is_made_up_for),
      cmocka_unit_test(test_the_quantile_is_kept),
      cmocka_unit_test(test_without_a_margin),
      cmocka_unit_test(test_only_filled_steps_teach),
      cmocka_unit_test(test_an_inflated_margin_heals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
