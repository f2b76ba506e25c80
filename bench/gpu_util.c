/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of bench/gpu; see gpu.h. */
#include "bench/gpu.h"
#include "kernels/builtin.h"

#include <dlfcn.h>
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
  int rc = lls_device_create(LLS_DEVICE_CUDA, &lls_builtin_devices, &options, &device,
                             NULL, &err);
  if (rc < 0)
    gpu_die("no CUDA device", &err, rc);
  return device;
}

void gpu_result(struct gpu_bench *b, const char *name, const char *what, double ratio,
                double mark, bool at_most)
{
  bool good = at_most ? ratio <= mark : ratio >= mark;
  b->done++;
  printf("%-34s %-28s %6.3f  ", name, what, ratio);
  if (mark > 0) {
    b->missed += !good;
    printf("mark %s %.2f  %s\n", at_most ? "<=" : ">=", mark, good ? "met" : "MISSED");
  } else {
    printf("no mark\n");
  }
  fflush(stdout);
}

bool gpu_leave_out(struct gpu_bench *b, const char *name, size_t bytes, size_t available)
{
  bool late = bench_seconds() > b->ends, large = bytes > available;
  if (b->only != NULL && strcmp(name, b->only) != 0)
    return true;
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

/* Calls the driver's functions by their address, since bench/gpu is not linked with the
 * driver. */
void gpu_watch(const struct gpu_bench *b, bool watch)
{
  if (b->only == NULL)
    return;
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  int (*call)(void) = NULL;
  if (driver == NULL)
    return;
  *(void **)&call = dlsym(driver, watch ? "cuProfilerStart" : "cuProfilerStop");
  if (call != NULL)
    call();
  dlclose(driver);
}
