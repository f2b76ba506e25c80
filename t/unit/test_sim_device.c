/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loop and engine on the simulated device: latencies equal the cost model's to the
 * nanosecond, answers have the length given by the seed, memory is counted, and a
 * repeated run gives the same bytes.
 */
#include "t/tap.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include <llmserve/scheduler.h>

#include "t/harness.h"

#define MODEL       "etc/profiles/models/opt-13b"
#define MAX_CLIENTS 64
#define EOS         2

struct client {
  uint32_t n_tokens, length, reason, preemptions;
  int64_t arrival_ns, first_scheduled_ns, first_ns, ended_ns;
  int64_t token_ns[64]; /* when each came out */
};

struct run {
  struct harness h;
  struct lls_sim_options sim;
  struct client clients[MAX_CLIENTS];
  uint64_t digest;
};

static void mix(uint64_t *digest, uint64_t value)
{
  *digest = (*digest ^ value) * UINT64_C(0x100000001b3);
}

static struct lls_cost_rates rates_of(const char *profile)
{
  struct lls_profile p;
  struct lls_model_config config;
  struct lls_error err = {0};
  char path[128];
  snprintf(path, sizeof path, "etc/profiles/%s.ini", profile);
  if (lls_profile_read(source_path(path), &p, &err) < 0 ||
      lls_model_config_read(source_path(MODEL), &config, &err) < 0)
    fail_msg("%s", err.text);
  struct lls_cost_shape shape;
  struct lls_cost_rates rates;
  lls_cost_shape_init(&shape, &config, 2, 2, 1);
  lls_cost_rates_init(&rates, &p, &shape);
  lls_profile_free(&p);
  return rates;
}

static const char *const unshared[] = {"prefix_sharing", "off", NULL};
static const char *const no_watermark[] = {"watermark", "0", NULL};
static const char *const by_swap[] = {"watermark", "0", "preempt", "swap", NULL};

static struct harness_options options(struct run *r, uint32_t device_units)
{
  r->sim = (struct lls_sim_options){
      .rates = rates_of("a100-40g"), .memory = 36ull << 30, .eos = EOS, .name = "test"};
  return (struct harness_options){
      .model = MODEL,
      .dummy = true,
      .element = LLS_BF16,
      .max_tokens = 2048,
      .max_sequences = 32,
      .max_requests = 256,
      .block_tokens = 16,
      .device_units = device_units,
      .scheduler = {"fcfs", no_watermark},
      .cache = {"paged", unshared},
      .predictor = {"none", NULL},
      .sim = &r->sim,
  };
}

static void open_run(struct run *r, const struct harness_options *o)
{
  struct lls_error err = {0};
  if (harness_open(&r->h, o, &err) < 0)
    fail_msg("%s", err.text);
}

static void on_event(void *context, const struct lls_event *event)
{
  struct run *r = context;
  struct client *c = event->owner;
  int64_t now_ns = lls_sim_now(r->h.device);
  mix(&r->digest, event->kind);
  mix(&r->digest, event->request);
  mix(&r->digest, (uint64_t)now_ns);
  if (event->kind == LLS_EVENT_TOKEN) {
    mix(&r->digest, (uint64_t)event->token.token);
    assert_int_equal(event->token.token == EOS, c->n_tokens + 1 == c->length);
    if (c->n_tokens < 64)
      c->token_ns[c->n_tokens] = now_ns;
    c->n_tokens++;
    return;
  }
  c->reason = event->reason;
  c->preemptions = event->preemptions;
  c->arrival_ns = event->arrival_ns;
  c->first_scheduled_ns = event->first_scheduled_ns;
  c->first_ns = event->first_token_ns;
  c->ended_ns = event->finished_ns;
}

/* Client i: a unique prompt, and an answer of `length` tokens, at most 2,000. */
static void submit(struct run *r, uint32_t i, uint32_t prompt, uint32_t length)
{
  int32_t tokens[2048];
  struct lls_error err = {0};
  for (uint32_t k = 0; k < prompt; k++)
    tokens[k] = (int32_t)((i * 131 + k * 7) % 50000) + 3;
  struct lls_submission s = harness_submission(tokens, prompt, 2000, &r->clients[i]);
  s.ignore_eos = false;
  s.sampling.seed = length;
  r->clients[i] = (struct client){.length = length};
  uint64_t id;
  if (lls_loop_submit(r->h.loop, &s, &id, &err) < 0)
    fail_msg("%s", err.text);
}

static void run_to_end(struct run *r)
{
  for (int i = 0; i < 100000 && !lls_loop_idle(r->h.loop); i++) {
    int rc = lls_loop_step(r->h.loop);
    assert_true(rc >= 0);
    if (rc == 0 && lls_loop_idle_ns(r->h.loop) > 0)
      lls_sim_advance(r->h.device,
                      lls_sim_now(r->h.device) + lls_loop_idle_ns(r->h.loop));
    lls_loop_events(r->h.loop, on_event, r);
  }
  assert_true(lls_loop_idle(r->h.loop));
}

static int64_t cost(const struct run *r, uint32_t n, uint32_t tokens, uint32_t context)
{
  struct lls_cost_load load = {.drawn = n};
  for (uint32_t i = 0; i < n; i++)
    lls_cost_add(&r->sim.rates, &load, tokens, context);
  return llround(lls_cost_step_ns(&r->sim.rates, &load));
}

static void test_one_request_takes_what_the_formula_says(void **state)
{
  (void)state;
  static struct run r;
  struct harness_options o = options(&r, 1000);
  open_run(&r, &o);
  lls_sim_advance(r.h.device, 1000);
  submit(&r, 0, 700, 20);
  run_to_end(&r);
  struct client *c = &r.clients[0];
  assert_int_equal(c->reason, LLS_FINISH_STOP);
  assert_int_equal(c->n_tokens, 20);
  assert_int_equal(c->arrival_ns, 1000);
  assert_int_equal(c->first_ns, 1000 + cost(&r, 1, 700, 0));
  for (uint32_t i = 1; i < 20; i++)
    assert_int_equal(c->token_ns[i] - c->token_ns[i - 1], cost(&r, 1, 1, 700 + i - 1));
  assert_int_equal(c->ended_ns, c->token_ns[19]);
  harness_close(&r.h);
}

/* fcfs prefills first: the second request's prompt stops the first one's decode once. */
static void test_a_prompt_stops_decodes_once(void **state)
{
  (void)state;
  static struct run r;
  struct harness_options o = options(&r, 1000);
  open_run(&r, &o);
  submit(&r, 0, 100, 10);
  lls_loop_step(r.h.loop);
  lls_loop_events(r.h.loop, on_event, &r);
  submit(&r, 1, 300, 10);
  run_to_end(&r);
  int64_t t = cost(&r, 1, 100, 0);
  assert_int_equal(r.clients[0].token_ns[0], t);
  t += cost(&r, 1, 300, 0);
  assert_int_equal(r.clients[1].token_ns[0], t);
  struct lls_cost_load both = {.drawn = 2};
  lls_cost_add(&r.sim.rates, &both, 1, 100);
  lls_cost_add(&r.sim.rates, &both, 1, 300);
  t += llround(lls_cost_step_ns(&r.sim.rates, &both));
  assert_int_equal(r.clients[0].token_ns[1], t);
  assert_int_equal(r.clients[1].token_ns[1], t);
  harness_close(&r.h);
}

static void fill(struct run *r)
{
  for (uint32_t i = 0; i < MAX_CLIENTS; i++)
    submit(r, i, 20 + i * 37 % 200, 1 + i * 53 % 180);
  run_to_end(r);
  for (uint32_t i = 0; i < MAX_CLIENTS; i++) {
    assert_int_equal(r->clients[i].reason, LLS_FINISH_STOP);
    assert_int_equal(r->clients[i].n_tokens, r->clients[i].length);
  }
  struct lls_loop_status s;
  lls_loop_status(r->h.loop, &s);
  assert_int_equal(s.device_units_free, s.device_units_total);
  assert_int_equal(s.host_units_free, s.host_units_total);
  assert_int_equal(s.finished[LLS_FINISH_STOP], MAX_CLIENTS);
}

static uint64_t crowded(struct run *r, bool swap)
{
  struct harness_options o = options(r, 2 * 50);
  if (swap) {
    o.scheduler.parameters = by_swap;
    o.host_units = 400;
  }
  r->digest = 1;
  open_run(r, &o);
  fill(r);
  struct lls_sim_totals totals;
  struct lls_loop_status s;
  lls_sim_totals(r->h.device, &totals);
  lls_loop_status(r->h.loop, &s);
  assert_true((swap ? s.preempted_swap : s.preempted_recompute) > 0);
  assert_int_equal(totals.copied_bytes[LLS_COPY_DEVICE_TO_HOST] +
                       totals.copied_bytes[LLS_COPY_HOST_TO_DEVICE],
                   s.copied_bytes);
  assert_int_equal(totals.copy_ns > 0, swap);
  assert_int_equal(totals.busy_ns, lls_sim_now(r->h.device)); /* never idle here */
  mix(&r->digest, (uint64_t)totals.busy_ns);
  harness_close(&r->h);
  return r->digest;
}

static void test_same_run_same_bytes(void **state)
{
  (void)state;
  static struct run r;
  uint64_t recompute = crowded(&r, false);
  assert_true(crowded(&r, false) == recompute);
  uint64_t swap = crowded(&r, true);
  assert_true(crowded(&r, true) == swap);
  assert_true(swap != recompute);
}

static void test_memory_is_counted(void **state)
{
  (void)state;
  static struct run r;
  struct lls_error err = {0};
  struct harness_options o = options(&r, 1000);
  o.no_hidden = true;
  open_run(&r, &o);
  struct lls_sim_totals totals;
  lls_sim_totals(r.h.device, &totals);
  uint64_t weights = lls_engine_weight_bytes(r.h.engine);
  uint64_t pool = 1000 * (uint64_t)lls_unit_bytes(lls_engine_pool_shape(r.h.engine));
  assert_int_equal(weights, UINT64_C(2) * (40 * 12ll * 5120 * 5120 + 50272 * 5120ll));
  assert_true(totals.memory_used > weights + pool);
  assert_true(totals.memory_used < weights + pool + (512u << 20)); /* buffers */
  harness_close(&r.h);

  r.sim.memory = 20ull << 30; /* less than the weights */
  assert_int_equal(harness_open(&r.h, &o, &err), -ENOMEM);
  assert_non_null(strstr(err.text, "does not fit"));
  r.sim.memory = 36ull << 30;
  o.device_units = 4000; /* 24 GiB of cache */
  assert_int_equal(harness_open(&r.h, &o, &err), -ENOMEM);
}

/* The hidden form's scratch is on the device, a block of one layer for each unit of the
 * pool; an engine without hidden form has none. */
static void test_hidden_scratch_is_counted(void **state)
{
  (void)state;
  static struct run r;
  uint64_t used[2];
  for (int without = 0; without < 2; without++) {
    struct lls_sim_totals totals;
    struct harness_options o = options(&r, 1000);
    o.no_hidden = without == 1;
    open_run(&r, &o);
    assert_int_equal(lls_engine_pool_shape(r.h.engine)->scratch_blocks,
                     without == 1 ? 0 : 1000);
    lls_sim_totals(r.h.device, &totals);
    used[without] = totals.memory_used;
    harness_close(&r.h);
  }
  assert_int_equal(used[0] - used[1],
                   UINT64_C(1000) * 2 * 16 * 5120 * 2); /* one layer's */
}

/* If rows attend to X directly, scratch is needed for prompts only. */
static void test_absorbed_scratch(void **state)
{
  (void)state;
  static struct run r;
  struct harness_options o = options(&r, 1000);
  r.sim.rates.absorb_ns = 1;
  open_run(&r, &o);
  /* a step's 2048 rows, a block more for each 128 of them, and one context of 2048 */
  assert_int_equal(lls_engine_pool_shape(r.h.engine)->scratch_blocks, 128 + 16 + 128);
  harness_close(&r.h);
}

/* Copies before a step delay it; asynchronous copies delay it only if they take longer
 * than the step. */
static void test_copies_take_time(void **state)
{
  (void)state;
  static struct run r;
  options(&r, 0);
  struct lls_device *d;
  struct lls_pool *pool;
  struct lls_error err = {0};
  const struct lls_pool_shape shape = {.layers = 40,
                                       .kv_heads = 40,
                                       .head_dim = 128,
                                       .block_tokens = 16,
                                       .element = LLS_BF16,
                                       .device_units = 8,
                                       .host_units = 4};
  assert_int_equal(lls_sim_device_create(&r.sim, &d, &err), 0);
  assert_int_equal(d->ops->pool_create(d, &shape, &pool, &err), 0);
  const struct lls_device_step none = {0};
  struct lls_copy out = {.target_tier = LLS_TIER_HOST, .n_slots = 16, .source = 6};
  int64_t ns = llround(lls_cost_copy_ns(&r.sim.rates, LLS_LINK_HOST,
                                        (double)lls_form_bytes(&shape, LLS_FORM_KV), 1));
  assert_int_equal(d->ops->pool_copy(d, pool, &out, 1), 0);
  d->ops->step_begin(d, pool, &none);
  d->ops->step_end(d, &err);
  assert_int_equal(lls_sim_now(d), ns);

  const struct lls_step_sequence sequence = {.n_rows = 1, .context = 10};
  const struct lls_device_step one = {
      .n_rows = 1, .n_sequences = 1, .sequences = &sequence};
  out.order = LLS_COPY_ASYNC;
  assert_int_equal(d->ops->pool_copy(d, pool, &out, 1), 0);
  d->ops->step_begin(d, pool, &one);
  d->ops->logits(d, NULL, NULL, 1, NULL);
  d->ops->step_end(d, &err);
  assert_true(cost(&r, 1, 1, 10) > ns);
  assert_int_equal(lls_sim_now(d), ns + cost(&r, 1, 1, 10));

  out.target = 4; /* outside the host's pool */
  assert_int_equal(d->ops->pool_copy(d, pool, &out, 1), -EINVAL);
  d->ops->pool_destroy(d, pool);
  d->ops->destroy(d);
}

/* ---- beside the real engine --------------------------------------------------- */

static void on_plan(void *context, const struct lls_step_view *view,
                    const struct lls_plan *plan, bool own)
{
  struct run *r = context;
  assert_true(own);
  mix(&r->digest, view->step);
  mix(&r->digest, plan->n_items);
  for (uint32_t i = 0; i < plan->n_items; i++) {
    const struct lls_plan_item *item = &plan->items[i];
    mix(&r->digest, item->request);
    mix(&r->digest, (uint64_t)item->kind << 32 | item->tokens);
    mix(&r->digest, item->mode);
  }
}

static void count_end(void *context, const struct lls_event *event)
{
  (void)context;
  struct client *c = event->owner;
  if (event->kind == LLS_EVENT_FINISHED)
    c->reason = event->reason;
}

/* The plans of an overloaded machine whose requests arrive by step number. */
static uint64_t plans_of(struct run *r, const char *scheduler, bool simulated)
{
  struct harness_options o = options(r, 60);
  int32_t tokens[64];
  o.model = "t/data/models/llama";
  o.element = LLS_F32;
  o.scheduler = (struct harness_policy){scheduler, NULL};
  o.max_tokens = 64;
  o.observer = (struct lls_loop_observer){.context = r, .on_plan = on_plan};
  if (!simulated)
    o.sim = NULL;
  r->digest = 1;
  open_run(r, &o);
  for (uint32_t step = 0; step < 20 || !lls_loop_idle(r->h.loop); step++) {
    assert_true(step < 5000);
    if (step < 20) {
      for (uint32_t k = 0; k < 64; k++)
        tokens[k] = (int32_t)((step * 31 + k * 7) % 250);
      struct lls_submission s =
          harness_submission(tokens, 20 + step * 7 % 40, 10 + step, &r->clients[step]);
      s.sampling.seed = 1000; /* the length is max_new_tokens on both */
      uint64_t id;
      assert_int_equal(lls_loop_submit(r->h.loop, &s, &id, NULL), 0);
    }
    assert_true(lls_loop_step(r->h.loop) >= 0);
    lls_loop_events(r->h.loop, count_end, r);
  }
  for (uint32_t i = 0; i < 20; i++)
    assert_int_equal(r->clients[i].reason, LLS_FINISH_LENGTH);
  struct lls_loop_status status;
  lls_loop_status(r->h.loop, &status);
  assert_true(status.preempted_recompute > 0);
  harness_close(&r->h);
  return r->digest;
}

static struct lls_device *a_device(struct lls_pool **pool)
{
  struct lls_error err = {0};
  const struct lls_pool_shape shape = {.layers = 1,
                                       .kv_heads = 1,
                                       .head_dim = 32,
                                       .block_tokens = 16,
                                       .element = LLS_BF16,
                                       .device_units = 64};
  const struct lls_sim_options options = {
      .rates = {.peer_byte_ns = 2, .peer_latency_ns = 500},
      .memory = 1 << 20,
      .name = "x"};
  struct lls_device *d;
  assert_int_equal(lls_sim_device_create(&options, &d, &err), 0);
  assert_int_equal(d->ops->pool_create(d, &shape, pool, &err), 0);
  return d;
}

/* A unit of 1,024 bytes takes 2,048 ns and 500 ns of latency. Two receivers share the
 * sender's end, two pulls of one receiver share its own, and a later pull finds both
 * free. */
static void test_pulls_wait_for_both_ends_of_the_link(void **state)
{
  (void)state;
  static const struct {
    uint32_t to, from;
    int64_t at_ns, took_ns;
  } pulls[] = {{1, 0, 0, 2548},
               {2, 0, 0, 5096},
               {2, 1, 0, 7644},
               {3, 0, 4000, 3644},
               {4, 0, 9000, 2548}};
  struct lls_device *d[5];
  struct lls_pool *pool[5];
  const struct lls_pull one = {
      .source = 0, .target = 2, .source_form = LLS_FORM_HIDDEN, .n_slots = 16};
  int64_t before[5] = {0};
  for (int i = 0; i < 5; i++)
    d[i] = a_device(&pool[i]);
  for (size_t i = 0; i < sizeof pulls / sizeof *pulls; i++) {
    uint32_t to = pulls[i].to, from = pulls[i].from;
    struct lls_sim_totals t;
    lls_sim_advance(d[to], pulls[i].at_ns);
    assert_int_equal(d[to]->ops->pool_pull(d[to], pool[to], d[from], pool[from], &one, 1),
                     0);
    lls_sim_totals(d[to], &t);
    assert_int_equal(t.pull_ns - before[to], pulls[i].took_ns);
    assert_int_equal(t.pull_link_ns, 2548 * (int64_t)t.pulls);
    before[to] = t.pull_ns;
  }
  for (int i = 0; i < 5; i++) {
    d[i]->ops->pool_destroy(d[i], pool[i]);
    d[i]->ops->destroy(d[i]);
  }
}

static void test_plans_are_those_of_the_real_engine(void **state)
{
  (void)state;
  static struct run r;
  assert_true(plans_of(&r, "fcfs", true) == plans_of(&r, "fcfs", false));
  assert_true(plans_of(&r, "sarathi", true) == plans_of(&r, "sarathi", false));
  assert_true(plans_of(&r, "fcfs", true) != plans_of(&r, "sarathi", true));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_one_request_takes_what_the_formula_says),
      cmocka_unit_test(test_a_prompt_stops_decodes_once),
      cmocka_unit_test(test_same_run_same_bytes),
      cmocka_unit_test(test_memory_is_counted),
      cmocka_unit_test(test_hidden_scratch_is_counted),
      cmocka_unit_test(test_absorbed_scratch),
      cmocka_unit_test(test_copies_take_time),
      cmocka_unit_test(test_pulls_wait_for_both_ends_of_the_link),
      cmocka_unit_test(test_plans_are_those_of_the_real_engine),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
