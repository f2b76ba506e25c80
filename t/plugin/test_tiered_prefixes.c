/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prefixes in the tiered cache, in the cache's own element and in int8: which requests
 * share which blocks, what remains of requests that end or move away, and which block
 * is evicted first. The watch knows the contents of every slot, so blocks of wrong
 * prompts are detected.
 */
#include "t/plugin/transactions.h"

#define BLOCK 16

static const struct bed_options defaults = {
    .scheduler = {"fcfs", (const char *const[]){"watermark", "0", NULL}},
    .cache = {"tiered", NULL},
    .block_tokens = BLOCK,
    .device_units = 41,
    .host_units = 60,
    .max_tokens = 1024,
    .max_sequences = 16,
    .max_context = 256,
    .max_requests = 32,
    .audit_every = 1,
};

static void open_with(struct bed *bed, uint32_t int8)
{
  struct bed_options o = defaults;
  o.int8 = int8;
  if (int8 == LLS_INT8_ALL) /* many slabs, each of several blocks */
    o.device_units = o.host_units = 200;
  assert_int_equal(bed_open(bed, &o), 0);
}

/* Units of n full blocks on the device. */
static uint32_t full(const struct bed *bed, uint32_t int8, uint32_t n)
{
  return n * units_of(bed, int8 == LLS_INT8_ALL ? LLS_FORM_INT8 : LLS_FORM_KV);
}

/* Units of all blocks on the device that have a holder. */
static uint32_t held(struct bed *bed)
{
  return (uint32_t)(bed_figure(bed, "units") - bed_figure(bed, "units_free") -
                    bed_figure(bed, "units_reusable"));
}

/* Runs one request alone in a step, up to `tokens` tokens: takes the known prefix and
 * computes the rest. Returns the tokens taken. */
static uint32_t step(struct bed *bed, struct lls_live *r, uint32_t tokens)
{
  bed->c->begin(bed->cache_self);
  uint32_t known = info_of(bed, r).cached_tokens;
  if (info_of(bed, r).residency == LLS_RESIDENT_NONE)
    known = take_prefix(bed, r, true);
  assert_int_equal(
      bed->c->reserve(bed->cache_self, &r->view, tokens - known, LLS_FORM_NONE, 0),
      LLS_RESERVE_OK);
  bed->c->commit(bed->cache_self);
  carry_out(bed);
  compute(bed, r, tokens - known);
  assert_int_equal(bed_audit(bed), 0);
  return known;
}

static void test_equal_prefixes_share_blocks(void **state)
{
  (void)state;
  for (uint32_t int8 = LLS_INT8_OFF; int8 <= LLS_INT8_ALL; int8++) {
    struct bed bed;
    open_with(&bed, int8);
    uint32_t all = free_units(&bed);
    struct lls_live *a = submit(&bed, 48, 56, 10), *b = submit(&bed, 48, 60, 10);
    assert_int_equal(step(&bed, a, 56), 0);
    assert_int_equal(take_prefix(&bed, b, false), 48);
    assert_int_equal(step(&bed, b, 60), 48);
    assert_int_equal(held(&bed), full(&bed, int8, 3) + 2 * units_of(&bed, LLS_FORM_KV));
    assert_int_equal(info_of(&bed, a).shared_tokens, 48);
    assert_int_equal(info_of(&bed, b).device_units,
                     full(&bed, int8, 3) + units_of(&bed, LLS_FORM_KV));
    assert_int_equal(info_of(&bed, b).owned_units, units_of(&bed, LLS_FORM_KV));
    check_memory(&bed, a);
    check_memory(&bed, b);
    bed_cancel(&bed, a);
    check_memory(&bed, b);
    bed_cancel(&bed, b);
    assert_int_equal(free_units(&bed), all);
    bed_close(&bed);
  }
}

/* Blocks in the index are never written: the last block of a completely known prompt is
 * computed again, then replaced by the known one. */
static void test_a_prompt_that_is_known_as_a_whole(void **state)
{
  (void)state;
  for (uint32_t int8 = LLS_INT8_OFF; int8 <= LLS_INT8_ALL; int8++) {
    struct bed bed;
    open_with(&bed, int8);
    struct lls_live *a = submit(&bed, 32, 32, 10), *b = submit(&bed, 32, 32, 10);
    step(&bed, a, 32);
    assert_int_equal(step(&bed, b, 32), 16);
    assert_int_equal(info_of(&bed, b).shared_tokens, 32);
    assert_int_equal(held(&bed), full(&bed, int8, 2));
    check_memory(&bed, b);
    bed_cancel(&bed, a);
    bed_cancel(&bed, b);
    bed_close(&bed);
  }
}

static void test_equal_prompts_at_once_end_on_one_copy(void **state)
{
  (void)state;
  for (uint32_t int8 = LLS_INT8_OFF; int8 <= LLS_INT8_ALL; int8++) {
    struct bed bed;
    open_with(&bed, int8);
    uint32_t all = free_units(&bed);
    for (int i = 0; i < 3; i++)
      submit(&bed, 40, 40, 5);
    assert_int_equal(bed_step(&bed), 3);
    assert_int_equal(bed.shared_tokens, 0);
    assert_int_equal(held(&bed), full(&bed, int8, 2) + 3 * units_of(&bed, LLS_FORM_KV));
    bed_finish(&bed, 50);
    assert_int_equal(free_units(&bed), all);
    bed_close(&bed);
  }
}

/* Free units are used first, then kept blocks, the last block of a prompt before its
 * earlier ones; of int8 blocks those that are in one slab go together. */
static void test_what_is_kept_goes_when_memory_is_needed(void **state)
{
  (void)state;
  for (uint32_t int8 = LLS_INT8_OFF; int8 <= LLS_INT8_ALL; int8++) {
    struct bed bed;
    struct bed_options o = defaults;
    o.int8 = int8;
    o.device_units = 18;
    o.cache.parameters = (const char *const[]){"to_host", "off", NULL};
    assert_int_equal(bed_open(&bed, &o), 0);
    uint32_t all = free_units(&bed), known = 48;
    struct lls_live *a = submit(&bed, 48, 50, 10);
    step(&bed, a, 50);
    bed_cancel(&bed, a);
    assert_int_equal(free_units(&bed), all);
    assert_int_equal(bed_figure(&bed, "units_reusable"), full(&bed, int8, 3));
    struct lls_live *large = submit(&bed, 0, 250, 5), *b = submit(&bed, 48, 60, 10);
    for (uint32_t n = 0; n < 15 && free_units(&bed) >= 2; n++) {
      bool unused = n + 1 + known / BLOCK <= all / units_of(&bed, LLS_FORM_KV);
      step(&bed, large, (n + 1) * BLOCK);
      uint32_t left = take_prefix(&bed, b, false);
      assert_int_equal(left % BLOCK, 0);
      assert_true(left <= known && (left == known || !unused));
      known = left;
    }
    /* the spare slab may have kept blocks: nobody needs it */
    assert_true(known <= (int8 == LLS_INT8_ALL ? 2 * BLOCK : 0));
    check_memory(&bed, large);
    bed_cancel(&bed, b);
    bed_cancel(&bed, large);
    assert_int_equal(free_units(&bed), all);
    bed_close(&bed);
  }
}

/* While a sequence is on the host, or moves there, others find the blocks that it left;
 * when it returns it uses theirs. */
static void test_those_that_move_leave_their_blocks(void **state)
{
  (void)state;
  for (uint32_t int8 = LLS_INT8_OFF; int8 <= LLS_INT8_ALL; int8++)
    for (int ahead = 0; ahead < 2; ahead++) {
      struct bed bed;
      open_with(&bed, int8);
      uint32_t all = free_units(&bed), on_host = host_free(&bed);
      uint64_t transfer;
      struct lls_live *a = submit(&bed, 48, 56, 30), *b = submit(&bed, 48, 60, 30);
      step(&bed, a, 50);
      bed.c->begin(bed.cache_self);
      if (ahead)
        assert_int_equal(bed.c->offload(bed.cache_self, &a->view, &transfer), 0);
      else
        assert_int_equal(bed.c->preempt(bed.cache_self, &a->view, LLS_PREEMPT_SWAP), 0);
      bed.c->commit(bed.cache_self);
      assert_int_equal(bed_audit(&bed), 0);
      carry_out(&bed);
      assert_int_equal(info_of(&bed, a).residency, LLS_RESIDENT_HOST);
      assert_int_equal(free_units(&bed), all);
      assert_int_equal(step(&bed, b, 60), 48);
      step(&bed, a, 54); /* copied before the step */
      assert_int_equal(info_of(&bed, a).shared_tokens, 48);
      assert_int_equal(held(&bed), full(&bed, int8, 3) + 2 * units_of(&bed, LLS_FORM_KV));
      assert_int_equal(host_free(&bed), on_host);
      check_memory(&bed, a);
      check_memory(&bed, b);
      bed_cancel(&bed, b);
      bed_cancel(&bed, a);
      assert_int_equal(free_units(&bed), all);
      bed_close(&bed);
    }
}

/* Without KEEP_PREFIX a released request leaves only blocks that others use. */
static void test_release_keeps_what_it_is_told(void **state)
{
  (void)state;
  for (uint32_t int8 = LLS_INT8_OFF; int8 <= LLS_INT8_ALL; int8++)
    for (int keep = 0; keep < 2; keep++) {
      struct bed bed;
      open_with(&bed, int8);
      struct lls_live *a = submit(&bed, 32, 60, 10), *b = submit(&bed, 32, 40, 10);
      step(&bed, a, 60);
      step(&bed, b, 40);
      leave(&bed, a, keep);
      assert_int_equal(bed_figure(&bed, "units_reusable"),
                       keep ? full(&bed, int8, 1) : 0);
      assert_int_equal(bed_audit(&bed), 0);
      leave(&bed, b, false);
      assert_int_equal(bed_figure(&bed, "units_reusable"),
                       keep ? full(&bed, int8, 3) : 0);
      assert_int_equal(bed_audit(&bed), 0);
      bed.c->admit(bed.cache_self, &a->view); /* for their ends */
      bed.c->admit(bed.cache_self, &b->view);
      bed_cancel(&bed, a);
      bed_cancel(&bed, b);
      bed_close(&bed);
    }
}

static void test_nothing_is_shared_if_off(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.cache.parameters = (const char *const[]){"prefix_sharing", "off", NULL};
  assert_int_equal(bed_open(&bed, &o), 0);
  submit(&bed, 48, 56, 10);
  bed_step(&bed);
  submit(&bed, 48, 60, 10);
  bed_finish(&bed, 50);
  assert_int_equal(bed.shared_tokens, 0);
  bed_close(&bed);
}

/* Another generation has the same index. */
static void test_handed_over(void **state)
{
  (void)state;
  for (uint32_t int8 = LLS_INT8_OFF; int8 <= LLS_INT8_ALL; int8++) {
    struct bed bed;
    open_with(&bed, int8);
    struct lls_live *a = submit(&bed, 48, 56, 10), *b = submit(&bed, 32, 60, 10);
    step(&bed, a, 56);
    step(&bed, b, 60);
    bed_cancel(&bed, a);
    assert_int_equal(bed_audit(&bed), 0);
    char *before = strdup(bed.text);
    struct lls_blob blob = {0};
    void *self, *old = bed.cache_self;
    assert_int_equal(bed.c->export_state(old, &blob), 0);
    assert_int_equal(bed_create_cache(&bed, &bed.geometry, &self), 0);
    bed_use_cache(&bed, self);
    assert_int_equal(bed.c->import_state(bed.cache_self, &blob), 0);
    assert_int_equal(bed_audit(&bed), 0);
    assert_string_equal(bed.text, before);
    free(before);
    free(blob.data);
    bed.c->destroy(old);
    struct lls_live *c = submit(&bed, 48, 60, 10);
    assert_int_equal(step(&bed, c, 60), 48);
    check_memory(&bed, b);
    check_memory(&bed, c);
    bed_cancel(&bed, b);
    bed_cancel(&bed, c);
    bed_close(&bed);
  }
}

/* Every layer has a window of 40 tokens: blocks before it are released, and found
 * again. */
static void test_with_a_window(void **state)
{
  (void)state;
  for (uint32_t int8 = LLS_INT8_OFF; int8 <= LLS_INT8_ALL; int8++) {
    struct bed bed;
    struct bed_options o = defaults;
    o.int8 = int8;
    o.window = 40;
    assert_int_equal(bed_open(&bed, &o), 0);
    uint32_t all = free_units(&bed);
    submit(&bed, 128, 130, 20);
    bed_finish(&bed, 50);
    assert_int_equal(free_units(&bed), all);
    submit(&bed, 128, 140, 20);
    bed_step(&bed);
    assert_int_equal(bed.shared_tokens, 128);
    submit(&bed, 96, 140, 20);
    bed_finish(&bed, 50);
    assert_int_equal(bed.shared_tokens, 128 + 96);
    assert_int_equal(free_units(&bed), all);
    bed_close(&bed);
  }
}

/* No further request is needed for it: what a later one takes at once is on the host. */
static void test_an_idle_server_copies_to_the_host(void **state)
{
  (void)state;
  for (uint32_t int8 = LLS_INT8_OFF; int8 <= LLS_INT8_ALL; int8++) {
    struct bed bed;
    struct bed_options o = defaults;
    o.int8 = int8;
    o.host_units = o.device_units = int8 == LLS_INT8_ALL ? 200 : 64;
    assert_int_equal(bed_open(&bed, &o), 0);
    uint32_t all = host_free(&bed), steps = 0;
    submit(&bed, 96, 100, 1);
    bed_step(&bed);
    assert_int_equal(bed_alive(&bed), 0);
    while (lls_instance_has_work(bed.in) && steps++ < 50)
      bed_step(&bed);
    assert_in_range(steps, 1, 20);
    assert_true(lls_instance_idle_ns(bed.in) == LLS_NEVER);
    bed_stats(&bed);
    assert_int_equal(bed_figure(&bed, "blocks_to_host"), 6);
    assert_int_equal(host_free(&bed), all); /* kept blocks are free ones */
    bed_close(&bed);
  }
}

/* A step takes the memory of a request that has just ended, before any step could copy
 * it: with to_host the copy is made before that step. */
static void test_what_a_step_takes_at_once_is_on_the_host(void **state)
{
  (void)state;
  for (uint32_t int8 = LLS_INT8_OFF; int8 <= LLS_INT8_SWAPPED; int8++)
    for (int on = 0; on < 2; on++) {
      struct bed bed;
      struct bed_options o = defaults;
      o.int8 = int8;
      o.device_units = 18;
      o.cache.parameters = (const char *const[]){"to_host", on ? "on" : "off", NULL};
      assert_int_equal(bed_open(&bed, &o), 0);
      uint32_t tokens = free_units(&bed) / units_of(&bed, LLS_FORM_KV) * BLOCK;
      struct lls_live *a = submit(&bed, 48, 50, 10);
      step(&bed, a, 50);
      leave(&bed, a, true);
      struct lls_live *large = submit(&bed, 0, tokens, 5);
      step(&bed, large, tokens);
      check_memory(&bed, large);
      bed_cancel(&bed, large);
      struct lls_live *b = submit(&bed, 48, 60, 10);
      assert_int_equal(step(&bed, b, 60), on ? 48 : 0);
      check_memory(&bed, b);
      bed.c->admit(bed.cache_self, &a->view); /* for its end */
      bed_cancel(&bed, a);
      bed_cancel(&bed, b);
      bed_close(&bed);
    }
}

/* A prompt that a waiting request needs leaves the device after one that ended later. */
static void test_what_a_waiting_request_has_leaves_last(void **state)
{
  (void)state;
  for (int waits = 0; waits < 2; waits++) {
    struct bed bed;
    struct bed_options o = defaults;
    o.device_units = 18;
    o.cache.parameters = (const char *const[]){"to_host", "off", NULL};
    assert_int_equal(bed_open(&bed, &o), 0);
    uint32_t tokens = free_units(&bed) / units_of(&bed, LLS_FORM_KV) * BLOCK;
    struct lls_live *a = submit(&bed, 48, 48, 10), *b = submit(&bed, 0, 48, 10);
    step(&bed, a, 48);
    leave(&bed, a, true);
    step(&bed, b, 48);
    leave(&bed, b, true);
    struct lls_live *c = waits ? submit(&bed, 48, 60, 10) : NULL;
    struct lls_live *large = submit(&bed, 0, tokens - 48, 5);
    step(&bed, large, tokens - 48);
    if (!waits)
      c = submit(&bed, 48, 60, 10);
    assert_int_equal(take_prefix(&bed, c, false), waits ? 48 : 0);
    bed.c->admit(bed.cache_self, &a->view); /* for their ends */
    bed.c->admit(bed.cache_self, &b->view);
    bed_cancel(&bed, a);
    bed_cancel(&bed, b);
    bed_cancel(&bed, c);
    bed_cancel(&bed, large);
    bed_close(&bed);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_equal_prefixes_share_blocks),
      cmocka_unit_test(test_a_prompt_that_is_known_as_a_whole),
      cmocka_unit_test(test_equal_prompts_at_once_end_on_one_copy),
      cmocka_unit_test(test_what_is_kept_goes_when_memory_is_needed),
      cmocka_unit_test(test_those_that_move_leave_their_blocks),
      cmocka_unit_test(test_release_keeps_what_it_is_told),
      cmocka_unit_test(test_nothing_is_shared_if_off),
      cmocka_unit_test(test_what_a_step_takes_at_once_is_on_the_host),
      cmocka_unit_test(test_what_a_waiting_request_has_leaves_last),
      cmocka_unit_test(test_handed_over),
      cmocka_unit_test(test_with_a_window),
      cmocka_unit_test(test_an_idle_server_copies_to_the_host),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
