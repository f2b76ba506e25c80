/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conservation, for every scheduler with every cache: whatever the requests, the
 * engine's limits and the memory, each request ends exactly once, all memory is
 * released, no plan is refused, and attention reads the computed values. In one of five
 * workloads every layer has a window.
 *
 * And for every cache with every set of groups of layers, of several block sizes and with
 * states too, which no model here has: there a rig plays the core (tools/plugin-check).
 *
 * LLS_WORKLOADS says how many random workloads of a few requests each pair gets.
 */
#include "t/tap.h"

#include <sys/mman.h>
#include <unistd.h>

#include "t/plugin/workload.h"
#include "t/shipped.h"
#include "tools/plugin-check/groups.h"

#define WORKLOADS TAP_LOTS(40)
#define VARIANTS  2

/* With default settings, and with settings that cause trouble. */
static const struct harness_policy schedulers[][VARIANTS] = {
    {{"fcfs", NULL}, {"fcfs", POLICY_PARAMETERS("preempt", "swap", "watermark", "0")}},
    {{"sarathi", NULL},
     {"sarathi", POLICY_PARAMETERS("preempt", "swap", "watermark", "0", "chunk", "32")}},
    {{"orca", NULL}, {"orca", POLICY_PARAMETERS("reserve", "oracle")}},
    {{"fastgen", NULL}, {"fastgen", POLICY_PARAMETERS("budget", "20")}},
    {{"random", NULL},
     {"random", POLICY_PARAMETERS("on_misfit", "skip", "watermark", "0.1")}},
    {{"rr", NULL}, {"rr", POLICY_PARAMETERS("watermark", "0", "quantum_iters", "3")}},
    {{"mlfq", NULL},
     {"mlfq", POLICY_PARAMETERS("preempt", "swap", "period", "5", "starve", "10ms",
                                "levels", "2")}},
    {{"adaserve", NULL},
     {"adaserve", POLICY_PARAMETERS("preempt", "swap", "chunk", "32", "watermark", "0")}},
    {{"autellix", NULL},
     {"autellix", POLICY_PARAMETERS("preempt", "swap", "period", "5", "starve", "0.1",
                                    "quantum", "2ms", "paths", "on")}},
    {{"continuum", NULL},
     {"continuum", POLICY_PARAMETERS("preempt", "swap", "max_tokens", "20")}},
    {{"sjf", NULL}, {"sjf", POLICY_PARAMETERS("watermark", "0", "max_tokens", "20")}},
    {{"aligned", NULL},
     {"aligned", POLICY_PARAMETERS("rmin", "2", "switch_below", "2", "bmax_frac", "0.2",
                                   "preempt", "recompute")}},
    {{"alise", NULL},
     {"alise", POLICY_PARAMETERS("preempt", "swap", "watermark", "0", "age", "100ms")}},
    {{"apt", NULL},
     {"apt", POLICY_PARAMETERS("mode", "chunked", "chunk_tokens", "32", "fill", "skip",
                               "watermark", "0.1")}},
    {{"srpt", NULL},
     {"srpt", POLICY_PARAMETERS("preempt", "swap", "watermark", "0", "max_seqs", "3")}},
    {{"edf", NULL},
     {"edf", POLICY_PARAMETERS("evict", "on", "preempt", "swap", "watermark", "0")}},
    {{"accelgen", NULL},
     {"accelgen", POLICY_PARAMETERS("preempt", "swap", "budget", "model", "late", "first",
                                    "era", "request", "jct_slo", "1s", "s_pf", "16",
                                    "long_tokens", "40", "kvc_headroom", "0")}},
    {{"accelgen", POLICY_PARAMETERS("victims", "literal", "s_pf", "32", "norm", "on")},
     {"accelgen",
      POLICY_PARAMETERS("chunk", "off", "s_pf", "32", "s_min", "1", "extend", "off")}},
    {{"accelgen", POLICY_PARAMETERS("order", "off", "era", "off", "long_tokens", "20")},
     {"accelgen", POLICY_PARAMETERS("batch", "off", "s_pf", "32", "long_tokens", "20")}},
    {{"bros", POLICY_PARAMETERS("starve", "50ms", "be_min_share", "0.3")},
     {"bros", POLICY_PARAMETERS("watermark", "0", "drop", "any", "missed", "first",
                                "token_group", "3", "preempt", "recompute")}},
    {{"worth", NULL},
     {"worth", POLICY_PARAMETERS("preempt", "swap", "reserve", "0.5", "gap", "5ms",
                                 "fairness", "10", "max_stall", "100ms")}},
    {{"vtc", NULL}, {"vtc", POLICY_PARAMETERS("watermark", "0", "max_tenants", "2")}},
};
static const struct harness_policy caches[][VARIANTS] = {
    {{"paged", NULL}, {"paged", POLICY_PARAMETERS("prefix_sharing", "off")}},
    {{"contiguous", POLICY_PARAMETERS("reserve", "oracle")},
     {"contiguous", POLICY_PARAMETERS("max_len", "100")}},
    {{"tiered", NULL}, {"tiered", POLICY_PARAMETERS("prefix_sharing", "off")}},
    {{"bidirectional", NULL}, {"bidirectional", POLICY_PARAMETERS("mode", "off")}},
    {{"hybrid", NULL}, {"hybrid", POLICY_PARAMETERS("form", "hidden")}},
};
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
      found |= strcmp(schedulers[s][0].name, shipped.names[i]) == 0;
    if (!found)
      fail_msg("scheduler %s is in no workload", shipped.names[i]);
  }
  shipped_find(LLS_KIND_CACHE, &shipped);
  for (uint32_t i = 0; i < shipped.n; i++) {
    bool found = false;
    for (uint32_t c = 0; c < COUNT(caches); c++)
      found |= strcmp(caches[c][0].name, shipped.names[i]) == 0;
    if (!found)
      fail_msg("cache manager %s is in no workload", shipped.names[i]);
  }
}

static struct bed_options options(uint64_t seed)
{
  struct dice d = {seed * 1000003 + 17};
  struct bed_options o = {
      .block_tokens = 1u << dice(&d, 0, 5),
      .max_tokens = dice(&d, 0, 2) > 0 ? 300 : dice(&d, 32, 64),
      .max_sequences = dice(&d, 1, 12),
      .max_context = 320,
      .max_requests = dice(&d, 4, 12),
      .prefill_ns = dice(&d, 0, 1) * INT64_C(100000),
      .seed = seed,
  };
  uint32_t tokens = dice(&d, 0, 1) ? 1200 : dice(&d, 100, 400);
  o.device_units = 2 * (tokens / o.block_tokens + 1);
  o.host_units = dice(&d, 0, 1) * dice(&d, 0, o.device_units);
  o.int8 = dice(&d, LLS_INT8_OFF, LLS_INT8_ALL);
  return o;
}

static void run_pair(void **state, const struct harness_policy *scheduler,
                     const struct harness_policy *cache, uint32_t workloads)
{
  for (uint32_t i = 0; i < workloads; i++) {
    struct bed_options o = options(i);
    o.scheduler = scheduler[i % VARIANTS];
    o.cache = cache[i / VARIANTS % VARIANTS];
    o.window = i % 5 == 4 ? 1 + 3 * i : 0;
    workload_run(state, &o, 6, 0);
  }
}

static void test_conservation(void **state)
{
  const char *wanted = getenv("LLS_WORKLOADS");
  uint32_t workloads = wanted != NULL ? (uint32_t)strtoul(wanted, NULL, 10) : WORKLOADS;
  for (uint32_t s = 0; s < COUNT(schedulers); s++)
    for (uint32_t c = 0; c < COUNT(caches); c++)
      run_pair(state, schedulers[s], caches[c], workloads);
}

/* ---- every cache, every set of groups -------------------------------------------- */

static void run_sets(const struct harness_policy *cache, uint64_t seed,
                     struct groups_seen *seen)
{
  char where[WHERE_MAX], text[4096];
  struct findings f = {.fd = memfd_create("findings", MFD_CLOEXEC), .where = where};
  struct harness_loaded l = {0};
  struct lls_error err;
  assert_int_equal(policy_load(LLS_KIND_CACHE, cache, &l, &err), 0);
  bool int8 = lls_cache_makes(&l.module->cache, LLS_FORM_INT8);
  for (uint32_t i = 0; i < groups_sets() && f.n == 0; i += TAP_STEP(5)) {
    struct groups_set set;
    groups_make_set(&set, i, int8);
    groups_try(l.module, l.params, &set, seed + i, &f, seen);
  }
  ssize_t n = pread(f.fd, text, sizeof text - 1, 0);
  text[n > 0 ? n : 0] = '\0';
  if (f.n > 0)
    fail_msg("%s: %.*s", cache->name, (int)strcspn(text, "\n"), text);
  policy_unload(&l);
  close(f.fd);
}

/* `least`: how many of the sets each cache keeps. LLS_SEED draws other requests. */
static void test_groups(void **state)
{
  static const uint32_t least[COUNT(caches)] = {48, 6, 48, 42, 6};
  const char *first = getenv("LLS_SEED");
  uint64_t seed = first != NULL ? strtoull(first, NULL, 10) : 1;
  (void)state;
  for (uint32_t c = 0; c < COUNT(caches); c++)
    for (uint32_t i = 0; i < VARIANTS; i++) {
      struct groups_seen seen = {0};
      run_sets(&caches[c][i], 1000 * (seed + i), &seen);
      assert_true(seen.sets >= least[c] / TAP_STEP(6));
    }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_that_ship_are_here),
                                     cmocka_unit_test(test_conservation),
                                     cmocka_unit_test(test_groups)};
  return cmocka_run_group_tests(tests, workload_setup, workload_teardown);
}
