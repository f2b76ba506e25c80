/* SPDX-License-Identifier: Apache-2.0 */
/* See paced.h. Each request keeps its number of guesses in a user word. */
#include <llmserve/policy/paced.h>

#include <llmserve/policy/number.h>

#include <errno.h>
#include <stdlib.h>

/* Keys of the heap: probabilities as integers, the likeliest first. */
#define KEY_ONE 1e15

/* While costs are unknown, the guesses of a step with few decodes: verifying them teaches
 * the cost service what they cost. */
#define UNKNOWN_DECODES 8

int lls_pol_paced_init(struct lls_pol_paced *s, uint32_t capacity)
{
  s->needs = calloc(capacity, sizeof *s->needs);
  s->contexts = calloc(capacity, sizeof *s->contexts);
  s->capacity = capacity;
  int rc = lls_pol_heap_init(&s->likeliest, capacity);
  return s->needs != NULL && s->contexts != NULL ? rc : -ENOMEM;
}

void lls_pol_paced_free(struct lls_pol_paced *s)
{
  lls_pol_heap_free(&s->likeliest);
  free(s->contexts);
  free(s->needs);
}

void lls_pol_paced_note(const struct lls_request *r, int64_t now_ns)
{
  if (r->generated_tokens == 0 || r->user[LLS_POL_PACED_BEGAN_NS] != 0)
    return;
  r->user[LLS_POL_PACED_BEGAN_NS] = (uint64_t)now_ns;
  r->user[LLS_POL_PACED_BEGAN_AT] = r->generated_tokens;
}

uint32_t lls_pol_paced_of(void *context, const struct lls_request *r)
{
  (void)context;
  return (uint32_t)r->user[LLS_POL_PACED_GUESSES];
}

/* ---- what is needed ---------------------------------------------------------------- */

/* A request without a mean time named is measured by its longest time between tokens. */
static int64_t pace_of(const struct lls_request *r)
{
  return r->slo.tpot_ns != LLS_NEVER ? r->slo.tpot_ns : r->slo.tbt_ns;
}

/* Returns A(r) = (l + t_spec) / t_TPOT - o: the tokens after which the request, decoding
 * since l and o tokens ago, is on time when this step ends. */
static double tokens_needed(const struct lls_request *r, int64_t now_ns, double step_ns)
{
  int64_t pace_ns = pace_of(r);
  if (pace_ns == LLS_NEVER || r->user[LLS_POL_PACED_BEGAN_NS] == 0)
    return 0;
  double since_ns = (double)(now_ns - (int64_t)r->user[LLS_POL_PACED_BEGAN_NS]);
  double tokens = (double)r->generated_tokens - (double)r->user[LLS_POL_PACED_BEGAN_AT];
  return (since_ns + step_ns) / (double)(pace_ns > 0 ? pace_ns : 1) - tokens;
}

static int by_need(const void *a, const void *b)
{
  const struct lls_pol_paced_need *x = a, *y = b;
  if (x->tokens != y->tokens)
    return x->tokens > y->tokens ? -1 : 1;
  return x->request->id < y->request->id ? -1 : x->request->id > y->request->id;
}

/* ---- the budget ------------------------------------------------------------------  */

static double time_of(const struct lls_pol_paced *s, const struct lls_cost *cost,
                      uint32_t guesses)
{
  const struct lls_iteration_shape shape = {
      .size = sizeof shape,
      .n_decodes = s->n,
      .decode_context = s->contexts,
      .draft_tokens = guesses,
  };
  return (double)cost->iteration_ns(cost->context, &shape);
}

/* Returns the most guesses, of `most`, with which the step takes at most stretch times as
 * long as with none. */
static uint32_t budget_of(const struct lls_pol_paced *s, const struct lls_cost *cost,
                          uint32_t most, double stretch)
{
  double plain_ns = time_of(s, cost, 0);
  if (plain_ns <= 0)
    return s->n <= UNKNOWN_DECODES ? most : 0;
  uint32_t low = 0, high = most;
  while (low < high) {
    uint32_t middle = high - (high - low) / 2;
    if (time_of(s, cost, middle) <= stretch * plain_ns)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

/* ---- the selections ---------------------------------------------------------------- */

static bool has_more(const struct lls_pol_paced_need *need)
{
  return need->request->user[LLS_POL_PACED_GUESSES] < need->request->drafted_tokens;
}

/* Selects the next guess of the request. Returns its probability. */
static double select_next(struct lls_pol_paced_need *need)
{
  const struct lls_request *r = need->request;
  need->probability *= (double)r->draft_odds[r->user[LLS_POL_PACED_GUESSES]++];
  return need->probability;
}

/* A decode emits one token in any case. No request gets more than the share of each one
 * when all are late: the last guesses of a long chain are hardly ever right. */
static void select_for_deadlines(struct lls_pol_paced *s)
{
  const uint32_t most = (s->budget + s->n - 1) / s->n;
  qsort(s->needs, s->n, sizeof *s->needs, by_need);
  for (uint32_t i = 0; i < s->n && s->needs[i].tokens > 1; i++) {
    double expected = 1;
    while (expected < s->needs[i].tokens && s->for_deadlines < s->budget &&
           has_more(&s->needs[i]) &&
           s->needs[i].request->user[LLS_POL_PACED_GUESSES] < most) {
      expected += select_next(&s->needs[i]);
      s->for_deadlines++;
    }
  }
}

static void offer(struct lls_pol_paced *s, struct lls_pol_paced_need *need)
{
  const struct lls_request *r = need->request;
  double probability =
      need->probability * (double)r->draft_odds[r->user[LLS_POL_PACED_GUESSES]];
  lls_pol_heap_push(&s->likeliest, (struct lls_pol_heap_entry){
                                       .key = -(int64_t)(KEY_ONE * probability),
                                       .tie = r->id,
                                       .item = need,
                                   });
}

/* Only guesses that pay: unlikely ones would make the step longer for nothing. */
static void select_for_throughput(struct lls_pol_paced *s, double least)
{
  lls_pol_heap_clear(&s->likeliest);
  for (uint32_t i = 0; i < s->n; i++)
    if (has_more(&s->needs[i]))
      offer(s, &s->needs[i]);
  while (s->likeliest.n > 0 && s->for_deadlines + s->for_throughput < s->budget) {
    struct lls_pol_heap_entry first = lls_pol_heap_pop(&s->likeliest);
    struct lls_pol_paced_need *need = first.item;
    if (-(double)first.key < KEY_ONE * least)
      return;
    select_next(need);
    s->for_throughput++;
    if (has_more(need))
      offer(s, need);
  }
}

/* Lists the decodes. Returns how many guesses they have together. */
static uint32_t list_decodes(struct lls_pol_paced *s, const struct lls_step_view *view)
{
  uint32_t guesses = 0;
  s->n = 0;
  for (uint32_t i = 0; i < view->n_preempted; i++)
    view->preempted[i]->user[LLS_POL_PACED_GUESSES] = 0;
  for (uint32_t i = 0; i < view->n_running && s->n < s->capacity; i++) {
    const struct lls_request *r = view->running[i];
    r->user[LLS_POL_PACED_GUESSES] = 0;
    if (!lls_request_decodes(r))
      continue;
    guesses += r->drafted_tokens;
    s->contexts[s->n] = r->cached_tokens;
    s->needs[s->n++] = (struct lls_pol_paced_need){.request = r, .probability = 1};
  }
  return guesses;
}

/* Without deadlines: the guesses that pay, as other schedulers do. */
static void select_what_pays(struct lls_pol_paced *s, const struct lls_pol_drafts *pays)
{
  for (uint32_t i = 0; i < s->n; i++) {
    const struct lls_request *r = s->needs[i].request;
    r->user[LLS_POL_PACED_GUESSES] = lls_pol_drafts_of(pays, r);
    s->for_throughput += (uint32_t)r->user[LLS_POL_PACED_GUESSES];
  }
  s->budget = s->for_throughput;
}

void lls_pol_paced_choose(struct lls_pol_paced *s, const struct lls_cost *cost,
                          const struct lls_step_view *view, double stretch,
                          double step_ns)
{
  struct lls_pol_drafts pays;
  bool any_pace = false;
  uint32_t guesses = list_decodes(s, view);
  s->budget = s->for_deadlines = s->for_throughput = 0;
  if (guesses == 0)
    return;
  lls_pol_drafts_choose(&pays, cost, view);
  for (uint32_t i = 0; i < s->n; i++)
    any_pace |= pace_of(s->needs[i].request) != LLS_NEVER;
  if (!any_pace) {
    select_what_pays(s, &pays);
    return;
  }
  guesses = lls_pol_min(guesses, lls_pol_drafts_most(view));
  s->budget = budget_of(s, cost, guesses, stretch);
  if (step_ns <= 0)
    step_ns = time_of(s, cost, s->budget);
  for (uint32_t i = 0; i < s->n; i++)
    s->needs[i].tokens = tokens_needed(s->needs[i].request, view->now_ns, step_ns);
  select_for_deadlines(s);
  select_for_throughput(s, pays.least);
}
