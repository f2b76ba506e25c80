/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The step path allocates nothing: all calls to malloc, calloc, realloc and free in
 * this process are counted while steps of prefill, decode, jump-ahead, preemption and
 * swap run, with every shipped scheduler and every shipped cache manager.
 */
#include "t/tap.h"

#include <string.h>

#include "t/harness.h"
#include "t/jumps.h"
#include "t/reference.h"
#include "t/shipped.h"

#if !TAP_SANITIZED
/* volatile, since the compiler assumes that malloc reads no variable of ours */
static volatile bool counting;
static volatile unsigned calls;

/* replaces the C library's functions for the library itself and for plugins */
#define INTERPOSE __attribute__((visibility("default")))

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void __libc_free(void *);

INTERPOSE void *malloc(size_t size)
{
  calls = calls + counting;
  return __libc_malloc(size);
}

INTERPOSE void *calloc(size_t n, size_t size)
{
  calls = calls + counting;
  return __libc_calloc(n, size);
}

INTERPOSE void *realloc(void *p, size_t size)
{
  calls = calls + counting;
  return __libc_realloc(p, size);
}

INTERPOSE void free(void *p)
{
  calls = calls + counting;
  __libc_free(p);
}

static void ignore(void *context, const struct lls_event *event)
{
  (void)context;
  (void)event;
}

/* Runs requests that need more memory than there is, two of them with a grammar;
 * returns how many were preempted. */
static uint64_t run_round(struct harness *h, const struct reference *ref,
                          struct lls_grammar *grammar)
{
  struct lls_error err = {0};
  struct lls_loop_status status;
  for (int i = 0; i < 8; i++) {
    const struct reference_prompt *p = &ref->prompts[i % 2];
    struct lls_submission s = harness_submission(p->tokens, p->n_prompt, 64, NULL);
    uint64_t id;
    s.grammar = i % 4 == 3 ? grammar : NULL;
    assert_int_equal(lls_loop_submit(h->loop, &s, &id, &err), 0);
  }
  counting = true;
  for (int steps = 0; lls_loop_step(h->loop) > 0 && steps < 10000; steps++)
    ;
  counting = false;
  lls_loop_events(h->loop, ignore, NULL);
  assert_true(lls_loop_idle(h->loop));
  lls_loop_status(h->loop, &status);
  return status.preempted_recompute + status.preempted_swap;
}

/* The first round fills libraries' own caches. Returns false if the two policies do not
 * work together. */
static bool check(const struct harness_policy *scheduler,
                  const struct harness_policy *cache, uint32_t host_units,
                  uint64_t *preempted)
{
  struct harness_options o = {
      .model = "t/data/models/llama",
      .element = LLS_F32,
      .max_tokens = 64,
      .max_sequences = 16,
      .max_requests = 64,
      .block_tokens = 8,
      .device_units = 64,
      .host_units = host_units,
      .scheduler = *scheduler,
      .cache = *cache,
      .predictor = {"none", NULL},
  };
  struct harness h;
  struct lls_error err = {0};
  if (harness_open(&h, &o, &err) < 0) {
    print_message("# %s over %s: %s\n", scheduler->name, cache->name, err.text);
    return false;
  }
  struct reference *ref = reference_read("llama");
  struct jumps jumps;
  jumps_open(&jumps, h.config.vocab, -1); /* a grammar that never ends by itself */
  run_round(&h, ref, jumps.grammar);
  calls = 0;
  *preempted += run_round(&h, ref, jumps.grammar);
  if (calls > 0)
    fail_msg("%s over %s: %u calls of the allocator", scheduler->name, cache->name,
             calls);
  harness_close(&h);
  jumps_close(&jumps);
  reference_free(ref);
  return true;
}

static void test_the_counter_counts(void **state)
{
  (void)state;
  counting = true;
  void *volatile p = malloc(1);
  counting = false;
  free(p);
  assert_int_equal(calls, 1);
  calls = 0;
}

/* Schedulers that do not work on a single mixed instance. */
static const struct left_out left_out[] = {
    {"distserve", "hands requests over between instances"},
};

static void test_every_scheduler(void **state)
{
  (void)state;
  const struct harness_policy paged = {"paged",
                                       POLICY_PARAMETERS("prefix_sharing", "off")};
  struct shipped schedulers;
  uint64_t preempted = 0;
  assert_true(shipped_find_but(LLS_KIND_SCHEDULER, left_out,
                               sizeof left_out / sizeof *left_out, &schedulers));
  for (uint32_t i = 0; i < schedulers.n; i++) {
    const struct harness_policy scheduler = {schedulers.names[i], NULL};
    assert_true(check(&scheduler, &paged, 0, &preempted));
    assert_true(check(&scheduler, &paged, 256, &preempted));
  }
  assert_true(preempted > schedulers.n);
}

static void test_swapping(void **state)
{
  (void)state;
  static const char *const names[] = {"fcfs", "sarathi", "mlfq", "alise", "aligned"};
  const struct harness_policy paged = {"paged",
                                       POLICY_PARAMETERS("prefix_sharing", "off")};
  for (uint32_t i = 0; i < sizeof names / sizeof *names; i++) {
    const struct harness_policy scheduler = {names[i],
                                             POLICY_PARAMETERS("preempt", "swap")};
    uint64_t preempted = 0;
    assert_true(check(&scheduler, &paged, 256, &preempted));
    assert_true(preempted > 0);
  }
}

/* With the scheduler that calls a cache manager most, and with the one that calls it
 * least. */
static void test_every_cache(void **state)
{
  (void)state;
  static const char *const names[] = {"fcfs", "apt", "bros"};
  struct shipped caches;
  shipped_find(LLS_KIND_CACHE, &caches);
  for (uint32_t i = 0; i < caches.n; i++)
    for (uint32_t s = 0; s < sizeof names / sizeof *names; s++) {
      const struct harness_policy scheduler = {names[s], NULL},
                                  cache = {caches.names[i], NULL};
      uint64_t preempted = 0;
      bool goes = check(&scheduler, &cache, 256, &preempted);
      assert_true(goes || s > 0); /* fcfs works with all */
    }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_the_counter_counts),
      cmocka_unit_test(test_every_scheduler),
      cmocka_unit_test(test_swapping),
      cmocka_unit_test(test_every_cache),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
  puts("1..0 # SKIP the sanitizer has its own allocator");
  return 0;
}
#endif
