/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The heap of this process, counted: our malloc and free are seen by plugins and
 * libraries instead of the C library's own, whose statistics count what threads keep for
 * reuse as in use. Under the address sanitizer, which needs its own, nothing is counted.
 */
#ifndef CHECK_HEAP_H
#define CHECK_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool heap_is_counted(void);
size_t heap_in_use(void);  /* bytes */
uint64_t heap_calls(void); /* of every function of malloc's family */

#endif
