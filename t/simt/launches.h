/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for the emulator's tests: correct ones and faulty ones. */
#ifndef LLS_SIMT_LAUNCHES_H
#define LLS_SIMT_LAUNCHES_H

#include "kernels/cuda/kernel.cuh"

extern "C" {
#include "t/tap.h"
}

#include <cstring>

namespace
{

cudaStream_t stream;
float *device, *pinned; /* (1024) */

constexpr size_t BYTES = 1024 * sizeof(float);

int setup(void **)
{
  cudaStreamCreateWithFlags(&stream, 0);
  cudaMalloc((void **)&device, BYTES);
  cudaMallocHost((void **)&pinned, BYTES);
  for (int i = 0; i < 1024; i++)
    pinned[i] = (float)i;
  cudaMemcpyAsync(device, pinned, BYTES, cudaMemcpyHostToDevice, stream);
  return cudaStreamSynchronize(stream);
}

int teardown(void **)
{
  simt::error_reset();
  cudaStreamDestroy(stream);
  cudaFree(device);
  cudaFreeHost(pinned);
  cudaGetLastError();
  return 0;
}

template <class K>
void expect_right(K kernel, unsigned blocks, unsigned threads, size_t shared_bytes = 4096)
{
  launch(stream, kernel, blocks, threads, shared_bytes, device);
  if (cudaStreamSynchronize(stream) != cudaSuccess)
    fail_msg("a right kernel: %s", simt::error());
  cudaMemcpyAsync(pinned, device, BYTES, cudaMemcpyDeviceToHost, stream);
  cudaStreamSynchronize(stream);
}

template <class K>
void expect_caught(K kernel, unsigned threads, const char *what,
                   size_t shared_bytes = 4096)
{
  launch(stream, kernel, 2, threads, shared_bytes, device);
  assert_int_equal(cudaStreamSynchronize(stream), cudaErrorLaunchFailure);
  if (strstr(simt::error(), what) == nullptr)
    fail_msg("expected \"%s\", found \"%s\"", what, simt::error());
  assert_int_equal(cudaGetLastError(), cudaErrorLaunchFailure);
  simt::error_reset();
  cudaGetLastError();
}

} // namespace

#endif
