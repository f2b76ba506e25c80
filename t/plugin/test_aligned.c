/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AlignedServe's scheduler with hand-made cases: victims, needs and medians of running
 * batches, and plans of small loads step by step. t/sim/test_aligned has random loads,
 * test_aligned_tree the tree.
 */
#include "t/tap.h"

#include "plugins/schedulers/aligned/aligned.h"
#include "t/plugin/script.h"

enum { MOST = 8 };

/* A hand-made running batch: lengths and tags. */
struct batch {
  struct aligned a;
  struct member members[MOST];
  struct lls_request requests[MOST];
  uint32_t running[MOST], found[MOST];
  struct lls_host host;
  uint64_t random;
};

static uint64_t next_random(void *context, uint32_t stream)
{
  (void)stream;
  return ((struct batch *)context)->random++;
}

static void make(struct batch *b, uint32_t n, const uint32_t *lengths,
                 const uint32_t *tags)
{
  memset(b, 0, sizeof *b);
  b->a.members = b->members;
  b->a.running = b->running;
  b->a.found = b->found;
  b->a.n_running = n;
  b->a.block_tokens = 16;
  b->a.fit = (struct lls_pol_fit){
      .block_tokens = 16, .first_units = 2, .block_units = 2, .growth_units = 2};
  b->host = (struct lls_host){.context = b, .random = next_random};
  b->a.base.host = &b->host;
  for (uint32_t i = 0; i < n; i++) {
    b->requests[i].cached_tokens = lengths[i];
    b->members[i] = (struct member){
        .request = &b->requests[i], .id = i + 1, .place = RUNNING, .at = i};
    b->members[i].tag = tags != NULL ? tags[i] : 0;
    b->a.tag = b->members[i].tag > b->a.tag ? b->members[i].tag : b->a.tag;
    b->running[i] = i;
  }
}

/* The victim is the longest request of the older batch, which has 57 blocks. */
static void test_victims(void **state)
{
  (void)state;
  static const uint32_t lengths[] = {120, 700, 900, 130}, tags[] = {2, 1, 1, 2};
  struct batch b;
  make(&b, 4, lengths, tags);
  uint32_t slot = b.running[decode_choose_victim(&b.a)];
  assert_int_equal(lengths[slot], 900);
  assert_int_equal(blocks_of(&b.a, lengths[slot]), 57);
  static const uint32_t newer_is_longer[] = {5000, 700, 600, 130};
  make(&b, 4, newer_is_longer, tags);
  assert_int_equal(newer_is_longer[b.running[decode_choose_victim(&b.a)]], 700);
  static const uint32_t alike[] = {300, 400, 400, 300};
  make(&b, 4, alike, NULL); /* one batch: the longest, and of two the later */
  assert_int_equal(b.running[decode_choose_victim(&b.a)], 2);
  bool chosen[4] = {false};
  make(&b, 4, lengths, tags);
  b.a.params.victim = VICTIM_RANDOM;
  for (int i = 0; i < 20; i++)
    chosen[b.running[decode_choose_victim(&b.a)]] = true;
  assert_true(chosen[1] && chosen[2] && !chosen[0] && !chosen[3]);
}

/* Example 6. */
static void test_need(void **state)
{
  (void)state;
  static const uint32_t lengths[] = {15, 16, 31, 32, 47};
  struct batch b;
  make(&b, 5, lengths, NULL);
  assert_int_equal(decode_need(&b.a), 2);
}

static void test_median(void **state)
{
  (void)state;
  static const uint32_t lengths[] = {50, 10, 40, 20, 30, 30, 60},
                        tags[] = {3, 3, 3, 4, 4, 4, 3};
  struct batch b;
  for (uint32_t n = 1; n <= 7; n++) {
    static const uint32_t medians[] = {50, 50, 40, 40, 30, 30, 30};
    make(&b, n, lengths, tags);
    assert_int_equal(batch_median(&b.a), medians[n - 1]);
  }
}

/* The range stays that of the batch when it was made; only the longest request may have
 * grown. */
static void test_range_is_frozen(void **state)
{
  (void)state;
  static const uint32_t lengths[] = {5, 900};
  struct batch b;
  make(&b, 2, lengths, NULL);
  b.a.tree.len_max = 1024;
  b.a.lengths = (struct tree_range){20, 30};
  b.a.steps = 7;
  assert_int_equal(batch_range(&b.a).first, 20);
  assert_int_equal(batch_range(&b.a).last, 37);
  b.a.steps = UINT64_C(1) << 40;
  assert_int_equal(batch_range(&b.a).last, 1024);
}

/* A batch is low at half of its largest size, which counts as at least Bmax; or at a
 * number of requests. */
static void test_low(void **state)
{
  (void)state;
  static const uint32_t lengths[] = {160, 160, 160}; /* 30 blocks */
  const struct lls_pol_step s = {.total_units = 200};
  struct batch b;
  make(&b, 3, lengths, NULL);
  b.a.params.bmax_frac = 0.4; /* 40 blocks */
  b.a.params.switch_frac = 0.5;
  assert_false(batch_is_low(&b.a, &s, 1));
  assert_true(batch_is_low(&b.a, &s, 1.6));
  b.a.peak_blocks = 61;
  assert_true(batch_is_low(&b.a, &s, 1));
  b.a.params.switch_frac = 0;
  b.a.params.switch_below = 3;
  assert_false(batch_is_low(&b.a, &s, 1));
  b.a.params.switch_below = 4;
  assert_true(batch_is_low(&b.a, &s, 1));
}

/* Step 4: the watermark, and a block for each 16 tokens that 10 may grow by in 24 steps.
 */
static void test_headroom(void **state)
{
  (void)state;
  struct batch b;
  const struct lls_pol_step s = {.watermark_units = 20};
  make(&b, 1, (const uint32_t[]){10}, NULL);
  b.a.params.headroom_iters = 24;
  assert_int_equal(decode_headroom(&b.a, &s, 10), 20 + 2 * 15);
  assert_int_equal(decode_headroom(&b.a, &s, 11), 20 + 2 * 17);
  b.a.params.headroom_iters = 0;
  assert_int_equal(decode_headroom(&b.a, &s, 1000), 20);
}

/* ---- plans ------------------------------------------------------------------------- */

static const struct bed_options defaults = {
    .scheduler = {"aligned", NULL},
    .cache = {"paged", NULL},
    .block_tokens = 16,
    .device_units = 400,
    .max_tokens = 1024,
    .max_sequences = 16,
    .max_context = 512,
    .max_requests = 16,
    .audit_every = 1,
};

static void open_with(struct bed *bed, const char *const *parameters)
{
  struct bed_options o = defaults;
  o.scheduler.parameters = parameters;
  if (bed_open(bed, &o) < 0)
    fail_msg("%s", bed->failure);
}

/* Bmax is 20 blocks. First the requests of 20 to 22 tokens run; when two of them are
 * left, the one of 300 (19 blocks) joins. The one of 310 does not fit in Bmax with
 * it. */
static void test_like_lengths_together(void **state)
{
  (void)state;
  static const uint32_t lengths[] = {20, 300, 22, 310, 21}, outputs[] = {9, 20, 9, 20, 3};
  struct bed bed;
  open_with(&bed, POLICY_PARAMETERS("rmin", "2", "switch_below", "3", "bmax_frac", "0.1",
                                    "switch_frac", "0", "rest", "stay", "slack", "0"));
  for (uint32_t i = 0; i < 5; i++)
    submit(&bed, lengths[i], outputs[i]);
  expect_plan(&bed, "0:20 1:300 2:22 3:310 4:21");
  expect_plan(&bed, "4:1 0:1 2:1");
  expect_plan(&bed, "4:1 0:1 2:1"); /* the last token of request 4 */
  for (int i = 0; i < 6; i++)       /* two of the batch are left: the next one joins */
    expect_plan(&bed, "2:1 0:1 1:1");
  expect_plan(&bed, "1:1 3:1"); /* which has grown to the length of the last one */
  bed_finish(&bed, 100);
  bed_close(&bed);
}

/* As before, but the rest of the first batch does not run with the second one: it is
 * the next batch after it. */
static void test_next_batch_replaces_what_is_left(void **state)
{
  (void)state;
  static const uint32_t lengths[] = {20, 300, 22, 310, 21}, outputs[] = {9, 20, 9, 20, 3};
  struct bed bed;
  open_with(&bed, POLICY_PARAMETERS("rmin", "2", "switch_below", "3", "bmax_frac", "0.1",
                                    "switch_frac", "0", "rest", "evict", "slack", "0"));
  for (uint32_t i = 0; i < 5; i++)
    submit(&bed, lengths[i], outputs[i]);
  expect_plan(&bed, "0:20 1:300 2:22 3:310 4:21");
  expect_plan(&bed, "4:1 0:1 2:1");
  expect_plan(&bed, "4:1 0:1 2:1"); /* the last of request 4 */
  expect_plan(&bed, "1:1");
  bed_finish(&bed, 100);
  bed_close(&bed);
}

/* A few requests form no batch while others run, unless one has waited for 6 ms: six
 * steps of 1 ms and 0.1 for their token, one to find it and one to run it. If nothing
 * runs they form a batch at once. */
static void test_a_small_pool_waits(void **state)
{
  (void)state;
  struct bed bed;
  open_with(&bed, POLICY_PARAMETERS("rmin", "3", "switch_below", "3", "max_wait", "6ms",
                                    "prefill_share", "1"));
  submit(&bed, 30, 30);
  expect_plan(&bed, "0:30");
  expect_plan(&bed, "0:1");
  submit(&bed, 200, 10);
  expect_plan(&bed, "1:200");
  int waited = 0;
  for (; planned(&bed, 1) != 1; waited++)
    bed_step(&bed);
  assert_int_equal(waited, 8);
  bed_finish(&bed, 100);
  bed_close(&bed);
}

static void fits_by_chance(const char *prefetch)
{
  struct bed bed;
  open_with(&bed, POLICY_PARAMETERS("rmin", "3", "switch_below", "1", "max_wait", "0",
                                    "prefill_share", "1", "slack", "0", "switch_frac",
                                    "0", "prefetch", prefetch));
  submit(&bed, 30, 30);
  submit(&bed, 60, 30);
  expect_plan(&bed, "0:30 1:60");
  expect_plan(&bed, "1:1 0:1");
  submit(&bed, 50, 10); /* length between the two */
  submit(&bed, 20, 10); /* shorter */
  expect_plan(&bed, "2:50 3:20");
  bed_step(&bed); /* the batch finds it ... */
  expect_plan(&bed, "1:1 0:1 2:1");
  bed_finish(&bed, 100);
  bed_close(&bed);
}

/* A request whose length is within the running batch's range joins it without waiting,
 * whether or not the next batch is made ahead. */
static void test_who_fits_by_chance_joins(void **state)
{
  (void)state;
  fits_by_chance("auto");
  fits_by_chance("off");
}

/* Bmax is 20 blocks: one of 300 tokens is next, and one of 200 starves after 1 ms. From
 * then on requests within the running batch's range still join it, but those of near
 * lengths do not. */
static void test_who_starves_keeps_only_others_out(void **state)
{
  (void)state;
  struct bed bed;
  open_with(&bed,
            POLICY_PARAMETERS("rmin", "3", "switch_below", "1", "max_wait", "0",
                              "prefill_share", "1", "slack", "1", "switch_frac", "0",
                              "bmax_frac", "0.1", "starve", "1ms", "starve_rounds", "0"));
  submit(&bed, 30, 80);
  submit(&bed, 60, 80);
  expect_plan(&bed, "0:30 1:60");
  expect_plan(&bed, "1:1 0:1");
  submit(&bed, 300, 10);
  submit(&bed, 200, 10);
  expect_plan(&bed, "2:300 3:200");
  for (int i = 0; i < 15; i++)
    bed_step(&bed);
  submit(&bed, 50, 10);
  submit(&bed, 150, 10);
  expect_plan(&bed, "4:50 5:150");
  bed_step(&bed);
  for (int i = 0; i < 5; i++)
    expect_plan(&bed, "1:1 0:1 4:1");
  bed_finish(&bed, 300);
  bed_close(&bed);
}

/* The batch may have 20 of 400 units, ten blocks: its running requests have six, and
 * one of two that fit by their lengths takes four. The other waits until the first has
 * ended. */
static void test_a_full_batch_is_not_joined(void **state)
{
  (void)state;
  struct bed bed;
  open_with(&bed, POLICY_PARAMETERS("rmin", "3", "switch_below", "1", "max_wait", "0",
                                    "prefill_share", "1", "slack", "0", "switch_frac",
                                    "0", "fill_frac", "0.05"));
  submit(&bed, 30, 30);
  submit(&bed, 60, 30);
  expect_plan(&bed, "0:30 1:60");
  expect_plan(&bed, "1:1 0:1");
  submit(&bed, 50, 10);
  submit(&bed, 50, 10);
  expect_plan(&bed, "2:50 3:50");
  bed_step(&bed);
  for (int i = 0; i < 9; i++)
    expect_plan(&bed, "1:1 0:1 2:1");
  expect_plan(&bed, "1:1 0:1");
  bed_finish(&bed, 100);
  bed_close(&bed);
}

/* Batches in order of arrival: others also join in that order, whatever their lengths,
 * and the first one without free memory blocks later ones. */
static void test_order_of_arrival(void **state)
{
  (void)state;
  struct bed bed;
  for (int full = 0; full < 2; full++) {
    open_with(&bed,
              POLICY_PARAMETERS("rmin", "3", "switch_below", "1", "max_wait", "0",
                                "prefill_share", "1", "slack", "0", "switch_frac", "0",
                                "batching", "fcfs", "fill_frac", full ? "0.05" : "1"));
    submit(&bed, 30, 30);
    submit(&bed, 60, 30);
    expect_plan(&bed, "0:30 1:60");
    expect_plan(&bed, "0:1 1:1"); /* of which the second is nearer to the median */
    submit(&bed, 200, 10);
    submit(&bed, 50, 10); /* between the two */
    expect_plan(&bed, "2:200 3:50");
    bed_step(&bed); /* they are found ... */
    for (int i = 0; i < 5; i++)
      expect_plan(&bed, full ? "0:1 1:1" : "0:1 1:1 2:1 3:1");
    bed_finish(&bed, 200);
    bed_close(&bed);
  }
}

/* A request of 300 tokens continues with the next batch, of 20 tokens, because it
 * arrived first. */
static void test_order_of_arrival_is_kept_at_a_switch(void **state)
{
  (void)state;
  struct bed bed;
  open_with(&bed, POLICY_PARAMETERS("rmin", "1", "switch_below", "2", "bmax_frac", "0.1",
                                    "switch_frac", "0", "rest", "evict", "slack", "0",
                                    "batching", "fcfs"));
  submit(&bed, 300, 20);
  submit(&bed, 20, 5);
  submit(&bed, 21, 5);
  expect_plan(&bed, "0:300 1:20 2:21");
  bed_step(&bed);
  for (int i = 0; i < 3; i++)
    expect_plan(&bed, "0:1 1:1 2:1");
  bed_finish(&bed, 100);
  bed_close(&bed);
}

/* Prompts get half of the time: the one of 20 tokens takes 2 ms and those of 100 take
 * 10, a decode takes 0.1. */
static void test_prompts_and_decodes_take_turns(void **state)
{
  (void)state;
  struct bed bed;
  open_with(&bed, NULL);
  submit(&bed, 20, 400);
  expect_plan(&bed, "0:20");
  for (uint64_t id = 1; id < 4; id++) {
    submit(&bed, 100, 1);
    for (int decodes = 0; decodes < (id == 1 ? 20 : 100); decodes++)
      expect_plan(&bed, "0:1");
    bed_step(&bed);
    assert_int_equal(planned(&bed, id), 100);
  }
  bed_finish(&bed, 400);
  bed_close(&bed);
}

/* A request's region of one block is full when its answer gets longer than predicted.
 * One block is free, enough for a token with other caches, but a new region takes four.
 * The older request has three and cannot run at the same time. */
static void test_outgrown_region_is_taken_from_others(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.cache = (struct harness_policy){"contiguous", POLICY_PARAMETERS("reserve", "oracle")};
  o.device_units = 2 * 5;
  assert_int_equal(bed_open(&bed, &o), 0);
  bed.next.predicted = 18;
  submit(&bed, 30, 18);
  bed.next.predicted = 1;
  submit(&bed, 15, 40);
  expect_plan(&bed, "0:30 1:15");
  expect_plan(&bed, "1:1");
  expect_plan(&bed, "-0 1:1");
  bed_finish(&bed, 200);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 2);
  bed_close(&bed);
}

/* Parameters for which no tree can be built are refused. */
static void test_refused_parameters(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("len_max", "60000");
  assert_int_equal(bed_open(&bed, &o), -EINVAL);
  assert_non_null(strstr(bed.failure, "len_max = 60000 is no power of four times"));
  bed_close(&bed);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_victims),
      cmocka_unit_test(test_need),
      cmocka_unit_test(test_median),
      cmocka_unit_test(test_range_is_frozen),
      cmocka_unit_test(test_low),
      cmocka_unit_test(test_headroom),
      cmocka_unit_test(test_like_lengths_together),
      cmocka_unit_test(test_next_batch_replaces_what_is_left),
      cmocka_unit_test(test_a_small_pool_waits),
      cmocka_unit_test(test_who_fits_by_chance_joins),
      cmocka_unit_test(test_who_starves_keeps_only_others_out),
      cmocka_unit_test(test_a_full_batch_is_not_joined),
      cmocka_unit_test(test_order_of_arrival),
      cmocka_unit_test(test_order_of_arrival_is_kept_at_a_switch),
      cmocka_unit_test(test_prompts_and_decodes_take_turns),
      cmocka_unit_test(test_outgrown_region_is_taken_from_others),
      cmocka_unit_test(test_refused_parameters),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
