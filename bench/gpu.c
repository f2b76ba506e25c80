/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA device against the limits of the GPU it runs on, which are measured first in
 * the same run: operations, then steps of whole models with dummy weights. Everything
 * goes through the device's vtable and the engine, as in the server.
 *
 *   bench/gpu [all|operations|models] [seconds]
 *
 * Eight minutes (480) are enough for all of it on an H200; what there is no more time, or
 * no memory for, is named and left out. It ends with 1 if a mark was missed, with 77
 * where there is no GPU.
 */
#include "bench/gpu.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define NO_GPU 77

void gpu_die(const char *what, const struct lls_error *err, int rc)
{
  fprintf(stderr, "bench/gpu: %s: %s\n", what, lls_error_text(err, rc));
  exit(rc == -ENODEV || rc == -ENOENT ? NO_GPU : 1);
}

struct lls_device *gpu_open(uint32_t max_rows, uint32_t max_columns,
                            uint32_t max_sequences)
{
  const struct lls_device_options options = {
      .max_rows = max_rows,
      .max_columns = max_columns,
      .max_sequences = max_sequences,
      .numbers = LLS_BF16,
  };
  struct lls_device *device;
  struct lls_error err = {""};
  int rc = lls_device_create(LLS_DEVICE_CUDA, &options, &device, NULL, &err);
  if (rc < 0)
    gpu_die("no CUDA device", &err, rc);
  return device;
}

void gpu_result(struct gpu_bench *b, const char *name, const char *what, double ratio,
                double mark, bool at_most)
{
  bool good = at_most ? ratio <= mark : ratio >= mark;
  b->done++;
  b->missed += !good;
  printf("%-34s %-28s %6.3f  mark %s %.2f  %s\n", name, what, ratio,
         at_most ? "<=" : ">=", mark, good ? "met" : "MISSED");
  fflush(stdout);
}

bool gpu_leave_out(struct gpu_bench *b, const char *name, size_t bytes, size_t available)
{
  bool late = bench_seconds() > b->ends, large = bytes > available;
  if (!late && !large)
    return false;
  b->left_out++;
  if (large)
    printf("%-34s left out: %.1f GB wanted, %.1f are free\n", name, (double)bytes * 1e-9,
           (double)available * 1e-9);
  else
    printf("%-34s left out: the time is over\n", name);
  return true;
}

static _Noreturn void usage(void)
{
  fprintf(stderr, "usage: bench/gpu [all|operations|models] [seconds, 60 to 3600]\n");
  exit(2);
}

int main(int argc, char **argv)
{
  struct gpu_bench b = {.done = 0};
  const char *part = argc > 1 ? argv[1] : "all", *root = getenv("LLS_SRCDIR");
  bool operations = strcmp(part, "models") != 0, models = strcmp(part, "operations") != 0;
  int seconds = argc > 2 ? atoi(argv[2]) : 480;
  if (argc > 3 || (operations && models && strcmp(part, "all") != 0) || seconds < 60 ||
      seconds > 3600)
    usage();
  b.ends = bench_seconds() + seconds;
  gpu_measure_limits(&b);
  printf("copy %.0f GB/s, bf16 matrices %.0f TFLOP/s, to device %.1f GB/s, to host %.1f "
         "GB/s\n",
         b.limits.copy * 1e-9, b.limits.matrix * 1e-12, b.limits.to_device * 1e-9,
         b.limits.to_host * 1e-9);
  if (operations)
    gpu_operations(&b);
  if (models)
    gpu_models(&b, root != NULL ? root : LLS_SRCDIR);
  printf("%u results, %u missed their mark, %u left out\n", b.done, b.missed, b.left_out);
  return b.missed > 0 ? 1 : 0;
}
