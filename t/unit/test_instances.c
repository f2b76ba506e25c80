/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several instances in one loop, on a real (tiny) model: wherever a request runs and
 * however often it is handed over, every request ends once, its text is the
 * reference's, and all memory is released on every instance.
 */
#include "t/tap.h"

#include <errno.h>
#include <string.h>

#include "t/clients.h"

#define ALL (3 * COPIES)

static struct harness_options options(const char *scheduler, uint32_t instances)
{
  struct harness_options o = client_options(scheduler);
  o.instances = instances;
  return o;
}

static struct harness_options roles(const char *scheduler)
{
  struct harness_options o = options(scheduler, 2);
  o.roles[0] = LLS_ROLE_PREFILL;
  o.roles[1] = LLS_ROLE_DECODE;
  return o;
}

static struct lls_loop_status status_of(struct harness *h, uint32_t instance)
{
  struct lls_loop_status s;
  uint32_t role;
  lls_loop_instance_status(h->loop, instance, &role, &s);
  return s;
}

/* Other instances learn of released blocks in their next step. */
static void assert_all_memory_is_back(struct harness *h)
{
  for (int i = 0; i < 3; i++)
    lls_loop_step(h->loop);
  assert_memory_is_back(h);
  struct lls_loop_status s;
  lls_loop_status(h->loop, &s);
  assert_int_equal(s.offered, 0);
  assert_int_equal(s.plans_refused, 0);
  assert_false(s.fallen_back);
}

/* Runs every reference prompt COPIES times at once; returns the sum over all
 * instances. */
static struct lls_loop_status check_texts(const struct harness_options *o)
{
  struct harness h;
  struct reference *ref = reference_read(MODEL);
  struct client clients[ALL];
  open_or_fail(&h, o);
  for (int i = 0; i < ALL; i++)
    submit(&h, &clients[i], &ref->prompts[i % 3]);
  if (o->threaded)
    while (!lls_loop_idle(h.loop))
      lls_loop_events(h.loop, on_event, NULL);
  else
    run_to_end(&h);
  for (int i = 0; i < ALL; i++)
    assert_reference_text(&clients[i]);
  if (!o->threaded)
    assert_all_memory_is_back(&h);
  struct lls_loop_status s;
  lls_loop_status(h.loop, &s);
  harness_close(&h);
  reference_free(ref);
  return s;
}

static void test_mixed_instances_share_the_requests(void **state)
{
  (void)state;
  struct harness h;
  struct reference *ref = reference_read(MODEL);
  struct harness_options o = options("fcfs", 3);
  struct client clients[6];
  open_or_fail(&h, &o);
  for (int i = 0; i < 6; i++)
    submit(&h, &clients[i], &ref->prompts[i % 3]);
  run_to_end(&h);
  for (uint32_t i = 0; i < 3; i++)
    assert_int_equal(status_of(&h, i).arrived, 2);
  for (int i = 0; i < 6; i++)
    assert_reference_text(&clients[i]);
  assert_all_memory_is_back(&h);
  harness_close(&h);
  reference_free(ref);
}

static void test_handed_over_requests_go_on_with_the_reference_text(void **state)
{
  (void)state;
  struct harness_options o = roles("distserve");
  struct lls_loop_status s = check_texts(&o);
  assert_int_equal(s.handed_over, ALL);
  assert_int_equal(s.taken_over, ALL);
  assert_true(s.handed_bytes > 0);
}

static void test_other_caches_hand_over_too(void **state)
{
  (void)state;
  static const char *const caches[] = {"contiguous", "hybrid", "tiered"};
  for (size_t i = 0; i < sizeof caches / sizeof *caches; i++) {
    struct harness_options o = roles("distserve");
    o.cache = (struct harness_policy){caches[i], NULL};
    o.host_units = strcmp(caches[i], "tiered") == 0 ? 256 : 0;
    assert_int_equal(check_texts(&o).taken_over, ALL);
  }
}

/* INT8 blocks stay INT8 when they are handed over, and the text is that of a single
 * instance. */
static void test_int8_blocks_are_handed_over(void **state)
{
  (void)state;
  struct harness_options o = roles("distserve");
  o.cache = (struct harness_policy){"tiered", NULL};
  o.int8 = LLS_INT8_ALL;
  assert_int_equal(check_texts(&o).taken_over, ALL);
}

struct looker {
  struct lls_instance_load load; /* of instance 1, as instance 0 last saw it */
};

static void look(void *context, const struct lls_step_view *view,
                 const struct lls_plan *plan, bool own)
{
  struct looker *l = context;
  (void)plan, (void)own;
  if (view->instance == 0)
    l->load = *view->loads[1];
}

/* An offer counts in the load before the other instance has received it, and counts
 * once. */
static void test_offers_on_their_way_are_part_of_the_load(void **state)
{
  (void)state;
  struct harness h;
  struct looker seen;
  struct reference *ref = reference_read(MODEL);
  struct harness_options o = roles("distserve");
  struct client clients[3];
  o.observer = (struct lls_loop_observer){.context = &seen, .on_plan = look};
  open_or_fail(&h, &o);
  uint32_t units = o.device_units;
  for (int i = 0; i < 3; i++)
    submit(&h, &clients[i], &ref->prompts[i]);
  for (int i = 0; i < 2; i++) /* prefill, offer */
    assert_int_equal(lls_loop_step_one(h.loop, 0) >= 0, 1);
  assert_int_equal(seen.load.requests, 0);
  struct client late;
  submit(&h, &late, &ref->prompts[0]);
  lls_loop_step_one(h.loop, 0);
  assert_int_equal(seen.load.requests, 3);
  uint32_t offered = seen.load.offered_units;
  assert_true(offered > 0 && offered < units);
  assert_int_equal(seen.load.device_units, units);
  assert_int_equal(seen.load.free_units, units);
  assert_int_equal(seen.load.step_ns, LLS_NEVER);
  lls_loop_step_one(h.loop, 1); /* takes over; decodes with the next step */
  lls_loop_step_one(h.loop, 1);
  lls_loop_step_one(h.loop, 0);
  assert_int_equal(seen.load.requests, 3);
  assert_int_equal(seen.load.offered_units, 0);
  assert_true(seen.load.free_units <= units - offered);
  assert_true(seen.load.step_ns > 0);
  run_to_end(&h);
  assert_all_memory_is_back(&h);
  harness_close(&h);
  reference_free(ref);
}

static void test_several_of_each_role(void **state)
{
  (void)state;
  struct harness_options o = roles("distserve");
  o.instances = 4;
  o.roles[1] = LLS_ROLE_PREFILL;
  o.roles[2] = o.roles[3] = LLS_ROLE_DECODE;
  assert_int_equal(check_texts(&o).taken_over, ALL);
}

/* An offer without free memory stays, and continues when there is memory: by swap or
 * recompute. */
static void test_scarce_memory(void **state)
{
  (void)state;
  static const char *const recompute[] = {"preempt", "recompute", NULL};
  for (int swap = 0; swap < 2; swap++) {
    struct harness_options o = roles("distserve");
    o.device_units = 64; /* 256 tokens for 12 requests of 69 to 134 */
    o.host_units = swap ? 256 : 0;
    if (!swap)
      o.scheduler.parameters = recompute;
    struct lls_loop_status s = check_texts(&o);
    assert_int_equal(s.taken_over, ALL);
    assert_true(s.preempted_recompute + s.preempted_swap > 0);
  }
}

static void test_step_threads_do_the_same(void **state)
{
  (void)state;
  for (int i = 0; i < 6; i++) { /* some send tokens during the next step */
    struct harness_options o = roles("distserve");
    o.threaded = true;
    o.create_device = i % 2 ? create_asynchronous : NULL;
    assert_int_equal(check_texts(&o).handed_over, ALL);
    o.cache = (struct harness_policy){"tiered", NULL};
    o.int8 = LLS_INT8_ALL;
    assert_int_equal(check_texts(&o).handed_over, ALL);
  }
  struct harness_options o = options("fcfs", 2);
  o.threaded = true;
  assert_int_equal(check_texts(&o).handed_over, 0);
}

static void test_cancel_at_any_time_frees_everything(void **state)
{
  (void)state;
  struct reference *ref = reference_read(MODEL);
  struct harness_options o = roles("distserve");
  o.device_units = 64; /* offers wait */
  o.host_units = 64;
  uint32_t offered = 0;
  for (uint32_t steps = 0; steps < 40; steps++) { /* cancel all after this many steps */
    struct harness h;
    struct client clients[ALL];
    open_or_fail(&h, &o);
    for (int i = 0; i < ALL; i++)
      submit(&h, &clients[i], &ref->prompts[i % 3]);
    for (uint32_t s = 0; s < steps; s++) {
      lls_loop_step_one(h.loop, s % 2);
      lls_loop_events(h.loop, on_event, NULL);
    }
    offered += status_of(&h, 1).offered;
    for (int i = 0; i < ALL; i++)
      lls_loop_cancel(h.loop, clients[i].id);
    run_to_end(&h);
    for (int i = 0; i < ALL; i++)
      assert_int_equal(clients[i].finished, 1);
    assert_all_memory_is_back(&h);
    harness_close(&h);
  }
  assert_true(offered > 0);
  reference_free(ref);
}

/* Cancelled in transit: after it left one instance, and before the other received
 * it. */
static void test_cancel_between_two_instances(void **state)
{
  (void)state;
  for (int order = 0; order < 2; order++) {
    struct harness h;
    struct reference *ref = reference_read(MODEL);
    struct harness_options o = roles("distserve");
    struct client c;
    open_or_fail(&h, &o);
    submit(&h, &c, &ref->prompts[0]);
    while (status_of(&h, 0).handed_over == 0) {
      if (order == 1 && c.n_tokens > 0) { /* the other instance receives it first */
        lls_loop_cancel(h.loop, c.id);
        lls_loop_step_one(h.loop, 1);
        break;
      }
      lls_loop_step_one(h.loop, 0);
      lls_loop_events(h.loop, on_event, NULL);
    }
    lls_loop_cancel(h.loop, c.id);
    run_to_end(&h);
    assert_int_equal(c.finished, 1);
    assert_int_equal(c.reason, LLS_FINISH_CANCELLED);
    assert_all_memory_is_back(&h);
    harness_close(&h);
    reference_free(ref);
  }
}

/* A request that no decode instance can hold returns and ends with CAPACITY: here they
 * have less memory than the prefill instance. */
static void test_what_is_offered_and_never_fits(void **state)
{
  (void)state;
  struct harness h;
  struct reference *ref = reference_read(MODEL);
  struct harness_options o = roles("distserve");
  o.device_units = 18; /* 72 tokens: the prompt's 70, and less than one block for more */
  struct client c;
  open_or_fail(&h, &o);
  submit(&h, &c, &ref->prompts[2]);
  run_to_end(&h);
  assert_int_equal(c.finished, 1);
  assert_int_equal(c.reason, LLS_FINISH_CAPACITY);
  assert_all_memory_is_back(&h);
  harness_close(&h);
  reference_free(ref);
}

static int refused(const struct harness_options *o, struct lls_error *err)
{
  struct harness h;
  int rc = harness_open(&h, o, err);
  if (rc == 0)
    harness_close(&h);
  return rc;
}

static void test_pairs_that_cannot_work_are_refused(void **state)
{
  (void)state;
  struct lls_error err = {""};
  struct harness_options o = options("distserve", 1);
  assert_int_equal(refused(&o, &err), -ENOTSUP);
  assert_non_null(strstr(err.text, "needs prefill and decode instances"));
  o = options("distserve", 2);
  assert_int_equal(refused(&o, &err), -ENOTSUP);
  o = roles("fcfs");
  assert_int_equal(refused(&o, &err), -ENOTSUP);
  assert_non_null(strstr(err.text, "hands no request over"));
}

/* ---- reload ------------------------------------------------------------------------ */

static void finish_reload(struct harness *h, int expected)
{
  struct lls_error err = {""};
  int rc = 1;
  assert_true(lls_loop_reloaded(h->loop, &rc, &err));
  if (rc != expected)
    fail_msg("%d: %s", rc, err.text);
}

/* Reloads after any number of steps, with offers in transit: the new cache manager has
 * no state, and no token is lost. */
static void test_reload_under_offers(void **state)
{
  (void)state;
  struct reference *ref = reference_read(MODEL);
  struct harness_options o = roles("distserve");
  o.device_units = 96;
  uint32_t offered = 0;
  for (uint32_t steps = 1; steps < 24; steps++) {
    struct harness h;
    struct client clients[ALL];
    struct harness_loaded again = {0};
    struct lls_error err = {""};
    open_or_fail(&h, &o);
    assert_int_equal(policy_load(LLS_KIND_CACHE, &o.cache, &again, &err), 0);
    for (int i = 0; i < ALL; i++)
      submit(&h, &clients[i], &ref->prompts[i % 3]);
    for (uint32_t s = 0; s < steps; s++) {
      lls_loop_step_one(h.loop, s % 2);
      lls_loop_events(h.loop, on_event, NULL);
    }
    offered += status_of(&h, 1).offered;
    const struct lls_loop_change change = {
        .policies = {.cache = {again.module, again.params}}, .limits.strikes = 10};
    assert_int_equal(lls_loop_reload_at_once(h.loop, &change, &err), 0);
    finish_reload(&h, 0);
    run_to_end(&h);
    for (int i = 0; i < ALL; i++)
      assert_reference_text(&clients[i]);
    assert_all_memory_is_back(&h);
    struct harness_loaded first = h.cache;
    h.cache = again;
    harness_close(&h);
    policy_unload(&first);
  }
  assert_true(offered > 0);
  reference_free(ref);
}

/* Either all instances change or none: a scheduler that never hands over is refused. */
static void test_a_reload_that_is_refused_changes_nothing(void **state)
{
  (void)state;
  struct reference *ref = reference_read(MODEL);
  struct harness_options o = roles("distserve");
  const struct harness_policy fcfs = {"fcfs", NULL};
  struct harness h;
  struct harness_loaded other = {0};
  struct client clients[ALL];
  struct lls_error err = {""};
  open_or_fail(&h, &o);
  assert_int_equal(policy_load(LLS_KIND_SCHEDULER, &fcfs, &other, &err), 0);
  for (int i = 0; i < ALL; i++)
    submit(&h, &clients[i], &ref->prompts[i % 3]);
  for (int i = 0; i < 3; i++)
    lls_loop_step(h.loop);
  const struct lls_loop_change change = {
      .policies = {.scheduler = {other.module, other.params}}, .limits.strikes = 10};
  assert_int_equal(lls_loop_reload_at_once(h.loop, &change, &err), 0);
  finish_reload(&h, -ENOTSUP);
  run_to_end(&h);
  for (int i = 0; i < ALL; i++)
    assert_reference_text(&clients[i]);
  assert_all_memory_is_back(&h);
  harness_close(&h);
  policy_unload(&other);
  reference_free(ref);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_mixed_instances_share_the_requests),
      cmocka_unit_test(test_handed_over_requests_go_on_with_the_reference_text),
      cmocka_unit_test(test_other_caches_hand_over_too),
      cmocka_unit_test(test_int8_blocks_are_handed_over),
      cmocka_unit_test(test_offers_on_their_way_are_part_of_the_load),
      cmocka_unit_test(test_several_of_each_role),
      cmocka_unit_test(test_scarce_memory),
      cmocka_unit_test(test_step_threads_do_the_same),
      cmocka_unit_test(test_cancel_at_any_time_frees_everything),
      cmocka_unit_test(test_cancel_between_two_instances),
      cmocka_unit_test(test_what_is_offered_and_never_fits),
      cmocka_unit_test(test_pairs_that_cannot_work_are_refused),
      cmocka_unit_test(test_reload_under_offers),
      cmocka_unit_test(test_a_reload_that_is_refused_changes_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
