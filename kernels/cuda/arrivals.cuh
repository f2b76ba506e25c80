/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several blocks write parts of one result to global memory, and the block that
 * finishes last, whichever it is, combines them. A separate kernel would cost a launch
 * each time; here no block waits for another. Why the last block can read the parts of
 * the others (PTX, memory consistency model):
 *   - A thread's writes come before its block's first barrier, and that before the fence
 *     of the thread that counts: barriers order the threads of a block, and fences of the
 *     whole GPU are cumulative, so one fence covers all writes of the block.
 *   - Fence, then atomicAdd, is a release. Additions to one count are each observed by
 *     the next, so the last to be made observes all; with the fence after it that is an
 *     acquire, of every block's release.
 *   - The second barrier extends this order to the block's other threads.
 *
 * One thread executes the fence, which invalidates the L1 of the whole multiprocessor.
 * The count is reset to 0 before the barrier; the next to use it is a later kernel, or
 * this one if it knows that all parts have arrived.
 */
#ifndef LLS_CUDA_ARRIVALS_CUH
#define LLS_CUDA_ARRIVALS_CUH

#include "kernels/cuda/kernel.cuh"

/* The threads that write a part and combine parts: the whole block, except in
 * attention_hopper. */
struct whole_block {
  static __device__ __forceinline__ unsigned thread()
  {
    return threadIdx.x;
  }
  static __device__ __forceinline__ unsigned count()
  {
    return blockDim.x;
  }
  static __device__ __forceinline__ void meet()
  {
    __syncthreads();
  }
};

/* Returns true in the last block of `parts` blocks that share the count (zero at
 * first). Called by all THREADS of the block, any number of times. */
template <class THREADS>
static __device__ __forceinline__ bool is_last(uint32_t *count, uint32_t parts)
{
  SHARED_ARRAY(uint32_t, last, 1);
  THREADS::meet();
  if (THREADS::thread() == 0) {
    __threadfence();
    bool yes = atomicAdd(count, 1u) + 1 == parts;
    if (yes)
      *count = 0;
    last[0] = yes;
    __threadfence();
  }
  THREADS::meet();
  return last[0] != 0;
}

#endif
