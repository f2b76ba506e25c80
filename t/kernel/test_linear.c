/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linear layers at every ISA level of this CPU against a product in double of the same
 * numbers: the weights as stored in the format, x rounded to bf16 where the level
 * multiplies bf16. The tolerance is that of f32 sums: EPSILON times the sum of the
 * magnitudes added. A row's result must be the same bit for bit whatever the other
 * rows.
 */
#include "t/guarded.h"
#include "t/tap.h"

#include "core/device/device.h"
#include "kernels/cpu/isa.h"
#include "core/device/numbers.h"
#include "kernels/cpu/device.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define EPSILON     6e-6 /* 512 additions in a row round by some sqrt(512) x 6e-8 */
#define MAX_ROWS    230  /* more than two blocks of rows */
#define MANY_ROWS   1100 /* the same with AMX */
#define MAX_COLUMNS 1300 /* more than two passes over the inputs */

struct format {
  const char *name;
  enum lls_dtype dtype;
  enum lls_weight_format format;
};

static const struct format formats[] = {
    {"f32", LLS_F32, LLS_WEIGHTS_AUTO},         {"f16", LLS_F16, LLS_WEIGHTS_AUTO},
    {"bf16", LLS_BF16, LLS_WEIGHTS_AUTO},       {"f16 as f32", LLS_F16, LLS_WEIGHTS_F32},
    {"f32 as bf16", LLS_F32, LLS_WEIGHTS_BF16},
};
#define N_FORMATS (sizeof formats / sizeof *formats)

static uint64_t random_state = 1;

static uint32_t random_bits(void)
{
  random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407;
  return (uint32_t)(random_state >> 32);
}

/* Mostly in +-1; one in 64 an outlier up to 100, as transformers have them. */
static float random_float(void)
{
  float x = (float)random_bits() * 0x1p-31f - 1.0f;
  return random_bits() % 64 == 0 ? 100 * x : x;
}

static struct lls_device *create_device(const char *isa, uint32_t threads)
{
  struct lls_device *device;
  const struct lls_device_options options = {
      .threads = threads,
      .max_rows = MAX_ROWS,
      .max_columns = MAX_COLUMNS,
      .max_sequences = 1,
      .isa = isa,
  };
  struct lls_error err;
  int rc = lls_cpu_device_create(&options, &device, &err);
  return rc == 0 ? device : NULL;
}

/* A matrix as its model has it, and as the product must see it. */
struct matrix {
  size_t rows, columns, stride;
  void *data;    /* (rows, stride) of dtype */
  double *exact; /* (rows, columns) */
};

static float store(struct matrix *m, enum lls_dtype dtype, size_t i, float value)
{
  uint16_t half;
  switch (dtype) {
  case LLS_F16:
    half = lls_f32_to_f16(value);
    ((uint16_t *)m->data)[i] = half;
    return lls_f16_to_f32(half);
  case LLS_BF16:
    half = lls_f32_to_bf16(value);
    ((uint16_t *)m->data)[i] = half;
    return lls_bf16_to_f32(half);
  default:
    ((float *)m->data)[i] = value;
    return value;
  }
}

static void quantise(double *row, size_t n, enum lls_weight_format format)
{
  for (size_t k = 0; k < n; k++) {
    if (format == LLS_WEIGHTS_BF16)
      row[k] = lls_bf16_to_f32(lls_f32_to_bf16((float)row[k]));
  }
}

static struct matrix create_matrix(size_t rows, size_t columns, const struct format *f)
{
  struct matrix m = {.rows = rows, .columns = columns, .stride = columns + 3};
  m.data = calloc(rows * m.stride, lls_dtype_bytes(f->dtype));
  m.exact = malloc(rows * columns * sizeof *m.exact);
  for (size_t r = 0; r < rows; r++) {
    for (size_t k = 0; k < columns; k++)
      m.exact[r * columns + k] = store(&m, f->dtype, r * m.stride + k, random_float());
    quantise(m.exact + r * columns, columns, f->format);
  }
  return m;
}

static void destroy_matrix(struct matrix *m)
{
  free(m->data);
  free(m->exact);
}

static struct lls_tensor_view view_of(const struct matrix *m, enum lls_dtype dtype,
                                      size_t first_row, size_t rows)
{
  size_t offset = first_row * m->stride * lls_dtype_bytes(dtype);
  return (struct lls_tensor_view){
      .data = (const char *)m->data + offset,
      .dtype = dtype,
      .rows = rows,
      .columns = m->columns,
      .row_stride = m->stride,
  };
}

static bool rounds_x(const char *isa, const struct format *f)
{
  bool pairs = f->dtype == LLS_BF16 || f->format == LLS_WEIGHTS_BF16;
  return pairs && (strcmp(isa, "amx") == 0 || strcmp(isa, "avx512") == 0 ||
                   strcmp(isa, "i8mm") == 0);
}

static void check_rows(const struct matrix *m, const float *bias, const float *x,
                       const float *before, size_t n_rows, bool round_x, const float *y)
{
  for (size_t r = 0; r < n_rows; r++) {
    for (size_t o = 0; o < m->rows; o++) {
      double sum = bias != NULL ? (double)bias[o] : 0.0, size = fabs(sum);
      for (size_t k = 0; k < m->columns; k++) {
        float xk = x[r * m->columns + k];
        if (round_x)
          xk = lls_bf16_to_f32(lls_f32_to_bf16(xk));
        sum += xk * m->exact[o * m->columns + k];
        size += fabs(xk * m->exact[o * m->columns + k]);
      }
      double old = before != NULL ? (double)before[r * m->rows + o] : 0.0;
      double got = (double)y[r * m->rows + o];
      if (!(fabs(got - (sum + old)) <= EPSILON * (size + fabs(old))))
        fail_msg("%zu x %zu, row %zu of %zu, output %zu: %.9g, not %.9g", m->rows,
                 m->columns, r, n_rows, o, got, sum + old);
    }
  }
}

static float *random_floats(size_t n)
{
  float *x = guarded_alloc(n * sizeof *x);
  for (size_t i = 0; i < n; i++)
    x[i] = random_float();
  return x;
}

/* One layer of two parts, with a bias on the second, for several numbers of rows. */
static void check_shape(struct lls_device *device, const char *isa,
                        const struct format *f, size_t outputs, size_t inputs,
                        uint32_t most_rows)
{
  const uint32_t rows[] = {0, 1, 2, 3, 4, 5, 6, 7, 11, 13, 16, 17, 33, most_rows, 70};
  struct matrix m = create_matrix(outputs, inputs, f);
  size_t split = outputs > 1 ? outputs / 3 + 1 : 1;
  struct lls_tensor_view parts[2] = {view_of(&m, f->dtype, 0, split),
                                     view_of(&m, f->dtype, split, outputs - split)};
  float *bias = random_floats(outputs);
  memset(bias, 0, split * sizeof *bias);
  const struct lls_tensor_view biases[2] = {
      {.rows = 0}, {bias + split, LLS_F32, 1, outputs - split, outputs - split, 0, 0, 0}};
  bool has_bias = outputs % 2 == 1;
  struct lls_weight *w;
  struct lls_error err = {0};
  if (device->ops->weight_create(device, parts, has_bias ? biases : NULL,
                                 outputs > 1 ? 2 : 1, f->format, &w, &err) != 0)
    fail_msg("%s", err.text);
  float *x = random_floats(most_rows * inputs),
        *before = random_floats(most_rows * outputs);
  float *y = guarded_alloc(most_rows * outputs * sizeof *y),
        *first = guarded_alloc(outputs * sizeof *y);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    bool add = i % 2 == 1;
    memcpy(y, before, most_rows * outputs * sizeof *y);
    device->ops->linear(device, w, x, rows[i], add ? LLS_STORE_ADD : LLS_STORE_SET, y);
    check_rows(&m, has_bias ? bias : NULL, x, add ? before : NULL, rows[i],
               rounds_x(isa, f), y);
    assert_memory_equal(y + rows[i] * outputs, before + rows[i] * outputs,
                        (most_rows - rows[i]) * outputs * sizeof *y);
  }
  device->ops->logits(device, w, x, most_rows, y);
  for (size_t r = 0; r < most_rows; r += 29) {
    device->ops->logits(device, w, x + r * inputs, 1, first);
    assert_memory_equal(first, y + r * outputs, outputs * sizeof *y);
  }
  guarded_free(first);
  guarded_free(y);
  guarded_free(before);
  guarded_free(x);
  guarded_free(bias);
  device->ops->weight_destroy(device, w);
  destroy_matrix(&m);
}

static void check_level(const char *isa, uint32_t threads)
{
  static const size_t shapes[][2] = {{1, 1},    {16, 32},  {7, 129},         {48, 64},
                                     {33, 700}, {130, 31}, {65, MAX_COLUMNS}};
  struct lls_device *device = create_device(isa, threads);
  if (device == NULL)
    skip_because("this CPU has no %s", isa);
  for (size_t f = 0; f < N_FORMATS; f++) {
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
      check_shape(device, isa, &formats[f], shapes[s][0], shapes[s][1], MAX_ROWS);
  }
  device->ops->destroy(device);
}

static void test_linear_matches_the_product_in_double(void **state)
{
  check_level(*state, 2);
}

static void test_three_threads_share_the_panels(void **state)
{
  (void)state;
  check_level(lls_cpu_level_best()->name, 3);
}

/* More outputs than a thread keeps sums for at once, in several passes. */
static void test_many_outputs(void **state)
{
  (void)state;
  struct lls_device *device = create_device(NULL, 1);
  const char *isa = lls_cpu_level_best()->name;
  check_shape(device, isa, &formats[2], 1601, 40, MAX_ROWS);
  check_shape(device, isa, &formats[2], 1600, 600, MAX_ROWS);
  device->ops->destroy(device);
}

static void test_many_rows(void **state)
{
  (void)state;
  struct lls_device *device = create_device(NULL, 2);
  const char *isa = lls_cpu_level_best()->name;
  check_shape(device, isa, &formats[2], 49, 700, MANY_ROWS);
  check_shape(device, isa, &formats[4], 32, 1100, MANY_ROWS);
  device->ops->destroy(device);
}

static void test_random_weights_have_the_deviation(void **state)
{
  (void)state;
  enum { N = 512 };
  struct lls_device *device = create_device(NULL, 2);
  const struct lls_tensor_view view = {
      .dtype = LLS_F32, .rows = N, .columns = N, .row_stride = N, .seed = 7};
  struct lls_weight *w;
  assert_int_equal(
      device->ops->weight_create(device, &view, NULL, 1, LLS_WEIGHTS_AUTO, &w, NULL), 0);
  float *x = calloc((size_t)N * N, sizeof *x), *y = malloc(sizeof *y * N * N);
  for (size_t i = 0; i < N; i++)
    x[i * N + i] = 1; /* y = W transposed */
  for (uint32_t row = 0; row < N; row += 128)
    device->ops->linear(device, w, x + row * N, 128, LLS_STORE_SET, y + row * N);
  double sum = 0, squares = 0;
  for (size_t i = 0; i < (size_t)N * N; i++) {
    sum += (double)y[i];
    squares += (double)y[i] * (double)y[i];
  }
  assert_true(fabs(sum / (N * N)) < 2e-4);
  assert_true(fabs(sqrt(squares / (N * N)) - 0.02) < 1e-4);
  free(x);
  free(y);
  device->ops->weight_destroy(device, w);
  device->ops->destroy(device);
}

static void test_refusals_name_the_shapes(void **state)
{
  (void)state;
  struct lls_device *device = create_device(NULL, 1);
  struct lls_weight *w;
  struct lls_error err = {0};
  float data[12] = {0};
  const struct lls_tensor_view parts[2] = {{data, LLS_F32, 2, 3, 3, 0, 0, 0},
                                           {data, LLS_F32, 2, 4, 4, 0, 0, 0}};
  assert_int_equal(
      device->ops->weight_create(device, parts, NULL, 2, LLS_WEIGHTS_AUTO, &w, &err),
      -EINVAL);
  assert_string_equal(err.text, "part 1 of a weight has 4 inputs, the first has 3");
  const struct lls_tensor_view bias = {data, LLS_F32, 1, 3, 3, 0, 0, 0};
  assert_int_equal(
      device->ops->weight_create(device, parts, &bias, 1, LLS_WEIGHTS_AUTO, &w, &err),
      -EINVAL);
  assert_string_equal(err.text, "a weight of 2 outputs has a bias of 3");
  device->ops->destroy(device);

  const struct lls_device_options options = {.isa = "sse9"};
  assert_int_equal(lls_cpu_device_create(&options, &device, &err), -EINVAL);
  assert_string_equal(err.text, "isa \"sse9\" is unknown: use generic, avx2, avxvnni, "
                                "avx512, amx, neon or i8mm");
}

/* Each name that the configuration accepts is a level, which this CPU runs or lacks. */
static void test_each_name_is_a_level(void **state)
{
  (void)state;
#define NAME(name) #name,
  static const char *const names[] = {LLS_ISA_LEVELS(NAME, NAME)};
  const struct lls_cpu_level *level;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    int rc = lls_cpu_level_find(names[i], &level);
    assert_true(rc == 0 || rc == -ENOTSUP);
    assert_string_equal(level->name, names[i]);
  }
}

/* Every half becomes the float it stands for, and comes back. */
static void test_short_floats_round(void **state)
{
  (void)state;
  for (uint32_t h = 0; h < 0x10000; h++) {
    float x = lls_f16_to_f32((uint16_t)h);
    int exponent = (h >> 10) & 31, fraction = h & 1023;
    double expected =
        exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
    if (exponent == 31) {
      assert_true(fraction == 0 ? isinf(x) : isnan(x));
      continue;
    }
    assert_true((double)x == (h & 0x8000 ? -expected : expected));
    assert_int_equal(lls_f32_to_f16(x), h);
    if ((h & 0x7fff) < 0x7bff) { /* half way to the next: to even */
      float next = lls_f16_to_f32((uint16_t)(h + 1));
      assert_int_equal(lls_f32_to_f16((x + next) / 2), h % 2 == 0 ? h : h + 1);
    }
  }
  assert_int_equal(lls_f32_to_f16(65520.0f), 0x7c00);
  assert_int_equal(lls_f32_to_bf16(1.0f + 0x1p-8f), 0x3f80);
  assert_int_equal(lls_f32_to_bf16(1.0f + 0x3p-8f), 0x3f82);
  assert_true(isnan(lls_bf16_to_f32(lls_f32_to_bf16(NAN))));
}

int main(void)
{
#define LEVEL(name)                                                                      \
  {"test_linear_matches_the_product_in_double",                                          \
   test_linear_matches_the_product_in_double, NULL, NULL, (void *)#name},
  const struct CMUnitTest tests[] = {
      LLS_ISA_LEVELS(LEVEL, LEVEL) cmocka_unit_test(test_three_threads_share_the_panels),
      cmocka_unit_test(test_many_outputs),
      cmocka_unit_test(test_many_rows),
      cmocka_unit_test(test_random_weights_have_the_deviation),
      cmocka_unit_test(test_refusals_name_the_shapes),
      cmocka_unit_test(test_each_name_is_a_level),
      cmocka_unit_test(test_short_floats_round),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
