/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bidirectional cache: BROS's worked examples slot by slot; refusals; exact
 * rollback; handing over. test_bidirectional_traces.c has random traces.
 */
#include "t/plugin/transactions.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define S 4 /* slots of a block, as in the worked examples */

static const struct bed_options defaults = {
    .scheduler = {"fcfs", (const char *const[]){"watermark", "0", NULL}},
    .cache = {"bidirectional", NULL},
    .block_tokens = S,
    .device_units = 2,
    .host_units = 32,
    .max_tokens = 1024,
    .max_sequences = 16,
    .max_context = 256,
    .max_requests = 32,
    .audit_every = 1,
};

/* Copies are made only when slots are lost, as in the worked examples. */
static const char *const lazy[] = {"ahead", "0", NULL};

static void open_with(struct bed *bed, uint32_t blocks, uint32_t host_blocks,
                      const char *const *parameters)
{
  struct bed_options o = defaults;
  o.cache.parameters = parameters != NULL ? parameters : lazy;
  o.device_units = 2 * blocks;
  o.host_units = 2 * host_blocks;
  assert_int_equal(bed_open(bed, &o), 0);
}

static struct lls_live *request(struct bed *bed, uint32_t class)
{
  bed->next.request_class = class;
  return submit(bed, 0, 60, 100);
}

/* ---- steps of one request ---------------------------------------------------------- */

/* Reserves in the open transaction; returns the result. */
static int reserve(struct bed *bed, struct lls_live *r, uint32_t tokens)
{
  uint32_t flags = r->view.request_class == LLS_CLASS_BEST_EFFORT ? 0 : LLS_MAY_DISPLACE;
  return bed->c->reserve(bed->cache_self, &r->view, tokens, LLS_FORM_NONE, flags);
}

/* Does the step's copies, checks that all earlier tokens are read as written, and
 * writes the new ones. */
static void run(struct bed *bed, struct lls_live *r, uint32_t tokens)
{
  compute(bed, r, tokens);
  assert_int_equal(info_of(bed, r).cached_tokens, r->view.cached_tokens);
}

/* Runs a step of one request; returns the result of reserve. */
static int try_step(struct bed *bed, struct lls_live *r, uint32_t tokens)
{
  assert_int_equal(bed->c->begin(bed->cache_self), 0);
  int rc = reserve(bed, r, tokens);
  assert_int_equal(bed_audit(bed), 0);
  assert_int_equal(bed->c->commit(bed->cache_self), 0);
  carry_out(bed);
  if (rc == LLS_RESERVE_OK)
    run(bed, r, tokens);
  assert_int_equal(bed_audit(bed), 0);
  return rc;
}

static void step(struct bed *bed, struct lls_live *r, uint32_t tokens)
{
  if (try_step(bed, r, tokens) != LLS_RESERVE_OK)
    fail_msg("no room for %u tokens of request %llu", tokens,
             (unsigned long long)r->view.id);
}

/* ---- the worked examples ----------------------------------------------------------- */

/* The owners of a block's slots as "a3 a2 .. B0"; `names` are the requests' names by
 * id. */
static const char *slots_of(struct bed *bed, uint32_t block, const char *names)
{
  static char text[8 * S];
  size_t n = 0;
  for (uint32_t slot = 0; slot < S; slot++) {
    const char *before = n > 0 ? " " : "";
    bool known = false;
    for (uint32_t i = 0; i < bed->o.max_requests && !known; i++) {
      const struct lls_live *r = bed->by_slot[i];
      uint32_t token = r == NULL
                           ? UINT32_MAX
                           : shadow_token_in(bed_shadow(bed), 2 * block, slot, &r->view);
      known = token != UINT32_MAX;
      if (known)
        n += (size_t)sprintf(text + n, "%s%c%u", before,
                             names[bed_number(bed, r->view.id)], token);
    }
    if (!known)
      n += (size_t)sprintf(text + n, "%s--", before);
  }
  return text;
}

static void assert_missing(struct bed *bed, const struct lls_live *r, uint32_t tokens)
{
  struct lls_cache_info info = info_of(bed, r);
  assert_int_equal(info.missing_tokens, tokens);
  assert_int_equal(info.residency, tokens == 0                   ? LLS_RESIDENT_DEVICE
                                   : tokens < info.cached_tokens ? LLS_RESIDENT_PARTIAL
                                                                 : LLS_RESIDENT_HOST);
}

static uint32_t copied_out(struct bed *bed)
{
  return bed->copies[LLS_COPY_DEVICE_TO_HOST];
}

/* Example 3: one block; a best-effort request loses slots one by one, and gets them
 * back. */
static void test_example_3(void **state)
{
  (void)state;
  struct bed bed;
  open_with(&bed, 1, 4, NULL);
  struct lls_live *a = request(&bed, LLS_CLASS_BEST_EFFORT);
  struct lls_live *b = request(&bed, LLS_CLASS_REALTIME);
  step(&bed, a, 4);
  assert_string_equal(slots_of(&bed, 0, "aB"), "a3 a2 a1 a0");
  step(&bed, b, 2);
  assert_string_equal(slots_of(&bed, 0, "aB"), "B0 B1 a1 a0");
  assert_missing(&bed, a, 2);
  assert_int_equal(copied_out(&bed), 1); /* a2 and a3 at once */
  step(&bed, b, 1);
  assert_string_equal(slots_of(&bed, 0, "aB"), "B0 B1 B2 a0");
  assert_missing(&bed, a, 3);
  assert_int_equal(copied_out(&bed), 2);
  assert_int_equal(try_step(&bed, a, 0), LLS_RESERVE_LATER);
  bed_cancel(&bed, b);
  step(&bed, a, 0);
  assert_string_equal(slots_of(&bed, 0, "aB"), "a3 a2 a1 a0");
  assert_missing(&bed, a, 0);
  assert_int_equal(bed.copies[LLS_COPY_HOST_TO_DEVICE], 1);
  bed_cancel(&bed, a);
  assert_int_equal(free_units(&bed), 2);
  bed_close(&bed);
}

/* Example 4: tokens that cannot return to their place continue in another block,
 * directly after it. */
static void test_example_4(void **state)
{
  (void)state;
  struct bed bed;
  open_with(&bed, 2, 4, NULL);
  struct lls_live *a = request(&bed, LLS_CLASS_BEST_EFFORT);
  struct lls_live *d = request(&bed, LLS_CLASS_REALTIME);
  struct lls_live *b = request(&bed, LLS_CLASS_REALTIME);
  struct lls_block_table t;
  step(&bed, a, 4);
  step(&bed, d, 1);
  step(&bed, b, 3);
  assert_string_equal(slots_of(&bed, 0, "adB"), "B0 B1 B2 a0");
  assert_string_equal(slots_of(&bed, 1, "adB"), "d0 -- -- --");
  step(&bed, a, 0);
  assert_string_equal(slots_of(&bed, 0, "adB"), "B0 B1 B2 a0");
  assert_string_equal(slots_of(&bed, 1, "adB"), "d0 a3 a2 a1");
  assert_int_equal(bed.c->table(bed.cache_self, &a->view, &t), 0);
  const struct lls_block_entry expected[] = {{.block = 0,
                                              .first_token = 0,
                                              .count = 1,
                                              .direction = LLS_RIGHT_TO_LEFT,
                                              .form = LLS_FORM_KV},
                                             {.block = 2,
                                              .first_token = 1,
                                              .count = 3,
                                              .direction = LLS_RIGHT_TO_LEFT,
                                              .form = LLS_FORM_KV}};
  assert_int_equal(t.lists->n_entries, 2);
  assert_memory_equal(t.lists->entries, expected, sizeof expected);
  bed_cancel(&bed, b);
  bed_cancel(&bed, a);
  bed_cancel(&bed, d);
  assert_int_equal(free_units(&bed), 4);
  bed_close(&bed);
}

/* A token is copied to the host once, however often it loses its slot, unless copies
 * are not kept. */
static void test_copies_are_kept(void **state)
{
  (void)state;
  static const char *const dropped[] = {"keep_host_copy", "off", "ahead", "0", NULL};
  for (int keep = 0; keep < 2; keep++) {
    struct bed bed;
    open_with(&bed, 1, 4, keep ? NULL : dropped);
    struct lls_live *a = request(&bed, LLS_CLASS_BEST_EFFORT);
    step(&bed, a, 4);
    for (int i = 0; i < 3; i++) {
      struct lls_live *b = request(&bed, LLS_CLASS_REALTIME);
      step(&bed, b, 4);
      assert_missing(&bed, a, 4);
      bed_cancel(&bed, b);
      step(&bed, a, 0);
      assert_int_equal(copied_out(&bed), keep ? 1 : i + 1);
      assert_int_equal(info_of(&bed, a).host_units, keep ? 2 : 0);
    }
    bed_cancel(&bed, a);
    bed_close(&bed);
  }
}

/* ---- beside the step --------------------------------------------------------------- */

/* Expects n copies in the step, all of one kind and order. */
static void expect_copies(struct bed *bed, size_t n, uint32_t kind, uint32_t order)
{
  const struct lls_copy *copies;
  assert_int_equal(bed->c->copies(bed->cache_self, &copies), n);
  for (size_t i = 0; i < n; i++) {
    assert_int_equal(lls_copy_way(&copies[i]), kind);
    assert_int_equal(copies[i].order, order);
  }
}

/* A real-time request has filled a block up to a best-effort request's tokens: these
 * are copied concurrently with that step, and the next tokens displace them without a
 * copy. */
static void test_copied_ahead(void **state)
{
  (void)state;
  static const char *const ahead[] = {"ahead", "1", NULL};
  struct bed bed;
  open_with(&bed, 2, 4, ahead);
  struct lls_live *a = request(&bed, LLS_CLASS_BEST_EFFORT);
  struct lls_live *b = request(&bed, LLS_CLASS_REALTIME);
  step(&bed, b, 1);
  step(&bed, a, 5); /* four in the other block */
  bed_cancel(&bed, b);
  b = request(&bed, LLS_CLASS_REALTIME);
  step(&bed, b, 3);
  expect_copies(&bed, 1, LLS_COPY_DEVICE_TO_HOST, LLS_COPY_ASYNC);
  assert_missing(&bed, a, 0);
  step(&bed, b, 1);
  /* of the other block */
  expect_copies(&bed, 1, LLS_COPY_DEVICE_TO_HOST, LLS_COPY_ASYNC);
  assert_missing(&bed, a, 1);
  step(&bed, b, 4);
  expect_copies(&bed, 0, 0, 0);
  assert_missing(&bed, a, 5);
  bed_close(&bed);
}

static uint64_t move(struct bed *bed, struct lls_live *r, bool to_host, int expected)
{
  uint64_t transfer = 0;
  int rc = to_host ? bed->c->offload(bed->cache_self, &r->view, &transfer)
                   : bed->c->upload(bed->cache_self, &r->view, &transfer);
  assert_int_equal(rc, expected);
  assert_int_equal(info_of(bed, r).residency == LLS_RESIDENT_MOVING, rc == 0);
  assert_int_equal(bed_audit(bed), 0);
  return transfer;
}

/* To the host and back during two steps. A request keeps its slots until it has left,
 * and has them from when its upload begins. */
static void test_moves(void **state)
{
  (void)state;
  struct bed bed;
  open_with(&bed, 1, 1, NULL);
  struct lls_live *a = request(&bed, LLS_CLASS_BEST_EFFORT);
  struct lls_live *b = request(&bed, LLS_CLASS_REALTIME);
  step(&bed, a, 4);
  for (int to_host = 1; to_host >= 0; to_host--) {
    uint32_t kind = to_host ? LLS_COPY_DEVICE_TO_HOST : LLS_COPY_HOST_TO_DEVICE;
    assert_int_equal(bed.c->begin(bed.cache_self), 0);
    move(&bed, a, !to_host, -EINVAL);
    uint64_t transfer = move(&bed, a, to_host, 0);
    move(&bed, b, to_host, -EINVAL);
    assert_int_equal(reserve(&bed, b, 1), LLS_RESERVE_LATER);
    assert_int_equal(bed.c->commit(bed.cache_self), 0);
    expect_copies(&bed, 1, kind, LLS_COPY_ASYNC);
    bed.c->on_transfer(bed.cache_self, transfer);
    assert_missing(&bed, a, to_host ? 4 : 0);
    assert_int_equal(bed_audit(&bed), 0);
  }
  assert_string_equal(slots_of(&bed, 0, "aB"), "a3 a2 a1 a0");
  bed_cancel(&bed, a);
  assert_int_equal(host_free(&bed), 2);
  bed_close(&bed);
}

/* ---- what is refused, and who goes first ------------------------------------------- */

/* A request that reserves in this step is not displaced in it. */
static void test_nobody_in_the_step_is_displaced(void **state)
{
  (void)state;
  struct bed bed;
  open_with(&bed, 1, 4, NULL);
  struct lls_live *a = request(&bed, LLS_CLASS_BEST_EFFORT);
  struct lls_live *b = request(&bed, LLS_CLASS_REALTIME);
  step(&bed, a, 2);
  bed.c->begin(bed.cache_self);
  assert_int_equal(reserve(&bed, a, 1), LLS_RESERVE_OK);
  assert_int_equal(reserve(&bed, b, 2), LLS_RESERVE_LATER);
  assert_int_equal(reserve(&bed, b, 1), LLS_RESERVE_OK);
  bed.c->commit(bed.cache_self);
  carry_out(&bed);
  run(&bed, a, 1);
  run(&bed, b, 1);
  assert_string_equal(slots_of(&bed, 0, "aB"), "B0 a2 a1 a0");
  bed_close(&bed);
}

/* Without LLS_MAY_DISPLACE, and for best-effort requests, others' slots are not
 * available. */
static void test_only_who_may_displaces(void **state)
{
  (void)state;
  struct bed bed;
  open_with(&bed, 2, 4, NULL);
  struct lls_live *a = request(&bed, LLS_CLASS_BEST_EFFORT);
  struct lls_live *b = request(&bed, LLS_CLASS_NONE);
  struct lls_live *d = request(&bed, LLS_CLASS_NONE);
  step(&bed, a, 3);
  step(&bed, d, 1); /* three more slots, for which b is of the wrong class */
  bed.c->begin(bed.cache_self);
  assert_int_equal(bed.c->reserve(bed.cache_self, &b->view, 2, LLS_FORM_NONE, 0),
                   LLS_RESERVE_LATER);
  bed.c->commit(bed.cache_self);
  step(&bed, b, 3); /* one slot is free, two are displaced */
  assert_missing(&bed, a, 2);
  bed.c->begin(bed.cache_self);
  assert_int_equal(
      bed.c->reserve(bed.cache_self, &a->view, 2, LLS_FORM_NONE, LLS_MAY_DISPLACE),
      LLS_RESERVE_LATER);
  assert_int_equal(reserve(&bed, a, 6), LLS_RESERVE_NEVER);
  assert_int_equal(reserve(&bed, b, 6), LLS_RESERVE_NEVER);
  bed.c->commit(bed.cache_self);
  bed_close(&bed);
}

/* Counts lines of the log with these words. */
static int times_said(const struct bed *bed, const char *words)
{
  char text[4096];
  ssize_t n = pread(bed->log, text, sizeof text - 1, 0);
  int times = 0;
  text[n > 0 ? n : 0] = '\0';
  for (const char *at = text; (at = strstr(at, words)) != NULL; at++)
    times++;
  return times;
}

/* A full host: copies that are no longer needed are dropped; if all are needed nothing
 * more is displaced. */
static void test_full_host(void **state)
{
  (void)state;
  struct bed bed;
  open_with(&bed, 2, 1, NULL);
  struct lls_live *a = request(&bed, LLS_CLASS_BEST_EFFORT);
  struct lls_live *c = request(&bed, LLS_CLASS_BEST_EFFORT);
  struct lls_live *b = request(&bed, LLS_CLASS_REALTIME);
  step(&bed, a, 4);
  step(&bed, c, 4);
  step(&bed, b, 4);
  assert_missing(&bed, a, 4);
  for (int times = 0; times < 2; times++) {
    assert_int_equal(times_said(&bed, "blocks of the host pool hold"), times);
    assert_int_equal(try_step(&bed, b, 1), LLS_RESERVE_LATER);
  }
  assert_int_equal(times_said(&bed, "blocks of the host pool hold"), 1);
  assert_int_equal(host_free(&bed), 0);
  bed_cancel(&bed, b);
  step(&bed, a, 0);
  assert_int_equal(host_free(&bed), 2); /* in use, but can be freed */
  b = request(&bed, LLS_CLASS_REALTIME);
  bed_cancel(&bed, a);
  a = request(&bed, LLS_CLASS_REALTIME);
  step(&bed, a, 4);
  step(&bed, b, 4); /* c's go where a's were */
  assert_missing(&bed, c, 4);
  bed_cancel(&bed, a);
  step(&bed, c, 0);
  bed_close(&bed);
}

/* Without a host tier no request can be displaced or swapped. */
static void test_no_host(void **state)
{
  (void)state;
  struct bed bed;
  open_with(&bed, 1, 0, NULL);
  struct lls_live *a = request(&bed, LLS_CLASS_BEST_EFFORT);
  struct lls_live *b = request(&bed, LLS_CLASS_REALTIME);
  step(&bed, a, 3);
  assert_int_equal(try_step(&bed, b, 2), LLS_RESERVE_LATER);
  step(&bed, b, 1);
  assert_int_equal(bed.c->preempt_modes(bed.cache_self) & 1u << LLS_PREEMPT_SWAP, 0);
  bed_close(&bed);
}

/* Switched off: a block has one owner, all fill it from the left, and no request is
 * displaced. */
static void test_off(void **state)
{
  (void)state;
  static const char *const off[] = {"mode", "off", NULL};
  struct bed bed;
  struct lls_block_table t;
  open_with(&bed, 2, 4, off);
  struct lls_live *a = request(&bed, LLS_CLASS_BEST_EFFORT);
  struct lls_live *b = request(&bed, LLS_CLASS_REALTIME);
  struct lls_live *c = request(&bed, LLS_CLASS_REALTIME);
  step(&bed, a, 1);
  assert_int_equal(bed.c->table(bed.cache_self, &a->view, &t), 0);
  assert_int_equal(t.lists->entries[0].direction, LLS_LEFT_TO_RIGHT);
  step(&bed, b, 1);
  assert_int_equal(try_step(&bed, c, 1), LLS_RESERVE_LATER);
  assert_int_equal(try_step(&bed, b, 4), LLS_RESERVE_LATER);
  assert_missing(&bed, a, 0);
  bed.c->begin(bed.cache_self);
  assert_int_equal(bed.c->preempt(bed.cache_self, &a->view, LLS_PREEMPT_SWAP), -ENOTSUP);
  assert_int_equal(bed.c->preempt(bed.cache_self, &a->view, LLS_PREEMPT_RECOMPUTE), 0);
  bed.c->commit(bed.cache_self);
  step(&bed, b, 4);
  bed_close(&bed);
}

/* First swapped out partly, then wholly: each token is copied once. */
static void test_swap(void **state)
{
  (void)state;
  struct bed bed;
  struct lls_need need = {.size = sizeof need};
  open_with(&bed, 3, 8, NULL);
  struct lls_live *a = request(&bed, LLS_CLASS_BEST_EFFORT);
  struct lls_live *b = request(&bed, LLS_CLASS_REALTIME);
  step(&bed, a, 10);
  step(&bed, b, 3);
  assert_missing(&bed, a, 1); /* the last block has two free slots */
  bed.c->begin(bed.cache_self);
  assert_int_equal(bed.c->preempt(bed.cache_self, &a->view, LLS_PREEMPT_SWAP), 0);
  bed.c->commit(bed.cache_self);
  carry_out(&bed);
  assert_missing(&bed, a, 10);
  assert_int_equal(free_units(&bed), 4);
  bed.c->need(bed.cache_self, &a->view, 1, LLS_FORM_NONE, &need);
  assert_int_equal(need.restore_units, 6);
  bed_cancel(&bed, b);
  step(&bed, a, 1);
  assert_int_equal(info_of(&bed, a).device_units, 6);
  bed_close(&bed);
}

/* ---- handed over ------------------------------------------------------------------- */

/* Creates another manager, which becomes the bed's; returns the old one. */
static void *replace_manager(struct bed *bed)
{
  void *self, *old = bed->cache_self;
  assert_int_equal(bed_create_cache(bed, &bed->geometry, &self), 0);
  bed_use_cache(bed, self);
  return old;
}

/* A new generation continues in place: displaced tokens, copies and everything else. */
static void test_handed_over(void **state)
{
  (void)state;
  struct bed bed;
  struct lls_blob blob = {0};
  open_with(&bed, 3, 8, NULL);
  struct lls_live *a = request(&bed, LLS_CLASS_BEST_EFFORT);
  struct lls_live *b = request(&bed, LLS_CLASS_REALTIME);
  step(&bed, a, 10);
  step(&bed, b, 3);
  assert_int_equal(bed_audit(&bed), 0);
  char *before = strdup(bed.text);
  assert_int_equal(bed.c->export_state(bed.cache_self, &blob), 0);
  void *old = replace_manager(&bed);
  struct lls_blob torn = blob;
  torn.bytes--;
  assert_true(bed.c->import_state(bed.cache_self, &torn) < 0);
  assert_int_equal(free_units(&bed), 6);
  assert_int_equal(bed.c->import_state(bed.cache_self, &blob), 0);
  assert_int_equal(bed_audit(&bed), 0);
  *strstr(bed.text, "copies") = '\0'; /* the copies belong to a step */
  assert_int_equal(strncmp(bed.text, before, strlen(bed.text)), 0);
  bed.c->destroy(old);
  step(&bed, b, 1);
  bed_cancel(&bed, b);
  step(&bed, a, 1);
  free(before);
  free(blob.data);
  bed_close(&bed);
}

/* Blocks in the usual layout are exchanged with other managers; others are not. */
static void test_other_managers(void **state)
{
  (void)state;
  struct bed bed;
  struct lls_blob blob = {0};
  struct harness_policy paged = {"paged", NULL};
  struct harness_loaded loaded;
  struct lls_error err;
  assert_int_equal(policy_load(LLS_KIND_CACHE, &paged, &loaded, &err), 0);
  const struct lls_cache_vtable *other = &loaded.module->cache;
  open_with(&bed, 6, 8, NULL);
  struct lls_live *b = request(&bed, LLS_CLASS_REALTIME);
  struct lls_live *a = request(&bed, LLS_CLASS_BEST_EFFORT);
  struct lls_cache_info info = {.size = sizeof info};
  step(&bed, b, 10);
  step(&bed, a, 5);
  assert_int_equal(bed.c->export_state(bed.cache_self, &blob), 0);
  const struct lls_host *host = &bed.policies.cache.host;
  void *there;
  assert_int_equal(other->create(host, loaded.params, &bed.geometry, &there), 0);
  assert_int_equal(other->import_state(there, &blob), 0);
  assert_int_equal(other->info(there, &b->view, &info), 0);
  assert_int_equal(info.cached_tokens, 10);
  assert_true(other->info(there, &a->view, &info) < 0);
  free(blob.data);
  assert_int_equal(other->export_state(there, &blob), 0);
  bed.c->destroy(replace_manager(&bed));
  assert_int_equal(bed.c->import_state(bed.cache_self, &blob), 0);
  assert_int_equal(bed_audit(&bed), 0);
  assert_int_equal(bed.c->admit(bed.cache_self, &a->view), 0);
  step(&bed, b, 3);
  step(&bed, a, 4);
  assert_int_equal(bed.c->info(bed.cache_self, &b->view, &info), 0);
  assert_int_equal(info.cached_tokens, 13);
  other->destroy(there);
  free(blob.data);
  policy_unload(&loaded);
  bed_close(&bed);
}

static void test_rollback_is_exact(void **state)
{
  (void)state;
  struct bed_options o = defaults;
  o.device_units = 60, o.host_units = 40, o.block_tokens = 16;
  check_rollback(&o);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_example_3),
      cmocka_unit_test(test_example_4),
      cmocka_unit_test(test_copies_are_kept),
      cmocka_unit_test(test_copied_ahead),
      cmocka_unit_test(test_moves),
      cmocka_unit_test(test_nobody_in_the_step_is_displaced),
      cmocka_unit_test(test_only_who_may_displaces),
      cmocka_unit_test(test_full_host),
      cmocka_unit_test(test_no_host),
      cmocka_unit_test(test_off),
      cmocka_unit_test(test_swap),
      cmocka_unit_test(test_handed_over),
      cmocka_unit_test(test_other_managers),
      cmocka_unit_test(test_rollback_is_exact),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
