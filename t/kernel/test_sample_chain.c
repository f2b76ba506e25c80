/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The filters that run one after the other, at every ISA level, against llama.cpp's own
 * results (t/data/samplers), and their draws.
 */
#include "t/kernel/sample.h"

#include <stdio.h>

#define N 16

struct given {
  char name[32];
  float parameter[3];
  float logits[N];
  double p[N];
};

/* Reads the next case of a sampler of logits. Returns false at the end of them. */
static bool next_case(FILE *file, struct given *g)
{
  char line[256];
  *g = (struct given){0};
  if (fgets(line, sizeof line, file) == NULL ||
      sscanf(line, "%31s %f %f %f", g->name, &g->parameter[0], &g->parameter[1],
             &g->parameter[2]) < 2 ||
      strcmp(g->name, "dry") == 0)
    return false;
  for (int i = 0; i < N; i++)
    assert_int_equal(fscanf(file, "%f", &g->logits[i]), 1);
  for (int i = 0; i < N; i++)
    assert_int_equal(fscanf(file, "%lf", &g->p[i]), 1);
  assert_int_equal(fgetc(file), '\n');
  return true;
}

static void set_order(struct lls_sampling *s, const uint8_t *order, uint32_t n)
{
  s->more.has_order = true;
  s->more.n_order = n;
  memcpy(s->more.order, order, n);
}

static void set_whole_chain(struct lls_sampling *s, const struct given *g)
{
  static const uint8_t theirs[] = {
      LLS_FILTER_TOP_N_SIGMA, LLS_FILTER_TOP_K, LLS_FILTER_TYPICAL_P,  LLS_FILTER_TOP_P,
      LLS_FILTER_MIN_P,       LLS_FILTER_XTC,   LLS_FILTER_TEMPERATURE};
  s->top_p = g->parameter[0];
  if (strcmp(g->name, "llama_order") != 0) { /* our own order */
    s->temperature = 1.5f;
    s->min_p = 0.05f;
    s->top_k = 12;
    s->more.typical_p = 0.9f;
    return;
  }
  set_order(s, theirs, sizeof theirs);
  s->temperature = 0.7f;
  s->min_p = 0.02f;
  s->top_k = 10;
  s->more.top_n_sigma = 2;
  s->more.typical_p = 0.95f;
  s->more.xtc_probability = 1;
  s->more.xtc_threshold = 0.2f;
}

static struct lls_sampling params_of(const struct given *g)
{
  struct lls_sampling s = plain();
  struct lls_more_sampling *m = &s.more;
  m->drawn_logprobs = s.want_logprob = true;
  s.n_logprobs = N;
  if (strcmp(g->name, "top_n_sigma") == 0) {
    m->top_n_sigma = g->parameter[0];
  } else if (strcmp(g->name, "typical_p") == 0) {
    m->typical_p = g->parameter[0];
  } else if (strcmp(g->name, "xtc") == 0) {
    m->xtc_probability = 1;
    m->xtc_threshold = g->parameter[0];
  } else if (strcmp(g->name, "dynatemp") == 0) {
    s.temperature = g->parameter[0];
    m->dynatemp_range = g->parameter[1];
    m->dynatemp_exponent = g->parameter[2];
  } else if (strncmp(g->name, "mirostat", 8) == 0) {
    m->mirostat = g->name[8] == '1' ? 1 : 2;
    m->mirostat_mu = g->parameter[0];
  } else {
    set_whole_chain(&s, g);
  }
  return s;
}

static void check_case(struct lls_device *device, const struct given *g)
{
  double p[N] = {0};
  struct lls_sampled out;
  struct lls_sampling s = params_of(g);
  sample_rows(device, g->logits, N, &s, 1, &out);
  for (uint32_t i = 0; i < out.n_top; i++)
    p[out.top_token[i]] = exp((double)out.top_logprob[i]);
  for (int i = 0; i < N; i++)
    if (fabs(p[i] - g->p[i]) > 2e-5)
      fail_msg("%s %g: token %d has %g, expected %g", g->name, (double)g->parameter[0], i,
               p[i], g->p[i]);
  assert_true(p[out.token] > 0);
  assert_true(fabs(exp((double)out.logprob) - p[out.token]) < 2e-5);
  if (s.more.mirostat != 0)
    assert_true(fabs((double)out.surprise + log2(p[out.token])) < 1e-3);
}

static void as_llamacpp(struct lls_device *device)
{
  struct given g;
  int n = 0;
  FILE *file = fopen(source_path("t/data/samplers/llamacpp.txt"), "r");
  assert_non_null(file);
  for (; next_case(file, &g); n++)
    check_case(device, &g);
  assert_int_equal(n, 48);
  fclose(file);
}

static void test_as_llamacpp(void **state)
{
  (void)state;
  each_level(1, MAX_ROWS, MAX_VOCAB, as_llamacpp);
}

/* ---- draws ------------------------------------------------------------------------- */

/* The chain with vLLM's filters alone draws the tokens that their common search does. */
static void chain_is_search(struct lls_device *device)
{
  static float logits[MAX_VOCAB];
  fill_random(logits, MAX_VOCAB);
  struct lls_sampling s = plain();
  s.seed = 11;
  for (s.index = 0; s.index < 40; s.index++) {
    s.temperature = 0.3f + 0.1f * (float)(s.index % 9);
    s.top_k = s.index % 3 == 0 ? 0 : 40 * (int32_t)s.index;
    s.top_p = s.index % 4 == 0 ? 1 : 0.8f;
    s.min_p = s.index % 5 == 0 ? 0.05f : 0;
    s.more.drawn_logprobs = false;
    int32_t by_search = sample_one(device, logits, MAX_VOCAB, s);
    s.more.drawn_logprobs = true;
    assert_int_equal(sample_one(device, logits, MAX_VOCAB, s), by_search);
  }
}

static void test_chain_is_search(void **state)
{
  (void)state;
  each_level(1, MAX_ROWS, MAX_VOCAB, chain_is_search);
}

/* XTC decides with a number of its own, by its probability. */
static void xtc_sometimes(struct lls_device *device)
{
  float logits[4] = {3, 2.9f, -20, -20};
  struct lls_sampling s = plain();
  int second = 0;
  s.more.xtc_probability = 0.5f;
  s.more.xtc_threshold = 0.1f;
  s.top_k = 2;
  for (s.index = 0; s.index < 1000; s.index++)
    second += sample_one(device, logits, 4, s) == 1;
  /* half of the draws leave token 1 alone, the rest draw it with .475 */
  assert_true(second > 690 && second < 785);
}

static void test_xtc_sometimes(void **state)
{
  (void)state;
  each_level(1, MAX_ROWS, MAX_VOCAB, xtc_sometimes);
}

/* Masked tokens and those that are no number stay out; the last token is never removed.
 */
static void masks_and_numbers(struct lls_device *device)
{
  float logits[8] = {9, NAN, 1, 2, NAN, 1, 0, 3};
  uint32_t allowed = 1u << 1 | 1u << 2 | 1u << 3;
  struct lls_sampling s = plain();
  s.allowed = &allowed;
  for (s.index = 0; s.index < 60; s.index++) {
    s.more =
        (struct lls_more_sampling){.top_n_sigma = s.index % 2 ? 1e-6f : 0,
                                   .typical_p = s.index % 3 ? 1e-6f : 0,
                                   .mirostat = s.index % 5 == 0 ? 1 + s.index % 2 : 0,
                                   .mirostat_mu = -5,
                                   .xtc_probability = 1,
                                   .xtc_threshold = 0,
                                   .dynatemp_range = 2,
                                   .dynatemp_exponent = 1};
    int32_t token = sample_one(device, logits, 8, s);
    assert_true(token == 2 || token == 3);
  }
}

static void test_masks_and_numbers(void **state)
{
  (void)state;
  each_level(1, MAX_ROWS, MAX_VOCAB, masks_and_numbers);
}

/* Mirostat's mean surprise comes to tau. */
static void surprise_is_tau(struct lls_device *device)
{
  static float logits[1000];
  for (int i = 0; i < 1000; i++) /* Zipf's law, as in texts */
    logits[i] = -1.1f * logf((float)(i + 1));
  for (uint32_t k = 0; k < 4; k++) {
    double sum = 0;
    struct lls_sampled out;
    struct lls_sampling s = plain();
    s.more.mirostat = 1 + k % 2;
    s.more.mirostat_tau = k < 2 ? 2 : 4;
    s.more.mirostat_eta = 0.1f;
    s.more.mirostat_mu = 2 * s.more.mirostat_tau;
    for (s.index = 0; s.index < 600; s.index++) {
      sample_rows(device, logits, 1000, &s, 1, &out);
      lls_sampling_observe(&s, &out);
      sum += s.index >= 100 ? (double)out.surprise : 0;
    }
    assert_true(fabs(sum / 500 - (double)s.more.mirostat_tau) < 0.15);
  }
}

static void test_surprise_is_tau(void **state)
{
  (void)state;
  each_level(1, MAX_ROWS, MAX_VOCAB, surprise_is_tau);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_as_llamacpp),     cmocka_unit_test(test_chain_is_search),
      cmocka_unit_test(test_xtc_sometimes),   cmocka_unit_test(test_masks_and_numbers),
      cmocka_unit_test(test_surprise_is_tau),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
