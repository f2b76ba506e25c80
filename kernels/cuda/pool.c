/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The unit blocks on the device and, pinned, on the host, and copies between them. A unit
 * block lies as on the CPU, (layers, kv_heads, block_tokens, head_dim), so that moving a
 * whole one is one copy of about a MiB, and neighbouring ones are moved together.
 *
 * Copies have a stream of their own, which first waits for the step before. Those before
 * the step end with an event that the computing stream waits for; asynchronous ones run
 * on beside the step, and step_end waits for them.
 */
#include "kernels/cuda/ops.h"

#include <errno.h>
#include <stdlib.h>

static struct lls_cuda_pool view_of(const struct lls_pool_shape *s)
{
  return (struct lls_cuda_pool){
      .element = s->element,
      .layers = s->layers,
      .kv_heads = s->kv_heads,
      .block_tokens = s->block_tokens,
      .head_dim = s->head_dim,
  };
}

/* extra: bytes behind the units. */
static int allocate(uint32_t units, size_t unit_bytes, size_t extra, bool host,
                    void **out, struct lls_error *err)
{
  int rc = -ENOMEM;
  if (units == 0 || unit_bytes <= (SIZE_MAX - extra) / units)
    rc = host ? lls_cuda_malloc_pinned(units * unit_bytes + extra, out)
              : lls_cuda_malloc(units * unit_bytes + extra, out);
  if (rc < 0)
    return lls_fail(err, rc, "no memory %s for %u unit blocks of %zu bytes",
                    host ? "to pin on the host" : "on the GPU", units, unit_bytes);
  return 0;
}

/* The hidden form's scratch lies behind the units: it is reached as they are. */
static int allocate_device(struct lls_pool *pool, struct lls_error *err)
{
  const struct lls_pool_shape *s = &pool->shape;
  size_t layer = s->kv_heads * pool->head_bytes;
  if (layer > 0 && s->scratch_units > SIZE_MAX / 4 / layer)
    return lls_fail(err, -ENOMEM, "no memory on the GPU for %u restored units",
                    s->scratch_units);
  pool->view.scratch_at =
      s->device_units * (uint64_t)(pool->unit_bytes / lls_dtype_bytes(s->element));
  return allocate(s->device_units, pool->unit_bytes, s->scratch_units * layer, false,
                  &pool->view.data, err);
}

static int allocate_restored(const struct lls_cuda_device *d, struct lls_pool *pool,
                             struct lls_error *err)
{
  const struct lls_pool_shape *s = &pool->shape;
  size_t columns = (size_t)s->kv_heads * s->head_dim;
  size_t rows = LLS_CUDA_RESTORE_ROWS * columns * lls_dtype_bytes(lls_cuda_numbers(d));
  void *angles = NULL;
  int rc = lls_cuda_malloc(rows, &pool->restored_x);
  if (rc == 0)
    rc = lls_cuda_malloc(2 * rows, &pool->restored);
  if (rc == 0)
    rc = lls_cuda_malloc((size_t)s->max_context * s->head_dim * sizeof(float), &angles);
  pool->angles = angles;
  pool->whole_x = pool->restored_x;
  uint32_t ranks = lls_cuda_n_ranks(d);
  if (rc == 0 && ranks > 1) {
    rc = lls_cuda_malloc(ranks * rows, &pool->parts_of_x);
    pool->whole_x = NULL;
  }
  if (rc == 0 && ranks > 1)
    rc = lls_cuda_malloc(ranks * rows, &pool->whole_x);
  return rc < 0 ? lls_fail(err, rc, "no memory on the GPU to restore a hidden cache") : 0;
}

int lls_cuda_pool_create(struct lls_device *device, const struct lls_pool_shape *shape,
                         struct lls_pool **out, struct lls_error *err)
{
  if (shape->element != LLS_F32 && shape->element != LLS_BF16)
    return lls_fail(err, -ENOTSUP, "the CUDA device caches f32 or bf16 only");
  struct lls_pool *pool = calloc(1, sizeof *pool);
  if (pool == NULL)
    return lls_fail(err, -ENOMEM, "no memory for a cache pool");
  pool->shape = *shape;
  pool->view = view_of(shape);
  pool->slot_bytes = shape->head_dim * lls_dtype_bytes(shape->element);
  pool->head_bytes = pool->slot_bytes * shape->block_tokens;
  pool->unit_bytes = lls_unit_bytes(shape);
  void *host = NULL;
  int rc = allocate_device(pool, err);
  if (rc == 0 && shape->host_units > 0)
    rc = allocate(shape->host_units, pool->unit_bytes, 0, true, &host, err);
  if (rc == 0 && shape->scratch_units > 0)
    rc = allocate_restored(lls_cuda(device), pool, err);
  pool->host = host;
  if (rc < 0) {
    lls_cuda_pool_destroy(device, pool);
    return rc;
  }
  *out = pool;
  return 0;
}

void lls_cuda_pool_destroy(struct lls_device *device, struct lls_pool *pool)
{
  struct lls_cuda_device *d = lls_cuda(device);
  if (pool == NULL)
    return;
  cudaStreamSynchronize(d->copies);
  lls_cuda_ops_forget(d);
  if (pool->whole_x != pool->restored_x)
    cudaFree(pool->whole_x);
  cudaFree(pool->parts_of_x);
  cudaFree(pool->restored_x);
  cudaFree(pool->restored);
  cudaFree(pool->angles);
  cudaFree(pool->view.data);
  cudaFreeHost(pool->host);
  free(pool);
}

/* ---- copies -------------------------------------------------------------------------
 */

static bool is_whole(const struct lls_pool *p, const struct lls_copy *c)
{
  return c->n_slots == p->shape.block_tokens;
}

/* How many of n copies are whole blocks that follow each other at both ends. */
static size_t neighbours(const struct lls_pool *p, const struct lls_copy *c, size_t n)
{
  size_t i = 1;
  while (i < n && is_whole(p, &c[0]) && is_whole(p, &c[i]) && c[i].kind == c[0].kind &&
         c[i].order == c[0].order && c[i].source == c[0].source + i &&
         c[i].target == c[0].target + i && c[0].kind != LLS_COPY_DEVICE_TO_DEVICE)
    i++;
  return i;
}

static int copy_run(const struct lls_cuda_device *d, const struct lls_pool *p,
                    const struct lls_copy *c, size_t n)
{
  static const enum cudaMemcpyKind kinds[] = {
      cudaMemcpyDeviceToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToDevice};
  char *device = p->view.data;
  char *from =
      (c->kind == LLS_COPY_HOST_TO_DEVICE ? p->host : device) + c->source * p->unit_bytes;
  char *to =
      (c->kind == LLS_COPY_DEVICE_TO_HOST ? p->host : device) + c->target * p->unit_bytes;
  if (is_whole(p, c))
    return from == to
               ? 0
               : cudaMemcpyAsync(to, from, n * p->unit_bytes, kinds[c->kind], d->copies);
  size_t first = c->slot * p->slot_bytes;
  size_t heads = (size_t)p->shape.layers * p->shape.kv_heads;
  if (c->n_slots == 0 || from == to)
    return 0;
  return cudaMemcpy2DAsync(to + first, p->head_bytes, from + first, p->head_bytes,
                           c->n_slots * p->slot_bytes, heads, kinds[c->kind], d->copies);
}

int lls_cuda_pool_copy(struct lls_device *device, struct lls_pool *pool,
                       const struct lls_copy *copies, size_t n)
{
  struct lls_cuda_device *d = lls_cuda(device);
  size_t last_before = 0;
  for (size_t i = 0; i < n; i++) {
    if (!lls_copy_fits(&pool->shape, &copies[i]))
      return -EINVAL;
    if (copies[i].order == LLS_COPY_BEFORE_STEP)
      last_before = i + 1;
  }
  int rc = cudaStreamWaitEvent(d->copies, d->step_done, 0);
  for (size_t i = 0, run; i < n && rc == cudaSuccess; i += run) {
    run = neighbours(pool, &copies[i], n - i);
    rc = copy_run(d, pool, &copies[i], run);
    if (rc == cudaSuccess && last_before > i && last_before <= i + run) {
      rc = cudaEventRecord(d->copies_before, d->copies);
      if (rc == cudaSuccess)
        rc = cudaStreamWaitEvent(d->stream, d->copies_before, 0);
    }
  }
  if (rc == cudaSuccess)
    rc = cudaEventRecord(d->copies_done, d->copies);
  d->copies_given = true;
  return rc == cudaSuccess ? 0 : -EIO;
}
