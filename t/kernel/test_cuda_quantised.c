/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantised weights on the CUDA device, number by number: every type of GGUF's and every
 * layout of folders, as a linear layer of two parts, as the columns that a rank has, and
 * as a lookup table. In f32, and in tables, the values equal the reference's to the
 * bit; in bf16 they are rounded once. Layers with bf16 activations keep codes, whose
 * scales and offsets are f16: those with more than 11 bits in the file are rounded
 * twice.
 */
#include "t/kernel/pair.h"
#include "t/quantised_data.h"

#include "core/device/tensor.h"
#include "core/engine/shard.h"

#define LARGEST VECTOR_NUMBERS

static const char *const folders[] = {
    "gptq",         "gptq-zeros", "gptq-order", "awq",         "packed",
    "packed-zeros", "int8",       "fp8-tensor", "fp8-channel", "fp8-block"};

/* A weight and its expected values; if transposed, `got` is one column at a time. */
struct wanted {
  const struct pair *p;
  const char *name;
  struct lls_tensor_view quantised, plain;
  bool rounded; /* scales or offsets have more than 11 bits */
};

static void assert_number(const struct wanted *w, bool rounded, size_t row, size_t column,
                          float got)
{
  float numbers[VECTOR_COLUMNS], largest = 0;
  lls_tensor_read_row(&w->plain, row, numbers);
  float expected = numbers[column];
  for (size_t i = 0; i < w->plain.columns; i++)
    largest = fmaxf(largest, fabsf(numbers[i]));
  if (w->p->numbers == LLS_BF16)
    expected = lls_bf16_to_f32(lls_f32_to_bf16(expected));
  float off = rounded ? 0x1p-7f * fabsf(expected) + 0x1p-10f * largest : 0;
  if (!(fabsf(got - expected) <= off))
    fail_msg("%s, row %zu, column %zu: %.9g, not %.9g", w->name, row, column, (double)got,
             (double)expected);
}

/* The product with the rows of the unit matrix gives the weight's columns. */
static void check_linear(const struct wanted *w)
{
  struct lls_device *d = w->p->cuda;
  size_t rows = w->quantised.rows, columns = w->quantised.columns;
  const struct lls_tensor_view parts[] = {lls_view_rows(&w->quantised, 0, 1),
                                          lls_view_rows(&w->quantised, 1, rows - 1)};
  float *unit = calloc(columns * columns, sizeof *unit), out[LARGEST * 8];
  struct lls_weight *weight;
  assert_true(columns * rows <= sizeof out / sizeof *out && columns <= PAIR_ROWS);
  for (size_t i = 0; i < columns; i++)
    unit[i * columns + i] = 1;
  assert_int_equal(
      d->ops->weight_create(d, parts, NULL, 2, LLS_WEIGHTS_AUTO, &weight, NULL), 0);
  void *x = pair_put(d, unit, (uint32_t)columns, (uint32_t)columns);
  void *y = pair_buffer(d, columns, rows);
  pair_begin(d, NULL, (uint32_t)columns);
  d->ops->linear(d, weight, x, (uint32_t)columns, LLS_STORE_SET, y);
  pair_get(d, y, columns * rows, out);
  pair_end(d);
  for (size_t row = 0; row < rows; row++)
    for (size_t column = 0; column < columns; column++)
      assert_number(w, w->rounded && w->p->numbers == LLS_BF16, row, column,
                    out[column * rows + row]);
  d->ops->weight_destroy(d, weight);
  pair_release(d, x);
  pair_release(d, y);
  free(unit);
}

static void check_table(const struct wanted *w)
{
  struct lls_device *d = w->p->cuda;
  uint32_t rows = (uint32_t)w->quantised.rows, columns = (uint32_t)w->quantised.columns;
  float out[LARGEST * 8];
  int32_t ids[MATRIX_ROWS];
  void *table, *x = pair_buffer(d, rows, columns);
  for (uint32_t i = 0; i < rows; i++)
    ids[i] = (int32_t)(rows - 1 - i);
  assert_int_equal(d->ops->table_create(d, &w->quantised, &table, NULL), 0);
  pair_begin(d, ids, rows);
  d->ops->embed(d, table, 1, x);
  pair_get(d, x, (size_t)rows * columns, out);
  pair_end(d);
  for (uint32_t i = 0; i < rows; i++)
    for (uint32_t column = 0; column < columns; column++)
      assert_number(w, false, rows - 1 - i, column, out[(size_t)i * columns + column]);
  d->ops->table_destroy(d, table);
  pair_release(d, x);
}

/* As a whole, and the columns from `cut` on. */
static void check_all(const struct wanted *w, size_t cut)
{
  struct wanted part = *w;
  check_linear(w);
  check_table(w);
  if (cut == 0)
    return;
  part.quantised = lls_view_columns(&w->quantised, cut, w->quantised.columns - cut);
  part.plain = lls_view_columns(&w->plain, cut, w->plain.columns - cut);
  check_linear(&part);
}

/* The scales of MXFP4's rows here span more than f16's range. */
static bool is_rounded(enum lls_dtype type)
{
  return lls_dtype_has_offset(type) || lls_dtype_has_block_scales(type) ||
         type == LLS_Q5_0 || type == LLS_MXFP4;
}

static void types(const struct pair *p)
{
  for (size_t i = 0; i < N_VECTOR_TYPES; i++) {
    struct vectors v;
    read_vectors(vector_types[i], &v);
    struct wanted w = {.p = p,
                       .name = lls_dtype_name(vector_types[i]),
                       .quantised = v.view,
                       .rounded = is_rounded(vector_types[i]),
                       .plain = view_of(v.expected, VECTOR_ROWS, VECTOR_COLUMNS)};
    check_all(&w, VECTOR_COLUMNS - lls_dtype_block(vector_types[i]));
  }
}

static void layouts(const struct pair *p)
{
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
    struct lls_safetensors *st = open_matrix(folders[i]);
    struct wanted w = {.p = p,
                       .name = folders[i],
                       .quantised = matrix_view(st, "m.weight"),
                       .rounded = true,
                       .plain = matrix_view(st, "expected")};
    check_all(&w, MATRIX_COLUMNS / 2);
    lls_safetensors_close(st);
  }
}

static void test_types(void **state)
{
  (void)state;
  each_pair(LLS_F32, VECTOR_COLUMNS, types);
  each_pair(LLS_BF16, VECTOR_COLUMNS, types);
}

static void test_layouts(void **state)
{
  (void)state;
  each_pair(LLS_F32, VECTOR_COLUMNS, layouts);
  each_pair(LLS_BF16, VECTOR_COLUMNS, layouts);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_types),
      cmocka_unit_test(test_layouts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
