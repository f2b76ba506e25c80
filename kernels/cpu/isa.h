/* SPDX-License-Identifier: Apache-2.0 */
/* Which levels of kernels this CPU can run. */
#ifndef LLS_CPU_ISA_H
#define LLS_CPU_ISA_H

#include "core/device/isa.h"

/* The highest level this machine runs. Asks the kernel for AMX where the CPU has it. */
enum lls_isa lls_isa_best(void);
/* -EINVAL: no such name; -ENOTSUP: this CPU does not have it. NULL: the best. */
int lls_isa_from_name(const char *name, enum lls_isa *out);

#endif
