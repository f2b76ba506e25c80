/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bidirectional cache: the worked examples of BROS slot by slot; random traces that
 * follow every token through slots, copies and restores; what is refused when; exact
 * rollback; handing over.
 */
#include "t/plugin/transactions.h"

#include <string.h>

#define S 4 /* slots of a block, as in the worked examples */

static const struct fake_options defaults = {
    .scheduler = {"fcfs", (const char *const[]){"watermark", "0", NULL}},
    .cache = {"bidirectional", NULL},
    .block_tokens = S,
    .device_units = 2,
    .host_units = 32,
    .max_tokens = 1024,
    .max_sequences = 16,
    .max_context = 256,
    .max_requests = 32,
    .audit = true,
};

static void open_with(struct fake *f, uint32_t blocks, uint32_t host_blocks,
                      const char *const *parameters)
{
  struct fake_options o = defaults;
  o.cache.parameters = parameters;
  o.device_units = 2 * blocks;
  o.host_units = 2 * host_blocks;
  assert_int_equal(fake_open(f, &o), 0);
}

static struct fake_request *request(struct fake *f, uint32_t class)
{
  f->next.request_class = class;
  return submit(f, 0, 60, 100);
}

/* ---- steps of one request ---------------------------------------------------------- */

static void carry_out(struct fake *f)
{
  const struct lls_copy *copies;
  size_t n = f->c->copies(f->cache_self, &copies);
  for (size_t i = 0; i < n; i++) {
    assert_int_equal(copies[i].order, LLS_COPY_BEFORE_STEP);
    fake_memory_copy(&f->memory, &copies[i]);
    f->copies[copies[i].kind]++;
  }
}

/* In the open transaction: what it said. */
static int reserve(struct fake *f, struct fake_request *r, uint32_t tokens)
{
  uint32_t flags = r->view.request_class == LLS_CLASS_BEST_EFFORT ? 0 : LLS_MAY_DISPLACE;
  return f->c->reserve(f->cache_self, &r->view, tokens, LLS_FORM_NONE, flags);
}

/* After the step's copies: all before is read as it was written, the new is written. */
static void run(struct fake *f, struct fake_request *r, uint32_t tokens)
{
  struct lls_block_table table;
  uint32_t before = info_of(f, r).cached_tokens;
  assert_int_equal(f->c->table(f->cache_self, &r->view, &table), 0);
  fake_memory_check(&f->memory, &table, r->digests, before);
  fake_memory_write(&f->memory, &table, r->digests, before, before + tokens);
  f->c->computed(f->cache_self, &r->view, before + tokens);
  assert_int_equal(info_of(f, r).cached_tokens, before + tokens);
}

/* A step of one request; what reserve said. */
static int try_step(struct fake *f, struct fake_request *r, uint32_t tokens)
{
  assert_int_equal(f->c->begin(f->cache_self), 0);
  int rc = reserve(f, r, tokens);
  assert_int_equal(fake_audit(f), 0);
  assert_int_equal(f->c->commit(f->cache_self), 0);
  carry_out(f);
  if (rc == LLS_RESERVE_OK)
    run(f, r, tokens);
  assert_int_equal(fake_audit(f), 0);
  return rc;
}

static void step(struct fake *f, struct fake_request *r, uint32_t tokens)
{
  if (try_step(f, r, tokens) != LLS_RESERVE_OK)
    fail_msg("no room for %u tokens of request %llu", tokens,
             (unsigned long long)r->view.id);
}

/* ---- the worked examples ----------------------------------------------------------- */

/* "a3 a2 .. B0": who has the slots of a block; `names` are of the requests by id. */
static const char *slots_of(const struct fake *f, uint32_t block, const char *names)
{
  static char text[8 * S];
  size_t n = 0;
  for (uint32_t slot = 0; slot < S; slot++) {
    uint64_t *k = &f->memory.slots[LLS_TIER_DEVICE][(size_t)2 * 2 * block * S + slot];
    uint64_t *v = k + 2 * S;
    const char *before = n > 0 ? " " : "";
    bool known = false;
    for (uint32_t i = 0; i < f->o.max_requests && !known; i++)
      for (uint32_t t = 0; f->by_slot[i] != NULL && t < 60 && !known; t++)
        if ((*k ^ 0x4b4b4b4b) == f->by_slot[i]->digests[t]) {
          assert_int_equal(*v ^ 0x56565656, f->by_slot[i]->digests[t]);
          n += (size_t)sprintf(text + n, "%s%c%u", before, names[f->by_slot[i]->view.id],
                               t);
          known = true;
        }
    if (!known)
      n += (size_t)sprintf(text + n, "%s--", before);
  }
  return text;
}

static void assert_missing(struct fake *f, const struct fake_request *r, uint32_t tokens)
{
  struct lls_cache_info info = info_of(f, r);
  assert_int_equal(info.missing_tokens, tokens);
  assert_int_equal(info.residency, tokens == 0                   ? LLS_RESIDENT_DEVICE
                                   : tokens < info.cached_tokens ? LLS_RESIDENT_PARTIAL
                                                                 : LLS_RESIDENT_HOST);
}

static uint32_t copied_out(struct fake *f)
{
  return f->copies[LLS_COPY_DEVICE_TO_HOST];
}

/* Example 3: one block; a best-effort request loses slots one after another, and gets
 * them back. */
static void test_example_3(void **state)
{
  (void)state;
  struct fake f;
  open_with(&f, 1, 4, NULL);
  struct fake_request *a = request(&f, LLS_CLASS_BEST_EFFORT);
  struct fake_request *b = request(&f, LLS_CLASS_REALTIME);
  step(&f, a, 4);
  assert_string_equal(slots_of(&f, 0, "aB"), "a3 a2 a1 a0");
  step(&f, b, 2);
  assert_string_equal(slots_of(&f, 0, "aB"), "B0 B1 a1 a0");
  assert_missing(&f, a, 2);
  assert_int_equal(copied_out(&f), 2); /* a2 and a3 at once, K and V */
  step(&f, b, 1);
  assert_string_equal(slots_of(&f, 0, "aB"), "B0 B1 B2 a0");
  assert_missing(&f, a, 3);
  assert_int_equal(copied_out(&f), 4);
  assert_int_equal(try_step(&f, a, 0), LLS_RESERVE_LATER);
  fake_cancel(&f, b);
  step(&f, a, 0);
  assert_string_equal(slots_of(&f, 0, "aB"), "a3 a2 a1 a0");
  assert_missing(&f, a, 0);
  assert_int_equal(f.copies[LLS_COPY_HOST_TO_DEVICE], 2);
  fake_cancel(&f, a);
  assert_int_equal(free_units(&f), 2);
  fake_close(&f);
}

/* Example 4: what can't go back where it was goes on in another block, right behind. */
static void test_example_4(void **state)
{
  (void)state;
  struct fake f;
  open_with(&f, 2, 4, NULL);
  struct fake_request *a = request(&f, LLS_CLASS_BEST_EFFORT);
  struct fake_request *d = request(&f, LLS_CLASS_REALTIME);
  struct fake_request *b = request(&f, LLS_CLASS_REALTIME);
  struct lls_block_table t;
  step(&f, a, 4);
  step(&f, d, 1);
  step(&f, b, 3);
  assert_string_equal(slots_of(&f, 0, "adB"), "B0 B1 B2 a0");
  assert_string_equal(slots_of(&f, 1, "adB"), "d0 -- -- --");
  step(&f, a, 0);
  assert_string_equal(slots_of(&f, 0, "adB"), "B0 B1 B2 a0");
  assert_string_equal(slots_of(&f, 1, "adB"), "d0 a3 a2 a1");
  assert_int_equal(f.c->table(f.cache_self, &a->view, &t), 0);
  const struct lls_block_entry expected[] = {
      {.block = 0, .first_token = 0, .count = 1, .direction = LLS_RIGHT_TO_LEFT},
      {.block = 2, .first_token = 1, .count = 3, .direction = LLS_RIGHT_TO_LEFT}};
  assert_int_equal(t.k_count, 2);
  assert_memory_equal(t.k, expected, sizeof expected);
  uint64_t peers[3];
  assert_int_equal(f.c->peers(f.cache_self, 2, peers, 3), 2);
  assert_int_equal(peers[0], d->view.id);
  assert_int_equal(peers[1], a->view.id);
  fake_cancel(&f, b);
  fake_cancel(&f, a);
  fake_cancel(&f, d);
  assert_int_equal(free_units(&f), 4);
  fake_close(&f);
}

/* A copy on the host is made once, however often its token loses its slot: unless it is
 * not kept. */
static void test_copies_are_kept(void **state)
{
  (void)state;
  static const char *const dropped[] = {"keep_host_copy", "off", NULL};
  for (int keep = 0; keep < 2; keep++) {
    struct fake f;
    open_with(&f, 1, 4, keep ? NULL : dropped);
    struct fake_request *a = request(&f, LLS_CLASS_BEST_EFFORT);
    step(&f, a, 4);
    for (int i = 0; i < 3; i++) {
      struct fake_request *b = request(&f, LLS_CLASS_REALTIME);
      step(&f, b, 4);
      assert_missing(&f, a, 4);
      fake_cancel(&f, b);
      step(&f, a, 0);
      assert_int_equal(copied_out(&f), keep ? 2 : 2 * (i + 1));
      assert_int_equal(info_of(&f, a).host_units, keep ? 2 : 0);
    }
    fake_cancel(&f, a);
    fake_close(&f);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_example_3),
      cmocka_unit_test(test_example_4),
      cmocka_unit_test(test_copies_are_kept),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
