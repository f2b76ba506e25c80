/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of a mixture's experts in bf16 where they have many rows, as in prefills.
 *
 * x is the A operand. Eight warps have 64 of a tile's outputs each and every fourth, or
 * second, 16 of its rows: so all warps have equal work where an expert has fewer rows
 * than the tile. A tile is multiplied in 1 to 4 bands of 64 or 32 rows, as many as its
 * rows need; an incomplete band is filled with zeros.
 *
 *   up to 256 rows, 128 outputs   for experts that mostly have more than 128 rows
 *   up to 128 rows, 256 outputs   W is most of the bytes read, at the speed of memory
 *
 * Of a whole tile and 64 inputs, 48 KiB and 2.1 million multiply-adds, a multiprocessor
 * reads a byte of L2 for 43 of them: 400 TFLOP/s are 4.7 of the 5.5 TB/s or so that an
 * H100's L2 has. A warp reads four fragments of x and eight of W from shared memory for
 * 32 mma, 4 KiB for 65,536 multiply-adds: half of what shared memory gives in the time.
 *
 * Four stages of 64 inputs are in shared memory (three or two on GPUs with less);
 * copies continue across the end of a tile, so that nothing waits at its beginning.
 * The 16-byte cells of a 128-byte row are permuted so that the eight rows of an
 * ldmatrix lie in different banks: for x by the row's number. For W the columns of an
 * mma are outputs in such an order that a lane has eight consecutive ones: the eight
 * rows of an ldmatrix are two of each of four groups of eight.
 */
#include "kernels/cuda/experts.cuh"

#define THREADS 256
#define WARPS   (THREADS / WARP)
#define PIECE   64 /* inputs of a stage */
#define CELL    8
#define CELLS   (PIECE / CELL)    /* cells of a row */
#define APART   (THREADS / CELLS) /* distance of the rows that a thread copies */
#define STAGE   (384 * PIECE)     /* elements */
#define MOST    4                 /* most stages; most bands of a tile */
/* the last of a piece's groups of 16 inputs, one an mma */
#define LAST   (PIECE / 16 - 1)
#define THIRDS LAST /* parts that a piece's copies are divided into */

/* The layout of tiles whose rows are divided among ACROSS warps. */
template <int ACROSS> struct layout {
  static constexpr uint32_t BAND = 16 * ACROSS, ROWS = MOST * BAND,
                            OUTPUTS = 64 * WARPS / ACROSS;
  static_assert((OUTPUTS + ROWS) * PIECE == STAGE, "a stage is W's rows and x's");
};

/* ---- copies ------------------------------------------------------------------------ */

/* The pieces of a block's tiles, one after the other; a thread copies one cell of every
 * APART-th row. */
struct source {
  uint32_t at; /* present tile */
  uint32_t column, stage;
  uint32_t outputs, rows; /* left in the tile from the thread's first row on */
  uint32_t bands;
  const bf16 *w, *x; /* the thread's first cells */
};

struct pipe {
  shares of;
  shared<bf16> stages;
  uint32_t n; /* number of stages */
};

template <class L>
static __device__ __forceinline__ void point(const lls_cuda_linear_experts &a,
                                             const pipe &p, source &s)
{
  uint32_t row = threadIdx.x / CELLS, cell = threadIdx.x % CELLS * CELL;
  s.column = 0;
  s.outputs = s.rows = s.bands = 0; /* no tile is left */
  if (s.at >= p.of.tiles)
    return;
  const tile t = find_tile<L::ROWS, L::OUTPUTS>(p.of, s.at);
  s.outputs = a.outputs - t.output > row ? a.outputs - t.output - row : 0;
  s.rows = t.rows > row ? t.rows - row : 0;
  s.bands = (t.rows + L::BAND - 1) / L::BAND;
  s.w = t.of.w + (size_t)(t.output + row) * a.inputs + cell;
  s.x = x_of(a, t.of, t.row + row) + cell;
}

/* Begins a third of the copies of the next piece, without branches, since they are
 * interleaved with the mma of another piece. After the last piece zeros are copied. */
template <class L>
static __device__ __forceinline__ void
bring(const lls_cuda_linear_experts &a, const pipe &p, const source &s, uint32_t third)
{
  constexpr uint32_t OF_W = L::OUTPUTS / APART, EACH = STAGE / PIECE / APART / THIRDS;
  uint32_t row = threadIdx.x / CELLS, cell = threadIdx.x % CELLS;
  uint32_t w_cell = cell ^ (row % 2 + row / 8 % 4 * 2), x_cell = cell ^ row % 8;
  bool inside = s.column + cell * CELL < a.inputs;
  uint32_t outputs = inside ? s.outputs : 0, rows = inside ? s.rows : 0;
  shared<bf16> to = p.stages + (s.stage * STAGE + row * PIECE);
#pragma unroll
  for (uint32_t i = third * EACH; i < (third + 1) * EACH; i++) {
    uint32_t of_x = i - OF_W;
    if (i < OF_W)
      copy_async(to + (i * (APART * PIECE) + w_cell * CELL),
                 s.w + s.column + (size_t)i * APART * a.inputs, i * APART < outputs);
    else if (of_x < s.bands * (L::BAND / APART))
      copy_async(to + (i * (APART * PIECE) + x_cell * CELL),
                 s.x + s.column + (size_t)of_x * APART * a.x_stride, of_x * APART < rows);
  }
}

/* Advances to the next piece, after all thirds. */
template <class L>
static __device__ __forceinline__ void go_on(const lls_cuda_linear_experts &a,
                                             const pipe &p, source &s)
{
  copy_async_commit();
  s.stage = s.stage + 1 == p.n ? 0 : s.stage + 1;
  s.column += PIECE;
  if (s.column >= a.inputs) {
    s.at += gridDim.x;
    point<L>(a, p, s);
  }
}

/* Waits until all threads' copies of the oldest stage under way have arrived. */
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

/* The fragments that a warp multiplies at once, for 16 inputs: a lane's registers. */
template <int BANDS> struct fragments {
  uint32_t x[BANDS][4], w[4][4];
};

template <int ACROSS, int BANDS>
static __device__ __forceinline__ void load(fragments<BANDS> &f, shared<bf16> stage,
                                            int k)
{
  uint32_t lane = threadIdx.x % WARP, matrix = lane / 8, i = lane % 8;
  uint32_t warp = threadIdx.x / WARP, row = warp % ACROSS * 16 + matrix % 2 * 8 + i;
  uint32_t output = warp / ACROSS * 64 + i / 2 * 8 + i % 2 + matrix / 2 * 2;
  shared<bf16> x =
      stage + (layout<ACROSS>::OUTPUTS + row) * PIECE + ((2 * k + matrix / 2) ^ i) * CELL;
  shared<bf16> w = stage + output * PIECE + ((2 * k + matrix % 2) ^ i) * CELL;
#pragma unroll
  for (int n = 0; n < BANDS; n++)
    ldmatrix(f.x[n], x + n * (layout<ACROSS>::BAND * PIECE));
#pragma unroll
  for (int n = 0; n < 4; n++)
    ldmatrix(f.w[n], w + (n / 2 * 32 + n % 2 * 4) * PIECE);
}

/* Multiplies. sum[n][j] belongs to 16 rows of the warp in the band, and to outputs 2j
 * and 2j + 1 of each lane's eight; from j = 4 on to those of the second 32 outputs. */
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

/* Writes eight outputs of a row. */
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
  bf16 *y = y_of(a, t.of, t.row + row) + output;
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

template <int ACROSS, int BANDS>
static __device__ __forceinline__ void multiply_tile(const lls_cuda_linear_experts &a,
                                                     const pipe &p, source &s,
                                                     uint32_t &stage, const tile &t)
{
  typedef layout<ACROSS> l;
  float sum[BANDS][8][4] = {};
  fragments<BANDS> f[2];
  wait(p);
  load<ACROSS>(f[0], p.stages + stage * STAGE, 0);
  for (uint32_t k = 0; k < a.inputs; k += PIECE) {
    shared<bf16> here = p.stages + stage * STAGE;
    stage = stage + 1 == p.n ? 0 : stage + 1;
#pragma unroll
    for (int i = 0; i < LAST; i++) {
      load<ACROSS>(f[(i + 1) % 2], here, i + 1);
      bring<l>(a, p, s, i); /* into the stage of the piece before */
      multiply(sum, f[i % 2]);
    }
    go_on<l>(a, p, s);
    /* the first ones of the next piece, while the last of this one are multiplied */
    if (k + PIECE < a.inputs) {
      wait(p);
      load<ACROSS>(f[(LAST + 1) % 2], p.stages + stage * STAGE, 0);
    }
    multiply(sum, f[LAST % 2]);
  }
  uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
#pragma unroll
  for (int i = 0; i < 4 * BANDS; i++) { /* two rows of two groups of eight outputs */
    int n = i / 4, of = i / 2 % 2, at = i % 2;
    uint32_t row = n * l::BAND + warp % ACROSS * 16 + of * 8 + lane / 4;
    uint32_t output = t.output + warp / ACROSS * 64 + at * 32 + lane % 4 * 8;
    float eight[8];
#pragma unroll
    for (int j = 0; j < 8; j++)
      eight[j] = sum[n][at * 4 + j / 2][of * 2 + j % 2];
    store(a, t, row, output, eight);
  }
}

/* Bytes: W and x once, plus what L2 loses of x. Operations: 2 for each element of W and
 * each row. */
template <int ACROSS>
__global__ void __launch_bounds__(THREADS, 1)
    multiply_many(lls_cuda_linear_experts a, uint32_t n_stages)
{
  typedef layout<ACROSS> l;
  let_next_begin();
  shared<unsigned char> all = dynamic_shared<unsigned char>();
  shared<busy_expert> list =
      shared_cast<busy_expert>(all + n_stages * STAGE * sizeof(bf16));
  pipe p;
  p.stages = shared_cast<bf16>(all);
  p.n = n_stages;
  p.of = share_out<l::ROWS, l::OUTPUTS, WARPS>(
      a, list, shared_cast<uint2>(list + (size_t)a.experts));
  const bf16 *x = (const bf16 *)a.x;
  source s = {blockIdx.x, 0, 0, 0, 0, 0, x, x};
  point<l>(a, p, s);
  for (uint32_t i = 0; i + 1 < p.n; i++) {
    for (uint32_t third = 0; third < THIRDS; third++)
      bring<l>(a, p, s, third);
    go_on<l>(a, p, s);
  }
  uint32_t stage = 0;
  for (uint32_t at = blockIdx.x; at < p.of.tiles; at += gridDim.x) {
    const tile t = find_tile<l::ROWS, l::OUTPUTS>(p.of, at);
    switch ((t.rows + l::BAND - 1) / l::BAND) {
    case 1:
      multiply_tile<ACROSS, 1>(a, p, s, stage, t);
      break;
    case 2:
      multiply_tile<ACROSS, 2>(a, p, s, stage, t);
      break;
    case 3:
      multiply_tile<ACROSS, 3>(a, p, s, stage, t);
      break;
    default:
      multiply_tile<ACROSS, 4>(a, p, s, stage, t);
    }
  }
}

/* ---- starting ---------------------------------------------------------------------- */

/* With this many rows an expert on average experts_few.cu would read weights again, or
 * there is more to multiply than to read. */
#define MANY 8
/* With this many rows most experts have more than a tile of 128. */
#define LARGE 96

/* Returns the number of stages for which shared memory has space. */
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
  auto kernel = a->entries > LARGE * a->experts ? multiply_many<4> : multiply_many<2>;
  return launch_early(s, kernel, dim3(a->processors), THREADS, bytes, *a, n);
}

extern "C" int lls_cuda_experts_many_setup(void)
{
  int rc = allow_shared(multiply_many<4>, most_shared());
  return rc != 0 ? rc : allow_shared(multiply_many<2>, most_shared());
}
