/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Density First Search, by the prose of the paper's Algorithm 1, the only part of it that
 * is left. Start at the root. While the node has more than bmax blocks, go to the child
 * with most requests (case 2, line 5). If the node has at least rmin requests, they are
 * the batch (case 1, line 4). Else add requests of its parent, to the left from long to
 * short and to the right from short to long (case 3, lines 7 to 12), the nearer side
 * first.
 *
 * Its weakness is kept: the densest child can be a small cluster whose sibling would have
 * been the better batch.
 */
#include "search.h"

static const uint64_t no_limit = UINT64_MAX;

static void begin(struct search_batch *b, uint32_t found, uint32_t node)
{
  b->n = 0;
  b->blocks = 0;
  b->found = found;
  b->node = node;
}

static bool add(const struct tree *t, struct search_batch *b, uint32_t slot,
                uint64_t most)
{
  if (b->blocks + t->entries[slot].blocks > most)
    return false;
  b->slots[b->n++] = slot;
  b->blocks += t->entries[slot].blocks;
  return true;
}

/* Adds the requests of a length; returns false if not all fit. */
static bool add_length(const struct tree *t, struct search_batch *b, uint32_t length,
                       uint64_t most, uint32_t requests)
{
  for (uint32_t at = t->lengths[length].first; at != TREE_NIL; at = t->entries[at].next)
    if (b->n >= requests || !add(t, b, at, most))
      return false;
  return true;
}

static bool add_range(const struct tree *t, struct search_batch *b, struct tree_range r,
                      uint64_t most, uint32_t requests)
{
  for (uint32_t at; r.first <= r.last && (at = tree_lowest(t, r)) > 0; r.first = at + 1)
    if (!add_length(t, b, at, most, requests))
      return false;
  return true;
}

/* Adds the requests of a node, the oldest first. */
static void add_oldest(const struct tree *t, struct search_batch *b, uint32_t node,
                       uint64_t most)
{
  struct tree_range r = tree_range_of(t, node);
  uint32_t left = t->nodes[node].requests;
  for (uint32_t at = t->oldest; left > 0; at = t->entries[at].newer) {
    uint32_t length = t->entries[at].length;
    if (length < r.first || length > r.last)
      continue;
    if (!add(t, b, at, most))
      return;
    left--;
  }
}

/* Adds requests of the lengths in `around` nearest to `inner`, whose entries are all in
 * b; of two equally near lengths the shorter one first. */
static void widen(const struct tree *t, struct search_batch *b, struct tree_range inner,
                  struct tree_range around, uint64_t most, uint32_t requests)
{
  for (;;) {
    struct tree_range below = {around.first, inner.first - 1};
    struct tree_range above = {inner.last + 1, around.last};
    uint32_t left = below.first <= below.last ? tree_highest(t, below) : 0;
    uint32_t right = above.first <= above.last ? tree_lowest(t, above) : 0;
    if (b->n >= requests || (left == 0 && right == 0))
      return;
    bool to_left = right == 0 || (left > 0 && inner.first - left <= right - inner.last);
    if (!add_length(t, b, to_left ? left : right, most, requests))
      return;
    *(to_left ? &inner.first : &inner.last) = to_left ? left : right;
  }
}

/* Returns the range of lengths in a batch of a node's entries. */
static struct tree_range span_of(const struct tree *t, uint32_t node)
{
  struct tree_range r = tree_range_of(t, node);
  return (struct tree_range){tree_lowest(t, r), tree_highest(t, r)};
}

/* Widens a batch of all entries of a node by the nearest entries of the node `around`. */
static void widen_in(const struct tree *t, const struct search_limits *l, uint32_t around,
                     struct search_batch *b)
{
  widen(t, b, span_of(t, b->node), tree_range_of(t, around), l->bmax,
        l->full ? UINT32_MAX : l->rmin);
}

/* ---- starvation -------------------------------------------------------------------- */

static bool starves(const struct tree *t, const struct search_limits *l, int64_t now_ns,
                    uint32_t node)
{
  const struct tree_node *v = &t->nodes[node];
  return v->requests > 0 && now_ns - v->since_ns > l->starve_ns;
}

/* Returns the deepest starving node; of several, the one that has starved longest. The
 * array has the levels in order, the deepest last. */
static uint32_t most_starving(const struct tree *t, const struct search_limits *l,
                              int64_t now_ns)
{
  uint32_t first = t->first_leaf, end = t->n_nodes, found = TREE_NIL;
  for (;;) {
    for (uint32_t i = first; i < end; i++)
      if (starves(t, l, now_ns, i) &&
          (found == TREE_NIL || t->nodes[i].since_ns < t->nodes[found].since_ns))
        found = i;
    if (found != TREE_NIL || first == 0)
      return found;
    end = first;
    first = tree_parent(first);
  }
}

static void learn_since(struct tree *t)
{
  t->since_ns = INT64_MAX;
  for (uint32_t i = 0; i < t->n_nodes; i++)
    if (t->nodes[i].requests > 0 && t->nodes[i].since_ns < t->since_ns)
      t->since_ns = t->nodes[i].since_ns;
}

/* Returns a starving node; searches only if the tree's since_ns shows that one can
 * starve.
 */
static uint32_t find_starving(struct tree *t, const struct search_limits *l,
                              int64_t now_ns)
{
  if (l->starve_ns == 0 || t->nodes[0].requests == 0 ||
      now_ns - t->since_ns <= l->starve_ns)
    return TREE_NIL;
  uint32_t node = most_starving(t, l, now_ns);
  if (node == TREE_NIL)
    learn_since(t);
  return node;
}

bool search_starves(struct tree *t, int64_t starve_ns, int64_t now_ns)
{
  const struct search_limits limits = {.starve_ns = starve_ns};
  return find_starving(t, &limits, now_ns) != TREE_NIL;
}

/* Forms a batch from the oldest of a starving node and the nearest lengths, not from its
 * parent alone: in a deep pool some node always starves, and most batches would then have
 * only the few requests of 64 lengths. */
static void feed(const struct tree *t, const struct search_limits *l, uint32_t node,
                 struct search_batch *b)
{
  begin(b, SEARCH_STARVING, node);
  add_oldest(t, b, node, l->bmax);
  if (b->n == t->nodes[node].requests)
    widen_in(t, l, 0, b);
}

/* ---- density ----------------------------------------------------------------------- */

static uint32_t densest_child(const struct tree *t, uint32_t node)
{
  uint32_t best = 4 * node + 1;
  for (uint32_t i = best + 1; i <= 4 * node + 4; i++)
    if (t->nodes[i].requests > t->nodes[best].requests)
      best = i;
  return best;
}

/* Takes the oldest request alone, since it has more than bmax blocks by itself and no
 * other was added. */
static void take_oversize(const struct tree *t, struct search_batch *b)
{
  uint32_t node = b->node;
  if (b->n > 0)
    return;
  struct tree_range r = tree_range_of(t, node);
  uint32_t at = t->oldest;
  while (t->entries[at].length < r.first || t->entries[at].length > r.last)
    at = t->entries[at].newer;
  begin(b, SEARCH_OVERSIZE, node);
  add(t, b, at, no_limit);
}

static void search_down(const struct tree *t, const struct search_limits *l,
                        struct search_batch *b)
{
  uint32_t node = 0;
  while (t->nodes[node].blocks > l->bmax && !tree_is_leaf(t, node))
    node = densest_child(t, node);
  begin(b, SEARCH_DENSE, node);
  if (t->nodes[node].blocks > l->bmax) {
    b->found = SEARCH_SPLIT;
    add_oldest(t, b, node, l->bmax);
    return;
  }
  add_range(t, b, tree_range_of(t, node), no_limit, UINT32_MAX);
  if (b->n >= l->rmin)
    return;
  b->found = node == 0 ? SEARCH_SMALL : SEARCH_WIDENED;
  if (node > 0)
    widen_in(t, l, tree_parent(node), b);
}

void search_dense(struct tree *t, const struct search_limits *l, int64_t now_ns,
                  struct search_batch *b)
{
  begin(b, SEARCH_NONE, 0);
  if (t->nodes[0].requests == 0)
    return;
  uint32_t starving = find_starving(t, l, now_ns);
  if (starving != TREE_NIL)
    feed(t, l, starving, b);
  else
    search_down(t, l, b);
  take_oversize(t, b);
}

void search_fifo(const struct tree *t, const struct search_limits *l,
                 struct search_batch *b)
{
  begin(b, SEARCH_NONE, 0);
  if (t->nodes[0].requests == 0)
    return;
  b->found = SEARCH_FIFO;
  add_oldest(t, b, 0, l->bmax);
  take_oversize(t, b);
}

void search_oldest(const struct tree *t, uint64_t blocks, uint32_t requests,
                   struct search_batch *b)
{
  begin(b, SEARCH_NONE, 0);
  for (uint32_t at = t->oldest; at != TREE_NIL && b->n < requests;
       at = t->entries[at].newer)
    if (!add(t, b, at, blocks))
      return;
}

void search_near(const struct tree *t, struct tree_range inner, struct tree_range around,
                 uint64_t blocks, uint32_t requests, struct search_batch *b)
{
  begin(b, SEARCH_NONE, 0);
  if (add_range(t, b, inner, blocks, requests))
    widen(t, b, inner, around, blocks, requests);
}

void search_mark(struct tree *t, const struct search_batch *b, int64_t now_ns)
{
  for (uint32_t node = b->node;; node = tree_parent(node)) {
    t->nodes[node].since_ns = now_ns;
    if (node == 0)
      return;
  }
}

void search_take(struct tree *t, const struct search_batch *b, int64_t now_ns)
{
  for (uint32_t i = 0; i < b->n; i++)
    tree_remove(t, b->slots[i]);
  search_mark(t, b, now_ns);
}
