/* SPDX-License-Identifier: Apache-2.0 */
/* See isa.h. */
#include "core/device/isa.h"

static const char *const names[LLS_ISA_LEVELS] = {
    [LLS_ISA_GENERIC] = "generic",
    [LLS_ISA_AVX2] = "avx2",
    [LLS_ISA_AVX512] = "avx512",
    [LLS_ISA_AMX] = "amx",
};

const char *lls_isa_name(enum lls_isa isa)
{
  return names[isa];
}
