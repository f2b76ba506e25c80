/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of bench/gpu: the limits of this GPU, measured first, and how a
 * result is printed beside its mark. */
#ifndef LLS_BENCH_GPU_H
#define LLS_BENCH_GPU_H

#include "bench/bench.h"

#include "core/device/devices.h"

struct gpu_limits {
  double copy;               /* bytes read and written a second, on the device */
  double matrix;             /* bf16 operations a second */
  double to_device, to_host; /* bytes a second over the link, pinned */
};

struct gpu_bench {
  struct gpu_limits limits;
  double ends;      /* bench_seconds() after which nothing more is begun */
  const char *only; /* the one operation that is wanted, NULL: all */
  unsigned done, missed, left_out;
};

/* ---- gpu_util.c */
_Noreturn void gpu_die(const char *what, const struct lls_error *, int rc);
struct lls_device *gpu_open(uint32_t max_rows, uint32_t max_columns,
                            uint32_t max_sequences);

/* One line: ratio beside its mark, 0: none; at_most: it should be no more than the mark.
 */
void gpu_result(struct gpu_bench *, const char *name, const char *what, double ratio,
                double mark, bool at_most);
/* No time or memory for it: says so, true. Another is the only one that is wanted: true.
 */
bool gpu_leave_out(struct gpu_bench *, const char *name, size_t bytes, size_t available);

/* From here to where it is false a profiler that is told to wait (ncu
 * --profile-from-start off) looks on; of the one operation that is wanted alone. */
void gpu_watch(const struct gpu_bench *, bool watch);

/* ---- gpu_call.c */
#define GPU_MAX_ROWS 16384
#define GPU_ROUNDS   7

/* The operations of a round, between step_begin and step_end. */
struct gpu_call {
  struct lls_device *device;
  struct lls_pool *pool;
  const struct lls_device_step *step;
  void (*run)(const struct gpu_call *, uint32_t layer);
  uint32_t calls, layers;
  const struct lls_attention_shape *attention;
  const struct lls_rope_shape *rope;
  struct lls_weight *const *weights; /* (layers) of products */
  void *x, *y;
  uint32_t n_rows;
};

void gpu_round(const struct gpu_call *);
double gpu_time(const struct gpu_call *); /* seconds of one call */
void *gpu_random_rows(struct lls_device *, uint32_t rows, uint32_t columns);
/* `run` for products: y = x W^T, with each layer's weight in turns. */
void gpu_run_linear(const struct gpu_call *, uint32_t layer);
size_t gpu_available(struct lls_device *); /* bytes */

/* gpu_products.c: products with weights of 4 to 8 bits. */
void gpu_products(struct gpu_bench *, struct lls_device *);
/* gpu_operations.c: limits, then attention, restore and copies, then products. */
void gpu_measure_limits(struct gpu_bench *);
void gpu_operations(struct gpu_bench *);
/* gpu_models.c: whole models with dummy weights; root: where bench/ is. */
void gpu_models(struct gpu_bench *, const char *root);

#endif
