/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor parallel ranks over NCCL: one GPU for each, sums and gathers on the step's
 * stream and in its graphs. The group (core/ranks) sends NCCL's id to all ranks, and
 * reports a rank that has failed. NCCL's kernels would wait for such a rank forever, so
 * the end of a step is polled, and a failed group is aborted.
 *
 * Tested: it compiles against nccl.h; it gives the reference's logits, and ends when a
 * rank dies, with t/simt's NCCL, where ranks are threads (t/kernel/test_cuda_ranks.c).
 * Untested: on GPUs, of which it needs two.
 */
#include "kernels/cuda/ranks.h"

#include <errno.h>
#include <stdlib.h>

#include "core/ranks/ranks.h"
#include "kernels/cuda/ops.h"

#ifdef LLS_NCCL

#include <sched.h>
#include <time.h>

#include "kernels/cuda/nccl.h"

#define PIECE 64 /* rows gathered at a time */

struct lls_cuda_ranks {
  struct lls_ranks *group;
  struct lls_cuda_nccl nccl;
  ncclComm_t comm;
  /* (PIECE, max_columns) on rank 0: parts of the other ranks, one after another */
  float *received;
};

static int join(struct lls_cuda_ranks *r, struct lls_error *err)
{
  struct lls_ranks *group = r->group;
  ncclUniqueId mine = {{0}}, all[LLS_MAX_RANKS];
  ncclResult_t rc = group->rank == 0 ? r->nccl.ncclGetUniqueId(&mine) : ncclSuccess;
  if (rc == ncclSuccess && group->ops->exchange(group, &mine, sizeof mine, all) < 0)
    return lls_ranks_failed(group, err);
  if (rc == ncclSuccess)
    rc = r->nccl.ncclCommInitRank(&r->comm, (int)group->size, all[0], (int)group->rank);
  return rc == ncclSuccess
             ? 0
             : lls_fail(err, -EIO, "NCCL: %s", r->nccl.ncclGetErrorString(rc));
}

int lls_cuda_ranks_create(struct lls_cuda_device *d, struct lls_error *err)
{
  if (d->options.ranks == NULL)
    return 0;
  struct lls_cuda_ranks *r = d->ranks = calloc(1, sizeof *r);
  if (r == NULL)
    return lls_fail(err, -ENOMEM, "out of memory");
  r->group = d->options.ranks;
  int rc = lls_cuda_nccl_open(&r->nccl, err);
  if (rc < 0)
    lls_fail_at(err, rc, "ranks on GPUs");
  if (rc == 0)
    rc = join(r, err);
  if (rc == 0 && r->group->rank == 0 &&
      lls_cuda_malloc(PIECE * sizeof(float) * d->options.max_columns,
                      (void **)&r->received) < 0)
    rc = lls_fail(err, -ENOMEM, "no memory on %s to gather", d->properties.name);
  return rc;
}

void lls_cuda_ranks_destroy(struct lls_cuda_device *d)
{
  struct lls_cuda_ranks *r = d->ranks;
  if (r == NULL)
    return;
  cudaFree(r->received);
  if (r->comm != NULL && lls_ranks_failed(r->group, NULL) == 0)
    r->nccl.ncclCommDestroy(r->comm);
  else if (r->comm != NULL)
    r->nccl.ncclCommAbort(r->comm);
  lls_cuda_nccl_close(&r->nccl);
  free(r);
}

/* ---- operations -------------------------------------------------------------------- */

static ncclDataType_t numbers_of(const struct lls_cuda_device *d)
{
  return lls_cuda_numbers(d) == LLS_F32 ? ncclFloat32 : ncclBfloat16;
}

static bool check(struct lls_cuda_device *d, ncclResult_t rc)
{
  if (rc != ncclSuccess)
    lls_cuda_step_fail(d, -EIO, "NCCL: %s", d->ranks->nccl.ncclGetErrorString(rc));
  return d->status == 0;
}

void lls_cuda_run_all_reduce(struct lls_cuda_device *d,
                             const struct lls_cuda_all_reduce *a)
{
  const struct lls_cuda_ranks *r = d->ranks;
  size_t n = (size_t)a->n_rows * a->columns;
  check(d, r->nccl.ncclAllReduce(a->x, a->x, n, a->f32 ? ncclFloat32 : numbers_of(d),
                                 ncclSum, r->comm, d->stream));
}

/* Gathers the ranks' parts, which NCCL puts one after another, and places them side by
 * side. */
void lls_cuda_run_all_gather(struct lls_cuda_device *d,
                             const struct lls_cuda_all_gather *a)
{
  const struct lls_cuda_ranks *r = d->ranks;
  size_t part = a->columns * lls_dtype_bytes(lls_cuda_numbers(d));
  size_t row = part * r->group->size;
  if (!check(d, r->nccl.ncclAllGather(a->part, a->parts, (size_t)a->n_rows * a->columns,
                                      numbers_of(d), r->comm, d->stream)))
    return;
  int rc = cudaSuccess;
  for (uint32_t from = 0; from < r->group->size && rc == cudaSuccess; from++)
    rc = cudaMemcpy2DAsync((char *)a->whole + from * part, row,
                           (const char *)a->parts + from * part * a->n_rows, part, part,
                           a->n_rows, cudaMemcpyDeviceToDevice, d->stream);
  lls_cuda_step_check(d, rc, "gathering hidden states");
}

/* Copies a rank's columns to their place. */
static int place(struct lls_cuda_device *d, const struct lls_cuda_gather_columns *a,
                 uint32_t rank, uint32_t row, uint32_t n, const float *from)
{
  size_t first = lls_ranks_first(a->columns, rank, d->ranks->group->size);
  size_t bytes = (lls_ranks_first(a->columns, rank + 1, d->ranks->group->size) - first) *
                 sizeof(float);
  return cudaMemcpy2DAsync(a->y + (size_t)row * a->columns + first,
                           a->columns * sizeof(float), from, bytes, bytes, n,
                           cudaMemcpyDeviceToDevice, d->stream);
}

/* Gathers rows [row, row + n) on rank 0. */
static void gather_piece(struct lls_cuda_device *d,
                         const struct lls_cuda_gather_columns *a, uint32_t row,
                         uint32_t n)
{
  const struct lls_cuda_ranks *r = d->ranks;
  uint32_t size = r->group->size;
  size_t share = lls_ranks_first(a->columns, 1, size);
  if (!check(d, r->nccl.ncclGroupStart()))
    return;
  ncclResult_t rc = ncclSuccess;
  for (uint32_t from = 1; from < size && rc == ncclSuccess; from++) {
    size_t first = lls_ranks_first(a->columns, from, size);
    size_t numbers = lls_ranks_first(a->columns, from + 1, size) - first;
    rc = r->nccl.ncclRecv(r->received + first * n, numbers * n, ncclFloat32, (int)from,
                          r->comm, d->stream);
  }
  ncclResult_t ended = r->nccl.ncclGroupEnd(); /* always, so that no group stays open */
  if (!check(d, rc != ncclSuccess ? rc : ended))
    return;
  int copied = place(d, a, 0, row, n, a->part + row * share);
  for (uint32_t from = 1; from < size && copied == cudaSuccess; from++)
    copied = place(d, a, from, row, n,
                   r->received + lls_ranks_first(a->columns, from, size) * n);
  lls_cuda_step_check(d, copied, "gathering logits");
}

void lls_cuda_run_gather_columns(struct lls_cuda_device *d,
                                 const struct lls_cuda_gather_columns *a)
{
  const struct lls_cuda_ranks *r = d->ranks;
  uint32_t rank = r->group->rank, size = r->group->size;
  size_t share = lls_ranks_first(a->columns, rank + 1, size) -
                 lls_ranks_first(a->columns, rank, size);
  for (uint32_t row = 0, n; row < a->n_rows && d->status == 0; row += n) {
    n = a->n_rows - row < PIECE ? a->n_rows - row : PIECE;
    if (rank == 0)
      gather_piece(d, a, row, n);
    else
      check(d, r->nccl.ncclSend(a->part + row * share, n * share, ncclFloat32, 0, r->comm,
                                d->stream));
  }
}

/* ---- the end of a step ------------------------------------------------------------- */

static int64_t now_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* Aborts the communicator: NCCL's kernels end in no other way, and their results are
 * lost. Destroying a communicator waits for the graphs that contain its kernels, so
 * graphs are destroyed first. */
static void abort_group(struct lls_cuda_device *d)
{
  struct lls_cuda_ranks *r = d->ranks;
  struct lls_error why = {0};
  lls_ranks_failed(r->group, &why);
  lls_cuda_step_fail(d, -ECONNABORTED, "%s", why.text);
  lls_cuda_ops_forget(d);
  if (r->comm != NULL)
    r->nccl.ncclCommAbort(r->comm);
  r->comm = NULL;
}

int lls_cuda_ranks_wait(struct lls_cuda_device *d, cudaEvent_t event)
{
  struct lls_cuda_ranks *r = d->ranks;
  if (r == NULL || r->comm == NULL)
    return cudaEventSynchronize(event);
  int64_t until_ns = now_ns() + r->group->timeout_ns;
  while (cudaEventQuery(event) == cudaErrorNotReady) {
    ncclResult_t failed = ncclSuccess;
    cudaGetLastError(); /* clears it: "not ready" would be returned by later calls */
    r->nccl.ncclCommGetAsyncError(r->comm, &failed);
    if (failed != ncclSuccess)
      lls_ranks_fail(r->group, r->nccl.ncclGetErrorString(failed));
    else if (now_ns() > until_ns)
      lls_ranks_fail(r->group, "waited too long for another rank");
    if (lls_ranks_failed(r->group, NULL) < 0) {
      abort_group(d);
      return cudaEventSynchronize(event);
    }
    sched_yield();
  }
  return cudaEventQuery(event);
}

#else /* no nccl.h */

int lls_cuda_ranks_create(struct lls_cuda_device *d, struct lls_error *err)
{
  if (d->options.ranks == NULL)
    return 0;
  return lls_fail(err, -ENOTSUP,
                  "this build's CUDA device has no ranks: configure found "
                  "no nccl.h");
}

void lls_cuda_ranks_destroy(struct lls_cuda_device *d)
{
  (void)d;
}

void lls_cuda_run_all_reduce(struct lls_cuda_device *d,
                             const struct lls_cuda_all_reduce *a)
{
  (void)a;
  lls_cuda_step_fail(d, -ENOTSUP, "no NCCL");
}

void lls_cuda_run_gather_columns(struct lls_cuda_device *d,
                                 const struct lls_cuda_gather_columns *a)
{
  (void)a;
  lls_cuda_step_fail(d, -ENOTSUP, "no NCCL");
}

void lls_cuda_run_all_gather(struct lls_cuda_device *d,
                             const struct lls_cuda_all_gather *a)
{
  (void)a;
  lls_cuda_step_fail(d, -ENOTSUP, "no NCCL");
}

int lls_cuda_ranks_wait(struct lls_cuda_device *d, cudaEvent_t event)
{
  (void)d;
  return cudaEventSynchronize(event);
}

#endif

int lls_cuda_ranks_reach(struct lls_cuda_device *d)
{
  int rc = cudaEventRecord(d->reached, d->stream);
  return rc != cudaSuccess ? rc : lls_cuda_ranks_wait(d, d->reached);
}
