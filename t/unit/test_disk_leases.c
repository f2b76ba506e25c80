/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases on disk (core/step/disk_leases.h) over a simulated disk: what is leased stays
 * whatever is written, until its time; blocks of several leases count once; all together
 * stay within their share; between tenants the one with most makes room.
 */
#include "t/tap.h"

#include <errno.h>
#include <string.h>

#include "core/step/disk_leases.h"
#include "t/dice.h"

#define RECORD 4096
#define SLOTS  64
#define MOST   20

static struct lls_block_store *store;
static struct lls_disk_leases leases;

static int64_t clock_of(void *context)
{
  static int64_t now_ns;
  (void)context;
  return now_ns += LLS_NS_PER_S; /* everything has been written by then */
}

static struct lls_key key_of(uint64_t i)
{
  struct dice d = {i};
  return (struct lls_key){{dice_next(&d), dice_next(&d)}};
}

static int begin(void **state)
{
  static const struct lls_disk_rates rates = {.read_byte_ns = 1, .write_byte_ns = 1};
  bool emptied;
  const struct lls_block_store_options o = {
      .record_bytes = RECORD,
      .bytes = lls_block_file_bytes(RECORD, SLOTS),
      .writing_bytes = RECORD,
      .reading_bytes = RECORD,
      .simulated = &rates,
      .clock = clock_of,
  };
  (void)state;
  assert_int_equal(lls_block_store_open(&o, &store, &emptied, NULL), 0);
  assert_int_equal(lls_disk_leases_init(&leases, store, MOST), 0);
  return 0;
}

static int end(void **state)
{
  (void)state;
  lls_disk_leases_free(&leases);
  lls_block_store_close(store);
  return 0;
}

static void write_block(uint64_t i)
{
  const struct lls_key key = key_of(i);
  if (lls_block_store_peek(store, &key) != 0)
    return;
  void *room = lls_block_store_room(store);
  assert_non_null(room);
  lls_block_store_put(store, room, &key, 1);
}

static bool has(uint64_t i)
{
  const struct lls_key key = key_of(i);
  return lls_block_store_peek(store, &key) != 0;
}

/* Writes blocks [first, first + n) and leases them. */
static int lease(uint64_t session, uint32_t tenant, uint64_t first, uint32_t n,
                 int64_t until_ns)
{
  struct lls_key keys[SLOTS];
  for (uint32_t i = 0; i < n; i++) {
    write_block(first + i);
    keys[i] = key_of(first + i);
  }
  const struct lls_session s = {
      .size = sizeof s, .id = session, .tenant = tenant, .keys = keys, .n_keys = n};
  return lls_disk_leases_take(&leases, &s, n, until_ns);
}

static uint32_t here(uint64_t first, uint32_t n)
{
  uint32_t found = 0;
  for (uint32_t i = 0; i < n; i++)
    found += has(first + i);
  return found;
}

static void write_over(uint64_t first)
{
  for (uint32_t i = 0; i < 2 * SLOTS; i++)
    write_block(first + i);
}

static void test_what_is_leased_stays(void **state)
{
  (void)state;
  assert_int_equal(lease(1, 0, 100, 6, 50), 0);
  for (uint32_t i = 0; i < 6; i++)
    write_block(200 + i);
  write_over(1000);
  assert_int_equal(here(100, 6), 6);
  assert_int_equal(here(200, 6), 0);
  lls_disk_leases_expire(&leases, 49);
  assert_int_equal(lls_block_store_held(store), 6);
  lls_disk_leases_expire(&leases, 50);
  assert_int_equal(lls_block_store_held(store), 0);
  write_over(2000);
  assert_int_equal(here(100, 6), 0);
}

static void test_blocks_of_several_count_once(void **state)
{
  (void)state;
  assert_int_equal(lease(1, 0, 100, 10, 50), 0);
  assert_int_equal(lease(2, 0, 100, 10, 60), 0);
  assert_int_equal(lls_block_store_held(store), 10);
  assert_int_equal(lease(3, 0, 100, 10, 60), 0);
  assert_int_equal(lease(4, 0, 100, 8, 60), 0);
  assert_int_equal(lls_block_store_held(store), 10);
  assert_int_equal(lease(5, 0, 500, 11, 60), -ENOSPC); /* more than the share */
  lls_disk_leases_end(&leases, 3);
  lls_disk_leases_end(&leases, 4);
  lls_disk_leases_end(&leases, 1);
  write_over(1000);
  assert_int_equal(here(100, 10), 10);
  lls_disk_leases_end(&leases, 2);
  assert_int_equal(lls_block_store_held(store), 0);
  assert_int_equal(leases.holds_left, 2 * MOST);
  lls_disk_leases_end(&leases, 2); /* it has none */
}

static void test_a_lease_takes_the_place_of_the_one_before(void **state)
{
  (void)state;
  assert_int_equal(lease(1, 0, 100, 12, 50), 0);
  assert_int_equal(lease(1, 0, 100, 15, 90), 0);
  assert_int_equal(leases.n, 1);
  assert_int_equal(lls_block_store_held(store), 15);
  lls_disk_leases_expire(&leases, 60);
  assert_int_equal(lls_block_store_held(store), 15);
  assert_int_equal(lease(1, 0, 100, MOST + 1, 90), -ENOSPC);
  assert_int_equal(lls_block_store_held(store), 0);
}

static void test_tenants_make_room(void **state)
{
  (void)state;
  assert_int_equal(lease(1, 1, 100, 8, 50), 0);
  assert_int_equal(lease(2, 1, 200, 8, 50), 0);
  assert_int_equal(lease(3, 1, 300, 8, 50), -ENOSPC); /* its own have no more than it */
  assert_int_equal(lease(4, 2, 400, 8, 50), 0);       /* the oldest of tenant 1 ends */
  write_over(1000);
  assert_int_equal(here(100, 8), 0);
  assert_int_equal(here(200, 8), 8);
  assert_int_equal(here(400, 8), 8);
  assert_int_equal(lease(5, 3, 500, 9, 50), -ENOSPC); /* none has more than that */
}

/* A block whose read failed is none, and its slot may have another one. */
static void test_a_block_that_is_lost(void **state)
{
  struct lls_block_hold hold;
  const struct lls_key key = key_of(7), none = key_of(8);
  (void)state;
  write_block(7);
  assert_false(lls_block_store_hold(store, &none, &hold));
  assert_true(lls_block_store_hold(store, &key, &hold));
  lls_block_store_let_go(store, &hold);
  write_over(1000); /* its slot has another block */
  assert_false(has(7));
  lls_block_store_let_go(store, &hold);
  assert_int_equal(lls_block_store_held(store), 0);
}

/* Against a list of what must be there. */
static void test_any_order(void **state)
{
  struct dice d = {41};
  struct {
    uint64_t first;
    uint32_t n;
    int64_t until_ns;
  } has_lease[8] = {{0}};
  uint64_t next = 1;
  (void)state;
  for (int64_t now_ns = 1; now_ns < TAP_LOTS(4000); now_ns++) {
    uint32_t s = dice(&d, 0, 7), n = dice(&d, 1, 6);
    lls_disk_leases_expire(&leases, now_ns);
    for (uint32_t i = 0; i < 8; i++)
      if (has_lease[i].until_ns <= now_ns)
        has_lease[i].n = 0;
    switch (dice(&d, 0, 3)) {
    case 0:
      lls_disk_leases_end(&leases, s + 1);
      has_lease[s].n = 0;
      break;
    case 1: { /* no tenant has two leases, so none makes room for another */
      int64_t until_ns = now_ns + dice(&d, 1, 30);
      uint64_t first = dice(&d, 0, 1) == 0 ? 100 : (next += 10);
      has_lease[s].n = 0;
      if (lease(s + 1, 0, first, n, until_ns) < 0)
        break;
      has_lease[s].first = first;
      has_lease[s].n = n;
      has_lease[s].until_ns = until_ns;
      break;
    }
    default:
      for (uint32_t i = 0; i < 2 * SLOTS; i++)
        write_block(next++);
    }
    assert_true(lls_block_store_held(store) <= MOST);
    uint64_t most = 0;
    for (uint32_t i = 0; i < 8; i++) {
      assert_int_equal(here(has_lease[i].first, has_lease[i].n), has_lease[i].n);
      most += has_lease[i].n;
    }
    assert_int_equal(leases.blocks[0], most);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_what_is_leased_stays, begin, end),
      cmocka_unit_test_setup_teardown(test_blocks_of_several_count_once, begin, end),
      cmocka_unit_test_setup_teardown(test_a_lease_takes_the_place_of_the_one_before,
                                      begin, end),
      cmocka_unit_test_setup_teardown(test_tenants_make_room, begin, end),
      cmocka_unit_test_setup_teardown(test_a_block_that_is_lost, begin, end),
      cmocka_unit_test_setup_teardown(test_any_order, begin, end),
  };
  cmocka_set_message_output(CM_OUTPUT_TAP);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
