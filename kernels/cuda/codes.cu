/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products with weights of 4 to 8 bits, bf16 x and sums in f32, for the fewest rows: up
 * to 8, with 8-bit weights up to 16, with bf16 weights one. Weights are read once, in
 * their stored form, and reading them takes most of the time. A block has 16 or 32
 * outputs; its eight warps take its pieces (codes.h) in turns and add up their sums at
 * the end, in a fixed order, so that a row's result does not depend on the other rows
 * of the step. No block waits for another. Blocks that share a tile's columns and
 * combine sums in device memory (few.cu, for more rows) seemed to cost an H200 some 6
 * us a launch in addition to 10 us of reading; this kernel was no faster there
 * (experiments/results/h200-2026-11-27.md).
 *
 * Bytes. Weights come through a ring of four stages in shared memory, a kilobyte each for
 * a warp: with two or three blocks 50 KB and more are under way to each multiprocessor;
 * 4.1 TB/s at a latency of a microsecond need 31 KB.
 *
 * Operations. For 32 columns of 16 outputs each lane converts 16 codes to bf16 (22
 * instructions, codes.cuh), and the warp does two mma and four fma with the scale for
 * eight rows. With copies, reads and counting this is 43 instructions for 288 bytes of
 * 4-bit codes, 52 where a block has 16 outputs (counted in sm_90a's code). H200's 132
 * multiprocessors issue four each at 1.7 GHz: at half of that 3 TB/s.
 *
 * Rounds. The time of an H200 for 8192 x 8192 and one row followed neither bytes nor
 * instructions: 22 us for Q4_K, with two blocks a multiprocessor; 24 us for int4 with
 * fewer instructions and bytes, with three; int8 took 45 us, and 34 us for 16 rows,
 * whose blocks have 32 outputs. All times are explained by 1.2 to 2 us for each piece
 * of a warp, times its pieces, times one or two rounds of blocks. So blocks have 32
 * outputs where blocks of 16 do not all fit at once, and x, which each piece had to
 * wait for, is loaded a piece ahead. Neither change has run on a GPU.
 *
 * x is not copied to shared memory: the warps of a block have different columns, so no
 * part of it would be read twice. With one row all lanes read the same 64 bytes; with
 * eight rows x is 1.8 times the bytes of 4-bit codes, from L1 where neighbouring blocks
 * are at the same columns.
 *
 * For many rows some outputs at a time are widened to bf16 for cuBLASLt (linear.c).
 */
#include "kernels/cuda/codes.cuh"

#define THREADS 256
#define WARPS   (THREADS / WARP)
#define OUTPUTS 16 /* outputs of a block */
#define TILE    8  /* rows of an mma */

/* Tiles of rows processed at once: as many as 16 warps on a multiprocessor have
 * registers for. */
template <enum lls_codes_form F>
static constexpr uint32_t TILES = lls_cuda_codes_offset(F) ? 1 : 2;

/* ---- few rows --------------------------------------------------------------------- */

/* Loads eight values of a row: from k + 8 t on or, for groups of 16, two times four.
 * Values beyond the last column are arbitrary, because their codes or their scale are
 * 0. */
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

/* 32 columns of x for N tiles of rows; tiles beyond the last repeat the last. */
template <int N> struct columns_of_x {
  uint32_t v[N][4];
};

template <enum lls_codes_form F, int N>
static __device__ __forceinline__ void load_columns(columns_of_x<N> &to, const bf16 *x,
                                                    uint32_t k, uint32_t columns,
                                                    uint32_t n_rows)
{
  uint32_t lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int n = 0; n < N; n++) {
    uint32_t row = n * TILE + g < n_rows ? n * TILE + g : n_rows - 1;
    load_x<lls_cuda_codes_group(F)>(to.v[n], x, row * columns, k, columns, t);
  }
}

/* Loads all columns of a piece, from k on. */
template <enum lls_codes_form F, int N, int Q>
static __device__ __forceinline__ void load_piece_of_x(columns_of_x<N> (&to)[Q],
                                                       const bf16 *x, uint32_t k,
                                                       uint32_t columns, uint32_t n_rows)
{
#pragma unroll
  for (int q = 0; q < Q; q++)
    load_columns<F>(to[q], x, k + 32 * q, columns, n_rows);
}

/* Is x loaded a piece ahead? True for forms with enough free registers on every GPU. */
template <enum lls_codes_form F> static constexpr bool X_AHEAD = F != LLS_CODES6;

/* Multiplies the 32 columns q of a piece of 16 outputs (two of each lane) with N tiles
 * of rows. */
template <enum lls_codes_form F, int N>
static __device__ __forceinline__ void multiply_columns(float (&sum)[N][4],
                                                        const piece<F> (&c)[2], int q,
                                                        const columns_of_x<N> &x)
{
  uint32_t a[2][4]; /* A fragments of two mma: outputs g and g + 8 alternate */
#pragma unroll
  for (int i = 0; i < 8; i++)
    a[i / 4][i % 4] = pair_of<F>(c[i % 2], q, i / 2);
#pragma unroll
  for (int n = 0; n < N; n++)
    add_columns<F>(sum[n], a, x.v[n], c, q);
}

/* ---- copies under way -------------------------------------------------------------- */

/* Stages of the ring; a block has WIDTH times 16 outputs. */
template <int WIDTH> static constexpr uint32_t STAGES = WIDTH == 1 ? 4 : 3;

/* A ring of stages in shared memory, with a separate part for each thread: the bytes of
 * a lane's outputs (two of each 16) in a piece, with their scales. A thread waits for
 * its own copies only. */
template <enum lls_codes_form F, int WIDTH> struct ring {
  static constexpr uint32_t N = 2 * WIDTH;
  static constexpr uint32_t HIGH = piece<F>::HIGH * 4, SCALES = piece<F>::SCALES * 2;
  static constexpr uint32_t LOW_BYTES = THREADS * LLS_CUDA_LANE_BYTES;
  static constexpr uint32_t HIGH_AT = N * LOW_BYTES;
  static constexpr uint32_t SCALES_AT = HIGH_AT + N * THREADS * HIGH;
  static constexpr uint32_t BYTES = SCALES_AT + N * THREADS * SCALES;

  shared<uint8_t> room;
  const uint8_t *codes;   /* the next piece of the lane's first output */
  const uint16_t *scales; /* scales of that piece */
  uint32_t next, pieces, inputs;
  uint32_t outputs; /* outputs from the lane's first one to the end of the matrix */

  __device__ __forceinline__ ring(shared<uint8_t> bytes, const lls_cuda_codes &w,
                                  uint32_t first, uint32_t output)
      : room(bytes), next(threadIdx.x / WARP), inputs(w.inputs)
  {
    constexpr uint32_t COLUMNS = lls_cuda_piece_columns(F);
    uint32_t g = threadIdx.x % WARP / 4;
    size_t row = (size_t)first + output + g;
    pieces = (w.inputs + COLUMNS - 1) / COLUMNS;
    outputs = output + g < w.outputs ? w.outputs - output - g : 0;
    codes = w.codes + row * row_bytes() + (size_t)next * lls_cuda_piece_bytes(F);
    scales = w.scales + (row * pieces + next) * piece<F>::SCALES;
  }

  __device__ __forceinline__ size_t row_bytes() const
  {
    return F == LLS_NO_CODES ? (size_t)inputs * 2
                             : (size_t)pieces * lls_cuda_piece_bytes(F);
  }

  /* Begins to copy the warp's next piece, if there is one, to a stage; missing outputs
   * become zeros. */
  __device__ __forceinline__ void bring(uint32_t stage)
  {
    shared<uint8_t> to = room + stage * BYTES;
    uint32_t t = threadIdx.x % 4;
    if (next < pieces) {
#pragma unroll
      for (uint32_t i = 0; i < N; i++) {
        uint32_t of = i * THREADS + threadIdx.x;
        const uint8_t *from = codes + 8 * i * row_bytes();
        bool there = 8 * i < outputs;
        copy_async_stream(to + of * LLS_CUDA_LANE_BYTES, from + t * LLS_CUDA_LANE_BYTES,
                          there && (F != LLS_NO_CODES || next * 32 + 8 * t < inputs));
        if constexpr (HIGH > 0)
          copy_async_small<HIGH>(to + HIGH_AT + of * HIGH,
                                 from + LLS_CUDA_PIECE_BYTES + t * HIGH, there);
        if constexpr (SCALES > 0)
          copy_async_small<SCALES>(to + SCALES_AT + of * SCALES,
                                   scales + 8 * i * (size_t)pieces * piece<F>::SCALES,
                                   there);
      }
      codes += WARPS * lls_cuda_piece_bytes(F);
      scales += WARPS * piece<F>::SCALES;
    }
    next += WARPS;
    copy_async_commit();
  }

  /* Reads the pieces of 16 outputs from a stage. */
  __device__ __forceinline__ void read(piece<F> (&c)[2], uint32_t stage, uint32_t sixteen)
  {
    shared<uint8_t> from = room + stage * BYTES;
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
      uint32_t of = (2 * sixteen + i) * THREADS + threadIdx.x;
      read_words<4>(c[i].low, from + of * LLS_CUDA_LANE_BYTES);
      if constexpr (HIGH > 0)
        read_words<HIGH / 4>(c[i].high, from + HIGH_AT + of * HIGH);
      if constexpr (SCALES > 0)
        read_words<SCALES / 4>(c[i].scales, from + SCALES_AT + of * SCALES);
    }
  }
};

/* ---- a block ----------------------------------------------------------------------- */

/* Returns the codes of the block's expert, or of the matrix. */
static __device__ __forceinline__ lls_cuda_codes
weights_of(const lls_cuda_codes_product &a)
{
  return a.experts != nullptr ? a.experts[blockIdx.y] : a.w;
}

/* Scales a sum and writes it to y. */
static __device__ __forceinline__ void finish(const lls_cuda_codes_product &a, float sum,
                                              uint32_t output, size_t row)
{
  const lls_cuda_codes w = weights_of(a);
  size_t at = row * a.stride + output;
  if (w.factors != nullptr)
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

/* Adds up the warps' sums of 16 outputs in a fixed order; room (WARPS, 16 N TILE). */
template <int N>
static __device__ __forceinline__ void
finish_outputs(const lls_cuda_codes_product &a, const float (&sum)[N][4], uint32_t first,
               uint32_t row, uint32_t n_rows, shared<float> room)
{
  uint32_t warp = threadIdx.x / WARP, g = threadIdx.x % WARP / 4, t = threadIdx.x % 4;
  __syncthreads(); /* earlier values in room have been read */
#pragma unroll
  for (int i = 0; i < N * 4; i++) {
    uint32_t of = (i / 4 * TILE + 2 * t + i % 2) * OUTPUTS + g + i % 4 / 2 * 8;
    room[warp * (N * TILE * OUTPUTS) + of] = sum[i / 4][i % 4];
  }
  __syncthreads();
  uint32_t mine = threadIdx.x / OUTPUTS, output = first + threadIdx.x % OUTPUTS;
  if (mine >= n_rows || mine >= N * TILE || output >= weights_of(a).outputs)
    return;
  float total = 0;
  for (uint32_t i = 0; i < WARPS; i++)
    total += room[i * (N * TILE * OUTPUTS) + threadIdx.x];
  finish(a, total, output, row + mine);
}

/* Multiplies up to N tiles of rows from `row` on, by the whole block. */
template <enum lls_codes_form F, int N, int WIDTH>
static __device__ __forceinline__ void multiply_rows(const lls_cuda_codes_product &a,
                                                     uint32_t row, uint32_t n_rows,
                                                     shared<float> room)
{
  const lls_cuda_codes w = weights_of(a);
  constexpr uint32_t COLUMNS = lls_cuda_piece_columns(F), AHEAD = STAGES<WIDTH> - 1;
  constexpr int Q = COLUMNS / 32;
  uint32_t first = blockIdx.x * (WIDTH * OUTPUTS);
  const bf16 *x = (const bf16 *)a.x + (size_t)row * w.inputs;
  float sum[WIDTH][N][4] = {};
  ring<F, WIDTH> codes(dynamic_shared<uint8_t>(), w, a.first_output, first);
  for (uint32_t stage = 0; stage < AHEAD; stage++)
    codes.bring(stage);
  /* with experts the block has waited before it read the rows */
  if (a.experts == nullptr) {
    let_next_begin();
    wait_for_earlier();
  }
  uint32_t stage = 0, p = threadIdx.x / WARP;
  columns_of_x<N> of_x[Q];
  if (X_AHEAD<F>)
    load_piece_of_x<F>(of_x, x, p * COLUMNS, w.inputs, n_rows);
  for (; p < codes.pieces; p += WARPS) {
    if (!X_AHEAD<F>)
      load_piece_of_x<F>(of_x, x, p * COLUMNS, w.inputs, n_rows);
    codes.bring((stage + AHEAD) % (AHEAD + 1));
    copy_async_wait_but<AHEAD>();
#pragma unroll
    for (int i = 0; i < WIDTH; i++) {
      piece<F> c[2];
      codes.read(c, stage, i);
#pragma unroll
      for (int q = 0; q < Q; q++) {
        multiply_columns<F, N>(sum[i], c, q, of_x[q]);
        if (X_AHEAD<F> && i == WIDTH - 1) /* loaded now, since registers are free */
          load_columns<F>(of_x[q], x, (p + WARPS) * COLUMNS + 32 * q, w.inputs, n_rows);
      }
    }
    stage = (stage + 1) % (AHEAD + 1);
  }
#pragma unroll
  for (int i = 0; i < WIDTH; i++)
    finish_outputs<N>(a, sum[i], first + i * OUTPUTS, row, n_rows, room);
}

/* A block has WIDTH times 16 outputs of a matrix, and all its rows or an expert's. It
 * takes up to MOST tiles of rows at once; BLOCKS blocks fit on a multiprocessor. */
template <enum lls_codes_form F, int MOST, int WIDTH, int BLOCKS>
__global__ void __launch_bounds__(THREADS, BLOCKS)
    multiply_codes(lls_cuda_codes_product a)
{
  SHARED_ARRAY(float, room, WARPS *OUTPUTS *MOST *TILE);
  bool of_experts = a.experts != nullptr;
  uint32_t row = of_experts ? a.first[blockIdx.y] : 0;
  uint32_t end = of_experts ? a.first[blockIdx.y + 1] : a.n_rows;
  for (uint32_t n; row < end; row += n) {
    n = end - row < MOST * TILE ? end - row : MOST * TILE;
    if (MOST == 1 || (WIDTH == 1 && n <= TILE))
      multiply_rows<F, 1, WIDTH>(a, row, n, room);
    else
      multiply_rows<F, MOST, WIDTH>(a, row, n, room);
  }
}

/* ---- many rows -------------------------------------------------------------------- */

/* Returns both values of a pair, scaled, as bf16. */
static __device__ __forceinline__ uint32_t widened(uint32_t pair, float scale,
                                                   float offset)
{
  float low = __uint_as_float(pair << 16), high = __uint_as_float(pair & 0xffff0000);
  return pack_bf16(__fadd_rn(__fmul_rn(low, scale), offset),
                   __fadd_rn(__fmul_rn(high, scale), offset));
}

/* Widens codes to bf16: each thread a lane's part of a piece, 9 to 20 bytes in, 32 or
 * 64 out. */
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
  for (int q = 0; q < (int)COLUMNS / 32; q++) { /* eight codes a round */
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

/* Blocks that a multiprocessor has registers for. */
template <enum lls_codes_form F>
static constexpr int ONE_TILE = lls_cuda_codes_offset(F) || F == LLS_CODES6 ? 2 : 3;

/* 16 rows by 32 outputs: x is read half as often. For forms with enough registers. */
template <enum lls_codes_form F>
static constexpr bool WIDE_TOO = F != LLS_NO_CODES &&lls_cuda_code_bits(F) >= 8;

/* Up to 8 rows by 32 outputs, for forms of which two blocks fit in shared memory. */
template <enum lls_codes_form F>
static constexpr bool WIDE_FEWEST = F != LLS_NO_CODES && (lls_cuda_code_bits(F) == 4 ||
                                                          lls_cuda_code_bits(F) >= 8);

template <enum lls_codes_form F, int MOST, int WIDTH, int BLOCKS>
static int multiply(cudaStream_t s, const lls_cuda_codes_product &a)
{
  constexpr size_t BYTES = STAGES<WIDTH> * ring<F, WIDTH>::BYTES;
  constexpr uint32_t EACH = WIDTH * OUTPUTS;
  dim3 grid((a.w.outputs + EACH - 1) / EACH, a.experts != nullptr ? a.n_experts : 1);
  if (a.experts == nullptr)
    return launch_early(s, multiply_codes<F, MOST, WIDTH, BLOCKS>, grid, THREADS, BYTES,
                        a);
  return launch(s, multiply_codes<F, MOST, WIDTH, BLOCKS>, grid, THREADS, BYTES, a);
}

template <enum lls_codes_form F>
static int multiply_form(cudaStream_t s, const lls_cuda_codes_product &a)
{
  if constexpr (F != LLS_NO_CODES)
    if (a.experts != nullptr)
      return multiply<F, TILES<F>, 1, 2>(s, a);
  if constexpr (WIDE_TOO<F>)
    if (a.n_rows > TILE)
      return multiply<F, 2, 2, 2>(s, a);
  if constexpr (WIDE_FEWEST<F>)
    if (a.w.outputs >
        a.processors * (ONE_TILE<F> * OUTPUTS)) /* more blocks than run at once */
      return multiply<F, 1, 2, 2>(s, a);
  return multiply<F, 1, 1, ONE_TILE<F>>(s, a);
}

extern "C" int lls_cuda_run_codes_product(cudaStream_t s,
                                          const struct lls_cuda_codes_product *a)
{
  if (a->experts == nullptr && a->n_rows == 0)
    return 0;
  switch (a->w.form) {
#define MULTIPLY(form)                                                                   \
  case form:                                                                             \
    return multiply_form<form>(s, *a);
    MULTIPLY(LLS_NO_CODES)
    LLS_CUDA_CODES_FORMS(MULTIPLY)
  default:
    return cudaErrorInvalidValue;
  }
}

extern "C" uint32_t lls_cuda_codes_rows(enum lls_codes_form form)
{
  switch (form) {
#define ROWS(form)                                                                       \
  case form:                                                                             \
    return WIDE_TOO<form> ? 2 * TILE : TILE;
    LLS_CUDA_CODES_FORMS(ROWS)
  default:
    return 0;
  }
}

/* Sets the kernel's shared memory; the rest is left to L1, for x. */
template <enum lls_codes_form F, int MOST, int WIDTH, int BLOCKS> static int allow()
{
  constexpr size_t BYTES = STAGES<WIDTH> * ring<F, WIDTH>::BYTES;
  constexpr size_t ROOM = WARPS * OUTPUTS * MOST * TILE * sizeof(float);
  constexpr int ALL = 228 << 10, EACH = (int)(BYTES + ROOM + 1024);
  constexpr int WANTED = BLOCKS * EACH * 100 / ALL + 1;
  return allow_shared(multiply_codes<F, MOST, WIDTH, BLOCKS>, BYTES,
                      WANTED < 100 ? WANTED : 100);
}

template <enum lls_codes_form F> static int allow_form()
{
  int rc = allow<F, 1, 1, ONE_TILE<F>>();
  if constexpr (F != LLS_NO_CODES)
    rc = rc != 0 ? rc : allow<F, TILES<F>, 1, 2>();
  if constexpr (WIDE_TOO<F>)
    rc = rc != 0 ? rc : allow<F, 2, 2, 2>();
  if constexpr (WIDE_FEWEST<F>)
    rc = rc != 0 ? rc : allow<F, 1, 2, 2>();
  return rc;
}

extern "C" int lls_cuda_codes_setup(void)
{
  int rc = allow_form<LLS_NO_CODES>();
#define ALLOW(form) rc = rc != 0 ? rc : allow_form<form>();
  LLS_CUDA_CODES_FORMS(ALLOW)
  return rc;
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
    LLS_CUDA_CODES_FORMS(WIDEN)
  default:
    return cudaErrorInvalidValue;
  }
}
