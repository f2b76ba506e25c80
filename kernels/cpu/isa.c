/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the ISA level from CPUID, and asks Linux for the AMX tiles; see isa.h. */
#include "kernels/cpu/isa.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#if defined __x86_64__
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool have_avx2(void)
{
  unsigned a, b, c, d;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

/* CPUID (7, 1): eax bit 4. */
static bool have_avxvnni(void)
{
  unsigned a, b, c, d;
  return have_avx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
}

static bool have_avx512(void)
{
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni");
}

/* CPUID (7, 0): edx bit 22 is AMX-BF16, 24 AMX-TILE, 25 AMX-INT8. Linux lets a process
 * use the tiles after it asked for their state (arch_prctl, ARCH_REQ_XCOMP_PERM). */
static bool have_amx(void)
{
  enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
  unsigned a, b, c, d;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
    return false;
  if (!(d >> 22 & 1) || !(d >> 24 & 1) || !(d >> 25 & 1))
    return false;
  return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

static bool has_level(enum lls_isa level)
{
  __builtin_cpu_init();
  switch (level) {
  case LLS_ISA_AVX2:
    return have_avx2();
  case LLS_ISA_AVXVNNI:
    return have_avxvnni();
  case LLS_ISA_AVX512:
    return have_avx2() && have_avx512();
  case LLS_ISA_AMX:
    return have_avx2() && have_avx512() && have_amx();
  default:
    return true;
  }
}
#else
static bool has_level(enum lls_isa level)
{
  return level == LLS_ISA_GENERIC;
}
#endif

enum lls_isa lls_isa_best(void)
{
  enum lls_isa level = LLS_ISA_AMX;
  while (!has_level(level))
    level--;
  return level;
}

int lls_isa_from_name(const char *name, enum lls_isa *out)
{
  if (name == NULL) {
    *out = lls_isa_best();
    return 0;
  }
  for (enum lls_isa i = LLS_ISA_GENERIC; i < LLS_ISA_LEVELS; i++) {
    if (strcmp(name, lls_isa_name(i)) != 0)
      continue;
    *out = i;
    return has_level(i) ? 0 : -ENOTSUP;
  }
  return -EINVAL;
}
