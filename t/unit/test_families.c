/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Families of models that differ from the first architectures by switches only, as
 * bench/models/make.py writes them: in f32 their folders give transformers' logits
 * however steps are cut, and so do the GGUF files with llama.cpp's names, and ranks.
 */
#include "t/rules.h"

#include <errno.h>
#include <unistd.h>

static void test_folder(void **state)
{
  const struct drive_options options = {.weights = LLS_WEIGHTS_F32,
                                        .cache_element = LLS_F32};
  rule_check_all(*state, &options);
}

static void check_one(const char *model, const struct drive_options *options)
{
  struct drive_model m = {0};
  drive_open(&m, model, options);
  rule_check(&m, model, &rule_cases[5]);
  drive_close(&m);
}

static void test_ranks(void **state)
{
  const struct drive_options options = {
      .weights = LLS_WEIGHTS_F32, .cache_element = LLS_F32, .ranks = 2};
  check_one(*state, &options);
}

static void test_gguf(void **state)
{
  char relative[128], path[4096];
  snprintf(relative, sizeof relative, "t/data/models/%s/model.gguf", (char *)*state);
  snprintf(path, sizeof path, "%s", source_path(relative));
  const struct drive_options options = {
      .weights = LLS_WEIGHTS_F32, .cache_element = LLS_F32, .path = path};
  check_one(*state, &options);
}

/* Latents in int8: each step is about 1/255 of what a channel spans in a block. */
static void test_int8(void **state)
{
  const struct drive_options options = {
      .weights = LLS_WEIGHTS_F32, .cache_element = LLS_F32, .int8 = LLS_INT8_ALL};
  const struct drive_rule rules[] = {
      {.chunk = 16, .stagger = 2, .int8 = true},
      {.chunk = 16, .stagger = 2, .preempt = 4, .swap = true, .int8 = true}};
  struct drive_model m = {0};
  double worst[2];
  drive_open(&m, *state, &options);
  for (size_t i = 0; i < 2; i++)
    worst[i] = drive_run(&m, &rules[i]).worst_relative;
  drive_close(&m);
  print_message("# int8 latents: a row of logits is off by %.2g\n", worst[0]);
  assert_true(worst[0] > 1e-5 && worst[0] < 0.05 && worst[1] < 0.05);
}

/* A cache manager without the rule of chunks keeps all tokens of all layers. */
static void test_whole_chunks(void **state)
{
  const struct drive_options options = {
      .weights = LLS_WEIGHTS_F32, .cache_element = LLS_F32, .groups = 1};
  check_one(*state, &options);
}

/* A device without an operation refuses the model by the operation's name. */
static void test_extras(void **state)
{
  static const struct {
    char *model;
    const char *name;
    uint32_t extras; /* operations that the device has */
  } cases[] = {
      {"bloom", "does not have ALiBi, which this model needs", 0},
      {"apertus", "does not have xIELU", 0},
      {"nemotron", "does not have the squared ReLU", 0},
      {"glm-4.5", "does not have a router of experts other than a softmax", 0},
      {"qwen2-moe", "does not have a gate of the shared expert", 0},
      {"deepseek-v2", "does not have multi-head latent attention (MLA)", 0},
      {"lfm2", "does not have layers that keep a state of the sequence", 0},
      {"granite-4-h", "does not have layers that keep a state of the sequence", 0},
      {"nemotron-3", "does not have experts without a gate",
       LLS_EXTRA_ALL & ~LLS_EXTRA_PLAIN_EXPERTS},
      {"llama-4", "does not have attention within chunks",
       LLS_EXTRA_ALL & ~LLS_EXTRA_CHUNKS},
      {"gemma-3n", "does not have several hidden states of a token (AltUp)",
       LLS_EXTRA_ALL & ~LLS_EXTRA_STREAMS},
      {"deepseek-v3.2", "does not have an index of tokens (DSA)",
       LLS_EXTRA_ALL & ~LLS_EXTRA_INDEX},
      {"ministral-3", "does not have queries that grow", 0},
      {"gemma-4-31b", "does not have layers with heads of different sizes", 0}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct drive_model m = {0};
    struct lls_worker_rank_options made;
    struct lls_error err = {0};
    const struct drive_options options = {.weights = LLS_WEIGHTS_F32,
                                          .cache_element = LLS_F32};
    drive_prepare(&m, cases[i].model, &options, &made);
    assert_int_equal(lls_cpu_device_create(&made.device, &m.device, &err), 0);
    m.device->extras = cases[i].extras;
    assert_int_equal(
        lls_engine_create(&made.engine, &made.model, m.device, &m.engine, &err),
        -ENOTSUP);
    assert_non_null(strstr(err.text, cases[i].name));
    m.device->ops->destroy(m.device);
    reference_free(m.reference);
  }
}

/* An index that would choose all tokens is left out: its keys are not cached, and the
 * device needs no operation for it. */
static void test_short_contexts(void **state)
{
  (void)state;
  for (uint32_t context = 8; context <= 9; context++) {
    struct drive_model m = {0};
    struct lls_worker_rank_options made;
    struct lls_error err = {0};
    const struct drive_options options = {.weights = LLS_WEIGHTS_F32,
                                          .cache_element = LLS_F32};
    drive_prepare(&m, "glm-5", &options, &made);
    made.engine.max_context = context;
    assert_int_equal(lls_cpu_device_create(&made.device, &m.device, &err), 0);
    m.device->extras = LLS_EXTRA_ALL & ~(context == 8 ? (uint32_t)LLS_EXTRA_INDEX : 0);
    assert_int_equal(
        lls_engine_create(&made.engine, &made.model, m.device, &m.engine, &err), 0);
    assert_int_equal(lls_engine_pool_shape(m.engine)->head_dim, context == 8 ? 24 : 40);
    lls_engine_destroy(m.engine);
    m.device->ops->destroy(m.device);
    reference_free(m.reference);
  }
}

/* Memory that a draft model will take is no part of the free memory of which the pool
 * takes half: where nothing is left the pool holds one step. A device with memory of its
 * own has allocated it already, and what is free there is without it. A layer that
 * guesses is left out where it has no room, and takes none. */
static void test_memory_beside_the_engine(void **state)
{
  uint32_t units[4];
  (void)state;
  for (int i = 0; i < 4; i++) {
    struct drive_model m = {0};
    struct lls_worker_rank_options made;
    struct lls_error err = {0};
    const struct drive_options options = {.weights = LLS_WEIGHTS_F32,
                                          .cache_element = LLS_F32};
    drive_prepare(&m, "llama", &options, &made);
    made.engine.cache_bytes = 0;
    made.engine.beside_bytes = i > 0 ? SIZE_MAX : 0;
    assert_int_equal(lls_cpu_device_create(&made.device, &m.device, &err), 0);
    m.device->has_own_memory = i == 2;
    made.engine.heads = i == 3 ? &made.model : NULL;
    assert_int_equal(
        lls_engine_create(&made.engine, &made.model, m.device, &m.engine, &err), 0);
    units[i] = lls_engine_pool_shape(m.engine)->device_units;
    assert_true(strstr(lls_engine_pool_reason(m.engine), "one step") != NULL || i != 1);
    lls_engine_destroy(m.engine);
    m.device->ops->destroy(m.device);
    reference_free(m.reference);
  }
  assert_true(units[1] > 0 && units[1] < units[0]);
  assert_int_equal(units[2], units[0]);
  assert_int_equal(units[3], units[0]);
}

/* A context longer than the model's is the model's: the device needs no more for it. */
static void test_long_contexts(void **state)
{
  (void)state;
  struct drive_model m = {0};
  struct lls_worker_rank_options made;
  struct lls_error err = {0};
  const struct drive_options options = {.weights = LLS_WEIGHTS_F32,
                                        .cache_element = LLS_F32};
  drive_prepare(&m, "glm-5", &options, &made);
  made.model.max_context = made.model.latent.index.chosen;
  made.engine.max_context = 1 << 20;
  assert_int_equal(lls_cpu_device_create(&made.device, &m.device, &err), 0);
  m.device->extras = LLS_EXTRA_ALL & ~(uint32_t)LLS_EXTRA_INDEX;
  assert_int_equal(
      lls_engine_create(&made.engine, &made.model, m.device, &m.engine, &err), 0);
  assert_int_equal(lls_engine_caps(m.engine)->max_context, made.model.max_context);
  lls_engine_destroy(m.engine);
  m.device->ops->destroy(m.device);
  reference_free(m.reference);
}

/* A cache manager that keeps no states, or too few groups beside them. */
static void test_managers(void **state)
{
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct drive_model m = {0};
    struct lls_worker_rank_options made;
    struct lls_error err = {0};
    const struct drive_options options = {.weights = LLS_WEIGHTS_F32,
                                          .cache_element = LLS_F32};
    drive_prepare(&m, "lfm2", &options, &made);
    made.engine.keeps_states = i == 0;
    made.engine.groups = i == 0 ? 1 : 2;
    assert_int_equal(lls_cpu_device_create(&made.device, &m.device, &err), 0);
    assert_int_equal(
        lls_engine_create(&made.engine, &made.model, m.device, &m.engine, &err),
        -ENOTSUP);
    assert_non_null(strstr(err.text, "keep a state of each sequence"));
    m.device->ops->destroy(m.device);
    reference_free(m.reference);
  }
}

/* A family's three tests; without a GGUF file the third is left out. */
static size_t add_family(struct CMUnitTest *tests, size_t n, char *name)
{
  char relative[128];
  tests[n++] = (struct CMUnitTest){name, test_folder, NULL, NULL, name};
  tests[n++] = (struct CMUnitTest){"ranks", test_ranks, NULL, NULL, name};
  snprintf(relative, sizeof relative, "t/data/models/%.32s/model.gguf", name);
  if (access(source_path(relative), R_OK) == 0)
    tests[n++] = (struct CMUnitTest){"GGUF", test_gguf, NULL, NULL, name};
  return n;
}

/* Arguments, if there are any, name the models of $LLS_SRCDIR/t/data/models to test:
 * bench/models/table.py makes those of every family. */
int main(int argc, char **argv)
{
  static char *names[] = {
      "qwen3-vl",
      "qwen2.5-vl",
      "mistral-small-3",
      "granite-3",
      "ernie-4.5",
      "command-r",
      "command-r7b",
      "exaone-4",
      "olmo-3",
      "seed-oss",
      "hunyuan",
      "starcoder2",
      "gpt-2",
      "gpt-j",
      "phi-2",
      "stablelm",
      "falcon",
      "falcon-40b",
      "glm-4",
      "apertus",
      "bloom",
      "mpt",
      "nemotron",
      "minicpm",
      "pythia",
      "ministral-3",
      "qwen2-moe",
      "glm-4.5",
      "minimax-m2",
      "hunyuan-a13b",
      "hy3",
      "ernie-4.5-moe",
      "deepseek-v2",
      "deepseek-v2-groups",
      "deepseek-v3",
      "deepseek-v3.2",
      "kimi-k2.5",
      "glm-5",
      "glm-4.7-flash",
      "minicpm3",
      "gemma-4-e4b",
      "gemma-4-31b",
      "gemma-4-26b",
      "gemma-3n",
      "qwen3-vl-moe",
      "gpt-oss-16",
      "lfm2",
      "qwen3-next",
      "qwen3.5",
      "qwen3.5-moe",
      "mistral-4",
      "mimo",
      "mimo-v2-flash",
      "llama-4",
      "llama-4-top2",
      "granite-4-h",
      "granite-4-micro",
      "nemotron-h",
      "nemotron-3",
      "nemotron-3-super",
      "mamba-2",
      "falcon-h1",
      "falcon-h1-normed",
  };
  static struct CMUnitTest tests[3 * 64 + 6];
  size_t n = 0, n_names = sizeof names / sizeof names[0];
  char **models = argc > 1 ? argv + 1 : names;
  n_names = argc > 1 ? (size_t)argc - 1 : n_names;
  assert_true(n_names <= 64);
  if (argc <= 1) {
    static char latent[] = "deepseek-v3", chunks[] = "llama-4";
    tests[n++] = (struct CMUnitTest){"short", test_short_contexts, NULL, NULL, NULL};
    tests[n++] =
        (struct CMUnitTest){"beside", test_memory_beside_the_engine, NULL, NULL, NULL};
    tests[n++] = (struct CMUnitTest){"long", test_long_contexts, NULL, NULL, NULL};
    tests[n++] = (struct CMUnitTest){"chunks", test_whole_chunks, NULL, NULL, chunks};
    tests[n++] = (struct CMUnitTest){"extras", test_extras, NULL, NULL, NULL};
    tests[n++] = (struct CMUnitTest){"int8", test_int8, NULL, NULL, latent};
    tests[n++] = (struct CMUnitTest){"managers", test_managers, NULL, NULL, NULL};
  }
  for (size_t i = 0; i < n_names; i++)
    n = add_family(tests, n, models[i]);
  return _cmocka_run_group_tests("families", tests, n, NULL, NULL);
}
