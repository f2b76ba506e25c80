/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of CUDA as sentences: of a step, where the first one is kept, and
 * of everything else. */
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

int lls_cuda_check(int rc, struct lls_error *err, const char *what)
{
  if (rc == cudaSuccess)
    return 0;
  return lls_fail(err, rc == cudaErrorMemoryAllocation ? -ENOMEM : -EIO, "CUDA, %s: %s",
                  what, cudaGetErrorString((cudaError_t)rc));
}
