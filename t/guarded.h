/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that ends directly before an inaccessible page: a kernel that reads or writes
 * past its arguments faults at once. This works in every build and also for vector
 * instructions, which no sanitizer checks (kernels/cpu/Makefile.inc).
 */
#ifndef LLS_GUARDED_H
#define LLS_GUARDED_H

#include "t/tap.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

static inline size_t page_bytes(void)
{
  return (size_t)sysconf(_SC_PAGESIZE);
}

/* Makes one mapping: [a page with its size | spare | the bytes, zeros | an inaccessible
 * page]. */
static inline void *guarded_alloc(size_t bytes)
{
  const size_t page = page_bytes(), data = (bytes + page - 1) / page * page;
  char *map = mmap(NULL, data + 2 * page, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(map != MAP_FAILED);
  *(size_t *)map = data + 2 * page;
  assert_int_equal(mprotect(map + page + data, page, PROT_NONE), 0);
  return map + page + data - bytes;
}

static inline void guarded_free(void *memory)
{
  const size_t page = page_bytes();
  if (memory == NULL)
    return;
  char *map = (char *)memory - (uintptr_t)memory % page - page;
  assert_int_equal(munmap(map, *(size_t *)map), 0);
}

#endif
