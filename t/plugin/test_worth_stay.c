/* SPDX-License-Identifier: Apache-2.0 */
/* Worth and sessions: how long what a session left stays on the device, and how a prompt
 * is weighed whose beginning is there. */
#include "t/tap.h"

#include "plugins/schedulers/worth/worth.h"

#include <stdlib.h>

#define S     LLS_NS_PER_S
#define ITEMS 256
#define UNITS 625 /* of 16 tokens: 10,000 tokens */

struct scene {
  struct worth *w;
  struct lls_cache_service cache;
  struct lls_step_view view;
  struct lls_plan plan;
  struct lls_plan_item items[ITEMS];
  struct lls_prefix prefix; /* of all prompts */
};

static int64_t copies_in_a_second(void *context, uint32_t units, uint32_t link)
{
  (void)context;
  assert_int_equal(units, UNITS);
  assert_int_equal(link, LLS_LINK_HOST);
  return S;
}

static int has_prefix(void *context, const struct lls_request *r, struct lls_prefix *out)
{
  const struct scene *s = context;
  (void)r;
  out->tokens = s->prefix.tokens;
  out->on_host = s->prefix.on_host;
  return 0;
}

static int is_full(void *context, uint32_t tier, struct lls_capacity *out)
{
  (void)context;
  (void)tier;
  out->total_units = UNITS;
  return 0;
}

/* 10,000 tokens of memory, all of which take 10 s to compute, half of plans short of it.
 */
static void open_scene(struct scene *s)
{
  memset(s, 0, sizeof *s);
  s->w = calloc(1, sizeof *s->w);
  assert_non_null(s->w);
  s->w->params.stay = 60 * S;
  s->w->fit = (struct lls_pol_fit){
      .block_tokens = 16, .first_units = 1, .block_units = 1, .growth_units = 1};
  worth_learn_begin(&s->w->learned);
  s->w->learned.prompt_ns = 1e6;
  s->w->learned.step_ns = 1e7;
  s->w->learned.memory_price = 0.5;
  s->cache = (struct lls_cache_service){.size = sizeof s->cache,
                                        .block_tokens = 16,
                                        .context = s,
                                        .capacity = is_full,
                                        .transfer_ns = copies_in_a_second,
                                        .prefix_info = has_prefix};
  s->view = (struct lls_step_view){
      .size = sizeof s->view, .cache = &s->cache, .max_sequences = 64, .now_ns = 100 * S};
  s->plan =
      (struct lls_plan){.size = sizeof s->plan, .max_items = ITEMS, .items = s->items};
}

static void close_scene(struct scene *s)
{
  free(s->w);
}

static void keep(struct scene *s, const struct lls_session *const *sessions, uint32_t n)
{
  s->plan.n_items = 0;
  s->view.sessions = sessions;
  s->view.n_sessions = n;
  worth_keep_sessions(s->w, &s->view, UNITS, 10000, &s->plan);
}

/* For how long after its answer the session is kept; LLS_NEVER: nothing is planned. */
static int64_t kept(struct scene *s, const struct lls_session *session)
{
  memset(s->w->stay.asked, 0, sizeof s->w->stay.asked);
  keep(s, &session, 1);
  if (s->plan.n_items == 0)
    return LLS_NEVER;
  assert_int_equal(s->plan.n_items, 1);
  assert_int_equal(s->items[0].kind, LLS_PLAN_RETAIN);
  assert_int_equal(s->items[0].mode, LLS_TIER_DEVICE);
  assert_int_equal(s->items[0].request, session->id);
  return s->items[0].until_ns - session->ended_ns;
}

static const struct lls_session called = {.size = sizeof called,
                                          .id = 7,
                                          .ended_by = LLS_SESSION_TOOL_CALL,
                                          .tokens = 1000,
                                          .on_device = 1000,
                                          .ended_ns = 100 * S,
                                          .returns_ns = 103 * S,
                                          .until_ns = LLS_NEVER};

/* 10 s / 0.5 - 3 s; while something waits 10 s / 1 - 3 s. */
static void test_as_long_as_memory_could_be_computed(void **state)
{
  (void)state;
  const struct lls_request waits = {.id = 1};
  const struct lls_request *waiting[] = {&waits};
  struct scene s;
  open_scene(&s);
  struct lls_session one = called;
  assert_int_equal(kept(&s, &one), 17 * S);
  one.tokens = one.on_device = 10;
  assert_int_equal(kept(&s, &one), 17 * S);
  s.view.waiting = waiting;
  s.view.n_waiting = 1;
  assert_int_equal(kept(&s, &one), 7 * S);
  one.returns_ns = 110 * S; /* as long as all memory takes */
  assert_int_equal(kept(&s, &one), LLS_NEVER);
  s.view.n_waiting = 0;
  s.w->learned.memory_price = 0;
  assert_int_equal(kept(&s, &one), 60 * S); /* `stay` */
  close_scene(&s);
}

static void test_who_may_come_back(void **state)
{
  (void)state;
  struct scene s;
  open_scene(&s);
  struct lls_session one = called;
  one.returns_ns = LLS_NEVER; /* a tool of unknown time: 2 s */
  assert_int_equal(kept(&s, &one), 18 * S);
  one.ended_by = LLS_SESSION_STOPPED;
  assert_int_equal(kept(&s, &one), LLS_NEVER);
  one.returns_ns = 101 * S; /* its client says so */
  assert_int_equal(kept(&s, &one), 19 * S);
  one.on_device = 0;
  assert_int_equal(kept(&s, &one), LLS_NEVER);
  s.w->params.stay = 0;
  assert_int_equal(kept(&s, &called), LLS_NEVER);
  close_scene(&s);
}

/* Blocks on the host have only to be copied: 1 s for all memory. */
static void test_the_host_has_it(void **state)
{
  (void)state;
  struct scene s;
  open_scene(&s);
  const struct lls_request back = {.session = &called, .prompt_tokens = 1500};
  const struct lls_prefix on_host = {.tokens = 1000, .on_host = 800},
                          on_device = {.tokens = 1000}, lost = {.tokens = 200};
  for (int i = 0; i < 400; i++)
    worth_stay_found(s.w, &back, &on_host);
  assert_true(s.w->stay.on_host > 0.999);
  assert_int_equal(kept(&s, &called), LLS_NEVER); /* 1 s / 0.5 - 3 s */
  worth_stay_found(s.w, &back, &on_device);       /* says nothing of the host */
  assert_true(s.w->stay.on_host > 0.999);
  for (int i = 0; i < 400; i++)
    worth_stay_found(s.w, &back, &lost);
  assert_true(s.w->stay.on_host < 0.001);
  assert_in_range(kept(&s, &called), 16.99 * S, 17 * S);
  close_scene(&s);
}

/* A lease ends as soon as its memory is worth more. */
static void test_a_lease_ends(void **state)
{
  (void)state;
  struct scene s;
  open_scene(&s);
  struct lls_session one = called;
  one.until_ns = 117 * S;
  s.view.now_ns = 108 * S;
  assert_int_equal(kept(&s, &one), LLS_NEVER); /* it goes on */
  s.w->learned.memory_price = 1;               /* 7 s */
  assert_int_equal(kept(&s, &one), 8 * S);
  close_scene(&s);
}

/* A lease that was refused is asked for again a second later; four in a plan. */
static void test_asks_again(void **state)
{
  (void)state;
  struct scene s;
  open_scene(&s);
  struct lls_session all[6];
  const struct lls_session *list[6];
  for (int i = 0; i < 6; i++) {
    all[i] = called;
    all[i].id = 1 + (uint64_t)i;
    list[i] = &all[i];
  }
  keep(&s, list, 6);
  assert_int_equal(s.plan.n_items, 4);
  keep(&s, list, 6);
  assert_int_equal(s.plan.n_items, 2);
  keep(&s, list, 6);
  assert_int_equal(s.plan.n_items, 0);
  s.view.now_ns += S;
  keep(&s, list, 6);
  assert_int_equal(s.plan.n_items, 4);
  all[5].ended_ns = s.view.now_ns; /* a new answer of one that was just asked for */
  keep(&s, list, 6);
  assert_int_equal(s.plan.n_items, 3);
  close_scene(&s);
}

/* A plan looks at 64 of many sessions, and three plans at 100. */
static void test_many_in_turn(void **state)
{
  (void)state;
  static struct lls_session all[100];
  static const struct lls_session *list[100];
  static bool named[101];
  struct scene s;
  open_scene(&s);
  for (int i = 0; i < 100; i++) {
    all[i] = called;
    all[i].id = 1 + (uint64_t)i;
    all[i].until_ns = 200 * S;
    list[i] = &all[i];
  }
  s.view.now_ns = 150 * S;
  for (int plan = 0; plan < 3; plan++) {
    keep(&s, list, 100);
    assert_int_equal(s.plan.n_items, 64);
    for (uint32_t i = 0; i < s.plan.n_items; i++)
      named[s.items[i].request] = true;
  }
  for (int i = 1; i <= 100; i++)
    assert_true(named[i]);
  close_scene(&s);
}

/* Both prompts have 1,500 tokens, of which others hold 1,000. Without them, memory that
 * is always short makes the size of a prompt that is looked up larger than its compute;
 * what would be lost is taken off. */
static double dear(struct scene *s, struct lls_request *r)
{
  static struct worth_job jobs[1];
  static struct worth_candidate candidates[4];
  static uint32_t kept_list[WORTH_KEPT];
  const struct lls_request *waiting[] = {r};
  jobs[0] = (struct worth_job){.prefix = UINT32_MAX};
  s->w->jobs = jobs;
  s->w->order.all = candidates;
  s->w->order.kept = kept_list;
  assert_int_equal(lls_pol_heap_init(&s->w->order.others, 4), 0);
  assert_int_equal(lls_pol_heap_init(&s->w->order.sizes, WORTH_KEPT + 1), 0);
  s->view.waiting = waiting;
  s->view.n_waiting = 1;
  worth_look(s->w, &s->view, 10000);
  assert_int_equal(s->w->order.n, 1);
  lls_pol_heap_free(&s->w->order.others);
  lls_pol_heap_free(&s->w->order.sizes);
  return candidates[0].dear;
}

static void test_a_prefix_would_be_lost(void **state)
{
  (void)state;
  struct scene s;
  open_scene(&s);
  s.w->learned.memory_price = 1;
  s.prefix.tokens = 1000;
  struct lls_request r = {.id = 1,
                          .state = LLS_WAITING,
                          .request_class =
                              LLS_CLASS_BEST_EFFORT, /* its size is its cost */
                          .prompt_tokens = 1500,
                          .max_new_tokens = 1000,
                          .slo = {LLS_NEVER, LLS_NEVER, LLS_NEVER, LLS_NEVER}};
  /* 500 tokens of compute, 0.5 s; memory (1500 + 64) / 10000 of 0.5 + 1.28 s is less than
   * the second that the other 1,000 would take */
  assert_float_equal(dear(&s, &r), 0.5e9 / 0.1, 1);
  s.w->stay.on_host = 1; /* nothing would be lost: the memory counts */
  assert_float_equal(dear(&s, &r), (0.5e9 + 0.1564 * 1.78e9) / 0.1, 1e3);
  close_scene(&s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_as_long_as_memory_could_be_computed),
      cmocka_unit_test(test_who_may_come_back),
      cmocka_unit_test(test_the_host_has_it),
      cmocka_unit_test(test_a_lease_ends),
      cmocka_unit_test(test_asks_again),
      cmocka_unit_test(test_many_in_turn),
      cmocka_unit_test(test_a_prefix_would_be_lost),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
