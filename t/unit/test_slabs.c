/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allocator of blocks of several sizes (policy/slabs.h): random calls against a
 * model that knows the contents of every unit, for the ratios of sizes of real models;
 * and the amount of moving in a pool that is always full.
 */
#include "t/unit/slabs_rig.h"

#include "t/dice.h"

static const struct ratio {
  const char *name;
  uint32_t n_units, n_classes, units[3];
} ratios[] = {
    {"one class", 60, 1, {3}},
    {"equal blocks in two", 96, 2, {6, 2}},
    {"1:10", 205, 2, {1, 10}},
    {"5:983", 11 * 983, 2, {5, 983}},
    {"three classes", 777, 3, {2, 5, 37}},
    {"no multiple", 230, 2, {7, 23}},
};

/* Takes up to `most` blocks in one call; with `fits` all of them must be available. */
static void take_some(struct rig *r, struct dice *d, uint32_t most)
{
  uint32_t blocks[LLS_POL_MAX_CLASSES] = {0}, units = 0;
  for (uint32_t kind = 0; kind < r->s.n_classes; kind++) {
    uint32_t bound = r->s.classes[kind].per_slab > 1 ? most : 2;
    blocks[kind] = dice(d, 0, bound);
    units += blocks[kind] * lls_pol_slabs_units(&r->s, kind);
  }
  bool fits = lls_pol_slabs_fits(&r->s, blocks);
  if (units <= lls_pol_slabs_available(&r->s))
    assert_true(fits);
  rig_begin(r);
  bool got = true;
  for (uint32_t kind = 0; kind < r->s.n_classes; kind++)
    for (uint32_t i = 0; i < blocks[kind] && got; i++)
      got = rig_take(r, kind);
  assert_true(r->moves ? got == fits : !got || fits);
  if (!got || dice(d, 0, 4) == 0)
    rig_rollback(r);
  else
    rig_commit(r);
}

static void one_verb(struct rig *r, struct dice *d)
{
  uint32_t block = r->n_blocks > 0 ? dice(d, 0, r->n_blocks - 1) : 0;
  switch (dice(d, 0, 5)) {
  case 0:
  case 1:
    take_some(r, d, 12);
    break;
  case 2:
    if (r->n_blocks > 0 && r->blocks[block].holders < 4)
      rig_hold(r, block);
    break;
  default:
    if (r->n_blocks > 0 && r->blocks[block].holders > 0)
      rig_let_go(r, block, dice(d, 0, 2) > 0);
  }
}

static void play(const struct ratio *ratio, bool moves, uint64_t seed)
{
  struct rig r;
  struct dice d = {seed};
  rig_make(&r, ratio->n_units, ratio->units, ratio->n_classes, moves);
  for (uint32_t i = 0; i < TAP_LOTS(500); i++) {
    one_verb(&r, &d);
    rig_check(&r);
  }
  for (uint32_t i = r.n_blocks; i-- > 0;) {
    while (r.blocks[i].holders > 1)
      rig_let_go(&r, i, false);
    if (r.blocks[i].holders == 1)
      rig_let_go(&r, i, true);
  }
  rig_check(&r);
  assert_int_equal(r.s.n_free_slabs * r.s.slab_units + rig_kept_slabs(&r),
                   lls_pol_slabs_total(&r.s));
  rig_end(&r);
}

static void test_what_fits_can_be_taken(void **state)
{
  (void)state;
  for (uint32_t i = 0; i < sizeof ratios / sizeof *ratios; i++)
    for (uint64_t seed = 1; seed <= 4; seed++)
      play(&ratios[i], true, seed);
}

/* Nothing is copied on the host: slabs are emptied only if no block in them is held. */
static void test_without_moves_too(void **state)
{
  (void)state;
  for (uint32_t i = 0; i < sizeof ratios / sizeof *ratios; i++)
    for (uint64_t seed = 1; seed <= 4; seed++)
      play(&ratios[i], false, seed);
}

/* A block that a kept one makes room for changes three counts: its slab, of which it is
 * all, is neither freed nor opened. */
static void test_a_whole_slab_is_reused(void **state)
{
  (void)state;
  static const uint32_t units[] = {1};
  struct rig r;
  rig_make(&r, 8, units, 1, false);
  for (uint32_t i = 0; i < 8; i++)
    assert_true(rig_take(&r, 0));
  for (uint32_t i = 0; i < 8; i++)
    rig_let_go(&r, i, true);
  uint32_t since, oldest = rig_victim(&r, 0, &since);
  rig_begin(&r);
  assert_int_equal(lls_pol_slabs_take(&r.s, 0), oldest);
  assert_int_equal(r.journal.n, 3);
  assert_int_equal(lls_pol_slabs_holders(&r.s, oldest), 1);
  assert_int_equal(r.n_dropped, 1);
  assert_non_null(rig_audit(&r));
  rig_rollback(&r);
  rig_end(&r);
}

static void test_a_state_is_taken_over(void **state)
{
  (void)state;
  static const uint32_t units[] = {2, 7};
  struct rig a, b;
  struct dice d = {5};
  rig_make(&a, 140, units, 2, true);
  rig_make(&b, 140, units, 2, true);
  for (uint32_t i = 0; i < 300; i++)
    one_verb(&a, &d);
  rig_hand_over(&a, &b);
  assert_string_equal(rig_audit(&a), rig_audit(&b));
  rig_end(&a);
  rig_end(&b);
}

/* Blocks of another manager's sequences are claimed one by one. */
static void test_blocks_are_claimed(void **state)
{
  (void)state;
  static const uint32_t units[] = {2, 7};
  struct rig r;
  rig_make(&r, 30, units, 2, true);
  assert_int_equal(r.s.slab_units, 7);
  assert_true(lls_pol_slabs_claim(&r.s, 0, 9));
  assert_false(lls_pol_slabs_claim(&r.s, 0, 9));  /* has a holder */
  assert_false(lls_pol_slabs_claim(&r.s, 0, 10)); /* begins no block */
  assert_false(lls_pol_slabs_claim(&r.s, 1, 7));  /* the slab has another class */
  assert_false(lls_pol_slabs_claim(&r.s, 0, 13)); /* would cross the slab's end */
  assert_true(lls_pol_slabs_claim(&r.s, 1, 21));
  assert_false(lls_pol_slabs_claim(&r.s, 1, 28)); /* behind the last slab */
  lls_pol_slabs_settle(&r.s);
  assert_non_null(rig_audit(&r));
  assert_int_equal(r.s.n_free_slabs, 2);
  assert_int_equal(lls_pol_slabs_take(&r.s, 0), 7); /* the slab in use comes first */
  assert_int_equal(lls_pol_slabs_holders(&r.s, 9), 1);
  rig_end(&r);
}

/* The audit reports each wrong word, and none makes it read out of bounds. */
static void test_audit_sees_what_is_wrong(void **state)
{
  (void)state;
  static const uint32_t units[] = {1, 10};
  struct rig r;
  struct dice d = {3};
  rig_make(&r, 100, units, 2, true);
  for (uint32_t i = 0; i < 200; i++)
    one_verb(&r, &d);
  uint32_t *words = (uint32_t *)(void *)r.s.slabs, seen = 0;
  uint32_t n = (uint32_t)(r.s.n_slabs * sizeof *r.s.slabs / sizeof *words);
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t wrong = 0; wrong < 3; wrong++) {
      uint32_t kept = words[i];
      words[i] = wrong == 0 ? kept + 1 : wrong == 1 ? 12345 : LLS_POL_NIL;
      seen += words[i] != kept && rig_audit(&r) == NULL;
      words[i] = kept;
    }
  assert_non_null(rig_audit(&r));
  assert_true(seen > n); /* links of slabs on no list are not looked at */
  rig_end(&r);
}

/* ---- how much is moved ---------------------------------------------------------- */

/* Sequences of a state and of blocks of tokens, of Qwen3.6-35B's sizes, in a pool that is
 * always full; at their end 7 of 10 blocks and half of the states are kept. */
struct load {
  struct rig rig;
  struct dice d;
  uint64_t taken, sequences;
  struct run {
    uint32_t state, n, target, *blocks;
  } runs[512];
  uint32_t n_runs;
};

/* With mean 1, in thousandths. */
static uint32_t exponential(struct dice *d)
{
  uint32_t n = 0;
  while (dice(d, 0, 999) != 0)
    n++;
  return n;
}

static bool grow(struct load *l, struct run *run)
{
  if (!rig_take(&l->rig, 0))
    return false;
  run->blocks[run->n++] = rig_name(&l->rig, l->rig.n_blocks - 1);
  l->taken++;
  return true;
}

static bool admit(struct load *l, uint32_t mean)
{
  uint32_t n = mean * exponential(&l->d) / 16000, needed[LLS_POL_MAX_CLASSES] = {0};
  n = n < 4 ? 4 : n;
  needed[0] = n + 8 * l->n_runs;
  needed[1] = 1;
  if (l->n_runs == 512 || !lls_pol_slabs_fits(&l->rig.s, needed))
    return false;
  struct run *run = &l->runs[l->n_runs++];
  *run = (struct run){.target = n + dice(&l->d, 4, 60)};
  run->blocks = calloc(run->target + 1, sizeof *run->blocks);
  assert_true(rig_take(&l->rig, 1));
  run->state = rig_name(&l->rig, l->rig.n_blocks - 1);
  l->sequences++;
  while (run->n < n)
    assert_true(grow(l, run));
  return true;
}

static void finish(struct load *l, uint32_t i)
{
  struct run *run = &l->runs[i];
  for (uint32_t b = run->n; b-- > 0;)
    rig_let_go(&l->rig, rig_find(&l->rig, run->blocks[b]), dice(&l->d, 0, 9) < 7);
  rig_let_go(&l->rig, rig_find(&l->rig, run->state), dice(&l->d, 0, 1));
  free(run->blocks);
  l->runs[i] = l->runs[--l->n_runs];
}

static void play_load(const char *name, const uint32_t *means, uint32_t n_means)
{
  static const uint32_t units[] = {5, 983};
  static struct load l;
  uint32_t ticks = TAP_LOTS(90);
  l = (struct load){.d = {7}};
  rig_make(&l.rig, 120 * 983, units, 2, true);
  rig_commit_at_once(&l.rig);
  for (uint32_t t = 0; t < ticks; t++) {
    while (admit(&l, means[t * n_means / ticks]))
      ;
    for (uint32_t i = l.n_runs; i-- > 0;) {
      assert_true(grow(&l, &l.runs[i]));
      if (l.runs[i].n >= l.runs[i].target)
        finish(&l, i);
    }
  }
  double share = 100.0 * (double)l.rig.n_moved / (double)(l.taken + 196 * l.sequences);
  print_message(
      "# %s: %.2f %% of the blocks taken are moved, %llu of %llu, in %u steps\n", name,
      share, (unsigned long long)l.rig.n_moved,
      (unsigned long long)(l.taken + 196 * l.sequences), ticks);
  assert_true(share < 6);
  while (l.n_runs > 0)
    finish(&l, 0);
  rig_check(&l.rig);
  rig_end(&l.rig);
}

static void test_little_is_moved(void **state)
{
  (void)state;
  play_load("1k tokens", (const uint32_t[]){1024}, 1);
  play_load("8k tokens", (const uint32_t[]){8192}, 1);
  play_load("32k tokens", (const uint32_t[]){32768}, 1);
  play_load("1k and 16k in turn",
            (const uint32_t[]){1024, 16384, 1024, 16384, 1024, 16384}, 6);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_fits_can_be_taken),
      cmocka_unit_test(test_without_moves_too),
      cmocka_unit_test(test_a_whole_slab_is_reused),
      cmocka_unit_test(test_a_state_is_taken_over),
      cmocka_unit_test(test_blocks_are_claimed),
      cmocka_unit_test(test_audit_sees_what_is_wrong),
      cmocka_unit_test(test_little_is_moved),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
