/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the heap of this process. Our malloc and free replace the C library's for
 * plugins and libraries, because the C library's statistics count memory that threads
 * keep for reuse as in use. Under the address sanitizer, which replaces malloc itself,
 * nothing is counted.
 */
#ifndef CHECK_HEAP_H
#define CHECK_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool heap_is_counted(void);
size_t heap_in_use(void);  /* bytes */
uint64_t heap_calls(void); /* calls to all functions of malloc's family */

#endif
