/* SPDX-License-Identifier: Apache-2.0 */
/* Which levels of kernels this CPU can run. */
#ifndef LLS_CPU_ISA_H
#define LLS_CPU_ISA_H

#include "core/device/isa.h"

/* The highest level that this machine runs. Asks Linux for AMX if the CPU has it. */
enum lls_isa lls_isa_best(void);
/* Sets *out to the level of that name; NULL: to the best one. Returns -EINVAL if no
 * level has the name, -ENOTSUP if this CPU does not have the level. */
int lls_isa_from_name(const char *name, enum lls_isa *out);

#endif
