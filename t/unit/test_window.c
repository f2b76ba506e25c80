/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Models with a sliding window in every layer, in pools that hold fewer tokens than one
 * request: with every shipped scheduler, and whatever is shared, preempted, swapped or
 * handed over, the text is what transformers computed with all tokens in memory.
 */
#include "t/tap.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "t/clients.h"
#include "t/shipped.h"

#define ALL (3 * COPIES)

/* 64 tokens in pairs of blocks of 8; prompts have up to 70 and get 64 more. */
#define UNITS 16

static const char *const models[] = {"mistral-window", "phi3"}; /* windows of 16 and 20 */

static struct harness_options options(const char *model, const char *scheduler,
                                      const char *cache)
{
  static char folder[64];
  struct harness_options o = client_options(scheduler);
  snprintf(folder, sizeof folder, "t/data/models/%s", model);
  o.model = folder;
  o.max_tokens = 16;
  o.device_units = UNITS;
  o.cache.name = cache;
  o.cache.parameters = NULL;
  return o;
}

/* Runs every reference prompt COPIES times at once; returns the loop's final status. */
static struct lls_loop_status check_texts(const struct harness_options *o)
{
  struct harness h;
  struct lls_loop_status s;
  struct reference *ref = reference_read(strrchr(o->model, '/') + 1);
  struct client clients[ALL];
  uint32_t longest = 0;
  open_or_fail(&h, o);
  for (int i = 0; i < ALL; i++) {
    submit(&h, &clients[i], &ref->prompts[i % 3]);
    longest =
        ref->prompts[i % 3].n_tokens > longest ? ref->prompts[i % 3].n_tokens : longest;
  }
  if (o->device_units == UNITS)
    assert_true(longest > UNITS / 2 * o->block_tokens);
  while (!lls_loop_idle(h.loop)) {
    assert_true(lls_loop_step(h.loop) >= 0);
    lls_loop_events(h.loop, on_event, NULL);
    lls_loop_status(h.loop, &s);
    assert_true(s.cached_on_device[LLS_FORM_KV] <= 20 * (s.running + s.preempted));
  }
  for (int i = 0; i < ALL; i++)
    assert_reference_text(&clients[i]);
  for (int i = 0; i < 3; i++) /* instances learn of each other's released blocks */
    lls_loop_step(h.loop);
  assert_memory_is_back(&h);
  lls_loop_status(h.loop, &s);
  assert_int_equal(s.plans_refused, 0);
  harness_close(&h);
  reference_free(ref);
  return s;
}

/* Calls check for the managers that free blocks outside of the window. */
static void each_manager(void (*check)(const char *cache))
{
  struct shipped caches;
  uint32_t n = 0;
  shipped_find(LLS_KIND_CACHE, &caches);
  for (uint32_t i = 0; i < caches.n; i++) {
    struct harness_loaded loaded;
    const struct harness_policy policy = {caches.names[i], NULL};
    assert_int_equal(policy_load(LLS_KIND_CACHE, &policy, &loaded, NULL), 0);
    bool gives_back = (loaded.module->cache.caps->kinds & 1u << LLS_GROUP_WINDOW) != 0;
    policy_unload(&loaded);
    if (gives_back)
      check(caches.names[i]);
    n += gives_back;
  }
  assert_true(n > 0);
}

static void under_every_scheduler(const char *cache)
{
  static const struct left_out left_out[] = {
      {"distserve", "hands requests over between instances: below"},
  };
  struct shipped schedulers;
  assert_true(shipped_find_but(LLS_KIND_SCHEDULER, left_out, 1, &schedulers));
  for (uint32_t i = 0; i < schedulers.n; i++) {
    struct harness_options o = options(models[i % 2], schedulers.names[i], cache);
    print_message("# %s over %s\n", schedulers.names[i], cache);
    check_texts(&o);
  }
}

static void test_under_every_scheduler(void **state)
{
  (void)state;
  each_manager(under_every_scheduler);
}

static void swapped(const char *cache)
{
  static const char *const swap[] = {"preempt", "swap", NULL};
  for (int i = 0; i < 2; i++) {
    struct harness_options o = options(models[i], "fcfs", cache);
    o.scheduler.parameters = swap;
    o.host_units = 64;
    assert_true(check_texts(&o).preempted_swap > 0);
  }
}

static void test_swapped(void **state)
{
  (void)state;
  each_manager(swapped);
}

/* On a device that computes concurrently with the host, the engine keeps block
 * tables. */
static void kept_tables(const char *cache)
{
  for (int i = 0; i < 2; i++) {
    struct harness_options o = options(models[i], "sarathi", cache);
    o.create_device = create_asynchronous;
    check_texts(&o);
  }
}

static void test_kept_tables(void **state)
{
  (void)state;
  each_manager(kept_tables);
}

/* A hand-over to another instance leaves out the blocks before the window. */
static void handed_over(const char *cache)
{
  struct harness_options o = options("mistral-window", "distserve", cache);
  o.instances = 2;
  o.roles[0] = LLS_ROLE_PREFILL;
  o.roles[1] = LLS_ROLE_DECODE;
  assert_int_equal(check_texts(&o).taken_over, ALL);
}

static void test_handed_over(void **state)
{
  (void)state;
  each_manager(handed_over);
}

/* A prompt computed by other requests, of which only the part in the window is held. */
static void test_shared_prefixes(void **state)
{
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct harness_options o = options(models[i], "fcfs", "paged");
    o.device_units = 128;
    o.max_sequences = 4; /* later copies find the prefixes of earlier ones */
    assert_true(check_texts(&o).shared_tokens > 0);
  }
}

static void test_gives_back_too_early(void **state)
{
  (void)state;
  static const char *const early[] = {"mode", "early", NULL};
  char path[4096];
  struct harness h;
  struct client c;
  struct reference *ref = reference_read("mistral-window");
  snprintf(path, sizeof path, "%s/t/sdk/.libs/cache_broken.so", getenv("LLS_BUILDDIR"));
  struct harness_options o = options("mistral-window", "fcfs", path);
  o.cache.parameters = early;
  o.device_units = 512;
  o.log_level = LLS_LOG_WARNING;
  open_or_fail(&h, &o);
  h.log.fd = memfd_create("log", MFD_CLOEXEC);
  submit(&h, &c, &ref->prompts[2]);
  while (!lls_loop_idle(h.loop)) {
    /* a plugin's answer never makes the engine fail */
    assert_true(lls_loop_step(h.loop) >= 0);
    lls_loop_events(h.loop, on_event, NULL);
  }
  assert_int_equal(c.reason, LLS_FINISH_ERROR);
  ssize_t n = pread(h.log.fd, path, sizeof path - 1, 0);
  assert_true(n > 0);
  path[n] = '\0';
  print_message("# %s\n", path);
  assert_non_null(strstr(path, "the block table begins with token "));
  close(h.log.fd);
  harness_close(&h);
  reference_free(ref);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_under_every_scheduler),
      cmocka_unit_test(test_swapped),
      cmocka_unit_test(test_kept_tables),
      cmocka_unit_test(test_handed_over),
      cmocka_unit_test(test_shared_prefixes),
      cmocka_unit_test(test_gives_back_too_early),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
