/* SPDX-License-Identifier: Apache-2.0 */
/* Dropped streams between the ends of a queue: llmserve/policy/ends.h. */
#include "t/tap.h"

#include <llmserve/policy/ends.h>

enum { N = 1000, LOOK = 6, ROUND = 64 };

struct scene {
  struct lls_request all[N];
  const struct lls_request *queue[N];
  struct lls_step_view view;
  struct lls_engine_caps engine;
  struct lls_host host;
  struct lls_pol_dropped dropped;
};

static const struct lls_request *find(void *context, uint64_t id)
{
  const struct scene *s = context;
  for (uint32_t i = 0; i < N; i++)
    if (s->all[i].id == id && s->all[i].state != LLS_FINISHED)
      return &s->all[i];
  return NULL;
}

/* No request has generated a token; ids are places in the queue, from 1. */
static void scene_open(struct scene *s)
{
  *s = (struct scene){.engine = {.max_requests = N}};
  s->host = (struct lls_host){.context = s, .engine = &s->engine, .find = find};
  for (uint32_t i = 0; i < N; i++) {
    s->all[i] = (struct lls_request){.id = i + 1, .slot = N - 1 - i};
    s->queue[i] = &s->all[i];
  }
  s->view = (struct lls_step_view){.n_waiting = N, .waiting = s->queue};
  assert_int_equal(lls_pol_dropped_init(&s->dropped, &s->host), 0);
}

static struct lls_pol_ends look(struct scene *s)
{
  return lls_pol_ends_of(&s->dropped, NULL, &s->view, LOOK);
}

static void take_off(struct scene *s, uint64_t id)
{
  struct lls_plan_item items[2];
  struct lls_plan plan = {.items = items, .max_items = 2};
  lls_plan_run(&plan, &s->all[N - 1], 1);
  lls_plan_preempt(&plan, &s->all[id - 1], LLS_PREEMPT_RECOMPUTE);
  lls_pol_dropped_planned(&s->dropped, &plan);
}

static void test_ends(void **state)
{
  struct scene *s = *state;
  scene_open(s);
  struct lls_pol_ends e = look(s);
  assert_int_equal(e.n_first, 3);
  assert_int_equal(e.n_between, 0);
  assert_int_equal(e.n_last, 3);
  assert_int_equal(e.first[2]->id, 3);
  assert_int_equal(e.last[0]->id, N - 2);
  s->view.n_waiting = LOOK;
  e = look(s);
  assert_int_equal(e.n_first, LOOK);
  assert_int_equal(e.n_between + e.n_last, 0);
  lls_pol_dropped_free(&s->dropped);
}

/* A request preempted by a plan is found at once and once, if it is a stream and
 * between the ends; not while it runs again, nor afterwards, unless it is preempted
 * again. */
static void test_taken_off(void **state)
{
  struct scene *s = *state;
  scene_open(s);
  s->all[499].generated_tokens = s->all[2].generated_tokens =
      s->all[N - 3].generated_tokens = 1;
  take_off(s, 500);
  take_off(s, 500);
  take_off(s, 600);   /* it never generated a token */
  take_off(s, 3);     /* it is at an end, and considered in any case */
  take_off(s, N - 2); /* likewise */
  struct lls_pol_ends e = look(s);
  assert_int_equal(e.n_between, 1);
  assert_ptr_equal(e.between[0], &s->all[499]);
  assert_int_equal(look(s).n_between, 1);
  s->all[499].state = LLS_DECODING;
  assert_int_equal(look(s).n_between, 0);
  s->all[499].state = LLS_WAITING;
  assert_int_equal(look(s).n_between, 0);
  take_off(s, 500);
  assert_int_equal(look(s).n_between, 1);
  s->all[499].state = LLS_FINISHED;
  assert_int_equal(look(s).n_between, 0);
  lls_pol_dropped_free(&s->dropped);
}

/* Another request has its slot. */
static void test_slots_are_used_again(void **state)
{
  struct scene *s = *state;
  scene_open(s);
  s->all[499].generated_tokens = s->all[599].generated_tokens = 1;
  take_off(s, 500);
  s->all[499].state = LLS_FINISHED;
  s->all[599].slot = s->all[499].slot;
  take_off(s, 600);
  struct lls_pol_ends e = look(s);
  assert_int_equal(e.n_between, 1);
  assert_ptr_equal(e.between[0], &s->all[599]);
  lls_pol_dropped_free(&s->dropped);
}

/* Requests dropped by other parts: found each time their turn comes. */
static void test_dropped_by_others(void **state)
{
  struct scene *s = *state;
  scene_open(s);
  s->all[499].generated_tokens = 1; /* between the ends: 496 before it, 498 after it */
  for (int i = 0; i < 496 / ROUND; i++)
    assert_int_equal(look(s).n_between, 0);
  assert_int_equal(look(s).n_between, 1);
  s->all[499].state = LLS_DECODING;
  assert_int_equal(look(s).n_between, 0);
  s->all[499].state = LLS_WAITING;
  int looks = 1;
  while (look(s).n_between == 0)
    looks++;
  assert_in_range(looks, 994 / ROUND - 2, 994 / ROUND + 1);
  lls_pol_dropped_free(&s->dropped);
}

/* More than fit in a plan: each gets its turn, none twice in one; those that run again
 * get none. */
static void test_turns(void **state)
{
  enum { FIRST = 300, DROPPED = 150 };
  struct scene *s = *state;
  uint32_t taken[N] = {0};
  scene_open(s);
  for (uint32_t i = FIRST; i < FIRST + DROPPED; i++) {
    s->all[i].generated_tokens = 1;
    take_off(s, i + 1);
  }
  for (int plan = 0; plan < 6; plan++) {
    for (uint32_t i = FIRST; plan == 3 && i < FIRST + DROPPED; i += 2)
      s->all[i].state = LLS_DECODING;
    struct lls_pol_ends e = look(s);
    assert_in_range(e.n_between, 1, ROUND);
    for (uint32_t i = 0; i < e.n_between; i++)
      taken[e.between[i]->id - 1] += plan < 3 ? 1 : 100;
    for (uint32_t i = 0; plan == 2 && i < N; i++)
      assert_int_equal(taken[i], i >= FIRST && i < FIRST + DROPPED);
  }
  for (uint32_t i = 0; i < N; i++)
    if (i >= FIRST && i < FIRST + DROPPED && i % 2 == 1)
      assert_in_range(taken[i], 101, 301);
    else
      assert_in_range(taken[i], 0, 1);
  lls_pol_dropped_free(&s->dropped);
}

int main(void)
{
  static struct scene scene;
  void *state = &scene;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_prestate(test_ends, state),
      cmocka_unit_test_prestate(test_taken_off, state),
      cmocka_unit_test_prestate(test_slots_are_used_again, state),
      cmocka_unit_test_prestate(test_dropped_by_others, state),
      cmocka_unit_test_prestate(test_turns, state),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
