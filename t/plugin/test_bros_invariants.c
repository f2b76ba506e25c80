/* SPDX-License-Identifier: Apache-2.0 */
/* One plan of BROS for random instances: invariants 1 to 4. */
#include "t/plugin/bros_rig.h"

static uint64_t seed = 3;

static double drawn(double low, double high)
{
  seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return low + (high - low) * ((double)(seed >> 33) / (double)(UINT64_C(1) << 31));
}

static void put_random(struct rig *g, uint32_t class)
{
  static const uint32_t missing[] = {0, 0, 3, 20};
  double t = drawn(0, .5);
  if (drawn(0, 1) < .4)
    prompt(g, class, t, (uint32_t)drawn(8, 3000));
  else
    put(g, class, t, (uint32_t)drawn(20, 1200), missing[(uint32_t)drawn(0, 4)], 1);
}

/* The paper's cost, summed independently; requests that run at once are copied
 * before. */
static double cost_of(const struct rig *g, uint64_t only)
{
  double ln = 0, n = 0, la = 0, back = 0, beside = 0, t = 0;
  for (uint32_t i = 0; i < g->n; i++) {
    const struct lls_request *r = &g->r[i];
    if (only == MOST && item_of(g, i) != NULL && item_of(g, i)->kind == LLS_PLAN_UPLOAD)
      beside += r->missing_tokens;
    if (only < MOST ? only != i : !runs(g, i))
      continue;
    back += r->missing_tokens;
    if (r->cached_tokens == 0) {
      ln += r->prompt_tokens;
    } else {
      n++;
      la += r->cached_tokens;
    }
  }
  t += ln > 0 ? 1e-4 * ln + 2e-9 * ln * ln + 4e-3 : 0;
  t += n > 0 ? 5e-5 * n + 1e-9 * n * la + 12e-3 : 0;
  return fmax(t, 2e-5 * beside) + 2e-5 * back;
}

static double slack_of(const struct lls_request *r)
{
  return (r->generated_tokens > 0 ? .2 : .4) -
         (double)(NOW_S * LLS_NS_PER_S - r->last_token_ns) * 1e-9;
}

static bool attainable(const struct rig *g, uint32_t i)
{
  return slack_of(&g->r[i]) >= cost_of(g, i);
}

static double residual(const struct rig *g)
{
  double least = INFINITY;
  bool any = false;
  for (uint32_t i = 0; i < g->n; i++)
    if (bros_is_realtime(&g->r[i])) {
      any = true;
      if (attainable(g, i))
        least = fmin(least, slack_of(&g->r[i]));
    }
  return isfinite(least) || !any ? least : .2;
}

static void check_memory(const struct rig *g)
{
  uint32_t reserved = 0, preempted = 0;
  assert_true(g->used <= g->capacity);
  for (uint32_t i = 0; i < g->n_taken; i++) {
    const struct lls_plan_item *item = item_of(g, g->taken[i].request);
    assert_non_null(item);
    assert_int_equal(item->kind, g->taken[i].preempted ? LLS_PLAN_PREEMPT : LLS_PLAN_RUN);
    *(g->taken[i].preempted ? &preempted : &reserved) += 1;
  }
  for (uint32_t i = 0; i < g->plan.n_items; i++) {
    reserved -= g->items[i].kind == LLS_PLAN_RUN;
    preempted -= g->items[i].kind == LLS_PLAN_PREEMPT;
    for (uint32_t k = 0; k < i; k++)
      assert_int_not_equal(g->items[i].request, g->items[k].request);
  }
  assert_int_equal(reserved, 0);
  assert_int_equal(preempted, 0);
}

/* Deferred requests are at the end of rt_ready: the last plan replaced that many. */
static void check_deferred(const struct rig *g, uint32_t n, double t)
{
  for (uint32_t i = 0; i < n; i++) {
    uint32_t id = (uint32_t)g->b.rt_ready.items[g->b.rt_ready.n + i]->request->id;
    assert_false(runs(g, id));
    assert_true(attainable(g, id));
    assert_true(slack_of(&g->r[id]) - g->b.t_avg >= t - 1e-12);
  }
}

static void check_instance(const struct rig *g, uint32_t b_curr, uint32_t replaced)
{
  uint32_t n = 0, n_attainable = 0, rejected = 0;
  for (uint32_t i = 0; i < g->n; i++) {
    n += runs(g, i);
    n_attainable += bros_is_realtime(&g->r[i]) && attainable(g, i);
    rejected += lls_request_length(&g->r[i]) > g->capacity;
  }
  double t = cost_of(g, MOST), t_res = residual(g);
  assert_true(n <= b_curr);
  assert_true(n > 0 || rejected > 0);
  if (t > t_res + 1e-9 && rejected == 0)
    assert_true(n == 1 && n_attainable == 0 && g->b.rt_ready.n == 1);
  for (uint32_t i = 0; i < g->n; i++)
    if (bros_is_realtime(&g->r[i]) && runs(g, i) && attainable(g, i))
      assert_true(t <= slack_of(&g->r[i]) + 1e-9);
  check_deferred(g, replaced, t);
  check_memory(g);
}

static void test_invariants(void **state)
{
  (void)state;
  uint32_t replaced = 0, dropped = 0, forced = 0, stopped = 0;
  for (int instance = 0; instance < 20000; instance++) {
    struct rig g;
    uint32_t b_curr = 1u << (uint32_t)drawn(0, 4);
    rig_init(&g);
    g.engine.async_transfers = instance % 4 > 1;
    g.b.t_avg = drawn(.01, .06);
    g.b.params.missed = instance % 2 ? BROS_FIRST : BROS_LAST;
    uint32_t rt = (uint32_t)drawn(0, 7), be = (uint32_t)drawn(rt == 0, 7);
    for (uint32_t i = 0; i < rt + be; i++)
      put_random(&g, i < rt ? RT : BE);
    if (instance % 3 > 0) /* memory for only some of the requests */
      g.capacity = g.used + (uint32_t)drawn(0, instance % 3 == 1 ? 40 : 2000);
    pack(&g, b_curr);
    check_instance(&g, b_curr, g.b.n_replaced);
    replaced += g.b.n_replaced > 0;
    dropped += g.b.dropped.n > 0;
    forced += g.b.n_forced > 0;
    stopped += g.b.cost_exit;
    rig_free(&g);
  }
  print_message("# of 20000 instances %u replaced, %u dropped, %u forced, %u stopped\n",
                replaced, dropped, forced, stopped);
  assert_true(replaced > 100 && dropped > 100 && forced > 100 && stopped > 100);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_invariants),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
