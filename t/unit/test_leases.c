/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases of the usual policy (policy/leases.h): what a session retains is found until its
 * time and no longer, whatever else runs; up to the first hole; all together within their
 * share; and never while a request that has the device to itself wants the memory.
 */
#include "t/unit/side_rig.h"

#define FOREVER INT64_MAX

static const struct lls_group_form kv[] = {
    {.form = LLS_FORM_KV, .block_units = 1, .flags = 3, .ratio = 1}};
static const struct lls_group full[] = {
    {.size = sizeof *full, .kind = LLS_GROUP_FULL, .n_forms = 1, .forms = kv}};
static const struct lls_group_form with_int8[] = {
    {.form = LLS_FORM_KV, .block_units = 2, .flags = 3, .ratio = 1},
    {.form = LLS_FORM_INT8, .block_units = 1, .flags = 3, .ratio = 1}};
static const struct lls_group int8[] = {
    {.size = sizeof *full, .kind = LLS_GROUP_FULL, .n_forms = 2, .forms = with_int8}};
static const struct lls_group with_window[] = {
    {.size = sizeof *full, .kind = LLS_GROUP_FULL, .n_forms = 1, .forms = kv},
    {.size = sizeof *full,
     .kind = LLS_GROUP_WINDOW,
     .window = 9,
     .n_forms = 1,
     .forms = kv}};
static const uint32_t as_they_are[2] = {LLS_FORM_NONE, LLS_FORM_NONE};

static struct rig r;

/* A request that is like no other: seeds of prompts of one family differ. */
static struct rig_request *submit(uint32_t slot, uint32_t tokens)
{
  struct rig_request *q = &r.requests[slot];
  struct dice d = {1000 + r.ids};
  *q = (struct rig_request){.alive = true};
  q->view = (struct lls_request){.id = ++r.ids,
                                 .slot = slot,
                                 .prompt_tokens = tokens,
                                 .max_new_tokens = 1,
                                 .keys = q->keys,
                                 .n_keys = tokens / TOKENS};
  for (uint32_t i = 0; i < KEYS; i++)
    q->keys[i] = (struct lls_key){{dice_next(&d), dice_next(&d)}};
  for (uint32_t i = 0; i < CONTEXT; i++)
    q->contents[i] = dice_next(&d);
  assert_int_equal(lls_pol_face_admit(r.side, &q->view), 0);
  return q;
}

/* A step that computes up to max_step_tokens of it; reserve's result. */
static int step(struct rig_request *q)
{
  struct lls_cache_info info = {.size = sizeof info};
  uint32_t left = q->view.prompt_tokens - q->view.cached_tokens;
  assert_int_equal(lls_pol_face_begin(r.side), 0);
  q->run = lls_pol_min(left, r.engine.max_step_tokens);
  int rc = lls_pol_face_reserve(r.side, &q->view, q->run, 0, 0);
  if (rc != LLS_RESERVE_OK)
    assert_int_equal(lls_pol_face_rollback(r.side, 0), 0);
  assert_int_equal(lls_pol_face_commit(r.side), 0);
  rig_copy(&r);
  if (rc != LLS_RESERVE_OK)
    return rc;
  lls_pol_face_info(r.side, &q->view, &info);
  rig_compute(&r, q, info.cached_tokens);
  q->view.cached_tokens += q->run;
  lls_pol_face_computed(r.side, &q->view, q->view.cached_tokens);
  free(rig_audit(&r));
  return rc;
}

/* Computes a prompt and leaves its prefix; false: there was no memory. */
static bool serve(struct rig_request *q)
{
  bool done = true;
  while (done && q->view.cached_tokens < q->view.prompt_tokens)
    done = step(q) == LLS_RESERVE_OK;
  rig_release(&r, q, true);
  return done;
}

/* The tokens of its prompt that a request with these keys finds. */
static uint32_t found(const struct rig_request *like)
{
  struct rig_request *q = &r.requests[REQUESTS - 1];
  struct lls_prefix prefix = {.size = sizeof prefix};
  *q = *like;
  q->view.id = ++r.ids;
  q->view.slot = REQUESTS - 1;
  q->view.keys = q->keys;
  q->view.prompt_tokens++;
  q->view.cached_tokens = 0;
  assert_int_equal(lls_pol_face_admit(r.side, &q->view), 0);
  assert_int_equal(lls_pol_face_prefix(r.side, &q->view, false, &prefix), 0);
  rig_release(&r, q, true);
  return prefix.tokens;
}

static int retain(const struct rig_request *q, uint64_t session, int64_t until_ns)
{
  const struct lls_retained what = {.size = sizeof what,
                                    .tier = LLS_TIER_DEVICE,
                                    .session = session,
                                    .keys = q->keys,
                                    .n_keys = q->view.n_keys,
                                    .until_ns = until_ns};
  assert_int_equal(lls_pol_face_begin(r.side), 0);
  char *before = rig_audit(&r);
  int n = lls_pol_face_retain(r.side, &what);
  char *after = rig_audit(&r);
  assert_int_equal(lls_pol_face_rollback(r.side, 0), 0);
  char *now = rig_audit(&r);
  assert_string_equal(now, before);
  assert_int_equal(lls_pol_face_retain(r.side, &what), n);
  if (n < 0)
    assert_string_equal(after, before);
  free(before);
  free(after);
  free(now);
  assert_int_equal(lls_pol_face_commit(r.side), 0);
  free(rig_audit(&r));
  return n;
}

/* Other prompts that fill the device twice. */
static void fill(void)
{
  for (uint32_t tokens = 0; tokens < 2 * r.geometry.device_units * TOKENS; tokens += 40)
    assert_true(serve(submit(0, 40)));
}

static uint32_t free_units(void)
{
  struct lls_capacity c = {.size = sizeof c};
  assert_int_equal(lls_pol_face_capacity(r.side, LLS_TIER_DEVICE, &c), 0);
  return c.free_units;
}

static void begin(const struct lls_group *groups, uint32_t n)
{
  rig_make(&r, groups, n, 0, as_they_are, 1);
  r.geometry.device_units = 60;
  rig_end(&r);
  r.alone = false;
  r.side = rig_side(&r);
}

/* Makes a small pool of full blocks, of which leases may have nearly all. */
static void begin_small(uint32_t host_units)
{
  begin(full, 1);
  r.geometry.device_units = 24;
  r.geometry.host_units = host_units;
  rig_end(&r);
  r.side = rig_side(&r);
  r.side->leases.share = 0.9;
}

/* ---- what is held, and until when ---- */

static void hold_and_expire(const struct lls_group *groups, uint32_t n_groups)
{
  begin(groups, n_groups);
  uint32_t all = free_units();
  struct rig_request kept = *submit(1, 24), lost = *submit(2, 24);
  serve(&r.requests[1]);
  serve(&r.requests[2]);
  assert_int_equal(found(&kept), 24);
  assert_int_equal(retain(&kept, 7, 1000), 24);
  assert_true(free_units() < all);
  assert_int_equal(retain(&lost, 8, 998), 24);
  r.now_ns = 999;
  fill();
  assert_int_equal(found(&kept), 24);
  assert_int_equal(found(&lost), 0);
  r.now_ns = 1000;
  assert_true(serve(submit(0, 4)));
  assert_int_equal(free_units(), all);
  assert_int_equal(found(&kept), 24); /* as any ended one */
  fill();
  assert_int_equal(found(&kept), 0);
  rig_end(&r);
}

static void test_until_its_time(void **state)
{
  (void)state;
  hold_and_expire(full, 1);
  hold_and_expire(with_window, 2);
}

/* A later lease of a session takes the place of the one before; one that has passed ends
 * it. */
static void test_again(void **state)
{
  (void)state;
  begin(full, 1);
  uint32_t all = free_units();
  struct rig_request a = *submit(1, 24), b = *submit(2, 12);
  serve(&r.requests[1]);
  serve(&r.requests[2]);
  assert_int_equal(retain(&a, 7, 10), 24);
  assert_int_equal(retain(&a, 7, FOREVER), 24);
  assert_int_equal(all - free_units(), 6);
  assert_int_equal(retain(&a, 8, FOREVER),
                   24); /* of another session: blocks count once */
  assert_int_equal(all - free_units(), 6);
  assert_int_equal(retain(&a, 7, 0), 24); /* which stay as any others */
  assert_int_equal(all - free_units(), 6);
  assert_int_equal(retain(&b, 8, FOREVER), 12);
  assert_int_equal(all - free_units(), 3);
  assert_int_equal(retain(&b, 8, 0), 12);
  assert_int_equal(all - free_units(), 0);
  rig_end(&r);
}

/* A chain whose fourth block is not there is held up to it. */
static void test_hole(void **state)
{
  (void)state;
  begin(full, 1);
  uint32_t all = free_units();
  struct rig_request q = *submit(1, 40);
  serve(&r.requests[1]);
  q.keys[3].word[0]++;
  assert_int_equal(retain(&q, 7, FOREVER), 12);
  assert_int_equal(all - free_units(), 3);
  q.keys[3].word[0]--;
  fill();
  assert_int_equal(found(&q), 12);
  q.keys[0].word[0]++;
  assert_int_equal(retain(&q, 9, FOREVER), 0);
  rig_end(&r);
}

/* ---- how much ---- */

static void test_share(void **state)
{
  (void)state;
  begin(full, 1);
  struct rig_request a = *submit(1, 40), b = *submit(2, 36);
  serve(&r.requests[1]);
  serve(&r.requests[2]);
  uint32_t all = free_units();
  r.side->leases.share = 0.3; /* 18 of 60 blocks */
  assert_int_equal(retain(&a, 1, FOREVER), 40);
  assert_int_equal(retain(&b, 2, FOREVER), -ENOSPC);
  assert_int_equal(all - free_units(), 10);
  b.view.n_keys = 8;
  assert_int_equal(retain(&b, 2, FOREVER), 32);
  assert_int_equal(all - free_units(), 18);
  b.view.n_keys = 9;
  assert_int_equal(retain(&b, 2, FOREVER), -ENOSPC); /* the former one stays */
  assert_int_equal(all - free_units(), 18);
  assert_int_equal(retain(&a, 1, 0), 40);
  assert_int_equal(retain(&b, 2, FOREVER), 36);
  rig_end(&r);
}

/* A request that has the device to itself gets all of it. */
static void test_alone(void **state)
{
  (void)state;
  begin_small(0);
  struct rig_request kept = *submit(1, 40);
  serve(&r.requests[1]);
  assert_int_equal(retain(&kept, 7, FOREVER), 40);
  struct rig_request *other = submit(2, 20), *large = submit(1, 60);
  assert_int_equal(step(other), LLS_RESERVE_OK);
  assert_int_equal(step(large), LLS_RESERVE_OK);
  assert_int_equal(step(large), LLS_RESERVE_LATER); /* they are two */
  assert_int_equal(found(&kept), 40);
  rig_release(&r, other, false);
  assert_true(serve(large));
  rig_end(&r);
}

/* Sequences that wait on the host have nothing of the device. */
static void test_others_are_swapped(void **state)
{
  (void)state;
  begin_small(40);
  struct rig_request kept = *submit(1, 40);
  serve(&r.requests[1]);
  assert_int_equal(retain(&kept, 7, FOREVER), 40);
  struct rig_request *other = submit(2, 20), *large = submit(1, 60);
  assert_int_equal(step(other), LLS_RESERVE_OK);
  assert_int_equal(lls_pol_face_begin(r.side), 0);
  assert_int_equal(lls_pol_face_preempt(r.side, &other->view, LLS_PREEMPT_SWAP), 0);
  assert_int_equal(lls_pol_face_commit(r.side), 0);
  rig_copy(&r);
  assert_true(serve(large));
  rig_end(&r);
}

/* A step that fetches the keys to the tier. */
static void fetch(const struct rig_request *q, uint32_t tier, uint32_t n_keys)
{
  const struct lls_retained what = {
      .size = sizeof what, .tier = tier, .keys = q->keys, .n_keys = n_keys};
  assert_int_equal(lls_pol_face_begin(r.side), 0);
  assert_int_equal(lls_pol_face_fetch(r.side, &what), n_keys * TOKENS);
  assert_int_equal(lls_pol_face_commit(r.side), 0);
  rig_copy(&r);
}

/* The lone request's prefix is on the host, and in part on the device: 12 blocks are
 * leased, 8 are kept, and the 6 that come from the host find 4 free. */
static void test_alone_with_a_prefix(void **state)
{
  struct lls_prefix prefix = {.size = sizeof prefix};
  (void)state;
  begin_small(40);
  struct rig_request q = *submit(1, 56);
  serve(&r.requests[1]);
  fetch(&q, LLS_TIER_HOST, 14);
  fill();
  struct rig_request kept = *submit(2, 48);
  serve(&r.requests[2]);
  assert_int_equal(retain(&kept, 7, FOREVER), 48);
  fetch(&q, LLS_TIER_DEVICE, 8);
  struct rig_request *again = &r.requests[1];
  *again = q;
  again->view.id = ++r.ids;
  again->view.prompt_tokens = 57;
  again->view.cached_tokens = 0;
  again->view.keys = again->keys;
  assert_int_equal(lls_pol_face_admit(r.side, &again->view), 0);
  assert_int_equal(lls_pol_face_begin(r.side), 0);
  assert_int_equal(lls_pol_face_prefix(r.side, &again->view, true, &prefix), 0);
  assert_int_equal(lls_pol_face_reserve(r.side, &again->view, 1, 0, 0), LLS_RESERVE_OK);
  assert_int_equal(lls_pol_face_commit(r.side), 0);
  assert_int_equal(prefix.tokens, 56);
  assert_int_equal(prefix.on_host, 24);
  rig_copy(&r);
  again->run = 1;
  rig_compute(&r, again, 56);
  free(rig_audit(&r));
  rig_end(&r);
}

/* A scheduler that asks before it reserves is not made to wait either. */
static void test_asked(void **state)
{
  (void)state;
  begin_small(0);
  struct rig_request kept = *submit(1, 40);
  serve(&r.requests[1]);
  assert_int_equal(retain(&kept, 7, FOREVER), 40);
  struct rig_request *large = submit(2, 60);
  struct lls_need need = {.size = sizeof need};
  assert_int_equal(free_units(), 14);
  lls_pol_face_need(r.side, &large->view, 60, LLS_FORM_NONE, &need);
  assert_int_equal(need.new_units, 15);
  assert_int_equal(lls_pol_face_begin(r.side), 0);
  assert_int_equal(lls_pol_face_commit(r.side), 0);
  assert_int_equal(free_units(), 24);
  rig_end(&r);
}

/* To the host, away from the device, and back. */
static void test_fetch(void **state)
{
  struct lls_retained what = {.size = sizeof what, .tier = LLS_TIER_HOST};
  struct lls_prefix prefix = {.size = sizeof prefix};
  const struct lls_copy *copies;
  (void)state;
  begin(with_window, 2);
  r.geometry.host_units = 40;
  rig_end(&r);
  r.side = rig_side(&r);
  struct rig_request q = *submit(1, 24);
  serve(&r.requests[1]);
  what.keys = q.keys;
  what.n_keys = q.view.n_keys;
  assert_int_equal(lls_pol_face_begin(r.side), 0);
  assert_int_equal(lls_pol_face_fetch(r.side, &what), 24);
  assert_int_equal(lls_pol_face_copies(r.side, &copies), 8); /* six, and a window's two */
  assert_int_equal(lls_pol_face_fetch(r.side, &what), 24);
  assert_int_equal(lls_pol_face_commit(r.side), 0);
  rig_copy(&r);
  fill();
  struct rig_request *again = &r.requests[1];
  *again = q;
  again->view.id = ++r.ids;
  again->view.prompt_tokens = 25;
  again->view.cached_tokens = 0;
  again->view.keys = again->keys;
  assert_int_equal(lls_pol_face_admit(r.side, &again->view), 0);
  assert_int_equal(lls_pol_face_prefix(r.side, &again->view, false, &prefix), 0);
  assert_int_equal(prefix.tokens, 24);
  assert_int_equal(prefix.on_host, 24);
  what.tier = LLS_TIER_DEVICE;
  assert_int_equal(lls_pol_face_begin(r.side), 0);
  assert_int_equal(lls_pol_face_fetch(r.side, &what), 24);
  assert_int_equal(lls_pol_face_commit(r.side), 0);
  rig_copy(&r);
  assert_int_equal(lls_pol_face_prefix(r.side, &again->view, false, &prefix), 0);
  assert_int_equal(prefix.tokens, 24);
  assert_int_equal(prefix.on_host, 0);
  assert_int_equal(lls_pol_face_begin(r.side), 0);
  assert_int_equal(lls_pol_face_prefix(r.side, &again->view, true, &prefix), 0);
  assert_int_equal(lls_pol_face_reserve(r.side, &again->view, 1, 0, 0), 0);
  assert_int_equal(lls_pol_face_commit(r.side), 0);
  again->run = 1;
  rig_compute(&r, again, 24); /* reads what the first request wrote */
  rig_end(&r);
}

/* A host that is full of a prefix, in int8, has room for a swapped sequence, whose block
 * is as large as two of these. They leave although others follow them. */
static void test_swap_to_a_full_host(void **state)
{
  (void)state;
  begin(int8, 1);
  r.geometry.host_units = 6;
  r.geometry.host_form = LLS_FORM_INT8;
  rig_end(&r);
  r.side = rig_side(&r);
  struct rig_request q = *submit(1, 24);
  serve(&r.requests[1]);
  fetch(&q, LLS_TIER_HOST, 6);
  fill();
  struct rig_request *other = submit(2, 3);
  assert_int_equal(step(other), LLS_RESERVE_OK);
  assert_int_equal(lls_pol_face_begin(r.side), 0);
  assert_int_equal(lls_pol_face_preempt(r.side, &other->view, LLS_PREEMPT_SWAP), 0);
  assert_int_equal(lls_pol_face_commit(r.side), 0);
  rig_copy(&r);
  free(rig_audit(&r));
  assert_int_equal(found(&q), 0);
  rig_end(&r);
}

/* Copies that a step lists beside it, however fast the link is. */
static uint32_t copies_to_host(void)
{
  const struct lls_copy *copies;
  assert_int_equal(lls_pol_face_begin(r.side), 0);
  lls_pol_side_to_host(r.side, UINT64_MAX);
  uint32_t n = (uint32_t)lls_pol_face_copies(r.side, &copies);
  assert_int_equal(lls_pol_face_commit(r.side), 0);
  rig_copy(&r);
  return n;
}

/* Many blocks that wait for reuse are copied in several steps: each plan is short. */
static void test_a_few_in_each_step(void **state)
{
  (void)state;
  begin(full, 1);
  r.geometry.device_units = r.geometry.host_units = UNITS;
  rig_end(&r);
  r.side = rig_side(&r);
  for (uint32_t i = 0; i < 14; i++)
    assert_true(serve(submit(0, 80)));
  assert_int_equal(copies_to_host(), 256);
  assert_int_equal(copies_to_host(), 24);
  assert_int_equal(copies_to_host(), 0);
  rig_end(&r);
}

static void test_handed_over(void **state)
{
  struct lls_blob blob;
  (void)state;
  begin(full, 1);
  uint32_t all = free_units();
  struct rig_request q = *submit(1, 24);
  serve(&r.requests[1]);
  assert_int_equal(retain(&q, 7, 1000), 24);
  char *before = rig_audit(&r);
  assert_int_equal(lls_pol_side_export(r.side, &blob), 0);
  rig_end(&r);
  r.side = rig_side(&r);
  assert_int_equal(lls_pol_face_import(r.side, &blob), 0);
  free(blob.data);
  char *now = rig_audit(&r);
  assert_string_equal(now, before);
  free(now);
  free(before);
  assert_int_equal(all - free_units(), 6);
  r.now_ns = 1000;
  fill();
  assert_int_equal(found(&q), 0);
  rig_end(&r);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_until_its_time),
      cmocka_unit_test(test_again),
      cmocka_unit_test(test_hole),
      cmocka_unit_test(test_share),
      cmocka_unit_test(test_alone),
      cmocka_unit_test(test_others_are_swapped),
      cmocka_unit_test(test_asked),
      cmocka_unit_test(test_alone_with_a_prefix),
      cmocka_unit_test(test_fetch),
      cmocka_unit_test(test_handed_over),
      cmocka_unit_test(test_a_few_in_each_step),
      cmocka_unit_test(test_swap_to_a_full_host),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
