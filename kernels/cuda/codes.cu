/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products with weights of 4 to 8 bits, bf16 x and sums in f32.
 *
 * Few rows: weights are read once, as codes, and that is the time it takes. A block has
 * 16 outputs; its eight warps take its pieces (codes.h) in turns and add their sums up at
 * the end, in their order, so that a row's result does not depend on what else is in the
 * step. Per 32 columns of the 16 outputs a warp
 *
 *   reads    256 bytes of 4-bit codes in 16-byte loads, the piece after the next already
 *            under way, and 64 of scales
 *   makes    16 codes of a lane bf16: 22 instructions (codes.cuh)
 *   loads    16 bytes of x a lane for eight rows: from L1, which has room for the 128 KiB
 *            of 16 rows of 4096 and nothing else to keep
 *   does     two mma and four fma with the scale, for eight rows
 *
 * in about 40 instructions for eight rows and 50 for 16: 16 bytes an instruction and
 * warp at a time. H100's 132 multiprocessors issue four each at 1.7 GHz, 0.9e12 in all,
 * which is 5 TB/s of codes and scales, where its memory has 3.3. So 16 rows are
 * multiplied at one go; each 16 more do it again, with the codes in L2.
 *
 * x is not copied to shared memory: warps of a block have different columns, so nobody
 * would read it twice.
 *
 * Many rows: some outputs at a time are made bf16, for cuBLASLt (linear.c).
 */
#include "kernels/cuda/codes.cuh"

#define THREADS 256
#define WARPS   (THREADS / WARP)
#define OUTPUTS 16 /* of a block */
#define TILE    8  /* rows of an mma */

/* Tiles at one go: what there are registers for, of 16 warps on a multiprocessor. */
template <enum lls_codes_form F>
static constexpr uint32_t TILES = F == LLS_CODES5_OFFSET ? 1 : 2;

/* ---- few rows --------------------------------------------------------------------- */

/* Eight numbers of a row: k + 8 t on, or for groups of 16 two times four. Those beyond
 * the last column are any, for their codes mean 0, or their scale is. */
template <uint32_t GROUP>
static __device__ __forceinline__ void load_x(uint32_t (&to)[4], const bf16 *x,
                                              uint32_t row, uint32_t k, uint32_t columns,
                                              uint32_t t)
{
  uint32_t at = k + (GROUP == 16 ? 4 : 8) * t;
  if (GROUP == 32) {
    load_words<4>(to, x + row + (at < columns ? at : 0));
  } else {
    load_words<2>(to, x + row + (at < columns ? at : 0));
    load_words<2>(to + 2, x + row + (at + 16 < columns ? at + 16 : 0));
  }
}

/* One piece of 16 outputs (two of each lane) times up to N tiles of rows. */
template <enum lls_codes_form F, int N>
static __device__ __forceinline__ void
multiply_piece(float (&sum)[N][4], const piece<F> (&c)[2], const bf16 *x, uint32_t k,
               uint32_t columns, uint32_t n_rows)
{
  constexpr int GROUP = lls_cuda_codes_group(F), MMAS = GROUP / 16;
  constexpr int EACH = lls_cuda_codes_offset(F) ? 2 : 1;
  uint32_t lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int q = 0; q < (int)lls_cuda_piece_columns(F) / 32; q++) {
    uint32_t a[2][4]; /* of two mma: outputs g and g + 8 in turns */
#pragma unroll
    for (int i = 0; i < 8; i++)
      a[i / 4][i % 4] = pair_of<F>(c[i % 2], q, i / 2);
#pragma unroll
    for (int n = 0; n < N; n++) {
      uint32_t row = n * TILE + g < n_rows ? n * TILE + g : n_rows - 1, of_x[4];
      load_x<GROUP>(of_x, x, row * columns, k + 32 * q, columns, t);
#pragma unroll
      for (int first = 0; first < 2; first += MMAS) {
        int at = (q * 32 / GROUP + first / MMAS) * EACH;
        float scale[2] = {scale_of<F>(c[0], at), scale_of<F>(c[1], at)};
        float offset[2] = {scale_of<F>(c[0], at + EACH - 1),
                           scale_of<F>(c[1], at + EACH - 1)};
        add_group<F, MMAS>(sum[n], a, of_x, first, scale, offset);
      }
      if (EACH == 2)
        __syncwarp(); /* or all of x is loaded first, to more registers than there are */
    }
  }
}

/* Those of the block's expert, if it has one. */
static __device__ __forceinline__ lls_cuda_codes
weights_of(const lls_cuda_codes_product &a)
{
  return a.experts != nullptr ? a.experts[blockIdx.y] : a.w;
}

/* Scales a sum and puts it where it belongs. */
static __device__ __forceinline__ void finish(const lls_cuda_codes_product &a, float sum,
                                              uint32_t output, size_t row)
{
  const lls_cuda_codes w = weights_of(a);
  size_t at = row * a.stride + output;
  sum *= w.factors[a.first_output + output];
  sum += w.bias != nullptr ? w.bias[a.first_output + output] : 0;
  if (a.add)
    sum += to_float(((const bf16 *)a.y)[at]);
  if (a.relu)
    sum = fmaxf(sum, 0);
  if (a.f32)
    ((float *)a.y)[at] = sum;
  else
    ((bf16 *)a.y)[at] = from_float<bf16>(sum);
}

/* Up to N tiles of rows from `row` on; by a whole block, room (WARPS, OUTPUTS N TILE). */
template <enum lls_codes_form F, int N>
static __device__ __forceinline__ void multiply_rows(const lls_cuda_codes_product &a,
                                                     uint32_t row, uint32_t n_rows,
                                                     shared<float> room)
{
  const lls_cuda_codes w = weights_of(a);
  constexpr uint32_t COLUMNS = lls_cuda_piece_columns(F);
  uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, g = lane / 4,
           t = lane % 4;
  uint32_t first = blockIdx.x * OUTPUTS, last = w.outputs - 1;
  uint32_t low = a.first_output + (first + g < last ? first + g : last);
  uint32_t high = a.first_output + (first + g + 8 < last ? first + g + 8 : last);
  uint32_t pieces = (w.inputs + COLUMNS - 1) / COLUMNS;
  const bf16 *x = (const bf16 *)a.x + (size_t)row * w.inputs;
  float sum[N][4] = {{0}};
  piece<F> next[2];
  if (warp < pieces) {
    load_piece<F>(next[0], w, low, warp, pieces, t);
    load_piece<F>(next[1], w, high, warp, pieces, t);
  }
  for (uint32_t p = warp; p < pieces; p += WARPS) {
    piece<F> c[2] = {next[0], next[1]};
    if (p + WARPS < pieces) {
      load_piece<F>(next[0], w, low, p + WARPS, pieces, t);
      load_piece<F>(next[1], w, high, p + WARPS, pieces, t);
    }
    multiply_piece<F, N>(sum, c, x, p * COLUMNS, w.inputs, n_rows);
  }
  __syncthreads(); /* the rows before have been read out of room */
#pragma unroll
  for (int i = 0; i < N * 4; i++) {
    uint32_t of = (i / 4 * TILE + 2 * t + i % 2) * OUTPUTS + g + i % 4 / 2 * 8;
    room[warp * (N * TILE * OUTPUTS) + of] = sum[i / 4][i % 4];
  }
  __syncthreads();
  uint32_t mine = threadIdx.x / OUTPUTS, output = first + threadIdx.x % OUTPUTS;
  if (mine >= n_rows || mine >= N * TILE || output > last)
    return;
  float total = 0;
  for (uint32_t i = 0; i < WARPS; i++)
    total += room[i * (N * TILE * OUTPUTS) + threadIdx.x];
  finish(a, total, output, row + mine);
}

/* A block has 16 outputs of a matrix, of all rows or of an expert's. */
template <enum lls_codes_form F>
__global__ void __launch_bounds__(THREADS, 2) multiply_codes(lls_cuda_codes_product a)
{
  SHARED_ARRAY(float, room, WARPS *OUTPUTS *TILES<F> *TILE);
  bool of_experts = a.experts != nullptr;
  uint32_t row = of_experts ? a.first[blockIdx.y] : 0;
  uint32_t end = of_experts ? a.first[blockIdx.y + 1] : a.n_rows;
  for (uint32_t n; row < end; row += n) {
    n = end - row < TILES<F> * TILE ? end - row : TILES<F> * TILE;
    if (n <= TILE)
      multiply_rows<F, 1>(a, row, n, room);
    else
      multiply_rows<F, TILES<F>>(a, row, n, room);
  }
}

/* ---- many rows -------------------------------------------------------------------- */

/* Two numbers of a pair. */
static __device__ __forceinline__ uint32_t widened(uint32_t pair, float scale,
                                                   float offset)
{
  float low = __uint_as_float(pair << 16), high = __uint_as_float(pair & 0xffff0000);
  return pack_bf16(__fadd_rn(__fmul_rn(low, scale), offset),
                   __fadd_rn(__fmul_rn(high, scale), offset));
}

/* A thread has a lane's part of a piece: 9 to 20 bytes in, 32 or 64 out. */
template <enum lls_codes_form F>
__global__ void widen(lls_cuda_codes w, uint32_t first, uint32_t n, void *to)
{
  constexpr uint32_t COLUMNS = lls_cuda_piece_columns(F), GROUP = lls_cuda_codes_group(F);
  constexpr int EACH = lls_cuda_codes_offset(F) ? 2 : 1;
  uint32_t pieces = (w.inputs + COLUMNS - 1) / COLUMNS;
  size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
  uint32_t t = i % 4, p = (uint32_t)(i / 4 % pieces), output = (uint32_t)(i / 4 / pieces);
  if (output >= n)
    return;
  piece<F> c;
  load_piece<F>(c, w, first + output, p, pieces, t);
  float factor = w.factors[first + output];
  bf16 *row = (bf16 *)to + (size_t)output * w.inputs;
#pragma unroll
  for (int q = 0; q < (int)COLUMNS / 32; q++) { /* eight codes */
    uint32_t x[4], k = p * COLUMNS + 32 * q;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      int at = (GROUP == 16 ? 2 * q + i / 2 : q) * EACH;
      float scale = factor * scale_of<F>(c, at);
      float offset = EACH == 2 ? factor * scale_of<F>(c, at + 1) : 0;
      x[i] = widened(pair_of<F>(c, q, i), scale, offset);
    }
    if (GROUP == 32 && k + 8 * t < w.inputs)
      *(words<4> *)(row + k + 8 * t) = words<4>{{x[0], x[1], x[2], x[3]}};
    if (GROUP == 16 && k + 4 * t < w.inputs)
      *(words<2> *)(row + k + 4 * t) = words<2>{{x[0], x[1]}};
    if (GROUP == 16 && k + 16 + 4 * t < w.inputs)
      *(words<2> *)(row + k + 16 + 4 * t) = words<2>{{x[2], x[3]}};
  }
}

/* ---- starting --------------------------------------------------------------------- */

#define FORMS(F)                                                                         \
  F(LLS_CODES4)                                                                          \
  F(LLS_CODES4_FLOAT)                                                                    \
  F(LLS_CODES4_OFFSET)                                                                   \
  F(LLS_CODES5_OFFSET)                                                                   \
  F(LLS_CODES6)                                                                          \
  F(LLS_CODES8)                                                                          \
  F(LLS_CODES8_FLOAT)

extern "C" int lls_cuda_run_codes_product(cudaStream_t s,
                                          const struct lls_cuda_codes_product *a)
{
  bool of_experts = a->experts != nullptr;
  if (!of_experts && a->n_rows == 0)
    return 0;
  dim3 grid((a->w.outputs + OUTPUTS - 1) / OUTPUTS, of_experts ? a->n_experts : 1);
  switch (a->w.form) {
#define MULTIPLY(form)                                                                   \
  case form:                                                                             \
    return launch(s, multiply_codes<form>, grid, THREADS, 0, *a);
    FORMS(MULTIPLY)
  default:
    return cudaErrorInvalidValue;
  }
}

extern "C" int lls_cuda_run_widen(cudaStream_t s, const struct lls_cuda_codes *w,
                                  uint32_t first, uint32_t n, void *to)
{
  uint32_t columns = lls_cuda_piece_columns(w->form);
  size_t threads = (size_t)n * ((w->inputs + columns - 1) / columns) * 4;
  dim3 grid((unsigned)((threads + THREADS - 1) / THREADS));
  switch (w->form) {
#define WIDEN(form)                                                                      \
  case form:                                                                             \
    return launch(s, widen<form>, grid, THREADS, 0, *w, first, n, to);
    FORMS(WIDEN)
  default:
    return cudaErrorInvalidValue;
  }
}
