/* SPDX-License-Identifier: Apache-2.0 */
/* The calls to a drafter: each request arrives and ends once, also over a reload; when
 * draft is called, within which time; what becomes of wrong guesses. */
#include "t/tap.h"

#include <errno.h>
#include <string.h>

#include "t/harness.h"

#define REQUESTS   8
#define MAX_DRAFTS 4
#define EXPECTED   60 /* tokens that the client expects; more than a text has are cut */

static struct told { /* the calls about one request */
  uint64_t id;
  uint32_t arrived, finished, drafted, reason;
} told[REQUESTS];

/* The answers of draft. */
static struct drafting {
  int64_t takes_ns, now_ns; /* time of a call; the clock */
  int returns;              /* tokens, or another number */
  int32_t token;            /* of each guess */
  float odds;
  uint32_t calls;
} drafting;

static struct told *told_of(uint64_t id)
{
  uint32_t i = 0;
  while (i < REQUESTS && told[i].id != id && told[i].id != 0)
    i++;
  assert_true(i < REQUESTS && id != 0);
  told[i].id = id;
  return &told[i];
}

static uint32_t flags(void *self)
{
  (void)self;
  return LLS_DRAFTER_DRAFTS;
}

static int draft(void *self, const struct lls_request *r, struct lls_draft *out)
{
  (void)self;
  struct told *t = told_of(r->id);
  assert_int_equal(t->arrived, t->finished + 1);
  assert_true(lls_request_decodes(r));
  assert_in_range(out->max, 1, MAX_DRAFTS);
  assert_true(r->generated_tokens + out->max < r->max_new_tokens);
  t->drafted++;
  drafting.calls++;
  drafting.now_ns += drafting.takes_ns;
  for (int i = 0; i < drafting.returns && i < (int)out->max; i++) {
    assert_true(out->odds[i] == 0.5f);
    out->tokens[i] = drafting.token;
    out->odds[i] = drafting.odds;
  }
  if (drafting.returns == 1000)
    out->max = 1000; /* the core goes by its own */
  return drafting.returns > 0 && drafting.returns <= MAX_DRAFTS &&
                 drafting.returns > (int)out->max
             ? (int)out->max
             : drafting.returns;
}

static void on_arrival(void *self, const struct lls_request *r)
{
  (void)self;
  uint32_t most = r->prompt_tokens + r->max_new_tokens;
  assert_int_equal(r->n_expected, most < EXPECTED ? most : EXPECTED);
  told_of(r->id)->arrived++;
}

static void on_finish(void *self, const struct lls_request *r, uint32_t reason)
{
  (void)self;
  told_of(r->id)->finished++;
  told_of(r->id)->reason = reason;
}

/* Gives the drafter `none` the callbacks above. */
static void speak(void *context, struct lls_loop_policies *policies)
{
  struct lls_plugin_module *module = context;
  *module = *policies->drafter.module;
  module->drafter.flags = flags;
  module->drafter.draft = draft;
  module->drafter.on_arrival = on_arrival;
  module->drafter.on_finish = on_finish;
  policies->drafter.module = module;
}

static int64_t now(void *context)
{
  (void)context;
  return drafting.now_ns += 1000;
}

/* The demo model on the CPU, with a clock that draft advances. */
static void open_harness(struct harness *h, struct lls_plugin_module *module,
                         int64_t budget_ns)
{
  const struct harness_options o = {
      .model = "share/demo-model",
      .dummy = true,
      .max_tokens = 64,
      .max_sequences = 4,
      .max_requests = REQUESTS,
      .block_tokens = 16,
      .max_context = 64,
      .device_units = 64,
      .scheduler = {"fcfs", NULL},
      .cache = {"paged", NULL},
      .predictor = {"none", NULL},
      .max_drafts = MAX_DRAFTS,
      .draft_budget = budget_ns,
      .clock = now,
      .clock_context = &drafting,
      .replace = speak,
      .replace_context = module,
  };
  struct lls_error err = {0};
  memset(told, 0, sizeof told);
  drafting = (struct drafting){.odds = 0.5f};
  if (harness_open(h, &o, &err) < 0)
    fail_msg("%s", err.text);
}

static uint64_t submit(struct harness *h, uint32_t n, uint32_t max_new_tokens)
{
  static const int32_t prompt[EXPECTED] = {5, 6, 7, 8};
  struct lls_submission s = harness_submission(prompt, n, max_new_tokens, h);
  s.expected = prompt;
  s.n_expected = EXPECTED;
  uint64_t id;
  assert_int_equal(lls_loop_submit(h->loop, &s, &id, NULL), 0);
  return id;
}

static void ignore(void *context, const struct lls_event *event)
{
  (void)context, (void)event;
}

static void run(struct harness *h, uint32_t steps)
{
  for (uint32_t i = 0; i < steps; i++) {
    assert_true(lls_loop_step(h->loop) >= 0);
    lls_loop_events(h->loop, ignore, NULL);
  }
}

static void assert_ended(uint64_t id, uint32_t reason)
{
  const struct told *t = told_of(id);
  assert_int_equal(t->arrived, 1);
  assert_int_equal(t->finished, 1);
  assert_int_equal(t->reason, reason);
}

static uint64_t breaches(struct harness *h)
{
  struct lls_loop_status status;
  lls_loop_status(h->loop, &status);
  return status.policies.drafter.breaches;
}

static void test_each_request_arrives_and_ends_once(void **state)
{
  (void)state;
  struct lls_plugin_module module;
  struct harness h;
  open_harness(&h, &module, 0);
  uint64_t itself = submit(&h, 4, 5), cut_off = submit(&h, 4, 20);
  uint64_t too_long = submit(&h, 60, 4);
  run(&h, 3);
  lls_loop_cancel(h.loop, cut_off);
  run(&h, 20);
  assert_ended(itself, LLS_FINISH_LENGTH);
  assert_ended(cut_off, LLS_FINISH_CANCELLED);
  assert_ended(too_long, LLS_FINISH_LENGTH);
  harness_close(&h);
}

/* After each of its tokens but the last two, of which the first leaves no room. */
static void test_draft_is_called_after_each_token(void **state)
{
  (void)state;
  struct lls_plugin_module module;
  struct harness h;
  open_harness(&h, &module, 0);
  uint64_t a = submit(&h, 4, 6), b = submit(&h, 7, 9);
  run(&h, 20);
  assert_int_equal(told_of(a)->drafted, 4);
  assert_int_equal(told_of(b)->drafted, 7);
  assert_int_equal(breaches(&h), 0);
  harness_close(&h);
}

/* A budget for two calls: the requests take turns. */
static void test_calls_share_the_budget(void **state)
{
  (void)state;
  struct lls_plugin_module module;
  struct harness h;
  uint64_t ids[4];
  open_harness(&h, &module, 100000);
  drafting.takes_ns = 60000;
  for (int i = 0; i < 4; i++)
    ids[i] = submit(&h, 4, 40);
  run(&h, 31);
  for (int i = 0; i < 4; i++)
    assert_in_range(told_of(ids[i])->drafted, 9, 16);
  harness_close(&h);
}

/* A call of ten budgets is paid for by the nine steps behind it. */
static void test_a_slow_drafter_pays_its_debt(void **state)
{
  (void)state;
  struct lls_plugin_module module;
  struct harness h;
  open_harness(&h, &module, 100000);
  drafting.takes_ns = 1000000;
  submit(&h, 4, 55);
  run(&h, 51);
  assert_in_range(drafting.calls, 5, 6);
  harness_close(&h);
}

static void test_wrong_guesses_are_breaches(void **state)
{
  (void)state;
  struct lls_plugin_module module;
  struct harness h;
  open_harness(&h, &module, 0);
  uint64_t id = submit(&h, 4, 30);
  run(&h, 2);
  assert_int_equal(breaches(&h), 0);
  drafting.returns = 2;
  drafting.token = 1 << 30; /* not in the vocabulary */
  run(&h, 1);
  assert_int_equal(breaches(&h), 1);
  drafting.token = -1;
  run(&h, 1);
  assert_int_equal(breaches(&h), 2);
  drafting.returns = 1000; /* more than there is room for */
  run(&h, 1);
  assert_int_equal(breaches(&h), 3);
  drafting.returns = -EIO; /* no guess */
  run(&h, 1);
  drafting.returns = 2;
  drafting.token = 7;
  drafting.odds = 0.0f / 1.0f - 3; /* odds are read as 0 to 1 */
  run(&h, 1);
  assert_int_equal(breaches(&h), 3);
  run(&h, 40);
  assert_ended(id, LLS_FINISH_LENGTH);
  harness_close(&h);
}

/* A drafter that takes over knows the requests that live. */
static void test_a_reload_reports_the_living(void **state)
{
  (void)state;
  struct lls_plugin_module module, next;
  struct harness h;
  struct lls_error err = {0};
  open_harness(&h, &module, 0);
  uint64_t lives = submit(&h, 4, 20), waits = submit(&h, 4, 20);
  run(&h, 3);
  memset(told, 0, sizeof told);
  struct lls_loop_change change = {.policies.drafter = {&module, h.drafter.params},
                                   .limits = {.strikes = 10, .draft_budget = 0}};
  speak(&next, &change.policies);
  int rc = lls_loop_reload_at_once(h.loop, &change, &err);
  if (rc == 0)
    lls_loop_reloaded(h.loop, &rc, &err);
  if (rc < 0)
    fail_msg("%s", err.text);
  run(&h, 1);
  assert_int_equal(told_of(lives)->arrived, 1);
  assert_int_equal(told_of(waits)->arrived, 1);
  run(&h, 40);
  assert_ended(lives, LLS_FINISH_LENGTH);
  assert_ended(waits, LLS_FINISH_LENGTH);
  harness_close(&h);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_each_request_arrives_and_ends_once),
      cmocka_unit_test(test_draft_is_called_after_each_token),
      cmocka_unit_test(test_calls_share_the_budget),
      cmocka_unit_test(test_a_slow_drafter_pays_its_debt),
      cmocka_unit_test(test_wrong_guesses_are_breaches),
      cmocka_unit_test(test_a_reload_reports_the_living),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
