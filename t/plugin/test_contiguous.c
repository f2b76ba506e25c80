/* SPDX-License-Identifier: Apache-2.0 */
/* The contiguous cache: regions, how large, first fit, moving, exact rollback. */
#include "t/tap.h"

#include "t/plugin/script.h"

static const struct fake_options defaults = {
    .scheduler = {"fcfs", (const char *const[]){"watermark", "0", NULL}},
    .cache = {"contiguous", NULL},
    .block_tokens = 16,
    .device_units = 80, /* forty blocks */
    .max_tokens = 4096,
    .max_sequences = 16,
    .max_context = 640,
    .max_requests = 32,
    .audit = true,
};

static void open_reserving(struct fake *f, const char *reserve, uint32_t device_units)
{
  struct fake_options o = defaults;
  o.cache.parameters = POLICY_PARAMETERS("reserve", reserve, "max_len", "200");
  o.device_units = device_units;
  assert_int_equal(fake_open(f, &o), 0);
}

static struct lls_cache_info info_of(struct fake *f, const struct fake_request *r)
{
  struct lls_cache_info info = {.size = sizeof info};
  assert_int_equal(f->c->info(f->cache_self, &r->view, &info), 0);
  return info;
}

/* Blocks of the region of a request of 60 tokens and 40 to come, 20 as predicted. */
static uint32_t region(const char *reserve, uint32_t predicted)
{
  struct fake f;
  open_reserving(&f, reserve, 80);
  f.next.predicted = predicted;
  struct fake_request *r = submit(&f, 60, 40);
  fake_step(&f);
  uint32_t blocks = info_of(&f, r).device_units / 2;
  assert_int_equal(info_of(&f, r).free_slots, blocks * 16 - 60);
  fake_finish(&f, 100);
  assert_int_equal(f.copies[LLS_COPY_DEVICE_TO_DEVICE], 0);
  fake_close(&f);
  return blocks;
}

static void test_how_large(void **state)
{
  (void)state;
  assert_int_equal(region("max", 0), 13);    /* 200 tokens */
  assert_int_equal(region("pow2", 0), 8);    /* 128 above 60 + 40 */
  assert_int_equal(region("pow2", 20), 8);   /* above 60 + 20 */
  assert_int_equal(region("pow2", 4), 4);    /* above 60 + 4, and grows in place */
  assert_int_equal(region("oracle", 0), 7);  /* 100 */
  assert_int_equal(region("oracle", 20), 5); /* 80, then all 100 */
}

/* A request whose own limit is above max_len gets that, and at most all there is. */
static void test_limits(void **state)
{
  (void)state;
  struct fake f;
  open_reserving(&f, "max", 20); /* ten blocks, 160 tokens: less than max_len */
  submit(&f, 161, 1);
  struct fake_request *r = submit(&f, 100, 60);
  expect_plan(&f, "x0 1:100");
  assert_int_equal(info_of(&f, r).device_units, 20);
  fake_finish(&f, 100);
  assert_int_equal(f.finished[LLS_FINISH_LENGTH], 1);
  submit(&f, 100, 70); /* grows until the memory is full */
  fake_finish(&f, 100);
  assert_int_equal(f.finished[LLS_FINISH_CAPACITY], 2);
  fake_close(&f);
}

static void test_first_fit(void **state)
{
  (void)state;
  struct fake f;
  open_reserving(&f, "oracle", 40); /* twenty blocks */
  submit(&f, 60, 4);                /* four each */
  submit(&f, 60, 10);
  submit(&f, 60, 4);
  submit(&f, 60, 30); /* six */
  fake_step(&f);
  assert_int_equal(fake_figure(&f, "blocks_largest_gap"), 1); /* 20 - 4 - 5 - 4 - 6 */
  for (int i = 0; i < 4; i++)
    fake_step(&f); /* 0 and 2 are gone: gaps of four, four, and one */
  assert_int_equal(fake_figure(&f, "blocks_largest_gap"), 4);
  struct fake_request *r = submit(&f, 90, 6); /* six: nine are free, not in one piece */
  expect_plan(&f, "1:1 3:1");
  assert_int_equal(info_of(&f, r).device_units, 0);
  struct fake_request *s = submit(&f, 50, 3);
  fake_cancel(&f, r);
  fake_step(&f);
  fake_audit(&f);
  assert_non_null(strstr(f.text, "request 5 at 0, 4 blocks"));
  (void)s;
  fake_finish(&f, 100);
  fake_close(&f);
}

/* Outgrown, and the neighbour is in the way: what is cached moves. The fake memory checks
 * that attention still reads it (t/plugin/fake_memory.c). */
static void test_moving(void **state)
{
  (void)state;
  struct fake f;
  open_reserving(&f, "oracle", 80);
  f.next.predicted = 4;
  f.next.max_new_tokens = 100;
  submit(&f, 60, 50); /* four blocks, then ten */
  f.next.predicted = 0;
  f.next.max_new_tokens = 0;
  submit(&f, 60, 50);
  fake_step(&f);
  for (int i = 0; i < 5; i++)
    fake_step(&f);
  assert_int_equal(f.copies[LLS_COPY_DEVICE_TO_DEVICE], 8); /* four blocks, K and V */
  fake_finish(&f, 100);
  assert_int_equal(f.finished[LLS_FINISH_LENGTH], 2);
  assert_int_equal(f.preempted_recompute, 0);
  fake_close(&f);
}

/* Alone at the end of the pool it slides down, over its own old place. rr asks for no
 * free block before a decode, which here would be a whole new region. */
static void test_sliding(void **state)
{
  (void)state;
  struct fake f;
  struct fake_options o = defaults;
  o.scheduler = (struct harness_policy){"rr", POLICY_PARAMETERS("watermark", "0")};
  o.cache.parameters = POLICY_PARAMETERS("reserve", "oracle");
  o.device_units = 24; /* twelve blocks */
  assert_int_equal(fake_open(&f, &o), 0);
  submit(&f, 60, 4); /* four */
  f.next.predicted = 4;
  f.next.max_new_tokens = 70;
  submit(&f, 120, 69); /* eight, then all twelve */
  fake_finish(&f, 200);
  assert_int_equal(f.finished[LLS_FINISH_LENGTH], 2);
  assert_int_equal(f.copies[LLS_COPY_DEVICE_TO_DEVICE], 16);
  assert_int_equal(f.preempted_recompute, 0);
  fake_close(&f);
}

/* After rollback the state is the one before, byte for byte. */
static void test_rollback_is_exact(void **state)
{
  (void)state;
  struct fake f;
  open_reserving(&f, "oracle", 80);
  struct fake_request *r[6];
  for (int i = 0; i < 6; i++) {
    f.next.predicted = 4;
    f.next.max_new_tokens = 60;
    r[i] = submit(&f, 60, 50);
  }
  for (int i = 0; i < 3; i++)
    fake_step(&f);
  for (int round = 0; round < 100; round++) {
    f.c->begin(f.cache_self);
    uint32_t mark = f.c->mark(f.cache_self);
    fake_audit(&f);
    char *before = strdup(f.text);
    for (int i = 0; i < 10; i++) {
      struct fake_request *q = r[fake_between(&f, 0, 5)];
      if (fake_between(&f, 0, 2) == 0)
        f.c->preempt(f.cache_self, &q->view, LLS_PREEMPT_RECOMPUTE);
      else
        f.c->reserve(f.cache_self, &q->view, fake_between(&f, 1, 60), 0, 0);
      assert_int_equal(fake_audit(&f), 0);
    }
    assert_int_equal(f.c->rollback(f.cache_self, mark), 0);
    assert_int_equal(fake_audit(&f), 0);
    assert_string_equal(f.text, before);
    free(before);
    f.c->commit(f.cache_self);
  }
  fake_finish(&f, 500);
  fake_close(&f);
}

/* Two lists of one region, then another region over its end, then the first again. */
static void test_lists_follow_their_region(void **state)
{
  (void)state;
  struct fake f;
  open_reserving(&f, "oracle", 16); /* eight blocks */
  for (int i = 0; i < 4; i++)
    submit(&f, 20 + 16 * (uint32_t)i, 30);
  fake_finish(&f, 1000);
  assert_int_equal(f.finished[LLS_FINISH_LENGTH], 4);
  fake_close(&f);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_how_large),
      cmocka_unit_test(test_limits),
      cmocka_unit_test(test_first_fit),
      cmocka_unit_test(test_moving),
      cmocka_unit_test(test_sliding),
      cmocka_unit_test(test_rollback_is_exact),
      cmocka_unit_test(test_lists_follow_their_region),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
