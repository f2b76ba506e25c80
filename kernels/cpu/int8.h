/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels that make a head's block of K or V INT8 and wide again; the form and what
 * it is off by are int8.c's. All levels give the same bits.
 */
#ifndef LLS_CPU_INT8_H
#define LLS_CPU_INT8_H

#include <stdbool.h>
#include <stdint.h>

/* Slots of one head. */
struct lls_int8_head {
  char *numbers;    /* (n_slots, dims) of bf16 or f32 */
  uint8_t *codes;   /* (n_slots, dims) */
  uint16_t *scales; /* (2, dims) f16: steps, least numbers */
  bool bf16;
  uint32_t n_slots, dims;
};

struct lls_cpu_int8_kernels {
  /* Codes and scales of dims [first, past) from the numbers. */
  void (*quantise)(const struct lls_int8_head *, uint32_t first, uint32_t past);
  /* And numbers of those. */
  void (*widen)(const struct lls_int8_head *, uint32_t first, uint32_t past);
};

void lls_cpu_int8_quantise(const struct lls_int8_head *, uint32_t first, uint32_t past);
void lls_cpu_int8_widen(const struct lls_int8_head *, uint32_t first, uint32_t past);

void lls_cpu_int8_generic(struct lls_cpu_int8_kernels *);
#ifdef __x86_64__
void lls_cpu_int8_avx2(struct lls_cpu_int8_kernels *);
void lls_cpu_int8_avx512(struct lls_cpu_int8_kernels *);
#endif

#endif
