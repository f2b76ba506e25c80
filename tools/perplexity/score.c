/* SPDX-License-Identifier: Apache-2.0 */
/* Scores logits; see score.h. Sums over a vocabulary are in double, because differences
 * of 1e-6 nats matter. */
#include "tools/perplexity/score.h"

#include <math.h>
#include <stddef.h>

/* Adds a value by Welford's update: subtracting squared sums would lose the small
 * differences between two close models. */
void lls_mean_add(struct lls_mean *m, double x)
{
  double off = x - m->mean;
  m->n++;
  m->mean += off / (double)m->n;
  m->squares += off * (x - m->mean);
}

double lls_mean_error(const struct lls_mean *m)
{
  if (m->n < 2)
    return NAN;
  return sqrt(m->squares / (double)(m->n - 1) / (double)m->n);
}

struct row {
  const float *logits; /* (vocab) */
  /* the likeliest token; the lowest id on a tie, as in a greedy draw */
  uint32_t best;
  double log_sum; /* ln of the sum of exp(logit) */
};

static struct row read_row(const float *logits, uint32_t vocab)
{
  struct row r = {.logits = logits};
  double sum = 0;
  for (uint32_t i = 1; i < vocab; i++)
    if (logits[i] > logits[r.best])
      r.best = i;
  double most = logits[r.best];
  for (uint32_t i = 0; i < vocab; i++)
    sum += exp(logits[i] - most);
  r.log_sum = most + log(sum);
  return r;
}

static double log_probability(const struct row *r, uint32_t token)
{
  return r->logits[token] - r->log_sum;
}

/* Returns the sum of p ln(p / q), p being the reference's. */
static double divergence(const struct row *p, const struct row *q, uint32_t vocab)
{
  double sum = 0;
  for (uint32_t i = 0; i < vocab; i++) {
    double log_p = log_probability(p, i);
    sum += exp(log_p) * (log_p - log_probability(q, i));
  }
  return sum;
}

void lls_score_add(struct lls_score *s, const float *logits, const float *reference,
                   uint32_t vocab, int32_t token)
{
  const struct row model = read_row(logits, vocab);
  double loss = -log_probability(&model, (uint32_t)token);
  lls_mean_add(&s->loss, loss);
  if (reference == NULL)
    return;
  const struct row other = read_row(reference, vocab);
  double other_loss = -log_probability(&other, (uint32_t)token);
  lls_mean_add(&s->reference_loss, other_loss);
  lls_mean_add(&s->difference, loss - other_loss);
  lls_mean_add(&s->divergence, divergence(&other, &model, vocab));
  lls_mean_add(&s->agreement, model.best == other.best);
}
