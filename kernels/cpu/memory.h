/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the CPU device: zeroed, 2 MiB aligned and, for large allocations, on huge
 * pages. With 4 KiB pages a core reads a fifth slower (bench/cpu_limits prints both).
 */
#ifndef LLS_CPU_MEMORY_H
#define LLS_CPU_MEMORY_H

#include <stddef.h>

int lls_cpu_memory_alloc(size_t bytes, void **out); /* Returns 0 or -ENOMEM. */
/* Frees an allocation; NULL is allowed. */
void lls_cpu_memory_free(void *);

#endif
