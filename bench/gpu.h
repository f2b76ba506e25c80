/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of bench/gpu: the limits of this GPU, measured first, and how a
 * result is printed beside its mark. */
#ifndef LLS_BENCH_GPU_H
#define LLS_BENCH_GPU_H

#include "bench/bench.h"

#include "core/device/devices.h"

struct gpu_limits {
  double copy;               /* bytes read plus written a second on the device */
  double matrix;             /* bf16 operations a second */
  double to_device, to_host; /* bytes a second over the link, from and to pinned memory */
};

struct gpu_bench {
  struct gpu_limits limits;
  double ends;      /* no measurement begins after this bench_seconds() */
  const char *only; /* name of the only operation to run; NULL: all */
  unsigned done, missed, left_out;
};

/* ---- gpu_util.c */
_Noreturn void gpu_die(const char *what, const struct lls_error *, int rc);
struct lls_device *gpu_open(uint32_t max_rows, uint32_t max_columns,
                            uint32_t max_sequences);

/* Prints a result: a ratio beside its mark (0: no mark), which it should reach, or with
 * at_most should not exceed. */
void gpu_result(struct gpu_bench *, const char *name, const char *what, double ratio,
                double mark, bool at_most);
/* Returns true if the operation is not to run: its memory or time is too short, which
 * is printed, or b->only names another one. */
bool gpu_leave_out(struct gpu_bench *, const char *name, size_t bytes, size_t available);

/* Starts (true) and stops (false) a profiler which was started with ncu --profile-from-
 * start off. Without b->only it does nothing. */
void gpu_watch(const struct gpu_bench *, bool watch);

/* ---- gpu_call.c */
#define GPU_MAX_ROWS 16384
#define GPU_ROUNDS   7

/* The calls of one round, between step_begin and step_end. */
struct gpu_call {
  struct lls_device *device;
  struct lls_pool *pool;
  const struct lls_device_step *step;
  void (*run)(const struct gpu_call *, uint32_t layer);
  uint32_t calls, layers;
  const struct lls_attention_shape *attention;
  const struct lls_rope_shape *rope;
  struct lls_weight *const *weights; /* (layers), for products */
  void *x, *y;
  uint32_t n_rows;
};

void gpu_round(const struct gpu_call *);
double gpu_time(const struct gpu_call *); /* returns the seconds of one call */
void *gpu_random_rows(struct lls_device *, uint32_t rows, uint32_t columns);
/* Implements `run` for products: y = x W^T, with the weights of the layers in turn. */
void gpu_run_linear(const struct gpu_call *, uint32_t layer);
size_t gpu_available(struct lls_device *); /* bytes */

/* gpu_products.c: products with weights of 4 to 8 bits. */
void gpu_products(struct gpu_bench *, struct lls_device *);
/* gpu_experts.c: mixtures of experts. */
void gpu_experts(struct gpu_bench *, struct lls_device *);
/* gpu_operations.c: limits, then attention, restore and copies, then products. */
void gpu_measure_limits(struct gpu_bench *);
void gpu_operations(struct gpu_bench *);
void gpu_mixtures(struct gpu_bench *); /* only mixtures of experts */
/* gpu_models.c: whole models with dummy weights; root is the folder of bench/. */
void gpu_models(struct gpu_bench *, const char *root);

#endif
