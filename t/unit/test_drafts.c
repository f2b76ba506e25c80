/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guesses that steps verify (core/step/drafts.h): whatever is guessed, an answer is that
 * of a run without guesses, token for token, as are its logprobs and its end: however it
 * is drawn, in each cache manager, on models with windows, latents and experts, and with
 * preemptions in between. The products and attention of a row do not depend on how many
 * rows a step has (kernels/cpu/linear.h, attention.c), or greedy answers would differ.
 */
#include "t/tap.h"

#include <math.h>
#include <string.h>

#include "t/drafting.h"
#include "t/letters.h"

#define REQUESTS 6
#define TOKENS   40 /* of an answer */

/* ---- runs -------------------------------------------------------------------------- */

/* How a run differs from the plain one. */
struct run {
  const char *model, *cache;
  const char *const *parameters; /* of the cache manager */
  void (*set)(struct lls_submission *, uint32_t i);
  bool groups, jumps, asynchronous;
  uint32_t device_units, host_units, preempt_every, preempt_mode, max, int8;
};

static struct harness_options options_of(const struct run *run, char *path, size_t size)
{
  struct harness_options o = client_options("fcfs");
  snprintf(path, size, "t/data/models/%s", run->model != NULL ? run->model : MODEL);
  o.model = path;
  o.max_drafts = run->max > 0 ? run->max : DRAFTING_MAX;
  o.groups = run->groups;
  o.no_jump = !run->jumps;
  o.int8 = run->int8;
  o.max_sequences = 8;
  o.device_units = run->device_units > 0 ? run->device_units : 512;
  o.host_units = run->host_units;
  o.cache =
      (struct harness_policy){run->cache != NULL ? run->cache : "paged", run->parameters};
  o.create_device = run->asynchronous ? create_asynchronous : NULL;
  o.replace = drafting_install;
  return o;
}

static void submit_all(struct harness *h, const struct reference *ref,
                       const struct run *run, struct answer *answers)
{
  struct lls_error err = {0};
  for (uint32_t i = 0; i < REQUESTS; i++) {
    const struct reference_prompt *p = &ref->prompts[i % ref->n_prompts];
    char label[8];
    answers[i] = (struct answer){.n_prompt = p->n_prompt};
    struct lls_submission s =
        harness_submission(p->tokens, p->n_prompt, TOKENS, &answers[i]);
    snprintf(label, sizeof label, "%u", i);
    s.label = label;
    s.sampling.seed = 1000 + i;
    if (run->set != NULL)
      run->set(&s, i);
    if (lls_loop_submit(h->loop, &s, &answers[i].id, &err) < 0)
      fail_msg("submit: %s", err.text);
  }
}

/* Serves all requests; returns the steps. */
static uint32_t serve(const struct run *run, enum drafting_kind kind,
                      const struct answer *texts, struct answer *answers)
{
  char path[256];
  struct harness h;
  struct reference *ref = reference_read(run->model != NULL ? run->model : MODEL);
  struct harness_options o = options_of(run, path, sizeof path);
  drafting = (struct drafting){
      .harness = &h,
      .kind = kind,
      .texts = texts,
      .max = o.max_drafts,
      .chunk = 5,
      .preempt_every = run->preempt_every,
      .preempt_mode = run->preempt_mode > 0 ? run->preempt_mode : LLS_PREEMPT_RECOMPUTE,
      .dice.state = 7};
  open_or_fail(&h, &o);
  assert_int_equal(lls_engine_caps(h.engine)->max_drafts, o.max_drafts);
  submit_all(&h, ref, run, answers);
  uint32_t steps = drafting_serve(&h);
  struct lls_loop_status s;
  lls_loop_status(h.loop, &s);
  assert_int_equal(s.plans_refused, 0);
  harness_close(&h);
  reference_free(ref);
  return steps;
}

static uint64_t accepted_of(const struct answer *answers)
{
  uint64_t n = 0;
  for (uint32_t i = 0; i < REQUESTS; i++) {
    assert_true(answers[i].accepted <= answers[i].drafted);
    n += answers[i].accepted;
  }
  return n;
}

static void assert_same_draw(const struct lls_sampled *a, const struct lls_sampled *b)
{
  assert_memory_equal(&a->logprob, &b->logprob, sizeof a->logprob);
  assert_int_equal(a->n_top, b->n_top);
  assert_memory_equal(a->top_token, b->top_token, a->n_top * sizeof *a->top_token);
  assert_memory_equal(a->top_logprob, b->top_logprob, a->n_top * sizeof *a->top_logprob);
}

static void assert_same(const struct answer *plain, const struct answer *guessed,
                        bool jumps)
{
  for (uint32_t i = 0; i < REQUESTS; i++) {
    const struct answer *a = &plain[i], *b = &guessed[i];
    assert_int_equal(a->finished, 1);
    assert_int_equal(b->finished, 1);
    assert_int_equal(a->reason, b->reason);
    assert_int_equal(a->n_tokens, b->n_tokens);
    assert_memory_equal(a->tokens, b->tokens, a->n_tokens * sizeof *a->tokens);
    for (uint32_t t = 0; t < a->n_tokens && !jumps; t++)
      assert_same_draw(&a->drawn[t], &b->drawn[t]);
  }
}

/* Runs without guesses, then with each kind of them. */
static void compare(const struct run *run)
{
  static struct answer plain[REQUESTS], guessed[REQUESTS];
  uint32_t steps = serve(run, DRAFTING_NONE, NULL, plain);
  for (enum drafting_kind kind = DRAFTING_ORACLE; kind <= DRAFTING_REPEAT; kind++) {
    uint32_t fewer = serve(run, kind, plain, guessed);
    assert_same(plain, guessed, run->jumps);
    assert_true(drafting.offered > 0);
    if (kind == DRAFTING_ORACLE && run->preempt_every == 0 && run->device_units == 0) {
      assert_true(accepted_of(guessed) > 0);
      assert_true(fewer < steps);
    }
  }
}

/* ---- how tokens are drawn ------------------------------------------------------- */

static void greedy(struct lls_submission *s, uint32_t i)
{
  (void)i;
  s->sampling.want_logprob = true;
  s->sampling.n_logprobs = 3;
}

static void warm(struct lls_submission *s, uint32_t i)
{
  greedy(s, i);
  s->sampling.temperature = i % 2 ? 0.7f : 1.5f;
  s->sampling.top_p = i % 3 ? 0.9f : 1;
  s->sampling.min_p = i % 4 ? 0 : 0.02f;
  s->sampling.top_k = i % 5 ? 0 : 20;
}

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
  assert_same(plain, guessed, false);
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
                          .asynchronous = true,
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

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_text_is_the_same_however_it_is_drawn),
      cmocka_unit_test(test_draws_that_remember_have_no_guesses),
      cmocka_unit_test(test_text_is_the_same_under_a_grammar),
      cmocka_unit_test(test_text_is_the_same_on_all_kinds_of_layers),
      cmocka_unit_test(test_text_is_the_same_in_each_cache),
      cmocka_unit_test(test_swaps_keep_what_was_accepted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
