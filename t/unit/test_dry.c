/* SPDX-License-Identifier: Apache-2.0 */
/* DRY's penalties against llama.cpp's (t/data/samplers), and one token after the other.
 */
#include "t/tap.h"

#include <math.h>
#include <string.h>

#include "core/instance/dry.h"

#define VOCABULARY 5
#define LONGEST    64

struct given {
  struct lls_dry dry;
  uint32_t breakers; /* one bit per token */
  int32_t sequences[32];
  int32_t tokens[LONGEST];
  uint32_t n_sequences, n;
  double penalty[VOCABULARY];
};

static uint32_t read_tokens(FILE *file, int32_t *out)
{
  char line[1024], *at = line;
  uint32_t n = 0;
  int used, token;
  assert_non_null(fgets(line, sizeof line, file));
  for (; sscanf(at, "%d%n", &token, &used) == 1; at += used)
    out[n++] = token;
  return n;
}

/* Breakers of one token go to the mask, as from the API. */
static void split_breakers(struct given *g)
{
  uint32_t to = 0;
  for (uint32_t at = 0; at < g->n_sequences; at += 1 + (uint32_t)g->sequences[at]) {
    uint32_t n = 1 + (uint32_t)g->sequences[at];
    if (n == 2) {
      g->breakers |= 1u << g->sequences[at + 1];
      continue;
    }
    memmove(g->sequences + to, g->sequences + at, n * sizeof *g->sequences);
    to += n;
  }
  g->n_sequences = to;
}

/* Reads the next case of DRY; the file's other cases are skipped. */
static bool next_case(FILE *file, struct given *g)
{
  char line[1024];
  *g = (struct given){0};
  do {
    if (fgets(line, sizeof line, file) == NULL)
      return false;
  } while (sscanf(line, "dry %f %f %u %u", &g->dry.multiplier, &g->dry.base,
                  &g->dry.allowed_length, &g->dry.last_n) != 4);
  g->n_sequences = read_tokens(file, g->sequences);
  g->n = read_tokens(file, g->tokens);
  for (int i = 0; i < VOCABULARY; i++)
    assert_int_equal(fscanf(file, "%lf", &g->penalty[i]), 1);
  assert_int_equal(fgetc(file), '\n');
  split_breakers(g);
  return true;
}

struct room {
  uint32_t matches[LONGEST], longest[VOCABULARY];
  struct lls_dry_state state;
};

static void begin(struct room *r, struct given *g)
{
  *r = (struct room){0};
  r->state = (struct lls_dry_state){.dry = g->dry,
                                    .breakers = {.tokens = &g->breakers,
                                                 .sequences = g->sequences,
                                                 .n_sequences = g->n_sequences},
                                    .matches = r->matches,
                                    .longest = r->longest};
}

/* Returns the penalties' sum by token. */
static void penalise(struct room *r, const int32_t *tokens, uint32_t n,
                     double penalty[VOCABULARY])
{
  struct lls_logit_bias out[VOCABULARY];
  uint32_t found = lls_dry_penalise(&r->state, tokens, n, VOCABULARY, out);
  assert_true(found <= VOCABULARY);
  memset(penalty, 0, VOCABULARY * sizeof *penalty);
  for (uint32_t i = 0; i < found; i++) {
    assert_true(penalty[out[i].token] == 0);
    penalty[out[i].token] = -(double)out[i].bias;
  }
}

static void test_as_llamacpp(void **state)
{
  struct given g;
  struct room r;
  double penalty[VOCABULARY];
  int n = 0, some = 0;
  (void)state;
  FILE *file = fopen(source_path("t/data/samplers/llamacpp.txt"), "r");
  assert_non_null(file);
  for (; next_case(file, &g); n++) {
    begin(&r, &g);
    penalise(&r, g.tokens, g.n, penalty);
    for (int i = 0; i < VOCABULARY; i++) {
      some += penalty[i] > 0;
      if (fabs(penalty[i] - g.penalty[i]) > 1e-5 * (1 + g.penalty[i]))
        fail_msg("case %d: token %d is lowered by %g, not %g", n, i, penalty[i],
                 g.penalty[i]);
    }
  }
  assert_int_equal(n, 40);
  assert_true(some > 20);
  fclose(file);
}

/* A request whose text grows gets what a new one gets for the whole text. */
static void test_token_by_token(void **state)
{
  struct given g;
  struct room growing, whole;
  double penalty[VOCABULARY], expected[VOCABULARY];
  (void)state;
  FILE *file = fopen(source_path("t/data/samplers/llamacpp.txt"), "r");
  assert_non_null(file);
  while (next_case(file, &g)) {
    begin(&growing, &g);
    for (uint32_t n = 1; n <= g.n; n++) {
      begin(&whole, &g);
      penalise(&growing, g.tokens, n, penalty);
      penalise(&whole, g.tokens, n, expected);
      assert_memory_equal(penalty, expected, sizeof expected);
    }
  }
  fclose(file);
}

/* A long repetition gives a large number, not infinity. */
static void test_large(void **state)
{
  struct given g = {.dry = {.multiplier = 1, .base = 100, .allowed_length = 1}, .n = 60};
  struct room r;
  double penalty[VOCABULARY];
  (void)state;
  begin(&r, &g); /* sixty times token 0 */
  penalise(&r, g.tokens, g.n, penalty);
  assert_true(penalty[0] > 1e30 && isfinite(penalty[0]));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_as_llamacpp),
      cmocka_unit_test(test_token_by_token),
      cmocka_unit_test(test_large),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
