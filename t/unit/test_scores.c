/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How likely a prompt was, against log-softmax of the reference model's logits:
 * for any chunks of a prompt, with a shared prefix, and with preemptions. Also: no stop
 * token is drawn before min_new_tokens.
 */
#include "t/tap.h"

#include <math.h>
#include <string.h>

#include "t/clients.h"

#define ALTERNATIVES 3

struct scored {
  const struct reference_prompt *prompt;
  struct lls_sampled scores[REFERENCE_MAX_TOKENS];
  uint32_t n_tokens, finished, preemptions;
};

static void on_scored(void *context, const struct lls_event *event)
{
  (void)context;
  struct scored *c = event->owner;
  if (event->kind == LLS_EVENT_FINISHED) {
    c->finished++;
    c->preemptions = event->preemptions;
  } else if (c->n_tokens++ == 0) {
    assert_non_null(event->prompt_scores);
    memcpy(c->scores, event->prompt_scores, c->prompt->n_prompt * sizeof *c->scores);
  }
}

static void ask(struct harness *h, struct scored *c, const struct reference_prompt *p,
                uint32_t max_new_tokens)
{
  struct lls_error err = {0};
  uint64_t id;
  *c = (struct scored){.prompt = p};
  struct lls_submission s = harness_submission(p->tokens, p->n_prompt, max_new_tokens, c);
  s.score_prompt = true;
  s.score_logprobs = ALTERNATIVES;
  if (lls_loop_submit(h->loop, &s, &id, &err) < 0)
    fail_msg("submit: %s", err.text);
}

static void finish(struct harness *h)
{
  for (int i = 0; i < 200000 && !lls_loop_idle(h->loop); i++) {
    assert_true(lls_loop_step(h->loop) >= 0);
    lls_loop_events(h->loop, on_scored, NULL);
  }
  assert_true(lls_loop_idle(h->loop));
}

static double log_sum(const float *logits, uint32_t n)
{
  double top = -INFINITY, sum = 0;
  for (uint32_t i = 0; i < n; i++)
    top = fmax(top, (double)logits[i]);
  for (uint32_t i = 0; i < n; i++)
    sum += exp((double)logits[i] - top);
  return top + log(sum);
}

static uint32_t rank_of(const float *logits, uint32_t n, int32_t token)
{
  uint32_t rank = 1;
  for (uint32_t i = 0; i < n; i++)
    rank += logits[i] > logits[token];
  return rank;
}

static void check_scores(const struct scored *c, uint32_t vocab)
{
  const struct reference_prompt *p = c->prompt;
  assert_int_equal(c->finished, 1);
  for (uint32_t i = 1; i < p->n_prompt; i++) {
    const float *logits = p->logits + (size_t)(i - 1) * vocab;
    const struct lls_sampled *s = &c->scores[i];
    double sum = log_sum(logits, vocab);
    assert_int_equal(s->token, p->tokens[i]);
    if (fabs((double)s->logprob - ((double)logits[s->token] - sum)) > 1e-3)
      fail_msg("token %u: %f, not %f", i, (double)s->logprob,
               (double)logits[s->token] - sum);
    assert_int_equal(s->n_top, ALTERNATIVES);
    assert_int_equal(rank_of(logits, vocab, s->top_token[0]), 1);
    uint32_t rank = rank_of(logits, vocab, s->token);
    /* near ties may be in either order */
    assert_true(s->rank + 1 >= rank && s->rank <= rank + 1);
    assert_true(s->top_logprob[0] >= s->top_logprob[1] &&
                s->logprob <= s->top_logprob[0]);
  }
}

/* Each reference prompt `copies` times; returns how often they were preempted. */
static uint32_t score_all(const char *scheduler, const char *const *parameters,
                          uint32_t device_units, uint32_t max_sequences, int copies,
                          uint32_t max_new_tokens)
{
  struct harness_options o = client_options(scheduler);
  o.scheduler.parameters = parameters;
  o.cache.parameters = NULL;
  o.max_sequences = max_sequences;
  o.device_units = device_units;
  struct harness h;
  struct scored clients[12];
  uint32_t preemptions = 0;
  struct reference *ref = reference_read(MODEL);
  open_or_fail(&h, &o);
  for (int i = 0; i < 3 * copies; i++)
    ask(&h, &clients[i], &ref->prompts[i % 3], max_new_tokens);
  finish(&h);
  for (int i = 0; i < 3 * copies; i++) {
    check_scores(&clients[i], ref->vocab);
    preemptions += clients[i].preemptions;
  }
  assert_memory_is_back(&h);
  harness_close(&h);
  reference_free(ref);
  return preemptions;
}

static void test_scores_are_log_softmax(void **state)
{
  (void)state;
  score_all("fcfs", NULL, 512, 16, 1, 2);
}

/* max_sequences rows of logits fit at a time: many passes through the head. */
static void test_in_chunks_and_with_little_room_for_logits(void **state)
{
  (void)state;
  const char *const parameters[] = {"chunk", "32", NULL};
  score_all("sarathi", parameters, 512, 3, 1, 2);
}

static void test_a_prefix_that_is_cached_is_scored_too(void **state)
{
  (void)state;
  score_all("fcfs", NULL, 512, 2, 4, 2);
}

static void test_preemption_does_not_change_scores(void **state)
{
  (void)state;
  const char *const parameters[] = {"chunk", "32", NULL};
  assert_true(score_all("sarathi", parameters, 64, 16, 4, 64) > 0);
}

/* ---- min_new_tokens ------------------------------------------------------------- */

static void test_no_stop_token_before_min_new_tokens(void **state)
{
  (void)state;
  const struct harness_options o = client_options("fcfs");
  struct harness h;
  struct lls_error err = {0};
  struct reference *ref = reference_read(MODEL);
  const struct reference_prompt *p = &ref->prompts[0];
  int32_t stop = p->tokens[p->n_prompt]; /* the one that greedy draws first */
  open_or_fail(&h, &o);
  for (uint32_t min = 0; min < 4; min++) {
    struct client c = {.prompt = p};
    struct lls_submission s = harness_submission(p->tokens, p->n_prompt, 64, &c);
    s.stop_tokens = &stop;
    s.n_stop_tokens = 1;
    s.min_new_tokens = min;
    assert_int_equal(lls_loop_submit(h.loop, &s, &c.id, &err), 0);
    run_to_end(&h);
    for (uint32_t i = 0; i < min; i++)
      assert_int_not_equal(c.tokens[i], stop);
    assert_true(c.n_tokens > min);
    if (min == 0)
      assert_int_equal(c.n_tokens, 1);
  }
  harness_close(&h);
  reference_free(ref);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_scores_are_log_softmax),
      cmocka_unit_test(test_in_chunks_and_with_little_room_for_logits),
      cmocka_unit_test(test_a_prefix_that_is_cached_is_scored_too),
      cmocka_unit_test(test_preemption_does_not_change_scores),
      cmocka_unit_test(test_no_stop_token_before_min_new_tokens),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
