/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of a loop in which a draft model guesses, by a drafter and a scheduler of the
 * test: the drafter takes all guesses, and changes one at times; the scheduler has all of
 * them verified.
 */
#ifndef LLS_T_DRAFT_MODELS_H
#define LLS_T_DRAFT_MODELS_H

#include "t/tap.h"

#include <string.h>

#include "core/base/least.h"
#include "core/draft/draft_cache.h"
#include "core/draft/pass_time.h"
#include "core/instance/instance.h"
#include "core/loop/loop_internal.h"
#include "t/clients.h"
#include "t/dice.h"

#define REQUESTS   6
#define TOKENS     40 /* of an answer */
#define MAX_DRAFTS 5

struct answer {
  int32_t tokens[TOKENS];
  uint32_t n_tokens, finished;
};

/* How a run differs. */
struct run {
  const char *model; /* in t/data/models; NULL: MODEL */
  enum lls_weight_format weights;
  bool heads;            /* its layer that guesses is the draft model */
  const char *reference; /* the folder of its prompts; NULL: the model's */
  const char *draft;     /* folder of the draft model in t/data/models, with heads: of an
                          * EAGLE-3 layer; NULL: none */
  void (*set)(struct lls_submission *, uint32_t i);
  bool spoils, asynchronous;      /* spoils: one guess of each time is changed */
  bool knows;                     /* the drafter offers the answer instead of guesses */
  const struct answer *text;      /* (REQUESTS) the answers, if it knows them */
  uint32_t rows, blocks, preempt; /* 0: plenty; a preemption every so many steps */
  uint32_t preempt_mode, host_units;
  int64_t budget_ns;
  /* called with what the draft model guesses */
  void (*sees)(const struct lls_request *, const struct lls_draft *);
};

static struct drafter { /* the one of this test */
  bool spoils;
  uint32_t right[64]; /* by slot: of the last guesses, those that are not changed */
  uint32_t wants, given, drafted, accepted, misjudged;
  struct dice dice;
  int64_t now_ns, takes_ns; /* the clock, and how far each look at it moves it */
  uint32_t step, preempt, preempt_mode;
  void (*sees)(const struct lls_request *, const struct lls_draft *);
  const struct answer *text; /* what it offers, or NULL */
} drafter;

static inline uint32_t flags(void *self)
{
  (void)self;
  return LLS_DRAFTER_DRAFTS;
}

static inline uint32_t wants(void *self, const struct lls_request *r,
                             const struct lls_draft_work *work)
{
  (void)self;
  assert_true(lls_request_decodes(r));
  assert_in_range(work->max, 1, MAX_DRAFTS);
  assert_true(work->step_ns >= 0 && work->verify_ns >= 0 && work->pass_ns >= 0 &&
              work->behind_ns >= 0);
  drafter.wants++;
  return work->max;
}

/* Finds what it offers: guesses, or the answer's next tokens. */
static inline uint32_t find_offer(const struct lls_request *r,
                                  const struct lls_draft *from, const int32_t **tokens)
{
  *tokens = from->candidates;
  if (drafter.text == NULL)
    return from->n_candidates;
  const struct answer *a = &drafter.text[atoi(r->label)];
  *tokens = a->tokens + r->generated_tokens;
  return lls_least_u32(from->max, a->n_tokens - r->generated_tokens);
}

static inline int draft(void *self, const struct lls_request *r, struct lls_draft *out)
{
  const int32_t *offer;
  (void)self;
  assert_in_range(out->n_candidates, 0, out->max);
  for (uint32_t i = 0; i < out->n_candidates; i++)
    assert_true(out->candidate_odds[i] >= 0 && out->candidate_odds[i] <= 1.0001f);
  uint32_t wrong = drafter.spoils ? dice(&drafter.dice, 0, MAX_DRAFTS) : MAX_DRAFTS;
  uint32_t n = find_offer(r, out, &offer);
  for (uint32_t i = 0; i < n; i++)
    out->tokens[i] = i == wrong ? offer[i] ^ 1 : offer[i];
  drafter.given += out->n_candidates > 0;
  if (drafter.sees != NULL)
    drafter.sees(r, out);
  drafter.right[r->slot] = wrong;
  return (int)n;
}

static inline void verified(void *self, const struct lls_request *r, uint32_t drafted,
                            uint32_t accepted)
{
  (void)self;
  uint32_t right = drafter.right[r->slot];
  drafter.drafted += drafted;
  drafter.accepted += accepted;
  drafter.misjudged += accepted != (right < drafted ? right : drafted);
}

static inline void run_all(const struct lls_request *const *list, uint32_t n,
                           uint32_t *left, struct lls_plan *out)
{
  for (uint32_t i = 0; i<n && * left> 0; i++) {
    uint32_t pending = lls_request_pending(list[i]);
    uint32_t tokens = pending < *left ? pending : *left;
    lls_plan_run(out, list[i], tokens);
    *left -= tokens;
    uint32_t drafts = list[i]->drafted_tokens < *left ? list[i]->drafted_tokens : *left;
    if (tokens == pending && list[i]->generated_tokens > 0) {
      out->items[out->n_items - 1].drafts = drafts;
      *left -= drafts;
    }
  }
}

/* Verifies all guesses. */
static inline int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  uint32_t left = view->max_tokens, running = view->n_running;
  (void)self;
  if (drafter.preempt > 0 && ++drafter.step % drafter.preempt == 0 && running > 1)
    lls_plan_preempt(out, view->running[--running], drafter.preempt_mode);
  run_all(view->running, running, &left, out);
  run_all(view->preempted, view->n_preempted, &left, out);
  run_all(view->waiting, view->n_waiting, &left, out);
  return 0;
}

static inline void install(void *context, struct lls_loop_policies *policies)
{
  static struct lls_plugin_module ours, planner;
  (void)context;
  ours = *policies->drafter.module;
  ours.drafter.flags = flags;
  ours.drafter.wants = wants;
  ours.drafter.draft = draft;
  ours.drafter.verified = verified;
  policies->drafter.module = &ours;
  planner = *policies->scheduler.module;
  planner.scheduler.plan = plan;
  policies->scheduler.module = &planner;
}

static inline int64_t now(void *context)
{
  (void)context;
  return drafter.now_ns += drafter.takes_ns;
}

static inline void on_token(void *context, const struct lls_event *event)
{
  struct answer *a = event->owner;
  (void)context;
  if (event->kind == LLS_EVENT_TOKEN)
    a->tokens[a->n_tokens++] = event->token.token;
  else
    a->finished++;
}

static inline void submit_all(struct harness *h, const struct run *run,
                              struct answer *answers)
{
  const char *model = run->model != NULL ? run->model : MODEL;
  struct reference *ref = reference_read(run->reference != NULL ? run->reference : model);
  for (uint32_t i = 0; i < REQUESTS; i++) {
    const struct reference_prompt *p = &ref->prompts[i % ref->n_prompts];
    uint64_t id;
    char label[8];
    answers[i] = (struct answer){.n_tokens = 0};
    struct lls_submission s =
        harness_submission(p->tokens, p->n_prompt, TOKENS, &answers[i]);
    s.sampling.seed = 1000 + i;
    snprintf(label, sizeof label, "%u", i);
    s.label = label;
    if (run->set != NULL)
      run->set(&s, i);
    assert_int_equal(lls_loop_submit(h->loop, &s, &id, NULL), 0);
  }
  reference_free(ref);
}

/* Serves all requests. */
static inline void serve(const struct run *run, struct answer *answers)
{
  char path[256], model[256];
  struct harness h;
  struct harness_options o = client_options("fcfs");
  o.max_drafts = MAX_DRAFTS;
  o.draft_rows = run->rows > 0 ? run->rows : 64;
  o.draft_blocks = run->blocks > 0 ? run->blocks : 256;
  o.draft_budget = run->budget_ns;
  o.create_device = run->asynchronous ? create_asynchronous : NULL;
  o.replace = install;
  o.clock = now;
  o.clock_context = &drafter;
  o.heads = run->heads;
  o.weights = run->weights;
  o.groups = run->model != NULL;
  o.host_units = run->host_units;
  if (run->model != NULL) {
    snprintf(model, sizeof model, "t/data/models/%s", run->model);
    o.model = model;
  }
  if (run->draft != NULL) {
    snprintf(path, sizeof path, "t/data/models/%s", run->draft);
    o.draft_model = path;
  }
  drafter = (struct drafter){.spoils = run->spoils,
                             .takes_ns = 1000,
                             .preempt = run->preempt,
                             .preempt_mode = run->preempt_mode > 0
                                                 ? run->preempt_mode
                                                 : (uint32_t)LLS_PREEMPT_RECOMPUTE,
                             .sees = run->sees,
                             .text = run->text,
                             .dice.state = 5};
  open_or_fail(&h, &o);
  submit_all(&h, run, answers);
  for (uint32_t i = 0; i < 5000 && !lls_loop_idle(h.loop); i++) {
    assert_true(lls_loop_step(h.loop) >= 0);
    lls_loop_events(h.loop, on_token, NULL);
  }
  assert_true(lls_loop_idle(h.loop));
  struct lls_loop_status status;
  lls_loop_status(h.loop, &status);
  assert_int_equal(status.plans_refused, 0);
  assert_int_equal(status.policies.drafter.breaches, 0);
  harness_close(&h);
}

static inline void compare(const struct run *run)
{
  static struct answer plain[REQUESTS], guessed[REQUESTS];
  struct run alone = {.set = run->set,
                      .model = run->model,
                      .reference = run->reference,
                      .weights = run->weights};
  serve(&alone, plain);
  assert_int_equal(drafter.wants, 0);
  struct run other = *run;
  other.text = run->knows ? plain : NULL;
  serve(&other, guessed);
  for (uint32_t i = 0; i < REQUESTS; i++) {
    assert_int_equal(guessed[i].finished, 1);
    assert_int_equal(plain[i].n_tokens, guessed[i].n_tokens);
    assert_memory_equal(plain[i].tokens, guessed[i].tokens,
                        plain[i].n_tokens * sizeof *plain[i].tokens);
  }
}

/* ---- how tokens are drawn ------------------------------------------------------- */

static inline void warm(struct lls_submission *s, uint32_t i)
{
  s->sampling.temperature = i % 2 ? 0.7f : 1.5f;
  s->sampling.top_p = i % 3 ? 0.9f : 1;
  s->sampling.min_p = i % 4 ? 0 : 0.02f;
}

static inline void penalised(struct lls_submission *s, uint32_t i)
{
  static const struct lls_logit_bias bias[] = {{3, 4}, {7, 2}, {9, -100}};
  warm(s, i);
  s->sampling.repetition_penalty = 1.2f;
  s->sampling.frequency_penalty = 0.3f;
  s->sampling.bias = bias;
  s->sampling.n_bias = 3;
}

static inline void penalised_lately(struct lls_submission *s, uint32_t i)
{
  penalised(s, i);
  s->sampling.penalty_last_n = 6;
}

#define WAYS 4
static void (*const ways[WAYS])(struct lls_submission *,
                                uint32_t) = {NULL, warm, penalised, penalised_lately};

#endif
