/* SPDX-License-Identifier: Apache-2.0 */
/* RMSNorm (Zhang and Sennrich, 2019, eq. 4) and LayerNorm (Ba et al., 2016) of rows. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ops.h"

struct norming {
  const struct lls_cpu_row_kernels *kernels;
  enum lls_norm_kind kind;
  const float *x, *weight, *bias;
  float epsilon, *y;
  size_t n_rows, columns;
};

static void norm_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct norming *w = arg;
  size_t begin, end;
  lls_cpu_share(w->n_rows, 1, thread, n_threads, &begin, &end);
  for (size_t i = begin * w->columns; i < end * w->columns; i += w->columns) {
    if (w->kind == LLS_NORM_RMS)
      w->kernels->norm_rms(w->x + i, w->weight, w->epsilon, w->columns, w->y + i);
    else
      w->kernels->norm_layer(w->x + i, w->weight, w->bias, w->epsilon, w->columns,
                             w->y + i);
  }
}

void lls_cpu_norm(struct lls_device *device, enum lls_norm_kind kind, const void *x,
                  const float *weight, const float *bias, float epsilon, uint32_t n_rows,
                  uint32_t columns, void *y)
{
  struct lls_cpu_device *d = lls_cpu(device);
  struct norming w = {.kernels = &d->kernels.rows,
                      .kind = kind,
                      .x = x,
                      .weight = weight,
                      .bias = bias,
                      .epsilon = epsilon,
                      .y = y,
                      .n_rows = n_rows,
                      .columns = columns};
  lls_cpu_run_rows(d, norm_task, &w, n_rows, columns);
}
