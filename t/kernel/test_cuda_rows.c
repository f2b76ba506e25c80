/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA device's operations on rows against the CPU's: norms, activations, additions,
 * lookups, linear layers. Column counts are and are not multiples of the 16 bytes that
 * a thread reads; row counts are on both sides of the padding steps.
 */
#include "t/kernel/pair.h"

#define MAX_COLUMNS 1100
#define LONG        8200

static const uint32_t row_counts[] = {1, 2, 3, 5, 8, 9, 33};
static const uint32_t column_counts[] = {1, 7, 8, 64, 100, 515, 1024};
#define N_ROWS    (sizeof row_counts / sizeof *row_counts)
#define N_COLUMNS (sizeof column_counts / sizeof *column_counts)

/* The data of a case. */
struct rows {
  const struct pair *p;
  struct lls_device *d; /* one of the two */
  uint32_t n, columns;
  const float *x, *y, *weight, *bias; /* with at least twice as many columns */
};

typedef void (*operation)(const struct rows *, void *x, void *y, int variant);

/* Runs it on both devices and compares y, (n, out_columns). */
static void compare_rows(struct rows *r, const char *what, operation run, int variant,
                         uint32_t in_columns, uint32_t out_columns, double relative,
                         double absolute)
{
  size_t n = (size_t)r->n * out_columns;
  float *result[2] = {malloc(n * sizeof(float)), malloc(n * sizeof(float))};
  for (int i = 0; i < 2; i++) {
    r->d = i == 0 ? r->p->cpu : r->p->cuda;
    void *x = pair_put(r->d, r->x, r->n, in_columns);
    void *y = pair_put(r->d, r->y, r->n, out_columns);
    pair_begin(r->d, NULL, r->n);
    run(r, x, y, variant);
    pair_get(r->d, y, n, result[i]);
    pair_end(r->d);
    pair_release(r->d, x);
    pair_release(r->d, y);
  }
  pair_compare(r->p, what, result[1], result[0], n, relative, absolute);
  free(result[0]);
  free(result[1]);
}

static void with_size(const struct pair *p, size_t n, size_t columns,
                      void (*test)(struct rows *))
{
  float *x = pair_random(p, 2 * n * columns, random_activation);
  float *y = pair_random(p, 2 * n * columns, random_float);
  float *weight = pair_random(p, columns, random_float);
  float *bias = pair_random(p, columns, random_float);
  struct rows r = {.p = p,
                   .n = (uint32_t)n,
                   .columns = (uint32_t)columns,
                   .x = x,
                   .y = y,
                   .weight = weight,
                   .bias = bias};
  test(&r);
  free(x);
  free(y);
  free(weight);
  free(bias);
}

static void each_size(const struct pair *p, void (*test)(struct rows *))
{
  for (size_t i = 0; i < N_COLUMNS; i++)
    with_size(p, row_counts[random_bits() % N_ROWS], column_counts[i], test);
}

/* ---- norms ------------------------------------------------------------------------- */

/* variant: kind, + 2 if y is x */
static void run_norm(const struct rows *r, void *x, void *y, int variant)
{
  const struct lls_device_ops *ops = r->d->ops;
  float *weight, *bias;
  const struct lls_tensor_view w = view_of(r->weight, 1, r->columns),
                               b = view_of(r->bias, 1, r->columns);
  assert_int_equal(ops->vector_create(r->d, &w, &weight, NULL), 0);
  assert_int_equal(ops->vector_create(r->d, &b, &bias, NULL), 0);
  enum lls_norm_kind kind = variant % 2 ? LLS_NORM_LAYER : LLS_NORM_RMS;
  ops->norm(r->d, kind, x, weight, kind == LLS_NORM_LAYER ? bias : NULL, 1e-5f, r->n,
            r->columns, variant < 2 ? y : x);
  if (variant >= 2) { /* y is what is compared */
    ops->activate(r->d, LLS_ACT_RELU, y, r->n, r->columns);
    ops->add(r->d, x, r->n, r->columns, y);
  }
  pair_get(r->d, y, 1, &(float){0}); /* weights go before the step ends */
  pair_release(r->d, weight);
  pair_release(r->d, bias);
}

static void norms(struct rows *r)
{
  for (int variant = 0; variant < 4; variant++)
    compare_rows(r, "norm", run_norm, variant, r->columns, r->columns,
                 4 * pair_epsilon(r->p), 4 * pair_epsilon(r->p));
}

/* ---- activations, additions -------------------------------------------------------- */

static void run_activate(const struct rows *r, void *x, void *y, int kind)
{
  (void)x;
  r->d->ops->activate(r->d, (enum lls_activation)kind, y, r->n, r->columns);
}

static void run_gated(const struct rows *r, void *x, void *y, int kind)
{
  r->d->ops->gated(r->d, (enum lls_activation)kind, x, r->n, r->columns, y);
}

static void run_add(const struct rows *r, void *x, void *y, int variant)
{
  (void)variant;
  r->d->ops->add(r->d, x, r->n, r->columns, y);
}

static void activations(struct rows *r)
{
  double e = pair_epsilon(r->p);
  for (int kind = LLS_ACT_RELU; kind <= LLS_ACT_SILU; kind++) {
    compare_rows(r, "activate", run_activate, kind, r->columns, r->columns, e, 1e-6);
    compare_rows(r, "gated", run_gated, kind, 2 * r->columns, r->columns, e, 1e-5);
  }
  compare_rows(r, "gated", run_gated, LLS_ACT_CLAMPED_SWIGLU, 2 * r->columns, r->columns,
               e, 1e-5);
  compare_rows(r, "add", run_add, 0, r->columns, r->columns, e, 1e-6);
}

/* Rows too long for a block's registers, and more blocks than run at once. */
static void many_activations(struct rows *r)
{
  compare_rows(r, "gated, of many rows", run_gated, LLS_ACT_SILU, 2 * r->columns,
               r->columns, pair_epsilon(r->p), 1e-5);
}

static void long_rows(const struct pair *p)
{
  with_size(p, 2, LONG, norms);
  with_size(p, PAIR_ROWS, LONG, many_activations);
}

/* ---- what few models need ---------------------------------------------------------- */

static void run_xielu(const struct rows *r, void *x, void *y, int variant)
{
  static const struct lls_xielu parameters[] = {{0.8f, 1.1f, 0.5f, -1e-6f},
                                                {2, 0.5f, 0.25f, -0.3f}};
  (void)x;
  r->d->ops->xielu(r->d, &parameters[variant], y, r->n, r->columns);
}

/* The scores are a product with numbers of their own, in f32. */
static void run_gate(const struct rows *r, void *x, void *y, int variant)
{
  const struct lls_device_ops *ops = r->d->ops;
  const struct lls_tensor_view view = view_of(r->weight, 1, r->columns);
  struct lls_weight *w;
  void *scores;
  (void)variant;
  assert_int_equal(ops->weight_create(r->d, &view, NULL, 1, LLS_WEIGHTS_F32, &w, NULL),
                   0);
  assert_int_equal(
      ops->alloc(r->d, LLS_MEMORY_DEVICE, (r->n + 8) * sizeof(float), &scores), 0);
  ops->logits(r->d, w, x, r->n, scores);
  ops->gate_rows(r->d, scores, y, r->n, r->columns);
  pair_get(r->d, y, 1, &(float){0});
  ops->weight_destroy(r->d, w);
  pair_release(r->d, scores);
}

static void run_scale(const struct rows *r, void *x, void *y, int variant)
{
  (void)x;
  r->d->ops->scale(r->d, variant == 0 ? 0.37f : -2, r->n, r->columns, y);
}

static void run_gate_inputs(const struct rows *r, void *x, void *y, int kind)
{
  r->d->ops->gate_inputs(r->d, (enum lls_activation)kind, x, r->n, r->columns, y);
}

/* The table has rows for half of the tokens only. */
static void run_embed_layer(const struct rows *r, void *x, void *y, int variant)
{
  const struct lls_device_ops *ops = r->d->ops;
  const struct lls_tensor_view view = view_of(r->x, r->n, r->columns);
  int32_t ids[PAIR_ROWS];
  void *table;
  (void)x;
  (void)variant;
  for (uint32_t i = 0; i < r->n; i++)
    ids[i] = (int32_t)(i * 5 % (2 * r->n));
  assert_int_equal(ops->table_create(r->d, &view, &table, NULL), 0);
  pair_end(r->d);
  pair_begin(r->d, ids, r->n);
  ops->embed_layer(r->d, table, 1.5f, y);
  pair_get(r->d, y, 1, &(float){0});
  ops->table_destroy(r->d, table);
}

/* Rows are one head of q, with k and v behind it; positions are from 5 on. */
static void run_grow(const struct rows *r, void *x, void *y, int variant)
{
  const struct lls_attention_shape shape = {
      .heads = 1, .kv_heads = 1, .head_dim = r->columns / 3};
  const struct lls_query_growth growth = {
      .factor = 0.1f, .every = variant == 0 ? 4 : 1000, .offset = 1};
  int32_t positions[PAIR_ROWS];
  (void)x;
  for (uint32_t i = 0; i < r->n; i++)
    positions[i] = (int32_t)(5 + 3 * i);
  pair_end(r->d);
  pair_begin(r->d, positions, r->n);
  r->d->ops->grow_queries(r->d, &shape, &growth, y);
}

static void extras(struct rows *r)
{
  double e = pair_epsilon(r->p);
  uint32_t n = r->columns;
  compare_rows(r, "squared ReLU", run_activate, LLS_ACT_SQUARED_RELU, n, n, e, 1e-6);
  for (int i = 0; i < 2; i++) {
    compare_rows(r, "xielu", run_xielu, i, n, n, e, 1e-5);
    compare_rows(r, "scale", run_scale, i, n, n, e, 0);
    if (n % 3 == 0)
      compare_rows(r, "grow_queries", run_grow, i, n, n, e, 1e-6);
  }
  compare_rows(r, "gate_rows", run_gate, 0, n, n, 2 * e, 1e-3);
  compare_rows(r, "gate_inputs", run_gate_inputs, LLS_ACT_GELU_TANH, n, n, e, 1e-5);
  compare_rows(r, "embed_layer", run_embed_layer, 0, n, n, e, 1e-5);
}

/* Columns of three heads, which are and are not multiples of 16 bytes. */
static void extras_of_threes(const struct pair *p)
{
  with_size(p, 5, 96, extras);
  with_size(p, 3, 21, extras);
}

/* ---- lookups ----------------------------------------------------------------------- */

static void run_gather(const struct rows *r, void *x, void *y, int variant)
{
  uint32_t rows[PAIR_ROWS];
  for (uint32_t i = 0; i < r->n; i++)
    rows[i] = (i * 7 + (uint32_t)variant) % r->n;
  r->d->ops->gather(r->d, x, rows, r->n, r->columns, y);
  memset(rows, 0xff, sizeof rows); /* they were the caller's */
}

/* More kinds than a step without scores has, the same rows twice. */
static void run_gathers(const struct rows *r, void *x, void *y, int variant)
{
  for (int i = 0; i < 4; i++)
    run_gather(r, i % 2 ? y : x, i % 2 ? x : y, variant + i);
  run_gather(r, x, y, variant);
}

/* Tokens and positions of a step of its own. */
static void run_embed(const struct rows *r, void *x, void *y, int offset)
{
  (void)x;
  const struct lls_device_ops *ops = r->d->ops;
  int32_t ids[PAIR_ROWS], positions[PAIR_ROWS];
  void *table;
  const struct lls_tensor_view view = view_of(r->x, 2 * r->n, r->columns);
  for (uint32_t i = 0; i < r->n; i++) {
    ids[i] = (int32_t)(i * 5 % (2 * r->n));
    positions[i] = (int32_t)(i * 3 % r->n);
  }
  assert_int_equal(ops->table_create(r->d, &view, &table, NULL), 0);
  pair_end(r->d);
  const struct lls_device_step step = {
      .n_rows = r->n, .tokens = ids, .positions = positions};
  assert_int_equal(ops->step_begin(r->d, NULL, &step), 0);
  ops->embed(r->d, table, 1, y);
  ops->embed_positions(r->d, table, offset, y);
  pair_get(r->d, y, 1, &(float){0});
  ops->table_destroy(r->d, table);
}

static void lookups(struct rows *r)
{
  compare_rows(r, "gather", run_gather, 3, r->columns, r->columns, 0, 0);
  compare_rows(r, "gathers", run_gathers, 3, r->columns, r->columns, 0, 0);
  compare_rows(r, "embed", run_embed, 0, r->columns, r->columns, pair_epsilon(r->p),
               1e-6);
  compare_rows(r, "embed", run_embed, 1, r->columns, r->columns, pair_epsilon(r->p),
               1e-6);
}

/* ---- linear layers ----------------------------------------------------------------- */

#define OUTPUTS 24

/* Two parts, the second without a bias. variant: 1 bias, 2 add, 4 relu after it. */
static void run_linear(const struct rows *r, void *x, void *y, int variant)
{
  const struct lls_device_ops *ops = r->d->ops;
  struct lls_weight *w;
  float *weights = malloc(OUTPUTS * r->columns * sizeof *weights);
  uint64_t state = random_state;
  random_state = 99;
  for (size_t i = 0; i < OUTPUTS * (size_t)r->columns; i++)
    weights[i] = lls_bf16_to_f32(lls_f32_to_bf16(random_float()));
  random_state = state;
  const struct lls_tensor_view parts[] = {
      view_of(weights, OUTPUTS - 8, r->columns),
      view_of(weights + (OUTPUTS - 8) * r->columns, 8, r->columns)};
  const struct lls_tensor_view biases[] = {view_of(weights, 1, OUTPUTS - 8), {.rows = 0}};
  enum lls_weight_format format =
      r->p->numbers == LLS_F32 ? LLS_WEIGHTS_F32 : LLS_WEIGHTS_BF16;
  assert_int_equal(
      ops->weight_create(r->d, parts, variant & 1 ? biases : NULL, 2, format, &w, NULL),
      0);
  free(weights);
  ops->linear(r->d, w, x, r->n, variant & 2 ? LLS_STORE_ADD : LLS_STORE_SET, y);
  if (variant & 4)
    ops->activate(r->d, LLS_ACT_RELU, y, r->n, OUTPUTS);
  pair_get(r->d, y, 1, &(float){0});
  ops->weight_destroy(r->d, w);
}

static void products(struct rows *r)
{
  if (r->columns * 2 < OUTPUTS) /* y comes out of 2 x columns numbers */
    return;
  double sum = 1e-6 * r->columns * 30; /* bound for f32 roundings */
  for (int variant = 0; variant < 8; variant++) {
    /* cuBLASLt's kernels for rows that do not begin at 16 bytes round twice (products.c)
     */
    bool twice = r->columns % 8 != 0 && r->p->on_gpu;
    compare_rows(r, "linear", run_linear, variant, r->columns, OUTPUTS,
                 pair_epsilon(r->p) * (twice ? 2 : 1),
                 sum + 0.01 * (r->p->numbers == LLS_BF16));
  }
}

/* bf16 has a kernel of its own for one row. */
static void products_of_one(struct rows *r)
{
  r->n = 1;
  products(r);
}

/* Always f32, bias included. */
static void test_logits_of(const struct pair *p)
{
  enum { COLUMNS = 40, N = 3 };
  float *x = pair_random(p, N * COLUMNS, random_float), result[2][N * OUTPUTS];
  float *weights = pair_random(p, OUTPUTS * COLUMNS, random_float);
  const struct lls_tensor_view part = view_of(weights, OUTPUTS, COLUMNS),
                               bias = view_of(weights, 1, OUTPUTS);
  for (int i = 0; i < 2; i++) {
    struct lls_device *d = i == 0 ? p->cpu : p->cuda;
    struct lls_weight *w;
    void *y, *in = pair_put(d, x, N, COLUMNS);
    assert_int_equal(d->ops->weight_create(d, &part, &bias, 1, LLS_WEIGHTS_F32, &w, NULL),
                     0);
    assert_int_equal(d->ops->weight_bytes(w) >= OUTPUTS * COLUMNS * 2, 1);
    assert_int_equal(d->ops->alloc(d, LLS_MEMORY_DEVICE, sizeof result[0], &y), 0);
    pair_begin(d, NULL, N);
    d->ops->logits(d, w, in, N, y);
    d->ops->download(d, y, result[i], sizeof result[i]);
    pair_end(d);
    d->ops->weight_destroy(d, w);
    pair_release(d, in);
    pair_release(d, y);
  }
  pair_compare(p, "logits", result[1], result[0], N * OUTPUTS, 1e-5, 1e-5);
  free(x);
  free(weights);
}

/* ---- what is refused --------------------------------------------------------------- */

static void refusals(const struct pair *p)
{
  const struct lls_device_ops *ops = p->cuda->ops;
  struct lls_error err = {""};
  float numbers[4 * 8] = {0};
  const struct lls_tensor_view view = view_of(numbers, 4, 8);
  struct lls_weight *w;
  void *table, *x = pair_buffer(p->cuda, 4, 8);
  if (p->numbers == LLS_F32) {
    assert_int_equal(
        ops->weight_create(p->cuda, &view, NULL, 1, LLS_WEIGHTS_INT8, &w, &err),
        -ENOTSUP);
    assert_non_null(strstr(err.text, "int8 weights for bf16 activations only"));
  }
  assert_int_equal(ops->table_create(p->cuda, &view, &table, NULL), 0);
  pair_begin(p->cuda, (const int32_t[]){0, 4}, 2);
  ops->embed(p->cuda, table, 1, x);
  assert_int_equal(ops->step_end(p->cuda, &err), -EINVAL);
  assert_string_equal(err.text, "row 1 wants entry 4 of a table of 4");
  pair_begin(p->cuda, (const int32_t[]){0, 3}, 2); /* and goes on */
  ops->embed(p->cuda, table, 1, x);
  pair_end(p->cuda);
  const struct lls_device_step large = {.n_rows = PAIR_ROWS + 1};
  assert_int_equal(ops->step_begin(p->cuda, NULL, &large), -EINVAL);
  ops->table_destroy(p->cuda, table);
  pair_release(p->cuda, x);
}

/* Random weights are the CPU's, number by number. */
static void dummies(const struct pair *p)
{
  enum { ROWS = 5, COLUMNS = 24 };
  const struct lls_tensor_view view = {
      .dtype = LLS_BF16, .rows = ROWS, .columns = COLUMNS, .row_stride = 31, .seed = 42};
  float result[2][ROWS * COLUMNS];
  for (int i = 0; i < 2; i++) {
    struct lls_device *d = i == 0 ? p->cpu : p->cuda;
    void *table, *x = pair_buffer(d, ROWS, COLUMNS);
    assert_int_equal(d->ops->table_create(d, &view, &table, NULL), 0);
    pair_begin(d, (const int32_t[]){0, 1, 2, 3, 4}, ROWS);
    d->ops->embed(d, table, 1, x);
    pair_get(d, x, ROWS * COLUMNS, result[i]);
    pair_end(d);
    d->ops->table_destroy(d, table);
    pair_release(d, x);
  }
  pair_compare(p, "dummy", result[1], result[0], ROWS * COLUMNS, 0x1p-8, 0);
}

/* ---- all --------------------------------------------------------------------------- */

static void all(const struct pair *p, void (*test)(struct rows *))
{
  each_size(p, test);
}

#define TEST_ROWS(name)                                                                  \
  static void name##_of(const struct pair *p)                                            \
  {                                                                                      \
    all(p, name);                                                                        \
  }                                                                                      \
  static void test_##name(void **state)                                                  \
  {                                                                                      \
    (void)state;                                                                         \
    each_pair(LLS_F32, MAX_COLUMNS * 2, name##_of);                                      \
    each_pair(LLS_BF16, MAX_COLUMNS * 2, name##_of);                                     \
  }

TEST_ROWS(norms)
TEST_ROWS(activations)
TEST_ROWS(extras)
TEST_ROWS(lookups)
TEST_ROWS(products)
TEST_ROWS(products_of_one)

static void test_long_rows(void **state)
{
  (void)state;
  each_pair(LLS_F32, 2 * LONG, long_rows);
  each_pair(LLS_BF16, 2 * LONG, long_rows);
}

static void test_extras_of_threes(void **state)
{
  (void)state;
  each_pair(LLS_F32, MAX_COLUMNS, extras_of_threes);
  each_pair(LLS_BF16, MAX_COLUMNS, extras_of_threes);
}

static void test_logits(void **state)
{
  (void)state;
  each_pair(LLS_F32, MAX_COLUMNS, test_logits_of);
  each_pair(LLS_BF16, MAX_COLUMNS, test_logits_of);
}

static void test_refusals(void **state)
{
  (void)state;
  each_pair(LLS_BF16, MAX_COLUMNS, refusals);
  each_pair(LLS_F32, MAX_COLUMNS, refusals);
}

static void test_dummies(void **state)
{
  (void)state;
  each_pair(LLS_F32, MAX_COLUMNS, dummies);
  each_pair(LLS_BF16, MAX_COLUMNS, dummies);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_norms),
      cmocka_unit_test(test_activations),
      cmocka_unit_test(test_lookups),
      cmocka_unit_test(test_products),
      cmocka_unit_test(test_products_of_one),
      cmocka_unit_test(test_logits),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_dummies),
      cmocka_unit_test(test_long_rows),
      cmocka_unit_test(test_extras),
      cmocka_unit_test(test_extras_of_threes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
