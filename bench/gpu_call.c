/* SPDX-License-Identifier: Apache-2.0 */
/* Times of single operations: the median of rounds, each of several calls in one step. */
#include "bench/gpu.h"

static void round_of(const struct gpu_call *c, const struct lls_device_step *step)
{
  struct lls_error err = {""};
  int rc = c->device->ops->step_begin(c->device, c->pool, step);
  for (uint32_t i = 0; rc == 0 && c->run != NULL && i < c->calls; i++)
    c->run(c, i % c->layers);
  if (rc == 0)
    rc = c->device->ops->step_end(c->device, &err);
  if (rc < 0)
    gpu_die("an operation", &err, rc);
}

void gpu_round(const struct gpu_call *c)
{
  round_of(c, c->step);
}

/* Prepares the device as an engine does at its start. */
static void prepare(const struct gpu_call *c)
{
  struct lls_device_step step = *c->step;
  step.prepare = true;
  if (c->device->prepares)
    round_of(c, &step);
}

double gpu_time(const struct gpu_call *c)
{
  double times[GPU_ROUNDS];
  prepare(c);
  for (int i = -2; i < GPU_ROUNDS; i++) {
    double start = bench_seconds();
    gpu_round(c);
    if (i >= 0)
      times[i] = (bench_seconds() - start) / c->calls;
  }
  return bench_median(times, GPU_ROUNDS);
}

void *gpu_random_rows(struct lls_device *d, uint32_t rows, uint32_t columns)
{
  const struct lls_tensor_view view = {.dtype = LLS_BF16,
                                       .rows = 256,
                                       .columns = columns,
                                       .row_stride = columns,
                                       .seed = 7};
  static int32_t tokens[GPU_MAX_ROWS];
  void *table, *x;
  struct lls_error err = {""};
  int rc = d->ops->alloc(d, LLS_MEMORY_DEVICE, (size_t)rows * columns * 2, &x);
  if (rc == 0)
    rc = d->ops->table_create(d, &view, &table, &err);
  for (uint32_t i = 0; i < rows; i++)
    tokens[i] = (int32_t)(i % 256);
  const struct lls_device_step step = {
      .n_rows = rows, .tokens = tokens, .positions = tokens};
  if (rc == 0)
    rc = d->ops->step_begin(d, NULL, &step);
  if (rc < 0)
    gpu_die("random numbers", &err, rc);
  d->ops->embed(d, table, 1, x);
  rc = d->ops->step_end(d, &err);
  if (rc < 0)
    gpu_die("random numbers", &err, rc);
  d->ops->table_destroy(d, table);
  return x;
}

void gpu_run_linear(const struct gpu_call *c, uint32_t layer)
{
  c->device->ops->linear(c->device, c->weights[layer], c->x, c->n_rows, LLS_STORE_SET,
                         c->y);
}

size_t gpu_available(struct lls_device *d)
{
  size_t total, bytes;
  return d->ops->memory(d, &total, &bytes) == 0 ? bytes : 0;
}
