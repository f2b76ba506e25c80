/* SPDX-License-Identifier: Apache-2.0 */
/* The hybrid cache: units of each form, conversion from hidden to KV, exact
 * rollback. */
#include "t/plugin/transactions.h"

#include <stdlib.h>

static const struct bed_options defaults = {
    .scheduler = {"fcfs", (const char *const[]){"watermark", "0", NULL}},
    .cache = {"hybrid", NULL},
    .block_tokens = 16,
    .device_units = 40,
    .max_tokens = 1024,
    .max_sequences = 16,
    .max_context = 256,
    .max_requests = 32,
    .audit_every = 1,
};

static int reserve(struct bed *bed, struct lls_live *r, uint32_t tokens, uint32_t form)
{
  return bed->c->reserve(bed->cache_self, &r->view, tokens, form, 0);
}

/* Makes a sequence of `tokens` cached tokens in a form. */
static struct lls_live *cached(struct bed *bed, uint32_t tokens, uint32_t form)
{
  struct lls_live *r = submit(bed, 0, tokens, 10);
  bed->c->begin(bed->cache_self);
  assert_int_equal(reserve(bed, r, tokens, form), LLS_RESERVE_OK);
  bed->c->commit(bed->cache_self);
  bed->c->computed(bed->cache_self, &r->view, tokens);
  assert_int_equal(bed_audit(bed), 0);
  return r;
}

static void test_hidden_form_takes_half(void **state)
{
  (void)state;
  struct bed bed;
  assert_int_equal(bed_open(&bed, &defaults), 0);
  struct lls_live *kv = cached(&bed, 40, LLS_FORM_KV); /* three blocks */
  assert_int_equal(free_units(&bed), 40 - 6);
  struct lls_live *x = cached(&bed, 40, LLS_FORM_HIDDEN);
  assert_int_equal(free_units(&bed), 40 - 6 - 4); /* two share the place of a KV one */
  assert_int_equal(info_of(&bed, kv).form, LLS_FORM_KV);
  assert_int_equal(info_of(&bed, x).form, LLS_FORM_HIDDEN);
  assert_int_equal(info_of(&bed, x).device_units, 3);
  assert_int_equal(info_of(&bed, x).free_slots, 8);
  struct lls_need need = {.size = sizeof need};
  bed.c->need(bed.cache_self, &x->view, 9, LLS_FORM_NONE, &need);
  assert_int_equal(need.new_units, 1); /* a fourth block */
  bed.c->need(bed.cache_self, &x->view, 9, LLS_FORM_KV, &need);
  assert_int_equal(need.new_units, 8);
  bed_cancel(&bed, kv);
  bed_cancel(&bed, x);
  assert_int_equal(free_units(&bed), 40);
  bed_close(&bed);
}

static void test_from_hidden_to_kv_in_one_step(void **state)
{
  (void)state;
  struct bed bed;
  struct lls_block_table table;
  assert_int_equal(bed_open(&bed, &defaults), 0);
  struct lls_live *r = cached(&bed, 40, LLS_FORM_HIDDEN);
  bed.c->begin(bed.cache_self);
  assert_int_equal(reserve(&bed, r, 1, LLS_FORM_KV), LLS_RESERVE_OK);
  bed.c->commit(bed.cache_self);
  bed.c->table(bed.cache_self, &r->view, &table);
  assert_int_equal(table.lists->n_entries, 3);
  assert_int_equal(table.lists->n_restored, 3);
  bed.c->computed(bed.cache_self, &r->view, 41);
  bed.c->table(bed.cache_self, &r->view, &table);
  assert_int_equal(table.lists->n_restored, 0);
  assert_int_equal(free_units(&bed), 40 - 6);
  assert_int_equal(bed_audit(&bed), 0);

  bed.c->begin(bed.cache_self);
  assert_int_equal(reserve(&bed, r, 1, LLS_FORM_HIDDEN), -ENOTSUP);
  bed.c->rollback(bed.cache_self, 0);
  bed.c->commit(bed.cache_self);
  bed_cancel(&bed, r);
  bed_close(&bed);
}

static void test_never_and_later(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.device_units = 12;
  assert_int_equal(bed_open(&bed, &o), 0);
  struct lls_live *r = submit(&bed, 0, 100, 10);    /* seven blocks: 14 units, or 7 */
  struct lls_live *other = submit(&bed, 0, 50, 10); /* eight units, or 4 */
  bed.c->begin(bed.cache_self);
  assert_int_equal(reserve(&bed, r, 100, LLS_FORM_KV), LLS_RESERVE_NEVER);
  assert_int_equal(reserve(&bed, r, 100, LLS_FORM_HIDDEN), LLS_RESERVE_OK);
  assert_int_equal(reserve(&bed, other, 50, LLS_FORM_KV), LLS_RESERVE_LATER);
  assert_int_equal(reserve(&bed, other, 50, LLS_FORM_HIDDEN), LLS_RESERVE_OK);
  bed.c->rollback(bed.cache_self, 0);
  bed.c->commit(bed.cache_self);
  assert_int_equal(free_units(&bed), 12);
  bed_cancel(&bed, r);
  bed_cancel(&bed, other);
  bed_close(&bed);
}

static void test_offered_only_where_it_saves(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  struct lls_form_info forms[2];
  assert_int_equal(bed_open(&bed, &o), 0);
  assert_int_equal(bed.c->forms(bed.cache_self, forms, 2), 2);
  assert_null(forms[1].why_not);
  assert_true(forms[1].ratio > 0.49 && forms[1].ratio < 0.51);
  bed_close(&bed);
  o.cache.parameters = POLICY_PARAMETERS("max_eta", "0.4");
  assert_int_equal(bed_open(&bed, &o), 0);
  bed.c->forms(bed.cache_self, forms, 2);
  assert_non_null(strstr(forms[1].why_not, "0.50 of the bytes of K and V"));
  struct lls_live *r = submit(&bed, 0, 10, 10);
  bed.c->begin(bed.cache_self);
  assert_int_equal(reserve(&bed, r, 10, LLS_FORM_HIDDEN), -ENOTSUP);
  bed.c->commit(bed.cache_self);
  bed_cancel(&bed, r);
  bed_close(&bed);
}

static void test_rollback_is_exact(void **state)
{
  (void)state;
  check_rollback(&defaults);
}

/* Imports a spoiled state, which must not break the manager, whatever it held before. */
static void take_over(struct bed *bed, const struct lls_blob *spoiled)
{
  bed->c->import_state(bed->cache_self, spoiled);
  assert_int_equal(bed_audit(bed), 0);
}

static void test_spoiled_state(void **state)
{
  (void)state;
  struct bed bed, taker[2];
  struct bed_options to_paged = defaults;
  struct lls_blob blob = {0};
  to_paged.cache.name = "paged";
  assert_int_equal(bed_open(&bed, &defaults), 0);
  assert_int_equal(bed_open(&taker[0], &defaults), 0);
  assert_int_equal(bed_open(&taker[1], &to_paged), 0);
  cached(&bed, 40, LLS_FORM_KV);
  cached(&bed, 90, LLS_FORM_HIDDEN);
  cached(&bed, 20, LLS_FORM_KV);
  assert_int_equal(bed.c->export_state(bed.cache_self, &blob), 0);
  char *bytes = blob.data;
  for (size_t i = 0; i < blob.bytes; i++) {
    struct lls_blob shorter = blob;
    char old = bytes[i];
    shorter.bytes = i;
    bytes[i] = (char)(i % 3 == 0 ? 0xff : old + 1);
    for (int k = 0; k < 2; k++) {
      take_over(&taker[k], &blob);
      take_over(&taker[k], &shorter);
    }
    bytes[i] = old;
  }
  free(blob.data);
  bed_close(&taker[1]);
  bed_close(&taker[0]);
  bed_close(&bed);
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
