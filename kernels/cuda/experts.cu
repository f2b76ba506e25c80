/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mixtures of experts. Only the device knows how many rows an expert has, and grids do
 * not depend on it, so a decode step stays one graph. All kernels but the plain product
 * begin early (kernel.cuh).
 *
 * Products in bf16 are experts_few.cu's and experts_many.cu's, those with codes are in
 * codes.cu. Here are the remaining products: f32, and inputs that cannot be read 16
 * bytes at a time. A block computes some outputs of an expert, and exits if the expert
 * has no rows; the expert's matrix is read once for every eight of its rows.
 */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/number.cuh"

#define THREADS 256
#define WARPS   (THREADS / WARP)
#define ROWS    8 /* rows of a product processed at a time */

/* ---- choosing ---------------------------------------------------------------------- */

/* Is score a better than b? The larger score wins, then the lower index; any score
 * beats NaN. */
static __device__ __forceinline__ bool better(float a, uint32_t i, float b, uint32_t j)
{
  return a > b || (!(b > a) && i < j);
}

/* Returns the best of n that a warp has not taken yet, and sets `best` to its score; each
 * lane looks at every 32nd. A lane records in a bit set which of its own were taken:
 * LLS_MAX_EXPERTS are 32 for each lane. */
template <class F>
static __device__ __forceinline__ uint32_t take_best(uint32_t n, const F &score_of,
                                                     uint32_t &taken, float &best)
{
  uint32_t lane = threadIdx.x % WARP, at = 0xffffffffu;
  best = -INFINITY;
  for (uint32_t e = lane; e < n; e += WARP) {
    float score = score_of(e);
    score = score == score ? score : -INFINITY;
    bool left = (taken >> e / WARP & 1) == 0;
    if (left && (at == 0xffffffffu || better(score, e, best, at))) {
      best = score;
      at = e;
    }
  }
  for (unsigned bits = WARP / 2; bits > 0; bits /= 2) {
    float other = __shfl_xor_sync(ALL_LANES, best, bits);
    uint32_t place = __shfl_xor_sync(ALL_LANES, at, bits);
    if (place != 0xffffffffu && (at == 0xffffffffu || better(other, place, best, at))) {
      best = other;
      at = place;
    }
  }
  taken |= at % WARP == lane ? 1u << at / WARP : 0;
  return at;
}

/* A warp chooses for a row by a softmax: `active` times the best expert left. */
static __device__ __forceinline__ void choose(const lls_cuda_route &a, uint32_t row)
{
  uint32_t lane = threadIdx.x % WARP;
  const float *scores = a.scores + (size_t)row * a.route.experts;
  uint32_t *expert = a.route.expert + (size_t)row * a.route.active;
  float *weight = a.route.weight + (size_t)row * a.route.active;
  float top = 0, chosen = 0, all = 0, best;
  uint32_t taken = 0;
  for (uint32_t k = 0; k < a.route.active; k++) {
    uint32_t at = take_best(
        a.route.experts, [=](uint32_t e) { return scores[e]; }, taken, best);
    top = k == 0 ? best : top;
    float share = expf(best - top);
    chosen += share;
    if (lane == 0) {
      expert[k] = at;
      weight[k] = share;
    }
  }
  __syncwarp();
  for (uint32_t e = lane; e < a.route.experts; e += WARP)
    all += expf(scores[e] - top);
  all = warp_sum(all);
  for (uint32_t k = lane; k < a.route.active; k += WARP)
    weight[k] = weight[k] / (a.normalise ? chosen : all);
}

/* ---- choosing by more than a softmax ----------------------------------------------- */

/* The scores of a row as a warp sees them. Bytes: the scores once, from then on in L1;
 * `active` + 2 times experts / 32 exponentials of a lane. */
struct preference {
  const lls_route &route;
  const float *scores;
  float top, sum; /* of the softmax */
  uint32_t kept;  /* a bit for each group of experts that are chosen among */

  __device__ __forceinline__ float weight(uint32_t e) const
  {
    return route.logistic ? 1 / (1 + expf(-scores[e])) : expf(scores[e] - top) / sum;
  }
  __device__ __forceinline__ float wanted(uint32_t e) const
  {
    return weight(e) + (route.bias != nullptr ? route.bias[e] : 0);
  }
  __device__ __forceinline__ float operator()(uint32_t e) const
  {
    bool there = route.groups <= 1 || (kept >> e / (route.experts / route.groups) & 1);
    return there ? wanted(e) : -INFINITY;
  }
};

/* Returns the sum of a group's two best experts, or the best one. */
static __device__ __forceinline__ float best_of_group(const preference &p, uint32_t group)
{
  uint32_t each = p.route.experts / p.route.groups;
  float first = -INFINITY, second = -INFINITY;
  for (uint32_t e = group * each; e < (group + 1) * each; e++) {
    float x = p.wanted(e);
    second = x > first ? first : fmaxf(second, x);
    first = fmaxf(first, x);
  }
  return p.route.best_counts ? first : first + second;
}

static __device__ __forceinline__ uint32_t keep_groups(const preference &p)
{
  uint32_t taken = 0, kept = 0, groups = p.route.groups, lane = threadIdx.x % WARP;
  float own = lane < groups ? best_of_group(p, lane) : 0, best;
  for (uint32_t k = 0; k < p.route.used_groups; k++)
    kept |= 1u << take_best(
                groups, [=](uint32_t) { return own; }, taken, best);
  return kept;
}

static __device__ __forceinline__ void choose_otherwise(const lls_cuda_route &a,
                                                        uint32_t row)
{
  const lls_route &r = a.route;
  uint32_t lane = threadIdx.x % WARP, taken = 0;
  uint32_t *expert = r.expert + (size_t)row * r.active;
  float *weight = r.weight + (size_t)row * r.active;
  preference p = {r, a.scores + (size_t)row * r.experts, -INFINITY, 0, 0};
  float chosen = 0, scale = r.scale > 0 ? r.scale : 1, best;
  for (uint32_t e = lane; e < r.experts; e += WARP)
    p.top = fmaxf(p.top, p.scores[e]);
  p.top = warp_max(p.top);
  for (uint32_t e = lane; e < r.experts; e += WARP)
    p.sum += expf(p.scores[e] - p.top);
  p.sum = warp_sum(p.sum);
  if (r.groups > 1)
    p.kept = keep_groups(p);
  for (uint32_t k = 0; k < r.active; k++) {
    uint32_t at = take_best(r.experts, p, taken, best);
    float of = p.weight(at);
    chosen += of;
    if (lane == 0) {
      expert[k] = at;
      weight[k] = of * scale * (r.factor != nullptr ? r.factor[at] : 1);
    }
  }
  __syncwarp();
  for (uint32_t k = lane; k < r.active && a.normalise; k += WARP)
    weight[k] = weight[k] / (chosen + 1e-20f);
}

static __device__ __forceinline__ void choose_any(const lls_cuda_route &a, uint32_t row)
{
  const lls_route &r = a.route;
  if (r.logistic || r.bias != nullptr || r.groups > 1 || r.scale != 0 ||
      r.factor != nullptr)
    choose_otherwise(a, row);
  else
    choose(a, row);
}

__global__ void route_rows(lls_cuda_route a)
{
  let_next_begin();
  wait_for_earlier();
  choose_any(a, blockIdx.x);
}

#define FEW  256  /* entries */
#define MOST 1024 /* threads */

/* A block an expert: entries stay in the order of their rows. Each warp has a part of
 * the entries and counts twice: first the entries of lower experts and of its own
 * expert; then, knowing where its own begin, the place of each one. Bytes: the entries
 * twice, from L2; each thread has four loads under way. */
__global__ void __launch_bounds__(MOST) sort_rows(lls_cuda_route a)
{
  SHARED_ARRAY(uint2, counts, MOST / WARP);
  let_next_begin();
  wait_for_earlier();
  uint32_t e = blockIdx.x, n = a.n_rows * a.route.active;
  uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  uint32_t part = (n + MOST - 1) / MOST * WARP, from = warp * part;
  uint32_t end = from + part < n ? from + part : n, before = 0, own = 0;
  for (uint32_t i = from + lane; i < end; i += WARP) {
    before += a.route.expert[i] < e;
    own += a.route.expert[i] == e;
  }
  for (unsigned bits = WARP / 2; bits > 0; bits /= 2) {
    before += __shfl_xor_sync(ALL_LANES, before, bits);
    own += __shfl_xor_sync(ALL_LANES, own, bits);
  }
  if (lane == 0)
    counts[warp] = uint2{before, own};
  __syncthreads();
  uint32_t first = 0, all = 0, next = 0;
  for (uint32_t i = 0; i < MOST / WARP; i++) {
    uint2 of = counts[i];
    first += of.x;
    all += of.y;
    next += i < warp ? of.y : 0;
  }
  if (threadIdx.x == 0) {
    a.route.first[e] = first;
    if (e + 1 == a.route.experts)
      a.route.first[e + 1] = first + all;
  }
  next += first;
  for (uint32_t at = from; at < end; at += 4 * WARP) { /* whole warps */
    uint32_t of[4];
#pragma unroll
    for (uint32_t k = 0; k < 4; k++) {
      uint32_t i = at + k * WARP + lane;
      of[k] = i < end ? a.route.expert[i] : a.route.experts;
    }
#pragma unroll
    for (uint32_t k = 0; k < 4; k++) {
      unsigned those = __ballot_sync(ALL_LANES, of[k] == e);
      uint32_t place = next + (uint32_t)__popc(those & ((1u << lane) - 1));
      if (of[k] == e) {
        uint32_t i = at + k * WARP + lane;
        a.route.place[i] = place;
        a.route.row[place] = i / a.route.active;
      }
      next += (uint32_t)__popc(those);
    }
  }
}

#define KEY(e, i) ((e) << 10 | (i))
static_assert(LLS_MAX_EXPERTS <= 1024 && FEW <= 1024, "keys are of two times 10 bits");

/* Chooses and sorts in one launch if entries are few, as in decodes; an entry's place
 * is the number of keys below its own. */
__global__ void __launch_bounds__(MOST) route_few(lls_cuda_route a)
{
  SHARED_ARRAY(uint4, four_keys, FEW / 4);
  shared<uint32_t> keys = shared_cast<uint32_t>(four_keys + 0);
  let_next_begin();
  wait_for_earlier();
  uint32_t active = a.route.active, n = a.n_rows * active;
  for (uint32_t row = threadIdx.x / WARP; row < a.n_rows; row += MOST / WARP)
    choose_any(a, row);
  __syncthreads();
  if (threadIdx.x < FEW)
    keys[threadIdx.x] =
        threadIdx.x < n ? KEY(a.route.expert[threadIdx.x], threadIdx.x) : 0xffffffffu;
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < n + a.route.experts + 1; i += MOST) {
    uint32_t below = 0, key = i < n ? (uint32_t)keys[i] : KEY(i - n, 0);
    for (uint32_t k = 0; k < n; k += 4) {
      uint4 of = four_keys[k / 4];
      below += (of.x < key) + (of.y < key) + (of.z < key) + (of.w < key);
    }
    if (i < n) {
      a.route.place[i] = below;
      a.route.row[below] = i / active;
    } else {
      a.route.first[i - n] = below;
    }
  }
}

extern "C" int lls_cuda_run_route(cudaStream_t s, const struct lls_cuda_route *a)
{
  if (a->n_rows == 0)
    return 0;
  if (a->n_rows * a->route.active <= FEW)
    return launch_early(s, route_few, dim3(1), MOST, 0, *a);
  int rc = launch_early(s, route_rows, dim3(a->n_rows), WARP, 0, *a);
  return rc != 0 ? rc : launch_early(s, sort_rows, dim3(a->route.experts), MOST, 0, *a);
}

/* ---- products ---------------------------------------------------------------------- */

/* A warp computes one output of an expert, for ROWS of its rows at a time. */
template <class T> __global__ void multiply_experts(lls_cuda_linear_experts a)
{
  uint32_t e = blockIdx.y, lane = threadIdx.x % WARP;
  uint32_t output = blockIdx.x * WARPS + threadIdx.x / WARP;
  uint32_t begin = a.each > 0 ? 0 : a.first[e], end = a.each;
  if (a.each == 0)
    end = a.first[e + 1];
  if (output >= a.outputs || begin == end)
    return;
  const T *w = (const T *)a.weights[e] + (size_t)output * a.inputs;
  const float *bias = a.biases[e];
  for (uint32_t row = begin; row < end; row += ROWS) {
    uint32_t n = end - row < ROWS ? end - row : ROWS;
    const T *x = (const T *)a.x + (size_t)row * a.x_stride + (size_t)e * a.x_head;
    float sum[ROWS] = {0};
    for (uint32_t i = lane; i < a.inputs; i += WARP) {
      float number = to_float(w[i]);
#pragma unroll
      for (uint32_t r = 0; r < ROWS; r++)
        if (r < n)
          sum[r] += number * to_float(x[(size_t)r * a.x_stride + i]);
    }
#pragma unroll
    for (uint32_t r = 0; r < ROWS; r++) {
      float total = warp_sum(sum[r]);
      if (lane == 0 && r < n)
        ((T *)a.y)[(size_t)(row + r) * a.stride + (size_t)e * a.y_head + output] =
            from_float<T>(total + (bias != nullptr ? bias[output] : 0));
    }
  }
}

extern "C" int lls_cuda_run_linear_experts(cudaStream_t s, enum lls_dtype numbers,
                                           const struct lls_cuda_linear_experts *a)
{
  dim3 grid((a->outputs + WARPS - 1) / WARPS, a->experts);
  if (numbers == LLS_F32)
    return launch(s, multiply_experts<float>, grid, THREADS, 0, *a);
  if ((a->inputs | a->x_stride | a->x_head) % WIDE<bf16> != 0)
    return launch(s, multiply_experts<bf16>, grid, THREADS, 0, *a);
  return lls_cuda_experts_are_many(a) ? lls_cuda_run_experts_many(s, a)
                                      : lls_cuda_run_experts_few(s, a);
}

extern "C" int lls_cuda_experts_setup(void)
{
  int rc = lls_cuda_experts_few_setup();
  return rc != 0 ? rc : lls_cuda_experts_many_setup();
}

/* ---- rows back --------------------------------------------------------------------- */

/* A block computes part of a row, N values a thread. It is bound by bytes: `active`
 * values of x are read for each value of y written. */
template <class T, int N> __global__ void combine_rows(lls_cuda_combine a)
{
  typedef several<T, N> group;
  let_next_begin();
  wait_for_earlier();
  size_t row = blockIdx.x, n = a.columns / N, active = a.route.active;
  size_t i = blockIdx.y * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  float sum[N] = {0};
  if (a.add) {
    const group before = ((const group *)a.y)[row * n + i];
    for (int k = 0; k < N; k++)
      sum[k] = to_float(before.v[k]);
  }
#pragma unroll 4
  for (size_t e = row * active; e < (row + 1) * active; e++) {
    const group x = ((const group *)a.x)[a.route.place[e] * n + i];
    float weight = a.route.weighs_input ? 1 : a.route.weight[e];
    for (int k = 0; k < N; k++)
      sum[k] += weight * to_float(x.v[k]);
  }
  ((group *)a.y)[row * n + i] = round_all<T>(sum);
}

template <class T, int N> static int combine(cudaStream_t s, const lls_cuda_combine *a)
{
  unsigned n = a->columns / N, threads = THREADS / 2;
  return launch_early(s, combine_rows<T, N>, dim3(a->n_rows, (n + threads - 1) / threads),
                      threads, 0, *a);
}

extern "C" int lls_cuda_run_combine(cudaStream_t s, enum lls_dtype numbers,
                                    const struct lls_cuda_combine *a)
{
  if (a->n_rows == 0)
    return 0;
  bool wide = a->columns % WIDE<bf16> == 0;
  if (numbers == LLS_F32)
    return wide ? combine<float, WIDE<float>>(s, a) : combine<float, 1>(s, a);
  return wide ? combine<bf16, WIDE<bf16>>(s, a) : combine<bf16, 1>(s, a);
}
