/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The usual policy of cache managers (policy/side.h) over groups of every kind that it
 * keeps, three ratios of block sizes, with and without a host: random steps under a
 * memory that knows what every slot holds (side_rig.h). Whatever is read is what was
 * computed, a rollback restores all, another generation takes over, nothing is lost.
 */
#include "t/unit/side_rig.h"

#define FORM(UNITS_OF_BLOCK)                                                             \
  (const struct lls_group_form[1])                                                       \
  {                                                                                      \
    {                                                                                    \
      .form = LLS_FORM_KV, .block_units = (UNITS_OF_BLOCK),                              \
      .flags = LLS_FORM_WRITTEN | LLS_FORM_READ, .ratio = 1                              \
    }                                                                                    \
  }
#define FULL(U)                                                                          \
  {                                                                                      \
    .size = sizeof(struct lls_group), .kind = LLS_GROUP_FULL, .n_forms = 1,              \
    .forms = FORM(U)                                                                     \
  }
#define WINDOW(W, U)                                                                     \
  {                                                                                      \
    .size = sizeof(struct lls_group), .kind = LLS_GROUP_WINDOW, .window = (W),           \
    .n_forms = 1, .forms = FORM(U)                                                       \
  }
/* whose full blocks may be of fewer units */
#define SMALLER(U, SMALL)                                                                \
  {                                                                                      \
    .size = sizeof(struct lls_group), .kind = LLS_GROUP_FULL, .n_forms = 2,              \
    .forms = (const struct lls_group_form[2])                                            \
    {                                                                                    \
      {.form = LLS_FORM_KV, .block_units = (U)},                                         \
      {                                                                                  \
        .form = LLS_FORM_INT8, .block_units = (SMALL)                                    \
      }                                                                                  \
    }                                                                                    \
  }
#define CHUNK(W, U)                                                                      \
  {                                                                                      \
    .size = sizeof(struct lls_group), .kind = LLS_GROUP_CHUNK, .window = (W),            \
    .n_forms = 1, .forms = FORM(U)                                                       \
  }

static const struct set {
  uint32_t n;
  struct lls_group groups[3];
  uint32_t full[LLS_POL_TIERS]; /* forms of full blocks, by tier */
} sets[] = {
    {1, {FULL(2)}, {0}},
    {2, {FULL(2), WINDOW(17, 2)}, {0}},
    {2, {FULL(1), WINDOW(17, 10)}, {0}},
    {2, {FULL(5), WINDOW(9, 31)}, {0}},
    {3, {FULL(3), WINDOW(10, 4), CHUNK(16, 9)}, {0}},
    {1, {WINDOW(13, 3)}, {0}},
    {2, {WINDOW(13, 3), WINDOW(30, 2)}, {0}},
    {1, {SMALLER(2, 1)}, {LLS_FORM_NONE, LLS_FORM_INT8}},
    {1, {SMALLER(2, 1)}, {LLS_FORM_INT8, LLS_FORM_INT8}},
    {1, {SMALLER(7, 4)}, {LLS_FORM_INT8, LLS_FORM_INT8}},
    {1, {SMALLER(4, 3)}, {LLS_FORM_INT8, LLS_FORM_INT8}},
    {1, {SMALLER(8, 5)}, {LLS_FORM_INT8, LLS_FORM_INT8}},
    {2, {SMALLER(5, 3), WINDOW(17, 10)}, {LLS_FORM_INT8, LLS_FORM_INT8}},
};

static void compare(struct rig *r, char *before)
{
  char *now = rig_audit(r);
  assert_string_equal(now, before);
  free(now);
  free(before);
}

/* Room for some tokens, if the units that `need` says are there for sure. */
static void try_to_run(struct rig *r, struct rig_request *q)
{
  struct lls_pol_side *m = r->side;
  struct lls_prefix prefix = {.size = sizeof prefix};
  struct lls_cache_info info = {.size = sizeof info};
  struct lls_need need = {.size = sizeof need};
  struct lls_capacity capacity = {.size = sizeof capacity};
  uint32_t mark = lls_pol_face_mark(m);
  char *before = rig_audit(r);
  lls_pol_face_info(m, &q->view, &info);
  if (info.residency == LLS_RESIDENT_NONE) {
    assert_int_equal(lls_pol_face_prefix(m, &q->view, true, &prefix),
                     m->shares ? 0 : -ENOTSUP);
    assert_true(prefix.tokens < lls_request_length(&q->view));
    r->hits += prefix.tokens > 0;
    r->from_host += prefix.on_host > 0;
    assert_true(prefix.on_host <= prefix.tokens);
    lls_pol_face_info(m, &q->view, &info);
    assert_int_equal(info.cached_tokens, prefix.tokens);
  }
  q->run = dice(&r->dice, 1, lls_request_length(&q->view) - info.cached_tokens);
  q->run = lls_pol_min(q->run, r->engine.max_step_tokens);
  lls_pol_face_need(m, &q->view, q->run, 0, &need);
  lls_pol_face_capacity(m, LLS_TIER_DEVICE, &capacity);
  int rc = lls_pol_face_reserve(m, &q->view, q->run, 0, 0);
  if (need.new_units + need.restore_units <= capacity.free_units && m->lacking == 0)
    assert_int_equal(rc, LLS_RESERVE_OK);
  if (rc == LLS_RESERVE_OK && dice(&r->dice, 0, 5) > 0) {
    free(before);
    return;
  }
  assert_int_equal(lls_pol_face_rollback(m, mark), 0);
  q->run = 0;
  compare(r, before);
}

static void preempt(struct rig *r, struct rig_request *q)
{
  uint32_t mode = dice(&r->dice, 0, 2) ? LLS_PREEMPT_SWAP : LLS_PREEMPT_RECOMPUTE;
  int rc = lls_pol_face_preempt(r->side, &q->view, mode);
  if (mode == LLS_PREEMPT_SWAP && r->geometry.host_units == 0)
    assert_int_equal(rc, -ENOTSUP);
  else
    assert_true(rc == 0 || rc == -ENOSPC);
  r->swaps += rc == 0 && mode == LLS_PREEMPT_SWAP;
}

/* A session keeps what a request's keys have, for some steps. */
static void retain(struct rig *r, const struct rig_request *q)
{
  const struct lls_retained what = {.size = sizeof what,
                                    .tier = dice(&r->dice, 0, r->side->n_tiers - 1),
                                    .session = dice(&r->dice, 1, 4),
                                    .keys = q->keys,
                                    .n_keys = q->view.n_keys,
                                    .until_ns = r->now_ns + dice(&r->dice, 0, 20)};
  char *before = rig_audit(r);
  uint32_t mark = lls_pol_face_mark(r->side);
  bool brings = dice(&r->dice, 0, 1) && r->side->n_tiers > 1;
  int rc =
      brings ? lls_pol_face_fetch(r->side, &what) : lls_pol_face_retain(r->side, &what);
  assert_true(rc >= 0 || rc == -ENOSPC || rc == -ENOBUFS || rc == -ENOTSUP);
  r->retained += rc > 0;
  free(rig_audit(r));
  if (rc >= 0 && dice(&r->dice, 0, 3) > 0) {
    free(before);
    return;
  }
  assert_int_equal(lls_pol_face_rollback(r->side, mark), 0);
  compare(r, before);
}

static void finish_step(struct rig *r)
{
  if (dice(&r->dice, 0, 2) > 0)
    lls_pol_side_to_host(r->side, dice(&r->dice, 1, 40));
  assert_int_equal(lls_pol_face_commit(r->side), 0);
  rig_copy(r);
  for (uint32_t i = 0; i < REQUESTS; i++) {
    struct rig_request *q = &r->requests[i];
    struct lls_cache_info info = {.size = sizeof info};
    if (!q->alive || q->run == 0)
      continue;
    lls_pol_face_info(r->side, &q->view, &info);
    rig_compute(r, q, info.cached_tokens);
    q->view.cached_tokens = info.cached_tokens;
    q->table_sum = rig_table_sum(&q->table);
  }
  for (uint32_t i = 0; i < REQUESTS; i++) {
    struct rig_request *q = &r->requests[i];
    if (!q->alive || q->run == 0)
      continue;
    assert_int_equal(q->table_sum, rig_table_sum(&q->table)); /* nothing has moved */
    q->view.cached_tokens += q->run;
    if (q->view.cached_tokens == lls_request_length(&q->view)) {
      q->view.generated_tokens++;
      q->view.n_keys = lls_request_length(&q->view) / TOKENS;
    }
    lls_pol_face_computed(r->side, &q->view, q->view.cached_tokens);
  }
}

static void step(struct rig *r)
{
  uint32_t touched = 0; /* by slot: a plan names a request once */
  r->now_ns++;
  assert_int_equal(lls_pol_face_begin(r->side), 0);
  for (uint32_t i = 0; i < REQUESTS; i++)
    r->requests[i].run = 0;
  if (dice(&r->dice, 0, 2) == 0)
    retain(r, &r->requests[dice(&r->dice, 0, REQUESTS - 1)]);
  for (uint32_t n = 0; n < REQUESTS; n++) {
    struct rig_request *q = &r->requests[dice(&r->dice, 0, REQUESTS - 1)];
    if (!q->alive || q->run > 0 || touched & 1u << q->view.slot)
      continue;
    if (dice(&r->dice, 0, 5) > 0)
      try_to_run(r, q);
    else
      preempt(r, q);
    touched |= 1u << q->view.slot;
  }
  for (uint32_t i = 0; i < REQUESTS; i++) { /* the core's view of what was dropped */
    struct lls_cache_info info = {.size = sizeof info};
    struct rig_request *q = &r->requests[i];
    if (q->alive && lls_pol_face_info(r->side, &q->view, &info) == 0)
      q->view.cached_tokens = info.cached_tokens;
  }
  finish_step(r);
}

/* Requests come and go. */
static void change(struct rig *r)
{
  struct rig_request *q = &r->requests[dice(&r->dice, 0, REQUESTS - 1)];
  if (!q->alive)
    rig_submit(r, q);
  else if (lls_request_length(&q->view) >= CONTEXT - 1 || dice(&r->dice, 0, 4) == 0)
    rig_release(r, q, dice(&r->dice, 0, 3) > 0);
}

/* Requests that may not run on would be longer than a context. */
static void end_the_long(struct rig *r)
{
  for (uint32_t i = 0; i < REQUESTS; i++)
    if (r->requests[i].alive && lls_request_length(&r->requests[i].view) >= CONTEXT - 1)
      rig_release(r, &r->requests[i], true);
}

static void hand_over(struct rig *r)
{
  struct lls_blob blob;
  char *before = rig_audit(r);
  assert_int_equal(lls_pol_side_export(r->side, &blob), 0);
  rig_end(r);
  r->side = rig_side(r);
  assert_int_equal(lls_pol_side_import(r->side, &blob), 0);
  free(blob.data);
  compare(r, before);
}

/* How many tokens of the request's keys need not be computed. */
static uint32_t probe(struct rig *r, struct rig_request *q)
{
  struct lls_prefix prefix = {.size = sizeof prefix};
  q->view.prompt_tokens = CONTEXT;
  q->view.generated_tokens = q->view.cached_tokens = 0;
  q->view.keys = q->keys;
  q->view.n_keys = KEYS;
  assert_int_equal(lls_pol_face_admit(r->side, &q->view), 0);
  assert_int_equal(lls_pol_face_prefix(r->side, &q->view, false, &prefix),
                   r->side->shares ? 0 : -ENOTSUP);
  rig_release(r, q, true);
  return prefix.tokens;
}

/* The process ends and begins again, with the kept blocks and what they hold. Returns
 * the tokens that are found again. */
static uint32_t restart(struct rig *r, bool loses)
{
  static struct rig_slot before[UNITS][TOKENS];
  struct lls_kept_block blocks[UNITS];
  uint32_t units[UNITS], hits[REQUESTS], found = 0;
  for (uint32_t i = 0; i < REQUESTS; i++)
    hits[i] = probe(r, &r->requests[i]);
  size_t n = lls_pol_face_kept(r->side, blocks, UNITS);
  for (size_t i = 0; i < n; i++)
    units[i] = blocks[i].unit;
  memcpy(before, r->memory[LLS_TIER_DEVICE], sizeof before);
  memset(r->owner, 0xff, sizeof r->owner);
  rig_end(r);
  r->side = rig_side(r);
  assert_int_equal(lls_pol_face_adopt(r->side, blocks, n), n);
  free(rig_audit(r));
  for (size_t i = 0; i < n; i++) {
    rig_own(r, LLS_TIER_DEVICE, blocks[i].group, blocks[i].form, blocks[i].unit);
    memcpy(r->memory[LLS_TIER_DEVICE][blocks[i].unit], before[units[i]],
           sizeof before[0]);
  }
  for (uint32_t i = 0; i < REQUESTS; i++) {
    uint32_t now = probe(r, &r->requests[i]);
    /* neither small ones nor those on the host are kept */
    assert_true(loses ? now <= hits[i] : now == hits[i]);
    found += now;
  }
  return found;
}

struct seen {
  uint32_t hits, swaps, moves, evicted, made_small, found, retained, from_host;
};

static void play_for(struct rig *r, uint32_t steps)
{
  for (uint32_t i = 0; i < steps; i++) {
    change(r);
    step(r);
    end_the_long(r);
    free(rig_audit(r));
    if (i % 40 == 39)
      hand_over(r);
  }
  for (uint32_t i = 0; i < REQUESTS; i++)
    if (r->requests[i].alive)
      rig_release(r, &r->requests[i], true);
}

static void play(const struct set *set, uint32_t host_units, uint64_t seed,
                 struct seen *seen)
{
  static struct rig r;
  rig_make(&r, set->groups, set->n, host_units, set->full, seed);
  r.side->most_leaving = r.most_leaving = seed % 2 == 0 ? UINT32_MAX : 0;
  play_for(&r, TAP_LOTS(150));
  uint32_t found =
      restart(&r, host_units > 0 || set->full[LLS_TIER_DEVICE] != LLS_FORM_NONE);
  play_for(&r, 20); /* what was found again is what was computed */
  r.now_ns += 100;
  assert_int_equal(lls_pol_face_begin(r.side), 0);
  assert_int_equal(lls_pol_face_commit(r.side), 0);
  assert_int_equal(r.side->leases.n, 0);
  for (uint32_t tier = 0; tier < r.side->n_tiers; tier++)
    for (uint32_t i = 0; i < r.side->slabs[tier].n_classes; i++)
      assert_int_equal(r.side->slabs[tier].classes[i].n_held, 0);
  seen->hits += r.hits;
  seen->swaps += r.swaps;
  seen->moves += r.moves;
  seen->evicted += r.evicted;
  seen->made_small += r.made_small;
  seen->retained += r.retained;
  seen->from_host += r.from_host;
  seen->found += set->n > 1 && found > 0;
  rig_end(&r);
}

static void test_on_the_device_alone(void **state)
{
  struct seen seen = {0};
  (void)state;
  for (uint32_t i = 0; i < sizeof sets / sizeof *sets; i++)
    for (uint64_t seed = 1; seed <= 3; seed++)
      play(&sets[i], 0, seed, &seen);
  assert_true(seen.hits > 100 && seen.moves > 100 && seen.evicted > 100 &&
              seen.made_small > 100 && seen.retained > 20 && seen.found >= 10);
}

static void test_with_a_host(void **state)
{
  struct seen seen = {0};
  (void)state;
  for (uint32_t i = 0; i < sizeof sets / sizeof *sets; i++)
    for (uint64_t seed = 1; seed <= 3; seed++)
      play(&sets[i], 120 + 40 * (uint32_t)seed, seed, &seen);
  assert_true(seen.hits > 100 && seen.swaps > 100 && seen.moves > 100 &&
              seen.made_small > 100 && seen.retained > 20 &&
              seen.from_host > TAP_LOTS(40));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_on_the_device_alone),
      cmocka_unit_test(test_with_a_host),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
