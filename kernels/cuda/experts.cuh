/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Divides the products of a mixture's experts among blocks. Rows lie sorted by expert;
 * only the device knows how many each expert has. So a grid is as large as fits on the
 * GPU, every block makes the same list of the experts that have rows, and the tiles of
 * the product are numbered: by expert, within an expert by outputs, within outputs by
 * rows. Neighbouring tiles then use the same weights, which are read from memory once.
 */
#ifndef LLS_CUDA_EXPERTS_CUH
#define LLS_CUDA_EXPERTS_CUH

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/tensor.cuh"

/* An expert that has rows. */
struct busy_expert {
  const bf16 *w;
  const float *bias;
  uint32_t number;      /* of the expert */
  uint32_t begin, rows; /* first row, or 0 for heads; number of rows */
  uint32_t before;      /* tiles of rows of the experts before it */
};

/* The list of busy experts, in shared memory, and the counts of tiles. */
struct shares {
  shared<busy_expert> list;
  uint32_t n;      /* number of busy experts */
  uint32_t groups; /* groups of outputs */
  uint32_t tiles;  /* number of tiles: tiles of rows times groups */
};

/* Where an expert's or a head's row lies in x, and in y. */
static __device__ __forceinline__ const bf16 *x_of(const lls_cuda_linear_experts &a,
                                                   const busy_expert &e, uint32_t row)
{
  return (const bf16 *)a.x + (size_t)(e.begin + row) * a.x_stride +
         (size_t)e.number * a.x_head;
}

static __device__ __forceinline__ bf16 *y_of(const lls_cuda_linear_experts &a,
                                             const busy_expert &e, uint32_t row)
{
  return (bf16 *)a.y + (size_t)(e.begin + row) * a.stride + (size_t)e.number * a.y_head;
}

struct tile {
  busy_expert of;
  uint32_t output, row, rows; /* first output, first row, and number of rows */
};

/* Makes the list for tiles of ROWS rows and groups of OUTPUTS outputs; called by all
 * threads of a block, room (WARPS). Waits for earlier kernels. */
template <uint32_t ROWS, uint32_t OUTPUTS, uint32_t WARPS>
static __device__ __forceinline__ shares share_out(const lls_cuda_linear_experts &a,
                                                   shared<busy_expert> list,
                                                   shared<uint2> room)
{
  uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  uint32_t n = 0, tiles = 0;
  for (uint32_t base = 0; base < a.experts; base += WARPS * WARP) {
    uint32_t e = base + threadIdx.x;
    busy_expert mine = {};
    if (e < a.experts) {
      mine.w = (const bf16 *)a.weights[e];
      mine.bias = a.biases[e];
    }
    wait_for_earlier(); /* weights are already in memory, and no kernel writes them */
    if (e < a.experts) {
      mine.number = e;
      mine.begin = a.each > 0 ? 0 : a.first[e];
      mine.rows = a.each > 0 ? a.each : a.first[e + 1] - mine.begin;
    }
    uint32_t own = (mine.rows + ROWS - 1) / ROWS, sum = own;
    for (uint32_t by = 1; by < WARP; by *= 2) {
      uint32_t below = __shfl_up_sync(ALL_LANES, sum, by);
      sum += lane >= by ? below : 0;
    }
    unsigned busy = __ballot_sync(ALL_LANES, mine.rows > 0);
    if (lane == WARP - 1)
      room[warp] = uint2{(unsigned)__popc(busy), sum};
    __syncthreads();
    uint32_t place = n + (uint32_t)__popc(busy & ((1u << lane) - 1));
    mine.before = tiles + sum - own;
    for (uint32_t i = 0; i < WARPS; i++) {
      uint2 of = room[i];
      place += i < warp ? of.x : 0;
      mine.before += i < warp ? of.y : 0;
      n += of.x;
      tiles += of.y;
    }
    if (mine.rows > 0)
      list[place] = mine;
    __syncthreads();
  }
  uint32_t groups = (a.outputs + OUTPUTS - 1) / OUTPUTS;
  return {list, n, groups, tiles * groups};
}

/* Finds tile t. */
template <uint32_t ROWS, uint32_t OUTPUTS>
static __device__ __forceinline__ tile find_tile(const shares &s, uint32_t t)
{
  uint32_t low = 0, high = s.n; /* the last expert that begins at t or before */
  while (low + 1 < high) {
    uint32_t middle = (low + high) / 2;
    busy_expert e = s.list[middle];
    bool after = e.before * s.groups > t;
    high = after ? middle : high;
    low = after ? low : middle;
  }
  tile found;
  found.of = s.list[low];
  t -= found.of.before * s.groups;
  uint32_t of_rows = (found.of.rows + ROWS - 1) / ROWS;
  found.output = t / of_rows * OUTPUTS;
  found.row = t % of_rows * ROWS;
  found.rows = found.of.rows - found.row < ROWS ? found.of.rows - found.row : ROWS;
  return found;
}

/* Returns the bytes of the list and of share_out's room, which precede other shared
 * memory. */
static __host__ __device__ __forceinline__ size_t shares_bytes(uint32_t experts,
                                                               uint32_t warps)
{
  size_t bytes = experts * sizeof(busy_expert) + warps * sizeof(uint2);
  return (bytes + 127) / 128 * 128;
}

#endif
