/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drawing tokens on the CUDA device against the CPU's, which t/kernel/test_sample.c
 * compares with the definition: the same parameters, seed and index must give the same
 * token. Logits are exact and powers of two apart; otherwise the two may differ if the
 * random number is within 1e-6 of a boundary, which no draw here is (the tests are the
 * same every time).
 */
#include "t/kernel/pair.h"

#include "core/device/sampling.h"

#define VOCAB   1503
#define LONG    20003 /* more than two chunks of sample_room.cuh's */
#define ROWS    24
#define HISTORY 60
#define BANNED  40 /* more than a row has room for */

static struct lls_sampling plain(void)
{
  return (struct lls_sampling){.temperature = 1, .top_p = 1, .repetition_penalty = 1};
}

/* Draws one token for each row, with its own logits. */
static void sample_rows(struct lls_device *d, const float *logits, uint32_t vocab,
                        const struct lls_sampling *params, uint32_t n,
                        struct lls_sampled *out)
{
  const struct lls_sampling *each[PAIR_ROWS];
  void *buffer;
  size_t bytes = (size_t)n * vocab * sizeof *logits;
  for (uint32_t i = 0; i < n; i++)
    each[i] = &params[i];
  assert_int_equal(d->ops->alloc(d, LLS_MEMORY_DEVICE, bytes, &buffer), 0);
  void *table;
  const struct lls_tensor_view view = view_of(logits, n, vocab);
  assert_int_equal(d->ops->table_create(d, &view, &table, NULL), 0);
  int32_t ids[PAIR_ROWS];
  for (uint32_t i = 0; i < n; i++)
    ids[i] = (int32_t)i;
  pair_begin(d, ids, n);
  d->ops->embed(d, table, 1, buffer); /* the device's activations are f32 here */
  d->ops->sample(d, buffer, n, vocab, each, out);
  pair_end(d);
  d->ops->table_destroy(d, table);
  pair_release(d, buffer);
}

static void check(const struct pair *p, const char *what, const float *logits,
                  uint32_t vocab, const struct lls_sampling *params, uint32_t n)
{
  static struct lls_sampled got[ROWS], wanted[ROWS];
  memset(got, 0x55, sizeof got);
  sample_rows(p->cpu, logits, vocab, params, n, wanted);
  sample_rows(p->cuda, logits, vocab, params, n, got);
  for (uint32_t i = 0; i < n; i++) {
    bool logprobs =
        params[i].want_logprob || params[i].n_logprobs > 0 || params[i].scored;
    if (got[i].token != wanted[i].token)
      fail_msg("%s: row %u draws %d, on the CPU %d", what, i, got[i].token,
               wanted[i].token);
    assert_int_equal(got[i].n_top, wanted[i].n_top);
    if (got[i].rank != wanted[i].rank)
      fail_msg("%s: row %u has rank %u, on the CPU %u", what, i, got[i].rank,
               wanted[i].rank);
    if (logprobs)
      assert_near(p->cuda, what, i, (double)got[i].logprob, (double)wanted[i].logprob,
                  1e-4);
    for (uint32_t k = 0; k < got[i].n_top; k++) {
      assert_int_equal(got[i].top_token[k], wanted[i].top_token[k]);
      assert_near(p->cuda, what, k, (double)got[i].top_logprob[k],
                  (double)wanted[i].top_logprob[k], 1e-4);
    }
  }
}

/* Random logits: one in eight is a tie, a few are NaN or excluded. */
static float *random_logits_of(uint32_t n, uint32_t vocab, float largest)
{
  float *logits = malloc((size_t)n * vocab * sizeof *logits);
  for (size_t i = 0; i < (size_t)n * vocab; i++) {
    logits[i] = largest * random_float();
    if (i > 0 && random_bits() % 8 == 0)
      logits[i] = logits[random_bits() % i];
    if (random_bits() % 200 == 0)
      logits[i] = random_bits() % 2 ? NAN : -INFINITY;
  }
  return logits;
}

static float *random_logits(uint32_t n, uint32_t vocab)
{
  return random_logits_of(n, vocab, 6);
}

static struct lls_sampling random_params(uint32_t row)
{
  static const float temperatures[] = {0, 0.3f, 1, 1.7f};
  static const float top_ps[] = {1, 0.9f, 0.5f, 0.01f}, min_ps[] = {0, 0.02f, 0.3f};
  static const int32_t top_ks[] = {0, 1, 7, 200, VOCAB, 100000};
  struct lls_sampling s = plain();
  s.temperature = temperatures[random_bits() % 4];
  s.top_p = top_ps[random_bits() % 4];
  s.min_p = min_ps[random_bits() % 3];
  s.top_k = top_ks[random_bits() % 6];
  s.seed = random_bits();
  s.index = row;
  static int32_t banned[ROWS][BANNED];
  static const uint32_t n_banned[] = {0, 2, 16, BANNED};
  for (uint32_t i = 0; i < BANNED; i++)
    banned[row][i] = (int32_t)(random_bits() % VOCAB);
  s.banned = banned[row];
  s.n_banned = n_banned[random_bits() % 4];
  static uint32_t allowed[ROWS][(LONG + 31) / 32];
  for (uint32_t i = 0; i < (LONG + 31) / 32; i++)
    allowed[row][i] = 1u | (row % 4 == 1 ? random_bits() : 1u << (row % 32));
  s.allowed = row % 2 == 1 ? allowed[row] : NULL;
  s.want_logprob = random_bits() % 2 == 0;
  s.n_logprobs = random_bits() % 4 == 0 ? random_between(1, 20) : 0;
  return s;
}

static void filters(const struct pair *p)
{
  static const uint32_t vocabs[] = {VOCAB, 1, 2, 31, 33, 512, 600};
  for (size_t i = 0; i < sizeof vocabs / sizeof *vocabs; i++) {
    float *logits = random_logits(ROWS, vocabs[i]);
    struct lls_sampling params[ROWS];
    for (uint32_t row = 0; row < ROWS; row++)
      params[row] = random_params(row);
    check(p, "filters", logits, vocabs[i], params, ROWS);
    free(logits);
  }
}

/* Rows of several chunks whose boundary may be in another chunk than the token; with
 * each filter alone, and with none. */
static struct lls_sampling filtered_params(uint32_t row)
{
  struct lls_sampling s = random_params(row);
  s.temperature = 1;
  if (row % 4 != 0)
    s.top_k = 0;
  if (row % 4 != 1)
    s.top_p = 1;
  if (row % 8 < 4)
    s.min_p = 0;
  return s;
}

/* Logits that put more weights than a list holds into one bin; and only one. */
static void long_rows(const struct pair *p)
{
  static const uint32_t vocabs[] = {LONG, LONG + 1, 8193, 16384, LONG};
  static const float largest[] = {6, 0.01f, 60, 0, 0.5f};
  for (size_t i = 0; i < sizeof vocabs / sizeof *vocabs; i++) {
    for (int mixed = 0; mixed < 2; mixed++) {
      float *logits = random_logits_of(ROWS, LONG + 1, largest[i]);
      for (size_t k = 0; i == 4 && k < (size_t)ROWS * (LONG + 1); k++)
        logits[k] = roundf(2 * logits[k]) / 2; /* three of them */
      struct lls_sampling params[ROWS];
      for (uint32_t row = 0; row < ROWS; row++)
        params[row] = mixed ? random_params(row) : filtered_params(row);
      check(p, "rows of several chunks", logits, vocabs[i], params, ROWS);
      free(logits);
    }
  }
}

/* More rows than are drawn at once. */
static void many_rows(const struct pair *p)
{
  enum { N = 150, SHORT = 40 };
  static struct lls_sampled got[N], wanted[N];
  static struct lls_sampling params[N];
  float *logits = random_logits(N, SHORT);
  for (uint32_t row = 0; row < N; row++) {
    params[row] = random_params(row % ROWS);
    params[row].index = row;
    params[row].allowed = NULL;
  }
  sample_rows(p->cpu, logits, SHORT, params, N, wanted);
  sample_rows(p->cuda, logits, SHORT, params, N, got);
  for (uint32_t row = 0; row < N; row++)
    assert_int_equal(got[row].token, wanted[row].token);
  free(logits);
}

/* Tokens of a prompt are only looked up, whatever else the request sets. Some rows are
 * scored while others draw. */
static void scored(const struct pair *p)
{
  static const struct lls_logit_bias bias = {17, 50};
  float *logits = random_logits(ROWS, VOCAB);
  struct lls_sampling params[ROWS];
  for (uint32_t row = 0; row < ROWS; row++) {
    uint32_t target = random_bits() % VOCAB;
    params[row] = random_params(row);
    params[row].scored = row % 4 != 3;
    params[row].target = (int32_t)target;
    params[row].want_logprob = row % 2 == 0;
    params[row].repetition_penalty = 1.5f;
    params[row].bias = &bias;
    params[row].n_bias = 1;
    logits[row * VOCAB + target] = 6 * random_float();
  }
  check(p, "scored", logits, VOCAB, params, ROWS);
  free(logits);
}

/* All logits are equal: boundaries are all ties, which are ordered by id. */
static void ties(const struct pair *p)
{
  float logits[ROWS * 100];
  struct lls_sampling params[ROWS];
  for (size_t i = 0; i < ROWS * 100; i++)
    logits[i] = i % 3 == 0 ? 2.0f : 1.0f;
  for (uint32_t row = 0; row < ROWS; row++) {
    params[row] = plain();
    params[row].top_k = (int32_t)(row * 5);
    params[row].top_p = row % 2 ? 1 : 0.5f;
    params[row].seed = row;
  }
  check(p, "ties", logits, 100, params, ROWS);
}

/* Penalties over histories with repeated tokens, and some outside the vocabulary. */
static void penalties(const struct pair *p)
{
  static int32_t history[ROWS][HISTORY];
  static struct lls_logit_bias biases[ROWS][4];
  struct lls_sampling params[ROWS];
  float *logits = random_logits(ROWS, VOCAB);
  for (uint32_t row = 0; row < ROWS; row++) {
    struct lls_sampling *s = &params[row];
    *s = random_params(row);
    for (uint32_t i = 0; i < HISTORY; i++)
      history[row][i] = (int32_t)(random_bits() % 40) * 40 - 5;
    for (uint32_t i = 0; i < 4; i++)
      biases[row][i] = (struct lls_logit_bias){history[row][i * (row % 2)], 5 - (float)i};
    s->repetition_penalty = row % 3 == 0 ? 1 : 1.5f;
    s->presence_penalty = row % 2 ? 0 : 0.5f;
    s->frequency_penalty = row % 4 ? 0 : 0.25f;
    s->history = history[row];
    s->n_history = HISTORY;
    s->n_prompt = row * 2;
    s->bias = biases[row];
    s->n_bias = row % 5;
  }
  check(p, "penalties", logits, VOCAB, params, ROWS);
  free(logits);
}

static void hopeless(const struct pair *p)
{
  static const int32_t banned[] = {0};
  float logits[4 * 33];
  struct lls_sampling params[4];
  for (uint32_t row = 0; row < 4; row++) {
    for (uint32_t i = 0; i < 33; i++)
      logits[row * 33 + i] = row % 2 ? NAN : -INFINITY;
    if (row == 3)
      logits[row * 33 + 20] = INFINITY;
    params[row] = plain();
    params[row].banned = banned;
    params[row].n_banned = row == 1;
  }
  check(p, "nothing to draw", logits, 33, params, 4);
}

/* Two draws in a step, as when the tokens of a prompt are scored. */
static void two_draws(const struct pair *p)
{
  float logits[2 * 100];
  struct lls_sampling params = plain();
  const struct lls_sampling *const one[] = {&params};
  struct lls_sampled drawn[2][2];
  params.want_logprob = true;
  for (size_t i = 0; i < 2 * 100; i++)
    logits[i] = random_float();
  const struct lls_tensor_view view = view_of(logits, 2, 100);
  for (int i = 0; i < 2; i++) {
    struct lls_device *d = i == 0 ? p->cpu : p->cuda;
    void *table, *buffer;
    assert_int_equal(d->ops->alloc(d, LLS_MEMORY_DEVICE, sizeof logits, &buffer), 0);
    assert_int_equal(d->ops->table_create(d, &view, &table, NULL), 0);
    pair_begin(d, (const int32_t[]){0, 1}, 2);
    d->ops->embed(d, table, 1, buffer);
    d->ops->sample(d, buffer, 1, 100, one, &drawn[i][0]);
    d->ops->sample(d, (float *)buffer + 100, 1, 100, one, &drawn[i][1]);
    pair_end(d);
    d->ops->table_destroy(d, table);
    pair_release(d, buffer);
  }
  for (int i = 0; i < 2; i++) {
    assert_int_equal(drawn[1][i].token, drawn[0][i].token);
    assert_near(p->cuda, "two draws", (size_t)i, (double)drawn[1][i].logprob,
                (double)drawn[0][i].logprob, 1e-4);
  }
}

#define TEST(name)                                                                       \
  static void test_##name(void **state)                                                  \
  {                                                                                      \
    (void)state;                                                                         \
    each_pair(LLS_F32, 100000, name);                                                    \
  }

TEST(filters)
TEST(long_rows)
TEST(many_rows)
TEST(scored)
TEST(ties)
TEST(penalties)
TEST(hopeless)
TEST(two_draws)

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_filters),   cmocka_unit_test(test_long_rows),
      cmocka_unit_test(test_many_rows), cmocka_unit_test(test_scored),
      cmocka_unit_test(test_ties),      cmocka_unit_test(test_penalties),
      cmocka_unit_test(test_hopeless),  cmocka_unit_test(test_two_draws),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
