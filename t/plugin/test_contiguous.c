/* SPDX-License-Identifier: Apache-2.0 */
/* The contiguous cache: sizes of regions, first fit, moving, exact rollback. */
#include "t/tap.h"

#include "t/plugin/script.h"

static const struct bed_options defaults = {
    .scheduler = {"fcfs", (const char *const[]){"watermark", "0", NULL}},
    .cache = {"contiguous", NULL},
    .block_tokens = 16,
    .device_units = 80, /* forty blocks */
    .max_tokens = 4096,
    .max_sequences = 16,
    .max_context = 640,
    .max_requests = 32,
    .audit_every = 1,
};

static void open_reserving(struct bed *bed, const char *reserve, uint32_t device_units)
{
  struct bed_options o = defaults;
  o.cache.parameters = POLICY_PARAMETERS("reserve", reserve, "max_len", "200");
  o.device_units = device_units;
  assert_int_equal(bed_open(bed, &o), 0);
}

static struct lls_cache_info info_of(struct bed *bed, const struct lls_live *r)
{
  struct lls_cache_info info = {.size = sizeof info};
  assert_int_equal(bed->c->info(bed->cache_self, &r->view, &info), 0);
  return info;
}

/* Returns the blocks of the region of a request of 60 tokens and 40 to come, predicted
 * as 20. */
static uint32_t region(const char *reserve, uint32_t predicted)
{
  struct bed bed;
  open_reserving(&bed, reserve, 80);
  bed.next.predicted = predicted;
  struct lls_live *r = submit(&bed, 60, 40);
  bed_step(&bed);
  uint32_t blocks = info_of(&bed, r).device_units / 2;
  assert_int_equal(info_of(&bed, r).free_slots, blocks * 16 - 60);
  bed_finish(&bed, 100);
  assert_int_equal(bed.copies[LLS_COPY_DEVICE_TO_DEVICE], 0);
  bed_close(&bed);
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

/* A request whose limit is above max_len gets max_len, and at most the whole memory. */
static void test_limits(void **state)
{
  (void)state;
  struct bed bed;
  open_reserving(&bed, "max", 20); /* ten blocks, 160 tokens: less than max_len */
  submit(&bed, 161, 1);
  struct lls_live *r = submit(&bed, 100, 60);
  expect_plan(&bed, "x0 1:100");
  assert_int_equal(info_of(&bed, r).device_units, 20);
  bed_finish(&bed, 100);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 1);
  submit(&bed, 100, 70); /* grows until the memory is full */
  bed_finish(&bed, 100);
  assert_int_equal(bed.finished[LLS_FINISH_CAPACITY], 2);
  bed_close(&bed);
}

static void test_first_fit(void **state)
{
  (void)state;
  struct bed bed;
  open_reserving(&bed, "oracle", 40); /* twenty blocks */
  submit(&bed, 60, 4);                /* four each */
  submit(&bed, 60, 10);
  submit(&bed, 60, 4);
  submit(&bed, 60, 30); /* six */
  bed_step(&bed);
  assert_int_equal(bed_figure(&bed, "blocks_largest_gap"), 1); /* 20 - 4 - 5 - 4 - 6 */
  for (int i = 0; i < 4; i++)
    bed_step(&bed); /* 0 and 2 are gone: gaps of four, four, and one */
  assert_int_equal(bed_figure(&bed, "blocks_largest_gap"), 4);
  struct lls_live *r = submit(&bed, 90, 6); /* six: nine are free, not in one piece */
  expect_plan(&bed, "1:1 3:1");
  assert_int_equal(info_of(&bed, r).device_units, 0);
  struct lls_live *s = submit(&bed, 50, 3);
  bed_cancel(&bed, r);
  bed_step(&bed);
  bed_audit(&bed);
  assert_non_null(strstr(bed.text, "request 5 at 0, 4 blocks"));
  (void)s;
  bed_finish(&bed, 100);
  bed_close(&bed);
}

/* The region is full, and its neighbour is in the way: the cached tokens move. The
 * watch checks that attention still reads them (tools/plugin-check/shadow.c). */
static void test_moving(void **state)
{
  (void)state;
  struct bed bed;
  open_reserving(&bed, "oracle", 80);
  bed.next.predicted = 4;
  bed.next.max_new_tokens = 100;
  submit(&bed, 60, 50); /* four blocks, then ten */
  bed.next.predicted = 0;
  bed.next.max_new_tokens = 0;
  submit(&bed, 60, 50);
  bed_step(&bed);
  for (int i = 0; i < 5; i++)
    bed_step(&bed);
  assert_int_equal(bed.copies[LLS_COPY_DEVICE_TO_DEVICE], 4);
  bed_finish(&bed, 100);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 2);
  assert_int_equal(bed.preempted_recompute, 0);
  bed_close(&bed);
}

/* Alone at the end of the pool the region slides down, over its old place. rr requires
 * no free block before a decode, which here would be a whole new region. */
static void test_sliding(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.scheduler = (struct harness_policy){"rr", POLICY_PARAMETERS("watermark", "0")};
  o.cache.parameters = POLICY_PARAMETERS("reserve", "oracle");
  o.device_units = 24; /* twelve blocks */
  assert_int_equal(bed_open(&bed, &o), 0);
  submit(&bed, 60, 4); /* four */
  bed.next.predicted = 4;
  bed.next.max_new_tokens = 70;
  submit(&bed, 120, 69); /* eight, then all twelve */
  bed_finish(&bed, 200);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 2);
  assert_int_equal(bed.copies[LLS_COPY_DEVICE_TO_DEVICE], 8);
  assert_int_equal(bed.preempted_recompute, 0);
  bed_close(&bed);
}

/* After rollback the state is the one before, byte for byte. */
static void test_rollback_is_exact(void **state)
{
  (void)state;
  struct bed bed;
  open_reserving(&bed, "oracle", 80);
  struct lls_live *r[6];
  for (int i = 0; i < 6; i++) {
    bed.next.predicted = 4;
    bed.next.max_new_tokens = 60;
    r[i] = submit(&bed, 60, 50);
  }
  for (int i = 0; i < 3; i++)
    bed_step(&bed);
  for (int round = 0; round < 100; round++) {
    bed.c->begin(bed.cache_self);
    uint32_t mark = bed.c->mark(bed.cache_self);
    bed_audit(&bed);
    char *before = strdup(bed.text);
    for (int i = 0; i < 10; i++) {
      struct lls_live *q = r[bed_between(&bed, 0, 5)];
      if (bed_between(&bed, 0, 2) == 0)
        bed.c->preempt(bed.cache_self, &q->view, LLS_PREEMPT_RECOMPUTE);
      else
        bed.c->reserve(bed.cache_self, &q->view, bed_between(&bed, 1, 60), 0, 0);
      assert_int_equal(bed_audit(&bed), 0);
    }
    assert_int_equal(bed.c->rollback(bed.cache_self, mark), 0);
    assert_int_equal(bed_audit(&bed), 0);
    assert_string_equal(bed.text, before);
    free(before);
    bed.c->commit(bed.cache_self);
  }
  bed_finish(&bed, 500);
  bed_close(&bed);
}

/* Two lists of one region; then of another region that overlaps its end; then of the
 * first again. */
static void test_lists_follow_their_region(void **state)
{
  (void)state;
  struct bed bed;
  open_reserving(&bed, "oracle", 16); /* eight blocks */
  for (int i = 0; i < 4; i++)
    submit(&bed, 20 + 16 * (uint32_t)i, 30);
  bed_finish(&bed, 1000);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 4);
  bed_close(&bed);
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
