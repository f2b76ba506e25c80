/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worth: as many deadlines as possible are kept, compared with every subset; no kept
 * deadline is missed because of overtaking requests; what it learns of the traffic.
 */
#include "t/tap.h"

#include "plugins/schedulers/worth/worth.h"
#include "t/dice.h"

#include <math.h>
#include <string.h>

#define MS   INT64_C(1000000)
#define MOST 9

/* ---- which deadlines are kept ------------------------------------------------------ */

struct scene {
  struct lls_request requests[MOST];
  struct worth_candidate all[MOST];
  uint32_t kept[WORTH_KEPT];
  struct worth_order order;
};

static void open_scene(struct scene *s)
{
  memset(s, 0, sizeof *s);
  s->order.all = s->all;
  s->order.kept = s->kept;
  s->order.free = 1e9;
  s->order.freed_per_ns = 1;
  assert_int_equal(lls_pol_heap_init(&s->order.others, MOST + 1), 0);
  assert_int_equal(lls_pol_heap_init(&s->order.sizes, WORTH_KEPT + 1), 0);
}

static void close_scene(struct scene *s)
{
  lls_pol_heap_free(&s->order.others);
  lls_pol_heap_free(&s->order.sizes);
}

static void add(struct scene *s, int64_t time, int64_t due, double density)
{
  uint32_t i = s->order.n++;
  s->requests[i].id = i;
  s->all[i] = (struct worth_candidate){.request = &s->requests[i],
                                       .due = due,
                                       .time = time,
                                       .dear = (double)time,
                                       .density = density,
                                       .pending = 1};
}

/* Are all requests of a subset in time, in order of due times? */
static bool in_time(const struct scene *s, uint32_t subset)
{
  int64_t busy = 0, last = -1;
  for (uint32_t round = 0; round < s->order.n; round++) {
    uint32_t next = MOST;
    for (uint32_t i = 0; i < s->order.n; i++) {
      int64_t key = s->all[i].due * MOST + i;
      if ((subset >> i & 1) && key > last &&
          (next == MOST || key < s->all[next].due * MOST + next))
        next = i;
    }
    if (next == MOST)
      return true;
    last = s->all[next].due * MOST + next;
    busy += s->all[next].time;
    if (busy > s->all[next].due)
      return false;
  }
  return true;
}

static uint32_t most_in_time(const struct scene *s)
{
  uint32_t most = 0;
  for (uint32_t subset = 0; subset < 1u << s->order.n; subset++) {
    uint32_t n = (uint32_t)__builtin_popcount(subset);
    if (n > most && in_time(s, subset))
      most = n;
  }
  return most;
}

/* Runs all in their order: the kept ones must be in time. */
static void expect_kept(struct scene *s)
{
  const struct worth_candidate *c;
  int64_t now = 0;
  uint32_t n = 0;
  while ((c = worth_next(&s->order)) != NULL) {
    now += c->time;
    if (c->kept && now > c->due)
      fail_msg("%u of %u is late: %d > %d", (unsigned)c->request->id, s->order.n,
               (int)now, (int)c->due);
    n++;
  }
  assert_int_equal(n, s->order.n);
}

static void test_as_many_as_can_be(void **state)
{
  (void)state;
  struct dice d = {7};
  for (int run = 0; run < 2000; run++) {
    struct scene s;
    open_scene(&s);
    uint32_t n = dice(&d, 0, MOST);
    for (uint32_t i = 0; i < n; i++) {
      bool asks = dice(&d, 0, 4) > 0;
      int64_t time = dice(&d, 1, 20);
      add(&s, time, asks ? time + dice(&d, 0, 60) : LLS_NEVER, dice(&d, 1, 1000));
    }
    uint32_t without = 0;
    for (uint32_t i = 0; i < n; i++)
      without += s.all[i].due == LLS_NEVER ? 1u << i : 0;
    worth_keep(&s.order, 0);
    struct scene asked = s; /* only requests with a due time count */
    asked.order.n = 0;
    for (uint32_t i = 0; i < n; i++)
      if (!(without >> i & 1))
        asked.all[asked.order.n++] = s.all[i];
    assert_int_equal(s.order.n_kept, most_in_time(&asked));
    expect_kept(&s);
    close_scene(&s);
  }
}

/* Used memory becomes free at a fixed rate: ten tokens a nanosecond here. */
static void test_memory_is_waited_for(void **state)
{
  (void)state;
  struct scene s;
  open_scene(&s);
  add(&s, 1, 100, 1);
  add(&s, 1, 100, 1);
  s.order.free = 500;
  s.order.freed_per_ns = 10;
  s.all[0].memory = 400;
  s.all[1].memory = 1000; /* 1,400 - 500 tokens: 90 ns */
  worth_keep(&s.order, 0);
  assert_int_equal(s.order.n_kept, 2);
  s.all[1].memory = 1200; /* 110 ns */
  worth_keep(&s.order, 0);
  assert_int_equal(s.order.n_kept, 1);
  close_scene(&s);
}

/* A request that passes a kept one, which waits for memory, delays it only until its own
 * answer ends. */
static void test_who_leaves_soon_passes(void **state)
{
  (void)state;
  for (int64_t stays = 40; stays <= 60; stays += 20) {
    struct scene s;
    open_scene(&s);
    add(&s, 1, 100, 1);
    add(&s, 1, LLS_NEVER, 5);
    s.order.free = 500;
    s.order.freed_per_ns = 10;
    s.all[0].memory = 1000; /* in 50 ns: 50 are left */
    s.all[1].memory = 600;  /* 60 ns */
    s.all[1].stays = stays;
    worth_keep(&s.order, 0);
    assert_ptr_equal(worth_next(&s.order), &s.all[stays == 40 ? 1 : 0]);
    close_scene(&s);
  }
}

/* ---- what is learned --------------------------------------------------------------- */

static void test_lengths(void **state)
{
  (void)state;
  struct worth_learned l;
  struct lls_request r = {.generated_tokens = 40, .max_new_tokens = 1000};
  worth_learn_begin(&l);
  for (int i = 0; i < 300; i++)
    worth_learn_end(&l, &r);
  assert_true(fabs(l.output - 40) < 0.1);
  r.generated_tokens = 10;
  assert_true(fabs(worth_left(&l, &r) - 30) < 0.1);
  r.generated_tokens = 100; /* it has been running for long */
  assert_true(fabs(worth_left(&l, &r) - 30) < 0.1);
  r.prediction = (struct lls_prediction){.length = 160, .source = LLS_PREDICTED_MODEL};
  assert_true(fabs(worth_left(&l, &r) - 60) < 0.1);
  /* the prior says nothing about this request */
  r.prediction.source = LLS_PREDICTED_PRIOR;
  assert_true(fabs(worth_left(&l, &r) - 30) < 0.1);
}

static void test_prices(void **state)
{
  (void)state;
  struct worth_learned l;
  worth_learn_begin(&l);
  double headroom = l.headroom;
  for (int i = 0; i < 500; i++)
    worth_learn_plan(&l, true, 0);
  assert_true(l.memory_price > 0.99);
  worth_learn_plan(&l, true, 3);
  assert_true(l.headroom > headroom);
  for (int i = 0; i < 5000; i++)
    worth_learn_plan(&l, false, 0);
  assert_true(l.memory_price < 0.01 && l.headroom == headroom);
}

static void test_tenants(void **state)
{
  (void)state;
  struct worth_learned l;
  struct lls_request greedy = {.tenant = 1}, modest = {.tenant = 2};
  struct lls_step_result results[] = {{.request = &greedy, .tokens = 300},
                                      {.request = &modest, .tokens = 100}};
  struct lls_step_report report = {.ended_ns = MS, .n_results = 1, .results = results};
  worth_learn_begin(&l);
  worth_learn_step(&l, &report);
  assert_true(worth_excess(&l, 1) == 0); /* it is the only tenant */
  report.n_results = 2;
  worth_learn_step(&l, &report);
  assert_true(worth_excess(&l, 1) > 0.5 && worth_excess(&l, 2) == 0);
  worth_learn_begin(&l);
  worth_learn_arrival(&l, &greedy, 6); /* half of the other's service, by weight */
  worth_learn_step(&l, &report);
  assert_true(worth_excess(&l, 1) == 0 && worth_excess(&l, 2) > 0.3);
  worth_learn_begin(&l);
  /* it has had little service for its weight, but is active */
  worth_learn_arrival(&l, &greedy, 1000);
  worth_learn_step(&l, &report);
  assert_true(worth_excess(&l, 1) == 0 && worth_excess(&l, 2) > 0.9);
}
int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_as_many_as_can_be),
      cmocka_unit_test(test_memory_is_waited_for),
      cmocka_unit_test(test_who_leaves_soon_passes),
      cmocka_unit_test(test_lengths),
      cmocka_unit_test(test_prices),
      cmocka_unit_test(test_tenants),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
