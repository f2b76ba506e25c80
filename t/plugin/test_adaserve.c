/* SPDX-License-Identifier: Apache-2.0 */
/* AdaServe: which guesses its two selections choose, by the example of its README, and
 * what it plans of them. */
#include "t/tap.h"

#include <llmserve/policy/paced.h>

#include <string.h>

#define MS     INT64_C(1000000)
#define MOST   3 /* requests */
#define DRAFTS 4 /* guesses of each at most */

struct scene {
  struct lls_request requests[MOST];
  uint64_t user[MOST][LLS_USER_WORDS];
  float odds[MOST][DRAFTS];
  const struct lls_request *running[MOST];
  struct lls_step_view view;
  struct lls_pol_paced selection;
};

/* 10 ms for the decodes, 1 ms for each guess. */
static int64_t iteration_ns(void *context, const struct lls_iteration_shape *s)
{
  bool known = *(const bool *)context;
  return known ? 10 * MS + (int64_t)s->draft_tokens * MS : LLS_NEVER;
}

static bool costs_known = true;
static const struct lls_cost cost = {
    .size = sizeof cost, .context = &costs_known, .iteration_ns = iteration_ns};

/* A decode whose first token came 35 ms ago, with `tokens` since then. */
static void add(struct scene *s, int64_t tpot_ns, uint32_t tokens, uint32_t n,
                const float *odds)
{
  uint32_t i = s->view.n_running++;
  memcpy(s->odds[i], odds, n * sizeof *odds);
  s->user[i][LLS_POL_PACED_BEGAN_NS] = (uint64_t)(100 * MS);
  s->user[i][LLS_POL_PACED_BEGAN_AT] = 1;
  s->requests[i] = (struct lls_request){
      .id = i + 1,
      .state = LLS_DECODING,
      .prompt_tokens = 100,
      .generated_tokens = 1 + tokens,
      .cached_tokens = 100 + tokens,
      .slo = {LLS_NEVER, LLS_NEVER, tpot_ns, LLS_NEVER},
      .user = s->user[i],
      .drafted_tokens = n,
      .draft_odds = s->odds[i],
  };
  s->running[i] = &s->requests[i];
}

/* The example of the README: two requests with a pace, and one without. */
static void begin(struct scene *s)
{
  memset(s, 0, sizeof *s);
  s->view = (struct lls_step_view){.size = sizeof s->view,
                                   .now_ns = 135 * MS,
                                   .max_sequences = 16,
                                   .running = s->running};
  add(s, LLS_NEVER, 7, 2, (const float[]){0.9f, 0.9f});
  add(s, 20 * MS, 1, 2, (const float[]){0.5f, 0.9f});
  add(s, 10 * MS, 2, 4, (const float[]){0.8f, 0.8f, 0.8f, 0.8f});
  assert_int_equal(lls_pol_paced_init(&s->selection, MOST), 0);
}

/* Returns the numbers of guesses as digits: of the request without pace, of the one of
 * 20 ms, of the one of 10 ms. */
static uint32_t chosen(struct scene *s, double stretch)
{
  lls_pol_paced_choose(&s->selection, &cost, &s->view, stretch, 10e6);
  uint32_t digits = 0;
  for (uint32_t i = 0; i < s->view.n_running; i++)
    digits = 10 * digits + lls_pol_paced_of(NULL, s->running[i]);
  return digits;
}

static void test_example(void **state)
{
  (void)state;
  struct scene s;
  begin(&s);
  assert_int_equal(chosen(&s, 1), 0);
  assert_int_equal(chosen(&s, 1.2), 11);
  assert_int_equal(s.selection.for_deadlines, 2); /* one each is their share */
  assert_int_equal(chosen(&s, 1.4), 112);
  assert_int_equal(chosen(&s, 1.6), 213);
  assert_int_equal(s.selection.budget, 6);
  assert_int_equal(s.selection.for_deadlines, 3);
  assert_int_equal(s.selection.for_throughput, 3);
  assert_int_equal(chosen(&s, 1.7), 223);
  assert_int_equal(s.selection.for_deadlines, 4);
  assert_int_equal(chosen(&s, 9), 223); /* .41 does not pay */
  assert_int_equal(s.selection.budget, 8);
  s.view.max_sequences = 3; /* an engine that verifies no more than one's four */
  assert_int_equal(chosen(&s, 9), 112);
  lls_pol_paced_free(&s.selection);
}

/* A request on time is one among others; one that is late comes first. */
static void test_needs(void **state)
{
  (void)state;
  struct scene s;
  begin(&s);
  s.requests[2].generated_tokens = 9; /* eight in 35 ms */
  s.requests[2].cached_tokens = 108;
  assert_int_equal(chosen(&s, 1.3), 210);
  assert_int_equal(chosen(&s, 1.1), 10);
  s.requests[2].slo.tpot_ns = 0;
  assert_int_equal(chosen(&s, 1.1), 1);
  s.requests[2].slo.tpot_ns = LLS_NEVER;
  s.requests[2].slo.tbt_ns = 1 * MS; /* in place of a mean */
  assert_int_equal(chosen(&s, 1.1), 1);
  s.user[2][LLS_POL_PACED_BEGAN_NS] = 0; /* its first token is not yet known of */
  assert_int_equal(chosen(&s, 1.1), 10);
  lls_pol_paced_free(&s.selection);
}

static void test_no_use(void **state)
{
  (void)state;
  struct scene s;
  begin(&s);
  for (uint32_t i = 0; i < MOST; i++)
    s.odds[i][0] = 0;
  s.view.now_ns = 101 * MS; /* nobody is late */
  assert_int_equal(chosen(&s, 9), 0);
  costs_known = false;
  begin(&s);
  assert_int_equal(chosen(&s, 1), 213); /* rather right than wrong */
  costs_known = true;
  s.requests[2].cached_tokens = 50; /* to be computed again */
  s.requests[2].state = LLS_PREFILLING;
  assert_int_equal(chosen(&s, 9), 210); /* with a prompt beside them .45 does not pay */
  lls_pol_paced_free(&s.selection);
}

/* Without deadlines it is as with other schedulers, whatever `stretch` says. */
static void test_without_deadlines(void **state)
{
  (void)state;
  struct scene s;
  begin(&s);
  s.requests[1].slo.tpot_ns = s.requests[2].slo.tpot_ns = LLS_NEVER;
  assert_int_equal(chosen(&s, 1), 223);
  assert_int_equal(s.selection.for_deadlines, 0);
  lls_pol_paced_free(&s.selection);
}

static void test_pace_begins_at_the_first_token(void **state)
{
  (void)state;
  struct scene s;
  begin(&s);
  memset(s.user, 0, sizeof s.user);
  s.requests[0].generated_tokens = 0;
  lls_pol_paced_note(&s.requests[0], 50 * MS);
  assert_int_equal(s.user[0][LLS_POL_PACED_BEGAN_NS], 0);
  s.requests[0].generated_tokens = 3;
  lls_pol_paced_note(&s.requests[0], 60 * MS);
  lls_pol_paced_note(&s.requests[0], 70 * MS);
  assert_int_equal(s.user[0][LLS_POL_PACED_BEGAN_NS], 60 * MS);
  assert_int_equal(s.user[0][LLS_POL_PACED_BEGAN_AT], 3);
  lls_pol_paced_free(&s.selection);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_example),
      cmocka_unit_test(test_needs),
      cmocka_unit_test(test_no_use),
      cmocka_unit_test(test_without_deadlines),
      cmocka_unit_test(test_pace_begins_at_the_first_token),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
