/* SPDX-License-Identifier: Apache-2.0 */
/* A stable merge sort by keys. Comparisons may fail, and are charged as work. */
#include "text/template/state.h"

#include <string.h>

struct sorter {
  struct lls_render *render;
  const struct lls_node *node;
  const struct lls_value *keys;
  bool descending;
};

/* Returns true if right must come before left. */
static bool before(const struct sorter *sorter, uint32_t right, uint32_t left)
{
  int sign =
      lls_order(sorter->render, sorter->node, sorter->keys[right], sorter->keys[left]);
  return sorter->descending ? sign > 0 : sign < 0;
}

/* Merges from[start..middle) and from[middle..end) into to. */
static void merge(const struct sorter *sorter, const uint32_t *from, uint32_t *to,
                  size_t start, size_t middle, size_t end)
{
  size_t left = start, right = middle;
  for (size_t i = start; i < end; i++) {
    bool take_right =
        left == middle || (right < end && before(sorter, from[right], from[left]));
    to[i] = take_right ? from[right++] : from[left++];
  }
}

static void reorder(struct lls_render *render, struct lls_value *values,
                    const uint32_t *order, size_t count)
{
  struct lls_value *copy = lls_render_alloc(render, count * sizeof *copy);
  if (copy == NULL)
    return;
  memcpy(copy, values, count * sizeof *copy);
  for (size_t i = 0; i < count; i++)
    values[i] = copy[order[i]];
}

void lls_sort(struct lls_render *render, const struct lls_node *node,
              struct lls_value *keys, struct lls_value *items, size_t count,
              bool descending)
{
  const struct sorter sorter = {render, node, keys, descending};
  if (count < 2)
    return;
  uint32_t *from = lls_render_alloc(render, count * sizeof *from);
  uint32_t *to = lls_render_alloc(render, count * sizeof *to);
  if (from == NULL || to == NULL)
    return;
  for (size_t i = 0; i < count; i++)
    from[i] = (uint32_t)i;
  for (size_t width = 1; width < count && render->code == 0; width *= 2) {
    for (size_t start = 0; start < count; start += 2 * width) {
      size_t middle = start + width < count ? start + width : count;
      size_t end = middle + width < count ? middle + width : count;
      merge(&sorter, from, to, start, middle, end);
    }
    uint32_t *sorted = to;
    to = from;
    from = sorted;
  }
  if (render->code < 0)
    return;
  reorder(render, items, from, count);
  reorder(render, keys, from, count);
}
