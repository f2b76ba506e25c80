/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drawing the next token, in the order that core/device/sampling.h gives: the mask,
 * penalties and logit_bias, temperature, min_p, top_k, top_p, draw.
 *
 * The draw walks the tokens that the filters keep by id, so that rounding in the logits,
 * which may swap neighbours in an order by probability, hardly ever changes the
 * outcome.
 *
 * A NaN logit is never drawn. If all allowed logits are -infinity, the lowest allowed
 * token is chosen; if all are NaN, there is no token (LLS_NO_NUMBER).
 */
#include "kernels/cpu/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- penalties ------------------------------------------------------------------- */

#define SEEN (UINT32_C(1) << 31)

/* Returns the history's token i; -1 if it is outside the vocabulary. */
static int64_t history_at(const struct lls_cpu_sample_row *r, uint32_t i)
{
  int32_t token = r->params->history[i];
  return token >= 0 && (size_t)token < r->vocab ? token : -1;
}

static float penalised(const struct lls_sampling *s, float logit, uint32_t outputs)
{
  logit = logit > 0 ? logit / s->repetition_penalty : logit * s->repetition_penalty;
  if (outputs > 0)
    logit -= s->presence_penalty + s->frequency_penalty * (float)outputs;
  return logit;
}

/* Applies the penalties: repetition counts prompt and output, the other two the output
 * only. */
static void penalise(const struct lls_cpu_sample_row *r)
{
  const struct lls_sampling *s = r->params;
  if (s->repetition_penalty == 1 && s->presence_penalty == 0 && s->frequency_penalty == 0)
    return;
  for (uint32_t i = s->n_prompt; i < s->n_history; i++) {
    int64_t token = history_at(r, i);
    if (token >= 0)
      r->count[token]++;
  }
  for (uint32_t i = 0; i < s->n_history; i++) {
    int64_t token = history_at(r, i);
    if (token < 0 || (r->count[token] & SEEN) != 0)
      continue;
    r->logits[token] = penalised(s, r->logits[token], r->count[token]);
    r->count[token] |= SEEN;
  }
  for (uint32_t i = 0; i < s->n_history; i++) {
    int64_t token = history_at(r, i);
    if (token >= 0)
      r->count[token] = 0;
  }
}

/* Applies the mask a word at a time, since most words are all zeros or all ones. */
static void mask(const struct lls_cpu_sample_row *r)
{
  const uint32_t *allowed = r->params->allowed;
  if (allowed == NULL)
    return;
  for (size_t first = 0; first < r->vocab; first += 32) {
    uint32_t bits = allowed[first / 32];
    size_t end = first + 32 < r->vocab ? first + 32 : r->vocab;
    for (size_t i = first; i < end && bits != UINT32_MAX; i++)
      if ((bits >> (i - first) & 1) == 0)
        r->logits[i] = -INFINITY;
  }
}

static void adjust(const struct lls_cpu_sample_row *r)
{
  const struct lls_sampling *s = r->params;
  mask(r);
  penalise(r);
  for (uint32_t i = 0; i < s->n_bias; i++) {
    int32_t token = s->bias[i].token;
    if (token >= 0 && (size_t)token < r->vocab)
      r->logits[token] += s->bias[i].bias;
  }
  for (uint32_t i = 0; i < s->n_banned; i++) {
    if (s->banned[i] >= 0 && (size_t)s->banned[i] < r->vocab)
      r->logits[s->banned[i]] = -INFINITY;
  }
}

/* ---- log probabilities ----------------------------------------------------------- */

/* Takes the named tokens as the alternatives; those that the vocabulary lacks are left
 * out. */
static void take_named(const struct lls_cpu_sample_row *r, struct lls_sampled *out)
{
  const struct lls_sampling *s = r->params;
  for (uint32_t i = 0; i < s->n_named && i < LLS_MAX_LOGPROBS; i++) {
    if (s->named[i] < 0 || (size_t)s->named[i] >= r->vocab)
      continue;
    out->top_token[out->n_top] = s->named[i];
    out->top_logprob[out->n_top++] = r->raw[s->named[i]];
  }
}

/* The likeliest tokens under the unmodified logits, or the named ones; returns log of the
 * sum of exp. */
static float log_probabilities(const struct lls_cpu_sample_row *r,
                               struct lls_sampled *out)
{
  float top = r->kernels->max(r->raw, r->vocab);
  float log_sum = top + (float)log(r->kernels->exp_sum(r->raw, top, 1, r->vocab, r->p));
  uint32_t n = r->params->n_logprobs;
  n = n < LLS_MAX_LOGPROBS ? n : LLS_MAX_LOGPROBS;
  if (r->params->n_named > 0)
    take_named(r, out);
  for (size_t i = 0; r->params->n_named == 0 && n > 0 && i < r->vocab; i++) {
    if (out->n_top < n ? !isnan(r->raw[i]) : r->raw[i] > out->top_logprob[n - 1])
      lls_cpu_keep_best(out, n, (int32_t)i, r->raw[i]);
  }
  for (uint32_t i = 0; i < out->n_top; i++)
    out->top_logprob[i] -= log_sum;
  return log_sum;
}

/* ---- draw ------------------------------------------------------------------------ */

static bool is_banned(const struct lls_cpu_sample_row *r, size_t token)
{
  if (lls_sampling_masks(r->params, (uint32_t)token))
    return true;
  for (uint32_t i = 0; i < r->params->n_banned; i++) {
    if (r->params->banned[i] == (int64_t)token)
      return true;
  }
  return false;
}

/* Returns the first of the tokens with the largest logit; if all are NaN, the first
 * allowed one. */
static int32_t greedy(const struct lls_cpu_sample_row *r, float top)
{
  size_t first = 0;
  for (size_t i = 0; i < r->vocab; i++) {
    if (r->logits[i] == top && !is_banned(r, i))
      return (int32_t)i;
  }
  while (first + 1 < r->vocab && is_banned(r, first))
    first++;
  return (int32_t)first;
}

static bool is_greedy(const struct lls_sampling *s)
{
  return !(s->temperature >= LLS_CPU_GREEDY_BELOW) && !(s->more.dynatemp_range > 0);
}

/* Chooses the likeliest token, which has all of the distribution drawn from. */
static void choose_greedily(const struct lls_cpu_sample_row *r, float top,
                            struct lls_sampled *out)
{
  out->token = greedy(r, top);
  if (r->params->more.drawn_logprobs && r->params->n_logprobs > 0)
    lls_cpu_keep_best(out, 1, out->token, 0);
}

static int32_t draw(const struct lls_cpu_sample_row *r, size_t n)
{
  double uniform = lls_sampling_uniform(r->params->seed, r->params->index);
  double left = 0;
  for (size_t i = 0; i < n; i++)
    left += (double)r->chosen[i].p;
  left *= uniform;
  for (size_t i = 0; i < n; i++) {
    left -= (double)r->chosen[i].p;
    if (left < 0)
      return r->chosen[i].id;
  }
  return r->chosen[n - 1].id;
}

/* Computes the log probability of a known token, such as one of the prompt. */
static void score_row(struct lls_cpu_sample_row *r, struct lls_sampled *out)
{
  int32_t target = r->params->target;
  r->raw = r->logits;
  float log_sum = log_probabilities(r, out);
  out->token = target;
  out->logprob = r->raw[target] - log_sum;
  out->rank = 1;
  for (size_t i = 0; i < r->vocab; i++)
    out->rank += r->raw[i] > r->raw[target];
}

static void sample_row(const struct lls_cpu_sample_row *r, struct lls_sampled *out)
{
  const struct lls_sampling *s = r->params;
  bool logprobs = (s->want_logprob || s->n_logprobs > 0) && !s->more.drawn_logprobs;
  float log_sum = 0;
  *out = (struct lls_sampled){0};
  if (s->scored) {
    struct lls_cpu_sample_row unchanged = *r;
    score_row(&unchanged, out);
    return;
  }
  if (logprobs) {
    memcpy(r->raw, r->logits, r->vocab * sizeof *r->raw);
    log_sum = log_probabilities(r, out);
  }
  adjust(r);
  float top = r->kernels->max(r->logits, r->vocab);
  if (isinf(top) || is_greedy(s)) {
    choose_greedily(r, top, out);
  } else if (lls_sampling_is_chain(s)) {
    lls_cpu_sample_chain(r, out);
  } else {
    double total =
        r->kernels->exp_sum(r->logits, top, 1 / s->temperature, r->vocab, r->p);
    out->token = draw(r, lls_cpu_sample_filter(r, total));
  }
  if (logprobs)
    out->logprob = r->raw[out->token] - log_sum;
  if (isnan(r->logits[out->token]))
    out->token = LLS_NO_NUMBER;
}

/* ---- the operation --------------------------------------------------------------- */

struct sampling {
  struct lls_cpu_device *device;
  float *logits; /* (n_rows, vocab) */
  size_t n_rows, vocab;
  const struct lls_sampling *const *params; /* (n_rows) */
  struct lls_sampled *out;                  /* (n_rows) */
};

size_t lls_cpu_sample_scratch(size_t vocab)
{
  return vocab *
         (2 * sizeof(float) + sizeof(struct lls_cpu_candidate) + sizeof(uint32_t));
}

static void sample_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct sampling *w = arg;
  char *scratch = lls_cpu_scratch(w->device, thread);
  struct lls_cpu_sample_row r = {.kernels = &w->device->kernels.rows, .vocab = w->vocab};
  r.chosen = (struct lls_cpu_candidate *)scratch;
  r.raw = (float *)(r.chosen + w->vocab);
  r.p = r.raw + w->vocab;
  r.count = (uint32_t *)(r.p + w->vocab);
  memset(r.count, 0, w->vocab * sizeof *r.count);
  size_t begin, end;
  lls_cpu_share(w->n_rows, 1, thread, n_threads, &begin, &end);
  for (size_t i = begin; i < end; i++) {
    r.params = w->params[i];
    r.logits = w->logits + i * w->vocab;
    sample_row(&r, &w->out[i]);
  }
}

/* Bytes of a row: vocab x (4 greedy, about 30 with filters), all in the cache. */
void lls_cpu_sample(struct lls_device *device, float *logits, uint32_t n_rows,
                    uint32_t vocab, const struct lls_sampling *const *params,
                    struct lls_sampled *out)
{
  struct lls_cpu_device *d = lls_cpu(device);
  struct sampling w = {.device = d,
                       .logits = logits,
                       .n_rows = n_rows,
                       .vocab = vocab,
                       .params = params,
                       .out = out};
  lls_cpu_run_rows(d, sample_task, &w, n_rows, vocab);
}
