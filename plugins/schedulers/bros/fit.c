/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Coefficients of the estimate. The paper profiles the device with sequences of 2^i
 * tokens and fits a line for prompts and one for decodes; here the cost service estimates
 * the same shapes. The fit is by least squares of relative errors, so that steps of a few
 * milliseconds count as much as the longest; no coefficient is negative. A service with a
 * profile has estimates at calibrate. For one that learns while serving the fit is
 * repeated after 16, 32, ... steps, at last after every 4,096th.
 */
#include "bros.h"

#include <math.h>

enum { TERMS = 3, FIRST = 16, LEAST_STEPS = 16, MOST_STEPS = 4096 };

/* ---- least squares ----------------------------------------------------------------- */

struct normal { /* normal equations of the features 1, Ln and pairs */
  double a[TERMS][TERMS], b[TERMS];
  uint32_t n;
};

static void observe(struct normal *m, double tokens, double pairs, double seconds)
{
  const double x[TERMS] = {tokens / seconds, pairs / seconds, 1 / seconds};
  for (int i = 0; i < TERMS; i++) {
    for (int k = 0; k < TERMS; k++)
      m->a[i][k] += x[i] * x[k];
    m->b[i] += x[i];
  }
  m->n++;
}

/* Gaussian elimination over the used terms; the coefficients of unused ones are 0. */
static void solve(const struct normal *m, const bool used[TERMS], double out[TERMS])
{
  double a[TERMS][TERMS + 1];
  for (int i = 0; i < TERMS; i++)
    for (int k = 0; k <= TERMS; k++)
      a[i][k] = !used[i] || (k < TERMS && !used[k]) ? i == k
                : k < TERMS                         ? m->a[i][k]
                                                    : m->b[i];
  for (int p = 0; p < TERMS; p++)
    for (int i = 0; i < TERMS; i++) {
      double factor = i == p || a[p][p] == 0 ? 0 : a[i][p] / a[p][p];
      for (int k = p; k <= TERMS && factor != 0; k++)
        a[i][k] -= factor * a[p][k];
    }
  for (int i = 0; i < TERMS; i++)
    out[i] = used[i] && a[i][i] != 0 ? a[i][TERMS] / a[i][i] : 0;
}

/* Terms that come out negative are left out, the most negative first. */
static void fit_line(const struct normal *m, struct bros_line *line)
{
  bool used[TERMS] = {true, true, true};
  double x[TERMS];
  for (;;) {
    int worst = -1;
    solve(m, used, x);
    for (int i = 0; i < TERMS; i++)
      if (x[i] < 0 && (worst < 0 || x[i] < x[worst]))
        worst = i;
    if (worst < 0)
      break;
    used[worst] = false;
  }
  *line = (struct bros_line){.a0 = x[0], .a1 = x[1], .beta = x[2]};
}

/* ---- asking ------------------------------------------------------------------------ */

/* Adds the estimate for prompts of `tokens` together, none longer than a context. */
static bool ask_prompts(struct bros *b, const struct lls_cost *cost, uint32_t tokens,
                        struct normal *out)
{
  const struct lls_engine_caps *engine = b->base.host->engine;
  struct lls_iteration_shape shape = {.size = sizeof shape, .chunks = b->chunks};
  double products = 0;
  for (uint32_t left = tokens; left > 0 && shape.n_chunks < engine->max_sequences;) {
    uint32_t n = lls_pol_min(left, engine->max_context);
    b->chunks[shape.n_chunks++] = (struct lls_chunk_shape){.tokens = n};
    products += (double)n * n;
    left -= n;
  }
  int64_t ns = cost->iteration_ns(cost->context, &shape);
  if (ns <= 0)
    return false;
  observe(out, tokens, b->cost.prefill_sum ? products : (double)tokens * tokens,
          ns * 1e-9);
  return true;
}

static bool ask_decodes(struct bros *b, const struct lls_cost *cost, uint32_t n,
                        uint32_t context, struct normal *out)
{
  struct lls_iteration_shape shape = {
      .size = sizeof shape, .n_decodes = n, .decode_context = b->contexts};
  for (uint32_t i = 0; i < n; i++)
    b->contexts[i] = context;
  int64_t ns = cost->iteration_ns(cost->context, &shape);
  if (ns <= 0)
    return false;
  double together = (double)n * context;
  observe(out, n, b->cost.decode_sum ? together : n * together, ns * 1e-9);
  return true;
}

void bros_fit(struct bros *b, const struct lls_cost *cost)
{
  const struct lls_engine_caps *engine = b->base.host->engine;
  struct normal prompts = {0}, decodes = {0};
  bool known = true;
  b->cost.prefill_sum = b->params.prefill_attn == BROS_SUM;
  b->cost.decode_sum = b->params.decode_attn == BROS_SUM;
  for (uint32_t n = FIRST; n <= engine->max_step_tokens && known; n *= 2)
    known = ask_prompts(b, cost, n, &prompts);
  for (uint32_t n = 1; n <= engine->max_sequences && known; n *= 2)
    for (uint32_t context = FIRST; context <= engine->max_context && known; context *= 4)
      known = ask_decodes(b, cost, n, context, &decodes);
  if (known && prompts.n >= TERMS && decodes.n >= TERMS) {
    fit_line(&prompts, &b->cost.prefill);
    fit_line(&decodes, &b->cost.decode);
    b->cost.known = true;
  }
  b->cost.c0 = b->cost.c1 = 0; /* bros_fit_swap */
  b->next_fit = b->steps < LEAST_STEPS
                    ? LEAST_STEPS
                    : b->steps + (b->steps < MOST_STEPS ? b->steps : MOST_STEPS);
}

/* Fits c0 and c1 to the times of copying 1 and 64 blocks. */
void bros_fit_swap(struct bros *b, const struct lls_cache_service *cache)
{
  enum { BLOCKS = 64 };
  uint32_t units = b->fit.growth_units;
  int64_t one = cache->transfer_ns(cache->context, units, LLS_LINK_HOST);
  int64_t many = cache->transfer_ns(cache->context, units * BLOCKS, LLS_LINK_HOST);
  if (one < 0 || many < one)
    return;
  double block = (double)(many - one) / (BLOCKS - 1);
  b->cost.c0 = block / cache->block_tokens * 1e-9;
  b->cost.c1 = one > block ? ((double)one - block) * 1e-9 : 0;
}
