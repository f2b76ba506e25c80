/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Levels of kernels: the CPU features that each needs, and its own kernels. A new level
 * takes its kernel files, a name in core/device/isa.h, a row in isa.c and its flags in
 * Makefile.inc.
 */
#ifndef LLS_CPU_ISA_H
#define LLS_CPU_ISA_H

#include <stddef.h>

#include "core/device/isa.h"

struct lls_cpu_kernels;
struct lls_cpu_linear_kernels;
struct lls_cpu_attention_kernels;
struct lls_cpu_row_kernels;
struct lls_cpu_int8_kernels;
struct lls_cpu_recurrent_kernels;

/* A row of isa.c. The functions put the level's own kernels into a table; NULL: the
 * level has no own kernels of this kind. */
struct lls_cpu_level {
  const char *name;
  unsigned needs; /* features of the CPU, a bit set as numbered in isa.c */
  void (*linear)(struct lls_cpu_linear_kernels *);
  void (*codes)(struct lls_cpu_linear_kernels *);
  void (*attention)(struct lls_cpu_attention_kernels *);
  void (*rows)(struct lls_cpu_row_kernels *);
  void (*int8)(struct lls_cpu_int8_kernels *);
  void (*recurrent)(struct lls_cpu_recurrent_kernels *);
};

/* Returns level i in the order of core/device/isa.h, or NULL if i is past the last. */
const struct lls_cpu_level *lls_cpu_level_at(size_t i);
/* Returns the last level that this CPU can run. Asks Linux for AMX if the CPU has
 * it. */
const struct lls_cpu_level *lls_cpu_level_best(void);
/* Sets *out to the level of that name; NULL: to the best one. Returns -EINVAL if no level
 * has the name, -ENOTSUP if this CPU can't run the level. */
int lls_cpu_level_find(const char *name, const struct lls_cpu_level **out);

/* Fills a table with the kernels of a level: its own, over those of every level before it
 * that needs nothing else of the CPU. */
void lls_cpu_kernels_fill(struct lls_cpu_kernels *, const struct lls_cpu_level *);

/* Declares the functions that put a level's own kernels into a table. A level defines
 * those that its row in isa.c names: linear_*.c, codes_*.c and so on. */
#define LLS_CPU_DECLARE(level)                                                           \
  void lls_cpu_linear_##level(struct lls_cpu_linear_kernels *);                          \
  void lls_cpu_codes_##level(struct lls_cpu_linear_kernels *);                           \
  void lls_cpu_attention_##level(struct lls_cpu_attention_kernels *);                    \
  void lls_cpu_rows_##level(struct lls_cpu_row_kernels *);                               \
  void lls_cpu_int8_##level(struct lls_cpu_int8_kernels *);                              \
  void lls_cpu_recurrent_##level(struct lls_cpu_recurrent_kernels *);
LLS_ISA_LEVELS(LLS_CPU_DECLARE, LLS_CPU_DECLARE)

#endif
