/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The step loop under policies that plan, place and refuse at random, while they check
 * that the core keeps its side of the contract; and under plans that must be refused,
 * until the built-in order takes over. Whatever they do, a request that ends with
 * LENGTH has the reference's text, every request ends once, and all memory is released.
 */
#include "t/clients.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CLIENTS 12
#define SEEDS   TAP_LOTS(25)

struct outcome {
  struct lls_loop_status status;
  uint32_t by_length; /* requests that got their whole text */
  char *log;
};

static void check_clients(const struct client *clients, struct outcome *out)
{
  for (int i = 0; i < CLIENTS; i++) {
    const struct client *c = &clients[i];
    assert_int_equal(c->finished, 1);
    const int32_t *greedy = c->prompt->tokens + c->prompt->n_prompt;
    assert_memory_equal(c->tokens, greedy, c->n_tokens * sizeof *greedy);
    if (c->reason == LLS_FINISH_LENGTH)
      assert_int_equal(c->n_tokens, 64);
    out->by_length += c->reason == LLS_FINISH_LENGTH;
  }
}

static char *read_all(int fd)
{
  off_t size = lseek(fd, 0, SEEK_END);
  char *text = calloc(1, (size_t)size + 1);
  assert_non_null(text);
  assert_int_equal(pread(fd, text, (size_t)size, 0), size);
  close(fd);
  return text;
}

/* Runs CLIENTS requests to their end with these policies. */
static struct outcome run(struct harness_options *o)
{
  struct harness h;
  struct lls_error err = {0};
  struct outcome out = {0};
  struct client clients[CLIENTS];
  o->model = o->model != NULL ? o->model : "t/data/models/llama";
  struct reference *ref = reference_read(strrchr(o->model, '/') + 1);
  o->element = LLS_F32;
  o->max_tokens = 96;
  o->max_sequences = 8;
  o->max_requests = 32;
  o->block_tokens = 8;
  o->device_units = o->device_units > 0 ? o->device_units : 96;
  o->host_units = 96;
  o->log_level = LLS_LOG_WARNING;
  if (harness_open(&h, o, &err) < 0)
    fail_msg("%s", err.text);
  h.log.fd = memfd_create("log", 0);
  for (int i = 0; i < CLIENTS; i++)
    submit_as(&h, &clients[i], &ref->prompts[i % 3], (uint32_t)i % 4 % 3);
  run_to_end(&h);
  check_clients(clients, &out);
  assert_memory_is_back(&h);
  lls_loop_status(h.loop, &out.status);
  int log = h.log.fd;
  harness_close(&h);
  out.log = read_all(log);
  char *complaint = strstr(out.log, "host-misbehaving");
  if (complaint != NULL)
    fail_msg("%.300s", complaint);
  reference_free(ref);
  return out;
}

static void test_hostile_scheduler(void **state)
{
  (void)state;
  uint32_t complete = 0;
  for (int seed = 1; seed <= SEEDS; seed++) {
    char number[16];
    snprintf(number, sizeof number, "%d", seed);
    const char *const parameters[] = {"seed", number, NULL};
    struct harness_options o = {
        .scheduler = {"hostile", parameters},
        .cache = {"paged", NULL},
        .predictor = {"hostile", parameters},
    };
    struct outcome out = run(&o);
    assert_int_equal(out.status.plans_refused, 0);
    complete += out.by_length;
    free(out.log);
  }
  assert_true(complete > SEEDS * CLIENTS / 2); /* it rejects some, not most */
}

static void test_hostile_cache(void **state)
{
  (void)state;
  const char *const schedulers[] = {"fcfs", "sarathi"};
  for (int seed = 1; seed <= SEEDS; seed++) {
    char number[16];
    snprintf(number, sizeof number, "%d", seed);
    const char *const parameters[] = {"seed", number, NULL};
    struct harness_options o = {
        .scheduler = {schedulers[seed % 2], NULL},
        .cache = {"hostile", parameters},
        .predictor = {"none", NULL},
    };
    struct outcome out = run(&o);
    assert_int_equal(out.by_length, CLIENTS);
    assert_int_equal(out.status.plans_refused, 0);
    free(out.log);
  }
}

/* A cache manager that reports a whole request as cached, including its last token:
 * this is logged once and undone, and the core no longer asks for prefixes. */
static void test_a_prefix_as_long_as_its_request(void **state)
{
  (void)state;
  const char *const schedulers[] = {"fcfs", "sarathi", "hostile"};
  for (int seed = 1; seed <= SEEDS; seed++) {
    char number[16];
    snprintf(number, sizeof number, "%d", seed);
    const char *const parameters[] = {"seed", number, "overlong", "50", NULL};
    const char *const chosen[] = {"seed", number, "rejects", "0", NULL};
    struct harness_options o = {
        .scheduler = {schedulers[seed % 3], seed % 3 == 2 ? chosen : NULL},
        .cache = {"hostile", parameters},
        .predictor = {"none", NULL},
    };
    struct outcome out = run(&o);
    assert_int_equal(out.by_length, CLIENTS);
    assert_int_equal(out.status.policies.cache.breaches, 1);
    assert_non_null(
        strstr(out.log, "plugin-misbehaving cache hostile: prefix of request"));
    free(out.log);
  }
}

/* Sequences in both forms in one batch, some of them changing from hidden to KV
 * form. */
static void test_hybrid_cache(void **state)
{
  (void)state;
  static const char *const models[] = {"t/data/models/opt", "t/data/models/neox",
                                       "t/data/models/llama-sharded"};
  static const char *const hidden[] = {"form", "hidden", NULL};
  for (int seed = 1; seed <= SEEDS; seed++) {
    char number[16];
    snprintf(number, sizeof number, "%d", seed);
    const char *const wishes[] = {"seed", number, "forms", "20", NULL};
    const char *const legal[] = {"seed", number, NULL};
    struct harness_options o = {
        .model = models[seed % 3],
        .scheduler = {seed % 5 == 0 ? "sarathi" : "hostile", seed % 5 == 0   ? NULL
                                                             : seed % 5 == 1 ? legal
                                                                             : wishes},
        .cache = {"hybrid", hidden},
        .predictor = {"none", NULL},
    };
    struct outcome out = run(&o);
    assert_int_equal(out.status.plans_refused, 0);
    assert_true(out.by_length > 0);
    free(out.log);
  }
}

/* Real-time and best-effort sequences in the same blocks: tokens lose their slots,
 * return in other blocks, and sequences of one batch are filled from both ends. */
static void test_bidirectional_cache(void **state)
{
  (void)state;
  static const char *const models[] = {"t/data/models/llama", "t/data/models/opt"};
  static const char *const dropped[] = {"keep_host_copy", "off", NULL};
  uint64_t displaced = 0;
  for (int seed = 1; seed <= SEEDS; seed++) {
    char number[16];
    snprintf(number, sizeof number, "%d", seed);
    const char *const legal[] = {"seed", number, NULL};
    struct harness_options o = {
        .model = models[seed % 2],
        .scheduler = {"hostile", legal},
        .cache = {"bidirectional", seed % 4 < 2 ? NULL : dropped},
        /* the engine keeps block tables */
        .create_device = seed % 3 ? create_asynchronous : NULL,
        .predictor = {"none", NULL},
        .device_units = 80,
    };
    struct outcome out = run(&o);
    assert_int_equal(out.status.plans_refused, 0);
    assert_true(out.by_length > 0);
    displaced += out.status.displaced;
    free(out.log);
  }
  print_message("# %llu displaced\n", (unsigned long long)displaced);
  assert_true(displaced >= 2 * SEEDS);
}

static void test_everybody_hostile(void **state)
{
  (void)state;
  for (int seed = 1; seed <= SEEDS; seed++) {
    char number[16];
    snprintf(number, sizeof number, "%d", seed);
    const char *const parameters[] = {"seed", number, NULL};
    struct harness_options o = {
        .scheduler = {"hostile", parameters},
        .cache = {"hostile", parameters},
        .predictor = {"hostile", parameters},
    };
    free(run(&o).log);
  }
}

static void test_bad_plans_are_refused_and_the_builtin_order_takes_over(void **state)
{
  (void)state;
  for (int seed = 1; seed <= SEEDS; seed++) {
    char number[16];
    snprintf(number, sizeof number, "%d", seed);
    const char *const parameters[] = {"seed",    number, "mode", "illegal",
                                      "rejects", "0",    NULL};
    struct harness_options o = {
        .scheduler = {"hostile", parameters},
        .cache = {"paged", NULL},
        .predictor = {"none", NULL},
        .strikes = 5,
    };
    struct outcome out = run(&o);
    assert_int_equal(out.status.plans_refused, 5);
    assert_true(out.status.fallen_back);
    assert_non_null(strstr(out.status.fallback_reason, "5 bad or late plans"));
    assert_non_null(
        strstr(out.log, "plugin-misbehaving scheduler hostile: plan of step"));
    assert_int_equal(out.by_length, CLIENTS);
    free(out.log);
  }
}

/* A plan with an item of what this version does not carry out is refused, by name. */
static void test_plans_for_later_versions(void **state)
{
  (void)state;
  const char *const parameters[] = {"mode", "later", "rejects", "0", NULL};
  struct harness_options o = {
      .scheduler = {"hostile", parameters},
      .cache = {"paged", NULL},
      .predictor = {"none", NULL},
      .strikes = 1000,
  };
  struct outcome out = run(&o);
  assert_in_range(out.status.plans_refused, 8, out.status.steps / 4);
  assert_non_null(strstr(out.log, "it has an item that this version of llmserve does not "
                                  "carry out"));
  assert_non_null(strstr(out.log, "it has drafts verified, unsupported by this engine"));
  assert_int_equal(out.by_length, CLIENTS);
  free(out.log);
}

/* The built-in order takes over requests that lost slots under valid plans: they hold
 * memory and cannot run. */
static void test_the_builtin_order_runs_who_was_displaced(void **state)
{
  (void)state;
  uint64_t displaced = 0;
  for (int seed = 1; seed <= SEEDS; seed++) {
    char number[16];
    snprintf(number, sizeof number, "%d", seed);
    const char *const parameters[] = {"seed",    number, "mode", "illegal",
                                      "rejects", "0",    NULL};
    struct harness_options o = {
        .scheduler = {"hostile", parameters},
        .cache = {"bidirectional", NULL},
        .predictor = {"none", NULL},
        .strikes = 40,
        .device_units = 48, /* a request has at most 134 tokens; this is memory for 192 */
    };
    struct outcome out = run(&o);
    assert_int_equal(out.by_length, CLIENTS);
    assert_true(out.status.fallen_back);
    displaced += out.status.displaced;
    free(out.log);
  }
  assert_true(displaced >= SEEDS);
}

static void test_null_policies(void **state)
{
  (void)state;
  struct harness_options o = {
      .scheduler = {"null", NULL},
      .cache = {"null", NULL},
      .predictor = {"none", NULL},
      .device_units = 2048, /* it reserves a full context for every slot */
  };
  struct outcome out = run(&o);
  assert_int_equal(out.by_length, CLIENTS);
  free(out.log);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_null_policies),
      cmocka_unit_test(test_hostile_scheduler),
      cmocka_unit_test(test_hostile_cache),
      cmocka_unit_test(test_a_prefix_as_long_as_its_request),
      cmocka_unit_test(test_plans_for_later_versions),
      cmocka_unit_test(test_hybrid_cache),
      cmocka_unit_test(test_bidirectional_cache),
      cmocka_unit_test(test_everybody_hostile),
      cmocka_unit_test(test_bad_plans_are_refused_and_the_builtin_order_takes_over),
      cmocka_unit_test(test_the_builtin_order_runs_who_was_displaced),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
