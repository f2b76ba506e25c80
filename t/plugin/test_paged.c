/* SPDX-License-Identifier: Apache-2.0 */
/* The paged cache: sharing, the host tier, exact rollback. */
#include "t/plugin/transactions.h"

#include "core/instance/lifecycle.h"

static const struct bed_options defaults = {
    .scheduler = {"fcfs", (const char *const[]){"watermark", "0", NULL}},
    .cache = {"paged", NULL},
    .block_tokens = 16,
    .device_units = 40,
    .host_units = 20,
    .max_tokens = 1024,
    .max_sequences = 16,
    .max_context = 256,
    .max_requests = 32,
    .audit_every = 1,
};

static void open_bed(struct bed *bed)
{
  assert_int_equal(bed_open(bed, &defaults), 0);
}

/* ---- sharing -------------------------------------------------------------------- */

static void test_equal_prefixes_share_blocks(void **state)
{
  (void)state;
  struct bed bed;
  open_bed(&bed);
  struct lls_live *a = submit(&bed, 48, 56, 10); /* four blocks, three of them common */
  bed_step(&bed);
  struct lls_live *b = submit(&bed, 48, 60, 10);
  bed_step(&bed);
  assert_int_equal(b->view.first_scheduled_ns, b->view.arrival_ns + 1000000);
  assert_int_equal(bed.shared_tokens, 48);
  assert_int_equal(free_units(&bed), 40 - 2 * 5); /* 4 + 4 - 3 */
  assert_int_equal(info_of(&bed, a).shared_tokens, 48);
  assert_int_equal(info_of(&bed, b).device_units, 8);
  assert_int_equal(info_of(&bed, b).owned_units, 2);
  bed_finish(&bed, 50);
  assert_int_equal(free_units(&bed), 40);
  bed_close(&bed);
}

static void test_finished_requests_leave_their_blocks(void **state)
{
  (void)state;
  struct bed bed;
  open_bed(&bed);
  submit(&bed, 33, 33, 2);
  bed_finish(&bed, 10);
  submit(&bed, 33, 33, 2);
  bed_finish(&bed, 10);
  assert_int_equal(bed.shared_tokens, 32);
  bed_close(&bed);
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

/* A token must be computed for its logits: the last block is computed again, and then
 * found equal to the known one. */
static void test_the_last_block_of_a_known_prompt_is_computed(void **state)
{
  (void)state;
  struct bed bed;
  open_bed(&bed);
  struct lls_live *a = submit(&bed, 32, 32, 10);
  bed_step(&bed);
  struct lls_live *b = submit(&bed, 32, 32, 10);
  bed_step(&bed);
  assert_int_equal(bed.shared_tokens, 16);
  assert_int_equal(free_units(&bed), 40 - 2 * 2);
  assert_int_equal(info_of(&bed, a).shared_tokens, 32);
  assert_int_equal(info_of(&bed, b).shared_tokens, 32);
  bed_finish(&bed, 50);
  bed_close(&bed);
}

static void test_a_known_prompt_as_large_as_the_pool(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.device_units = 4;
  assert_int_equal(bed_open(&bed, &o), 0);
  submit(&bed, 32, 32, 1);
  bed_finish(&bed, 10);
  submit(&bed, 32, 32, 1);
  bed_finish(&bed, 10);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 2);
  assert_int_equal(bed.shared_tokens, 16);
  bed_close(&bed);
}

static void test_equal_prompts_at_once_end_on_one_copy(void **state)
{
  (void)state;
  struct bed bed;
  open_bed(&bed);
  submit(&bed, 40, 40, 5);
  submit(&bed, 40, 40, 5);
  submit(&bed, 40, 40, 5);
  assert_int_equal(bed_step(&bed), 3);
  assert_int_equal(bed.shared_tokens, 0);
  assert_int_equal(free_units(&bed), 40 - 2 * (2 + 3));
  bed_finish(&bed, 50);
  bed_close(&bed);
}

/* Returns how many tokens two requests compute if eight blocks are too few for both. */
static uint64_t computed_of_two(const char *prefix_sharing)
{
  struct bed bed;
  struct bed_options o = defaults;
  o.device_units = 16;
  o.cache.parameters = POLICY_PARAMETERS("prefix_sharing", prefix_sharing);
  assert_int_equal(bed_open(&bed, &o), 0);
  submit(&bed, 0, 60, 20); /* four, and a fifth later */
  submit(&bed, 0, 60, 20); /* four */
  bed_finish(&bed, 200);
  assert_true(bed.preempted_recompute > 0);
  uint64_t tokens = bed.in->status.batch_tokens_sum;
  bed_close(&bed);
  return tokens;
}

static void test_the_preempted_find_their_blocks_again(void **state)
{
  (void)state;
  assert_true(computed_of_two("on") + 32 <= computed_of_two("off"));
}

/* ---- who has what ---------------------------------------------------------------- */

/* Without KEEP_PREFIX a released request leaves only blocks that others use. */
static void test_release_keeps_what_it_is_told(void **state)
{
  (void)state;
  for (int keep = 0; keep < 2; keep++) {
    struct bed bed;
    open_bed(&bed);
    const struct lls_live *a = submit(&bed, 32, 60, 10); /* 32 of 60 are common */
    const struct lls_live *b = submit(&bed, 32, 40, 10);
    bed_step(&bed);
    assert_int_equal(bed_figure(&bed, "blocks_free"), 20 - 5);
    leave(&bed, a, (keep ? LLS_KEEP_PREFIX : 0) != 0);
    assert_int_equal(bed_figure(&bed, "blocks_free"), keep ? 20 - 4 : 20 - 3);
    assert_int_equal(free_units(&bed), 40 - 2 * 3); /* kept blocks count as free */
    assert_int_equal(bed_audit(&bed), 0);
    leave(&bed, b, false);
    assert_int_equal(bed_figure(&bed, "blocks_free"), keep ? 20 - 3 : 20);
    assert_int_equal(bed_audit(&bed), 0);
    bed.c->admit(bed.cache_self, &a->view); /* for their ends */
    bed.c->admit(bed.cache_self, &b->view);
    bed_cancel(&bed, bed.by_slot[0]);
    bed_cancel(&bed, bed.by_slot[1]);
    bed_close(&bed);
  }
}

/* The disk has the end of a prompt whose beginning is in the cache: what is read takes
 * the place of other blocks first. */
static void test_what_waits_for_the_disk_leaves_last(void **state)
{
  (void)state;
  for (int waits = 0; waits < 2; waits++) {
    struct bed bed;
    open_bed(&bed);
    submit(&bed, 48, 48, 1);
    bed_finish(&bed, 10);
    submit(&bed, 0, 48, 1);
    bed_finish(&bed,
               10); /* 14 of 20 blocks are free, and three of each prompt are kept */
    struct lls_live *a = submit(&bed, 48, 80, 1);
    const struct lls_live *b = submit(&bed, 0, 240, 1);
    leave(&bed, a, true);
    a->view.disk_tokens = waits ? 64 : 0;
    assert_int_equal(bed.c->admit(bed.cache_self, &a->view), 0);
    assert_int_equal(bed.c->begin(bed.cache_self), 0);
    assert_int_equal(bed.c->reserve(bed.cache_self, &b->view, 240, 0, 0), LLS_RESERVE_OK);
    assert_int_equal(take_prefix(&bed, a, false), waits ? 48 : 32);
    assert_int_equal(bed.c->rollback(bed.cache_self, 0), 0);
    assert_int_equal(bed.c->commit(bed.cache_self), 0);
    bed_finish(&bed, 20);
    bed_close(&bed);
  }
}

/* ---- the vtable's edges --------------------------------------------------------- */

static void test_reserve_says_never_and_later(void **state)
{
  (void)state;
  struct bed bed;
  open_bed(&bed);
  const struct lls_request *a = &submit(&bed, 0, 100, 1)->view;
  const struct lls_request *b = &submit(&bed, 0, 255, 1)->view;
  assert_int_equal(bed.c->reserve(bed.cache_self, a, 1, 0, 0),
                   -EINVAL); /* no transaction */
  assert_int_equal(bed.c->begin(bed.cache_self), 0);
  assert_int_equal(bed.c->begin(bed.cache_self), -EBUSY);
  assert_int_equal(bed.c->reserve(bed.cache_self, a, 1, LLS_FORM_HIDDEN, 0), -ENOTSUP);
  assert_int_equal(bed.c->reserve(bed.cache_self, a, 257, 0, 0), LLS_RESERVE_NEVER);
  assert_int_equal(bed.c->reserve(bed.cache_self, a, UINT32_MAX, 0, 0),
                   LLS_RESERVE_NEVER);
  assert_int_equal(bed.c->reserve(bed.cache_self, a, 100, 0, 0), LLS_RESERVE_OK);
  assert_int_equal(bed.c->reserve(bed.cache_self, b, 255, 0, 0), LLS_RESERVE_LATER);
  assert_int_equal(bed.c->reserve(bed.cache_self, b, 208, 0, 0), LLS_RESERVE_OK);
  struct lls_capacity c = {.size = sizeof c};
  bed.c->capacity(bed.cache_self, LLS_TIER_DEVICE, &c);
  assert_int_equal(c.total_units, 40);
  assert_int_equal(c.reserved_units, 40);
  assert_int_equal(c.free_units, 0);
  struct lls_need need = {.size = sizeof need};
  assert_int_equal(bed.c->need(bed.cache_self, b, 209, 0, &need), 0);
  assert_int_equal(need.new_units, 2);
  assert_int_equal(bed.c->preempt(bed.cache_self, a, LLS_PREEMPT_NONE), -EINVAL);
  assert_int_equal(bed.c->rollback(bed.cache_self, 0), 0);
  assert_int_equal(free_units(&bed), 40);
  assert_int_equal(bed.c->commit(bed.cache_self), 0);
  assert_int_equal(bed.c->commit(bed.cache_self), -EINVAL);
  assert_int_equal(bed.c->rollback(bed.cache_self, 0), -EINVAL);
  bed_forgive(&bed); /* these calls should fail */
  bed_finish(&bed, 10);
  bed_close(&bed);
}

static void test_pool_of_one_unit_is_refused(void **state)
{
  (void)state;
  struct bed bed;
  void *self;
  open_bed(&bed);
  struct lls_cache_geometry g = bed.geometry;
  g.device_units = 1;
  assert_int_equal(bed_create_cache(&bed, &g, &self), -EINVAL);
  assert_non_null(strstr(bed.policies.cache.watch.failure, "a pool of 1 units"));
  bed_close(&bed);
}

static void test_swap_moves_and_brings_back(void **state)
{
  (void)state;
  struct bed bed;
  open_bed(&bed);
  struct lls_live *a = submit(&bed, 0, 40, 10);
  bed_step(&bed);
  struct lls_block_table before, after;
  bed.c->table(bed.cache_self, &a->view, &before);
  bed.c->begin(bed.cache_self);
  assert_int_equal(bed.c->preempt(bed.cache_self, &a->view, LLS_PREEMPT_SWAP), 0);
  bed.c->commit(bed.cache_self);
  const struct lls_copy *copies;
  assert_int_equal(bed.c->copies(bed.cache_self, &copies), 3);
  assert_int_equal(info_of(&bed, a).residency, LLS_RESIDENT_HOST);
  assert_int_equal(info_of(&bed, a).missing_tokens, 40);
  assert_int_equal(info_of(&bed, a).host_units, 6);
  assert_int_equal(free_units(&bed), 40);
  assert_int_equal(bed.c->table(bed.cache_self, &a->view, &after), -EINVAL);
  bed_forgive(&bed); /* complaints about the test's own calls */
  struct lls_need need = {.size = sizeof need};
  bed.c->need(bed.cache_self, &a->view, 1, 0, &need);
  assert_int_equal(need.restore_units, 6);
  assert_int_equal(need.new_units, 0);
  lls_lifecycle_set_state(bed.in, a, LLS_PREEMPTED);
  lls_lifecycle_refresh(bed.in, a);
  bed_step(&bed); /* reads the blocks that were swapped in */
  assert_int_equal(bed.copies[LLS_COPY_HOST_TO_DEVICE], 3);
  bed.c->table(bed.cache_self, &a->view, &after);
  assert_int_equal(after.lists->n_entries, 3);
  bed_finish(&bed, 20);
  bed_close(&bed);
}

static void test_swap_needs_room_on_the_host(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.host_units = 4;
  assert_int_equal(bed_open(&bed, &o), 0);
  struct lls_live *a = submit(&bed, 0, 40, 10);
  bed_step(&bed);
  bed.c->begin(bed.cache_self);
  assert_int_equal(bed.c->preempt(bed.cache_self, &a->view, LLS_PREEMPT_SWAP), -ENOSPC);
  bed.c->commit(bed.cache_self);
  bed_finish(&bed, 20);
  bed_close(&bed);

  o.host_units = 0;
  assert_int_equal(bed_open(&bed, &o), 0);
  assert_int_equal(bed.c->preempt_modes(bed.cache_self) & 1u << LLS_PREEMPT_SWAP, 0);
  a = submit(&bed, 0, 40, 10);
  bed.c->begin(bed.cache_self);
  assert_int_equal(bed.c->preempt(bed.cache_self, &a->view, LLS_PREEMPT_SWAP), -ENOTSUP);
  bed.c->commit(bed.cache_self);
  bed_finish(&bed, 20);
  bed_close(&bed);
}

static void test_rollback_is_exact(void **state)
{
  (void)state;
  struct bed_options o = defaults;
  o.device_units = 60;
  check_rollback(&o);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_equal_prefixes_share_blocks),
      cmocka_unit_test(test_finished_requests_leave_their_blocks),
      cmocka_unit_test(test_nothing_is_shared_if_off),
      cmocka_unit_test(test_the_last_block_of_a_known_prompt_is_computed),
      cmocka_unit_test(test_a_known_prompt_as_large_as_the_pool),
      cmocka_unit_test(test_equal_prompts_at_once_end_on_one_copy),
      cmocka_unit_test(test_the_preempted_find_their_blocks_again),
      cmocka_unit_test(test_release_keeps_what_it_is_told),
      cmocka_unit_test(test_what_waits_for_the_disk_leaves_last),
      cmocka_unit_test(test_reserve_says_never_and_later),
      cmocka_unit_test(test_pool_of_one_unit_is_refused),
      cmocka_unit_test(test_swap_moves_and_brings_back),
      cmocka_unit_test(test_swap_needs_room_on_the_host),
      cmocka_unit_test(test_rollback_is_exact),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
