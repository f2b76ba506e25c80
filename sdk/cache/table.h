/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of tables that plans read and write at random. A plan that begins prompts looks
 * at thousands of entries, each on another page: on pages of 4 KiB these are more than
 * the TLB holds. So large tables have huge pages of Linux, where there are any. Not
 * installed.
 */
#ifndef TABLE_H
#define TABLE_H

#include <stddef.h>

/* Returns memory for n items of `size` bytes each, with any contents; NULL if there is
 * none. free() frees it. */
void *table_alloc(size_t n, size_t size);
/* Returns memory as table_alloc does, all bytes 0. */
void *table_calloc(size_t n, size_t size);

#endif
