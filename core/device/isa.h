/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instruction set levels of the CPU device, named as in [engine] isa and in benchmarks.
 * Levels are ordered: each contains all lower ones, and every level computes every
 * operation (if it has no kernel of its own, it uses the next lower level's). Only
 * avxvnni is missing on some CPUs with avx512; but avx512 has its own version of
 * everything that avxvnni implements. kernels/cpu/isa.h says which levels a machine
 * has.
 */
#ifndef LLS_DEVICE_ISA_H
#define LLS_DEVICE_ISA_H

enum lls_isa {
  LLS_ISA_GENERIC, /* plain C, sums in double: the reference, and for other machines */
  LLS_ISA_AVX2,    /* avx2, fma, f16c */
  LLS_ISA_AVXVNNI, /* avx_vnni */
  LLS_ISA_AVX512,  /* avx512 f, bw, vl, dq, bf16, vnni */
  LLS_ISA_AMX,     /* amx tile, bf16, int8, if the operating system permits it */
  LLS_ISA_LEVELS
};

const char *lls_isa_name(enum lls_isa);

#endif
