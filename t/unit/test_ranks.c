/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor parallel ranks as threads: two and four give the logits of the reference within
 * 1e-4 however steps are cut, swapped and restored; models that cannot be divided are
 * refused; and a rank that fails or does not arrive ends the step of all ranks.
 */
#include "t/bad_rank.h"
#include "t/rules.h"
#include "kernels/cpu/device.h"

static const struct drive_options two = {.weights = LLS_WEIGHTS_F32,
                                         .cache_element = LLS_F32,
                                         .groups = LLS_MAX_GROUPS,
                                         .ranks = 2};
static const struct drive_options four = {
    .weights = LLS_WEIGHTS_F32, .cache_element = LLS_F32, .ranks = 4};

static void test_two(void **state)
{
  rule_check_all(*state, &two);
}

static void test_four(void **state)
{
  rule_check_all(*state, &four);
}

/* Unusual block sizes, and several threads on each rank. */
static void test_odd(void **state)
{
  struct drive_options o = two;
  o.block_tokens = 5;
  o.threads = 2;
  rule_check_all(*state, &o);
}

/* ---- what cannot be shared out ------------------------------------------------ */

static void assert_refused(const char *model, uint32_t ranks, const char *sentence)
{
  struct drive_model m = {0};
  struct lls_error err = {0};
  struct lls_worker_rank_options o;
  struct drive_options options = two;
  options.ranks = ranks;
  drive_prepare(&m, model, &options, &o);
  drive_start_ranks(&m, ranks, &o);
  o.device.ranks = o.engine.ranks = m.ranks;
  assert_int_equal(lls_cpu_device_create(&o.device, &m.device, &err), 0);
  int rc = lls_engine_create(&o.engine, &o.model, m.device, &m.engine, &err);
  if (rc >= 0 || strstr(err.text, sentence) == NULL)
    fail_msg("%s on %u ranks: %d, %s", model, ranks, rc, err.text);
  assert_int_equal(lls_worker_ranks_stop(m.followers), 0);
  m.device->ops->destroy(m.device);
  m.ranks->ops->destroy(m.ranks);
  reference_free(m.reference);
}

static void test_refusals(void **state)
{
  (void)state;
  assert_refused("llama", 3, "8 heads cannot be shared out to 3 ranks");
  assert_refused("opt", 8, "4 heads cannot be shared out to 8 ranks");
  assert_refused("stories260K", 8, "172 columns of the inner layer cannot be shared out");
  assert_refused("llama-gptq", 4,
                 "which 4 ranks would cut inside of codes's blocks of 32");
}

/* ---- failures ----------------------------------------------------------------- */

/* Two layers have four sums: the sixth is in the second step, whose end is too late for
 * rank 0's token; so it is the third that fails. */
static void test_a_rank_that_fails(void **state)
{
  (void)state;
  const struct bad_rank fails = {lls_cpu_device_create, 6, false, 60 * LLS_NS_PER_S};
  assert_int_equal(bad_rank_check(&fails, "rank 1: it fell off the bus"), 2);
}

static void test_a_rank_that_does_not_come(void **state)
{
  (void)state;
  const struct bad_rank slow = {lls_cpu_device_create, 6, true, LLS_NS_PER_S / 5};
  assert_int_equal(bad_rank_check(&slow, "rank 1 did not come within 200 ms"), 1);
}

#define BOTH(model)                                                                      \
  {model " on 2", test_two, NULL, NULL, model},                                          \
  {                                                                                      \
    model " on 4", test_four, NULL, NULL, model                                          \
  }

int main(void)
{
  const struct CMUnitTest tests[] = {
      BOTH("llama"),
      {"llama-bf16 on 2", test_two, NULL, NULL, "llama-bf16"},
      BOTH("llama-sharded"),
      {"llama-biases on 2", test_two, NULL, NULL, "llama-biases"},
      {"mistral-window on 4", test_four, NULL, NULL, "mistral-window"},
      BOTH("opt"),
      {"opt-350m-like on 2", test_two, NULL, NULL, "opt-350m-like"},
      BOTH("neox"),
      {"qwen2 on 4", test_four, NULL, NULL, "qwen2"},
      {"qwen3 on 2", test_two, NULL, NULL, "qwen3"},
      {"smollm3 on 2", test_two, NULL, NULL, "smollm3"},
      BOTH("olmo2"),
      {"phi3 on 4", test_four, NULL, NULL, "phi3"},
      {"gemma2 on 2", test_two, NULL, NULL, "gemma2"},
      {"gemma3 on 4", test_four, NULL, NULL, "gemma3"},
      BOTH("mixtral"),
      {"gpt-oss on 2", test_two, NULL, NULL, "gpt-oss"},
      {"qwen3-moe on 4", test_four, NULL, NULL, "qwen3-moe"},
      {"neox-serial on 2", test_two, NULL, NULL, "neox-serial"},
      {"stories260K on 4", test_four, NULL, NULL, "stories260K"},
      {"odd blocks, two threads a rank", test_odd, NULL, NULL, "opt"},
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_a_rank_that_fails),
      cmocka_unit_test(test_a_rank_that_does_not_come),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
