/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole random workloads through schedulers and caches: everything ends, nothing is lost,
 * attention reads what was computed, first come is first served, the same seed gives the
 * same plans.
 */
#include "t/tap.h"

#include "t/plugin/fake.h"

#include <string.h>

#define PARAMETERS(...)                                                                  \
  (const char *const[])                                                                  \
  {                                                                                      \
    __VA_ARGS__, NULL                                                                    \
  }

static const struct harness_policy schedulers[] = {
    {"fcfs", PARAMETERS("max_tokens", "64", "max_seqs", "8")},
    {"fcfs", PARAMETERS("watermark", "0", "preempt", "swap")},
    {"fcfs", PARAMETERS("watermark", "0.2", "max_tokens", "1")},
    {"sarathi", PARAMETERS("chunk", "32", "max_seqs", "8")},
    {"sarathi", PARAMETERS("chunk", "100", "watermark", "0")},
    {"sarathi", PARAMETERS("watermark", "0", "preempt", "swap")},
};
static const struct harness_policy caches[] = {
    {"paged", NULL},
    {"paged", PARAMETERS("prefix_sharing", "off")},
};
static const uint32_t pools[][2] = {{400, 100}, {60, 30}, {40, 8}, {38, 0}};

struct workload {
  uint32_t requests, submitted, cancelled;
  uint64_t never_served_before; /* all ids below have been scheduled or have ended */
  uint64_t plan_digest;
};

static void submit(struct fake *f, struct workload *w)
{
  int32_t tokens[512];
  uint32_t n = fake_between(f, 1, fake_between(f, 0, 3) > 0 ? 60 : 250);
  uint32_t common = 16 * fake_between(f, 0, 5), family = fake_between(f, 0, 2);
  for (uint32_t i = 0; i < n; i++)
    tokens[i] =
        (int32_t)(i < common ? (i * (family + 3)) % FAKE_VOCABULARY : fake_random(f) & 3);
  if (fake_submit(f, tokens, n, fake_between(f, 1, 60)) != NULL)
    w->submitted++;
}

static void maybe_cancel(struct fake *f, struct workload *w)
{
  struct fake_request *r = f->by_slot[fake_between(f, 0, f->o.max_requests - 1)];
  if (r == NULL || fake_between(f, 0, 30) > 0)
    return;
  fake_cancel(f, r);
  w->cancelled++;
}

/* Nobody is scheduled for the first time while somebody who came before never was. */
static void check_order(struct fake *f)
{
  uint64_t first_waiting = UINT64_MAX, last_served = 0;
  for (uint32_t i = 0; i < f->o.max_requests; i++) {
    const struct fake_request *r = f->by_slot[i];
    if (r == NULL)
      continue;
    if (r->view.first_scheduled_ns == LLS_NEVER && r->view.id < first_waiting)
      first_waiting = r->view.id;
    if (r->view.first_scheduled_ns != LLS_NEVER && r->view.id > last_served)
      last_served = r->view.id;
  }
  assert_true(last_served <= first_waiting);
}

static void digest_plan(const struct fake *f, struct workload *w)
{
  char text[4096];
  for (const char *c = fake_plan_text(f, text, sizeof text); *c != '\0'; c++)
    w->plan_digest = (w->plan_digest ^ (uint64_t)*c) * UINT64_C(0x100000001b3);
}

static void check_all_free(struct fake *f)
{
  for (uint32_t tier = 0; tier < 2; tier++) {
    struct lls_capacity c = {.size = sizeof c};
    f->c->capacity(f->cache_self, tier, &c);
    assert_int_equal(c.free_units, c.total_units);
  }
  assert_int_equal(fake_audit(f), 0);
}

static uint64_t run(const struct fake_options *o, uint32_t requests)
{
  struct fake f;
  struct workload w = {.requests = requests};
  assert_int_equal(fake_open(&f, o), 0);
  for (uint32_t steps = 0; w.submitted < w.requests || fake_alive(&f) > 0; steps++) {
    if (steps == 20000)
      fail_msg("%u requests are still alive", fake_alive(&f));
    if (w.submitted < w.requests && fake_between(&f, 0, 3) == 0)
      for (uint32_t n = fake_between(&f, 1, 6); n > 0; n--)
        submit(&f, &w);
    maybe_cancel(&f, &w);
    fake_step(&f);
    digest_plan(&f, &w);
    check_order(&f);
  }
  assert_int_equal(f.finished[LLS_FINISH_CANCELLED], w.cancelled);
  assert_int_equal(f.finished[LLS_FINISH_LENGTH] + f.finished[LLS_FINISH_CAPACITY] +
                       w.cancelled,
                   w.submitted);
  if (o->device_units >= 60) /* every request fits */
    assert_int_equal(f.finished[LLS_FINISH_CAPACITY], 0);
  check_all_free(&f);
  fake_close(&f);
  return w.plan_digest;
}

static struct fake_options options(uint32_t s, uint32_t c, uint32_t p, uint64_t seed)
{
  return (struct fake_options){
      .scheduler = schedulers[s],
      .cache = caches[c],
      .block_tokens = 16,
      .device_units = pools[p][0],
      .host_units = pools[p][1],
      .max_tokens = 300,
      .max_sequences = 24,
      .max_context = 320,
      .max_requests = 40,
      .audit = true,
      .seed = seed,
  };
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void test_every_pair_ends_everything(void **state)
{
  (void)state;
  for (uint32_t s = 0; s < COUNT(schedulers); s++)
    for (uint32_t c = 0; c < COUNT(caches); c++)
      for (uint32_t p = 0; p < COUNT(pools); p++) {
        struct fake_options o = options(s, c, p, 100 * s + 10 * c + p);
        run(&o, 60);
      }
}

static void test_engine_of_one_phase_and_whole_prompts(void **state)
{
  (void)state;
  for (uint32_t p = 0; p < 2; p++) {
    struct fake_options o = options(0, 0, p, p);
    o.no_mixed_batch = o.no_chunked_prefill = true;
    run(&o, 60);
  }
}

static void test_blocks_of_one_token(void **state)
{
  (void)state;
  for (uint32_t s = 0; s < COUNT(schedulers); s++) {
    struct fake_options o = options(s, 0, 0, s);
    o.block_tokens = 1;
    o.device_units = 641;
    run(&o, 30);
  }
}

static void test_same_seed_same_plans(void **state)
{
  (void)state;
  for (uint32_t s = 0; s < COUNT(schedulers); s++) {
    struct fake_options o = options(s, 0, 1, 7);
    uint64_t first = run(&o, 40);
    assert_true(first == run(&o, 40));
    o.seed = 8;
    assert_true(first != run(&o, 40));
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_pair_ends_everything),
      cmocka_unit_test(test_engine_of_one_phase_and_whole_prompts),
      cmocka_unit_test(test_blocks_of_one_token),
      cmocka_unit_test(test_same_seed_same_plans),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
