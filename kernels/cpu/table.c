/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vectors and lookup tables. A table of a model file is not copied: a step reads few of
 * its rows, and the page cache holds them. Only random tables take memory.
 */
#include "kernels/cpu/table.h"
#include "core/device/tensor.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/memory.h"
#include "core/device/numbers.h"
#include "kernels/cpu/ops.h"

#include <errno.h>
#include <stdlib.h>

int lls_cpu_vector_create(struct lls_device *device, const struct lls_tensor_view *view,
                          float **out, struct lls_error *err)
{
  (void)device;
  void *data;
  int rc = lls_cpu_memory_alloc(view->columns * sizeof(float), &data);
  if (rc != 0)
    return lls_fail(err, rc, "no memory for a vector of %zu", view->columns);
  lls_tensor_read_row(view, 0, data);
  *out = data;
  return 0;
}

struct filling {
  const struct lls_tensor_view *view;
  uint16_t *table; /* (rows, columns) bf16 */
  struct lls_cpu_device *device;
};

static void fill_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct filling *f = arg;
  float *row = lls_cpu_scratch(f->device, thread);
  size_t begin, end, columns = f->view->columns;
  lls_cpu_share(f->view->rows, 1, thread, n_threads, &begin, &end);
  for (size_t i = begin; i < end; i++) {
    lls_tensor_read_row(f->view, i, row);
    for (size_t k = 0; k < columns; k++)
      f->table[i * columns + k] = lls_f32_to_bf16(row[k]);
  }
}

/* Allocates random values for the table, in bf16. */
static int fill_random(struct lls_cpu_device *d, struct lls_cpu_table *table)
{
  struct lls_tensor_view *view = &table->view;
  int rc =
      lls_cpu_memory_alloc(view->rows * view->columns * sizeof(uint16_t), &table->own);
  if (rc != 0)
    return rc;
  struct filling f = {.view = view, .table = table->own, .device = d};
  lls_cpu_run(d->threads, fill_task, &f);
  view->data = table->own;
  view->dtype = LLS_BF16;
  view->row_stride = view->columns;
  return 0;
}

int lls_cpu_table_create(struct lls_device *device, const struct lls_tensor_view *view,
                         void **out, struct lls_error *err)
{
  struct lls_cpu_device *d = lls_cpu(device);
  if (view->columns > d->options.max_columns)
    return lls_fail(err, -EINVAL, "a table has %zu columns, the device was made for %u",
                    view->columns, d->options.max_columns);
  struct lls_cpu_table *table = calloc(1, sizeof *table);
  if (table == NULL)
    return lls_fail(err, -ENOMEM, "no memory for a table");
  table->view = *view;
  int rc = view->data == NULL ? fill_random(d, table) : 0;
  if (rc != 0) {
    free(table);
    return lls_fail(err, rc, "no memory for a table of %zu x %zu", view->rows,
                    view->columns);
  }
  *out = table;
  return 0;
}

void lls_cpu_table_destroy(struct lls_device *device, void *arg)
{
  (void)device;
  struct lls_cpu_table *table = arg;
  if (table == NULL)
    return;
  lls_cpu_memory_free(table->own);
  free(table);
}
