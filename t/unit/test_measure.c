/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of hidden form is known before the first plan: hidden form is not used if a
 * token of it takes a millisecond, and used if it is free. It is measured once and kept
 * in a file; serving begins whatever is wrong with the file.
 */
#include "config.h"

#include "t/tap.h"

#include <errno.h>
#include <math.h>

#include "core/record/measured.h"
#include "t/fixtures.h"
#include "t/folder.h"
#include "t/harness.h"

struct kept {
  const char *folder;
  bool always;
  const char *model;                      /* opt unless set */
  uint32_t units;                         /* units of the pool; 24 unless set */
  struct lls_engine_fingerprint identity; /* out */
};

/* Returns how many of two prompts run in the first step, if both fit only in hidden
 * form. */
static uint64_t let_in_with(const char *const *parameters, struct kept *kept)
{
  struct lls_error err = {0};
  struct harness h;
  struct harness_options o = {
      .model = kept->model != NULL ? kept->model : "t/data/models/opt",
      .element = LLS_F32,
      .max_tokens = 256,
      .max_sequences = 4,
      .max_requests = 8,
      .block_tokens = 8,
      /* 16 for each as K and V, 8 in hidden form */
      .device_units = kept->units > 0 ? kept->units : 24,
      .scheduler = {"apt", parameters},
      .cache = {"hybrid", NULL},
      .predictor = {"none", NULL},
      .measurements = kept->folder,
      .measure_always = kept->always,
  };
  if (harness_open(&h, &o, &err) < 0)
    fail_msg("%s", err.text);
  int32_t prompt[60];
  for (int i = 0; i < 60; i++)
    prompt[i] = 10 + i;
  for (int i = 0; i < 2; i++) {
    uint64_t id;
    struct lls_submission s = harness_submission(prompt, 60, 2, NULL);
    assert_int_equal(lls_loop_submit(h.loop, &s, &id, &err), 0);
  }
  assert_true(lls_loop_step(h.loop) >= 0);
  struct lls_loop_status status;
  lls_loop_status(h.loop, &status);
  lls_engine_take_fingerprint(h.engine, &kept->identity);
  harness_close(&h);
  return status.batch_sequences_sum;
}

/* ---- from start to start ----------------------------------------------------------- */

static void read_kept(const struct kept *k, struct lls_measured *m)
{
  char path[512];
  struct lls_error err = {0};
  assert_int_equal(lls_measured_path(k->folder, &k->identity, path, sizeof path), 0);
  if (lls_measured_read(path, &k->identity, m, &err) < 0)
    fail_msg("%s", err.text);
}

/* Writes a measurement in which restoring takes no time, or a second a token. */
static void pretend(const struct kept *k, const struct lls_engine_fingerprint *identity,
                    int64_t token_ns)
{
  char path[512];
  struct lls_measured m;
  read_kept(k, &m);
  for (uint32_t i = 0; i < m.n; i++)
    m.steps[i].ns = 1000000 + (m.steps[i].hidden ? m.steps[i].context * token_ns : 0);
  assert_int_equal(lls_measured_path(k->folder, &k->identity, path, sizeof path), 0);
  assert_int_equal(lls_measured_write(path, identity, &m, NULL), 0);
}

/* The measurement is known before the first plan. Times of so small a model are noise,
 * so invented values are used. */
static void test_known_before_the_first_plan(void **state)
{
  static const char *const free_of_charge[] = {"rho", "0", NULL};
  const struct folder *folder = *state;
  struct kept k = {.folder = folder->path};
  assert_int_equal(let_in_with(free_of_charge, &k), 2);
  pretend(&k, &k.identity, LLS_NS_PER_S / 1000);
  assert_int_equal(let_in_with(NULL, &k), 1);
}

static void test_kept_for_the_next_start(void **state)
{
  const struct folder *folder = *state;
  struct kept k = {.folder = folder->path};
  struct lls_measured m;
  let_in_with(NULL, &k);
  read_kept(&k, &m);
  assert_true(m.n >= 11);
  pretend(&k, &k.identity, 0);
  assert_int_equal(let_in_with(NULL, &k), 2);
  pretend(&k, &k.identity, LLS_NS_PER_S);
  assert_int_equal(let_in_with(NULL, &k), 1);
  read_kept(&k, &m); /* nothing was measured, so nothing was written */
  assert_int_equal(m.steps[m.n - 1].ns,
                   1000000 + m.steps[m.n - 1].context * LLS_NS_PER_S);
}

/* No step takes exactly the invented time. */
static void expect_measured_again(const struct kept *k)
{
  struct lls_measured m;
  read_kept(k, &m);
  for (uint32_t i = 0; i < m.n; i++)
    if (m.steps[i].hidden)
      assert_int_not_equal(m.steps[i].ns, 1000000 + m.steps[i].context * LLS_NS_PER_S);
}

static void test_measured_again_if_asked_to(void **state)
{
  const struct folder *folder = *state;
  struct kept k = {.folder = folder->path};
  let_in_with(NULL, &k);
  pretend(&k, &k.identity, LLS_NS_PER_S);
  k.always = true;
  let_in_with(NULL, &k);
  expect_measured_again(&k);
}

static void test_of_something_else(void **state)
{
  const struct folder *folder = *state;
  struct kept k = {.folder = folder->path};
  let_in_with(NULL, &k);
  struct lls_engine_fingerprint other = k.identity;
  snprintf(other.device, sizeof other.device, "cpu: abacus, 2 threads");
  pretend(&k, &other, LLS_NS_PER_S);
  let_in_with(NULL, &k);
  expect_measured_again(&k);
}

static void test_unreadable(void **state)
{
  static const char *const texts[] = {
      "",
      "nonsense",
      "[steps]\nKV 3 = 5\n",
      "[identity\n",
  };
  const struct folder *folder = *state;
  struct kept k = {.folder = folder->path};
  char path[128];
  let_in_with(NULL, &k);
  assert_int_equal(lls_measured_path("", &k.identity, path, sizeof path), 0);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    folder_write_text(folder, path + 1, texts[i]);
    let_in_with(NULL, &k);
    expect_measured_again(&k);
  }
}

/* Invalid values for the steps, with the right identity of the file. */
static void test_bad_steps(void **state)
{
  static const char *const lines[] = {"KV 0 = 5",          "hidden -1 = 5", "KV 3 = 0",
                                      "hidden 3 = many",   "other 3 = 5",   "KV 3x = 5",
                                      "KV 99999999999 = 5"};
  const struct folder *folder = *state;
  struct kept k = {.folder = folder->path};
  struct lls_measured m;
  let_in_with(NULL, &k);
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    char path[512], text[1024];
    snprintf(text, sizeof text,
             "[identity]\nversion = %s\ndevice = %s\nmodel = %s\nengine = %s\n[steps]\n"
             "KV 3 = 5\nhidden 3 = 6\n%s\n",
             PACKAGE_VERSION, k.identity.device, k.identity.model, k.identity.engine,
             lines[i]);
    folder_write_text(folder, "bad.ini", text);
    snprintf(path, sizeof path, "%s/bad.ini", folder->path);
    assert_int_equal(lls_measured_read(path, &k.identity, &m, NULL), -EINVAL);
    text[strlen(text) - strlen(lines[i]) - 1] = '\0';
    folder_write_text(folder, "bad.ini", text);
    assert_int_equal(lls_measured_read(path, &k.identity, &m, NULL), 0);
    assert_int_equal(m.n, 2);
  }
}

static void test_nowhere_to_write(void **state)
{
  (void)state;
  static const char *const free_of_charge[] = {"rho", "0", NULL};
  struct kept k = {.folder = "/proc/no/such/folder"};
  assert_int_equal(let_in_with(free_of_charge, &k), 2);
}

/* ---- what it costs decides who is turned into KV ----------------------------------- */

struct answer {
  int32_t tokens[64];
  float logprobs[64];
  uint32_t n;
};

static void collect(void *context, const struct lls_event *event)
{
  struct answer *a = event->owner;
  (void)context;
  if (event->kind != LLS_EVENT_TOKEN)
    return;
  assert_true(a->n < 64);
  a->tokens[a->n] = event->token.token;
  a->logprobs[a->n++] = event->token.logprob;
}

struct course {
  struct answer answers[2];
  /* was_hidden: some request was; still_hidden: when the second one is alone */
  bool was_hidden, still_hidden;
  uint64_t preempted;
};

/* A clock that advances by a tenth of a millisecond at each call, because the cost
 * service learns from served steps, whose real times are noise. */
static int64_t next_moment(void *context)
{
  int64_t *now_ns = context;
  return *now_ns += 100000;
}

/* Runs a short answer and a long one, only one of which fits as K and V. */
static void run_two(const char *model, const char *cache, const char *folder,
                    struct course *out)
{
  struct lls_error err = {0};
  struct lls_loop_status status;
  struct harness h;
  int64_t now_ns = 0;
  static const char *const cheaply[] = {"rho_scale", "0.01", NULL};
  bool hybrid = strcmp(cache, "hybrid") == 0;
  struct harness_options o = {
      .model = model,
      .element = LLS_F32,
      .max_tokens = 256,
      .max_sequences = 4,
      .max_requests = 8,
      .block_tokens = 8,
      .device_units = hybrid ? 30 : 100, /* 16 each as K and V after the prompt */
      .scheduler = {hybrid ? "apt" : "fcfs", hybrid ? cheaply : NULL},
      .cache = {cache, NULL},
      .predictor = {"none", NULL},
      .measurements = folder,
      .clock = next_moment,
      .clock_context = &now_ns,
  };
  if (harness_open(&h, &o, &err) < 0)
    fail_msg("%s", err.text);
  *out = (struct course){.was_hidden = false};
  int32_t prompt[60];
  for (int i = 0; i < 60; i++)
    prompt[i] = 10 + i * 7 % 200;
  for (int i = 0; i < 2; i++) {
    uint64_t id;
    struct lls_submission s =
        harness_submission(prompt, 60, i == 0 ? 3 : 40, &out->answers[i]);
    s.sampling.want_logprob = true;
    assert_int_equal(lls_loop_submit(h.loop, &s, &id, &err), 0);
  }
  while (!lls_loop_idle(h.loop)) {
    assert_true(lls_loop_step(h.loop) >= 0);
    lls_loop_events(h.loop, collect, NULL);
    lls_loop_status(h.loop, &status);
    uint64_t hidden = status.cached_on_device[LLS_FORM_HIDDEN];
    out->was_hidden |= hidden > 0;
    if (status.running > 0)
      out->still_hidden = hidden > 0;
  }
  out->preempted = status.preempted_recompute;
  harness_close(&h);
}

static void assert_same_answers(const struct course *a, const struct course *b)
{
  for (int i = 0; i < 2; i++) {
    assert_int_equal(a->answers[i].n, b->answers[i].n);
    for (uint32_t k = 0; k < a->answers[i].n; k++) {
      assert_int_equal(a->answers[i].tokens[k], b->answers[i].tokens[k]);
      assert_true(fabsf(a->answers[i].logprobs[k] - b->answers[i].logprobs[k]) < 1e-4f);
    }
  }
}

/* If restoring the 240 tokens that fit would more than double a step of a millisecond,
 * hidden form is left as soon as there is memory, without recomputing; if it takes no
 * time nothing is gained, so it stays. All answers are those of KV form. */
static void test_upgrade_is_chosen_by_its_cost(void **state)
{
  static const char *const models[] = {"t/data/models/opt", "t/data/models/neox"};
  const struct folder *folder = *state;
  struct course kv, hybrid;
  for (int i = 0; i < 2; i++) {
    run_two(models[i], "paged", NULL, &kv);
    for (int64_t token_ns = 0; token_ns <= 5000; token_ns += 5000) {
      struct kept k = {.folder = folder->path, .model = models[i], .units = 30};
      let_in_with(NULL, &k);
      pretend(&k, &k.identity, token_ns);
      run_two(models[i], "hybrid", folder->path, &hybrid);
      assert_same_answers(&hybrid, &kv);
      assert_true(hybrid.was_hidden);
      assert_int_equal(hybrid.still_hidden, token_ns == 0);
      assert_int_equal(hybrid.preempted, 0);
    }
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      IN_FOLDER(test_known_before_the_first_plan),
      IN_FOLDER(test_kept_for_the_next_start),
      IN_FOLDER(test_measured_again_if_asked_to),
      IN_FOLDER(test_of_something_else),
      IN_FOLDER(test_unreadable),
      IN_FOLDER(test_bad_steps),
      cmocka_unit_test(test_nowhere_to_write),
      IN_FOLDER(test_upgrade_is_chosen_by_its_cost),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
