/* SPDX-License-Identifier: Apache-2.0 */
/* Takes kernels/cpu/isa.c's place where AMX is emulated: a CPU with AVX-512 has it. */
#include "kernels/cpu/isa.h"

#include <errno.h>
#include <string.h>

enum lls_isa lls_isa_best(void)
{
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni")
             ? LLS_ISA_AMX
             : LLS_ISA_GENERIC;
}

int lls_isa_from_name(const char *name, enum lls_isa *out)
{
  *out = lls_isa_best();
  if (name == NULL)
    return 0;
  for (enum lls_isa i = LLS_ISA_GENERIC; i < LLS_ISA_LEVELS; i++) {
    if (strcmp(name, lls_isa_name(i)) != 0)
      continue;
    *out = i;
    return i <= lls_isa_best() && i != LLS_ISA_AVXVNNI ? 0 : -ENOTSUP;
  }
  return -EINVAL;
}
