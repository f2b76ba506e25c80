/* SPDX-License-Identifier: Apache-2.0 */
/* See drafts.h. A plan that finds no guesses costs a pass over the running requests; one
 * that does asks for at most six estimates. */
#include <llmserve/policy/drafts.h>
#include <llmserve/policy/number.h>

#define NONE   2.0 /* odds that no guess has */
#define ROUNDS 3

/* While costs are unknown: guesses that are rather right than wrong, if few requests
 * run. Verified ones teach the cost service what they cost. */
#define UNKNOWN         0.5
#define UNKNOWN_DECODES 8

/* Prompt tokens that a step computes beside its decodes, if so many wait. */
#define CHUNK 512

struct choice {
  const struct lls_cost *cost;
  const struct lls_step_view *view;
  uint32_t context[LLS_POL_DRAFTS_DECODES]; /* (decodes) */
  uint32_t decodes, chunk;
  bool any; /* some request has guesses */
};

/* The guesses with at least some odds. */
struct guesses {
  uint32_t n;
  double emitted; /* sum of their odds */
};

uint32_t lls_pol_drafts_of(const struct lls_pol_drafts *d, const struct lls_request *r)
{
  double odds = 1;
  uint32_t n = 0;
  if (d->of != NULL)
    n = d->of(d->context, r);
  else
    while (n < r->drafted_tokens && (odds *= (double)r->draft_odds[n]) >= d->least)
      n++;
  return lls_pol_min(lls_pol_max(n, d->fewest), r->drafted_tokens);
}

uint32_t lls_pol_drafts_most(const struct lls_step_view *view)
{
  uint32_t most = view->max_sequences;
  for (uint32_t i = 0; i < view->n_running; i++)
    most = lls_pol_max(most, view->running[i]->drafted_tokens);
  return most;
}

static void count_of(const struct lls_request *r, double least, struct guesses *g)
{
  double odds = 1;
  for (uint32_t i = 0; i < r->drafted_tokens; i++) {
    odds *= (double)r->draft_odds[i];
    if (odds < least)
      return;
    g->n++;
    g->emitted += odds;
  }
}

static struct guesses count(const struct lls_step_view *view, double least)
{
  struct guesses g = {0, 0};
  for (uint32_t i = 0; i < view->n_running; i++)
    if (view->running[i]->drafted_tokens > 0)
      count_of(view->running[i], least, &g);
  return g;
}

/* Reads the view. Returns false if no guess can be of use. */
static bool look(struct choice *c)
{
  const struct lls_step_view *view = c->view;
  uint32_t prompts = 0;
  for (uint32_t i = 0; i < view->n_running; i++) {
    const struct lls_request *r = view->running[i];
    c->any |= r->drafted_tokens > 0;
    if (!lls_request_decodes(r)) {
      prompts = lls_pol_min(CHUNK, prompts + lls_pol_min(CHUNK, lls_request_pending(r)));
      continue;
    }
    if (c->decodes == LLS_POL_DRAFTS_DECODES)
      return false;
    c->context[c->decodes++] = r->cached_tokens;
  }
  for (uint32_t i = 0; i < view->n_waiting && prompts < CHUNK; i++)
    prompts += lls_pol_min(CHUNK, lls_request_pending(view->waiting[i]));
  c->chunk = lls_pol_min(CHUNK, prompts);
  return c->any && c->decodes > 0;
}

/* Returns the time of the step with this number of decodes and guesses; negative:
 * unknown. */
static double time_of(const struct choice *c, uint32_t decodes, uint32_t drafts)
{
  const struct lls_chunk_shape chunk = {c->chunk, 0};
  const struct lls_iteration_shape shape = {
      .size = sizeof shape,
      .n_chunks = c->chunk > 0,
      .n_decodes = decodes,
      .chunks = &chunk,
      .decode_context = c->context,
      .draft_tokens = drafts,
  };
  return (double)c->cost->iteration_ns(c->cost->context, &shape);
}

/* Returns the least odds by the formula of drafts.h. */
static double least_odds(const struct choice *c)
{
  double prompts_ns = c->chunk > 0 ? time_of(c, 0, 0) : 0;
  double plain_ns = time_of(c, c->decodes, 0) - prompts_ns, least = 0.1;
  if (prompts_ns < 0 || plain_ns <= 0)
    return c->decodes <= UNKNOWN_DECODES ? UNKNOWN : NONE;
  double plain = c->decodes / plain_ns, best = plain, best_least = NONE;
  for (int i = 0; i < ROUNDS; i++) {
    struct guesses g = count(c->view, least);
    if (g.n == 0)
      break;
    double ns = time_of(c, c->decodes, g.n) - prompts_ns;
    double rate = (c->decodes + g.emitted) / ns;
    if (rate > best) {
      best = rate;
      best_least = least;
    }
    least = (ns - plain_ns) / g.n * (rate > plain ? rate : plain);
  }
  return best_least;
}

void lls_pol_drafts_choose(struct lls_pol_drafts *d, const struct lls_cost *cost,
                           const struct lls_step_view *view)
{
  struct choice c = {.cost = cost, .view = view};
  *d = (struct lls_pol_drafts){.least = look(&c) ? least_odds(&c) : NONE,
                               .fewest = view->min_drafts};
}
