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
  double ends; /* bench_seconds() after which nothing more is begun */
  unsigned done, missed, left_out;
};

/* ---- gpu_util.c */
_Noreturn void gpu_die(const char *what, const struct lls_error *, int rc);
struct lls_device *gpu_open(uint32_t max_rows, uint32_t max_columns,
                            uint32_t max_sequences);

/* One line: ratio beside its mark; at_most: it should be no more than the mark. */
void gpu_result(struct gpu_bench *, const char *name, const char *what, double ratio,
                double mark, bool at_most);
/* No time or memory for it: says so, true. */
bool gpu_leave_out(struct gpu_bench *, const char *name, size_t bytes, size_t available);

/* gpu_operations.c: limits, then attention, restore and copies. */
void gpu_measure_limits(struct gpu_bench *);
void gpu_operations(struct gpu_bench *);
/* gpu_models.c: whole models with dummy weights; root: where bench/ is. */
void gpu_models(struct gpu_bench *, const char *root);

#endif
