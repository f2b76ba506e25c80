/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects a row's likeliest tokens down to a count or a mass, by one thread block,
 * among the weights of the bin where sample_draw.cu has found the boundary.
 *
 * Weights are summed as integers in units of 2^-40 of the likeliest token's weight.
 * Such sums do not depend on the order in which threads add, so a draw does not depend
 * on timing. The boundary is found by a radix select over the weights' bits, eight at a
 * time.
 *
 * The bins of a round are counted in shared memory by 32-bit atomics, since a 64-bit
 * one is a loop of compare and swap there. So a mass is three limbs of 14 bits. Equal
 * logits fall into one bin, so a bin has eight copies in different banks, and
 * neighbouring lanes use different copies.
 */
#ifndef LLS_CUDA_SAMPLE_SELECT_CUH
#define LLS_CUDA_SAMPLE_SELECT_CUH

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/number.cuh"

#define THREADS 512
#define WARPS   (THREADS / WARP)
#define AT_ONCE 4 /* loads that a thread has under way */
#define BINS    256

#define COPIES    8
#define LIMBS     3 /* a mass, which is 2^40 at most, is summed in this many limbs */
#define LIMB_BITS 14
/* up to this size no limb's sum overflows */
#define MOST_VOCAB (COPIES << (32 - LIMB_BITS))

typedef unsigned long long u64;

struct row {
  float *logits;
  uint32_t vocab;
  float top, scale; /* weight of x: exp((x - top) scale) */
};

/* A selection: weights above `bound`, and the first `ties` of those equal to it (~0:
 * all). */
struct kept {
  float bound;
  u64 ties;
  u64 mass; /* mass of all kept tokens */
};

/* ---- over a block ------------------------------------------------------------------ */

/* Calls f(i, logit) for i = first, first + step ... below end, in order. Several loads
 * are issued before their use, so that they do not wait for each other. */
template <class F>
static __device__ __forceinline__ void each(const row &r, uint32_t first, uint32_t step,
                                            uint32_t end, F f)
{
  uint32_t i = first;
  for (; i + (AT_ONCE - 1) * step < end; i += AT_ONCE * step) {
    float x[AT_ONCE];
#pragma unroll
    for (uint32_t k = 0; k < AT_ONCE; k++)
      x[k] = r.logits[i + k * step];
#pragma unroll
    for (uint32_t k = 0; k < AT_ONCE; k++)
      f(i + k * step, x[k]);
  }
  for (; i < end; i += step)
    f(i, r.logits[i]);
}

/* Divides the row among the block's threads. */
template <class F> static __device__ __forceinline__ void each(const row &r, F f)
{
  each(r, threadIdx.x, THREADS, r.vocab, f);
}

static __device__ __forceinline__ u64 block_total(u64 x, shared<u64> room)
{
  for (unsigned bits = WARP / 2; bits > 0; bits /= 2)
    x += __shfl_xor_sync(ALL_LANES, x, bits);
  __syncthreads();
  if (threadIdx.x % WARP == 0)
    room[threadIdx.x / WARP] = x;
  __syncthreads();
  u64 sum = 0;
#pragma unroll 4 /* registers */
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
#pragma unroll 4 /* registers */
  for (unsigned i = 0; i < WARPS; i++) {
    u64 other = room[i];
    x = other > x ? other : x;
  }
  return x;
}

/* ---- weights ----------------------------------------------------------------------- */

/* Returns the weight of a logit: 1 for the likeliest token, 0 for NaN. */
static __device__ __forceinline__ float weight(const row &r, float logit)
{
  float p = expf((logit - r.top) * r.scale);
  return p == p ? p : 0;
}

#define MASS_UNITS 1.099511627776e12f /* 2^40 */

static __device__ __forceinline__ u64 mass_of(float p)
{
  return (u64)(p * MASS_UNITS);
}

/* ---- the selection ----------------------------------------------------------------- */

struct counters {
  shared<uint32_t> count; /* (BINS, COPIES) */
  shared<uint32_t> limb;  /* (LIMBS, BINS, COPIES) */
  /* (BINS) sum of all copies; the sum of the counts is in the first copy */
  shared<u64> mass;
};

static __device__ __forceinline__ void clear(const counters &c)
{
  for (unsigned i = threadIdx.x; i < BINS * COPIES; i += THREADS)
    c.count[i] = 0;
  for (unsigned i = threadIdx.x; i < LIMBS * BINS * COPIES; i += THREADS)
    c.limb[i] = 0;
  __syncthreads();
}

static __device__ __forceinline__ void add_up_copies(const counters &c)
{
  __syncthreads();
  unsigned bin = threadIdx.x;
  if (bin < BINS) {
    uint32_t n = 0;
    u64 mass = 0;
    for (unsigned i = bin * COPIES; i < (bin + 1) * COPIES; i++) {
      n += c.count[i];
      for (unsigned l = 0; l < LIMBS; l++)
        mass += (u64)c.limb[l * BINS * COPIES + i] << (l * LIMB_BITS);
    }
    c.count[bin * COPIES] = n;
    c.mass[bin] = mass;
  }
  __syncthreads();
}

/* Counts the weights whose upper bits are `prefix` by their next eight, and their masses.
 * each_weight(source, f) calls f(a weight's bits) for the thread's share of the source.
 */
template <class Source>
static __device__ void count_bins(const Source &source, float least, uint32_t prefix,
                                  int shift, const counters &c)
{
  const unsigned copy = threadIdx.x % COPIES;
  clear(c);
  each_weight(source, [&](uint32_t bits) {
    float p = __uint_as_float(bits);
    if (p < least || p <= 0 || (u64)bits >> (shift + 8) != prefix)
      return;
    unsigned i = (bits >> shift & 0xff) * COPIES + copy;
    atomicAdd(&c.count[i], (uint32_t)1);
    u64 mass = mass_of(p);
    for (unsigned l = 0; mass != 0; l++, mass >>= LIMB_BITS)
      atomicAdd(&c.limb[l * BINS * COPIES + i], (uint32_t)mass & ((1u << LIMB_BITS) - 1));
  });
  add_up_copies(c);
}

struct walk {             /* a walk down the bins */
  uint32_t bin, n, above; /* n: weights in the bin; above: weights in all higher bins */
  u64 mass, mass_above;
};

/* Walks the BINS / WARP bins of this lane from the highest on to the one that reaches
 * the target (returns true), else to the last that is not empty. */
static __device__ __forceinline__ bool walk_lane(walk &w, bool by_mass, double target,
                                                 const counters &c)
{
  uint32_t above = w.above;
  u64 mass_above = w.mass_above;
  uint32_t highest = BINS - 1 - threadIdx.x % WARP * (BINS / WARP);
#pragma unroll 1
  for (uint32_t i = highest; i + BINS / WARP > highest; i--) {
    uint32_t n = c.count[i * COPIES];
    u64 mass = c.mass[i];
    if (n == 0)
      continue;
    w = {i, n, above, mass, mass_above};
    above += n;
    mass_above += mass;
    if ((by_mass ? (double)mass_above : (double)above) >= target)
      return true;
  }
  return false;
}

/* Returns the bin where the count, or mass, reaches the target, walking on from `w`;
 * the last non-empty bin if none does. Every warp does the same; each lane has a part
 * of the bins. */
static __device__ walk find_bin(walk w, bool by_mass, double target, const counters &c)
{
  const unsigned lane = threadIdx.x % WARP;
  uint32_t n = 0;
  u64 mass = 0;
#pragma unroll 1 /* not unrolled: registers are scarce in a block of this size */
  for (uint32_t i = 0; i < BINS / WARP; i++) {
    uint32_t bin = BINS - 1 - lane * (BINS / WARP) - i;
    n += c.count[bin * COPIES];
    mass += c.mass[bin];
  }
  uint32_t mine = n;
  for (unsigned by = 1; by < WARP; by *= 2) {
    uint32_t n_before = __shfl_up_sync(ALL_LANES, n, by);
    u64 mass_before = __shfl_up_sync(ALL_LANES, mass, by);
    n += lane >= by ? n_before : 0;
    mass += lane >= by ? mass_before : 0;
  }
  w.above += __shfl_up_sync(ALL_LANES, n, 1) * (lane > 0);
  w.mass_above += __shfl_up_sync(ALL_LANES, mass, 1) * (lane > 0);
  unsigned reached = __ballot_sync(ALL_LANES, walk_lane(w, by_mass, target, c));
  unsigned filled = __ballot_sync(ALL_LANES, mine > 0);
  unsigned from = reached != 0  ? (unsigned)__ffs((int)reached) - 1
                  : filled != 0 ? WARP - 1 - (unsigned)__clz((int)filled)
                                : WARP - 1;
  return {__shfl_sync(ALL_LANES, w.bin, from), __shfl_sync(ALL_LANES, w.n, from),
          __shfl_sync(ALL_LANES, w.above, from), __shfl_sync(ALL_LANES, w.mass, from),
          __shfl_sync(ALL_LANES, w.mass_above, from)};
}

/*
 * Selects weights of at least `least`, in order and from w on, until their count, or
 * mass, reaches `target`; keeps all if it never does. Their bits above `shift + 8` are
 * all `prefix`. `most_ties`: the most weights equal to the bound that are kept.
 */
template <class Source>
static __device__ kept select_until(const Source &source, float least, u64 most_ties,
                                    bool by_mass, double target, walk w, uint32_t prefix,
                                    int shift, const counters &c)
{
  for (; shift >= 0; shift -= 8) {
    count_bins(source, least, prefix, shift, c);
    w = find_bin(w, by_mass, target, c);
    prefix = prefix << 8 | w.bin;
    __syncthreads(); /* the counters are no longer read */
  }
  kept k = {__uint_as_float(prefix), w.n, 0};
  u64 one = mass_of(k.bound);
  double missing = by_mass ? (target - (double)w.mass_above) / (double)(one > 0 ? one : 1)
                           : target - (double)w.above;
  if (missing < (double)w.n)
    k.ties = (u64)ceil(missing > 1 ? missing : 1);
  if (k.bound == least && k.ties > most_ties)
    k.ties = most_ties;
  k.mass = w.mass_above + k.ties * one;
  if (k.ties == w.n)
    k.ties = ~(u64)0; /* all, so that the last tie need not be found */
  return k;
}

#endif
