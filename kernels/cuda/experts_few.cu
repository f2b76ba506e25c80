/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of a mixture's experts in bf16 where they have few rows each, as in decodes:
 * the weights of experts with rows are read once, and reading them takes most of the
 * time.
 *
 * A tile is up to 16 rows and 16 or 32 outputs; a block's eight warps take its pieces
 * of 64 inputs in turns and add their sums up in a fixed order, so that a row's result
 * does not depend on the other rows of the step. W is the A operand. A lane's 16 bytes
 * of a row of W are eight consecutive inputs, and so are those of x. The mma numbers
 * its inputs in another order, which does not matter to the sum as long as W and x
 * agree.
 *
 * Bytes under way. W goes through a ring in shared memory with a separate part for each
 * thread: a thread waits for its own copies only, and its copies continue across the
 * end of a tile. A block has 48 to 64 KiB under way and a multiprocessor twice that;
 * 4.8 TB/s at a latency of 1 us need 36.
 *
 * Per piece of 16 outputs (2 KiB) a warp has four copies, four reads of shared memory,
 * two loads of x and four mma for each eight rows, about 30 instructions. x comes from
 * L1 or L2: half of W's bytes at 16 rows and 32 outputs, where L2 gives 1.4 times what
 * memory does. Blocks take consecutive tiles, so that part of x is in L1.
 */
#include "kernels/cuda/experts.cuh"

#define THREADS 256
#define WARPS   (THREADS / WARP)
#define PIECE   64 /* inputs of a piece */
#define CELL    8  /* elements of a copy */
#define ROWS    16 /* rows of a tile */
#define SIXTEEN 16 /* outputs of an mma; two lanes' copies cover as many rows of W */
#define EIGHT   8  /* rows of an mma */

/* The layout of tiles of WIDTH times 16 outputs. */
template <int WIDTH> struct layout {
  static constexpr int OUTPUTS = WIDTH * SIXTEEN;
  static constexpr int STAGES = 4 / WIDTH;
  static constexpr int CELLS = 4 * WIDTH; /* copies of a thread in each stage */
  /* sums from row to row; puts rows in different banks */
  static constexpr int STRIDE = OUTPUTS + 4;
  static constexpr int SUMS = WARPS * EIGHT * STRIDE;
  static constexpr size_t RING = (size_t)STAGES * CELLS * THREADS * CELL * sizeof(bf16);
};

template <int WIDTH> static size_t shared_bytes(uint32_t experts)
{
  return shares_bytes(experts, WARPS) + layout<WIDTH>::RING +
         2 * layout<WIDTH>::SUMS * sizeof(float);
}

/* The pieces that a warp copies, tile after tile. */
struct source {
  uint32_t at, end; /* present tile, end of the warp's tiles */
  uint32_t piece, stage;
  const bf16 *w[4]; /* the lane's two rows of each 16 outputs */
};

/* The block's shared memory. */
struct places {
  shares of;
  shared<bf16> ring;  /* the thread's part of the ring */
  shared<float> sums; /* (2) sums of a tile, used alternately */
};

template <int WIDTH>
static __device__ __forceinline__ void point(const lls_cuda_linear_experts &a,
                                             const places &p, source &s)
{
  uint32_t lane = threadIdx.x % WARP, last = a.outputs - 1;
  const tile t = find_tile<ROWS, layout<WIDTH>::OUTPUTS>(p.of, s.at);
#pragma unroll
  for (int i = 0; i < 2 * WIDTH; i++) {
    uint32_t output = t.output + lane / 4 + EIGHT * i;
    s.w[i] =
        t.of.w + (size_t)(output < last ? output : last) * a.inputs + lane % 4 * CELL;
  }
}

/* Begins to copy the next piece, if there is one, and advances. */
template <int WIDTH>
static __device__ __forceinline__ void bring(const lls_cuda_linear_experts &a,
                                             const places &p, source &s)
{
  typedef layout<WIDTH> l;
  if (s.at < s.end) {
    uint32_t at = s.piece * PIECE, column = at + threadIdx.x % 4 * CELL;
#pragma unroll
    for (int i = 0; i < l::CELLS; i++) {
      bool there = column + i % 2 * (PIECE / 2) < a.inputs;
      const bf16 *from = s.w[i / 2] + at + i % 2 * (PIECE / 2);
      copy_async(p.ring + (s.stage * l::CELLS + i) * (THREADS * CELL),
                 there ? from : s.w[i / 2], there);
    }
    s.stage = s.stage + 1 == l::STAGES ? 0 : s.stage + 1;
    s.piece += WARPS;
    if (s.piece * PIECE >= a.inputs) {
      s.piece = threadIdx.x / WARP;
      if (++s.at < s.end)
        point<WIDTH>(a, p, s);
    }
  }
  copy_async_commit();
}

/* Computes the sums of a warp's pieces of one tile, for N times eight rows. */
template <int WIDTH, int N>
static __device__ __forceinline__ void
add_pieces(const lls_cuda_linear_experts &a, const places &p, source &s, uint32_t &stage,
           const tile &t, float (&sum)[N][WIDTH][4])
{
  typedef layout<WIDTH> l;
  uint32_t lane = threadIdx.x % WARP;
  const bf16 *x[N];
#pragma unroll
  for (int n = 0; n < N; n++) {
    uint32_t row = EIGHT * n + lane / 4 < t.rows ? EIGHT * n + lane / 4 : t.rows - 1;
    x[n] = x_of(a, t.of, t.row + row);
  }
  for (uint32_t k = threadIdx.x / WARP * PIECE; k < a.inputs; k += WARPS * PIECE) {
    uint4 of_x[N][2];
#pragma unroll
    for (int i = 0; i < 2 * N; i++) {
      uint32_t column = k + i % 2 * (PIECE / 2) + lane % 4 * CELL;
      of_x[i / 2][i % 2] = uint4{0, 0, 0, 0};
      if (column < a.inputs)
        of_x[i / 2][i % 2] = *(const uint4 *)(x[i / 2] + column);
    }
    bring<WIDTH>(a, p, s);
    copy_async_wait_but<l::STAGES - 1>();
    shared<uint4> cells = shared_cast<uint4>(p.ring) + stage * l::CELLS * THREADS;
#pragma unroll
    for (int i = 0; i < 2 * WIDTH; i++) { /* halves of a piece of 16 outputs */
      uint4 low = cells[(i / 2 * 4 + i % 2) * THREADS];
      uint4 high = cells[(i / 2 * 4 + i % 2 + 2) * THREADS];
      const uint32_t first[4] = {low.x, high.x, low.y, high.y};
      const uint32_t second[4] = {low.z, high.z, low.w, high.w};
#pragma unroll
      for (int n = 0; n < N; n++) {
        mma(sum[n][i / 2], first, of_x[n][i % 2].x, of_x[n][i % 2].y);
        mma(sum[n][i / 2], second, of_x[n][i % 2].z, of_x[n][i % 2].w);
      }
    }
    stage = stage + 1 == l::STAGES ? 0 : stage + 1;
  }
}

/* Adds up the warps' sums of eight rows, and writes them. `room` was last read before
 * the previous barrier. */
template <int WIDTH>
static __device__ __forceinline__ void
finish(const lls_cuda_linear_experts &a, const tile &t, uint32_t first,
       const float (&sum)[WIDTH][4], shared<float> room)
{
  typedef layout<WIDTH> l;
  uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
#pragma unroll
  for (int i = 0; i < 4 * WIDTH; i++) {
    uint32_t row = lane % 4 * 2 + i % 2, output = i / 2 * EIGHT + lane / 4;
    room[(warp * EIGHT + row) * l::STRIDE + output] = sum[i / 4][i % 4];
  }
  __syncthreads();
  uint32_t row = threadIdx.x / l::OUTPUTS, column = threadIdx.x % l::OUTPUTS;
  uint32_t output = t.output + column;
  if (row >= EIGHT || first + row >= t.rows || output >= a.outputs)
    return;
  float total = 0;
#pragma unroll
  for (int i = 0; i < WARPS; i++)
    total += room[(i * EIGHT + row) * l::STRIDE + column];
  total += t.of.bias != nullptr ? t.of.bias[output] : 0;
  y_of(a, t.of, t.row + first + row)[output] = from_float<bf16>(total);
}

template <int WIDTH, int N>
static __device__ __forceinline__ void
multiply_tile(const lls_cuda_linear_experts &a, const places &p, source &s,
              uint32_t &stage, const tile &t, uint32_t &turn)
{
  float sum[N][WIDTH][4] = {};
  add_pieces<WIDTH, N>(a, p, s, stage, t, sum);
#pragma unroll
  for (int n = 0; n < N; n++, turn ^= 1)
    finish<WIDTH>(a, t, EIGHT * n, sum[n], p.sums + turn * layout<WIDTH>::SUMS);
}

/* Bytes: W of the experts with rows, once. Operations: 2 for each element of W and each
 * of 8 or 16 rows. */
template <int WIDTH>
__global__ void __launch_bounds__(THREADS, 2) multiply_few(lls_cuda_linear_experts a)
{
  typedef layout<WIDTH> l;
  let_next_begin();
  shared<unsigned char> all = dynamic_shared<unsigned char>();
  shared<busy_expert> list = shared_cast<busy_expert>(all);
  places p;
  p.of = share_out<ROWS, l::OUTPUTS, WARPS>(
      a, list, shared_cast<uint2>(all + a.experts * sizeof(busy_expert)));
  all = all + shares_bytes(a.experts, WARPS);
  p.ring = shared_cast<bf16>(all) + threadIdx.x * CELL;
  p.sums = shared_cast<float>(all + l::RING);
  uint32_t from = (uint32_t)((uint64_t)p.of.tiles * blockIdx.x / gridDim.x);
  uint32_t end = (uint32_t)((uint64_t)p.of.tiles * (blockIdx.x + 1) / gridDim.x);
  source s = {from, end, threadIdx.x / WARP, 0, {}};
  if (s.piece * PIECE >= a.inputs) /* the warp has no inputs */
    s.at = s.end;
  if (s.at < s.end)
    point<WIDTH>(a, p, s);
  for (int i = 0; i < l::STAGES - 1; i++)
    bring<WIDTH>(a, p, s);
  uint32_t stage = 0, turn = 0;
  for (uint32_t at = from; at < end; at++) {
    const tile t = find_tile<ROWS, l::OUTPUTS>(p.of, at);
    if (t.rows <= EIGHT)
      multiply_tile<WIDTH, 1>(a, p, s, stage, t, turn);
    else
      multiply_tile<WIDTH, 2>(a, p, s, stage, t, turn);
  }
}

/* ---- starting ---------------------------------------------------------------------- */

#define BLOCKS 2 /* blocks per multiprocessor */
/* tiles of a block; if it has fewer, tiles of 16 outputs divide the work better */
#define TILES 8

template <int WIDTH>
static int start(cudaStream_t s, const lls_cuda_linear_experts *a, uint32_t tiles)
{
  uint32_t blocks = a->processors * BLOCKS;
  return launch_early(s, multiply_few<WIDTH>, dim3(blocks < tiles ? blocks : tiles),
                      THREADS, shared_bytes<WIDTH>(a->experts), *a);
}

extern "C" int lls_cuda_run_experts_few(cudaStream_t s,
                                        const struct lls_cuda_linear_experts *a)
{
  /* the number of busy experts if no two entries have the same expert */
  uint32_t busy = a->entries < a->experts ? a->entries : a->experts;
  uint32_t tiles = busy * ((a->outputs + 2 * SIXTEEN - 1) / (2 * SIXTEEN));
  if (tiles >= TILES * BLOCKS * a->processors)
    return start<2>(s, a, tiles);
  return start<1>(s, a, busy * ((a->outputs + SIXTEEN - 1) / SIXTEEN));
}

/* Sets the kernel's shared memory; the rest is left to L1, for x. */
template <int WIDTH> static int allow()
{
  size_t wanted = shared_bytes<WIDTH>(LLS_MAX_EXPERTS), most = most_shared();
  return allow_shared(multiply_few<WIDTH>, wanted < most ? wanted : most, 75);
}

extern "C" int lls_cuda_experts_few_setup(void)
{
  int rc = allow<1>();
  return rc != 0 ? rc : allow<2>();
}
