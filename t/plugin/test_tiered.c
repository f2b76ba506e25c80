/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tiered cache: units saved by int8, moving between the tiers ahead of need while
 * the memory keeps its contents, exact rollback, handing over.
 */
#include "t/plugin/transactions.h"

#include "core/cost/cost.h"

#define BLOCK 16

static const struct bed_options defaults = {
    .scheduler = {"fcfs", (const char *const[]){"watermark", "0", NULL}},
    .cache = {"tiered", NULL},
    .block_tokens = BLOCK,
    .device_units = 60,
    .host_units = 60,
    .max_tokens = 1024,
    .max_sequences = 16,
    .max_context = 256,
    .max_requests = 32,
    .audit_every = 1,
};

static void step(struct bed *bed, struct lls_live *r, uint32_t tokens)
{
  bed->c->begin(bed->cache_self);
  assert_int_equal(bed->c->reserve(bed->cache_self, &r->view, tokens, LLS_FORM_NONE, 0),
                   LLS_RESERVE_OK);
  bed->c->commit(bed->cache_self);
  carry_out(bed);
  compute(bed, r, tokens);
  assert_int_equal(bed_audit(bed), 0);
}

static struct lls_live *cached(struct bed *bed, uint32_t tokens)
{
  struct lls_live *r = submit(bed, 0, tokens + 30, 10);
  step(bed, r, tokens);
  return r;
}

static void open_with(struct bed *bed, uint32_t int8)
{
  struct bed_options o = defaults;
  o.int8 = int8;
  if (int8 == LLS_INT8_SWAPPED)
    o.host_units = 600;     /* many slabs: their ends are not lost */
  if (int8 == LLS_INT8_ALL) /* many slabs, each of several blocks */
    o.device_units = o.host_units = 200;
  assert_int_equal(bed_open(bed, &o), 0);
}

/* 40 tokens: two full blocks and one of eight. */
static void test_int8_frees_units(void **state)
{
  (void)state;
  for (uint32_t int8 = LLS_INT8_OFF; int8 <= LLS_INT8_ALL; int8++) {
    struct bed bed;
    open_with(&bed, int8);
    uint32_t all = free_units(&bed), on_host = host_free(&bed);
    uint32_t wide = units_of(&bed, LLS_FORM_KV), narrow = units_of(&bed, LLS_FORM_INT8);
    struct lls_live *r = cached(&bed, 40);
    uint32_t device = int8 == LLS_INT8_ALL ? 2 * narrow + wide : 3 * wide;
    assert_true(all - free_units(&bed) >= device);
    assert_int_equal(info_of(&bed, r).device_units, device);
    bed.c->begin(bed.cache_self);
    assert_int_equal(bed.c->preempt(bed.cache_self, &r->view, LLS_PREEMPT_SWAP), 0);
    bed.c->commit(bed.cache_self);
    carry_out(&bed);
    assert_int_equal(free_units(&bed), all);
    uint32_t there = int8 == LLS_INT8_OFF ? 3 * wide : 2 * narrow + wide;
    assert_int_equal(info_of(&bed, r).host_units, there);
    assert_true(on_host - host_free(&bed) >= there);
    assert_int_equal(info_of(&bed, r).missing_tokens, 40);
    step(&bed, r, 1);
    check_memory(&bed, r);
    assert_int_equal(host_free(&bed), on_host);
    bed_cancel(&bed, r);
    assert_int_equal(free_units(&bed), all);
    bed_close(&bed);
  }
}

/* Other requests compute while a sequence moves to the host and back. Afterwards the
 * device holds all its tokens again. */
static void test_moves_ahead(void **state)
{
  (void)state;
  for (uint32_t int8 = LLS_INT8_OFF; int8 <= LLS_INT8_ALL; int8++) {
    struct bed bed;
    open_with(&bed, int8);
    struct lls_live *r = cached(&bed, 100), *other = cached(&bed, 20);
    uint32_t used = free_units(&bed), on_host = host_free(&bed);
    uint64_t transfer;
    bed.c->begin(bed.cache_self);
    assert_int_equal(bed.c->offload(bed.cache_self, &r->view, &transfer), 0);
    assert_int_equal(bed.c->offload(bed.cache_self, &r->view, &transfer), -EBUSY);
    assert_int_equal(bed.c->reserve(bed.cache_self, &r->view, 1, LLS_FORM_NONE, 0),
                     LLS_RESERVE_LATER);
    bed.c->commit(bed.cache_self);
    assert_int_equal(info_of(&bed, r).residency, LLS_RESIDENT_MOVING);
    assert_int_equal(free_units(&bed), used); /* copies still read it */
    carry_out(&bed);
    assert_int_equal(info_of(&bed, r).residency, LLS_RESIDENT_HOST);
    assert_true(free_units(&bed) > used);
    step(&bed, other, 20);
    bed.c->begin(bed.cache_self);
    assert_int_equal(bed.c->upload(bed.cache_self, &r->view, &transfer), 0);
    bed.c->commit(bed.cache_self);
    assert_int_equal(bed_audit(&bed), 0);
    carry_out(&bed);
    assert_int_equal(info_of(&bed, r).residency, LLS_RESIDENT_DEVICE);
    assert_int_equal(host_free(&bed), on_host);
    check_memory(&bed, r);
    check_memory(&bed, other);
    step(&bed, r, 20);
    check_memory(&bed, r);
    bed_cancel(&bed, r);
    bed_cancel(&bed, other);
    bed_close(&bed);
  }
}

static int64_t slow_link(void *context, uint64_t bytes, uint32_t link)
{
  (void)context, (void)link;
  return (int64_t)bytes * 1000;
}

static void steps_of(void *context, uint32_t last, struct lls_step_statistics *out)
{
  const struct bed *bed = context;
  (void)last;
  out->steps = 10;
  /* the time that five units take, of which transfers may use 0.8 */
  out->mean_ns = INT64_C(1000) * 5 * (int64_t)bed->geometry.unit_bytes;
}

/* No step waits for a transfer: a longer one is spread over several steps. */
static void test_a_step_has_what_the_link_carries(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.cache.parameters = (const char *const[]){"to_host", "off", NULL};
  assert_int_equal(bed_open(&bed, &o), 0);
  bed.cost.context = &bed;
  bed.cost.transfer_ns = slow_link;
  bed.cost.statistics = steps_of;
  struct lls_live *r = cached(&bed, 5 * BLOCK);
  const struct lls_copy *copies;
  uint64_t transfer;
  bed.c->begin(bed.cache_self);
  assert_int_equal(bed.c->offload(bed.cache_self, &r->view, &transfer), 0);
  bed.c->commit(bed.cache_self);
  static const uint32_t listed[] = {2, 2, 1};
  for (uint32_t i = 0; i < 3; i++) {
    assert_int_equal(bed.c->copies(bed.cache_self, &copies), listed[i]);
    assert_int_equal(info_of(&bed, r).residency, LLS_RESIDENT_MOVING);
    carry_out(&bed);
    if (i < 2) {
      assert_int_equal(bed_audit(&bed), 0);
      bed.c->begin(bed.cache_self);
      bed.c->commit(bed.cache_self);
    }
  }
  assert_int_equal(info_of(&bed, r).residency, LLS_RESIDENT_HOST);
  assert_int_equal(free_units(&bed), 60);
  bed_cancel(&bed, r);
  bed_close(&bed);
}

/* Takes memory of kept blocks in a step in which another request moves, with a deadline
 * of the request that takes it; blocks that are copied before the step, and that move. */
static void leave_for(int64_t tbt_ns, uint32_t *before, uint32_t *moved)
{
  struct bed bed;
  struct bed_options o = defaults;
  o.device_units = 40; /* 20 blocks */
  assert_int_equal(bed_open(&bed, &o), 0);
  bed.cost.context = &bed;
  bed.cost.transfer_ns = slow_link;
  bed.cost.statistics = steps_of;
  struct lls_live *r = cached(&bed, 5 * BLOCK), *ended = cached(&bed, 10 * BLOCK);
  struct lls_live *large = submit(&bed, 0, 14 * BLOCK, 10);
  const struct lls_copy *copies;
  uint64_t transfer;
  leave(&bed, ended, true);
  leave(&bed, large, false);
  large->view.slo.tbt_ns = tbt_ns;
  assert_int_equal(bed.c->admit(bed.cache_self, &large->view), 0);
  bed.c->begin(bed.cache_self);
  assert_int_equal(bed.c->offload(bed.cache_self, &r->view, &transfer), 0);
  assert_int_equal(
      bed.c->reserve(bed.cache_self, &large->view, 14 * BLOCK, LLS_FORM_NONE, 0),
      LLS_RESERVE_OK);
  bed.c->commit(bed.cache_self);
  size_t n = bed.c->copies(bed.cache_self, &copies);
  *before = *moved = 0;
  for (size_t i = 0; i < n; i++) {
    *before += copies[i].order == LLS_COPY_BEFORE_STEP;
    *moved += copies[i].order == LLS_COPY_ASYNC && copies[i].transfer == transfer;
  }
  carry_out(&bed);
  compute(&bed, large, 14 * BLOCK);
  assert_int_equal(bed_audit(&bed), 0);
  bed.c->admit(bed.cache_self, &ended->view); /* for its end */
  bed_cancel(&bed, ended);
  bed_cancel(&bed, large);
  bed_cancel(&bed, r);
  bed_close(&bed);
}

/* Blocks that leave are copied first, and take all that the link carries in a step: a
 * transfer goes on, by a block in each step. No step is planned with time for them: with
 * a deadline between tokens they are lost. */
static void test_a_transfer_goes_on_while_blocks_leave(void **state)
{
  (void)state;
  uint32_t before, moved;
  leave_for(LLS_NEVER, &before, &moved);
  assert_int_equal(before, 2);
  assert_int_equal(moved, 1);
  leave_for(INT64_C(50000000), &before, &moved);
  assert_int_equal(before, 0);
  assert_int_equal(moved, 2);
}

/* Reserved space without tokens is not moved: it takes none on the host, and is free at
 * the end. */
static void test_spare_room_stays_behind(void **state)
{
  (void)state;
  struct bed bed;
  open_with(&bed, LLS_INT8_OFF);
  struct lls_live *r = cached(&bed, 40);
  uint64_t transfer;
  bed.c->begin(bed.cache_self);
  assert_int_equal(bed.c->reserve(bed.cache_self, &r->view, 50, LLS_FORM_NONE, 0),
                   LLS_RESERVE_OK);
  bed.c->commit(bed.cache_self);
  assert_int_equal(info_of(&bed, r).device_units, 12);
  bed.c->begin(bed.cache_self);
  assert_int_equal(bed.c->offload(bed.cache_self, &r->view, &transfer), 0);
  assert_int_equal(free_units(&bed), 60 - 6);
  bed.c->commit(bed.cache_self);
  carry_out(&bed);
  assert_int_equal(info_of(&bed, r).residency, LLS_RESIDENT_HOST);
  assert_int_equal(free_units(&bed), 60);
  assert_int_equal(host_free(&bed), 60 - 6);
  step(&bed, r, 1);
  check_memory(&bed, r);
  bed_cancel(&bed, r);
  bed_close(&bed);
}

/* The request ends while it moves: both tiers get all memory back. */
static void test_ends_on_its_way(void **state)
{
  (void)state;
  struct bed bed;
  open_with(&bed, LLS_INT8_ALL);
  bed.cost.context = &bed;
  bed.cost.transfer_ns = slow_link;
  bed.cost.statistics = steps_of;
  uint32_t all = free_units(&bed), on_host = host_free(&bed);
  struct lls_live *r = cached(&bed, 200);
  uint64_t transfer;
  bed.c->begin(bed.cache_self);
  assert_int_equal(bed.c->offload(bed.cache_self, &r->view, &transfer), 0);
  bed.c->commit(bed.cache_self);
  carry_out(&bed);
  assert_int_equal(info_of(&bed, r).residency, LLS_RESIDENT_MOVING);
  bed_cancel(&bed, r);
  assert_int_equal(bed_audit(&bed), 0);
  assert_int_equal(free_units(&bed), all);
  assert_int_equal(host_free(&bed), on_host);
  empty_step(&bed);
  bed_close(&bed);
}

static void test_full_and_never(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.device_units = 12, o.host_units = 4;
  assert_int_equal(bed_open(&bed, &o), 0);
  struct lls_live *r = cached(&bed, 50); /* eight units */
  struct lls_live *other = submit(&bed, 0, 120, 10);
  uint64_t transfer;
  bed.c->begin(bed.cache_self);
  assert_int_equal(bed.c->offload(bed.cache_self, &r->view, &transfer), -ENOSPC);
  assert_int_equal(bed.c->preempt(bed.cache_self, &r->view, LLS_PREEMPT_SWAP), -ENOSPC);
  assert_int_equal(bed.c->upload(bed.cache_self, &r->view, &transfer), -EINVAL);
  assert_int_equal(bed.c->reserve(bed.cache_self, &other->view, 100, LLS_FORM_NONE, 0),
                   LLS_RESERVE_NEVER);
  assert_int_equal(bed.c->reserve(bed.cache_self, &other->view, 90, LLS_FORM_NONE, 0),
                   LLS_RESERVE_LATER);
  assert_int_equal(bed.c->reserve(bed.cache_self, &other->view, 9, LLS_FORM_HIDDEN, 0),
                   -ENOTSUP);
  bed.c->commit(bed.cache_self);
  bed_cancel(&bed, r);
  bed_cancel(&bed, other);
  bed_close(&bed);
}

static void test_rollback_is_exact(void **state)
{
  (void)state;
  for (uint32_t int8 = LLS_INT8_OFF; int8 <= LLS_INT8_ALL; int8++) {
    struct bed_options o = defaults;
    o.int8 = int8;
    if (int8 == LLS_INT8_ALL)
      o.device_units = o.host_units = 200;
    check_rollback(&o);
  }
}

/* A new generation continues in place: with sequences on the device, on the host, and
 * moving. */
static void test_handed_over(void **state)
{
  (void)state;
  struct bed bed;
  open_with(&bed, LLS_INT8_ALL);
  uint32_t all = free_units(&bed);
  struct lls_live *here = cached(&bed, 70), *there = cached(&bed, 50);
  struct lls_live *between = cached(&bed, 90);
  uint64_t transfer;
  bed.c->begin(bed.cache_self);
  assert_int_equal(bed.c->preempt(bed.cache_self, &there->view, LLS_PREEMPT_SWAP), 0);
  assert_int_equal(bed.c->offload(bed.cache_self, &between->view, &transfer), 0);
  bed.c->commit(bed.cache_self);
  carry_out(&bed);
  bed.c->begin(bed.cache_self);
  assert_int_equal(bed.c->upload(bed.cache_self, &between->view, &transfer), 0);
  bed.c->commit(bed.cache_self);
  assert_int_equal(bed_audit(&bed), 0);
  char *before = strdup(bed.text);

  struct lls_blob blob = {0};
  void *self, *old = bed.cache_self;
  assert_int_equal(bed.c->export_state(old, &blob), 0);
  assert_int_equal(bed_create_cache(&bed, &bed.geometry, &self), 0);
  bed_use_cache(&bed, self);
  struct lls_blob bad = {
      .version = blob.version, .bytes = blob.bytes - 1, .data = blob.data};
  assert_true(bed.c->import_state(bed.cache_self, &bad) < 0);
  assert_int_equal(free_units(&bed), all);
  assert_int_equal(bed.c->import_state(bed.cache_self, &blob), 0);
  assert_int_equal(bed_audit(&bed), 0);
  assert_string_equal(bed.text, before);
  free(before);
  free(blob.data);
  const struct lls_copy *copies; /* of the step under way, from the old manager */
  bed.c->copies(old, &copies);
  bed.c->destroy(old);
  for (int i = 0; i < 2; i++)
    empty_step(&bed);
  check_memory(&bed, here);
  check_memory(&bed, between);
  step(&bed, there, 5);
  check_memory(&bed, there);
  bed_cancel(&bed, here);
  bed_cancel(&bed, there);
  bed_cancel(&bed, between);
  assert_int_equal(free_units(&bed), all);
  bed_close(&bed);
}

/* The cost model learns also from steps that quantise blocks, as all steps with prompts
 * do. */
static void test_steps_that_quantise_are_measured(void **state)
{
  (void)state;
  struct bed bed;
  open_with(&bed, LLS_INT8_ALL);
  for (int i = 0; i < 12; i++) {
    submit(&bed, 0, 40, 3);
    bed_step(&bed);
  }
  const struct lls_cost *cost = lls_cost_model_service(bed.in->cost);
  struct lls_step_statistics steps = {.size = sizeof steps};
  cost->statistics(cost->context, 512, &steps);
  assert_true(bed.copies[LLS_COPY_DEVICE_TO_DEVICE] > 0);
  assert_int_equal(steps.steps, 12);
  bed_finish(&bed, 50);
  bed_close(&bed);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_int8_frees_units),
      cmocka_unit_test(test_moves_ahead),
      cmocka_unit_test(test_a_step_has_what_the_link_carries),
      cmocka_unit_test(test_a_transfer_goes_on_while_blocks_leave),
      cmocka_unit_test(test_spare_room_stays_behind),
      cmocka_unit_test(test_ends_on_its_way),
      cmocka_unit_test(test_full_and_never),
      cmocka_unit_test(test_rollback_is_exact),
      cmocka_unit_test(test_handed_over),
      cmocka_unit_test(test_steps_that_quantise_are_measured),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
