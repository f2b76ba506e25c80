/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guesses on the CUDA device (the emulated one of t/simt): an answer is that of a run
 * without guesses, however it is drawn, on models with windows, latents, experts and
 * states, beside pieces of prompts, and with preemptions in between. Sums of attention
 * depend on how a step is cut (kernels/cuda/plan.c), so logprobs may differ by rounding;
 * tokens do not.
 */
#define REQUESTS 2 /* the emulator takes a hundred times as long as the CPU */
#define TOKENS   12
#include "t/draft_runs.h"
#include "t/letters.h"

#include "core/device/devices.h"

extern const struct lls_device_module lls_device_module; /* the emulated one */
unsigned simt_graph_launches(void);

#define TOLERANCE 1e-3f

static int create_emulated(const struct lls_device_options *options,
                           struct lls_device **out, struct lls_error *err)
{
  struct lls_device_options own = *options;
  own.numbers = LLS_F32;
  return lls_device_module.create(&own, out, err);
}

/* Runs without guesses, and with those of a kind. */
static void compare_on_cuda(struct run run, enum drafting_kind kind)
{
  static struct answer plain[REQUESTS], guessed[REQUESTS];
  run.create_device = create_emulated;
  run.tolerance = TOLERANCE;
  serve(&run, DRAFTING_NONE, NULL, plain);
  serve(&run, kind, plain, guessed);
  assert_same(&run, plain, guessed);
  assert_true(drafting.offered > 0);
  assert_true(kind != DRAFTING_MIXED || accepted_of(guessed) > 0);
}

static void penalised(struct lls_submission *s, uint32_t i)
{
  warm(s, i);
  s->sampling.repetition_penalty = 1.2f;
  s->sampling.frequency_penalty = 0.3f;
}

static void test_text_is_the_same_however_it_is_drawn(void **state)
{
  (void)state;
  compare_on_cuda((struct run){.model = "llama-biases", .set = greedy}, DRAFTING_HOSTILE);
  compare_on_cuda((struct run){.model = "falcon", .set = penalised}, DRAFTING_MIXED);
}

static struct lls_grammar *grammar;

static void constrained(struct lls_submission *s, uint32_t i)
{
  warm(s, i);
  s->sampling.want_logprob = false; /* it would keep forced tokens from being appended */
  s->sampling.n_logprobs = 0;
  s->grammar = grammar;
}

/* Each row has a mask of its own. */
static void test_text_is_the_same_under_a_grammar(void **state)
{
  struct reference *ref = reference_read("falcon");
  struct lls_vocabulary *v = letters(ref->vocab);
  (void)state;
  grammar = grammar_of(v, 1, 9, "h");
  compare_on_cuda((struct run){.model = "falcon", .set = constrained, .jumps = true},
                  DRAFTING_MIXED);
  lls_grammar_unref(grammar);
  lls_vocabulary_destroy(v);
  reference_free(ref);
}

static void test_text_is_the_same_on_all_kinds_of_layers(void **state)
{
  static const char *const models[] = {"gpt-oss", "deepseek-v2"};
  (void)state;
  for (size_t i = 0; i < sizeof models / sizeof *models; i++)
    compare_on_cuda(
        (struct run){.model = models[i], .set = i % 2 ? warm : greedy, .groups = true},
        DRAFTING_MIXED);
}

static void test_states_fold_what_was_accepted(void **state)
{
  static const char *const models[] = {"qwen3.5", "lfm2", "falcon-h1"};
  (void)state;
  for (size_t i = 0; i < sizeof models / sizeof *models; i++)
    compare_on_cuda((struct run){.model = models[i],
                                 .set = i % 2 ? warm : greedy,
                                 .groups = true,
                                 .preempt_every = i == 1 ? 5 : 0,
                                 .preempt_mode = LLS_PREEMPT_SWAP,
                                 .host_units = 512},
                    DRAFTING_MIXED);
}

/* Steps with as many guesses as an earlier one are one launch, whose grid fits any cut of
 * attention: of two and of five guesses, in pieces and in large items (plan.c). */
static void test_steps_with_guesses_are_graphs(void **state)
{
  unsigned before = simt_graph_launches();
  (void)state;
  for (uint32_t max = 2; max <= 5; max += 3)
    compare_on_cuda((struct run){.model = "falcon", .set = greedy, .max = max},
                    DRAFTING_REPEAT);
  print_message("# %u graphs launched\n", simt_graph_launches() - before);
  assert_true(simt_graph_launches() > before);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_text_is_the_same_however_it_is_drawn),
      cmocka_unit_test(test_text_is_the_same_under_a_grammar),
      cmocka_unit_test(test_text_is_the_same_on_all_kinds_of_layers),
      cmocka_unit_test(test_states_fold_what_was_accepted),
      cmocka_unit_test(test_steps_with_guesses_are_graphs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
