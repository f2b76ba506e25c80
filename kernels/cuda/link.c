/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link from GPU to GPU (core/device/link.h): an NCCL communicator of two ranks, of
 * which rank 0 sends, with a separate stream. Each direction has its own communicator:
 * with a common one, two ends that both send first would wait for each other.
 *
 * The communicator is non-blocking: a call that has to wait for the other end returns
 * "in progress", and until it completes NCCL accepts no other call. So a piece is first
 * begun, then on the stream, then done. Closing an end aborts its communicator, which
 * ends NCCL's kernels whether or not the other end is alive. Until both ends have begun
 * a piece, the kernel of the first one waits on some multiprocessors, concurrently with
 * steps.
 *
 * What is proved: it compiles against nccl.h, and blocks come over whole, or are sent in
 * another way, with t/simt's NCCL between processes (t/api/instances_nccl.t). It needs
 * two GPUs and has not run on any.
 */
#include "kernels/cuda/cuda.h"

#ifdef LLS_NCCL

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/device/link.h"
#include "kernels/cuda/nccl.h"

#define RECEIVER 1 /* rank of two ranks */

struct piece {
  char *at;
  size_t bytes;
  cudaEvent_t done;
};

struct lls_device_link {
  const struct lls_cuda_device *device;
  bool sends, is_open;
  /* the piece after n_begun was passed to NCCL, but is not yet on the stream */
  bool beginning;
  uint64_t n_given, n_begun, n_done;
  struct piece pieces[LLS_LINK_WINDOW]; /* ring, indexed by piece number */
  cudaStream_t stream;
  ncclComm_t comm;
};

struct lls_cuda_links {
  struct lls_cuda_nccl nccl;
};

static int prepare(struct lls_device *device, struct lls_error *err)
{
  struct lls_cuda_device *d = lls_cuda(device);
  if (d->links != NULL)
    return 0;
  struct lls_cuda_links *links = calloc(1, sizeof *links);
  if (links == NULL)
    return lls_fail(err, -ENOMEM, "out of memory");
  int rc = lls_cuda_nccl_open(&links->nccl, err);
  if (rc < 0) {
    lls_cuda_nccl_close(&links->nccl);
    free(links);
    return rc;
  }
  d->links = links;
  return 0;
}

void lls_cuda_links_destroy(struct lls_cuda_links *links)
{
  if (links != NULL)
    lls_cuda_nccl_close(&links->nccl);
  free(links);
}

static const struct lls_cuda_nccl *nccl_of(const struct lls_cuda_device *d)
{
  return &d->links->nccl;
}

static int fail(const struct lls_cuda_device *d, ncclResult_t rc, struct lls_error *err)
{
  return lls_fail(err, -EIO, "NCCL: %s", nccl_of(d)->ncclGetErrorString(rc));
}

static bool failed(ncclResult_t rc)
{
  return rc != ncclSuccess && rc != ncclInProgress;
}

/* ---- opening and closing ----------------------------------------------------------- */

static int make_name(struct lls_device *device, struct lls_link_name *out,
                     struct lls_error *err)
{
  const struct lls_cuda_device *d = lls_cuda(device);
  ncclUniqueId id;
  ncclResult_t rc = nccl_of(d)->ncclGetUniqueId(&id);
  if (rc != ncclSuccess)
    return fail(d, rc, err);
  _Static_assert(sizeof id == sizeof out->id, "NCCL's id is another than a link's");
  memcpy(out->id, &id, sizeof id);
  memcpy(out->device, &d->properties.uuid, sizeof out->device);
  return 0;
}

static void close_link(struct lls_device_link *link)
{
  lls_cuda_use(link->device);
  if (link->comm != NULL)
    nccl_of(link->device)->ncclCommAbort(link->comm);
  if (link->stream != NULL) {
    cudaStreamSynchronize(link->stream);
    cudaStreamDestroy(link->stream);
  }
  for (size_t i = 0; i < LLS_LINK_WINDOW; i++)
    if (link->pieces[i].done != NULL)
      cudaEventDestroy(link->pieces[i].done);
  free(link);
}

static int make_stream(struct lls_device_link *link, struct lls_error *err)
{
  int rc = cudaSetDevice(link->device->gpu);
  if (rc == cudaSuccess)
    rc = cudaStreamCreateWithFlags(&link->stream, cudaStreamNonBlocking);
  for (size_t i = 0; i < LLS_LINK_WINDOW && rc == cudaSuccess; i++)
    rc = cudaEventCreateWithFlags(&link->pieces[i].done, cudaEventDisableTiming);
  return lls_cuda_check(rc, err, "making a link's stream");
}

static int join(struct lls_device_link *link, const struct lls_link_name *name,
                struct lls_error *err)
{
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclUniqueId id;
  config.blocking = 0;
  memcpy(&id, name->id, sizeof id);
  ncclResult_t rc = nccl_of(link->device)
                        ->ncclCommInitRankConfig(&link->comm, 2, id,
                                                 link->sends ? 0 : RECEIVER, &config);
  return failed(rc) ? fail(link->device, rc, err) : 0;
}

static int open_link(struct lls_device *device, const struct lls_link_name *name,
                     bool sends, struct lls_device_link **out, struct lls_error *err)
{
  const struct lls_cuda_device *d = lls_cuda(device);
  if (!sends && memcmp(name->device, &d->properties.uuid, sizeof name->device) == 0)
    return lls_fail(err, -EXDEV, "both have the same GPU");
  struct lls_device_link *link = calloc(1, sizeof *link);
  if (link == NULL)
    return lls_fail(err, -ENOMEM, "out of memory");
  link->device = d;
  link->sends = sends;
  int rc = make_stream(link, err);
  if (rc == 0)
    rc = join(link, name, err);
  if (rc < 0)
    close_link(link);
  else
    *out = link;
  return rc;
}

/* ---- pieces ------------------------------------------------------------------------ */

static void give(struct lls_device_link *link, char *at, size_t bytes)
{
  struct piece *p = &link->pieces[link->n_given++ % LLS_LINK_WINDOW];
  p->at = at;
  p->bytes = bytes;
}

static int mark(struct lls_device_link *link, struct lls_error *err)
{
  int rc =
      cudaEventRecord(link->pieces[link->n_begun % LLS_LINK_WINDOW].done, link->stream);
  link->beginning = false;
  link->n_begun++;
  return lls_cuda_check(rc, err, "sending to another GPU");
}

static int begin(struct lls_device_link *link, struct lls_error *err)
{
  const struct lls_cuda_nccl *nccl = nccl_of(link->device);
  const struct piece *p = &link->pieces[link->n_begun % LLS_LINK_WINDOW];
  ncclResult_t rc =
      link->sends
          ? nccl->ncclSend(p->at, p->bytes, ncclUint8, RECEIVER, link->comm, link->stream)
          : nccl->ncclRecv(p->at, p->bytes, ncclUint8, 0, link->comm, link->stream);
  if (failed(rc))
    return fail(link->device, rc, err);
  link->beginning = rc == ncclInProgress;
  return link->beginning ? 0 : mark(link, err);
}

/* Checks the finished pieces; returns 0 or -EIO. */
static int see_done(struct lls_device_link *link, struct lls_error *err)
{
  int rc = cudaSuccess;
  while (link->n_done < link->n_begun && rc == cudaSuccess) {
    rc = cudaEventQuery(link->pieces[link->n_done % LLS_LINK_WINDOW].done);
    link->n_done += rc == cudaSuccess;
  }
  if (rc == cudaErrorNotReady) {
    cudaGetLastError(); /* clears it: "not ready" would be returned by later calls */
    rc = cudaSuccess;
  }
  return lls_cuda_check(rc, err, "sending to another GPU");
}

static int go_on(struct lls_device_link *link, uint64_t *n_done, struct lls_error *err)
{
  ncclResult_t state = ncclSuccess;
  int rc = lls_cuda_use(link->device);
  if (rc < 0)
    return lls_fail(err, rc, "a link's GPU cannot be used");
  ncclResult_t asked = nccl_of(link->device)->ncclCommGetAsyncError(link->comm, &state);
  if (asked != ncclSuccess || failed(state))
    return fail(link->device, failed(state) ? state : asked, err);
  link->is_open |= state == ncclSuccess;
  if (!link->is_open)
    return -EAGAIN;
  if (state == ncclSuccess && link->beginning)
    rc = mark(link, err);
  while (rc == 0 && state == ncclSuccess && !link->beginning &&
         link->n_begun < link->n_given)
    rc = begin(link, err);
  if (rc == 0)
    rc = see_done(link, err);
  *n_done = link->n_done;
  return rc;
}

const struct lls_link_ops lls_cuda_link_ops = {
    .text = "NCCL",
    .prepare = prepare,
    .make_name = make_name,
    .open = open_link,
    .give = give,
    .go_on = go_on,
    .close = close_link,
};

#else /* no nccl.h */

void lls_cuda_links_destroy(struct lls_cuda_links *links)
{
  (void)links;
}

#endif
