/* SPDX-License-Identifier: Apache-2.0 */
/* The cost service: statistics and estimates; the fit itself is in fit.c. */
#include "core/cost/cost.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/cost/fit.h"

#define WINDOW     512 /* steps that the statistics cover */
#define LINE_TERMS 7   /* c0..c6 of cost.h */
#define DRAWN_TERM 3
#define BENDS      9 /* b1..b9: at 2 rows, 4, 8, ... */
#define FIRST_BEND 2
#define TERMS      (LINE_TERMS + BENDS)

/* While only one answer at a time has decoded, c0 and c3 always vary together. By this
 * ridge c0 has nearly all of their sum; with equal ones each had half, and no guess paid.
 */
#define DRAWN_RIDGE 1e-4

struct lls_cost_model {
  struct lls_cost service;
  struct lls_fit fit;
  int64_t duration_ns[WINDOW]; /* ring, newest at (n - 1) % WINDOW */
  uint64_t n;                  /* steps observed */
  float off[LLS_COST_JUDGED];  /* (LLS_COST_JUDGED) ring of estimated / measured - 1 */
  uint64_t judged;             /* steps that had an estimate */
  double error_sum, bias_sum;  /* over the ring */
  bool analytic;               /* estimates are computed from rates */
  struct lls_cost_rates rates;
};

static void features(const struct lls_iteration_shape *s, double x[TERMS])
{
  memset(x, 0, TERMS * sizeof *x);
  double drawn = s->n_decodes + (double)s->draft_tokens;
  x[0] = 1;
  x[1] = drawn;
  for (uint32_t i = 0; i < s->n_chunks; i++) {
    double tokens = s->chunks[i].tokens;
    x[1] += tokens;
    x[2] += tokens * (s->chunks[i].context + tokens / 2);
  }
  x[DRAWN_TERM] = drawn;
  for (uint32_t i = 0; i < s->n_decodes; i++)
    x[4] += s->decode_context[i];
  x[5] = (double)s->hidden_tokens;
  x[6] = s->hidden_tokens > 0;
  for (uint32_t i = 0; i < BENDS; i++)
    x[LINE_TERMS + i] = fmax(x[1] - (FIRST_BEND << i), 0);
}

/* Adds guesses, spread over the decodes. Each is a row that is sampled; it reads what its
 * sequence has cached together with the sequence's own row. */
static void add_drafts(struct lls_cost_load *load, const struct lls_iteration_shape *s)
{
  if (s->n_decodes == 0)
    return;
  load->rows += (double)s->draft_tokens;
  load->drawn += (double)s->draft_tokens;
}

/* Estimates a step as if every chunk were its prompt's last one: one token is sampled
 * for each sequence. */
static double analytic_ns(const struct lls_cost_rates *r,
                          const struct lls_iteration_shape *s)
{
  struct lls_cost_load load = {0};
  for (uint32_t i = 0; i < s->n_chunks; i++)
    lls_cost_add(r, &load, s->chunks[i].tokens, s->chunks[i].context);
  for (uint32_t i = 0; i < s->n_decodes; i++)
    lls_cost_add(r, &load, 1, s->decode_context[i]);
  load.drawn = load.sequences;
  add_drafts(&load, s);
  if (r->absorb_ns > 0) {
    load.absorbed = load.absorbed_tokens = (double)s->hidden_tokens;
    load.absorbed_rows = s->n_decodes > 0 ? s->n_decodes : 1;
  } else {
    load.restored = (double)s->hidden_tokens;
  }
  return lls_cost_step_ns(r, &load);
}

static double fitted_ns(const struct lls_cost_model *m,
                        const struct lls_iteration_shape *shape)
{
  double x[TERMS];
  features(shape, x);
  return lls_fit_predict(&m->fit, x);
}

static int64_t iteration_ns(void *context, const struct lls_iteration_shape *shape)
{
  struct lls_cost_model *m = context;
  double ns = m->analytic ? analytic_ns(&m->rates, shape) : fitted_ns(m, shape);
  if (ns < 0)
    return LLS_NEVER;
  return (int64_t)ns;
}

static int64_t prefill_ns(void *context, uint32_t tokens, uint32_t context_tokens)
{
  struct lls_chunk_shape chunk = {.tokens = tokens, .context = context_tokens};
  struct lls_iteration_shape shape = {
      .size = sizeof shape, .n_chunks = 1, .chunks = &chunk};
  return iteration_ns(context, &shape);
}

/* Estimates n consecutive decodes of one sequence, whose context grows by one each, by
 * its middle context. */
static int64_t decode_ns(void *context, uint32_t context_tokens, uint32_t n)
{
  uint32_t middle = context_tokens + n / 2;
  struct lls_iteration_shape shape = {
      .size = sizeof shape, .n_decodes = 1, .decode_context = &middle};
  int64_t one = iteration_ns(context, &shape);
  return one == LLS_NEVER ? LLS_NEVER : one * n;
}

static int64_t transfer_ns(void *context, uint64_t bytes, uint32_t link)
{
  struct lls_cost_model *m = context;
  if (m->analytic)
    return (int64_t)lls_cost_copy_ns(&m->rates, link, (double)bytes, 1);
  return bytes == 0 ? 0 : LLS_NEVER; /* measured steps contain no information about
                                      * links */
}

static void statistics(void *context, uint32_t last_steps,
                       struct lls_step_statistics *out)
{
  struct lls_cost_model *m = context;
  uint64_t n = m->n < WINDOW ? m->n : WINDOW;
  if (last_steps < n)
    n = last_steps;
  double sum = 0;
  for (uint64_t i = 0; i < n; i++)
    sum += (double)m->duration_ns[(m->n - 1 - i) % WINDOW];
  out->steps = (uint32_t)n;
  out->mean_ns = n > 0 ? (int64_t)(sum / (double)n) : LLS_NEVER;
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
      .transfer_ns = transfer_ns,
      .statistics = statistics,
  };
  lls_fit_reset(&m->fit, TERMS);
  m->fit.ridge[DRAWN_TERM] = DRAWN_RIDGE;
  if (rates != NULL) {
    m->analytic = true;
    m->rates = *rates;
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

/* Compares the estimate that a policy would have received with the measured time. */
static void compare(struct lls_cost_model *m, const struct lls_iteration_shape *shape,
                    int64_t duration_ns)
{
  double ns = m->analytic ? analytic_ns(&m->rates, shape) : fitted_ns(m, shape);
  if (ns < 0 || duration_ns <= 0)
    return;
  float *at = &m->off[m->judged % LLS_COST_JUDGED];
  if (m->judged++ >= LLS_COST_JUDGED) {
    m->error_sum -= fabs((double)*at);
    m->bias_sum -= (double)*at;
  }
  *at = (float)(ns / (double)duration_ns - 1);
  m->error_sum += fabs((double)*at);
  m->bias_sum += (double)*at;
}

struct lls_cost_accuracy lls_cost_model_accuracy(const struct lls_cost_model *m)
{
  uint32_t n = m->judged < LLS_COST_JUDGED ? (uint32_t)m->judged : LLS_COST_JUDGED;
  return (struct lls_cost_accuracy){.steps = n,
                                    .error = n > 0 ? m->error_sum / n : 0,
                                    .bias = n > 0 ? m->bias_sum / n : 0};
}

void lls_cost_model_observe(struct lls_cost_model *m,
                            const struct lls_iteration_shape *shape, int64_t duration_ns)
{
  const double forget = 0.995;
  uint64_t at = m->n++ % WINDOW;
  m->duration_ns[at] = duration_ns;
  compare(m, shape, duration_ns);
  if (m->analytic || duration_ns <= 0)
    return;
  double x[TERMS], root = sqrt((double)duration_ns);
  features(shape, x);
  for (uint32_t i = 0; i < TERMS; i++)
    x[i] /= root;
  lls_fit_add(&m->fit, x, root, forget);
  if (m->n >= 16 && m->n % 16 == 0)
    lls_fit_solve(&m->fit);
}
