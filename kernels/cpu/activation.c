/* SPDX-License-Identifier: Apache-2.0 */
/* Activations, alone and as gates (GLU variants, Shazeer, 2020), and caps of logits. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ops.h"

struct activating {
  const struct lls_cpu_row_kernels *kernels;
  enum lls_activation kind;
  float *x; /* (n_rows, columns); gated: (n_rows, 2 columns) */
  float *y; /* gated: (n_rows, columns) */
  size_t n_rows, columns;
};

static void activate_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct activating *w = arg;
  size_t begin, end;
  lls_cpu_share(w->n_rows, 1, thread, n_threads, &begin, &end);
  w->kernels->activate(w->kind, w->x + begin * w->columns, (end - begin) * w->columns);
}

void lls_cpu_activate(struct lls_device *device, enum lls_activation kind, void *x,
                      uint32_t n_rows, uint32_t columns)
{
  struct lls_cpu_device *d = lls_cpu(device);
  struct activating w = {.kernels = &d->kernels.rows,
                         .kind = kind,
                         .x = x,
                         .n_rows = n_rows,
                         .columns = columns};
  lls_cpu_run_rows(d, activate_task, &w, n_rows, columns);
}

static void gated_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct activating *w = arg;
  size_t begin, end;
  lls_cpu_share(w->n_rows, 1, thread, n_threads, &begin, &end);
  for (size_t i = begin; i < end; i++) {
    const float *gate = w->x + 2 * i * w->columns;
    w->kernels->gated(w->kind, gate, gate + w->columns, w->columns,
                      w->y + i * w->columns);
  }
}

void lls_cpu_gated(struct lls_device *device, enum lls_activation kind, const void *x,
                   uint32_t n_rows, uint32_t columns, void *y)
{
  struct lls_cpu_device *d = lls_cpu(device);
  struct activating w = {.kernels = &d->kernels.rows,
                         .kind = kind,
                         .x = (float *)x, /* gated_task only reads x */
                         .y = y,
                         .n_rows = n_rows,
                         .columns = columns};
  lls_cpu_run_rows(d, gated_task, &w, n_rows, columns);
}

struct capping {
  const struct lls_cpu_row_kernels *kernels;
  float *logits; /* (n_rows, vocab) */
  size_t n_rows, vocab;
  float cap;
};

static void cap_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct capping *w = arg;
  size_t begin, end;
  lls_cpu_share(w->n_rows * w->vocab, 1024, thread, n_threads, &begin, &end);
  w->kernels->cap(1, w->cap, w->logits + begin, end - begin);
}

void lls_cpu_cap_logits(struct lls_device *device, float *logits, uint32_t n_rows,
                        uint32_t vocab, float cap)
{
  struct lls_cpu_device *d = lls_cpu(device);
  struct capping w = {&d->kernels.rows, logits, n_rows, vocab, cap};
  lls_cpu_run_rows(d, cap_task, &w, (size_t)n_rows * vocab, 1);
}
