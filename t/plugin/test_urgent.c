/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that every plan must consider: llmserve/policy/urgent.h, against a linear
 * search. */
#include "t/tap.h"

#include <llmserve/policy/ends.h>

#include "t/dice.h"

enum { N = 3000, NEAR = LLS_POL_URGENT };

struct scene {
  struct lls_request all[N];
  int64_t due[N]; /* LLS_NEVER: in no list */
  struct lls_pol_urgent u;
};

static void scene_open(struct scene *s)
{
  *s = (struct scene){0};
  assert_int_equal(lls_pol_urgent_init(&s->u, N), 0);
  for (uint32_t i = 0; i < N; i++) {
    s->all[i] = (struct lls_request){.id = i + 1, .slot = N - 1 - i};
    s->due[i] = LLS_NEVER;
  }
}

static void arrive(struct scene *s, uint32_t i, int64_t due, int32_t level)
{
  s->due[i] = due;
  lls_pol_urgent_arrived(&s->u, &s->all[i], due, level);
}

/* Counts the requests due earlier, or at the same time and arrived earlier. */
static uint32_t rank_of(const struct scene *s, uint32_t i)
{
  uint32_t n = 0;
  for (uint32_t k = 0; k < N; k++)
    n += s->due[k] != LLS_NEVER &&
         (s->due[k] < s->due[i] || (s->due[k] == s->due[i] && k < i));
  return n;
}

/* Requests that arrived in any order, while others ended, are found in order of their
 * due times, as many as fit. */
static void test_the_first_are_found(void **state)
{
  struct scene *s = *state;
  struct dice d = {11};
  scene_open(s);
  for (uint32_t i = 0; i < N; i++) {
    arrive(s, i, dice(&d, 1000, 5000), LLS_POL_URGENT_ORDINARY);
    uint32_t other = dice(&d, 0, i);
    if (i % 3 != 0 || s->due[other] == LLS_NEVER)
      continue;
    lls_pol_urgent_finished(&s->u, &s->all[other]);
    s->due[other] = LLS_NEVER;
  }
  /* places that became free are filled again */
  for (int plan = 0; plan < 2 * NEAR / 64; plan++)
    lls_pol_urgent_find(&s->u, 0, 0, N + 1);
  uint32_t n = lls_pol_urgent_find(&s->u, 0, 0, N + 1);
  assert_int_equal(n, NEAR);
  for (uint32_t i = 0; i < n; i++)
    assert_int_equal(rank_of(s, (uint32_t)s->u.found[i]->id - 1), i);
  lls_pol_urgent_free(&s->u);
}

/* A request is found while it waits: not while it runs, has a token, has ended, or its
 * time has passed; nor outside of the given ids. */
static void test_who_is_not_found(void **state)
{
  struct scene *s = *state;
  scene_open(s);
  arrive(s, 0, 100, LLS_POL_URGENT_ORDINARY);
  arrive(s, 1, 200, -10);
  arrive(s, 2, LLS_NEVER, LLS_POL_URGENT_ORDINARY);
  arrive(s, 3, INT64_MAX, -20);
  /* the second one is found once */
  assert_int_equal(lls_pol_urgent_find(&s->u, 0, 0, N), 3);
  assert_ptr_equal(s->u.found[2], &s->all[3]);
  assert_int_equal(lls_pol_urgent_find(&s->u, 0, 1, 4), 1);
  assert_ptr_equal(s->u.found[0], &s->all[1]);
  s->all[0].state = LLS_PREFILLING;
  assert_int_equal(lls_pol_urgent_find(&s->u, 0, 0, N), 2);
  s->all[0].state = LLS_WAITING; /* its prompt was dropped */
  assert_int_equal(lls_pol_urgent_find(&s->u, 0, 0, N), 3);
  assert_int_equal(lls_pol_urgent_find(&s->u, 101, 0, N), 2);
  assert_int_equal(lls_pol_urgent_find(&s->u, 0, 0, N), 2);   /* it has left the list */
  assert_int_equal(lls_pol_urgent_find(&s->u, 201, 0, N), 2); /* it still has a level */
  s->all[3].generated_tokens = 1;
  assert_int_equal(lls_pol_urgent_find(&s->u, 0, 0, N), 1);
  lls_pol_urgent_finished(&s->u, &s->all[1]);
  assert_int_equal(lls_pol_urgent_find(&s->u, 0, 0, N), 0);
  lls_pol_urgent_free(&s->u);
}

/* Another request has the slot of an ended one. */
static void test_slots_are_used_again(void **state)
{
  struct scene *s = *state;
  scene_open(s);
  arrive(s, 0, 100, -10);
  lls_pol_urgent_finished(&s->u, &s->all[0]);
  s->all[1].slot = s->all[0].slot;
  arrive(s, 1, 300, LLS_POL_URGENT_ORDINARY);
  lls_pol_urgent_finished(&s->u, &s->all[0]); /* reported twice */
  assert_int_equal(lls_pol_urgent_find(&s->u, 0, 0, N), 1);
  assert_ptr_equal(s->u.found[0], &s->all[1]);
  lls_pol_urgent_free(&s->u);
}

static const struct lls_request *find_nobody(void *context, uint64_t id)
{
  (void)context;
  (void)id;
  return NULL;
}

static void name_once(bool *named, const struct lls_request *r)
{
  assert_false(named[r->id - 1]);
  named[r->id - 1] = true;
}

/* The ends of a long queue leave places for urgent requests between them, down to a
 * quarter, and no request is named twice. */
static void test_places_of_the_ends(void **state)
{
  enum { LOOK = 400 };
  struct scene *s = *state;
  static const struct lls_request *queue[N];
  static bool named[N];
  struct lls_pol_dropped dropped;
  const struct lls_engine_caps engine = {.max_requests = N};
  const struct lls_host host = {.engine = &engine, .find = find_nobody};
  struct lls_step_view view = {.n_waiting = N, .waiting = queue};
  scene_open(s);
  assert_int_equal(lls_pol_dropped_init(&dropped, &host), 0);
  for (uint32_t i = 0; i < N; i++)
    queue[i] = &s->all[i];
  for (uint32_t i = 0; i < 150; i++)
    arrive(s, i * 20, 1000 + i, LLS_POL_URGENT_ORDINARY);
  struct lls_pol_ends e = lls_pol_ends_of(&dropped, &s->u, &view, LOOK);
  assert_in_range(e.n_first + e.n_between + e.n_last, LOOK - 20, LOOK);
  for (uint32_t i = 0; i < e.n_between; i++)
    name_once(named, e.between[i]);
  for (uint32_t i = 0; i < e.n_first; i++)
    name_once(named, e.first[i]);
  for (uint32_t i = 0; i < e.n_last; i++)
    name_once(named, e.last[i]);
  for (uint32_t i = 0; i < 150; i++)
    assert_true(named[i * 20]);
  for (uint32_t i = 0; i < N; i++)
    if (s->due[i] == LLS_NEVER)
      arrive(s, i, 5000, LLS_POL_URGENT_ORDINARY);
  e = lls_pol_ends_of(&dropped, &s->u, &view, LOOK);
  assert_in_range(e.n_first + e.n_last, LOOK / 4, LOOK / 4 + 2);
  lls_pol_dropped_free(&dropped);
  lls_pol_urgent_free(&s->u);
}

int main(void)
{
  static struct scene scene;
  void *state = &scene;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_prestate(test_the_first_are_found, state),
      cmocka_unit_test_prestate(test_who_is_not_found, state),
      cmocka_unit_test_prestate(test_slots_are_used_again, state),
      cmocka_unit_test_prestate(test_places_of_the_ends, state),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
