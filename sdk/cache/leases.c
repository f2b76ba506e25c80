/* SPDX-License-Identifier: Apache-2.0 */
/* Chains of blocks held in a tier until a time; see leases.h. */
#include <llmserve/policy/leases.h>

#include <stdlib.h>
#include <string.h>

/* At most; a pool of fewer blocks has fewer leases, since each lease has a block. The
 * core remembers as many idle sessions. */
#define MAX_LEASES 4096

/* Changes in the journal for a block that gets or loses a holder, and for a lease. */
#define CHANGES_PER_BLOCK 24
#define CHANGES_PER_LEASE 24

static void set(struct lls_pol_leases *l, uint32_t *where, uint32_t value)
{
  lls_pol_journal_set(l->tree->journal, where, value);
}

static void set_long(struct lls_pol_leases *l, void *where, uint64_t value)
{
  set(l, where, (uint32_t)value);
  set(l, (uint32_t *)where + 1, (uint32_t)(value >> 32));
}

/* ---- creation and end ---------------------------------------------------------- */

static size_t places_of(const struct lls_pol_leases *l)
{
  const struct lls_pol_tree *t = l->tree;
  return (size_t)t->n_nodes * t->n_groups * t->n_tiers;
}

int lls_pol_leases_init(struct lls_pol_leases *l)
{
  l->n_holds = l->tree->n_nodes;
  l->bucket_mask = 0;
  while (l->bucket_mask < MAX_LEASES - 1 && l->bucket_mask < l->n_holds)
    l->bucket_mask = 2 * l->bucket_mask + 1;
  l->max = l->bucket_mask + 1;
  l->leases = calloc(l->max, sizeof *l->leases);
  l->holds = calloc((size_t)l->n_holds + 1, sizeof *l->holds);
  l->buckets = calloc((size_t)l->bucket_mask + 1, sizeof *l->buckets);
  l->of_place = calloc(places_of(l) + 1, sizeof *l->of_place);
  return l->leases && l->holds && l->buckets && l->of_place ? 0 : -ENOMEM;
}

void lls_pol_leases_destroy(struct lls_pol_leases *l)
{
  free(l->leases);
  free(l->holds);
  free(l->buckets);
  free(l->of_place);
}

void lls_pol_leases_make_empty(struct lls_pol_leases *l)
{
  for (uint32_t i = 0; i < l->max; i++)
    l->leases[i] = (struct lls_pol_lease){.first = LLS_POL_NIL,
                                          .next = i + 1 < l->max ? i + 1 : LLS_POL_NIL};
  for (uint32_t i = 0; i < l->n_holds; i++)
    l->holds[i] = (struct lls_pol_lease_hold){
        .place = LLS_POL_NIL, .next = i + 1 < l->n_holds ? i + 1 : LLS_POL_NIL};
  memset(l->buckets, 0xff, ((size_t)l->bucket_mask + 1) * sizeof *l->buckets);
  memset(l->of_place, 0, places_of(l) * sizeof *l->of_place);
  memset(l->units, 0, sizeof l->units);
  l->n = l->free_lease = 0;
  l->free_hold = l->n_holds > 0 ? 0 : LLS_POL_NIL;
  l->holds_left = l->n_holds;
  l->soonest_ns = INT64_MAX;
}

/* ---- blocks -------------------------------------------------------------------- */

static uint32_t tier_of(const struct lls_pol_leases *l, uint32_t place)
{
  return place % l->tree->n_tiers;
}

static uint32_t units_of(const struct lls_pol_leases *l, uint32_t place)
{
  const struct lls_pol_slabs *s = l->tree->tiers[tier_of(l, place)].slabs;
  uint32_t unit = l->tree->places[place].unit;
  return lls_pol_slabs_units(s, s->slabs[unit / s->slab_units].kind);
}

static void hold(struct lls_pol_leases *l, struct lls_pol_lease *lease, uint32_t place)
{
  uint32_t i = l->free_hold;
  set(l, &l->free_hold, l->holds[i].next);
  set(l, &l->holds_left, l->holds_left - 1);
  set(l, &l->holds[i].place, place);
  set(l, &l->holds[i].next, lease->first);
  set(l, &lease->first, i);
  set(l, &lease->blocks, lease->blocks + 1);
  lls_pol_tree_hold(l->tree, tier_of(l, place), l->tree->places[place].unit);
  if (l->of_place[place] == 0)
    set(l, &l->units[lease->tier], l->units[lease->tier] + units_of(l, place));
  set(l, &l->of_place[place], l->of_place[place] + 1);
}

/* Lets the block go that was held last. */
static void let_go(struct lls_pol_leases *l, struct lls_pol_lease *lease)
{
  uint32_t i = lease->first, place = l->holds[i].place;
  set(l, &l->of_place[place], l->of_place[place] - 1);
  if (l->of_place[place] == 0)
    set(l, &l->units[lease->tier], l->units[lease->tier] - units_of(l, place));
  lls_pol_tree_let_go(l->tree, tier_of(l, place), l->tree->places[place].unit);
  set(l, &lease->first, l->holds[i].next);
  set(l, &lease->blocks, lease->blocks - 1);
  set(l, &l->holds[i].place, LLS_POL_NIL);
  set(l, &l->holds[i].next, l->free_hold);
  set(l, &l->free_hold, i);
  set(l, &l->holds_left, l->holds_left + 1);
}

/* ---- leases -------------------------------------------------------------------- */

static uint32_t *bucket_of(const struct lls_pol_leases *l, uint64_t session)
{
  return &l->buckets[(session ^ session >> 32) & l->bucket_mask];
}

static uint32_t find(const struct lls_pol_leases *l, uint64_t session, uint32_t tier)
{
  uint32_t i = *bucket_of(l, session);
  while (i != LLS_POL_NIL &&
         (l->leases[i].session != session || l->leases[i].tier != tier))
    i = l->leases[i].next;
  return i;
}

static uint64_t changes_to_end(const struct lls_pol_leases *l, uint32_t i)
{
  return CHANGES_PER_LEASE + CHANGES_PER_BLOCK * (uint64_t)l->leases[i].blocks;
}

static void end(struct lls_pol_leases *l, uint32_t i)
{
  struct lls_pol_lease *lease = &l->leases[i];
  uint32_t *link = bucket_of(l, lease->session);
  while (lease->first != LLS_POL_NIL)
    let_go(l, lease);
  while (*link != i)
    link = &l->leases[*link].next;
  set(l, link, lease->next);
  set(l, &lease->next, l->free_lease);
  set(l, &l->free_lease, i);
  set(l, &l->n, l->n - 1);
}

static struct lls_pol_lease *begin(struct lls_pol_leases *l, uint64_t session,
                                   uint32_t tier, int64_t until_ns)
{
  uint32_t i = l->free_lease, *bucket = bucket_of(l, session);
  struct lls_pol_lease *lease = &l->leases[i];
  set(l, &l->free_lease, lease->next);
  set_long(l, &lease->session, session);
  set_long(l, &lease->until_ns, (uint64_t)until_ns);
  set(l, &lease->tier, tier);
  set(l, &lease->next, *bucket);
  set(l, bucket, i);
  set(l, &l->n, l->n + 1);
  if (until_ns < l->soonest_ns) /* a rollback leaves it too early, which does no harm */
    l->soonest_ns = until_ns;
  return lease;
}

/* Does a request that runs have the state, which its step may write over? */
static bool is_in_use(const struct lls_pol_leases *l, uint32_t tier,
                      const struct lls_key *last)
{
  const struct lls_pol_tree *t = l->tree;
  uint32_t node = lls_pol_tree_find(t, last);
  for (uint32_t group = 0; group < t->n_groups; group++) {
    uint32_t place = (node * t->n_groups + group) * t->n_tiers + tier;
    if (t->groups[group]->kind == LLS_GROUP_STATE && l->of_place[place] == 0 &&
        lls_pol_slabs_holders(t->tiers[tier].slabs, t->places[place].unit) > 0)
      return true;
  }
  return false;
}

/* Holds the n blocks, and the parts of other groups that are read after them. */
static bool hold_all(struct lls_pol_leases *l, struct lls_pol_lease *lease,
                     const struct lls_key *keys, uint32_t n)
{
  const struct lls_pol_tree *t = l->tree;
  const struct lls_pol_slabs *slabs = t->tiers[lease->tier].slabs;
  double most = l->share * lls_pol_slabs_total(slabs);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t node = lls_pol_tree_find(t, &keys[i]);
    for (uint32_t group = 0; group < t->n_groups; group++)
      if (i >= lls_pol_tree_begin(t, group, n)) {
        if (l->holds_left == 0)
          return false;
        hold(l, lease, (node * t->n_groups + group) * t->n_tiers + lease->tier);
      }
    if (l->units[lease->tier] > most)
      return false;
  }
  return true;
}

int lls_pol_leases_take(struct lls_pol_leases *l, uint64_t session, uint32_t tier,
                        const struct lls_key *keys, uint32_t n_keys, int64_t until_ns)
{
  struct lls_pol_tree *t = l->tree;
  uint32_t mark = t->journal->n, old = find(l, session, tier);
  struct lls_pol_match found;
  lls_pol_tree_match(t, keys, n_keys, 1u << tier, &found);
  if (found.n > 0 && is_in_use(l, tier, &keys[found.n - 1]))
    return -EBUSY;
  uint64_t changes = CHANGES_PER_LEASE +
                     CHANGES_PER_BLOCK * (uint64_t)t->n_groups * ((uint64_t)found.n + 1);
  if (old != LLS_POL_NIL)
    changes += changes_to_end(l, old);
  if (!lls_pol_journal_has_room(t->journal, changes))
    return -ENOBUFS;
  if (old != LLS_POL_NIL)
    end(l, old);
  if (found.n == 0)
    return 0;
  if (l->free_lease != LLS_POL_NIL &&
      hold_all(l, begin(l, session, tier, until_ns), keys, found.n))
    return (int)found.n;
  lls_pol_journal_rollback(t->journal, mark);
  return -ENOSPC;
}

void lls_pol_leases_expire(struct lls_pol_leases *l, int64_t now_ns)
{
  if (l->n == 0 || now_ns < l->soonest_ns)
    return;
  l->soonest_ns = INT64_MAX;
  for (uint32_t i = 0; i < l->max; i++) {
    const struct lls_pol_lease *lease = &l->leases[i];
    if (lease->first == LLS_POL_NIL)
      continue;
    if (lease->until_ns <= now_ns)
      end(l, i);
    else if (lease->until_ns < l->soonest_ns)
      l->soonest_ns = lease->until_ns;
  }
}

static uint32_t soonest_of(const struct lls_pol_leases *l, uint32_t tier)
{
  uint32_t best = LLS_POL_NIL;
  for (uint32_t i = 0; i < l->max; i++)
    if (l->leases[i].first != LLS_POL_NIL && l->leases[i].tier == tier &&
        (best == LLS_POL_NIL || l->leases[i].until_ns < l->leases[best].until_ns))
      best = i;
  return best;
}

bool lls_pol_leases_make_room(struct lls_pol_leases *l, uint32_t tier,
                              const uint32_t *blocks)
{
  while (!lls_pol_slabs_fits(l->tree->tiers[tier].slabs, blocks)) {
    uint32_t i = l->n > 0 ? soonest_of(l, tier) : LLS_POL_NIL;
    if (i == LLS_POL_NIL ||
        !lls_pol_journal_has_room(l->tree->journal, changes_to_end(l, i)))
      return false;
    end(l, i);
  }
  return true;
}

void lls_pol_leases_end(struct lls_pol_leases *l, uint32_t tier)
{
  for (uint32_t i = 0; i < l->max && l->n > 0; i++)
    if (l->leases[i].first != LLS_POL_NIL && l->leases[i].tier == tier)
      end(l, i);
}

/* ---- state and audit ----------------------------------------------------------- */

void lls_pol_leases_mark(const struct lls_pol_leases *l, uint32_t tier, uint32_t *marks)
{
  const struct lls_pol_tree *t = l->tree;
  for (uint32_t i = 0; i < l->max; i++)
    for (uint32_t h = l->leases[i].first; h != LLS_POL_NIL; h = l->holds[h].next)
      if (l->leases[i].tier == tier)
        marks[lls_pol_slabs_number(t->tiers[tier].slabs,
                                   t->places[l->holds[h].place].unit)]++;
}

int lls_pol_leases_pass(struct lls_pol_leases *l, struct lls_pol_state_walk *w)
{
  lls_pol_state_pass(w, &l->n, sizeof l->n);
  lls_pol_state_pass(w, &l->free_lease, sizeof l->free_lease);
  lls_pol_state_pass(w, &l->free_hold, sizeof l->free_hold);
  lls_pol_state_pass(w, &l->holds_left, sizeof l->holds_left);
  lls_pol_state_pass(w, &l->soonest_ns, sizeof l->soonest_ns);
  lls_pol_state_pass(w, l->units, sizeof l->units);
  lls_pol_state_pass(w, l->leases, l->max * sizeof *l->leases);
  lls_pol_state_pass(w, l->holds, l->n_holds * sizeof *l->holds);
  lls_pol_state_pass(w, l->buckets, ((size_t)l->bucket_mask + 1) * sizeof *l->buckets);
  lls_pol_state_pass(w, l->of_place, places_of(l) * sizeof *l->of_place);
  return lls_pol_state_is_torn(w) ? -EINVAL : 0;
}

/* Prints a lease; false: it has what no lease can have. */
static bool audit_lease(const struct lls_pol_leases *l, struct lls_pol_report *a,
                        const struct lls_pol_lease *lease, uint32_t *n)
{
  const struct lls_pol_tree *t = l->tree;
  uint32_t before = *n;
  lls_pol_report_say(a, "lease of session %" PRIu64 " until %" PRId64, lease->session,
                     lease->until_ns);
  lls_pol_report_say(a, ", tier %" PRIu32 ", places", lease->tier);
  for (uint32_t h = lease->first; h != LLS_POL_NIL; h = l->holds[h].next, ++*n) {
    if (!lls_pol_report_check(a, h < l->n_holds && *n < l->n_holds,
                              "a lease leads outside", h))
      return false;
    uint32_t place = l->holds[h].place;
    if (!lls_pol_report_check(a,
                              place < places_of(l) && tier_of(l, place) == lease->tier &&
                                  l->of_place[place] > 0 &&
                                  t->places[place].unit != LLS_POL_NIL,
                              "a lease of a block that is not in the tree", place))
      return false;
    lls_pol_report_say(a, " %" PRIu32, place);
  }
  lls_pol_report_end_line(a);
  return lls_pol_report_check(a, *n - before == lease->blocks,
                              "blocks of a lease are counted wrong", lease->blocks);
}

/* Each lease is either free or in one chain of the index, and free holds are as many as
 * counted; false: a chain leads outside. */
static bool audit_index(const struct lls_pol_leases *l, struct lls_pol_report *a)
{
  uint32_t n = 0, n_free = 0, n_holds = 0;
  for (uint32_t i = 0; i <= l->bucket_mask; i++)
    for (uint32_t at = l->buckets[i]; at != LLS_POL_NIL; at = l->leases[at].next)
      if (!lls_pol_report_check(a, at < l->max && n++ < l->max,
                                "the index of leases leads outside", at))
        return false;
  for (uint32_t at = l->free_lease; at != LLS_POL_NIL; at = l->leases[at].next)
    if (!lls_pol_report_check(
            a, at < l->max && n_free++ < l->max && l->leases[at].first == LLS_POL_NIL,
            "free leases lead outside", at))
      return false;
  for (uint32_t at = l->free_hold; at != LLS_POL_NIL; at = l->holds[at].next)
    if (!lls_pol_report_check(a, at < l->n_holds && n_holds++ < l->n_holds,
                              "free holds of leases lead outside", at))
      return false;
  return lls_pol_report_check(
      a, n == l->n && n + n_free == l->max && n_holds == l->holds_left,
      "free leases are counted wrong", n_free);
}

void lls_pol_leases_audit(struct lls_pol_leases *l, struct lls_pol_report *a)
{
  uint32_t n = 0, n_holds = 0, of_places = 0, units[LLS_POL_MAX_TIERS] = {0};
  lls_pol_report_check(a, l->n_holds == l->tree->n_nodes, "holds of another tree",
                       l->n_holds);
  if (!audit_index(l, a))
    return;
  for (uint32_t i = 0; i < l->max && a->result == 0; i++) {
    if (l->leases[i].first == LLS_POL_NIL)
      continue;
    n++;
    if (!audit_lease(l, a, &l->leases[i], &n_holds))
      return;
    lls_pol_report_check(a, find(l, l->leases[i].session, l->leases[i].tier) == i,
                         "a session has two leases", i);
  }
  for (uint32_t place = 0; place < places_of(l) && a->result == 0; place++) {
    uint32_t tier = tier_of(l, place), unit = l->tree->places[place].unit;
    of_places += l->of_place[place];
    if (l->of_place[place] == 0 ||
        !lls_pol_report_check(a, lls_pol_slabs_is_taken(l->tree->tiers[tier].slabs, unit),
                              "leases of no block", place))
      continue;
    units[tier] += units_of(l, place);
  }
  lls_pol_report_check(
      a, n == l->n && n_holds + l->holds_left == l->n_holds && n_holds == of_places,
      "leases are counted wrong", n);
  for (uint32_t tier = 0; tier < l->tree->n_tiers; tier++)
    lls_pol_report_check(a, units[tier] == l->units[tier],
                         "units of leases are counted wrong", tier);
}
