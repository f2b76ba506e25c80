/* SPDX-License-Identifier: Apache-2.0 */
/* The cost service: statistics and estimates; the fit itself is in fit.c. */
#include "core/cost/cost.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/cost/fit.h"

#define WINDOW 512 /* steps the statistics look back */

struct lls_cost_model {
  struct lls_cost service;
  struct lls_fit fit;
  int64_t duration_ns[WINDOW]; /* ring, newest at (n - 1) % WINDOW */
  uint32_t batch[WINDOW];      /* sequences of those steps */
  uint64_t n;                  /* steps observed */
  double copy_bytes, copy_ns;  /* sums */
};

static void features(const struct lls_iteration_shape *s, double x[LLS_FIT_TERMS])
{
  memset(x, 0, LLS_FIT_TERMS * sizeof *x);
  x[0] = 1;
  for (uint32_t i = 0; i < s->n_chunks; i++) {
    double tokens = s->chunks[i].tokens;
    x[1] += tokens;
    x[2] += tokens * (s->chunks[i].context + tokens / 2);
  }
  x[3] = s->n_decodes;
  for (uint32_t i = 0; i < s->n_decodes; i++)
    x[4] += s->decode_context[i];
}

static int64_t iteration_ns(void *context, const struct lls_iteration_shape *shape)
{
  struct lls_cost_model *m = context;
  double x[LLS_FIT_TERMS];
  features(shape, x);
  double ns = lls_fit_predict(&m->fit, x);
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
  if (link != LLS_LINK_HOST || m->copy_ns <= 0 || m->copy_bytes <= 0)
    return bytes == 0 ? 0 : LLS_NEVER;
  return (int64_t)((double)bytes * m->copy_ns / m->copy_bytes);
}

static int fit(void *context, const struct lls_cost_sample *samples, size_t n)
{
  struct lls_cost_model *m = context;
  lls_fit_reset(&m->fit);
  for (size_t i = 0; i < n; i++) {
    double x[LLS_FIT_TERMS];
    features(&samples[i].shape, x);
    lls_fit_add(&m->fit, x, (double)samples[i].duration_ns, 1);
  }
  return lls_fit_solve(&m->fit);
}

static int coefficients(void *context, double *out, size_t max)
{
  struct lls_cost_model *m = context;
  if (max < LLS_FIT_TERMS)
    return -ENOSPC;
  if (!m->fit.solved)
    return -ENODATA;
  memcpy(out, m->fit.coefficients, sizeof m->fit.coefficients);
  return LLS_FIT_TERMS;
}

static int set_coefficients(void *context, const double *in, size_t n)
{
  struct lls_cost_model *m = context;
  if (n != LLS_FIT_TERMS)
    return -EINVAL;
  lls_fit_reset(&m->fit);
  memcpy(m->fit.coefficients, in, sizeof m->fit.coefficients);
  m->fit.solved = true;
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

int lls_cost_model_create(struct lls_cost_model **out)
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
  lls_fit_reset(&m->fit);
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
  double x[LLS_FIT_TERMS];
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
