/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of quantised types against the reference's values of the same blocks. */
#include "t/quantised_data.h"

#include "core/device/tensor.h"
#include "core/engine/shard.h"

#include <string.h>

static void assert_row(const struct lls_tensor_view *view, size_t row,
                       const float *expected)
{
  float got[VECTOR_COLUMNS];
  lls_tensor_read_row(view, row, got);
  for (size_t i = 0; i < view->columns; i++) {
    if (!(got[i] == expected[i]))
      fail_msg("%s, row %zu, column %zu: %.9g, not %.9g", lls_dtype_name(view->dtype),
               row, i, (double)got[i], (double)expected[i]);
  }
}

static void test_rows_are_the_reference_s(void **state)
{
  (void)state;
  for (size_t t = 0; t < N_VECTOR_TYPES; t++) {
    struct vectors v;
    read_vectors(vector_types[t], &v);
    for (size_t row = 0; row < VECTOR_ROWS; row++)
      assert_row(&v.view, row, v.expected + row * VECTOR_COLUMNS);
  }
}

static void test_a_part_reads_what_the_whole_has_there(void **state)
{
  (void)state;
  for (size_t t = 0; t < N_VECTOR_TYPES; t++) {
    struct vectors v;
    read_vectors(vector_types[t], &v);
    struct lls_tensor_view part = lls_view_rows(&v.view, 1, 1);
    assert_row(&part, 0, v.expected + VECTOR_COLUMNS);
    size_t block = lls_dtype_block(vector_types[t]), first = VECTOR_COLUMNS - block;
    part = lls_view_columns(&v.view, first, block);
    assert_row(&part, 1, v.expected + VECTOR_COLUMNS + first);
  }
}

/* The factors of products of whole numbers. */
static void test_codes_make_the_numbers(void **state)
{
  (void)state;
  for (size_t t = 0; t < N_VECTOR_TYPES; t++) {
    struct vectors v;
    int8_t codes[VECTOR_NUMBERS];
    float scale[VECTOR_NUMBERS / LLS_BLOCK_GROUP_MIN],
        offset[VECTOR_NUMBERS / LLS_BLOCK_GROUP_MIN];
    read_vectors(vector_types[t], &v);
    lls_quantised_read_codes(vector_types[t], v.view.data, VECTOR_NUMBERS, codes, scale,
                             offset);
    for (size_t i = 0; i < VECTOR_NUMBERS; i++) {
      size_t group = i / lls_dtype_group(vector_types[t]);
      float got = scale[group] * (float)codes[i] + offset[group];
      assert_true(got == v.expected[i]);
      assert_true(offset[group] == 0 || lls_dtype_has_offset(vector_types[t]));
    }
  }
}

static void test_a_number_has_so_many_bytes(void **state)
{
  (void)state;
  assert_true(lls_dtype_number_bytes(LLS_Q4_0) == 4.5 / 8);
  assert_true(lls_dtype_number_bytes(LLS_Q6_K) == 6.5625 / 8);
  assert_true(lls_weight_number_bytes(LLS_WEIGHTS_AUTO, LLS_Q8_0) == 8.5 / 8);
  assert_true(lls_weight_number_bytes(LLS_WEIGHTS_BF16, LLS_Q8_0) == 2);
  assert_int_equal(lls_dtype_row_bytes(LLS_MXFP4, 2880), 1530);
  assert_int_equal(lls_dtype_row_bytes(LLS_F16, 3), 6);
  assert_false(lls_dtype_is_quantised(LLS_I8));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rows_are_the_reference_s),
      cmocka_unit_test(test_a_part_reads_what_the_whole_has_there),
      cmocka_unit_test(test_codes_make_the_numbers),
      cmocka_unit_test(test_a_number_has_so_many_bytes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
