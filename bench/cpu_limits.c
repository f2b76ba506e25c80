/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the limits with which the other benchmarks compare: how fast the given threads
 * read this machine's memory and multiply matrices.
 *
 *   bench/cpu_limits [-t threads]
 */
#include "bench/limits.h"

#include "kernels/cpu/isa.h"

#include <stdio.h>
#include <unistd.h>

#define ROUNDS 15

static void print_rate(const char *what, double values[ROUNDS], const char *unit)
{
  double median = bench_median(values, ROUNDS);
  if (median == 0) {
    printf("%-34s not on this CPU\n", what);
    return;
  }
  printf("%-34s median %7.1f  best %7.1f  worst %7.1f %s\n", what, median * 1e-9,
         values[ROUNDS - 1] * 1e-9, values[0] * 1e-9, unit);
}

static void print_limits(struct limits *l)
{
  static const char *const names[] = {[LIMITS_F32] = "f32 product (oneDNN)",
                                      [LIMITS_BF16] = "bf16 product (oneDNN)",
                                      [LIMITS_INT8] = "int8 product (oneDNN)"};
  double read[2][ROUNDS], product[LIMITS_N_TYPES][ROUNDS];
  struct limits_way way = {0};
  for (int i = 0; i < ROUNDS; i++) {
    read[0][i] = limits_read(l, false, NULL);
    read[1][i] = limits_read(l, true, &way);
    for (enum limits_type t = 0; t < LIMITS_N_TYPES; t++)
      product[t][i] = limits_product(l, t);
  }
  print_rate("memory read, 4 KiB pages", read[0], "GB/s");
  print_rate("memory read, 2 MiB pages", read[1], "GB/s");
  printf("  in the last round fastest as %u streams of a thread, asked for %zu bytes "
         "ahead\n",
         way.streams, way.ahead);
  for (enum limits_type t = 0; t < LIMITS_N_TYPES; t++)
    print_rate(names[t], product[t], t == LIMITS_INT8 ? "GOP/s" : "GFLOP/s");
}

int main(int argc, char **argv)
{
  unsigned n = 0;
  for (int option; (option = getopt(argc, argv, "t:")) != -1;) {
    if (option == 't')
      n = (unsigned)strtoul(optarg, NULL, 10);
    else
      return 2;
  }
  struct lls_cpu_threads *threads;
  struct limits l;
  if (lls_cpu_threads_create(n, true, &threads) != 0)
    return 1;
  n = lls_cpu_threads_count(threads);
  if (limits_create(threads, &l) != 0) {
    fprintf(stderr, "bench/cpu_limits: out of memory\n");
    return 1;
  }
  printf("%u threads, %s\n", n, lls_cpu_level_best()->name);
  print_limits(&l);
  limits_destroy(&l);
  lls_cpu_threads_destroy(threads);
  return 0;
}
