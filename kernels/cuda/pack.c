/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots of unit blocks to pinned memory and back, for instances in other processes. They
 * have a stream of their own, on a thread that is not the step's: neither a step nor its
 * copies wait for them, and they wait for no step, since the blocks are of steps that
 * have ended.
 *
 * What is proved: the emulated runtime runs both ways (t/kernel/test_cuda_pool). No real
 * GPU has run it beside steps.
 */
#include "kernels/cuda/ops.h"

#include <errno.h>

static int open_stream(struct lls_cuda_device *d)
{
  int rc = cudaSetDevice(d->gpu);
  if (rc == cudaSuccess && d->packs == NULL)
    rc = cudaStreamCreateWithFlags(&d->packs, cudaStreamNonBlocking);
  return rc;
}

/* So many slots of every layer and head, which lie one behind the other in `packed`. */
static int copy(const struct lls_cuda_device *d, const struct lls_pool *p, char *at,
                char *packed, uint32_t n_slots, enum cudaMemcpyKind kind)
{
  size_t heads = (size_t)p->shape.layers * p->shape.kv_heads;
  size_t bytes = n_slots * p->slot_bytes;
  if (bytes == 0)
    return cudaSuccess;
  return kind == cudaMemcpyDeviceToHost
             ? cudaMemcpy2DAsync(packed, bytes, at, p->head_bytes, bytes, heads, kind,
                                 d->packs)
             : cudaMemcpy2DAsync(at, p->head_bytes, packed, bytes, bytes, heads, kind,
                                 d->packs);
}

static int errno_of(int rc)
{
  return rc == cudaSuccess ? 0 : -EIO;
}

int lls_cuda_pool_pack(struct lls_device *device, const struct lls_pool *pool,
                       const struct lls_pull *list, size_t n, void *to)
{
  struct lls_cuda_device *d = lls_cuda(device);
  char *packed = to;
  int rc = open_stream(d);
  for (size_t i = 0; i < n && rc == cudaSuccess; i++) {
    const struct lls_pull *c = &list[i];
    if (!lls_slots_fit(&pool->shape, c->source, c->source_slot, c->n_slots))
      return -EINVAL;
    char *at = (char *)pool->view.data + c->source * pool->unit_bytes;
    rc = copy(d, pool, at + c->source_slot * pool->slot_bytes, packed, c->n_slots,
              cudaMemcpyDeviceToHost);
    packed += lls_pulled_bytes(&pool->shape, c);
  }
  if (rc == cudaSuccess)
    rc = cudaStreamSynchronize(d->packs);
  return errno_of(rc);
}

int lls_cuda_pool_unpack(struct lls_device *device, struct lls_pool *pool,
                         const struct lls_pull *list, size_t n, const void *from)
{
  struct lls_cuda_device *d = lls_cuda(device);
  char *packed = (char *)(uintptr_t)from; /* is read */
  int rc = open_stream(d);
  for (size_t i = 0; i < n && rc == cudaSuccess; i++) {
    const struct lls_pull *c = &list[i];
    if (!lls_slots_fit(&pool->shape, c->target, c->target_slot, c->n_slots))
      return -EINVAL;
    char *at = (char *)pool->view.data + c->target * pool->unit_bytes;
    rc = copy(d, pool, at + c->target_slot * pool->slot_bytes, packed, c->n_slots,
              cudaMemcpyHostToDevice);
    packed += lls_pulled_bytes(&pool->shape, c);
  }
  if (rc == cudaSuccess)
    rc = cudaStreamSynchronize(d->packs);
  return errno_of(rc);
}
