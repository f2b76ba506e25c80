/* SPDX-License-Identifier: Apache-2.0 */
/* The paged cache: sharing, copy-on-write, the host tier, exact rollback. */
#include "t/tap.h"

#include "t/plugin/fake.h"

#include <string.h>

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

/* A prompt whose first `common` tokens are the same for all. */
static struct fake_request *submit(struct fake *f, uint32_t common, uint32_t length,
                                   uint32_t output)
{
  int32_t tokens[256];
  for (uint32_t i = 0; i < length; i++)
    tokens[i] = i < common ? (int32_t)(i % 7) : (int32_t)fake_between(f, 10, 1 << 30);
  return fake_submit(f, tokens, length, output);
}

static uint32_t free_units(struct fake *f)
{
  struct lls_capacity c = {.size = sizeof c};
  assert_int_equal(f->c->capacity(f->cache_self, LLS_TIER_DEVICE, &c), 0);
  return c.free_units;
}

static struct lls_cache_info info_of(struct fake *f, const struct fake_request *r)
{
  struct lls_cache_info info = {.size = sizeof info};
  assert_int_equal(f->c->info(f->cache_self, &r->view, &info), 0);
  return info;
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
    assert_int_equal(f.c->headroom(f.cache_self), 40 - 2 * 5);
    f.c->release(f.cache_self, &a->view, keep ? LLS_KEEP_PREFIX : 0);
    assert_int_equal(f.c->headroom(f.cache_self), keep ? 40 - 2 * 4 : 40 - 2 * 3);
    assert_int_equal(free_units(&f), 40 - 2 * 3); /* what is kept counts as free */
    assert_int_equal(fake_audit(&f), 0);
    f.c->release(f.cache_self, &b->view, 0);
    assert_int_equal(f.c->headroom(f.cache_self), keep ? 40 - 2 * 3 : 40);
    assert_int_equal(fake_audit(&f), 0);
    f.c->admit(f.cache_self, &a->view); /* for their ends */
    f.c->admit(f.cache_self, &b->view);
    fake_cancel(&f, f.by_slot[0]);
    fake_cancel(&f, f.by_slot[1]);
    fake_close(&f);
  }
}

static void test_victims_and_peers(void **state)
{
  (void)state;
  struct fake f;
  open_fake(&f);
  submit(&f, 0, 40, 10);  /* three blocks of its own */
  submit(&f, 32, 70, 10); /* five, two of them common */
  fake_step(&f);
  submit(&f, 32, 60, 10); /* four, two of them common */
  submit(&f, 0, 90, 10);  /* six */
  fake_step(&f);
  uint64_t who[4];
  assert_int_equal(f.c->victims(f.cache_self, who, 4), 4);
  assert_int_equal(who[0], 3);
  assert_int_equal(who[1], 1); /* three, the newer one */
  assert_int_equal(who[2], 0);
  assert_int_equal(who[3], 2);
  assert_int_equal(f.c->victims(f.cache_self, who, 1), 1);
  assert_int_equal(who[0], 3);

  struct lls_block_table table;
  assert_int_equal(f.c->table(f.cache_self, &f.by_slot[1]->view, &table), 0);
  assert_int_equal(f.c->peers(f.cache_self, table.k[0].block, who, 4), 2);
  assert_int_equal(who[0], 1);
  assert_int_equal(who[1], 2);
  assert_int_equal(f.c->peers(f.cache_self, table.v[4].block, who, 4), 1);
  assert_int_equal(who[0], 1);
  fake_finish(&f, 50);
  fake_close(&f);
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

/* ---- rollback ------------------------------------------------------------------- */

static struct fake_request *any(struct fake *f)
{
  uint32_t start = fake_between(f, 0, f->o.max_requests - 1);
  for (uint32_t i = 0; i < f->o.max_requests; i++) {
    struct fake_request *r = f->by_slot[(start + i) % f->o.max_requests];
    if (r != NULL)
      return r;
  }
  return NULL;
}

static void random_change(struct fake *f, struct fake_request *r)
{
  struct lls_cache_info info = info_of(f, r);
  uint32_t left = lls_request_length(&r->view) - info.cached_tokens;
  switch (fake_between(f, 0, 4)) {
  case 0:
    f->c->prefix(f->cache_self, &r->view, true);
    break;
  case 1:
    f->c->preempt(f->cache_self, &r->view, LLS_PREEMPT_RECOMPUTE);
    break;
  case 2:
    f->c->preempt(f->cache_self, &r->view, LLS_PREEMPT_SWAP);
    break;
  default:
    if (left > 0 && f->c->reserve(f->cache_self, &r->view, fake_between(f, 1, left),
                                  LLS_FORM_NONE, 0) == LLS_RESERVE_OK)
      r->placed = PLACED_RESERVED;
  }
}

/* Some changes, some of them taken back to a mark: the state at the mark again. */
static void random_transaction(struct fake *f)
{
  struct {
    uint32_t mark;
    char *text;
  } marks[12];
  uint32_t n = 0;
  assert_int_equal(f->c->begin(f->cache_self), 0);
  for (uint32_t i = 0; i < 12; i++) {
    assert_int_equal(fake_audit(f), 0);
    marks[n].mark = n == 0 ? 0 : f->c->mark(f->cache_self);
    marks[n++].text = strdup(f->text);
    for (uint32_t j = fake_between(f, 0, 3); j > 0; j--)
      random_change(f, any(f));
    if (fake_between(f, 0, 2) > 0)
      continue;
    uint32_t to = fake_between(f, 0, n - 1);
    assert_int_equal(f->c->rollback(f->cache_self, marks[to].mark), 0);
    assert_int_equal(fake_audit(f), 0);
    assert_string_equal(f->text, marks[to].text);
    while (n > to)
      free(marks[--n].text);
  }
  while (n > 0)
    free(marks[--n].text);
  assert_int_equal(f->c->commit(f->cache_self), 0);
}

/* The step is over: what has room has been computed, some requests end. */
static void compute_and_release(struct fake *f)
{
  for (uint32_t i = 0; i < f->o.max_requests; i++) {
    struct fake_request *r = f->by_slot[i];
    if (r == NULL)
      continue;
    struct lls_cache_info info = info_of(f, r);
    uint32_t left = lls_request_length(&r->view) - info.cached_tokens;
    uint32_t room = info.free_slots < left ? info.free_slots : left;
    if (info.residency == LLS_RESIDENT_DEVICE && r->placed == PLACED_RESERVED && room > 0)
      f->c->computed(f->cache_self, &r->view,
                     info.cached_tokens + fake_between(f, 1, room));
    r->placed = PLACED_NOT;
    if (fake_between(f, 0, 9) == 0)
      fake_cancel(f, r);
  }
  assert_int_equal(fake_audit(f), 0);
}

static void test_rollback_is_exact(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= 20; seed++) {
    struct fake f;
    struct fake_options o = defaults;
    o.seed = seed;
    o.device_units = 60;
    assert_int_equal(fake_open(&f, &o), 0);
    for (uint32_t step = 0; step < 60; step++) {
      for (uint32_t n = fake_between(&f, 0, 3); n > 0 || any(&f) == NULL; n -= n > 0)
        submit(&f, 16 * fake_between(&f, 0, 4), fake_between(&f, 64, 100), 1);
      random_transaction(&f);
      compute_and_release(&f);
    }
    for (struct fake_request *r; (r = any(&f)) != NULL;)
      fake_cancel(&f, r);
    assert_int_equal(free_units(&f), 60);
    fake_close(&f);
  }
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
      cmocka_unit_test(test_victims_and_peers),
      cmocka_unit_test(test_reserve_says_never_and_later),
      cmocka_unit_test(test_pool_of_one_unit_is_refused),
      cmocka_unit_test(test_swap_moves_and_brings_back),
      cmocka_unit_test(test_swap_needs_room_on_the_host),
      cmocka_unit_test(test_rollback_is_exact),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
