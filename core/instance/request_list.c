/* SPDX-License-Identifier: Apache-2.0 */
/* Sorted pointer arrays; see request_list.h. */
#include "core/instance/request_list.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int lls_request_list_init(struct lls_request_list *l, uint32_t capacity)
{
  *l = (struct lls_request_list){.capacity = capacity};
  l->room = malloc(2 * (size_t)capacity * sizeof *l->room);
  l->items = l->room;
  return l->room != NULL ? 0 : -ENOMEM;
}

void lls_request_list_free(struct lls_request_list *l)
{
  free(l->room);
  *l = (struct lls_request_list){0};
}

/* Returns the index of the first item whose id is not below `id`. */
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

static void move(struct lls_request_list *l, uint32_t to, uint32_t from, uint32_t n)
{
  memmove(&l->items[to], &l->items[from], n * sizeof *l->items);
}

/* A list that has reached the end of its memory moves back to the beginning, at most
 * once in `capacity` insertions. */
static void make_room(struct lls_request_list *l)
{
  if (l->items + l->n < l->room + 2 * (size_t)l->capacity)
    return;
  memmove(l->room, l->items, l->n * sizeof *l->items);
  l->items = l->room;
}

void lls_request_list_insert(struct lls_request_list *l, const struct lls_request *r)
{
  assert(l->n < l->capacity);
  uint32_t at = lower_bound(l, r->id);
  if (at < l->n / 2 && l->items > l->room) {
    l->items--;
    move(l, 0, 1, at);
  } else {
    make_room(l);
    move(l, at + 1, at, l->n - at);
  }
  l->items[at] = r;
  l->n++;
}

void lls_request_list_remove(struct lls_request_list *l, const struct lls_request *r)
{
  uint32_t at = lower_bound(l, r->id);
  assert(at < l->n && l->items[at] == r);
  if (at < l->n / 2) {
    move(l, 1, 0, at);
    l->items++;
  } else {
    move(l, at, at + 1, l->n - at - 1);
  }
  l->n--;
}
