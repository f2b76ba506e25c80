/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core/cluster/apart.c: an instance is apart after pieces have been due for two seconds
 * in which this process ran; it is tried once a second, and no longer apart when a piece
 * has arrived.
 */
#include "t/tap.h"

#include "core/cluster/apart.h"

#define MS INT64_C(1000000)

/* Makes rounds of 10 ms for so long. Returns true if the instance becomes apart. */
static bool wait_for(struct lls_apart *a, int64_t *now_ns, uint32_t from, bool due,
                     int64_t ms)
{
  bool became = false;
  for (int64_t until_ns = *now_ns + ms * MS; *now_ns < until_ns && !became;) {
    *now_ns += 10 * MS;
    became = lls_apart_wait(a, from, due, lls_apart_look(a, *now_ns));
  }
  return became;
}

static void only_time_in_which_pieces_are_due_counts(void **state)
{
  struct lls_apart a = {0};
  int64_t now_ns = MS;
  (void)state;
  assert_false(wait_for(&a, &now_ns, 3, false, 10000));
  assert_false(wait_for(&a, &now_ns, 3, true, 1900));
  lls_apart_arrived(&a, 3);
  assert_false(wait_for(&a, &now_ns, 3, true, 1900));
  assert_false(wait_for(&a, &now_ns, 3, false, 10));
  assert_false(wait_for(&a, &now_ns, 3, true, 1900));
  assert_false(lls_is_apart(&a, 3));
  assert_true(wait_for(&a, &now_ns, 3, true, 200));
  assert_true(lls_is_apart(&a, 3));
  assert_false(lls_is_apart(&a, 2));
}

static void time_in_which_this_process_did_not_run_does_not_count(void **state)
{
  struct lls_apart a = {0};
  int64_t now_ns = MS;
  (void)state;
  for (int i = 0; i < 30; i++) {
    now_ns += 5000 * MS;
    assert_false(lls_apart_wait(&a, 1, true, lls_apart_look(&a, now_ns)));
  }
}

static void it_is_tried_until_a_piece_arrives(void **state)
{
  struct lls_apart a = {0};
  int64_t now_ns = MS;
  uint32_t from = 0;
  (void)state;
  assert_false(lls_apart_try(&a, 1));
  assert_true(wait_for(&a, &now_ns, 1, true, 2100));
  assert_true(lls_apart_news(&a, &from));
  assert_int_equal(from, 1);
  assert_false(lls_apart_news(&a, &from));
  int tries = 0;
  for (int i = 0; i < 1000; i++) {
    wait_for(&a, &now_ns, 1, false, 10);
    tries += lls_apart_try(&a, 1);
  }
  assert_int_equal(tries, 10);
  assert_true(wait_for(&a, &now_ns, 1, true, 2100)); /* again: that is no news */
  assert_false(lls_apart_news(&a, &from));
  lls_apart_arrived(&a, 1);
  assert_true(lls_apart_news(&a, &from));
  assert_false(lls_is_apart(&a, 1));
  assert_false(lls_apart_try(&a, 1));
  lls_apart_arrived(&a, 1);
  assert_false(lls_apart_news(&a, &from));
}

static void another_process_is_not_apart(void **state)
{
  struct lls_apart a = {0};
  int64_t now_ns = MS;
  uint32_t from = 0;
  (void)state;
  assert_true(wait_for(&a, &now_ns, 1, true, 2100));
  lls_apart_forget(&a, 1);
  assert_false(lls_is_apart(&a, 1));
  assert_false(lls_apart_news(&a, &from));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(only_time_in_which_pieces_are_due_counts),
      cmocka_unit_test(time_in_which_this_process_did_not_run_does_not_count),
      cmocka_unit_test(it_is_tried_until_a_piece_arrives),
      cmocka_unit_test(another_process_is_not_apart),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
