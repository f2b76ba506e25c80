/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of NCCL that kernels/cuda uses, for the emulator: the names, values and
 * meanings of NVIDIA's documentation, declared for ourselves; see ../nccl.cpp.
 */
#ifndef LLS_SIMT_NCCL_H
#define LLS_SIMT_NCCL_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  ncclSuccess = 0,
  ncclSystemError = 2,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclInProgress = 7,
} ncclResult_t;

typedef enum { ncclUint8 = 1, ncclFloat32 = 7, ncclBfloat16 = 9 } ncclDataType_t;
typedef enum { ncclSum = 0 } ncclRedOp_t;

#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef struct {
  int blocking;
} ncclConfig_t;
#define NCCL_CONFIG_INITIALIZER                                                          \
  {                                                                                      \
    1                                                                                    \
  }

typedef struct simt_comm *ncclComm_t;

ncclResult_t ncclGetUniqueId(ncclUniqueId *);
ncclResult_t ncclCommInitRank(ncclComm_t *, int size, ncclUniqueId, int rank);
ncclResult_t ncclCommInitRankConfig(ncclComm_t *, int size, ncclUniqueId, int rank,
                                    ncclConfig_t *);
ncclResult_t ncclCommAbort(ncclComm_t);
ncclResult_t ncclCommDestroy(ncclComm_t);
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t *);
const char *ncclGetErrorString(ncclResult_t);

ncclResult_t ncclAllReduce(const void *, void *, size_t n, ncclDataType_t, ncclRedOp_t,
                           ncclComm_t, cudaStream_t);
ncclResult_t ncclAllGather(const void *, void *, size_t n_of_each, ncclDataType_t,
                           ncclComm_t, cudaStream_t);
ncclResult_t ncclSend(const void *, size_t n, ncclDataType_t, int to, ncclComm_t,
                      cudaStream_t);
ncclResult_t ncclRecv(void *, size_t n, ncclDataType_t, int from, ncclComm_t,
                      cudaStream_t);
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

#ifdef __cplusplus
}
#endif

#endif
