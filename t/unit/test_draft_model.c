/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The draft model (core/draft): what it guesses is what its model says of the text, also
 * after guesses that were wrong, after long prompts, and where its cache is short; texts
 * are those of a run without it; its passes keep to their budget.
 */
#include "t/draft_models.h"

/* The model as its own draft model: each of its guesses is the text, at any temperature,
 * since it draws with the same random numbers; and as many of those that the drafter has
 * changed as come before the change. */
static void test_guesses_are_what_the_draft_model_says(void **state)
{
  (void)state;
  for (int i = 0; i < WAYS; i++)
    for (int spoils = 0; spoils < 2; spoils++) {
      compare(&(struct run){.draft = MODEL, .set = ways[i], .spoils = spoils});
      assert_true(drafter.drafted > REQUESTS * TOKENS / 3);
      assert_int_equal(drafter.misjudged, 0);
    }
}

static void test_text_is_the_same_with_another_draft_model(void **state)
{
  (void)state;
  for (int i = 0; i < WAYS; i++) {
    compare(&(struct run){.draft = "llama-biases", .set = ways[i]});
    assert_true(drafter.drafted > 0);
  }
  compare(
      &(struct run){.draft = MODEL, .set = warm, .asynchronous = true, .spoils = true});
  assert_int_equal(drafter.misjudged, 0);
}

/* Prompts of more tokens than a pass has rows; requests that lose their cache, which the
 * draft model keeps. */
static void test_prompts_are_read_in_parts(void **state)
{
  (void)state;
  compare(&(struct run){.draft = MODEL, .set = warm, .rows = 3, .preempt = 7});
  assert_true(drafter.given > 0 && drafter.given < drafter.wants);
  assert_int_equal(drafter.misjudged, 0);
}

/* Room for one or two of six requests: the others have no guesses, and are not wrong. */
static void test_a_short_cache_makes_fewer_guesses(void **state)
{
  (void)state;
  compare(&(struct run){.draft = MODEL, .set = warm, .blocks = 10});
  assert_true(drafter.given > 0 && drafter.given < drafter.wants);
  assert_int_equal(drafter.misjudged, 0);
  compare(&(struct run){.draft = MODEL, .blocks = 1});
  /* texts that are read in parts do not keep the rest of others out */
  compare(&(struct run){.draft = MODEL, .set = warm, .blocks = 10, .rows = 8});
  assert_true(drafter.given > 12);
}

/* A pass takes 1 us by this clock. */
static void test_passes_keep_to_their_budget(void **state)
{
  static struct answer answers[REQUESTS];
  (void)state;
  serve(&(struct run){.draft = MODEL}, answers);
  uint32_t free_run = drafter.drafted;
  serve(&(struct run){.draft = MODEL, .budget_ns = 4000}, answers);
  assert_in_range(drafter.drafted, 1, free_run / 2);
  serve(&(struct run){.draft = MODEL, .budget_ns = 1}, answers);
  assert_in_range(drafter.drafted, 0, REQUESTS);
}

/* ---- its parts ------------------------------------------------------------------ */

static void test_blocks_are_those_of_one_request(void **state)
{
  struct lls_draft_cache c;
  (void)state;
  assert_int_equal(lls_draft_cache_init(&c, 4, 6, 2, 8), 0);
  struct lls_draft_sequence *a = lls_draft_cache_find(&c, 0, 100);
  struct lls_draft_sequence *b = lls_draft_cache_find(&c, 1, 101);
  a->used = b->used = 1;
  assert_true(lls_draft_cache_reserve(&c, a, 17, 1));
  assert_int_equal(a->n_blocks, 3);
  assert_int_equal(a->entries[2].first_token, 16);
  assert_int_equal(a->entries[2].block, 4);
  assert_true(lls_draft_cache_reserve(&c, b, 24, 1));
  assert_false(lls_draft_cache_extend(&c, b, 25, 1)); /* for a guess: b keeps its own */
  assert_int_equal(b->n_blocks, 3);
  assert_false(lls_draft_cache_reserve(&c, b, 25, 1)); /* both are in use */
  assert_int_equal(b->n_blocks, 0);                    /* so that a can go on */
  assert_true(lls_draft_cache_reserve(&c, a, 25, 1));
  b->used = 2;
  assert_true(lls_draft_cache_reserve(&c, b, 25, 2)); /* a has given its blocks up */
  assert_int_equal(a->n_blocks, 0);
  assert_false(lls_draft_cache_reserve(&c, b, 49, 2));
  assert_int_equal(lls_draft_cache_find(&c, 1, 105)->n_blocks, 0); /* another request */
  assert_int_equal(c.n_free, 6);
  lls_draft_cache_free(&c);
}

static void test_wrong_guesses_are_forgotten(void **state)
{
  static const int32_t text[] = {1, 2, 3, 4, 5, 6};
  struct lls_draft_sequence s = {.computed = 5, .length = 3, .n_guesses = 3};
  (void)state;
  memcpy(s.guesses, (const int32_t[]){4, 9, 6}, 3 * sizeof *s.guesses);
  lls_draft_cache_settle(&s, text, 6);
  assert_int_equal(s.computed, 4); /* the text's three, and the guess 4 */
  s = (struct lls_draft_sequence){.computed = 3, .length = 3};
  lls_draft_cache_settle(&s, text, 3);
  assert_int_equal(s.computed, 2); /* the last one is to be computed, for its draw */
}

static void test_time_of_a_pass_is_a_line(void **state)
{
  struct lls_pass_time t = {0};
  (void)state;
  assert_int_equal(lls_pass_time_of(&t, 8), 0);
  assert_int_equal(lls_pass_time_rows(&t, 1, 1000), 32);
  for (uint32_t i = 0; i < 40; i++)
    lls_pass_time_add(&t, 1 + i % 16, 10000 + 500 * (1 + i % 16));
  assert_in_range(lls_pass_time_of(&t, 8), 13990, 14010);
  assert_in_range(lls_pass_time_of(&t, 100), 59900, 60100);
  assert_in_range(lls_pass_time_rows(&t, 30000, 1000), 39, 40);
  assert_int_equal(lls_pass_time_rows(&t, 30000, 20), 20);
  assert_int_equal(lls_pass_time_rows(&t, 9000, 1000), 0);
  for (int i = 0; i < 60; i++)
    lls_pass_time_doubt(&t);
  assert_true(lls_pass_time_rows(&t, 9000, 1000) > 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_guesses_are_what_the_draft_model_says),
      cmocka_unit_test(test_text_is_the_same_with_another_draft_model),
      cmocka_unit_test(test_prompts_are_read_in_parts),
      cmocka_unit_test(test_a_short_cache_makes_fewer_guesses),
      cmocka_unit_test(test_passes_keep_to_their_budget),
      cmocka_unit_test(test_blocks_are_those_of_one_request),
      cmocka_unit_test(test_wrong_guesses_are_forgotten),
      cmocka_unit_test(test_time_of_a_pass_is_a_line),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
