/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instructions that only sm_90a has: asynchronous matrix products of a warpgroup (four
 * warps) on matrices in shared memory (wgmma), barriers in shared memory (mbarrier),
 * and moving registers between warpgroups (setmaxnreg; PTX ISA 8.7 has a section of
 * each name). Without nvcc the same functions are the emulator's.
 *
 * A matrix in shared memory is rows of 64 bf16, 128 bytes, whose cells of 16 bytes are
 * swizzled: cell c of row r is at place c ^ (r % 8), so that 8 rows' cells lie in
 * different banks. It begins at a multiple of 1024; wider ones are several of these
 * side by side.
 */
#ifndef LLS_CUDA_HOPPER_CUH
#define LLS_CUDA_HOPPER_CUH

#include "kernels/cuda/tensor.cuh"

#define WARPGROUP 128

/* Is code for Hopper compiled in this pass of the compiler? */
#if !defined(__CUDACC__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define LLS_HOPPER_CODE 1
#endif

/* upper half of a descriptor: see `describe` */
#define UPPER_HALF (1u << 30 | 1024 / 16)

#ifdef __CUDACC__

static __device__ __forceinline__ shared<bf16> aligned_shared(shared<bf16> p)
{
  return p + (1024 - shared_address(p) % 1024) % 1024 / sizeof(bf16);
}

/* Returns the lower half of a matrix descriptor: the matrix's address and, if rows are
 * the summed dimension, the distance from columns 0..63 to columns 64..127. The upper
 * half is the same for all matrices: groups of 8 rows are contiguous and cells are
 * swizzled. */
static __device__ __forceinline__ uint32_t describe(shared<bf16> matrix, uint32_t apart)
{
  return apart / 16 << 16 | (shared_address(matrix) & 0x3ffff) / 16;
}

#define FOUR(d, i) "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
#define FOURS_8(d, i)                                                                    \
  FOUR(d, i), FOUR(d, i + 1), FOUR(d, i + 2), FOUR(d, i + 3), FOUR(d, i + 4),            \
      FOUR(d, i + 5), FOUR(d, i + 6), FOUR(d, i + 7)
#define NAMES_32                                                                         \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "               \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES_64                                                                         \
  NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, "    \
           "%46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "      \
           "%60, %61, %62, %63"

/* d (64, 128) = or += a (64, 16) b^T (128, 16), both in shared memory, summed over the
 * columns of their rows. Warp w has rows 16 w to 16 w + 15, in the register layout of
 * mma's C. */
template <bool ADD>
static __device__ __forceinline__ void wgmma_rows(float (&d)[16][4], uint32_t a,
                                                  uint32_t b)
{
  asm volatile("{\n.reg .pred p;\n.reg .b64 a, b;\nsetp.ne.b32 p, %67, 0;\n"
               "mov.b64 a, {%64, %66};\nmov.b64 b, {%65, %66};\n"
               "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" NAMES_64
               "}, a, b, p, 1, 1, 0, 0;\n}"
               : FOURS_8(d, 0), FOURS_8(d, 8)
               : "r"(a), "r"(b), "r"(UPPER_HALF), "n"(ADD ? 1 : 0));
}

/* d (64, N) += a (64, 16) b (16, N), with a in the register layout of mma's A, b in
 * shared memory. */
static __device__ __forceinline__ void wgmma_columns(float (&d)[16][4],
                                                     const uint32_t (&a)[4], uint32_t b)
{
  asm volatile("{\n.reg .b64 b;\nmov.b64 b, {%68, %69};\n"
               "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" NAMES_64
               "}, {%64, %65, %66, %67}, b, 1, 1, 1, 1;\n}"
               : FOURS_8(d, 0), FOURS_8(d, 8)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "r"(UPPER_HALF));
}

static __device__ __forceinline__ void wgmma_columns(float (&d)[8][4],
                                                     const uint32_t (&a)[4], uint32_t b)
{
  asm volatile("{\n.reg .b64 b;\nmov.b64 b, {%36, %37};\n"
               "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" NAMES_32
               "}, {%32, %33, %34, %35}, b, 1, 1, 1, 1;\n}"
               : FOURS_8(d, 0)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "r"(UPPER_HALF));
}

/* Required before a product whose registers were used otherwise. */
static __device__ __forceinline__ void wgmma_fence()
{
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

static __device__ __forceinline__ void wgmma_commit()
{
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Waits until all but the last LEFT committed groups are done. */
template <int LEFT> static __device__ __forceinline__ void wgmma_wait()
{
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}

/* Keeps the compiler from moving uses of these registers across this point, since it
 * does not know when an asynchronous product is done. */
template <int N> static __device__ __forceinline__ void settle(float (&d)[N][4])
{
#pragma unroll
  for (int n = 0; n < N; n++)
    asm volatile("" : FOUR(d, n)::"memory");
}

template <int N> static __device__ __forceinline__ void settle(uint32_t (&a)[N][4])
{
#pragma unroll
  for (int n = 0; n < N; n++)
    asm volatile(""
                 : "+r"(a[n][0]), "+r"(a[n][1]), "+r"(a[n][2]), "+r"(a[n][3])::"memory");
}

/* Returns the thread's warpgroup, in a way that lets the compiler know it is the same
 * for all lanes. */
static __device__ __forceinline__ unsigned warpgroup()
{
  return __shfl_sync(ALL_LANES, threadIdx.x / WARPGROUP, 0);
}

/* These make the compiler compute derived values again instead of keeping them, since a
 * producer has few registers. */
static __device__ __forceinline__ unsigned thread_again()
{
  unsigned thread = threadIdx.x;
  asm volatile("" : "+r"(thread));
  return thread;
}

template <class T> static __device__ __forceinline__ const T *again(const T *p)
{
  asm volatile("" : "+l"(p));
  return p;
}

/* Raises (take) or lowers (leave) the registers of each thread of the warpgroup to
 * N. */
template <int N> static __device__ __forceinline__ void take_registers()
{
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

template <int N> static __device__ __forceinline__ void leave_registers()
{
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

/* Makes this thread's writes to shared memory visible to products that other threads
 * begin, once they are signalled. */
static __device__ __forceinline__ void products_fence()
{
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* ---- barriers ---------------------------------------------------------------------- */

typedef uint64_t mbarrier;

/* Initialises a barrier whose phases end after n arrivals; other threads may use it
 * after __syncthreads. */
static __device__ __forceinline__ void mbarrier_init(shared<mbarrier> b, uint32_t n)
{
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
               :
               : "r"(shared_address(b)), "r"(n)
               : "memory");
}

static __device__ __forceinline__ void mbarrier_arrive(shared<mbarrier> b)
{
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(b))
               : "memory");
}

/* Waits until phase number `phase` has ended. It must not be two or more phases
 * behind. */
static __device__ __forceinline__ void mbarrier_wait(shared<mbarrier> b, uint32_t phase)
{
  uint32_t done;
  do {
    asm volatile("{\n.reg .pred p;\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done)
                 : "r"(shared_address(b)), "r"(phase % 2)
                 : "memory");
  } while (!done);
}

/* Named barrier `id` (not 0) of a number of threads, in whole warps: `sync` waits,
 * `arrive` only counts. */
static __device__ __forceinline__ void barrier_sync(unsigned id, unsigned threads)
{
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

static __device__ __forceinline__ void barrier_arrive(unsigned id, unsigned threads)
{
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

#else

#include "hopper.h"

static inline shared<bf16> aligned_shared(shared<bf16> p)
{
  return p + (1024 - p.place() % 1024) % 1024 / sizeof(bf16);
}

static inline uint32_t describe(shared<bf16> matrix, uint32_t apart)
{
  return apart / 16 << 16 | (uint32_t)(matrix.place() & 0x3ffff) / 16;
}

static inline uint64_t whole(uint32_t description)
{
  return (uint64_t)UPPER_HALF << 32 | description;
}

template <bool ADD>
static inline void wgmma_rows(float (&d)[16][4], uint32_t a, uint32_t b, SIMT_SITE)
{
  simt::give_product({d[0], 128, ADD, false, whole(a), whole(b), nullptr}, {file, line});
}

template <int N>
static inline void wgmma_columns(float (&d)[N][4], const uint32_t (&a)[4], uint32_t b,
                                 SIMT_SITE)
{
  simt::give_product({d[0], 8 * N, true, true, 0, whole(b), a}, {file, line});
}

static inline void wgmma_fence()
{
  simt::products_order();
}

static inline void wgmma_commit()
{
  simt::products_commit();
}

template <int LEFT> static inline void wgmma_wait(SIMT_SITE)
{
  simt::products_wait(LEFT, {file, line});
}

template <class T, int N> static inline void settle(T (&)[N][4])
{
}

static inline unsigned warpgroup()
{
  return threadIdx.x / WARPGROUP;
}

static inline unsigned thread_again()
{
  return threadIdx.x;
}

template <class T> static inline const T *again(const T *p)
{
  return p;
}

template <int N> static inline void take_registers()
{
  static_assert(N % 8 == 0, "a number that the instruction takes");
}

template <int N> static inline void leave_registers()
{
  static_assert(N % 8 == 0, "a number that the instruction takes");
}

static inline void products_fence()
{
  simt::products_fence();
}

typedef uint64_t mbarrier;

static inline void mbarrier_init(shared<mbarrier> b, uint32_t n)
{
  simt::mbarrier_init(b.place(), n);
}

static inline void mbarrier_arrive(shared<mbarrier> b, SIMT_SITE)
{
  simt::mbarrier_arrive(b.place(), {file, line});
}

static inline void mbarrier_wait(shared<mbarrier> b, uint32_t phase, SIMT_SITE)
{
  simt::mbarrier_wait(b.place(), phase, {file, line});
}

static inline void barrier_sync(unsigned id, unsigned threads, SIMT_SITE)
{
  simt::named_barrier(id, threads, true, {file, line});
}

static inline void barrier_arrive(unsigned id, unsigned threads, SIMT_SITE)
{
  simt::named_barrier(id, threads, false, {file, line});
}

#endif

#endif
