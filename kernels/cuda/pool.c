/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The units on the device and, pinned, on the host; copies.c moves blocks of them. A
 * block has the same layout as on the CPU, see struct lls_pool_shape.
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
      .sides = lls_form_sides(s, LLS_FORM_KV),
      .unit = lls_unit_bytes(s) / lls_dtype_bytes(s->element),
      .int8 = lls_pool_has_int8(s, false),
  };
}

/* extra: additional bytes after the units. */
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

/* Allocates the device units. The hidden form's scratch follows the units, so kernels
 * reach it in the same way. */
static int allocate_device(struct lls_pool *pool, struct lls_error *err)
{
  const struct lls_pool_shape *s = &pool->shape;
  size_t scratch = 2 * s->kv_heads * pool->head_bytes[0];
  if (scratch > 0 && s->scratch_blocks > SIZE_MAX / 4 / scratch)
    return lls_fail(err, -ENOMEM, "no memory on the GPU for %u restored blocks",
                    s->scratch_blocks);
  pool->view.scratch_at = s->device_units * pool->view.unit;
  return allocate(s->device_units, pool->unit_bytes, s->scratch_blocks * scratch, false,
                  &pool->view.data, err);
}

static int allocate_host(struct lls_pool *pool, struct lls_error *err)
{
  const struct lls_pool_shape *s = &pool->shape;
  void *units = NULL, *staged = NULL;
  int rc = allocate(s->host_units, pool->unit_bytes, 0, true, &units, err);
  pool->host = units;
  if (rc < 0 || !lls_pool_has_int8(s, true))
    return rc;
  rc = lls_cuda_malloc(LLS_CUDA_STAGED * lls_cuda_staged_bytes(s), &staged);
  pool->staged = staged;
  return rc < 0 ? lls_fail(err, rc, "no memory on the GPU to make blocks int8") : 0;
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

/* Sets the sizes of each group's heads. */
static void lay_out_groups(struct lls_pool *pool)
{
  const struct lls_pool_shape *s = &pool->shape;
  for (uint32_t i = 0; i < lls_pool_groups(s); i++) {
    pool->groups[i] = lls_group_shape(s, i);
    pool->slot_bytes[i] = pool->groups[i].head_dim * lls_dtype_bytes(s->element);
    pool->head_bytes[i] = pool->slot_bytes[i] * s->block_tokens;
  }
}

/* Sets what kernels see of each group, once the pool's memory is allocated. */
static void view_groups(const struct lls_cuda_device *d, struct lls_pool *pool)
{
  uint32_t processors = (uint32_t)d->properties.multiProcessorCount;
  for (uint32_t i = 0; i < lls_pool_groups(&pool->shape); i++) {
    struct lls_cuda_pool *view = &pool->views[i];
    *view = pool->view;
    view->layers = pool->groups[i].layers;
    view->kv_heads = pool->groups[i].kv_heads;
    view->head_dim = pool->groups[i].head_dim;
    pool->attention_slots[i] = processors * (uint32_t)lls_cuda_attention_at_once(view);
  }
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
  lay_out_groups(pool);
  pool->unit_bytes = lls_unit_bytes(shape);
  int rc = lls_cuda_use(lls_cuda(device));
  if (rc < 0)
    lls_fail(err, rc, "the GPU of the pool cannot be used");
  if (rc == 0)
    rc = allocate_device(pool, err);
  if (rc == 0 && shape->host_units > 0)
    rc = allocate_host(pool, err);
  if (rc == 0 && shape->scratch_blocks > 0)
    rc = allocate_restored(lls_cuda(device), pool, err);
  if (rc < 0) {
    lls_cuda_pool_destroy(device, pool);
    return rc;
  }
  view_groups(lls_cuda(device), pool);
  *out = pool;
  return 0;
}

void lls_cuda_pool_destroy(struct lls_device *device, struct lls_pool *pool)
{
  struct lls_cuda_device *d = lls_cuda(device);
  if (pool == NULL)
    return;
  lls_cuda_use(d);
  cudaStreamSynchronize(d->copies);
  lls_cuda_ops_forget(d);
  if (pool->whole_x != pool->restored_x)
    cudaFree(pool->whole_x);
  cudaFree(pool->parts_of_x);
  cudaFree(pool->restored_x);
  cudaFree(pool->restored);
  cudaFree(pool->angles);
  cudaFree(pool->staged);
  cudaFree(pool->view.data);
  cudaFreeHost(pool->host);
  free(pool);
}
