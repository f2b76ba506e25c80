/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of a mixture's experts in bf16 where they have many rows, as in prefills.
 *
 * A tile is up to 256 rows and 128 outputs. x is the A operand. Eight warps have 64 of
 * the outputs and every fourth 16 of the rows, so that all have as much to do where an
 * expert has fewer than 256: four kinds of tiles, of 64, 128, 192 and 256 rows, are
 * chosen among as the rows are found, and zeros are multiplied for less than 64 rows of
 * an expert.
 *
 * Of a whole tile and 64 inputs, 48 KiB and 4.2 million multiply-adds, a multiprocessor
 * reads 96 bytes of L2 for 8192 of them: 400 TFLOP/s are 4.7 of the 5.5 TB/s or so that
 * an H100's L2 has. A warp reads four fragments of x and eight of W from shared memory
 * for 32 mma, 4 KiB for 65,536 multiply-adds: half of what shared memory gives in the
 * time.
 *
 * Four stages of 64 inputs in shared memory (three, two on GPUs with less); copies go on
 * over the end of a tile, so that nothing waits at its begin. Rows of 128 bytes have
 * their 16-byte cells in an order of their own, so that the eight rows of an ldmatrix lie
 * in different banks: x's by the row's number. Of W, columns of an mma are outputs in
 * such an order that a lane has eight that follow each other: eight rows of an ldmatrix
 * are two of each of four times eight.
 */
#include "kernels/cuda/experts.cuh"

#define THREADS 256
#define WARPS   (THREADS / WARP)
#define PIECE   64 /* inputs of a stage */
#define CELL    8
#define CELLS   (PIECE / CELL) /* of a row */
#define ROWS    256            /* of a tile */
#define OUTPUTS 128
#define BAND    64                /* rows that all warps have together */
#define APART   (THREADS / CELLS) /* rows of a thread's copies */
#define STAGE   ((OUTPUTS + ROWS) * PIECE)
#define MOST    4 /* stages */

/* ---- copies ------------------------------------------------------------------------ */

/* The pieces of a block's tiles, one after the other; a thread copies one cell of every
 * APART rows. */
struct source {
  uint32_t at; /* tile */
  uint32_t column, stage;
  uint32_t outputs, rows; /* of the tile, from the thread's first row on */
  uint32_t bands;
  const bf16 *w, *x; /* the thread's first rows */
};

struct pipe {
  shares of;
  shared<bf16> stages;
  uint32_t n; /* of them */
};

static __device__ __forceinline__ void point(const lls_cuda_linear_experts &a,
                                             const pipe &p, source &s)
{
  const tile t = find_tile<ROWS, OUTPUTS>(p.of, s.at);
  uint32_t row = threadIdx.x / CELLS;
  s.outputs = a.outputs - t.output > row ? a.outputs - t.output - row : 0;
  s.rows = t.rows > row ? t.rows - row : 0;
  s.bands = (t.rows + BAND - 1) / BAND;
  s.w = t.of.w + (size_t)(t.output + row) * a.inputs;
  s.x = (const bf16 *)a.x + (size_t)(t.of.begin + t.row + row) * a.inputs;
}

/* `n` rows APART of a stage, zeros beyond `there` of them. */
static __device__ __forceinline__ void
copy_row(shared<bf16> to, const bf16 *from, uint32_t i, uint32_t there, uint32_t inputs)
{
  bool is = i * APART < there;
  copy_async(to + i * (APART * PIECE), from + (is ? (size_t)i * APART * inputs : 0), is);
}

/* Begins to copy the next piece, if there is one, and goes on. */
static __device__ __forceinline__ void bring(const lls_cuda_linear_experts &a,
                                             const pipe &p, source &s)
{
  if (s.at < p.of.tiles) {
    uint32_t row = threadIdx.x / CELLS, cell = threadIdx.x % CELLS;
    uint32_t column = s.column + cell * CELL, inside = column < a.inputs;
    uint32_t w_cell = cell ^ (row % 2 + row / 8 % 4 * 2), x_cell = cell ^ row % 8;
    shared<bf16> to = p.stages + (s.stage * STAGE + row * PIECE);
    column = inside ? column : 0;
#pragma unroll
    for (uint32_t i = 0; i < OUTPUTS / APART; i++)
      copy_row(to + w_cell * CELL, s.w + column, i, inside ? s.outputs : 0, a.inputs);
    to = to + OUTPUTS * PIECE;
#pragma unroll
    for (uint32_t i = 0; i < ROWS / APART; i++)
      if (i < s.bands * (BAND / APART))
        copy_row(to + x_cell * CELL, s.x + column, i, inside ? s.rows : 0, a.inputs);
    s.stage = s.stage + 1 == p.n ? 0 : s.stage + 1;
    s.column += PIECE;
    if (s.column >= a.inputs) {
      s.column = 0;
      s.at += gridDim.x;
      if (s.at < p.of.tiles)
        point(a, p, s);
    }
  }
  copy_async_commit();
}

/* Until the oldest of the stages on their way is there, for all. */
static __device__ __forceinline__ void wait(const pipe &p)
{
  if (p.n == 4)
    copy_async_wait_but<2>();
  else if (p.n == 3)
    copy_async_wait_but<1>();
  else
    copy_async_wait_but<0>();
  __syncthreads();
}

/* ---- products ---------------------------------------------------------------------- */

/* Fragments that a warp multiplies at once, of 16 inputs: a lane's registers. */
template <int BANDS> struct fragments {
  uint32_t x[BANDS][4], w[4][4];
};

template <int BANDS>
static __device__ __forceinline__ void load(fragments<BANDS> &f, shared<bf16> stage,
                                            int k)
{
  uint32_t lane = threadIdx.x % WARP, matrix = lane / 8, i = lane % 8;
  uint32_t warp = threadIdx.x / WARP, row = warp % 4 * 16 + matrix % 2 * 8 + i;
  uint32_t output = warp / 4 * 64 + i / 2 * 8 + i % 2 + matrix / 2 * 2;
  shared<bf16> x = stage + (OUTPUTS + row) * PIECE + ((2 * k + matrix / 2) ^ i) * CELL;
  shared<bf16> w = stage + output * PIECE + ((2 * k + matrix % 2) ^ i) * CELL;
#pragma unroll
  for (int n = 0; n < BANDS; n++)
    ldmatrix(f.x[n], x + n * (BAND * PIECE));
#pragma unroll
  for (int n = 0; n < 4; n++)
    ldmatrix(f.w[n], w + (n / 2 * 32 + n % 2 * 4) * PIECE);
}

/* sum[n][j]: of the band's 16 rows of the warp, and of outputs 2j and 2j + 1 of each
 * lane's eight, those of the second 32 from j = 4 on. */
template <int BANDS>
static __device__ __forceinline__ void multiply(float (&sum)[BANDS][8][4],
                                                const fragments<BANDS> &f)
{
#pragma unroll
  for (int j = 0; j < 8; j++)
#pragma unroll
    for (int n = 0; n < BANDS; n++)
      mma(sum[n][j], f.x[n], f.w[j / 2][j % 2 * 2], f.w[j / 2][j % 2 * 2 + 1]);
}

/* Eight outputs of a row. */
static __device__ __forceinline__ void store(const lls_cuda_linear_experts &a,
                                             const tile &t, uint32_t row, uint32_t output,
                                             const float (&sum)[8])
{
  float total[8];
  if (row >= t.rows || output >= a.outputs)
    return;
#pragma unroll
  for (uint32_t i = 0; i < 8; i++) {
    bool biased = t.of.bias != nullptr && output + i < a.outputs;
    total[i] = sum[i] + (biased ? t.of.bias[output + i] : 0);
  }
  bf16 *y = (bf16 *)a.y + (size_t)(t.of.begin + t.row + row) * a.stride + output;
  const several<bf16, 8> rounded = round_all<bf16>(total);
  if (a.wide) {
    *(several<bf16, 8> *)y = rounded;
    return;
  }
#pragma unroll
  for (uint32_t i = 0; i < 8; i++)
    if (output + i < a.outputs)
      y[i] = rounded.v[i];
}

template <int BANDS>
static __device__ __forceinline__ void multiply_tile(const lls_cuda_linear_experts &a,
                                                     const pipe &p, source &s,
                                                     uint32_t &stage, const tile &t)
{
  float sum[BANDS][8][4] = {};
  for (uint32_t k = 0; k < a.inputs; k += PIECE) {
    wait(p);
    bring(a, p, s); /* where the piece before was */
    shared<bf16> here = p.stages + stage * STAGE;
    fragments<BANDS> f[2];
    load(f[0], here, 0);
#pragma unroll
    for (int i = 0; i < PIECE / 16; i++) {
      if (i + 1 < PIECE / 16)
        load(f[(i + 1) % 2], here, i + 1);
      multiply(sum, f[i % 2]);
    }
    stage = stage + 1 == p.n ? 0 : stage + 1;
  }
  uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
#pragma unroll
  for (int i = 0; i < 4 * BANDS; i++) { /* two rows of two times eight outputs */
    int n = i / 4, of = i / 2 % 2, at = i % 2;
    uint32_t row = n * BAND + warp % 4 * 16 + of * 8 + lane / 4;
    uint32_t output = t.output + warp / 4 * 64 + at * 32 + lane % 4 * 8;
    float eight[8];
#pragma unroll
    for (int j = 0; j < 8; j++)
      eight[j] = sum[n][at * 4 + j / 2][of * 2 + j % 2];
    store(a, t, row, output, eight);
  }
}

/* Bytes: W and x once, and what L2 does not keep of x again. Operations: 2 for each of
 * W's numbers and each row. */
__global__ void __launch_bounds__(THREADS, 1)
    multiply_many(lls_cuda_linear_experts a, uint32_t n_stages)
{
  shared<unsigned char> all = dynamic_shared<unsigned char>();
  shared<busy_expert> list =
      shared_cast<busy_expert>(all + n_stages * STAGE * sizeof(bf16));
  pipe p;
  p.stages = shared_cast<bf16>(all);
  p.n = n_stages;
  p.of = share_out<ROWS, OUTPUTS, WARPS>(a, list,
                                         shared_cast<uint2>(list + (size_t)a.experts));
  source s = {blockIdx.x, 0, 0, 0, 0, 0, nullptr, nullptr};
  if (s.at < p.of.tiles)
    point(a, p, s);
  for (uint32_t i = 0; i + 1 < p.n; i++)
    bring(a, p, s);
  uint32_t stage = 0;
  for (uint32_t at = blockIdx.x; at < p.of.tiles; at += gridDim.x) {
    const tile t = find_tile<ROWS, OUTPUTS>(p.of, at);
    switch ((t.rows + BAND - 1) / BAND) {
    case 1:
      multiply_tile<1>(a, p, s, stage, t);
      break;
    case 2:
      multiply_tile<2>(a, p, s, stage, t);
      break;
    case 3:
      multiply_tile<3>(a, p, s, stage, t);
      break;
    default:
      multiply_tile<4>(a, p, s, stage, t);
    }
  }
}

/* ---- starting ---------------------------------------------------------------------- */

/* Where an expert has this many rows on the average, its weights are read again by
 * experts_few.cu, or there is more to multiply than to read. */
#define MANY 8

/* As many as there is room for. */
static uint32_t stages_of(const lls_cuda_linear_experts *a)
{
  size_t n = (most_shared() - shares_bytes(a->experts, WARPS)) / (STAGE * sizeof(bf16));
  return n < MOST ? (uint32_t)n : MOST;
}

extern "C" bool lls_cuda_experts_are_many(const struct lls_cuda_linear_experts *a)
{
  return a->entries > MANY * a->experts && stages_of(a) >= 2;
}

extern "C" int lls_cuda_run_experts_many(cudaStream_t s,
                                         const struct lls_cuda_linear_experts *a)
{
  uint32_t n = stages_of(a);
  size_t bytes = n * STAGE * sizeof(bf16) + shares_bytes(a->experts, WARPS);
  return launch(s, multiply_many, dim3(a->processors), THREADS, bytes, *a, n);
}

extern "C" int lls_cuda_experts_many_setup(void)
{
  return allow_shared(multiply_many, most_shared());
}
