/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The instance that an arrival goes to: where its beginning was computed, unless more
 * waits there than the beginning saves; and the memory of keys behind it.
 */
#include "t/tap.h"

#include "core/instance/sent_keys.h"
#include "t/clients.h"

#define INSTANCES 3
#define BEGINNING 48 /* tokens: six blocks */

static void open_three(struct harness *h, bool shares)
{
  struct harness_options o = client_options("fcfs");
  o.instances = INSTANCES;
  if (shares)
    o.cache = (struct harness_policy){"paged", NULL};
  open_or_fail(h, &o);
}

static uint64_t arrived(struct harness *h, uint32_t instance)
{
  struct lls_loop_status s;
  uint32_t role;
  lls_loop_instance_status(h->loop, instance, &role, &s);
  return s.arrived;
}

/* Submits n tokens that begin as all prompts with the same `first` do, in the session of
 * that name unless it is NULL. */
static void ask_in(struct harness *h, struct client *c, int32_t first, uint32_t n,
                   const char *session)
{
  struct lls_error err = {0};
  int32_t tokens[128];
  for (uint32_t i = 0; i < n; i++)
    tokens[i] = (first + (int32_t)i) % 200;
  *c = (struct client){0};
  struct lls_submission s = harness_submission(tokens, n, 2, c);
  s.session.name = session;
  if (lls_loop_submit(h->loop, &s, &c->id, &err) < 0)
    fail_msg("submit: %s", err.text);
}

static void ask(struct harness *h, struct client *c, int32_t first, uint32_t n)
{
  ask_in(h, c, first, n, NULL);
}

static void ask_alone(struct harness *h, int32_t first, uint32_t n)
{
  struct client c;
  ask(h, &c, first, n);
  run_to_end(h);
}

/* Three conversations begin on three instances; their next turns come in another
 * order. */
static void test_a_conversation_returns(void **state)
{
  (void)state;
  struct harness h;
  open_three(&h, true);
  for (int32_t i = 0; i < INSTANCES; i++)
    ask_alone(&h, 60 * i, BEGINNING);
  ask_alone(&h, 120, BEGINNING + 10);
  ask_alone(&h, 120, BEGINNING + 20);
  ask_alone(&h, 60, BEGINNING + 10);
  assert_int_equal(arrived(&h, 0), 1);
  assert_int_equal(arrived(&h, 1), 2);
  assert_int_equal(arrived(&h, 2), 3);
  struct lls_loop_status s;
  lls_loop_status(h.loop, &s);
  assert_int_equal(s.shared_tokens, 3 * BEGINNING + 8); /* the third turn: a block more */
  harness_close(&h);
}

/* A manager that shares nothing: after many turns its instance is not preferred any
 * more. */
static void test_what_is_never_cached_counts_no_more(void **state)
{
  (void)state;
  for (uint32_t shares = 0; shares < 2; shares++) {
    struct harness h;
    struct client c[4];
    open_three(&h, shares);
    for (int i = 0; i < 100; i++)
      ask_alone(&h, 0, BEGINNING);
    assert_int_equal(arrived(&h, 0), 100);
    ask(&h, &c[0], 30, 30); /* on 1 and 2, which have had fewer */
    ask(&h, &c[1], 60, 30);
    ask(&h, &c[2], 90, 42);
    ask(&h, &c[3], 0, BEGINNING + 10);
    run_to_end(&h);
    assert_int_equal(arrived(&h, 0), 101 + shares);
    harness_close(&h);
  }
}

/* Instance 0 has the beginning and three prompts to compute: more than it saves. */
static void test_a_queue_outweighs_a_beginning(void **state)
{
  (void)state;
  struct harness h;
  struct client c[4];
  open_three(&h, true);
  ask_alone(&h, 0, BEGINNING);
  for (int32_t i = 0; i < 3; i++)
    ask(&h, &c[i], 0, BEGINNING + 60); /* 108 tokens, of which 48 are cached on 0 */
  run_to_end(&h);
  assert_int_equal(arrived(&h, 0), 2);
  assert_int_equal(arrived(&h, 1), 1);
  assert_int_equal(arrived(&h, 2), 1);
  harness_close(&h);
}

/* The same prompts of a session: what is cached for the second and later ones, nearly all
 * of their 108 tokens, counts four times, so the fifth is the first to go elsewhere. */
static void test_a_session_stays_longer(void **state)
{
  (void)state;
  struct harness h;
  struct client c[6];
  open_three(&h, true);
  ask_in(&h, &c[0], 0, BEGINNING, "agent");
  run_to_end(&h);
  for (int32_t i = 1; i <= 5; i++)
    ask_in(&h, &c[i], 0, BEGINNING + 60, "agent");
  run_to_end(&h);
  assert_int_equal(arrived(&h, 0), 5);
  assert_int_equal(arrived(&h, 1), 1);
  harness_close(&h);
}

/* A short prompt goes where fewer tokens wait, not where fewer
 * requests do. */
static void test_long_prompts_weigh_more(void **state)
{
  (void)state;
  struct harness h;
  struct client c[5];
  open_three(&h, true);
  ask(&h, &c[0], 0, 120);
  ask(&h, &c[1], 60, 120);
  ask(&h, &c[2], 120, 9);
  ask(&h, &c[3], 30, 9);
  run_to_end(&h);
  assert_int_equal(arrived(&h, 0), 1);
  assert_int_equal(arrived(&h, 1), 1);
  assert_int_equal(arrived(&h, 2), 2);
  harness_close(&h);
}

/* The next turn has the first one's answer in its beginning, which is on instance 0, too:
 * it outweighs 15 tokens more that wait there, which the first prompt alone does not. */
static void test_an_answer_is_part_of_the_beginning(void **state)
{
  (void)state;
  struct harness h;
  struct client first = {0}, c[4];
  struct lls_error err = {0};
  int32_t tokens[64] = {3, 4, 5, 6, 7, 8, 9, 10};
  open_three(&h, true);
  struct lls_submission s = harness_submission(tokens, 8, 40, &first);
  s.ignore_eos = true;
  if (lls_loop_submit(h.loop, &s, &first.id, &err) < 0)
    fail_msg("submit: %s", err.text);
  run_to_end(&h);
  assert_int_equal(first.n_tokens, 40);
  memcpy(tokens + 8, first.tokens, 40 * sizeof *tokens);
  ask(&h, &c[0], 60, 30); /* on 1 and 2, which have had fewer */
  ask(&h, &c[1], 90, 30);
  ask(&h, &c[2], 120, 45);
  s = harness_submission(tokens, 56, 2, &c[3]);
  c[3] = (struct client){0};
  if (lls_loop_submit(h.loop, &s, &c[3].id, &err) < 0)
    fail_msg("submit: %s", err.text);
  run_to_end(&h);
  assert_int_equal(arrived(&h, 0), 3);
  harness_close(&h);
}

/* A beginning that left the device waits on the host: its session goes back there. */
static void test_a_beginning_on_the_host(void **state)
{
  (void)state;
  struct harness h;
  struct lls_loop_status before, after;
  struct harness_options o = client_options("fcfs");
  o.instances = INSTANCES;
  o.device_units = 64; /* 32 blocks, 256 tokens */
  o.host_units = 1024;
  o.cache = (struct harness_policy){"tiered", NULL};
  open_or_fail(&h, &o);
  ask_alone(&h, 0, BEGINNING); /* on 0 */
  for (int32_t i = 1; i <= 45; i++)
    ask_alone(&h, 2 * i, 100); /* fifteen each: 180 blocks */
  uint64_t at = arrived(&h, 0);
  lls_loop_status(h.loop, &before);
  ask_alone(&h, 0, BEGINNING + 10);
  lls_loop_status(h.loop, &after);
  assert_int_equal(arrived(&h, 0), at + 1);
  assert_int_equal(after.shared_tokens - before.shared_tokens, BEGINNING);
  assert_int_equal(after.shared_on_host - before.shared_on_host, BEGINNING);
  harness_close(&h);
}

static void fill_keys(struct lls_key *keys, uint32_t n, uint64_t seed)
{
  for (uint32_t i = 0; i < n; i++)
    keys[i].word[0] = (seed + i + 1) * 0x9e3779b97f4a7c15u;
}

static void test_keys_longest_not_sent_are_forgotten(void **state)
{
  (void)state;
  struct lls_sent_keys sent;
  struct lls_key first[100], other[100], more[4000];
  fill_keys(first, 100, 0);
  fill_keys(other, 100, 1000000);
  fill_keys(more, 4000, 2000000);
  assert_int_equal(lls_sent_init(&sent, 4000), 0);
  assert_int_equal(lls_sent_find(&sent, first, 100), 0);
  lls_sent_note(&sent, first, 100);
  lls_sent_note(&sent, other, 100);
  assert_int_equal(lls_sent_find(&sent, first, 100), 100);
  assert_int_equal(lls_sent_find(&sent, other, 100), 100);
  other[7].word[0]++;
  assert_int_equal(lls_sent_find(&sent, other, 100), 7);
  for (int i = 0; i < 3; i++) {
    fill_keys(more, 4000, 2000000 + 4000 * (uint64_t)i);
    lls_sent_note(&sent, more, 4000);
  }
  assert_in_range(lls_sent_find(&sent, first, 100), 0, 99);
  lls_sent_free(&sent);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_conversation_returns),
      cmocka_unit_test(test_what_is_never_cached_counts_no_more),
      cmocka_unit_test(test_a_queue_outweighs_a_beginning),
      cmocka_unit_test(test_a_session_stays_longer),
      cmocka_unit_test(test_long_prompts_weigh_more),
      cmocka_unit_test(test_an_answer_is_part_of_the_beginning),
      cmocka_unit_test(test_a_beginning_on_the_host),
      cmocka_unit_test(test_keys_longest_not_sent_are_forgotten),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
