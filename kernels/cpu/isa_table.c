/* SPDX-License-Identifier: Apache-2.0 */
/* Fills a level's table: its own kernels replace those of the levels below. */
#include "kernels/cpu/cpu.h"

void lls_cpu_kernels_fill(struct lls_cpu_kernels *k, enum lls_isa isa)
{
  lls_cpu_linear_generic(&k->linear);
  lls_cpu_codes_generic(&k->linear);
  lls_cpu_attention_generic(&k->attention);
  lls_cpu_rows_generic(&k->rows);
  lls_cpu_int8_generic(&k->int8);
#ifdef __x86_64__
  if (isa >= LLS_ISA_AVX2) {
    lls_cpu_linear_avx2(&k->linear);
    lls_cpu_codes_avx2(&k->linear);
    lls_cpu_attention_avx2(&k->attention);
    lls_cpu_rows_avx2(&k->rows);
    lls_cpu_int8_avx2(&k->int8);
  }
  if (isa == LLS_ISA_AVXVNNI)
    lls_cpu_codes_avxvnni(&k->linear);
  if (isa >= LLS_ISA_AVX512) {
    lls_cpu_linear_avx512(&k->linear);
    lls_cpu_codes_avx512(&k->linear);
    lls_cpu_attention_avx512(&k->attention);
    lls_cpu_rows_avx512(&k->rows);
    lls_cpu_int8_avx512(&k->int8);
  }
  if (isa >= LLS_ISA_AMX) {
    lls_cpu_linear_amx(&k->linear);
    lls_cpu_codes_amx(&k->linear);
    lls_cpu_attention_amx(&k->attention);
  }
#else
  (void)isa;
#endif
}
