/* SPDX-License-Identifier: Apache-2.0 */
/* Device and pinned memory, and reading it back. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/ops.h"

#include <errno.h>
#include <string.h>

static int errno_of(int rc)
{
  if (rc == cudaSuccess)
    return 0;
  cudaGetLastError(); /* a failed allocation is no error of later calls */
  return rc == cudaErrorMemoryAllocation ? -ENOMEM : -EIO;
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
  (void)device;
  return errno_of(cudaMemGetInfo(available, total));
}

/* Device buffers have room behind them for the rows that a step is padded with. */
int lls_cuda_alloc(struct lls_device *device, enum lls_memory kind, size_t bytes,
                   void **out)
{
  if (kind == LLS_MEMORY_PINNED)
    return lls_cuda_malloc_pinned(bytes, out);
  size_t row = lls_cuda(device)->options.max_columns * sizeof(float);
  return lls_cuda_malloc(bytes + LLS_CUDA_MOST_PADDING * row, out);
}

void lls_cuda_release(struct lls_device *device, enum lls_memory kind, void *data)
{
  (void)device;
  if (kind == LLS_MEMORY_PINNED)
    cudaFreeHost(data);
  else
    cudaFree(data);
}

/* Through the staging memory: a copy to other memory would wait for it anyway, and where
 * is for the driver to say. */
void lls_cuda_download(struct lls_device *device, const void *from, void *to,
                       size_t bytes)
{
  struct lls_cuda_device *d = lls_cuda(device);
  lls_cuda_ops_flush(d);
  for (size_t done = 0, n; done < bytes && d->status == 0; done += n) {
    n = bytes - done < LLS_CUDA_STAGING ? bytes - done : LLS_CUDA_STAGING;
    int rc = cudaMemcpyAsync(d->staging[0], (const char *)from + done, n,
                             cudaMemcpyDeviceToHost, d->stream);
    if (rc == cudaSuccess)
      rc = lls_cuda_ranks_reach(d);
    if (lls_cuda_step_check(d, rc, "reading results back"))
      memcpy((char *)to + done, d->staging[0], n);
  }
}
