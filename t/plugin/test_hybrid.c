/* SPDX-License-Identifier: Apache-2.0 */
/* The hybrid cache: units of each form, the way from hidden to KV, exact rollback. */
#include "t/plugin/transactions.h"

#include <stdlib.h>

static const struct fake_options defaults = {
    .scheduler = {"fcfs", (const char *const[]){"watermark", "0", NULL}},
    .cache = {"hybrid", NULL},
    .block_tokens = 16,
    .device_units = 40,
    .max_tokens = 1024,
    .max_sequences = 16,
    .max_context = 256,
    .max_requests = 32,
    .audit = true,
};

static int reserve(struct fake *f, struct fake_request *r, uint32_t tokens, uint32_t form)
{
  return f->c->reserve(f->cache_self, &r->view, tokens, form, 0);
}

/* A sequence of so many cached tokens in a form. */
static struct fake_request *cached(struct fake *f, uint32_t tokens, uint32_t form)
{
  struct fake_request *r = submit(f, 0, tokens, 10);
  f->c->begin(f->cache_self);
  assert_int_equal(reserve(f, r, tokens, form), LLS_RESERVE_OK);
  f->c->commit(f->cache_self);
  f->c->computed(f->cache_self, &r->view, tokens);
  assert_int_equal(fake_audit(f), 0);
  return r;
}

static void test_hidden_form_takes_half(void **state)
{
  (void)state;
  struct fake f;
  assert_int_equal(fake_open(&f, &defaults), 0);
  struct fake_request *kv = cached(&f, 40, LLS_FORM_KV); /* three blocks */
  assert_int_equal(free_units(&f), 40 - 6);
  struct fake_request *x = cached(&f, 40, LLS_FORM_HIDDEN);
  assert_int_equal(free_units(&f), 40 - 6 - 3);
  assert_int_equal(info_of(&f, kv).form, LLS_FORM_KV);
  assert_int_equal(info_of(&f, x).form, LLS_FORM_HIDDEN);
  assert_int_equal(info_of(&f, x).device_units, 3);
  assert_int_equal(info_of(&f, x).free_slots, 8);
  struct lls_need need = {.size = sizeof need};
  f.c->need(f.cache_self, &x->view, 9, LLS_FORM_NONE, &need);
  assert_int_equal(need.new_units, 1);
  f.c->need(f.cache_self, &x->view, 9, LLS_FORM_KV, &need);
  assert_int_equal(need.new_units, 8);
  fake_cancel(&f, kv);
  fake_cancel(&f, x);
  assert_int_equal(free_units(&f), 40);
  fake_close(&f);
}

static void test_from_hidden_to_kv_in_one_step(void **state)
{
  (void)state;
  struct fake f;
  struct lls_block_table table;
  assert_int_equal(fake_open(&f, &defaults), 0);
  struct fake_request *r = cached(&f, 40, LLS_FORM_HIDDEN);
  f.c->begin(f.cache_self);
  assert_int_equal(reserve(&f, r, 1, LLS_FORM_KV), LLS_RESERVE_OK);
  f.c->commit(f.cache_self);
  f.c->table(f.cache_self, &r->view, &table);
  assert_int_equal(table.form, LLS_FORM_KV);
  assert_int_equal(table.k_count + table.v_count + table.x_count, 9);
  f.c->computed(f.cache_self, &r->view, 41);
  f.c->table(f.cache_self, &r->view, &table);
  assert_int_equal(table.x_count, 0);
  assert_int_equal(free_units(&f), 40 - 6);
  assert_int_equal(fake_audit(&f), 0);

  f.c->begin(f.cache_self);
  assert_int_equal(reserve(&f, r, 1, LLS_FORM_HIDDEN), -ENOTSUP);
  f.c->rollback(f.cache_self, 0);
  f.c->commit(f.cache_self);
  fake_cancel(&f, r);
  fake_close(&f);
}

static void test_never_and_later(void **state)
{
  (void)state;
  struct fake f;
  struct fake_options o = defaults;
  o.device_units = 12;
  assert_int_equal(fake_open(&f, &o), 0);
  struct fake_request *r = submit(&f, 0, 100, 10); /* seven blocks: 14 units, or 7 */
  f.c->begin(f.cache_self);
  assert_int_equal(reserve(&f, r, 100, LLS_FORM_KV), LLS_RESERVE_NEVER);
  assert_int_equal(reserve(&f, r, 100, LLS_FORM_HIDDEN), LLS_RESERVE_OK);
  struct fake_request *other = submit(&f, 0, 50, 10); /* eight units, or 4 */
  assert_int_equal(reserve(&f, other, 50, LLS_FORM_KV), LLS_RESERVE_LATER);
  assert_int_equal(reserve(&f, other, 50, LLS_FORM_HIDDEN), LLS_RESERVE_OK);
  f.c->rollback(f.cache_self, 0);
  f.c->commit(f.cache_self);
  assert_int_equal(free_units(&f), 12);
  fake_cancel(&f, r);
  fake_cancel(&f, other);
  fake_close(&f);
}

static void test_offered_only_where_it_saves(void **state)
{
  (void)state;
  struct fake f;
  struct fake_options o = defaults;
  struct lls_form_info forms[2];
  assert_int_equal(fake_open(&f, &o), 0);
  assert_int_equal(f.c->forms(f.cache_self, forms, 2), 2);
  assert_null(forms[1].why_not);
  assert_true(forms[1].ratio > 0.49 && forms[1].ratio < 0.51);
  fake_close(&f);
  o.cache.parameters = POLICY_PARAMETERS("max_eta", "0.4");
  assert_int_equal(fake_open(&f, &o), 0);
  f.c->forms(f.cache_self, forms, 2);
  assert_non_null(strstr(forms[1].why_not, "0.50 of the bytes of K and V"));
  struct fake_request *r = submit(&f, 0, 10, 10);
  f.c->begin(f.cache_self);
  assert_int_equal(reserve(&f, r, 10, LLS_FORM_HIDDEN), -ENOTSUP);
  f.c->commit(f.cache_self);
  fake_cancel(&f, r);
  fake_close(&f);
}

static void test_rollback_is_exact(void **state)
{
  (void)state;
  check_rollback(&defaults);
}

/* A manager that takes over whatever a spoiled state says: none of it may break it. */
static void take_over(const char *cache, const struct lls_blob *spoiled)
{
  struct fake f;
  struct fake_options o = defaults;
  o.cache.name = cache;
  assert_int_equal(fake_open(&f, &o), 0);
  f.c->import_state(f.cache_self, spoiled);
  assert_int_equal(fake_audit(&f), 0);
  fake_close(&f);
}

static void test_spoiled_state(void **state)
{
  (void)state;
  struct fake f;
  struct lls_blob blob = {0};
  assert_int_equal(fake_open(&f, &defaults), 0);
  cached(&f, 40, LLS_FORM_KV);
  cached(&f, 90, LLS_FORM_HIDDEN);
  cached(&f, 20, LLS_FORM_KV);
  assert_int_equal(f.c->export_state(f.cache_self, &blob), 0);
  char *bytes = blob.data;
  for (size_t i = 0; i < blob.bytes; i += 2) {
    struct lls_blob shorter = blob;
    char old = bytes[i];
    shorter.bytes = i;
    bytes[i] = (char)(i % 3 == 0 ? 0xff : old + 1);
    for (int paged = 0; paged < 2; paged++) {
      take_over(paged ? "paged" : "hybrid", &blob);
      take_over(paged ? "paged" : "hybrid", &shorter);
    }
    bytes[i] = old;
  }
  free(blob.data);
  fake_close(&f);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_hidden_form_takes_half),
      cmocka_unit_test(test_from_hidden_to_kv_in_one_step),
      cmocka_unit_test(test_never_and_later),
      cmocka_unit_test(test_offered_only_where_it_saves),
      cmocka_unit_test(test_rollback_is_exact),
      cmocka_unit_test(test_spoiled_state),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
