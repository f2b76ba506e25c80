/* SPDX-License-Identifier: Apache-2.0 */
/* kernels/cpu/isa.c on a machine that says it has AMX: CPUID and the kernel are answered
 * for here. A CPU without AVX-512 still can't run the level. */
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* AMX-BF16, AMX-TILE and AMX-INT8 are there. AVX-VNNI is not: t/kernel tests that level.
 * Everything else is as the CPU says. */
static inline int count_with_amx(unsigned leaf, unsigned subleaf, unsigned *a,
                                 unsigned *b, unsigned *c, unsigned *d)
{
  int known = __get_cpuid_count(leaf, subleaf, a, b, c, d);
  if (known && leaf == 7 && subleaf == 0)
    *d |= 1u << 22 | 1u << 24 | 1u << 25;
  if (known && leaf == 7 && subleaf == 1)
    *a &= ~(1u << 4);
  return known;
}

#define __get_cpuid_count                   count_with_amx
#define syscall(number, request, component) ((void)(request), (void)(component), 0)

#include "kernels/cpu/isa.c"
