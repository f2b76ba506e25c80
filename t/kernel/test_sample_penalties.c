/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Masks, penalties, biases and bans change logits before a token is chosen: at every
 * ISA level, mostly checked by which of two tokens is the likeliest.
 */
#include "t/kernel/sample.h"

/* ---- masks ----------------------------------------------------------------------- */

/* Only tokens of the mask are drawn, however likely others are; log probabilities are
 * those of the unmodified logits. */
static void masked(struct lls_device *device)
{
  float logits[100];
  uint32_t allowed[4] = {0};
  struct lls_sampling s = plain();
  struct lls_sampled out, free_of;
  for (int i = 0; i < 100; i++)
    logits[i] = i == 70 ? -30 : (float)(i % 7);
  s.want_logprob = true;
  s.allowed = allowed;
  s.bias = (const struct lls_logit_bias[]){{3, 1000}};
  s.n_bias = 1;
  s.history = (const int32_t[]){70, 70};
  s.n_history = 2;
  s.presence_penalty = s.frequency_penalty = 2;
  for (s.temperature = 0; s.temperature < 2; s.temperature++) {
    for (s.index = 0; s.index < 20; s.index++) {
      allowed[2] = 1u << (70 - 64);
      sample_rows(device, logits, 100, &s, 1, &out);
      assert_int_equal(out.token, 70);
      allowed[2] |= 1u << (71 - 64);
      assert_true(sample_one(device, logits, 100, s) / 2 == 35);
    }
  }
  s.scored = true;
  s.target = 70;
  s.allowed = NULL;
  sample_rows(device, logits, 100, &s, 1, &free_of);
  assert_true(fabsf(out.logprob - free_of.logprob) < 1e-5f);
  s.scored = false;
  s.allowed = allowed;
  allowed[2] = 0;
  allowed[1] = 2;
  for (int i = 0; i < 100; i++)
    logits[i] = -INFINITY;
  assert_int_equal(sample_one(device, logits, 100, s), 33); /* a tie of all */
}

static void test_masked(void **state)
{
  (void)state;
  each_level(1, MAX_ROWS, MAX_VOCAB, masked);
}

/* ---- penalties ------------------------------------------------------------------- */

/* Token 3 has logit `logit`: does it fall below a rival's, with this history? */
static bool beaten(struct lls_device *device, float logit, float rival,
                   struct lls_sampling s, const int32_t *history, uint32_t n_prompt,
                   uint32_t n_history)
{
  float logits[8] = {-50, -50, -50, logit, -50, rival, -50, -50};
  s.temperature = 0;
  s.history = history;
  s.n_prompt = n_prompt;
  s.n_history = n_history;
  int32_t token = sample_one(device, logits, 8, s);
  assert_true(token == 3 || token == 5);
  return token == 5;
}

static void penalties(struct lls_device *device)
{
  const int32_t once[] = {3}, thrice[] = {3, 1, 3, 3}, odd[] = {-1, 8, 3, INT32_MAX};
  struct lls_sampling s = plain();
  s.repetition_penalty = 2; /* 4 becomes 2, -4 becomes -8, however often it was there */
  assert_false(beaten(device, 4, 1.9f, s, thrice, 0, 4));
  assert_true(beaten(device, 4, 2.1f, s, thrice, 0, 4));
  assert_true(beaten(device, 4, 2.1f, s, once, 1, 1)); /* in the prompt */
  assert_false(beaten(device, 4, 2.1f, s, once, 0, 0));
  assert_false(beaten(device, -4, -8.1f, s, once, 0, 1));
  assert_true(beaten(device, -4, -7.9f, s, once, 0, 1));
  assert_true(beaten(device, 4, 2.1f, s, odd, 2, 4));
  s = plain();
  s.presence_penalty = 1.5f; /* once, and for outputs only */
  assert_false(beaten(device, 4, 2.4f, s, thrice, 0, 4));
  assert_true(beaten(device, 4, 2.6f, s, thrice, 0, 4));
  assert_false(beaten(device, 4, 2.6f, s, thrice, 4, 4));
  s = plain();
  s.frequency_penalty = 0.5f; /* for each, and for outputs only */
  assert_false(beaten(device, 4, 2.4f, s, thrice, 0, 4));
  assert_true(beaten(device, 4, 2.6f, s, thrice, 0, 4));
  assert_false(beaten(device, 4, 2.9f, s, thrice, 1, 4));
  assert_true(beaten(device, 4, 3.1f, s, thrice, 1, 4));
  s.repetition_penalty = 2; /* 4 / 2 - 3 x 0.5 - 1 */
  s.presence_penalty = 1;
  assert_false(beaten(device, 4, -0.6f, s, thrice, 0, 4));
  assert_true(beaten(device, 4, -0.4f, s, thrice, 0, 4));
}

static void test_penalties(void **state)
{
  (void)state;
  each_level(1, MAX_ROWS, MAX_VOCAB, penalties);
}

static void biases(struct lls_device *device)
{
  const struct lls_logit_bias bias[] = {{3, -2}, {5, 0.5f}, {-1, 9}, {8, 9}};
  struct lls_sampling s = plain();
  s.bias = bias;
  s.n_bias = 4;
  assert_false(beaten(device, 4, 1.4f, s, NULL, 0, 0));
  assert_true(beaten(device, 4, 1.6f, s, NULL, 0, 0));
  s.banned = (const int32_t[]){7, 3};
  s.n_banned = 2;
  assert_true(beaten(device, 4, 0, s, NULL, 0, 0));
}

static void test_bias_and_ban(void **state)
{
  (void)state;
  each_level(1, MAX_ROWS, MAX_VOCAB, biases);
}

/* 4 minus one penalty is above 2.5; minus two, if the previous row still counted, it is
 * not. */
static void rows_apart(struct lls_device *device)
{
  const int32_t history[] = {3};
  float logits[8] = {0, 0, 0, 4, 0, 2.5f, 0, 0};
  struct lls_sampling s[4];
  struct lls_sampled out[4];
  for (int i = 0; i < 4; i++) {
    s[i] = plain();
    s[i].temperature = 0;
    s[i].frequency_penalty = 1;
    s[i].history = history;
    s[i].n_history = 1;
  }
  sample_rows(device, logits, 8, s, 4, out);
  for (int i = 0; i < 4; i++)
    assert_int_equal(out[i].token, 3);
}

static void test_rows_apart(void **state)
{
  (void)state;
  each_level(1, MAX_ROWS, MAX_VOCAB, rows_apart);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_masked),
      cmocka_unit_test(test_penalties),
      cmocka_unit_test(test_bias_and_ban),
      cmocka_unit_test(test_rows_apart),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
