/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bidirectional cache where all layers have a window: requests longer than the pool
 * run, what has left the window has no slot and no copy, and displaced tokens come back.
 */
#include "t/plugin/transactions.h"

#define S      4 /* slots of a block */
#define WINDOW 10
#define STEP   8

static void open_with(struct bed *bed, uint32_t blocks, uint32_t host_blocks)
{
  struct bed_options o = {
      .scheduler = {"fcfs", (const char *const[]){"watermark", "0", NULL}},
      .cache = {"bidirectional", (const char *const[]){"ahead", "0", NULL}},
      .block_tokens = S,
      .device_units = 2 * blocks,
      .host_units = 2 * host_blocks,
      .window = WINDOW,
      .max_tokens = STEP,
      .max_sequences = 4,
      .max_context = 256,
      .max_requests = 8,
      .audit_every = 1,
  };
  assert_int_equal(bed_open(bed, &o), 0);
}

static struct lls_live *request(struct bed *bed, uint32_t class)
{
  bed->next.request_class = class;
  return submit(bed, 0, 200, 20);
}

static int reserve(struct bed *bed, struct lls_live *r, uint32_t tokens)
{
  uint32_t flags = r->view.request_class == LLS_CLASS_REALTIME ? LLS_MAY_DISPLACE : 0;
  return bed->c->reserve(bed->cache_self, &r->view, tokens, LLS_FORM_NONE, flags);
}

/* A step of one request: copies, and tokens written behind those that are read. */
static void step(struct bed *bed, struct lls_live *r, uint32_t tokens)
{
  assert_int_equal(bed->c->begin(bed->cache_self), 0);
  assert_int_equal(reserve(bed, r, tokens), LLS_RESERVE_OK);
  assert_int_equal(bed->c->commit(bed->cache_self), 0);
  carry_out(bed);
  compute(bed, r, tokens);
  assert_int_equal(bed_audit(bed), 0);
}

/* The most blocks of a request: those of its window, of a step, and one more. */
#define MOST ((WINDOW + STEP + S - 1) / S + 1)

/* Each step reads what its window has (compute in transactions.h checks the values). */
static void test_longer_than_the_pool(void **state)
{
  (void)state;
  for (uint32_t class = LLS_CLASS_REALTIME; class <= LLS_CLASS_BEST_EFFORT; class ++) {
    struct bed bed;
    open_with(&bed, MOST, 2);
    struct lls_live *r = request(&bed, class);
    while (r->view.cached_tokens < 200)
      step(&bed, r, STEP);
    assert_in_range(info_of(&bed, r).device_units, 2, 2 * MOST);
    assert_int_equal(info_of(&bed, r).missing_tokens, 0);
    bed_cancel(&bed, r);
    assert_int_equal(free_units(&bed), 2 * MOST);
    bed_close(&bed);
  }
}

/* A pool without room for a window and a step never has room for a long request. */
static void test_never(void **state)
{
  (void)state;
  struct bed bed;
  open_with(&bed, MOST - 1, 2);
  struct lls_live *r = request(&bed, LLS_CLASS_REALTIME);
  bed.c->begin(bed.cache_self);
  assert_int_equal(reserve(&bed, r, 200), LLS_RESERVE_NEVER);
  bed.c->commit(bed.cache_self);
  struct lls_need need = {.size = sizeof need};
  assert_int_equal(bed.c->need(bed.cache_self, &r->view, 200, LLS_FORM_NONE, &need), 0);
  assert_int_equal(need.new_units, 2 * MOST);
  bed_close(&bed);
}

/* A best-effort request has the tokens on the host that a real-time one displaces, and
 * all of them after a swap; tokens that leave the window meanwhile are not copied back,
 * and host memory holds no more than a window's tokens. */
static void test_displaced(void **state)
{
  (void)state;
  struct bed bed;
  open_with(&bed, MOST + 1, MOST);
  struct lls_live *a = request(&bed, LLS_CLASS_BEST_EFFORT);
  for (uint32_t turn = 0; turn < 6; turn++) {
    for (uint32_t i = 0; i < 3; i++)
      step(&bed, a, STEP);
    uint32_t cached = info_of(&bed, a).cached_tokens;
    struct lls_live *b = request(&bed, LLS_CLASS_REALTIME);
    while (info_of(&bed, a).missing_tokens == 0)
      step(&bed, b, STEP);
    assert_in_range(info_of(&bed, a).missing_tokens, 1, WINDOW + S);
    bed_cancel(&bed, b);
    bed.c->begin(bed.cache_self);
    assert_int_equal(bed.c->preempt(bed.cache_self, &a->view, LLS_PREEMPT_SWAP), 0);
    bed.c->commit(bed.cache_self);
    carry_out(&bed);
    assert_int_equal(info_of(&bed, a).residency, LLS_RESIDENT_HOST);
    assert_int_equal(info_of(&bed, a).missing_tokens, cached);
    assert_in_range(info_of(&bed, a).host_units, 2, 2 * MOST);
    step(&bed, a, 1);
  }
  bed_cancel(&bed, a);
  assert_int_equal(host_free(&bed), 2 * MOST);
  bed_close(&bed);
}

static void test_rollback_is_exact(void **state)
{
  (void)state;
  struct bed_options o = {
      .scheduler = {"fcfs", NULL},
      .cache = {"bidirectional", NULL},
      .block_tokens = 16,
      .device_units = 60,
      .host_units = 40,
      .window = 24,
      .max_tokens = 1024,
      .max_sequences = 16,
      .max_context = 256,
      .max_requests = 32,
      .audit_every = 1,
  };
  check_rollback(&o);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_longer_than_the_pool),
      cmocka_unit_test(test_never),
      cmocka_unit_test(test_displaced),
      cmocka_unit_test(test_rollback_is_exact),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
