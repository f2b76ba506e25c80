/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of this folder: the device, its table of kernels and its scratch
 * memory.
 *
 * Two layers. A *kernel* works on plain pointers on one thread, exists per ISA level and
 * is reached through struct lls_cpu_kernels. An *operation* is a member of
 * struct lls_device_ops: it has that member's signature and the name lls_cpu_MEMBER,
 * divides the work among the threads with lls_cpu_run, and calls kernels. device.c puts
 * the operations into the vtable.
 *
 * The table is filled level by level (isa.h): generic fills every entry, avx2 replaces
 * what it does better, then avx512, then amx. Only files named after a level, such as
 * codes_avx2.c, are compiled for it; they share no inline function with other files
 * beyond static ones.
 */
#ifndef LLS_CPU_CPU_H
#define LLS_CPU_CPU_H

#include "core/device/device.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/int8.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/recurrent.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/threads.h"

struct lls_cpu_kernels {
  struct lls_cpu_linear_kernels linear;       /* linear.h */
  struct lls_cpu_attention_kernels attention; /* attention.h */
  struct lls_cpu_row_kernels rows;            /* rows.h */
  struct lls_cpu_int8_kernels int8;           /* int8.h */
  struct lls_cpu_recurrent_kernels recurrent; /* recurrent.h */
};

/* rotary embeddings cached, since layers of a model may alternate between two */
#define LLS_CPU_ROPES 2

struct lls_cpu_device {
  struct lls_device base; /* first: the device pointer that the vtable's functions get */
  struct lls_device_options options;
  const struct lls_cpu_level *level;
  struct lls_cpu_kernels kernels;
  struct lls_cpu_threads *threads;
  unsigned n_threads;

  /* Working memory of the operations; its contents do not outlive one operation. */
  void *shared; /* (shared_bytes) for all threads, 2 MiB aligned */
  size_t shared_bytes;
  char *scratch; /* (n_threads, scratch_bytes) each thread's own, 2 MiB aligned */
  size_t scratch_bytes;

  /* Valid from step_begin to step_end. */
  struct lls_pool *pool;
  const struct lls_device_step *step;
  struct lls_rope_shape
      /* the rope that each set of angles was made for; all 0: none yet */
      ropes[LLS_CPU_ROPES];
  float *angles; /* (ROPES, max_rows, rotary_dims) cosines, then sines; rope.c */
  int status;    /* first error since step_begin, 0 = none */
  struct lls_error error;
};

static inline struct lls_cpu_device *lls_cpu(struct lls_device *device)
{
  return (struct lls_cpu_device *)device;
}

static inline void *lls_cpu_scratch(const struct lls_cpu_device *d, unsigned thread)
{
  return d->scratch + thread * d->scratch_bytes;
}

/* step.c: remembers the first error for step_end; [step], not inside a run. */
void lls_cpu_step_fail(struct lls_cpu_device *, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ranks.c: x (n) becomes the sum of all ranks' x. */
void lls_cpu_sum(struct lls_cpu_device *, float *x, size_t n);
/* Gathers the ranks' parts (n_rows, share of columns) side by side on all ranks. */
void lls_cpu_gather_to_all(struct lls_cpu_device *, const float *part, uint32_t n_rows,
                           size_t columns, float *y);

/* Runs a task over rows, on the caller alone if waking the other threads would take
 * longer. */
static inline void lls_cpu_run_rows(const struct lls_cpu_device *d, lls_cpu_task task,
                                    void *arg, size_t n_rows, size_t columns)
{
  if (n_rows < 2 || n_rows * columns < 8192)
    task(arg, 0, 1);
  else
    lls_cpu_run(d->threads, task, arg);
}

/* The part [*begin, *end) of n items that a thread computes, in multiples of
 * `grain`. */
static inline void lls_cpu_share(size_t n, size_t grain, unsigned thread,
                                 unsigned n_threads, size_t *begin, size_t *end)
{
  size_t grains = (n + grain - 1) / grain;
  size_t first = grains * thread / n_threads, last = grains * (thread + 1) / n_threads;
  *begin = first * grain < n ? first * grain : n;
  *end = last * grain < n ? last * grain : n;
}

#endif
