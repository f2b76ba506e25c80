/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the next batch from the tree, switches to it, and adds requests of the pool to
 * the running batch if they fit.
 *
 * The paper keeps both in the memory of prefill GPUs. Here a batch is a decision,
 * whichever tier holds its memory; moves.c copies memory to the device during steps.
 */
#include "aligned.h"

/* ---- the running batch ------------------------------------------------------------- */

/* Returns the blocks of all running requests. */
uint64_t batch_blocks(const struct aligned *a)
{
  uint64_t blocks = 0;
  for (uint32_t i = 0; i < a->n_running; i++)
    blocks += blocks_of(a, length_of(a, a->running[i]));
  return blocks;
}

/* Returns the units by which requests that join may still enlarge the running batch:
 * fill_frac of the cache, less the batch's units. With fill_frac = 1 only free memory
 * limits it, since requests may share blocks. */
int64_t batch_room(const struct aligned *a, const struct lls_pol_step *s)
{
  if (a->params.fill_frac >= 1)
    return INT64_MAX;
  return (int64_t)(a->params.fill_frac * s->total_units) -
         a->fit.growth_units * (int64_t)batch_blocks(a);
}

/* True if the running batch is smaller than `times` the size that saturates the device
 * (section 3.2). Memory bandwidth is the bottleneck, so the size is counted in blocks,
 * not in requests. */
bool batch_is_low(const struct aligned *a, const struct lls_pol_step *s, double times)
{
  double most = a->params.bmax_frac * s->total_units / a->fit.growth_units;
  if (a->params.switch_frac <= 0)
    return a->n_running < times * (double)a->params.switch_below;
  if ((double)a->peak_blocks > most)
    most = (double)a->peak_blocks;
  return (double)batch_blocks(a) < times * a->params.switch_frac * most;
}

/* The range of lengths the batch was formed with, its end moved by a token for each step
 * since. The range of the running requests would only widen, with each that joins. */
struct tree_range batch_range(const struct aligned *a)
{
  uint64_t most = a->tree.len_max, last = a->lengths.last + a->steps;
  return (struct tree_range){a->lengths.first, (uint32_t)(last < most ? last : most)};
}

static uint32_t partition(uint32_t *v, uint32_t n)
{
  uint32_t pivot = v[n / 2], kept = 0;
  v[n / 2] = v[n - 1];
  for (uint32_t i = 0; i + 1 < n; i++)
    if (v[i] < pivot) {
      uint32_t smaller = v[i];
      v[i] = v[kept];
      v[kept++] = smaller;
    }
  v[n - 1] = v[kept];
  v[kept] = pivot;
  return kept;
}

/* Returns the median length of running requests, or of spare ones if none runs. */
uint32_t batch_median(const struct aligned *a)
{
  uint32_t *v = a->found, n = a->n_running, middle = n / 2;
  if (n == 0)
    return a->spare.n > 0 ? length_of(a, a->spare.slots[a->spare.n / 2]) : 0;
  for (uint32_t i = 0; i < n; i++)
    v[i] = length_of(a, a->running[i]);
  for (;;) {
    uint32_t at = partition(v, n);
    if (at == middle)
      return v[at];
    if (at > middle) {
      n = at;
    } else {
      v += at + 1;
      n -= at + 1;
      middle -= at + 1;
    }
  }
}

static const char *const case_names[] = {
    "batches_none",     "batches_dense", "batches_widened",  "batches_split",
    "batches_oversize", "batches_small", "batches_starving", "batches_fifo"};

/* ---- the next one ------------------------------------------------------------------ */

/* True if a batch may have few requests: no other request can run, or one in the pool
 * has waited for max_wait. */
static bool may_be_small(const struct aligned *a, int64_t now_ns)
{
  int64_t since_ns = now_ns;
  if (a->n_running == 0 && a->spare.n == 0)
    return true;
  if (a->params.max_wait == 0)
    return false;
  for (uint32_t at = a->tree.oldest; at != TREE_NIL; at = a->tree.entries[at].newer)
    if (a->tree.entries[at].entered_ns < since_ns)
      since_ns = a->tree.entries[at].entered_ns;
  return now_ns - since_ns >= a->params.max_wait;
}

/* Rejects a request too large to be decoded here even alone. If another instance offers
 * it, it is taken over as well, so that the core refuses it to that instance. */
static bool reject_oversize(struct aligned *a, struct lls_pol_step *s,
                            const struct search_batch *b)
{
  const struct member *m = &a->members[b->slots[0]];
  if (b->found != SEARCH_OVERSIZE || m->offered ||
      a->fit.growth_units * (b->blocks + 1) <= s->total_units)
    return false;
  members_reject(a, s, b->slots[0]);
  return true;
}

/* Returns Rmin, in the paper the number that saturates its device. If Bmax can't hold
 * as many requests of the waiting lengths, it is a fraction of the number that Bmax can
 * hold. */
static uint32_t least_requests(const struct aligned *a, uint64_t bmax)
{
  const struct tree_node *root = &a->tree.nodes[0];
  double held = (double)bmax * root->requests / (double)root->blocks;
  double part = a->params.rmin_frac * held;
  uint32_t rmin = (uint32_t)a->params.rmin;
  return a->params.rmin_frac > 0 && part < rmin ? (uint32_t)(part + 1) : rmin;
}

/* Returns the blocks of a class of lengths: Bmax, or a fraction of the pool if it holds
 * more. */
static uint64_t class_blocks(const struct aligned *a, uint64_t bmax)
{
  double blocks = a->params.class_frac * (double)a->tree.nodes[0].blocks;
  if (a->params.batching == BATCHING_FCFS)
    return bmax;
  return blocks > (double)bmax ? (uint64_t)blocks : bmax;
}

/* Returns the time after which a request starves: several times the time in which the
 * pool is served. In a deep pool every request waits about that long, and would starve
 * otherwise. */
static int64_t starving_after(const struct aligned *a, uint64_t most)
{
  double batches = 1 + (double)a->tree.nodes[0].blocks / (double)(most + 1);
  double served_ns = a->params.starve_rounds * batches * a->batch_ns;
  if (a->params.starve == 0 || served_ns < (double)a->params.starve)
    return a->params.starve;
  return served_ns < 1e18 ? (int64_t)served_ns : INT64_MAX;
}

/* Reduces a batch of more than Bmax blocks to its shortest requests: they grow into the
 * lengths of the rest, which joins as memory becomes free (batch_fill). */
static void begin_with_shortest(struct aligned *a, struct search_batch *b, uint64_t bmax)
{
  struct tree_range r = {UINT32_MAX, 0};
  for (uint32_t i = 0; i < b->n; i++) {
    uint32_t length = a->tree.entries[b->slots[i]].length;
    r.first = length < r.first ? length : r.first;
    r.last = length > r.last ? length : r.last;
  }
  a->next_lengths = r;
  struct search_batch all = *b;
  if (b->n == 1 || b->blocks <= bmax)
    return;
  search_near(&a->tree, r, r, bmax, UINT32_MAX, b);
  if (b->n == 0)
    search_near(&a->tree, r, r, UINT64_MAX, 1, b);
  b->found = all.found;
  b->node = all.node;
}

static bool search(struct aligned *a, struct lls_pol_step *s, struct search_batch *b)
{
  const struct aligned_params *p = &a->params;
  uint64_t bmax = (uint64_t)(p->bmax_frac * s->total_units / a->fit.growth_units);
  uint64_t most = class_blocks(a, bmax);
  const struct search_limits limits = {
      .bmax = most,
      .rmin = least_requests(a, bmax),
      .full = p->expand == EXPAND_FULL,
      .starve_ns = starving_after(a, most),
  };
  b->slots = a->found;
  if (p->batching == BATCHING_FCFS)
    search_fifo(&a->tree, &limits, b);
  else
    search_dense(&a->tree, &limits, s->view->now_ns, b);
  if (b->n == 0 || (b->found == SEARCH_SMALL && !may_be_small(a, s->view->now_ns)) ||
      reject_oversize(a, s, b))
    return false;
  a->next_is_all = b->n == a->tree.nodes[0].requests;
  a->class_blocks = most;
  begin_with_shortest(a, b, bmax);
  return true;
}

void batch_form(struct aligned *a, struct lls_pol_step *s)
{
  struct search_batch b = {0};
  if (a->next.n > 0 || a->tree.nodes[0].requests == 0 || !search(a, s, &b))
    return;
  lls_pol_scheduler_count(&a->base, case_names[b.found], 1);
  search_mark(&a->tree, &b, s->view->now_ns);
  a->next_found = b.found;
  for (uint32_t i = 0; i < b.n; i++)
    members_set(a, b.slots[i], NEXT, s->view->now_ns);
}

/* ---- the switch -------------------------------------------------------------------- */

static uint32_t distance(struct tree_range r, uint32_t length)
{
  return length < r.first ? r.first - length : length > r.last ? length - r.last : 0;
}

bool batch_is_due(const struct aligned *a, const struct lls_pol_step *s)
{
  return a->spare.n == 0 && a->next.n > 0 &&
         (a->n_running == 0 || (a->arriving == 0 && batch_is_low(a, s, 1)));
}

/* Section 3.3: the next batch replaces the remainder of the old one, which returns to the
 * pool and waits there for requests of its length. Returns false if the next batch is all
 * that waits, since the remainder would only be delayed; and with batches in order of
 * arrival, since the remainder arrived first. */
static bool replaces(const struct aligned *a)
{
  return a->params.rest == REST_EVICT && a->params.batching != BATCHING_FCFS &&
         a->next_found != SEARCH_SMALL;
}

static void send_away(struct aligned *a, struct tree_range r, int64_t now_ns)
{
  for (uint32_t i = a->n_running; i-- > 0;) {
    uint32_t slot = a->running[i];
    if (distance(r, length_of(a, slot)) > 0)
      members_set(a, slot, POOL, now_ns);
    else
      a->members[slot].tag = a->tag;
  }
}

static void learn_duration(struct aligned *a, int64_t now_ns)
{
  double took_ns = (double)(now_ns - a->since_ns);
  if (a->tag > 0)
    a->batch_ns += (took_ns - a->batch_ns) / lls_pol_min(a->tag, 8);
  a->since_ns = now_ns;
}

/* Makes the next batch the newest one: its requests become SPARE. */
void batch_switch(struct aligned *a, struct lls_pol_step *s)
{
  struct tree_range old = batch_range(a), new = a->next_lengths;
  bool joins = a->n_running > 0 && !replaces(a);
  a->joined = joins || a->next_is_all;
  a->closed = false;
  learn_duration(a, s->view->now_ns);
  a->tag++;
  a->lengths = new;
  a->steps = a->peak_blocks = 0;
  if (joins) {
    a->lengths.first = lls_pol_min(old.first, new.first);
    a->lengths.last = old.last > new.last ? old.last : new.last;
  } else {
    send_away(a, new, s->view->now_ns);
  }
  while (a->next.n > 0)
    members_set(a, a->next.slots[a->next.n - 1], SPARE, s->view->now_ns);
  lls_pol_scheduler_count(&a->base, "switches", 1);
}

/* ---- by chance --------------------------------------------------------------------- */

/* Widens the batch's range by the configured slack, for when the pool has no requests of
 * the batch's own lengths. */
static struct tree_range with_slack(const struct aligned *a, struct tree_range r)
{
  if (a->closed)
    return r;
  double first = r.first / (1 + a->params.slack), last = r.last * (1 + a->params.slack);
  return (struct tree_range){first > 1 ? (uint32_t)first : 1,
                             last < a->tree.len_max ? (uint32_t)last : a->tree.len_max};
}

/* Finds requests of the pool in the order in which they would join: by length from the
 * shortest of the batch's own lengths to the longest, then the nearest to these; with
 * batching = fcfs by arrival. */
static void find_joining(const struct aligned *a, uint64_t blocks, uint32_t requests,
                         struct search_batch *b)
{
  struct tree_range r = batch_range(a);
  if (a->params.batching == BATCHING_FCFS)
    search_oldest(&a->tree, blocks, requests, b);
  else
    search_near(&a->tree, r, with_slack(a, r), blocks, requests, b);
}

void batch_candidates(const struct aligned *a, uint64_t blocks, struct search_batch *b)
{
  bool joins = !a->joined || a->params.batching == BATCHING_FCFS;
  b->slots = a->found;
  b->n = 0;
  if (a->tag > 0 && joins && a->tree.nodes[0].requests > 0)
    find_joining(a, blocks, UINT32_MAX, b);
}

/* True if requests of the pool may join the batch. A batch of all lengths is filled as
 * long as the whole pool fits. Once other lengths starve, only the batch's own lengths
 * join: without them it would run half empty, the pool would take longer to serve, and
 * more requests would starve. Batches in order of arrival follow none of these rules. */
static bool may_fill(struct aligned *a, int64_t room, int64_t now_ns)
{
  if (a->tag == 0 || a->params.batching == BATCHING_FCFS)
    return a->tag > 0;
  a->closed =
      a->closed || search_starves(&a->tree, starving_after(a, a->class_blocks), now_ns);
  return !a->joined || a->fit.growth_units * (int64_t)a->tree.nodes[0].blocks <= room;
}

static int64_t join_units(const struct aligned *a, uint32_t slot)
{
  return units_of(a, length_of(a, slot) + 1);
}

/* Section 3.5, dynamic scheduling: adds as many requests as there are seats and memory
 * for. A request that does not fit is skipped, but ends the search in order of arrival:
 * there, shorter requests would overtake it. */
void batch_fill(struct aligned *a, struct lls_pol_step *s, uint32_t seats)
{
  uint32_t coming = a->n_running + a->spare.n;
  int64_t room = (int64_t)lls_pol_step_free_units(s) - decode_headroom(a, s, coming + 1);
  struct search_batch b = {.slots = a->found};
  if (coming >= seats || room <= 0 || a->n_running == 0 || a->tree.nodes[0].requests == 0)
    return;
  if (!may_fill(a, room, s->view->now_ns))
    return;
  find_joining(a, UINT64_MAX, seats - coming, &b);
  int64_t batch = batch_room(a, s); /* requests on the device already count as well */
  for (uint32_t i = 0; i < a->spare.n; i++) {
    int64_t units = join_units(a, a->spare.slots[i]);
    room -= is_resident(a, a->spare.slots[i]) ? 0 : units;
    batch -= units;
  }
  for (uint32_t i = 0; i < b.n; i++) {
    bool here = is_resident(a, b.slots[i]);
    int64_t units = join_units(a, b.slots[i]), lacking = here ? 0 : units;
    if (!here && !a->ahead && !a->members[b.slots[i]].offered)
      continue;
    if (lacking > room || units > batch) {
      if (a->params.batching == BATCHING_FCFS)
        return;
      continue;
    }
    room -= lacking;
    batch -= units;
    lls_pol_scheduler_count(&a->base, "filled", 1);
    members_set(a, b.slots[i], SPARE, s->view->now_ns);
  }
}
