/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The emulator itself: correct kernels give correct results, and each kind of fault is
 * detected and named. The kernels are written like those of kernels/cuda.
 */
#include "kernels/cuda/tensor.cuh"

#include "launches.h"

namespace
{

/* ---- right ones --------------------------------------------------------------- */

__global__ void reverse(float *x)
{
  SHARED_ARRAY(float, room, 256);
  float *mine = x + blockIdx.x * blockDim.x;
  room[threadIdx.x] = mine[threadIdx.x];
  __syncthreads();
  mine[threadIdx.x] = room[blockDim.x - 1 - threadIdx.x];
}

__global__ void count_blocks(float *x)
{
  if (threadIdx.x == 0)
    x[1 + blockIdx.x] = x[0]++;
}

/* A kernel that depends on the order of blocks is also run in the other order. */
void test_order_of_blocks(void **)
{
  float first[4];
  for (int launches = 0; launches < 2; launches++) {
    expect_right(count_blocks, 4, 32);
    for (int i = 0; i < 4; i++) {
      if (launches == 1)
        assert_int_equal((int)(pinned[1 + i] - 4), 3 - (int)first[i]);
      first[i] = pinned[1 + i];
    }
  }
}

void test_barrier(void **)
{
  expect_right(reverse, 4, 256);
  for (int i = 0; i < 1024; i++)
    assert_true(pinned[i] == (float)(i / 256 * 256 + 255 - i % 256));
}

__global__ void sums(float *x)
{
  SHARED_ARRAY(float, room, 256 / WARP);
  SHARED_ARRAY(uint32_t, count, 1);
  if (threadIdx.x == 0)
    count[0] = 0;
  float sum = block_sum(x[threadIdx.x], room);
  atomicAdd(&count[0], (uint32_t)1);
  unsigned odd = __ballot_sync(ALL_LANES, threadIdx.x % 2);
  float above = __shfl_up_sync(ALL_LANES, (float)threadIdx.x, 1);
  float largest = warp_max((float)threadIdx.x);
  __syncthreads();
  if (threadIdx.x == 70) {
    x[0] = sum;
    x[1] = (float)count[0];
    x[2] = (float)__popc(odd);
    x[3] = above;
    x[4] = largest;
  }
}

void test_collectives(void **)
{
  expect_right(sums, 1, 256);
  assert_true(pinned[0] == 255 * 256 / 2);
  assert_true(pinned[1] == 256);
  assert_true(pinned[2] == 16);
  assert_true(pinned[3] == 69);
  assert_true(pinned[4] == 95);
}

/* Within a warp __syncwarp is enough. */
__global__ void in_a_warp(float *x)
{
  SHARED_ARRAY(float, room, 64);
  unsigned i = threadIdx.x;
  room[i] = x[i];
  __syncwarp();
  x[i] = room[i ^ 5];
  __syncwarp();
  room[i ^ 1] = 1;
}

void test_syncwarp(void **)
{
  expect_right(in_a_warp, 1, 64);
  for (int i = 0; i < 64; i++)
    assert_true(pinned[i] == (float)(i ^ 5));
}

/* D = A B of 16x16 and 16x8 small integers, through shared memory as attention
 * does it. */
__global__ void multiply(float *x)
{
  shared<bf16> a = dynamic_shared<bf16>(), b = a + 16 * 24;
  unsigned lane = threadIdx.x;
  for (unsigned i = lane; i < 16 * 16; i += WARP)
    a[i / 16 * 24 + i % 16] = from_float<bf16>((float)(i * 7 % 5) - 2);
  for (unsigned i = lane; i < 16 * 16; i += WARP) /* (k, n) */
    b[i / 16 * 24 + i % 16] = from_float<bf16>((float)(i * 3 % 7) - 3);
  __syncwarp();
  uint32_t ra[4], rb[4];
  ldmatrix(ra, a + (lane % 16 * 24 + lane / 16 * 8));
  ldmatrix_trans(rb, b + ((lane / 8 % 2 * 8 + lane % 8) * 24 + lane / 16 * 8));
  float d[2][4] = {{0}};
  mma(d[0], ra, rb[0], rb[1]);
  mma(d[1], ra, rb[2], rb[3]);
  for (int n = 0; n < 2; n++)
    for (int i = 0; i < 4; i++)
      x[(lane / 4 + i / 2 * 8) * 16 + n * 8 + lane % 4 * 2 + i % 2] = d[n][i];
}

void test_tensor_core(void **)
{
  expect_right(multiply, 1, WARP);
  for (int row = 0; row < 16; row++)
    for (int column = 0; column < 16; column++) {
      int sum = 0;
      for (int k = 0; k < 16; k++)
        sum += ((row * 16 + k) * 7 % 5 - 2) * ((k * 16 + column) * 3 % 7 - 3);
      assert_true(pinned[row * 16 + column] == (float)sum);
    }
}

__global__ void copies(float *x)
{
  shared<bf16> to = dynamic_shared<bf16>();
  copy_async(to + threadIdx.x * 8, x + threadIdx.x * 4, threadIdx.x < 16);
  copy_async_commit();
  copy_async_wait();
  __syncthreads();
  float value = shared_cast<float>(to)[(threadIdx.x + 7) % WARP * 4];
  x[512 + threadIdx.x] = value;
}

void test_asynchronous_copies(void **)
{
  expect_right(copies, 1, WARP);
  for (int i = 0; i < 32; i++)
    assert_true(pinned[512 + i] == (float)((i + 7) % 32 < 16 ? (i + 7) % 32 * 4 : 0));
}

/* ---- wrong ones --------------------------------------------------------------- */

__global__ void no_barrier(float *x)
{
  SHARED_ARRAY(float, room, 64);
  room[threadIdx.x] = x[threadIdx.x];
  x[threadIdx.x] = room[threadIdx.x & ~1u]; /* threads run in order */
}

__global__ void only_syncwarp(float *x)
{
  SHARED_ARRAY(float, room, 64);
  room[threadIdx.x] = x[threadIdx.x];
  __syncwarp();
  x[threadIdx.x] = room[threadIdx.x & 31u];
}

__global__ void shuffle_is_no_barrier(float *x)
{
  SHARED_ARRAY(float, room, 64);
  room[threadIdx.x] = __shfl_xor_sync(ALL_LANES, x[threadIdx.x], 1);
  float sum = warp_sum(1);
  x[threadIdx.x] = room[threadIdx.x ^ 1] + sum;
}

__global__ void overwritten_too_early(float *x)
{
  SHARED_ARRAY(float, room, 64);
  room[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = room[threadIdx.x | 1];
  if (threadIdx.x % 2 == 1)
    room[threadIdx.x] = 0;
}

__global__ void two_writers(float *x)
{
  SHARED_ARRAY(float, room, 1);
  room[0] = x[threadIdx.x];
}

__global__ void never_written(float *x)
{
  SHARED_ARRAY(float, room, 64);
  if (threadIdx.x != 40)
    room[threadIdx.x] = 1;
  __syncthreads();
  x[threadIdx.x] = room[63 - threadIdx.x];
}

/* Data left by the previous block does not count as written. */
__global__ void written_by_another_block(float *x)
{
  SHARED_ARRAY(float, room, 64);
  if (blockIdx.x == 0)
    room[threadIdx.x] = 1;
  x[threadIdx.x] = room[threadIdx.x];
}

__global__ void half_a_block(float *x)
{
  SHARED_ARRAY(float, room, 64);
  room[threadIdx.x] = x[threadIdx.x];
  if (threadIdx.x < 48)
    __syncthreads();
}

__global__ void two_barriers(float *x)
{
  if (x[threadIdx.x] < 32)
    __syncthreads();
  else
    __syncthreads();
}

__global__ void half_a_warp(float *x)
{
  if (threadIdx.x % 2 == 0)
    x[threadIdx.x] = __shfl_xor_sync(ALL_LANES, x[threadIdx.x], 2);
}

__global__ void two_shuffles(float *x)
{
  float value = 0;
  if (threadIdx.x % 2 == 0)
    value = __shfl_xor_sync(ALL_LANES, x[threadIdx.x], 2);
  else
    value = __shfl_xor_sync(ALL_LANES, x[threadIdx.x], 4);
  x[threadIdx.x] = value;
}

__global__ void beyond_the_end(float *x)
{
  shared<float> room = dynamic_shared<float>();
  room[threadIdx.x * 17] = x[0];
}

__global__ void not_waited_for(float *x)
{
  shared<bf16> to = dynamic_shared<bf16>();
  copy_async(to + threadIdx.x * 8, x, true);
  copy_async_commit();
  x[threadIdx.x] = shared_cast<float>(to)[threadIdx.x * 4];
}

__global__ void copy_into_what_is_read(float *x)
{
  shared<bf16> to = dynamic_shared<bf16>();
  copy_async(to + threadIdx.x * 8, x, true);
  copy_async_commit();
  copy_async_wait();
  __syncthreads();
  x[threadIdx.x] = shared_cast<float>(to)[(threadIdx.x | 1) * 4];
  if (threadIdx.x % 2 == 1)
    copy_async(to + threadIdx.x * 8, x, true);
}

__global__ void crooked_row(float *x)
{
  shared<bf16> a = dynamic_shared<bf16>();
  uint32_t r[4];
  for (unsigned i = threadIdx.x; i < 1024; i += WARP)
    a[i] = bf16{0};
  __syncwarp();
  ldmatrix(r, a + threadIdx.x * 4);
  x[0] = 0;
}

void test_races(void **)
{
  expect_caught(no_barrier, 64, "with no barrier since");
  expect_caught(only_syncwarp, 64, "with no barrier since");
  expect_caught(shuffle_is_no_barrier, 64, "with no barrier since");
  expect_caught(overwritten_too_early, 64, "others read with no barrier since");
  expect_caught(two_writers, 64, "with no barrier since");
  expect_caught(copy_into_what_is_read, 32, "others read with no barrier since");
}

void test_unwritten(void **)
{
  expect_caught(never_written, 64, "never written");
  expect_caught(written_by_another_block, 64, "never written");
  expect_caught(not_waited_for, 32, "asynchronous copy");
  expect_caught(beyond_the_end, 64, "of 4096");
  expect_caught(crooked_row, 32, "no multiple of 16");
}

void test_divergence(void **)
{
  expect_caught(half_a_block, 64, "barrier reached by 48 of 64 threads");
  expect_caught(two_barriers, 64, "while others are at");
  expect_caught(half_a_warp, 32, "waits for the others");
  expect_caught(two_shuffles, 32, "while others of its warp are at");
  expect_right(reverse, 2, 64); /* and goes on */
}

/* ---- streams ------------------------------------------------------------------ */

/* If a buffer is refilled before its copy was waited for, the new contents arrive. */
void test_copies_are_late(void **)
{
  pinned[0] = 1;
  cudaMemcpyAsync(device, pinned, 4, cudaMemcpyHostToDevice, stream);
  pinned[0] = 2;
  cudaMemcpyAsync(pinned + 1, device, 4, cudaMemcpyDeviceToHost, stream);
  assert_true(pinned[1] == 1); /* setup's: nothing has happened yet */
  cudaStreamSynchronize(stream);
  assert_true(pinned[1] == 2);
}

void test_events(void **)
{
  cudaStream_t other;
  cudaEvent_t written;
  cudaStreamCreateWithFlags(&other, 0);
  cudaEventCreateWithFlags(&written, cudaEventDisableTiming);
  pinned[0] = 7;
  cudaMemcpyAsync(device + 9, pinned, 4, cudaMemcpyHostToDevice, stream);
  cudaMemcpyAsync(pinned + 1, device + 9, 4, cudaMemcpyDeviceToHost, other);
  cudaStreamSynchronize(other);
  assert_true(pinned[1] == 9); /* without a wait between them */
  cudaEventRecord(written, stream);
  cudaStreamWaitEvent(other, written, 0);
  cudaMemcpyAsync(pinned + 1, device + 9, 4, cudaMemcpyDeviceToHost, other);
  cudaStreamSynchronize(other);
  assert_true(pinned[1] == 7);
  cudaEventDestroy(written);
  cudaStreamDestroy(other);
}

void test_graphs(void **)
{
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  pinned[0] = 5;
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  cudaMemcpyAsync(device, pinned, 4, cudaMemcpyHostToDevice, stream);
  cudaMemcpyAsync(pinned + 1, device, 4, cudaMemcpyDeviceToHost, stream);
  assert_int_equal(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  assert_int_equal(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  cudaStreamSynchronize(stream);
  assert_true(pinned[1] == 1); /* captured, not done */
  for (int i = 10; i < 13; i++) {
    pinned[0] = (float)i;
    cudaGraphLaunch(exec, stream);
    cudaStreamSynchronize(stream);
    assert_true(pinned[1] == (float)i);
  }
  cudaGraphDestroy(graph);
  cudaGraphExecDestroy(exec);
}

/* Memory that was not allocated with CUDA, and copies beyond an allocation. */
void test_strange_memory(void **)
{
  float mine[4] = {0};
  assert_int_not_equal(cudaMemcpyAsync(device, mine, 4, cudaMemcpyHostToDevice, stream),
                       cudaSuccess);
  assert_int_not_equal(
      cudaMemcpyAsync(device, pinned, BYTES + 1, cudaMemcpyHostToDevice, stream),
      cudaSuccess);
  assert_int_not_equal(cudaMemcpyAsync(device, pinned, 4, cudaMemcpyDeviceToHost, stream),
                       cudaSuccess);
  assert_int_not_equal(launch(stream, reverse, 1, 1025, 0, device), cudaSuccess);
  assert_int_not_equal(launch(stream, reverse, 0, 32, 0, device), cudaSuccess);
}

} // namespace

int main()
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      TEST(test_barrier),        TEST(test_order_of_blocks),
      TEST(test_collectives),    TEST(test_syncwarp),
      TEST(test_tensor_core),    TEST(test_asynchronous_copies),
      TEST(test_races),          TEST(test_unwritten),
      TEST(test_divergence),     TEST(test_copies_are_late),
      TEST(test_events),         TEST(test_graphs),
      TEST(test_strange_memory),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
