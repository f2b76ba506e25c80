/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of requests ordered by id hold the same as an array that is searched linearly,
 * under random insertions and removals: in the middle, as policies do, and at the ends,
 * so often that the list wraps around in its buffer many times.
 */
#include "t/tap.h"

#include <string.h>

#include "core/instance/request_list.h"

#define CAPACITY 37
#define CHANGES  20000

static struct lls_request requests[4 * CAPACITY];
static bool in_list[4 * CAPACITY];

static bool is_right(const struct lls_request_list *l)
{
  uint32_t at = 0;
  for (uint32_t i = 0; i < 4 * CAPACITY; i++)
    if (in_list[i] && (at >= l->n || l->items[at++] != &requests[i]))
      return false;
  return at == l->n;
}

static uint32_t draw(uint64_t *state, uint32_t n)
{
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*state >> 33) % n;
}

static void change(struct lls_request_list *l, uint32_t i)
{
  if (in_list[i])
    lls_request_list_remove(l, &requests[i]);
  else if (l->n < l->capacity)
    lls_request_list_insert(l, &requests[i]);
  else
    return;
  in_list[i] = !in_list[i];
}

static void test_anywhere(void **state_of)
{
  (void)state_of;
  struct lls_request_list l;
  uint64_t state = 1;
  uint32_t wrong = 0;
  assert_int_equal(lls_request_list_init(&l, CAPACITY), 0);
  memset(in_list, 0, sizeof in_list);
  for (uint32_t k = 0; k < CHANGES; k++) {
    change(&l, draw(&state, 4 * CAPACITY));
    wrong += !is_right(&l);
  }
  assert_int_equal(wrong, 0);
  lls_request_list_free(&l);
}

/* As a queue: the last is inserted, the first removed, and now and then one after the
 * first. */
static void test_as_a_queue(void **state)
{
  (void)state;
  struct lls_request_list l;
  uint32_t wrong = 0;
  assert_int_equal(lls_request_list_init(&l, CAPACITY), 0);
  for (uint64_t id = 0; id < CHANGES; id++) {
    struct lls_request *r = &requests[id % (4 * CAPACITY)];
    r->id = id;
    lls_request_list_insert(&l, r);
    if (l.n == CAPACITY)
      lls_request_list_remove(&l, l.items[id % 5 == 0 ? CAPACITY / 3 : 0]);
    wrong += l.items[l.n - 1] != r;
    for (uint32_t i = 1; i < l.n; i++)
      wrong += l.items[i - 1]->id >= l.items[i]->id;
  }
  assert_int_equal(wrong, 0);
  assert_int_equal(l.n, CAPACITY - 1);
  lls_request_list_free(&l);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_anywhere),
      cmocka_unit_test(test_as_a_queue),
  };
  for (uint32_t i = 0; i < 4 * CAPACITY; i++)
    requests[i].id = i;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
