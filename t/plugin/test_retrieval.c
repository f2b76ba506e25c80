/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Predictor `retrieval` in the real loop: its predictions at arrival, predictions that
 * come after a request was scheduled, and the part of its history that survives a
 * reload and a restart.
 */
#include "core/instance/policy_figures.h"
#include "t/folder.h"
#include "t/harness.h"

#include <errno.h>
#include <time.h>

struct scene {
  struct harness h;
  struct lls_prediction at_arrival, at_end;
  uint32_t ended, length;     /* requests that ended; tokens of the last one */
  struct harness_loaded next; /* used in a reload */
};

static void on_arrival(void *context, const struct lls_request *r)
{
  ((struct scene *)context)->at_arrival = r->prediction;
}

static int try_open(struct scene *s, const char *const *parameters, struct lls_error *err)
{
  struct harness_options o = {
      .model = "t/data/models/llama",
      .element = LLS_F32,
      .max_tokens = 64,
      .max_sequences = 4,
      .max_requests = 8,
      .block_tokens = 8,
      .device_units = 128,
      .scheduler = {"fcfs", NULL},
      .cache = {"paged", NULL},
      .predictor = {"retrieval", parameters},
      .observer = {.context = s, .on_arrival = on_arrival},
  };
  *s = (struct scene){0};
  return harness_open(&s->h, &o, err);
}

static void open_scene(struct scene *s, const char *const *parameters)
{
  struct lls_error err = {0};
  if (try_open(s, parameters, &err) < 0)
    fail_msg("%s", err.text);
}

static void close_scene(struct scene *s)
{
  harness_close(&s->h);
  if (s->next.module != NULL)
    policy_unload(&s->next);
}

static void on_event(void *context, const struct lls_event *e)
{
  struct scene *s = context;
  if (e->kind != LLS_EVENT_FINISHED)
    return;
  s->at_end = e->prediction;
  s->length = e->generated_tokens;
  s->ended++;
}

static void start(struct scene *s, const char *text, uint32_t tokens)
{
  static const int32_t prompt[] = {1, 5, 9};
  struct lls_error err;
  uint64_t id;
  struct lls_submission submission = harness_submission(prompt, 3, tokens, NULL);
  submission.text = text;
  submission.text_bytes = text != NULL ? strlen(text) : 0;
  submission.ignore_eos = true;
  assert_int_equal(lls_loop_submit(s->h.loop, &submission, &id, &err), 0);
}

static void step(struct scene *s)
{
  assert_true(lls_loop_step(s->h.loop) >= 0);
  lls_loop_events(s->h.loop, on_event, s);
}

/* Submits a prompt and waits for the end of the answer. */
static void ask(struct scene *s, const char *text, uint32_t tokens)
{
  uint32_t before = s->ended;
  start(s, text, tokens);
  while (s->ended == before)
    step(s);
}

static double figure(struct scene *s, const char *name)
{
  struct lls_loop_policy_stats all;
  lls_loop_policy_stats(s->h.loop, 0, &all);
  for (uint32_t i = 0; i < all.predictor.n; i++)
    if (strcmp(all.predictor.figures[i].name, name) == 0)
      return all.predictor.figures[i].value;
  return -1;
}

static const char *const words[] = {"encoder", "hash", "async", "off", "s0", "0.8", NULL};

static void test_remembers(void **state)
{
  (void)state;
  struct scene s;
  open_scene(&s, words);
  ask(&s, "List five animals.", 12);
  assert_int_equal(s.at_arrival.source, LLS_PREDICTED_PRIOR);
  assert_int_equal(s.at_arrival.length, 12); /* 256, but for max_new_tokens */
  ask(&s, "list five ANIMALS", 40);
  assert_int_equal(s.at_arrival.source, LLS_PREDICTED_HISTORY);
  assert_int_equal(s.at_arrival.length, 12);
  ask(&s, "Who are you?", 40);
  assert_int_equal(s.at_arrival.source, LLS_PREDICTED_PRIOR);
  ask(&s, "list five animals", 50); /* the same vector: the root of 12 x 40 */
  assert_int_equal(s.at_arrival.length, 22);
  assert_true(figure(&s, "entries") == 2);
  assert_true(figure(&s, "hit_rate") == .5);
  close_scene(&s);
}

static void test_tokens_without_a_text(void **state)
{
  (void)state;
  struct scene s;
  open_scene(&s, words);
  ask(&s, NULL, 9);
  ask(&s, NULL, 30);
  assert_int_equal(s.at_arrival.length, 9);
  close_scene(&s);
}

/* A repeated prompt is predicted by its own answer rather than by similar prompts'. */
static void test_a_repeat_is_predicted_from_itself(void **state)
{
  (void)state;
  static const char *const automatic[] = {"encoder", "hash", "async", "off", NULL};
  struct scene s;
  open_scene(&s, automatic);
  ask(&s, "one two three four five", 10);
  ask(&s, "one two three four six", 40);
  ask(&s, "one two three four seven", 44);
  ask(&s, "one two three four five", 50);
  assert_int_equal(s.at_arrival.source, LLS_PREDICTED_HISTORY);
  assert_int_equal(s.at_arrival.length, 10);
  close_scene(&s);
}

/* Without a length model any neighbour is better than the median. */
static void test_threshold_by_itself(void **state)
{
  (void)state;
  static const char *const automatic[] = {"encoder", "hash", "async", "off", NULL};
  struct scene s;
  open_scene(&s, automatic);
  ask(&s, "one two three four five", 10);
  ask(&s, "one six seven eight nine", 40);
  assert_int_equal(s.at_arrival.source, LLS_PREDICTED_HISTORY);
  assert_int_equal(s.at_arrival.length, 10);
  close_scene(&s);
}

/* ---- late -------------------------------------------------------------------------- */

static char encoder[4096];
static const char *const model[] = {"encoder", "model", "encoder_path", encoder, NULL};

/* Waits 1 ms, 2 ms, 4 ms, ...: few rounds on any machine, each of a few steps. */
static void wait_longer(unsigned *round)
{
  int64_t ns = INT64_C(1000000) << (*round < 10 ? (*round)++ : 10);
  nanosleep(&(struct timespec){.tv_sec = ns / LLS_NS_PER_S, .tv_nsec = ns % LLS_NS_PER_S},
            NULL);
}

/* Answers enter the history on the predictor's thread: submits small prompts until they
 * have. */
static void wait_for_entries(struct scene *s, double n)
{
  unsigned round = 0;
  while (figure(s, "entries") < n) {
    wait_longer(&round);
    ask(s, NULL, 1);
  }
}

static void test_a_prediction_comes_late(void **state)
{
  (void)state;
  struct scene s;
  open_scene(&s, model);
  ask(&s, "write a story about a fox", 20);
  wait_for_entries(&s, 1);
  s.at_end = (struct lls_prediction){0};
  start(&s, "write a story about a fox", 240);
  step(&s); /* it has been scheduled */
  assert_int_equal(s.at_arrival.source, LLS_PREDICTED_PRIOR);
  struct lls_loop_status status;
  lls_loop_status(s.h.loop, &status);
  assert_int_equal(status.running, 1);
  unsigned round = 0;
  while (figure(&s, "predictions") < 2) { /* figures are updated when a request ends */
    wait_longer(&round);
    ask(&s, NULL, 1);
    /* the small request's prediction */
    assert_int_equal(s.at_end.source, LLS_PREDICTED_PRIOR);
  }
  for (uint32_t others = s.ended; s.ended == others;)
    step(&s);
  assert_int_equal(s.at_end.source, LLS_PREDICTED_HISTORY);
  assert_int_equal(s.at_end.length, 20);
  close_scene(&s);
}

static void test_what_cannot_be_encoded_has_the_prior(void **state)
{
  (void)state;
  struct scene s;
  open_scene(&s, model);
  while (figure(&s, "median") != 5)
    ask(&s, NULL, 5);
  ask(&s, NULL, 50);
  assert_int_equal(s.at_end.source, LLS_PREDICTED_PRIOR);
  assert_int_equal(s.at_end.length, 5); /* the median */
  close_scene(&s);
}

/* ---- reload, restart --------------------------------------------------------------- */

static int reload(struct scene *s, const char *const *parameters, bool same_module,
                  struct lls_error *err)
{
  struct harness_policy policy = {"retrieval", parameters};
  assert_int_equal(policy_load(LLS_KIND_PREDICTOR, &policy, &s->next, err), 0);
  struct lls_plugin_module *module = same_module ? s->h.predictor.module : s->next.module;
  struct lls_loop_change change = {.policies.predictor = {module, s->next.params},
                                   .limits.strikes = 10};
  int rc = lls_loop_reload_at_once(s->h.loop, &change, err);
  while (rc == 0 && !lls_loop_reloaded(s->h.loop, &rc, err))
    ;
  return rc;
}

static void test_reload(void **state)
{
  (void)state;
  struct scene s;
  struct lls_error err = {0};
  open_scene(&s, words);
  ask(&s, "List five animals.", 12);
  assert_int_equal(reload(&s, words, false, &err), 0);
  ask(&s, "List five animals.", 40);
  assert_int_equal(s.at_arrival.source, LLS_PREDICTED_HISTORY);
  assert_int_equal(s.at_arrival.length, 12);
  assert_true(figure(&s, "predictions") == 2);
  close_scene(&s);
}

/* The new predictor learns an answer that was under way during the reload. */
static void test_reload_under_a_request(void **state)
{
  (void)state;
  struct scene s;
  struct lls_error err = {0};
  open_scene(&s, model);
  start(&s, "how many words are there", 30);
  step(&s);
  assert_int_equal(reload(&s, model, false, &err), 0);
  while (s.ended == 0)
    step(&s);
  wait_for_entries(&s, 1);
  assert_true(figure(&s, "predictions") >= 1); /* it was asked to predict again */
  close_scene(&s);
}

static void test_parameters(void **state)
{
  (void)state;
  static const char *const nearer[] = {"encoder", "hash", "async", "off", "s0",
                                       "1",       "k",    "1",     NULL};
  static const char *const fewer[] = {"encoder", "hash", "async", "off",
                                      "db_max",  "10",   NULL};
  struct scene s;
  struct lls_error err = {0};
  open_scene(&s, words);
  ask(&s, "one two three four five", 10);
  assert_int_equal(reload(&s, nearer, true, &err), 0);
  ask(&s, "one two three four six", 40);
  assert_int_equal(s.at_arrival.source, LLS_PREDICTED_PRIOR);
  close_scene(&s);
  open_scene(&s, words);
  assert_int_equal(reload(&s, fewer, true, &err), -ENOTSUP);
  assert_non_null(strstr(err.text, "only k, s0, fallback and both"));
  close_scene(&s);
}

static void test_restart(void **state)
{
  const struct folder *f = *state;
  char file[128];
  snprintf(file, sizeof file, "%s/history.db", f->path);
  const char *const parameters[] = {"encoder", "hash",    "async", "off", "s0",
                                    "0.8",     "db_file", file,    NULL};
  struct scene s;
  struct lls_error err = {0};
  open_scene(&s, parameters);
  ask(&s, "List five animals.", 12);
  assert_int_equal(reload(&s, parameters, false, &err), 0);
  ask(&s, "List six animals and birds, please.", 14);
  close_scene(&s);
  open_scene(&s, parameters);
  ask(&s, "List five animals.", 40);
  assert_int_equal(s.at_arrival.length, 12);
  ask(&s, "List six animals and birds, please.", 40);
  assert_int_equal(s.at_arrival.length, 14);
  close_scene(&s);
}

static void test_refusals(void **state)
{
  (void)state;
  static const char *const no_model[] = {"encoder", "model", NULL};
  static const char *const no_folder[] = {"encoder_path", "/nowhere", NULL};
  static const char *const no_mlp[] = {"mlp_file", "/nowhere/length.mlp", NULL};
  struct scene s;
  struct lls_error err = {0};
  assert_int_equal(try_open(&s, no_model, &err), -ENOENT);
  assert_non_null(strstr(err.text, "no encoder is named"));
  assert_int_equal(try_open(&s, no_folder, &err), -ENOENT);
  assert_non_null(strstr(err.text, "/nowhere: no config.json"));
  assert_int_equal(try_open(&s, no_mlp, &err), -ENOENT);
  assert_non_null(strstr(err.text, "/nowhere/length.mlp does not exist"));
}

int main(void)
{
  const char *root = getenv("LLS_SRCDIR");
  snprintf(encoder, sizeof encoder, "%s/t/data/encoder/mean", root != NULL ? root : ".");
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_remembers),
      cmocka_unit_test(test_tokens_without_a_text),
      cmocka_unit_test(test_a_repeat_is_predicted_from_itself),
      cmocka_unit_test(test_threshold_by_itself),
      cmocka_unit_test(test_a_prediction_comes_late),
      cmocka_unit_test(test_what_cannot_be_encoded_has_the_prior),
      cmocka_unit_test(test_reload),
      cmocka_unit_test(test_reload_under_a_request),
      cmocka_unit_test(test_parameters),
      IN_FOLDER(test_restart),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
