/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of a loop with guesses (t/drafting.h) that are compared with a run without: a
 * struct run says how both differ from the plain one.
 */
#ifndef LLS_T_DRAFT_RUNS_H
#define LLS_T_DRAFT_RUNS_H

#include "t/tap.h"

#include <math.h>
#include <string.h>

#include "t/drafting.h"

#ifndef REQUESTS
#define REQUESTS 6
#define TOKENS   40 /* of an answer */
#endif

/* How a run differs from the plain one. */
struct run {
  const char *model, *cache;
  const char *const *parameters; /* of the cache manager */
  void (*set)(struct lls_submission *, uint32_t i);
  bool groups, jumps;
  int (*create_device)(const struct lls_device_options *, struct lls_device **,
                       struct lls_error *);
  /* what logprobs may differ by, where a device adds up a row's numbers in an order that
   * depends on the other rows; 0: equal bits */
  float tolerance;
  uint32_t device_units, host_units, preempt_every, preempt_mode, max, mask_work, form;
  uint64_t seed; /* added to those of the requests */
};

static inline struct harness_options options_of(const struct run *run, char *path,
                                                size_t size)
{
  struct harness_options o = client_options("fcfs");
  snprintf(path, size, "t/data/models/%s", run->model != NULL ? run->model : MODEL);
  o.model = path;
  o.max_drafts = run->max > 0 ? run->max : DRAFTING_MAX;
  o.groups = run->groups;
  o.no_jump = !run->jumps;
  o.mask_work = run->mask_work;
  o.max_sequences = 8;
  o.device_units = run->device_units > 0 ? run->device_units : 512;
  o.host_units = run->host_units;
  o.cache =
      (struct harness_policy){run->cache != NULL ? run->cache : "paged", run->parameters};
  o.create_device = run->create_device;
  o.replace = drafting_install;
  return o;
}

static inline void submit_all(struct harness *h, const struct reference *ref,
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
    s.sampling.seed = 1000 + i + run->seed;
    if (run->set != NULL)
      run->set(&s, i);
    if (lls_loop_submit(h->loop, &s, &answers[i].id, &err) < 0)
      fail_msg("submit: %s", err.text);
  }
}

/* Serves all requests; returns the steps. */
static inline uint32_t serve(const struct run *run, enum drafting_kind kind,
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
      .form = run->form,
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

static inline uint64_t accepted_of(const struct answer *answers)
{
  uint64_t n = 0;
  for (uint32_t i = 0; i < REQUESTS; i++) {
    assert_true(answers[i].accepted <= answers[i].drafted);
    n += answers[i].accepted;
  }
  return n;
}

static inline void assert_same_draw(const struct run *run, const struct lls_sampled *a,
                                    const struct lls_sampled *b)
{
  if (run->tolerance > 0) {
    assert_true(fabsf(a->logprob - b->logprob) <= run->tolerance);
    return;
  }
  assert_memory_equal(&a->logprob, &b->logprob, sizeof a->logprob);
  assert_int_equal(a->n_top, b->n_top);
  assert_memory_equal(a->top_token, b->top_token, a->n_top * sizeof *a->top_token);
  assert_memory_equal(a->top_logprob, b->top_logprob, a->n_top * sizeof *a->top_logprob);
}

static inline void assert_same(const struct run *run, const struct answer *plain,
                               const struct answer *guessed)
{
  for (uint32_t i = 0; i < REQUESTS; i++) {
    const struct answer *a = &plain[i], *b = &guessed[i];
    assert_int_equal(a->finished, 1);
    assert_int_equal(b->finished, 1);
    assert_int_equal(a->reason, b->reason);
    assert_int_equal(a->n_tokens, b->n_tokens);
    assert_memory_equal(a->tokens, b->tokens, a->n_tokens * sizeof *a->tokens);
    for (uint32_t t = 0; t < a->n_tokens && !run->jumps; t++)
      assert_same_draw(run, &a->drawn[t], &b->drawn[t]);
  }
}

/* Runs without guesses, then with each kind of them. */
static inline void compare(const struct run *run)
{
  static struct answer plain[REQUESTS], guessed[REQUESTS];
  uint32_t steps = serve(run, DRAFTING_NONE, NULL, plain);
  for (enum drafting_kind kind = DRAFTING_ORACLE; kind <= DRAFTING_REPEAT; kind++) {
    uint32_t fewer = serve(run, kind, plain, guessed);
    assert_same(run, plain, guessed);
    assert_true(drafting.offered > 0);
    if (kind == DRAFTING_ORACLE && run->preempt_every == 0 && run->device_units == 0) {
      assert_true(accepted_of(guessed) > 0);
      assert_true(fewer < steps);
    }
  }
}

static inline void greedy(struct lls_submission *s, uint32_t i)
{
  (void)i;
  s->sampling.want_logprob = true;
  s->sampling.n_logprobs = 3;
}

static inline void warm(struct lls_submission *s, uint32_t i)
{
  greedy(s, i);
  s->sampling.temperature = i % 2 ? 0.7f : 1.5f;
  s->sampling.top_p = i % 3 ? 0.9f : 1;
  s->sampling.min_p = i % 4 ? 0 : 0.02f;
  s->sampling.top_k = i % 5 ? 0 : 20;
}

#endif
