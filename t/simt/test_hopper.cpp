/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The emulator's products of warpgroups and their barriers: correct kernels give
 * correct results, and each omission in a kernel is detected and named.
 */
#include "kernels/cuda/hopper.cuh"

#include "launches.h"

namespace
{

constexpr unsigned ROWS = 128, HALF = ROWS * 64; /* elements of 64 columns */
constexpr size_t ENOUGH = 3 * 2 * HALF * sizeof(bf16) + 1024;

/* Small integers, whose sums are exact. */
int number(unsigned matrix, unsigned row, unsigned column)
{
  return (int)((row * 7 + column * 3 + matrix * (row ^ column)) % 5) - 2;
}

/* A matrix of 128 columns, in two halves. */
void fill(shared<bf16> to, unsigned matrix)
{
  for (unsigned i = threadIdx.x; i < 2 * HALF; i += blockDim.x) {
    unsigned row = i / 128, column = i % 128, cell = column % 64 / 8 ^ row % 8;
    to[column / 64 * HALF + row * 64 + cell * 8 + column % 8] =
        from_float<bf16>((float)number(matrix, row, column));
  }
}

/* Counts the lane's elements of (64, 128) that are wrong. */
template <class F> int wrong(const float (&d)[16][4], F wanted)
{
  int n = 0;
  for (unsigned i = 0; i < 64; i++) {
    unsigned row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + i % 4 / 2 * 8;
    unsigned column = i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2;
    n += d[i / 4][i % 4] != (float)wanted(row, column);
  }
  return n;
}

/* d = rows 64 to 127 of a, times all of b's; then d += c's columns, with registers. */
__global__ void both_products(float *x)
{
  shared<bf16> a = aligned_shared(dynamic_shared<bf16>()), b = a + 2 * HALF;
  shared<bf16> c = b + 2 * HALF;
  fill(a, 0);
  fill(b, 1);
  fill(c, 2);
  products_fence();
  __syncthreads();
  float d[16][4];
  wgmma_fence();
  for (unsigned k = 0; k < 128; k += 16) {
    uint32_t at = k / 64 * HALF * 2 / 16 + k % 64 * 2 / 16;
    uint32_t from = describe(a + 64 * 64, 16) + at, with = describe(b, 16) + at;
    k == 0 ? wgmma_rows<false>(d, from, with) : wgmma_rows<true>(d, from, with);
  }
  wgmma_commit();
  x[threadIdx.x] = d[0][0]; /* no number yet */
  wgmma_wait<0>();
  x[128 + threadIdx.x] = (float)wrong(d, [](unsigned row, unsigned column) {
    int sum = 0;
    for (unsigned k = 0; k < 128; k++)
      sum += number(0, 64 + row, k) * number(1, column, k);
    return sum;
  });
  for (auto &row : d)
    row[0] = row[1] = row[2] = row[3] = 1;
  wgmma_fence();
  for (unsigned k = 0; k < 128; k += 16) {
    uint32_t p[4];
    for (unsigned i = 0; i < 4; i++) {
      unsigned row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + i % 2 * 8;
      unsigned column = k + i / 2 * 8 + threadIdx.x % 4 * 2;
      p[i] = pack_bf16((float)number(3, row, column), (float)number(3, row, column + 1));
    }
    wgmma_columns(d, p, describe(c, HALF * 2) + k * 64 * 2 / 16);
  }
  wgmma_commit();
  wgmma_wait<0>();
  x[256 + threadIdx.x] = (float)wrong(d, [](unsigned row, unsigned column) {
    int sum = 1;
    for (unsigned k = 0; k < 128; k++)
      sum += number(3, row, k) * number(2, k, column);
    return sum;
  });
}

void test_products(void **)
{
  expect_right(both_products, 1, WARPGROUP, ENOUGH);
  for (int i = 0; i < 128; i++) {
    assert_true(std::isnan(pinned[i]));
    assert_true(pinned[128 + i] == 0);
    assert_true(pinned[256 + i] == 0);
  }
}

/* The operation that the kernel below omits, or does too early. */
enum fault {
  NONE,
  NO_FENCE,
  NO_READING_WAIT,
  NO_WRITING_WAIT,
  EARLY_LEAVE,
  NO_ORDER,
  NO_PRODUCTS_WAIT,
  ONE_LANE_MORE,
  NO_COPY_WAIT,
};

/* One warpgroup writes a matrix three times, the other adds up its columns. */
template <fault LEFT> __global__ void hand_over(float *x)
{
  SHARED_ARRAY(mbarrier, barriers, 2);
  shared<mbarrier> full = &barriers[0], empty = full + 1;
  shared<bf16> matrix = aligned_shared(dynamic_shared<bf16>());
  if (threadIdx.x == 0) {
    mbarrier_init(full, WARPGROUP);
    mbarrier_init(empty, WARPGROUP / WARP);
  }
  __syncthreads();
  const uint32_t ones[4] = {0x3f803f80, 0x3f803f80, 0x3f803f80, 0x3f803f80};
  float d[8][4] = {};
  for (uint32_t i = 0; i < 3 && warpgroup() == 0; i++) {
    if (LEFT != NO_WRITING_WAIT)
      mbarrier_wait(empty, i - 1);
    for (unsigned k = 0; k < 8; k++)
      matrix[threadIdx.x * 8 + k] = from_float<bf16>((float)(i + 1));
    if (LEFT == NO_COPY_WAIT)
      copy_async(matrix + threadIdx.x * 8, x, true);
    if (LEFT != NO_FENCE)
      products_fence();
    mbarrier_arrive(full);
  }
  for (uint32_t i = 0; i < 3 && warpgroup() == 1; i++) {
    if (LEFT != NO_READING_WAIT)
      mbarrier_wait(full, i);
    if (LEFT != NO_ORDER)
      wgmma_fence();
    wgmma_columns(d, ones, describe(matrix, 16));
    if (LEFT == ONE_LANE_MORE && threadIdx.x % WARP == 5)
      wgmma_columns(d, ones, describe(matrix, 16));
    wgmma_commit();
    if (LEFT == EARLY_LEAVE && threadIdx.x % WARP == 0)
      mbarrier_arrive(empty);
    if (LEFT != NO_PRODUCTS_WAIT)
      wgmma_wait<0>();
    if (LEFT != EARLY_LEAVE && threadIdx.x % WARP == 0)
      mbarrier_arrive(empty);
  }
  x[threadIdx.x] = d[7][3];
}

void test_handing_over(void **)
{
  expect_right(hand_over<NONE>, 2, 2 * WARPGROUP, ENOUGH);
  for (int i = 0; i < 128; i++)
    assert_true(pinned[128 + i] == 16 * (1 + 2 + 3));
}

void test_left_out(void **)
{
  const unsigned n = 2 * WARPGROUP;
  expect_caught(hand_over<NO_FENCE>, n, "was at no fence", ENOUGH);
  expect_caught(hand_over<NO_READING_WAIT>, n, "while a product reads it", ENOUGH);
  expect_caught(hand_over<NO_WRITING_WAIT>, n, "phase 0 of an mbarrier", ENOUGH);
  expect_caught(hand_over<EARLY_LEAVE>, n, "doesn't know that products", ENOUGH);
  expect_caught(hand_over<NO_ORDER>, n, "without wgmma.fence", ENOUGH);
  expect_caught(hand_over<NO_PRODUCTS_WAIT>, n, "not waited for", ENOUGH);
  expect_caught(hand_over<ONE_LANE_MORE>, n, "different products", ENOUGH);
  expect_caught(hand_over<NO_COPY_WAIT>, n, "asynchronous copy", ENOUGH);
}

/* Only warp 2 waits for warps 0 and 1; warp 3 does not take part. */
__global__ void part_of_a_block(float *x)
{
  SHARED_ARRAY(float, room, 64);
  unsigned warp = threadIdx.x / WARP;
  if (warp < 2) {
    room[threadIdx.x] = (float)threadIdx.x;
    barrier_arrive(1, 3 * WARP);
  }
  if (warp == 2) {
    barrier_sync(1, 3 * WARP);
    x[threadIdx.x % WARP] = room[63 - threadIdx.x % WARP];
  }
}

__global__ void nobody_comes(float *)
{
  if (threadIdx.x < WARP)
    barrier_sync(1, 2 * WARP);
}

void test_named_barriers(void **)
{
  expect_right(part_of_a_block, 1, 4 * WARP);
  for (int i = 0; i < 32; i++)
    assert_true(pinned[i] == (float)(63 - i));
  expect_caught(nobody_comes, 4 * WARP, "barrier reached by 32 of 128 threads");
}

} // namespace

int main()
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      TEST(test_products),
      TEST(test_handing_over),
      TEST(test_left_out),
      TEST(test_named_barriers),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
