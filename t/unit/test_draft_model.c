/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The draft model (core/draft): what it guesses is what its model says of the text, also
 * after guesses that were wrong, after long prompts, and where its cache is short; texts
 * are those of a run without it; its passes keep to their budget.
 */
#include "t/tap.h"

#include <string.h>

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
  const char *draft; /* folder of the draft model in t/data/models; NULL: none */
  void (*set)(struct lls_submission *, uint32_t i);
  bool spoils, asynchronous;      /* spoils: one guess of each time is changed */
  uint32_t rows, blocks, preempt; /* 0: plenty; a preemption every so many steps */
  int64_t budget_ns;
};

static struct drafter { /* the one of this test */
  bool spoils;
  uint32_t right[64]; /* by slot: of the last guesses, those that are not changed */
  uint32_t wants, given, drafted, accepted, misjudged;
  struct dice dice;
  int64_t now_ns, takes_ns; /* the clock, and how far each look at it moves it */
  uint32_t step, preempt;
} drafter;

static uint32_t flags(void *self)
{
  (void)self;
  return LLS_DRAFTER_DRAFTS;
}

static uint32_t wants(void *self, const struct lls_request *r,
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

static int draft(void *self, const struct lls_request *r, struct lls_draft *out)
{
  (void)self;
  assert_in_range(out->n_candidates, 0, out->max);
  uint32_t wrong = drafter.spoils ? dice(&drafter.dice, 0, MAX_DRAFTS) : MAX_DRAFTS;
  for (uint32_t i = 0; i < out->n_candidates; i++) {
    assert_true(out->candidate_odds[i] >= 0 && out->candidate_odds[i] <= 1.0001f);
    out->tokens[i] = i == wrong ? out->candidates[i] ^ 1 : out->candidates[i];
  }
  drafter.given += out->n_candidates > 0;
  drafter.right[r->slot] = wrong;
  return (int)out->n_candidates;
}

static void verified(void *self, const struct lls_request *r, uint32_t drafted,
                     uint32_t accepted)
{
  (void)self;
  uint32_t right = drafter.right[r->slot];
  drafter.drafted += drafted;
  drafter.accepted += accepted;
  drafter.misjudged += accepted != (right < drafted ? right : drafted);
}

static void run_all(const struct lls_request *const *list, uint32_t n, uint32_t *left,
                    struct lls_plan *out)
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
static int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  uint32_t left = view->max_tokens, running = view->n_running;
  (void)self;
  if (drafter.preempt > 0 && ++drafter.step % drafter.preempt == 0 && running > 1)
    lls_plan_preempt(out, view->running[--running], LLS_PREEMPT_RECOMPUTE);
  run_all(view->running, running, &left, out);
  run_all(view->preempted, view->n_preempted, &left, out);
  run_all(view->waiting, view->n_waiting, &left, out);
  return 0;
}

static void install(void *context, struct lls_loop_policies *policies)
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

static int64_t now(void *context)
{
  (void)context;
  return drafter.now_ns += drafter.takes_ns;
}

static void on_token(void *context, const struct lls_event *event)
{
  struct answer *a = event->owner;
  (void)context;
  if (event->kind == LLS_EVENT_TOKEN)
    a->tokens[a->n_tokens++] = event->token.token;
  else
    a->finished++;
}

static void submit_all(struct harness *h, const struct run *run, struct answer *answers)
{
  struct reference *ref = reference_read(MODEL);
  for (uint32_t i = 0; i < REQUESTS; i++) {
    const struct reference_prompt *p = &ref->prompts[i % ref->n_prompts];
    uint64_t id;
    answers[i] = (struct answer){.n_tokens = 0};
    struct lls_submission s =
        harness_submission(p->tokens, p->n_prompt, TOKENS, &answers[i]);
    s.sampling.seed = 1000 + i;
    if (run->set != NULL)
      run->set(&s, i);
    assert_int_equal(lls_loop_submit(h->loop, &s, &id, NULL), 0);
  }
  reference_free(ref);
}

/* Serves all requests. */
static void serve(const struct run *run, struct answer *answers)
{
  char path[256];
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
  if (run->draft != NULL) {
    snprintf(path, sizeof path, "t/data/models/%s", run->draft);
    o.draft_model = path;
  }
  drafter = (struct drafter){
      .spoils = run->spoils, .takes_ns = 1000, .preempt = run->preempt, .dice.state = 5};
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

static void compare(const struct run *run)
{
  static struct answer plain[REQUESTS], guessed[REQUESTS];
  serve(&(struct run){.set = run->set}, plain);
  assert_int_equal(drafter.wants, 0);
  serve(run, guessed);
  for (uint32_t i = 0; i < REQUESTS; i++) {
    assert_int_equal(guessed[i].finished, 1);
    assert_int_equal(plain[i].n_tokens, guessed[i].n_tokens);
    assert_memory_equal(plain[i].tokens, guessed[i].tokens,
                        plain[i].n_tokens * sizeof *plain[i].tokens);
  }
}

/* ---- how tokens are drawn ------------------------------------------------------- */

static void warm(struct lls_submission *s, uint32_t i)
{
  s->sampling.temperature = i % 2 ? 0.7f : 1.5f;
  s->sampling.top_p = i % 3 ? 0.9f : 1;
  s->sampling.min_p = i % 4 ? 0 : 0.02f;
}

static void penalised(struct lls_submission *s, uint32_t i)
{
  static const struct lls_logit_bias bias[] = {{3, 4}, {7, 2}, {9, -100}};
  warm(s, i);
  s->sampling.repetition_penalty = 1.2f;
  s->sampling.frequency_penalty = 0.3f;
  s->sampling.bias = bias;
  s->sampling.n_bias = 3;
}

static void penalised_lately(struct lls_submission *s, uint32_t i)
{
  penalised(s, i);
  s->sampling.penalty_last_n = 6;
}

#define WAYS 4
static void (*const ways[WAYS])(struct lls_submission *,
                                uint32_t) = {NULL, warm, penalised, penalised_lately};

/* The model as its own draft model: each of its guesses is the text, at any temperature,
 * since it draws with the same random numbers; and as many of those that the drafter has
 * changed as come before the change. */
static void test_guesses_are_what_the_draft_model_says(void **state)
{
  (void)state;
  for (int i = 0; i < WAYS; i++)
    for (int spoils = 0; spoils < 2; spoils++) {
      compare(&(struct run){.draft = MODEL, .set = ways[i], .spoils = spoils});
      assert_true(drafter.drafted > REQUESTS * TOKENS / 3);
      assert_int_equal(drafter.misjudged, 0);
    }
}

static void test_text_is_the_same_with_another_draft_model(void **state)
{
  (void)state;
  for (int i = 0; i < WAYS; i++) {
    compare(&(struct run){.draft = "llama-biases", .set = ways[i]});
    assert_true(drafter.drafted > 0);
  }
  compare(
      &(struct run){.draft = MODEL, .set = warm, .asynchronous = true, .spoils = true});
  assert_int_equal(drafter.misjudged, 0);
}

/* Prompts of more tokens than a pass has rows; requests that lose their cache, which the
 * draft model keeps. */
static void test_prompts_are_read_in_parts(void **state)
{
  (void)state;
  compare(&(struct run){.draft = MODEL, .set = warm, .rows = 3, .preempt = 7});
  assert_true(drafter.given > 0 && drafter.given < drafter.wants);
  assert_int_equal(drafter.misjudged, 0);
}

/* Room for one or two of six requests: the others have no guesses, and are not wrong. */
static void test_a_short_cache_makes_fewer_guesses(void **state)
{
  (void)state;
  compare(&(struct run){.draft = MODEL, .set = warm, .blocks = 10});
  assert_true(drafter.given > 0 && drafter.given < drafter.wants);
  assert_int_equal(drafter.misjudged, 0);
  compare(&(struct run){.draft = MODEL, .blocks = 1});
  /* texts that are read in parts do not keep the rest of others out */
  compare(&(struct run){.draft = MODEL, .set = warm, .blocks = 10, .rows = 8});
  assert_true(drafter.given > 12);
}

/* A pass takes 1 us by this clock. */
static void test_passes_keep_to_their_budget(void **state)
{
  static struct answer answers[REQUESTS];
  (void)state;
  serve(&(struct run){.draft = MODEL}, answers);
  uint32_t free_run = drafter.drafted;
  serve(&(struct run){.draft = MODEL, .budget_ns = 4000}, answers);
  assert_in_range(drafter.drafted, 1, free_run / 2);
  serve(&(struct run){.draft = MODEL, .budget_ns = 1}, answers);
  assert_in_range(drafter.drafted, 0, REQUESTS);
}

/* ---- its parts ------------------------------------------------------------------ */

static void test_blocks_are_those_of_one_request(void **state)
{
  struct lls_draft_cache c;
  (void)state;
  assert_int_equal(lls_draft_cache_init(&c, 4, 6, 2, 8), 0);
  struct lls_draft_sequence *a = lls_draft_cache_find(&c, 0, 100);
  struct lls_draft_sequence *b = lls_draft_cache_find(&c, 1, 101);
  a->used = b->used = 1;
  assert_true(lls_draft_cache_reserve(&c, a, 17, 1));
  assert_int_equal(a->n_blocks, 3);
  assert_int_equal(a->entries[2].first_token, 16);
  assert_int_equal(a->entries[2].block, 4);
  assert_true(lls_draft_cache_reserve(&c, b, 24, 1));
  assert_false(lls_draft_cache_reserve(&c, b, 25, 1)); /* both are in use */
  assert_int_equal(b->n_blocks, 0);                    /* so that a can go on */
  assert_true(lls_draft_cache_reserve(&c, a, 25, 1));
  b->used = 2;
  assert_true(lls_draft_cache_reserve(&c, b, 25, 2)); /* a has given its blocks up */
  assert_int_equal(a->n_blocks, 0);
  assert_false(lls_draft_cache_reserve(&c, b, 49, 2));
  assert_int_equal(lls_draft_cache_find(&c, 1, 105)->n_blocks, 0); /* another request */
  assert_int_equal(c.n_free, 6);
  lls_draft_cache_free(&c);
}

static void test_wrong_guesses_are_forgotten(void **state)
{
  static const int32_t text[] = {1, 2, 3, 4, 5, 6};
  struct lls_draft_sequence s = {.computed = 5, .length = 3, .n_guesses = 3};
  (void)state;
  memcpy(s.guesses, (const int32_t[]){4, 9, 6}, 3 * sizeof *s.guesses);
  lls_draft_cache_settle(&s, text, 6);
  assert_int_equal(s.computed, 4); /* the text's three, and the guess 4 */
  s = (struct lls_draft_sequence){.computed = 3, .length = 3};
  lls_draft_cache_settle(&s, text, 3);
  assert_int_equal(s.computed, 2); /* the last one is to be computed, for its draw */
}

static void test_time_of_a_pass_is_a_line(void **state)
{
  struct lls_pass_time t = {0};
  (void)state;
  assert_int_equal(lls_pass_time_of(&t, 8), 0);
  assert_int_equal(lls_pass_time_rows(&t, 1, 1000), 32);
  for (uint32_t i = 0; i < 40; i++)
    lls_pass_time_add(&t, 1 + i % 16, 10000 + 500 * (1 + i % 16));
  assert_in_range(lls_pass_time_of(&t, 8), 13990, 14010);
  assert_in_range(lls_pass_time_of(&t, 100), 59900, 60100);
  assert_in_range(lls_pass_time_rows(&t, 30000, 1000), 39, 40);
  assert_int_equal(lls_pass_time_rows(&t, 30000, 20), 20);
  assert_int_equal(lls_pass_time_rows(&t, 9000, 1000), 0);
  for (int i = 0; i < 60; i++)
    lls_pass_time_doubt(&t);
  assert_true(lls_pass_time_rows(&t, 9000, 1000) > 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_guesses_are_what_the_draft_model_says),
      cmocka_unit_test(test_text_is_the_same_with_another_draft_model),
      cmocka_unit_test(test_prompts_are_read_in_parts),
      cmocka_unit_test(test_a_short_cache_makes_fewer_guesses),
      cmocka_unit_test(test_passes_keep_to_their_budget),
      cmocka_unit_test(test_blocks_are_those_of_one_request),
      cmocka_unit_test(test_wrong_guesses_are_forgotten),
      cmocka_unit_test(test_time_of_a_pass_is_a_line),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
