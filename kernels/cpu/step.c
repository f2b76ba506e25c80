/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step of the CPU device: the arrays that its operations work on, and the first
 * error. Operations return nothing; step_end returns the error.
 */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ops.h"

#include <stdarg.h>
#include <stdio.h>

int lls_cpu_step_begin(struct lls_device *device, struct lls_pool *pool,
                       const struct lls_device_step *step)
{
  struct lls_cpu_device *d = lls_cpu(device);
  d->pool = pool;
  d->step = step;
  d->status = 0;
  for (int i = 0; i < LLS_CPU_ROPES; i++)
    d->ropes[i] = (struct lls_rope_shape){0};
  return 0;
}

int lls_cpu_step_end(struct lls_device *device, struct lls_error *err)
{
  struct lls_cpu_device *d = lls_cpu(device);
  d->pool = NULL;
  d->step = NULL;
  if (d->status != 0)
    lls_fail(err, d->status, "%s", d->error.text);
  return d->status;
}

void lls_cpu_step_fail(struct lls_cpu_device *d, int code, const char *format, ...)
{
  if (d->status != 0)
    return;
  va_list args;
  va_start(args, format);
  vsnprintf(d->error.text, sizeof d->error.text, format, args);
  va_end(args);
  d->status = code;
}
