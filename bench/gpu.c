/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA device against the limits of the GPU it runs on, which are measured first in
 * the same run: operations, then steps of whole models with dummy weights. Everything
 * goes through the device's vtable and the engine, as in the server.
 *
 *   bench/gpu [all|operations|models] [seconds]
 *   bench/gpu one "decode 32/8 heads, 16 x 4096" [seconds]
 *
 * Eight minutes (480) are enough for all of it on an H200; what there is no more time, or
 * no memory for, is named and left out. `one` is a single operation by its name in the
 * output, for a profiler; of a model's step it watches the last one. It ends with 1 if a
 * mark was missed, with 77 where there is no GPU.
 */
#include "bench/gpu.h"

#include <stdio.h>
#include <string.h>

static _Noreturn void usage(void)
{
  fprintf(stderr, "usage: bench/gpu [all|operations|models|one NAME] "
                  "[seconds, 60 to 3600]\n");
  exit(2);
}

/* A model's results begin with its name: "llama-3-8b decode 16 x 1024". */
static bool is_of_model(const char *name)
{
  return strncmp(name, "llama", 5) == 0 || strncmp(name, "opt", 3) == 0;
}

int main(int argc, char **argv)
{
  struct gpu_bench b = {.done = 0};
  const char *part = argc > 1 ? argv[1] : "all", *root = getenv("LLS_SRCDIR");
  if (argc > 2 && strcmp(part, "one") == 0) {
    b.only = argv[2];
    part = is_of_model(b.only) ? "models" : "operations";
    argc--, argv++;
  }
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
  if (b.only != NULL && b.done == 0) {
    fprintf(stderr, "bench/gpu: no operation \"%s\": names are those of `operations`\n",
            b.only);
    return 2;
  }
  printf("%u results, %u missed their mark, %u left out\n", b.done, b.missed, b.left_out);
  return b.missed > 0 ? 1 : 0;
}
