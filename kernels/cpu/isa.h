/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which kernels this CPU can run. Levels are ordered: each contains the ones below it,
 * and every level computes every operation (what a level does not do itself is done by
 * the next one below).
 */
#ifndef LLS_CPU_ISA_H
#define LLS_CPU_ISA_H

enum lls_isa {
  LLS_ISA_GENERIC, /* plain C, sums in double: the reference, and other machines */
  LLS_ISA_AVX2,    /* avx2, fma, f16c */
  LLS_ISA_AVX512,  /* avx512 f, bw, vl, dq, bf16 */
  LLS_ISA_AMX,     /* amx tile, bf16, with the kernel's permission */
};

/* The highest level this machine runs. Asks the kernel for AMX where the CPU has it. */
enum lls_isa lls_isa_best(void);
const char *lls_isa_name(enum lls_isa);
/* -EINVAL: no such name; -ENOTSUP: this CPU does not have it. NULL: the best. */
int lls_isa_from_name(const char *name, enum lls_isa *out);

#endif
