/* SPDX-License-Identifier: Apache-2.0 */
/* See heap.h. */
#include "heap.h"

#include <errno.h>
#include <stdlib.h>

int heap_init(struct heap *h, uint32_t capacity)
{
  *h = (struct heap){.capacity = capacity};
  h->entries = malloc(((size_t)capacity + 1) * sizeof *h->entries);
  return h->entries != NULL ? 0 : -ENOMEM;
}

void heap_free(struct heap *h)
{
  free(h->entries);
}

static void put(struct heap *h, uint32_t i, struct heap_entry e)
{
  h->entries[i] = e;
  if (e.place != NULL)
    *e.place = i + 1;
}

static void sift_up(struct heap *h, uint32_t i, struct heap_entry e)
{
  for (; i > 0 && heap_before(&e, &h->entries[(i - 1) / 2]); i = (i - 1) / 2)
    put(h, i, h->entries[(i - 1) / 2]);
  put(h, i, e);
}

static void sift_down(struct heap *h, uint32_t i, struct heap_entry e)
{
  for (uint32_t child; (child = 2 * i + 1) < h->n; i = child) {
    if (child + 1 < h->n && heap_before(&h->entries[child + 1], &h->entries[child]))
      child++;
    if (!heap_before(&h->entries[child], &e))
      break;
    put(h, i, h->entries[child]);
  }
  put(h, i, e);
}

void heap_push(struct heap *h, struct heap_entry e)
{
  sift_up(h, h->n++, e);
}

struct heap_entry heap_remove(struct heap *h, uint32_t i)
{
  struct heap_entry out = h->entries[i], last = h->entries[--h->n];
  if (out.place != NULL)
    *out.place = 0;
  if (i == h->n)
    return out;
  if (i > 0 && heap_before(&last, &h->entries[(i - 1) / 2]))
    sift_up(h, i, last);
  else
    sift_down(h, i, last);
  return out;
}

struct heap_entry heap_pop(struct heap *h)
{
  return heap_remove(h, 0);
}

/* Whoever comes next is a child of one that has come. */
uint32_t heap_first(const struct heap *h, uint32_t max, void *out[HEAP_LOOKED_AT])
{
  uint32_t open[HEAP_LOOKED_AT + 2], n_open = h->n > 0, n = 0;
  open[0] = 0;
  max = max < HEAP_LOOKED_AT ? max : HEAP_LOOKED_AT;
  while (n < max && n_open > 0) {
    uint32_t first = 0;
    for (uint32_t i = 1; i < n_open; i++)
      if (heap_before(&h->entries[open[i]], &h->entries[open[first]]))
        first = i;
    uint32_t at = open[first], child = 2 * at + 1;
    out[n++] = h->entries[at].item;
    open[first] = open[--n_open];
    for (uint32_t i = child; i < child + 2 && i < h->n; i++)
      open[n_open++] = i;
  }
  return n;
}

void heap_build(struct heap *h)
{
  for (uint32_t i = 0; i < h->n; i++)
    put(h, i, h->entries[i]);
  for (uint32_t i = h->n / 2; i-- > 0;)
    sift_down(h, i, h->entries[i]);
}

void heap_clear(struct heap *h)
{
  for (uint32_t i = 0; i < h->n; i++)
    if (h->entries[i].place != NULL)
      *h->entries[i].place = 0;
  h->n = 0;
}
