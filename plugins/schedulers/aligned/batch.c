/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Choice of the next batch out of the tree, the switch to it, and requests of the pool
 * that happen to fit the running batch.
 *
 * The paper keeps both in the memory of prefill GPUs. Here they are decisions, and their
 * memory is wherever it is: what has to be copied is copied beside steps (moves.c).
 */
#include "aligned.h"

/* ---- the running batch ------------------------------------------------------------- */

/* Lengths of the newest batch in it; none: an empty range. */
struct tree_range batch_range(const struct aligned *a)
{
  struct tree_range r = {UINT32_MAX, 0};
  for (uint32_t i = 0; i < a->n_running; i++) {
    uint32_t length = length_of(a, a->running[i]);
    if (a->members[a->running[i]].tag != a->tag)
      continue;
    r.first = length < r.first ? length : r.first;
    r.last = length > r.last ? length : r.last;
  }
  return r;
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

/* The median length of all that run; of the spare ones while none does. */
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

/* Few are a batch if nothing else is to be done, or they have waited. */
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

/* Even alone it could not be decoded here. What is offered is asked for all the same, so
 * that the instance that has it is told. */
static bool reject_oversize(struct aligned *a, struct lls_pol_step *s,
                            const struct search_batch *b)
{
  const struct member *m = &a->members[b->slots[0]];
  if (b->found != SEARCH_OVERSIZE || m->offered ||
      BLOCK_UNITS * (b->blocks + 1) <= s->total_units)
    return false;
  members_reject(a, s, b->slots[0]);
  return true;
}

static bool search(struct aligned *a, struct lls_pol_step *s, struct search_batch *b)
{
  const struct aligned_params *p = &a->params;
  const struct search_limits limits = {
      .bmax = (uint64_t)(p->bmax_frac * s->total_units / BLOCK_UNITS),
      .rmin = (uint32_t)p->rmin,
      .full = p->expand == EXPAND_FULL,
      .starve_ns = p->starve,
  };
  b->slots = a->found;
  if (p->batching == BATCHING_FCFS)
    search_fifo(&a->tree, &limits, b);
  else
    search_dense(&a->tree, &limits, s->view->now_ns, b);
  return b->n > 0 && (b->found != SEARCH_SMALL || may_be_small(a, s->view->now_ns)) &&
         !reject_oversize(a, s, b);
}

void batch_form(struct aligned *a, struct lls_pol_step *s)
{
  struct search_batch b = {0};
  if (a->next.n > 0 || a->tree.nodes[0].requests == 0 || !search(a, s, &b))
    return;
  lls_pol_scheduler_count(&a->base, case_names[b.found], 1);
  search_mark(&a->tree, &b, s->view->now_ns);
  for (uint32_t i = 0; i < b.n; i++)
    members_set(a, b.slots[i], NEXT, s->view->now_ns);
}

/* ---- the switch -------------------------------------------------------------------- */

static uint32_t distance(struct tree_range r, uint32_t length)
{
  return length < r.first ? r.first - length : length > r.last ? length - r.last : 0;
}

/* A spare request whose batch has grown away from it goes back to the pool; the batch
 * that is next becomes the newest, and waits for its turn as spare. */
void batch_switch(struct aligned *a, int64_t now_ns)
{
  struct tree_range r = batch_range(a);
  for (uint32_t i = a->spare.n; i-- > 0 && a->n_running > 0;)
    if (distance(r, length_of(a, a->spare.slots[i])) > a->params.slack_drop)
      members_set(a, a->spare.slots[i], POOL, now_ns);
  while (a->next.n > 0)
    members_set(a, a->next.slots[a->next.n - 1], SPARE, now_ns);
  a->tag++;
  lls_pol_scheduler_count(&a->base, "switches", 1);
}

/* ---- by chance --------------------------------------------------------------------- */

static struct tree_range clamped(const struct aligned *a, struct tree_range r,
                                 uint32_t slack)
{
  uint32_t most = a->tree.len_max;
  r.first = r.first > slack ? lls_pol_min(r.first - slack, most) : 1;
  r.last = lls_pol_min(r.last, most - lls_pol_min(slack, most - 1)) + slack;
  r.last = lls_pol_min(r.last, most);
  return r;
}

/* Section 3.5, dynamic scheduling: as many as there are seats and memory for. */
void batch_fill(struct aligned *a, struct lls_pol_step *s, uint32_t seats)
{
  uint32_t coming = a->n_running + a->spare.n;
  int64_t room = (int64_t)lls_pol_step_free_units(s) - decode_headroom(a, s, coming + 1);
  struct search_batch b = {.slots = a->found};
  if (coming >= seats || room <= 0 || a->n_running == 0 || a->tree.nodes[0].requests == 0)
    return;
  struct tree_range r = batch_range(a);
  if (r.last == 0)
    return;
  search_near(&a->tree, clamped(a, r, 0), clamped(a, r, (uint32_t)a->params.slack),
              UINT64_MAX, seats - coming, &b);
  for (uint32_t i = 0; i < a->spare.n; i++)
    if (!is_resident(a, a->spare.slots[i]))
      room -= BLOCK_UNITS * (int64_t)blocks_of(a, length_of(a, a->spare.slots[i]) + 1);
  for (uint32_t i = 0; i < b.n; i++) {
    bool here = is_resident(a, b.slots[i]);
    int64_t units =
        here ? 0 : BLOCK_UNITS * (int64_t)blocks_of(a, length_of(a, b.slots[i]) + 1);
    if ((!here && !a->ahead && !a->members[b.slots[i]].offered) || units > room)
      continue;
    room -= units;
    lls_pol_scheduler_count(&a->base, "filled", 1);
    members_set(a, b.slots[i], SPARE, s->view->now_ns);
  }
}
