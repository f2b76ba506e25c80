/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drawing the next token: kernels/cpu/sample.c on a block of threads for each row, with
 * the same order of steps, the same boundaries and the same random number, so the same
 * token but where rounding of exp puts a number on the other side of a boundary.
 *
 * Weights are summed as integers in units of 2^-40 of the likeliest token's, whose sums
 * are the same in whatever order threads add: a draw does not depend on timing.
 * Boundaries of top_k and top_p are found by a radix select over the weights' bits, eight
 * at a time.
 */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/number.cuh"

#define THREADS 512
#define WARPS   (THREADS / WARP)
#define BINS    256

#define GREEDY_BELOW 1e-5f

typedef unsigned long long u64;

struct row {
  float *logits;
  uint32_t vocab;
  float top, scale; /* weight of x: exp((x - top) scale) */
};

/* The selection: weights above `bound`, and the first `ties` of those equal to it, ~0 =
 * all. */
struct kept {
  float bound;
  u64 ties;
  u64 mass; /* of all that is kept */
};

/* ---- over a block ------------------------------------------------------------------ */

static __device__ __forceinline__ u64 block_total(u64 x, shared<u64> room)
{
  for (unsigned bits = WARP / 2; bits > 0; bits /= 2)
    x += __shfl_xor_sync(ALL_LANES, x, bits);
  __syncthreads();
  if (threadIdx.x % WARP == 0)
    room[threadIdx.x / WARP] = x;
  __syncthreads();
  u64 sum = 0;
  for (unsigned i = 0; i < WARPS; i++)
    sum += room[i];
  return sum;
}

static __device__ __forceinline__ u64 block_largest(u64 x, shared<u64> room)
{
  for (unsigned bits = WARP / 2; bits > 0; bits /= 2) {
    u64 other = __shfl_xor_sync(ALL_LANES, x, bits);
    x = other > x ? other : x;
  }
  __syncthreads();
  if (threadIdx.x % WARP == 0)
    room[threadIdx.x / WARP] = x;
  __syncthreads();
  for (unsigned i = 0; i < WARPS; i++) {
    u64 other = room[i];
    x = other > x ? other : x;
  }
  return x;
}

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

static __device__ bool is_banned(const lls_cuda_draw *d, uint32_t token)
{
  if (d != nullptr && is_masked(*d, token))
    return true;
  for (uint32_t i = 0; d != nullptr && i < d->n_banned; i++)
    if (d->banned[i] == (int32_t)token)
      return true;
  return false;
}

/* The first key below `below`, leaving out what d bans; 0 if there is none. */
static __device__ u64 best_below(const row &r, u64 below, const lls_cuda_draw *d,
                                 shared<u64> room)
{
  u64 best = 0;
  for (uint32_t i = threadIdx.x; i < r.vocab; i += THREADS) {
    u64 key = is_banned(d, i) ? 0 : order_key(r.logits[i], i);
    best = key < below && key > best ? key : best;
  }
  return block_largest(best, room);
}

/* ---- log probabilities ------------------------------------------------------------- */

static __device__ float log_sum(const row &r, float top, shared<float> room)
{
  float sum = 0;
  for (uint32_t i = threadIdx.x; i < r.vocab; i += THREADS) {
    float x = r.logits[i];
    sum += x == x ? expf(x - top) : 0;
  }
  return top + logf(block_sum(sum, room));
}

static __device__ void top_logprobs(const row &r, const lls_cuda_draw &d, float sum,
                                    lls_sampled *out, shared<u64> room)
{
  u64 key = ~(u64)0;
  uint32_t n = 0, wanted = d.n_logprobs;
  wanted = wanted < LLS_MAX_LOGPROBS ? wanted : LLS_MAX_LOGPROBS;
  for (; n < wanted; n++) {
    key = best_below(r, key, nullptr, room);
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
  for (uint32_t i = threadIdx.x; i < r.vocab; i += THREADS)
    n += r.logits[i] > bound;
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

/* ---- weights ----------------------------------------------------------------------- */

/* The likeliest token's is 1; 0 for not-a-number. */
static __device__ __forceinline__ float weight(const row &r, uint32_t i)
{
  float p = expf((r.logits[i] - r.top) * r.scale);
  return p == p ? p : 0;
}

static __device__ __forceinline__ u64 mass_of(float p)
{
  return (u64)(p * 1.099511627776e12f); /* 2^40 */
}

/* Mass of the weights of at least `least`, and more than none. */
static __device__ u64 mass_from(const row &r, float least, shared<u64> room)
{
  u64 mass = 0;
  for (uint32_t i = threadIdx.x; i < r.vocab; i += THREADS) {
    float p = weight(r, i);
    mass += p >= least ? mass_of(p) : 0;
  }
  return block_total(mass, room);
}

struct counters {
  shared<uint32_t> count; /* (BINS) */
  shared<u64> mass;       /* (BINS) */
};

/* Counts the weights whose upper bits are `prefix` by their next eight. */
static __device__ void count_bins(const row &r, float least, uint32_t prefix, int shift,
                                  const counters &c)
{
  for (unsigned i = threadIdx.x; i < BINS; i += THREADS) {
    c.count[i] = 0;
    c.mass[i] = 0;
  }
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < r.vocab; i += THREADS) {
    float p = weight(r, i);
    uint32_t bits = __float_as_uint(p);
    if (p < least || p <= 0 || (u64)bits >> (shift + 8) != prefix)
      continue;
    atomicAdd(&c.count[bits >> shift & 0xff], (uint32_t)1);
    atomicAdd(&c.mass[bits >> shift & 0xff], mass_of(p));
  }
  __syncthreads();
}

/*
 * Walks the weights of at least `least` in order until their count, or mass, reaches
 * `target`; keeps all if it never does. `most_ties`: of those equal to least.
 */
static __device__ kept select_until(const row &r, float least, u64 most_ties,
                                    bool by_mass, double target, const counters &c)
{
  uint32_t prefix = 0, above = 0, n = 0;
  u64 mass_above = 0, mass = 0;
  for (int shift = 24; shift >= 0; shift -= 8) {
    count_bins(r, least, prefix, shift, c);
    uint32_t bin = BINS;
    int last = -1;
    for (int i = BINS - 1; i >= 0; i--) {
      n = c.count[i];
      mass = c.mass[i];
      if (n == 0)
        continue;
      last = i;
      if ((by_mass ? (double)(mass_above + mass) : (double)(above + n)) >= target) {
        bin = (uint32_t)i;
        break;
      }
      above += n;
      mass_above += mass;
    }
    if (bin == BINS) { /* never reached: all, to the last of the last bin there is */
      bin = (uint32_t)(last < 0 ? 0 : last);
      n = c.count[bin];
      mass = c.mass[bin];
      above -= n;
      mass_above -= mass;
    }
    prefix = prefix << 8 | bin;
    __syncthreads(); /* the counters are done with */
  }
  kept k = {__uint_as_float(prefix), n, 0};
  u64 each = mass_of(k.bound);
  double missing = by_mass ? (target - (double)mass_above) / (double)(each > 0 ? each : 1)
                           : target - (double)above;
  if (missing < (double)n)
    k.ties = (u64)ceil(missing > 1 ? missing : 1);
  if (k.bound == least && k.ties > most_ties)
    k.ties = most_ties;
  k.mass = mass_above + k.ties * each;
  if (k.ties == n)
    k.ties = ~(u64)0; /* all: nobody has to look for the last */
  return k;
}

static __device__ kept filter(const row &r, const lls_cuda_draw &d, const counters &c,
                              shared<u64> room)
{
  bool by_count = d.top_k > 0 && (uint32_t)d.top_k < r.vocab, by_mass = d.top_p < 1;
  kept k = {d.min_p < 1 ? d.min_p : 1.0f, ~(u64)0, 0};
  k.bound = k.bound > 1e-45f ? k.bound : 1e-45f; /* the least above 0 */
  k.mass = mass_from(r, k.bound, room);
  if (by_count)
    k = select_until(r, k.bound, k.ties, false, (double)d.top_k, c);
  if (by_mass)
    k = select_until(r, k.bound, k.ties, true, (double)d.top_p * (double)k.mass, c);
  return k;
}

/* ---- the draw ---------------------------------------------------------------------- */

struct measure { /* of a token: its mass if it is kept, or 1 if it is a tie */
  bool ties;
  float bound;
  uint32_t last_tie; /* id of the last tie that is kept */
};

static __device__ __forceinline__ u64 measure_of(const row &r, const measure &m,
                                                 uint32_t i)
{
  float p = weight(r, i);
  if (m.ties)
    return p == m.bound ? 1 : 0;
  bool is_kept = p > m.bound || (p == m.bound && i <= m.last_tie);
  return is_kept ? mass_of(p) : 0;
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
    for (uint32_t i = begin + threadIdx.x % WARP; i < end; i += WARP)
      sum += measure_of(r, m, low + i);
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
  uint32_t last = low;
  for (uint32_t i = low; i < low + n && i < r.vocab; i++) {
    u64 here = measure_of(r, m, i);
    if (here > value)
      return i;
    value -= here;
    last = here > 0 ? i : last;
  }
  return last;
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

__global__ void sample_row(lls_cuda_sample a)
{
  SHARED_ARRAY(u64, room, WARPS);
  SHARED_ARRAY(float, sum_room, WARPS);
  SHARED_ARRAY(uint32_t, count, BINS);
  SHARED_ARRAY(u64, mass, BINS);
  const lls_cuda_draw d = a.draws[blockIdx.x];
  lls_cuda_adjustment *list = a.adjustments + d.first_adjustment;
  lls_sampled *out = &a.out[blockIdx.x];
  row r = {a.logits + (size_t)blockIdx.x * a.vocab, a.vocab, 0, 0};
  bool logprobs = d.want_logprob || d.n_logprobs > 0;
  float sum = 0;
  if (logprobs) {
    u64 best = best_below(r, ~(u64)0, nullptr, room);
    sum = log_sum(r, best > 0 ? r.logits[key_id(best)] : -INFINITY, sum_room);
    top_logprobs(r, d, sum, out, room);
    __syncthreads(); /* nobody reads raw logits any more */
  }
  if (d.scored) {
    score(r, d.target, sum, out, room);
    return;
  }
  adjust(r, d, list);
  u64 best = best_below(r, ~(u64)0, &d, room);
  uint32_t token = 0;
  while (token + 1 < a.vocab && is_banned(&d, token))
    token++;
  if (best > 0)
    token = key_id(best);
  r.top = best > 0 ? r.logits[token] : -INFINITY;
  if (d.temperature >= GREEDY_BELOW && r.top > -INFINITY && r.top < INFINITY) {
    r.scale = 1 / d.temperature;
    counters c = {count, mass};
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
  return launch(s, sample_row, a->n_rows, THREADS, 0, *a);
}
