/* SPDX-License-Identifier: Apache-2.0 */
/* Rows read from tables or copied from other rows (embeddings, gather), and the
 * addition of rows. */
#include "core/device/tensor.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/table.h"

#include <errno.h>
#include <string.h>

struct lookup {
  struct lls_cpu_device *device;
  const struct lls_tensor_view *table;
  const int32_t *ids; /* (n_rows) indices of the table's rows, minus offset */
  int32_t offset;
  bool add;
  bool lenient; /* an id that the table lacks is entry 0 */
  float scale;
  float *x; /* (n_rows, columns) */
};

static void lookup_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct lookup *w = arg;
  size_t begin, end, columns = w->table->columns;
  float *row = lls_cpu_scratch(w->device, thread);
  lls_cpu_share(w->device->step->n_rows, 1, thread, n_threads, &begin, &end);
  for (size_t i = begin; i < end; i++) {
    float *x = w->x + i * columns;
    float *to = w->add ? row : x;
    size_t id = (size_t)(w->ids[i] + w->offset);
    if (w->lenient && id >= w->table->rows)
      id = 0;
    lls_tensor_read_row(w->table, id, to);
    for (size_t k = 0; w->scale != 1 && k < columns; k++)
      to[k] *= w->scale;
    if (w->add)
      w->device->kernels.rows.add(row, columns, x);
  }
}

/* Checks the ids. An id beyond the table would read foreign memory: the step fails and
 * nothing is embedded. */
static bool in_table(struct lookup *w)
{
  for (uint32_t i = 0; i < w->device->step->n_rows; i++) {
    int64_t id = (int64_t)w->ids[i] + w->offset;
    if ((uint64_t)id >= w->table->rows) {
      lls_cpu_step_fail(w->device, -EINVAL, "row %u wants entry %lld of a table of %zu",
                        i, (long long)id, w->table->rows);
      return false;
    }
  }
  return true;
}

/* Bytes of a call: rows x columns x (the table's element + 4). */
void lls_cpu_embed(struct lls_device *device, const void *table, float scale, void *x)
{
  struct lls_cpu_device *d = lls_cpu(device);
  struct lookup w = {.device = d,
                     .table = &((const struct lls_cpu_table *)table)->view,
                     .ids = d->step->tokens,
                     .scale = scale,
                     .x = x};
  if (in_table(&w))
    lls_cpu_run_rows(d, lookup_task, &w, d->step->n_rows, w.table->columns);
}

void lls_cpu_embed_positions(struct lls_device *device, const void *table, int32_t offset,
                             void *x)
{
  struct lls_cpu_device *d = lls_cpu(device);
  struct lookup w = {.device = d,
                     .table = &((const struct lls_cpu_table *)table)->view,
                     .ids = d->step->positions,
                     .offset = offset,
                     .add = true,
                     .scale = 1,
                     .x = x};
  if (in_table(&w))
    lls_cpu_run_rows(d, lookup_task, &w, d->step->n_rows, w.table->columns);
}

void lls_cpu_embed_layer(struct lls_device *device, const void *table, float scale,
                         void *x)
{
  struct lls_cpu_device *d = lls_cpu(device);
  struct lookup w = {.device = d,
                     .table = &((const struct lls_cpu_table *)table)->view,
                     .ids = d->step->tokens,
                     .add = true,
                     .lenient = true,
                     .scale = scale,
                     .x = x};
  lls_cpu_run_rows(d, lookup_task, &w, d->step->n_rows, w.table->columns);
}

struct addition {
  const struct lls_cpu_row_kernels *kernels;
  const float *x;
  float *y;
  size_t n_rows, columns;
};

static void add_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct addition *w = arg;
  size_t begin, end;
  lls_cpu_share(w->n_rows, 1, thread, n_threads, &begin, &end);
  begin *= w->columns, end *= w->columns;
  w->kernels->add(w->x + begin, end - begin, w->y + begin);
}

void lls_cpu_add(struct lls_device *device, const void *x, uint32_t n_rows,
                 uint32_t columns, void *y)
{
  struct lls_cpu_device *d = lls_cpu(device);
  struct addition w = {
      .kernels = &d->kernels.rows, .x = x, .y = y, .n_rows = n_rows, .columns = columns};
  lls_cpu_run_rows(d, add_task, &w, n_rows, columns);
}

/* Copies on the calling thread: the rows are few, once a step, and waking threads would
 * take longer. */
void lls_cpu_gather(struct lls_device *device, const void *x, const uint32_t *rows,
                    uint32_t n_rows, uint32_t columns, void *y)
{
  (void)device;
  const float *from = x;
  float *to = y;
  for (size_t i = 0; i < n_rows; i++)
    memcpy(to + i * columns, from + (size_t)rows[i] * columns, columns * sizeof *to);
}
