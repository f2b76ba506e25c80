/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every architecture against its reference in f32: however a step is cut, mixed or
 * interrupted, the logits are within 1e-4 and the tokens are the same.
 */
#include "t/gguf_model.h"
#include "t/rules.h"

static void test_model(void **state)
{
  const struct drive_options options = {.weights = LLS_WEIGHTS_F32,
                                        .cache_element = LLS_F32};
  rule_check_all(*state, &options);
}

/* Models whose layers have windows and others, in groups: what left a window is given
 * back, and the logits are the same to the bit as in one group. */
static void test_groups(void **state)
{
  struct drive_options options = {
      .weights = LLS_WEIGHTS_F32, .cache_element = LLS_F32, .block_tokens = 4};
  struct drive_model one = {0}, many = {0};
  drive_open(&one, *state, &options);
  options.groups = LLS_MAX_GROUPS;
  drive_open(&many, *state, &options);
  assert_int_equal(lls_engine_caps(one.engine)->n_groups, 1);
  assert_true(lls_engine_caps(many.engine)->n_groups > 1);
  for (size_t i = 1; i < sizeof rule_cases / sizeof rule_cases[0]; i += 2)
    assert_true(rule_check(&one, *state, &rule_cases[i]) ==
                rule_check(&many, *state, &rule_cases[i]));
  assert_true(rule_check(&one, *state, &rule_left[0]) ==
              rule_check(&many, *state, &rule_left[0]));
  drive_close(&one);
  drive_close(&many);
}

/* The same models converted to GGUF files, as llama.cpp's converter does. */
static void test_gguf(void **state)
{
  struct folder folder;
  char path[128];
  gguf_folder(*state, &folder, path);
  const struct drive_options options = {
      .weights = LLS_WEIGHTS_F32, .cache_element = LLS_F32, .path = path};
  struct drive_model m = {0};
  drive_open(&m, *state, &options);
  rule_check(&m, *state, &rule_cases[1]);
  drive_close(&m);
  folder_remove(&folder);
}

/* Blocks that are no power of two, and ones larger than a chunk. */
static void test_block_sizes(void **state)
{
  const uint32_t sizes[] = {3, 5, 32, 64};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    const struct drive_options options = {
        .weights = LLS_WEIGHTS_F32, .cache_element = LLS_F32, .block_tokens = sizes[i]};
    rule_check_all(*state, &options);
  }
}

static void test_threads(void **state)
{
  const struct drive_options options = {
      .weights = LLS_WEIGHTS_F32, .cache_element = LLS_F32, .threads = 3};
  struct drive_model m = {0};
  drive_open(&m, *state, &options);
  rule_check(&m, *state, &rule_cases[1]);
  rule_check(&m, *state, &rule_cases[6]);
  drive_close(&m);
}

#define MODEL(name)                                                                      \
  {                                                                                      \
    name, test_model, NULL, NULL, name                                                   \
  }

#define IN_GROUPS(name)                                                                  \
  {                                                                                      \
#name " in groups", test_groups, NULL, NULL, name                                    \
  }

#define IN_GGUF(name)                                                                    \
  {                                                                                      \
    "GGUF of " #name, test_gguf, NULL, NULL, name                                        \
  }

int main(void)
{
  static char llama[] = "llama", bf16[] = "llama-bf16", f16[] = "llama-f16",
              sharded[] = "llama-sharded", llama3[] = "llama3-rope",
              linear[] = "llama-linear-rope", biases[] = "llama-biases",
              mistral[] = "mistral", window[] = "mistral-window", opt[] = "opt",
              plain[] = "opt-plain", opt_350m[] = "opt-350m-like", neox[] = "neox",
              serial[] = "neox-serial", stories[] = "stories260K", qwen2[] = "qwen2",
              qwen2_window[] = "qwen2-window", qwen3[] = "qwen3", yarn[] = "qwen3-yarn",
              smollm3[] = "smollm3", olmo2[] = "olmo2", phi3[] = "phi3",
              phi3_long[] = "phi3-long", gemma2[] = "gemma2", gemma3[] = "gemma3",
              mixtral[] = "mixtral", qwen3_moe[] = "qwen3-moe", gpt_oss[] = "gpt-oss";
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
      MODEL(qwen2),
      MODEL(qwen2_window),
      MODEL(qwen3),
      MODEL(yarn),
      MODEL(smollm3),
      MODEL(olmo2),
      MODEL(phi3),
      MODEL(phi3_long),
      MODEL(gemma2),
      MODEL(gemma3),
      MODEL(mixtral),
      MODEL(qwen3_moe),
      MODEL(gpt_oss),
      IN_GROUPS(gemma2),
      IN_GROUPS(gemma3),
      IN_GROUPS(gpt_oss),
      IN_GROUPS(qwen2_window),
      IN_GGUF(llama),
      IN_GGUF(biases),
      IN_GGUF(sharded),
      IN_GGUF(llama3),
      IN_GGUF(qwen2),
      IN_GGUF(qwen3),
      IN_GGUF(olmo2),
      IN_GGUF(phi3),
      IN_GGUF(phi3_long),
      IN_GGUF(yarn),
      IN_GGUF(mixtral),
      IN_GGUF(qwen3_moe),
      IN_GGUF(gpt_oss),
      {"gemma3-images", test_model, NULL, NULL, (void *)"gemma3-images"},
      {"llama-gptq", test_model, NULL, NULL, (void *)"llama-gptq"},
      {"llama-mixed", test_model, NULL, NULL, (void *)"llama-mixed"},
      {"block sizes", test_block_sizes, NULL, NULL, llama},
      {"three threads", test_threads, NULL, NULL, mistral},
      {"block sizes and a window", test_block_sizes, NULL, NULL, window},
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
