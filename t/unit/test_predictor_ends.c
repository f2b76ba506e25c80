/* SPDX-License-Identifier: Apache-2.0 */
/* The calls to a predictor about a request's end: exactly one, whatever the end; and
 * its late answers until it is destroyed. */
#include "t/tap.h"

#include <errno.h>
#include <string.h>

#include "t/harness.h"

struct told { /* the calls about one request */
  uint64_t id;
  uint32_t predicted, observed, ended;
  uint32_t length, reason, tenant;
  int32_t priority;
};

#define REQUESTS 8

static struct told told[REQUESTS];

/* Returns the record of this request; adds one if there is none. */
static struct told *told_of(uint64_t id)
{
  uint32_t i = 0;
  while (i < REQUESTS && told[i].id != id && told[i].id != 0)
    i++;
  assert_true(i < REQUESTS && id != 0);
  told[i].id = id;
  return &told[i];
}

static int predict(void *self, uint64_t ticket, const struct lls_prompt *prompt,
                   struct lls_prediction *out)
{
  (void)self, (void)out;
  struct told *t = told_of(prompt->id);
  assert_int_equal(prompt->id, ticket);
  t->predicted++;
  t->tenant = prompt->tenant;
  t->priority = prompt->priority;
  return -ENOENT;
}

static void observe(void *self, const struct lls_prompt *prompt, uint32_t length)
{
  (void)self;
  struct told *t = told_of(prompt->id);
  t->observed++;
  t->length = length;
}

static void on_end(void *self, const struct lls_prompt *prompt, uint32_t length,
                   uint32_t reason)
{
  (void)self;
  struct told *t = told_of(prompt->id);
  t->ended++;
  t->length = length;
  t->reason = reason;
}

/* Replaces the predictor `none` by one that also receives all calls. */
static void listen(void *context, struct lls_loop_policies *policies)
{
  struct lls_plugin_module *module = context;
  *module = *policies->predictor.module;
  module->predictor.predict = predict;
  module->predictor.observe = observe;
  module->predictor.on_end = on_end;
  policies->predictor.module = module;
}

static void open_harness(struct harness *h, struct lls_plugin_module *module)
{
  static const struct lls_sim_options sim = {.memory = 1 << 30};
  const struct harness_options o = {
      .model = "share/demo-model",
      .dummy = true,
      .max_tokens = 64,
      .max_sequences = 1,
      .max_requests = REQUESTS,
      .block_tokens = 16,
      .max_context = 64,
      .device_units = 4,
      .scheduler = {"fcfs", NULL},
      .cache = {"paged", NULL},
      .predictor = {"none", NULL},
      .sim = &sim,
      .replace = listen,
      .replace_context = module,
  };
  struct lls_error err = {0};
  memset(told, 0, sizeof told);
  if (harness_open(h, &o, &err) < 0)
    fail_msg("%s", err.text);
}

static uint64_t submit(struct harness *h, uint32_t n, uint32_t max_new_tokens)
{
  static const int32_t prompt[60] = {5, 6, 7, 8};
  struct lls_submission s = harness_submission(prompt, n, max_new_tokens, h);
  uint64_t id;
  s.tenant = 7;
  s.priority = -3;
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

static void assert_told(uint64_t id, uint32_t observed, uint32_t ended, uint32_t length,
                        uint32_t reason)
{
  const struct told *t = told_of(id);
  assert_int_equal(t->predicted, 1);
  assert_int_equal(t->tenant, 7);
  assert_int_equal(t->priority, -3);
  assert_int_equal(t->observed, observed);
  assert_int_equal(t->ended, ended);
  assert_int_equal(t->length, length);
  assert_int_equal(t->reason, reason);
}

static void test_every_end_is_told_once(void **state)
{
  (void)state;
  struct lls_plugin_module module;
  struct harness h;
  open_harness(&h, &module);
  uint64_t itself = submit(&h, 4, 5), cut_off = submit(&h, 4, 20);
  uint64_t unheard = submit(&h, 4, 20), too_long = submit(&h, 60, 4);
  run(&h, 8); /* 5 steps of the first request, then the second begins: one at a time */
  lls_loop_cancel(h.loop, cut_off);
  lls_loop_cancel(h.loop, unheard);
  run(&h, 20);
  assert_told(itself, 1, 0, 5, LLS_FINISH_NONE);
  assert_in_range(told_of(cut_off)->length, 1, 19);
  assert_told(cut_off, 0, 1, told_of(cut_off)->length, LLS_FINISH_CANCELLED);
  assert_told(unheard, 0, 1, 0, LLS_FINISH_CANCELLED);
  assert_told(too_long, 0, 1, 0, LLS_FINISH_CAPACITY);
  harness_close(&h);
}

/* ---- the last words ------------------------------------------------------------- */

#define INSTANCES 3

static struct last_words {
  const struct lls_host *hosts[INSTANCES];
  uint32_t n, accepted;
} last_words;

static int create(const struct lls_host *host, const void *params, void **self)
{
  (void)params;
  *self = &last_words.hosts[last_words.n];
  last_words.hosts[last_words.n++] = host;
  return 0;
}

/* Answers late, as a predictor's thread may do until it is joined here. */
static void destroy(void *self)
{
  const struct lls_host *host = *(const struct lls_host **)self;
  const struct lls_prediction found = {.length = 1};
  last_words.accepted += host->predicted(host->context, 1, &found) == 0;
}

static void talk(void *context, struct lls_loop_policies *policies)
{
  struct lls_plugin_module *module = context;
  listen(context, policies);
  module->predictor.create = create;
  module->predictor.destroy = destroy;
  module->predictor.reconfigure = NULL;
}

static void test_what_it_says_at_its_end_finds_every_instance(void **state)
{
  (void)state;
  static const struct lls_sim_options sim = {.memory = 1 << 30};
  struct lls_plugin_module module;
  struct harness h;
  struct lls_error err = {0};
  const struct harness_options o = {
      .model = "share/demo-model",
      .dummy = true,
      .max_tokens = 64,
      .max_sequences = 1,
      .max_requests = REQUESTS,
      .block_tokens = 16,
      .max_context = 64,
      .device_units = 4,
      .scheduler = {"fcfs", NULL},
      .cache = {"paged", NULL},
      .predictor = {"none", NULL},
      .sim = &sim,
      .instances = INSTANCES,
      .replace = talk,
      .replace_context = &module,
  };
  last_words = (struct last_words){0};
  if (harness_open(&h, &o, &err) < 0)
    fail_msg("%s", err.text);
  harness_close(&h);
  assert_int_equal(last_words.n, INSTANCES);
  assert_int_equal(last_words.accepted, INSTANCES);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_end_is_told_once),
      cmocka_unit_test(test_what_it_says_at_its_end_finds_every_instance),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
