/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks that leave parts of one result in global memory, and the last of them to come,
 * whichever that is, which puts them together. A kernel of its own for that would cost a
 * launch each time; nobody waits for anybody here.
 *
 * Why the last one can read what the others wrote (PTX, memory consistency model):
 *   - A thread's writes come before its block's first barrier, and that before the fence
 *     of the thread that counts: barriers order the threads of a block, and fences of the
 *     whole GPU are cumulative, so the one fence is for all that the block wrote.
 *   - Fence, then atomicAdd, is a release. Additions to one count are each observed by
 *     the next, so the last to be made observes all; with the fence behind it that is an
 *     acquire, of every block's release.
 *   - The second barrier hands that on to the block's other threads. The fence is made by
 *     one thread of a multiprocessor, and empties the L1 that all have.
 * The count is 0 again before the barrier: whoever counts on it next is a later kernel,
 * or this one if it knows that all have come.
 */
#ifndef LLS_CUDA_ARRIVALS_CUH
#define LLS_CUDA_ARRIVALS_CUH

#include "kernels/cuda/kernel.cuh"

/* The threads that write a part and put parts together: all, but in attention_hopper. */
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

/* Is this the last of `parts`, that have the count (zero at first), to be written? By all
 * of the block's THREADS, any number of times. */
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
