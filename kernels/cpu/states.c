/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations of layers with a state (core/device/states.h): they find the states that a
 * step's spans name in the pool, and leave the arithmetic to recurrent.h. Spans that
 * follow each other in one sequence are computed in turn, all others at once.
 */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/pool.h"

#include <math.h>

/* Spans handed to a kernel at once. */
#define AT_ONCE 64

/* The arithmetic of spans: one of the three. */
struct folding {
  const struct lls_short_conv *conv;
  const struct lls_gated_delta *delta;
  const struct lls_state_space *space;
};

static float *state_at(const struct lls_pool *p, uint32_t block, uint64_t at)
{
  return block == LLS_NO_STATE
             ? NULL
             : (float *)(void *)(p->device + block * p->unit_bytes + at);
}

/* Where a span's state goes. */
static float *target_of(const struct lls_cpu_device *d, const struct lls_state_span *s,
                        uint64_t at)
{
  char *spare = d->step->spare;
  return s->target == LLS_NO_STATE
             ? (float *)(void *)(spare + s->spare * d->step->spare_bytes)
             : state_at(d->pool, s->target, at);
}

static void fold(const struct lls_cpu_device *d, const struct folding *f,
                 const struct lls_recurrent_span *spans, size_t n)
{
  if (n > 0 && f->conv != NULL)
    lls_cpu_short_conv(d, f->conv, spans, n);
  else if (n > 0 && f->delta != NULL)
    lls_cpu_gated_delta(d, f->delta, spans, n);
  else if (n > 0)
    lls_cpu_state_space(d, f->space, spans, n);
}

/* Folds the spans of a turn; false: there are none. */
static bool fold_turn(const struct lls_cpu_device *d, const struct folding *f,
                      uint64_t at, uint32_t turn)
{
  struct lls_recurrent_span some[AT_ONCE];
  const struct lls_device_step *step = d->step;
  size_t n = 0;
  bool any = false;
  for (uint32_t i = 0; i < step->n_spans; i++) {
    const struct lls_state_span *s = &step->spans[i];
    if (s->turn != turn)
      continue;
    any = true;
    some[n++] = (struct lls_recurrent_span){.first_row = s->first_row,
                                            .n_rows = s->n_rows,
                                            .from = state_at(d->pool, s->source, at),
                                            .to = target_of(d, s, at)};
    if (n == AT_ONCE) {
      fold(d, f, some, n);
      n = 0;
    }
  }
  fold(d, f, some, n);
  return any;
}

static void fold_all(const struct lls_cpu_device *d, const struct folding *f, uint64_t at)
{
  for (uint32_t turn = 0; fold_turn(d, f, at, turn);)
    turn++;
}

static struct lls_row_input columns_of(const float *rows, uint32_t first, size_t stride)
{
  return (struct lls_row_input){first == LLS_NO_COLUMN ? NULL : rows + first, stride};
}

void lls_cpu_conv(struct lls_device *device, const struct lls_conv_shape *shape, void *x,
                  void *y)
{
  float *rows = x;
  const struct lls_short_conv conv = {
      .channels = shape->channels,
      .width = shape->width,
      .silu = shape->silu,
      .weight = shape->weight,
      .bias = shape->bias,
      .x = columns_of(rows, shape->x, shape->columns),
      .before = columns_of(rows, shape->before, shape->columns),
      .after = columns_of(rows, shape->after, shape->columns),
      .y = {y != NULL ? y : rows + shape->x,
            y != NULL ? shape->channels : shape->columns},
  };
  fold_all(lls_cpu(device), &(struct folding){.conv = &conv}, shape->at);
}

void lls_cpu_delta(struct lls_device *device, const struct lls_delta_shape *shape,
                   const void *rows, const void *gates, void *out)
{
  uint32_t keys = shape->key_heads * shape->key_dim, heads = shape->value_heads;
  const struct lls_gated_delta delta = {
      .key_heads = shape->key_heads,
      .value_heads = heads,
      .key_dim = shape->key_dim,
      .value_dim = shape->value_dim,
      .tiled = shape->tiled,
      .epsilon = shape->epsilon,
      .scale = 1 / sqrtf((float)shape->key_dim),
      .q = columns_of(rows, 0, shape->columns),
      .k = columns_of(rows, keys, shape->columns),
      .v = columns_of(rows, 2 * keys, shape->columns),
      .b = columns_of(gates, 0, 2 * (size_t)heads),
      .a = columns_of(gates, heads, 2 * (size_t)heads),
      .rate = shape->rate,
      .dt_bias = shape->dt_bias,
      .out = {out, (size_t)heads * shape->value_dim},
  };
  fold_all(lls_cpu(device), &(struct folding){.delta = &delta}, shape->at);
}

void lls_cpu_space(struct lls_device *device, const struct lls_space_shape *shape,
                   const void *rows, const void *steps, void *out)
{
  const uint32_t values = shape->heads * shape->head_dim;
  const uint32_t states = shape->groups * shape->state_dim;
  const struct lls_state_space space = {
      .heads = shape->heads,
      .head_dim = shape->head_dim,
      .groups = shape->groups,
      .state_dim = shape->state_dim,
      .dt_min = shape->dt_min,
      .dt_max = shape->dt_max,
      .x = columns_of(rows, 0, shape->columns),
      .b = columns_of(rows, values, shape->columns),
      .c = columns_of(rows, values + states, shape->columns),
      .dt = columns_of(steps, 0, shape->heads),
      .rate = shape->rate,
      .dt_bias = shape->dt_bias,
      .d = shape->skip,
      .out = {out, values},
  };
  fold_all(lls_cpu(device), &(struct folding){.space = &space}, shape->at);
}

/* Rows that are multiplied by silu(gate) alone. */
struct gated_rows {
  const float *gate;
  float *y;
  size_t n_rows, columns, stride;
};

static void gate_rows_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct gated_rows *w = arg;
  size_t begin, end;
  lls_cpu_share(w->n_rows, 1, thread, n_threads, &begin, &end);
  for (size_t row = begin; row < end; row++)
    for (size_t i = 0; i < w->columns; i++) {
      float z = w->gate[row * w->stride + i];
      w->y[row * w->columns + i] *= z / (1 + expf(-z));
    }
}

void lls_cpu_norm_gated(struct lls_device *device,
                        const struct lls_gated_norm_shape *shape, const void *rows,
                        uint32_t n_rows, void *y)
{
  size_t columns = (size_t)shape->groups * shape->columns;
  if (shape->weight == NULL) {
    struct gated_rows w = {(const float *)rows + shape->gate, y, n_rows, columns,
                           shape->gate_columns};
    lls_cpu_run_rows(lls_cpu(device), gate_rows_task, &w, n_rows, columns);
    return;
  }
  const struct lls_gated_norm norm = {
      .groups = shape->groups,
      .columns = shape->columns,
      .epsilon = shape->epsilon,
      .gate_first = shape->gate_first,
      .weight = shape->weight,
      .weight_stride = shape->each_weight ? shape->columns : 0,
      .x = {y, columns},
      .gate = columns_of(rows, shape->gate, shape->gate_columns),
      .y = {y, columns},
  };
  lls_cpu_gated_norm(lls_cpu(device), &norm, n_rows);
}

struct gating {
  const float *gates;
  float *x;
  size_t n;
};

static void gate_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct gating *w = arg;
  size_t begin, end;
  lls_cpu_share(w->n, 1, thread, n_threads, &begin, &end);
  for (size_t i = begin; i < end; i++)
    w->x[i] /= 1 + expf(-w->gates[i]);
}

void lls_cpu_gate_columns(struct lls_device *device, const void *gates, void *x,
                          uint32_t n_rows, uint32_t columns)
{
  struct gating w = {.gates = gates, .x = x, .n = (size_t)n_rows * columns};
  lls_cpu_run_rows(lls_cpu(device), gate_task, &w, n_rows, columns);
}
