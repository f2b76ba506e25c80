/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The language of this folder's kernels: the part of CUDA that a host compiler can
 * emulate. With nvcc these names are CUDA's own; without it they are the emulator's
 * (t/simt/simt.h), which checks every use of shared memory. So shared memory is
 * declared by SHARED_ARRAY or dynamic_shared, and passed on as shared<T>.
 *
 * Collectives (shuffles, votes, ldmatrix, mma) are called by whole warps.
 */
#ifndef LLS_CUDA_KERNEL_CUH
#define LLS_CUDA_KERNEL_CUH

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define WARP      32
#define ALL_LANES 0xffffffffu

/* LLS_CUDA_EARLY=0: every kernel waits for the end of the kernel ahead, for
 * comparison. */
static inline bool may_begin_early()
{
  /* static: not read at each launch */
  static const char *const early = getenv("LLS_CUDA_EARLY");
  return early == nullptr || strcmp(early, "0") != 0;
}

#ifdef __CUDACC__

#include <cuda_runtime.h>

template <class T> using shared = T *;

#define SHARED_ARRAY(T, name, n) __shared__ T name[n]

template <class T> __device__ inline shared<T> dynamic_shared()
{
  extern __shared__ __align__(128) unsigned char lls_dynamic_shared[];
  return reinterpret_cast<T *>(lls_dynamic_shared);
}

template <class U, class T> __device__ inline U *shared_cast(T *p)
{
  return reinterpret_cast<U *>(p);
}

template <class... P, class... A>
int launch(cudaStream_t stream, void (*kernel)(P...), dim3 grid, dim3 block,
           size_t shared_bytes, A... arguments)
{
  kernel<<<grid, block, shared_bytes, stream>>>(arguments...);
  return cudaGetLastError();
}

/*
 * The same for a kernel that may begin before the one ahead of it on the stream has ended
 * (programmatic dependent launch, CUDA's programming guide). This needs Hopper or a
 * later GPU; on others it is an ordinary launch. In a captured graph the edge is
 * programmatic, too.
 *
 * The rule. Such a kernel calls wait_for_earlier()
 *   - before it reads what any earlier kernel writes, not only the one ahead, which may
 *     not have waited yet itself
 *   - before it writes anything that an earlier kernel reads or writes
 *   - in at least one thread, in any case: the wait is for the kernel ahead alone, and
 *     covers earlier kernels because the one ahead does not end before its own wait
 *
 * It may read these before the wait: weights, and data that a copy brought (the step, its
 * tables, plans and draws). A copy waits for everything ahead of it on the stream, and
 * the first kernel after it waits for the copy before any later kernel begins. Angles are
 * written by a kernel, so they need the wait. An ordinary kernel, or a copy, waits for
 * everything ahead before it begins.
 */
template <class... P, class... A>
int launch_early(cudaStream_t stream, void (*kernel)(P...), dim3 grid, dim3 block,
                 size_t shared_bytes, A... arguments)
{
  int gpu = 0, major = 0;
  cudaGetDevice(&gpu);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, gpu);
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = major >= 9 && may_begin_early() ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, P(arguments)...);
}

/* Waits until all earlier kernels have ended and their writes can be read. */
static __device__ __forceinline__ void wait_for_earlier()
{
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* Lets the next kernel's blocks start on free resources; that kernel waits for the rest
 * itself. It takes effect when all blocks have called this or ended, so it takes no
 * resources from this kernel. A small kernel calls it after its wait: otherwise a chain
 * of small kernels would let the large kernel after them begin, and occupy the
 * resources while the large kernel ahead is still at work. */
static __device__ __forceinline__ void let_next_begin()
{
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* Allows a kernel more than 48 KiB of dynamic shared memory, and reserves all of the
 * shared memory, or the given amount, for its blocks; the rest is L1. Called once,
 * before launches. */
template <class... P>
int allow_shared(void (*kernel)(P...), size_t bytes,
                 int percent = cudaSharedmemCarveoutMaxShared)
{
  const void *k = reinterpret_cast<const void *>(kernel);
  int rc =
      cudaFuncSetAttribute(k, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
  return rc != cudaSuccess
             ? rc
             : cudaFuncSetAttribute(k, cudaFuncAttributePreferredSharedMemoryCarveout,
                                    percent);
}

/* Returns the bytes of shared memory that a block can have. */
static inline size_t most_shared()
{
  int gpu = 0, bytes = 0;
  cudaGetDevice(&gpu);
  cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, gpu);
  return (size_t)bytes;
}

/* Returns the blocks of a kernel that a multiprocessor runs at once; `wanted` if that
 * is unknown. */
template <class... P>
int blocks_at_once(void (*kernel)(P...), int threads, size_t bytes, int wanted)
{
  int n = 0;
  int rc = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &n, reinterpret_cast<const void *>(kernel), threads, bytes);
  return rc == cudaSuccess && n > 0 ? n : wanted;
}

/* Loads a kernel's code to the GPU. Otherwise the first launch does this, which is not
 * allowed while a stream is captured. */
template <class... P> int load(void (*kernel)(P...))
{
  cudaFuncAttributes found;
  return cudaFuncGetAttributes(&found, reinterpret_cast<const void *>(kernel));
}

/* Like load; sets *there if the code was compiled for exactly this sm version and has a
 * body in it, which is recognised by its static shared memory. */
template <class... P> int load_body(void (*kernel)(P...), int version, bool *there)
{
  cudaFuncAttributes found = {};
  int rc = cudaFuncGetAttributes(&found, reinterpret_cast<const void *>(kernel));
  *there =
      rc == cudaSuccess && found.binaryVersion == version && found.sharedSizeBytes > 0;
  return rc;
}

#else

#include "simt.h"

template <class T> using shared = simt::pointer<T>;

#define SHARED_ARRAY(T, name, n)                                                         \
  static const char name##_key = 0;                                                      \
  const simt::pointer<T> name(simt::shared_array(&name##_key, sizeof(T) * (n)))

template <class T> inline shared<T> dynamic_shared()
{
  return shared<T>(simt::shared_dynamic());
}

template <class U, class T> inline shared<U> shared_cast(simt::pointer<T> p)
{
  return p.template cast<U>();
}

using simt::launch;

/* The emulator runs kernels one after the other, but each begins as early as it may. */
template <class... P, class... A>
int launch_early(cudaStream_t stream, void (*kernel)(P...), dim3 grid, dim3 block,
                 size_t shared_bytes, A... arguments)
{
  return may_begin_early()
             ? simt::launch_early(stream, kernel, grid, block, shared_bytes, arguments...)
             : launch(stream, kernel, grid, block, shared_bytes, arguments...);
}

static inline void wait_for_earlier(SIMT_SITE)
{
  simt::wait_for_earlier({file, line});
}
static inline void let_next_begin()
{
}

template <class... P> int allow_shared(void (*)(P...), size_t, int = 0)
{
  return cudaSuccess;
}

static inline size_t most_shared()
{
  return (size_t)227 << 10;
}

template <class... P> int blocks_at_once(void (*)(P...), int, size_t, int wanted)
{
  return wanted;
}

template <class... P> int load(void (*kernel)(P...))
{
  return simt::load((const void *)kernel);
}

template <class... P> int load_body(void (*kernel)(P...), int, bool *there)
{
  *there = true;
  return load(kernel);
}

#endif

static __device__ __forceinline__ float warp_sum(float x)
{
  for (unsigned bits = WARP / 2; bits > 0; bits /= 2)
    x += __shfl_xor_sync(ALL_LANES, x, bits);
  return x;
}

static __device__ __forceinline__ float warp_max(float x)
{
  for (unsigned bits = WARP / 2; bits > 0; bits /= 2)
    x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, bits));
  return x;
}

/* Returns the sum over a block to all its threads, always added in the same order; room
 * (blockDim.x / WARP), which no thread may be reading. */
static __device__ __forceinline__ float block_sum_once(float x, shared<float> room)
{
  x = warp_sum(x);
  if (threadIdx.x % WARP == 0)
    room[threadIdx.x / WARP] = x;
  __syncthreads();
  float sum = 0;
  for (unsigned i = 0; i < blockDim.x / WARP; i++)
    sum += room[i];
  return sum;
}

/* Like block_sum_once, if earlier calls may still be reading this room. */
static __device__ __forceinline__ float block_sum(float x, shared<float> room)
{
  __syncthreads();
  return block_sum_once(x, room);
}

#endif
