/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drawing the next token, with the same order of steps, the same boundaries and the
 * same random number as kernels/cpu/sample.c. So the token is the same, unless rounding
 * of exp moves a value across a boundary.
 *
 * This file has the part that reads the logits once: log probabilities of the
 * unmodified logits, adjustments, the maximum. Greedy rows and prompt rows are then
 * done; sample_draw.cu continues with the others. Bytes: the row's, once; all loads of
 * a chunk are under way at once.
 */
#include "kernels/cuda/sample_room.cuh"

/* ---- order of logits --------------------------------------------------------------- */

/* Returns a key that is larger for a larger logit, and for the lower id of equal
 * logits; 0 for NaN. */
static __device__ __forceinline__ u64 order_key(float x, uint32_t id)
{
  if (x != x)
    return 0;
  uint32_t bits = __float_as_uint(x + 0.0f); /* no negative zero */
  bits = bits >> 31 ? ~bits : bits | 0x80000000u;
  return (u64)bits << 32 | (0xffffffffu - id);
}

static __device__ __forceinline__ uint32_t key_id(u64 key)
{
  return 0xffffffffu - (uint32_t)key;
}

static __device__ __forceinline__ float key_logit(u64 key)
{
  uint32_t bits = (uint32_t)(key >> 32);
  return __uint_as_float(bits >> 31 ? bits & 0x7fffffffu : ~bits);
}

static __device__ __forceinline__ bool is_masked(const lls_cuda_draw &d, uint32_t token)
{
  return d.allowed != nullptr && (d.allowed[token / 32] >> (token % 32) & 1) == 0;
}

static __device__ __forceinline__ bool is_banned(const lls_cuda_draw &d, uint32_t token)
{
  if (is_masked(d, token))
    return true;
  for (uint32_t i = 0; i < d.n_banned; i++)
    if (d.banned[i] == (int32_t)token)
      return true;
  return false;
}

/* Returns the largest of the chunk's keys below `below`; 0 if there is none. */
static __device__ __forceinline__ u64 best_below(const chunk &c, u64 below,
                                                 shared<u64> room)
{
  u64 best = 0;
  each(c, [&](uint32_t i, float x) {
    u64 key = order_key(x, i);
    best = key < below && key > best ? key : best;
  });
  return block_largest(best, room);
}

/* Returns the largest key that d does not ban. Banned logits have become -infinity or
 * NaN, so a banned token can come first only if the chunk has nothing better, and only
 * then the ban is looked up. */
static __device__ __forceinline__ u64 best_allowed(const chunk &c, const lls_cuda_draw &d,
                                                   shared<u64> room)
{
  u64 best = best_below(c, ~(u64)0, room);
  if (best > 0 && key_logit(best) > -INFINITY)
    return best;
  best = 0;
  each(c, [&](uint32_t i, float x) {
    u64 key = order_key(x, i);
    best = key > best && !is_banned(d, i) ? key : best;
  });
  return block_largest(best, room);
}

/* ---- a chunk's part ---------------------------------------------------------------- */

static __device__ __forceinline__ uint32_t n_logprobs(const lls_cuda_draw &d)
{
  return d.n_logprobs < LLS_MAX_LOGPROBS ? d.n_logprobs : LLS_MAX_LOGPROBS;
}

/* Records the chunk's part of the log probabilities. */
static __device__ void note_raw(const chunk &c, const lls_cuda_draw &d, chunk_part *part,
                                shared<u64> room, shared<float> sum_room)
{
  u64 best = best_below(c, ~(u64)0, room), key = best;
  float top = best > 0 ? key_logit(best) : -INFINITY, sum = 0;
  if (top > -INFINITY)
    each(c, [&](uint32_t, float x) { sum += x == x ? expf(x - top) : 0; });
  sum = block_sum(sum, sum_room);
  if (threadIdx.x == 0) {
    part->raw_best = best;
    part->raw_sum = sum;
  }
  for (uint32_t n = 0; n < n_logprobs(d); n++) {
    if (threadIdx.x == 0)
      part->top[n] = key;
    key = best_below(c, key, room);
  }
}

/* Counts the logits larger than the target's; NaN is not larger. */
static __device__ void note_likelier(const chunk &c, float bound, chunk_part *part,
                                     shared<u64> room)
{
  u64 n = 0;
  each(c, [&](uint32_t, float x) { n += x > bound; });
  n = block_total(n, room);
  if (threadIdx.x == 0)
    part->likelier = (uint32_t)n;
}

static __device__ __forceinline__ float penalised(const lls_cuda_draw &d, float logit,
                                                  uint32_t outputs)
{
  logit = logit > 0 ? logit / d.repetition_penalty : logit * d.repetition_penalty;
  if (outputs > 0)
    logit -= d.presence_penalty + d.frequency_penalty * (float)outputs;
  return logit;
}

/* Calls f(i) for the entries [first, end) of the list that belong to the chunk. */
template <class F>
static __device__ __forceinline__ void
each_own(const row &r, const lls_cuda_adjustment *list, uint32_t first, uint32_t end, F f)
{
  for (uint32_t i = first + threadIdx.x; i < end; i += THREADS)
    if ((uint32_t)list[i].token / CHUNK == blockIdx.x)
      f(i, r.logits + list[i].token);
  __syncthreads();
}

/* Adjusts the chunk's logits in memory. The mask is applied after the raw logits were
 * recorded; penalties and biases leave -infinity as it is. */
static __device__ void adjust(const row &r, const lls_cuda_draw &d,
                              lls_cuda_adjustment *list)
{
  uint32_t n = d.n_penalised + d.n_biased;
  each_own(r, list, 0, n, [&](uint32_t i, const float *x) { list[i].raw = *x; });
  if (d.allowed != nullptr)
    for (unsigned k = 0; k < PER_THREAD; k++)
      if (chunk_id(k) < r.vocab && is_masked(d, chunk_id(k)))
        r.logits[chunk_id(k)] = -INFINITY;
  __syncthreads();
  each_own(r, list, 0, d.n_penalised,
           [&](uint32_t i, float *x) { *x = penalised(d, *x, list[i].outputs); });
  each_own(r, list, d.n_penalised, n, [&](uint32_t i, float *x) { *x += list[i].bias; });
  for (uint32_t i = threadIdx.x; i < d.n_banned; i += THREADS)
    if (d.banned[i] >= 0 && (uint32_t)d.banned[i] < r.vocab &&
        (uint32_t)d.banned[i] / CHUNK == blockIdx.x)
      r.logits[d.banned[i]] = -INFINITY;
  __syncthreads();
}

/* Clears the row's bins; its blocks divide them. */
static __device__ __forceinline__ void clear_bins(row_room *room)
{
  for (unsigned i = blockIdx.x * THREADS + threadIdx.x; i < FINE_BINS;
       i += gridDim.x * THREADS) {
    room->count[i] = 0;
    room->excess[i] = 0;
  }
}

/* ---- the row ----------------------------------------------------------------------- */

/* Log of the sum of exp of all raw logits. */
static __device__ float log_sum(const chunk_part *parts, shared<u64> room,
                                shared<float> sum_room)
{
  bool mine = threadIdx.x < gridDim.x;
  u64 key = mine ? parts[threadIdx.x].raw_best : 0;
  u64 best = block_largest(key, room);
  float top = best > 0 ? key_logit(best) : -INFINITY, sum = 0;
  if (key > 0 && key_logit(key) > -INFINITY)
    sum = parts[threadIdx.x].raw_sum * expf(key_logit(key) - top);
  return top + logf(block_sum(sum, sum_room));
}

/* The likeliest tokens among the ones that each chunk has found. */
static __device__ void top_logprobs(const chunk_part *parts, const lls_cuda_draw &d,
                                    float sum, lls_sampled *out, shared<u64> room)
{
  uint32_t wanted = n_logprobs(d), n = 0;
  u64 below = ~(u64)0;
  for (; n < wanted; n++) {
    u64 best = 0;
    for (uint32_t i = threadIdx.x; i < gridDim.x * wanted; i += THREADS) {
      u64 key = parts[i / wanted].top[i % wanted];
      best = key < below && key > best ? key : best;
    }
    below = block_largest(best, room);
    if (below == 0)
      break;
    if (threadIdx.x == 0) {
      out->top_token[n] = (int32_t)key_id(below);
      out->top_logprob[n] = key_logit(below) - sum;
    }
  }
  if (threadIdx.x == 0)
    out->n_top = n;
}

static __device__ void score(const row &r, const chunk_part *parts, uint32_t target,
                             float sum, lls_sampled *out, shared<u64> room)
{
  bool mine = threadIdx.x < gridDim.x;
  u64 likelier = block_total(mine ? parts[threadIdx.x].likelier : 0, room);
  if (threadIdx.x == 0) {
    out->token = (int32_t)target;
    out->logprob = r.logits[target] - sum;
    out->rank = 1 + (uint32_t)likelier;
  }
}

/* Returns the lowest allowed token, or the last token. */
static __device__ uint32_t first_allowed(const row &r, const lls_cuda_draw &d)
{
  uint32_t token = 0;
  while (token + 1 < r.vocab && is_banned(d, token))
    token++;
  return token;
}

/* Chooses the row's token, or prepares the state that sample_draw.cu continues with. */
static __device__ void choose(const lls_cuda_sample &a, const row &r, drawing *state,
                              u64 best, float sum, shared<u64> room)
{
  const lls_cuda_draw &d = a.draws[blockIdx.y];
  float top = best > 0 ? key_logit(best) : -INFINITY;
  bool drawn = d.drawn && top > -INFINITY && top < INFINITY;
  if (threadIdx.x == 0) {
    float least = d.min_p < 1 ? d.min_p : 1.0f;
    state->drawn = drawn;
    state->again = 0;
    state->top = top;
    state->scale = 1 / d.temperature;
    state->least = least > 1e-45f ? least : 1e-45f; /* the least float above 0 */
    state->sum = sum;
    state->w = {0, 0, 0, 0, 0};
    state->n_listed = 0;
  }
  if (drawn)
    return;
  uint32_t token = best > 0 ? key_id(best) : first_allowed(r, d);
  give(a, r, token, sum, room);
  if (threadIdx.x == 0 && r.logits[token] != r.logits[token])
    a.out[blockIdx.y].token = LLS_NO_NUMBER;
}

static __device__ void finish_row(const lls_cuda_sample &a, const row &r,
                                  shared<u64> room, shared<float> sum_room)
{
  const lls_cuda_draw &d = a.draws[blockIdx.y];
  const chunk_part *parts = parts_of(a);
  drawing *state = &room_of(a)->state;
  float sum = 0;
  if (wants_logprobs(d)) {
    sum = log_sum(parts, room, sum_room);
    top_logprobs(parts, d, sum, &a.out[blockIdx.y], room);
  }
  if (d.scored) {
    score(r, parts, d.target, sum, &a.out[blockIdx.y], room);
    if (threadIdx.x == 0)
      state->drawn = 0;
    return;
  }
  u64 best = threadIdx.x < gridDim.x ? parts[threadIdx.x].best : 0;
  choose(a, r, state, block_largest(best, room), sum, room);
}

__global__ void __launch_bounds__(THREADS, 2) choose_tokens(lls_cuda_sample a)
{
  SHARED_ARRAY(u64, room, WARPS);
  SHARED_ARRAY(float, sum_room, WARPS);
  const lls_cuda_draw &d = a.draws[blockIdx.y];
  row r = {a.logits + (size_t)blockIdx.y * a.vocab, a.vocab, 0, 0};
  chunk_part *part = parts_of(a) + blockIdx.x;
  chunk c;
  wait_for_earlier();
  let_next_begin();
  load_chunk(r, c);
  if (is_filtered(d))
    clear_bins(room_of(a));
  if (wants_logprobs(d))
    note_raw(c, d, part, room, sum_room);
  if (d.scored) {
    note_likelier(c, r.logits[d.target], part, room);
  } else {
    if (d.n_penalised + d.n_biased + d.n_banned > 0 || d.allowed != nullptr) {
      __syncthreads(); /* no thread of the block reads raw logits any more */
      adjust(r, d, a.adjustments + d.first_adjustment);
      load_chunk(r, c);
    }
    u64 best = best_allowed(c, d, room);
    if (threadIdx.x == 0)
      part->best = best;
  }
  if (is_last_chunk(room_of(a)->state))
    finish_row(a, r, room, sum_room);
}

/* ---- launching --------------------------------------------------------------------- */

extern "C" size_t lls_cuda_sample_room(uint32_t n_rows, uint32_t vocab)
{
  if (n_rows > LLS_CUDA_SAMPLE_ROWS)
    n_rows = LLS_CUDA_SAMPLE_ROWS;
  return n_rows * (sizeof(row_room) + chunks_of(vocab) * sizeof(chunk_part));
}

static int run_rows(cudaStream_t s, const lls_cuda_sample *a)
{
  int rc = launch_early(s, choose_tokens, dim3(chunks_of(a->vocab), a->n_rows), THREADS,
                        0, *a);
  return rc == 0 && a->drawn ? lls_cuda_run_draw(s, a) : rc;
}

extern "C" int lls_cuda_run_sample(cudaStream_t s, const struct lls_cuda_sample *a)
{
  if (a->vocab > MOST_VOCAB)
    return cudaErrorInvalidValue;
  int rc = 0;
  for (uint32_t first = 0; first < a->n_rows && rc == 0; first += LLS_CUDA_SAMPLE_ROWS) {
    uint32_t left = a->n_rows - first;
    lls_cuda_sample some = *a;
    some.n_rows = left < LLS_CUDA_SAMPLE_ROWS ? left : LLS_CUDA_SAMPLE_ROWS;
    some.logits += (size_t)first * a->vocab;
    some.draws += first;
    some.out += first;
    rc = run_rows(s, &some);
  }
  return rc;
}
