/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Activations at every ISA level against their formulas in long double, from -200 to
 * 200 and at the limits of f32, and the operations that only move rows: add, gather,
 * embed.
 *
 * Tolerance: relative to the larger of the result and 1; for the exact gelu, whose
 * approximation of erf has an error of 1.5e-7, also relative to |x|.
 */
#include "t/kernel/fixture.h"

#include "kernels/cpu/cpu.h"
#include "core/device/numbers.h"

#define ACTIVATION_EPSILON 5e-7
#define EXP_EPSILON        5e-7

#define MAX_ROWS    16
#define MAX_COLUMNS 4096

static long double formula(enum lls_activation kind, long double x)
{
  switch (kind) {
  case LLS_ACT_RELU:
    return x > 0 ? x : 0;
  case LLS_ACT_GELU:
    return x * 0.5L * erfcl(-x / sqrtl(2));
  case LLS_ACT_GELU_TANH:
    return x * 0.5L * (1 + tanhl(sqrtl(2 / acosl(-1)) * (x + 0.044715L * x * x * x)));
  case LLS_ACT_TANH:
    return tanhl(x);
  case LLS_ACT_SILU:
    return x / (1 + expl(-x));
  case LLS_ACT_SQUARED_RELU:
    return x > 0 ? x * x : 0;
  case LLS_ACT_CLAMPED_SWIGLU:
    return fminl(x, 7) / (1 + expl(-1.702L * fminl(x, 7)));
  }
  return 0;
}

static double tolerance(long double x, long double wanted)
{
  long double scale = fmaxl(1, fabsl(wanted));
  return (double)(ACTIVATION_EPSILON * fmaxl(scale, fminl(fabsl(x), 1e3L)));
}

/* A grid dense about zero, then extremes. */
static void fill_grid(float *x, size_t n)
{
  static const float extremes[] = {0.0f, -0.0f, 1e-30f, -1e-30f,
                                   1e4f, -1e4f, 1e30f,  -1e30f};
  for (size_t i = 0; i < n; i++) {
    float t = 2 * (float)i / (float)n - 1;
    x[i] = 200 * t * t * t;
  }
  memcpy(x, extremes, sizeof extremes);
}

/* Numbers whose squares are finite. */
static void squares(struct lls_device *device)
{
  float x[37], y[37];
  for (int i = 0; i < 37; i++)
    x[i] = y[i] = (float)(i - 18) * 1.7f;
  device->ops->activate(device, LLS_ACT_SQUARED_RELU, y, 1, 37);
  for (size_t i = 0; i < 37; i++) {
    long double wanted = formula(LLS_ACT_SQUARED_RELU, x[i]);
    assert_near(device, "squares", i, y[i], (double)wanted, tolerance(x[i], wanted));
  }
}

static void activations(struct lls_device *device)
{
  static const uint32_t columns[] = {8, 9, 31, 1000, 4096};
  for (int kind = LLS_ACT_RELU; kind <= LLS_ACT_SILU; kind++) {
    for (size_t c = 0; c < 5; c++) {
      size_t n = 3 * columns[c];
      float *x = guarded_alloc(n * sizeof *x), *y = guarded_alloc(n * sizeof *y);
      fill_grid(x, n);
      memcpy(y, x, n * sizeof *y);
      device->ops->activate(device, kind, y, 3, columns[c]);
      for (size_t i = 0; i < n; i++) {
        long double wanted = formula(kind, x[i]);
        assert_near(device, "activate", i, y[i], (double)wanted, tolerance(x[i], wanted));
      }
      guarded_free(x);
      guarded_free(y);
    }
  }
  squares(device);
}

static void test_activations(void **state)
{
  (void)state;
  each_level(2, MAX_ROWS, MAX_COLUMNS, activations);
}

static void gates(struct lls_device *device)
{
  static const uint32_t columns[] = {1, 8, 27, 2048};
  for (int kind = LLS_ACT_RELU; kind <= LLS_ACT_CLAMPED_SWIGLU; kind++) {
    bool clamped = kind == LLS_ACT_CLAMPED_SWIGLU;
    for (size_t c = 0; c < 4; c++) {
      uint32_t n = columns[c];
      float *x = guarded_alloc(4 * 2 * n * sizeof *x),
            *y = guarded_alloc(4 * n * sizeof *y);
      fill_random(x, 4 * 2 * n);
      for (uint32_t i = 0; clamped && i < 4 * 2 * n; i++)
        x[i] *= 12; /* some beyond the clamps */
      device->ops->gated(device, kind, x, 4, n, y);
      for (uint32_t i = 0; i < 4 * n; i++) {
        const float *gate = x + i / n * 2 * n + i % n;
        long double act = formula(kind, gate[0]), up = gate[n];
        up = clamped ? fmaxl(fminl(up, 7), -7) + 1 : up;
        assert_near(device, "gated", i, y[i], (double)(act * up),
                    tolerance(gate[0], act) * (double)fmaxl(1, fabsl(up)));
      }
      guarded_free(x);
      guarded_free(y);
    }
  }
}

static void test_gates(void **state)
{
  (void)state;
  each_level(2, MAX_ROWS, MAX_COLUMNS, gates);
}

/* The exponential of sampling and of the activations, and the sum it returns. */
static void exponentials(struct lls_device *device)
{
  const struct lls_cpu_row_kernels *k = &lls_cpu(device)->kernels.rows;
  enum { N = 10007 };
  float *x = guarded_alloc(N * sizeof *x), *y = guarded_alloc(N * sizeof *y);
  double sum = 0;
  for (size_t i = 0; i < N; i++)
    x[i] = -100 * (float)i / N;
  x[1] = -INFINITY;
  x[2] = NAN;
  double got = k->exp_sum(x, 0, 1, N, y);
  for (size_t i = 0; i < N; i++) {
    double wanted = i == 2 ? 0 : exp(x[i]);
    assert_near(device, "exp", i, y[i], wanted, wanted * EXP_EPSILON + 1.3e-38);
    sum += wanted;
  }
  assert_near(device, "sum of exp", 0, got, sum, sum * EXP_EPSILON);
  assert_true(y[0] == 1 && y[1] == 0 && y[2] == 0);
  assert_true(k->max(x, N) == 0);
  x[N - 1] = 5;
  assert_true(k->max(x, N) == 5);
  assert_true(k->max(x + 1, 2) == -INFINITY);
  guarded_free(x);
  guarded_free(y);
}

static void test_exponentials(void **state)
{
  (void)state;
  each_level(1, MAX_ROWS, MAX_COLUMNS, exponentials);
}

/* Sums over some rows, whole vectors of them and not. */
static void products(struct lls_device *device)
{
  static const size_t sizes[][2] = {{1, 1},  {3, 15},  {4, 16},
                                    {5, 63}, {16, 64}, {9, 1030}};
  const struct lls_cpu_row_kernels *k = &lls_cpu(device)->kernels.rows;
  enum { STRIDE = 1040, ROWS = 16 };
  static float x[ROWS * STRIDE], q[STRIDE], p[ROWS], y[STRIDE], out[ROWS];
  fill_random(x, ROWS * STRIDE);
  fill_random(q, STRIDE);
  fill_random(p, ROWS);
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    size_t rows = sizes[s][0], n = sizes[s][1];
    for (size_t i = 0; i < STRIDE; i++)
      y[i] = 1;
    k->dots(q, x, STRIDE, rows, n, out);
    k->weigh(p, x, STRIDE, rows, n, y);
    for (size_t row = 0; row < rows; row++) {
      double wanted = 0;
      for (size_t i = 0; i < n; i++)
        wanted += (double)q[i] * (double)x[row * STRIDE + i];
      assert_near(device, "dot", row, out[row], wanted, (double)n * 1e-6);
    }
    for (size_t i = 0; i < n; i++) {
      double wanted = 1;
      for (size_t row = 0; row < rows; row++)
        wanted += (double)p[row] * (double)x[row * STRIDE + i];
      assert_near(device, "sum", i, y[i], wanted, 2e-6 * (double)rows);
    }
    for (size_t i = n; i < STRIDE; i++)
      assert_true(y[i] == 1);
  }
}

static void test_products(void **state)
{
  (void)state;
  each_level(1, MAX_ROWS, MAX_COLUMNS, products);
}

/* ---- rows ------------------------------------------------------------------------ */

static void moves(struct lls_device *device)
{
  static const uint32_t picked[] = {5, 0, 5, 2};
  enum { ROWS = 7, COLUMNS = 1501 };
  float *x = guarded_alloc(ROWS * COLUMNS * sizeof *x),
        *y = guarded_alloc(ROWS * COLUMNS * sizeof *y);
  float *sum = guarded_alloc(ROWS * COLUMNS * sizeof *sum);
  fill_random(x, ROWS * COLUMNS);
  fill_random(y, ROWS * COLUMNS);
  memcpy(sum, y, ROWS * COLUMNS * sizeof *sum);
  device->ops->add(device, x, ROWS, COLUMNS, sum);
  for (size_t i = 0; i < ROWS * COLUMNS; i++)
    assert_true(sum[i] == x[i] + y[i]);
  device->ops->gather(device, x, picked, 4, COLUMNS, y);
  for (size_t i = 0; i < 4; i++)
    assert_memory_equal(y + i * COLUMNS, x + picked[i] * COLUMNS, COLUMNS * sizeof *x);
  guarded_free(x);
  guarded_free(y);
  guarded_free(sum);
}

static void test_moves(void **state)
{
  (void)state;
  each_level(2, MAX_ROWS, MAX_COLUMNS, moves);
}

struct table {
  uint16_t half[50][24];
  float full[50][24];
};

static struct lls_tensor_view table_view(const struct table *t, enum lls_dtype dtype)
{
  return (struct lls_tensor_view){
      .data = dtype == LLS_F32 ? (const void *)t->full : t->half,
      .dtype = dtype,
      .rows = 50,
      .columns = 19, /* of 24: rows have a stride */
      .row_stride = 24,
  };
}

static float table_entry(const struct table *t, enum lls_dtype dtype, int32_t row,
                         int column)
{
  if (dtype == LLS_F32)
    return t->full[row][column];
  uint16_t half = t->half[row][column];
  return dtype == LLS_F16 ? lls_f16_to_f32(half) : lls_bf16_to_f32(half);
}

static void embeddings(struct lls_device *device)
{
  static const enum lls_dtype dtypes[] = {LLS_F32, LLS_F16, LLS_BF16};
  const int32_t tokens[] = {0, 49, 7, 7, 21}, positions[] = {0, 1, 47, 3, 12};
  const struct lls_device_step step = {
      .n_rows = 5, .tokens = tokens, .positions = positions};
  struct table t;
  fill_random(&t.full[0][0], 50 * 24);
  for (size_t i = 0; i < 3; i++) {
    for (int k = 0; k < 50 * 24; k++)
      (&t.half[0][0])[k] = dtypes[i] == LLS_F16 ? lls_f32_to_f16((&t.full[0][0])[k])
                                                : lls_f32_to_bf16((&t.full[0][0])[k]);
    struct lls_tensor_view view = table_view(&t, dtypes[i]);
    float x[5][19];
    void *table;
    assert_int_equal(device->ops->table_create(device, &view, &table, NULL), 0);
    assert_int_equal(device->ops->step_begin(device, NULL, &step), 0);
    device->ops->embed(device, table, 1, x);
    device->ops->embed_positions(device, table, 2, x);
    assert_int_equal(device->ops->step_end(device, NULL), 0);
    for (int row = 0; row < 5; row++) {
      for (int c = 0; c < 19; c++)
        assert_true(x[row][c] == table_entry(&t, dtypes[i], tokens[row], c) +
                                     table_entry(&t, dtypes[i], positions[row] + 2, c));
    }
    device->ops->table_destroy(device, table);
  }
}

static void test_embeddings(void **state)
{
  (void)state;
  each_level(2, MAX_ROWS, MAX_COLUMNS, embeddings);
}

static void test_entries_outside_a_table(void **state)
{
  (void)state;
  struct lls_device *device = create_device(NULL, 1, MAX_ROWS, MAX_COLUMNS);
  struct table t = {0};
  struct lls_tensor_view view = table_view(&t, LLS_F32);
  static const int32_t bad[] = {-1, 50, INT32_MAX, INT32_MIN};
  float x[19];
  void *table;
  assert_int_equal(device->ops->table_create(device, &view, &table, NULL), 0);
  for (size_t i = 0; i < 4; i++) {
    const struct lls_device_step step = {
        .n_rows = 1, .tokens = &bad[i], .positions = &bad[i]};
    assert_int_equal(device->ops->step_begin(device, NULL, &step), 0);
    device->ops->embed(device, table, 1, x);
    assert_int_equal(device->ops->step_end(device, NULL), -EINVAL);
    assert_int_equal(device->ops->step_begin(device, NULL, &step), 0);
    device->ops->embed_positions(device, table, 2, x);
    assert_int_equal(device->ops->step_end(device, NULL), i == 0 ? 0 : -EINVAL);
  }
  device->ops->table_destroy(device, table);
  device->ops->destroy(device);
}

static void caps(struct lls_device *device)
{
  static const float sizes[] = {30, 1, 0.25f};
  const uint32_t n = 1000;
  float x[1000], y[1000];
  for (size_t c = 0; c < sizeof sizes / sizeof *sizes; c++) {
    fill_grid(x, n);
    memcpy(y, x, sizeof y);
    device->ops->cap_logits(device, y, 4, n / 4, sizes[c]);
    for (size_t i = 0; i < n; i++) {
      long double wanted = sizes[c] * tanhl((long double)x[i] / sizes[c]);
      if (!(fabsl(y[i] - wanted) <= 1e-6L * (long double)fmaxf(1, sizes[c])))
        fail_msg("%g capped at %g: %g, not %Lg", (double)x[i], (double)sizes[c],
                 (double)y[i], wanted);
    }
  }
}

static void test_caps(void **state)
{
  (void)state;
  each_level(2, MAX_ROWS, MAX_COLUMNS, caps);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_activations), cmocka_unit_test(test_gates),
      cmocka_unit_test(test_caps),        cmocka_unit_test(test_exponentials),
      cmocka_unit_test(test_products),    cmocka_unit_test(test_moves),
      cmocka_unit_test(test_embeddings),  cmocka_unit_test(test_entries_outside_a_table),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
