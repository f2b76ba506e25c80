/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Levels of the CPU device, as [engine] isa and bench names have them. Levels are
 * ordered: each contains the ones below it, and every level computes every operation
 * (what a level does not do itself is done by the next one below). Only avxvnni is left
 * out by some CPUs which have avx512; that does all that avxvnni does itself.
 * kernels/cpu/isa.h says which of them a machine has.
 */
#ifndef LLS_DEVICE_ISA_H
#define LLS_DEVICE_ISA_H

enum lls_isa {
  LLS_ISA_GENERIC, /* plain C, sums in double: the reference, and other machines */
  LLS_ISA_AVX2,    /* avx2, fma, f16c */
  LLS_ISA_AVXVNNI, /* avx_vnni */
  LLS_ISA_AVX512,  /* avx512 f, bw, vl, dq, bf16, vnni */
  LLS_ISA_AMX,     /* amx tile, bf16, int8, with the kernel's permission */
  LLS_ISA_LEVELS
};

const char *lls_isa_name(enum lls_isa);

#endif
