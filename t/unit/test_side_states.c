/* SPDX-License-Identifier: Apache-2.0 */
/*
 * States in the usual policy of cache managers (policy/side.h): where checkpoints are
 * made, who finds them, and that a step never writes over one. Random steps over groups
 * with states are tools/plugin-check's, with the manager `paged`.
 */
#include "t/unit/side_rig.h"

static const struct lls_group_form kv = {.form = LLS_FORM_KV, .block_units = 2};
static const struct lls_group_form state = {.form = LLS_FORM_STATE, .block_units = 7};
static const struct lls_group groups[] = {
    {.size = sizeof groups[0], .kind = LLS_GROUP_FULL, .n_forms = 1, .forms = &kv},
    {.size = sizeof groups[0], .kind = LLS_GROUP_STATE, .n_forms = 1, .forms = &state},
};

/* A request of `prompt` tokens, like all others before its token `alike`. */
static struct rig_request *submit(struct rig *r, uint32_t prompt, uint32_t alike)
{
  struct rig_request *q = &r->requests[r->ids % REQUESTS];
  uint64_t id = ++r->ids;
  assert_false(q->alive);
  *q = (struct rig_request){.alive = true};
  q->view = (struct lls_request){.id = id,
                                 .slot = (uint32_t)(q - r->requests),
                                 .prompt_tokens = prompt,
                                 .n_keys = prompt / TOKENS,
                                 .keys = q->keys};
  for (uint32_t i = 0; i < KEYS; i++)
    q->keys[i] = (struct lls_key){{i + 1, (i + 1) * TOKENS > alike ? id : 0}};
  assert_int_equal(lls_pol_face_admit(r->side, &q->view), 0);
  return q;
}

/* Takes a prefix, runs `tokens` more; returns what the prefix had. The list of states is
 * [read, checkpoints, written], or one for both. */
static uint32_t run(struct rig *r, struct rig_request *q, uint32_t tokens,
                    const uint32_t *checkpoints, uint32_t n)
{
  struct lls_prefix prefix = {.size = sizeof prefix};
  struct lls_block_table table;
  assert_int_equal(lls_pol_face_begin(r->side), 0);
  if (q->view.cached_tokens == 0)
    assert_int_equal(lls_pol_face_prefix(r->side, &q->view, true, &prefix), 0);
  uint32_t cached = q->view.cached_tokens + prefix.tokens;
  assert_int_equal(lls_pol_face_reserve(r->side, &q->view, tokens, 0, 0), 0);
  assert_int_equal(lls_pol_face_commit(r->side), 0);
  assert_int_equal(lls_pol_face_table(r->side, &q->view, &table), 0);
  const struct lls_group_list *l = &table.lists[1];
  assert_int_equal(l->entries[0].first_token, cached);
  assert_int_equal(l->entries[0].count, 0);
  for (uint32_t i = 0; i < n; i++)
    assert_int_equal(l->entries[1 + i].first_token, checkpoints[i]);
  if (n > 0)
    assert_int_equal(l->n_entries, n + 2);
  uint32_t written = l->entries[l->n_entries - 1].block;
  assert_false(lls_pol_tree_has(&r->side->tree, LLS_TIER_DEVICE, written));
  assert_int_equal(lls_pol_slabs_holders(&r->side->slabs[LLS_TIER_DEVICE], written), 1);
  q->view.cached_tokens = cached + tokens;
  lls_pol_face_computed(r->side, &q->view, q->view.cached_tokens);
  free(rig_audit(r));
  return prefix.tokens;
}

static void begin(struct rig *r)
{
  const uint32_t full[2] = {0};
  rig_make(r, groups, 2, 40, full, 1);
}

/* The state before the prompt's last block border is kept, in whichever step it is. */
static void test_prompt(void **unused)
{
  static struct rig r;
  const uint32_t border = 28;
  (void)unused;
  begin(&r);
  struct rig_request *q = submit(&r, 30, 30);
  assert_int_equal(run(&r, q, 20, NULL, 0), 0);
  assert_int_equal(run(&r, q, 10, &border, 1), 0);
  q = submit(&r, 30, 30);
  assert_int_equal(run(&r, q, 2, NULL, 0), 28);
  for (uint32_t i = 0; i < 2; i++)
    rig_release(&r, &r.requests[i], true);
  q = submit(&r, 30, 30); /* found when nobody has it */
  assert_int_equal(run(&r, q, 2, NULL, 0), 28);
  rig_end(&r);
}

/* Where a prompt parts from another one, its state is kept. */
static void test_branch(void **unused)
{
  static struct rig r;
  const uint32_t places[] = {16, 28};
  (void)unused;
  begin(&r);
  run(&r, submit(&r, 24, 24), 24, (const uint32_t[]){20}, 1);
  assert_int_equal(run(&r, submit(&r, 30, 18), 24, places, 1), 0);
  assert_int_equal(run(&r, submit(&r, 30, 18), 14, &places[1], 1), 16);
  rig_end(&r);
}

/* A sequence that goes to the host and back takes its own state along. */
static void test_swap(void **unused)
{
  static struct rig r;
  const struct lls_copy *copies;
  (void)unused;
  begin(&r);
  struct rig_request *q = submit(&r, 30, 30);
  run(&r, q, 21, NULL, 0);
  assert_int_equal(lls_pol_face_begin(r.side), 0);
  assert_int_equal(lls_pol_face_preempt(r.side, &q->view, LLS_PREEMPT_SWAP), 0);
  assert_int_equal(lls_pol_face_commit(r.side), 0);
  size_t n = lls_pol_face_copies(r.side, &copies);
  assert_int_equal(n, 6 + 1);
  assert_int_equal(copies[6].group, 1);
  assert_int_equal(copies[6].n_slots, 0); /* all of it */
  free(rig_audit(&r));
  run(&r, q, 9, (const uint32_t[]){28}, 1);
  rig_end(&r);
}

/* A next process gets blocks with a state at their end, and the state, but no blocks
 * beyond the last state. */
static void test_kept(void **unused)
{
  static struct rig r;
  struct lls_kept_block kept[KEYS];
  (void)unused;
  begin(&r);
  struct rig_request *q = submit(&r, 30, 30);
  run(&r, q, 20, NULL, 0);
  run(&r, q, 10, NULL, 0);
  q->view.n_keys = 44 / TOKENS;
  run(&r, q, 14, NULL, 0);
  rig_release(&r, q, true);
  size_t n = lls_pol_face_kept(r.side, kept, KEYS);
  assert_int_equal(n, 28 / TOKENS + 1);
  for (size_t i = 0; i < n; i++) {
    assert_int_equal(kept[i].group, i + 1 == n);
    assert_int_equal(kept[i].form, i + 1 == n ? LLS_FORM_STATE : LLS_FORM_KV);
  }
  rig_end(&r);
  begin(&r);
  assert_int_equal(lls_pol_face_adopt(r.side, kept, n), n);
  free(rig_audit(&r));
  assert_int_equal(run(&r, submit(&r, 30, 30), 2, NULL, 0), 28);
  rig_end(&r);
}

/* Runs `tokens` more; false: reserve had no room for them. */
static bool advance(struct rig *r, struct rig_request *q, uint32_t tokens)
{
  struct lls_need need = {.size = sizeof need};
  struct lls_block_table table;
  assert_int_equal(lls_pol_face_begin(r->side), 0);
  assert_int_equal(lls_pol_face_need(r->side, &q->view, tokens, 0, &need), 0);
  if (q->view.cached_tokens > 0) /* another block of K and V, at most for each token */
    assert_true(need.new_units <= tokens * r->side->units[LLS_TIER_DEVICE][0]);
  if (lls_pol_face_reserve(r->side, &q->view, tokens, 0, 0) != LLS_RESERVE_OK) {
    assert_int_equal(lls_pol_face_rollback(r->side, 0), 0);
    assert_int_equal(lls_pol_face_commit(r->side), 0);
    return false;
  }
  assert_int_equal(lls_pol_face_commit(r->side), 0);
  assert_int_equal(lls_pol_face_table(r->side, &q->view, &table), 0);
  const struct lls_group_list *l = &table.lists[1];
  uint32_t written = l->entries[l->n_entries - 1].block;
  assert_false(lls_pol_tree_has(&r->side->tree, LLS_TIER_DEVICE, written));
  q->view.cached_tokens += tokens;
  lls_pol_face_computed(r->side, &q->view, q->view.cached_tokens);
  free(rig_audit(r));
  return true;
}

/* Do two requests that have nothing in common run to their ends in a pool of that size?
 * One ends a step at its checkpoint, the other passes it inside of a step. */
static bool suffices(uint32_t units, bool shares)
{
  static const uint32_t steps[2][3] = {{20, 8, 2}, {20, 10, 1}};
  static struct rig r;
  begin(&r);
  lls_pol_side_destroy(r.side);
  free(r.side);
  r.geometry.device_units = units;
  r.side = rig_side(&r);
  r.side->shares = shares;
  struct rig_request *q[2] = {submit(&r, 30, 0), submit(&r, 30, 0)};
  bool done = true;
  for (uint32_t i = 0; i < 60 && done; i++)
    for (uint32_t one = 0; one < 2 && done; one++)
      done = advance(&r, q[one], i < 3 ? steps[one][i] : 1);
  if (done && shares) /* the checkpoints had to leave */
    assert_true(r.evicted > 0);
  rig_end(&r);
  return done;
}

/* Where two requests have room without checkpoints, they have it with them: neither waits
 * or is preempted so that a checkpoint stays. */
static void test_checkpoints_give_way(void **unused)
{
  uint32_t units = 60;
  (void)unused;
  while (!suffices(units, false))
    assert_true(++units < UNITS);
  assert_true(suffices(units, true));
  assert_true(suffices(units + 1, true));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_prompt),
      cmocka_unit_test(test_branch),
      cmocka_unit_test(test_swap),
      cmocka_unit_test(test_kept),
      cmocka_unit_test(test_checkpoints_give_way),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
