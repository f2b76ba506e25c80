/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampling kernel's inputs for each row: a few numbers and the logits that
 * penalties and biases change. A history's tokens are counted here, while the device is
 * busy with the forward pass, so that only changed logits are sent.
 */
#include "kernels/cuda/ops.h"

#include "core/device/sampling.h"

#include <errno.h>
#include <string.h>

#define GREEDY_BELOW 1e-5f /* a lower temperature would only overflow: greedy */

struct rows {
  struct lls_cuda_device *device;
  uint32_t vocab;
  struct lls_cuda_draw *draws;
  struct lls_cuda_adjustment *adjustments;
  uint32_t n_adjustments;
  uint32_t *masks;          /* (masked rows, mask_words) on the host */
  const uint32_t *masks_at; /* the masks on the device */
  uint32_t n_masks;
};

static bool has_penalties(const struct lls_sampling *s)
{
  return s->repetition_penalty != 1 || s->presence_penalty != 0 ||
         s->frequency_penalty != 0;
}

static size_t most_adjustments(const struct lls_sampling *s)
{
  return (has_penalties(s) ? s->n_history : 0) + (size_t)s->n_bias;
}

static void add(struct rows *r, int32_t token, uint32_t outputs, bool is_bias, float bias)
{
  r->adjustments[r->n_adjustments++] = (struct lls_cuda_adjustment){
      .token = token, .outputs = outputs, .is_bias = is_bias, .bias = bias};
}

#define SEEN (UINT32_C(1) << 31)

static bool in_vocabulary(const struct rows *r, int32_t token)
{
  return token >= 0 && (uint32_t)token < r->vocab;
}

/* Adds each token of the history once: prompt and output count for repetition, the
 * output alone for the other two penalties. */
static void add_penalised(struct rows *r, const struct lls_sampling *s)
{
  uint32_t *count = r->device->count;
  for (uint32_t i = s->n_prompt; i < s->n_history; i++)
    if (in_vocabulary(r, s->history[i]))
      count[s->history[i]]++;
  for (uint32_t i = 0; i < s->n_history; i++) {
    int32_t token = s->history[i];
    if (!in_vocabulary(r, token) || (count[token] & SEEN) != 0)
      continue;
    add(r, token, count[token], false, 0);
    count[token] |= SEEN;
  }
  for (uint32_t i = 0; i < s->n_history; i++)
    if (in_vocabulary(r, s->history[i]))
      count[s->history[i]] = 0;
}

/* Adds the biases; a token that is named twice gets the sum, in one record. */
static void add_biases(struct rows *r, const struct lls_sampling *s)
{
  uint32_t *place = r->device->count, first = r->n_adjustments;
  for (uint32_t i = 0; i < s->n_bias; i++) {
    int32_t token = s->bias[i].token;
    if (!in_vocabulary(r, token))
      continue;
    if (place[token] != 0) {
      r->adjustments[place[token] - 1].bias += s->bias[i].bias;
      continue;
    }
    add(r, token, 0, true, s->bias[i].bias);
    place[token] = r->n_adjustments;
  }
  for (uint32_t i = first; i < r->n_adjustments; i++)
    place[r->adjustments[i].token] = 0;
}

/* 53 random bits as a fraction of 2^64. */
static uint64_t uniform_bits(const struct lls_sampling *s)
{
  return (uint64_t)(lls_sampling_uniform(s->seed, s->index) * 0x1p53) << 11;
}

/* Returns the draw of a prompt's token, which is only scored: penalties and biases do
 * not apply. */
static struct lls_cuda_draw scored_row(const struct lls_sampling *s)
{
  return (struct lls_cuda_draw){
      .scored = 1,
      .target = (uint32_t)s->target,
      .want_logprob = 1,
      .n_logprobs = s->n_logprobs,
  };
}

static bool has_mask(const struct lls_sampling *s)
{
  return s->allowed != NULL || s->n_banned > LLS_CUDA_MAX_BANNED;
}

/* Copies the mask of allowed tokens, minus the banned tokens beyond those that a row
 * can list; returns the copy's address on the device. */
static const uint32_t *add_mask(struct rows *r, const struct lls_sampling *s)
{
  size_t words = lls_mask_words(r->vocab), at = words * r->n_masks++;
  uint32_t *mask = r->masks + at;
  if (s->allowed != NULL)
    memcpy(mask, s->allowed, words * sizeof *mask);
  else
    memset(mask, 0xff, words * sizeof *mask);
  for (uint32_t i = LLS_CUDA_MAX_BANNED; i < s->n_banned; i++)
    if (in_vocabulary(r, s->banned[i]))
      mask[s->banned[i] / 32] &= ~(UINT32_C(1) << (s->banned[i] % 32));
  return r->masks_at + at;
}

static void add_row(struct rows *r, const struct lls_sampling *s,
                    struct lls_cuda_draw *draw)
{
  if (s->scored) {
    *draw = scored_row(s);
    return;
  }
  uint32_t first = r->n_adjustments;
  if (has_penalties(s))
    add_penalised(r, s);
  uint32_t n_penalised = r->n_adjustments - first;
  add_biases(r, s);
  bool drawn = s->temperature >= GREEDY_BELOW;
  *draw = (struct lls_cuda_draw){
      .drawn = drawn,
      .by_count = drawn && s->top_k > 0 && (uint32_t)s->top_k < r->vocab,
      .by_mass = drawn && s->top_p < 1,
      .temperature = s->temperature,
      .top_p = s->top_p,
      .min_p = s->min_p,
      .top_k = s->top_k,
      .repetition_penalty = s->repetition_penalty,
      .presence_penalty = s->presence_penalty,
      .frequency_penalty = s->frequency_penalty,
      .want_logprob = s->want_logprob,
      .n_logprobs = s->n_logprobs,
      .uniform = uniform_bits(s),
      .first_adjustment = first,
      .n_penalised = n_penalised,
      .n_biased = r->n_adjustments - first - n_penalised,
      .allowed = has_mask(s) ? add_mask(r, s) : NULL,
  };
  for (uint32_t i = 0; i < s->n_banned && i < LLS_CUDA_MAX_BANNED; i++)
    draw->banned[draw->n_banned++] = s->banned[i];
}

static bool check_size(struct lls_cuda_device *d, uint32_t n_rows, uint32_t vocab)
{
  if (n_rows > d->options.max_rows || vocab > d->options.max_columns)
    lls_cuda_step_fail(d, -EINVAL,
                       "sampling %u rows of %u: the device was made for %u of %u", n_rows,
                       vocab, d->options.max_rows, d->options.max_columns);
  return d->status == 0;
}

/* Waits for the previous draw: a prompt's tokens are scored by several draws in a
 * step. */
static bool take_turns(struct lls_cuda_device *d)
{
  if (d->n_results == 0)
    return true;
  if (!lls_cuda_step_check(d, lls_cuda_ranks_reach(d), "sampling"))
    return false;
  lls_cuda_sample_finish(d);
  return true;
}

/* Sends the draws on a separate stream, concurrently with the forward pass. Previous
 * draws have ended with their step, or by take_turns. */
static int send_draws(struct lls_cuda_device *d)
{
  int rc = lls_cuda_inputs_send(&d->draws, d->sends);
  if (rc == cudaSuccess)
    rc = cudaEventRecord(d->draws_sent, d->sends);
  if (rc == cudaSuccess)
    rc = cudaStreamWaitEvent(d->stream, d->draws_sent, 0);
  return rc;
}

void lls_cuda_sample(struct lls_device *device, float *logits, uint32_t n_rows,
                     uint32_t vocab, const struct lls_sampling *const *params,
                     struct lls_sampled *out)
{
  struct lls_cuda_device *d = lls_cuda(device);
  lls_cuda_ops_flush(d);
  if (d->status != 0 || n_rows == 0 || d->step->prepare ||
      !check_size(d, n_rows, vocab) || !take_turns(d))
    return;
  size_t adjustments = 0, masks = 0;
  for (uint32_t i = 0; i < n_rows; i++) {
    adjustments += most_adjustments(params[i]);
    masks += has_mask(params[i]);
  }
  struct lls_cuda_sample a = {.n_rows = n_rows, .vocab = vocab, .logits = logits};
  size_t draw_bytes = n_rows * sizeof *a.draws;
  size_t adjustment_bytes = adjustments * sizeof *a.adjustments;
  size_t mask_bytes = masks * lls_mask_words(vocab) * sizeof(uint32_t);
  int rc =
      lls_cuda_inputs_begin(&d->draws, draw_bytes + adjustment_bytes + mask_bytes + 48);
  if (rc < 0) {
    lls_cuda_step_fail(d, rc, "no memory for %zu penalties and biases and %zu masks",
                       adjustments, masks);
    return;
  }
  struct rows r = {.device = d, .vocab = vocab};
  r.draws = lls_cuda_inputs_take(&d->draws, draw_bytes, &a.draws);
  r.adjustments = lls_cuda_inputs_take(&d->draws, adjustment_bytes, &a.adjustments);
  r.masks = lls_cuda_inputs_take(&d->draws, mask_bytes, &r.masks_at);
  for (uint32_t i = 0; i < n_rows; i++) {
    add_row(&r, params[i], &r.draws[i]);
    a.drawn |= r.draws[i].drawn;
    a.filtered |= r.draws[i].by_count | r.draws[i].by_mass;
    a.twice |= r.draws[i].by_count & r.draws[i].by_mass;
  }
  a.room = d->sample_room;
  a.out = d->results;
  rc = send_draws(d);
  if (rc == cudaSuccess)
    rc = lls_cuda_run_sample(d->stream, &a);
  if (rc == cudaSuccess && !lls_cuda_debug_check(d, d->stream, "sampling"))
    return;
  if (lls_cuda_step_check(d, rc, "sampling")) {
    d->out = out;
    d->n_results = n_rows;
  }
}

void lls_cuda_sample_finish(struct lls_cuda_device *d)
{
  for (uint32_t i = 0; i < d->n_results; i++)
    lls_sampled_copy(&d->out[i], &d->results[i]);
  d->n_results = 0;
}
