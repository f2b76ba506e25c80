/* SPDX-License-Identifier: Apache-2.0 */
/* Sorted pointer arrays; see request_list.h. */
#include "core/loop/request_list.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int lls_request_list_init(struct lls_request_list *l, uint32_t capacity)
{
  *l = (struct lls_request_list){.capacity = capacity};
  l->items = malloc(capacity * sizeof *l->items);
  return l->items != NULL ? 0 : -ENOMEM;
}

void lls_request_list_free(struct lls_request_list *l)
{
  free(l->items);
  *l = (struct lls_request_list){0};
}

/* Index of the first item whose id is not below `id`. */
static uint32_t lower_bound(const struct lls_request_list *l, uint64_t id)
{
  uint32_t low = 0, high = l->n;
  if (high > 0 && l->items[high - 1]->id < id)
    return high; /* an arrival: by far the most frequent case */
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (l->items[middle]->id < id)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

void lls_request_list_insert(struct lls_request_list *l, const struct lls_request *r)
{
  assert(l->n < l->capacity);
  uint32_t at = lower_bound(l, r->id);
  memmove(&l->items[at + 1], &l->items[at], (l->n - at) * sizeof *l->items);
  l->items[at] = r;
  l->n++;
}

void lls_request_list_remove(struct lls_request_list *l, const struct lls_request *r)
{
  uint32_t at = lower_bound(l, r->id);
  assert(at < l->n && l->items[at] == r);
  memmove(&l->items[at], &l->items[at + 1], (l->n - at - 1) * sizeof *l->items);
  l->n--;
}
