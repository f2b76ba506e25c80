/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layers with a state on the CUDA device, against the CPU's: several sequences in a step,
 * some with a checkpoint in its middle, states that stay where they are or go to another
 * block, decode steps as graphs. Any cut of a sequence's rows gives the same bits on the
 * device. Sizes are on both sides of the kernels' tiles. Then gates and gated norms.
 */
#include "t/kernel/pair.h"

#define MOST_ROWS   48 /* of a sequence */
#define SEQUENCES   3
#define BLOCKS      10
#define MOST_COLUMN 1400
#define AT          64 /* bytes before the layer's state */
#define NONE        LLS_NO_STATE

/* ---- what a step does to states ---------------------------------------------------- */

struct part { /* the next rows of a sequence */
  uint8_t sequence, n_rows;
  uint32_t source, target;
};
struct states_step {
  uint32_t n;
  struct part parts[6];
};

/* Prompts in pieces with copies of states in their middle, then decodes, of which one
 * copies its state, and the last three have the same rows. */
static const struct states_step in_pieces[] = {
    {4, {{0, 3, NONE, 6}, {0, 2, 6, 0}, {1, 1, NONE, 1}, {2, 19, NONE, 2}}},
    {4, {{2, 16, 2, 7}, {2, 1, 7, 8}, {2, 0, 8, 2}, {0, 1, 0, 3}}},
    {3, {{0, 1, 3, 3}, {1, 1, 1, 1}, {2, 1, 2, 2}}},
    {4, {{0, 1, 3, 0}, {1, 1, 1, 9}, {1, 0, 9, 1}, {2, 1, 2, 2}}},
    {3, {{0, 1, 0, 0}, {1, 1, 1, 4}, {2, 1, 2, 5}}},
    {3, {{0, 1, 0, 0}, {1, 1, 4, 1}, {2, 1, 5, 2}}}};
/* The same rows of each sequence. */
static const struct states_step at_once[] = {
    {3, {{2, 40, NONE, 2}, {0, 10, NONE, 0}, {1, 5, NONE, 1}}}};
#define N_PIECES (sizeof in_pieces / sizeof *in_pieces)

/* A layer of one of the kinds, with random rows for each sequence. */
struct layer {
  const char *name;
  void (*run)(struct lls_device *, const struct layer *, float *const *vectors, void *x,
              void *gates, void *y);
  struct lls_conv_shape conv;
  struct lls_delta_shape delta;
  struct lls_space_shape space;
  uint32_t columns, gate_columns, out_columns;
  bool in_place; /* the result is the first out_columns of x */
  size_t state;  /* numbers */
  float *vectors[3];
  size_t vector_columns[3];
  float *x[SEQUENCES], *gates[SEQUENCES];
};

/* The results of a device. */
struct results {
  float *y[SEQUENCES]; /* (MOST_ROWS, out_columns) */
  float *states;       /* (BLOCKS, state + AT) */
};

struct states_side {
  struct lls_device *device;
  struct lls_pool *pool;
  float *vectors[3];
  uint32_t done[SEQUENCES];
};

static size_t block_bytes(const struct layer *l)
{
  return (AT + l->state * sizeof(float) + 63) / 64 * 64;
}

static void open_side(struct states_side *s, const struct layer *l)
{
  struct lls_error err = {""};
  const struct lls_pool_shape shape = {.layers = 1,
                                       .kv_heads = 1,
                                       .head_dim = 8,
                                       .block_tokens = 16,
                                       .element = s->device->activation_type,
                                       .device_units = BLOCKS,
                                       .n_groups = 1,
                                       .group_layers = {1},
                                       .group_state = {block_bytes(l)},
                                       .state = block_bytes(l)};
  if (s->device->ops->pool_create(s->device, &shape, &s->pool, &err) < 0)
    fail_msg("%s", err.text);
  for (int i = 0; i < 3; i++) {
    if (l->vectors[i] == NULL)
      continue;
    const struct lls_tensor_view view = view_of(l->vectors[i], 1, l->vector_columns[i]);
    assert_int_equal(
        s->device->ops->vector_create(s->device, &view, &s->vectors[i], &err), 0);
  }
}

static void close_side(struct states_side *s)
{
  for (int i = 0; i < 3; i++)
    if (s->vectors[i] != NULL)
      pair_release(s->device, s->vectors[i]);
  s->device->ops->pool_destroy(s->device, s->pool);
}

/* Makes a device's step of the parts, and copies their rows together. */
static uint32_t lay_out(const struct layer *l, const struct states_side *s,
                        const struct states_step *from, struct lls_state_span *spans,
                        struct lls_step_sequence *sequences, float *x, float *gates)
{
  uint32_t n = 0, done = 0, n_sequences = 0;
  for (uint32_t i = 0; i < from->n; i++) {
    const struct part *p = &from->parts[i];
    bool first = i == 0 || p[-1].sequence != p->sequence;
    done = first ? s->done[p->sequence] : done;
    spans[i] = (struct lls_state_span){
        p->source, p->target, n, p->n_rows, first ? 0 : spans[i - 1].turn + 1, 0};
    if (first)
      sequences[n_sequences++] =
          (struct lls_step_sequence){.first_row = n, .context = done};
    sequences[n_sequences - 1].n_rows += p->n_rows;
    memcpy(x + (size_t)n * l->columns, l->x[p->sequence] + (size_t)done * l->columns,
           (size_t)p->n_rows * l->columns * sizeof *x);
    if (l->gate_columns > 0)
      memcpy(gates + (size_t)n * l->gate_columns,
             l->gates[p->sequence] + (size_t)done * l->gate_columns,
             (size_t)p->n_rows * l->gate_columns * sizeof *gates);
    n += p->n_rows;
    done += p->n_rows;
  }
  return n_sequences;
}

/* Hands the rows of the result to their sequences. */
static void take_results(const struct layer *l, struct states_side *s,
                         const struct states_step *step, const float *y, uint32_t width,
                         struct results *out)
{
  for (uint32_t i = 0; i < step->n; i++) {
    const struct part *p = &step->parts[i];
    for (uint32_t t = 0; t < p->n_rows; t++, y += width)
      memcpy(out->y[p->sequence] + (size_t)s->done[p->sequence]++ * l->out_columns, y,
             l->out_columns * sizeof *y);
  }
}

/* Buffers at the same places for all steps, which graphs contain. */
struct step_buffers {
  void *x, *gates, *y;
};

static void run_step(const struct layer *l, struct states_side *s,
                     const struct step_buffers *b, const struct states_step *parts,
                     struct results *out)
{
  const struct lls_device_ops *ops = s->device->ops;
  static float x[PAIR_ROWS * MOST_COLUMN], gates[PAIR_ROWS * 64];
  struct lls_state_span spans[6];
  struct lls_step_sequence sequences[SEQUENCES] = {0};
  uint32_t row_sequence[PAIR_ROWS] = {0};
  int32_t positions[PAIR_ROWS] = {0};
  uint32_t n_sequences = lay_out(l, s, parts, spans, sequences, x, gates);
  uint32_t n = sequences[n_sequences - 1].first_row + sequences[n_sequences - 1].n_rows;
  uint32_t width = l->in_place ? l->columns : l->out_columns;
  const struct lls_device_step step = {.n_rows = n,
                                       .n_sequences = n_sequences,
                                       .positions = positions,
                                       .sequence = row_sequence,
                                       .sequences = sequences,
                                       .spans = spans,
                                       .n_spans = parts->n};
  pair_fill(s->device, x, n, l->columns, b->x);
  if (l->gate_columns > 0)
    pair_fill(s->device, gates, n, l->gate_columns, b->gates);
  assert_int_equal(ops->step_begin(s->device, s->pool, &step), 0);
  l->run(s->device, l, s->vectors, b->x, b->gates, l->in_place ? NULL : b->y);
  pair_get(s->device, l->in_place ? b->x : b->y, (size_t)n * width, x);
  pair_end(s->device);
  take_results(l, s, parts, x, width, out);
}

/* Reads all blocks. */
static void read_states(const struct layer *l, struct states_side *s, float *out)
{
  void *to;
  size_t bytes = block_bytes(l);
  struct lls_pull pulls[BLOCKS];
  for (uint32_t i = 0; i < BLOCKS; i++)
    pulls[i] = (struct lls_pull){.source = i, .source_form = LLS_FORM_STATE};
  assert_int_equal(
      s->device->ops->alloc(s->device, LLS_MEMORY_PINNED, BLOCKS * bytes, &to), 0);
  assert_int_equal(s->device->ops->pool_pack(s->device, s->pool, pulls, BLOCKS, to), 0);
  for (uint32_t i = 0; i < BLOCKS; i++)
    memcpy(out + i * l->state, (char *)to + i * bytes + AT, l->state * sizeof(float));
  s->device->ops->release(s->device, LLS_MEMORY_PINNED, to);
}

static struct results run_steps(struct lls_device *device, const struct layer *l,
                                const struct states_step *steps, size_t n)
{
  struct results out = {.states = malloc(BLOCKS * l->state * sizeof(float))};
  struct states_side s = {.device = device};
  const struct step_buffers b = {
      pair_buffer(device, PAIR_ROWS, l->columns),
      pair_buffer(device, PAIR_ROWS, l->gate_columns),
      pair_buffer(device, PAIR_ROWS, l->out_columns),
  };
  for (int i = 0; i < SEQUENCES; i++)
    out.y[i] = calloc((size_t)MOST_ROWS * l->out_columns, sizeof(float));
  open_side(&s, l);
  for (size_t i = 0; i < n; i++)
    run_step(l, &s, &b, &steps[i], &out);
  read_states(l, &s, out.states);
  close_side(&s);
  pair_release(device, b.x);
  pair_release(device, b.gates);
  pair_release(device, b.y);
  return out;
}

static void free_results(struct results *r)
{
  for (int i = 0; i < SEQUENCES; i++)
    free(r->y[i]);
  free(r->states);
}

/* ---- one layer --------------------------------------------------------------------- */

static void compare_results(const struct pair *p, const struct layer *l,
                            const struct results *got, const struct results *wanted)
{
  double epsilon = pair_epsilon(p);
  for (int i = 0; i < SEQUENCES; i++)
    pair_compare(p, l->name, got->y[i], wanted->y[i], (size_t)MOST_ROWS * l->out_columns,
                 epsilon, 2 * epsilon);
  /* f32 on both sides, of the same rows */
  pair_compare(p, l->name, got->states, wanted->states, BLOCKS * l->state, 1e-5, 1e-5);
}

/* The last states of the sequences, and all results, are the same bits. */
static void compare_cuts(const struct layer *l, const struct results *one,
                         const struct results *other)
{
  for (int i = 0; i < SEQUENCES; i++)
    assert_memory_equal(one->y[i], other->y[i],
                        (size_t)MOST_ROWS * l->out_columns * sizeof(float));
  assert_memory_equal(one->states, other->states, SEQUENCES * l->state * sizeof(float));
}

static void check_layer(const struct pair *p, struct layer *l)
{
  assert_true(l->columns <= MOST_COLUMN && l->gate_columns <= 64);
  for (int i = 0; i < SEQUENCES; i++) {
    l->x[i] = pair_random(p, (size_t)MOST_ROWS * l->columns, random_float);
    l->gates[i] = pair_random(p, (size_t)MOST_ROWS * l->gate_columns, random_float);
  }
  struct results cpu = run_steps(p->cpu, l, in_pieces, N_PIECES);
  struct results cuda = run_steps(p->cuda, l, in_pieces, N_PIECES);
  struct results whole = run_steps(p->cuda, l, at_once, 1);
  compare_results(p, l, &cuda, &cpu);
  compare_cuts(l, &whole, &cuda);
  free_results(&cpu);
  free_results(&cuda);
  free_results(&whole);
  for (int i = 0; i < SEQUENCES; i++) {
    free(l->x[i]);
    free(l->gates[i]);
  }
  for (int i = 0; i < 3; i++)
    free(l->vectors[i]);
}

static void add_vector(struct layer *l, int i, size_t columns)
{
  l->vector_columns[i] = columns;
  l->vectors[i] = malloc(columns * sizeof(float));
  for (size_t k = 0; k < columns; k++)
    l->vectors[i][k] = random_float();
}

/* ---- the convolution --------------------------------------------------------------- */

static void run_conv(struct lls_device *d, const struct layer *l, float *const *vectors,
                     void *x, void *gates, void *y)
{
  struct lls_conv_shape shape = l->conv;
  (void)gates;
  shape.weight = vectors[0];
  shape.bias = vectors[1];
  d->ops->conv(d, &shape, x, y);
}

/* factors: as in LFM2; otherwise SiLU in place, and columns behind the channels. */
static void check_conv(const struct pair *p, uint32_t channels, uint32_t width,
                       bool factors)
{
  struct layer l = {
      .name = factors ? "convolution between factors" : "convolution in place",
      .run = run_conv,
      .columns = factors ? 3 * channels : channels + 5,
      .out_columns = channels,
      .in_place = !factors,
      .state = (size_t)(width - 1) * channels,
      .conv = {.at = AT, .channels = channels, .width = width, .silu = !factors},
  };
  l.conv.columns = l.columns;
  l.conv.before = factors ? 0 : LLS_NO_COLUMN;
  l.conv.after = factors ? channels : LLS_NO_COLUMN;
  l.conv.x = factors ? 2 * channels : 0;
  add_vector(&l, 0, (size_t)width * channels);
  if (!factors)
    add_vector(&l, 1, channels);
  check_layer(p, &l);
}

static void convs(const struct pair *p)
{
  check_conv(p, 70, 3, true);
  check_conv(p, 65, 4, false);
  check_conv(p, 1, 2, true);
  check_conv(p, 64, 8, false);
  check_conv(p, 9, 5, true);
}

/* ---- matrices ---------------------------------------------------------------------- */

static void run_delta(struct lls_device *d, const struct layer *l, float *const *vectors,
                      void *x, void *gates, void *y)
{
  struct lls_delta_shape shape = l->delta;
  shape.rate = vectors[0];
  shape.dt_bias = vectors[1];
  d->ops->delta(d, &shape, x, gates, y);
}

static void run_space(struct lls_device *d, const struct layer *l, float *const *vectors,
                      void *x, void *gates, void *y)
{
  struct lls_space_shape shape = l->space;
  shape.rate = vectors[0];
  shape.dt_bias = vectors[1];
  shape.skip = vectors[2];
  d->ops->space(d, &shape, x, gates, y);
}

struct matrix_size {
  uint32_t key_heads, heads, rows, columns;
};

/* Rates, which are negative, and biases. */
static void add_heads(struct layer *l, uint32_t heads)
{
  for (int i = 0; i < 3; i++)
    add_vector(l, i, heads);
  for (uint32_t i = 0; i < heads; i++)
    l->vectors[0][i] = -fabsf(l->vectors[0][i]);
}

static void check_delta(const struct pair *p, struct matrix_size m, bool tiled)
{
  uint32_t channels = 2 * m.key_heads * m.rows + m.heads * m.columns;
  struct layer l = {.name = "gated delta net",
                    .run = run_delta,
                    .columns = channels + 3,
                    .gate_columns = 2 * m.heads,
                    .out_columns = m.heads * m.columns,
                    .state = (size_t)m.heads * m.rows * m.columns};
  l.delta = (struct lls_delta_shape){.at = AT,
                                     .key_heads = m.key_heads,
                                     .value_heads = m.heads,
                                     .key_dim = m.rows,
                                     .value_dim = m.columns,
                                     .tiled = tiled,
                                     .epsilon = 1e-6f,
                                     .columns = l.columns};
  add_heads(&l, m.heads);
  check_layer(p, &l);
}

static void deltas(const struct pair *p)
{
  check_delta(p, (struct matrix_size){2, 4, 8, 8}, false);
  check_delta(p, (struct matrix_size){2, 4, 20, 35}, true);
  check_delta(p, (struct matrix_size){1, 1, 128, 40}, false);
  check_delta(p, (struct matrix_size){1, 2, 252, 9}, false);
}

static void check_space(const struct pair *p, struct matrix_size m, bool limited)
{
  uint32_t channels = 2 * m.key_heads * m.rows + m.heads * m.columns;
  struct layer l = {.name = "state space",
                    .run = run_space,
                    .columns = channels + m.heads * m.columns,
                    .gate_columns = m.heads,
                    .out_columns = m.heads * m.columns,
                    .state = (size_t)m.heads * m.rows * m.columns};
  l.space = (struct lls_space_shape){.at = AT,
                                     .heads = m.heads,
                                     .head_dim = m.columns,
                                     .groups = m.key_heads,
                                     .state_dim = m.rows,
                                     .dt_min = limited ? 0.5f : 0,
                                     .dt_max = limited ? 0.9f : INFINITY,
                                     .columns = l.columns};
  add_heads(&l, m.heads);
  check_layer(p, &l);
}

static void spaces(const struct pair *p)
{
  check_space(p, (struct matrix_size){2, 4, 16, 8}, false);
  check_space(p, (struct matrix_size){1, 3, 65, 37}, true);
  check_space(p, (struct matrix_size){1, 1, 256, 33}, false);
}

/* ---- gates ------------------------------------------------------------------------- */

#define GATE_ROWS 5

struct gating {
  uint32_t groups, columns;
  int weights; /* 0: none, 1: of a group, 2: of each group */
  bool gate_first;
};

/* y, with the weights in the columns behind the gates' first three. */
static void norm_on(struct lls_device *d, const struct gating *g, const float *y,
                    const float *gates, const float *weight, float *out)
{
  uint32_t n = g->groups * g->columns;
  float *vector = NULL;
  const struct lls_tensor_view view = view_of(weight, 1, n);
  assert_int_equal(d->ops->vector_create(d, &view, &vector, NULL), 0);
  void *rows = pair_put(d, gates, GATE_ROWS, n + 3);
  void *to = pair_put(d, y, GATE_ROWS, n);
  const struct lls_gated_norm_shape shape = {.groups = g->groups,
                                             .columns = g->columns,
                                             .epsilon = 1e-5f,
                                             .weight = g->weights > 0 ? vector : NULL,
                                             .each_weight = g->weights == 2,
                                             .gate_first = g->gate_first,
                                             .gate_columns = n + 3,
                                             .gate = 3};
  pair_begin(d, NULL, GATE_ROWS);
  d->ops->norm_gated(d, &shape, rows, GATE_ROWS, to);
  pair_get(d, to, (size_t)GATE_ROWS * n, out);
  pair_end(d);
  pair_release(d, vector);
  pair_release(d, rows);
  pair_release(d, to);
}

static void columns_on(struct lls_device *d, uint32_t n, const float *x,
                       const float *gates, float *out)
{
  void *rows = pair_put(d, gates, GATE_ROWS, n), *to = pair_put(d, x, GATE_ROWS, n);
  pair_begin(d, NULL, GATE_ROWS);
  d->ops->gate_columns(d, rows, to, GATE_ROWS, n);
  pair_get(d, to, (size_t)GATE_ROWS * n, out);
  pair_end(d);
  pair_release(d, rows);
  pair_release(d, to);
}

static void check_gates(const struct pair *p, const struct gating *g)
{
  uint32_t n = g->groups * g->columns;
  float *y = pair_random(p, (size_t)GATE_ROWS * n, random_activation);
  float *gates = pair_random(p, (size_t)GATE_ROWS * (n + 3), random_activation);
  float *weight = pair_random(p, n, random_float);
  float *out[2] = {malloc((size_t)GATE_ROWS * n * sizeof(float)),
                   malloc((size_t)GATE_ROWS * n * sizeof(float))};
  for (int what = 0; what < 2; what++) {
    for (int i = 0; i < 2; i++) {
      struct lls_device *d = i == 0 ? p->cpu : p->cuda;
      if (what == 0)
        norm_on(d, g, y, gates, weight, out[i]);
      else
        columns_on(d, n, y, gates, out[i]);
    }
    pair_compare(p, what == 0 ? "gated norm" : "gated columns", out[1], out[0],
                 (size_t)GATE_ROWS * n, pair_epsilon(p), pair_epsilon(p) / 4);
  }
  free(y);
  free(gates);
  free(weight);
  free(out[0]);
  free(out[1]);
}

static void gates(const struct pair *p)
{
  static const struct gating cases[] = {
      {4, 8, 1, false}, {1, 300, 2, true}, {3, 33, 2, false}, {2, 128, 0, false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    check_gates(p, &cases[i]);
}

/* ---- all --------------------------------------------------------------------------- */

static void run_both(void (*test)(const struct pair *))
{
  each_pair(LLS_F32, MOST_COLUMN, test);
  each_pair(LLS_BF16, MOST_COLUMN, test);
}

static void test_convs(void **state)
{
  (void)state;
  run_both(convs);
}

static void test_deltas(void **state)
{
  (void)state;
  run_both(deltas);
}

static void test_spaces(void **state)
{
  (void)state;
  run_both(spaces);
}

static void test_gates(void **state)
{
  (void)state;
  run_both(gates);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      {"short convolutions", test_convs, NULL, NULL, NULL},
      {"gated delta nets", test_deltas, NULL, NULL, NULL},
      {"state spaces", test_spaces, NULL, NULL, NULL},
      {"gates", test_gates, NULL, NULL, NULL},
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
