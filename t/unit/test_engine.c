/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every architecture against its reference in f32: however a step is cut, mixed or
 * interrupted, the logits are within 1e-4 and the tokens are the same.
 */
#include "t/drive.h"

#define TOLERANCE 1e-4
#define WHOLE     DRIVE_MAX_TOKENS

struct rule_case {
  const char *what;
  struct drive_rule rule;
};

static const struct rule_case cases[] = {
    {"whole prompts, one at a time", {.chunk = WHOLE, .stagger = 70}},
    {"whole prompts together", {.chunk = WHOLE}},
    {"prefills beside decodes", {.chunk = WHOLE, .stagger = 7}},
    {"token by token", {.chunk = 1}},
    {"chunks of 3", {.chunk = 3, .stagger = 2}},
    {"chunks of 16", {.chunk = 16, .stagger = 1}},
    {"chunks of 17", {.chunk = 17, .stagger = 3}},
    {"dropped and computed again", {.chunk = WHOLE, .preempt = 5}},
    {"dropped and computed again in chunks", {.chunk = 13, .stagger = 4, .preempt = 11}},
    {"swapped out and in", {.chunk = 16, .stagger = 2, .preempt = 4, .swap = true}},
};

/* Returns the worst error of a logit. */
static double check(const struct drive_model *m, const char *model,
                    const struct rule_case *c)
{
  struct drive_outcome o = drive_run(m, &c->rule);
  if (!(o.worst_absolute <= TOLERANCE) || o.wrong_tokens > 0)
    fail_msg("%s, %s: worst logit error %g, %u wrong tokens", model, c->what,
             o.worst_absolute, o.wrong_tokens);
  return o.worst_absolute;
}

static const struct rule_case left[] = {
    {"blocks filled from both sides", {.chunk = 17, .stagger = 3, .reversed = true}},
};

/* In hidden form, mixed with KV form in one batch, and changing over. */
static const struct rule_case hidden[] = {
    {"hidden, whole prompts", {.chunk = WHOLE, .hidden = true}},
    {"hidden, token by token", {.chunk = 1, .hidden = true}},
    {"hidden, chunks of 13", {.chunk = 13, .stagger = 2, .hidden = true}},
    {"hidden, dropped", {.chunk = 16, .stagger = 2, .preempt = 5, .hidden = true}},
    {"hidden, to KV", {.chunk = 16, .stagger = 3, .hidden = true, .convert = 4}},
    {"hidden, to KV, reversed",
     {.chunk = 7, .stagger = 1, .hidden = true, .convert = 7, .reversed = true}},
};

static void check_all(const char *model, const struct drive_options *options)
{
  struct drive_model m = {0};
  double worst = 0;
  drive_open(&m, model, options);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    worst = fmax(worst, check(&m, model, &cases[i]));
  worst = fmax(worst, check(&m, model, &left[0]));
  bool offered = lls_engine_why_no_hidden(m.engine) == NULL;
  for (size_t i = 0; offered && i < sizeof hidden / sizeof hidden[0]; i++)
    worst = fmax(worst, check(&m, model, &hidden[i]));
  assert_int_equal(offered, (lls_engine_caps(m.engine)->forms & LLS_BIT_HIDDEN) != 0);
  print_message("# %s: worst error of a logit %.2g%s\n", model, worst,
                offered ? ", hidden form too" : "");
  drive_close(&m);
}

static void test_model(void **state)
{
  const struct drive_options options = {.weights = LLS_WEIGHTS_F32,
                                        .cache_element = LLS_F32};
  check_all(*state, &options);
}

/* Blocks that are no power of two, and ones larger than a chunk. */
static void test_block_sizes(void **state)
{
  const uint32_t sizes[] = {3, 5, 32, 64};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    const struct drive_options options = {
        .weights = LLS_WEIGHTS_F32, .cache_element = LLS_F32, .block_tokens = sizes[i]};
    check_all(*state, &options);
  }
}

static void test_threads(void **state)
{
  const struct drive_options options = {
      .weights = LLS_WEIGHTS_F32, .cache_element = LLS_F32, .threads = 3};
  struct drive_model m = {0};
  drive_open(&m, *state, &options);
  check(&m, *state, &cases[1]);
  check(&m, *state, &cases[6]);
  drive_close(&m);
}

#define MODEL(name)                                                                      \
  {                                                                                      \
    name, test_model, NULL, NULL, name                                                   \
  }

int main(void)
{
  static char llama[] = "llama", bf16[] = "llama-bf16", f16[] = "llama-f16",
              sharded[] = "llama-sharded", llama3[] = "llama3-rope",
              linear[] = "llama-linear-rope", biases[] = "llama-biases",
              mistral[] = "mistral", window[] = "mistral-window", opt[] = "opt",
              plain[] = "opt-plain", opt_350m[] = "opt-350m-like", neox[] = "neox",
              serial[] = "neox-serial", stories[] = "stories260K";
  const struct CMUnitTest tests[] = {
      MODEL(llama),
      MODEL(bf16),
      MODEL(f16),
      MODEL(sharded),
      MODEL(llama3),
      MODEL(linear),
      MODEL(biases),
      MODEL(mistral),
      MODEL(window),
      MODEL(opt),
      MODEL(plain),
      MODEL(opt_350m),
      MODEL(neox),
      MODEL(serial),
      MODEL(stories),
      {"block sizes", test_block_sizes, NULL, NULL, llama},
      {"three threads", test_threads, NULL, NULL, mistral},
      {"block sizes and a window", test_block_sizes, NULL, NULL, window},
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
