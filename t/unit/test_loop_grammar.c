/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers constrained by a grammar, in the step loop with real plugins on a tiny model:
 * the answer matches the grammar, is the same however it was scheduled, and ends where
 * nothing can follow.
 */
#include "t/tap.h"

#include <errno.h>
#include <string.h>

#include "text/grammar/compiled_grammar.h"
#include "text/grammar/gbnf.h"
#include "t/clients.h"
#include "t/letters.h"

static void submit_with(struct harness *h, struct client *c,
                        const struct reference_prompt *prompt, struct lls_grammar *g,
                        uint64_t seed)
{
  struct lls_error err = {0};
  *c = (struct client){.prompt = prompt};
  struct lls_submission s = harness_submission(prompt->tokens, prompt->n_prompt, 60, c);
  s.grammar = g;
  s.sampling.temperature = 1;
  s.sampling.seed = seed;
  if (lls_loop_submit(h->loop, &s, &c->id, &err) < 0)
    fail_msg("submit: %s", err.text);
}

/* Matches the answer against the grammar again; it must be a complete text. */
static void assert_whole(const struct client *c, struct lls_grammar *g)
{
  struct lls_grammar_state *state = malloc(lls_grammar_state_bytes());
  lls_grammar_state_init(state, g);
  for (uint32_t i = 0; i < c->n_tokens; i++)
    assert_int_equal(lls_grammar_accept_token(state, c->tokens[i]), 0);
  assert_int_equal(c->reason, LLS_FINISH_STOP);
  assert_true(lls_grammar_complete(state));
  free(state);
}

static void assert_same_tokens(const struct client *a, const struct client *b, uint32_t n)
{
  assert_true(a->n_tokens >= n && b->n_tokens >= n);
  assert_memory_equal(a->tokens, b->tokens, n * sizeof *a->tokens);
}

static const char *const swap[] = {"preempt", "swap", NULL};
static const char *const chunks[] = {"chunk", "32", NULL};

static const struct setting {
  const char *scheduler;
  const char *const *parameters;
  uint32_t device_units, host_units;
  bool asynchronous, no_jump;
  uint32_t mask_work;
} settings[] = {
    {.scheduler = "fcfs", .device_units = 512},
    {.scheduler = "sarathi", .parameters = chunks, .device_units = 512},
    {.scheduler = "fcfs", .device_units = 64},
    {.scheduler = "fcfs", .parameters = swap, .device_units = 64, .host_units = 256},
    {.scheduler = "sarathi", .parameters = chunks, .device_units = 64},
    {.scheduler = "fcfs", .device_units = 512, .asynchronous = true},
    {.scheduler = "sarathi", .parameters = chunks, .device_units = 512, .mask_work = 200},
    {.scheduler = "fcfs",
     .parameters = swap,
     .device_units = 64,
     .host_units = 256,
     .mask_work = 60},
    {.scheduler = "aligned", .device_units = 64, .host_units = 256},
    {.scheduler = "bros", .device_units = 64, .host_units = 256},
};

struct totals {
  uint32_t preemptions, forced;
  uint64_t steps;
  /* plans in which the scheduler saw answers with more than one pending token */
  uint32_t jumps_seen;
  uint32_t largest; /* most tokens of one answer in one step */
};

static void look(void *context, const struct lls_step_view *view,
                 const struct lls_plan *plan, bool own)
{
  struct totals *totals = context;
  (void)own;
  for (uint32_t i = 0; i < view->n_running; i++)
    if (lls_request_decodes(view->running[i]))
      totals->jumps_seen += lls_request_pending(view->running[i]) > 1;
  for (uint32_t i = 0; i < plan->n_items; i++)
    for (uint32_t j = 0; j < view->n_running; j++)
      if (plan->items[i].kind == LLS_PLAN_RUN &&
          plan->items[i].request == view->running[j]->id &&
          lls_request_decodes(view->running[j]) &&
          plan->items[i].tokens > totals->largest)
        totals->largest = plan->items[i].tokens;
}

/* Runs all requests at once, with one setting. */
static struct totals run_setting(const struct setting *t, const struct reference *ref,
                                 struct client *clients, uint32_t n)
{
  struct harness h;
  struct harness_options o = client_options(t->scheduler);
  struct lls_loop_status status;
  struct totals totals = {0};
  o.scheduler.parameters = t->parameters;
  o.device_units = t->device_units;
  o.host_units = t->host_units;
  o.no_jump = t->no_jump;
  o.mask_work = t->mask_work;
  o.create_device = t->asynchronous ? create_asynchronous : NULL;
  o.observer = (struct lls_loop_observer){.context = &totals, .on_plan = look};
  open_or_fail(&h, &o);
  struct lls_vocabulary *v = letters(h.config.vocab);
  struct lls_grammar *g = grammar_of(v, 4, 6, "g");
  for (uint32_t i = 0; i < n; i++)
    submit_with(&h, &clients[i], &ref->prompts[i % 3], i % 4 == 3 ? NULL : g, i);
  run_to_end(&h);
  for (uint32_t i = 0; i < n; i++) {
    totals.preemptions += clients[i].preemptions;
    totals.forced += clients[i].n_forced;
    if (i % 4 != 3)
      assert_whole(&clients[i], g);
  }
  lls_loop_status(h.loop, &status);
  assert_int_equal(status.forced_tokens, totals.forced);
  totals.steps = status.steps;
  assert_memory_is_back(&h);
  harness_close(&h);
  lls_grammar_unref(g);
  lls_vocabulary_destroy(v);
  return totals;
}

static void test_answers_are_texts_of_the_grammar(void **state)
{
  (void)state;
  enum { N = 3 * COPIES };
  struct reference *ref = reference_read(MODEL);
  struct client first[N], others[N];
  uint32_t preemptions = 0;
  struct totals totals = run_setting(&settings[0], ref, first, N);
  assert_true(totals.forced > 0);
  for (size_t k = 1; k < sizeof settings / sizeof *settings; k++) {
    preemptions += run_setting(&settings[k], ref, others, N).preemptions;
    for (int i = 0; i < N; i++) {
      assert_int_equal(others[i].n_tokens, first[i].n_tokens);
      assert_same_tokens(&others[i], &first[i], first[i].n_tokens);
    }
  }
  assert_true(preemptions > 0);
  reference_free(ref);
}

/* ---- jump-ahead -------------------------------------------------------------------- */

/* Among other requests, with and without preemption, swapped and recomputed: forced
 * tokens are pending for the scheduler, and steps compute them several at a time. */
static void test_jumps_of_a_batch_are_pending_tokens(void **state)
{
  (void)state;
  enum { N = 3 * COPIES };
  struct reference *ref = reference_read(MODEL);
  struct client jumped[N], drawn[N];
  for (size_t k = 0; k < sizeof settings / sizeof *settings; k++) {
    struct setting slow = settings[k];
    slow.no_jump = true;
    struct totals a = run_setting(&settings[k], ref, jumped, N);
    struct totals b = run_setting(&slow, ref, drawn, N);
    assert_true(a.forced > 0 && a.jumps_seen > 0 && a.largest > 1);
    assert_true(b.forced == 0 && b.jumps_seen == 0 && b.largest == 1);
    for (int i = 0; i < N; i++) {
      assert_int_equal(jumped[i].n_tokens, drawn[i].n_tokens);
      assert_same_tokens(&jumped[i], &drawn[i], drawn[i].n_tokens);
    }
  }
  reference_free(ref);
}

/* "abcdabcdab" (ab|cd) "abcdabcdabcdabcdabcdabcd" */
static struct lls_grammar *mostly_forced(const struct lls_vocabulary *v)
{
  static const char again[] = "abcdabcdabcdabcdabcdabcd";
  const struct lls_grammar_limits limits = LLS_GRAMMAR_LIMITS;
  struct lls_grammar_tree *tree = lls_grammar_tree_create(&bounds);
  struct lls_grammar *g = NULL;
  uint32_t choice[] = {lls_grammar_literal(tree, "ab", 2),
                       lls_grammar_literal(tree, "cd", 2)};
  uint32_t parts[] = {lls_grammar_literal(tree, again, 10),
                      lls_grammar_choice(tree, choice, 2),
                      lls_grammar_literal(tree, again, 24)};
  lls_grammar_set_root(tree, lls_grammar_sequence(tree, parts, 3));
  assert_int_equal(lls_grammar_compile(tree, v, &limits, &g, NULL), 0);
  lls_grammar_tree_destroy(tree);
  return g;
}

struct jump {
  bool off;
  bool logprobs;
  uint32_t most; /* most tokens; 0: no limit */
  int32_t stop;  /* a stop token; 0: none */
};

/* Runs one greedy request alone; returns its number of steps. */
static uint64_t run_jump(const struct jump *j, const struct reference *ref,
                         struct client *c)
{
  struct harness h;
  struct harness_options o = client_options("fcfs");
  struct lls_loop_status status;
  o.no_jump = j->off;
  open_or_fail(&h, &o);
  struct lls_vocabulary *v = letters(h.config.vocab);
  struct lls_grammar *g = mostly_forced(v);
  *c = (struct client){.prompt = &ref->prompts[0]};
  struct lls_submission s = harness_submission(c->prompt->tokens, c->prompt->n_prompt,
                                               j->most > 0 ? j->most : 60, c);
  s.grammar = g;
  s.sampling.want_logprob = j->logprobs;
  s.stop_tokens = &j->stop;
  s.n_stop_tokens = j->stop > 0;
  assert_int_equal(lls_loop_submit(h.loop, &s, &c->id, NULL), 0);
  run_to_end(&h);
  lls_loop_status(h.loop, &status);
  assert_memory_is_back(&h);
  harness_close(&h);
  lls_grammar_unref(g);
  lls_vocabulary_destroy(v);
  return status.steps;
}

static void test_what_is_forced_takes_no_steps(void **state)
{
  (void)state;
  struct reference *ref = reference_read(MODEL);
  struct client slow, c;
  uint64_t steps = run_jump(&(struct jump){.off = true}, ref, &slow);
  assert_int_equal(slow.n_forced, 0);
  assert_int_equal(slow.n_tokens, steps);
  assert_true(run_jump(&(struct jump){0}, ref, &c) <= 5);
  assert_same_tokens(&c, &slow, slow.n_tokens);
  assert_int_equal(c.n_tokens, slow.n_tokens);
  assert_int_equal(c.reason, LLS_FINISH_STOP);
  assert_true(c.n_forced > 10);
  /* the model must compute each token's probability */
  assert_int_equal(run_jump(&(struct jump){.logprobs = true}, ref, &c), steps);
  assert_same_tokens(&c, &slow, slow.n_tokens);
  assert_int_equal(c.n_forced, 0);
  reference_free(ref);
}

static void test_a_jump_stays_within_the_request(void **state)
{
  (void)state;
  struct reference *ref = reference_read(MODEL);
  struct client c, whole;
  run_jump(&(struct jump){0}, ref, &whole);
  run_jump(&(struct jump){.most = 7}, ref, &c);
  assert_int_equal(c.reason, LLS_FINISH_LENGTH);
  assert_int_equal(c.n_tokens, 7);
  assert_same_tokens(&c, &whole, 7);
  /* a stop token is never part of a jump: drawn, it ends the answer */
  int32_t stop = whole.tokens[whole.n_tokens - 1];
  run_jump(&(struct jump){.stop = stop}, ref, &c);
  assert_int_equal(c.reason, LLS_FINISH_STOP);
  for (uint32_t i = 0; i + 1 < c.n_tokens; i++)
    assert_true(c.tokens[i] != stop);
  reference_free(ref);
}

/* No token has a 'z'. */
static void test_a_dead_end_cuts_the_answer(void **state)
{
  (void)state;
  struct reference *ref = reference_read(MODEL);
  struct harness h;
  struct harness_options o = client_options("fcfs");
  struct client dead, other;
  open_or_fail(&h, &o);
  struct lls_vocabulary *v = letters(h.config.vocab);
  struct lls_grammar *g = grammar_of(v, 2, 2, "z");
  submit_with(&h, &dead, &ref->prompts[0], g, 1);
  submit(&h, &other, &ref->prompts[1]);
  run_to_end(&h);
  assert_int_equal(dead.finished, 1);
  assert_int_equal(dead.reason, LLS_FINISH_LENGTH);
  assert_true(dead.n_tokens >= 1 && dead.n_tokens <= 4);
  assert_reference_text(&other);
  assert_memory_is_back(&h);
  harness_close(&h);
  lls_grammar_unref(g);
  lls_vocabulary_destroy(v);
  reference_free(ref);
}

/* ---- grammars that cost much ------------------------------------------------------- */

enum { WORK = 3000, FREE = 4000, PIECE = 20000 };

/* The largest work of a step, and the number of steps up to the first client's end. */
struct run {
  uint64_t largest, all;
  uint32_t steps;
  uint64_t rows;  /* rows that the device computed until then */
  uint32_t drawn; /* tokens of the other requests */
};

static struct run run_beside(uint32_t n_hard, bool has_grammar, uint32_t mask_work,
                             const struct reference *ref)
{
  struct harness h;
  struct harness_options o = client_options("sarathi");
  struct client ordinary, hard[6];
  struct lls_loop_status status = {0};
  struct run run = {0};
  o.scheduler.parameters = chunks;
  o.mask_work = mask_work;
  open_or_fail(&h, &o);
  struct lls_vocabulary *v = words(h.config.vocab);
  struct lls_grammar *easy = grammar_of(v, 10, 12, "g"), *g = ambiguous(v);
  submit_with(&h, &ordinary, &ref->prompts[0], has_grammar ? easy : NULL, 1);
  while (ordinary.n_tokens == 0) {
    assert_true(lls_loop_step(h.loop) >= 0);
    lls_loop_events(h.loop, on_event, NULL);
  }
  for (uint32_t i = 0; i < n_hard; i++)
    submit_with(&h, &hard[i], &ref->prompts[i % 3], g, i);
  while (ordinary.finished == 0) {
    uint64_t before = status.grammar_work;
    assert_true(lls_loop_step(h.loop) >= 0);
    lls_loop_events(h.loop, on_event, NULL);
    lls_loop_status(h.loop, &status);
    if (status.grammar_work - before > run.largest)
      run.largest = status.grammar_work - before;
    run.steps++;
  }
  run.all = status.grammar_work;
  run.rows = status.batch_sequences_sum;
  for (uint32_t i = 0; i < n_hard; i++)
    run.drawn += hard[i].n_tokens;
  for (uint32_t i = 0; i < n_hard; i++)
    lls_loop_cancel(h.loop, hard[i].id);
  run_to_end(&h);
  lls_loop_status(h.loop, &status);
  assert_int_equal(status.grammar_work, run.all); /* an ended request costs nothing */
  assert_memory_is_back(&h);
  harness_close(&h);
  lls_grammar_unref(easy);
  lls_grammar_unref(g);
  lls_vocabulary_destroy(v);
  return run;
}

/* Counted, not timed. An ordinary client gets a token in each step, with a grammar or
 * without. A step does no more work for all other requests than its limit allows, plus
 * one piece. */
static void test_hard_grammars_cost_their_own_requests(void **state)
{
  (void)state;
  struct reference *ref = reference_read(MODEL);
  for (int has_grammar = 0; has_grammar < 2; has_grammar++) {
    struct run alone = run_beside(0, has_grammar, WORK, ref);
    struct run beside = run_beside(6, has_grammar, WORK, ref);
    struct run unlimited = run_beside(6, has_grammar, 0, ref);
    print_message("rows %lu %lu drawn %u\n", alone.rows, beside.rows, beside.drawn);
    print_message("%u %lu %lu / %u %lu %lu / %lu %lu\n", alone.steps, alone.largest,
                  alone.all, beside.steps, beside.largest, beside.all, unlimited.largest,
                  unlimited.all);
    assert_true(has_grammar || unlimited.largest > 2 * (7 * FREE + WORK + PIECE));
    assert_int_equal(beside.steps, alone.steps);
    assert_true(beside.largest <= 7 * FREE + WORK + PIECE);
    assert_true(beside.all <= (uint64_t)beside.steps * (7 * FREE + WORK) + PIECE);
    /* one row for each token, a wasted one if a mask takes longer than the previous
     * step, and two pieces of a prompt */
    assert_true(beside.rows <= alone.rows + 2 * beside.drawn + 6 * 4);
  }
  reference_free(ref);
}

static void test_another_vocabulary_is_refused(void **state)
{
  (void)state;
  struct reference *ref = reference_read(MODEL);
  struct harness h;
  struct harness_options o = client_options("fcfs");
  struct lls_error err = {0};
  uint64_t id;
  open_or_fail(&h, &o);
  struct lls_vocabulary *v = letters(h.config.vocab - 1);
  struct lls_grammar *g = grammar_of(v, 2, 2, "a");
  struct lls_submission s =
      harness_submission(ref->prompts[0].tokens, ref->prompts[0].n_prompt, 8, NULL);
  s.grammar = g;
  assert_int_equal(lls_loop_submit(h.loop, &s, &id, &err), -EINVAL);
  assert_non_null(strstr(err.text, "the grammar is for a vocabulary of"));
  harness_close(&h);
  lls_grammar_unref(g);
  lls_vocabulary_destroy(v);
  reference_free(ref);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_answers_are_texts_of_the_grammar),
      cmocka_unit_test(test_jumps_of_a_batch_are_pending_tokens),
      cmocka_unit_test(test_what_is_forced_takes_no_steps),
      cmocka_unit_test(test_a_jump_stays_within_the_request),
      cmocka_unit_test(test_a_dead_end_cuts_the_answer),
      cmocka_unit_test(test_hard_grammars_cost_their_own_requests),
      cmocka_unit_test(test_another_vocabulary_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
