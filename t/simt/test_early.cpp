/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that begin before the ones ahead of them have ended: correct ones give
 * correct results, and each kind of access before the wait is detected.
 */
#include "launches.h"

namespace
{

constexpr unsigned BLOCKS = 6, THREADS = 32; /* more than begin early */

__device__ float &mine(float *x)
{
  return x[blockIdx.x * blockDim.x + threadIdx.x];
}

/* The kernel ahead: sets device[..] to number, and copies device[0 ..] to device[512
 * ..]. */
__global__ void set(float *x, float number)
{
  mine(x + 512) = mine(x);
  mine(x) = number;
}

__global__ void add_one(float *x)
{
  let_next_begin();
  wait_for_earlier();
  mine(x) += 1;
}

__global__ void add_one_read_early(float *x)
{
  float before = mine(x);
  wait_for_earlier();
  mine(x) = before + 1;
}

__global__ void write_early(float *x)
{
  mine(x) = -1;
  wait_for_earlier();
}

__global__ void never_waits(float *x)
{
  mine(x + 256) = 1;
}

/* Waits in one thread only, and uses shared memory written before the wait. */
__global__ void reverse_behind_one(float *x)
{
  SHARED_ARRAY(unsigned, from, THREADS);
  from[threadIdx.x] = THREADS - 1 - threadIdx.x;
  if (threadIdx.x == 0)
    wait_for_earlier();
  __syncthreads();
  float *block = x + blockIdx.x * blockDim.x;
  float number = block[from[threadIdx.x]];
  __syncthreads();
  mine(x) = number;
}

template <class K> void early(K kernel)
{
  assert_int_equal(simt::launch_early(stream, kernel, BLOCKS, THREADS, 0, device), 0);
}

void number(float x)
{
  assert_int_equal(launch(stream, set, BLOCKS, THREADS, 0, device, x), 0);
}

void fetch(void)
{
  cudaMemcpyAsync(pinned, device, BYTES, cudaMemcpyDeviceToHost, stream);
  if (cudaStreamSynchronize(stream) != cudaSuccess)
    fail_msg("%s", simt::error());
}

/* Counts the values that the kernels wrote which equal `expected`. */
unsigned count(unsigned from, float expected)
{
  unsigned n = 0;
  for (unsigned i = from; i < from + BLOCKS * THREADS; i++)
    n += pinned[i] == expected;
  return n;
}

void test_right(void **)
{
  for (int turn = 0; turn < 2; turn++) { /* blocks in one order, and the other */
    number(5000);
    early(add_one);
    early(add_one);
    early(add_one);
    early(add_one);
    fetch();
    assert_int_equal(count(0, 5004), BLOCKS * THREADS);
  }
}

void test_shared_memory(void **)
{
  early(reverse_behind_one);
  early(reverse_behind_one);
  early(reverse_behind_one);
  fetch();
  for (unsigned i = 0; i < BLOCKS * THREADS; i++)
    assert_true(pinned[i] == (float)(i / THREADS * THREADS + THREADS - 1 - i % THREADS));
}

void test_early_read(void **)
{
  number(5000);
  early(add_one_read_early);
  fetch();
  assert_int_equal(count(0, 5001), (BLOCKS - 4) * THREADS);
  for (unsigned behind = 1; behind <= 2; behind++) { /* kernels between */
    number(6000 * behind);
    for (unsigned i = 0; i < behind; i++)
      early(add_one);
    early(add_one_read_early);
    fetch();
    assert_int_equal(count(0, (float)(6001 * behind + 1)), (BLOCKS - 4) * THREADS);
  }
}

/* Copies and ordinary launches wait for everything ahead. */
void test_no_early_read(void **)
{
  number(5000);
  cudaMemcpyAsync(device + 512, device, 512, cudaMemcpyDeviceToDevice, stream);
  early(add_one_read_early);
  fetch();
  assert_int_equal(count(0, 5001), BLOCKS * THREADS);
  number(7000);
  launch(stream, add_one_read_early, BLOCKS, THREADS, 0, device);
  fetch();
  assert_int_equal(count(0, 7001), BLOCKS * THREADS);
}

void test_early_write(void **)
{
  number(5000); /* finds numbers that are none of these */
  fetch();
  number(6000);
  early(write_early);
  fetch();
  assert_int_equal(count(512, -1), 4 * THREADS); /* read by the kernel ahead */
  assert_int_equal(count(0, 6000), 4 * THREADS); /* written by it */
}

void test_never_waits(void **)
{
  number(5000);
  early(never_waits);
  assert_int_equal(cudaStreamSynchronize(stream), cudaErrorLaunchFailure);
  assert_non_null(strstr(simt::error(), "never waits"));
  simt::error_reset();
  cudaGetLastError();
  number(1); /* the waiting blocks are discarded when another kernel failed */
  early(add_one);
  early(never_waits);
  early(add_one);
  assert_int_equal(cudaStreamSynchronize(stream), cudaErrorLaunchFailure);
  simt::error_reset();
  cudaGetLastError();
  number(5000);
  early(add_one);
  fetch();
  assert_int_equal(count(0, 5001), BLOCKS * THREADS);
}

void test_graphs(void **)
{
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  number(5000);
  early(add_one);
  early(add_one_read_early);
  assert_int_equal(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  assert_int_equal(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  for (int i = 0; i < 3; i++) {
    cudaGraphLaunch(exec, stream);
    fetch();
    assert_int_equal(count(0, 5002), (BLOCKS - 4) * THREADS);
  }
  cudaGraphDestroy(graph);
  cudaGraphExecDestroy(exec);
}

} // namespace

int main()
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      TEST(test_right),         TEST(test_shared_memory), TEST(test_early_read),
      TEST(test_no_early_read), TEST(test_early_write),   TEST(test_never_waits),
      TEST(test_graphs),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
