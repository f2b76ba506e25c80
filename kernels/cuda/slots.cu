/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Some slots of blocks, from the device to the host or back: one launch for up to
 * LLS_CUDA_SLOT_RUNS of them, in place of a copy of short rows each, one for every head
 * of every layer: 1,600 of some hundred bytes with OPT-13B. A cache that two requests
 * share moves a few tokens of many blocks in a step. The host's memory is pinned, and a
 * GPU reaches it by the same address. What it gains was not measured on a GPU.
 *
 * None of the runs of a launch may write what another writes; copies.c sees to that.
 */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/number.cuh"

/* A row of a token or two has 8 to 64 words of 16 bytes. */
#define THREADS 128

/* A block of threads takes heads one after the other, a thread a word of them at a time:
 * neighbours take neighbours, so that they cross the link together. */
template <class W> __global__ void move_slots(lls_cuda_slots a)
{
  const lls_cuda_slot_run run = a.runs[blockIdx.y];
  for (unsigned head = blockIdx.x; head < a.heads; head += gridDim.x) {
    const W *from = (const W *)(run.from + head * a.head_bytes);
    W *to = (W *)(run.to + head * a.head_bytes);
    for (unsigned i = threadIdx.x; i < run.bytes / sizeof *to; i += blockDim.x)
      to[i] = from[i];
  }
}

/* Words of 16 bytes where all rows are of such. */
extern "C" int lls_cuda_run_slots(cudaStream_t s, const struct lls_cuda_slots *a)
{
  unsigned at_once = a->heads < LLS_CUDA_SLOT_HEADS ? a->heads : LLS_CUDA_SLOT_HEADS;
  dim3 grid(at_once, a->n), block(THREADS);
  if (a->n == 0 || a->heads == 0)
    return 0;
  if (a->slot_bytes % sizeof(uint4) == 0)
    return launch(s, move_slots<uint4>, grid, block, 0, *a);
  return launch(s, move_slots<uint32_t>, grid, block, 0, *a);
}
