/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mixtures of experts. How many rows an expert has is known on the device only, and grids
 * do not depend on it, so that a decode step stays one graph.
 *
 * Products in bf16 are experts_few.cu's and experts_many.cu's, those with codes are in
 * codes.cu. What is left is here: f32, and inputs that cannot be read 16 bytes at a time.
 * A block belongs to an expert and some of its outputs, and has nothing to do if no row
 * went there; the expert's matrix is read once for every eight of its rows.
 */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/number.cuh"

#define THREADS 256
#define WARPS   (THREADS / WARP)
#define ROWS    8 /* of a product at a time */

/* ---- choosing ---------------------------------------------------------------------- */

static __device__ __forceinline__ bool is_chosen(const uint32_t *expert, uint32_t n,
                                                 uint32_t e)
{
  bool chosen = false;
  for (uint32_t i = 0; i < n; i++)
    chosen |= expert[i] == e;
  return chosen;
}

/* A larger score, or the first of equals; anything is better than what is no number. */
static __device__ __forceinline__ bool better(float a, uint32_t i, float b, uint32_t j)
{
  return a > b || (!(b > a) && i < j);
}

/* A warp a row: the best expert that is left, `active` times. */
__global__ void route_rows(lls_cuda_route a)
{
  uint32_t row = blockIdx.x, lane = threadIdx.x;
  const float *scores = a.scores + (size_t)row * a.route.experts;
  uint32_t *expert = a.route.expert + (size_t)row * a.route.active;
  float *weight = a.route.weight + (size_t)row * a.route.active;
  float top = 0, chosen = 0, all = 0;
  for (uint32_t k = 0; k < a.route.active; k++) {
    float best = -INFINITY;
    uint32_t at = 0xffffffffu;
    for (uint32_t e = lane; e < a.route.experts; e += WARP) {
      float score = scores[e] == scores[e] ? scores[e] : -INFINITY;
      if (!is_chosen(expert, k, e) && (at == 0xffffffffu || better(score, e, best, at))) {
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
    top = k == 0 ? best : top;
    float share = expf(best - top);
    chosen += share;
    if (lane == 0) {
      expert[k] = at;
      weight[k] = share;
    }
    __syncwarp();
  }
  for (uint32_t e = lane; e < a.route.experts; e += WARP)
    all += expf(scores[e] - top);
  all = warp_sum(all);
  for (uint32_t k = lane; k < a.route.active; k += WARP)
    weight[k] = weight[k] / (a.normalise ? chosen : all);
}

/* One block, a thread for each expert: entries stay in the order of their rows. */
__global__ void sort_rows(lls_cuda_route a)
{
  uint32_t e = threadIdx.x, n = a.n_rows * a.route.active, count = 0;
  if (e < a.route.experts) {
    for (uint32_t i = 0; i < n; i++)
      count += a.route.expert[i] == e;
    a.route.first[e + 1] = count;
  }
  __syncthreads();
  if (e == 0) {
    a.route.first[0] = 0;
    for (uint32_t i = 0; i < a.route.experts; i++)
      a.route.first[i + 1] += a.route.first[i];
  }
  __syncthreads();
  if (e >= a.route.experts)
    return;
  uint32_t next = a.route.first[e];
  for (uint32_t i = 0; i < n; i++) {
    if (a.route.expert[i] != e)
      continue;
    a.route.place[i] = next;
    a.route.row[next++] = i / a.route.active;
  }
}

extern "C" int lls_cuda_run_route(cudaStream_t s, const struct lls_cuda_route *a)
{
  if (a->n_rows == 0)
    return 0;
  int rc = launch(s, route_rows, dim3(a->n_rows), WARP, 0, *a);
  unsigned threads = (a->route.experts + WARP - 1) / WARP * WARP;
  return rc != 0 ? rc : launch(s, sort_rows, dim3(1), threads, 0, *a);
}

/* ---- products ---------------------------------------------------------------------- */

/* A warp has an output of an expert, for ROWS of its rows at a time. */
template <class T> __global__ void multiply_experts(lls_cuda_linear_experts a)
{
  uint32_t e = blockIdx.y, lane = threadIdx.x % WARP;
  uint32_t output = blockIdx.x * WARPS + threadIdx.x / WARP;
  uint32_t begin = a.first[e], end = a.first[e + 1];
  if (output >= a.outputs || begin == end)
    return;
  const T *w = (const T *)a.weights[e] + (size_t)output * a.inputs;
  const float *bias = a.biases[e];
  for (uint32_t row = begin; row < end; row += ROWS) {
    uint32_t n = end - row < ROWS ? end - row : ROWS;
    const T *x = (const T *)a.x + (size_t)row * a.inputs;
    float sum[ROWS] = {0};
    for (uint32_t i = lane; i < a.inputs; i += WARP) {
      float number = to_float(w[i]);
#pragma unroll
      for (uint32_t r = 0; r < ROWS; r++)
        if (r < n)
          sum[r] += number * to_float(x[(size_t)r * a.inputs + i]);
    }
#pragma unroll
    for (uint32_t r = 0; r < ROWS; r++) {
      float total = warp_sum(sum[r]);
      if (lane == 0 && r < n)
        ((T *)a.y)[(size_t)(row + r) * a.stride + output] =
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
  if (a->inputs % WIDE<bf16> != 0)
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

template <class T> __global__ void combine_rows(lls_cuda_combine a)
{
  size_t row = blockIdx.x;
  uint32_t active = a.route.active;
  T *y = (T *)a.y + row * a.columns;
  for (uint32_t k = threadIdx.x; k < a.columns; k += blockDim.x) {
    float sum = a.add ? to_float(y[k]) : 0;
    for (size_t i = row * active; i < (row + 1) * active; i++)
      sum += a.route.weight[i] *
             to_float(((const T *)a.x)[(size_t)a.route.place[i] * a.columns + k]);
    y[k] = from_float<T>(sum);
  }
}

extern "C" int lls_cuda_run_combine(cudaStream_t s, enum lls_dtype numbers,
                                    const struct lls_cuda_combine *a)
{
  if (a->n_rows == 0)
    return 0;
  if (numbers == LLS_F32)
    return launch(s, combine_rows<float>, dim3(a->n_rows), THREADS, 0, *a);
  return launch(s, combine_rows<bf16>, dim3(a->n_rows), THREADS, 0, *a);
}
