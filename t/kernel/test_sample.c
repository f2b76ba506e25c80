/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sampling at every ISA level against a simple implementation of the order in
 * core/device/sampling.h: sort, cut, walk. A draw is a function of (seed, index), so
 * the token itself is compared, except where the random number is within BOUNDARY of
 * the edge between two tokens; 100,000 draws are also compared with the probabilities
 * by chi-square.
 */
#include "t/kernel/sample.h"

#define BOUNDARY        1e-5
#define LOGPROB_EPSILON 2e-6

/* ---- greedy ---------------------------------------------------------------------- */

static void greedy(struct lls_device *device)
{
  struct lls_sampling s = plain();
  float logits[100];
  s.temperature = 0;
  for (int i = 0; i < 100; i++)
    logits[i] = -5;
  assert_int_equal(sample_one(device, logits, 100, s), 0); /* a tie of all */
  logits[17] = logits[18] = logits[99] = 3;
  assert_int_equal(sample_one(device, logits, 100, s), 17);
  logits[98] = NAN;
  logits[0] = NAN;
  assert_int_equal(sample_one(device, logits, 100, s), 17);
  s.banned = (const int32_t[]){17, -1, 100};
  s.n_banned = 3;
  assert_int_equal(sample_one(device, logits, 100, s), 18);
  logits[40] = INFINITY;
  assert_int_equal(sample_one(device, logits, 100, s), 40);
  s.temperature = 1;
  assert_int_equal(sample_one(device, logits, 100, s), 40);
  for (uint32_t n = 1; n < 40; n++) { /* the last of any number */
    for (uint32_t i = 0; i < n; i++)
      logits[i] = (float)i;
    assert_int_equal(sample_one(device, logits, n, plain()) < (int32_t)n, 1);
    s.temperature = 0;
    s.n_banned = 0;
    assert_int_equal(sample_one(device, logits, n, s), n - 1);
  }
}

static void test_greedy(void **state)
{
  (void)state;
  each_level(1, MAX_ROWS, MAX_VOCAB, greedy);
}

/* If nothing can be drawn, some token is returned, always the same; if all logits are
 * NaN, none. */
static void hopeless(struct lls_device *device)
{
  float logits[33];
  for (int kind = 0; kind < 2; kind++) {
    for (int i = 0; i < 33; i++)
      logits[i] = kind ? NAN : -INFINITY;
    for (int temperature = 0; temperature < 2; temperature++) {
      struct lls_sampling s = plain();
      s.temperature = (float)temperature;
      s.n_logprobs = 3;
      assert_int_equal(sample_one(device, logits, 33, s), kind ? LLS_NO_NUMBER : 0);
      s.banned = (const int32_t[]){1, 0};
      s.n_banned = 2;
      assert_int_equal(sample_one(device, logits, 33, s), kind ? LLS_NO_NUMBER : 2);
    }
  }
  for (int i = 0; i < 33; i++)
    logits[i] = i == 20 ? 1.5f : NAN;
  for (uint32_t index = 0; index < 20; index++) {
    struct lls_sampling s = plain();
    s.index = index;
    assert_int_equal(sample_one(device, logits, 33, s), 20);
  }
}

static void test_nothing_to_draw(void **state)
{
  (void)state;
  each_level(1, MAX_ROWS, MAX_VOCAB, hopeless);
}

/* ---- the filters, plainly -------------------------------------------------------- */

struct token {
  double p;
  uint32_t id;
};

static int by_probability(const void *a, const void *b)
{
  const struct token *x = a, *y = b;
  if (x->p != y->p)
    return x->p > y->p ? -1 : 1;
  return x->id < y->id ? -1 : 1;
}

static void renormalise(struct token *t, uint32_t n)
{
  double sum = 0;
  for (uint32_t i = 0; i < n; i++)
    sum += t[i].p;
  for (uint32_t i = 0; i < n; i++)
    t[i].p /= sum;
}

/* Probabilities by id after temperature, min_p, top_k, top_p. */
static void distribution(const float *logits, uint32_t vocab,
                         const struct lls_sampling *s, double *p)
{
  struct token t[MAX_VOCAB];
  uint32_t n = vocab;
  double top = -INFINITY, sum = 0;
  for (uint32_t i = 0; i < vocab; i++)
    top = fmax(top, (double)logits[i]);
  for (uint32_t i = 0; i < vocab; i++)
    t[i] = (struct token){exp(((double)logits[i] - top) / (double)s->temperature), i};
  qsort(t, n, sizeof *t, by_probability);
  while (n > 1 && t[n - 1].p < (double)s->min_p)
    n--;
  if (s->top_k > 0 && (uint32_t)s->top_k < n)
    n = (uint32_t)s->top_k;
  renormalise(t, n);
  for (uint32_t i = 0; i < n && s->top_p < 1; i++) {
    sum += t[i].p;
    if (sum >= (double)s->top_p) {
      n = i + 1;
      break;
    }
  }
  renormalise(t, n);
  memset(p, 0, vocab * sizeof *p);
  for (uint32_t i = 0; i < n; i++)
    p[t[i].id] = t[i].p;
}

/* Checks that walking p by id up to u ends at the token, or within BOUNDARY of it. */
static void check_draw(const double *p, uint32_t vocab, double u, int32_t token)
{
  double sum = 0;
  assert_in_range(token, 0, vocab - 1);
  for (int32_t i = 0; i < token; i++)
    sum += p[i];
  if (p[token] > 0 && u >= sum - BOUNDARY && u < sum + p[token] + BOUNDARY)
    return;
  fail_msg("token %d of probability %g at %g is drawn by %g", token, p[token], sum, u);
}

static struct lls_sampling random_filters(uint32_t vocab)
{
  struct lls_sampling s = plain();
  uint32_t which = random_bits() % 8;
  s.temperature = 0.2f + (float)random_between(0, 20) * 0.1f;
  if (which & 1)
    s.top_k = (int32_t)random_between(1, random_bits() % 2 ? 10 : vocab + 2);
  if (which & 2)
    s.top_p = (float)random_between(1, 99) * 0.0100173f;
  if (which & 4)
    s.min_p = powf(10, -(float)random_between(1, 60) * 0.0710091f);
  s.seed = random_bits();
  return s;
}

/* Peaked and flat logits, and ties: what models produce, and what they should not. */
static void random_logits(float *logits, uint32_t vocab)
{
  uint32_t kind = random_bits() % 4;
  for (uint32_t i = 0; i < vocab; i++) {
    float x = random_float();
    const float of_kind[] = {10 * x, 0.1f * x, -20 * x * x * x * x + 5,
                             (float)(int)(8 * x)};
    logits[i] = of_kind[kind];
  }
}

static void filters(struct lls_device *device)
{
  static const uint32_t vocabs[] = {1, 2, 5, 40, 513, MAX_VOCAB};
  static float logits[MAX_VOCAB];
  static double p[MAX_VOCAB];
  for (int round = 0; round < 300; round++) {
    uint32_t vocab = vocabs[round % 6];
    struct lls_sampling s[16];
    struct lls_sampled out[16];
    random_logits(logits, vocab);
    s[0] = random_filters(vocab);
    distribution(logits, vocab, &s[0], p);
    for (uint32_t i = 0; i < 16; i++) {
      s[i] = s[0];
      s[i].index = i;
    }
    sample_rows(device, logits, vocab, s, 16, out);
    for (uint32_t i = 0; i < 16; i++)
      check_draw(p, vocab, lls_sampling_uniform(s[0].seed, i), out[i].token);
  }
}

static void test_filters(void **state)
{
  (void)state;
  each_level(2, MAX_ROWS, MAX_VOCAB, filters);
}

/* Each parameter alone on four tokens of 1/2, 1/4, 1/8, 1/8. */
static void by_hand(struct lls_device *device)
{
  const float logits[] = {logf(0.125f), logf(0.5f), logf(0.125f), logf(0.25f)};
  const struct {
    float temperature, top_p, min_p;
    int top_k;
    double p[4];
  } cases[] = {
      {1, 1, 0, 0, {0.125, 0.5, 0.125, 0.25}},
      {0.5f, 1, 0, 0, {1 / 22., 16 / 22., 1 / 22., 4 / 22.}},
      {1, 1, 0, 1, {0, 1, 0, 0}},
      {1, 1, 0, 2, {0, 2 / 3., 0, 1 / 3.}},
      {1, 1, 0, 3, {1 / 7., 4 / 7., 0, 2 / 7.}}, /* the tie goes to the lowest id */
      {1, 1, 0, 4, {0.125, 0.5, 0.125, 0.25}},
      {1, 1, 0.26f, 0, {0, 2 / 3., 0, 1 / 3.}},
      {1, 1, 0.24f, 0, {0.125, 0.5, 0.125, 0.25}},
      {1, 0.4f, 0, 0, {0, 1, 0, 0}},
      {1, 0.7f, 0, 0, {0, 2 / 3., 0, 1 / 3.}},
      {1, 0.8f, 0, 0, {1 / 7., 4 / 7., 0, 2 / 7.}},
      {1, 0.95f, 0, 0, {0.125, 0.5, 0.125, 0.25}},
      {1, 0.6f, 0, 2, {0, 1, 0, 0}}, /* 2/3 of what top_k left is enough */
      {1, 0.7f, 0.26f, 0, {0, 2 / 3., 0, 1 / 3.}},
  };
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    struct lls_sampling s = plain();
    s.temperature = cases[c].temperature;
    s.top_p = cases[c].top_p;
    s.min_p = cases[c].min_p;
    s.top_k = cases[c].top_k;
    for (uint32_t i = 0; i < 200; i++) {
      s.index = i;
      check_draw(cases[c].p, 4, lls_sampling_uniform(0, i),
                 sample_one(device, logits, 4, s));
    }
  }
}

static void test_parameters_by_hand(void **state)
{
  (void)state;
  each_level(1, MAX_ROWS, MAX_VOCAB, by_hand);
}

/*
 * One token of weight 1 and 299 of 0.0037, just below the first threshold by which
 * candidates are gathered: half of the mass is the one and some 14 of the others.
 */
static void deep_filters(struct lls_device *device)
{
  enum { VOCAB = 300 };
  const struct lls_sampling cases[] = {
      {.top_p = 0.5f}, {.top_p = 1, .top_k = 2}, {.top_p = 0.9f, .top_k = 150}};
  float logits[VOCAB];
  double p[VOCAB];
  for (int i = 0; i < VOCAB; i++)
    logits[i] = i == 11 ? 0 : -5.6f - 0.0001f * (float)i;
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    struct lls_sampling s = plain();
    s.top_p = cases[c].top_p;
    s.top_k = cases[c].top_k;
    distribution(logits, VOCAB, &s, p);
    for (s.index = 0; s.index < 300; s.index++)
      check_draw(p, VOCAB, lls_sampling_uniform(0, s.index),
                 sample_one(device, logits, VOCAB, s));
  }
}

static void test_deep_filters(void **state)
{
  (void)state;
  each_level(1, MAX_ROWS, MAX_VOCAB, deep_filters);
}

/* ---- statistics ------------------------------------------------------------------ */

#define DRAWS 100000

/* Mean of chi-square is the degrees of freedom n, its variance 2 n; five sigmas. */
static void check_chi_square(const uint32_t *counts, const double *p, uint32_t n)
{
  double chi_square = 0;
  uint32_t freedom = 0;
  for (uint32_t i = 0; i < n; i++) {
    double expected = DRAWS * p[i];
    if (expected == 0) {
      assert_int_equal(counts[i], 0);
      continue;
    }
    chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
    freedom++;
  }
  if (fabs(chi_square - (freedom - 1)) > 5 * sqrt(2.0 * (freedom - 1)))
    fail_msg("chi-square %.1f with %u degrees of freedom", chi_square, freedom - 1);
}

static void statistics(struct lls_device *device)
{
  enum { VOCAB = 50 };
  float logits[VOCAB];
  double p[VOCAB];
  for (int round = 0; round < 3; round++) {
    struct lls_sampling s[MAX_ROWS];
    struct lls_sampled out[MAX_ROWS];
    uint32_t counts[VOCAB] = {0};
    for (int i = 0; i < VOCAB; i++)
      logits[i] = 2 * random_float();
    s[0] = plain();
    s[0].temperature = 0.8f;
    s[0].seed = 1234 + (uint64_t)round;
    s[0].top_p = round == 1 ? 0.9f : 1;
    s[0].top_k = round == 2 ? 20 : 0;
    distribution(logits, VOCAB, &s[0], p);
    for (uint32_t i = 0; i < DRAWS; i += 50) {
      for (uint32_t k = 0; k < 50; k++) {
        s[k] = s[0];
        s[k].index = i + k;
      }
      sample_rows(device, logits, VOCAB, s, 50, out);
      for (uint32_t k = 0; k < 50; k++)
        counts[out[k].token]++;
    }
    check_chi_square(counts, p, VOCAB);
  }
}

static void test_statistics(void **state)
{
  (void)state;
  each_level(2, MAX_ROWS, MAX_VOCAB, statistics);
}

static void test_uniform(void **state)
{
  (void)state;
  uint32_t by_index[64] = {0}, by_seed[64] = {0};
  double p[64];
  for (uint32_t i = 0; i < 64; i++)
    p[i] = 1.0 / 64;
  for (uint32_t i = 0; i < DRAWS; i++) {
    by_index[(uint32_t)(64 * lls_sampling_uniform(42, i))]++;
    by_seed[(uint32_t)(64 * lls_sampling_uniform(i, 0))]++;
  }
  check_chi_square(by_index, p, 64);
  check_chi_square(by_seed, p, 64);
}

/* The same (seed, index) gives the same token in any row, with any other rows, on any
 * thread. */
static void same_anywhere(struct lls_device *device)
{
  enum { VOCAB = 1000, N = 60 };
  static float logits[VOCAB];
  struct lls_sampling s[N];
  struct lls_sampled out[N];
  random_logits(logits, VOCAB);
  for (uint32_t i = 0; i < N; i++) {
    s[i] = random_filters(VOCAB);
    s[i].index = i;
  }
  for (uint32_t i = 0; i < N; i += 3) {
    s[i] = plain();
    s[i].seed = 99;
    s[i].index = 5;
    s[i].top_p = 0.8f;
  }
  sample_rows(device, logits, VOCAB, s, N, out);
  for (uint32_t i = 0; i < N; i++)
    assert_int_equal(sample_one(device, logits, VOCAB, s[i]), out[i].token);
  for (uint32_t i = 0; i < N; i += 3)
    assert_int_equal(out[i].token, out[0].token);
}

static void test_same_in_any_row(void **state)
{
  (void)state;
  each_level(3, MAX_ROWS, MAX_VOCAB, same_anywhere);
}

/* ---- log probabilities ----------------------------------------------------------- */

static void logprobs(struct lls_device *device)
{
  static const uint32_t vocabs[] = {1, 3, 50, MAX_VOCAB};
  static float logits[MAX_VOCAB];
  static double p[MAX_VOCAB];
  const int32_t history[] = {0, 1, 2, 0};
  for (int round = 0; round < 40; round++) {
    uint32_t vocab = vocabs[round % 4];
    struct lls_sampling unmodified = plain(), s = random_filters(vocab);
    struct lls_sampled out;
    random_logits(logits, vocab);
    distribution(logits, vocab, &unmodified, p);
    s.want_logprob = true;
    s.n_logprobs = round % 3 == 0 ? 0 : LLS_MAX_LOGPROBS - (uint32_t)round % 3;
    s.repetition_penalty = 1.3f;
    s.frequency_penalty = 0.7f;
    s.history = history;
    s.n_history = 4;
    sample_rows(device, logits, vocab, &s, 1, &out);
    assert_near(device, "logprob", 0, out.logprob, log(p[out.token]),
                LOGPROB_EPSILON * 20);
    assert_int_equal(out.n_top, s.n_logprobs < vocab ? s.n_logprobs : vocab);
    for (uint32_t i = 0; i < out.n_top; i++) {
      int32_t best = 0;
      for (uint32_t k = 1; k < vocab; k++)
        best = p[k] > p[best] ? (int32_t)k : best;
      assert_int_equal(out.top_token[i], best);
      assert_near(device, "top logprob", i, out.top_logprob[i], log(p[best]),
                  LOGPROB_EPSILON * 20);
      p[best] = -1;
    }
  }
}

static void test_logprobs(void **state)
{
  (void)state;
  each_level(1, MAX_ROWS, MAX_VOCAB, logprobs);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_greedy),       cmocka_unit_test(test_nothing_to_draw),
      cmocka_unit_test(test_filters),      cmocka_unit_test(test_parameters_by_hand),
      cmocka_unit_test(test_deep_filters), cmocka_unit_test(test_statistics),
      cmocka_unit_test(test_uniform),      cmocka_unit_test(test_same_in_any_row),
      cmocka_unit_test(test_logprobs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
