/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products with few rows: y = x w^T for up to 32 rows of bf16, w being codes (codes.h).
 * Up to 8 or 16 rows codes.cu is used instead. Here x is read less often, by tiles of
 * 128 outputs, but blocks combine sums in device memory.
 *
 * Bytes. An H100 has 31 KB of its memory in a microsecond for each multiprocessor, and
 * a load takes about a microsecond under full load. So some 32 KB have to be under way
 * to each multiprocessor all the time. Therefore:
 *
 *   - weights go to shared memory by asynchronous copies, three to five stages of 8 KB
 *     ahead in each of two blocks: no registers wait for them
 *   - all blocks get the same share (a stage more or less) of all stages of all outputs,
 *     whatever the shape: 132 multiprocessors begin and end together. Where several
 *     blocks share a tile of 128 outputs, each writes its sums to device memory, and
 *     the last block to finish adds them up in the order of the columns
 *   - the copies of the first stages begin before the kernels ahead have ended: weights
 *     do not depend on them (launch_early)
 *
 * Shares depend on the shape alone, so a row's result does not depend on the other rows
 * of the step.
 *
 * Operations. A stage is a piece (64 bytes, and its high bits and scales) of each of
 * 128 outputs, and x in these columns, in the order of the products: 512 bytes are a
 * fragment for eight rows. A warp has 16 outputs. For 32 columns it takes, with codes
 * of 4 bits and 16 rows, 22 instructions to make bf16, 4 mma, 8 fma, 4 conversions of
 * scales and 4 loads from shared memory: 288 bytes in about 50, where a scheduler of
 * the H100 has 84 cycles at 3.35 TB/s; copies and counting of a stage are half as much
 * again. Measured on an H200 (int4 of 8192 x 8192, 32 rows: 30 us where the bytes take
 * 9) instructions and their latency bind it, not bytes. More than 32 rows are
 * multiplied 32 at a time, with codes in the L2: 64 would take more registers than two
 * blocks have.
 */
#include "kernels/cuda/arrivals.cuh"
#include "kernels/cuda/codes.cuh"

#define THREADS    256
#define WARPS      (THREADS / WARP)
#define EACH       16 /* outputs of a warp */
#define OUTPUTS    LLS_CUDA_FEW_OUTPUTS
#define TILE       8 /* rows of an mma */
#define MAX_STAGES 5

static_assert(WARPS * EACH == OUTPUTS, "a warp has 16 outputs");

/* Byte offsets within a stage. Codes: each lane has its own 16 bytes for outputs g and
 * g + 8 of its warp. A fragment of x belongs to a tile of rows and 32 columns. */
template <enum lls_codes_form F, int TILES> struct stage {
  static constexpr uint32_t COLUMNS = lls_cuda_piece_columns(F);
  static constexpr uint32_t HIGH = lls_cuda_code_bits(F) < 8 ? piece<F>::HIGH * 4 : 0;
  static constexpr uint32_t SCALES = lls_cuda_piece_scales(F) * 2;
  static constexpr uint32_t HIGH_AT = 2 * THREADS * LLS_CUDA_LANE_BYTES;
  static constexpr uint32_t SCALES_AT = HIGH_AT + 2 * THREADS * HIGH;
  static constexpr uint32_t X_AT = SCALES_AT + OUTPUTS * SCALES;
  static constexpr uint32_t BYTES = X_AT + TILES * TILE * COLUMNS * 2;
};

/* How stages are divided among blocks: `more` blocks have one more stage than
 * `each`. */
struct shares {
  uint32_t each, more;

  __device__ __forceinline__ uint32_t begin(uint32_t block) const
  {
    return block * each + (block < more ? block : more);
  }

  __device__ __forceinline__ uint32_t block_of(uint32_t at) const
  {
    uint32_t first = more * (each + 1);
    return at < first ? at / (each + 1) : more + (at - first) / each;
  }
};

/* ---- copies ------------------------------------------------------------------------ */

/* Returns threadIdx.x. For many rows it is read again each time, so that values derived
 * from it occupy no register from stage to stage. */
template <int TILES> static __device__ __forceinline__ uint32_t this_thread()
{
#ifdef __CUDACC__
  if (TILES <= 2)
    return threadIdx.x;
  uint32_t x;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(x));
  return x;
#else
  return threadIdx.x;
#endif
}

/* The copies of a thread for each stage: as lane 4 g + t, lane t's part of outputs g and
 * g + 8 of its warp; for t of 0 and 1 also the scales of one of them; and 16 bytes of x
 * in one or several fragments of eight rows and 32 columns, always in the same columns.
 * Missing data becomes zeros. */
template <enum lls_codes_form F, int TILES> struct copies {
  using S = stage<F, TILES>;
  /* fragments for eight rows */
  static constexpr uint32_t FRAGMENTS = S::COLUMNS / 32;
  /* rows copied at once */
  static constexpr uint32_t ROWS = THREADS / WARP / FRAGMENTS * TILE;

  const uint8_t *codes; /* codes of output g */
  const uint16_t *scales;
  const bf16 *x;
  bool there[2];
  uint32_t tile, step, steps; /* the next stage to copy */

  __device__ __forceinline__ copies(const lls_cuda_few_product &a, uint32_t at,
                                    uint32_t of_tile)
      : tile(at / of_tile), step(at % of_tile), steps(of_tile)
  {
    find_weights(a);
    find_x(a);
  }

  __device__ __forceinline__ size_t row_bytes() const
  {
    return (size_t)steps * lls_cuda_piece_bytes(F);
  }

  __device__ __forceinline__ void find_weights(const lls_cuda_few_product &a)
  {
    uint32_t thread = this_thread<TILES>(), g = thread % WARP / 4, t = thread % 4;
    uint32_t output = tile * OUTPUTS + thread / WARP * EACH + g;
    size_t row = (size_t)a.first_output + output;
    there[0] = output < a.w.outputs;
    there[1] = output + 8 < a.w.outputs;
    codes = a.w.codes + row * row_bytes() + (size_t)step * lls_cuda_piece_bytes(F);
    if constexpr (S::SCALES > 0)
      scales = a.w.scales + ((row + (t == 1 ? 8 : 0)) * steps + step) * (S::SCALES / 2);
  }

  /* The place of this thread's elements among the columns of a stage. */
  static __device__ __forceinline__ uint32_t column_of(uint32_t thread)
  {
    return thread / WARP % FRAGMENTS * 32 +
           (lls_cuda_codes_group(F) == 16 ? 4 : 8) * (thread % 4);
  }

  __device__ __forceinline__ void find_x(const lls_cuda_few_product &a)
  {
    uint32_t thread = threadIdx.x;
    uint32_t row = thread / WARP / FRAGMENTS * TILE + thread % WARP / 4;
    x = (const bf16 *)a.x + (size_t)row * a.w.inputs + column_of(thread) +
        step * S::COLUMNS;
  }

  __device__ __forceinline__ void weights(shared<uint8_t> to,
                                          const lls_cuda_few_product &a)
  {
    uint32_t thread = this_thread<TILES>(), g = thread % WARP / 4, t = thread % 4;
    uint32_t warp = thread / WARP, place = warp * (2 * WARP) + thread % WARP;
#pragma unroll
    for (uint32_t half = 0; half < 2; half++, place += WARP) {
      const uint8_t *from = codes + (half == 0 ? 0 : 8 * row_bytes());
      copy_async_stream(to + place * LLS_CUDA_LANE_BYTES, from + t * LLS_CUDA_LANE_BYTES,
                        there[half]);
      if constexpr (S::HIGH > 0)
        copy_async_small<S::HIGH>(to + S::HIGH_AT + place * S::HIGH,
                                  from + LLS_CUDA_PIECE_BYTES + t * S::HIGH, there[half]);
    }
    codes += lls_cuda_piece_bytes(F);
    if constexpr (S::SCALES > 0) {
      if (t < 2)
        copy_async_small<S::SCALES>(to + S::SCALES_AT +
                                        (warp * EACH + 8 * t + g) * S::SCALES,
                                    scales, t == 0 ? there[0] : there[1]);
      scales += S::SCALES / 2;
    }
  }

  __device__ __forceinline__ void rows(shared<uint8_t> to, const lls_cuda_few_product &a)
  {
    uint32_t thread = this_thread<TILES>();
    uint32_t row = thread / WARP / FRAGMENTS * TILE + thread % WARP / 4;
    uint32_t column = step * S::COLUMNS + column_of(thread);
    const bf16 *from = x;
#pragma unroll
    for (uint32_t n = 0; n < TILES * TILE; n += ROWS) {
      if (TILES * TILE < ROWS && row >= TILES * TILE)
        break;
      shared<uint8_t> unit = to + S::X_AT + n / TILE * FRAGMENTS * 512 + thread * 16;
      bool is = row + n < a.n_rows;
      if constexpr (lls_cuda_codes_group(F) == 16) {
        copy_async_small<8>(unit, from, is && column < a.w.inputs);
        copy_async_small<8>(unit + 8, from + 16, is && column + 16 < a.w.inputs);
      } else {
        copy_async(unit, from, is && column < a.w.inputs);
      }
      from += (size_t)ROWS * a.w.inputs;
    }
    x += S::COLUMNS;
  }

  __device__ __forceinline__ void advance(const lls_cuda_few_product &a)
  {
    if (++step < steps)
      return;
    step = 0;
    tile++;
    find_weights(a);
    x -= steps * S::COLUMNS;
  }
};

/* ---- products ---------------------------------------------------------------------- */

/* A piece of 128 columns is multiplied in two rounds of 64 columns. */
template <enum lls_codes_form F>
static constexpr uint32_t GOES = lls_cuda_code_bits(F) < 8 ? 2 : 1;

/* Multiplies one round's part of a piece, treated as a whole piece. */
template <enum lls_codes_form F, int TILES>
static __device__ __forceinline__ void read_piece(piece<F> &to, shared<uint8_t> from,
                                                  uint32_t thread, uint32_t half,
                                                  uint32_t go)
{
  using S = stage<F, TILES>;
  constexpr uint32_t N = GOES<F>;
  uint32_t warp = thread / WARP, lane = thread % WARP;
  uint32_t place = (2 * warp + half) * WARP + lane;
  read_words<4 / N>(to.low, from + (place * N + go) * (LLS_CUDA_LANE_BYTES / N));
  shared<uint8_t> high = from + S::HIGH_AT + place * S::HIGH;
  if constexpr (S::HIGH == 4) {
    read_words<1>(to.high, high);
    to.high[0] >>= 8 * go;
  } else if constexpr (S::HIGH == 8) {
    read_words<1>(to.high, high + 4 * go);
  }
  if constexpr (S::SCALES > 0) {
    uint32_t output = warp * EACH + 8 * half + lane / 4;
    read_words<S::SCALES / 4 / N>(to.scales, from + S::SCALES_AT +
                                                 (output * N + go) * (S::SCALES / N));
  }
}

template <enum lls_codes_form F, int TILES>
static __device__ __forceinline__ void multiply_stage(float (&sums)[TILES][4],
                                                      shared<uint8_t> from)
{
  using S = stage<F, TILES>;
  constexpr int FRAGMENTS = S::COLUMNS / 32, N = FRAGMENTS / GOES<F>;
  uint32_t thread = this_thread<TILES>();
/* more unrolling would take more registers than there are */
#pragma unroll(TILES > 1 ? 1 : 2)
  for (uint32_t go = 0; go < GOES<F>; go++) {
    piece<F> c[2];
    read_piece<F, TILES>(c[0], from, thread, 0, go);
    read_piece<F, TILES>(c[1], from, thread, 1, go);
    shared<uint8_t> of_x = from + S::X_AT + go * (N * 512) + thread % WARP * 16;
#pragma unroll
    for (int q = 0; q < N; q++) {
      uint32_t a[2][4]; /* A fragments of two mma: outputs g and g + 8 alternate */
#pragma unroll
      for (int i = 0; i < 8; i++)
        a[i / 4][i % 4] = pair_of<F>(c[i % 2], q, i / 2);
#pragma unroll
      for (int n = 0; n < TILES; n++) {
        uint32_t x[4];
        read_words<4>(x, of_x + (n * FRAGMENTS + q) * 512);
        add_columns<F>(sums[n], a, x, c, q);
      }
    }
  }
}

/* ---- results ----------------------------------------------------------------------- */

/* Adds the sums of N tiles of rows, from tile `first` on, for 128 outputs. */
template <int N>
static __device__ __forceinline__ void store_sums(const lls_cuda_few_product &a,
                                                  const float (&sums)[N][4],
                                                  uint32_t tile, uint32_t first)
{
  uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
  float least = a.relu ? 0 : -INFINITY;
#pragma unroll
  for (int half = 0; half < 2; half++) {
    uint32_t output = tile * OUTPUTS + warp * EACH + half * 8 + lane / 4;
    if (output >= a.w.outputs)
      return;
    uint32_t of_w = a.first_output + output;
    float factor = a.w.factors != nullptr ? a.w.factors[of_w] : 1;
    float bias = a.w.bias != nullptr ? a.w.bias[of_w] : 0;
#pragma unroll
    for (int n = 0; n < N * 2; n++) {
      uint32_t row = (first + n / 2) * TILE + lane % 4 * 2 + n % 2;
      if (row >= a.n_rows)
        break;
      size_t at = (size_t)row * a.stride + output;
      float y = sums[n / 2][half * 2 + n % 2] * factor + bias;
      if (a.add)
        y += to_float(((const bf16 *)a.y)[at]);
      y = y < least ? least : y;
      if (a.f32)
        ((float *)a.y)[at] = y;
      else
        ((bf16 *)a.y)[at] = from_float<bf16>(y);
    }
  }
}

/* Four of this thread's sums for the part of a tile that begins at stage `begin`. A
 * block may have the end of one tile and the beginning of another. */
static __device__ __forceinline__ float *part_at(const lls_cuda_few_product &a, int tiles,
                                                 const shares &all, uint32_t block,
                                                 uint32_t begin, int n)
{
  size_t part = (size_t)block * 2 + (begin > all.begin(block));
  return a.parts + ((part * tiles + n) * THREADS + threadIdx.x) * 4;
}

/* Called when the block has no more stages of this tile: writes its sums; the last
 * block to finish adds up all of them. */
template <int TILES>
static __device__ __forceinline__ void
finish_tile(const lls_cuda_few_product &a, const shares &all,
            const float (&sums)[TILES][4], uint32_t tile, uint32_t steps)
{
  constexpr int N = TILES < 4 ? TILES : 4; /* tiles of rows processed at once */
  uint32_t begin = tile * steps;
  uint32_t first = all.block_of(begin), last = all.block_of(begin + steps - 1);
#pragma unroll
  for (int n = 0; n < TILES; n++)
    *(several<float, 4> *)part_at(a, TILES, all, blockIdx.x, begin, n) =
        several<float, 4>{{sums[n][0], sums[n][1], sums[n][2], sums[n][3]}};
  if (first != last && !is_last<whole_block>(a.finished + first, last - first + 1))
    return;
#pragma unroll 1
  for (int n = 0; n < TILES; n += N) {
    float whole[N][4] = {{0}};
#pragma unroll(N < 4 ? 4 : 1) /* loads under way */
    for (uint32_t b = first; b <= last; b++)
#pragma unroll
      for (int i = 0; i < N; i++) {
        several<float, 4> part = load_written(part_at(a, TILES, all, b, begin, n + i));
#pragma unroll
        for (int k = 0; k < 4; k++)
          whole[i][k] += part.v[k];
      }
    store_sums<N>(a, whole, tile, n);
  }
}

/* ---- a block ----------------------------------------------------------------------- */

template <enum lls_codes_form F, int TILES>
__global__ void __launch_bounds__(THREADS, 2) multiply_few(lls_cuda_few_product a)
{
  using S = stage<F, TILES>;
  shared<uint8_t> room = dynamic_shared<uint8_t>();
  uint32_t steps = (a.w.inputs + S::COLUMNS - 1) / S::COLUMNS;
  uint32_t stages = (a.w.outputs + OUTPUTS - 1) / OUTPUTS * steps;
  const shares all = {stages / gridDim.x, stages % gridDim.x};
  uint32_t begin = all.begin(blockIdx.x), end = all.begin(blockIdx.x + 1);
  /* stages under way in addition to the one in use */
  uint32_t ahead = a.stages - 1, slot = 0;
  copies<F, TILES> next(a, begin, steps);
  uint32_t tile = next.tile, left = steps - next.step; /* position of the stage in use */
  for (uint32_t i = 0; i < ahead; i++, next.advance(a))
    if (begin + i < end)
      next.weights(room + i * S::BYTES, a);
  let_next_begin();
  wait_for_earlier();
  copies<F, TILES> of_x(a, begin, steps);
  for (uint32_t i = 0; i < ahead; i++, of_x.advance(a)) {
    if (begin + i < end)
      of_x.rows(room + i * S::BYTES, a);
    copy_async_commit();
  }
  next.x = of_x.x;
  float sums[TILES][4] = {{0}};
  for (uint32_t i = begin; i < end; i++) {
    copy_async_wait_but(ahead - 1);
    __syncthreads();
    if (i + ahead < end) {
      shared<uint8_t> to = room + (slot == 0 ? ahead : slot - 1) * S::BYTES;
      next.weights(to, a);
      next.rows(to, a);
      next.advance(a);
    }
    copy_async_commit();
    multiply_stage<F, TILES>(sums, room + slot * S::BYTES);
    slot = slot == ahead ? 0 : slot + 1;
    if (--left > 0 && i + 1 < end)
      continue;
    finish_tile<TILES>(a, all, sums, tile, steps);
#pragma unroll
    for (int n = 0; n < TILES * 4; n++)
      sums[n / 4][n % 4] = 0;
    left = steps;
    tile++;
  }
}

/* ---- starting ---------------------------------------------------------------------- */

/* Stages that fit: two blocks share a multiprocessor's shared memory, less the KiB that
 * each block costs. */
template <enum lls_codes_form F, int TILES> static uint32_t stages_of(size_t shared_bytes)
{
  uint32_t n = (uint32_t)((shared_bytes / 2 - 1024 - 16) / stage<F, TILES>::BYTES);
  return n < 2 ? 2 : n > MAX_STAGES ? MAX_STAGES : n;
}

template <enum lls_codes_form F, int TILES>
static int run(cudaStream_t s, lls_cuda_few_product a)
{
  constexpr uint32_t COLUMNS = lls_cuda_piece_columns(F);
  uint32_t stages =
      (a.w.outputs + OUTPUTS - 1) / OUTPUTS * ((a.w.inputs + COLUMNS - 1) / COLUMNS);
  uint32_t blocks = (stages + LLS_CUDA_FEW_SHARE - 1) / LLS_CUDA_FEW_SHARE;
  a.stages = stages_of<F, TILES>(a.shared_bytes);
  return launch_early(s, multiply_few<F, TILES>,
                      dim3(blocks < a.blocks ? blocks : a.blocks), THREADS,
                      a.stages * stage<F, TILES>::BYTES, a);
}

template <enum lls_codes_form F>
static int run_form(cudaStream_t s, const lls_cuda_few_product &a)
{
  if (a.n_rows <= 8)
    return run<F, 1>(s, a);
  if (a.n_rows <= 16)
    return run<F, 2>(s, a);
  return run<F, 4>(s, a);
}

template <enum lls_codes_form F> static int set_up(size_t shared_bytes)
{
#define ALLOW(tiles)                                                                     \
  if (rc == 0)                                                                           \
    rc = allow_shared(multiply_few<F, tiles>,                                            \
                      stages_of<F, tiles>(shared_bytes) * stage<F, tiles>::BYTES);
  int rc = 0;
  ALLOW(1)
  ALLOW(2)
  ALLOW(4)
#undef ALLOW
  return rc;
}

extern "C" int lls_cuda_few_setup(size_t shared_bytes)
{
  int rc = 0;
#define SET_UP(form)                                                                     \
  if (rc == 0)                                                                           \
    rc = set_up<form>(shared_bytes);
  LLS_CUDA_CODES_FORMS(SET_UP)
  return rc;
}

extern "C" int lls_cuda_run_few_product(cudaStream_t s,
                                        const struct lls_cuda_few_product *a)
{
  if (a->n_rows == 0)
    return 0;
  switch (a->w.form) {
#define RUN(form)                                                                        \
  case form:                                                                             \
    return run_form<form>(s, *a);
    LLS_CUDA_CODES_FORMS(RUN)
  default:
    return cudaErrorInvalidValue;
  }
}
