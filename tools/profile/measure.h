/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the times of steps and copies on a real engine. */
#ifndef LLS_PROFILE_TOOL_MEASURE_H
#define LLS_PROFILE_TOOL_MEASURE_H

#include "core/engine/engine.h"
#include "tools/profile/shapes.h"

struct lls_bench_engine {
  struct lls_engine *engine;
  struct lls_engine_sequence *sequences; /* (max_sequences) */
  struct lls_block_table *tables;        /* (max_sequences) */
  struct lls_group_list *lists;          /* (max_sequences, groups) */
  struct lls_block_entry *entries;       /* (device_units) */
  int32_t *tokens;                       /* (max_tokens) */
  uint32_t max_sequences;
};

int lls_bench_engine_init(struct lls_bench_engine *, struct lls_engine *,
                          struct lls_error *err);
void lls_bench_engine_free(struct lls_bench_engine *);

/* One step of that shape, one copy of n whole blocks to the host: nanoseconds. */
int lls_bench_step(struct lls_bench_engine *, const struct lls_shape *, double *ns,
                   struct lls_error *err);
int lls_bench_copy(struct lls_bench_engine *, uint32_t n, double *ns,
                   struct lls_error *err);

/* Returns the median; sorts the numbers. */
double lls_median(double *numbers, size_t n);

#endif
