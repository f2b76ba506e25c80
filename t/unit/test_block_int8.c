/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks in int8 (core/disk/block_int8.h): each number comes back within half a step of
 * its piece, and the rounding of its type; what int8 cannot have is refused.
 */
#include "t/tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/device/numbers.h"
#include "core/disk/block_int8.h"
#include "t/dice.h"

#define PIECE 64
#define MOST  (16 * PIECE)

/* Magnitudes from 2^-20 to 2^20, of which each row has its own, and one outlier. */
static void fill(struct dice *d, size_t n, float *x)
{
  float row = 1;
  for (size_t i = 0; i < n; i++) {
    if (i % PIECE == 0)
      row = ldexpf(1, (int)dice(d, 0, 40) - 20);
    float part = (float)dice(d, 0, 2000000) / 1000000 - 1;
    x[i] = row * part * (i % PIECE == 7 ? 30 : 1);
  }
}

static void store(enum lls_dtype t, float *x, size_t n, void *out)
{
  for (size_t i = 0; i < n; i++)
    if (t == LLS_BF16) {
      ((uint16_t *)out)[i] = lls_f32_to_bf16(x[i]);
      x[i] = lls_bf16_to_f32(((uint16_t *)out)[i]);
    } else {
      ((float *)out)[i] = x[i];
    }
}

static float load(enum lls_dtype t, const void *numbers, size_t i)
{
  return t == LLS_BF16 ? lls_bf16_to_f32(((const uint16_t *)numbers)[i])
                       : ((const float *)numbers)[i];
}

static float largest(const float *x, size_t n)
{
  float most = 0;
  for (size_t i = 0; i < n; i++)
    most = fmaxf(most, fabsf(x[i]));
  return most;
}

static void check_block(enum lls_dtype t, size_t n, struct dice *d)
{
  /* The buffers have exact sizes, so that a sanitizer sees a number too many. */
  size_t bytes = n * lls_dtype_bytes(t);
  float *x = malloc(n * sizeof *x);
  void *numbers = malloc(bytes), *back = malloc(bytes), *again = malloc(bytes);
  void *packed = malloc(lls_int8_bytes(n));
  fill(d, n, x);
  store(t, x, n, numbers);
  assert_true(lls_int8_pack(t, n, numbers, packed));
  lls_int8_unpack(t, n, packed, back);
  assert_true(lls_int8_pack(t, n, back, packed));
  lls_int8_unpack(t, n, packed, again);
  double type_error = t == LLS_BF16 ? 0x1p-8 : 0x1p-23;
  for (size_t i = 0; i < n; i++) {
    size_t first = i / PIECE * PIECE, end = first + PIECE < n ? first + PIECE : n;
    double most = largest(x + first, end - first);
    double y = load(t, back, i), z = load(t, again, i);
    assert_true(fabs(y - x[i]) <= most / 254 * (1 + 0x1p-16) + fabs(y) * type_error);
    assert_true(fabs(z - y) <= most * 2 * type_error); /* nothing drifts */
    if (fabsf(x[i]) == (float)most)
      assert_true(fabs(y - x[i]) <= most * type_error);
  }
  free(packed), free(again), free(back), free(numbers), free(x);
}

static void test_numbers_come_back(void **state)
{
  struct dice d = {41};
  (void)state;
  for (int i = 0; i < TAP_LOTS(200); i++) {
    check_block(LLS_F32, dice(&d, 1, MOST), &d);
    check_block(LLS_BF16, dice(&d, 1, MOST), &d);
  }
}

static void test_bytes(void **state)
{
  (void)state;
  assert_int_equal(lls_int8_bytes(1), PIECE + 4);
  assert_int_equal(lls_int8_bytes(16 * PIECE), 16 * (PIECE + 4));
}

/* Packed bytes have a sum on disk: all of them are set, also behind the last number. */
static void test_all_bytes_are_set(void **state)
{
  const float x[3] = {1, -2, 3};
  char one[PIECE + 4], two[PIECE + 4];
  (void)state;
  memset(one, 0x55, sizeof one);
  memset(two, 0xaa, sizeof two);
  assert_true(lls_int8_pack(LLS_F32, 3, x, one));
  assert_true(lls_int8_pack(LLS_F32, 3, x, two));
  assert_memory_equal(one, two, sizeof one);
}

static void test_what_int8_cannot_have(void **state)
{
  const float bad[] = {INFINITY, -INFINITY, NAN, 0x1.fffffep127f};
  float x[2 * PIECE] = {0};
  char packed[2 * (PIECE + 4)];
  (void)state;
  for (size_t i = 0; i < 4; i++) {
    x[PIECE + 3] = bad[i];
    assert_false(lls_int8_pack(LLS_F32, 2 * PIECE, x, packed));
    uint16_t b = lls_f32_to_bf16(bad[i]);
    assert_false(lls_int8_pack(LLS_BF16, 1, &b, packed));
  }
}

static void test_the_smallest_and_largest(void **state)
{
  const float all[] = {0, 0x1p-149f, 0x1p-126f, 0x1p-118f, 0x1.fffffep126f};
  char packed[PIECE + 4];
  (void)state;
  for (size_t i = 0; i < 5; i++) {
    float y = NAN, x = -all[i];
    assert_true(lls_int8_pack(LLS_F32, 1, &x, packed));
    lls_int8_unpack(LLS_F32, 1, packed, &y);
    assert_true(fabsf(y - x) <= fmaxf(0x1p-118f, all[i] * 0x1p-22f));
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_numbers_come_back),
      cmocka_unit_test(test_bytes),
      cmocka_unit_test(test_all_bytes_are_set),
      cmocka_unit_test(test_what_int8_cannot_have),
      cmocka_unit_test(test_the_smallest_and_largest),
  };
  cmocka_set_message_output(CM_OUTPUT_TAP);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
