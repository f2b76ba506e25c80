/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random workloads on several simulated instances, each with its own clock: every
 * request ends once, with all its tokens unless it was cancelled or cannot fit; its
 * events come in order; no plan is invalid; all memory is released on every instance;
 * no instance sees another's future; each sees the others' load at the time of its
 * plan; and the same seed gives the same bytes.
 */
#include "t/tap.h"

#include <errno.h>
#include <string.h>

#include "t/shipped.h"
#include "t/sim/crowd.h"

#define MODEL      "t/data/models/llama"
#define VOCABULARY 256 /* size of the vocabulary */
#define EOS        2
#define MACHINES   TAP_LOTS(60) /* machines of each kind */
#define LOTS       TAP_LOTS(400)
#define MAX_TURNS  200000

/* The state of an instance at the end of one of its steps. */
struct past {
  int64_t at_ns[MAX_TURNS];
  uint32_t alive[MAX_TURNS], free_units[MAX_TURNS];
  uint32_t n;
};

struct machine {
  struct past past[HARNESS_INSTANCES];
  uint64_t looks;
  struct harness h;
  struct lls_sim_options sim;
  struct crowd crowd;
  uint32_t instances, turn;
  uint64_t handed_over;
};

/* Sums over machines. A small crowd may stay on one instance, which then looks at none.
 */
struct sums {
  uint64_t handed_over, looks;
};

static uint32_t below(struct machine *m, uint32_t n)
{
  return crowd_below(&m->crowd, n);
}

static void on_event(void *context, const struct lls_event *event)
{
  struct machine *m = context;
  crowd_event(&m->crowd, event, lls_sim_now(m->h.devices[m->turn]));
}

static void remember(struct machine *m, uint32_t instance)
{
  struct past *past = &m->past[instance];
  struct lls_loop_status s;
  uint32_t role;
  lls_loop_instance_status(m->h.loop, instance, &role, &s);
  past->at_ns[past->n] = lls_sim_now(m->h.devices[instance]);
  past->alive[past->n] = s.waiting + s.running + s.preempted + s.offered;
  past->free_units[past->n++] = s.device_units_free;
}

/* The view must show every instance as it was after its last step that had ended by
 * then, and no fewer requests. */
static void check_loads(void *context, const struct lls_step_view *view,
                        const struct lls_plan *plan, bool own)
{
  struct machine *m = context;
  (void)plan, (void)own;
  for (uint32_t i = 0; i < m->instances; i++) {
    const struct past *past = &m->past[i];
    uint32_t n = past->n;
    while (n > 0 && past->at_ns[n - 1] > view->now_ns)
      n--;
    if (n == 0)
      continue;
    assert_int_equal(view->loads[i]->free_units, past->free_units[n - 1]);
    assert_true(view->loads[i]->requests >= past->alive[n - 1]);
    assert_true(i != view->instance || view->loads[i]->requests == past->alive[n - 1]);
    m->looks += i != view->instance;
  }
}

static int64_t act(struct machine *m, int64_t now_ns)
{
  return crowd_act(&m->crowd, m->h.loop, now_ns, NULL);
}

/* Runs until no instance has work; instances learn of the last released blocks after
 * the last end. */
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
    remember(m, m->turn);
    lls_loop_events(m->h.loop, on_event, m);
    if (turns > MAX_TURNS)
      fail_msg("%u requests hang", crowd_unended(&m->crowd));
  }
}

static void check(struct machine *m)
{
  crowd_check(&m->crowd);
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

/* peer_link: GB/s between instances; 0: through the host. */
static struct lls_cost_rates rates(double peer_link)
{
  struct lls_cost_rates r = harness_rates(MODEL, 1);
  r.peer_byte_ns = peer_link > 0 ? 1 / peer_link : 0;
  r.peer_latency_ns = 1000;
  return r;
}

static const double some_links[] = {0, 0.01}, all_links[] = {0, 0.0001, 0.001, 0.01, 1};

/* Returns false if the policies do not work together. by_lot: more of the machine is
 * random. */
static bool open_machine(struct machine *m, const char *scheduler, const char *cache,
                         bool roles, bool by_lot)
{
  struct lls_error err = {""};
  m->instances = 2 + below(m, HARNESS_INSTANCES - 1);
  double link = by_lot ? all_links[below(m, 5)] : some_links[below(m, 2)];
  m->sim = (struct lls_sim_options){
      .rates = rates(link), .memory = UINT64_C(1) << 40, .eos = EOS, .name = "test"};
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
      .int8 = by_lot ? below(m, 3) : LLS_INT8_OFF,
      .scheduler = {scheduler, NULL},
      .cache = {cache, NULL},
      .predictor = {"fixed", NULL},
      .seed = m->crowd.random,
      .sim = &m->sim,
      .instances = m->instances,
      .observer = {.context = m, .on_plan = check_loads},
  };
  for (uint32_t i = 0; i < m->instances && roles; i++)
    o.roles[i] = i == 0                  ? LLS_ROLE_PREFILL
                 : i == m->instances - 1 ? LLS_ROLE_DECODE
                                         : below(m, 3);
  static const char *const pools[][7] = {
      {"pool", "decode", NULL},
      {"offers_frac", "0.1", NULL},
      {"bmax_frac", "0.2", NULL},
      {"offers_frac", "0", "class_frac", "0", "rmin", "4", NULL}};
  if (strcmp(scheduler, "aligned") == 0)
    o.scheduler.parameters = pools[below(m, 4)];
  int rc = harness_open(&m->h, &o, &err);
  if (rc < 0 && (rc != -ENOTSUP || !by_lot))
    fail_msg("%s over %s: %s", scheduler, cache, err.text);
  return rc == 0;
}

/* The digest; 0: the machine is not possible. */
static uint64_t run_machine(const char *scheduler, const char *cache, bool roles,
                            bool by_lot, uint64_t seed, struct lls_grammar *grammar,
                            struct sums *sums)
{
  static struct machine m;
  memset(&m, 0, sizeof m);
  m.crowd = (struct crowd){.random = seed, .digest = 1, .grammar = grammar};
  if (!open_machine(&m, scheduler, cache, roles, by_lot))
    return 0;
  crowd_draw(&m.crowd, CROWD_MOST, 0, 4, 200000000);
  run(&m);
  check(&m);
  harness_close(&m.h);
  sums->handed_over += m.handed_over;
  sums->looks += m.looks;
  return m.crowd.digest;
}

static void run_all(const char *scheduler, const char *cache, bool roles)
{
  struct sums sums = {0};
  struct jumps jumps;
  jumps_open(&jumps, VOCABULARY, EOS);
  for (uint64_t seed = 1; seed <= MACHINES; seed++) {
    struct lls_grammar *g = jumps.grammar;
    uint64_t first = run_machine(scheduler, cache, roles, false, seed, g, &sums);
    assert_true(run_machine(scheduler, cache, roles, false, seed, g, &sums) == first);
  }
  jumps_close(&jumps);
  print_message("# %s over %s: %llu handed over\n", scheduler, cache,
                (unsigned long long)sums.handed_over);
  assert_true((sums.handed_over > 0) == roles);
  assert_true(sums.looks > MACHINES);
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
  run_all("aligned", "paged", true);
  run_all("aligned", "tiered", true);
  run_all("aligned", "hybrid", true);
  run_all("aligned", "contiguous", true);
}

/* Any shipped scheduler with any shipped cache manager, with roles if the scheduler
 * supports them, over links of 100 KB/s to 1 GB/s or none, with or without INT8
 * blocks. */
static void test_by_lot(void **state)
{
  (void)state;
  struct shipped schedulers, caches;
  struct jumps jumps;
  struct sums sums = {0};
  uint64_t machines = 0, with_roles = 0;
  shipped_find(LLS_KIND_SCHEDULER, &schedulers);
  shipped_find(LLS_KIND_CACHE, &caches);
  jumps_open(&jumps, VOCABULARY, EOS);
  for (uint64_t seed = 1; seed <= LOTS; seed++) {
    struct crowd lot = {.random = seed * 977};
    const char *scheduler = schedulers.names[crowd_below(&lot, schedulers.n)];
    const char *cache = caches.names[crowd_below(&lot, caches.n)];
    bool roles = crowd_below(&lot, 2) == 0;
    if (roles)
      scheduler = crowd_below(&lot, 2) == 0 ? "distserve" : "aligned";
    bool ran =
        run_machine(scheduler, cache, roles, true, seed, jumps.grammar, &sums) != 0;
    machines += ran;
    with_roles += ran && roles;
  }
  jumps_close(&jumps);
  print_message("# %llu machines, %llu with roles, %llu handed over\n",
                (unsigned long long)machines, (unsigned long long)with_roles,
                (unsigned long long)sums.handed_over);
  assert_true(machines >= LOTS / 2 && with_roles >= LOTS / 4);
  assert_true(sums.handed_over > with_roles && sums.looks > machines);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_by_lot),
      cmocka_unit_test(test_mixed_instances),
      cmocka_unit_test(test_roles),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
