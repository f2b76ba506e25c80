/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drawing the next token: kernels/cpu/sample.c on a block of threads for each row, with
 * the same order of steps, the same boundaries and the same random number, so the same
 * token but where rounding of exp puts a number on the other side of a boundary.
 */
#include "kernels/cuda/sample_select.cuh"

#define GREEDY_BELOW 1e-5f

/* ---- order of logits --------------------------------------------------------------- */

/* Larger for a larger logit, and for the lower id of equal ones; 0: not a number. */
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

/* The first key below `below`; 0 if there is none. */
static __device__ __forceinline__ u64 best_below(const row &r, u64 below,
                                                 shared<u64> room)
{
  u64 best = 0;
  each(r, [&](uint32_t i, float x) {
    u64 key = order_key(x, i);
    best = key < below && key > best ? key : best;
  });
  return block_largest(best, room);
}

/* The first key of those that d does not ban. */
static __device__ __forceinline__ u64 best_allowed(const row &r, const lls_cuda_draw &d,
                                                   shared<u64> room)
{
  u64 best = 0;
  each(r, [&](uint32_t i, float x) {
    u64 key = order_key(x, i);
    best = key > best && !is_banned(d, i) ? key : best;
  });
  return block_largest(best, room);
}

/* ---- log probabilities ------------------------------------------------------------- */

static __device__ float log_sum(const row &r, float top, shared<float> room)
{
  float sum = 0;
  each(r, [&](uint32_t, float x) { sum += x == x ? expf(x - top) : 0; });
  return top + logf(block_sum(sum, room));
}

static __device__ void top_logprobs(const row &r, const lls_cuda_draw &d, float sum,
                                    lls_sampled *out, shared<u64> room)
{
  u64 key = ~(u64)0;
  uint32_t n = 0, wanted = d.n_logprobs;
  wanted = wanted < LLS_MAX_LOGPROBS ? wanted : LLS_MAX_LOGPROBS;
  for (; n < wanted; n++) {
    key = best_below(r, key, room);
    if (key == 0)
      break;
    if (threadIdx.x == 0) {
      out->top_token[n] = (int32_t)key_id(key);
      out->top_logprob[n] = r.logits[key_id(key)] - sum;
    }
  }
  if (threadIdx.x == 0)
    out->n_top = n;
}

/* How many logits are larger than the target's: none of what is not a number. */
static __device__ u64 likelier_than(const row &r, uint32_t target, shared<u64> room)
{
  float bound = r.logits[target];
  u64 n = 0;
  each(r, [&](uint32_t, float x) { n += x > bound; });
  return block_total(n, room);
}

static __device__ void score(const row &r, uint32_t target, float sum, lls_sampled *out,
                             shared<u64> room)
{
  u64 likelier = likelier_than(r, target, room);
  if (threadIdx.x == 0) {
    out->token = (int32_t)target;
    out->logprob = r.logits[target] - sum;
    out->rank = 1 + (uint32_t)likelier;
  }
}

/* ---- adjustments ------------------------------------------------------------------- */

static __device__ __forceinline__ float penalised(const lls_cuda_draw &d, float logit,
                                                  uint32_t outputs)
{
  logit = logit > 0 ? logit / d.repetition_penalty : logit * d.repetition_penalty;
  if (outputs > 0)
    logit -= d.presence_penalty + d.frequency_penalty * (float)outputs;
  return logit;
}

/* After raw logits were noted: what penalties and biases make of -infinity is the same.
 */
static __device__ void mask(const row &r, const lls_cuda_draw &d)
{
  for (uint32_t i = threadIdx.x; d.allowed != nullptr && i < r.vocab; i += THREADS)
    if (is_masked(d, i))
      r.logits[i] = -INFINITY;
}

static __device__ void adjust(const row &r, const lls_cuda_draw &d,
                              lls_cuda_adjustment *list)
{
  uint32_t n = d.n_penalised + d.n_biased;
  for (uint32_t i = threadIdx.x; i < n; i += THREADS)
    list[i].raw = r.logits[list[i].token];
  __syncthreads();
  mask(r, d);
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < d.n_penalised; i += THREADS)
    r.logits[list[i].token] = penalised(d, r.logits[list[i].token], list[i].outputs);
  __syncthreads();
  for (uint32_t i = d.n_penalised + threadIdx.x; i < n; i += THREADS)
    r.logits[list[i].token] += list[i].bias;
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < d.n_banned; i += THREADS)
    if (d.banned[i] >= 0 && (uint32_t)d.banned[i] < r.vocab)
      r.logits[d.banned[i]] = -INFINITY;
  __syncthreads();
}

/* The logit that the token had before. */
static __device__ float raw_logit(const row &r, const lls_cuda_draw &d,
                                  const lls_cuda_adjustment *list, uint32_t token,
                                  shared<u64> room)
{
  u64 found = 0; /* 1 + an adjustment of it */
  for (uint32_t i = threadIdx.x; i < d.n_penalised + d.n_biased; i += THREADS)
    found = list[i].token == (int32_t)token ? i + 1 : found;
  found = block_largest(found, room);
  return found > 0 ? list[found - 1].raw : r.logits[token];
}

/* ---- the draw ---------------------------------------------------------------------- */

static __device__ kept filter(const row &r, const lls_cuda_draw &d, const counters &c,
                              shared<u64> room)
{
  bool by_count = d.top_k > 0 && (uint32_t)d.top_k < r.vocab, by_mass = d.top_p < 1;
  kept k = {d.min_p < 1 ? d.min_p : 1.0f, ~(u64)0, 0};
  k.bound = k.bound > 1e-45f ? k.bound : 1e-45f; /* the least above 0 */
  float below = __uint_as_float(__float_as_uint(k.bound) - 1);
  if (by_count) {
    k = select_until(r, k.bound, k.ties, false, (double)d.top_k, c);
    below = k.bound; /* the mass of its ties is known */
  }
  k.mass += mass_beyond(r, below, room);
  if (by_mass)
    k = select_until(r, k.bound, k.ties, true, (double)d.top_p * (double)k.mass, c);
  return k;
}

struct measure { /* of a token: its mass if it is kept, or 1 if it is a tie */
  bool ties;
  float bound;
  uint32_t last_tie; /* id of the last tie that is kept */
};

static __device__ __forceinline__ u64 measure_of(const row &r, const measure &m,
                                                 uint32_t i, float logit)
{
  float p = weight(r, logit);
  if (m.ties)
    return p == m.bound ? 1 : 0;
  bool is_kept = p > m.bound || (p == m.bound && i <= m.last_tie);
  return is_kept ? mass_of(p) : 0;
}

/* The same among the n tokens from `low` on, one a lane; the last that measures anything
 * if it is none of them. */
static __device__ uint32_t find_among(const row &r, const measure &m, u64 value,
                                      uint32_t low, uint32_t n)
{
  uint32_t lane = threadIdx.x % WARP, i = low + lane;
  u64 mine = lane < n && i < r.vocab ? measure_of(r, m, i, r.logits[i]) : 0, sum = mine;
  for (unsigned by = 1; by < WARP; by *= 2) {
    u64 before = __shfl_up_sync(ALL_LANES, sum, by);
    sum += lane >= by ? before : 0;
  }
  unsigned beyond = __ballot_sync(ALL_LANES, sum > value);
  unsigned measured = __ballot_sync(ALL_LANES, mine > 0);
  if (beyond != 0)
    return low + (uint32_t)__ffs((int)beyond) - 1;
  return measured != 0 ? low + WARP - 1 - (uint32_t)__clz((int)measured) : low;
}

/* The first token by id where the measures added up are more than `value`. Each warp adds
 * up a part of the range; the part with the answer is the next range. */
static __device__ uint32_t find_token(const row &r, const measure &m, u64 value,
                                      shared<u64> room)
{
  uint32_t low = 0, n = r.vocab;
  while (n > WARP) {
    uint32_t part = (n + WARPS - 1) / WARPS, warp = threadIdx.x / WARP;
    uint32_t begin = warp * part < n ? warp * part : n;
    uint32_t end = begin + part < n ? begin + part : n;
    u64 sum = 0;
    each(r, low + begin + threadIdx.x % WARP, WARP, low + end,
         [&](uint32_t i, float x) { sum += measure_of(r, m, i, x); });
    for (unsigned bits = WARP / 2; bits > 0; bits /= 2)
      sum += __shfl_xor_sync(ALL_LANES, sum, bits);
    __syncthreads();
    if (threadIdx.x % WARP == 0)
      room[warp] = sum;
    __syncthreads();
    uint32_t found = 0;
    for (u64 here; found + 1 < WARPS && (here = room[found]) <= value; found++)
      value -= here;
    low += found * part < n ? found * part : n - 1;
    n = found * part < n && n - found * part < part ? n - found * part : part;
  }
  return find_among(r, m, value, low, n);
}

static __device__ uint32_t draw(const row &r, const lls_cuda_draw &d, const counters &c,
                                shared<u64> room)
{
  kept k = filter(r, d, c, room);
  measure ties = {true, k.bound, 0};
  uint32_t last_tie = r.vocab - 1;
  if (k.ties != ~(u64)0)
    last_tie = find_token(r, ties, k.ties - 1, room);
  measure masses = {false, k.bound, last_tie};
  return find_token(r, masses, __umul64hi(d.uniform, k.mass), room);
}

__global__ void __launch_bounds__(THREADS) sample_row(lls_cuda_sample a)
{
  SHARED_ARRAY(u64, room, WARPS);
  SHARED_ARRAY(float, sum_room, WARPS);
  SHARED_ARRAY(uint32_t, count, BINS * COPIES);
  SHARED_ARRAY(uint32_t, limb, LIMBS * BINS * COPIES);
  SHARED_ARRAY(u64, mass, BINS);
  const lls_cuda_draw &d = a.draws[blockIdx.x];
  lls_cuda_adjustment *list = a.adjustments + d.first_adjustment;
  lls_sampled *out = &a.out[blockIdx.x];
  row r = {a.logits + (size_t)blockIdx.x * a.vocab, a.vocab, 0, 0};
  bool logprobs = d.want_logprob || d.n_logprobs > 0;
  float sum = 0;
  if (logprobs) {
    u64 best = best_below(r, ~(u64)0, room);
    sum = log_sum(r, best > 0 ? r.logits[key_id(best)] : -INFINITY, sum_room);
    top_logprobs(r, d, sum, out, room);
    __syncthreads(); /* nobody reads raw logits any more */
  }
  if (d.scored) {
    score(r, d.target, sum, out, room);
    return;
  }
  adjust(r, d, list);
  u64 best = best_allowed(r, d, room);
  uint32_t token = 0;
  while (token + 1 < a.vocab && is_banned(d, token))
    token++;
  if (best > 0)
    token = key_id(best);
  r.top = best > 0 ? r.logits[token] : -INFINITY;
  if (d.temperature >= GREEDY_BELOW && r.top > -INFINITY && r.top < INFINITY) {
    r.scale = 1 / d.temperature;
    counters c = {count, limb, mass};
    token = draw(r, d, c, room);
  }
  float raw = logprobs ? raw_logit(r, d, list, token, room) : 0;
  if (threadIdx.x == 0) {
    out->token = (int32_t)token;
    out->rank = 0;
    out->logprob = logprobs ? raw - sum : 0;
    if (!logprobs)
      out->n_top = 0;
  }
}

extern "C" int lls_cuda_run_sample(cudaStream_t s, const struct lls_cuda_sample *a)
{
  if (a->n_rows == 0)
    return 0;
  if (a->vocab > MOST_VOCAB)
    return cudaErrorInvalidValue;
  return launch(s, sample_row, a->n_rows, THREADS, 0, *a);
}
