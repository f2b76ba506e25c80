/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many tokens fit into how many units (policy/fit.h): learnt from what a cache says
 * it needs, for sequences with and without a fixed part.
 */
#include <llmserve/policy/fit.h>

#include "t/tap.h"

#define TOKENS 16

/* A cache with a block of `full` units for each block of tokens, and one of `window`
 * units for each but at most `most`; and a state. A sequence has `least` blocks from its
 * start, and no more than `end` where that is not 0. */
struct cache {
  uint32_t full, window, most, state, least, end;
};

static int need(void *context, const struct lls_request *r, uint32_t tokens,
                uint32_t form, struct lls_need *out)
{
  const struct cache *c = context;
  uint32_t n = (tokens + TOKENS - 1) / TOKENS;
  (void)r, (void)form;
  n = n < c->least ? c->least : n;
  n = c->end > 0 && n > c->end ? c->end : n;
  out->new_units = c->full * n + c->window * (n < c->most ? n : c->most) + c->state;
  return 0;
}

static void look(struct lls_pol_fit *f, struct cache *c)
{
  const struct lls_group_form form = {.form = LLS_FORM_KV, .block_units = 2};
  const struct lls_group group = {
      .size = sizeof group, .kind = LLS_GROUP_FULL, .n_forms = 1, .forms = &form};
  const struct lls_group *groups[] = {&group};
  const struct lls_engine_caps engine = {
      .size = sizeof engine, .n_groups = 1, .groups = groups};
  const struct lls_cache_service service = {
      .size = sizeof service, .block_tokens = TOKENS, .context = c, .need = need};
  const struct lls_request r = {0}, *waiting[] = {&r};
  const struct lls_step_view view = {
      .size = sizeof view, .n_waiting = 1, .waiting = waiting, .cache = &service};
  lls_pol_fit_init(f, &engine);
  lls_pol_fit_look(f, &view);
}

/* The units are what the cache needs, and as many tokens fit as really do. */
static void check(struct cache c)
{
  struct lls_pol_fit f;
  struct lls_need before = {.size = sizeof before}, after = before;
  look(&f, &c);
  for (uint32_t n = 65; n < 200; n++) {
    need(&c, NULL, n * TOKENS, LLS_FORM_KV, &before);
    need(&c, NULL, (n + 1) * TOKENS, LLS_FORM_KV, &after);
    assert_int_equal(lls_pol_fit_units(&f, n * TOKENS), before.new_units);
    assert_int_equal(lls_pol_fit_units(&f, n * TOKENS - 1), before.new_units);
    if (after.new_units > before.new_units)
      assert_int_equal(lls_pol_fit_tokens(&f, after.new_units - 1), n * TOKENS);
  }
}

static void test_sequences_of_blocks_alone(void **state)
{
  struct lls_pol_fit f;
  struct cache c = {.full = 5};
  (void)state;
  check(c);
  look(&f, &c);
  assert_int_equal(lls_pol_fit_tokens(&f, 4), 0);
  assert_int_equal(lls_pol_fit_tokens(&f, 9), TOKENS);
  assert_int_equal(lls_pol_fit_units(&f, 1), 5);
  assert_int_equal(f.growth_units, 5);
}

/* Short sequences, for which the window is no bound yet, are cut to what fits too. */
static void test_sequences_with_a_fixed_part(void **state)
{
  struct lls_pol_fit f;
  struct cache c = {.full = 5, .window = 50, .most = 10};
  (void)state;
  check(c);
  check((struct cache){.full = 5, .window = 50, .most = 10, .state = 983});
  look(&f, &c);
  assert_int_equal(lls_pol_fit_tokens(&f, 54), 0);
  assert_int_equal(lls_pol_fit_tokens(&f, 3 * 55), 3 * TOKENS);
  assert_int_equal(lls_pol_fit_units(&f, 3 * TOKENS), 3 * 55);
  assert_int_equal(f.growth_units, 5);
}

/* Where all layers have a window a sequence stops growing. */
static void test_sequences_that_stop(void **state)
{
  struct lls_pol_fit f;
  struct cache c = {.window = 50, .most = 10};
  (void)state;
  check(c);
  look(&f, &c);
  assert_int_equal(lls_pol_fit_tokens(&f, 500), UINT32_MAX);
  assert_int_equal(lls_pol_fit_tokens(&f, 499), 9 * TOKENS);
  assert_int_equal(f.growth_units, 50);
}

/* A cache that sets a region aside says nothing of blocks: those of the engine stay. */
static void test_regions(void **state)
{
  struct lls_pol_fit f;
  struct cache c = {.state = 500};
  (void)state;
  look(&f, &c);
  assert_int_equal(lls_pol_fit_tokens(&f, 10), 5 * TOKENS);
  struct cache of_its_length = {.full = 2, .least = 8, .end = 20};
  look(&f, &of_its_length);
  assert_int_equal(f.growth_units, 2);
  assert_int_equal(lls_pol_fit_units(&f, 30 * TOKENS), 60);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sequences_of_blocks_alone),
      cmocka_unit_test(test_sequences_with_a_fixed_part),
      cmocka_unit_test(test_sequences_that_stop),
      cmocka_unit_test(test_regions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
