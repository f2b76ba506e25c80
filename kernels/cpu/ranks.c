/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CPU device with other ranks: it passes its activations, f32 in host memory, to
 * the transport. A rank that has failed in this step takes no part in further sums, so
 * that no token is drawn from its values.
 */
#include "core/ranks/ranks.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ops.h"

/* Returns 0 if this rank can take part in a sum. */
static int ready(struct lls_cpu_device *d)
{
  if (d->status != 0)
    lls_ranks_fail(d->options.ranks, d->error.text);
  return d->status;
}

static void record(struct lls_cpu_device *d, int rc)
{
  struct lls_error err = {0};
  if (rc < 0) {
    lls_ranks_failed(d->options.ranks, &err);
    lls_cpu_step_fail(d, rc, "%s", lls_error_text(&err, rc));
  }
}

void lls_cpu_all_reduce(struct lls_device *device, void *x, uint32_t n_rows,
                        uint32_t columns)
{
  lls_cpu_sum(lls_cpu(device), x, (size_t)n_rows * columns);
}

void lls_cpu_sum(struct lls_cpu_device *d, float *x, size_t n)
{
  struct lls_ranks *ranks = d->options.ranks;
  if (n > 0 && ready(d) == 0)
    record(d, ranks->ops->sum(ranks, x, n));
}

void lls_cpu_gather_columns(struct lls_device *device, const float *part, uint32_t n_rows,
                            uint32_t columns, float *y)
{
  struct lls_cpu_device *d = lls_cpu(device);
  struct lls_ranks *ranks = d->options.ranks;
  if (n_rows > 0 && ready(d) == 0)
    record(d, ranks->ops->gather(ranks, part, n_rows, columns, false, y));
}

void lls_cpu_gather_to_all(struct lls_cpu_device *d, const float *part, uint32_t n_rows,
                           size_t columns, float *y)
{
  struct lls_ranks *ranks = d->options.ranks;
  if (n_rows > 0 && ready(d) == 0)
    record(d, ranks->ops->gather(ranks, part, n_rows, columns, true, y));
}
