/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations that few models need (LLS_EXTRA_... of core/device/device.h): xIELU,
 * queries that grow with their position, rows times a gate of one number, gates of a
 * layer's inputs, scales. They are plain loops: each reads and writes a row that the
 * product before has just written.
 */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ops.h"

#include <math.h>

struct rows {
  const struct lls_cpu_device *device;
  const struct lls_xielu *xielu;
  const struct lls_query_growth *growth;
  const float *scores; /* (n_rows) */
  const float *y;      /* (n_rows, columns) */
  float factor;
  float *x; /* (n_rows, stride) of which `columns` are changed */
  size_t n_rows, columns, stride;
};

static float xielu(const struct lls_xielu *a, float x)
{
  if (x > 0)
    return a->positive * x * x + a->linear * x;
  return a->negative * (expm1f(fminf(x, a->least)) - x) + a->linear * x;
}

static void xielu_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct rows *w = arg;
  size_t begin, end;
  lls_cpu_share(w->n_rows, 1, thread, n_threads, &begin, &end);
  for (size_t i = begin * w->stride; i < end * w->stride; i++)
    w->x[i] = xielu(w->xielu, w->x[i]);
}

void lls_cpu_xielu(struct lls_device *device, const struct lls_xielu *parameters, void *x,
                   uint32_t n_rows, uint32_t columns)
{
  struct lls_cpu_device *d = lls_cpu(device);
  struct rows w = {.xielu = parameters,
                   .x = x,
                   .n_rows = n_rows,
                   .columns = columns,
                   .stride = columns};
  lls_cpu_run_rows(d, xielu_task, &w, n_rows, columns);
}

static void scale(float *x, size_t n, float factor)
{
  for (size_t i = 0; i < n; i++)
    x[i] *= factor;
}

static void grow_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct rows *w = arg;
  const struct lls_query_growth *g = w->growth;
  size_t begin, end;
  lls_cpu_share(w->n_rows, 1, thread, n_threads, &begin, &end);
  for (size_t row = begin; row < end; row++) {
    uint32_t steps = ((uint32_t)w->device->step->positions[row] + g->offset) / g->every;
    double factor = 1 + (double)g->factor * log1p(steps);
    if (steps > 0)
      scale(w->x + row * w->stride, w->columns, (float)factor);
  }
}

void lls_cpu_grow_queries(struct lls_device *device,
                          const struct lls_attention_shape *shape,
                          const struct lls_query_growth *growth, void *qkv)
{
  struct lls_cpu_device *d = lls_cpu(device);
  struct rows w = {
      .device = d,
      .growth = growth,
      .x = qkv,
      .n_rows = d->step->n_rows,
      .columns = (size_t)shape->heads * shape->head_dim,
      .stride = lls_qkv_width(shape),
  };
  lls_cpu_run_rows(d, grow_task, &w, w.n_rows, w.columns);
}

static void gate_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct rows *w = arg;
  size_t begin, end;
  lls_cpu_share(w->n_rows, 1, thread, n_threads, &begin, &end);
  for (size_t row = begin; row < end; row++)
    scale(w->x + row * w->stride, w->columns, 1 / (1 + expf(-w->scores[row])));
}

void lls_cpu_gate_rows(struct lls_device *device, const float *scores, void *x,
                       uint32_t n_rows, uint32_t columns)
{
  struct lls_cpu_device *d = lls_cpu(device);
  struct rows w = {
      .scores = scores, .x = x, .n_rows = n_rows, .columns = columns, .stride = columns};
  lls_cpu_run_rows(d, gate_task, &w, n_rows, columns);
}

static void multiply_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct rows *w = arg;
  size_t begin, end;
  lls_cpu_share(w->n_rows, 1, thread, n_threads, &begin, &end);
  for (size_t i = begin * w->stride; i < end * w->stride; i++)
    w->x[i] *= w->y[i];
}

void lls_cpu_gate_inputs(struct lls_device *device, enum lls_activation activation,
                         const void *y, uint32_t n_rows, uint32_t columns, void *x)
{
  struct lls_cpu_device *d = lls_cpu(device);
  struct rows w = {
      .y = y, .x = x, .n_rows = n_rows, .columns = columns, .stride = columns};
  lls_cpu_activate(device, activation, x, n_rows, columns);
  lls_cpu_run_rows(d, multiply_task, &w, n_rows, columns);
}

static void scale_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct rows *w = arg;
  size_t begin, end;
  lls_cpu_share(w->n_rows, 1, thread, n_threads, &begin, &end);
  scale(w->x + begin * w->stride, (end - begin) * w->stride, w->factor);
}

void lls_cpu_scale(struct lls_device *device, float factor, uint32_t n_rows,
                   uint32_t columns, void *x)
{
  struct lls_cpu_device *d = lls_cpu(device);
  struct rows w = {
      .factor = factor, .x = x, .n_rows = n_rows, .columns = columns, .stride = columns};
  lls_cpu_run_rows(d, scale_task, &w, n_rows, columns);
}
