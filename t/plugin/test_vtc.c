/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual token counter: charges, lifting, and the bound of its theorem. */
#include "t/tap.h"

#include "t/plugin/script.h"

static const struct bed_options defaults = {
    .scheduler = {"vtc", NULL},
    .cache = {"paged", (const char *const[]){"prefix_sharing", "off", NULL}},
    .block_tokens = 16,
    .device_units = 400,
    .max_tokens = 4096,
    .max_sequences = 64,
    .max_context = 1024,
    .max_requests = 200,
    .audit_every = 1,
};

static void submit_for(struct bed *bed, uint32_t tenant, uint32_t length, uint32_t output)
{
  bed->next.tenant = tenant;
  submit(bed, length, output);
}

static void open_one_at_a_time(struct bed *bed)
{
  struct bed_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("max_seqs", "1");
  assert_int_equal(bed_open(bed, &o), 0);
}

/* w_in = 1 a token of the prompt, w_out = 2 a token of the answer. */
static void test_charges(void **state)
{
  (void)state;
  struct bed bed;
  open_one_at_a_time(&bed);
  submit_for(&bed, 1, 30, 3);
  submit_for(&bed, 1, 30, 3);
  submit_for(&bed, 2, 10, 1);
  expect_plan(&bed, "0:30");
  assert_true(dumps(&bed, "tenant 1 counter 32.000 waiting 1"));
  expect_plan(&bed, "0:1");
  expect_plan(&bed, "0:1");
  assert_true(dumps(&bed, "tenant 1 counter 36.000 waiting 1"));
  expect_plan(&bed, "2:10"); /* 0 against 36 */
  assert_true(dumps(&bed, "tenant 2 counter 12.000 waiting 0"));
  expect_plan(&bed, "1:30");
  bed_finish(&bed, 10);
  bed_close(&bed);
}

/* A tenant that returns is lifted to the least counter of the waiting ones, so no
 * service accumulates. */
static void test_lifting(void **state)
{
  (void)state;
  struct bed bed;
  open_one_at_a_time(&bed);
  for (int i = 0; i < 4; i++)
    submit_for(&bed, 1, 100, 1);
  submit_for(&bed, 3, 60, 1);
  expect_plan(&bed, "0:100"); /* 102 */
  expect_plan(&bed, "4:60");  /* 62; no request of tenant 3 waits any more */
  expect_plan(&bed, "1:100"); /* 204 */
  submit_for(&bed, 2, 10, 1); /* from 0 to 204 */
  submit_for(&bed, 2, 10, 1);
  assert_true(dumps(&bed, "tenant 2 counter 204.000 waiting 2"));
  expect_plan(&bed, "2:100"); /* equal: the lower number */
  submit_for(&bed, 3, 10, 1); /* from 62 to the least, 204 of tenant 2 */
  assert_true(dumps(&bed, "tenant 3 counter 204.000 waiting 1"));
  expect_plan(&bed, "5:10");
  expect_plan(&bed, "7:10");
  expect_plan(&bed, "6:10");
  expect_plan(&bed, "3:100");
  /* none waits: lifted to the counter of the tenant that left last, 408 of tenant 1 */
  submit_for(&bed, 9, 10, 1);
  assert_true(dumps(&bed, "tenant 9 counter 408.000 waiting 1"));
  bed_finish(&bed, 10);
  bed_close(&bed);
}

/* A tenant that arrives while the last waiting request could not be admitted does not
 * find an empty queue. */
static void test_asked_but_not_let_in_still_waits(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.device_units = 20; /* ten blocks */
  assert_int_equal(bed_open(&bed, &o), 0);
  submit_for(&bed, 1, 100, 20);
  expect_plan(&bed, "0:100");
  submit_for(&bed, 2, 100, 1); /* lifted to 100 of tenant 1, which left last */
  expect_plan(&bed, "0:1");    /* no memory for it */
  submit_for(&bed, 3, 10, 1);  /* the least counter of waiting tenants is tenant 2's */
  assert_true(dumps(&bed, "tenant 2 counter 102.000 waiting 1"));
  assert_true(dumps(&bed, "tenant 3 counter 102.000 waiting 1"));
  bed_finish(&bed, 100);
  bed_close(&bed);
}

/* Replaces the scheduler as a reload does: another instance imports the state of the
 * first. */
static void replace_scheduler(struct bed *bed)
{
  const struct bed_policy *p = &bed->policies.scheduler;
  const struct lls_scheduler_vtable *v = &p->watched.module.scheduler;
  void *old = bed->scheduler_self;
  struct lls_blob blob = {0};
  assert_int_equal(v->export_state(old, &blob), 0);
  assert_int_equal(v->create(&p->host, &p->handed, &bed->scheduler_self), 0);
  bed->in->policies.scheduler.self = bed->scheduler_self;
  blob.bytes--;
  assert_int_equal(v->import_state(bed->scheduler_self, &blob), -ENOTSUP);
  blob.bytes++;
  assert_int_equal(v->import_state(bed->scheduler_self, &blob), 0);
  v->destroy(old);
  free(blob.data);
}

/* Counters continue, and so does the record of requests already charged; words that the
 * first instance stored in requests mean nothing to the second, whether they run, wait
 * or end. */
static void test_a_reload_forgets_no_service(void **state)
{
  (void)state;
  struct bed bed;
  open_one_at_a_time(&bed);
  submit_for(&bed, 1, 30, 3);
  submit_for(&bed, 1, 30, 3);
  submit_for(&bed, 2, 10, 1);
  submit_for(&bed, 2, 10, 1);
  submit_for(&bed, 2, 10, 1);
  expect_plan(&bed, "0:30");
  expect_plan(&bed, "0:1");
  replace_scheduler(&bed);
  bed_cancel(&bed, bed_numbered(&bed, 4));
  submit_for(&bed, 3, 10, 1);
  expect_plan(&bed, "0:1");
  assert_true(dumps(&bed, "tenant 1 counter 36.000 waiting 1"));
  assert_true(dumps(&bed, "tenant 2 counter 0.000 waiting 2"));
  expect_plan(&bed, "2:10");
  expect_plan(&bed, "5:10");
  expect_plan(&bed, "3:10");
  expect_plan(&bed, "1:30");
  bed_finish(&bed, 10);
  bed_close(&bed);
}

/* A preempted request keeps its place and is charged for its prompt once. */
static void test_preemption_costs_nothing(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("watermark", "0");
  o.device_units = 24;
  assert_int_equal(bed_open(&bed, &o), 0);
  submit_for(&bed, 1, 60, 30);
  submit_for(&bed, 2, 50, 30);
  submit_for(&bed, 3, 40, 30);
  bed_finish(&bed, 500);
  assert_true(bed.preempted_recompute > 0);
  assert_true(dumps(&bed, "tenant 1 counter 120.000 waiting 0"));
  assert_true(dumps(&bed, "tenant 2 counter 110.000 waiting 0"));
  assert_true(dumps(&bed, "tenant 3 counter 100.000 waiting 0"));
  bed_close(&bed);
}

/*
 * The theorem for backlogged clients: two tenants that always have a waiting request
 * differ by at most 2 U, U = max(w_in * longest prompt, w_out * tokens that fit in
 * memory). One has much longer prompts than the other.
 */
static void test_bound(void **state)
{
  (void)state;
  enum { PROMPT = 100, MEMORY = 20 * 16, STEPS = 600 };
  const double bound = 2.0 * (PROMPT > 2 * MEMORY ? PROMPT : 2 * MEMORY);
  struct bed bed;
  struct bed_options o = defaults;
  o.device_units = 40;
  assert_int_equal(bed_open(&bed, &o), 0);
  double service[2] = {0}, worst = 0;
  uint32_t waiting[2] = {0};
  for (int step = 0; step < STEPS; step++) {
    for (uint32_t t = 0; t < 2; t++)
      for (; waiting[t] < 30; waiting[t]++)
        submit_for(&bed, t, t == 0 ? PROMPT : bed_between(&bed, 5, PROMPT),
                   bed_between(&bed, 1, 30));
    bed_step(&bed);
    for (uint32_t i = 0; i < o.max_requests; i++) {
      const struct lls_live *r = bed.by_slot[i];
      uint32_t t = r != NULL ? r->view.tenant : 0;
      if (r == NULL || planned(&bed, bed_number(&bed, r->view.id)) == 0)
        continue;
      service[t] += 2;
      if (r->view.generated_tokens == 1)
        service[t] += r->view.prompt_tokens, waiting[t]--;
    }
    double difference = service[0] - service[1];
    worst = difference > worst ? difference : -difference > worst ? -difference : worst;
  }
  assert_true(service[0] > 3000);
  assert_true(worst <= bound);
  while (bed_alive(&bed) > 0)
    bed_step(&bed);
  bed_close(&bed);
}

/* ---- weights ---- */

static int open_with_weights(struct bed *bed, const char *weights)
{
  struct bed_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("max_seqs", "1", "weights", weights);
  return bed_open(bed, &o);
}

/* Tenants are recognised by name: a charge is divided by the tenant's weight, which is
 * 1 for unlisted ones. */
static void test_weights_by_name(void **state)
{
  (void)state;
  struct bed bed;
  assert_int_equal(open_with_weights(&bed, "ab:8, a b : 4 ,bob:0.5"), 0);
  const struct {
    uint32_t tenant;
    const char *name;
  } tenants[] = {{1, "a b"}, {2, "bob"}, {3, "a"}, {4, NULL}};
  for (size_t i = 0; i < sizeof tenants / sizeof *tenants; i++) {
    bed.next.tenant_name = tenants[i].name;
    submit_for(&bed, tenants[i].tenant, 40, 2);
    submit_for(&bed, tenants[i].tenant, 40, 2);
  }
  expect_plan(&bed, "0:40");
  expect_plan(&bed, "0:1");
  assert_true(dumps(&bed, "tenant 1 counter 11.000 waiting 1")); /* 44 / 4 */
  bed_finish(&bed, 40);
  assert_true(dumps(&bed, "tenant 1 counter 22.000 waiting 0"));
  assert_true(dumps(&bed, "tenant 2 counter 176.000 waiting 0"));
  assert_true(dumps(&bed, "tenant 3 counter 88.000 waiting 0"));
  assert_true(dumps(&bed, "tenant 4 counter 88.000 waiting 0"));
  bed_close(&bed);
}

static void test_weights_that_are_none(void **state)
{
  (void)state;
  const struct {
    const char *weights, *reason;
  } cases[] = {
      {"alice", "weights: \"alice\" is no name with a weight from 0.001 to 1000"},
      {"alice:3,:2", "\":2\" is no name with"},
      {"alice:3,,bob:2", "\"\" is no name with"},
      {"alice:0", "\"alice:0\" is no name with"},
      {"alice:nan", "\"alice:nan\" is no name with"},
      {"alice:3x, bob:1", "\"alice:3x\" is no name with"},
      {"alice:3, bob:1, alice :2", "weights: \"alice\" has two weights"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct bed bed;
    assert_int_equal(open_with_weights(&bed, cases[i].weights), -EINVAL);
    assert_non_null(strstr(bed.failure, cases[i].reason));
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_charges),
      cmocka_unit_test(test_lifting),
      cmocka_unit_test(test_asked_but_not_let_in_still_waits),
      cmocka_unit_test(test_a_reload_forgets_no_service),
      cmocka_unit_test(test_preemption_costs_nothing),
      cmocka_unit_test(test_bound),
      cmocka_unit_test(test_weights_by_name),
      cmocka_unit_test(test_weights_that_are_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
