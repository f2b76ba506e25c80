/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AlignedServe's tree and its searches: hand-made batches, and 400 random pools against
 * sums and batches computed by simple code.
 */
#include "t/tap.h"

#include "plugins/schedulers/aligned/search.h"

#include <errno.h>
#include <string.h>

enum { MOST = 1000, BLOCK = 16, NEVER_STARVES = 0 };

struct pool {
  struct tree tree;
  struct search_batch batch;
  uint32_t slots[MOST], n;
  uint32_t lengths[MOST]; /* indexed by slot; 0: none */
  uint64_t random;
};

static void open_pool(struct pool *p, uint64_t seed)
{
  memset(p, 0, sizeof *p);
  p->random = seed;
  p->batch.slots = p->slots;
  assert_int_equal(tree_init(&p->tree, 65536, 16, MOST), 0);
}

static void close_pool(struct pool *p)
{
  tree_free(&p->tree);
}

static uint32_t below(struct pool *p, uint32_t n)
{
  p->random = p->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)((p->random >> 33) % n);
}

static uint32_t blocks_of(uint32_t length)
{
  return (length + BLOCK - 1) / BLOCK;
}

static void put(struct pool *p, uint32_t length, int64_t now_ns)
{
  uint32_t slot = p->n++;
  p->lengths[slot] = length;
  tree_insert(&p->tree, slot, slot + 1, length, blocks_of(length), now_ns);
}

static void put_many(struct pool *p, uint32_t n, uint32_t length)
{
  for (uint32_t i = 0; i < n; i++)
    put(p, length, 0);
}

static void drop(struct pool *p, uint32_t slot)
{
  tree_remove(&p->tree, slot);
  p->lengths[slot] = 0;
}

static void search(struct pool *p, uint64_t bmax, uint32_t rmin, bool full)
{
  const struct search_limits l = {bmax, rmin, full, NEVER_STARVES};
  search_dense(&p->tree, &l, 0, &p->batch);
}

static struct tree_range span(const struct pool *p)
{
  struct tree_range r = {UINT32_MAX, 0};
  for (uint32_t i = 0; i < p->batch.n; i++) {
    uint32_t length = p->lengths[p->slots[i]];
    r.first = length < r.first ? length : r.first;
    r.last = length > r.last ? length : r.last;
  }
  return r;
}

static void expect(struct pool *p, uint32_t found, uint32_t n, uint64_t blocks,
                   uint32_t shortest, uint32_t longest)
{
  assert_int_equal(p->batch.found, found);
  assert_int_equal(p->batch.n, n);
  assert_int_equal(p->batch.blocks, blocks);
  assert_int_equal(span(p).first, shortest);
  assert_int_equal(span(p).last, longest);
}

/* ---- by hand ----------------------------------------------------------------------- */

static void test_shape(void **state)
{
  (void)state;
  struct pool p;
  open_pool(&p, 1);
  assert_int_equal(p.tree.n_nodes, 5461); /* 4^0 + ... + 4^6 */
  assert_int_equal(p.tree.first_leaf, 1365);
  static const struct {
    uint32_t node, first, last;
  } nodes[] = {{0, 1, 65536}, {1, 1, 16384},  {4, 49153, 65536},   {5, 1, 4096},
               {1365, 1, 16}, {1366, 17, 32}, {5460, 65521, 65536}};
  for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
    struct tree_range r = tree_range_of(&p.tree, nodes[i].node);
    assert_int_equal(r.first, nodes[i].first);
    assert_int_equal(r.last, nodes[i].last);
  }
  close_pool(&p);
  assert_true(tree_fits(64, 64) && tree_fits(256, 64) && tree_fits(4, 1));
  assert_false(tree_fits(128, 64) || tree_fits(100, 16) || tree_fits(16, 64));
  struct tree t;
  assert_int_equal(tree_init(&t, 100, 16, 1), -EINVAL);
  tree_free(&t);
}

/* A worked example of the tree. */
static void test_density_first_search(void **state)
{
  (void)state;
  struct pool p;
  open_pool(&p, 1);
  put_many(&p, 30, 20);
  put_many(&p, 12, 500);
  put_many(&p, 10, 520);
  put_many(&p, 16, 540);
  put_many(&p, 5, 4000);
  assert_int_equal(p.tree.nodes[0].requests, 73);
  assert_int_equal(p.tree.nodes[0].blocks, 2568);
  search(&p, 6000, 36, true);
  expect(&p, SEARCH_DENSE, 73, 2568, 20, 4000);
  assert_int_equal(p.batch.node, 0);
  search(&p, 1300, 36, true);
  expect(&p, SEARCH_WIDENED, 67, 1284, 20, 540);
  search(&p, 800, 24, true);
  expect(&p, SEARCH_DENSE, 30, 60, 20, 20);
  search(&p, 800, 36, true);
  expect(&p, SEARCH_WIDENED, 52, 774, 20, 520);
  search(&p, 300, 36, true);
  expect(&p, SEARCH_WIDENED, 37, 284, 20, 500);
  search(&p, 1300, 36, false);
  expect(&p, SEARCH_WIDENED, 36, 252, 20, 500);
  search(&p, 300, 36, false);
  expect(&p, SEARCH_WIDENED, 36, 252, 20, 500);
  close_pool(&p);
}

/* Examples 2, 3 and 4: a leaf that is too large, a request that is, and a small
 * pool. */
static void test_the_ends_of_the_search(void **state)
{
  (void)state;
  struct pool p;
  open_pool(&p, 1);
  search(&p, 70, 4, true);
  assert_int_equal(p.batch.found, SEARCH_NONE);
  for (uint32_t i = 0; i < 50; i++)
    put(&p, 100 + i % 3, 0);
  search(&p, 70, 4, true);
  expect(&p, SEARCH_SPLIT, 10, 70, 100, 102);
  for (uint32_t i = 0; i < 10; i++)
    assert_int_equal(p.slots[i], i); /* first come, first served */
  close_pool(&p);
  open_pool(&p, 1);
  put(&p, 3000, 0);
  search(&p, 100, 4, true);
  expect(&p, SEARCH_OVERSIZE, 1, 188, 3000, 3000);
  close_pool(&p);
  open_pool(&p, 1);
  put_many(&p, 3, 10);
  search(&p, 100, 36, true);
  expect(&p, SEARCH_SMALL, 3, 3, 10, 10);
  close_pool(&p);
}

/* The shorter of two equally near requests comes first; one that does not fit ends the
 * search, even if a shorter one would fit. */
static void test_the_nearest_first(void **state)
{
  (void)state;
  struct pool p;
  open_pool(&p, 1);
  put_many(&p, 4, 40); /* the densest leaf of [1, 64] is [33, 48] */
  put(&p, 30, 0);
  put(&p, 50, 0);
  put(&p, 64, 0);
  put(&p, 10, 0); /* 23 blocks in all */
  search(&p, 20, 5, false);
  expect(&p, SEARCH_WIDENED, 5, 14, 30, 40);
  search(&p, 20, 8, true); /* 64 is nearer than 10 and takes 4 */
  expect(&p, SEARCH_WIDENED, 6, 18, 30, 50);
  search(&p, 22, 8, true);
  expect(&p, SEARCH_WIDENED, 7, 22, 30, 64);
  close_pool(&p);
}

/* Lengths beyond the tree's count as the longest; a request is in at most one leaf. */
static void test_too_long_counts_as_the_longest(void **state)
{
  (void)state;
  struct pool p;
  open_pool(&p, 1);
  put(&p, 70000, 0);
  put(&p, 65536, 0);
  assert_int_equal(p.tree.nodes[p.tree.n_nodes - 1].requests, 2);
  assert_int_equal(p.tree.nodes[0].blocks, 4375 + 4096);
  drop(&p, 0);
  assert_false(tree_has(&p.tree, 0));
  assert_int_equal(p.tree.nodes[0].blocks, 4096);
  close_pool(&p);
}

/* G4: the deepest node that has waited longest, its oldest request first; the densest
 * node would be another. */
static void test_who_starves_goes_first(void **state)
{
  (void)state;
  struct pool p;
  struct search_limits l = {.bmax = 1000, .rmin = 5, .full = false, .starve_ns = 100};
  open_pool(&p, 1);
  put(&p, 5000, 10);
  put(&p, 5010, 20);
  for (int i = 0; i < 600; i++)
    put(&p, 40, 50); /* three blocks each: too many for all */
  search_dense(&p.tree, &l, 110, &p.batch);
  assert_int_equal(p.batch.found, SEARCH_SPLIT); /* 100 are not more than 100 */
  search_dense(&p.tree, &l, 111, &p.batch);
  expect(&p, SEARCH_STARVING, 5, 313 + 314 + 3 * 3, 40, 5010);
  assert_int_equal(p.slots[0], 0); /* its own first, then the nearest there are */
  assert_int_equal(p.slots[1], 1);
  search_take(&p.tree, &p.batch, 111);
  search_dense(&p.tree, &l, 111, &p.batch);
  assert_int_equal(p.batch.found, SEARCH_SPLIT);
  search_dense(&p.tree, &l, 151, &p.batch);
  assert_int_equal(p.batch.found, SEARCH_STARVING);
  assert_int_equal(p.batch.n, 333);
  search_take(&p.tree, &p.batch,
              151); /* its leaf has had a batch: its waiting time begins again */
  search_dense(&p.tree, &l, 251, &p.batch);
  assert_int_equal(p.batch.found, SEARCH_DENSE);
  search_dense(&p.tree, &l, 252, &p.batch);
  assert_int_equal(p.batch.found, SEARCH_STARVING);
  l.starve_ns = NEVER_STARVES;
  search_dense(&p.tree, &l, 252, &p.batch);
  assert_int_equal(p.batch.found, SEARCH_DENSE);
  close_pool(&p);
}

static void test_first_come_first_served(void **state)
{
  (void)state;
  struct pool p;
  const struct search_limits l = {.bmax = 40};
  open_pool(&p, 1);
  put(&p, 300, 0); /* 19 */
  put(&p, 20, 0);  /* 2 */
  put(&p, 400, 0); /* 25 blocks: does not fit, and ends the search */
  put(&p, 20, 0);
  search_fifo(&p.tree, &l, &p.batch);
  expect(&p, SEARCH_FIFO, 2, 21, 20, 300);
  /* one that left comes back to where it was */
  drop(&p, 0);
  p.lengths[0] = 310;
  tree_insert(&p.tree, 0, 1, 310, 20, 9);
  search_fifo(&p.tree, &l, &p.batch);
  assert_int_equal(p.slots[0], 0);
  close_pool(&p);
}

static void test_near_a_running_batch(void **state)
{
  (void)state;
  struct pool p;
  open_pool(&p, 1);
  for (uint32_t length = 100; length <= 200; length += 10)
    put(&p, length, 0); /* slots 0 to 10 */
  search_near(&p.tree, (struct tree_range){130, 150}, (struct tree_range){130, 150}, 1000,
              1000, &p.batch);
  expect(&p, SEARCH_NONE, 3, 9 + 9 + 10, 130, 150);
  search_near(&p.tree, (struct tree_range){130, 150}, (struct tree_range){115, 165}, 1000,
              1000, &p.batch);
  expect(&p, SEARCH_NONE, 5, 9 + 9 + 10 + 8 + 10, 120, 160);
  assert_int_equal(p.slots[3], 2); /* both are 10 away: the shorter */
  search_near(&p.tree, (struct tree_range){130, 150}, (struct tree_range){1, 1000}, 1000,
              4, &p.batch);
  assert_int_equal(p.batch.n, 4);
  search_near(&p.tree, (struct tree_range){130, 150}, (struct tree_range){1, 1000}, 20,
              1000, &p.batch);
  expect(&p, SEARCH_NONE, 2, 18, 130, 140);
  close_pool(&p);
}

/* ---- random pools ------------------------------------------------------------------ */

static void check_counters(const struct pool *p)
{
  for (uint32_t node = 0; node < p->tree.n_nodes; node++) {
    struct tree_range r = tree_range_of(&p->tree, node);
    uint32_t requests = 0;
    uint64_t blocks = 0;
    if (node > 84 && p->tree.nodes[node].requests == 0 && node % 17 > 0)
      continue; /* of the thousands that are empty, some */
    for (uint32_t i = 0; i < p->n; i++)
      if (p->lengths[i] > 0 &&
          (p->lengths[i] < 65536 ? p->lengths[i] : 65536) >= r.first &&
          (p->lengths[i] < 65536 ? p->lengths[i] : 65536) <= r.last) {
        requests++;
        blocks += blocks_of(p->lengths[i]);
      }
    assert_int_equal(p->tree.nodes[node].requests, requests);
    assert_int_equal(p->tree.nodes[node].blocks, blocks);
  }
}

static uint32_t random_length(struct pool *p)
{
  if (below(p, 2) == 0)
    return 1000 + below(p, 7000);
  uint32_t length = 20 << below(p, 6); /* about lognormal */
  return length + below(p, length);
}

/* The batch's requests exist, and each is in it once. */
static uint32_t alive(const struct pool *p)
{
  uint32_t n = 0;
  for (uint32_t i = 0; i < p->n; i++)
    n += p->lengths[i] > 0;
  return n;
}

static void check_members(const struct pool *p)
{
  bool seen[MOST] = {false};
  uint64_t blocks = 0;
  for (uint32_t i = 0; i < p->batch.n; i++) {
    assert_true(p->lengths[p->slots[i]] > 0 && !seen[p->slots[i]]);
    seen[p->slots[i]] = true;
    blocks += blocks_of(p->lengths[p->slots[i]]);
  }
  assert_int_equal(blocks, p->batch.blocks);
}

/* Adds the spread of the batch's lengths, and of the same number of requests in order
 * of arrival. */
static void compare_spreads(const struct pool *p, uint64_t *aligned, uint64_t *fifo)
{
  struct tree_range first = {UINT32_MAX, 0};
  for (uint32_t i = 0, n = 0; n < p->batch.n; i++) {
    if (p->lengths[i] == 0)
      continue;
    n++;
    first.first = p->lengths[i] < first.first ? p->lengths[i] : first.first;
    first.last = p->lengths[i] > first.last ? p->lengths[i] : first.last;
  }
  assert_true(span(p).last - span(p).first <= first.last - first.first);
  *aligned += span(p).last - span(p).first;
  *fifo += first.last - first.first;
}

/* Case 3 ended for lack of memory, of requests, or of other requests in the parent. */
static void check_widened(const struct pool *p, uint64_t bmax, uint32_t rmin)
{
  struct tree_range around = tree_range_of(&p->tree, tree_parent(p->batch.node));
  struct tree_range r = span(p);
  assert_true(r.first >= around.first && r.last <= around.last);
  if (p->batch.n >= rmin)
    return;
  uint32_t nearest = 0;
  for (uint32_t i = 0; i < p->n; i++)
    if (p->lengths[i] >= around.first && p->lengths[i] <= around.last &&
        (nearest == 0 || blocks_of(p->lengths[i]) > nearest))
      nearest = blocks_of(p->lengths[i]);
  assert_true(p->batch.blocks + nearest > bmax);
}

/* Invariants 1 to 4. For invariant 4 spreads are summed over thousands of pools, since
 * in small pools both batches may be the whole pool. */
static void test_random_pools(void **state)
{
  (void)state;
  static const uint64_t bmaxes[] = {400, 1500, 4000};
  static const uint32_t rmins[] = {8, 36, 128};
  uint64_t aligned = 0, fifo = 0;
  uint32_t cases[SEARCH_FIFO + 1] = {0};
  for (uint64_t seed = 1; seed <= 400; seed++) {
    struct pool p;
    open_pool(&p, seed);
    for (uint32_t i = 50 + below(&p, 750); i > 0; i--)
      put(&p, random_length(&p), (int64_t)i);
    for (uint32_t i = p.n / 5; i > 0; i--) {
      uint32_t slot = below(&p, p.n);
      if (p.lengths[slot] > 0)
        drop(&p, slot);
    }
    check_counters(&p);
    uint64_t bmax = bmaxes[below(&p, 3)];
    uint32_t rmin = rmins[below(&p, 3)];
    search(&p, bmax, rmin, below(&p, 2) == 0);
    cases[p.batch.found]++;
    check_members(&p);
    if (p.batch.found == SEARCH_OVERSIZE)
      assert_int_equal(p.batch.n, 1);
    else
      assert_true(p.batch.blocks <= bmax);
    if (p.batch.found == SEARCH_DENSE)
      assert_true(p.batch.n >= rmin);
    if (p.batch.found == SEARCH_WIDENED)
      check_widened(&p, bmax, rmin);
    if (p.batch.found == SEARCH_SMALL)
      assert_true(p.batch.n < rmin && p.batch.n == alive(&p));
    compare_spreads(&p, &aligned, &fifo);
    search_take(&p.tree, &p.batch, 1000);
    for (uint32_t i = 0; i < p.batch.n; i++)
      p.lengths[p.slots[i]] = 0;
    check_counters(&p);
    close_pool(&p);
  }
  print_message("# cases 1, 3: %u, %u; split %u; spread %llu of lengths, fifo %llu\n",
                cases[SEARCH_DENSE], cases[SEARCH_WIDENED], cases[SEARCH_SPLIT],
                (unsigned long long)aligned / 400, (unsigned long long)fifo / 400);
  assert_true(cases[SEARCH_DENSE] > 0 && cases[SEARCH_WIDENED] > 0);
  assert_true(aligned * 4 < fifo);
}

/* Until the pool is empty every search finds a batch, and no request is in two. */
static void test_every_pool_ends(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= 40; seed++) {
    struct pool p;
    open_pool(&p, seed);
    for (uint32_t i = 300; i > 0; i--)
      put(&p, random_length(&p), (int64_t)i);
    const struct search_limits l = {20 + below(&p, 400), 36, below(&p, 2) == 0,
                                    below(&p, 2) * 50};
    uint32_t left = p.n;
    for (int64_t now_ns = 300; left > 0; now_ns++) {
      search_dense(&p.tree, &l, now_ns, &p.batch);
      assert_true(p.batch.n > 0);
      check_members(&p);
      search_take(&p.tree, &p.batch, now_ns);
      for (uint32_t i = 0; i < p.batch.n; i++)
        p.lengths[p.slots[i]] = 0;
      left -= p.batch.n;
    }
    assert_int_equal(p.tree.nodes[0].requests, 0);
    close_pool(&p);
  }
}

/* The leaf without a batch for the longest time, if this exceeds the limit. */
static uint32_t most_starving(const struct pool *p, int64_t starve_ns, int64_t now_ns)
{
  const struct tree_node *v = p->tree.nodes;
  uint32_t found = TREE_NIL;
  for (uint32_t i = p->tree.first_leaf; i < p->tree.n_nodes; i++)
    if (v[i].requests > 0 && now_ns - v[i].since_ns > starve_ns &&
        (found == TREE_NIL || v[i].since_ns < v[found].since_ns))
      found = i;
  return found;
}

/* Invariant 9: while a request starves, batches are of the request that starves
 * longest; so no request waits longer than starve_ns and the batches of those before
 * it. One batch takes 10 ns. Leaves are smaller than bmax. */
static void test_nobody_starves(void **state)
{
  (void)state;
  uint32_t starving = 0;
  for (uint64_t seed = 1; seed <= 40; seed++) {
    struct pool p;
    int64_t entered_ns[MOST];
    uint32_t batches = 0, of_starving[MOST]; /* when each arrived */
    open_pool(&p, seed);
    const struct search_limits l = {600, 36, below(&p, 2) == 0, 20 + below(&p, 300)};
    for (int64_t now_ns = 0; now_ns < 1000 || p.tree.nodes[0].requests > 0;
         now_ns += 10) {
      for (uint32_t i = below(&p, 20); i > 0 && now_ns < 1000 && p.n < MOST; i--) {
        entered_ns[p.n] = now_ns;
        of_starving[p.n] = batches;
        put(&p, random_length(&p), now_ns);
      }
      uint32_t worst = most_starving(&p, l.starve_ns, now_ns);
      search_dense(&p.tree, &l, now_ns, &p.batch);
      if (worst != TREE_NIL) {
        assert_int_equal(p.batch.found, SEARCH_STARVING);
        assert_int_equal(p.tree.nodes[p.batch.node].since_ns,
                         p.tree.nodes[worst].since_ns);
      }
      batches += worst != TREE_NIL;
      for (uint32_t i = 0; i < p.batch.n; i++) {
        uint32_t slot = p.slots[i];
        int64_t most_ns = l.starve_ns + 10 * (int64_t)(batches - of_starving[slot] + 1);
        assert_true(now_ns - entered_ns[slot] <= most_ns);
      }
      search_take(&p.tree, &p.batch, now_ns);
    }
    starving += batches;
    close_pool(&p);
  }
  print_message("# %u batches of those that starved\n", starving);
  assert_true(starving > 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_shape),
      cmocka_unit_test(test_density_first_search),
      cmocka_unit_test(test_the_ends_of_the_search),
      cmocka_unit_test(test_the_nearest_first),
      cmocka_unit_test(test_too_long_counts_as_the_longest),
      cmocka_unit_test(test_who_starves_goes_first),
      cmocka_unit_test(test_first_come_first_served),
      cmocka_unit_test(test_near_a_running_batch),
      cmocka_unit_test(test_random_pools),
      cmocka_unit_test(test_every_pool_ends),
      cmocka_unit_test(test_nobody_starves),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
