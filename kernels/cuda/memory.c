/* SPDX-License-Identifier: Apache-2.0 */
/* Device and pinned memory. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/ops.h"

#include <errno.h>

static int errno_of(int rc)
{
  if (rc == cudaSuccess)
    return 0;
  cudaGetLastError(); /* clears the error, which later calls would return */
  return rc == cudaErrorMemoryAllocation ? -ENOMEM : -EIO;
}

int lls_cuda_use(const struct lls_cuda_device *d)
{
  return errno_of(cudaSetDevice(d->gpu));
}

int lls_cuda_malloc(size_t bytes, void **out)
{
  return errno_of(cudaMalloc(out, bytes > 0 ? bytes : 1));
}

int lls_cuda_malloc_pinned(size_t bytes, void **out)
{
  return errno_of(cudaMallocHost(out, bytes > 0 ? bytes : 1));
}

int lls_cuda_memory(struct lls_device *device, size_t *total, size_t *available)
{
  int rc = lls_cuda_use(lls_cuda(device));
  return rc < 0 ? rc : errno_of(cudaMemGetInfo(available, total));
}

/* Allocates memory. Buffers of steps get extra space for the rows that a step is padded
 * with. */
int lls_cuda_alloc(struct lls_device *device, enum lls_memory kind, size_t bytes,
                   void **out)
{
  int rc = lls_cuda_use(lls_cuda(device));
  if (rc < 0)
    return rc;
  if (kind == LLS_MEMORY_PINNED)
    return lls_cuda_malloc_pinned(bytes, out);
  if (kind == LLS_MEMORY_PIECES)
    return lls_cuda_malloc(bytes, out);
  size_t row = lls_cuda(device)->options.max_columns * sizeof(float);
  return lls_cuda_malloc(bytes + LLS_CUDA_MOST_PADDING * row, out);
}

void lls_cuda_release(struct lls_device *device, enum lls_memory kind, void *data)
{
  lls_cuda_use(lls_cuda(device));
  if (kind == LLS_MEMORY_PINNED)
    cudaFreeHost(data);
  else
    cudaFree(data);
}
