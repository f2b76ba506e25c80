/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tiered cache: units that int8 saves, moving between the tiers ahead of need while
 * memory keeps what was computed, exact rollback, handing over.
 */
#include "t/plugin/transactions.h"

#define BLOCK 16

static const struct fake_options defaults = {
    .scheduler = {"fcfs", (const char *const[]){"watermark", "0", NULL}},
    .cache = {"tiered", NULL},
    .block_tokens = BLOCK,
    .device_units = 60,
    .host_units = 60,
    .max_tokens = 1024,
    .max_sequences = 16,
    .max_context = 256,
    .max_requests = 32,
    .audit = true,
};

static uint32_t host_free(struct fake *f)
{
  struct lls_capacity c = {.size = sizeof c};
  assert_int_equal(f->c->capacity(f->cache_self, LLS_TIER_HOST, &c), 0);
  return c.free_units;
}

/* What the engine does with a step's copies; the transfers have ended then. */
static void carry_out(struct fake *f)
{
  const struct lls_copy *copies;
  uint64_t ended = 0;
  size_t n = f->c->copies(f->cache_self, &copies);
  for (size_t i = 0; i < n; i++)
    fake_memory_copy(&f->memory, &copies[i]);
  for (size_t i = 0; i < n; i++)
    if (copies[i].transfer != 0 && copies[i].transfer != ended) {
      ended = copies[i].transfer;
      f->c->on_transfer(f->cache_self, ended);
    }
}

static void empty_step(struct fake *f)
{
  f->c->begin(f->cache_self);
  f->c->commit(f->cache_self);
  carry_out(f);
  assert_int_equal(fake_audit(f), 0);
}

static void compute(struct fake *f, struct fake_request *r, uint32_t tokens)
{
  struct lls_block_table table;
  uint32_t before = info_of(f, r).cached_tokens;
  f->c->begin(f->cache_self);
  assert_int_equal(f->c->reserve(f->cache_self, &r->view, tokens, LLS_FORM_NONE, 0),
                   LLS_RESERVE_OK);
  f->c->commit(f->cache_self);
  carry_out(f);
  assert_int_equal(f->c->table(f->cache_self, &r->view, &table), 0);
  fake_memory_write(&f->memory, &table, r->digests, before, before + tokens);
  f->c->computed(f->cache_self, &r->view, before + tokens);
  assert_int_equal(fake_audit(f), 0);
}

/* What attention would read of it in the next step is what was computed. */
static void check_memory(struct fake *f, const struct fake_request *r)
{
  struct lls_block_table table;
  empty_step(f);
  assert_int_equal(f->c->table(f->cache_self, &r->view, &table), 0);
  fake_memory_check(&f->memory, &table, r->digests, info_of(f, r).cached_tokens);
}

static struct fake_request *cached(struct fake *f, uint32_t tokens)
{
  struct fake_request *r = submit(f, 0, tokens + 30, 10);
  compute(f, r, tokens);
  return r;
}

static void open_with(struct fake *f, uint32_t int8)
{
  struct fake_options o = defaults;
  o.int8 = int8;
  assert_int_equal(fake_open(f, &o), 0);
}

/* 40 tokens: two full blocks and one of eight. */
static void test_int8_frees_units(void **state)
{
  (void)state;
  static const uint32_t device[] = {6, 6, 4}, host[] = {6, 4, 4};
  for (uint32_t int8 = LLS_INT8_OFF; int8 <= LLS_INT8_ALL; int8++) {
    struct fake f;
    open_with(&f, int8);
    uint32_t all = free_units(&f);
    assert_int_equal(all, int8 == LLS_INT8_ALL ? 59 : 60);
    struct fake_request *r = cached(&f, 40);
    assert_int_equal(all - free_units(&f), device[int8]);
    assert_int_equal(info_of(&f, r).device_units, device[int8]);
    f.c->begin(f.cache_self);
    assert_int_equal(f.c->preempt(f.cache_self, &r->view, LLS_PREEMPT_SWAP), 0);
    f.c->commit(f.cache_self);
    carry_out(&f);
    assert_int_equal(free_units(&f), all);
    assert_int_equal(60 - host_free(&f), host[int8]);
    assert_int_equal(info_of(&f, r).missing_tokens, 40);
    compute(&f, r, 1);
    check_memory(&f, r);
    assert_int_equal(host_free(&f), 60);
    fake_cancel(&f, r);
    assert_int_equal(free_units(&f), all);
    fake_close(&f);
  }
}

/* Others compute while it goes and comes; it has everything when it is back. */
static void test_moves_ahead(void **state)
{
  (void)state;
  for (uint32_t int8 = LLS_INT8_OFF; int8 <= LLS_INT8_ALL; int8++) {
    struct fake f;
    open_with(&f, int8);
    struct fake_request *r = cached(&f, 100), *other = cached(&f, 20);
    uint32_t used = free_units(&f);
    uint64_t transfer;
    f.c->begin(f.cache_self);
    assert_int_equal(f.c->offload(f.cache_self, &r->view, &transfer), 0);
    assert_int_equal(f.c->offload(f.cache_self, &r->view, &transfer), -EBUSY);
    assert_int_equal(f.c->reserve(f.cache_self, &r->view, 1, LLS_FORM_NONE, 0),
                     LLS_RESERVE_LATER);
    f.c->commit(f.cache_self);
    assert_int_equal(info_of(&f, r).residency, LLS_RESIDENT_MOVING);
    assert_int_equal(free_units(&f), used); /* copies read it yet */
    carry_out(&f);
    assert_int_equal(info_of(&f, r).residency, LLS_RESIDENT_HOST);
    assert_true(free_units(&f) > used);
    compute(&f, other, 20);
    f.c->begin(f.cache_self);
    assert_int_equal(f.c->upload(f.cache_self, &r->view, &transfer), 0);
    f.c->commit(f.cache_self);
    assert_int_equal(fake_audit(&f), 0);
    carry_out(&f);
    assert_int_equal(info_of(&f, r).residency, LLS_RESIDENT_DEVICE);
    assert_int_equal(host_free(&f), 60);
    check_memory(&f, r);
    check_memory(&f, other);
    compute(&f, r, 20);
    check_memory(&f, r);
    fake_cancel(&f, r);
    fake_cancel(&f, other);
    fake_close(&f);
  }
}

static int64_t slow_link(void *context, uint64_t bytes, uint32_t link)
{
  (void)context, (void)link;
  return (int64_t)bytes * 1000;
}

static void steps_of(void *context, uint32_t last, struct lls_step_statistics *out)
{
  const struct fake *f = context;
  (void)last;
  out->steps = 10;
  /* as long as five units take, of which transfers may use 0.8 */
  out->mean_ns = INT64_C(1000) * 5 * 32 * f->o.block_tokens;
}

/* No step waits for a transfer: what takes longer is spread over several. */
static void test_a_step_has_what_the_link_carries(void **state)
{
  (void)state;
  struct fake f;
  open_with(&f, LLS_INT8_OFF);
  f.cost.context = &f;
  f.cost.transfer_ns = slow_link;
  f.cost.statistics = steps_of;
  struct fake_request *r = cached(&f, 5 * BLOCK);
  const struct lls_copy *copies;
  uint64_t transfer;
  f.c->begin(f.cache_self);
  assert_int_equal(f.c->offload(f.cache_self, &r->view, &transfer), 0);
  f.c->commit(f.cache_self);
  static const uint32_t listed[] = {4, 4, 2};
  for (uint32_t i = 0; i < 3; i++) {
    assert_int_equal(f.c->copies(f.cache_self, &copies), listed[i]);
    assert_int_equal(info_of(&f, r).residency, LLS_RESIDENT_MOVING);
    carry_out(&f);
    if (i < 2) {
      assert_int_equal(fake_audit(&f), 0);
      f.c->begin(f.cache_self);
      f.c->commit(f.cache_self);
    }
  }
  assert_int_equal(info_of(&f, r).residency, LLS_RESIDENT_HOST);
  assert_int_equal(free_units(&f), 60);
  fake_cancel(&f, r);
  fake_close(&f);
}

/* Room that no token is in yet stays behind: it takes none on the host, and is free at
 * the end. */
static void test_spare_room_stays_behind(void **state)
{
  (void)state;
  struct fake f;
  open_with(&f, LLS_INT8_OFF);
  struct fake_request *r = cached(&f, 40);
  uint64_t transfer;
  f.c->begin(f.cache_self);
  assert_int_equal(f.c->reserve(f.cache_self, &r->view, 50, LLS_FORM_NONE, 0),
                   LLS_RESERVE_OK);
  f.c->commit(f.cache_self);
  assert_int_equal(info_of(&f, r).device_units, 12);
  f.c->begin(f.cache_self);
  assert_int_equal(f.c->offload(f.cache_self, &r->view, &transfer), 0);
  assert_int_equal(free_units(&f), 60 - 6);
  f.c->commit(f.cache_self);
  carry_out(&f);
  assert_int_equal(info_of(&f, r).residency, LLS_RESIDENT_HOST);
  assert_int_equal(free_units(&f), 60);
  assert_int_equal(host_free(&f), 60 - 6);
  compute(&f, r, 1);
  check_memory(&f, r);
  fake_cancel(&f, r);
  fake_close(&f);
}

/* It ends while it moves: both tiers have everything back. */
static void test_ends_on_its_way(void **state)
{
  (void)state;
  struct fake f;
  open_with(&f, LLS_INT8_ALL);
  f.cost.context = &f;
  f.cost.transfer_ns = slow_link;
  f.cost.statistics = steps_of;
  uint32_t all = free_units(&f);
  struct fake_request *r = cached(&f, 200);
  uint64_t transfer;
  f.c->begin(f.cache_self);
  assert_int_equal(f.c->offload(f.cache_self, &r->view, &transfer), 0);
  f.c->commit(f.cache_self);
  carry_out(&f);
  assert_int_equal(info_of(&f, r).residency, LLS_RESIDENT_MOVING);
  fake_cancel(&f, r);
  assert_int_equal(fake_audit(&f), 0);
  assert_int_equal(free_units(&f), all);
  assert_int_equal(host_free(&f), 60);
  empty_step(&f);
  fake_close(&f);
}

static void test_full_and_never(void **state)
{
  (void)state;
  struct fake f;
  struct fake_options o = defaults;
  o.device_units = 12, o.host_units = 4;
  assert_int_equal(fake_open(&f, &o), 0);
  struct fake_request *r = cached(&f, 50); /* eight units */
  struct fake_request *other = submit(&f, 0, 120, 10);
  uint64_t transfer;
  f.c->begin(f.cache_self);
  assert_int_equal(f.c->offload(f.cache_self, &r->view, &transfer), -ENOSPC);
  assert_int_equal(f.c->preempt(f.cache_self, &r->view, LLS_PREEMPT_SWAP), -ENOSPC);
  assert_int_equal(f.c->upload(f.cache_self, &r->view, &transfer), -EINVAL);
  assert_int_equal(f.c->reserve(f.cache_self, &other->view, 100, LLS_FORM_NONE, 0),
                   LLS_RESERVE_NEVER);
  assert_int_equal(f.c->reserve(f.cache_self, &other->view, 90, LLS_FORM_NONE, 0),
                   LLS_RESERVE_LATER);
  assert_int_equal(f.c->reserve(f.cache_self, &other->view, 9, LLS_FORM_HIDDEN, 0),
                   -ENOTSUP);
  f.c->commit(f.cache_self);
  fake_cancel(&f, r);
  fake_cancel(&f, other);
  fake_close(&f);
}

static void test_rollback_is_exact(void **state)
{
  (void)state;
  for (uint32_t int8 = LLS_INT8_OFF; int8 <= LLS_INT8_ALL; int8++) {
    struct fake_options o = defaults;
    o.int8 = int8;
    check_rollback(&o);
  }
}

/* A new generation goes on where the old one was: on the device, on the host, between. */
static void test_handed_over(void **state)
{
  (void)state;
  struct fake f;
  open_with(&f, LLS_INT8_ALL);
  struct fake_request *here = cached(&f, 70), *there = cached(&f, 50);
  struct fake_request *between = cached(&f, 90);
  uint64_t transfer;
  f.c->begin(f.cache_self);
  assert_int_equal(f.c->preempt(f.cache_self, &there->view, LLS_PREEMPT_SWAP), 0);
  assert_int_equal(f.c->offload(f.cache_self, &between->view, &transfer), 0);
  f.c->commit(f.cache_self);
  carry_out(&f);
  f.c->begin(f.cache_self);
  assert_int_equal(f.c->upload(f.cache_self, &between->view, &transfer), 0);
  f.c->commit(f.cache_self);
  assert_int_equal(fake_audit(&f), 0);
  char *before = strdup(f.text);

  struct lls_blob blob = {0};
  void *old = f.cache_self;
  struct lls_cache_geometry g = {
      .size = sizeof g,
      .block_tokens = BLOCK,
      .unit_bytes = 32 * BLOCK,
      .device_units = 60,
      .host_units = 60,
      .int8 = LLS_INT8_ALL,
  };
  assert_int_equal(f.c->export_state(old, &blob), 0);
  assert_int_equal(f.c->create(&f.host, f.cache.params, &g, &f.cache_self), 0);
  struct lls_blob bad = {
      .version = blob.version, .bytes = blob.bytes - 1, .data = blob.data};
  assert_true(f.c->import_state(f.cache_self, &bad) < 0);
  assert_int_equal(free_units(&f), 59);
  assert_int_equal(f.c->import_state(f.cache_self, &blob), 0);
  assert_int_equal(fake_audit(&f), 0);
  assert_string_equal(f.text, before);
  free(before);
  free(blob.data);
  const struct lls_copy *copies; /* of the step under way: the old one's */
  size_t n = f.c->copies(old, &copies);
  for (size_t i = 0; i < n; i++)
    fake_memory_copy(&f.memory, &copies[i]);
  f.c->destroy(old);
  for (int i = 0; i < 2; i++)
    empty_step(&f);
  check_memory(&f, here);
  check_memory(&f, between);
  compute(&f, there, 5);
  check_memory(&f, there);
  fake_cancel(&f, here);
  fake_cancel(&f, there);
  fake_cancel(&f, between);
  assert_int_equal(free_units(&f), 59);
  fake_close(&f);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_int8_frees_units),
      cmocka_unit_test(test_moves_ahead),
      cmocka_unit_test(test_a_step_has_what_the_link_carries),
      cmocka_unit_test(test_spare_room_stays_behind),
      cmocka_unit_test(test_ends_on_its_way),
      cmocka_unit_test(test_full_and_never),
      cmocka_unit_test(test_rollback_is_exact),
      cmocka_unit_test(test_handed_over),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
