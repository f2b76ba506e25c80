/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pulls blocks from another GPU's pool. The transfers run on the stream of copies,
 * after those of the step, and step_end waits for them. They do not use the other GPU's
 * streams, since the blocks belong to steps that have ended.
 *
 * Between two GPUs that reach each other's memory (NVLink, or PCIe where the platform
 * lets them) a copy is direct. Others go through pinned host memory, a piece at a time
 * on the one stream, which keeps the order. Two instances on one GPU copy within it.
 *
 * Tested: the emulated runtime runs all three ways (t/kernel/test_cuda_pool). Untested:
 * on two real GPUs.
 */
#include "kernels/cuda/ops.h"

#include <errno.h>

enum way { WITHIN, DIRECT, THROUGH_HOST };

/* Enables direct access to another GPU, once for each GPU. Without access the driver
 * would stage a copy between the two, not in the order of the stream. */
static int open_access(struct lls_cuda_device *to, int gpu)
{
  int reaches = 0;
  uint64_t bit = UINT64_C(1) << gpu % 64;
  if (to->peers_asked & bit)
    return cudaSuccess;
  int rc = cudaDeviceCanAccessPeer(&reaches, to->gpu, gpu);
  if (rc == cudaSuccess && reaches != 0)
    rc = cudaDeviceEnablePeerAccess(gpu, 0);
  /* another device of this process has enabled it */
  if (rc == cudaErrorPeerAccessAlreadyEnabled) {
    cudaGetLastError();
    rc = cudaSuccess;
  }
  to->peers_asked |= rc == cudaSuccess ? bit : 0;
  to->peers_reached |= reaches != 0 ? bit : 0;
  return rc;
}

static int find_way(struct lls_cuda_device *to, const struct lls_cuda_device *from,
                    enum way *way)
{
  *way = WITHIN;
  if (to->gpu == from->gpu)
    return cudaSuccess;
  int rc = open_access(to, from->gpu);
  *way = to->peers_reached & UINT64_C(1) << from->gpu % 64 ? DIRECT : THROUGH_HOST;
  return rc;
}

static int open_staging(struct lls_cuda_device *d)
{
  void *staging = NULL;
  if (d->pull_staging != NULL)
    return cudaSuccess;
  if (lls_cuda_malloc_pinned(LLS_CUDA_STAGING, &staging) < 0)
    return cudaErrorMemoryAllocation;
  d->pull_staging = staging;
  return cudaSuccess;
}

static int through_host(struct lls_cuda_device *d, char *to, const char *from,
                        size_t bytes)
{
  int rc = open_staging(d);
  char *staging = d->pull_staging;
  for (size_t done = 0, n; done < bytes && rc == cudaSuccess; done += n) {
    n = bytes - done < LLS_CUDA_STAGING ? bytes - done : LLS_CUDA_STAGING;
    rc = cudaMemcpyAsync(staging, from + done, n, cudaMemcpyDeviceToHost, d->copies);
    if (rc == cudaSuccess)
      rc = cudaMemcpyAsync(to + done, staging, n, cudaMemcpyHostToDevice, d->copies);
  }
  return rc;
}

struct route {
  struct lls_cuda_device *to;
  const struct lls_cuda_device *from;
  enum way way;
};

static int copy(const struct route *r, char *to, const char *from, size_t bytes)
{
  switch (r->way) {
  case WITHIN:
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, r->to->copies);
  case DIRECT:
    return cudaMemcpyPeerAsync(to, r->to->gpu, from, r->from->gpu, bytes, r->to->copies);
  default:
    return through_host(r->to, to, from, bytes);
  }
}

/* ---- int8 blocks, which a kernel makes wide --------------------------------------- */

/* Copies some heads of a block through pinned memory. */
static int stage(const struct route *r, struct lls_cuda_widening *w,
                 uint32_t block_tokens, uint32_t head_dim)
{
  struct lls_cuda_device *d = r->to;
  size_t numbers = (size_t)w->heads * block_tokens * head_dim;
  size_t scales = (size_t)w->heads * 2 * head_dim * sizeof *w->scales;
  int rc = open_staging(d);
  if (rc == cudaSuccess)
    rc = cudaMemcpyAsync(d->pull_staging, w->scales, scales, cudaMemcpyDeviceToHost,
                         d->copies);
  if (rc == cudaSuccess)
    rc = cudaMemcpyAsync(d->pull_staging + scales, w->from, numbers,
                         cudaMemcpyDeviceToHost, d->copies);
  w->scales = (const uint16_t *)(const void *)d->pull_staging;
  w->from = (const uint8_t *)d->pull_staging + scales;
  return rc;
}

static int pull_int8(const struct route *r, const struct lls_pool *pool,
                     const struct lls_pool *from_pool, const struct lls_pull *c)
{
  const struct lls_pool_shape *s = &pool->groups[c->group];
  uint32_t heads = lls_form_sides(s, LLS_FORM_INT8) * s->layers * s->kv_heads;
  uint32_t hd = s->head_dim;
  size_t numbers = (size_t)s->block_tokens * hd, scales = (size_t)2 * hd;
  size_t staged = LLS_CUDA_STAGING / (numbers + scales * sizeof(uint16_t));
  uint32_t at_once = r->way == THROUGH_HOST && staged < heads ? (uint32_t)staged : heads;
  const uint8_t *from =
      (const uint8_t *)from_pool->view.data + c->source * from_pool->unit_bytes;
  const uint16_t *from_scales = (const uint16_t *)(const void *)(from + heads * numbers);
  char *to = (char *)pool->view.data + c->target * pool->unit_bytes;
  int rc = at_once > 0 ? cudaSuccess : cudaErrorInvalidValue;
  for (uint32_t head = 0; head < heads && rc == cudaSuccess; head += at_once) {
    struct lls_cuda_widening w = {
        .from = from + head * numbers,
        .scales = from_scales + head * scales,
        .to = to + head * pool->head_bytes[c->group],
        .heads = heads - head < at_once ? heads - head : at_once,
        .from_slot = c->source_slot,
        .to_slot = c->target_slot,
        .n_slots = c->n_slots,
    };
    if (r->way == THROUGH_HOST)
      rc = stage(r, &w, s->block_tokens, hd);
    if (rc == cudaSuccess)
      rc = lls_cuda_run_widening(r->to->copies, &pool->views[c->group], &w);
  }
  return rc;
}

/* ---- a list ----------------------------------------------------------------------- */

/* A state is pulled as a whole, whatever slots the pull names. */
static bool is_whole(const struct lls_pool *p, const struct lls_pull *c)
{
  return c->n_slots == p->shape.block_tokens || p->groups[c->group].state > 0;
}

/* Returns how many of n pulls are whole blocks that are contiguous at both ends. */
static size_t neighbours(const struct lls_pool *p, const struct lls_pool *from_pool,
                         const struct lls_pull *c, size_t n)
{
  size_t bytes = lls_form_bytes(&p->groups[c->group], c->source_form), i = 1;
  uint32_t there = lls_form_units(&from_pool->groups[c->group], c->source_form);
  uint32_t here = lls_form_units(&p->groups[c->group], c->source_form);
  if (lls_pull_is_int8(c) || there * from_pool->unit_bytes != bytes ||
      here * p->unit_bytes != bytes)
    return 1;
  while (i < n && is_whole(p, &c[0]) && c[i].n_slots == c[0].n_slots &&
         c[i].source_form == c[0].source_form && c[i].group == c[0].group &&
         c[i].source == c[0].source + i * there && c[i].target == c[0].target + i * here)
    i++;
  return i;
}

static int pull_run(const struct route *r, const struct lls_pool *pool,
                    const struct lls_pool *from_pool, const struct lls_pull *c, size_t n)
{
  const char *from =
      (const char *)from_pool->view.data + c->source * from_pool->unit_bytes;
  char *to = (char *)pool->view.data + c->target * pool->unit_bytes;
  if (is_whole(pool, c))
    return copy(r, to, from, n * lls_form_bytes(&pool->groups[c->group], c->source_form));
  const struct lls_pool_shape *s = &pool->groups[c->group];
  size_t heads = (size_t)lls_form_sides(s, c->source_form) * s->layers * s->kv_heads;
  size_t slot = pool->slot_bytes[c->group], head = pool->head_bytes[c->group];
  int rc = cudaSuccess;
  from += c->source_slot * slot;
  to += c->target_slot * slot;
  for (size_t i = 0; i < heads && c->n_slots > 0 && rc == cudaSuccess; i++)
    rc = copy(r, to + i * head, from + i * head, c->n_slots * slot);
  return rc;
}

int lls_cuda_pool_pull(struct lls_device *device, struct lls_pool *pool,
                       struct lls_device *from, const struct lls_pool *from_pool,
                       const struct lls_pull *list, size_t n)
{
  struct lls_cuda_device *d = lls_cuda(device);
  struct route route = {.to = d, .from = lls_cuda(from)};
  lls_cuda_refuse(d, cudaSuccess, "");
  for (size_t i = 0; i < n; i++)
    if (!lls_pull_source_fits(&from_pool->shape, &list[i]) ||
        !lls_pull_target_fits(&pool->shape, &list[i]))
      return -EINVAL;
  int rc = cudaSetDevice(d->gpu);
  if (rc == cudaSuccess)
    rc = find_way(d, route.from, &route.way);
  if (rc == cudaSuccess)
    rc = cudaStreamWaitEvent(d->copies, d->step_done, 0);
  for (size_t i = 0, run; i < n && rc == cudaSuccess; i += run) {
    run = neighbours(pool, from_pool, &list[i], n - i);
    rc = lls_pull_is_int8(&list[i]) ? pull_int8(&route, pool, from_pool, &list[i])
                                    : pull_run(&route, pool, from_pool, &list[i], run);
  }
  if (rc == cudaSuccess)
    rc = cudaEventRecord(d->copies_done, d->copies);
  d->copies_given = true;
  return lls_cuda_refuse(d, rc, "copying blocks of another GPU");
}
