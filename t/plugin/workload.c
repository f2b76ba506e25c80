/* SPDX-License-Identifier: Apache-2.0 */
/* See workload.h. */
#include "t/tap.h"

#include "t/plugin/workload.h"

struct workload {
  uint32_t submitted, cancelled;
  uint64_t plan_digest;
};

static int64_t some_time(struct fake *f)
{
  return fake_between(f, 0, 1) ? LLS_NEVER : fake_between(f, 1, 1000) * INT64_C(1000000);
}

static void submit(struct fake *f, struct workload *w)
{
  int32_t tokens[512];
  uint32_t n = fake_between(f, 1, fake_between(f, 0, 3) > 0 ? 60 : 250);
  uint32_t common = 16 * fake_between(f, 0, 5), family = fake_between(f, 0, 2);
  for (uint32_t i = 0; i < n; i++)
    tokens[i] =
        (int32_t)(i < common ? (i * (family + 3)) % FAKE_VOCABULARY : fake_random(f) & 3);
  f->next = (struct fake_next){
      .request_class = fake_between(f, LLS_CLASS_NONE, LLS_CLASS_BEST_EFFORT),
      .tenant = fake_between(f, 0, 5),
      .slo = {some_time(f), some_time(f), some_time(f), some_time(f)},
      .predicted = fake_between(f, 0, 2) > 0 ? fake_between(f, 1, 70) : 0,
      .max_new_tokens = 60,
  };
  if (fake_submit(f, tokens, n, fake_between(f, 1, 60)) != NULL)
    w->submitted++;
}

static void maybe_cancel(struct fake *f, struct workload *w)
{
  struct fake_request *r = f->by_slot[fake_between(f, 0, f->o.max_requests - 1)];
  if (r == NULL || fake_between(f, 0, 30) > 0)
    return;
  fake_cancel(f, r);
  w->cancelled++;
}

/* Nobody is scheduled for the first time while somebody who came before never was. */
static void check_order(struct fake *f)
{
  uint64_t first_waiting = UINT64_MAX, last_served = 0;
  for (uint32_t i = 0; i < f->o.max_requests; i++) {
    const struct fake_request *r = f->by_slot[i];
    if (r == NULL)
      continue;
    if (r->view.first_scheduled_ns == LLS_NEVER && r->view.id < first_waiting)
      first_waiting = r->view.id;
    if (r->view.first_scheduled_ns != LLS_NEVER && r->view.id > last_served)
      last_served = r->view.id;
  }
  assert_true(last_served <= first_waiting);
}

static void digest_plan(const struct fake *f, struct workload *w)
{
  char text[4096];
  for (const char *c = fake_plan_text(f, text, sizeof text); *c != '\0'; c++)
    w->plan_digest = (w->plan_digest ^ (uint64_t)*c) * UINT64_C(0x100000001b3);
}

static void check_all_free(struct fake *f)
{
  for (uint32_t tier = 0; tier < 2; tier++) {
    struct lls_capacity c = {.size = sizeof c};
    f->c->capacity(f->cache_self, tier, &c);
    assert_int_equal(c.free_units, c.total_units);
  }
  assert_int_equal(fake_audit(f), 0);
}

static void check_ends(const struct fake *f, const struct workload *w, uint32_t checks)
{
  uint32_t ended = 0;
  for (uint32_t reason = 0; reason <= LLS_FINISH_ERROR; reason++)
    ended += f->finished[reason];
  assert_int_equal(ended, w->submitted);
  assert_int_equal(f->finished[LLS_FINISH_CANCELLED], w->cancelled);
  assert_int_equal(f->finished[LLS_FINISH_ERROR], 0);
  if (checks & WORKLOAD_ALL_FIT)
    assert_int_equal(f->finished[LLS_FINISH_LENGTH], w->submitted - w->cancelled);
}

uint64_t workload_run(const struct fake_options *o, uint32_t requests, uint32_t checks)
{
  struct fake f;
  struct workload w = {0};
  assert_int_equal(fake_open(&f, o), 0);
  for (uint32_t steps = 0; w.submitted < requests || fake_alive(&f) > 0; steps++) {
    if (steps == 20000)
      fail_msg("%u requests are still alive", fake_alive(&f));
    if (w.submitted < requests && fake_between(&f, 0, 3) == 0)
      for (uint32_t n = fake_between(&f, 1, 6); n > 0; n--)
        submit(&f, &w);
    maybe_cancel(&f, &w);
    fake_step(&f);
    digest_plan(&f, &w);
    if (checks & WORKLOAD_IN_ORDER)
      check_order(&f);
  }
  check_ends(&f, &w, checks);
  check_all_free(&f);
  fake_close(&f);
  return w.plan_digest;
}
