/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linear layers of 4- to 8-bit weights at every ISA level of this CPU.
 *
 * One reference is a product in double of the numbers that are really multiplied: the
 * dequantised weights, and x in 8-bit codes, 32 of which share a scale. The only
 * remaining error is f32's rounding of sums. The other is the product of x itself, with
 * the error bound of rounding x: half a code for each of its groups. A row's result is
 * the same in every batch.
 */
#include "t/guarded.h"
#include "t/quantised_data.h"
#include "t/tap.h"

#include "core/device/device.h"
#include "core/device/numbers.h"
#include "core/device/quantised.h"
#include "core/device/tensor.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/device.h"

#include <math.h>
#include <string.h>

#define MAX_ROWS    270 /* more than a block of rows at any level */
#define MAX_COLUMNS 1280
#define EPSILON     4e-6 /* relative to the magnitudes added, for sums in f32 */

struct format {
  enum lls_dtype dtype;
  enum lls_weight_format format;
};

/* One type at least for each format of panels, and each way to multiply it. */
static const struct format formats[] = {
    {LLS_Q8_0, LLS_WEIGHTS_AUTO},   {LLS_Q4_0, LLS_WEIGHTS_AUTO},
    {LLS_Q4_1, LLS_WEIGHTS_AUTO},   {LLS_Q5_0, LLS_WEIGHTS_AUTO},
    {LLS_Q5_1, LLS_WEIGHTS_AUTO},   {LLS_Q4_K, LLS_WEIGHTS_AUTO},
    {LLS_Q5_K, LLS_WEIGHTS_AUTO},   {LLS_Q6_K, LLS_WEIGHTS_AUTO},
    {LLS_MXFP4, LLS_WEIGHTS_AUTO},  {LLS_IQ4_NL, LLS_WEIGHTS_AUTO},
    {LLS_Q2_K, LLS_WEIGHTS_AUTO},   {LLS_Q3_K, LLS_WEIGHTS_AUTO},
    {LLS_IQ2_S, LLS_WEIGHTS_AUTO},  {LLS_IQ3_S, LLS_WEIGHTS_AUTO},
    {LLS_IQ4_XS, LLS_WEIGHTS_AUTO}, {LLS_IQ1_S, LLS_WEIGHTS_AUTO},
};
#define N_FORMATS (sizeof formats / sizeof *formats)

static uint64_t random_state = 1;

static uint32_t random_bits(void)
{
  random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407;
  return (uint32_t)(random_state >> 32);
}

static float random_float(void)
{
  float x = (float)random_bits() * 0x1p-31f - 1.0f;
  return random_bits() % 64 == 0 ? 100 * x : x;
}

static struct lls_device *create_device(const char *isa, uint32_t threads)
{
  struct lls_device *device;
  const struct lls_device_options options = {.threads = threads,
                                             .max_rows = MAX_ROWS,
                                             .max_columns = MAX_COLUMNS,
                                             .max_sequences = 1,
                                             .isa = isa};
  struct lls_error err;
  return lls_cpu_device_create(&options, &device, &err) == 0 ? device : NULL;
}

/* ---- weights --------------------------------------------------------------------- */

struct matrix {
  struct lls_tensor_view view;
  uint8_t *data;
  float *exact; /* (rows, columns) */
};

static struct matrix create_matrix(size_t rows, size_t columns, enum lls_dtype type)
{
  size_t row_bytes = lls_dtype_row_bytes(type, columns);
  size_t block = lls_dtype_row_bytes(type, lls_dtype_block(type));
  struct matrix m = {.data = malloc(rows * row_bytes),
                     .exact = malloc(rows * columns * sizeof(float))};
  for (size_t i = 0; i < rows * row_bytes; i++)
    m.data[i] = (uint8_t)random_bits();
  for (size_t i = 0; i < rows * row_bytes; i += block)
    set_step(type, m.data + i, 0.01f * (random_float() + 1.5f));
  m.view = (struct lls_tensor_view){.data = m.data,
                                    .dtype = type,
                                    .rows = rows,
                                    .columns = columns,
                                    .row_stride = columns};
  for (size_t r = 0; r < rows; r++)
    lls_tensor_read_row(&m.view, r, m.exact + r * columns);
  return m;
}

static void destroy_matrix(struct matrix *m)
{
  free(m->data);
  free(m->exact);
}

/* ---- products -------------------------------------------------------------------- */

/* Rounds x to 8-bit codes, as it is multiplied, and returns each element's error
 * bound. */
static void round_x(const float *x, size_t n, float *out, float *off)
{
  for (size_t k = 0; k < n; k += 32) {
    float largest = 0;
    for (size_t i = k; i < k + 32 && i < n; i++)
      largest = fmaxf(largest, fabsf(x[i]));
    for (size_t i = k; i < k + 32 && i < n; i++) {
      out[i] = rintf(x[i] * (127 / largest)) * (largest / 127);
      off[i] = largest / 127 * 0.5001f;
    }
  }
}

static void check_output(const struct matrix *m, const char *isa, const struct format *f,
                         const float *x, const float *rounded, const float *off, size_t o,
                         double got)
{
  double sum = 0, whole = 0, size = 0, slack = 0, most = 0;
  size_t group = lls_dtype_group(f->dtype);
  for (size_t k = 0; k < m->view.columns; k++) {
    double w = (double)m->exact[o * m->view.columns + k];
    /* a group's scale and offset are rounded separately */
    most = k % group == 0 ? 0 : most;
    for (size_t i = k; k % group == 0 && i < k + group; i++)
      most = fmax(most, fabs((double)m->exact[o * m->view.columns + i]));
    sum += (double)rounded[k] * w;
    whole += (double)x[k] * w;
    size += fabs((double)rounded[k]) * most;
    slack += (double)off[k] * fabs(w);
  }
  double bound = EPSILON * size;
  if (!(fabs(got - sum) <= bound) || !(fabs(got - whole) <= bound + slack))
    fail_msg("%s on %s, %zu x %zu, output %zu: %.9g, not %.9g (of x itself %.9g) within "
             "%.3g",
             lls_dtype_name(f->dtype), isa, m->view.rows, m->view.columns, o, got, sum,
             whole, bound);
}

static void check_rows(const struct matrix *m, const char *isa, const struct format *f,
                       const float *x, size_t n_rows, const float *y)
{
  float rounded[MAX_COLUMNS], off[MAX_COLUMNS];
  for (size_t r = 0; r < n_rows; r++) {
    const float *row = x + r * m->view.columns;
    round_x(row, m->view.columns, rounded, off);
    for (size_t o = 0; o < m->view.rows; o++)
      check_output(m, isa, f, row, rounded, off, o, (double)y[r * m->view.rows + o]);
  }
}

static void check_shape(struct lls_device *device, const char *isa,
                        const struct format *f, size_t outputs, size_t inputs)
{
  static const uint32_t rows[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17, 33, 97};
  struct matrix m = create_matrix(outputs, inputs, f->dtype);
  struct lls_weight *w;
  struct lls_error err = {0};
  if (device->ops->weight_create(device, &m.view, NULL, 1, f->format, &w, &err) != 0)
    fail_msg("%s", err.text);
  float *x = guarded_alloc(MAX_ROWS * inputs * sizeof *x);
  float *y = guarded_alloc(MAX_ROWS * outputs * sizeof *y),
        *first = guarded_alloc(outputs * sizeof *y);
  for (size_t i = 0; i < MAX_ROWS * inputs; i++)
    x[i] = random_float();
  device->ops->linear(device, w, x, MAX_ROWS, LLS_STORE_SET, y);
  check_rows(&m, isa, f, x, 40, y);
  float *some = guarded_alloc(MAX_ROWS * outputs * sizeof *y);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    size_t from = (i * 7) % (MAX_ROWS - rows[i]);
    device->ops->linear(device, w, x + from * inputs, rows[i], LLS_STORE_SET, some);
    assert_memory_equal(some, y + from * outputs, rows[i] * outputs * sizeof *y);
  }
  guarded_free(some);
  guarded_free(first);
  guarded_free(y);
  guarded_free(x);
  device->ops->weight_destroy(device, w);
  destroy_matrix(&m);
}

static void test_products_are_those_of_the_codes(void **state)
{
  const char *isa = *state;
  static const size_t shapes[][2] = {{1, 256}, {16, 512}, {50, 768}, {33, MAX_COLUMNS}};
  struct lls_device *device = create_device(isa, 2);
  if (device == NULL)
    skip_because("this CPU has no %s", isa);
  for (size_t f = 0; f < N_FORMATS; f++) {
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
      check_shape(device, isa, &formats[f], shapes[s][0], shapes[s][1]);
    if (lls_dtype_block(formats[f].dtype) == 32)
      check_shape(device, isa, &formats[f], 20, 96);
  }
  device->ops->destroy(device);
}

/* Computes the product of a matrix and `n_rows` rows at a level; false: this CPU lacks
 * the level. */
static bool product_of(const char *isa, const struct matrix *m, const float *x,
                       uint32_t n_rows, float *y)
{
  struct lls_device *device = create_device(isa, 2);
  struct lls_weight *w;
  if (device == NULL)
    return false;
  assert_int_equal(
      device->ops->weight_create(device, &m->view, NULL, 1, LLS_WEIGHTS_AUTO, &w, NULL),
      0);
  device->ops->linear(device, w, x, n_rows, LLS_STORE_SET, y);
  device->ops->weight_destroy(device, w);
  device->ops->destroy(device);
  return true;
}

/* Groups are integers, and their sums are rounded in the same order at all levels. */
static void test_vector_levels_make_the_same_bits(void **state)
{
  (void)state;
  enum { K = 768, OUTPUTS = 50, ROWS = 40 };
  static const char *const vector_levels[] = {"avxvnni", "avx512", "amx", "i8mm"};
  static const char *const first[] = {"avx2", "avx2", "avx2", "neon"};
  float *x = malloc(sizeof *x * ROWS * K), y[2][ROWS * OUTPUTS];
  for (int i = 0; i < ROWS * K; i++)
    x[i] = random_float();
  for (size_t f = 0; f < N_FORMATS; f++) {
    struct matrix m = create_matrix(OUTPUTS, K, formats[f].dtype);
    for (size_t i = 0; i < sizeof first / sizeof *first; i++) {
      if (product_of(first[i], &m, x, ROWS, y[0]) &&
          product_of(vector_levels[i], &m, x, ROWS, y[1]))
        assert_memory_equal(y[0], y[1], sizeof y[0]);
    }
    destroy_matrix(&m);
  }
  free(x);
}

/* Files of Q4_K_M have q, k and v of several types: one product, each part with its own
 * bits. */
static void test_parts_of_several_types(void **state)
{
  (void)state;
  enum { K = 256, ROWS = 19 };
  static const size_t outputs[3] = {48, 17, 32};
  static const enum lls_dtype types[3] = {LLS_Q4_K, LLS_Q4_K, LLS_Q6_K};
  struct lls_device *device = create_device(NULL, 2);
  struct matrix m[3];
  struct lls_tensor_view views[3], biases[3];
  struct lls_weight *all, *one;
  float x[ROWS * K], y[ROWS * 97], part[ROWS * 48], bias[97];
  for (int i = 0; i < ROWS * K; i++)
    x[i] = random_float();
  for (int i = 0; i < 97; i++)
    bias[i] = random_float();
  for (size_t i = 0, first = 0; i < 3; first += outputs[i++]) {
    m[i] = create_matrix(outputs[i], K, types[i]);
    views[i] = m[i].view;
    biases[i] = (struct lls_tensor_view){bias + first, LLS_F32, 1, outputs[i],
                                         outputs[i],   0,       0, 0};
  }
  assert_int_equal(
      device->ops->weight_create(device, views, biases, 3, LLS_WEIGHTS_AUTO, &all, NULL),
      0);
  device->ops->linear(device, all, x, ROWS, LLS_STORE_SET, y);
  for (size_t i = 0, first = 0; i < 3; first += outputs[i++]) {
    assert_int_equal(device->ops->weight_create(device, &views[i], &biases[i], 1,
                                                LLS_WEIGHTS_AUTO, &one, NULL),
                     0);
    device->ops->linear(device, one, x, ROWS, LLS_STORE_SET, part);
    for (size_t r = 0; r < ROWS; r++)
      assert_memory_equal(y + r * 97 + first, part + r * outputs[i],
                          outputs[i] * sizeof *y);
    device->ops->weight_destroy(device, one);
    destroy_matrix(&m[i]);
  }
  device->ops->weight_destroy(device, all);
  device->ops->destroy(device);
}

/* Products with the rows of a unit matrix are the numbers of each type's blocks, but for
 * one rounding. Types of the same format but other lists are in matrices of their own. */
static void test_each_type_s_numbers(void **state)
{
  const char *isa = *state;
  struct lls_device *device = create_device(isa, 2);
  struct lls_weight *w;
  struct vectors v[N_VECTOR_TYPES];
  struct lls_tensor_view views[N_VECTOR_TYPES];
  enum { OUTPUTS = N_VECTOR_TYPES * VECTOR_ROWS };
  static float x[VECTOR_COLUMNS * VECTOR_COLUMNS], y[VECTOR_COLUMNS * OUTPUTS];
  if (device == NULL)
    skip_because("this CPU has no %s", isa);
  for (size_t i = 0; i < VECTOR_COLUMNS; i++)
    x[i * VECTOR_COLUMNS + i] = 127;
  for (size_t t = 0; t < N_VECTOR_TYPES; t++) {
    read_vectors(vector_types[t], &v[t]);
    views[t] = v[t].view;
  }
  assert_int_equal(device->ops->weight_create(device, views, NULL, N_VECTOR_TYPES,
                                              LLS_WEIGHTS_AUTO, &w, NULL),
                   0);
  device->ops->linear(device, w, x, VECTOR_COLUMNS, LLS_STORE_SET, y);
  for (size_t i = 0; i < OUTPUTS * VECTOR_COLUMNS; i++) {
    if (views[i / VECTOR_NUMBERS].dtype == LLS_MXFP4)
      continue; /* its scales here are from 2^-128 to 2^127 */
    size_t o = i / VECTOR_COLUMNS, k = i % VECTOR_COLUMNS;
    float got = y[k * OUTPUTS + o] / 127,
          expected = v[o / VECTOR_ROWS].expected[i % VECTOR_NUMBERS];
    if (!(fabsf(got - expected) <= 1e-6f * fabsf(expected) + 1e-8f))
      fail_msg("%s on %s, output %zu, input %zu: %.9g, not %.9g",
               lls_dtype_name(views[o / VECTOR_ROWS].dtype), isa, o % VECTOR_ROWS, k,
               (double)got, (double)expected);
  }
  device->ops->weight_destroy(device, w);
  device->ops->destroy(device);
}

/* The bits of a weight in memory, with its scales: a float for each output is left out.
 */
static void test_bits_of_a_weight(void **state)
{
  (void)state;
  static const struct {
    enum lls_dtype dtype;
    double bits;
  } kept[] = {
      {LLS_Q4_K, 4.625},  {LLS_Q2_K, 3.125},    {LLS_Q3_K, 3.625},  {LLS_IQ4_XS, 4.375},
      {LLS_IQ3_S, 4.375}, {LLS_IQ2_XXS, 3.375}, {LLS_IQ2_S, 3.625}, {LLS_IQ1_S, 3.375},
      {LLS_TQ2_0, 3.375}, {LLS_IQ4_NL, 4.5},
  };
  enum { ROWS = 16, K = 512 };
  struct lls_device *device = create_device(NULL, 1);
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
    struct matrix m = create_matrix(ROWS, K, kept[i].dtype);
    struct lls_weight *w;
    assert_int_equal(
        device->ops->weight_create(device, &m.view, NULL, 1, LLS_WEIGHTS_AUTO, &w, NULL),
        0);
    double bytes = (double)device->ops->weight_bytes(w) - 4 * ROWS;
    if (bytes * 8 != kept[i].bits * ROWS * K)
      fail_msg("%s: %g bits, not %g", lls_dtype_name(kept[i].dtype),
               bytes * 8 / (ROWS * K), kept[i].bits);
    device->ops->weight_destroy(device, w);
    destroy_matrix(&m);
  }
  device->ops->destroy(device);
}

/* A NaN or infinity stays one, and stays in its row. */
static void test_infinity_is_not_hidden(void **state)
{
  const char *isa = *state;
  struct lls_device *device = create_device(isa, 1);
  if (device == NULL)
    skip_because("this CPU has no %s", isa);
  struct matrix m = create_matrix(16, 256, LLS_Q8_0);
  struct lls_weight *w;
  float x[3 * 256] = {0}, y[3 * 16];
  x[256 + 77] = INFINITY;
  x[512 + 99] = NAN;
  assert_int_equal(
      device->ops->weight_create(device, &m.view, NULL, 1, LLS_WEIGHTS_AUTO, &w, NULL),
      0);
  device->ops->linear(device, w, x, 3, LLS_STORE_SET, y);
  for (size_t o = 0; o < 16; o++) {
    assert_true(y[o] == 0);
    assert_false(isfinite(y[16 + o]));
    assert_false(isfinite(y[32 + o]));
  }
  device->ops->weight_destroy(device, w);
  destroy_matrix(&m);
  device->ops->destroy(device);
}

/* An infinite block scale must not get lost in the integer products. */
static void test_an_infinite_block_is_not_hidden(void **state)
{
  const char *isa = *state;
  static const enum lls_dtype types[] = {LLS_Q4_K, LLS_Q5_K, LLS_Q6_K,
                                         LLS_Q2_K, LLS_Q3_K, LLS_IQ4_XS};
  struct lls_device *device = create_device(isa, 1);
  if (device == NULL)
    skip_because("this CPU has no %s", isa);
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    struct matrix m = create_matrix(16, 512, types[i]);
    uint16_t infinite = lls_f32_to_f16(INFINITY);
    struct lls_weight *w;
    float x[512], y[16];
    for (size_t k = 0; k < 512; k++)
      x[k] = random_float();
    memcpy(m.data + lls_dtype_row_bytes(types[i], 3 * 512 + 256) + step_at(types[i]),
           &infinite, sizeof infinite);
    assert_int_equal(
        device->ops->weight_create(device, &m.view, NULL, 1, LLS_WEIGHTS_AUTO, &w, NULL),
        0);
    device->ops->linear(device, w, x, 1, LLS_STORE_SET, y);
    for (size_t o = 0; o < 16; o++)
      assert_int_equal(isfinite(y[o]) != 0, o != 3);
    device->ops->weight_destroy(device, w);
    destroy_matrix(&m);
  }
  device->ops->destroy(device);
}

/* ---- numbers quantised at load --------------------------------------------------- */

/* The root mean square of the quantisation error, relative to the weights. */
static double loss_of(enum lls_weight_format format)
{
  enum { N = 256 };
  struct lls_device *device = create_device(NULL, 2);
  const struct lls_tensor_view view = {
      .dtype = LLS_F32, .rows = N, .columns = N, .row_stride = N, .seed = 7};
  float row[N], *x = calloc((size_t)N * N, sizeof *x), *y = malloc(sizeof *y * N * N);
  struct lls_weight *w;
  assert_int_equal(device->ops->weight_create(device, &view, NULL, 1, format, &w, NULL),
                   0);
  for (size_t i = 0; i < N; i++)
    x[i * N + i] = 1; /* y = W transposed */
  for (uint32_t i = 0; i < N; i += 128)
    device->ops->linear(device, w, x + i * N, 128, LLS_STORE_SET, y + i * N);
  double lost = 0, all = 0;
  for (size_t o = 0; o < N; o++) {
    lls_tensor_read_row(&view, o, row);
    for (size_t k = 0; k < N; k++) {
      double d = (double)y[k * N + o] - (double)row[k];
      lost += d * d;
      all += (double)row[k] * (double)row[k];
    }
  }
  free(x);
  free(y);
  device->ops->weight_destroy(device, w);
  device->ops->destroy(device);
  return sqrt(lost / all);
}

/* The error of a code is at most 1/sqrt(12) of a step on average: for values uniform in
 * +-a, whose mean square is a a / 3, with steps of a / 127 and a / 7.5. */
static void test_what_quantising_loses(void **state)
{
  (void)state;
  assert_true(loss_of(LLS_WEIGHTS_INT8) < 0.5 / 127 * 1.05);
  assert_true(loss_of(LLS_WEIGHTS_INT4) < 0.5 / 7.5 * 1.05);
}

int main(void)
{
#define LEVEL(name)                                                                      \
  ON_LEVEL(test_products_are_those_of_the_codes, name)                                   \
  ON_LEVEL(test_each_type_s_numbers, name)                                               \
  ON_LEVEL(test_infinity_is_not_hidden, name)                                            \
  ON_LEVEL(test_an_infinite_block_is_not_hidden, name)
#define ON_LEVEL(test, name) {#test, test, NULL, NULL, (void *)#name},
  const struct CMUnitTest tests[] = {
      LLS_ISA_LEVELS(LEVEL, LEVEL)
          cmocka_unit_test(test_vector_levels_make_the_same_bits),
      cmocka_unit_test(test_parts_of_several_types),
      cmocka_unit_test(test_bits_of_a_weight),
      cmocka_unit_test(test_what_quantising_loses),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
