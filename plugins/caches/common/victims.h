/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which a manager would give its sequences up: the greatest weight first,
 * the newest of equals. */
#ifndef VICTIMS_H
#define VICTIMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct victim {
  uint64_t request;
  uint32_t weight;
};

/* False: whoever has this slot is none. */
typedef bool describe_fn(const void *manager, uint32_t slot, struct victim *out);

static inline bool victim_before(const struct victim *a, const struct victim *b)
{
  return a->weight > b->weight || (a->weight == b->weight && a->request > b->request);
}

/* The next in order after `last`, NULL for the first; false if there is none. */
static inline bool victims_next(const void *manager, uint32_t n_slots,
                                describe_fn *describe, const struct victim *last,
                                struct victim *out)
{
  bool found = false;
  for (uint32_t slot = 0; slot < n_slots; slot++) {
    struct victim v;
    if (!describe(manager, slot, &v) || (last != NULL && !victim_before(last, &v)) ||
        (found && !victim_before(&v, out)))
      continue;
    *out = v;
    found = true;
  }
  return found;
}

/* How many were written. A pass over the slots for each: schedulers ask for a few. */
static inline int victims_list(const void *manager, uint32_t n_slots,
                               describe_fn *describe, uint64_t *requests, size_t max)
{
  struct victim last, next;
  size_t n = 0;
  for (; n < max && victims_next(manager, n_slots, describe, n > 0 ? &last : NULL, &next);
       n++) {
    requests[n] = next.request;
    last = next;
  }
  return (int)n;
}

#endif
