/* SPDX-License-Identifier: Apache-2.0 */
/* Turns CUDA's errors into messages: a step's, of which the first is kept, and all
 * others. */
#include "kernels/cuda/cuda.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

void lls_cuda_step_fail(struct lls_cuda_device *d, int code, const char *format, ...)
{
  if (d->status != 0)
    return;
  va_list args;
  va_start(args, format);
  vsnprintf(d->error.text, sizeof d->error.text, format, args);
  va_end(args);
  d->status = code;
}

bool lls_cuda_step_check(struct lls_cuda_device *d, int rc, const char *what)
{
  if (rc != cudaSuccess)
    lls_cuda_step_fail(d, -EIO, "CUDA, %s: %s", what,
                       cudaGetErrorString((cudaError_t)rc));
  return d->status == 0;
}

int lls_cuda_refuse(struct lls_cuda_device *d, int rc, const char *what)
{
  d->refusal.text[0] = '\0';
  if (rc == cudaSuccess)
    return 0;
  return lls_cuda_check(rc, &d->refusal, what);
}

const char *lls_cuda_refusal(const struct lls_device *device)
{
  return ((const struct lls_cuda_device *)device)->refusal.text;
}

bool lls_cuda_debug_check(struct lls_cuda_device *d, cudaStream_t stream,
                          const char *what)
{
  if (!d->debug || d->status != 0)
    return d->status == 0;
  int rc = cudaStreamSynchronize(stream);
  return lls_cuda_step_check(d, rc != cudaSuccess ? rc : (int)cudaGetLastError(), what);
}

int lls_cuda_check(int rc, struct lls_error *err, const char *what)
{
  if (rc == cudaSuccess)
    return 0;
  return lls_fail(err, rc == cudaErrorMemoryAllocation ? -ENOMEM : -EIO, "CUDA, %s: %s",
                  what, cudaGetErrorString((cudaError_t)rc));
}
