/* SPDX-License-Identifier: Apache-2.0 */
/* See margin.h. */
#include <llmserve/policy/margin.h>

#include <errno.h>
#include <stdlib.h>

/* The fraction by which the ratio moves after a step: six steps make up for an estimate
 * that is 5 % too low. */
static const double move = 0.01;
static const double first = 1.05;           /* the ratio at the start */
static const double least = 0.25, most = 4; /* range of the ratio */
static const double healthy = 1.2;          /* most ratio / worst measured */
enum { WORST_OF = 64 };                     /* steps over which `worst` is the maximum */
/* The least estimate * ratio / deadline of a step that moves the ratio. */
static const double filled = 0.5;

int lls_pol_margin_init(struct lls_pol_margin *m, uint32_t max_sequences)
{
  *m = (struct lls_pol_margin){.ratio = first,
                               .deadline_ns = LLS_NEVER,
                               .estimated_ns = LLS_NEVER,
                               .max_sequences = max_sequences};
  m->chunks = calloc(max_sequences, sizeof *m->chunks);
  m->decodes = calloc(max_sequences, sizeof *m->decodes);
  return m->chunks != NULL && m->decodes != NULL ? 0 : -ENOMEM;
}

void lls_pol_margin_free(struct lls_pol_margin *m)
{
  free(m->chunks);
  free(m->decodes);
}

void lls_pol_margin_begin(struct lls_pol_margin *m, double quantile)
{
  m->quantile = quantile;
  m->deadline_ns = LLS_NEVER;
}

int64_t lls_pol_margin_within(struct lls_pol_margin *m, int64_t deadline_ns)
{
  m->deadline_ns = deadline_ns;
  return m->quantile > 0 ? (int64_t)((double)deadline_ns / m->ratio) : deadline_ns;
}

/* ---- what was planned -------------------------------------------------------------- */

static uint32_t context_of(const struct lls_step_view *view, const struct lls_request *r)
{
  if (r->cached_tokens > 0)
    return r->cached_tokens;
  return view->cache->prefix(view->cache->context, r);
}

void lls_pol_margin_planned(struct lls_pol_margin *m, const struct lls_host *host,
                            const struct lls_step_view *view, const struct lls_plan *plan)
{
  struct lls_iteration_shape shape = {
      .size = sizeof shape, .chunks = m->chunks, .decode_context = m->decodes};
  m->estimated_ns = LLS_NEVER;
  if (m->quantile == 0 || m->deadline_ns == LLS_NEVER)
    return;
  for (uint32_t i = 0; i < plan->n_items; i++) {
    const struct lls_plan_item *item = &plan->items[i];
    const struct lls_request *r =
        item->kind == LLS_PLAN_RUN ? host->find(host->context, item->request) : NULL;
    if (r == NULL || shape.n_chunks + shape.n_decodes == m->max_sequences)
      continue;
    if (r->state == LLS_DECODING)
      m->decodes[shape.n_decodes++] = r->cached_tokens;
    else
      m->chunks[shape.n_chunks++] = (struct lls_chunk_shape){
          .tokens = item->tokens, .context = context_of(view, r)};
  }
  m->has_prompts = shape.n_chunks > 0;
  if (shape.n_chunks + shape.n_decodes > 0)
    m->estimated_ns = host->cost->iteration_ns(host->cost->context, &shape);
}

/* ---- what it took ------------------------------------------------------------------ */

static double within_range(double ratio)
{
  return ratio < least ? least : ratio > most ? most : ratio;
}

/* Lowers a ratio far above the worst one measured in the last two windows to that one. */
static void heal(struct lls_pol_margin *m, double ratio)
{
  m->worst = ratio > m->worst ? ratio : m->worst;
  if (++m->n_worst < WORST_OF)
    return;
  double worst = m->worst > m->worst_before ? m->worst : m->worst_before;
  bool full = m->worst_before > 0;
  m->worst_before = m->worst;
  m->worst = 0;
  m->n_worst = 0;
  if (full && m->ratio > healthy * worst)
    m->ratio = within_range(worst);
}

void lls_pol_margin_ran(struct lls_pol_margin *m, const struct lls_step_report *report)
{
  double taken = (double)(report->ended_ns - report->started_ns);
  double estimated = (double)m->estimated_ns;
  if (m->estimated_ns == LLS_NEVER || m->estimated_ns <= 0)
    return;
  m->estimated_ns = LLS_NEVER;
  if (m->has_prompts && estimated * m->ratio >= filled * (double)m->deadline_ns)
    m->ratio = within_range(
        m->ratio *
        (1 + move * (taken > estimated * m->ratio ? m->quantile : m->quantile - 1)));
  heal(m, taken / estimated);
}
