/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The law of tokens that steps draw behind guesses, right and wrong ones: 10^5 draws
 * follow the model's probabilities. Guesses are accepted by comparing them with what the
 * request would draw anyway (core/step/drafts.h), which is exact sampling whatever is
 * guessed; a guess that is taken too easily shows in the counts.
 */
#include "t/draft_runs.h"

#define RANKS 5 /* the likeliest tokens of a draw; all others are one class */
#define DRAWS 100000
/* chi square of RANKS degrees of freedom is larger in 1 of 10,000 cases. Draws have
 * different probabilities, by which the sum is smaller. */
#define LIMIT 25.74

static void plainly(struct lls_submission *s, uint32_t i)
{
  (void)i;
  s->sampling.temperature = 1;
  s->sampling.top_p = 1;
  s->sampling.want_logprob = true;
  s->sampling.n_logprobs = RANKS;
}

struct counts {
  double expected[RANKS + 1];
  uint64_t seen[RANKS + 1], draws;
};

static void count(struct counts *c, const struct answer *a)
{
  for (uint32_t t = 0; t < a->n_tokens; t++) {
    const struct lls_sampled *d = &a->drawn[t];
    uint32_t class = 0;
    double rest = 1;
    assert_int_equal(d->n_top, RANKS);
    for (uint32_t i = 0; i < RANKS; i++) {
      double p = exp((double)d->top_logprob[i]);
      c->expected[i] += p;
      rest -= p;
      class += class == i && d->top_token[i] != d->token;
    }
    c->expected[RANKS] += rest;
    c->seen[class]++;
    c->draws++;
  }
}

static double chi_square(const struct counts *c)
{
  double sum = 0;
  for (uint32_t i = 0; i <= RANKS; i++) {
    double off = (double)c->seen[i] - c->expected[i];
    sum += off * off / c->expected[i];
  }
  return sum;
}

static void serve_round(struct harness *h, const struct reference *ref,
                        const struct run *run, enum drafting_kind kind,
                        const struct answer *texts, struct answer *answers)
{
  drafting = (struct drafting){.harness = h,
                               .kind = kind,
                               .texts = texts,
                               .chunk = 5,
                               .dice.state = 7 + run->seed};
  submit_all(h, ref, run, answers);
  drafting_serve(h);
}

static void test_draws_follow_the_model(void **state)
{
  static struct answer plain[REQUESTS], guessed[REQUESTS];
  struct counts counts = {0};
  char path[256];
  struct harness without, with;
  struct run run = {.model = "falcon", .set = plainly};
  struct harness_options o = options_of(&run, path, sizeof path);
  struct reference *ref = reference_read(run.model);
  uint64_t accepted = 0;
  (void)state;
  open_or_fail(&without, &o);
  open_or_fail(&with, &o);
  for (; counts.draws < DRAWS; run.seed += REQUESTS) {
    serve_round(&without, ref, &run, DRAFTING_NONE, NULL, plain);
    serve_round(&with, ref, &run, DRAFTING_MIXED, plain, guessed);
    assert_same(&run, plain, guessed);
    accepted += accepted_of(guessed);
    for (uint32_t i = 0; i < REQUESTS; i++)
      count(&counts, &guessed[i]);
  }
  print_message("# %lu draws, %lu behind right guesses, chi square %.1f\n",
                (unsigned long)counts.draws, (unsigned long)accepted,
                chi_square(&counts));
  assert_true(accepted > DRAWS / 4);
  assert_true(chi_square(&counts) < LIMIT);
  harness_close(&without); /* first: drafting_install's copy is of the other's plugin */
  harness_close(&with);
  reference_free(ref);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_draws_follow_the_model)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
