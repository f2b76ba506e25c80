/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products with weights of 4 to 8 bits on the CUDA device, against sums in double of
 * the dequantised values: each form, for few rows (multiplied as codes) and for many
 * (widened to bf16), with biases, ReLU and addition, of several parts, and of experts.
 */
#define PAIR_ROWS 264 /* most rows of a step */
#include "t/kernel/pair.h"
#include "t/quantised_data.h"

#include "core/device/coded.h"
#include "core/device/row_codes.h"
#include "core/device/tensor.h"
#include "core/engine/shard.h"

#define COLUMNS      1024
#define LONG         5632 /* columns: 5 or 6 pieces of 4-bit codes for each of 8 warps */
#define MOST_ROWS    PAIR_ROWS
#define MOST_OUTPUTS 300

void simt_architecture(int number);

#define FEW 64 /* rows up to which weights are multiplied as codes */

/* Few rows, more than one product takes, and so many that weights are widened to
 * bf16. */
static const uint32_t rows_of_steps[] = {1, 4, 8, 16, 24, 64, 72, MOST_ROWS};

/* A layer and the values that it represents. */
struct layer {
  const char *name;
  struct lls_tensor_view parts[2];
  size_t n_parts, rows, columns;
  enum lls_weight_format format;
  const float *numbers; /* (rows, columns) */
  const float *biases;  /* (rows) or NULL */
  /* activations of many rows are rounded to this type, for cuBLASLt */
  bool e4m3, int8;
  double rounding; /* relative to the largest value of a row: scales are f16 */
};

/* Compares results with a layer: y of `outputs` from x (n, columns). */
struct checked {
  const struct layer *layer;
  const float *x, *before; /* before: the values added to, or NULL */
  uint32_t n;
  bool relu, f32;
};

/* Rounds |x| <= 448 to e4m3: four significant bits, steps of 2^-9 below 2^-6. */
static float nearest_e4m3(float x)
{
  int exponent;
  frexpf(x, &exponent);
  float step = ldexpf(1, exponent - 4 < -9 ? -9 : exponent - 4);
  return rintf(x / step) * step;
}

/* Rounds a row to 8-bit codes with one scale. */
static void round_row(const float *x, size_t n, bool int8, float *out)
{
  float largest = 0, most = int8 ? 127 : 448;
  for (size_t k = 0; k < n; k++)
    largest = fmaxf(largest, fabsf(x[k]));
  for (size_t k = 0; k < n; k++) {
    float code = x[k] * (most / largest);
    out[k] = (int8 ? rintf(code) : nearest_e4m3(code)) * (largest / most);
  }
}

static void check_outputs(const struct pair *p, const struct checked *c, const float *got)
{
  const struct layer *l = c->layer;
  bool scaled = (l->e4m3 || l->int8) && c->n > FEW && !c->f32;
  for (uint32_t row = 0; row < c->n; row++)
    for (size_t o = 0; o < l->rows; o++) {
      const float *w = l->numbers + o * l->columns, *x = c->x + row * l->columns;
      float rounded[COLUMNS];
      if (scaled) {
        round_row(x, l->columns, l->int8, rounded);
        x = rounded;
      }
      double sum = 0, size = 0, largest = 0;
      for (size_t k = 0; k < l->columns; k++) {
        sum += (double)w[k] * (double)x[k];
        size += fabs((double)w[k] * (double)x[k]);
        largest = fmax(largest, fabs((double)w[k]));
      }
      double limit = 1e-5 * size + 1e-6;
      for (size_t k = 0; k < l->columns; k++)
        limit += l->rounding * largest * fabs((double)x[k]) * 0.25;
      if (scaled && p->on_gpu) /* which may have a way or not */
        limit += 0x1p-4 * size;
      if (c->n > FEW && !scaled) /* weights are rounded to bf16 */
        limit += 0x1p-8 * size;
      sum += l->biases != NULL ? (double)l->biases[o] : 0;
      sum += c->before != NULL ? (double)c->before[row * l->rows + o] : 0;
      sum = c->relu && sum < 0 ? 0 : sum;
      limit += c->f32 ? 0 : 0x1p-8 * fabs(sum);
      if (l->biases != NULL && c->n > FEW)
        limit += 0x1p-8 * fabs((double)l->biases[o]);
      double off = fabs((double)got[row * l->rows + o] - sum);
      if (!(off <= limit))
        fail_msg("%s%s, %u rows: output %zu of row %u is %.9g, not %.9g (+- %.2g)",
                 l->name, p->on_gpu ? " on a GPU" : "", c->n, o, row,
                 (double)got[row * l->rows + o], sum, limit);
    }
}

static struct lls_weight *create(struct lls_device *d, const struct layer *l)
{
  struct lls_weight *w;
  struct lls_error err = {""};
  struct lls_tensor_view biases[2];
  size_t first = 0;
  for (size_t i = 0; i < l->n_parts && l->biases != NULL; first += l->parts[i++].rows)
    biases[i] = view_of(l->biases + first, 1, l->parts[i].rows);
  if (d->ops->weight_create(d, l->parts, l->biases != NULL ? biases : NULL, l->n_parts,
                            l->format, &w, &err) != 0)
    fail_msg("%s: %s", l->name, err.text);
  return w;
}

/* y = x W^T (+ b), then y += it, then with ReLU. */
static void check_rows(const struct pair *p, const struct layer *l, struct lls_weight *w,
                       uint32_t n)
{
  struct lls_device *d = p->cuda;
  static float out[3][MOST_ROWS * MOST_OUTPUTS];
  uint32_t outputs = (uint32_t)l->rows;
  float *x = pair_random(p, n * l->columns, random_float);
  void *in = pair_put(d, x, n, (uint32_t)l->columns);
  void *y = pair_buffer(d, MOST_ROWS, MOST_OUTPUTS),
       *z = pair_buffer(d, MOST_ROWS, MOST_OUTPUTS);
  pair_begin(d, NULL, n);
  d->ops->linear(d, w, in, n, LLS_STORE_SET, y);
  pair_get(d, y, n * l->rows, out[0]);
  d->ops->linear(d, w, in, n, LLS_STORE_ADD, y);
  pair_get(d, y, n * l->rows, out[1]);
  d->ops->linear(d, w, in, n, LLS_STORE_SET, z);
  d->ops->activate(d, LLS_ACT_RELU, z, n, outputs);
  pair_get(d, z, n * l->rows, out[2]);
  pair_end(d);
  struct checked c = {.layer = l, .x = x, .n = n};
  check_outputs(p, &c, out[0]);
  c.before = out[0];
  check_outputs(p, &c, out[1]);
  c.before = NULL;
  c.relu = true;
  check_outputs(p, &c, out[2]);
  pair_release(d, in);
  pair_release(d, y);
  pair_release(d, z);
  free(x);
}

static void check_logits(const struct pair *p, const struct layer *l,
                         struct lls_weight *w, uint32_t n)
{
  struct lls_device *d = p->cuda;
  static float out[MOST_ROWS * MOST_OUTPUTS];
  float *x = pair_random(p, n * l->columns, random_float);
  void *y, *in = pair_put(d, x, n, (uint32_t)l->columns);
  assert_int_equal(d->ops->alloc(d, LLS_MEMORY_DEVICE, sizeof out, &y), 0);
  pair_begin(d, NULL, n);
  d->ops->logits(d, w, in, n, y);
  d->ops->download(d, y, out, n * l->rows * sizeof *out);
  pair_end(d);
  struct checked c = {.layer = l, .x = x, .n = n, .f32 = true};
  check_outputs(p, &c, out);
  pair_release(d, in);
  pair_release(d, y);
  free(x);
}

static void check_layer(const struct pair *p, const struct layer *l)
{
  struct lls_weight *w = create(p->cuda, l);
  for (size_t i = 0; i < sizeof rows_of_steps / sizeof *rows_of_steps; i += TAP_STEP(3)) {
    check_rows(p, l, w, rows_of_steps[i]);
    check_logits(p, l, w, rows_of_steps[i]);
  }
  p->cuda->ops->weight_destroy(p->cuda, w);
}

/* ---- what files have --------------------------------------------------------------- */

/* Types whose codes the device does not have are kept as bf16. */
static bool is_kept_as_bf16(enum lls_dtype type)
{
  return type == LLS_Q2_K || type == LLS_IQ2_XS || type == LLS_IQ2_S;
}

/* Scales that are products have more bits than f16, as do such offsets. */
static double rounding_of(enum lls_dtype type)
{
  if (is_kept_as_bf16(type))
    return 0x1p-8;
  return lls_dtype_has_block_scales(type) || type == LLS_Q5_0 ? 0x1p-10 : 0;
}

/* Types from IQ3_XXS on are kept like one of those before (test_cuda_quantised). */
static void types(const struct pair *p)
{
  for (size_t i = 0; vector_types[i] != LLS_IQ3_XXS; i++) {
    struct vectors v;
    read_vectors(vector_types[i], &v);
    const struct layer l = {.name = lls_dtype_name(vector_types[i]),
                            .parts = {v.view},
                            .n_parts = 1,
                            .rows = VECTOR_ROWS,
                            .columns = VECTOR_COLUMNS,
                            .numbers = v.expected,
                            .rounding = rounding_of(vector_types[i])};
    check_layer(p, &l);
  }
}

/* A layer of a folder of t/data/quantised, less some rows. */
static void check_folder(const struct pair *p, const char *name, size_t less, bool e4m3)
{
  struct lls_safetensors *st = open_matrix(name);
  const struct lls_tensor_view plain = matrix_view(st, "expected");
  float numbers[MATRIX_ROWS * MATRIX_COLUMNS];
  for (size_t row = 0; row < MATRIX_ROWS; row++)
    lls_tensor_read_row(&plain, row, numbers + row * MATRIX_COLUMNS);
  struct layer l = {.name = name,
                    .parts = {matrix_view(st, "m.weight")},
                    .n_parts = 1,
                    .rows = MATRIX_ROWS - less,
                    .columns = MATRIX_COLUMNS,
                    .numbers = numbers,
                    .e4m3 = e4m3,
                    .rounding = 0x1p-10};
  l.parts[0] = lls_view_rows(&l.parts[0], 0, l.rows);
  check_layer(p, &l);
  lls_safetensors_close(st);
}

static void layouts(const struct pair *p)
{
  static const char *const folders[] = {
      "gptq", "gptq-zeros", "awq", "packed", "packed-zeros", "int8", "fp8-block"};
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
    check_folder(p, folders[i], 0, false);
}

/* FP8 with one scale for each output: cuBLASLt's e4m3 from sm_89 on, and not with outputs
 * that it cannot have. */
static void fp8(const struct pair *p)
{
  char text[128];
  p->cuda->ops->identify(p->cuda, text, sizeof text);
  bool e4m3 = strstr(text, "sm_80") == NULL && strstr(text, "sm_86") == NULL;
  check_folder(p, "fp8-tensor", 0, e4m3);
  check_folder(p, "fp8-channel", 0, e4m3);
  check_folder(p, "fp8-channel", 1, e4m3 && p->on_gpu);
}

/* int8 of a model that was made for int8 activations: as the file has it, with biases,
 * and with outputs that cuBLASLt's int8 cannot have. */
static void w8a8(const struct pair *p)
{
  struct lls_safetensors *st = open_matrix("int8");
  const struct lls_tensor_view plain = matrix_view(st, "expected");
  float numbers[MATRIX_ROWS * MATRIX_COLUMNS], biases[MATRIX_ROWS] = {1, -0.5f, 0, 0.25f};
  for (size_t row = 0; row < MATRIX_ROWS; row++)
    lls_tensor_read_row(&plain, row, numbers + row * MATRIX_COLUMNS);
  struct layer l = {.name = "W8A8",
                    .parts = {matrix_view(st, "m.weight")},
                    .n_parts = 1,
                    .rows = MATRIX_ROWS,
                    .columns = MATRIX_COLUMNS,
                    .numbers = numbers,
                    .int8 = true,
                    .rounding = 0x1p-10};
  struct lls_coded coded = *(const struct lls_coded *)l.parts[0].data;
  coded.int8_inputs = true;
  l.parts[0].data = &coded;
  check_layer(p, &l);
  l.biases = biases;
  check_layer(p, &l);
  l.parts[0] = lls_view_rows(&l.parts[0], 0, MATRIX_ROWS - 1);
  l.rows--;
  l.int8 = p->on_gpu;
  check_layer(p, &l);
  lls_safetensors_close(st);
}

/* Non-finite activations make their row's outputs non-finite, and no other row's. */
static void no_numbers(const struct pair *p)
{
  enum { N = FEW + 8 };
  struct lls_device *d = p->cuda;
  struct lls_safetensors *st = open_matrix("int8");
  struct layer l = {.name = "W8A8", .parts = {matrix_view(st, "m.weight")}, .n_parts = 1};
  struct lls_coded coded = *(const struct lls_coded *)l.parts[0].data;
  coded.int8_inputs = true;
  l.parts[0].data = &coded;
  struct lls_weight *w = create(d, &l);
  float *x = pair_random(p, N * MATRIX_COLUMNS, random_float), out[N * MATRIX_ROWS];
  x[3 * MATRIX_COLUMNS + 5] = NAN;
  x[7 * MATRIX_COLUMNS] = -INFINITY;
  void *in = pair_put(d, x, N, MATRIX_COLUMNS), *y = pair_buffer(d, N, MATRIX_ROWS);
  pair_begin(d, NULL, N);
  d->ops->linear(d, w, in, N, LLS_STORE_SET, y);
  pair_get(d, y, N * MATRIX_ROWS, out);
  pair_end(d);
  for (uint32_t i = 0; i < N * MATRIX_ROWS; i++) {
    uint32_t row = i / MATRIX_ROWS;
    assert_int_equal(isfinite(out[i]) != 0, row != 3 && row != 7);
  }
  d->ops->weight_destroy(d, w);
  pair_release(d, in);
  pair_release(d, y);
  free(x);
  lls_safetensors_close(st);
}

/* Parts of two types, with biases: a list of weights with adjacent outputs. */
static void mixed(const struct pair *p)
{
  struct vectors a, b;
  float numbers[2 * VECTOR_NUMBERS], biases[2 * VECTOR_ROWS] = {1, -0.5f, 0.25f, -2};
  read_vectors(LLS_Q4_K, &a);
  read_vectors(LLS_Q6_K, &b);
  memcpy(numbers, a.expected, sizeof a.expected);
  memcpy(numbers + VECTOR_NUMBERS, b.expected, sizeof b.expected);
  const struct layer l = {.name = "Q4_K above Q6_K",
                          .parts = {a.view, b.view},
                          .n_parts = 2,
                          .rows = 2 * VECTOR_ROWS,
                          .columns = VECTOR_COLUMNS,
                          .numbers = numbers,
                          .biases = biases,
                          .rounding = 0x1p-10};
  check_layer(p, &l);
}

/* ---- what is quantised at load ----------------------------------------------------- */

/* A matrix of f32 and what its codes stand for. */
struct quantised {
  float *plain, *numbers;
  struct layer layer;
};

static void read_numbers(const struct lls_tensor_view *v, enum lls_codes_form form,
                         float *out)
{
  size_t padded = (v->columns + 31) / 32 * 32;
  void *scratch = malloc(lls_row_codes_scratch(padded));
  struct lls_row_codes row = lls_row_codes_in(scratch, padded);
  int zero = form == LLS_CODES8 ? 128 : 8;
  for (size_t i = 0; i < v->rows; i++) {
    lls_row_codes_read(&row, v, i, form);
    for (size_t k = 0; k < v->columns; k++)
      out[i * v->columns + k] = row.scale[k / 32] * (float)(row.code[k] - zero);
  }
  free(scratch);
}

static struct quantised quantise(size_t rows, size_t columns,
                                 enum lls_weight_format format)
{
  struct quantised q = {.plain = malloc(rows * columns * sizeof *q.plain),
                        .numbers = malloc(rows * columns * sizeof *q.numbers)};
  fill_random(q.plain, rows * columns);
  q.layer = (struct layer){.name = format == LLS_WEIGHTS_INT8 ? "int8" : "int4",
                           .parts = {view_of(q.plain, rows, columns)},
                           .n_parts = 1,
                           .rows = rows,
                           .columns = columns,
                           .format = format,
                           .numbers = q.numbers};
  read_numbers(&q.layer.parts[0], format == LLS_WEIGHTS_INT8 ? LLS_CODES8 : LLS_CODES4,
               q.numbers);
  return q;
}

static void quantised_free(struct quantised *q)
{
  free(q->plain);
  free(q->numbers);
}

/* Outputs that do not fill a tile, inputs that do not fill a piece or a group, and
 * tiles shared by several blocks. */
static void odd_shapes(const struct pair *p)
{
  static const size_t shapes[][2] = {
      {50, 200}, {16, 128}, {17, 504}, {1, 8}, {300, 1000}};
  for (size_t i = 0; i < 2 * sizeof shapes / sizeof *shapes; i++) {
    struct quantised q = quantise(shapes[i / 2][0], shapes[i / 2][1],
                                  i % 2 ? LLS_WEIGHTS_INT8 : LLS_WEIGHTS_INT4);
    check_layer(p, &q.layer);
    quantised_free(&q);
  }
}

/* So many pieces that a warp's ring of stages is filled more than once (codes.cu), by 16
 * outputs a block and by 32. */
static void long_inputs(const struct pair *p)
{
  static const size_t outputs[] = {40, 200};
  static const uint32_t rows[] = {1, 8, 16, 24};
  for (size_t i = 0; i < 4; i++) {
    struct quantised q =
        quantise(outputs[i / 2], LONG, i % 2 ? LLS_WEIGHTS_INT8 : LLS_WEIGHTS_INT4);
    struct lls_weight *w = create(p->cuda, &q.layer);
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
      check_rows(p, &q.layer, w, rows[k]);
    p->cuda->ops->weight_destroy(p->cuda, w);
    quantised_free(&q);
  }
}

/* y of rows [first, first + n) of x. */
static void multiply(struct lls_device *d, struct lls_weight *w, const float *x,
                     uint32_t first, uint32_t n, float *out)
{
  void *in = pair_put(d, x + first * COLUMNS, n, COLUMNS);
  void *y = pair_buffer(d, n, MOST_OUTPUTS);
  pair_begin(d, NULL, n);
  d->ops->linear(d, w, in, n, LLS_STORE_SET, y);
  pair_get(d, y, n * MOST_OUTPUTS, out);
  pair_end(d);
  pair_release(d, in);
  pair_release(d, y);
}

/* A row's outputs have the same bits whatever the other rows, for up to eight rows; and
 * likewise for more. */
static void alone_or_not(const struct pair *p)
{
  static const uint32_t rows[][2] = {{8, 1}, {72, 24}};
  static float all[72 * MOST_OUTPUTS], some[24 * MOST_OUTPUTS];
  struct lls_device *d = p->cuda;
  struct quantised q = quantise(MOST_OUTPUTS, COLUMNS, LLS_WEIGHTS_INT4);
  struct lls_weight *w = create(d, &q.layer);
  float *x = pair_random(p, 72 * COLUMNS, random_float);
  for (int k = 0; k < 2; k++) {
    uint32_t n = rows[k][1];
    multiply(d, w, x, 0, rows[k][0], all);
    for (uint32_t i = 0; i + n <= rows[k][0]; i += 7) {
      multiply(d, w, x, i, n, some);
      assert_memory_equal(some, all + i * MOST_OUTPUTS, n * MOST_OUTPUTS * sizeof *some);
    }
  }
  d->ops->weight_destroy(d, w);
  free(x);
  quantised_free(&q);
}

/* ---- experts ----------------------------------------------------------------------- */

#define EXPERTS 3

/* Each has a row of Q4_K and one of Q6_K. */
static const size_t rows_of_experts[EXPERTS][2] = {{0, 0}, {1, 1}, {1, 0}};

struct mixture {
  struct vectors q4, q6;
  struct lls_experts *experts;
  struct lls_weight *router; /* reads the first three of x */
  struct lls_route route;
  float *scores;
};

static void *buffer(struct lls_device *d, size_t bytes)
{
  void *out;
  assert_int_equal(d->ops->alloc(d, LLS_MEMORY_DEVICE, bytes, &out), 0);
  return out;
}

static void mixture_open(struct mixture *m, struct lls_device *d, uint32_t n)
{
  struct lls_weight *weights[EXPERTS];
  struct lls_error err = {""};
  static float first[EXPERTS * VECTOR_COLUMNS];
  for (uint32_t e = 0; e < EXPERTS; e++)
    first[e * VECTOR_COLUMNS + e] = 1;
  const struct lls_tensor_view router = view_of(first, EXPERTS, VECTOR_COLUMNS);
  read_vectors(LLS_Q4_K, &m->q4);
  read_vectors(LLS_Q6_K, &m->q6);
  for (uint32_t e = 0; e < EXPERTS; e++) {
    const struct lls_tensor_view parts[] = {
        lls_view_rows(&m->q4.view, rows_of_experts[e][0], 1),
        lls_view_rows(&m->q6.view, rows_of_experts[e][1], 1)};
    assert_int_equal(
        d->ops->weight_create(d, parts, NULL, 2, LLS_WEIGHTS_AUTO, &weights[e], &err), 0);
  }
  if (d->ops->experts_create(d, weights, EXPERTS, &m->experts, &err) != 0)
    fail_msg("%s", err.text);
  assert_int_equal(
      d->ops->weight_create(d, &router, NULL, 1, LLS_WEIGHTS_BF16, &m->router, &err), 0);
  m->scores = buffer(d, n * EXPERTS * sizeof *m->scores);
  m->route = (struct lls_route){
      .experts = EXPERTS,
      .active = 1,
      .expert = buffer(d, n * sizeof(uint32_t)),
      .weight = buffer(d, n * sizeof(float)),
      .place = buffer(d, n * sizeof(uint32_t)),
      .row = buffer(d, n * sizeof(uint32_t)),
      .first = buffer(d, (EXPERTS + 1) * sizeof(uint32_t)),
  };
}

static void mixture_close(struct mixture *m, struct lls_device *d)
{
  void *const buffers[] = {m->scores,      m->route.expert, m->route.weight,
                           m->route.place, m->route.row,    m->route.first};
  d->ops->experts_destroy(d, m->experts);
  d->ops->weight_destroy(d, m->router);
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
    pair_release(d, buffers[i]);
}

/* Every row goes to its one expert: more rows than one round takes, and few. */
static void mixtures(const struct pair *p)
{
  enum { N = 40 };
  struct lls_device *d = p->cuda;
  struct mixture m;
  uint32_t expert[N];
  float *x = pair_random(p, N * VECTOR_COLUMNS, random_float), out[N * 2];
  for (uint32_t i = 0; i < N; i++) /* most go to expert 0, none to 1 */
    for (uint32_t e = 0; e < EXPERTS; e++)
      x[i * VECTOR_COLUMNS + e] = e == (i % 8 == 0 ? 2 : 0);
  mixture_open(&m, d, N);
  void *in = pair_put(d, x, N, VECTOR_COLUMNS),
       *sorted = pair_buffer(d, N, VECTOR_COLUMNS);
  void *y = pair_buffer(d, N, 2), *z = pair_buffer(d, N, 2);
  pair_begin(d, NULL, N);
  d->ops->logits(d, m.router, in, N, m.scores);
  d->ops->route(d, m.scores, N, true, &m.route);
  d->ops->gather_routed(d, &m.route, in, N, VECTOR_COLUMNS, sorted);
  d->ops->linear_experts(d, m.experts, &m.route, sorted, N, y);
  d->ops->combine(d, &m.route, y, N, 2, LLS_STORE_SET, z);
  pair_get(d, z, N * 2, out);
  d->ops->download(d, m.route.expert, expert, sizeof expert);
  pair_end(d);
  for (uint32_t i = 0; i < N; i++) {
    float numbers[2 * VECTOR_COLUMNS];
    assert_int_equal(expert[i], i % 8 == 0 ? 2 : 0);
    memcpy(numbers, m.q4.expected + rows_of_experts[expert[i]][0] * VECTOR_COLUMNS,
           VECTOR_COLUMNS * sizeof *numbers);
    memcpy(numbers + VECTOR_COLUMNS,
           m.q6.expected + rows_of_experts[expert[i]][1] * VECTOR_COLUMNS,
           VECTOR_COLUMNS * sizeof *numbers);
    const struct layer l = {.name = "experts",
                            .rows = 2,
                            .columns = VECTOR_COLUMNS,
                            .numbers = numbers,
                            .rounding = 0x1p-10};
    const struct checked c = {.layer = &l, .x = x + i * VECTOR_COLUMNS, .n = 1};
    check_outputs(p, &c, out + (size_t)i * 2);
  }
  mixture_close(&m, d);
  pair_release(d, in);
  pair_release(d, sorted);
  pair_release(d, y);
  pair_release(d, z);
  free(x);
}

/* A layer's experts with different formats are refused, and nothing stays allocated. */
static void unlike(const struct pair *p)
{
  struct lls_device *d = p->cuda;
  struct vectors a, b;
  struct lls_weight *weights[2];
  struct lls_experts *experts;
  struct lls_error err = {""};
  read_vectors(LLS_Q4_K, &a);
  read_vectors(LLS_Q8_0, &b);
  const struct lls_tensor_view *views[] = {&a.view, &b.view};
  for (int i = 0; i < 2; i++)
    assert_int_equal(
        d->ops->weight_create(d, views[i], NULL, 1, LLS_WEIGHTS_AUTO, &weights[i], &err),
        0);
  assert_int_equal(d->ops->experts_create(d, weights, 2, &experts, &err), -ENOTSUP);
  assert_non_null(strstr(err.text, "expert 1 has weights of another type"));
}

/* ---- memory ------------------------------------------------------------------------ */

/* Bytes a weight on the device, with its scales; four more for each output of codes. */
static void sizes(const struct pair *p)
{
  static const double wanted[] = {18.0 / 32, 20.0 / 32, 24.0 / 32, 24.0 / 32, 34.0 / 32,
                                  20.0 / 32, 24.0 / 32, 14.0 / 16, 18.0 / 32, 2,
                                  14.0 / 16, 34.0 / 32, 34.0 / 32, 34.0 / 32, 34.0 / 32,
                                  34.0 / 32, 2,         2,         34.0 / 32, 14.0 / 16,
                                  34.0 / 32, 34.0 / 32};
  struct lls_device *d = p->cuda;
  for (size_t i = 0; i < N_VECTOR_TYPES; i++) {
    struct vectors v;
    struct lls_weight *w;
    read_vectors(vector_types[i], &v);
    assert_int_equal(
        d->ops->weight_create(d, &v.view, NULL, 1, LLS_WEIGHTS_AUTO, &w, NULL), 0);
    double bytes = wanted[i] * VECTOR_NUMBERS +
                   (is_kept_as_bf16(vector_types[i]) ? 0 : 4 * VECTOR_ROWS);
    if ((double)d->ops->weight_bytes(w) != bytes)
      fail_msg("%s: %zu bytes, not %g", lls_dtype_name(vector_types[i]),
               d->ops->weight_bytes(w), bytes);
    d->ops->weight_destroy(d, w);
  }
}

#define TEST(name)                                                                       \
  static void test_##name(void **state)                                                  \
  {                                                                                      \
    (void)state;                                                                         \
    each_pair(LLS_BF16, COLUMNS, name);                                                  \
  }
TEST(types)
TEST(layouts)
TEST(w8a8)
TEST(no_numbers)
TEST(mixed)
TEST(odd_shapes)
TEST(alone_or_not)
TEST(mixtures)
TEST(unlike)
TEST(sizes)

static void test_long_inputs(void **state)
{
  (void)state;
  each_pair(LLS_BF16, LONG, long_inputs);
}

/* Hopper's cuBLASLt scales rows; that of sm_89 and of later GPUs does not. */
static void test_fp8(void **state)
{
  static const int versions[] = {80, 89, 90, 100};
  (void)state;
  for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
    simt_architecture(versions[i]);
    each_pair(LLS_BF16, COLUMNS, fp8);
  }
  simt_architecture(90);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_types),      cmocka_unit_test(test_layouts),
      cmocka_unit_test(test_fp8),        cmocka_unit_test(test_w8a8),
      cmocka_unit_test(test_no_numbers), cmocka_unit_test(test_mixed),
      cmocka_unit_test(test_odd_shapes), cmocka_unit_test(test_alone_or_not),
      cmocka_unit_test(test_mixtures),   cmocka_unit_test(test_unlike),
      cmocka_unit_test(test_sizes),      cmocka_unit_test(test_long_inputs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
