/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA device against the limits of the GPU it runs on, which are measured first in
 * the same run: operations, then steps of whole models with dummy weights. Everything
 * goes through the device's vtable and the engine, as in the server.
 *
 *   bench/gpu [all|operations|models|experts|limits] [seconds]
 *   bench/gpu one "decode 32/8 heads, 16 x 4096" [seconds]
 *
 * Eight minutes (480) are enough for everything on an H200. A measurement for which time
 * or memory is too short is named and left out. `one` runs a single operation, by its
 * name in the output, for a profiler, which records the last step of a model. `limits`
 * measures only the limits. Exit status: 1 if a mark was missed, 77 without a GPU.
 */
#include "bench/gpu.h"

#include <stdio.h>
#include <string.h>

static _Noreturn void usage(void)
{
  fprintf(stderr, "usage: bench/gpu [all|operations|models|experts|limits|one NAME] "
                  "[seconds, 60 to 3600]\n");
  exit(2);
}

/* True if the result is of a model's step: its name begins with the model's, as in
 * "llama-3-8b decode 16 x 1024". */
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
  bool all = strcmp(part, "all") == 0, limits = strcmp(part, "limits") == 0;
  bool operations = all || strcmp(part, "operations") == 0;
  bool models = all || strcmp(part, "models") == 0;
  bool experts = all || strcmp(part, "experts") == 0;
  int seconds = argc > 2 ? atoi(argv[2]) : 480;
  if (argc > 3 || !(operations || models || experts || limits) || seconds < 60 ||
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
  if (experts)
    gpu_mixtures(&b);
  if (models)
    gpu_models(&b, root != NULL ? root : LLS_SRCDIR);
  if (limits)
    return 0;
  if (b.only != NULL && b.done == 0) {
    fprintf(stderr, "bench/gpu: no operation \"%s\": names are those of `operations`\n",
            b.only);
    return 2;
  }
  printf("%u results, %u missed their mark, %u left out\n", b.done, b.missed, b.left_out);
  return b.missed > 0 ? 1 : 0;
}
