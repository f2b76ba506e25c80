/* SPDX-License-Identifier: Apache-2.0 */
/* The paged cache: sharing, copy-on-write, the host tier, exact rollback. */
#include "t/plugin/transactions.h"

static const struct fake_options defaults = {
    .scheduler = {"fcfs", (const char *const[]){"watermark", "0", NULL}},
    .cache = {"paged", NULL},
    .block_tokens = 16,
    .device_units = 40,
    .host_units = 20,
    .max_tokens = 1024,
    .max_sequences = 16,
    .max_context = 256,
    .max_requests = 32,
    .audit = true,
};

static void open_fake(struct fake *f)
{
  assert_int_equal(fake_open(f, &defaults), 0);
}

/* ---- sharing -------------------------------------------------------------------- */

static void test_equal_prefixes_share_blocks(void **state)
{
  (void)state;
  struct fake f;
  open_fake(&f);
  struct fake_request *a = submit(&f, 48, 56, 10); /* four blocks, three of them common */
  fake_step(&f);
  struct fake_request *b = submit(&f, 48, 60, 10);
  fake_step(&f);
  assert_int_equal(b->view.first_scheduled_ns, b->view.arrival_ns + 1000000);
  assert_int_equal(f.shared_tokens, 48);
  assert_int_equal(free_units(&f), 40 - 2 * 5); /* 4 + 4 - 3 */
  assert_int_equal(info_of(&f, a).shared_tokens, 48);
  assert_int_equal(info_of(&f, b).device_units, 8);
  assert_int_equal(info_of(&f, b).owned_units, 2);
  fake_finish(&f, 50);
  assert_int_equal(free_units(&f), 40);
  fake_close(&f);
}

static void test_finished_requests_leave_their_blocks(void **state)
{
  (void)state;
  struct fake f;
  open_fake(&f);
  submit(&f, 33, 33, 2);
  fake_finish(&f, 10);
  submit(&f, 33, 33, 2);
  fake_finish(&f, 10);
  assert_int_equal(f.shared_tokens, 32);
  fake_close(&f);
}

static void test_nothing_is_shared_if_off(void **state)
{
  (void)state;
  struct fake f;
  struct fake_options o = defaults;
  o.cache.parameters = (const char *const[]){"prefix_sharing", "off", NULL};
  assert_int_equal(fake_open(&f, &o), 0);
  submit(&f, 48, 56, 10);
  fake_step(&f);
  submit(&f, 48, 60, 10);
  fake_finish(&f, 50);
  assert_int_equal(f.shared_tokens, 0);
  fake_close(&f);
}

/* One token is computed again for its logits; its slot is in a block of another. */
static void test_a_whole_cached_prompt_is_copied_on_write(void **state)
{
  (void)state;
  struct fake f;
  open_fake(&f);
  struct fake_request *a = submit(&f, 32, 32, 10);
  fake_step(&f);
  struct fake_request *b = submit(&f, 32, 32, 10);
  fake_step(&f);
  assert_int_equal(f.shared_tokens, 31);
  assert_int_equal(f.copies[LLS_COPY_DEVICE_TO_DEVICE], 2); /* K and V */
  /* computed() has found the copy equal to the original */
  assert_int_equal(free_units(&f), 40 - 2 * 2);
  assert_int_equal(info_of(&f, a).shared_tokens, 32);
  assert_int_equal(info_of(&f, b).shared_tokens, 32);
  fake_finish(&f, 50);
  fake_close(&f);
}

static void test_no_room_for_the_copy(void **state)
{
  (void)state;
  struct fake f;
  struct fake_options o = defaults;
  o.device_units = 4;
  assert_int_equal(fake_open(&f, &o), 0);
  submit(&f, 32, 32, 1);
  fake_finish(&f, 10);
  submit(&f, 32, 32, 1);
  fake_finish(&f, 10);
  assert_int_equal(f.finished[LLS_FINISH_LENGTH], 2);
  assert_int_equal(f.shared_tokens, 16);
  fake_close(&f);
}

static void test_equal_prompts_at_once_end_on_one_copy(void **state)
{
  (void)state;
  struct fake f;
  open_fake(&f);
  submit(&f, 40, 40, 5);
  submit(&f, 40, 40, 5);
  submit(&f, 40, 40, 5);
  assert_int_equal(fake_step(&f), 3);
  assert_int_equal(f.shared_tokens, 0);
  assert_int_equal(free_units(&f), 40 - 2 * (2 + 3));
  fake_finish(&f, 50);
  fake_close(&f);
}

static void test_the_preempted_find_their_blocks_again(void **state)
{
  (void)state;
  struct fake f;
  struct fake_options o = defaults;
  o.device_units = 16; /* eight blocks */
  assert_int_equal(fake_open(&f, &o), 0);
  submit(&f, 0, 60, 20); /* four, and a fifth later */
  submit(&f, 0, 60, 20); /* four */
  fake_finish(&f, 200);
  assert_true(f.preempted_recompute > 0);
  assert_true(f.shared_tokens >= 32);
  fake_close(&f);
}

/* ---- who has what ---------------------------------------------------------------- */

/* Without KEEP_PREFIX nothing of a request is left that no other needs. */
static void test_release_keeps_what_it_is_told(void **state)
{
  (void)state;
  for (int keep = 0; keep < 2; keep++) {
    struct fake f;
    open_fake(&f);
    const struct fake_request *a = submit(&f, 32, 60, 10); /* 32 of 60 are common */
    const struct fake_request *b = submit(&f, 32, 40, 10);
    fake_step(&f);
    assert_int_equal(fake_figure(&f, "blocks_free"), 20 - 5);
    f.c->release(f.cache_self, &a->view, keep ? LLS_KEEP_PREFIX : 0);
    assert_int_equal(fake_figure(&f, "blocks_free"), keep ? 20 - 4 : 20 - 3);
    assert_int_equal(free_units(&f), 40 - 2 * 3); /* what is kept counts as free */
    assert_int_equal(fake_audit(&f), 0);
    f.c->release(f.cache_self, &b->view, 0);
    assert_int_equal(fake_figure(&f, "blocks_free"), keep ? 20 - 3 : 20);
    assert_int_equal(fake_audit(&f), 0);
    f.c->admit(f.cache_self, &a->view); /* for their ends */
    f.c->admit(f.cache_self, &b->view);
    fake_cancel(&f, f.by_slot[0]);
    fake_cancel(&f, f.by_slot[1]);
    fake_close(&f);
  }
}

/* ---- the vtable's edges --------------------------------------------------------- */

static void test_reserve_says_never_and_later(void **state)
{
  (void)state;
  struct fake f;
  open_fake(&f);
  const struct lls_request *a = &submit(&f, 0, 100, 1)->view;
  const struct lls_request *b = &submit(&f, 0, 255, 1)->view;
  assert_int_equal(f.c->reserve(f.cache_self, a, 1, 0, 0), -EINVAL); /* no transaction */
  assert_int_equal(f.c->begin(f.cache_self), 0);
  assert_int_equal(f.c->begin(f.cache_self), -EBUSY);
  assert_int_equal(f.c->reserve(f.cache_self, a, 1, LLS_FORM_HIDDEN, 0), -ENOTSUP);
  assert_int_equal(f.c->reserve(f.cache_self, a, 257, 0, 0), LLS_RESERVE_NEVER);
  assert_int_equal(f.c->reserve(f.cache_self, a, UINT32_MAX, 0, 0), LLS_RESERVE_NEVER);
  assert_int_equal(f.c->reserve(f.cache_self, a, 100, 0, 0), LLS_RESERVE_OK);
  assert_int_equal(f.c->reserve(f.cache_self, b, 255, 0, 0), LLS_RESERVE_LATER);
  assert_int_equal(f.c->reserve(f.cache_self, b, 208, 0, 0), LLS_RESERVE_OK);
  struct lls_capacity c = {.size = sizeof c};
  f.c->capacity(f.cache_self, LLS_TIER_DEVICE, &c);
  assert_int_equal(c.total_units, 40);
  assert_int_equal(c.reserved_units, 40);
  assert_int_equal(c.free_units, 0);
  struct lls_need need = {.size = sizeof need};
  assert_int_equal(f.c->need(f.cache_self, b, 209, 0, &need), 0);
  assert_int_equal(need.new_units, 2);
  assert_int_equal(f.c->preempt(f.cache_self, a, LLS_PREEMPT_NONE), -EINVAL);
  assert_int_equal(f.c->rollback(f.cache_self, 0), 0);
  assert_int_equal(free_units(&f), 40);
  assert_int_equal(f.c->commit(f.cache_self), 0);
  assert_int_equal(f.c->commit(f.cache_self), -EINVAL);
  assert_int_equal(f.c->rollback(f.cache_self, 0), -EINVAL);
  fake_finish(&f, 10);
  fake_close(&f);
}

static void test_pool_of_one_unit_is_refused(void **state)
{
  (void)state;
  struct fake f;
  struct fake_options o = defaults;
  o.device_units = 1;
  assert_int_equal(fake_open(&f, &o), -EINVAL);
  assert_non_null(strstr(f.failure, "a pool of 1 units"));
  f.cache_self = NULL;
  fake_close(&f);
}

static void test_swap_moves_and_brings_back(void **state)
{
  (void)state;
  struct fake f;
  open_fake(&f);
  struct fake_request *a = submit(&f, 0, 40, 10);
  fake_step(&f);
  struct lls_block_table before, after;
  f.c->table(f.cache_self, &a->view, &before);
  f.c->begin(f.cache_self);
  assert_int_equal(f.c->preempt(f.cache_self, &a->view, LLS_PREEMPT_SWAP), 0);
  f.c->commit(f.cache_self);
  const struct lls_copy *copies;
  assert_int_equal(f.c->copies(f.cache_self, &copies), 6); /* three blocks, K and V */
  for (int i = 0; i < 6; i++)
    fake_memory_copy(&f.memory, &copies[i]);
  assert_int_equal(info_of(&f, a).residency, LLS_RESIDENT_HOST);
  assert_int_equal(info_of(&f, a).missing_tokens, 40);
  assert_int_equal(info_of(&f, a).host_units, 6);
  assert_int_equal(free_units(&f), 40);
  assert_int_equal(f.c->table(f.cache_self, &a->view, &after), -EINVAL);
  struct lls_need need = {.size = sizeof need};
  f.c->need(f.cache_self, &a->view, 1, 0, &need);
  assert_int_equal(need.restore_units, 6);
  assert_int_equal(need.new_units, 0);
  a->view.state = LLS_PREEMPTED;
  fake_step(&f); /* reads what came back */
  assert_int_equal(f.copies[LLS_COPY_HOST_TO_DEVICE], 6);
  f.c->table(f.cache_self, &a->view, &after);
  assert_int_equal(after.k_count, 3);
  fake_finish(&f, 20);
  fake_close(&f);
}

static void test_swap_needs_room_on_the_host(void **state)
{
  (void)state;
  struct fake f;
  struct fake_options o = defaults;
  o.host_units = 4;
  assert_int_equal(fake_open(&f, &o), 0);
  struct fake_request *a = submit(&f, 0, 40, 10);
  fake_step(&f);
  f.c->begin(f.cache_self);
  assert_int_equal(f.c->preempt(f.cache_self, &a->view, LLS_PREEMPT_SWAP), -ENOSPC);
  f.c->commit(f.cache_self);
  fake_finish(&f, 20);
  fake_close(&f);

  o.host_units = 0;
  assert_int_equal(fake_open(&f, &o), 0);
  assert_int_equal(f.c->preempt_modes(f.cache_self) & 1u << LLS_PREEMPT_SWAP, 0);
  a = submit(&f, 0, 40, 10);
  f.c->begin(f.cache_self);
  assert_int_equal(f.c->preempt(f.cache_self, &a->view, LLS_PREEMPT_SWAP), -ENOTSUP);
  f.c->commit(f.cache_self);
  fake_finish(&f, 20);
  fake_close(&f);
}

static void test_rollback_is_exact(void **state)
{
  (void)state;
  struct fake_options o = defaults;
  o.device_units = 60;
  check_rollback(&o);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_equal_prefixes_share_blocks),
      cmocka_unit_test(test_finished_requests_leave_their_blocks),
      cmocka_unit_test(test_nothing_is_shared_if_off),
      cmocka_unit_test(test_a_whole_cached_prompt_is_copied_on_write),
      cmocka_unit_test(test_no_room_for_the_copy),
      cmocka_unit_test(test_equal_prompts_at_once_end_on_one_copy),
      cmocka_unit_test(test_the_preempted_find_their_blocks_again),
      cmocka_unit_test(test_release_keeps_what_it_is_told),
      cmocka_unit_test(test_reserve_says_never_and_later),
      cmocka_unit_test(test_pool_of_one_unit_is_refused),
      cmocka_unit_test(test_swap_moves_and_brings_back),
      cmocka_unit_test(test_swap_needs_room_on_the_host),
      cmocka_unit_test(test_rollback_is_exact),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
