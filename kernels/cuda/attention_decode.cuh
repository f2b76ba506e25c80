/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention of decodes: up to 16 queries (rows x q heads of a KV head) against a context,
 * bound by reading K and V once. A block processes its lane of the plan
 * (plan_pieces.c): pieces of contexts one after the other, in tiles of 64 tokens. Each
 * of its four warps has 16 tokens of a tile, in its own slabs (attention_slab.cuh).
 * Warps synchronise at the end of a piece only, when copies of the next one are already
 * under way. Online softmax as in FlashAttention-2 (Dao, 2023, algorithm 1); pieces of
 * a context leave partial states, which the last block combines (flash-decoding;
 * attention_answer.cuh).
 *
 * Tensor cores: S = Q K^T has 8 or 16 queries as rows. O^T = V^T P^T has 8 queries as
 * the columns of an mma, which takes half the registers in the usual case of at most 8
 * queries. The scores' registers already have the layout of P^T's fragment.
 *
 * int8 blocks: x = least + step b of each channel of a block. The byte b after 0x64 is
 * the f16 1024 + b; two operations on pairs turn it into x, with one more rounding, to
 * a relative error of 2^-11. Scales are f16, so x fits in f16; q may not. So each query
 * is scaled by a power of two that makes its largest value lie between 1 and 2; parts
 * below 2^-24 of that are lost. A lane needs four channels of K for a column of Q K^T.
 * Any four will do if q has the same order, so it uses four consecutive ones. Of V it
 * needs pairs of tokens, and ldmatrix delivers pairs of channels of these.
 *
 * For t tokens and n queries of a KV head it reads 4 t head_dim bytes in bf16, and in
 * int8 blocks of b tokens 2 t head_dim (1 + 4 / b), and takes 4 n t head_dim
 * operations.
 */
#ifndef LLS_CUDA_ATTENTION_DECODE_CUH
#define LLS_CUDA_ATTENTION_DECODE_CUH

#include "kernels/cuda/attention_answer.cuh"

constexpr int DECODE_THREADS = 4 * WARP;
/* thread blocks that a multiprocessor should run at once */
constexpr int DECODE_AT_ONCE = 3;

/* Returns the bytes of the warps' slabs and of the space where warps combine their
 * answers. */
template <int HD> constexpr size_t decode_bytes()
{
  return 4 * SLABS * slab_layout<HD>::size * sizeof(bf16) +
         room_floats<HD>() * sizeof(float);
}

/* Hopper and later GPUs have 228 KiB, and each block uses one KiB more. */
static_assert(DECODE_AT_ONCE * (decode_bytes<128>() + 1024 + 128) <= 228 * 1024,
              "too much shared memory");

/* ---- queries ----------------------------------------------------------------------- */

/* The unused registers of an A fragment, for 8 queries. */
template <int T>
static __device__ __forceinline__ void fragment(const uint32_t (&q)[2 * T],
                                                uint32_t (&a)[4])
{
  a[0] = q[0];
  a[1] = T == 2 ? q[1] : 0;
  a[2] = q[T];
  a[3] = T == 2 ? q[3] : 0;
}

static __device__ __forceinline__ const bf16 *
query_of(const task &w, const lls_cuda_attention &a, uint32_t query)
{
  return (const bf16 *)a.qkv + (size_t)(w.piece.row + query / w.group) * a.columns +
         (size_t)(w.kv_head * w.group + query % w.group) * a.head_dim;
}

/* Loads fragments of m16n8k16: columns from 2t and from 2t + 8 on, of the 16 dims from
 * 16 j on. */
template <int HD, int T>
static __device__ __forceinline__ void
load_fragment(const task &w, const lls_cuda_attention &a, int j, uint32_t (&q)[2 * T])
{
  unsigned lane = threadIdx.x % WARP;
#pragma unroll
  for (int r = 0; r < T; r++) {
    uint32_t query = lane / 4 + 8 * r;
    bool there = query < w.n_queries;
    const uint32_t *from =
        (const uint32_t *)query_of(w, a, there ? query : 0) + lane % 4 + j * 8;
    q[r] = there ? from[0] : 0;
    q[T + r] = there ? from[4] : 0;
  }
}

template <int HD, int T>
static __device__ __forceinline__ void
load_queries(const task &w, const lls_cuda_attention &a, uint32_t (&q)[HD / 16][2 * T])
{
#pragma unroll
  for (int j = 0; j < HD / 16; j++)
    load_fragment<HD, T>(w, a, j, q[j]);
}

/* Like load_queries, but in f16, for dims 4t to 4t + 3, scaled by a power of two;
 * returns its inverse. */
template <int HD, int T>
static __device__ __forceinline__ void
load_half_queries(const task &w, const lls_cuda_attention &a,
                  uint32_t (&q)[HD / 16][2 * T], float (&inverse)[T])
{
  unsigned lane = threadIdx.x % WARP;
#pragma unroll
  for (int r = 0; r < T; r++) {
    uint32_t query = lane / 4 + 8 * r;
    bool there = query < w.n_queries;
    const several<uint32_t, 2> *from =
        (const several<uint32_t, 2> *)query_of(w, a, there ? query : 0) + lane % 4;
    float largest = 0;
#pragma unroll
    for (int j = 0; j < HD / 16; j++) {
      several<uint32_t, 2> x = from[j * 4];
#pragma unroll
      for (int i = 0; i < 2; i++) {
        q[j][i * T + r] = there ? x.v[i] : 0;
        largest = fmaxf(largest, fabsf(__uint_as_float(q[j][i * T + r] << 16)));
        largest = fmaxf(largest, fabsf(__uint_as_float(q[j][i * T + r] & 0xffff0000)));
      }
    }
    largest = fmaxf(largest, __shfl_xor_sync(ALL_LANES, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(ALL_LANES, largest, 2));
    uint32_t exponent = __float_as_uint(largest) & 0x7f800000;
    if (exponent == 0 || exponent >= 0x7e800000)
      exponent = 0x3f800000; /* all zeros, infinite or NaN */
    inverse[r] = __uint_as_float(exponent);
    float factor = __uint_as_float(0x7f000000 - exponent);
#pragma unroll
    for (int j = 0; j < HD / 16; j++) {
#pragma unroll
      for (int i = 0; i < 2; i++) {
        uint32_t x = q[j][i * T + r];
        q[j][i * T + r] = pack_half(__uint_as_float(x << 16) * factor,
                                    __uint_as_float(x & 0xffff0000) * factor);
      }
    }
  }
}

/* ---- bytes ------------------------------------------------------------------------- */

/* Returns bytes i and j of four as f16. */
static __device__ __forceinline__ uint32_t pair_of(uint32_t bytes, unsigned i, unsigned j)
{
  uint32_t above = __byte_perm(bytes, 0x64646464, 0x4040 | j << 8 | i);
  return add_half(above, 0xe400e400); /* subtracts 1024 */
}

static __device__ __forceinline__ uint32_t both_low(uint32_t x)
{
  return __byte_perm(x, 0, 0x1010);
}

static __device__ __forceinline__ uint32_t both_high(uint32_t x)
{
  return __byte_perm(x, 0, 0x3232);
}

/* ---- scores: token 8 n + 2t + i of the slab for query g + 8 r: s[n][2 r + i] ------- */

/* The address of the row that a lane passes to an ldmatrix of 16 tokens and 16 dims. */
template <int HD>
static __device__ __forceinline__ shared<bf16> line_of(shared<bf16> slab)
{
  unsigned lane = threadIdx.x % WARP;
  return slab + ((lane / 16 * 8 + lane % 8) * slab_layout<HD>::stride + lane / 8 % 2 * 8);
}

template <int T>
static __device__ __forceinline__ void score(const uint32_t (&q)[2 * T],
                                             shared<bf16> line, float (&s)[2][4])
{
  uint32_t a[4], b[4];
  fragment<T>(q, a);
  ldmatrix(b, line);
  mma(s[0], a, b[0], b[1]);
  mma(s[1], a, b[2], b[3]);
}

/* Computes the scores. AGAIN: q is read again, two fragments at a time, where most
 * slabs are bytes; with four fragments sm_100 runs out of registers. */
template <int HD, int T, bool AGAIN>
static __device__ __forceinline__ void
scores_by_slab(const uint32_t (&q)[HD / 16][2 * T], const task &w,
               const lls_cuda_attention &a, shared<bf16> k, float (&s)[2][4])
{
  shared<bf16> line = line_of<HD>(k);
#pragma unroll(AGAIN ? 2 : HD / 16)
  for (int j = 0; j < HD / 16; j++) {
    uint32_t again[2 * T];
    if (AGAIN) {
      load_fragment<HD, T>(w, a, j, again);
      score<T>(again, line + j * 16, s);
    } else {
      score<T>(q[j], line + j * 16, s);
    }
  }
}

template <int HD, int T>
static __device__ __forceinline__ void
scores_by_bytes(const uint32_t (&q)[HD / 16][2 * T], shared<uint8_t> k, float (&s)[2][4])
{
  typedef slab_layout<HD> layout;
  typedef several<uint32_t, 2> four; /* f16 */
  unsigned g = threadIdx.x % WARP / 4, t = threadIdx.x % 4;
  shared<uint32_t> row = shared_cast<uint32_t>(k + (g * layout::int8_stride + t * 4));
  shared<four> steps = shared_cast<four>(k + (layout::steps + t * 8));
  shared<four> leasts = shared_cast<four>(k + (layout::least + t * 8));
#pragma unroll
  for (int j = 0; j < HD / 16; j++) {
    four step = steps[j * 4], least = leasts[j * 4];
    uint32_t a[4];
    fragment<T>(q[j], a);
#pragma unroll
    for (int n = 0; n < 2; n++) {
      uint32_t bytes = row[n * 8 * layout::int8_stride / 4 + j * 4];
      mma_half(s[n], a, fma_half(pair_of(bytes, 0, 1), step.v[0], least.v[0]),
               fma_half(pair_of(bytes, 2, 3), step.v[1], least.v[1]));
    }
  }
}

/* ---- softmax ----------------------------------------------------------------------- */

template <int T> struct rows {
  uint32_t position[T]; /* positions of the lane's queries */
  uint32_t first;       /* position of the piece's first row */
  uint32_t oldest;      /* token that the piece's last row sees */
  uint32_t end;         /* end of the piece's tokens */
};

static __device__ __forceinline__ bool visible(uint32_t token, uint32_t position,
                                               uint32_t end, uint32_t oldest)
{
  return token <= position && token < end && token >= oldest;
}

/* Multiplies the scores by log2(e), applies the soft cap, and sets masked scores to
 * NOTHING. */
template <int T>
static __device__ __forceinline__ void mask(const lls_cuda_attention &a, const rows<T> &r,
                                            uint32_t first, float (&s)[2][4])
{
  float scale = a.scale * LOG2E;
  if (a.soft_cap > 0) {
#pragma unroll
    for (int i = 0; i < 4 * T; i++)
      s[i % 2][i / 2] = a.soft_cap * tanhf(s[i % 2][i / 2] * a.scale / a.soft_cap);
    scale = LOG2E;
  }
#pragma unroll
  for (int i = 0; i < 4 * T; i++)
    s[i % 2][i / 2] *= scale;
  if (first >= r.oldest && visible(first + SLAB - 1, r.first, r.end, 0))
    return; /* visible to all rows, as in nearly all slabs */
  uint32_t token = first + threadIdx.x % 4 * 2;
#pragma unroll
  for (int i = 0; i < 2 * T; i++) {
    uint32_t position = r.position[i / 2], oldest = lls_cuda_oldest(&a, position);
#pragma unroll
    for (int n = 0; n < 2; n++)
      if (!visible(token + n * 8 + i % 2, position, r.end, oldest))
        s[n][i] = NOTHING;
  }
}

/* Turns scores into weights and, if the maximum grew, rescales the answer. */
template <int HD, int T>
static __device__ __forceinline__ void weigh(float (&s)[2][4], answer<HD, T> &an)
{
#pragma unroll
  for (int r = 0; r < T; r++) {
    float max = an.max[r];
#pragma unroll
    for (int n = 0; n < 2; n++)
      max = fmaxf(max, fmaxf(s[n][2 * r], s[n][2 * r + 1]));
    max = fmaxf(max, __shfl_xor_sync(ALL_LANES, max, 1));
    max = fmaxf(max, __shfl_xor_sync(ALL_LANES, max, 2));
    float base = max == NOTHING ? 0 : max; /* no token seen yet: all weights are 0 */
    float decay = fast_exp2(an.max[r] - base);
    bool higher = max != an.max[r];
    an.max[r] = max;
    an.sum[r] *= decay;
#pragma unroll
    for (int n = 0; n < 2; n++) {
#pragma unroll
      for (int i = 2 * r; i < 2 * r + 2; i++) {
        s[n][i] = fast_exp2(s[n][i] - base);
        an.sum[r] += s[n][i];
      }
    }
    if (__ballot_sync(ALL_LANES, higher) == 0)
      continue;
    float even = __shfl_sync(ALL_LANES, decay, threadIdx.x % 4 * 8);
    float odd = __shfl_sync(ALL_LANES, decay, threadIdx.x % 4 * 8 + 4);
#pragma unroll
    for (int c = 0; c < HD / 16; c++) {
      an.values[r][c][0] *= even;
      an.values[r][c][1] *= odd;
      an.values[r][c][2] *= even;
      an.values[r][c][3] *= odd;
    }
  }
}

/* ---- values ------------------------------------------------------------------------ */

template <int HD, int T>
static __device__ __forceinline__ void add_values(const float (&s)[2][4], shared<bf16> v,
                                                  answer<HD, T> &an)
{
  shared<bf16> line = line_of<HD>(v);
#pragma unroll
  for (int c = 0; c < HD / 16; c++) {
    uint32_t a[4];
    ldmatrix_trans(a, line + c * 16);
#pragma unroll
    for (int r = 0; r < T; r++)
      mma(an.values[r][c], a, pack_bf16(s[0][2 * r], s[0][2 * r + 1]),
          pack_bf16(s[1][2 * r], s[1][2 * r + 1]));
  }
}

/* Like add_values, but with rows 2 g and 2 g + 1 of 16 dims in place of g and g + 8,
 * the order of INT8 bytes. */
template <int HD, int T>
static __device__ __forceinline__ void
add_values_in_pairs(const float (&s)[2][4], shared<bf16> v, answer<HD, T> &an)
{
  constexpr int stride = slab_layout<HD>::stride / 2;
  unsigned g = threadIdx.x % WARP / 4, t = threadIdx.x % 4;
  shared<uint32_t> row = shared_cast<uint32_t>(v) + (2 * t * stride + g);
#pragma unroll
  for (int c = 0; c < HD / 16; c++) {
    uint32_t a[4];
#pragma unroll
    for (int i = 0; i < 2; i++) {
      uint32_t even = row[i * 8 * stride + c * 8],
               odd = row[(i * 8 + 1) * stride + c * 8];
      a[2 * i] = __byte_perm(even, odd, 0x5410);
      a[2 * i + 1] = __byte_perm(even, odd, 0x7632);
    }
#pragma unroll
    for (int r = 0; r < T; r++)
      mma(an.values[r][c], a, pack_bf16(s[0][2 * r], s[0][2 * r + 1]),
          pack_bf16(s[1][2 * r], s[1][2 * r + 1]));
  }
}

/* A pair of channels as bytes takes the place of one f16 value. */
template <int HD, int T>
static __device__ __forceinline__ void
add_values_of_bytes(const float (&s)[2][4], shared<uint8_t> v, answer<HD, T> &an)
{
  typedef slab_layout<HD> layout;
  unsigned lane = threadIdx.x % WARP, g = lane / 4;
  /* Tokens 0 to 7 and 8 to 15 of 16 channels, then the same of the next 16. */
  shared<uint8_t> row = v + ((lane / 8 % 2 * 8 + lane % 8) * layout::int8_stride);
  shared<uint32_t> steps = shared_cast<uint32_t>(v + (layout::steps + g * 4));
  shared<uint32_t> leasts = shared_cast<uint32_t>(v + (layout::least + g * 4));
  uint32_t bytes[4];
#pragma unroll
  for (int c = 0; c < HD / 16; c++) {
    if (c % 2 == 0) { /* the last one, if odd: its other half is unused */
      unsigned next = lane / 16 == 0 || c + 1 == HD / 16 ? c : c + 1;
      ldmatrix_trans(bytes, shared_cast<bf16>(row + next * 16));
    }
    uint32_t step = steps[c * 8], least = leasts[c * 8], a[4];
#pragma unroll
    for (int i = 0; i < 2; i++) {
      uint32_t b = bytes[c % 2 * 2 + i];
      a[2 * i] = fma_half(pair_of(b, 0, 2), both_low(step), both_low(least));
      a[2 * i + 1] = fma_half(pair_of(b, 1, 3), both_high(step), both_high(least));
    }
#pragma unroll
    for (int r = 0; r < T; r++)
      mma_half(an.values[r][c], a, pack_half(s[0][2 * r], s[0][2 * r + 1]),
               pack_half(s[1][2 * r], s[1][2 * r + 1]));
  }
}

/* ---- the kernel -------------------------------------------------------------------- */

static __device__ __forceinline__ task task_of(const lls_cuda_piece *piece,
                                               const lls_cuda_attention &a,
                                               uint32_t kv_head)
{
  task w;
  w.piece = *piece;
  w.kv_head = kv_head;
  w.group = a.heads / a.kv_heads;
  w.n_queries = w.piece.n_rows * w.group;
  return w;
}

/* Adds the sink, a token of value 0 before all others. A lane's sum covers its own
 * columns only, so the first of four lanes counts the sink. */
template <int HD, int T>
static __device__ __forceinline__ void begin(const task &w, const lls_cuda_attention &a,
                                             answer<HD, T> &an, rows<T> &rows)
{
  unsigned lane = threadIdx.x % WARP;
  rows.first = w.piece.position;
  rows.oldest = lls_cuda_oldest(&a, w.piece.position + w.piece.n_rows - 1);
  rows.end = w.piece.end;
#pragma unroll
  for (int r = 0; r < T; r++) {
    uint32_t query = lane / 4 + 8 * r;
    rows.position[r] = w.piece.position + query / w.group;
    an.max[r] = NOTHING;
    an.sum[r] = 0;
    if (a.sinks != nullptr && w.piece.sinks != 0 && threadIdx.x < WARP &&
        query < w.n_queries) {
      an.max[r] = a.sinks[w.kv_head * w.group + query % w.group] * LOG2E;
      an.sum[r] = lane % 4 == 0 ? 1 : 0;
    }
#pragma unroll
    for (int c = 0; c < HD / 16; c++)
      an.values[r][c][0] = an.values[r][c][1] = an.values[r][c][2] = an.values[r][c][3] =
          0;
  }
}

/* The warp's ring of slabs. */
template <int HD> struct ring {
  shared<bf16> slabs;
  uint32_t bytes; /* a bit for each slab: it holds bytes */

  __device__ __forceinline__ shared<bf16> at(unsigned slab) const
  {
    return slabs + slab * slab_layout<HD>::size;
  }
  __device__ __forceinline__ bool is_bytes(unsigned slab) const
  {
    return (bytes >> slab & 1) != 0;
  }
  template <bool INT8>
  __device__ __forceinline__ void load(const source &from, const found &t, unsigned slab)
  {
    bool b = load_slab<HD, INT8>(from, t, slab % 2 * SLAB, at(slab));
    if (INT8)
      bytes = (bytes & ~(1u << slab)) | (b ? 1u << slab : 0);
  }
};

/* Processes all tiles of a piece; `next` is the tile after the two under way. */
template <int HD, int T, bool INT8>
static __device__ __forceinline__ void
attend_piece(const lls_cuda_piece *piece, uint32_t kv_head, const lls_cuda_attention &a,
             const source &from, feed &f, found &next, ring<HD> &ring, unsigned &turn,
             answer<HD, T> &an)
{
  const task w = task_of(piece, a, kv_head);
  uint32_t q[HD / 16][2 * T];
  float inverse[T];
  rows<T> rows;
  begin<HD, T>(w, a, an, rows);
#pragma unroll
  for (int r = 0; r < T; r++)
    inverse[r] = 1;
  if (INT8)
    load_half_queries<HD, T>(w, a, q, inverse);
  else
    load_queries<HD, T>(w, a, q);
  for (uint32_t tile = w.piece.begin; tile < rows.end; tile += TILE, turn ^= 2) {
    uint32_t first = tile + threadIdx.x / WARP * SLAB;
    float s[2][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
    copy_async_wait_but<SLABS - 1>();
    __syncwarp();
    bool k_bytes = INT8 && ring.is_bytes(turn);
    if (k_bytes)
      scores_by_bytes<HD, T>(q, shared_cast<uint8_t>(ring.at(turn)), s);
    else
      scores_by_slab<HD, T, INT8>(q, INT8 ? task_of(piece, a, kv_head) : w, a,
                                  ring.at(turn), s);
    __syncwarp();
    ring.template load<INT8>(from, next, turn);
    if (k_bytes) {
#pragma unroll
      for (int i = 0; i < 4 * T; i++)
        s[i % 2][i / 2] *= inverse[i / 4];
    }
    mask<T>(a, rows, first, s);
    weigh<HD, T>(s, an);
    copy_async_wait_but<SLABS - 1>();
    __syncwarp();
    if (INT8 && ring.is_bytes(turn + 1))
      add_values_of_bytes<HD, T>(s, shared_cast<uint8_t>(ring.at(turn + 1)), an);
    else if (INT8)
      add_values_in_pairs<HD, T>(s, ring.at(turn + 1), an);
    else
      add_values<HD, T>(s, ring.at(turn + 1), an);
    __syncwarp();
    ring.template load<INT8>(from, next, turn + 1);
    next = find_tile(f, from.pool.block_tokens);
  }
}

/* Begins the copies of the first two tiles, before the kernels ahead have ended if
 * earlier steps wrote all tokens of both. */
template <int HD, bool INT8>
static __device__ __forceinline__ found begin_feed(const source &from, feed &f,
                                                   ring<HD> &ring)
{
  open_piece(f);
  bool old = f.token + TILE <= f.settled;
  found first = find_tile(f, from.pool.block_tokens);
  old = old && (f.piece == f.past || f.token + TILE <= f.settled);
  found second = find_tile(f, from.pool.block_tokens);
  found third = find_tile(f, from.pool.block_tokens);
  if (!old)
    wait_for_earlier();
  ring.template load<INT8>(from, first, 0);
  ring.template load<INT8>(from, first, 1);
  ring.template load<INT8>(from, second, 2);
  ring.template load<INT8>(from, second, 3);
  if (old)
    wait_for_earlier();
  return third;
}

template <int HD, int T, bool INT8>
__global__ void __launch_bounds__(DECODE_THREADS, DECODE_AT_ONCE)
    attend_decodes(const lls_cuda_step *step, const lls_cuda_plan *plan,
                   lls_cuda_pool pool, float *states, uint32_t *finished,
                   lls_cuda_attention a)
{
  let_next_begin();
  uint32_t number = blockIdx.x / a.kv_heads, kv_head = blockIdx.x % a.kv_heads;
  if (number >= plan->n_lanes) {
    wait_for_earlier();
    return;
  }
  const lls_cuda_piece *piece = plan->pieces + plan->lanes[number];
  const lls_cuda_piece *past = plan->pieces + plan->lanes[number + 1];
  const source from = {pool, a.layer, kv_head};
  shared<bf16> memory = dynamic_shared<bf16>();
  shared<float> room = shared_cast<float>(memory + 4 * SLABS * slab_layout<HD>::size);
  ring<HD> ring = {memory + threadIdx.x / WARP * SLABS * slab_layout<HD>::size, 0};
  feed f = {};
  f.piece = piece;
  f.past = past;
  f.all = step->entries;
  found next = begin_feed<HD, INT8>(from, f, ring);
  for (unsigned turn = 0; piece != past; piece++) {
    answer<HD, T> an;
    attend_piece<HD, T, INT8>(piece, kv_head, a, from, f, next, ring, turn, an);
    /* read again, since the loop has better use for the registers */
    const task w = task_of(piece, a, kv_head);
    store_answer<HD, T, INT8>(w, a, states, an, room);
    if (w.piece.part != LLS_CUDA_NO_PART && finish_piece(w, a, finished))
      merge_pieces<HD>(w, a, states);
  }
}

#endif
