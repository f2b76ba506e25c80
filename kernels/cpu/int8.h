/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels that convert a head's block of K or V to INT8 and back; int8.c has the
 * format and its error. All levels give the same bits.
 */
#ifndef LLS_CPU_INT8_H
#define LLS_CPU_INT8_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/cpu/isa.h"

/* The slots of one head. */
struct lls_int8_head {
  char *numbers;    /* (n_slots, dims) values in bf16 or f32 */
  uint8_t *codes;   /* (n_slots, dims) */
  uint16_t *scales; /* (2, dims) f16: steps, then least values */
  bool bf16;
  uint32_t n_slots, dims;
};

struct lls_cpu_int8_kernels {
  /* Computes the codes and scales of dims [first, past) from the values. */
  void (*quantise)(const struct lls_int8_head *, uint32_t first, uint32_t past);
  /* Computes the values of dims [first, past) from the codes and scales. */
  void (*widen)(const struct lls_int8_head *, uint32_t first, uint32_t past);
};

void lls_cpu_int8_quantise(const struct lls_int8_head *, uint32_t first, uint32_t past);
void lls_cpu_int8_widen(const struct lls_int8_head *, uint32_t first, uint32_t past);

#endif
