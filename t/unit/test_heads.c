/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layers that guess (core/draft/head_rows.c): the guesses are those that torch computes
 * by the same weights (tools/make_draft_heads.py, tools/make_eagle.py), also after wrong
 * guesses, with prompts in parts, and after preemptions; texts are those of a run without
 * it; a layer that is not there, or cannot be used, is refused with a sentence.
 */
#include "t/draft_models.h"

#include <jansson.h>

#include "core/model/heads.h"

#define GUESSES 3
#define PROMPTS 8 /* at most */

static const char *const models[] = {"qwen3.5", "qwen3.5-moe", "qwen3-next",
                                     "deepseek-v3", "glm-4.5"};
#define MODELS (sizeof models / sizeof *models)

/* expected[p][i]: the guesses of torch behind the first 1 + i tokens of the answer to
 * prompt p. */
static int32_t expected[PROMPTS][REFERENCE_MAX_TOKENS][GUESSES];
static uint32_t compared, different, prompts;

static void read_guesses_of(const char *folder)
{
  char path[256];
  const char *root = getenv("LLS_SRCDIR");
  snprintf(path, sizeof path, "%s/t/data/models/%s/heads.json", root != NULL ? root : ".",
           folder);
  json_t *file = json_load_file(path, 0, NULL);
  assert_non_null(file);
  prompts = (uint32_t)json_array_size(json_object_get(file, "prompts"));
  assert_in_range(prompts, 1, PROMPTS);
  for (size_t p = 0; p < prompts; p++) {
    const json_t *prompt = json_array_get(json_object_get(file, "prompts"), p);
    const json_t *list = json_object_get(prompt, "guesses");
    assert_in_range(json_array_size(list), TOKENS, REFERENCE_MAX_TOKENS);
    for (size_t i = 0; i < json_array_size(list); i++)
      for (size_t g = 0; g < GUESSES; g++)
        expected[p][i][g] =
            (int32_t)json_integer_value(json_array_get(json_array_get(list, i), g));
  }
  json_decref(file);
  compared = different = 0;
}

static void read_guesses(const char *model)
{
  char folder[64];
  snprintf(folder, sizeof folder, "%s-mtp", model);
  read_guesses_of(folder);
}

static void check(const struct lls_request *r, const struct lls_draft *d)
{
  uint32_t prompt = (uint32_t)atoi(r->label) % prompts;
  for (uint32_t i = 0; i < d->n_candidates && i < GUESSES; i++) {
    compared++;
    different += d->candidates[i] != expected[prompt][r->generated_tokens - 1][i];
  }
}

static struct run run_of(const char *model, char folder[64])
{
  snprintf(folder, 64, "%s-mtp", model);
  return (struct run){
      .model = folder, .heads = true, .reference = model, .weights = LLS_WEIGHTS_F32};
}

static void test_guesses_are_those_of_torch(void **state)
{
  (void)state;
  for (size_t i = 0; i < MODELS; i++)
    for (int spoils = 0; spoils < 2; spoils++) {
      char folder[64];
      struct run run = run_of(models[i], folder);
      run.spoils = spoils;
      run.sees = check;
      read_guesses(models[i]);
      compare(&run);
      assert_int_equal(different, 0);
      assert_true(compared > REQUESTS * TOKENS);
      assert_true(drafter.drafted > REQUESTS * TOKENS);
    }
}

/* Steps with several rows that become text, as the layer's guesses hardly ever do here:
 * the next guesses are those of all of these rows. */
static void test_guesses_behind_accepted_ones(void **state)
{
  (void)state;
  for (size_t i = 0; i < MODELS; i++) {
    char folder[64];
    struct run run = run_of(models[i], folder);
    run.knows = true;
    run.spoils = i % 2 == 0;
    run.sees = check;
    read_guesses(models[i]);
    compare(&run);
    assert_int_equal(different, 0);
    assert_true(compared > REQUESTS * TOKENS / 4);
    assert_true(drafter.accepted > REQUESTS * TOKENS / 2);
  }
}

/* Rows of a step in several passes; requests that are computed again, or come back from
 * the host. */
static void test_rows_in_parts_and_preemptions(void **state)
{
  (void)state;
  for (size_t i = 0; i < MODELS; i++) {
    char folder[64];
    struct run run = run_of(models[i], folder);
    run.rows = 3;
    run.preempt = 7;
    run.sees = check;
    read_guesses(models[i]);
    compare(&run);
    assert_int_equal(different, 0);
    assert_true(compared > REQUESTS * TOKENS / 2); /* a pass has three rows at most */
  }
  char folder[64];
  struct run run = run_of("glm-4.5", folder);
  run.preempt = 5;
  run.preempt_mode = LLS_PREEMPT_SWAP;
  run.host_units = 512;
  run.spoils = true;
  run.sees = check;
  read_guesses("glm-4.5");
  compare(&run);
  assert_int_equal(different, 0);
  assert_true(compared > REQUESTS * TOKENS);
}

static void test_text_is_the_same_at_any_temperature(void **state)
{
  (void)state;
  for (size_t i = 0; i < MODELS; i++)
    for (int way = 1; way < WAYS; way++) {
      char folder[64];
      struct run run = run_of(models[i], folder);
      run.set = ways[way];
      compare(&run);
      assert_true(drafter.drafted > REQUESTS * TOKENS / 2);
    }
}

/* Requests that find no room begin again where rows are seen; guesses have a budget,
 * reading has none. */
static void test_little_room_and_little_time(void **state)
{
  char folder[64];
  struct run run = run_of("glm-4.5", folder);
  (void)state;
  run.blocks = 8;
  run.set = warm;
  compare(&run);
  assert_true(drafter.given > 0);
  run.blocks = 0;
  run.budget_ns = 1;
  run.set = NULL;
  run.sees = check;
  read_guesses("glm-4.5");
  compare(&run);
  assert_int_equal(different, 0); /* no row was missed, although few were asked about */
  run.rows = 1;
  run.budget_ns = 10000; /* by the test's clock, reading alone takes longer */
  compare(&run);
  assert_int_equal(different, 0);
  assert_true(drafter.wants > REQUESTS * (TOKENS - 4)); /* at nearly every token */
  assert_true(drafter.given == drafter.wants);
}

/* ---- EAGLE-3 --------------------------------------------------------------------- */

/* The first has an embedding and a head of the model's tokens in common with it, and a
 * list of layers; the second an embedding of its own, all tokens and the usual layers. */
static const struct {
  const char *model, *folder;
} eagles[] = {{"llama", "llama-eagle3"}, {"command-r7b", "command-r7b-eagle3"}};
#define EAGLES (sizeof eagles / sizeof *eagles)

static struct run run_of_eagle(size_t i)
{
  return (struct run){.model = eagles[i].model,
                      .draft = eagles[i].folder,
                      .heads = true,
                      .weights = LLS_WEIGHTS_F32};
}

/* Guesses as they come, wrong ones, the answer, and guesses behind prompts in parts. */
static void test_eagle_guesses_are_those_of_torch(void **state)
{
  (void)state;
  for (size_t i = 0; i < EAGLES; i++)
    for (int way = 0; way < 4; way++) {
      struct run run = run_of_eagle(i);
      run.spoils = way == 1;
      run.knows = way == 2;
      run.rows = way == 3 ? 3 : 0;
      run.preempt = way == 3 ? 7 : 0;
      run.sees = check;
      read_guesses_of(eagles[i].folder);
      compare(&run);
      assert_int_equal(different, 0);
      assert_true(compared > REQUESTS * TOKENS / 4);
    }
}

static void test_eagle_text_is_the_same(void **state)
{
  (void)state;
  for (size_t i = 0; i < EAGLES; i++)
    for (int way = 1; way < WAYS; way++) {
      struct run run = run_of_eagle(i);
      run.set = ways[way];
      compare(&run);
      assert_true(drafter.drafted > REQUESTS * TOKENS / 2);
    }
  struct run run = run_of_eagle(0);
  run.blocks = 8;
  run.set = warm;
  compare(&run);
  assert_true(drafter.given > 0);
}

static void read_model(const char *name, struct lls_model_config *out)
{
  struct lls_error err = {0};
  char path[512];
  const char *root = getenv("LLS_SRCDIR");
  snprintf(path, sizeof path, "%s/t/data/models/%s", root != NULL ? root : ".", name);
  assert_int_equal(lls_model_config_read(path, out, &err), 0);
}

static int read_eagle(const char *name, const struct lls_model_config *model,
                      struct lls_model_config *out, struct lls_error *err)
{
  char path[512];
  const char *root = getenv("LLS_SRCDIR");
  snprintf(path, sizeof path, "%s/t/data/models/%s", root != NULL ? root : ".", name);
  return lls_eagle_config_read(path, model, out, err);
}

static void test_which_folders_fit(void **state)
{
  struct lls_model_config llama, other, out;
  struct lls_error err = {0};
  (void)state;
  read_model("llama", &llama);
  read_model("command-r7b", &other);
  assert_int_equal(read_eagle("llama-eagle3", &llama, &out, &err), 0);
  assert_int_equal(out.eagle.layers[0], 0);
  assert_int_equal(out.eagle.layers[2], 1);
  assert_int_equal(out.eagle.rows, 200);
  assert_false(out.eagle.own_embedding);
  assert_int_equal(read_eagle("command-r7b-eagle3", &other, &out, &err), 0);
  assert_int_equal(out.eagle.layers[0], 2);
  assert_int_equal(out.eagle.layers[2], 1);
  assert_true(out.eagle.own_embedding);
  assert_int_equal(read_eagle("llama", &llama, &out, &err), -ENOENT); /* a model */
  assert_int_equal(read_eagle("llama-eagle3", &other, &out, &err), -EINVAL);
  assert_non_null(strstr(err.text, "rows of 64 numbers and 256 tokens"));
  llama.embed_dim = 32; /* the folder has no embedding */
  assert_int_equal(read_eagle("llama-eagle3", &llama, &out, &err), -EINVAL);
  assert_non_null(strstr(err.text, "the model's have 32"));
  llama.layers = 1;
  assert_int_equal(read_eagle("llama-eagle3", &llama, &out, &err), -EINVAL);
  assert_non_null(strstr(err.text, "rows of layer 1 of a model of 1 layers"));
}

static int read_heads(const char *model, bool dummy, struct lls_model_config *out,
                      struct lls_error *err)
{
  struct lls_model_config config;
  char path[512];
  const char *root = getenv("LLS_SRCDIR");
  snprintf(path, sizeof path, "%s/t/data/models/%s", root != NULL ? root : ".", model);
  assert_int_equal(lls_model_config_read(path, &config, err), 0);
  return lls_heads_config_read(path, dummy, &config, out, err);
}

static void test_which_models_have_such_a_layer(void **state)
{
  static const char *const without[] = {"llama", "qwen3.5", "qwen3-next", "glm-4.5"};
  struct lls_model_config out;
  struct lls_error err = {0};
  (void)state;
  for (size_t i = 0; i < sizeof without / sizeof *without; i++)
    assert_int_equal(read_heads(without[i], false, &out, &err), -ENOENT);
  assert_int_equal(read_heads("qwen3.5", true, &out, &err), -ENOENT);
  assert_int_equal(read_heads("qwen3.5-mtp", true, &out, &err), 0);
  assert_int_equal(read_heads("qwen3.5-mtp", false, &out, &err), 0);
  assert_int_equal(out.layers, 1);
  assert_int_equal(out.layer[0].mix, LLS_MIX_ATTENTION);
  assert_int_equal(read_heads("deepseek-v3-mtp", false, &out, &err), 0);
  assert_true(out.layer[0].mixture);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_guesses_are_those_of_torch),
      cmocka_unit_test(test_guesses_behind_accepted_ones),
      cmocka_unit_test(test_rows_in_parts_and_preemptions),
      cmocka_unit_test(test_text_is_the_same_at_any_temperature),
      cmocka_unit_test(test_little_room_and_little_time),
      cmocka_unit_test(test_which_models_have_such_a_layer),
      cmocka_unit_test(test_eagle_guesses_are_those_of_torch),
      cmocka_unit_test(test_eagle_text_is_the_same),
      cmocka_unit_test(test_which_folders_fit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
