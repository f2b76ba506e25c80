/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the CUDA runtime that kernels/cuda uses, for the emulator (../simt.h):
 * names and meanings from NVIDIA's documentation, declared here so that the tests need
 * no toolkit. ../stream.cpp describes what a call does here.
 */
#ifndef LLS_SIMT_CUDA_RUNTIME_API_H
#define LLS_SIMT_CUDA_RUNTIME_API_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum cudaError {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotReady = 600,
  cudaErrorPeerAccessAlreadyEnabled = 704,
  cudaErrorLaunchFailure = 719,
  cudaErrorStreamCaptureUnsupported = 900,
} cudaError_t;

typedef struct simt_stream *cudaStream_t;
typedef struct simt_event *cudaEvent_t;
typedef struct simt_graph *cudaGraph_t;
typedef struct simt_graph *cudaGraphExec_t;

enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault,
};

enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal,
  cudaStreamCaptureModeThreadLocal,
  cudaStreamCaptureModeRelaxed,
};

enum cudaDeviceAttr {
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
};

typedef struct {
  char bytes[16];
} cudaUUID_t;

struct cudaDeviceProp {
  char name[256];
  cudaUUID_t uuid;
  int multiProcessorCount;
  int major, minor;
  size_t sharedMemPerMultiprocessor;
  int l2CacheSize;
};

#define cudaStreamNonBlocking  1
#define cudaEventDefault       0
#define cudaEventDisableTiming 2

const char *cudaGetErrorString(cudaError_t);
cudaError_t cudaGetLastError(void);
cudaError_t cudaGetDeviceCount(int *);
cudaError_t cudaSetDevice(int);
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer);
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *, int device);
cudaError_t cudaMemGetInfo(size_t *available, size_t *total);

cudaError_t cudaMalloc(void **, size_t);
cudaError_t cudaFree(void *);
cudaError_t cudaMallocHost(void **, size_t);
cudaError_t cudaFreeHost(void *);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t);
cudaError_t cudaStreamSynchronize(cudaStream_t);
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t);
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t);
cudaError_t cudaEventSynchronize(cudaEvent_t);
cudaError_t cudaEventQuery(cudaEvent_t);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to);

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t, enum cudaMemcpyKind,
                            cudaStream_t);
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from,
                              size_t from_pitch, size_t width, size_t height,
                              enum cudaMemcpyKind, cudaStream_t);
cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from,
                                int from_device, size_t, cudaStream_t);
cudaError_t cudaMemsetAsync(void *, int, size_t, cudaStream_t);

cudaError_t cudaStreamBeginCapture(cudaStream_t, enum cudaStreamCaptureMode);
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t *);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *, cudaGraph_t,
                                 unsigned long long flags);
cudaError_t cudaGraphDestroy(cudaGraph_t);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t);
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t);
unsigned simt_graph_launches(void);          /* launches so far; for tests */
void simt_gpus(int n, int reach_each_other); /* GPUs of the machine; initially one */
int simt_direct_copies(void);                /* copies between two GPUs since simt_gpus */
/* Recovers from a fault, and causes another one after so many kernels; -1: never. */
void simt_fault_after(long kernels);
/* A bit for each GPU on which something was created or waited for since then. */
unsigned simt_contexts(void);

/* For benchmarks of the host's work. simt_only_host: from now on nothing is executed,
 * and allocated memory is zeros. The other returns the CPU time that the caller's
 * thread spent between waiting for an event and launching the next kernel or graph,
 * when a GPU would be idle. */
void simt_only_host(void);
int64_t simt_idle_ns(void);

#ifdef __cplusplus
}
#endif

#endif
