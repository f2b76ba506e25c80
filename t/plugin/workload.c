/* SPDX-License-Identifier: Apache-2.0 */
/* Runs random workloads; see workload.h. */
#include "t/tap.h"

#include "t/jumps.h"
#include "t/plugin/workload.h"

/* No cancellations after this step, since they would hide a request that hangs. */
#define CANCEL_STEPS 300

struct workload {
  struct lls_grammar *grammar;
  uint32_t submitted, cancelled;
  uint64_t plan_digest;
};

static int64_t some_time(struct bed *bed)
{
  return bed_between(bed, 0, 1) ? LLS_NEVER
                                : bed_between(bed, 1, 1000) * INT64_C(1000000);
}

static void submit(struct bed *bed, struct workload *w)
{
  int32_t tokens[512];
  uint32_t n = bed_between(bed, 1, bed_between(bed, 0, 3) > 0 ? 60 : 250);
  uint32_t common = 16 * bed_between(bed, 0, 5), family = bed_between(bed, 0, 2);
  for (uint32_t i = 0; i < n; i++)
    tokens[i] = (int32_t)(i < common ? (i * (family + 3)) % BED_VOCABULARY
                                     : dice_next(&bed->dice) & 3);
  bed->next = (struct bed_next){
      .request_class = bed_between(bed, LLS_CLASS_NONE, LLS_CLASS_BEST_EFFORT),
      .tenant = bed_between(bed, 0, 5),
      .slo = {some_time(bed), some_time(bed), some_time(bed), some_time(bed)},
      .predicted = bed_between(bed, 0, 2) > 0 ? bed_between(bed, 1, 70) : 0,
      .max_new_tokens = 60,
      .pooling = w->submitted % 8 == 5 ? LLS_POOLING_MEAN - w->submitted / 8 % 2
                                       : LLS_POOLING_NONE,
      .grammar = w->submitted % 4 == 2 ? w->grammar : NULL,
  };
  if (bed_submit(bed, tokens, n, bed_between(bed, 1, 60)) != NULL)
    w->submitted++;
}

static void maybe_cancel(struct bed *bed, struct workload *w)
{
  struct lls_live *r = bed->by_slot[bed_between(bed, 0, bed->o.max_requests - 1)];
  if (r == NULL || bed_between(bed, 0, 30) > 0)
    return;
  bed_cancel(bed, r);
  w->cancelled++;
}

/* No request is scheduled for the first time before an earlier one. */
static void check_order(struct bed *bed)
{
  uint64_t first_waiting = UINT64_MAX, last_served = 0;
  for (uint32_t i = 0; i < bed->o.max_requests; i++) {
    const struct lls_live *r = bed->by_slot[i];
    if (r == NULL)
      continue;
    if (r->view.first_scheduled_ns == LLS_NEVER && r->view.id < first_waiting)
      first_waiting = r->view.id;
    if (r->view.first_scheduled_ns != LLS_NEVER && r->view.id > last_served)
      last_served = r->view.id;
  }
  assert_true(last_served <= first_waiting);
}

static void digest_plan(const struct bed *bed, struct workload *w)
{
  char text[4096];
  for (const char *c = bed_plan_text(bed, text, sizeof text); *c != '\0'; c++)
    w->plan_digest = (w->plan_digest ^ (uint64_t)*c) * UINT64_C(0x100000001b3);
}

static void check_all_free(struct bed *bed)
{
  for (uint32_t tier = 0; tier < 2; tier++) {
    struct lls_capacity c = {.size = sizeof c};
    bed->c->capacity(bed->cache_self, tier, &c);
    assert_int_equal(c.free_units, c.total_units);
  }
  assert_int_equal(bed_audit(bed), 0);
}

static void check_ends(const struct bed *bed, const struct workload *w, uint32_t checks)
{
  uint32_t ended = 0;
  for (uint32_t reason = 0; reason <= LLS_FINISH_ERROR; reason++)
    ended += bed->finished[reason];
  assert_int_equal(ended, w->submitted);
  assert_int_equal(bed->finished[LLS_FINISH_CANCELLED], w->cancelled);
  assert_int_equal(bed->finished[LLS_FINISH_ERROR], 0);
  if (checks & WORKLOAD_ALL_FIT)
    assert_int_equal(bed->finished[LLS_FINISH_LENGTH], w->submitted - w->cancelled);
}

int workload_setup(void **state)
{
  struct jumps *jumps = malloc(sizeof *jumps);
  assert_non_null(jumps);
  jumps_open(jumps, BED_TOKENS, BED_EOS);
  *state = jumps;
  return 0;
}

int workload_teardown(void **state)
{
  jumps_close(*state);
  free(*state);
  return 0;
}

uint64_t workload_run(void **state, const struct bed_options *o, uint32_t requests,
                      uint32_t checks)
{
  struct bed bed;
  const struct jumps *jumps = *state;
  struct workload w = {.grammar = jumps->grammar};
  assert_int_equal(bed_open(&bed, o), 0);
  assert_int_equal(bed.harness.config.vocab, BED_TOKENS);
  for (uint32_t steps = 0; w.submitted < requests || bed_alive(&bed) > 0; steps++) {
    if (steps == 20000)
      fail_msg("%u requests are still alive", bed_alive(&bed));
    if (w.submitted < requests && bed_between(&bed, 0, 3) == 0)
      for (uint32_t n = bed_between(&bed, 1, 6); n > 0; n--)
        submit(&bed, &w);
    if (steps < CANCEL_STEPS)
      maybe_cancel(&bed, &w);
    bed_step(&bed);
    digest_plan(&bed, &w);
    if (checks & WORKLOAD_IN_ORDER)
      check_order(&bed);
  }
  check_ends(&bed, &w, checks);
  check_all_free(&bed);
  bed_close(&bed);
  return w.plan_digest;
}
