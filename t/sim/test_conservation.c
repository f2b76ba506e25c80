/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every scheduler that ships over every cache manager, 1,000 small random workloads each,
 * through the real loop on the simulated device: every request ends exactly once, with
 * all its tokens unless it was cancelled or cannot fit; no plan is invalid; all memory
 * is released; the same seed gives the same bytes.
 */
#include "t/tap.h"

#include <string.h>

#include "t/shipped.h"
#include "t/sim/crowd.h"

#define MODEL       "t/data/models/llama"
#define VOCABULARY  256 /* size of the vocabulary */
#define EOS         2
#define WORKLOADS   TAP_LOTS(1000)
#define A_MACHINE   25 /* workloads run on each machine, one after the other */
#define MAX_CLIENTS 12
#define MAX_STEPS   20000 /* of a workload: more means that a request hangs */

struct machine {
  struct harness h;
  struct lls_sim_options sim;
  struct crowd crowd;
};

static uint32_t below(struct machine *m, uint32_t n)
{
  return crowd_below(&m->crowd, n);
}

static void on_event(void *context, const struct lls_event *event)
{
  struct machine *m = context;
  crowd_event(&m->crowd, event, lls_sim_now(m->h.device));
}

/* ---- one workload ----------------------------------------------------------------- */

static void dress(struct crowd *c, struct lls_submission *s)
{
  s->request_class = crowd_below(c, 3);
  s->priority = (int32_t)crowd_below(c, 3) - 1;
  s->tenant = crowd_below(c, 4);
  s->slo.ttft_ns = crowd_below(c, 2) == 0 ? LLS_NEVER : 50000000;
  s->slo.tbt_ns = crowd_below(c, 2) == 0 ? LLS_NEVER : 20000000;
}

static void fail_hanging(struct machine *m)
{
  struct lls_loop_status s;
  lls_loop_status(m->h.loop, &s);
  for (uint32_t i = 0; i < m->crowd.n; i++) {
    const struct client *c = &m->crowd.clients[i];
    if (c->ended == 0)
      print_message("# %u prompt tokens, %u of %u tokens\n", c->prompt, c->tokens,
                    c->length);
  }
  fail_msg("%u waiting, %u running, %u preempted after %d steps, %u of %u units free",
           s.waiting, s.running, s.preempted, MAX_STEPS, s.device_units_free,
           s.device_units_total);
}

static void run(struct machine *m)
{
  if (!crowd_serve(&m->crowd, &m->h, dress, on_event, m, MAX_STEPS))
    fail_hanging(m);
}

static void check(struct machine *m)
{
  crowd_check(&m->crowd);
  struct lls_loop_status s;
  lls_loop_status(m->h.loop, &s);
  assert_int_equal(s.device_units_free, s.device_units_total);
  assert_int_equal(s.host_units_free, s.host_units_total);
  assert_int_equal(s.plans_refused, 0);
  assert_false(s.fallen_back);
}

/* ---- machines --------------------------------------------------------------------- */

/* Returns -ENOTSUP if the two policies do not work together. */
static int open_machine(struct machine *m, const char *scheduler, const char *cache,
                        struct lls_error *err)
{
  uint32_t window = m->crowd.random % 3 == 2 ? 20 : 0; /* the random is the seed yet */
  m->sim = (struct lls_sim_options){.rates = harness_rates(MODEL, 1),
                                    .memory = UINT64_C(1) << 40,
                                    .eos = EOS,
                                    .name = "test"};
  struct harness_options o = {
      .model = MODEL,
      .dummy = true,
      .element = LLS_BF16,
      .max_tokens = 16 + 8 * below(m, 10),
      .max_sequences = 1 + below(m, 8),
      .max_requests = 32,
      .block_tokens = 4 << below(m, 3),
      .max_context = 128,
      .device_units = 40 + below(m, 200),
      .host_units = below(m, 2) * 64,
      .window = window,
      .int8 = below(m, 3),
      .mask_work = 500 * below(m, 2),
      .scheduler = {scheduler, NULL},
      .cache = {cache, NULL},
      .predictor = {"fixed", NULL},
      .seed = m->crowd.random,
      .sim = &m->sim,
  };
  static const char *const moved_ahead[] = {"preempt", "swap", "watermark", "0", NULL};
  static const char *const small_batches[] = {
      "rmin", "3", "switch_below", "2", "bmax_frac", "0.2", "headroom_iters", "2", NULL};
  if (strcmp(scheduler, "alise") == 0 && below(m, 2) > 0)
    o.scheduler.parameters = moved_ahead;
  if (strcmp(scheduler, "aligned") == 0 && below(m, 2) > 0)
    o.scheduler.parameters = small_batches;
  return harness_open(&m->h, &o, err);
}

/* The digest of all workloads of one machine; 0 if the machine is not possible. */
static uint64_t run_machine(const char *scheduler, const char *cache, uint64_t seed,
                            struct lls_grammar *grammar, struct lls_error *err)
{
  static struct machine m;
  m = (struct machine){.crowd = {.random = seed, .digest = 1, .grammar = grammar}};
  if (open_machine(&m, scheduler, cache, err) < 0)
    return 0;
  for (int i = 0; i < A_MACHINE; i++) {
    crowd_draw(&m.crowd, MAX_CLIENTS, lls_sim_now(m.h.device), 12, 100000000);
    run(&m);
    check(&m);
  }
  harness_close(&m.h);
  return m.crowd.digest;
}

/* ---- all of them ------------------------------------------------------------------ */

static bool test_pair(const char *scheduler, const char *cache,
                      struct lls_grammar *grammar)
{
  struct lls_error err = {0};
  uint32_t machines = WORKLOADS / A_MACHINE;
  uint64_t first = run_machine(scheduler, cache, 1, grammar, &err);
  if (first == 0) {
    print_message("# %s over %s: %s\n", scheduler, cache, err.text);
    return false;
  }
  assert_true(run_machine(scheduler, cache, 1, grammar, &err) == first);
  for (uint64_t seed = 2; seed <= machines; seed++)
    if (run_machine(scheduler, cache, seed, grammar, &err) == 0)
      fail_msg("%s over %s: %s", scheduler, cache, err.text);
  return true;
}

static void test_every_scheduler_over_every_cache(void **state)
{
  (void)state;
  struct shipped schedulers, caches;
  struct jumps jumps;
  uint32_t pairs = 0;
  jumps_open(&jumps, VOCABULARY, EOS);
  shipped_find(LLS_KIND_SCHEDULER, &schedulers);
  shipped_find(LLS_KIND_CACHE, &caches);
  for (uint32_t s = 0; s < schedulers.n; s++)
    for (uint32_t c = 0; c < caches.n; c++)
      pairs += test_pair(schedulers.names[s], caches.names[c], jumps.grammar);
  print_message("# %u pairs, %u workloads each\n", pairs, WORKLOADS);
  assert_true(pairs >= schedulers.n); /* paged works with all */
  jumps_close(&jumps);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_scheduler_over_every_cache),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
