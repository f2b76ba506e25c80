/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies slots of unit blocks to pinned memory, or to pieces of GPU memory, and back,
 * for instances in other processes. The copies have a separate stream and run on
 * another thread than the step's: neither a step nor its copies wait for them, and they
 * wait for no step, since the blocks belong to steps that have ended. CUDA recognises
 * the kind of memory from its address.
 *
 * Tested: the emulated runtime runs both directions, with both kinds of memory
 * (t/kernel/test_cuda_pool). Untested: on a real GPU during steps, or with pieces.
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

/* Copies n_slots slots of every layer and head, or a whole state, between the pool and
 * the contiguous buffer `packed`. */
static int copy(const struct lls_cuda_device *d, const struct lls_pool *p, char *at,
                char *packed, const struct lls_pull *c, bool packs)
{
  const struct lls_pool_shape *s = &p->groups[c->group];
  size_t heads = (size_t)lls_form_sides(s, c->source_form) * s->layers * s->kv_heads;
  size_t bytes = c->n_slots * p->slot_bytes[c->group], pitch = p->head_bytes[c->group];
  if (s->state > 0)
    return cudaMemcpyAsync(packs ? packed : at, packs ? at : packed, (size_t)s->state,
                           cudaMemcpyDefault, d->packs);
  if (bytes == 0)
    return cudaSuccess;
  return packs ? cudaMemcpy2DAsync(packed, bytes, at, pitch, bytes, heads,
                                   cudaMemcpyDefault, d->packs)
               : cudaMemcpy2DAsync(at, pitch, packed, bytes, bytes, heads,
                                   cudaMemcpyDefault, d->packs);
}

static int copy_int8(const struct lls_cuda_device *d, const struct lls_pool *p,
                     const struct lls_pull *c, char *packed)
{
  const char *from = (const char *)p->view.data + c->source * p->unit_bytes;
  return cudaMemcpyAsync(packed, from,
                         lls_form_bytes(&p->groups[c->group], LLS_FORM_INT8),
                         cudaMemcpyDefault, d->packs);
}

/* Widens slots of a packed int8 block; the kernel reads pinned memory over the link. */
static int widen(const struct lls_cuda_device *d, const struct lls_pool *p,
                 const struct lls_pull *c, const char *packed)
{
  const struct lls_pool_shape *s = &p->groups[c->group];
  uint32_t sides = lls_form_sides(s, LLS_FORM_INT8);
  size_t numbers = sides * lls_side_numbers(s);
  const struct lls_cuda_widening w = {
      .from = (const uint8_t *)packed,
      .scales = (const uint16_t *)(const void *)(packed + numbers),
      .to = (char *)p->view.data + c->target * p->unit_bytes,
      .heads = sides * s->layers * s->kv_heads,
      .from_slot = c->source_slot,
      .to_slot = c->target_slot,
      .n_slots = c->n_slots,
  };
  return lls_cuda_run_widening(d->packs, &p->views[c->group], &w);
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
    if (!lls_pull_source_fits(&pool->shape, c))
      return -EINVAL;
    char *at = (char *)pool->view.data + c->source * pool->unit_bytes;
    rc = lls_pull_is_int8(c)
             ? copy_int8(d, pool, c, packed)
             : copy(d, pool, at + c->source_slot * pool->slot_bytes[c->group], packed, c,
                    true);
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
  char *packed = (char *)(uintptr_t)from; /* only read from */
  int rc = open_stream(d);
  for (size_t i = 0; i < n && rc == cudaSuccess; i++) {
    const struct lls_pull *c = &list[i];
    if (!lls_pull_target_fits(&pool->shape, c))
      return -EINVAL;
    char *at = (char *)pool->view.data + c->target * pool->unit_bytes;
    rc = lls_pull_is_int8(c)
             ? widen(d, pool, c, packed)
             : copy(d, pool, at + c->target_slot * pool->slot_bytes[c->group], packed, c,
                    false);
    packed += lls_pulled_bytes(&pool->shape, c);
  }
  if (rc == cudaSuccess)
    rc = cudaStreamSynchronize(d->packs);
  return errno_of(rc);
}

static int move(struct lls_cuda_device *d, void *to, const void *from, size_t bytes,
                enum cudaMemcpyKind kind)
{
  int rc = open_stream(d);
  if (rc == cudaSuccess && bytes > 0)
    rc = cudaMemcpyAsync(to, from, bytes, kind, d->packs);
  if (rc == cudaSuccess)
    rc = cudaStreamSynchronize(d->packs);
  return errno_of(rc);
}

int lls_cuda_piece_write(struct lls_device *device, void *piece, const void *from,
                         size_t bytes)
{
  return move(lls_cuda(device), piece, from, bytes, cudaMemcpyHostToDevice);
}

int lls_cuda_piece_read(struct lls_device *device, const void *piece, void *to,
                        size_t bytes)
{
  return move(lls_cuda(device), to, piece, bytes, cudaMemcpyDeviceToHost);
}
