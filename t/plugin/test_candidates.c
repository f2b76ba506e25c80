/* SPDX-License-Identifier: Apache-2.0 */
/* The drafters model and auto: how many candidates of the draft model they want, by what
 * these cost and how often they were right; what they guess of them. */
#include "t/tap.h"

#include "t/policy.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#define SLOTS 4
#define MAX   7
#define MOST  4096 /* tokens of a text */

static struct scene {
  struct lls_engine_caps engine;
  struct lls_host host;
  struct harness_loaded plugin;
  const struct lls_drafter_vtable *d;
  void *self;
} scene;

static struct asked { /* the request */
  struct lls_request r;
  int32_t tokens[MOST];
} asked;

static int fail_with(void *context, int code, const char *format, ...)
{
  (void)context, (void)format;
  return code;
}

static void begin(const char *name, const char *const *parameters)
{
  struct lls_error err = {0};
  const struct harness_policy policy = {name, parameters};
  scene = (struct scene){
      .engine = {.size = sizeof scene.engine, .max_requests = SLOTS, .max_drafts = MAX}};
  scene.host = (struct lls_host){.api_version = LLS_API_VERSION,
                                 .size = sizeof scene.host,
                                 .fail = fail_with,
                                 .engine = &scene.engine};
  if (policy_load(LLS_KIND_DRAFTER, &policy, &scene.plugin, &err) < 0)
    fail_msg("%s", err.text);
  scene.d = &scene.plugin.module->drafter;
  assert_int_equal(scene.d->create(&scene.host, scene.plugin.params, &scene.self), 0);
}

static void end(void)
{
  scene.d->destroy(scene.self);
  policy_unload(&scene.plugin);
}

/* A request with a prompt of n tokens: 1, 2, ... */
static void arrive(uint32_t n)
{
  asked = (struct asked){
      .r = {.id = 1, .slot = 1, .prompt_tokens = n, .max_new_tokens = MOST - n}};
  asked.r.tokens = asked.tokens;
  for (uint32_t i = 0; i < n; i++)
    asked.tokens[i] = (int32_t)(i + 1);
  scene.d->on_arrival(scene.self, &asked.r);
}

static void answer(int32_t token)
{
  asked.tokens[lls_request_length(&asked.r)] = token;
  asked.r.generated_tokens++;
}

/* Costs in us of a step, a further row, a pass. */
static struct lls_draft_work costs(int64_t step, int64_t verify, int64_t pass)
{
  return (struct lls_draft_work){.size = sizeof(struct lls_draft_work),
                                 .max = MAX,
                                 .step_ns = step * 1000,
                                 .verify_ns = verify * 1000,
                                 .pass_ns = pass * 1000};
}

static uint32_t wants(const struct lls_draft_work *work)
{
  uint32_t n = scene.d->wants(scene.self, &asked.r, work);
  assert_in_range(n, 0, work->max);
  return n;
}

struct guesses {
  int n;
  int32_t tokens[MAX];
  float odds[MAX];
};

/* Asks for guesses, with n candidates from `token` on, each one more than that before, of
 * a probability. */
static struct guesses draft(uint32_t n, int32_t token, float probability)
{
  struct guesses g = {0};
  int32_t candidates[MAX];
  float odds[MAX];
  for (uint32_t i = 0; i < n; i++) {
    candidates[i] = token + (int32_t)i;
    odds[i] = probability;
  }
  struct lls_draft out = {.size = sizeof out,
                          .max = MAX,
                          .tokens = g.tokens,
                          .odds = g.odds,
                          .n_candidates = n,
                          .candidates = candidates,
                          .candidate_odds = odds};
  g.n = scene.d->draft(scene.self, &asked.r, &out);
  assert_in_range(g.n, 0, MAX);
  return g;
}

/* Has the draft model guess `times` times, of which one in `wrong_every` is wrong at
 * once, others are right. The answer's tokens are all different. */
static void teach(uint32_t times, uint32_t wrong_every, float probability)
{
  for (uint32_t i = 0; i < times; i++) {
    int32_t next = 10000 + (int32_t)lls_request_length(&asked.r);
    draft(1, wrong_every > 0 && i % wrong_every == 0 ? 7 : next, probability);
    answer(next);
  }
}

static void test_as_many_are_wanted_as_pay(void **state)
{
  struct lls_draft_work cheap = costs(1000, 20, 20), dear = costs(1000, 20, 900);
  (void)state;
  begin("model", NULL);
  arrive(10);
  uint32_t at_first = wants(&cheap);
  assert_in_range(at_first, 2, MAX);
  teach(100, 0, 0.9f);
  assert_int_equal(wants(&cheap), MAX);
  assert_in_range(
      wants(&(struct lls_draft_work){
          .size = sizeof cheap, .max = 3, .step_ns = 1000000, .pass_ns = 1000}),
      3, 3);
  teach(200, 2, 0.9f);
  assert_in_range(wants(&cheap), 1, MAX - 1); /* half of them are right */
  assert_int_equal(wants(&dear), 0);
  end();
}

/* The text that the draft model has to read first must be worth it. */
static void test_a_long_text_must_be_won_back(void **state)
{
  struct lls_draft_work work = costs(1000, 20, 100);
  (void)state;
  begin("model", NULL);
  arrive(10);
  teach(50, 0, 0.9f);
  work.behind_ns = 100000000;
  assert_true(wants(&work) > 0); /* of 4,000 tokens that may still come */
  asked.r.max_new_tokens = asked.r.generated_tokens + 50;
  assert_int_equal(wants(&work), 0);
  end();
}

static void test_what_does_not_pay_is_tried_again(void **state)
{
  struct lls_draft_work work = costs(1000, 20, 300);
  uint32_t tried = 0;
  (void)state;
  begin("model", NULL);
  arrive(10);
  teach(200, 1, 0.9f);
  for (int i = 0; i < 1000; i++)
    tried += wants(&work);
  assert_in_range(tried, 3, 6);
  teach(200, 0, 0.9f);
  assert_true(wants(&work) > 1);
  end();
}

/* 90 % sure, and right every second time. */
static void test_odds_are_how_often_guesses_were_right(void **state)
{
  struct guesses g;
  (void)state;
  begin("model", NULL);
  arrive(10);
  g = draft(2, 100, 0.95f);
  assert_int_equal(g.n, 2);
  assert_int_equal(g.tokens[1], 101);
  assert_true(g.odds[0] > 0.9f && g.odds[1] > 0.9f);
  answer(5);
  teach(400, 2, 0.95f);
  g = draft(1, 100, 0.95f);
  assert_true(g.odds[0] > 0.45f && g.odds[0] < 0.56f);
  g = draft(1, 100, 0.55f);
  assert_true(g.odds[0] > 0.5f && g.odds[0] < 0.6f); /* another class */
  struct lls_blob blob = {0};
  assert_int_equal(scene.d->export_state(scene.self, &blob), 0);
  float broken = -1;
  memcpy((char *)blob.data + 4, &broken, sizeof broken);
  assert_int_equal(scene.d->import_state(scene.self, &blob), -EINVAL);
  free(blob.data);
  end();
}

static void test_a_depth_is_wanted_in_any_case(void **state)
{
  static const char *const three[] = {"depth", "3", NULL};
  struct lls_draft_work dear = costs(1000, 20, 5000);
  (void)state;
  begin("model", three);
  arrive(10);
  assert_int_equal(wants(&dear), 3);
  dear.max = 2;
  assert_int_equal(wants(&dear), 2);
  end();
}

/* auto: a text that repeats itself is not asked about, another one is. */
static void test_auto_takes_repetitions_where_there_are_any(void **state)
{
  struct lls_draft_work work = costs(1000, 20, 200);
  (void)state;
  begin("auto", NULL);
  arrive(40);
  answer(5000);
  uint32_t n = wants(&work);
  assert_true(n > 0);
  struct guesses g = draft(n, 6000, 0.9f);
  assert_int_equal(g.n, n);
  assert_int_equal(g.tokens[0], 6000);
  for (int32_t i = 3; i < 30; i++) /* as the prompt goes on after 3 */
    answer(i);
  assert_int_equal(wants(&work), 0);
  g = draft(0, 0, 0);
  assert_true(g.n > 2);
  assert_int_equal(g.tokens[0], 30);
  assert_int_equal(g.tokens[1], 31);
  scene.d->on_finish(scene.self, &asked.r, LLS_FINISH_STOP);
  end();
}

/* auto without a draft model. */
static void test_auto_alone_is_ngram(void **state)
{
  (void)state;
  begin("auto", NULL);
  arrive(40);
  answer(11);
  answer(12);
  answer(13);
  struct guesses g = draft(0, 0, 0);
  assert_true(g.n > 1);
  assert_int_equal(g.tokens[0], 14);
  end();
}

/* auto: what it has learnt of candidates and of repetitions outlives a reload. */
static void test_auto_passes_on_what_it_has_learnt(void **state)
{
  struct lls_blob blob = {0}, again = {0};
  void *next;
  (void)state;
  begin("auto", NULL);
  arrive(40);
  teach(400, 2, 0.95f);
  assert_int_equal(scene.d->export_state(scene.self, &blob), 0);
  assert_int_equal(scene.d->create(&scene.host, scene.plugin.params, &next), 0);
  blob.version = 2;
  assert_int_equal(scene.d->import_state(next, &blob), -ENOTSUP);
  blob.version = 1;
  assert_int_equal(scene.d->import_state(next, &blob), 0);
  assert_int_equal(scene.d->export_state(next, &again), 0);
  assert_int_equal(again.bytes, blob.bytes);
  assert_memory_equal(again.data, blob.data, blob.bytes);
  free(again.data);
  scene.d->on_finish(scene.self, &asked.r, LLS_FINISH_STOP);
  scene.d->destroy(scene.self);
  scene.self = next;
  arrive(40);
  struct guesses g = draft(1, 100, 0.95f);
  assert_true(g.odds[0] > 0.45f && g.odds[0] < 0.56f); /* half of them were right */
  for (int at = 0; at < 2; at++) {                     /* broken: a rate of each half */
    float broken = -1;
    size_t place = at == 0 ? 4 : blob.bytes - 4;
    memcpy((char *)blob.data + place, &broken, sizeof broken);
    assert_int_equal(scene.d->import_state(scene.self, &blob), -EINVAL);
    memset((char *)blob.data + place, 0, sizeof broken);
  }
  blob.bytes--;
  assert_int_equal(scene.d->import_state(scene.self, &blob), -EINVAL);
  free(blob.data);
  end();
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_as_many_are_wanted_as_pay),
      cmocka_unit_test(test_a_long_text_must_be_won_back),
      cmocka_unit_test(test_what_does_not_pay_is_tried_again),
      cmocka_unit_test(test_odds_are_how_often_guesses_were_right),
      cmocka_unit_test(test_a_depth_is_wanted_in_any_case),
      cmocka_unit_test(test_auto_takes_repetitions_where_there_are_any),
      cmocka_unit_test(test_auto_alone_is_ngram),
      cmocka_unit_test(test_auto_passes_on_what_it_has_learnt),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
