/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory this machine has. */
#ifndef LLS_DEVICE_HOST_MEMORY_H
#define LLS_DEVICE_HOST_MEMORY_H

#include <stddef.h>

/* Bytes of this machine's memory, or of the control group's where it has less: all, and
 * those available. -ENOTSUP. */
int lls_host_memory_size(size_t *total, size_t *available);

#endif
