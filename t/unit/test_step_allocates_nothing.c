/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The step path allocates nothing: every malloc, calloc, realloc and free of this process
 * is counted while steps of prefill, decode, preemption and swap run.
 */
#include "t/tap.h"

#include <string.h>

#include "t/harness.h"
#include "t/reference.h"

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif

#ifndef SANITIZED
/* volatile, since the compiler knows that malloc reads no variable of ours */
static volatile bool counting;
static volatile unsigned calls;

/* seen by the C library and by plugins instead of their own */
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

static void check(const char *scheduler, const char *preempt, uint32_t host_units)
{
  const char *const parameters[] = {"preempt", preempt, NULL};
  static const char *const unshared[] = {"prefix_sharing", "off", NULL};
  struct harness_options o = {
      .model = "t/data/models/llama",
      .element = LLS_F32,
      .max_tokens = 64,
      .max_sequences = 16,
      .max_requests = 64,
      .block_tokens = 8,
      .device_units = 64,
      .host_units = host_units,
      .scheduler = {scheduler, parameters},
      .cache = {"paged", unshared},
      .predictor = {"none", NULL},
  };
  struct harness h;
  struct lls_error err = {0};
  struct reference *ref = reference_read("llama");
  if (harness_open(&h, &o, &err) < 0)
    fail_msg("%s", err.text);
  for (int round = 0; round < 2; round++) { /* the first warms up libraries' own caches */
    for (int i = 0; i < 8; i++) {
      const struct reference_prompt *p = &ref->prompts[i % 2];
      struct lls_submission s = harness_submission(p->tokens, p->n_prompt, 64, NULL);
      uint64_t id;
      assert_int_equal(lls_loop_submit(h.loop, &s, &id, &err), 0);
    }
    counting = round > 0;
    int steps = 0;
    while (lls_loop_step(h.loop) > 0 && ++steps < 10000)
      ;
    counting = false;
    lls_loop_events(h.loop, ignore, NULL);
    assert_true(lls_loop_idle(h.loop));
  }
  struct lls_loop_status status;
  lls_loop_status(h.loop, &status);
  assert_true(status.preempted_recompute + status.preempted_swap > 0);
  assert_int_equal(calls, 0);
  harness_close(&h);
  reference_free(ref);
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

static void test_fcfs(void **state)
{
  (void)state;
  check("fcfs", "recompute", 0);
  check("fcfs", "swap", 256);
}

static void test_sarathi(void **state)
{
  (void)state;
  check("sarathi", "recompute", 0);
  check("sarathi", "swap", 256);
}

static void test_aligned(void **state)
{
  (void)state;
  check("aligned", "recompute", 0);
  check("aligned", "swap", 256);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_the_counter_counts),
      cmocka_unit_test(test_fcfs),
      cmocka_unit_test(test_sarathi),
      cmocka_unit_test(test_aligned),
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
