/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filters one after the other, for rows with samplers beyond min_p, top_k and top_p. A
 * filter gives the logits that it removes the value -infinity, and the next filter sees
 * the probabilities of the rest. Each one is as its authors describe it:
 *
 *   top_n_sigma   Tang et al., "Top-n sigma: Not All Logits Are You Need" (2411.07641)
 *   typical_p     Meister et al., "Locally Typical Sampling" (2202.00666)
 *   XTC           P. E. Weidmann, pull request 6335 of text-generation-webui
 *   dynamic temperature   kalomaze's, as in pull request 4972 of llama.cpp
 *   mirostat      Basu et al., "Mirostat" (2007.14966); both versions measure a token's
 *                 surprise in the truncated distribution, as llama.cpp does
 *
 * A filter never removes the last token.
 */
#include "kernels/cpu/sample.h"

#include <math.h>

/* The likeliest tokens from which mirostat 1 estimates the exponent of Zipf's law. */
#define ZIPF_TOKENS 100

/* A second number of the same counter: XTC decides independently of the draw. */
#define XTC_SEED UINT64_C(0x5854435F63686F69)

static const uint8_t default_order[LLS_FILTERS] = {
    LLS_FILTER_TOP_N_SIGMA, LLS_FILTER_TEMPERATURE, LLS_FILTER_MIN_P, LLS_FILTER_TOP_K,
    LLS_FILTER_TOP_P,       LLS_FILTER_TYPICAL_P,   LLS_FILTER_XTC};

/* Sets the weights of the logits that are left; returns their sum. */
static double weigh(const struct lls_cpu_sample_row *r)
{
  float top = r->kernels->max(r->logits, r->vocab);
  return (double)r->kernels->exp_sum(r->logits, top, 1, r->vocab, r->p);
}

static void remove_token(const struct lls_cpu_sample_row *r, size_t token)
{
  r->logits[token] = -INFINITY;
}

/* Removes the tokens that come after the candidate in the order of weights. */
static void remove_after(const struct lls_cpu_sample_row *r,
                         struct lls_cpu_candidate last)
{
  for (size_t i = 0; i < r->vocab; i++)
    if (lls_cpu_candidate_before(last, (struct lls_cpu_candidate){r->p[i], (int32_t)i}))
      remove_token(r, i);
}

/* Returns the entropy of the weights, in nats. */
static double entropy_of(const struct lls_cpu_sample_row *r, double total)
{
  double sum = 0;
  for (size_t i = 0; i < r->vocab; i++)
    if (r->p[i] > 0)
      sum -= (double)r->p[i] / total * log((double)r->p[i] / total);
  return sum;
}

/* ---- the filters ------------------------------------------------------------------- */

static void keep_sigmas(const struct lls_cpu_sample_row *r)
{
  float sigmas = r->params->more.top_n_sigma;
  double sum = 0, squares = 0;
  size_t n = 0;
  if (!(sigmas > 0))
    return;
  for (size_t i = 0; i < r->vocab; i++)
    if (r->logits[i] > -INFINITY) {
      sum += (double)r->logits[i];
      n++;
    }
  double mean = sum / (double)n;
  for (size_t i = 0; i < r->vocab; i++)
    if (r->logits[i] > -INFINITY)
      squares += ((double)r->logits[i] - mean) * ((double)r->logits[i] - mean);
  double least = (double)r->kernels->max(r->logits, r->vocab) -
                 (double)sigmas * sqrt(squares / (double)n);
  for (size_t i = 0; i < r->vocab; i++)
    if ((double)r->logits[i] < least)
      remove_token(r, i);
}

static void keep_top(const struct lls_cpu_sample_row *r, double k)
{
  double mass;
  if (k < 1 || k >= (double)r->vocab)
    return;
  weigh(r);
  size_t n = lls_cpu_gather_until(r, 0, false, k, &mass);
  n = lls_cpu_select_until(r->chosen, n, NULL, k);
  remove_after(r, r->chosen[n - 1]);
}

static void keep_mass(const struct lls_cpu_sample_row *r)
{
  double share = (double)r->params->top_p, mass;
  if (share >= 1)
    return;
  double target = share * weigh(r);
  size_t n = lls_cpu_gather_until(r, 0, true, target, &mass);
  n = lls_cpu_select_until(r->chosen, n, r->p, target);
  remove_after(r, r->chosen[n - 1]);
}

static void keep_min_p(const struct lls_cpu_sample_row *r)
{
  float least = r->params->min_p < 1 ? r->params->min_p : 1;
  if (!(least > 0))
    return;
  weigh(r);
  for (size_t i = 0; i < r->vocab; i++)
    if (!(r->p[i] >= least))
      remove_token(r, i);
}

/* Keeps the tokens whose surprise is closest to the entropy. */
static void keep_typical(const struct lls_cpu_sample_row *r)
{
  double share = (double)r->params->more.typical_p;
  size_t n = 0;
  if (!(share > 0) || share >= 1)
    return;
  double total = weigh(r), entropy = entropy_of(r, total);
  for (size_t i = 0; i < r->vocab; i++) {
    if (r->p[i] > 0) {
      double distance = fabs(-log((double)r->p[i] / total) - entropy);
      r->chosen[n++] = (struct lls_cpu_candidate){-(float)distance, (int32_t)i};
    } else {
      remove_token(r, i);
    }
  }
  size_t kept = lls_cpu_select_until(r->chosen, n, r->p, share * total);
  for (size_t i = kept; i < n; i++)
    remove_token(r, (size_t)r->chosen[i].id);
}

/* Keeps the least likely of the tokens that have the threshold's probability or more. */
static void exclude_top_choices(const struct lls_cpu_sample_row *r)
{
  const struct lls_more_sampling *m = &r->params->more;
  size_t n = 0;
  struct lls_cpu_candidate last = {0};
  if (!(m->xtc_probability > 0) || !(m->xtc_threshold <= 0.5f) ||
      lls_sampling_uniform(r->params->seed ^ XTC_SEED, r->params->index) >=
          (double)m->xtc_probability)
    return;
  double least = (double)m->xtc_threshold * weigh(r);
  for (size_t i = 0; i < r->vocab; i++) {
    struct lls_cpu_candidate c = {r->p[i], (int32_t)i};
    if (!(c.p > 0) || (double)c.p < least)
      continue;
    if (n++ == 0 || lls_cpu_candidate_before(last, c))
      last = c;
  }
  for (size_t i = 0; n > 1 && i < r->vocab; i++)
    if (r->p[i] > 0 && (double)r->p[i] >= least && (int32_t)i != last.id)
      remove_token(r, i);
}

/* Returns the temperature: near the lower end of its range where the model is sure, near
 * the upper end where many tokens are equally likely. */
static float temperature_of(const struct lls_cpu_sample_row *r)
{
  const struct lls_more_sampling *m = &r->params->more;
  float base = r->params->temperature, range = m->dynatemp_range;
  size_t n = 0;
  if (!(range > 0))
    return base;
  for (size_t i = 0; i < r->vocab; i++)
    n += r->logits[i] > -INFINITY;
  if (n < 2)
    return base;
  double total = weigh(r), share = entropy_of(r, total) / log((double)n);
  double least = base > range ? (double)(base - range) : 0;
  double most = (double)base + (double)range;
  return (float)(least + (most - least) * pow(share, (double)m->dynatemp_exponent));
}

static void apply_temperature(const struct lls_cpu_sample_row *r)
{
  float temperature = temperature_of(r);
  if (!(temperature >= LLS_CPU_GREEDY_BELOW)) {
    keep_top(r, 1);
    return;
  }
  for (size_t i = 0; i < r->vocab; i++)
    r->logits[i] /= temperature;
}

/* ---- mirostat ---------------------------------------------------------------------- */

/* Sorts the first n candidates, which are few, by weight. */
static void sort(struct lls_cpu_candidate *c, size_t n)
{
  for (size_t i = 1; i < n; i++) {
    struct lls_cpu_candidate moved = c[i];
    size_t k = i;
    for (; k > 0 && lls_cpu_candidate_before(moved, c[k - 1]); k--)
      c[k] = c[k - 1];
    c[k] = moved;
  }
}

/* Estimates the exponent of Zipf's law from the ratios of neighbours (the paper's
 * equation 30). */
static double zipf_exponent(const struct lls_cpu_sample_row *r)
{
  double mass, products = 0, squares = 0;
  size_t n = lls_cpu_gather_until(r, 0, false, ZIPF_TOKENS, &mass);
  n = lls_cpu_select_until(r->chosen, n, NULL, ZIPF_TOKENS);
  sort(r->chosen, n);
  for (size_t i = 0; i + 1 < n; i++) {
    double t = log((double)(i + 2) / (double)(i + 1));
    products += t * log((double)r->chosen[i].p / (double)r->chosen[i + 1].p);
    squares += t * t;
  }
  return products / squares;
}

/* Keeps as many tokens as have the surprise mu together, by Zipf's law. */
static void truncate_by_zipf(const struct lls_cpu_sample_row *r)
{
  weigh(r);
  double s = zipf_exponent(r), e = s - 1;
  double k =
      pow(e * exp2((double)r->params->more.mirostat_mu) / (1 - pow((double)r->vocab, -e)),
          1 / s);
  keep_top(r, k >= 1 ? floor(k) : 1); /* 1 also if it is no number */
}

/* Removes the tokens with more surprise than mu. */
static void truncate_by_surprise(const struct lls_cpu_sample_row *r)
{
  double least = weigh(r) * exp2(-(double)r->params->more.mirostat_mu);
  if (least > 1) {
    keep_top(r, 1);
    return;
  }
  for (size_t i = 0; i < r->vocab; i++)
    if (!((double)r->p[i] >= least))
      remove_token(r, i);
}

/* ---- the chain --------------------------------------------------------------------- */

static void apply_filter(const struct lls_cpu_sample_row *r, uint8_t filter)
{
  switch ((enum lls_filter)filter) {
  case LLS_FILTER_TOP_N_SIGMA:
    keep_sigmas(r);
    break;
  case LLS_FILTER_TEMPERATURE:
    apply_temperature(r);
    break;
  case LLS_FILTER_MIN_P:
    keep_min_p(r);
    break;
  case LLS_FILTER_TOP_K:
    keep_top(r, r->params->top_k);
    break;
  case LLS_FILTER_TOP_P:
    keep_mass(r);
    break;
  case LLS_FILTER_TYPICAL_P:
    keep_typical(r);
    break;
  case LLS_FILTER_XTC:
    exclude_top_choices(r);
    break;
  case LLS_FILTERS:
    break;
  }
}

static void apply_all(const struct lls_cpu_sample_row *r)
{
  const struct lls_more_sampling *m = &r->params->more;
  if (m->mirostat != 0) {
    apply_temperature(r);
    if (m->mirostat == 1)
      truncate_by_zipf(r);
    else
      truncate_by_surprise(r);
    return;
  }
  const uint8_t *order = m->has_order ? m->order : default_order;
  uint32_t n = m->has_order ? m->n_order : LLS_FILTERS;
  for (uint32_t i = 0; i < n; i++)
    apply_filter(r, order[i]);
}

static void put_logprobs(const struct lls_cpu_sample_row *r, double total,
                         struct lls_sampled *out)
{
  uint32_t n = r->params->n_logprobs;
  n = n < LLS_MAX_LOGPROBS ? n : LLS_MAX_LOGPROBS;
  out->logprob = (float)log((double)r->p[out->token] / total);
  for (size_t i = 0; n > 0 && i < r->vocab; i++)
    if (r->p[i] > 0 && (out->n_top < n || r->p[i] > out->top_logprob[n - 1]))
      lls_cpu_keep_best(out, n, (int32_t)i, r->p[i]);
  for (uint32_t i = 0; i < out->n_top; i++)
    out->top_logprob[i] = (float)log((double)out->top_logprob[i] / total);
}

void lls_cpu_sample_chain(const struct lls_cpu_sample_row *r, struct lls_sampled *out)
{
  for (size_t i = 0; i < r->vocab; i++)
    if (isnan(r->logits[i]))
      remove_token(r, i);
  apply_all(r);
  double total = weigh(r);
  double left = lls_sampling_uniform(r->params->seed, r->params->index) * total;
  for (size_t i = 0; i < r->vocab && left >= 0; i++) {
    if (!(r->p[i] > 0))
      continue;
    out->token = (int32_t)i;
    left -= (double)r->p[i];
  }
  if (r->params->more.mirostat != 0)
    out->surprise = (float)-log2((double)r->p[out->token] / total);
  if (r->params->more.drawn_logprobs)
    put_logprobs(r, total, out);
}
