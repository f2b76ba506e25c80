/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random workloads on several simulated instances, each with a clock of its own: every
 * request ends once and with all its tokens unless it was cancelled or can't fit, its
 * events come in order, no plan is bad, all memory comes back on every instance, no
 * instance sees what others do later, and the same seed repeats itself to the byte.
 */
#include "t/tap.h"

#include <string.h>

#include "t/harness.h"

#define MODEL       "t/data/models/llama"
#define MACHINES    60 /* of each kind */
#define MAX_CLIENTS 24
#define MAX_TURNS   200000

struct client {
  uint64_t id;
  int64_t arrival_ns, cancel_ns, last_ns;
  uint32_t prompt, length, tokens, ended, reason;
  bool submitted, cancelled;
};

struct machine {
  struct harness h;
  struct lls_sim_options sim;
  struct client clients[MAX_CLIENTS];
  uint32_t n, instances, turn;
  uint64_t random, digest, handed_over;
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
  int64_t now_ns = lls_sim_now(m->h.devices[m->turn]);
  assert_int_equal(c->ended, 0);
  assert_true(now_ns >= c->last_ns); /* by whatever clock, a request's time goes on */
  c->last_ns = now_ns;
  mix(m, (uint64_t)now_ns);
  mix(m, event->request * 2 + event->kind);
  if (event->kind == LLS_EVENT_TOKEN) {
    c->tokens++;
    return;
  }
  c->ended++;
  c->reason = event->reason;
  assert_int_equal(c->tokens, event->generated_tokens);
}

static void draw(struct machine *m)
{
  int64_t at_ns = 0;
  m->n = 2 + below(m, MAX_CLIENTS - 1);
  for (uint32_t i = 0; i < m->n; i++) {
    at_ns += below(m, 3) == 0 ? 0 : below(m, 30000000);
    m->clients[i] = (struct client){.arrival_ns = at_ns,
                                    .cancel_ns = LLS_NEVER,
                                    .prompt = 1 + below(m, 60),
                                    .length = 1 + below(m, 40)};
    if (below(m, 4) == 0)
      m->clients[i].cancel_ns = at_ns + below(m, 200000000);
  }
}

static void submit(struct machine *m, struct client *c)
{
  uint32_t own = below(m, 2) == 0 ? 0 : below(m, 64);
  for (uint32_t i = 0; i < c->prompt; i++)
    m->prompt[i] = (int32_t)((i < 16 && own == 0 ? i : own * 5 + i * 3) % 250) + 3;
  struct lls_submission s = harness_submission(m->prompt, c->prompt, 64, c);
  s.ignore_eos = false;
  s.sampling.seed = c->length;
  s.arrival_ns = c->arrival_ns > 0 ? c->arrival_ns : 1;
  assert_int_equal(lls_loop_submit(m->h.loop, &s, &c->id, NULL), 0);
  c->submitted = true;
}

/* What is due by now; when the next is. */
static int64_t act(struct machine *m, int64_t now_ns)
{
  int64_t next_ns = LLS_NEVER;
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

static uint32_t unended(const struct machine *m)
{
  uint32_t n = 0;
  for (uint32_t i = 0; i < m->n; i++)
    n += m->clients[i].ended == 0;
  return n;
}

/* Until nobody has anything to do: others hear of the last blocks after the last end. */
static void run(struct machine *m)
{
  int64_t wake_ns = act(m, 0);
  for (uint32_t turns = 0;; turns++) {
    int64_t next_ns = lls_loop_next_ns(m->h.loop, &m->turn);
    if (next_ns == LLS_NEVER && wake_ns == LLS_NEVER)
      break;
    bool arrives = next_ns == LLS_NEVER || (wake_ns != LLS_NEVER && wake_ns < next_ns);
    int64_t until_ns = arrives ? wake_ns : next_ns;
    for (uint32_t i = 0; i < m->instances; i++)
      lls_sim_advance(m->h.devices[i], until_ns);
    wake_ns = act(m, until_ns);
    if (arrives)
      continue;
    assert_true(lls_loop_step_one(m->h.loop, m->turn) >= 0);
    lls_loop_events(m->h.loop, on_event, m);
    if (turns > MAX_TURNS)
      fail_msg("%u requests hang", unended(m));
  }
}

static void check(struct machine *m)
{
  assert_int_equal(unended(m), 0);
  for (uint32_t i = 0; i < m->n; i++) {
    const struct client *c = &m->clients[i];
    if (c->reason == LLS_FINISH_STOP)
      assert_int_equal(c->tokens, c->length);
    else if (c->reason == LLS_FINISH_CANCELLED)
      assert_true(c->cancelled);
    else
      assert_true(c->reason == LLS_FINISH_CAPACITY || c->reason == LLS_FINISH_REJECTED);
  }
  for (uint32_t i = 0; i < m->instances; i++) {
    struct lls_loop_status s;
    uint32_t role;
    lls_loop_instance_status(m->h.loop, i, &role, &s);
    assert_int_equal(s.device_units_free, s.device_units_total);
    assert_int_equal(s.host_units_free, s.host_units_total);
    assert_int_equal(s.waiting + s.running + s.preempted + s.offered, 0);
    assert_int_equal(s.plans_refused, 0);
    assert_false(s.fallen_back);
    m->handed_over += s.handed_over;
  }
}

static struct lls_cost_rates rates(double peer_link)
{
  const struct lls_profile p = {.device = {.bandwidth = 10, .matrix = 1},
                                .host_link = {.bandwidth = 1, .latency = 1000},
                                .peer_link = {.bandwidth = peer_link, .latency = 1000},
                                .efficiency = {1, 1, 1, 1, 1, 1, 1},
                                .overhead = {.step = 5000000, .row = 50000}};
  struct lls_model_config config;
  struct lls_cost_shape shape;
  struct lls_cost_rates r;
  assert_int_equal(lls_model_config_read(source_path(MODEL), &config, NULL), 0);
  lls_cost_shape_init(&shape, &config, 2, 2, 1);
  lls_cost_rates_init(&r, &p, &shape);
  return r;
}

static void open_machine(struct machine *m, const char *scheduler, const char *cache,
                         bool roles)
{
  struct lls_error err = {""};
  m->instances = 2 + below(m, HARNESS_INSTANCES - 1);
  m->sim = (struct lls_sim_options){.rates = rates(below(m, 2) * 0.01),
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
      .scheduler = {scheduler, NULL},
      .cache = {cache, NULL},
      .predictor = {"fixed", NULL},
      .seed = m->random,
      .sim = &m->sim,
      .instances = m->instances,
  };
  for (uint32_t i = 0; i < m->instances && roles; i++)
    o.roles[i] = i == 0                  ? LLS_ROLE_PREFILL
                 : i == m->instances - 1 ? LLS_ROLE_DECODE
                                         : below(m, 3);
  if (harness_open(&m->h, &o, &err) < 0)
    fail_msg("%s over %s: %s", scheduler, cache, err.text);
}

static uint64_t run_machine(const char *scheduler, const char *cache, bool roles,
                            uint64_t seed, uint64_t *handed_over)
{
  static struct machine m;
  m = (struct machine){.random = seed, .digest = 1};
  open_machine(&m, scheduler, cache, roles);
  draw(&m);
  run(&m);
  check(&m);
  harness_close(&m.h);
  *handed_over += m.handed_over;
  return m.digest;
}

static void run_all(const char *scheduler, const char *cache, bool roles)
{
  uint64_t handed_over = 0;
  for (uint64_t seed = 1; seed <= MACHINES; seed++) {
    uint64_t first = run_machine(scheduler, cache, roles, seed, &handed_over);
    assert_true(run_machine(scheduler, cache, roles, seed, &handed_over) == first);
  }
  print_message("# %s over %s: %llu handed over\n", scheduler, cache,
                (unsigned long long)handed_over);
  assert_true((handed_over > 0) == roles);
}

static void test_mixed_instances(void **state)
{
  (void)state;
  run_all("fcfs", "paged", false);
  run_all("sarathi", "paged", false);
  run_all("mlfq", "tiered", false);
}

static void test_roles(void **state)
{
  (void)state;
  run_all("distserve", "paged", true);
  run_all("distserve", "tiered", true);
  run_all("distserve", "hybrid", true);
  run_all("distserve", "contiguous", true);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_mixed_instances),
      cmocka_unit_test(test_roles),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
