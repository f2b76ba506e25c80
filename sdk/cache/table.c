/* SPDX-License-Identifier: Apache-2.0 */
/* See table.h. Linux gives huge pages only to whole pieces of 2 MiB, so a table that has
 * them begins at such a piece and has its last one for itself. */
#define _DEFAULT_SOURCE /* madvise */
#include "table.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_BYTES ((size_t)2 << 20)

/* Tables from here on have huge pages: smaller ones would waste three quarters of one,
 * and are 128 pages at most. */
#define LARGE_BYTES (HUGE_BYTES / 4)

static void *alloc_large(size_t bytes)
{
  size_t whole;
  if (__builtin_add_overflow(bytes, HUGE_BYTES - 1, &whole))
    return NULL;
  whole -= whole % HUGE_BYTES;
  void *table = aligned_alloc(HUGE_BYTES, whole);
  if (table != NULL)
    madvise(table, whole, MADV_HUGEPAGE); /* without huge pages it is only slower */
  return table;
}

void *table_alloc(size_t n, size_t size)
{
  size_t bytes;
  if (__builtin_mul_overflow(n, size, &bytes))
    return NULL;
  return bytes < LARGE_BYTES ? calloc(n, size) : alloc_large(bytes);
}

void *table_calloc(size_t n, size_t size)
{
  void *table = table_alloc(n, size);
  return table != NULL ? memset(table, 0, n * size) : NULL;
}
