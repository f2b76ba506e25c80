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

/* ---- pieces ------------------------------------------------------------------------ */

#define PROMPT 60

/* Serves one request alone, whose prompt is read in pieces of `chunk` tokens. */
static void serve_in_pieces(const char *model, const char *chunk, struct answer *out)
{
  const char *const parameters[] = {"chunk", chunk, NULL};
  char path[256];
  int32_t prompt[PROMPT];
  struct harness h;
  struct lls_error err = {0};
  struct harness_options o = client_options("sarathi");
  snprintf(path, sizeof path, "t/data/models/%s", model);
  o.model = path;
  o.groups = true;
  o.scheduler.parameters = parameters;
  o.cache = (struct harness_policy){"paged", NULL};
  for (int32_t i = 0; i < PROMPT; i++)
    prompt[i] = 3 + i * i % 50;
  open_or_fail(&h, &o);
  *out = (struct answer){.n_prompt = PROMPT};
  struct lls_submission s = harness_submission(prompt, PROMPT, TOKENS, out);
  if (lls_loop_submit(h.loop, &s, &out->id, &err) < 0)
    fail_msg("submit: %s", err.text);
  drafting_serve(&h);
  harness_close(&h);
}

/* Memory for the whole prompt is reserved with its first piece, and the state after its
 * last whole block is to be kept: a place that the first piece does not reach. */
static void test_pieces_end_before_what_was_reserved(void **state)
{
  static const char *const kinds[] = {"qwen3.5", "lfm2", "granite-4-h", "falcon-h1"};
  (void)state;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    struct answer whole, pieces;
    serve_in_pieces(kinds[i], "128", &whole);
    serve_in_pieces(kinds[i], "32", &pieces);
    assert_int_equal(whole.n_tokens, TOKENS);
    assert_int_equal(pieces.n_tokens, TOKENS);
    assert_memory_equal(whole.tokens, pieces.tokens, sizeof *whole.tokens * TOKENS);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_text_is_the_same_on_layers_with_a_state),
      cmocka_unit_test(test_states_are_kept_in_each_cache),
      cmocka_unit_test(test_swapped_states_have_what_was_accepted),
      cmocka_unit_test(test_states_are_the_same_under_a_grammar),
      cmocka_unit_test(test_pieces_end_before_what_was_reserved),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
