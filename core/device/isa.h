/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of the instruction set levels of the CPU device, as in [engine] isa and in
 * benchmarks. kernels/cpu/isa.c says what each level needs of the CPU, and which kernels
 * it has.
 */
#ifndef LLS_DEVICE_ISA_H
#define LLS_DEVICE_ISA_H

/* Expands FIRST with the first name and NEXT with each further one. The best level of a
 * CPU is the last one that it can run. */
#define LLS_ISA_LEVELS(FIRST, NEXT)                                                      \
  FIRST(generic) NEXT(avx2) NEXT(avxvnni) NEXT(avx512) NEXT(amx) NEXT(neon) NEXT(i8mm)

#define LLS_ISA_FIRST_CHOICE(name) #name
#define LLS_ISA_NEXT_CHOICE(name)  "|" #name
/* "generic|avx2|...", the choices of a setting. */
#define LLS_ISA_CHOICES LLS_ISA_LEVELS(LLS_ISA_FIRST_CHOICE, LLS_ISA_NEXT_CHOICE)

#endif
