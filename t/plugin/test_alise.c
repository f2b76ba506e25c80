/* SPDX-License-Identifier: Apache-2.0 */
/* ALISE's scheduler: remaining time and levels by hand, who goes first, who is lifted. */
#include "t/tap.h"

#include "plugins/schedulers/alise/alise.h"
#include "t/plugin/fake.h"

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
  assert_seconds(alise_remaining(&times, &r, 200), 3.075);
  r = request(100, 30, 129); /* it should have ended: one token at least is left */
  assert_seconds(alise_remaining(&times, &r, 30), 0.0201);
  r = request(500, 50, 0); /* dropped: prompt and answer are prefilled again */
  assert_seconds(alise_remaining(&times, &r, 200), 550 * 2e-4 + 3.075);
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

static struct fake_options one_at_a_time(const char *const *parameters)
{
  return (struct fake_options){
      .scheduler = {"alise", parameters},
      .cache = {"paged", NULL},
      .block_tokens = 16,
      .device_units = 100,
      .max_tokens = 512,
      .max_sequences = 8,
      .max_context = 256,
      .max_requests = 8,
      .audit = true,
  };
}

static struct fake_request *submit(struct fake *f, uint32_t predicted)
{
  int32_t tokens[16] = {0};
  f->next.predicted = predicted;
  f->next.max_new_tokens = 200;
  return fake_submit(f, tokens, 16, predicted);
}

static void test_the_shorter_takes_the_place(void **state)
{
  (void)state;
  struct fake f;
  struct fake_options o = one_at_a_time(POLICY_PARAMETERS("max_seqs", "1", "age", "0"));
  assert_int_equal(fake_open(&f, &o), 0);
  struct fake_request *longer = submit(&f, 100);
  fake_step(&f);
  fake_step(&f);
  assert_int_equal(longer->view.generated_tokens, 2);
  struct fake_request *shorter = submit(&f, 10);
  fake_step(&f);
  assert_int_equal(shorter->view.generated_tokens, 1);
  assert_int_equal(longer->view.generated_tokens, 2);
  fake_finish(&f, 200);
  assert_int_equal(f.finished[LLS_FINISH_LENGTH], 2);
  fake_close(&f);
}

/* A step of the fake takes 1 ms and 0.1 for each token: whoever has not run for ten is
 * lifted for three, some eight steps on. */
static void test_the_aged_is_lifted(void **state)
{
  (void)state;
  struct fake f;
  struct fake_options o =
      one_at_a_time(POLICY_PARAMETERS("max_seqs", "1", "age", "10ms", "boost", "3ms"));
  assert_int_equal(fake_open(&f, &o), 0);
  struct fake_request *shorter = submit(&f, 40), *longer = submit(&f, 100);
  uint32_t waited = 0;
  for (; longer->view.generated_tokens == 0 && waited < 30; waited++)
    fake_step(&f);
  assert_in_range(waited, 7, 10);
  uint32_t said = shorter->view.generated_tokens;
  assert_in_range(said, 6, 9);
  for (int i = 0; i < 60 && shorter->view.generated_tokens == said; i++)
    fake_step(&f);
  assert_true(shorter->view.generated_tokens > said); /* and put down again */
  assert_in_range(longer->view.generated_tokens, 2, 60);
  fake_finish(&f, 300);
  fake_close(&f);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_remaining_time),
      cmocka_unit_test(test_levels),
      cmocka_unit_test(test_the_shorter_takes_the_place),
      cmocka_unit_test(test_the_aged_is_lifted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
