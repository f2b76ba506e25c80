/* SPDX-License-Identifier: Apache-2.0 */
/* The cost service: statistics and estimates; the fit itself is in fit.c. */
#include "core/cost/cost.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/cost/fit.h"

#define WINDOW     512 /* steps the statistics look back */
#define LINE_TERMS 6   /* c0..c5 of cost.h */

struct lls_cost_model {
  struct lls_cost service;
  struct lls_fit fit;
  int64_t duration_ns[WINDOW]; /* ring, newest at (n - 1) % WINDOW */
  uint32_t batch[WINDOW];      /* sequences of those steps */
  uint64_t n;                  /* steps observed */
  double copy_bytes, copy_ns;  /* sums */
  bool analytic;               /* estimates come from rates */
  struct lls_cost_rates rates;
};

static void features(const struct lls_iteration_shape *s, double x[LINE_TERMS])
{
  memset(x, 0, LINE_TERMS * sizeof *x);
  x[0] = 1;
  for (uint32_t i = 0; i < s->n_chunks; i++) {
    double tokens = s->chunks[i].tokens;
    x[1] += tokens;
    x[2] += tokens * (s->chunks[i].context + tokens / 2);
  }
  x[3] = s->n_decodes;
  for (uint32_t i = 0; i < s->n_decodes; i++)
    x[4] += s->decode_context[i];
  x[5] = (double)s->hidden_tokens;
}

/* Every chunk is taken to be its prompt's last: one token is drawn of each sequence. */
static double analytic_ns(const struct lls_cost_rates *r,
                          const struct lls_iteration_shape *s)
{
  struct lls_cost_load load = {.restored = (double)s->hidden_tokens};
  for (uint32_t i = 0; i < s->n_chunks; i++)
    lls_cost_add(r, &load, s->chunks[i].tokens, s->chunks[i].context);
  for (uint32_t i = 0; i < s->n_decodes; i++)
    lls_cost_add(r, &load, 1, s->decode_context[i]);
  load.drawn = load.sequences;
  return lls_cost_step_ns(r, &load);
}

static double fitted_ns(const struct lls_cost_model *m,
                        const struct lls_iteration_shape *shape)
{
  double x[LINE_TERMS];
  features(shape, x);
  return lls_fit_predict(&m->fit, x);
}

static int64_t iteration_ns(void *context, const struct lls_iteration_shape *shape)
{
  struct lls_cost_model *m = context;
  double ns = m->analytic ? analytic_ns(&m->rates, shape) : fitted_ns(m, shape);
  if (ns < 0)
    return LLS_NEVER;
  int64_t copy = m->service.transfer_ns(m, shape->copy_bytes, LLS_LINK_HOST);
  return (int64_t)ns + (copy > 0 ? copy : 0);
}

static int64_t prefill_ns(void *context, uint32_t tokens, uint32_t context_tokens)
{
  struct lls_chunk_shape chunk = {.tokens = tokens, .context = context_tokens};
  struct lls_iteration_shape shape = {
      .size = sizeof shape, .n_chunks = 1, .chunks = &chunk};
  return iteration_ns(context, &shape);
}

/* n decodes one after the other, the context growing by one each time: at its middle. */
static int64_t decode_ns(void *context, uint32_t context_tokens, uint32_t n)
{
  uint32_t middle = context_tokens + n / 2;
  struct lls_iteration_shape shape = {
      .size = sizeof shape, .n_decodes = 1, .decode_context = &middle};
  int64_t one = iteration_ns(context, &shape);
  return one == LLS_NEVER ? LLS_NEVER : one * n;
}

static int64_t remaining_ns(void *context, const struct lls_request *r)
{
  uint32_t expected = r->prediction.source != LLS_PREDICTED_NOT ? r->prediction.length
                                                                : r->max_new_tokens;
  uint32_t left = expected > r->generated_tokens ? expected - r->generated_tokens : 1;
  int64_t decode = decode_ns(context, lls_request_length(r), left);
  if (decode == LLS_NEVER)
    return LLS_NEVER;
  uint32_t pending = lls_request_pending(r);
  return decode + (pending > 1 ? prefill_ns(context, pending, r->cached_tokens) : 0);
}

static int64_t transfer_ns(void *context, uint64_t bytes, uint32_t link)
{
  struct lls_cost_model *m = context;
  if (m->analytic)
    return (int64_t)lls_cost_copy_ns(&m->rates, link, (double)bytes, 1);
  if (link != LLS_LINK_HOST || m->copy_ns <= 0 || m->copy_bytes <= 0)
    return bytes == 0 ? 0 : LLS_NEVER;
  return (int64_t)((double)bytes * m->copy_ns / m->copy_bytes);
}

static int fit(void *context, const struct lls_cost_sample *samples, size_t n)
{
  struct lls_cost_model *m = context;
  lls_fit_reset(&m->fit, LINE_TERMS);
  for (size_t i = 0; i < n; i++) {
    double x[LINE_TERMS];
    features(&samples[i].shape, x);
    lls_fit_add(&m->fit, x, (double)samples[i].duration_ns, 1);
  }
  m->analytic = false;
  return lls_fit_solve(&m->fit);
}

static int coefficients(void *context, double *out, size_t max)
{
  struct lls_cost_model *m = context;
  if (max < LINE_TERMS)
    return -ENOSPC;
  if (!m->fit.solved)
    return -ENODATA;
  memcpy(out, m->fit.coefficients, LINE_TERMS * sizeof *m->fit.coefficients);
  return LINE_TERMS;
}

static int set_coefficients(void *context, const double *in, size_t n)
{
  struct lls_cost_model *m = context;
  if (n != LINE_TERMS)
    return -EINVAL;
  lls_fit_reset(&m->fit, LINE_TERMS);
  memcpy(m->fit.coefficients, in, LINE_TERMS * sizeof *m->fit.coefficients);
  m->fit.solved = true;
  m->analytic = false;
  return 0;
}

static int compare_ns(const void *a, const void *b)
{
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static void statistics(void *context, uint32_t last_steps,
                       struct lls_step_statistics *out)
{
  struct lls_cost_model *m = context;
  uint64_t n = m->n < WINDOW ? m->n : WINDOW;
  if (last_steps < n)
    n = last_steps;
  int64_t sorted[WINDOW];
  double sum = 0, batch = 0;
  for (uint64_t i = 0; i < n; i++) {
    uint64_t at = (m->n - 1 - i) % WINDOW;
    sorted[i] = m->duration_ns[at];
    sum += (double)sorted[i];
    batch += m->batch[at];
  }
  uint32_t size = out->size;
  *out = (struct lls_step_statistics){.size = size, .steps = (uint32_t)n};
  out->mean_ns = out->max_ns = out->p50_ns = out->p99_ns = LLS_NEVER;
  if (n == 0)
    return;
  qsort(sorted, n, sizeof *sorted, compare_ns);
  out->mean_ns = (int64_t)(sum / (double)n);
  out->max_ns = sorted[n - 1];
  out->p50_ns = sorted[n / 2];
  out->p99_ns = sorted[(n * 99) / 100];
  out->mean_batch = batch / (double)n;
}

/* Coefficients for policies that ask for them: the line through the model's answers for
 * prompts, and for decodes, of common sizes. */
static void fit_rates(struct lls_cost_model *m)
{
  static const uint32_t tokens[] = {32, 128, 512, 1024, 2048};
  static const uint32_t batches[] = {1, 8, 32, 64, 128};
  static const uint32_t contexts[] = {0, 256, 1024, 2048};
  const size_t n_sizes = sizeof tokens / sizeof *tokens;
  uint32_t decode_context[128];
  for (size_t i = 0; i < sizeof contexts / sizeof *contexts; i++)
    for (size_t k = 0; k < 2 * n_sizes; k++) {
      struct lls_chunk_shape chunk = {.tokens = tokens[k % n_sizes],
                                      .context = contexts[i]};
      struct lls_iteration_shape shape = {.size = sizeof shape, .chunks = &chunk};
      shape.n_chunks = k < n_sizes;
      shape.n_decodes = k < n_sizes ? 0 : batches[k - n_sizes];
      shape.decode_context = decode_context;
      for (uint32_t d = 0; d < shape.n_decodes; d++)
        decode_context[d] = contexts[i];
      double x[LINE_TERMS];
      features(&shape, x);
      lls_fit_add(&m->fit, x, analytic_ns(&m->rates, &shape), 1);
    }
  lls_fit_solve(&m->fit);
}

int lls_cost_model_create(const struct lls_cost_rates *rates, struct lls_cost_model **out)
{
  struct lls_cost_model *m = calloc(1, sizeof *m);
  if (m == NULL)
    return -ENOMEM;
  m->service = (struct lls_cost){
      .size = sizeof m->service,
      .context = m,
      .iteration_ns = iteration_ns,
      .prefill_ns = prefill_ns,
      .decode_ns = decode_ns,
      .remaining_ns = remaining_ns,
      .transfer_ns = transfer_ns,
      .fit = fit,
      .coefficients = coefficients,
      .set_coefficients = set_coefficients,
      .statistics = statistics,
  };
  lls_fit_reset(&m->fit, LINE_TERMS);
  if (rates != NULL) {
    m->analytic = true;
    m->rates = *rates;
    fit_rates(m);
  }
  *out = m;
  return 0;
}

void lls_cost_model_destroy(struct lls_cost_model *m)
{
  free(m);
}

const struct lls_cost *lls_cost_model_service(struct lls_cost_model *m)
{
  return &m->service;
}

void lls_cost_model_observe(struct lls_cost_model *m,
                            const struct lls_iteration_shape *shape, int64_t duration_ns)
{
  const double forget = 0.995;
  uint64_t at = m->n++ % WINDOW;
  m->duration_ns[at] = duration_ns;
  m->batch[at] = shape->n_chunks + shape->n_decodes;
  if (m->analytic)
    return;
  double x[LINE_TERMS];
  features(shape, x);
  lls_fit_add(&m->fit, x, (double)duration_ns, forget);
  if (m->n >= 16 && m->n % 16 == 0)
    lls_fit_solve(&m->fit);
}

void lls_cost_model_observe_copy(struct lls_cost_model *m, uint64_t bytes,
                                 int64_t duration_ns)
{
  m->copy_bytes += (double)bytes;
  m->copy_ns += (double)duration_ns;
}
