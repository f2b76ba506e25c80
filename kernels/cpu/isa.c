/* SPDX-License-Identifier: Apache-2.0 */
/* The levels, one a row, and the detection of what this CPU supports: on x86-64 from
 * CPUID and Linux, on aarch64 from Linux. */
#include "kernels/cpu/cpu.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* A CPU may have these features; a level needs some of them. */
enum {
  AVX2 = 1 << 0,    /* with fma and f16c */
  AVXVNNI = 1 << 1, /* avx_vnni */
  AVX512 = 1 << 2,  /* f, bw, vl, dq, bf16 and vnni */
  AMX = 1 << 3,     /* tile, bf16 and int8, with the kernel's permission */
  NEON = 1 << 4,    /* with dotprod */
  I8MM = 1 << 5,    /* i8mm and bf16 */
};

/* ---- the levels -------------------------------------------------------------------- */

/* Functions of a processor's levels exist in its own builds only. */
#ifdef __x86_64__
#define X86(function) function
#else
#define X86(function) NULL
#endif
#ifdef __aarch64__
#define ARM(function) function
#else
#define ARM(function) NULL
#endif

/* Plain C, with sums in double, is the reference, and all that other processors have.
 * Some CPUs with AVX-512 lack avx_vnni, whose kernels AVX-512 has itself. */
static const struct lls_cpu_level levels[] = {
    {"generic", 0, lls_cpu_linear_generic, lls_cpu_codes_generic,
     lls_cpu_attention_generic, lls_cpu_rows_generic, lls_cpu_int8_generic,
     lls_cpu_recurrent_generic},
    {"avx2", AVX2, X86(lls_cpu_linear_avx2), X86(lls_cpu_codes_avx2),
     X86(lls_cpu_attention_avx2), X86(lls_cpu_rows_avx2), X86(lls_cpu_int8_avx2),
     X86(lls_cpu_recurrent_avx2)},
    {"avxvnni", AVX2 | AVXVNNI, NULL, X86(lls_cpu_codes_avxvnni), NULL, NULL, NULL, NULL},
    {"avx512", AVX2 | AVX512, X86(lls_cpu_linear_avx512), X86(lls_cpu_codes_avx512),
     X86(lls_cpu_attention_avx512), X86(lls_cpu_rows_avx512), X86(lls_cpu_int8_avx512),
     X86(lls_cpu_recurrent_avx512)},
    {"amx", AVX2 | AVX512 | AMX, X86(lls_cpu_linear_amx), X86(lls_cpu_codes_amx),
     X86(lls_cpu_attention_amx), NULL, NULL, NULL},
    {"neon", NEON, ARM(lls_cpu_linear_neon), ARM(lls_cpu_codes_neon),
     ARM(lls_cpu_attention_neon), ARM(lls_cpu_rows_neon), ARM(lls_cpu_int8_neon),
     ARM(lls_cpu_recurrent_neon)},
    {"i8mm", NEON | I8MM, ARM(lls_cpu_linear_i8mm), ARM(lls_cpu_codes_i8mm), NULL, NULL,
     NULL, NULL},
};

#define N_LEVELS (sizeof levels / sizeof *levels)

#define ONE(name) +1
_Static_assert(N_LEVELS == LLS_ISA_LEVELS(ONE, ONE),
               "each name of core/device/isa.h has a row");

/* ---- the CPU ----------------------------------------------------------------------- */

#ifdef __x86_64__
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
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
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

/* Asks Linux for the AMX tiles only if the features include them. */
static bool cpu_has(unsigned wanted)
{
  __builtin_cpu_init();
  return !(wanted & (NEON | I8MM)) && (!(wanted & AVX2) || have_avx2()) &&
         (!(wanted & AVXVNNI) || have_avxvnni()) &&
         (!(wanted & AVX512) || have_avx512()) && (!(wanted & AMX) || have_amx());
}
#elif defined __aarch64__
#include <sys/auxv.h>

static bool cpu_has(unsigned wanted)
{
  const unsigned long has = getauxval(AT_HWCAP), has2 = getauxval(AT_HWCAP2);
  unsigned found = (has & HWCAP_ASIMDDP) != 0 ? NEON : 0;
  if ((has2 & HWCAP2_I8MM) != 0 && (has2 & HWCAP2_BF16) != 0)
    found |= I8MM;
  return (wanted & ~found) == 0;
}
#else
static bool cpu_has(unsigned wanted)
{
  return wanted == 0;
}
#endif

/* ---- choosing one ------------------------------------------------------------------ */

const struct lls_cpu_level *lls_cpu_level_at(size_t i)
{
  return i < N_LEVELS ? &levels[i] : NULL;
}

const struct lls_cpu_level *lls_cpu_level_best(void)
{
  const struct lls_cpu_level *level = levels + N_LEVELS - 1;
  while (!cpu_has(level->needs))
    level--;
  return level;
}

int lls_cpu_level_find(const char *name, const struct lls_cpu_level **out)
{
  if (name == NULL) {
    *out = lls_cpu_level_best();
    return 0;
  }
  for (size_t i = 0; (*out = lls_cpu_level_at(i)) != NULL; i++)
    if (strcmp(name, (*out)->name) == 0)
      return cpu_has((*out)->needs) ? 0 : -ENOTSUP;
  return -EINVAL;
}

static void put_own(struct lls_cpu_kernels *k, const struct lls_cpu_level *level)
{
  if (level->linear != NULL)
    level->linear(&k->linear);
  if (level->codes != NULL)
    level->codes(&k->linear);
  if (level->attention != NULL)
    level->attention(&k->attention);
  if (level->rows != NULL)
    level->rows(&k->rows);
  if (level->int8 != NULL)
    level->int8(&k->int8);
  if (level->recurrent != NULL)
    level->recurrent(&k->recurrent);
}

void lls_cpu_kernels_fill(struct lls_cpu_kernels *k, const struct lls_cpu_level *level)
{
  for (const struct lls_cpu_level *below = levels; below <= level; below++)
    if ((below->needs & ~level->needs) == 0)
      put_own(k, below);
}
