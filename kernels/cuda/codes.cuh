/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts codes (codes.h) exactly to the bf16 that tensor cores multiply: a code is an
 * integer of at most eight bits, or a small float. Two are converted at a time, without
 * lookup tables:
 *
 *   CODES4..6   0x4300 | code is the bf16 128 + code; one fma takes 128 and the zero away
 *   CODES8      the code is kept as a signed byte: 128 + its low seven bits, less 128 or,
 *               since the sign bit is the lowest of bf16's exponent there, 256
 *   floats      sign, exponent and fraction where bf16 has them; one fma by the power of
 *               two between the two biases, which makes small ones normal as well
 *
 * That is 11 instructions for 8 codes of 4 bits, 14 of 8 bits.
 */
#ifndef LLS_CUDA_CODES_CUH
#define LLS_CUDA_CODES_CUH

#include "kernels/cuda/codes.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/tensor.cuh"

/* Each form of codes in turn. */
#define LLS_CUDA_CODES_FORMS(F)                                                          \
  F(LLS_CODES4)                                                                          \
  F(LLS_CODES4_FLOAT)                                                                    \
  F(LLS_CODES4_OFFSET)                                                                   \
  F(LLS_CODES5_OFFSET)                                                                   \
  F(LLS_CODES6)                                                                          \
  F(LLS_CODES8)                                                                          \
  F(LLS_CODES8_FLOAT)

/* One lane's part of a piece, and the piece's scales. */
template <enum lls_codes_form F> struct piece {
  static constexpr uint32_t HIGH = lls_cuda_code_bits(F) == 6   ? 2
                                   : lls_cuda_code_bits(F) == 5 ? 1
                                                                : 0;
  static constexpr uint32_t SCALES = lls_cuda_piece_scales(F);
  uint32_t low[4], high[HIGH + (HIGH == 0)], scales[SCALES / 2 + (SCALES == 0)];
};

/* Loads codes past L1, since they are read once and L1 is needed for x. */
static __device__ __forceinline__ void load_codes(uint32_t (&to)[4], const uint8_t *from)
{
#ifdef __CUDACC__
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "l"(from));
#else
  memcpy(to, from, sizeof to);
#endif
}

template <int N> struct alignas(4 * N) words {
  uint32_t v[N];
};

template <int N>
static __device__ __forceinline__ void load_words(uint32_t *to, const void *from)
{
  words<N> all = *(const words<N> *)from;
#pragma unroll
  for (int i = 0; i < N; i++)
    to[i] = all.v[i];
}

/* Loads lane t's part of piece p of an output's n. */
template <enum lls_codes_form F>
static __device__ __forceinline__ void load_piece(piece<F> &to, const lls_cuda_codes &w,
                                                  uint32_t output, uint32_t p, uint32_t n,
                                                  uint32_t t)
{
  constexpr uint32_t SCALES = piece<F>::SCALES, HIGH = piece<F>::HIGH;
  size_t at = (size_t)output * n + p;
  const uint8_t *codes = w.codes + at * lls_cuda_piece_bytes(F);
  load_codes(to.low, codes + t * LLS_CUDA_LANE_BYTES);
  if (HIGH > 0)
    load_words<HIGH + (HIGH == 0)>(to.high, codes + LLS_CUDA_PIECE_BYTES + t * HIGH * 4);
  load_words<SCALES / 2>(to.scales, w.scales + at * SCALES);
}

/* Like load_words, but from shared memory. */
template <int N>
static __device__ __forceinline__ void read_words(uint32_t *to, shared<uint8_t> from)
{
  words<N> all = *shared_cast<words<N>>(from);
#pragma unroll
  for (int i = 0; i < N; i++)
    to[i] = all.v[i];
}

/* ---- to bf16 ---------------------------------------------------------------------- */

/* Combines x under the mask with y in one instruction; the compiler would make two of
 * constants. */
static __device__ __forceinline__ uint32_t put(uint32_t x, uint32_t mask, uint32_t y)
{
#ifdef __CUDACC__
  uint32_t both;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(both) : "r"(x), "r"(mask), "r"(y));
  return both;
#else
  return (x & mask) | y;
#endif
}

/* Returns the bits above the low four of pair p, at bits 4 and 20 on. */
template <enum lls_codes_form F>
static __device__ __forceinline__ uint32_t high_bits(const piece<F> &c, int p)
{
  constexpr int WIDE = lls_cuda_code_bits(F) - 4;
  constexpr uint32_t MASK = ((1u << WIDE) - 1) * 0x00100010u;
  int at = WIDE == 2 ? 2 * (p % 8) : p;
  uint32_t word = c.high[WIDE == 2 ? p / 8 : 0];
  return put(at < 4 ? word << (4 - at) : word >> (at - 4), MASK, 0);
}

/* Returns pair i (0..3) of the 32 columns q as two bf16. */
template <enum lls_codes_form F>
static __device__ __forceinline__ uint32_t pair_of(const piece<F> &c, int q, int i)
{
  constexpr uint32_t ONE = 0x3f803f80, MAGIC = 0x43004300;
  uint32_t v = lls_cuda_code_bits(F) == 8 ? c.low[(2 * q + i / 2) % 4] >> 8 * (i % 2)
                                          : c.low[q] >> 4 * i;
  switch (F) {
  case LLS_NO_CODES:
    return c.low[i];
  case LLS_CODES4:
    return fma_bf16(put(v, 0x000f000f, MAGIC), ONE, 0xc308c308); /* adds -136 */
  case LLS_CODES4_OFFSET:
    return fma_bf16(put(v, 0x000f000f, MAGIC), ONE, 0xc300c300); /* adds -128 */
  case LLS_CODES5_OFFSET:
    return fma_bf16(put(v, 0x000f000f, MAGIC) | high_bits<F>(c, 4 * q + i), ONE,
                    0xc300c300);
  case LLS_CODES6:
    return fma_bf16(put(v, 0x000f000f, MAGIC) | high_bits<F>(c, 4 * q + i), ONE,
                    0xc320c320); /* adds -160 */
  case LLS_CODES8:
    return fma_bf16(put(v, 0x00800080, MAGIC), 0xbf80bf80, put(v, 0x007f007f, MAGIC));
  case LLS_CODES4_FLOAT: /* times 2^127, which makes twice the float */
    return fma_bf16(put(v << 12, 0x80008000, put(v << 6, 0x01c001c0, 0)), 0x7f007f00,
                    0x80008000);
  default: /* CODES8_FLOAT: times 2^120 */
    return fma_bf16(put(v << 8, 0x80008000, put(v << 4, 0x07f007f0, 0)), 0x7b807b80,
                    0x80008000);
  }
}

/* Scale i of a piece; offsets are among them. */
template <enum lls_codes_form F>
static __device__ __forceinline__ float scale_of(const piece<F> &c, int i)
{
  return half_to_float((uint16_t)(c.scales[i / 2] >> 16 * (i % 2)));
}

/* ---- sums -------------------------------------------------------------------------- */

/* Adds one group to the sums: s += scale (a x), plus the offset times the sum of x,
 * computed as the product of x with a matrix of ones. */
template <enum lls_codes_form F, int MMAS>
static __device__ __forceinline__ void
add_group(float (&s)[4], const uint32_t (&a)[2][4], const uint32_t (&x)[4], int first,
          const float (&scale)[2], const float (&offset)[2])
{
  float part[4] = {0, 0, 0, 0};
#pragma unroll
  for (int i = first; i < first + MMAS; i++)
    mma(part, a[i], x[2 * i], x[2 * i + 1]);
#pragma unroll
  for (int i = 0; i < 4; i++)
    s[i] += scale[i / 2] * part[i];
  if (!lls_cuda_codes_offset(F))
    return;
  const uint32_t ones[4] = {0x3f803f80, 0x3f803f80, 0x3f803f80, 0x3f803f80};
  float sum[4] = {0, 0, 0, 0};
#pragma unroll
  for (int i = first; i < first + MMAS; i++)
    mma(sum, ones, x[2 * i], x[2 * i + 1]);
#pragma unroll
  for (int i = 0; i < 4; i++)
    s[i] += offset[i / 2] * sum[i];
}

/* Adds 32 columns to the sums; a holds the weights, x eight rows. */
template <enum lls_codes_form F>
static __device__ __forceinline__ void
add_columns(float (&sums)[4], const uint32_t (&a)[2][4], const uint32_t (&x)[4],
            const piece<F> (&c)[2], int q)
{
  constexpr int MMAS = lls_cuda_codes_group(F) / 16;
  constexpr int EACH_GROUP = lls_cuda_codes_offset(F) ? 2 : 1;
  if constexpr (F == LLS_NO_CODES) {
    mma(sums, a[0], x[0], x[1]);
    mma(sums, a[1], x[2], x[3]);
  } else {
#pragma unroll
    for (int first = 0; first < 2; first += MMAS) {
      int at = (q * 2 / MMAS + first / MMAS) * EACH_GROUP;
      float scale[2] = {scale_of<F>(c[0], at), scale_of<F>(c[1], at)};
      float offset[2] = {scale_of<F>(c[0], at + EACH_GROUP - 1),
                         scale_of<F>(c[1], at + EACH_GROUP - 1)};
      add_group<F, MMAS>(sums, a, x, first, scale, offset);
    }
  }
}

#endif
