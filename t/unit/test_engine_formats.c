/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rounded weights and caches. bf16: the logits of every row are within 2e-2 of the
 * reference (norm of the error over norm of the row) and the 64 greedy tokens the same,
 * unless the reference itself has two logits closer than that error there. int8 and
 * int4 weights: the error is printed, and its bound is only tight enough to detect a
 * wrong scale.
 */
#include "t/drive.h"
#include "t/gguf_model.h"

#define BF16_TOLERANCE 2e-2
#define INT8_TOLERANCE 0.1
#define INT4_TOLERANCE 0.9

static const struct drive_rule rules[] = {
    {.chunk = DRIVE_MAX_TOKENS},
    {.chunk = 16, .stagger = 3, .preempt = 9},
    /* only if the model offers hidden form */
    {.chunk = 16, .stagger = 3, .hidden = true, .convert = 9},
};

static bool applies(const struct drive_model *m, const struct drive_rule *rule)
{
  return !rule->hidden || lls_engine_why_no_hidden(m->engine) == NULL;
}

static struct drive_outcome run_with(const char *model,
                                     const struct drive_options *options)
{
  struct drive_model m = {0};
  drive_open(&m, model, options);
  struct drive_outcome worst = {0};
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    if (!applies(&m, &rules[i]))
      continue;
    struct drive_outcome o = drive_run(&m, &rules[i]);
    if (!(o.worst_relative <= worst.worst_relative))
      worst.worst_relative = o.worst_relative;
    if (!(o.worst_absolute <= worst.worst_absolute))
      worst.worst_absolute = o.worst_absolute;
    if (o.wrong_tokens > 0)
      worst.gap_at_wrong = o.gap_at_wrong;
    worst.wrong_tokens += o.wrong_tokens;
  }
  drive_close(&m);
  print_message("# %s: weights %d, cache %d: worst relative error of a row %.2g, of a "
                "logit %.2g, %u other tokens\n",
                model, options->weights, options->cache_element, worst.worst_relative,
                worst.worst_absolute, worst.wrong_tokens);
  return worst;
}

static struct drive_outcome run(const char *model, enum lls_weight_format weights,
                                enum lls_dtype cache)
{
  const struct drive_options options = {.weights = weights, .cache_element = cache};
  return run_with(model, &options);
}

static void test_bf16(void **state)
{
  const enum lls_dtype caches[] = {LLS_F32, LLS_BF16};
  for (size_t i = 0; i < 2; i++) {
    struct drive_outcome o = run(*state, LLS_WEIGHTS_BF16, caches[i]);
    assert_true(o.worst_relative <= BF16_TOLERANCE);
    if (o.wrong_tokens > 0)
      print_message("# a tie: the two best logits of the reference are %g apart\n",
                    o.gap_at_wrong);
    assert_true(o.wrong_tokens == 0 || o.gap_at_wrong < 2 * o.worst_absolute);
  }
}

static void test_auto(void **state)
{
  struct drive_outcome o = run(*state, LLS_WEIGHTS_AUTO, LLS_F32);
  assert_true(o.worst_relative <= BF16_TOLERANCE);
}

/* Weights that stay codes: activations are rounded to 8 bits, scales to 11. */
static void test_codes(void **state)
{
  struct drive_outcome o = run(*state, LLS_WEIGHTS_AUTO, LLS_F32);
  assert_true(o.worst_relative <= INT8_TOLERANCE);
}

/* Also the blocks of experts in a GGUF file. A rounded activation may make a row's
 * router choose another expert, so the bound is that of int4. */
static void test_codes_of_experts(void **state)
{
  struct folder folder;
  char path[128];
  gguf_folder(*state, &folder, path);
  const struct drive_options options = {.cache_element = LLS_F32, .path = path};
  struct drive_outcome o = run_with(*state, &options);
  folder_remove(&folder);
  assert_true(o.worst_relative <= INT4_TOLERANCE);
}

static void test_int8(void **state)
{
  struct drive_outcome o = run(*state, LLS_WEIGHTS_INT8, LLS_F32);
  assert_true(o.worst_relative <= INT8_TOLERANCE);
}

static void test_int4(void **state)
{
  struct drive_outcome o = run(*state, LLS_WEIGHTS_INT4, LLS_F32);
  assert_true(o.worst_relative <= INT4_TOLERANCE);
}

#define ALL(test)                                                                        \
  {#test " llama", test, NULL, NULL, llama}, {#test " bf16", test, NULL, NULL, bf16},    \
      {#test " opt", test, NULL, NULL, opt},                                             \
  {                                                                                      \
#test " neox", test, NULL, NULL, neox                                                \
  }

int main(void)
{
  static char llama[] = "llama", bf16[] = "llama-bf16", opt[] = "opt", neox[] = "neox",
              gptq[] = "llama-gptq", mixed[] = "llama-mixed", gpt_oss[] = "gpt-oss";
  const struct CMUnitTest tests[] = {
      ALL(test_bf16),
      ALL(test_auto),
      ALL(test_int8),
      ALL(test_int4),
      {"test_codes gptq", test_codes, NULL, NULL, gptq},
      {"test_codes mixed", test_codes, NULL, NULL, mixed},
      {"test_codes_of_experts gpt-oss", test_codes_of_experts, NULL, NULL, gpt_oss}};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
