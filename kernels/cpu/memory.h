/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the CPU device: zeroed, 2 MiB aligned and on huge pages where it is that
 * large. With 4 KiB pages a core reads a fifth less (bench/cpu_limits prints both).
 */
#ifndef LLS_CPU_MEMORY_H
#define LLS_CPU_MEMORY_H

#include <stddef.h>

int lls_cpu_memory_alloc(size_t bytes, void **out); /* -ENOMEM */
void lls_cpu_memory_free(void *);                   /* NULL is fine */
/* Total and available bytes of the machine (of the control group where it is less). */
int lls_cpu_memory_size(size_t *total, size_t *available);

#endif
