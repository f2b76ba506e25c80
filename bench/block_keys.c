/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of keys of cached blocks (core/instance/block_keys.h): ns for a block of 16
 * tokens, beside the time to copy the same bytes, and the most that a step of 256 decodes
 * spends on keys.
 *
 *   make bench/block_keys && bench/block_keys
 */
#include <stdio.h>
#include <string.h>

#include "bench/bench.h"
#include "core/instance/block_keys.h"

#define BLOCK  16
#define BLOCKS 8192
#define RUNS   101

static double measure(struct lls_keys *keys, const int32_t *tokens)
{
  double ns[RUNS];
  for (int run = 0; run < RUNS; run++) {
    double began = bench_seconds();
    keys->n = 0;
    lls_keys_extend(keys, tokens, BLOCK * BLOCKS);
    ns[run] = (bench_seconds() - began) * 1e9 / BLOCKS;
  }
  return bench_median(ns, RUNS);
}

static double measure_copy(int32_t *to, const int32_t *from)
{
  double ns[RUNS];
  for (int run = 0; run < RUNS; run++) {
    double began = bench_seconds();
    memcpy(to, from, BLOCK * BLOCKS * sizeof *to);
    ns[run] = (bench_seconds() - began) * 1e9 / BLOCKS;
  }
  return bench_median(ns, RUNS);
}

int main(void)
{
  static struct lls_key all[BLOCKS];
  static int32_t tokens[BLOCK * BLOCKS], copy[BLOCK * BLOCKS];
  struct lls_keys keys = {.secret = {{1, 2}}, .all = all, .block_tokens = BLOCK};
  for (int32_t i = 0; i < BLOCK * BLOCKS; i++)
    tokens[i] = i * 7919 % 128256;
  double key = measure(&keys, tokens), copied = measure_copy(copy, tokens);
  printf("a key of %d tokens: %.1f ns, %.0f times a copy of them (%.1f ns)\n", BLOCK, key,
         key / copied, copied);
  printf("256 decodes: %.2f us a step where each fills a block, %.2f us on average\n",
         256 * key / 1e3, 256 * key / BLOCK / 1e3);
  return copy[1] == 0; /* keeps the compiler from dropping the copy */
}
