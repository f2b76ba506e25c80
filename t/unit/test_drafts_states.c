/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guesses of sequences with a state (core/engine/tails.c): an answer is that of a run
 * without guesses, since a state folds what was accepted and nothing else, at any place
 * in a step, beside attention and alone, in managers that keep states, with checkpoints,
 * preemptions and swaps in between.
 */
#include "t/draft_runs.h"
#include "t/letters.h"

/* Short convolutions, delta nets, state spaces, and both beside attention. */
static const char *const models[] = {"lfm2",      "qwen3-next",  "qwen3.5",
                                     "mamba-2",   "granite-4-h", "nemotron-h",
                                     "falcon-h1", "qwen3.5-moe"};

static void test_text_is_the_same_on_layers_with_a_state(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof models / sizeof *models; i++)
    compare(
        &(struct run){.model = models[i], .set = i % 2 ? warm : greedy, .groups = true});
}

static void test_states_are_kept_in_each_cache(void **state)
{
  static const char *const managers[] = {"paged", "tiered", "bidirectional"};
  (void)state;
  for (size_t i = 0; i < 6; i++)
    compare(&(struct run){.model = i < 3 ? "qwen3-next" : "lfm2",
                          .cache = managers[i % 3],
                          .set = warm,
                          .groups = true,
                          .preempt_every = 5,
                          .create_device = create_asynchronous});
}

static void test_swapped_states_have_what_was_accepted(void **state)
{
  static const char *const managers[] = {"paged", "tiered", "bidirectional"};
  (void)state;
  for (size_t i = 0; i < sizeof managers / sizeof *managers; i++)
    compare(&(struct run){.model = i ? "nemotron-h" : "qwen3.5",
                          .cache = managers[i],
                          .set = warm,
                          .groups = true,
                          .preempt_every = 4,
                          .preempt_mode = LLS_PREEMPT_SWAP,
                          .host_units = 512,
                          .max = 20});
}

/* ---- grammars ---------------------------------------------------------------------- */

static struct lls_grammar *grammar; /* of the next requests */

static void constrained(struct lls_submission *s, uint32_t i)
{
  warm(s, i);
  s->sampling.want_logprob = false;
  s->sampling.n_logprobs = 0;
  s->sampling.temperature = 1;
  s->grammar = grammar;
}

/* Requests whose masks take longer than a step are held in between. */
static void test_states_are_the_same_under_a_grammar(void **state)
{
  static struct answer plain[REQUESTS], late[REQUESTS];
  struct reference *ref = reference_read("qwen3-next");
  struct lls_vocabulary *v = words(ref->vocab);
  struct run run = {.model = "qwen3-next", .set = constrained, .groups = true};
  (void)state;
  grammar = ambiguous(v);
  serve(&run, DRAFTING_NONE, NULL, plain);
  run.mask_work = 3000;
  serve(&run, DRAFTING_NONE, NULL, late);
  assert_same(&run, plain, late);
  serve(&run, DRAFTING_MIXED, plain, late);
  assert_same(&run, plain, late);
  lls_grammar_unref(grammar);
  lls_vocabulary_destroy(v);
  reference_free(ref);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_text_is_the_same_on_layers_with_a_state),
      cmocka_unit_test(test_states_are_kept_in_each_cache),
      cmocka_unit_test(test_swapped_states_have_what_was_accepted),
      cmocka_unit_test(test_states_are_the_same_under_a_grammar),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
