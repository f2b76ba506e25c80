/* SPDX-License-Identifier: Apache-2.0 */
/* See tree.h. */
#include "tree.h"

#include <errno.h>
#include <stdlib.h>

#include <llmserve/policy/check.h>

bool tree_fits(uint32_t len_max, uint32_t leaf_width)
{
  uint64_t length = leaf_width;
  while (length > 0 && length < len_max)
    length *= 4;
  return length == len_max && len_max > 0;
}

static void clear(struct tree *t)
{
  t->oldest = t->newest = TREE_NIL;
  t->since_ns = INT64_MAX;
  for (uint32_t i = 0; i <= t->len_max; i++)
    t->lengths[i] = (struct tree_ends){TREE_NIL, TREE_NIL};
}

int tree_init(struct tree *t, uint32_t len_max, uint32_t leaf_width,
              uint32_t max_requests)
{
  *t = (struct tree){.len_max = len_max, .leaf_width = leaf_width};
  if (!tree_fits(len_max, leaf_width))
    return -EINVAL;
  for (uint32_t level = 1; level < len_max / leaf_width; level *= 4)
    t->first_leaf = 4 * t->first_leaf + 1;
  t->n_nodes = t->first_leaf + len_max / leaf_width;
  t->nodes = calloc(t->n_nodes, sizeof *t->nodes);
  t->entries = calloc(max_requests, sizeof *t->entries);
  t->lengths = malloc((len_max + (size_t)1) * sizeof *t->lengths);
  t->any = calloc(len_max / 64 + 1, sizeof *t->any);
  if (t->nodes == NULL || t->entries == NULL || t->lengths == NULL || t->any == NULL)
    return -ENOMEM;
  clear(t);
  return 0;
}

void tree_free(struct tree *t)
{
  free(t->nodes);
  free(t->entries);
  free(t->lengths);
  free(t->any);
}

/* ---- entries ----------------------------------------------------------------------- */

static uint32_t leaf_of(const struct tree *t, uint32_t length)
{
  return t->first_leaf + (length - 1) / t->leaf_width;
}

/* Counts an entry in or out, from its leaf up to the root. */
static void count(struct tree *t, const struct tree_entry *e, bool in, int64_t now_ns)
{
  for (uint32_t node = leaf_of(t, e->length);; node = tree_parent(node)) {
    struct tree_node *v = &t->nodes[node];
    LLS_POL_CHECK(node < t->n_nodes);
    LLS_POL_CHECK(in || (v->requests > 0 && v->blocks >= e->blocks));
    if (in && v->requests == 0)
      v->since_ns = now_ns;
    v->requests += in ? 1 : UINT32_MAX;
    v->blocks += in ? e->blocks : -(uint64_t)e->blocks;
    if (node == 0)
      return;
  }
}

/* Returns the entry that arrived last before `id`. Prefilled requests come in about
 * that order; an evicted one is older than nearly all. */
static uint32_t older_than(const struct tree *t, uint64_t id)
{
  const struct tree_entry *e = t->entries;
  uint32_t at = t->newest;
  if (at == TREE_NIL || e[at].id < id)
    return at;
  if (id < e[t->oldest].id)
    return TREE_NIL;
  if (e[at].id - id < id - e[t->oldest].id) {
    while (e[at].id > id)
      at = e[at].older;
    return at;
  }
  for (at = t->oldest; e[e[at].newer].id < id;)
    at = e[at].newer;
  return at;
}

static void link_by_arrival(struct tree *t, uint32_t slot)
{
  struct tree_entry *e = &t->entries[slot];
  e->older = older_than(t, e->id);
  e->newer = e->older == TREE_NIL ? t->oldest : t->entries[e->older].newer;
  *(e->older == TREE_NIL ? &t->oldest : &t->entries[e->older].newer) = slot;
  *(e->newer == TREE_NIL ? &t->newest : &t->entries[e->newer].older) = slot;
}

static void link_by_length(struct tree *t, uint32_t slot)
{
  struct tree_entry *e = &t->entries[slot];
  struct tree_ends *ends = &t->lengths[e->length];
  e->previous = ends->last;
  e->next = TREE_NIL;
  *(ends->last == TREE_NIL ? &ends->first : &t->entries[ends->last].next) = slot;
  ends->last = slot;
  t->any[e->length / 64] |= UINT64_C(1) << e->length % 64;
}

void tree_insert(struct tree *t, uint32_t slot, uint64_t id, uint32_t length,
                 uint32_t blocks, int64_t now_ns)
{
  struct tree_entry *e = &t->entries[slot];
  LLS_POL_CHECK(e->length == 0 && length > 0);
  *e = (struct tree_entry){.id = id, .entered_ns = now_ns, .blocks = blocks};
  e->length = length < t->len_max ? length : t->len_max;
  link_by_length(t, slot);
  link_by_arrival(t, slot);
  count(t, e, true, now_ns);
  if (now_ns < t->since_ns)
    t->since_ns = now_ns;
}

void tree_remove(struct tree *t, uint32_t slot)
{
  struct tree_entry *e = &t->entries[slot];
  struct tree_ends *ends = &t->lengths[e->length];
  LLS_POL_CHECK(e->length > 0 && e->length <= t->len_max);
  count(t, e, false, 0);
  *(e->previous == TREE_NIL ? &ends->first : &t->entries[e->previous].next) = e->next;
  *(e->next == TREE_NIL ? &ends->last : &t->entries[e->next].previous) = e->previous;
  if (ends->first == TREE_NIL)
    t->any[e->length / 64] &= ~(UINT64_C(1) << e->length % 64);
  *(e->older == TREE_NIL ? &t->oldest : &t->entries[e->older].newer) = e->newer;
  *(e->newer == TREE_NIL ? &t->newest : &t->entries[e->newer].older) = e->older;
  e->length = 0;
}

/* ---- ranges ------------------------------------------------------------------------ */

struct tree_range tree_range_of(const struct tree *t, uint32_t node)
{
  uint32_t first = 0, nodes = 1, width = t->len_max; /* nodes of a level */
  for (; node >= first + nodes; nodes *= 4, width /= 4)
    first += nodes;
  uint32_t begin = (node - first) * width;
  return (struct tree_range){begin + 1, begin + width};
}

uint32_t tree_lowest(const struct tree *t, struct tree_range r)
{
  for (uint32_t at = r.first; at <= r.last; at = (at / 64 + 1) * 64) {
    uint64_t bits = t->any[at / 64] >> at % 64;
    if (bits != 0) {
      uint32_t found = at + (uint32_t)__builtin_ctzll(bits);
      return found <= r.last ? found : 0;
    }
  }
  return 0;
}

uint32_t tree_highest(const struct tree *t, struct tree_range r)
{
  for (uint32_t at = r.last; at >= r.first && at > 0;) {
    uint64_t bits = t->any[at / 64] << (63 - at % 64);
    if (bits != 0) {
      uint32_t found = at - (uint32_t)__builtin_clzll(bits);
      return found >= r.first ? found : 0;
    }
    at = at < 64 ? 0 : at / 64 * 64 - 1;
  }
  return 0;
}
