/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor parallel ranks as threads: two and four give the logits of the reference within
 * 1e-4 however steps are cut, swapped and restored; models that cannot be shared out are
 * refused; and a rank that fails, or does not come, ends the step of all.
 */
#include "t/rules.h"

#include <errno.h>
#include <stdatomic.h>
#include <time.h>

static const struct drive_options two = {
    .weights = LLS_WEIGHTS_F32, .cache_element = LLS_F32, .ranks = 2};
static const struct drive_options four = {
    .weights = LLS_WEIGHTS_F32, .cache_element = LLS_F32, .ranks = 4};

static void test_two(void **state)
{
  rule_check_all(*state, &two);
}

static void test_four(void **state)
{
  rule_check_all(*state, &four);
}

/* Odd blocks, and more threads than one on each rank. */
static void test_odd(void **state)
{
  struct drive_options o = two;
  o.block_tokens = 5;
  o.threads = 2;
  rule_check_all(*state, &o);
}

/* ---- what cannot be shared out ------------------------------------------------ */

static void assert_refused(const char *model, uint32_t ranks, const char *sentence)
{
  struct drive_model m = {0};
  struct lls_error err = {0};
  struct lls_follow_options o;
  struct drive_options options = two;
  options.ranks = ranks;
  drive_prepare(&m, model, &options, &o);
  drive_start_ranks(&m, ranks, &o);
  o.device.ranks = o.engine.ranks = m.ranks;
  assert_int_equal(lls_cpu_device_create(&o.device, &m.device, &err), 0);
  int rc = lls_engine_create(&o.engine, &o.model, m.device, &m.engine, &err);
  if (rc >= 0 || strstr(err.text, sentence) == NULL)
    fail_msg("%s on %u ranks: %d, %s", model, ranks, rc, err.text);
  assert_int_equal(lls_followers_stop(m.followers), 0);
  m.device->ops->destroy(m.device);
  m.ranks->ops->destroy(m.ranks);
  reference_free(m.reference);
}

static void test_refusals(void **state)
{
  (void)state;
  assert_refused("llama", 3, "8 heads cannot be shared out to 3 ranks");
  assert_refused("opt", 8, "4 heads cannot be shared out to 8 ranks");
  assert_refused("stories260K", 8, "172 columns of the inner layer cannot be shared out");
}

/* ---- failures ----------------------------------------------------------------- */

/* A CPU device of which rank 1's fails, or is slow, at its n-th sum over ranks. */
static struct lls_device_ops bad_ops;
static void (*good_all_reduce)(struct lls_device *, void *, uint32_t, uint32_t);
static int (*good_step_end)(struct lls_device *, struct lls_error *);
static _Atomic int good_sums;
static bool slow;

static int failing_step_end(struct lls_device *device, struct lls_error *err)
{
  int rc = good_step_end(device, err);
  return slow || rc < 0 || good_sums > 0 ? rc
                                         : lls_fail(err, -EIO, "it fell off the bus");
}

static void bad_all_reduce(struct lls_device *device, void *x, uint32_t n_rows,
                           uint32_t columns)
{
  const struct timespec too_long = {.tv_sec = 1};
  if (atomic_fetch_sub(&good_sums, 1) == 1 && slow)
    nanosleep(&too_long, NULL);
  good_all_reduce(device, x, n_rows, columns);
}

static int create_bad(const struct lls_device_options *options, struct lls_device **out,
                      struct lls_error *err)
{
  int rc = lls_cpu_device_create(options, out, err);
  if (rc < 0 || options->ranks->rank != 1)
    return rc;
  bad_ops = *(*out)->ops;
  good_all_reduce = bad_ops.all_reduce;
  good_step_end = bad_ops.step_end;
  bad_ops.all_reduce = bad_all_reduce;
  bad_ops.step_end = failing_step_end;
  (*out)->ops = &bad_ops;
  return 0;
}

/* Steps until one fails; how many went well. */
static int step_until_failure(struct drive_model *m, struct lls_error *err)
{
  const struct reference_prompt *p = &m->reference->prompts[0];
  struct units units;
  struct sequence s;
  int good = 0;
  units_init(&units, DRIVE_DEVICE_UNITS);
  sequence_init(&s);
  for (uint32_t i = 0; i < p->n_prompt; i++, good++) {
    sequence_grow(&s, &units, i + 1, 16);
    const struct lls_engine_sequence one = {.tokens = p->tokens + i,
                                            .n_tokens = 1,
                                            .context = i,
                                            .table = &s.table,
                                            .sampling = &drive_greedy};
    const struct lls_engine_batch batch = {.n_sequences = 1, .sequences = &one};
    struct lls_engine_result result;
    int rc = lls_engine_submit(m->engine, &batch, err);
    if (rc == 0)
      rc = lls_engine_wait(m->engine, &result, err);
    if (rc < 0)
      return good;
  }
  fail_msg("no step failed");
  return good;
}

static void notice(void *context)
{
  atomic_fetch_add((_Atomic int *)context, 1);
}

static void check_failure(int sums, bool sleeps, int64_t timeout_ns, int good_steps,
                          const char *sentence)
{
  struct drive_options options = two;
  struct drive_model m = {0};
  struct lls_error err = {0};
  _Atomic int noticed = 0;
  options.create_device = create_bad;
  good_sums = sums;
  slow = sleeps;
  drive_open(&m, "llama", &options);
  m.ranks->timeout_ns = timeout_ns;
  lls_ranks_on_failure(m.ranks, notice, &noticed);
  int good = step_until_failure(&m, &err);
  assert_int_equal(good, good_steps);
  assert_string_equal(err.text, sentence);
  assert_int_equal(noticed, 1);
  assert_int_equal(lls_ranks_failed(m.ranks, NULL), -ECONNABORTED);
  drive_close(&m);
}

/* Two layers have four sums: the sixth is in the second step, whose end is too late for
 * rank 0's token; so it is the third that fails. */
static void test_a_rank_that_fails(void **state)
{
  (void)state;
  check_failure(6, false, 60 * LLS_NS_PER_S, 2, "rank 1: it fell off the bus");
}

static void test_a_rank_that_does_not_come(void **state)
{
  (void)state;
  check_failure(6, true, LLS_NS_PER_S / 5, 1, "rank 1 did not come within 200 ms");
}

#define BOTH(model)                                                                      \
  {model " on 2", test_two, NULL, NULL, model},                                          \
  {                                                                                      \
    model " on 4", test_four, NULL, NULL, model                                          \
  }

int main(void)
{
  const struct CMUnitTest tests[] = {
      BOTH("llama"),
      {"llama-bf16 on 2", test_two, NULL, NULL, "llama-bf16"},
      BOTH("llama-sharded"),
      {"llama-biases on 2", test_two, NULL, NULL, "llama-biases"},
      {"mistral-window on 4", test_four, NULL, NULL, "mistral-window"},
      BOTH("opt"),
      {"opt-350m-like on 2", test_two, NULL, NULL, "opt-350m-like"},
      BOTH("neox"),
      {"neox-serial on 2", test_two, NULL, NULL, "neox-serial"},
      {"stories260K on 4", test_four, NULL, NULL, "stories260K"},
      {"odd blocks, two threads a rank", test_odd, NULL, NULL, "opt"},
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_a_rank_that_fails),
      cmocka_unit_test(test_a_rank_that_does_not_come),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
