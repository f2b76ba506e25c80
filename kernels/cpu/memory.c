/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An allocation is one mapping of its own: [spare | note page | 2 MiB aligned data].
 * The note holds the address and size to unmap. Linux is asked for transparent huge
 * pages (madvise), which it gives only to whole 2 MiB pieces. A matrix, or its tail,
 * that fills at least a quarter of a piece gets the whole piece: the matrices of MiniLM
 * have 0.9 to 1.2 MB, together 5,000 small pages in each pass, more than the
 * second-level TLB holds. Small vectors get small pages.
 *
 * Pages that the administrator has set aside (vm.nr_hugepages) are not used: a failed
 * MAP_FIXED of them leaves a hole in the mapping, where another thread's memory may be
 * mapped, which would then be unmapped with the rest.
 */
#include "kernels/cpu/memory.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)
#define NOTE_PAGE ((size_t)4096)

struct note {
  void *map;
  size_t map_bytes;
};

/* bytes from which on the last piece gets a whole huge page */
#define WORTH_ONE (HUGE_PAGE / 4)

static size_t round_up(size_t bytes, size_t unit)
{
  return (bytes + unit - 1) / unit * unit;
}

int lls_cpu_memory_alloc(size_t bytes, void **out)
{
  if (bytes > SIZE_MAX / 2)
    return -ENOMEM;
  size_t data_bytes = round_up(bytes != 0 ? bytes : 1, NOTE_PAGE);
  size_t map_bytes = HUGE_PAGE + NOTE_PAGE + round_up(data_bytes, HUGE_PAGE);
  char *map = mmap(NULL, map_bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED)
    return -errno;
  char *data = (char *)round_up((uintptr_t)map + NOTE_PAGE, HUGE_PAGE);
  size_t tail = data_bytes % HUGE_PAGE;
  size_t huge_bytes = tail < WORTH_ONE ? data_bytes : round_up(data_bytes, HUGE_PAGE);
  madvise(data, huge_bytes, MADV_HUGEPAGE); /* without huge pages it is only slower */
  *(struct note *)(data - NOTE_PAGE) = (struct note){map, map_bytes};
  *out = data;
  return 0;
}

void lls_cpu_memory_free(void *data)
{
  if (data == NULL)
    return;
  struct note note = *(struct note *)((char *)data - NOTE_PAGE);
  munmap(note.map, note.map_bytes);
}
