/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recurrent layers at every level: against transformers' own functions
 * (t/data/recurrent, from tools/recurrent_vectors.py), against the generic kernels at
 * other sizes, and any cut of a span against the whole of it, to the bit.
 */
#include "t/kernel/fixture.h"

#include "kernels/cpu/cpu.h"

#define ROWS       70
#define MOST_PARTS 8
/* Relative to a value of 1, or to a larger one. The reference's own f32 sums in chunks
 * differ from a recurrence in double by a third of this. */
#define EPSILON 1e-5

struct numbers {
  float *at;
  size_t n;
};

static struct numbers zeros(size_t n)
{
  return (struct numbers){guarded_alloc(n * sizeof(float)), n};
}

static struct numbers randoms(size_t n)
{
  struct numbers x = zeros(n);
  for (size_t i = 0; i < n; i++)
    x.at[i] = random_float();
  return x;
}

static struct numbers copy(struct numbers x)
{
  struct numbers y = zeros(x.n);
  memcpy(y.at, x.at, x.n * sizeof *x.at);
  return y;
}

static void check_near(struct lls_device *device, const char *what, struct numbers got,
                       const float *wanted)
{
  for (size_t i = 0; i < got.n; i++)
    assert_near(device, what, i, (double)got.at[i], (double)wanted[i],
                EPSILON * fmax(1, fabs((double)wanted[i])));
}

static void check_equal(const char *what, struct numbers got, struct numbers wanted)
{
  for (size_t i = 0; i < got.n; i++)
    if (memcmp(&got.at[i], &wanted.at[i], sizeof(float)) != 0)
      fail_msg("%s: [%zu] is %.9g, not %.9g", what, i, (double)got.at[i],
               (double)wanted.at[i]);
}

/* ---- one layer of any kind, over spans ------------------------------------------- */

/* A layer with its rows; kind says which member holds. */
struct layer {
  const char *kind; /* "delta", "space", "conv" */
  struct lls_gated_delta delta;
  struct lls_state_space space;
  struct lls_short_conv conv;
  struct numbers inputs[12], state, out;
  size_t n_inputs;
};

static struct lls_row_input input(struct layer *l, size_t columns, size_t rows)
{
  struct numbers x = randoms(rows * columns);
  l->inputs[l->n_inputs++] = x;
  return (struct lls_row_input){x.at, columns};
}

static void run(struct lls_device *device, const struct layer *l,
                const struct lls_recurrent_span *spans, size_t n)
{
  if (strcmp(l->kind, "delta") == 0)
    lls_cpu_gated_delta(lls_cpu(device), &l->delta, spans, n);
  else if (strcmp(l->kind, "space") == 0)
    lls_cpu_state_space(lls_cpu(device), &l->space, spans, n);
  else
    lls_cpu_short_conv(lls_cpu(device), &l->conv, spans, n);
}

static void free_layer(struct layer *l)
{
  for (size_t i = 0; i < l->n_inputs; i++)
    guarded_free(l->inputs[i].at);
  guarded_free(l->state.at);
  guarded_free(l->out.at);
}

static void place_output(struct layer *l, size_t state, size_t columns, size_t rows)
{
  l->state = randoms(state);
  l->out = zeros(rows * columns);
  struct lls_row_output out = {l->out.at, columns};
  l->delta.out = l->space.out = l->conv.y = out;
}

struct delta_size {
  uint32_t key_heads, value_heads, key_dim, value_dim;
};

static struct layer delta_layer(struct delta_size s, bool tiled, size_t rows)
{
  struct layer l = {.kind = "delta"};
  struct lls_gated_delta *d = &l.delta;
  *d = (struct lls_gated_delta){.key_heads = s.key_heads,
                                .value_heads = s.value_heads,
                                .key_dim = s.key_dim,
                                .value_dim = s.value_dim,
                                .tiled = tiled,
                                .epsilon = 1e-6f,
                                .scale = 1 / sqrtf((float)s.key_dim)};
  d->q = input(&l, (size_t)s.key_heads * s.key_dim, rows);
  d->k = input(&l, (size_t)s.key_heads * s.key_dim, rows);
  d->v = input(&l, (size_t)s.value_heads * s.value_dim, rows);
  d->a = input(&l, s.value_heads, rows);
  d->b = input(&l, s.value_heads, rows);
  d->rate = input(&l, s.value_heads, 1).at;
  d->dt_bias = input(&l, s.value_heads, 1).at;
  for (size_t i = 0; i < s.value_heads; i++)
    l.inputs[5].at[i] = -fabsf(l.inputs[5].at[i]);
  place_output(&l, lls_delta_floats(d), (size_t)s.value_heads * s.value_dim, rows);
  return l;
}

struct space_size {
  uint32_t heads, groups, head_dim, state_dim;
};

static struct layer space_layer(struct space_size s, size_t rows)
{
  struct layer l = {.kind = "space"};
  struct lls_state_space *p = &l.space;
  *p = (struct lls_state_space){.heads = s.heads,
                                .head_dim = s.head_dim,
                                .groups = s.groups,
                                .state_dim = s.state_dim,
                                .dt_max = INFINITY};
  p->x = input(&l, (size_t)s.heads * s.head_dim, rows);
  p->b = input(&l, (size_t)s.groups * s.state_dim, rows);
  p->c = input(&l, (size_t)s.groups * s.state_dim, rows);
  p->dt = input(&l, s.heads, rows);
  p->rate = input(&l, s.heads, 1).at;
  p->dt_bias = input(&l, s.heads, 1).at;
  p->d = input(&l, s.heads, 1).at;
  for (size_t i = 0; i < s.heads; i++)
    l.inputs[4].at[i] = -fabsf(l.inputs[4].at[i]);
  place_output(&l, lls_space_floats(p), (size_t)s.heads * s.head_dim, rows);
  return l;
}

/* gates: as in LFM2; otherwise SiLU, with a bias, as in the other two. */
static struct layer conv_layer(uint32_t channels, uint32_t width, bool gates, size_t rows)
{
  struct layer l = {.kind = "conv"};
  struct lls_short_conv *c = &l.conv;
  *c = (struct lls_short_conv){.channels = channels, .width = width, .silu = !gates};
  c->weight = input(&l, channels, width).at;
  c->x = input(&l, channels, rows);
  if (!gates)
    c->bias = input(&l, channels, 1).at;
  if (gates)
    c->before = input(&l, channels, rows), c->after = input(&l, channels, rows);
  place_output(&l, lls_conv_floats(c), channels, rows);
  return l;
}

/* ---- against transformers -------------------------------------------------------- */

static FILE *open_vectors(const char *name)
{
  char path[64];
  snprintf(path, sizeof path, "t/data/recurrent/%s", name);
  FILE *file = fopen(source_path(path), "rb");
  assert_non_null(file);
  return file;
}

static struct numbers next_numbers(FILE *file, size_t n)
{
  struct numbers x = zeros(n);
  assert_int_equal(fread(x.at, sizeof *x.at, n, file), n);
  return x;
}

/* Fills the layer's inputs and state from the file; computes; compares both results. */
static void check_vectors(struct lls_device *device, struct layer *l)
{
  FILE *file = open_vectors(l->kind);
  for (size_t i = 0; i < l->n_inputs; i++)
    assert_int_equal(fread(l->inputs[i].at, sizeof(float), l->inputs[i].n, file),
                     l->inputs[i].n);
  assert_int_equal(fread(l->state.at, sizeof(float), l->state.n, file), l->state.n);
  struct numbers out = next_numbers(file, l->out.n);
  struct numbers after = next_numbers(file, l->state.n);
  assert_int_equal(fgetc(file), EOF);
  fclose(file);
  const struct lls_recurrent_span span = {0, ROWS, l->state.at, l->state.at};
  run(device, l, &span, 1);
  check_near(device, l->kind, l->out, out.at);
  check_near(device, l->kind, l->state, after.at);
  guarded_free(out.at);
  guarded_free(after.at);
  free_layer(l);
}

static void delta_and_space(struct lls_device *device)
{
  struct layer delta = delta_layer((struct delta_size){2, 4, 16, 8}, false, ROWS);
  check_vectors(device, &delta);
  struct layer space = space_layer((struct space_size){4, 2, 8, 16}, ROWS);
  space.space.dt_min = 0.1f;
  space.space.dt_max = 2;
  check_vectors(device, &space);
}

static void test_delta_and_space_are_transformers(void **state)
{
  (void)state;
  each_level(3, ROWS, 64, delta_and_space);
}

static void check_conv(struct lls_device *device, struct numbers x, uint32_t width,
                       FILE *file)
{
  const uint32_t channels = 12;
  struct numbers weight = next_numbers(file, (size_t)width * channels);
  struct numbers bias = next_numbers(file, channels), y = zeros(x.n), s = zeros(x.n);
  struct lls_short_conv conv = {.channels = channels, .width = width};
  conv.weight = weight.at, conv.bias = bias.at;
  conv.x = (struct lls_row_input){x.at, channels};
  conv.y = (struct lls_row_output){y.at, channels};
  const struct lls_recurrent_span span = {.n_rows = ROWS, .to = s.at};
  for (int silu = 0; silu < 2; silu++) {
    struct numbers wanted = next_numbers(file, y.n);
    conv.silu = silu;
    lls_cpu_short_conv(lls_cpu(device), &conv, &span, 1);
    check_near(device, "conv", y, wanted.at);
    guarded_free(wanted.at);
  }
  const size_t kept = (size_t)(width - 1) * channels;
  assert_memory_equal(s.at, x.at + x.n - kept, kept * sizeof *x.at);
  guarded_free(weight.at);
  guarded_free(bias.at);
  guarded_free(y.at);
  guarded_free(s.at);
}

static void convs(struct lls_device *device)
{
  static const uint32_t widths[] = {2, 3, 4, 8};
  FILE *file = open_vectors("conv");
  struct numbers x = next_numbers(file, (size_t)ROWS * 12);
  for (size_t i = 0; i < 4; i++)
    check_conv(device, x, widths[i], file);
  assert_int_equal(fgetc(file), EOF);
  fclose(file);
  guarded_free(x.at);
}

static void test_short_conv_is_pytorch(void **state)
{
  (void)state;
  each_level(3, ROWS, 64, convs);
}

static void norms(struct lls_device *device)
{
  enum { GROUPS = 3, COLUMNS = 10, ROW = GROUPS * COLUMNS };
  FILE *file = open_vectors("norm");
  struct numbers x = next_numbers(file, ROWS * ROW), gate = next_numbers(file, x.n);
  struct numbers weight[2] = {next_numbers(file, ROW), next_numbers(file, COLUMNS)};
  struct lls_gated_norm norm = {.groups = GROUPS, .columns = COLUMNS, .epsilon = 1e-5f};
  norm.gate = (struct lls_row_input){gate.at, ROW};
  for (int i = 0; i < 2; i++) {
    struct numbers wanted = next_numbers(file, x.n), y = copy(x); /* in place */
    norm.gate_first = i == 0;
    norm.weight = weight[i].at;
    norm.weight_stride = i == 0 ? COLUMNS : 0;
    norm.x = (struct lls_row_input){y.at, ROW};
    norm.y = (struct lls_row_output){y.at, ROW};
    lls_cpu_gated_norm(lls_cpu(device), &norm, ROWS);
    check_near(device, "norm", y, wanted.at);
    guarded_free(wanted.at);
    guarded_free(y.at);
    guarded_free(weight[i].at);
  }
  assert_int_equal(fgetc(file), EOF);
  fclose(file);
  guarded_free(x.at);
  guarded_free(gate.at);
}

static void test_gated_norms_are_transformers(void **state)
{
  (void)state;
  each_level(3, ROWS, 64, norms);
}

/* ---- cuts, and other sizes ------------------------------------------------------- */

/* Cuts the layer's rows into random parts, each with a state of its own that the next
 * begins with, all in one call or each in its own; the same bits as without a cut. */
static void check_cuts(struct lls_device *device, struct layer *l, uint32_t rows)
{
  struct numbers whole = copy(l->state), states[MOST_PARTS + 1];
  struct lls_recurrent_span spans[MOST_PARTS + 1] = {{0, rows, whole.at, whole.at}};
  run(device, l, spans, 1);
  struct numbers wanted = copy(l->out);
  memset(l->out.at, 0, l->out.n * sizeof(float));
  uint32_t n = 0;
  for (uint32_t row = 0; row < rows; n++) {
    uint32_t most = n + 1 == MOST_PARTS ? rows - row : random_between(1, rows - row);
    states[n] = zeros(l->state.n);
    spans[n] = (struct lls_recurrent_span){
        row, most, n == 0 ? l->state.at : states[n - 1].at, states[n].at};
    row += most;
  }
  /* a copy at the end: no rows */
  states[n] = randoms(l->state.n);
  spans[n] = (struct lls_recurrent_span){rows, 0, states[n - 1].at, states[n].at};
  n++;
  if (random_bits() % 2)
    run(device, l, spans, n);
  else
    for (uint32_t i = 0; i < n; i++)
      run(device, l, &spans[i], 1);
  check_equal(l->kind, l->out, wanted);
  check_equal(l->kind, states[n - 1], whole);
  for (uint32_t i = 0; i < n; i++)
    guarded_free(states[i].at);
  guarded_free(whole.at);
  guarded_free(wanted.at);
}

/* From a state, or from none, beside the generic kernels. */
static void check_level(struct lls_device *device, struct layer *l, uint32_t rows)
{
  struct lls_device *generic = create_device("generic", 1, ROWS, 64);
  for (int i = 0; i < 2; i++) {
    struct numbers a = zeros(l->state.n), b = randoms(l->state.n);
    struct lls_recurrent_span span = {0, rows, i == 0 ? l->state.at : NULL, a.at};
    run(generic, l, &span, 1);
    struct numbers wanted = copy(l->out);
    span.to = b.at;
    run(device, l, &span, 1);
    check_near(device, l->kind, l->out, wanted.at);
    check_near(device, l->kind, b, a.at);
    guarded_free(a.at);
    guarded_free(b.at);
    guarded_free(wanted.at);
  }
  generic->ops->destroy(generic);
}

static void check_sizes(struct lls_device *device, struct layer l, uint32_t rows)
{
  check_level(device, &l, rows);
  check_cuts(device, &l, rows);
  free_layer(&l);
}

static void sizes(struct lls_device *device)
{
  static const struct delta_size deltas[] = {{1, 1, 64, 64},  {2, 4, 128, 128},
                                             {1, 3, 256, 72}, {2, 2, 64, 256},
                                             {1, 2, 96, 100}, {1, 1, 4, 1}};
  static const struct space_size spaces[] = {
      {3, 1, 64, 128}, {4, 2, 64, 256}, {2, 1, 24, 16}, {1, 1, 80, 100}, {2, 2, 5, 3}};
  for (size_t i = 0; i < sizeof deltas / sizeof *deltas; i++) {
    uint32_t rows = i == 0 ? 1 : random_between(2, ROWS);
    check_sizes(device, delta_layer(deltas[i], i % 2, rows), rows);
  }
  for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++) {
    uint32_t rows = i == 0 ? 1 : random_between(2, ROWS);
    check_sizes(device, space_layer(spaces[i], rows), rows);
  }
  for (uint32_t width = 2; width <= LLS_CONV_WIDTH; width++) {
    uint32_t rows = random_between(1, 20), channels = random_between(1, 1300);
    check_sizes(device, conv_layer(channels, width, width % 2, rows), rows);
  }
}

static void test_levels_and_cuts(void **state)
{
  (void)state;
  each_level(3, ROWS, 64, sizes);
}

/* y over x, and over a factor. */
static void in_place(struct lls_device *device)
{
  const struct lls_recurrent_span span = {.n_rows = 20};
  for (uint32_t i = 0; i < 2; i++) {
    struct layer l = conv_layer(75, 3 + i, i, 20);
    struct lls_recurrent_span s = span;
    s.to = l.state.at;
    run(device, &l, &s, 1);
    const float *over = i == 0 ? l.conv.x.at : l.conv.after.at;
    l.conv.y.at = l.inputs[i == 0 ? 1 : 3].at;
    assert_ptr_equal(l.conv.y.at, over);
    run(device, &l, &s, 1);
    assert_memory_equal(l.conv.y.at, l.out.at, l.out.n * sizeof(float));
    free_layer(&l);
  }
}

static void test_conv_in_place(void **state)
{
  (void)state;
  each_level(2, ROWS, 64, in_place);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_delta_and_space_are_transformers),
      cmocka_unit_test(test_short_conv_is_pytorch),
      cmocka_unit_test(test_gated_norms_are_transformers),
      cmocka_unit_test(test_levels_and_cuts),
      cmocka_unit_test(test_conv_in_place),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
