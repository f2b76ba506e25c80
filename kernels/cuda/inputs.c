/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends the inputs of a step to the device in one copy from pinned memory. The host
 * fills one buffer while the copy of the other may still be under way.
 */
#include "kernels/cuda/cuda.h"

#include <errno.h>

static void release(struct lls_cuda_inputs *in)
{
  cudaFreeHost(in->host[0]);
  cudaFreeHost(in->host[1]);
  cudaFree(in->device);
  in->host[0] = in->host[1] = in->device = NULL;
  in->capacity = 0;
}

static int allocate(struct lls_cuda_inputs *in, size_t bytes)
{
  void *data[3] = {NULL, NULL, NULL};
  int rc = lls_cuda_malloc_pinned(bytes, &data[0]);
  if (rc == 0)
    rc = lls_cuda_malloc_pinned(bytes, &data[1]);
  if (rc == 0)
    rc = lls_cuda_malloc(bytes, &data[2]);
  in->host[0] = data[0];
  in->host[1] = data[1];
  in->device = data[2];
  in->capacity = bytes;
  if (rc < 0)
    release(in);
  return rc;
}

int lls_cuda_inputs_create(struct lls_cuda_inputs *in, size_t bytes)
{
  int rc = allocate(in, bytes);
  for (int i = 0; i < 2 && rc == 0; i++)
    if (cudaEventCreateWithFlags(&in->sent_event[i], cudaEventDisableTiming) !=
        cudaSuccess)
      rc = -EIO;
  return rc;
}

void lls_cuda_inputs_destroy(struct lls_cuda_inputs *in)
{
  for (int i = 0; i < 2; i++)
    if (in->sent_event[i] != NULL)
      cudaEventDestroy(in->sent_event[i]);
  release(in);
}

/* Allocates twice the needed size, since steps grow for a while after the start. */
int lls_cuda_inputs_begin(struct lls_cuda_inputs *in, size_t bytes)
{
  in->turn ^= 1;
  in->used = in->sent = 0;
  if (cudaEventSynchronize(in->sent_event[in->turn]) != cudaSuccess)
    return -EIO;
  if (bytes <= in->capacity)
    return 0;
  if (cudaEventSynchronize(in->sent_event[in->turn ^ 1]) != cudaSuccess)
    return -EIO;
  release(in);
  return allocate(in, 2 * bytes);
}

void *lls_cuda_inputs_take(struct lls_cuda_inputs *in, size_t bytes, void *device_at)
{
  size_t begin = in->used;
  in->used = (begin + bytes + 15) & ~(size_t)15;
  if (device_at != NULL)
    *(const void **)device_at = in->device + begin;
  return in->host[in->turn] + begin;
}

int lls_cuda_inputs_send(struct lls_cuda_inputs *in, cudaStream_t stream)
{
  if (in->used == in->sent)
    return 0;
  int rc = cudaMemcpyAsync(in->device + in->sent, in->host[in->turn] + in->sent,
                           in->used - in->sent, cudaMemcpyHostToDevice, stream);
  in->sent = in->used;
  if (rc == cudaSuccess)
    rc = cudaEventRecord(in->sent_event[in->turn], stream);
  return rc;
}
