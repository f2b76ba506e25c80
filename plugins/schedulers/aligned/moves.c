/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory ahead of need. The next batch is brought here while others compute: from the
 * host where the cache manager can (section 3.2, step 4 of figure 4), and from the
 * instance that prefilled it. What it lacks, and the next prompts do, is made free by
 * those of the pool that are here, the newest first: they go to the host, which is the
 * pool's memory.
 */
#include "aligned.h"

struct moves { /* of one plan */
  struct lls_pol_step *s;
  int64_t free_units; /* less what was promised in this plan */
  int64_t floor;      /* units for the running batch to grow into */
  int64_t lacking;    /* units of those that run next and are not here */
};

/* ---- here -------------------------------------------------------------------------- */

/* From another instance; one that can never be held is asked for, to be told so. */
static bool take_over(struct moves *m, const struct lls_request *r, int64_t units)
{
  if (units + m->floor > m->free_units && units <= m->s->total_units)
    return false;
  lls_plan_migrate(m->s->plan, r, m->s->view->instance);
  m->free_units -= units;
  return true;
}

static bool upload(struct aligned *a, struct moves *m, const struct lls_request *r,
                   int64_t units)
{
  if (!a->ahead || units + m->floor > m->free_units)
    return false;
  lls_plan_add(m->s->plan, LLS_PLAN_UPLOAD, r);
  member_of(a, r)->leaves = false;
  m->free_units -= units;
  return true;
}

/* The instance that has it may have it on the host: its device is on the way. */
static bool come(struct moves *m, const struct lls_request *r, int64_t units)
{
  if (r->residency == LLS_RESIDENT_DEVICE)
    return take_over(m, r, units);
  if (r->residency == LLS_RESIDENT_HOST)
    lls_plan_add(m->s->plan, LLS_PLAN_UPLOAD, r);
  return false;
}

/* The next batch waits on the device of the instance that has it: the Candidate Batch
 * Buffer. */
static void hint(struct aligned *a, struct moves *m)
{
  for (uint32_t i = 0; i < a->next.n; i++) {
    const struct member *who = &a->members[a->next.slots[i]];
    if (who->offered && who->request->residency == LLS_RESIDENT_HOST)
      lls_plan_add(m->s->plan, LLS_PLAN_UPLOAD, who->request);
  }
}

/* So do those that will join the running batch: or room that is there for them would be
 * empty while they are on two ways, one after the other. */
static void stock(struct aligned *a, struct moves *m)
{
  struct search_batch b = {0};
  double blocks = a->params.crb_frac * m->s->total_units / BLOCK_UNITS;
  batch_candidates(a, (uint64_t)blocks, &b);
  for (uint32_t i = 0; i < b.n; i++) {
    struct member *who = &a->members[b.slots[i]];
    who->stocked = a->plans;
    if (who->offered && who->request->residency == LLS_RESIDENT_HOST)
      lls_plan_add(m->s->plan, LLS_PLAN_UPLOAD, who->request);
  }
}

/* Those of a buffer that are not here; how many are on their way. */
static uint32_t bring(struct aligned *a, struct moves *m, const struct buffer *b)
{
  uint32_t arriving = 0;
  for (uint32_t i = 0; i < b->n; i++) {
    const struct member *who = &a->members[b->slots[i]];
    const struct lls_request *r = who->request;
    bool moving = !who->offered && r->state == LLS_MOVING;
    arriving += moving;
    if (moving || is_resident(a, b->slots[i]) || who->named == a->plans)
      continue;
    int64_t units = decode_units(a, m->s, r);
    bool comes = who->offered ? come(m, r, units) : upload(a, m, r, units);
    arriving += comes;
    m->lacking += comes ? 0 : units;
  }
  return arriving;
}

/* The next batch's turn is not far. Brought as soon as it is known it would take the
 * memory that the running one grows into and others join with: 40 % of it, most of the
 * time. */
static bool is_near(const struct aligned *a, const struct lls_pol_step *s)
{
  return a->ahead && batch_is_low(a, s, a->params.bring_at);
}

/* Offers that were not asked for yet are left where they are, as long as they hold
 * little of such a cache as this one; the others' memory is for prompts. Beyond that they
 * go to the host there (step 2 of figure 4), or are taken over. */
static void relieve(struct aligned *a, struct moves *m)
{
  const struct lls_step_view *view = m->s->view;
  int64_t held = 0, most = (int64_t)(a->params.offers_frac * m->s->total_units);
  for (uint32_t i = 0; i < view->n_offered; i++)
    if (view->offered[i]->residency != LLS_RESIDENT_HOST)
      held += BLOCK_UNITS * (int64_t)blocks_of(a, view->offered[i]->cached_tokens);
  for (uint32_t i = 0; i < view->n_offered && held > most; i++) {
    const struct lls_request *r = view->offered[i];
    const struct member *who = member_of(a, r);
    if (who->place != POOL || who->stocked == a->plans ||
        r->residency != LLS_RESIDENT_DEVICE)
      continue;
    if (a->remote) {
      lls_plan_add(m->s->plan, LLS_PLAN_OFFLOAD, r);
      held -= BLOCK_UNITS * (int64_t)blocks_of(a, r->cached_tokens);
      continue;
    }
    int64_t units = decode_units(a, m->s, r);
    if (units + m->floor + m->lacking > m->free_units) {
      m->lacking += units;
      return;
    }
    take_over(m, r, units);
    held -= units;
  }
}

/* ---- away -------------------------------------------------------------------------- */

/* Units that come free as transfers go on. */
static int64_t leaving_units(const struct aligned *a, const struct lls_step_view *view)
{
  int64_t units = 0;
  for (uint32_t i = 0; i < view->n_moving; i++) {
    const struct lls_request *r = view->moving[i];
    if (a->members[r->slot].leaves)
      units += BLOCK_UNITS * (int64_t)blocks_of(a, r->cached_tokens);
  }
  return units;
}

/* Units of the prompts that the next step of prompts would like. */
static int64_t prompt_units(const struct aligned *a, const struct lls_step_view *view)
{
  if (view->n_waiting == 0)
    return 0;
  uint32_t tokens = lls_request_pending(view->waiting[0]);
  if (view->n_waiting > 1 && tokens < a->params.prefill_tokens)
    tokens = (uint32_t)a->params.prefill_tokens;
  return BLOCK_UNITS * (int64_t)blocks_of(a, tokens);
}

/* Those of a place, the newest first, until so much is free. */
static void offload(struct aligned *a, struct moves *m, enum place place, int64_t wanted,
                    int64_t *host_units)
{
  const struct lls_step_view *view = m->s->view;
  for (uint32_t i = view->n_running; i-- > 0 && m->free_units < wanted;) {
    const struct lls_request *r = view->running[i];
    struct member *who = member_of(a, r);
    int64_t units = BLOCK_UNITS * (int64_t)blocks_of(a, r->cached_tokens);
    if (who->place != place || !is_resident(a, r->slot))
      continue;
    if (a->remote && home_send(a, m->s, r->slot)) {
      m->free_units += units;
      continue;
    }
    if (units > *host_units)
      return;
    lls_plan_add(m->s->plan, LLS_PLAN_OFFLOAD, r);
    who->leaves = true;
    *host_units -= units;
    m->free_units += units;
  }
}

static void make_free(struct aligned *a, struct moves *m)
{
  const struct lls_step_view *view = m->s->view;
  struct lls_capacity host = {.size = sizeof host};
  view->cache->capacity(view->cache->context, LLS_TIER_HOST, &host);
  int64_t host_units = host.free_units;
  uint32_t n = a->n_running + a->spare.n + 1 + (is_near(a, m->s) ? a->next.n : 0);
  int64_t wanted = decode_headroom(a, m->s, n) + m->lacking + prompt_units(a, view);
  m->free_units += leaving_units(a, view) + (int64_t)a->leaving_units;
  offload(a, m, POOL, wanted, &host_units);
  if (!is_near(a, m->s))
    offload(a, m, NEXT, wanted, &host_units);
}

void moves_plan(struct aligned *a, struct lls_pol_step *s)
{
  struct moves m = {.s = s, .free_units = lls_pol_step_free_units(s)};
  if (a->gives_way)
    return;
  m.floor = decode_headroom(a, s, a->n_running);
  bring(a, &m, &a->spare);
  a->arriving = 0;
  if (is_near(a, s))
    a->arriving = bring(a, &m, &a->next);
  else if (a->remote && a->ahead)
    hint(a, &m);
  if (a->remote && a->ahead)
    stock(a, &m);
  if (s->view->n_offered > 0)
    relieve(a, &m);
  if (a->moves)
    make_free(a, &m);
}
