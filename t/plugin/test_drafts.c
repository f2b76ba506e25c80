/* SPDX-License-Identifier: Apache-2.0 */
/* How many guesses schedulers verify (<llmserve/policy/drafts.h>), against all choices on
 * random steps; and that a step reserves for them. */
#include "t/tap.h"

#include "t/dice.h"

#include <string.h>

#include <llmserve/policy/drafts.h>
#include <llmserve/policy/step.h>

#define MOST   16 /* requests */
#define DRAFTS 6  /* guesses of each */

/* The time of a step: its weights, a row, a guess; LLS_NEVER: unknown. */
static struct times {
  int64_t step_ns, row_ns, draft_ns;
} times;

static int64_t iteration_ns(void *context, const struct lls_iteration_shape *s)
{
  (void)context;
  if (times.step_ns == LLS_NEVER)
    return LLS_NEVER;
  int64_t rows = s->n_decodes;
  for (uint32_t i = 0; i < s->n_chunks; i++)
    rows += s->chunks[i].tokens;
  return times.step_ns + rows * times.row_ns + (int64_t)s->draft_tokens * times.draft_ns;
}

static const struct lls_cost cost = {.size = sizeof cost, .iteration_ns = iteration_ns};

struct scene {
  struct lls_request requests[MOST];
  const struct lls_request *running[MOST];
  int32_t drafts[MOST][DRAFTS];
  float odds[MOST][DRAFTS];
  struct lls_step_view view;
};

/* n decodes with these odds of each guess. */
static void begin(struct scene *s, uint32_t n)
{
  memset(s, 0, sizeof *s);
  for (uint32_t i = 0; i < n; i++) {
    s->requests[i] = (struct lls_request){.id = i + 1,
                                          .state = LLS_DECODING,
                                          .prompt_tokens = 100,
                                          .generated_tokens = 1,
                                          .cached_tokens = 100,
                                          .drafts = s->drafts[i],
                                          .draft_odds = s->odds[i]};
    s->running[i] = &s->requests[i];
  }
  s->view = (struct lls_step_view){.size = sizeof s->view,
                                   .n_running = n,
                                   .running = s->running,
                                   .max_tokens = 1000,
                                   .max_sequences = 1000};
}

static void guess(struct scene *s, uint32_t i, uint32_t n, float odds)
{
  s->requests[i].drafted_tokens = n;
  for (uint32_t k = 0; k < n; k++)
    s->odds[i][k] = odds;
}

/* Returns tokens per ns with the guesses that are verified. */
static double rate(const struct scene *s, const struct lls_pol_drafts *d)
{
  double emitted = s->view.n_running;
  uint32_t n = 0;
  for (uint32_t i = 0; i < s->view.n_running; i++) {
    uint32_t k = lls_pol_drafts_of(d, s->running[i]);
    double odds = 1;
    for (uint32_t j = 0; j < k; j++)
      emitted += odds *= (double)s->odds[i][j];
    n += k;
  }
  return emitted /
         (double)(times.step_ns + s->view.n_running * times.row_ns + n * times.draft_ns);
}

static uint32_t chosen(struct scene *s, uint32_t i)
{
  struct lls_pol_drafts d;
  lls_pol_drafts_choose(&d, &cost, &s->view);
  return lls_pol_drafts_of(&d, &s->requests[i]);
}

static void test_few_requests_verify_and_many_do_not(void **state)
{
  (void)state;
  struct scene s;
  times = (struct times){10000, 100, 1000}; /* the weights are read once */
  begin(&s, 1);
  assert_int_equal(chosen(&s, 0), 0); /* no guess */
  guess(&s, 0, 6, 0.8f);
  assert_int_equal(chosen(&s, 0), 6);
  guess(&s, 0, 6, 0.3f); /* .3, .09, ...: a token costs a tenth of a step */
  assert_in_range(chosen(&s, 0), 1, 2);
  guess(&s, 0, 6, 0.05f);
  assert_int_equal(chosen(&s, 0), 0);
  begin(&s, 16);
  for (uint32_t i = 0; i < 16; i++)
    guess(&s, i, 6, 0.5f); /* a token alone costs 725 ns, a guess of .5 2,000 */
  assert_int_equal(chosen(&s, 0), 0);
  guess(&s, 3, 6, 0.99f);
  times.draft_ns = 300;
  assert_int_equal(chosen(&s, 3), 6);
}

static void test_no_choice_of_a_threshold_is_better(void **state)
{
  (void)state;
  struct scene s;
  struct dice d = {11};
  for (int i = 0; i < TAP_LOTS(2000); i++) {
    uint32_t n = dice(&d, 1, MOST);
    begin(&s, n);
    times = (struct times){dice(&d, 1, 20000), dice(&d, 0, 1000), dice(&d, 1, 2000)};
    for (uint32_t r = 0; r < n; r++)
      guess(&s, r, dice(&d, 0, DRAFTS), (float)dice(&d, 0, 100) / 100);
    struct lls_pol_drafts best = {.least = 2}, ours;
    lls_pol_drafts_choose(&ours, &cost, &s.view);
    double most = rate(&s, &best);
    for (int t = 0; t <= 1000; t++) {
      best.least = t / 1000.0;
      double one = rate(&s, &best);
      most = one > most ? one : most;
    }
    assert_true(rate(&s, &ours) > 0.97 * most);
  }
}

static void test_prompts_in_the_step_pay_for_the_weights(void **state)
{
  (void)state;
  struct scene s;
  times = (struct times){10000, 100, 100};
  begin(&s, 2);
  guess(&s, 0, 6, 0.5f);
  assert_in_range(chosen(&s, 0), 4, 6);
  s.requests[1].state = LLS_PREFILLING; /* the weights are read for it anyway */
  s.requests[1].generated_tokens = 0;
  s.requests[1].cached_tokens = 0;
  assert_int_equal(chosen(&s, 0), 0);
}

static void test_unknown_costs_take_likely_guesses(void **state)
{
  (void)state;
  struct scene s;
  times.step_ns = LLS_NEVER;
  begin(&s, 1);
  guess(&s, 0, 6, 0.8f); /* .8, .64, .51, .41 */
  assert_int_equal(chosen(&s, 0), 3);
  begin(&s, 9);
  guess(&s, 0, 6, 0.8f);
  assert_int_equal(chosen(&s, 0), 0);
}

static void test_fewest_are_verified_in_any_case(void **state)
{
  (void)state;
  struct scene s;
  times = (struct times){10000, 100, 1000};
  begin(&s, 1);
  guess(&s, 0, 6, 0.05f); /* none of them pays */
  s.view.min_drafts = 2;
  assert_int_equal(chosen(&s, 0), 2);
  s.view.min_drafts = DRAFTS + 1; /* more than there are */
  assert_int_equal(chosen(&s, 0), 6);
  guess(&s, 0, 6, 0.8f); /* all of them pay */
  s.view.min_drafts = 2;
  assert_int_equal(chosen(&s, 0), 6);
}

/* ---- in a step ------------------------------------------------------- */

static uint32_t free_tokens, asked[8], n_asked;

static int reserve(void *context, const struct lls_request *r, uint32_t tokens,
                   uint32_t form, uint32_t flags)
{
  (void)context, (void)r, (void)form, (void)flags;
  asked[n_asked++] = tokens;
  if (tokens > free_tokens)
    return LLS_RESERVE_LATER;
  free_tokens -= tokens;
  return LLS_RESERVE_OK;
}

static int capacity(void *context, uint32_t tier, struct lls_capacity *out)
{
  (void)context, (void)tier;
  out->total_units = out->free_units = 1000;
  return 0;
}

static void test_a_step_reserves_for_guesses(void **state)
{
  (void)state;
  struct scene s;
  struct lls_cache_service cache = {
      .size = sizeof cache, .block_tokens = 16, .capacity = capacity, .reserve = reserve};
  struct lls_plan_item items[4];
  struct lls_plan plan = {.size = sizeof plan, .max_items = 4, .items = items};
  struct lls_pol_step step;
  times = (struct times){10000, 100, 100};
  begin(&s, 3);
  for (uint32_t i = 0; i < 3; i++)
    guess(&s, i, 6, 0.9f);
  s.view.cache = &cache;
  s.view.max_tokens = 10;
  lls_pol_step_begin(&step, &s.view, &plan, 0);
  assert_int_equal(lls_pol_step_drafts_of(&step, s.running[0], 1), 0);
  lls_pol_step_drafts(&step, &cost);
  free_tokens = 8; /* for the first with its guesses, then for one token */
  for (uint32_t i = 0; i < 2; i++) {
    assert_int_equal(lls_pol_step_reserve(&step, s.running[i], 1), LLS_RESERVE_OK);
    lls_pol_step_run(&step, s.running[i], 1);
  }
  assert_int_equal(lls_pol_step_reserve(&step, s.running[2], 1), LLS_RESERVE_LATER);
  assert_int_equal(plan.n_items, 2);
  assert_int_equal(items[0].drafts, 6);
  assert_int_equal(items[1].drafts, 0);
  assert_int_equal(n_asked, 4); /* 7, 2 (the third decode has a token), 1, and 1 */
  assert_int_equal(asked[0], 7);
  assert_int_equal(asked[1], 2);
  assert_int_equal(asked[2], 1);
  assert_int_equal(step.tokens, 2);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_few_requests_verify_and_many_do_not),
      cmocka_unit_test(test_no_choice_of_a_threshold_is_better),
      cmocka_unit_test(test_prompts_in_the_step_pay_for_the_weights),
      cmocka_unit_test(test_unknown_costs_take_likely_guesses),
      cmocka_unit_test(test_fewest_are_verified_in_any_case),
      cmocka_unit_test(test_a_step_reserves_for_guesses),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
