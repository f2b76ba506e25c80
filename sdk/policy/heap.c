/* SPDX-License-Identifier: Apache-2.0 */
/* See heap.h. */
#include <llmserve/policy/check.h>
#include <llmserve/policy/heap.h>

#include <errno.h>
#include <stdlib.h>

int lls_pol_heap_init(struct lls_pol_heap *h, uint32_t capacity)
{
  *h = (struct lls_pol_heap){.capacity = capacity};
  h->entries = malloc(((size_t)capacity + 1) * sizeof *h->entries);
  return h->entries != NULL ? 0 : -ENOMEM;
}

void lls_pol_heap_free(struct lls_pol_heap *h)
{
  free(h->entries);
}

static void put(struct lls_pol_heap *h, uint32_t i, struct lls_pol_heap_entry e)
{
  h->entries[i] = e;
  if (e.place != NULL)
    *e.place = i + 1;
}

static void sift_up(struct lls_pol_heap *h, uint32_t i, struct lls_pol_heap_entry e)
{
  for (; i > 0 && lls_pol_heap_before(&e, &h->entries[(i - 1) / 2]); i = (i - 1) / 2)
    put(h, i, h->entries[(i - 1) / 2]);
  put(h, i, e);
}

static void sift_down(struct lls_pol_heap *h, uint32_t i, struct lls_pol_heap_entry e)
{
  for (uint32_t child; (child = 2 * i + 1) < h->n; i = child) {
    if (child + 1 < h->n &&
        lls_pol_heap_before(&h->entries[child + 1], &h->entries[child]))
      child++;
    if (!lls_pol_heap_before(&h->entries[child], &e))
      break;
    put(h, i, h->entries[child]);
  }
  put(h, i, e);
}

void lls_pol_heap_push(struct lls_pol_heap *h, struct lls_pol_heap_entry e)
{
  LLS_POL_CHECK(h->n <= h->capacity); /* `entries` has capacity + 1 places */
  sift_up(h, h->n++, e);
}

struct lls_pol_heap_entry lls_pol_heap_remove(struct lls_pol_heap *h, uint32_t i)
{
  LLS_POL_CHECK(i < h->n);
  struct lls_pol_heap_entry out = h->entries[i], last = h->entries[--h->n];
  LLS_POL_CHECK(out.place == NULL || *out.place == i + 1);
  if (out.place != NULL)
    *out.place = 0;
  if (i == h->n)
    return out;
  if (i > 0 && lls_pol_heap_before(&last, &h->entries[(i - 1) / 2]))
    sift_up(h, i, last);
  else
    sift_down(h, i, last);
  return out;
}

struct lls_pol_heap_entry lls_pol_heap_pop(struct lls_pol_heap *h)
{
  return lls_pol_heap_remove(h, 0);
}

/* The next entry in order is always a child of an entry already returned: `open` holds
 * these children. */
uint32_t lls_pol_heap_first(const struct lls_pol_heap *h, uint32_t max,
                            void *out[LLS_POL_HEAP_LOOKED_AT])
{
  uint32_t open[LLS_POL_HEAP_LOOKED_AT + 2], n_open = h->n > 0, n = 0;
  open[0] = 0;
  max = max < LLS_POL_HEAP_LOOKED_AT ? max : LLS_POL_HEAP_LOOKED_AT;
  while (n < max && n_open > 0) {
    uint32_t first = 0;
    for (uint32_t i = 1; i < n_open; i++)
      if (lls_pol_heap_before(&h->entries[open[i]], &h->entries[open[first]]))
        first = i;
    uint32_t at = open[first], child = 2 * at + 1;
    out[n++] = h->entries[at].item;
    open[first] = open[--n_open];
    for (uint32_t i = child; i < child + 2 && i < h->n; i++)
      open[n_open++] = i;
  }
  return n;
}

void lls_pol_heap_build(struct lls_pol_heap *h)
{
  for (uint32_t i = 0; i < h->n; i++)
    put(h, i, h->entries[i]);
  for (uint32_t i = h->n / 2; i-- > 0;)
    sift_down(h, i, h->entries[i]);
}

void lls_pol_heap_clear(struct lls_pol_heap *h)
{
  for (uint32_t i = 0; i < h->n; i++)
    if (h->entries[i].place != NULL)
      *h->entries[i].place = 0;
  h->n = 0;
}
