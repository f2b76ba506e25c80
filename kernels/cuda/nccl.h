/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of libnccl.so.2. It is opened only if there are ranks or links, so that
 * a single GPU does not need it. */
#ifndef LLS_CUDA_NCCL_H
#define LLS_CUDA_NCCL_H

#ifdef LLS_NCCL

#include <nccl.h>

#include "core/base/error.h"

#define LLS_CUDA_NCCL_FUNCTIONS(X)                                                       \
  X(ncclGetUniqueId)                                                                     \
  X(ncclCommInitRank)                                                                    \
  X(ncclCommInitRankConfig)                                                              \
  X(ncclCommAbort)                                                                       \
  X(ncclCommDestroy)                                                                     \
  X(ncclCommGetAsyncError)                                                               \
  X(ncclGetErrorString)                                                                  \
  X(ncclAllReduce)                                                                       \
  X(ncclAllGather)                                                                       \
  X(ncclSend)                                                                            \
  X(ncclRecv)                                                                            \
  X(ncclGroupStart)                                                                      \
  X(ncclGroupEnd)

struct lls_cuda_nccl {
  void *library;
#define LLS_CUDA_NCCL_MEMBER(name) __typeof__(name) *name;
  LLS_CUDA_NCCL_FUNCTIONS(LLS_CUDA_NCCL_MEMBER)
#undef LLS_CUDA_NCCL_MEMBER
};

/* Returns 0 or -ENOENT. lls_cuda_nccl_close may be called even after a failure. */
int lls_cuda_nccl_open(struct lls_cuda_nccl *, struct lls_error *err);
void lls_cuda_nccl_close(struct lls_cuda_nccl *);

#endif
#endif
