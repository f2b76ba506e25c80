/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans of distserve in each role, called directly, with a hand-made view and a cache
 * that only counts. t/unit/test_instances and t/sim test the effects of such plans.
 */
#include "t/tap.h"

#include <string.h>

#include "t/policy.h"

#include <llmserve/scheduler.h>

#define BLOCKS 1000 /* blocks of two units */
#define MOST   8    /* requests */

struct bench {
  struct harness_loaded plugin;
  void *self;
  struct lls_host host;
  struct lls_engine_caps engine;
  struct lls_instance_info infos[3];
  struct lls_topology topology;
  struct lls_request requests[MOST];
  /* running or waiting requests; offered requests */
  const struct lls_request *list[2][MOST];
  uint64_t user[MOST][LLS_USER_WORDS];
  uint32_t units[MOST]; /* held units, by slot */
  uint32_t free_units;
  double counted; /* sum of all counted events */
  struct lls_cache_service cache;
  struct lls_instance_load loads[3];
  const struct lls_instance_load *load_list[3];
  struct lls_step_view view;
  struct lls_plan plan;
  struct lls_plan_item items[MOST];
};

static int capacity(void *context, uint32_t tier, struct lls_capacity *out)
{
  (void)tier;
  out->total_units = 2 * BLOCKS;
  out->free_units = ((struct bench *)context)->free_units;
  return 0;
}

static uint32_t units_for(uint32_t tokens)
{
  return 2 * ((tokens + 15) / 16);
}

static int need(void *context, const struct lls_request *r, uint32_t tokens,
                uint32_t form, struct lls_need *out)
{
  (void)context, (void)r, (void)form;
  out->new_units = units_for(tokens);
  return 0;
}

static int info(void *context, const struct lls_request *r, struct lls_cache_info *out)
{
  out->device_units = ((struct bench *)context)->units[r->slot];
  return 0;
}

static int reserve(void *context, const struct lls_request *r, uint32_t tokens,
                   uint32_t form, uint32_t flags)
{
  struct bench *b = context;
  (void)r, (void)form, (void)flags;
  if (units_for(tokens) > b->free_units)
    return LLS_RESERVE_LATER;
  b->free_units -= units_for(tokens);
  return LLS_RESERVE_OK;
}

static void count(void *context, const char *counter, double add)
{
  (void)counter;
  ((struct bench *)context)->counted += add;
}

static uint32_t none(void *context)
{
  (void)context;
  return 0;
}

static int nothing(void *context, uint32_t mark)
{
  (void)context, (void)mark;
  return 0;
}

static uint32_t no_prefix(void *context, const struct lls_request *r)
{
  (void)context, (void)r;
  return 0;
}

static void open_bench(struct bench *b, const struct harness_policy *policy,
                       uint32_t role)
{
  struct lls_error err = {""};
  memset(b, 0, sizeof *b);
  if (policy_load(LLS_KIND_SCHEDULER, policy, &b->plugin, &err) < 0)
    fail_msg("%s", err.text);
  b->infos[0] = (struct lls_instance_info){.index = 0, .role = LLS_ROLE_PREFILL};
  b->infos[1] = (struct lls_instance_info){.index = 1, .role = LLS_ROLE_DECODE};
  b->infos[2] = (struct lls_instance_info){.index = 2, .role = LLS_ROLE_DECODE};
  b->topology = (struct lls_topology){
      .size = sizeof b->topology, .n_instances = 3, .instances = b->infos};
  b->engine = (struct lls_engine_caps){.max_context = 1 << 20, .chunked_prefill = true};
  b->host = (struct lls_host){
      .context = b, .count = count, .engine = &b->engine, .topology = &b->topology};
  const struct lls_scheduler_vtable *s = &b->plugin.module->scheduler;
  assert_int_equal(s->create(&b->host, b->plugin.params, &b->self), 0);
  b->free_units = 2 * BLOCKS;
  b->cache = (struct lls_cache_service){.block_tokens = 16,
                                        .context = b,
                                        .capacity = capacity,
                                        .need = need,
                                        .mark = none,
                                        .rollback = nothing,
                                        .reserve = reserve,
                                        .info = info,
                                        .prefix = no_prefix};
  b->view = (struct lls_step_view){.instance = role == LLS_ROLE_PREFILL ? 0 : 1,
                                   .role = role,
                                   .waiting = b->list[0],
                                   .running = b->list[0],
                                   .offered = b->list[1],
                                   .max_tokens = 4096,
                                   .max_sequences = 64,
                                   .cache = &b->cache};
  for (uint32_t i = 0; i < 3; i++) {
    b->loads[i] =
        (struct lls_instance_load){.device_units = 2 * BLOCKS, .free_units = 2 * BLOCKS};
    b->load_list[i] = &b->loads[i];
  }
  b->view.loads = b->load_list;
  b->plan = (struct lls_plan){.items = b->items, .max_items = MOST};
}

static void close_bench(struct bench *b)
{
  b->plugin.module->scheduler.destroy(b->self);
  policy_unload(&b->plugin);
}

static struct lls_request *add(struct bench *b, uint32_t slot, uint32_t prompt,
                               uint32_t generated, uint32_t cached)
{
  struct lls_request *r = &b->requests[slot];
  *r = (struct lls_request){.id = slot + 1,
                            .slot = slot,
                            .prompt_tokens = prompt,
                            .generated_tokens = generated,
                            .cached_tokens = cached,
                            .max_new_tokens = 100,
                            .state = generated > 0 ? LLS_DECODING : LLS_WAITING,
                            .user = b->user[slot]};
  return r;
}

static char kind_letter(uint32_t kind)
{
  switch (kind) {
  case LLS_PLAN_RUN:
    return 'r';
  case LLS_PLAN_MIGRATE:
    return 'm';
  case LLS_PLAN_OFFLOAD:
    return 'o';
  case LLS_PLAN_UPLOAD:
    return 'u';
  default:
    return 'x';
  }
}

static const char *plan_of(struct bench *b)
{
  static char text[256];
  size_t used = 0;
  text[0] = '\0';
  b->plan.n_items = 0;
  assert_int_equal(b->plugin.module->scheduler.plan(b->self, &b->view, &b->plan), 0);
  for (uint32_t i = 0; i < b->plan.n_items; i++) {
    const struct lls_plan_item *item = &b->plan.items[i];
    bool move = item->kind == LLS_PLAN_MIGRATE;
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%c%u:%u",
                             i > 0 ? " " : "", kind_letter(item->kind),
                             (unsigned)item->request, move ? item->target : item->tokens);
  }
  return text;
}

/* accept_frac 0.05 of 1,000 blocks. */
static void test_accepts_while_those_that_wait_hold_little(void **state)
{
  (void)state;
  static const struct {
    uint32_t blocks;
    bool yes;
  } cases[] = {{0, true}, {49, true}, {50, false}, {60, false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct bench b;
    open_bench(&b, &(struct harness_policy){"distserve", NULL}, LLS_ROLE_DECODE);
    b.list[0][0] = add(&b, 0, 800, 1, 800);
    b.view.n_running = 1;
    b.units[0] = 2 * cases[i].blocks;
    b.list[1][0] = add(&b, 1, 100, 1, 100);
    b.view.n_offered = 1;
    assert_string_equal(plan_of(&b), cases[i].yes ? "r1:1 m2:1" : "r1:1");
    /* once it has run here it no longer waits */
    struct lls_step_result result = {.request = b.list[0][0], .tokens = 1, .emitted = 1};
    const struct lls_step_report report = {.n_results = 1, .results = &result};
    b.plugin.module->scheduler.on_step(b.self, &report);
    assert_string_equal(plan_of(&b), "r1:1 m2:1");
    close_bench(&b);
  }
}

/* With migration = blocking a step that copies decodes nothing; the next step decodes,
 * since 20 blocks and 40 have arrived and not run. */
static void test_blocking_migration_is_a_step_of_its_own(void **state)
{
  (void)state;
  struct bench b;
  open_bench(
      &b,
      &(struct harness_policy){"distserve", POLICY_PARAMETERS("migration", "blocking")},
      LLS_ROLE_DECODE);
  b.list[0][0] = add(&b, 0, 800, 1, 800);
  b.units[0] = 2 * 20;
  b.list[1][0] = add(&b, 1, 640, 1, 640);
  b.view.n_running = b.view.n_offered = 1;
  assert_string_equal(plan_of(&b), "m2:1");
  b.list[0][1] = b.list[1][0];
  b.units[1] = 2 * 40;
  b.list[1][0] = add(&b, 2, 16, 1, 16);
  b.view.n_running = 2;
  assert_string_equal(plan_of(&b), "r1:1 r2:1");
  close_bench(&b);
}

static void test_accepts_in_order_as_the_memory_allows(void **state)
{
  (void)state;
  struct bench b;
  open_bench(&b, &(struct harness_policy){"distserve", NULL}, LLS_ROLE_DECODE);
  for (uint32_t i = 0; i < 3; i++)
    b.list[1][i] = add(&b, i, 320, 1, 320); /* 20 blocks */
  b.view.n_offered = 3;
  assert_string_equal(plan_of(&b), "m1:1 m2:1 m3:1"); /* 0, 20, 40 wait: below 50 */
  b.free_units = 2 * 30;
  assert_string_equal(plan_of(&b), "m1:1");
  b.free_units = 2 * 10;
  assert_string_equal(plan_of(&b), "");
  b.requests[0].cached_tokens =
      /* too large: it is taken over nevertheless, so that the core refuses it */
      16 * (BLOCKS + 1);
  assert_string_equal(plan_of(&b), "m1:1");
  close_bench(&b);
}

/* Requests of 7, 1 and 1 blocks go to the instance that is then least filled, including
 * what the plan has given it. 2,000 units here, 1,000 there; used units count, and so
 * do offered ones. */
static void test_offered_to_the_least_loaded(void **state)
{
  (void)state;
  static const struct {
    uint32_t units[2], free_units[2], offered[2];
    bool failed[2];
    const char *plan;
    uint32_t requests[2];
    int64_t step_ns[2];
  } cases[] = {
      {{2000, 2000}, {2000, 2000}, {0, 0}, {false, false}, "m1:1 m2:2 m3:2", {}, {}},
      {{2000, 2000}, {1990, 2000}, {0, 0}, {false, false}, "m1:2 m2:1 m3:1", {}, {}},
      {{2000, 2000}, {2000, 2000}, {16, 0}, {false, false}, "m1:2 m2:2 m3:1", {}, {}},
      {{2000, 1000}, {1900, 1000}, {0, 0}, {false, false}, "m1:2 m2:2 m3:2", {}, {}},
      {{2000, 1000}, {1900, 940}, {0, 0}, {false, false}, "m1:1 m2:1 m3:1", {}, {}},
      {{2000, 2000}, {0, 2000}, {0, 0}, {false, true}, "m1:1 m2:1 m3:1", {}, {}},
      {{2000, 2000}, {2000, 2000}, {0, 0}, {true, true}, "r1:1 r2:1 r3:1", {}, {}},
      {{2000, 2000}, {2000, 2000}, {}, {}, "m1:2 m2:1 m3:1", {2, 1}, {}},
      {{2000, 2000}, {2000, 2000}, {}, {}, "m1:2 m2:1 m3:1", {}, {2, 1}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct bench b;
    open_bench(&b, &(struct harness_policy){"distserve", NULL}, LLS_ROLE_PREFILL);
    for (uint32_t k = 0; k < 3; k++) {
      b.list[0][k] = add(&b, k, 100, 1, 100);
      b.units[k] = k == 0 ? 14 : 2;
    }
    b.view.n_running = 3;
    for (uint32_t k = 0; k < 2; k++)
      b.loads[1 + k] = (struct lls_instance_load){.device_units = cases[i].units[k],
                                                  .free_units = cases[i].free_units[k],
                                                  .offered_units = cases[i].offered[k],
                                                  .failed = cases[i].failed[k],
                                                  .requests = cases[i].requests[k],
                                                  .step_ns = cases[i].step_ns[k]};
    assert_string_equal(plan_of(&b), cases[i].plan);
    close_bench(&b);
  }
}

static void test_or_to_each_in_turn(void **state)
{
  (void)state;
  struct bench b;
  open_bench(
      &b, &(struct harness_policy){"distserve", POLICY_PARAMETERS("placement", "turn")},
      LLS_ROLE_PREFILL);
  for (uint32_t i = 0; i < 3; i++)
    b.list[0][i] = add(&b, i, 100, 1, 100);
  b.view.n_running = 3;
  b.loads[1].free_units = 0;
  assert_string_equal(plan_of(&b), "m1:1 m2:2 m3:1");
  close_bench(&b);
}

static void test_answers_of_those_they_were_offered_to(void **state)
{
  (void)state;
  struct bench b;
  open_bench(&b, &(struct harness_policy){"distserve", NULL}, LLS_ROLE_PREFILL);
  for (uint32_t i = 0; i < 3; i++)
    b.list[0][i] = add(&b, i, 100, 1, 100);
  b.view.n_running = 3;
  assert_string_equal(plan_of(&b), "m1:1 m2:2 m3:1");
  const struct lls_scheduler_vtable *s = &b.plugin.module->scheduler;
  s->on_refused(b.self, b.list[0][0], LLS_REFUSED_NEVER_FITS);
  s->on_refused(b.self, b.list[0][1], LLS_REFUSED_UNSUPPORTED);
  /* ends, since it was decoded here */
  assert_string_equal(plan_of(&b), "x1:0 r2:1 m3:2");
  assert_float_equal(b.counted, 2, 0);
  close_bench(&b);
}

static void test_prompts_whole_and_in_order(void **state)
{
  (void)state;
  struct bench b;
  const struct harness_policy small = {
      "distserve", POLICY_PARAMETERS("prefill_tokens", "250", "prefill_batch", "2")};
  open_bench(&b, &small, LLS_ROLE_PREFILL);
  for (uint32_t i = 0; i < 4; i++)
    b.list[0][i] = add(&b, i, 80, 0, 0);
  b.view.n_waiting = 4;
  assert_string_equal(plan_of(&b), "r1:80 r2:80"); /* the batch */
  b.free_units = 2 * 8;                            /* one of 5 blocks */
  assert_string_equal(plan_of(&b), "r1:80");
  b.free_units = 2 * BLOCKS;
  b.requests[0].prompt_tokens = 300; /* in chunks, alone */
  assert_string_equal(plan_of(&b), "r1:250");
  close_bench(&b);
}

/* Offers in both directions fill both ends: an offer without memory goes to its host
 * when nothing has moved for a while, and comes when it has memory. */
static void test_victims_that_have_no_room_give_way(void **state)
{
  (void)state;
  struct bench b;
  open_bench(&b, &(struct harness_policy){"distserve", NULL}, LLS_ROLE_PREFILL);
  b.engine.async_transfers = true;
  b.list[1][0] = add(&b, 0, 100, 60, 160);
  b.requests[0].residency = LLS_RESIDENT_DEVICE;
  b.list[1][1] = add(&b, 1, 100, 28, 128);
  b.requests[1].residency = LLS_RESIDENT_DEVICE;
  b.view.n_offered = 2;
  b.free_units = 15;
  for (int i = 0; i < 20; i++)
    /* nothing leaves: the local requests will be decoded */
    assert_string_equal(plan_of(&b), "");
  b.view.n_leaving = 1;
  assert_string_equal(plan_of(&b), "o1:0 o2:0");
  b.requests[0].residency = LLS_RESIDENT_MOVING;
  b.requests[1].residency = LLS_RESIDENT_HOST;
  assert_string_equal(plan_of(&b), "");
  b.free_units = 17;
  assert_string_equal(plan_of(&b), "u2:0");
  b.requests[1].residency = LLS_RESIDENT_DEVICE;
  assert_string_equal(plan_of(&b), "m2:0");
  close_bench(&b);
}

/* The first request is on its way to the device of the other instance, and may wait for
 * the memory that the third holds there. Memory kept here for the first must be
 * available to the third, or neither moves. */
static void test_victims_on_the_device_go_before_those_on_the_host(void **state)
{
  (void)state;
  static const uint32_t residencies[] = {LLS_RESIDENT_MOVING, LLS_RESIDENT_HOST,
                                         LLS_RESIDENT_DEVICE};
  struct bench b;
  open_bench(&b, &(struct harness_policy){"distserve", NULL}, LLS_ROLE_PREFILL);
  b.engine.async_transfers = true;
  for (uint32_t i = 0; i < 3; i++) {
    b.list[1][i] = add(&b, i, 100, 60, 160);
    b.requests[i].residency = residencies[i];
  }
  b.view.n_offered = 3;
  b.free_units = 2 * 10;
  assert_string_equal(plan_of(&b), "m3:0");
  b.free_units = 2 * 20;
  assert_string_equal(plan_of(&b), "m3:0");
  b.free_units = 2 * 30;
  assert_string_equal(plan_of(&b), "m3:0 u2:0");
  close_bench(&b);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_victims_that_have_no_room_give_way),
      cmocka_unit_test(test_victims_on_the_device_go_before_those_on_the_host),
      cmocka_unit_test(test_accepts_while_those_that_wait_hold_little),
      cmocka_unit_test(test_blocking_migration_is_a_step_of_its_own),
      cmocka_unit_test(test_accepts_in_order_as_the_memory_allows),
      cmocka_unit_test(test_offered_to_the_least_loaded),
      cmocka_unit_test(test_or_to_each_in_turn),
      cmocka_unit_test(test_answers_of_those_they_were_offered_to),
      cmocka_unit_test(test_prompts_whole_and_in_order),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
