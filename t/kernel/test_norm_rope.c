/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Norms and rotary embeddings at every ISA level against their formulas in long double.
 * Tolerances are relative to the largest value of the row, because sums and differences
 * in f32 have that precision.
 */
#include "t/kernel/fixture.h"

#define NORM_EPSILON 3e-6
#define ROPE_EPSILON 2e-7 /* three roundings */

#define MAX_ROWS    40
#define MAX_COLUMNS 5001

static const uint32_t columns[] = {1, 7, 8, 9, 15, 16, 17, 31, 33, 64, 288, 2048, 5001};
#define N_COLUMNS (sizeof columns / sizeof *columns)

struct rows {
  uint32_t n_rows, columns;
  float *x, *weight, *bias,
      *y; /* (n_rows, columns), (columns), (columns), (n_rows, ..) */
};

static struct rows create_rows(uint32_t n_rows, uint32_t n)
{
  struct rows r = {.n_rows = n_rows, .columns = n};
  r.x = guarded_alloc(n_rows * n * sizeof(float));
  r.y = guarded_alloc(n_rows * n * sizeof(float));
  r.weight = guarded_alloc(n * sizeof(float));
  r.bias = guarded_alloc(n * sizeof(float));
  fill_random(r.x, n_rows * n);
  fill_random(r.weight, n);
  fill_random(r.bias, n);
  return r;
}

static void destroy_rows(struct rows *r)
{
  guarded_free(r->x);
  guarded_free(r->y);
  guarded_free(r->weight);
  guarded_free(r->bias);
}

static long double mean_of(const float *x, uint32_t n, long double centre, int power)
{
  long double sum = 0;
  for (uint32_t i = 0; i < n; i++)
    sum += powl((long double)x[i] - centre, power);
  return sum / n;
}

static void check_norm(struct lls_device *device, enum lls_norm_kind kind,
                       const struct rows *r, float epsilon)
{
  for (uint32_t row = 0; row < r->n_rows; row++) {
    const float *x = r->x + row * r->columns, *y = r->y + row * r->columns;
    long double mean = kind == LLS_NORM_LAYER ? mean_of(x, r->columns, 0, 1) : 0;
    long double factor =
        1 / sqrtl(mean_of(x, r->columns, mean, 2) + (long double)epsilon);
    long double largest = fabsl(mean);
    for (uint32_t i = 0; i < r->columns; i++)
      largest = fmaxl(largest, fabsl((long double)x[i]));
    for (uint32_t i = 0; i < r->columns; i++) {
      long double wanted = (x[i] - mean) * factor * r->weight[i];
      long double tolerance = largest * factor * fabsl((long double)r->weight[i]);
      if (kind == LLS_NORM_LAYER)
        wanted += r->bias[i], tolerance += fabsl((long double)r->bias[i]);
      assert_near(device, "norm", i, y[i], (double)wanted,
                  (double)tolerance * NORM_EPSILON);
    }
  }
}

static void norms(struct lls_device *device)
{
  static const float epsilons[] = {1e-6f, 1e-5f, 0.5f};
  for (size_t i = 0; i < N_COLUMNS; i++) {
    for (int kind = LLS_NORM_RMS; kind <= LLS_NORM_LAYER; kind++) {
      struct rows r = create_rows(1 + i % 7, columns[i]);
      float epsilon = epsilons[i % 3], *x = r.x;
      device->ops->norm(device, kind, x, r.weight, kind ? r.bias : NULL, epsilon,
                        r.n_rows, r.columns, r.y);
      check_norm(device, kind, &r, epsilon);
      memcpy(r.y, x, r.n_rows * r.columns * sizeof *x); /* in place */
      device->ops->norm(device, kind, r.y, r.weight, kind ? r.bias : NULL, epsilon,
                        r.n_rows, r.columns, r.y);
      check_norm(device, kind, &r, epsilon);
      destroy_rows(&r);
    }
  }
}

static void test_norms(void **state)
{
  (void)state;
  each_level(3, MAX_ROWS, MAX_COLUMNS, norms);
}

/* A mean of 1,000 with a spread of 1: differences must be taken before squares. */
static void far_from_zero(struct lls_device *device)
{
  struct rows r = create_rows(3, 1000);
  for (uint32_t i = 0; i < 3 * 1000; i++)
    r.x[i] = 1000 + random_float();
  device->ops->norm(device, LLS_NORM_LAYER, r.x, r.weight, r.bias, 1e-5f, 3, 1000, r.y);
  check_norm(device, LLS_NORM_LAYER, &r, 1e-5f);
  destroy_rows(&r);
}

static void test_layer_norm_far_from_zero(void **state)
{
  (void)state;
  each_level(1, MAX_ROWS, MAX_COLUMNS, far_from_zero);
}

/* ---- rope ------------------------------------------------------------------------ */

struct rope_case {
  uint32_t heads, kv_heads, head_dim, rotary_dims;
  float base, attention_factor;
};

static const struct rope_case rope_cases[] = {
    {4, 2, 64, 64, 10000, 1}, {3, 1, 80, 32, 10000, 1},   {2, 2, 8, 8, 500000, 1},
    {5, 5, 96, 96, 10000, 1}, {1, 1, 256, 64, 10000, 1},  {8, 2, 128, 128, 1e6f, 1.19f},
    {2, 1, 12, 6, 10000, 1},  {2, 1, 256, 256, 10000, 1},
};

static float *random_qkv(const struct rope_case *c, uint32_t n_rows, size_t *n)
{
  *n = (size_t)n_rows * (c->heads + 2 * c->kv_heads) * c->head_dim;
  float *qkv = guarded_alloc(*n * sizeof *qkv);
  fill_random(qkv, *n);
  return qkv;
}

/* The expected element d < rotary_dims of a rotated head x, and its tolerance. */
static long double rotated(const struct rope_case *c, const float *frequency,
                           const float *x, uint32_t d, int32_t position,
                           long double *tolerance)
{
  uint32_t half = c->rotary_dims / 2;
  long double angle = (long double)position * (long double)frequency[d % half];
  long double pair = d < half ? -(long double)x[d + half] : (long double)x[d - half];
  long double factor = c->attention_factor;
  *tolerance = ROPE_EPSILON * factor * (fabsl((long double)x[d]) + fabsl(pair));
  return (x[d] * cosl(angle) + pair * sinl(angle)) * factor;
}

static void check_rope(struct lls_device *device, const struct rope_case *c,
                       const float *frequency, const float *before, const float *after,
                       uint32_t n_rows, const int32_t *positions)
{
  uint32_t heads = c->heads + 2 * c->kv_heads;
  for (uint32_t i = 0; i < n_rows * heads; i++) {
    const float *x = before + i * c->head_dim, *y = after + i * c->head_dim;
    bool value = i % heads >= c->heads + c->kv_heads;
    for (uint32_t d = 0; d < c->head_dim; d++) {
      if (value || d >= c->rotary_dims) {
        assert_true(y[d] == x[d]);
        continue;
      }
      long double tolerance;
      double wanted =
          (double)rotated(c, frequency, x, d, positions[i / heads], &tolerance);
      assert_near(device, "rope", d, y[d], wanted, (double)tolerance);
    }
  }
}

static void rope_once(struct lls_device *device, const struct rope_case *c)
{
  int32_t positions[MAX_ROWS] = {0, 1, 2, 1000000, 999999, 524288, 131071};
  float frequency[128];
  uint32_t n_rows = random_between(8, MAX_ROWS);
  size_t n;
  for (uint32_t i = 7; i < n_rows; i++)
    positions[i] = (int32_t)random_between(0, 1000000);
  for (uint32_t i = 0; i < c->rotary_dims / 2; i++)
    frequency[i] = powf(c->base, -2 * (float)i / (float)c->rotary_dims);
  const struct lls_attention_shape shape = {
      .heads = c->heads, .kv_heads = c->kv_heads, .head_dim = c->head_dim};
  const struct lls_rope_shape rope = {.head_dim = c->head_dim,
                                      .rotary_dims = c->rotary_dims,
                                      .inverse_frequency = frequency,
                                      .attention_factor = c->attention_factor};
  const struct lls_device_step step = {.n_rows = n_rows, .positions = positions};
  assert_int_equal(device->ops->step_begin(device, NULL, &step), 0);
  for (int layer = 0; layer < 2; layer++) { /* the second finds the angles made */
    float *before = random_qkv(c, n_rows, &n), *after = guarded_alloc(n * sizeof *after);
    memcpy(after, before, n * sizeof *after);
    device->ops->rope(device, &shape, &rope, after);
    check_rope(device, c, frequency, before, after, n_rows, positions);
    guarded_free(before);
    guarded_free(after);
  }
  assert_int_equal(device->ops->step_end(device, NULL), 0);
}

/* Several steps on one device: angles of the previous step must not be used. */
static void ropes(struct lls_device *device)
{
  for (size_t i = 0; i < sizeof rope_cases / sizeof *rope_cases; i++) {
    rope_once(device, &rope_cases[i]);
    rope_once(device, &rope_cases[i]);
  }
}

static void test_rope(void **state)
{
  (void)state;
  each_level(3, MAX_ROWS, MAX_COLUMNS, ropes);
}

/* Two ropes with the same number of dims in one step, as in models with local and
 * global layers. */
static void two_ropes(struct lls_device *device)
{
  const struct rope_case c = {1, 1, 8, 8, 0, 1};
  float frequency[2][4] = {{1, 0.1f, 0.01f, 0.001f}, {0.5f, 0.2f, 0.02f, 0.002f}};
  const int32_t position = 77;
  const struct lls_attention_shape shape = {.heads = 1, .kv_heads = 1, .head_dim = 8};
  const struct lls_device_step step = {.n_rows = 1, .positions = &position};
  size_t n;
  assert_int_equal(device->ops->step_begin(device, NULL, &step), 0);
  for (int i = 0; i < 4; i++) {
    const struct lls_rope_shape rope = {.head_dim = 8,
                                        .rotary_dims = 8,
                                        .inverse_frequency = frequency[i % 2],
                                        .attention_factor = 1};
    float *before = random_qkv(&c, 1, &n), after[24];
    memcpy(after, before, sizeof after);
    device->ops->rope(device, &shape, &rope, after);
    check_rope(device, &c, frequency[i % 2], before, after, 1, &position);
    guarded_free(before);
  }
  assert_int_equal(device->ops->step_end(device, NULL), 0);
}

static void test_two_ropes_in_a_step(void **state)
{
  (void)state;
  each_level(1, MAX_ROWS, MAX_COLUMNS, two_ropes);
}

static void test_rope_wider_than_a_head(void **state)
{
  (void)state;
  struct lls_device *device = create_device(NULL, 1, 4, 64);
  const int32_t position = 0;
  const struct lls_device_step step = {.n_rows = 1, .positions = &position};
  const struct lls_attention_shape shape = {.heads = 1, .kv_heads = 1, .head_dim = 8};
  const struct lls_rope_shape rope = {.head_dim = 8, .rotary_dims = 16};
  float qkv[24] = {0};
  assert_int_equal(device->ops->step_begin(device, NULL, &step), 0);
  device->ops->rope(device, &shape, &rope, qkv);
  assert_int_equal(device->ops->step_end(device, NULL), -EINVAL);
  device->ops->destroy(device);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_norms),
      cmocka_unit_test(test_layer_norm_far_from_zero),
      cmocka_unit_test(test_rope),
      cmocka_unit_test(test_two_ropes_in_a_step),
      cmocka_unit_test(test_rope_wider_than_a_head),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
