/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guesses that steps verify (core/step/drafts.h): whatever is guessed, an answer is that
 * of a run without guesses, token for token, as are its logprobs and its end: however it
 * is drawn, in each cache manager, on models with windows, latents and experts, and with
 * preemptions in between. The products and attention of a row do not depend on how many
 * rows a step has (kernels/cpu/linear.h, attention.c), or greedy answers would differ.
 */
#include "t/draft_runs.h"
#include "t/letters.h"

/* ---- how tokens are drawn ------------------------------------------------------- */

static void penalised(struct lls_submission *s, uint32_t i)
{
  warm(s, i);
  s->sampling.repetition_penalty = 1.2f;
  s->sampling.presence_penalty = i % 2 ? 0.5f : 0;
  s->sampling.frequency_penalty = 0.3f;
  s->sampling.penalty_last_n = i % 3 ? 0 : 12;
}

static const struct lls_logit_bias bias[] = {{3, 4}, {7, 2}, {9, -100}};
/* words of two and three tokens, and one of one */
static const int32_t bad_words[] = {2, 3, 7, 3, 7, 3, 3, 1, 11};

static void listed(struct lls_submission *s, uint32_t i)
{
  warm(s, i);
  s->sampling.bias = bias;
  s->sampling.n_bias = 3;
  s->bad_words = bad_words;
  s->n_bad_words = sizeof bad_words / sizeof *bad_words;
}

static void stopping(struct lls_submission *s, uint32_t i)
{
  static const int32_t stops[] = {3, 17, 40, 77, 90, 101, 120};
  warm(s, i);
  s->sampling.temperature = 1.5f;
  s->stop_tokens = stops;
  s->n_stop_tokens = sizeof stops / sizeof *stops;
  s->min_new_tokens = i * 3;
}

static void chained(struct lls_submission *s, uint32_t i)
{
  warm(s, i);
  s->sampling.more.typical_p = i % 2 ? 0.9f : 0;
  s->sampling.more.xtc_probability = 0.5f;
  s->sampling.more.xtc_threshold = 0.05f;
  s->sampling.more.top_n_sigma = i % 3 ? 2 : 0;
}

static void test_text_is_the_same_however_it_is_drawn(void **state)
{
  static void (*const ways[])(struct lls_submission *, uint32_t) = {
      greedy, warm, penalised, listed, stopping, chained, NULL};
  (void)state;
  for (int i = 0; i < 6; i++)
    compare(&(struct run){.set = ways[i]});
}

/* Requests whose draws change what later draws depend on have no guesses. */
static void remembering(struct lls_submission *s, uint32_t i)
{
  warm(s, i);
  if (i % 2) {
    s->sampling.more.mirostat = 2;
    s->sampling.more.mirostat_tau = 3;
    s->sampling.more.mirostat_eta = 0.1f;
    s->sampling.more.mirostat_mu = 6;
  } else {
    s->dry = (struct lls_dry){.multiplier = 1, .base = 1.75f, .allowed_length = 1};
  }
}

static void test_draws_that_remember_have_no_guesses(void **state)
{
  static struct answer plain[REQUESTS], guessed[REQUESTS];
  const struct run run = {.set = remembering};
  (void)state;
  serve(&run, DRAFTING_NONE, NULL, plain);
  serve(&run, DRAFTING_ORACLE, plain, guessed);
  assert_same(&run, plain, guessed);
  assert_int_equal(drafting.offered, 0);
}

/* ---- grammars ------------------------------------------------------------------ */

static struct lls_grammar *grammar; /* of the next requests */

static void constrained(struct lls_submission *s, uint32_t i)
{
  warm(s, i);
  s->sampling.want_logprob = false; /* it would keep forced tokens from being appended */
  s->sampling.n_logprobs = 0;
  s->sampling.temperature = 1;
  s->grammar = grammar;
}

/* A plain run appends forced tokens at once, or draws them one after the other. */
static void test_text_is_the_same_under_a_grammar(void **state)
{
  struct reference *ref = reference_read(MODEL);
  struct lls_vocabulary *v = letters(ref->vocab);
  (void)state;
  grammar = grammar_of(v, 1, 9, "h");
  for (int jumps = 0; jumps < 2; jumps++)
    compare(&(struct run){.set = constrained, .jumps = jumps});
  lls_grammar_unref(grammar);
  lls_vocabulary_destroy(v);
  reference_free(ref);
}

/* ---- models and caches ------------------------------------------------------- */

static void test_text_is_the_same_on_all_kinds_of_layers(void **state)
{
  static const char *const models[] = {"mistral-window", "gemma3",  "gpt-oss",
                                       "deepseek-v2",    "mixtral", "llama-4"};
  (void)state;
  for (size_t i = 0; i < sizeof models / sizeof *models; i++)
    compare(
        &(struct run){.model = models[i], .set = i % 2 ? warm : greedy, .groups = true});
}

static void test_text_is_the_same_in_each_cache(void **state)
{
  static const char *const managers[] = {"paged", "contiguous", "tiered", "hybrid",
                                         "bidirectional"};
  (void)state;
  for (size_t i = 0; i < sizeof managers / sizeof *managers; i++) {
    compare(&(struct run){.cache = managers[i], .set = warm});
    compare(&(struct run){.cache = managers[i],
                          .set = greedy,
                          .preempt_every = 5,
                          .create_device = create_asynchronous,
                          .device_units = 64});
  }
}

static void test_swaps_keep_what_was_accepted(void **state)
{
  static const char *const managers[] = {"paged", "tiered", "bidirectional"};
  (void)state;
  for (size_t i = 0; i < sizeof managers / sizeof *managers; i++)
    compare(&(struct run){.cache = managers[i],
                          .set = warm,
                          .preempt_every = 4,
                          .preempt_mode = LLS_PREEMPT_SWAP,
                          .host_units = 512,
                          .max = 20});
}

/* Steps keep the layers' inputs of guesses, too, and write over those of wrong ones. */
static void test_hidden_forms_keep_what_was_accepted(void **state)
{
  (void)state;
  for (uint32_t i = 0; i < 2; i++)
    compare(&(struct run){.model = "opt",
                          .cache = "hybrid",
                          .set = i ? warm : greedy,
                          .form = LLS_FORM_HIDDEN,
                          .preempt_every = i ? 6 : 0});
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_text_is_the_same_however_it_is_drawn),
      cmocka_unit_test(test_draws_that_remember_have_no_guesses),
      cmocka_unit_test(test_text_is_the_same_under_a_grammar),
      cmocka_unit_test(test_text_is_the_same_on_all_kinds_of_layers),
      cmocka_unit_test(test_text_is_the_same_in_each_cache),
      cmocka_unit_test(test_swaps_keep_what_was_accepted),
      cmocka_unit_test(test_hidden_forms_keep_what_was_accepted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
