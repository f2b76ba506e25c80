/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool in the host memory of the instance that prefills (aligned, pool = prefill), on a
 * real (tiny) model: offers are moved between the device and the host of the instance
 * that has their blocks, victims migrate back and are offered again, and the text of
 * every request is the reference's. Whenever requests are cancelled or policies
 * reloaded, all memory is released on the device and the host of both instances.
 */
#include "t/tap.h"

#include "core/instance/policy_figures.h"
#include "t/clients.h"

#define ALL (3 * COPIES)

/* Every offer goes to the host at once, and memory is so small that there are
 * victims. */
static struct harness_options options(void)
{
  static const char *const small[] = {
      "rmin",     "2",           "bmax_frac", "0.3",      "headroom_iters",
      "8",        "offers_frac", "0",         "max_wait", "1",
      "crb_frac", "0.3",         NULL};
  struct harness_options o = client_options("aligned");
  o.scheduler.parameters = small;
  o.cache = (struct harness_policy){"tiered", NULL};
  o.device_units = 96; /* 384 tokens for 12 requests of 69 to 134 */
  o.host_units = 512;
  o.instances = 2;
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

static double events_of(struct harness *h, uint32_t instance, enum lls_plugin_kind kind,
                        const char *name)
{
  struct lls_loop_policy_stats stats;
  lls_loop_policy_stats(h->loop, instance, &stats);
  const struct lls_policy_stats *of = LLS_OF_KIND(&stats, kind);
  for (uint32_t i = 0; i < of->n_counters; i++)
    if (strcmp(of->counters[i].name, name) == 0)
      return of->counters[i].value;
  return 0;
}

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

static void submit_all(struct harness *h, struct client *clients, struct reference *ref)
{
  for (int i = 0; i < ALL; i++)
    submit(h, &clients[i], &ref->prompts[i % 3]);
}

static void step(struct harness *h, uint32_t steps)
{
  for (uint32_t s = 0; s < steps; s++) {
    lls_loop_step_one(h->loop, s % 2);
    lls_loop_events(h->loop, on_event, NULL);
  }
}

static void test_victims_migrate_back_and_go_on(void **state)
{
  (void)state;
  struct reference *ref = reference_read(MODEL);
  struct harness_options o = options();
  struct harness h;
  struct client clients[ALL];
  open_or_fail(&h, &o);
  submit_all(&h, clients, ref);
  run_to_end(&h);
  for (int i = 0; i < ALL; i++)
    assert_reference_text(&clients[i]);
  assert_all_memory_is_back(&h);
  assert_true(status_of(&h, 1).handed_over > 0); /* by the instance that decodes */
  assert_int_equal(status_of(&h, 0).taken_over, status_of(&h, 1).handed_over);
  assert_int_equal(status_of(&h, 0).handed_over, status_of(&h, 1).taken_over);
  assert_true(events_of(&h, 0, LLS_KIND_CACHE, "offloads") > 0);
  assert_true(events_of(&h, 0, LLS_KIND_CACHE, "uploads") > 0);
  assert_true(events_of(&h, 1, LLS_KIND_SCHEDULER, "sent_home") > 0);
  harness_close(&h);
  reference_free(ref);
}

static void test_step_threads_do_the_same(void **state)
{
  (void)state;
  struct reference *ref = reference_read(MODEL);
  for (int i = 0; i < 6; i++) {
    struct harness_options o = options();
    o.threaded = true;
    o.create_device = i % 2 ? create_asynchronous : NULL;
    struct harness h;
    struct client clients[ALL];
    open_or_fail(&h, &o);
    submit_all(&h, clients, ref);
    while (!lls_loop_idle(h.loop))
      lls_loop_events(h.loop, on_event, NULL);
    for (int k = 0; k < ALL; k++)
      assert_reference_text(&clients[k]);
    harness_close(&h);
  }
  reference_free(ref);
}

static void test_cancel_at_any_time_frees_everything(void **state)
{
  (void)state;
  struct reference *ref = reference_read(MODEL);
  struct harness_options o = options();
  /* then all are cancelled */
  for (uint32_t steps = 0; steps < 60; steps += TAP_STEP(5)) {
    struct harness h;
    struct client clients[ALL];
    open_or_fail(&h, &o);
    submit_all(&h, clients, ref);
    step(&h, steps);
    for (int i = 0; i < ALL; i++)
      lls_loop_cancel(h.loop, clients[i].id);
    run_to_end(&h);
    for (int i = 0; i < ALL; i++)
      assert_int_equal(clients[i].finished, 1);
    assert_all_memory_is_back(&h);
    harness_close(&h);
  }
  reference_free(ref);
}

/* Offers return from wherever they are: device, host, or in transit. */
static void test_reload_at_any_time(void **state)
{
  (void)state;
  struct reference *ref = reference_read(MODEL);
  struct harness_options o = options();
  for (uint32_t steps = 1; steps < 60; steps += TAP_STEP(5)) {
    struct harness h;
    struct client clients[ALL];
    struct harness_loaded again = {0};
    struct lls_error err = {""};
    int rc = 1;
    open_or_fail(&h, &o);
    bool scheduler = steps % 2; /* else the cache manager */
    enum lls_plugin_kind kind = scheduler ? LLS_KIND_SCHEDULER : LLS_KIND_CACHE;
    const struct harness_policy other = {"distserve", NULL};
    assert_int_equal(policy_load(kind, scheduler ? &other : &o.cache, &again, &err), 0);
    submit_all(&h, clients, ref);
    step(&h, steps);
    struct lls_loop_change change = {.limits.strikes = 10};
    LLS_OF_KIND(&change.policies, kind)->module = again.module;
    LLS_OF_KIND(&change.policies, kind)->params = again.params;
    assert_int_equal(lls_loop_reload_at_once(h.loop, &change, &err), 0);
    assert_true(lls_loop_reloaded(h.loop, &rc, &err));
    assert_int_equal(rc, 0);
    run_to_end(&h);
    for (int i = 0; i < ALL; i++)
      assert_reference_text(&clients[i]);
    assert_all_memory_is_back(&h);
    struct harness_loaded *mine = scheduler ? &h.scheduler : &h.cache;
    struct harness_loaded first = *mine;
    *mine = again;
    harness_close(&h);
    policy_unload(&first);
  }
  reference_free(ref);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_victims_migrate_back_and_go_on),
      cmocka_unit_test(test_step_threads_do_the_same),
      cmocka_unit_test(test_cancel_at_any_time_frees_everything),
      cmocka_unit_test(test_reload_at_any_time),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
