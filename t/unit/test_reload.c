/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policies replaced while requests are active: no text changes, no request is lost, and
 * a failed replacement leaves the running policies unchanged.
 */
#include "t/tap.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "t/clients.h"
#include "t/fixtures.h"
#include "kernels/cpu/device.h"

#define CLIENTS  12
#define MAX_USED 256 /* plugins loaded in a test */

struct scene {
  struct harness h;
  struct reference *reference;
  struct client clients[CLIENTS];
  struct harness_loaded used[MAX_USED];
  uint32_t n_used;
};

#define UNITS 128 /* too few for all requests, so that some are preempted */

static const char *const unshared[] = {"prefix_sharing", "off", NULL};

/* Creates a device that looks to the engine like a GPU with its own memory. */
static int create_with_own_memory(const struct lls_device_options *options,
                                  struct lls_device **out, struct lls_error *err)
{
  int rc = lls_cpu_device_create(options, out, err);
  if (rc == 0)
    (*out)->has_own_memory = true;
  return rc;
}

static void begin_on(struct scene *s, const char *model, struct harness_policy cache,
                     bool threaded, bool own_memory, uint32_t units)
{
  char path[64];
  snprintf(path, sizeof path, "t/data/models/%s", model);
  struct lls_error err = {0};
  struct harness_options o = {
      .model = path,
      .element = LLS_F32,
      .max_tokens = 128,
      .max_sequences = 16,
      .max_requests = 64,
      .block_tokens = 8,
      .device_units = units,
      .host_units = 128,
      .scheduler = {"fcfs", NULL},
      .cache = cache,
      .predictor = {"none", NULL},
      .threaded = threaded,
      .kv_only = own_memory,
      .create_device = own_memory ? create_with_own_memory
                       : threaded ? create_asynchronous
                                  : NULL,
  };
  *s = (struct scene){0};
  if (harness_open(&s->h, &o, &err) < 0)
    fail_msg("%s", err.text);
  s->reference = reference_read(model);
  for (int i = 0; i < CLIENTS; i++)
    submit_as(&s->h, &s->clients[i], &s->reference->prompts[i % 3],
              i % 3 == 2 ? LLS_CLASS_BEST_EFFORT : LLS_CLASS_NONE);
}

static void begin_with(struct scene *s, const char *model, struct harness_policy cache,
                       bool threaded)
{
  begin_on(s, model, cache, threaded, false, UNITS);
}

static void begin(struct scene *s, bool threaded)
{
  begin_with(s, MODEL, (struct harness_policy){"paged", unshared}, threaded);
}

static void end(struct scene *s)
{
  harness_close(&s->h);
  for (uint32_t i = 0; i < s->n_used; i++)
    policy_unload(&s->used[i]);
  reference_free(s->reference);
}

/* Loads a plugin again, as if its file had been rebuilt. */
static struct lls_loop_policy load(struct scene *s, uint32_t kind, const char *name,
                                   const char *const *parameters)
{
  struct lls_error err = {0};
  struct harness_policy policy = {name, parameters};
  assert_true(s->n_used < MAX_USED);
  struct harness_loaded *l = &s->used[s->n_used++];
  if (policy_load(kind, &policy, l, &err) < 0)
    fail_msg("%s", err.text);
  return (struct lls_loop_policy){l->module, l->params};
}

static int reload(struct scene *s, struct lls_loop_policies policies,
                  struct lls_error *err)
{
  struct lls_loop_change change = {.policies = policies, .limits.strikes = 10};
  int rc = lls_loop_reload_at_once(s->h.loop, &change, err);
  if (rc < 0)
    return rc;
  while (!lls_loop_reloaded(s->h.loop, &rc, err))
    lls_loop_events(s->h.loop, on_event, NULL);
  return rc;
}

static void reload_or_fail(struct scene *s, struct lls_loop_policies policies)
{
  struct lls_error err = {0};
  if (reload(s, policies, &err) < 0)
    fail_msg("%s", err.text);
}

static void steps(struct scene *s, int n)
{
  for (int i = 0; i < n; i++) {
    assert_true(lls_loop_step(s->h.loop) >= 0);
    lls_loop_events(s->h.loop, on_event, NULL);
  }
}

static void assert_texts(struct scene *s)
{
  for (int i = 0; i < CLIENTS; i++)
    assert_reference_text(&s->clients[i]);
  assert_memory_is_back(&s->h);
}

static uint64_t recomputed(struct scene *s)
{
  struct lls_loop_status status;
  lls_loop_status(s->h.loop, &status);
  return status.reload_recomputed;
}

static void test_schedulers_take_turns(void **state)
{
  (void)state;
  static const char *const chunks[] = {"chunk", "32", "preempt", "swap", NULL};
  static const char *const swaps[] = {"preempt", "swap", NULL};
  struct scene s;
  begin(&s, false);
  for (int i = 0; i < 30; i++) {
    steps(&s, 3);
    reload_or_fail(
        &s, (struct lls_loop_policies){
                .scheduler = i % 2 == 0 ? load(&s, LLS_KIND_SCHEDULER, "sarathi", chunks)
                                        : load(&s, LLS_KIND_SCHEDULER, "fcfs", swaps)});
  }
  run_to_end(&s.h);
  assert_texts(&s);
  assert_int_equal(recomputed(&s), 0);
  end(&s);
}

/* A new copy of the same plugin takes over every block in place, on the host too. */
static void test_a_cache_manager_hands_over_its_blocks(void **state)
{
  (void)state;
  static const char *const swaps[] = {"preempt", "swap", NULL};
  struct scene s;
  begin(&s, false);
  reload_or_fail(&s, (struct lls_loop_policies){
                         .scheduler = load(&s, LLS_KIND_SCHEDULER, "fcfs", swaps)});
  for (int i = 0; i < 30; i++) {
    steps(&s, 3);
    reload_or_fail(
        &s, (struct lls_loop_policies){.cache = load(&s, LLS_KIND_CACHE, "paged",
                                                     i % 2 == 0 ? NULL : unshared)});
  }
  run_to_end(&s.h);
  assert_texts(&s);
  assert_int_equal(recomputed(&s), 0);
  end(&s);
}

/* Two managers with compatible blocks hand them over to each other, in both
 * directions. */
static void test_other_cache_managers_take_over_blocks(void **state)
{
  (void)state;
  struct scene s;
  begin(&s, false);
  for (int i = 0; i < 30; i++) {
    steps(&s, 3);
    reload_or_fail(&s, (struct lls_loop_policies){
                           .cache = i % 2 == 0
                                        ? load(&s, LLS_KIND_CACHE, "hybrid", NULL)
                                        : load(&s, LLS_KIND_CACHE, "paged", unshared)});
  }
  run_to_end(&s.h);
  assert_texts(&s);
  assert_int_equal(recomputed(&s), 0);
  end(&s);
}

/* If layers have windows, a manager takes over the part of a sequence that still
 * exists; a manager that supports whole sequences only starts from nothing. */
static void test_what_a_window_has_left(void **state)
{
  (void)state;
  static const char *const managers[] = {"paged", "tiered", "hybrid"};
  for (int m = 0; m < 3; m++) {
    struct scene s;
    bool same = m < 2;
    const char *first = same ? managers[m] : "paged";
    begin_with(&s, "mistral-window", (struct harness_policy){first, NULL}, false);
    for (int i = 0; i < 30; i++) {
      steps(&s, 3);
      const char *name = i % 2 == 0 ? managers[m] : first;
      reload_or_fail(
          &s, (struct lls_loop_policies){.cache = load(&s, LLS_KIND_CACHE, name, NULL)});
    }
    run_to_end(&s.h);
    assert_texts(&s);
    assert_int_equal(recomputed(&s) == 0, same);
    end(&s);
  }
}

/* Blocks filled from both ends, partly on the host: the same plugin continues with
 * them; another manager takes over only blocks in the usual layout. */
static void test_displaced_sequences_are_handed_over(void **state)
{
  (void)state;
  for (int paged = 0; paged < 2; paged++) {
    struct scene s;
    struct lls_loop_status status;
    begin_with(&s, "llama", (struct harness_policy){"bidirectional", NULL}, false);
    reload_or_fail(&s, (struct lls_loop_policies){
                           .scheduler = load(&s, LLS_KIND_SCHEDULER, "bros", NULL)});
    for (int i = 0; i < 20; i++) {
      steps(&s, 5);
      reload_or_fail(&s,
                     (struct lls_loop_policies){
                         .cache = paged && i % 4 == 3
                                      ? load(&s, LLS_KIND_CACHE, "paged", unshared)
                                      : load(&s, LLS_KIND_CACHE, "bidirectional", NULL)});
    }
    run_to_end(&s.h);
    assert_texts(&s);
    lls_loop_status(s.h.loop, &status);
    assert_true(status.displaced > 0);
    assert_true((recomputed(&s) > 0) == paged);
    end(&s);
  }
}

/* A scheduler without support for displaced requests, which hold memory and cannot run,
 * does not get stuck either. */
static void test_another_scheduler_runs_who_was_displaced(void **state)
{
  (void)state;
  uint64_t partial = 0;
  for (int seed = 1; seed <= 20; seed++) {
    char number[16];
    snprintf(number, sizeof number, "%d", seed);
    const char *const parameters[] = {"seed", number, "rejects", "0", NULL};
    struct scene s;
    struct harness_policy cache = {"bidirectional", NULL};
    begin_on(&s, "llama", cache, false, false, 48); /* 192 tokens, for one and a half */
    reload_or_fail(&s,
                   (struct lls_loop_policies){
                       .scheduler = load(&s, LLS_KIND_SCHEDULER, "hostile", parameters)});
    steps(&s, 60);
    reload_or_fail(&s, (struct lls_loop_policies){
                           .scheduler = load(&s, LLS_KIND_SCHEDULER, "fcfs", NULL)});
    run_to_end(&s.h);
    assert_texts(&s);
    partial += recomputed(&s);
    end(&s);
  }
  assert_true(partial > 0);
}

/* Hidden form is taken over by the same plugin; a manager without this form prefills
 * the sequence again. */
static void test_hidden_form_is_handed_over(void **state)
{
  (void)state;
  static const char *const hidden[] = {"form", "hidden", NULL};
  for (int paged = 0; paged < 2; paged++) {
    struct scene s;
    begin_with(&s, "opt", (struct harness_policy){"hybrid", hidden}, false);
    for (int i = 0; i < 10; i++) {
      steps(&s, 3);
      reload_or_fail(&s, (struct lls_loop_policies){
                             .cache = paged && i % 2 == 0
                                          ? load(&s, LLS_KIND_CACHE, "paged", unshared)
                                          : load(&s, LLS_KIND_CACHE, "hybrid", hidden)});
    }
    run_to_end(&s.h);
    assert_texts(&s);
    assert_true((recomputed(&s) > 0) == paged);
    end(&s);
  }
}

/* If memory for hidden states was given up, a manager that restores them is refused. */
static void test_hidden_form_that_was_given_up(void **state)
{
  (void)state;
  struct scene s;
  struct lls_error err = {0};
  begin_on(&s, "opt", (struct harness_policy){"paged", unshared}, false, true, UNITS);
  steps(&s, 5);
  const struct lls_loop_policies change = {.cache =
                                               load(&s, LLS_KIND_CACHE, "hybrid", NULL)};
  assert_int_equal(reload(&s, change, &err), -ENOTSUP);
  assert_non_null(strstr(err.text, "cache manager hybrid restores hidden states, and the "
                                   "memory for that went to the cache"));
  reload_or_fail(&s, (struct lls_loop_policies){
                         .cache = load(&s, LLS_KIND_CACHE, "paged", unshared)});
  run_to_end(&s.h);
  assert_texts(&s);
  end(&s);
}

static void test_another_cache_manager_begins_anew(void **state)
{
  (void)state;
  struct scene s;
  begin(&s, false);
  steps(&s, 5);
  for (int i = 0; i < 4; i++) {
    reload_or_fail(
        &s, (struct lls_loop_policies){
                .cache = load(&s, LLS_KIND_CACHE, i % 2 == 0 ? "null" : "paged", NULL)});
    steps(&s, 5);
  }
  run_to_end(&s.h);
  assert_texts(&s);
  assert_true(recomputed(&s) > 0);
  end(&s);
}

/* Another policy of this kind, newly loaded. */
static struct lls_loop_policies change_of(struct scene *s, uint32_t kind, bool other)
{
  static const char *const names[LLS_KINDS][2] = {
      {"fcfs", "sarathi"}, {"paged", "null"}, {"none", "fixed"}, {"none", "none"}};
  struct lls_loop_policies change = {0};
  *LLS_OF_KIND(&change, kind) =
      load(s, kind, names[kind - LLS_KIND_SCHEDULER][other], NULL);
  return change;
}

/* Two reloads without a step between them: the second must not lose the changes of the
 * first, whichever policies they replace. */
static void test_reloads_without_a_step_between(void **state)
{
  (void)state;
  static const uint32_t kinds[] = {LLS_KIND_SCHEDULER, LLS_KIND_CACHE, LLS_KIND_PREDICTOR,
                                   LLS_KIND_DRAFTER};
  for (uint32_t pair = 0; pair < 16; pair++) {
    struct scene s;
    begin(&s, false);
    for (int turn = 1; turn <= 4; turn++) {
      steps(&s, 5);
      reload_or_fail(&s, change_of(&s, kinds[pair / 4], turn % 2));
      reload_or_fail(&s, change_of(&s, kinds[pair % 4], turn % 2));
    }
    run_to_end(&s.h);
    assert_texts(&s);
    end(&s);
  }
}

static void test_a_running_policy_takes_other_parameters(void **state)
{
  (void)state;
  struct lls_error err = {0};
  struct scene s;
  begin(&s, false);
  steps(&s, 5);
  struct lls_loop_policy renewed = load(&s, LLS_KIND_CACHE, "paged", NULL);
  renewed.module = s.h.cache.module;
  reload_or_fail(&s, (struct lls_loop_policies){.cache = renewed});
  steps(&s, 5);
  struct lls_loop_policy fixed = {s.h.predictor.module, s.h.predictor.params};
  assert_int_equal(reload(&s, (struct lls_loop_policies){.predictor = fixed}, &err),
                   -ENOTSUP);
  assert_non_null(strstr(err.text, "predictor none refuses its new parameters"));
  run_to_end(&s.h);
  assert_texts(&s);
  end(&s);
}

/* The path of a scheduler in t/fault. */
static const char *fault(const char *id, char path[PATH_MAX + 64])
{
  snprintf(path, PATH_MAX + 64, "%s/scheduler_%s.so", fixture_folder(), id);
  return path;
}

static void test_what_fails_leaves_all_as_it_was(void **state)
{
  (void)state;
  char path[PATH_MAX + 64];
  struct lls_error err = {0};
  struct scene s;
  begin(&s, false);
  steps(&s, 5);
  struct lls_loop_policies change = {
      .scheduler = load(&s, LLS_KIND_SCHEDULER, fault("failing_create", path), NULL),
      .cache = load(&s, LLS_KIND_CACHE, "null", NULL),
  };
  assert_int_equal(reload(&s, change, &err), -EIO);
  assert_non_null(strstr(err.text, "this fixture never starts"));
  change.scheduler = load(&s, LLS_KIND_SCHEDULER, fault("positive_create", path), NULL);
  assert_int_equal(reload(&s, change, &err), -EPROTO);
  assert_non_null(strstr(err.text, "it returned 1, neither 0 nor a negative errno"));
  change.scheduler = load(&s, LLS_KIND_SCHEDULER, fault("needs_roles", path), NULL);
  assert_int_equal(reload(&s, change, &err), -ENOTSUP);
  assert_non_null(strstr(err.text, "needs prefill and decode instances"));
  run_to_end(&s.h);
  assert_texts(&s);
  assert_int_equal(recomputed(&s), 0);
  end(&s);
}

static void test_the_step_thread_parks_for_it(void **state)
{
  (void)state;
  struct scene s;
  begin(&s, true);
  for (int i = 0; i < 40; i++)
    reload_or_fail(
        &s,
        (struct lls_loop_policies){
            .scheduler = load(&s, LLS_KIND_SCHEDULER, i % 2 ? "fcfs" : "sarathi", NULL),
            .cache = load(&s, LLS_KIND_CACHE, i % 5 ? "paged" : "null", NULL),
            .predictor = load(&s, LLS_KIND_PREDICTOR, i % 3 ? "none" : "fixed", NULL)});
  while (!lls_loop_idle(s.h.loop))
    lls_loop_events(s.h.loop, on_event, NULL);
  for (int i = 0; i < CLIENTS; i++)
    assert_reference_text(&s.clients[i]);
  end(&s);
}

/* The next reload asks the step thread to park before it has seen its release. */
static void test_reloads_follow_each_other_at_once(void **state)
{
  (void)state;
  struct scene s;
  begin(&s, true);
  struct lls_loop_policy turns[] = {load(&s, LLS_KIND_SCHEDULER, "sarathi", NULL),
                                    load(&s, LLS_KIND_SCHEDULER, "fcfs", NULL)};
  for (int i = 0; i < 500; i++)
    reload_or_fail(&s, (struct lls_loop_policies){.scheduler = turns[i % 2]});
  while (!lls_loop_idle(s.h.loop))
    lls_loop_events(s.h.loop, on_event, NULL);
  for (int i = 0; i < CLIENTS; i++)
    assert_reference_text(&s.clients[i]);
  end(&s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_schedulers_take_turns),
      cmocka_unit_test(test_a_cache_manager_hands_over_its_blocks),
      cmocka_unit_test(test_other_cache_managers_take_over_blocks),
      cmocka_unit_test(test_what_a_window_has_left),
      cmocka_unit_test(test_displaced_sequences_are_handed_over),
      cmocka_unit_test(test_another_scheduler_runs_who_was_displaced),
      cmocka_unit_test(test_hidden_form_is_handed_over),
      cmocka_unit_test(test_hidden_form_that_was_given_up),
      cmocka_unit_test(test_another_cache_manager_begins_anew),
      cmocka_unit_test(test_reloads_without_a_step_between),
      cmocka_unit_test(test_a_running_policy_takes_other_parameters),
      cmocka_unit_test(test_what_fails_leaves_all_as_it_was),
      cmocka_unit_test(test_the_step_thread_parks_for_it),
      cmocka_unit_test(test_reloads_follow_each_other_at_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
