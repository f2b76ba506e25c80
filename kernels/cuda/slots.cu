/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies some slots of blocks between the device and the host. One launch copies up to
 * LLS_CUDA_SLOT_RUNS of them, instead of one short copy for each head of each layer:
 * 1,600 of some hundred bytes with OPT-13B. When two requests share cached blocks, a
 * step may move a few tokens of many blocks. The gain has not been measured on a GPU.
 *
 * The host's memory is pinned, and the GPU reaches it by the same address. No run of a
 * launch may write what another one writes; copies.c ensures this.
 */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/number.cuh"

/* the rows of one or two tokens have 8 to 64 words of 16 bytes */
#define THREADS 128

/* A thread block copies heads one after the other, one word a thread at a time.
 * Neighbouring threads copy neighbouring words, which share transfers over the link. */
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

/* Uses words of 16 bytes if all rows consist of such words. */
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
