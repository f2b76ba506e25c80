/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole random workloads with schedulers and caches: all requests end, nothing is lost,
 * attention reads the computed values, requests are served in order of arrival where
 * promised, and the same seed gives the same plans.
 */
#include "t/tap.h"

#include "t/plugin/workload.h"
#include "t/shipped.h"

#include <string.h>

static const struct entry {
  struct harness_policy policy;
  bool in_order; /* serves in order of arrival */
} schedulers[] = {
    {{"fcfs", POLICY_PARAMETERS("max_tokens", "64", "max_seqs", "8")}, true},
    {{"fcfs", POLICY_PARAMETERS("watermark", "0", "preempt", "swap")}, true},
    {{"fcfs", POLICY_PARAMETERS("watermark", "0.2", "max_tokens", "1")}, true},
    {{"sarathi", POLICY_PARAMETERS("chunk", "32", "max_seqs", "8")}, true},
    {{"sarathi", POLICY_PARAMETERS("chunk", "100", "watermark", "0")}, true},
    {{"sarathi", POLICY_PARAMETERS("watermark", "0", "preempt", "swap")}, true},
    {{"orca", POLICY_PARAMETERS("max_len", "100")}, true},
    {{"orca", POLICY_PARAMETERS("reserve", "oracle", "max_bs", "20")}, true},
    {{"fastgen", POLICY_PARAMETERS("budget", "64")}, true},
    {{"fastgen", NULL}, true},
    {{"random", NULL}, false},
    {{"random", POLICY_PARAMETERS("on_misfit", "skip", "preempt", "swap")}, false},
    {{"rr", NULL}, false},
    {{"rr", POLICY_PARAMETERS("quantum_iters", "3", "max_batch", "4")}, false},
    {{"mlfq", NULL}, false},
    {{"mlfq", POLICY_PARAMETERS("preempt", "swap", "period", "20", "starve", "100ms")},
     false},
    {{"mlfq", POLICY_PARAMETERS("levels", "3", "max_tokens", "64", "watermark", "0")},
     false},
    {{"adaserve", NULL}, true},
    {{"adaserve", POLICY_PARAMETERS("preempt", "swap", "chunk", "32", "watermark", "0")},
     true},
    {{"autellix", NULL}, false},
    {{"autellix", POLICY_PARAMETERS("preempt", "swap", "period", "20", "starve", "0.5",
                                    "quantum", "5ms", "levels", "3")},
     false},
    {{"continuum", NULL}, false},
    {{"continuum", POLICY_PARAMETERS("preempt", "swap", "watermark", "0")}, false},
    {{"sjf", NULL}, false},
    {{"srpt", NULL}, false},
    {{"aligned", NULL}, false},
    {{"aligned", POLICY_PARAMETERS("rmin", "2", "switch_below", "2", "bmax_frac", "0.2",
                                   "batching", "fcfs")},
     false},
    {{"alise", NULL}, false},
    {{"alise", POLICY_PARAMETERS("age", "20ms", "boost", "5ms", "first", "5ms", "preempt",
                                 "swap")},
     false},
    {{"srpt", POLICY_PARAMETERS("evict", "off", "preempt", "swap", "max_seqs", "4")},
     false},
    {{"edf", NULL}, false},
    {{"edf", POLICY_PARAMETERS("evict", "on", "preempt", "swap", "max_tokens", "50")},
     false},
    {{"vtc", NULL}, false},
    {{"vtc", POLICY_PARAMETERS("max_tenants", "3", "watermark", "0")}, false},
    {{"apt", NULL}, false},
    {{"apt", POLICY_PARAMETERS("fill", "skip", "rho", "0.001", "upgrade", "idle")},
     false},
    {{"apt",
      POLICY_PARAMETERS("decode_mode", "literal", "rho", "0.0001", "violated", "decay")},
     false},
    {{"apt", POLICY_PARAMETERS("preempt", "swap", "watermark", "0", "max_tokens", "50")},
     false},
    {{"apt", POLICY_PARAMETERS("mode", "chunked", "chunk_tokens", "64")}, false},
    {{"accelgen", NULL}, false},
    {{"accelgen", POLICY_PARAMETERS("preempt", "swap", "budget", "model", "s_pf", "32")},
     false},
    {{"worth", NULL}, false},
    {{"worth",
      POLICY_PARAMETERS("preempt", "swap", "reserve", "0", "gap", "5ms", "margin", "0")},
     false},
    {{"bros", NULL}, false},
    {{"bros", POLICY_PARAMETERS("watermark", "0", "drop", "any", "missed", "first",
                                "b_base", "4")},
     false},
};
static const struct harness_policy caches[] = {
    {"paged", NULL},
    {"paged", POLICY_PARAMETERS("prefix_sharing", "off")},
    {"bidirectional", NULL},
    {"tiered", NULL},
    {"contiguous", POLICY_PARAMETERS("max_len", "128")},
    {"contiguous", POLICY_PARAMETERS("reserve", "oracle")},
    {"hybrid", NULL},
    {"hybrid", POLICY_PARAMETERS("form", "hidden")},
};
static const uint32_t pools[][2] = {{400, 100}, {60, 30}, {40, 8}, {38, 0}};

/* Whole, audited workloads are long: each pair of policies gets one pool, and all pools
 * are used. test_conservation has small workloads for all pairs. */
static uint32_t pool_of(uint32_t s, uint32_t c)
{
  return (s + c) % 4;
}

static struct bed_options options(uint32_t s, uint32_t c, uint32_t p, uint64_t seed)
{
  return (struct bed_options){
      .scheduler = schedulers[s].policy,
      .cache = caches[c],
      .block_tokens = 16,
      .device_units = pools[p][0],
      .host_units = pools[p][1],
      .max_tokens = 300,
      .max_sequences = 24,
      .max_context = 320,
      .max_requests = 40,
      .audit_every = 5,
      .seed = seed,
  };
}

static uint32_t checks_of(const struct bed_options *o, uint32_t s)
{
  return (schedulers[s].in_order ? WORKLOAD_IN_ORDER : 0) |
         (o->device_units >= 60 ? WORKLOAD_ALL_FIT : 0);
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Schedulers that do not work on a single mixed instance. */
static const struct left_out left_out[] = {
    {"distserve", "hands requests over between instances; t/plugin/test_distserve.c"},
};

/* Every shipped policy is in the tables above. */
static void test_all_that_ship_are_here(void **state)
{
  (void)state;
  struct shipped shipped;
  assert_true(shipped_find_but(LLS_KIND_SCHEDULER, left_out,
                               sizeof left_out / sizeof *left_out, &shipped));
  for (uint32_t i = 0; i < shipped.n; i++) {
    bool found = false;
    for (uint32_t s = 0; s < COUNT(schedulers); s++)
      found |= strcmp(schedulers[s].policy.name, shipped.names[i]) == 0;
    if (!found)
      fail_msg("scheduler %s is in no workload", shipped.names[i]);
  }
  shipped_find(LLS_KIND_CACHE, &shipped);
  for (uint32_t i = 0; i < shipped.n; i++) {
    bool found = false;
    for (uint32_t c = 0; c < COUNT(caches); c++)
      found |= strcmp(caches[c].name, shipped.names[i]) == 0;
    if (!found)
      fail_msg("cache manager %s is in no workload", shipped.names[i]);
  }
}

static void test_every_pair_ends_everything(void **state)
{
  for (uint32_t s = 0; s < COUNT(schedulers); s++)
    for (uint32_t c = s % TAP_STEP(5); c < COUNT(caches); c += TAP_STEP(5)) {
      struct bed_options o = options(s, c, pool_of(s, c), 100 * s + 10 * c);
      workload_run(state, &o, 40, checks_of(&o, s));
    }
}

static void test_engine_of_one_phase_and_whole_prompts(void **state)
{
  static const char *const needs_more[] = {"sarathi",  "fastgen", "orca",     "rr",
                                           "adaserve", "bros",    "accelgen", "worth"};
  for (uint32_t s = 0; s < COUNT(schedulers); s++) {
    const char *const *given = schedulers[s].policy.parameters;
    bool refused = given != NULL && strcmp(given[0], "mode") == 0;
    for (uint32_t i = 0; i < COUNT(needs_more); i++)
      refused |= strcmp(schedulers[s].policy.name, needs_more[i]) == 0;
    for (uint32_t p = 0; p < 2 && !refused; p++) {
      struct bed_options o = options(s, 0, p, p);
      o.max_tokens = 320;
      o.no_mixed_batch = o.no_chunked_prefill = true;
      workload_run(state, &o, 40, checks_of(&o, s));
    }
  }
}

static void test_engine_of_whole_prompts(void **state)
{
  for (uint32_t s = 0; s < COUNT(schedulers); s++) {
    const char *const *given = schedulers[s].policy.parameters;
    if (strcmp(schedulers[s].policy.name, "apt") == 0 && given != NULL &&
        strcmp(given[1], "chunked") == 0)
      continue; /* the plan is made of pieces */
    for (uint32_t p = 0; p < 2; p++) {
      struct bed_options o = options(s, 0, p, p);
      o.max_tokens = 320;
      o.no_chunked_prefill = true;
      workload_run(state, &o, 40, checks_of(&o, s));
    }
  }
}

static void test_blocks_of_one_token(void **state)
{
  for (uint32_t s = 0; s < COUNT(schedulers); s++) {
    struct bed_options o = options(s, 0, 0, s);
    o.block_tokens = 1;
    o.device_units = 641;
    workload_run(state, &o, 12, checks_of(&o, s));
  }
}

static void test_same_seed_same_plans(void **state)
{
  for (uint32_t s = 0; s < COUNT(schedulers); s++) {
    struct bed_options o = options(s, 0, 1, 7);
    uint64_t first = workload_run(state, &o, 40, checks_of(&o, s));
    assert_true(first == workload_run(state, &o, 40, checks_of(&o, s)));
    o.seed = 8;
    assert_true(first != workload_run(state, &o, 40, checks_of(&o, s)));
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_all_that_ship_are_here),
      cmocka_unit_test(test_every_pair_ends_everything),
      cmocka_unit_test(test_engine_of_one_phase_and_whole_prompts),
      cmocka_unit_test(test_engine_of_whole_prompts),
      cmocka_unit_test(test_blocks_of_one_token),
      cmocka_unit_test(test_same_seed_same_plans),
  };
  return cmocka_run_group_tests(tests, workload_setup, workload_teardown);
}
