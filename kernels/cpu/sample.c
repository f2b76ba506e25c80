/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drawing the next token, in the order that core/device/sampling.h gives: the mask,
 * penalties and logit_bias, temperature, min_p, top_k, top_p, draw.
 *
 * All three filters keep the likeliest tokens down to some boundary, so the boundary is
 * searched instead of sorting the vocabulary: tokens above a falling threshold are
 * gathered until they are certainly enough, and among them a quickselect finds where
 * the count (top_k) or the mass (top_p) is reached. Equal probabilities are ordered by
 * id. The draw itself walks the kept tokens by id, so that rounding in the logits,
 * which may swap neighbours in an order by probability, hardly ever changes the
 * outcome.
 *
 * A NaN logit is never drawn. If all allowed logits are -infinity, the lowest allowed
 * token is chosen; if all are NaN, there is no token (LLS_NO_NUMBER).
 */
#include "core/device/sampling.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* a lower temperature would only overflow, so it is taken as greedy */
#define GREEDY_BELOW 1e-5f

struct candidate {
  float p;
  int32_t id;
};

struct row {
  const struct lls_cpu_row_kernels *kernels;
  const struct lls_sampling *params;
  size_t vocab;
  float *logits;            /* (vocab) */
  float *raw;               /* (vocab) the unmodified logits */
  float *p;                 /* (vocab) weights; the likeliest token's is 1 */
  struct candidate *chosen; /* (vocab) */
  uint32_t *count;          /* (vocab) occurrences in the history; all 0 between rows */
};

/* ---- penalties ------------------------------------------------------------------- */

#define SEEN (UINT32_C(1) << 31)

/* Returns the history's token i; -1 if it is outside the vocabulary. */
static int64_t history_at(const struct row *r, uint32_t i)
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
static void penalise(const struct row *r)
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
static void mask(const struct row *r)
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

static void adjust(const struct row *r)
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

/* Inserts a token into the n best so far; false if it is not one of them. */
static void keep_best(struct lls_sampled *out, uint32_t n, int32_t token, float logit)
{
  uint32_t i = out->n_top < n ? out->n_top++ : n - 1;
  for (; i > 0 && out->top_logprob[i - 1] < logit; i--) {
    out->top_token[i] = out->top_token[i - 1];
    out->top_logprob[i] = out->top_logprob[i - 1];
  }
  out->top_token[i] = token;
  out->top_logprob[i] = logit;
}

/* The likeliest tokens under the unmodified logits; returns log of the sum of exp. */
static float log_probabilities(const struct row *r, struct lls_sampled *out)
{
  float top = r->kernels->max(r->raw, r->vocab);
  float log_sum = top + (float)log(r->kernels->exp_sum(r->raw, top, 1, r->vocab, r->p));
  uint32_t n = r->params->n_logprobs;
  n = n < LLS_MAX_LOGPROBS ? n : LLS_MAX_LOGPROBS;
  for (size_t i = 0; n > 0 && i < r->vocab; i++) {
    if (out->n_top < n ? !isnan(r->raw[i]) : r->raw[i] > out->top_logprob[n - 1])
      keep_best(out, n, (int32_t)i, r->raw[i]);
  }
  for (uint32_t i = 0; i < out->n_top; i++)
    out->top_logprob[i] -= log_sum;
  return log_sum;
}

/* ---- filters --------------------------------------------------------------------- */

static bool before(struct candidate a, struct candidate b)
{
  return a.p > b.p || (a.p == b.p && a.id < b.id);
}

/* Gathers the tokens of weight `least` or more (but above 0), by id; *mass is their
 * sum. */
static size_t gather(const struct row *r, float least, double *mass)
{
  size_t n = 0;
  *mass = 0;
  for (size_t i = 0; i < r->vocab; i++) {
    if (r->p[i] >= least && r->p[i] > 0) {
      r->chosen[n++] = (struct candidate){r->p[i], (int32_t)i};
      *mass += (double)r->p[i];
    }
  }
  return n;
}

static void swap(struct candidate *a, struct candidate *b)
{
  struct candidate c = *a;
  *a = *b;
  *b = c;
}

/* Partitions c[low..high] around a pivot in the order of `before`; returns its final
 * index. */
static size_t partition(struct candidate *c, size_t low, size_t high)
{
  size_t middle = low + (high - low) / 2, last = high - 1, to = low;
  if (before(c[middle], c[low]))
    swap(&c[middle], &c[low]);
  if (before(c[last], c[low]))
    swap(&c[last], &c[low]);
  if (before(c[middle], c[last])) /* the median goes last */
    swap(&c[middle], &c[last]);
  for (size_t i = low; i < last; i++) {
    if (before(c[i], c[last]))
      swap(&c[i], &c[to++]);
  }
  swap(&c[to], &c[last]);
  return to;
}

static double measure(const struct candidate *c, size_t low, size_t high, bool mass)
{
  double sum = mass ? 0 : (double)(high - low);
  for (size_t i = low; mass && i < high; i++)
    sum += (double)c[i].p;
  return sum;
}

/*
 * Returns how many of n candidates, taken in order, it takes for their mass (or, if
 * !mass, their count) to reach `target`. These become the first ones in c, and the last
 * of them is in its place. Returns n if the target is not reached.
 */
static size_t select_until(struct candidate *c, size_t n, bool mass, double target)
{
  size_t low = 0, high = n; /* the answer is in (low, high] */
  double below = 0;         /* measure of [0, low) */
  while (high - low > 1) {
    size_t pivot = partition(c, low, high);
    double up_to_pivot = below + measure(c, low, pivot, mass);
    double with_pivot = up_to_pivot + measure(c, pivot, pivot + 1, mass);
    if (pivot > low && up_to_pivot >= target) {
      high = pivot;
    } else if (with_pivot >= target || pivot + 1 == high) {
      return pivot + 1;
    } else {
      low = pivot + 1;
      below = with_pivot;
    }
  }
  return high;
}

/* Gathers enough candidates for a filter, with a threshold of weight that falls until
 * they suffice or are all. */
static size_t gather_until(const struct row *r, float least, bool mass, double target,
                           double *found)
{
  for (float weight = 0x1p-8f; weight > least && weight > 0x1p-64f; weight *= 0x1p-8f) {
    size_t n = gather(r, weight, found);
    if ((mass ? *found : (double)n) >= target)
      return n;
  }
  return gather(r, least, found);
}

/* Leaves the tokens that pass the filters in `chosen`, by id; total is the mass of all
 * tokens. */
static size_t filter(const struct row *r, double total)
{
  const struct lls_sampling *s = r->params;
  bool by_count = s->top_k > 0 && (size_t)s->top_k < r->vocab, by_mass = s->top_p < 1;
  float least = s->min_p < 1 ? s->min_p : 1; /* the likeliest token weighs 1 */
  size_t n;
  double mass;
  if (!by_count && !by_mass)
    return gather(r, least, &mass);
  if (least > 0) /* top_p is a share of the mass that min_p leaves */
    gather(r, least, &total);
  if (by_count) {
    n = gather_until(r, least, false, s->top_k, &mass);
    n = select_until(r->chosen, n, false, s->top_k);
    total = measure(r->chosen, 0, n, true);
  } else {
    n = gather_until(r, least, true, (double)s->top_p * total, &mass);
  }
  if (by_mass)
    n = select_until(r->chosen, n, true, (double)s->top_p * total);
  struct candidate last = r->chosen[n - 1];
  size_t tied = gather(r, last.p, &mass), kept = 0;
  for (size_t i = 0; i < tied; i++) {
    if (!before(last, r->chosen[i]))
      r->chosen[kept++] = r->chosen[i];
  }
  return kept;
}

/* ---- draw ------------------------------------------------------------------------ */

static bool is_banned(const struct row *r, size_t token)
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
static int32_t greedy(const struct row *r, float top)
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

static int32_t draw(const struct row *r, size_t n)
{
  double uniform = lls_sampling_uniform(r->params->seed, r->params->index);
  double left = uniform * measure(r->chosen, 0, n, true);
  for (size_t i = 0; i < n; i++) {
    left -= (double)r->chosen[i].p;
    if (left < 0)
      return r->chosen[i].id;
  }
  return r->chosen[n - 1].id;
}

/* Computes the log probability of a known token, such as one of the prompt. */
static void score_row(struct row *r, struct lls_sampled *out)
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

static void sample_row(const struct row *r, struct lls_sampled *out)
{
  const struct lls_sampling *s = r->params;
  bool logprobs = s->want_logprob || s->n_logprobs > 0;
  float log_sum = 0;
  *out = (struct lls_sampled){0};
  if (s->scored) {
    struct row unchanged = *r;
    score_row(&unchanged, out);
    return;
  }
  if (logprobs) {
    memcpy(r->raw, r->logits, r->vocab * sizeof *r->raw);
    log_sum = log_probabilities(r, out);
  }
  adjust(r);
  float top = r->kernels->max(r->logits, r->vocab);
  if (!(s->temperature >= GREEDY_BELOW) || isinf(top)) {
    out->token = greedy(r, top);
  } else {
    double total =
        r->kernels->exp_sum(r->logits, top, 1 / s->temperature, r->vocab, r->p);
    out->token = draw(r, filter(r, total));
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
  return vocab * (2 * sizeof(float) + sizeof(struct candidate) + sizeof(uint32_t));
}

static void sample_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct sampling *w = arg;
  char *scratch = lls_cpu_scratch(w->device, thread);
  struct row r = {.kernels = &w->device->kernels.rows, .vocab = w->vocab};
  r.chosen = (struct candidate *)scratch;
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
