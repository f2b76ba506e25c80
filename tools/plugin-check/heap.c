/* SPDX-License-Identifier: Apache-2.0 */
/* Counts allocations; see heap.h. The C library's own functions are called by their
 * other names. */
#include "tools/plugin-check/heap.h"

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

#if defined(SANITIZED) || !defined(__GLIBC__)

bool heap_is_counted(void)
{
  return false;
}

size_t heap_in_use(void)
{
  return 0;
}

uint64_t heap_calls(void)
{
  return 0;
}

#else

static atomic_size_t in_use;
static atomic_uint_fast64_t calls;

bool heap_is_counted(void)
{
  return true;
}

size_t heap_in_use(void)
{
  return in_use;
}

uint64_t heap_calls(void)
{
  return calls;
}

#define INTERPOSE __attribute__((visibility("default")))

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);

static void *given(void *p)
{
  calls++;
  if (p != NULL)
    in_use += malloc_usable_size(p);
  return p;
}

INTERPOSE void *malloc(size_t size)
{
  return given(__libc_malloc(size));
}

INTERPOSE void *calloc(size_t n, size_t size)
{
  return given(__libc_calloc(n, size));
}

INTERPOSE void *realloc(void *p, size_t size)
{
  size_t before = p != NULL ? malloc_usable_size(p) : 0;
  void *q = __libc_realloc(p, size);
  if (q != NULL || size == 0)
    in_use -= before;
  return given(q);
}

INTERPOSE void *memalign(size_t alignment, size_t size)
{
  return given(__libc_memalign(alignment, size));
}

INTERPOSE void *aligned_alloc(size_t alignment, size_t size)
{
  return given(__libc_memalign(alignment, size));
}

INTERPOSE int posix_memalign(void **out, size_t alignment, size_t size)
{
  void *p = given(__libc_memalign(alignment, size));
  if (p == NULL)
    return ENOMEM;
  *out = p;
  return 0;
}

INTERPOSE void free(void *p)
{
  calls++;
  if (p != NULL)
    in_use -= malloc_usable_size(p);
  __libc_free(p);
}

#endif
