/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The invariants of AlignedServe's scheduler in every step, checked between the core
 * and the plugin while random clients come and go, in the real loop on the simulated
 * device, with cache managers that do and do not move memory concurrently with steps:
 * every request is in one place, batches change as Algorithm 2 prescribes, memory is
 * never given away twice, and every request ends.
 */
#include "t/tap.h"

#include <llmserve/scheduler.h>

#include <string.h>

#include "core/instance/policy_figures.h"
#include "t/sim/crowd.h"

#define MODEL     "t/data/models/llama"
#define MACHINES  150 /* for each cache manager */
#define MAX_STEPS 20000
#define MOST      64 /* most requests, and most figures */

enum place { NOWHERE, POOL, NEXT, SPARE, RUNNING };

struct where {
  uint64_t id;
  enum place place;
  uint32_t batch;
};

struct figure {
  char name[32];
  double value;
};

/* The plugin's figures, read before and after each plan. */
struct snapshot {
  struct where requests[MOST];
  struct figure figures[MOST];
  uint32_t n, n_figures;
};

static struct lls_scheduler_vtable plugin; /* the plugin's own vtable */
static struct lls_plugin_module between;   /* its module, with our plan callback */
static struct snapshot before, after;
static struct figure totals[MOST]; /* counted events, over all machines */
static uint32_t n_totals;
static uint64_t victims, old_victims, let_in;

/* ---- snapshots --------------------------------------------------------------------- */

static void add_place(void *context, const char *line)
{
  static const char *const names[] = {"", "pool", "next", "spare", "running"};
  struct snapshot *s = context;
  unsigned long long id;
  unsigned batch;
  char name[16];
  if (sscanf(line, "request %llu %15s batch %u", &id, name, &batch) != 3)
    return;
  struct where *w = &s->requests[s->n++];
  *w = (struct where){.id = id, .batch = batch};
  for (uint32_t i = 0; i < 5; i++)
    if (strcmp(name, names[i]) == 0)
      w->place = (enum place)i;
}

static void add_figure(void *context, const char *name, double value)
{
  struct snapshot *s = context;
  struct figure *f = &s->figures[s->n_figures++];
  snprintf(f->name, sizeof f->name, "%s", name);
  f->value = value;
}

static void no_number(void *context, const char *name, double value)
{
  (void)context, (void)name, (void)value;
}

static double figure(const struct snapshot *s, const char *name)
{
  for (uint32_t i = 0; i < s->n_figures; i++)
    if (strcmp(s->figures[i].name, name) == 0)
      return s->figures[i].value;
  fail_msg("no figure %s", name);
  return 0;
}

static const struct where *find(const struct snapshot *s, uint64_t id)
{
  for (uint32_t i = 0; i < s->n; i++)
    if (s->requests[i].id == id)
      return &s->requests[i];
  return NULL;
}

/* Each request is reported in one place, and each place has the reported number of
 * requests. */
static void take(struct snapshot *s, void *self)
{
  uint32_t n[5] = {0};
  s->n = s->n_figures = 0;
  plugin.dump(self,
              &(struct lls_sink){.context = s, .number = no_number, .text = add_place});
  plugin.stats(self, &(struct lls_sink){.context = s, .number = add_figure});
  for (uint32_t i = 0; i < s->n; i++) {
    assert_ptr_equal(find(s, s->requests[i].id), &s->requests[i]);
    n[s->requests[i].place]++;
  }
  assert_int_equal(n[NOWHERE], 0);
  assert_int_equal(n[POOL], figure(s, "pool"));
  assert_int_equal(n[NEXT], figure(s, "next"));
  assert_int_equal(n[SPARE], figure(s, "spare"));
  assert_int_equal(n[RUNNING], figure(s, "running"));
}

/* ---- a plan ------------------------------------------------------------------------ */

static uint32_t newest(const struct snapshot *s)
{
  uint32_t tag = 0;
  for (uint32_t i = 0; i < s->n; i++)
    if (s->requests[i].place == RUNNING && s->requests[i].batch > tag)
      tag = s->requests[i].batch;
  return tag;
}

static bool switching(const struct snapshot *s)
{
  for (uint32_t i = 0; i < s->n; i++)
    if (s->requests[i].place == RUNNING && s->requests[i].batch != newest(s))
      return true;
  return false;
}

static const struct lls_request *seen(const struct lls_step_view *v, uint64_t id)
{
  const struct lls_request *const *const lists[] = {v->waiting, v->running, v->preempted,
                                                    v->moving};
  const uint32_t n[] = {v->n_waiting, v->n_running, v->n_preempted, v->n_moving};
  for (uint32_t l = 0; l < 4; l++)
    for (uint32_t i = 0; i < n[l]; i++)
      if (lists[l][i]->id == id)
        return lists[l][i];
  return NULL;
}

/* Invariant 5: exactly the requests that are prefilled have a place. */
static void check_places(const struct lls_step_view *v, const struct lls_plan *plan)
{
  uint32_t prefilled = 0, ended = 0;
  for (uint32_t i = 0; i < after.n; i++)
    assert_non_null(seen(v, after.requests[i].id));
  for (uint32_t i = 0; i < v->n_running; i++)
    prefilled += lls_request_decodes(v->running[i]);
  /* preempted requests lose their place and all their memory */
  for (uint32_t i = 0; i < plan->n_items; i++) {
    const struct lls_plan_item *item = &plan->items[i];
    const struct lls_request *r = seen(v, item->request);
    ended += item->kind == LLS_PLAN_REJECT && lls_request_decodes(r);
    ended += item->kind == LLS_PLAN_PREEMPT && item->mode == LLS_PREEMPT_RECOMPUTE &&
             lls_request_decodes(r);
    if (item->kind == LLS_PLAN_PREEMPT && item->mode == LLS_PREEMPT_RECOMPUTE)
      assert_null(find(&after, item->request));
  }
  for (uint32_t i = 0; i < v->n_moving; i++)
    prefilled += lls_request_pending(v->moving[i]) == 1;
  for (uint32_t i = 0; i < v->n_preempted; i++)
    prefilled += v->preempted[i]->generated_tokens > 0 &&
                 lls_request_pending(v->preempted[i]) == 1;
  assert_int_equal(after.n, prefilled - ended);
}

/* Invariants 6 to 8: the victim of a switch belongs to an older batch; no request is
 * admitted in a plan that evicts one of the running batch; decoded requests are on the
 * device. */
static void check_batch(const struct lls_step_view *v, const struct lls_plan *plan)
{
  uint32_t left = 0, in = 0;
  bool two = switching(&before);
  for (uint32_t i = 0; i < plan->n_items; i++) {
    const struct lls_plan_item *item = &plan->items[i];
    const struct where *was = find(&before, item->request);
    bool ran = was != NULL && was->place == RUNNING;
    if (item->kind == LLS_PLAN_PREEMPT && ran) {
      left++;
      two = two && left == 1; /* only the first one's is certain */
      if (two)
        assert_true(was->batch < newest(&before));
      old_victims += two;
    }
    if (item->kind != LLS_PLAN_RUN || was == NULL)
      continue;
    in += !ran;
    assert_int_equal(item->tokens, 1);
    assert_int_not_equal(seen(v, item->request)->state, LLS_MOVING);
    assert_int_equal(find(&after, item->request)->place, RUNNING);
  }
  if (left > 0)
    assert_int_equal(in, 0);
  victims += left;
  let_in += in;
}

static int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  take(&before, self);
  int rc = plugin.plan(self, view, out);
  take(&after, self);
  check_places(view, out);
  check_batch(view, out);
  return rc;
}

static void stand_between(void *context, struct lls_loop_policies *policies)
{
  (void)context;
  between = *policies->scheduler.module;
  plugin = between.scheduler;
  between.scheduler.plan = plan;
  policies->scheduler.module = &between;
}

/* ---- random loads ------------------------------------------------------------------ */

struct machine {
  struct harness h;
  struct lls_sim_options sim;
  struct crowd crowd;
};

static void on_event(void *context, const struct lls_event *event)
{
  struct machine *m = context;
  crowd_event(&m->crowd, event, lls_sim_now(m->h.device));
}

static void open_machine(struct machine *m, const char *cache)
{
  static const char *const parameters[][20] = {
      {"rmin", "3", "switch_below", "3", "bmax_frac", "0.3", "headroom_iters", "1",
       "starve", "20ms", "switch_frac", "0", "rest", "stay", NULL},
      {"rmin", "4", "switch_below", "2", "bmax_frac", "0.5", "victim", "random", "slack",
       "0.2", "leaf_width", "4", "len_max", "256", "starve", "0", NULL},
      {"rmin", "2", "bmax_frac", "0.2", "prefetch", "off", "batching", "fcfs", NULL},
      {"rmin", "3", "expand", "min", "preempt", "recompute", "starve", "5ms",
       "headroom_iters", "0", "watermark", "0", NULL},
  };
  struct crowd *c = &m->crowd;
  m->sim = (struct lls_sim_options){.rates = harness_rates(MODEL, 0.02),
                                    .memory = UINT64_C(1) << 40,
                                    .eos = 2,
                                    .name = "test"};
  struct harness_options o = {
      .model = MODEL,
      .dummy = true,
      .element = LLS_BF16,
      .max_tokens = 64,
      .max_sequences = 4 + crowd_below(c, 12),
      .max_requests = 32,
      .block_tokens = 4 << crowd_below(c, 3),
      .max_context = 128,
      .device_units = 40 + crowd_below(c, 100),
      .host_units = crowd_below(c, 3) * 200,
      .scheduler = {"aligned", parameters[crowd_below(c, 4)]},
      .cache = {cache, NULL},
      .predictor = {"none", NULL},
      .seed = c->random,
      .sim = &m->sim,
      .replace = stand_between,
  };
  struct lls_error err = {0};
  if (harness_open(&m->h, &o, &err) < 0)
    fail_msg("%s", err.text);
}

static double *total_of(const char *name)
{
  for (uint32_t i = 0; i < n_totals; i++)
    if (strcmp(totals[i].name, name) == 0)
      return &totals[i].value;
  struct figure *f = &totals[n_totals++];
  snprintf(f->name, sizeof f->name, "%s", name);
  f->value = 0;
  return &f->value;
}

static double total(const char *name)
{
  return *total_of(name);
}

static void add_totals(struct lls_loop *loop)
{
  static struct lls_loop_policy_stats f;
  lls_loop_policy_stats(loop, 0, &f);
  for (uint32_t i = 0; i < f.scheduler.n_counters; i++)
    *total_of(f.scheduler.counters[i].name) += f.scheduler.counters[i].value;
}

static void run_machine(const char *cache, uint64_t seed)
{
  static struct machine m;
  m = (struct machine){.crowd = {.random = seed, .digest = 1}};
  open_machine(&m, cache);
  crowd_draw(&m.crowd, CROWD_MOST, 0, 8, 200000000);
  assert_true(crowd_serve(&m.crowd, &m.h, NULL, on_event, &m, MAX_STEPS));
  crowd_check(&m.crowd);
  struct lls_loop_status s;
  lls_loop_status(m.h.loop, &s);
  assert_int_equal(s.device_units_free, s.device_units_total);
  assert_int_equal(s.host_units_free, s.host_units_total);
  assert_int_equal(s.plans_refused, 0);
  add_totals(m.h.loop);
  harness_close(&m.h);
}

static void run_all(const char *cache)
{
  n_totals = 0;
  victims = old_victims = let_in = 0;
  for (uint64_t seed = 1; seed <= MACHINES; seed++)
    run_machine(cache, seed);
  print_message("# %s: %.0f steps, %.0f of two batches; %.0f switches, %.0f dense, %.0f "
                "widened, %.0f starving; %.0f filled, %llu let in, %llu victims, %llu of "
                "an older batch\n",
                cache, total("steps"), total("mixed_steps"), total("switches"),
                total("batches_dense"), total("batches_widened"),
                total("batches_starving"), total("filled"), (unsigned long long)let_in,
                (unsigned long long)victims, (unsigned long long)old_victims);
  assert_true(total("mixed_steps") > 0 && total("batches_dense") > 0 &&
              total("batches_widened") > 0);
  assert_true(total("batches_starving") > 0 && total("filled") > 0);
  assert_true(victims > 0 && old_victims > 0 && let_in > 0);
}

static void test_moved_beside_steps(void **state)
{
  (void)state;
  run_all("tiered");
}

static void test_moved_at_need(void **state)
{
  (void)state;
  run_all("paged");
}

/* A feature that only one cache manager has is refused if required of another. */
static void test_prefetch_on(void **state)
{
  (void)state;
  static const char *const parameters[] = {"prefetch", "on", NULL};
  for (uint32_t k = 0; k < 3; k++) {
    struct harness h;
    struct lls_error err = {0};
    const struct lls_sim_options sim = {
        .rates = harness_rates(MODEL, 1), .memory = UINT64_C(1) << 40, .name = "test"};
    const struct harness_options o = {
        .model = MODEL,
        .dummy = true,
        .element = LLS_BF16,
        .max_tokens = 64,
        .max_sequences = 4,
        .max_requests = 8,
        .block_tokens = 16,
        .device_units = 64,
        .host_units = k > 0 ? 64 : 0,
        .scheduler = {"aligned", parameters},
        .cache = {k < 2 ? "tiered" : "paged", NULL},
        .predictor = {"none", NULL},
        .sim = &sim,
    };
    int rc = harness_open(&h, &o, &err);
    assert_int_equal(rc, k == 1 ? 0 : -ENOTSUP);
    if (rc == 0)
      harness_close(&h);
    else
      assert_non_null(strstr(err.text, "cache = tiered"));
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_moved_beside_steps),
      cmocka_unit_test(test_moved_at_need),
      cmocka_unit_test(test_prefetch_on),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
