/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the kernels of a draw (sample.cu, sample_draw.cu). A row is always cut into
 * chunks of CHUNK tokens, a block each, so that a row's sums do not depend on the
 * batch. The chunks' parts are combined in order, by the last block to end or by the
 * next kernel.
 */
#ifndef LLS_CUDA_SAMPLE_ROOM_CUH
#define LLS_CUDA_SAMPLE_ROOM_CUH

#include "kernels/cuda/arrivals.cuh"
#include "kernels/cuda/sample_select.cuh"

#define CHUNK       8192u
#define MOST_CHUNKS (MOST_VOCAB / CHUNK)
#define PER_THREAD  (CHUNK / THREADS)

/*
 * Weights are counted by their upper bits, in bins that are finer for likelier tokens:
 * a 1,024th of a factor of two down to a quarter of the likeliest, a 128th down to
 * 2^-8, a 32nd down to 2^-40, a half below that. Few bins have more than LISTED of a
 * vocabulary: of logits with a deviation of 0.02, all but equal, the fullest has 1.4 %
 * of it.
 */
#define FINE_BINS 4096 /* weight 1 is in bin 4014 */
#define LISTED    4096 /* most weights of a bin that are listed */

/* from bin `bin` with `bits` on, `shift` low bits of a weight are dropped */
struct fine_range {
  uint32_t bin, bits, shift;
};

static __device__ __forceinline__ fine_range range_of(bool third, bool second, bool first)
{
  return third    ? fine_range{1966, 125u << 23, 13}
         : second ? fine_range{1198, 119u << 23, 16}
         : first  ? fine_range{174, 87u << 23, 18}
                  : fine_range{0, 0, 22};
}

static __device__ __forceinline__ fine_range range_of_bits(uint32_t bits)
{
  return range_of(bits >= 125u << 23, bits >= 119u << 23, bits >= 87u << 23);
}

static __device__ __forceinline__ fine_range range_of_bin(uint32_t bin)
{
  return range_of(bin >= 1966, bin >= 1198, bin >= 174);
}

static __device__ __forceinline__ uint32_t bin_of(uint32_t bits)
{
  fine_range r = range_of_bits(bits);
  return r.bin + ((bits - r.bits) >> r.shift);
}

/* Returns the least bits of a weight in the bin. */
static __device__ __forceinline__ uint32_t least_bits(uint32_t bin)
{
  fine_range r = range_of_bin(bin);
  return r.bits + ((bin - r.bin) << r.shift);
}

struct listed {
  uint32_t id, bits; /* bits of the weight */
};

struct chunk_part {  /* a chunk's contribution to its row */
  u64 best;          /* key of the likeliest allowed token */
  u64 raw_best;      /* key of the likeliest token by the unmodified logits */
  u64 kept;          /* mass that is kept wherever the boundary is */
  float raw_sum;     /* sum of exp(logit - that of raw_best) */
  uint32_t likelier; /* number of tokens likelier than the target */
  u64 top[LLS_MAX_LOGPROBS];
};

struct drawing {  /* the state of a row from kernel to kernel */
  uint32_t drawn; /* 0: its token is chosen */
  uint32_t again; /* another round is needed: top_p after top_k */
  /* largest logit, scale and least weight of the row; log of the sum of exp of the raw
   * logits */
  float top, scale, least, sum;
  double target; /* target of the count or the mass */
  walk w;        /* the fine bin where the target is reached */
  uint32_t n_listed;
  uint32_t finished; /* number of finished chunks, 0 between kernels */
};

struct row_room {
  drawing state;
  uint32_t count[FINE_BINS];
  u64 excess[FINE_BINS]; /* masses above the bin's least one, in units of the bin */
  listed list[LISTED];
};

static inline __device__ __host__ uint32_t chunks_of(uint32_t vocab)
{
  return (vocab + CHUNK - 1) / CHUNK;
}

/* Returns the row's state; rows come first, then parts (rows, chunks). */
static __device__ __forceinline__ row_room *room_of(const lls_cuda_sample &a)
{
  return (row_room *)a.room + blockIdx.y;
}

static __device__ __forceinline__ chunk_part *parts_of(const lls_cuda_sample &a)
{
  chunk_part *parts = (chunk_part *)((row_room *)a.room + gridDim.y);
  return parts + (size_t)blockIdx.y * chunks_of(a.vocab);
}

/* Have the row's other blocks ended? If so, their results can be read. */
static __device__ __forceinline__ bool is_last_chunk(drawing &d)
{
  return is_last<whole_block>(&d.finished, gridDim.x);
}

/* ---- a chunk ----------------------------------------------------------------------- */

/* The block's chunk of logits, four adjacent ones at a time; NaN beyond the
 * vocabulary. */
struct chunk {
  float x[PER_THREAD];
};

static __device__ __forceinline__ uint32_t chunk_id(unsigned k)
{
  return blockIdx.x * CHUNK + (k / 4 * THREADS + threadIdx.x) * 4 + k % 4;
}

static __device__ __forceinline__ void load_chunk(const row &r, chunk &c)
{
  bool aligned = (uintptr_t)r.logits % 16 == 0;
#pragma unroll
  for (unsigned k = 0; k < PER_THREAD; k += 4) {
    uint32_t id = chunk_id(k);
    if (aligned && id + 4 <= r.vocab) {
      several<float, 4> four = load_several<float, 4>(r.logits + id);
#pragma unroll
      for (unsigned i = 0; i < 4; i++)
        c.x[k + i] = four.v[i];
      continue;
    }
#pragma unroll
    for (unsigned i = 0; i < 4; i++)
      c.x[k + i] = id + i < r.vocab ? r.logits[id + i] : __uint_as_float(0x7fffffff);
  }
}

/* Calls f(id, logit) for the thread's logits. */
template <class F> static __device__ __forceinline__ void each(const chunk &c, F f)
{
#pragma unroll
  for (unsigned k = 0; k < PER_THREAD; k++)
    f(chunk_id(k), c.x[k]);
}

/* ---- the end of a draw ------------------------------------------------------------- */

/* Returns the unmodified logit of a token. */
static __device__ float raw_logit(const row &r, const lls_cuda_draw &d,
                                  const lls_cuda_adjustment *list, uint32_t token,
                                  shared<u64> room)
{
  u64 found = 0; /* 1 + the index of its adjustment */
  for (uint32_t i = threadIdx.x; i < d.n_penalised + d.n_biased; i += THREADS)
    found = list[i].token == (int32_t)token ? i + 1 : found;
  found = block_largest(found, room);
  return found > 0 ? list[found - 1].raw : r.logits[token];
}

static __device__ __forceinline__ bool is_filtered(const lls_cuda_draw &d)
{
  return d.by_count || d.by_mass;
}

static __device__ __forceinline__ bool wants_logprobs(const lls_cuda_draw &d)
{
  return d.want_logprob || d.n_logprobs > 0;
}

/* Writes the row's result; `sum` as in drawing. */
static __device__ void give(const lls_cuda_sample &a, const row &r, uint32_t token,
                            float sum, shared<u64> room)
{
  const lls_cuda_draw &d = a.draws[blockIdx.y];
  lls_sampled *out = &a.out[blockIdx.y];
  float raw = 0;
  if (wants_logprobs(d))
    raw = raw_logit(r, d, a.adjustments + d.first_adjustment, token, room);
  if (threadIdx.x != 0)
    return;
  out->token = (int32_t)token;
  out->rank = 0;
  out->logprob = wants_logprobs(d) ? raw - sum : 0;
  if (!wants_logprobs(d))
    out->n_top = 0;
}

#endif
