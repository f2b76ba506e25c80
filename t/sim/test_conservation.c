/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every scheduler that ships over every cache manager, 1,000 small random workloads each,
 * through the real loop on the simulated device: every request ends exactly once, with as
 * many tokens as it was to have unless it was cancelled or can't fit; no plan is bad; all
 * memory comes back; the same seed repeats itself to the byte.
 */
#include "t/tap.h"

#include <string.h>

#include "t/harness.h"

#define MODEL       "t/data/models/llama"
#define WORKLOADS   1000
#define A_MACHINE   25 /* workloads on each, one after the other */
#define MAX_CLIENTS 12
#define MAX_PLUGINS 32
#define MAX_STEPS   20000 /* of a workload: more is a request left hanging */

struct client {
  uint64_t id;
  int64_t arrival_ns, cancel_ns; /* cancel: LLS_NEVER = not */
  uint32_t prompt, length;
  uint32_t tokens, ended, reason;
  bool submitted, cancelled;
};

struct machine {
  struct harness h;
  struct lls_sim_options sim;
  struct client clients[MAX_CLIENTS];
  uint32_t n;
  uint64_t random, digest;
  int32_t prompt[64];
};

static uint32_t below(struct machine *m, uint32_t n)
{
  m->random = m->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)((m->random >> 33) % n);
}

static void mix(struct machine *m, uint64_t value)
{
  m->digest = (m->digest ^ value) * UINT64_C(0x100000001b3);
}

static void on_event(void *context, const struct lls_event *event)
{
  struct machine *m = context;
  struct client *c = event->owner;
  assert_int_equal(c->ended, 0);
  mix(m, (uint64_t)lls_sim_now(m->h.device));
  mix(m, event->request * 2 + event->kind);
  if (event->kind == LLS_EVENT_TOKEN) {
    c->tokens++;
    return;
  }
  c->ended++;
  c->reason = event->reason;
  assert_int_equal(c->tokens, event->generated_tokens);
}

/* ---- one workload
 * ---------------------------------------------------------------------- */

static void draw(struct machine *m)
{
  int64_t at_ns = lls_sim_now(m->h.device);
  m->n = 2 + below(m, MAX_CLIENTS - 1);
  for (uint32_t i = 0; i < m->n; i++) {
    at_ns += below(m, 3) == 0 ? 0 : below(m, 30000000);
    m->clients[i] = (struct client){.arrival_ns = at_ns,
                                    .cancel_ns = LLS_NEVER,
                                    .prompt = 1 + below(m, 60),
                                    .length = 1 + below(m, 40)};
    if (below(m, 12) == 0)
      m->clients[i].cancel_ns = at_ns + below(m, 100000000);
  }
}

/* Half of the prompts begin alike, so that some blocks are shared. */
static void submit(struct machine *m, struct client *c)
{
  uint32_t own = below(m, 2) == 0 ? 0 : below(m, 64);
  for (uint32_t i = 0; i < c->prompt; i++)
    m->prompt[i] = (int32_t)((i < 16 && own == 0 ? i : own * 5 + i * 3) % 250) + 3;
  struct lls_submission s = harness_submission(m->prompt, c->prompt, 64, c);
  s.ignore_eos = false;
  s.sampling.seed = c->length;
  s.arrival_ns = c->arrival_ns;
  s.request_class = below(m, 3);
  s.priority = (int32_t)below(m, 3) - 1;
  s.tenant = below(m, 4);
  s.slo.ttft_ns = below(m, 2) == 0 ? LLS_NEVER : 50000000;
  s.slo.tbt_ns = below(m, 2) == 0 ? LLS_NEVER : 20000000;
  assert_int_equal(lls_loop_submit(m->h.loop, &s, &c->id, NULL), 0);
  c->submitted = true;
}

/* What is due; when the next is, LLS_NEVER if nothing comes any more. */
static int64_t act(struct machine *m)
{
  int64_t now_ns = lls_sim_now(m->h.device), next_ns = LLS_NEVER;
  for (uint32_t i = 0; i < m->n; i++) {
    struct client *c = &m->clients[i];
    if (!c->submitted && c->arrival_ns <= now_ns)
      submit(m, c);
    if (c->submitted && !c->cancelled && c->cancel_ns != LLS_NEVER &&
        c->cancel_ns <= now_ns) {
      lls_loop_cancel(m->h.loop, c->id);
      c->cancelled = true;
    }
    if (!c->submitted && (next_ns == LLS_NEVER || c->arrival_ns < next_ns))
      next_ns = c->arrival_ns;
  }
  return next_ns;
}

static bool all_ended(const struct machine *m)
{
  for (uint32_t i = 0; i < m->n; i++)
    if (m->clients[i].ended == 0)
      return false;
  return true;
}

static void fail_hanging(struct machine *m)
{
  struct lls_loop_status s;
  lls_loop_status(m->h.loop, &s);
  for (uint32_t i = 0; i < m->n; i++)
    if (m->clients[i].ended == 0)
      print_message("# %u prompt tokens, %u of %u tokens\n", m->clients[i].prompt,
                    m->clients[i].tokens, m->clients[i].length);
  fail_msg("%u waiting, %u running, %u preempted after %d steps, %u of %u units free",
           s.waiting, s.running, s.preempted, MAX_STEPS, s.device_units_free,
           s.device_units_total);
}

static void run(struct machine *m)
{
  uint32_t steps = 0;
  for (; steps < MAX_STEPS && !all_ended(m); steps++) {
    int64_t next_ns = act(m);
    int busy = lls_loop_step(m->h.loop);
    assert_true(busy >= 0);
    lls_loop_events(m->h.loop, on_event, m);
    if (busy || all_ended(m))
      continue;
    int64_t idle_ns = lls_loop_idle_ns(m->h.loop), now_ns = lls_sim_now(m->h.device);
    if (idle_ns != LLS_NEVER && (next_ns == LLS_NEVER || now_ns + idle_ns < next_ns))
      next_ns = now_ns + idle_ns;
    assert_true(next_ns != LLS_NEVER); /* nobody is waited for, and somebody waits */
    lls_sim_advance(m->h.device, next_ns);
  }
  if (steps == MAX_STEPS)
    fail_hanging(m);
}

static void check(struct machine *m)
{
  for (uint32_t i = 0; i < m->n; i++) {
    const struct client *c = &m->clients[i];
    if (c->reason == LLS_FINISH_STOP)
      assert_int_equal(c->tokens, c->length);
    else if (c->reason == LLS_FINISH_CANCELLED)
      assert_true(c->cancelled);
    else
      assert_true(c->reason == LLS_FINISH_CAPACITY || c->reason == LLS_FINISH_REJECTED);
  }
  struct lls_loop_status s;
  lls_loop_status(m->h.loop, &s);
  assert_int_equal(s.device_units_free, s.device_units_total);
  assert_int_equal(s.host_units_free, s.host_units_total);
  assert_int_equal(s.plans_refused, 0);
  assert_false(s.fallen_back);
}

/* ---- machines
 * -------------------------------------------------------------------------- */

/* -ENOTSUP where the two policies don't go together. */
static int open_machine(struct machine *m, const char *scheduler, const char *cache,
                        struct lls_error *err)
{
  m->sim = (struct lls_sim_options){.rates = harness_rates(MODEL, 1),
                                    .memory = UINT64_C(1) << 40,
                                    .eos = 2,
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
      .int8 = below(m, 3),
      .scheduler = {scheduler, NULL},
      .cache = {cache, NULL},
      .predictor = {"fixed", NULL},
      .seed = m->random,
      .sim = &m->sim,
  };
  static const char *const moved_ahead[] = {"preempt", "swap", "watermark", "0", NULL};
  if (strcmp(scheduler, "alise") == 0 && below(m, 2) > 0)
    o.scheduler.parameters = moved_ahead;
  return harness_open(&m->h, &o, err);
}

/* The digest of all workloads of one machine; 0 if there is no such machine. */
static uint64_t run_machine(const char *scheduler, const char *cache, uint64_t seed,
                            struct lls_error *err)
{
  static struct machine m;
  m = (struct machine){.random = seed, .digest = 1};
  if (open_machine(&m, scheduler, cache, err) < 0)
    return 0;
  for (int i = 0; i < A_MACHINE; i++) {
    draw(&m);
    run(&m);
    check(&m);
  }
  harness_close(&m.h);
  return m.digest;
}

/* ---- all of them
 * ------------------------------------------------------------------------ */

struct plugins {
  char names[MAX_PLUGINS][LLS_PLUGIN_ID_MAX];
  uint32_t n;
};

/* Those that ship: fixtures lie in folders below t. */
static int add(void *context, const char *name, const char *path)
{
  struct plugins *p = context;
  if (strstr(path, "/t/") == NULL && p->n < MAX_PLUGINS)
    snprintf(p->names[p->n++], sizeof *p->names, "%s", name);
  return 0;
}

static bool test_pair(const char *scheduler, const char *cache)
{
  struct lls_error err = {0};
  uint32_t machines = WORKLOADS / A_MACHINE;
  uint64_t first = run_machine(scheduler, cache, 1, &err);
  if (first == 0) {
    print_message("# %s over %s: %s\n", scheduler, cache, err.text);
    return false;
  }
  assert_true(run_machine(scheduler, cache, 1, &err) == first);
  for (uint64_t seed = 2; seed <= machines; seed++)
    if (run_machine(scheduler, cache, seed, &err) == 0)
      fail_msg("%s over %s: %s", scheduler, cache, err.text);
  return true;
}

static void test_every_scheduler_over_every_cache(void **state)
{
  (void)state;
  struct plugins schedulers = {.n = 0}, caches = {.n = 0};
  uint32_t pairs = 0;
  lls_plugin_each(LLS_KIND_SCHEDULER, add, &schedulers);
  lls_plugin_each(LLS_KIND_CACHE, add, &caches);
  for (uint32_t s = 0; s < schedulers.n; s++)
    for (uint32_t c = 0; c < caches.n; c++)
      pairs += test_pair(schedulers.names[s], caches.names[c]);
  print_message("# %u pairs, %u workloads each\n", pairs, WORKLOADS);
  assert_true(pairs >= schedulers.n); /* paged goes with all */
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_scheduler_over_every_cache),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
