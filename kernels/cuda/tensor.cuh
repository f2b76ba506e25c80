/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor cores and asynchronous copies by the instructions that sm_80 has and all later
 * ones keep: mma.sync, ldmatrix, cp.async (PTX ISA 8, sections 9.7.14.5 and 9.7.9.25).
 * Without nvcc the same functions are the emulator's, which follows the manual's
 * definition of each lane's registers; only the lines of assembly here are not checked
 * by it.
 *
 * Fragments of m16n8k16, lane = 4 g + t: A has rows g, g+8 and columns 2t, 2t+1, 2t+8,
 * 2t+9 in the order (g, 2t), (g+8, 2t), (g, 2t+8), (g+8, 2t+8); B has rows 2t.. and
 * 2t+8.. of column g; C and D have (g, 2t), (g, 2t+1), (g+8, 2t), (g+8, 2t+1).
 */
#ifndef LLS_CUDA_TENSOR_CUH
#define LLS_CUDA_TENSOR_CUH

#include "kernels/cuda/number.cuh"

#ifdef __CUDACC__

static __device__ __forceinline__ uint32_t shared_address(const void *p)
{
  return (uint32_t)__cvta_generic_to_shared(p);
}

/* Loads four 8x8 matrices; lane 8 j + i gives the address of row i of matrix j. */
static __device__ __forceinline__ void ldmatrix(uint32_t (&r)[4], shared<bf16> row)
{
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}

/* Like ldmatrix, but with each matrix transposed. */
static __device__ __forceinline__ void ldmatrix_trans(uint32_t (&r)[4], shared<bf16> row)
{
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}

/* d += a b */
static __device__ __forceinline__ void mma(float (&d)[4], const uint32_t (&a)[4],
                                           uint32_t b0, uint32_t b1)
{
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Like mma, but for f16. */
static __device__ __forceinline__ void mma_half(float (&d)[4], const uint32_t (&a)[4],
                                                uint32_t b0, uint32_t b1)
{
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Copies 16 bytes, or writes zeros if there is nothing to copy; `from` is then not
 * read. */
template <class T>
static __device__ __forceinline__ void copy_async(T *to, const void *from, bool there)
{
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(shared_address(to)), "l"(from), "r"(there ? 16 : 0)
               : "memory");
}

/* Like copy_async, for data read once and in order: the L2 also prefetches the
 * following data. */
template <class T>
static __device__ __forceinline__ void copy_async_stream(T *to, const void *from,
                                                         bool there)
{
  asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;"
               :
               : "r"(shared_address(to)), "l"(from), "r"(there ? 16 : 0)
               : "memory");
}

/* Copies 4, 8 or 16 bytes of a cache line that neighbours or later copies read, too. */
template <int BYTES, class T>
static __device__ __forceinline__ void copy_async_small(T *to, const void *from,
                                                        bool there)
{
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
               :
               : "r"(shared_address(to)), "l"(from), "n"(BYTES), "r"(there ? BYTES : 0)
               : "memory");
}

/* Copies the first 8 bytes only. */
static __device__ __forceinline__ void copy_async_half(shared<bf16> to, const void *from)
{
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8;"
               :
               : "r"(shared_address(to)), "l"(from)
               : "memory");
}

static __device__ __forceinline__ void copy_async_commit()
{
  asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits until all copies that this thread committed have arrived; other threads need a
 * barrier, too. */
static __device__ __forceinline__ void copy_async_wait()
{
  asm volatile("cp.async.wait_all;" ::: "memory");
}

/* Waits until all but the last N groups of copies that this thread committed have
 * arrived. */
template <int N> static __device__ __forceinline__ void copy_async_wait_but()
{
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/* Like copy_async_wait_but<N>, for a variable n (0 to 3, or more). */
static __device__ __forceinline__ void copy_async_wait_but(uint32_t n)
{
  if (n == 0)
    asm volatile("cp.async.wait_group 0;" ::: "memory");
  else if (n == 1)
    asm volatile("cp.async.wait_group 1;" ::: "memory");
  else if (n == 2)
    asm volatile("cp.async.wait_group 2;" ::: "memory");
  else
    asm volatile("cp.async.wait_group 3;" ::: "memory");
}

#else

#include "tensor.h"

static inline void ldmatrix(uint32_t (&r)[4], shared<bf16> row)
{
  simt::ldmatrix(r, row.place(), false, {__FILE__, __LINE__});
}

static inline void ldmatrix_trans(uint32_t (&r)[4], shared<bf16> row)
{
  simt::ldmatrix(r, row.place(), true, {__FILE__, __LINE__});
}

static inline void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
  simt::mma_bf16(d, a, b0, b1, {__FILE__, __LINE__});
}

static inline void mma_half(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                            uint32_t b1)
{
  simt::mma_half(d, a, b0, b1, {__FILE__, __LINE__});
}

template <class T>
static inline void copy_async(simt::pointer<T> to, const void *from, bool there)
{
  simt::async_copy(to.place(), there ? from : nullptr, 16);
}

template <class T>
static inline void copy_async_stream(simt::pointer<T> to, const void *from, bool there)
{
  simt::async_copy(to.place(), there ? from : nullptr, 16);
}

template <int BYTES, class T>
static inline void copy_async_small(simt::pointer<T> to, const void *from, bool there)
{
  simt::async_copy(to.place(), there ? from : nullptr, BYTES);
}

static inline void copy_async_half(shared<bf16> to, const void *from)
{
  simt::async_copy(to.place(), from, 8);
}

static inline void copy_async_commit()
{
  simt::async_commit();
}

static inline void copy_async_wait()
{
  simt::async_wait(0);
}

template <int N> static inline void copy_async_wait_but()
{
  simt::async_wait(N);
}

static inline void copy_async_wait_but(uint32_t n)
{
  simt::async_wait(n < 3 ? n : 3);
}

#endif

#endif
