/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves memory before it is needed. The next batch is brought to the device while steps
 * compute: from the host if the cache manager can (section 3.2, step 4 of figure 4), and
 * from the instance that prefilled it. Memory that the next batch or the next prompts
 * lack is freed by offloading resident requests of the pool, the newest first, to the
 * host.
 */
#include "aligned.h"

struct moves { /* the moves of one plan */
  struct lls_pol_step *s;
  int64_t free_units; /* less the units promised in this plan */
  int64_t floor;      /* units for the running batch to grow into */
  int64_t lacking;    /* units of the next batch's requests that are not on the device */
};

/* ---- here -------------------------------------------------------------------------- */

/* Takes a request over from another instance. A request larger than the whole cache is
 * taken over as well, so that the core refuses it with LLS_REFUSED_NEVER_FITS. */
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

/* Brings an offered request; if it is on its instance's host, uploads it there first. */
static bool come(struct moves *m, const struct lls_request *r, int64_t units)
{
  if (r->residency == LLS_RESIDENT_DEVICE)
    return take_over(m, r, units);
  if (r->residency == LLS_RESIDENT_HOST)
    lls_plan_add(m->s->plan, LLS_PLAN_UPLOAD, r);
  return false;
}

/* Uploads the next batch to the device of the instance that offers it, where it waits:
 * the Candidate Batch Buffer. */
static void hint(struct aligned *a, struct moves *m)
{
  for (uint32_t i = 0; i < a->next.n; i++) {
    const struct member *who = &a->members[a->next.slots[i]];
    if (who->offered && who->request->residency == LLS_RESIDENT_HOST)
      lls_plan_add(m->s->plan, LLS_PLAN_UPLOAD, who->request);
  }
}

/* Uploads requests that will join the running batch likewise: otherwise their memory here
 * would stay empty during two transfers, one after the other. */
static void stock(struct aligned *a, struct moves *m)
{
  struct search_batch b = {0};
  double blocks = a->params.crb_frac * m->s->total_units / a->fit.growth_units;
  batch_candidates(a, (uint64_t)blocks, &b);
  for (uint32_t i = 0; i < b.n; i++) {
    struct member *who = &a->members[b.slots[i]];
    who->stocked = a->plans;
    if (who->offered && who->request->residency == LLS_RESIDENT_HOST)
      lls_plan_add(m->s->plan, LLS_PLAN_UPLOAD, who->request);
  }
}

/* Brings the requests of a buffer that are not here; returns how many are on their way.
 */
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

/* True if the next batch will run soon. If brought as soon as it is formed, it would take
 * memory that the running batch needs for growth and for requests that join: 40 % of the
 * memory, most of the time. */
static bool is_near(const struct aligned *a, const struct lls_pol_step *s)
{
  return a->ahead && batch_is_low(a, s, a->params.bring_at);
}

/* Leaves offers not requested yet on their instance as long as they hold little memory,
 * measured by this instance's cache: the memory there is for prompts. Further offers go
 * to the host there (step 2 of figure 4), or are taken over. */
static void relieve(struct aligned *a, struct moves *m)
{
  const struct lls_step_view *view = m->s->view;
  int64_t held = 0, most = (int64_t)(a->params.offers_frac * m->s->total_units);
  for (uint32_t i = 0; i < view->n_offered; i++)
    if (view->offered[i]->residency != LLS_RESIDENT_HOST)
      held += units_of(a, view->offered[i]->cached_tokens);
  for (uint32_t i = 0; i < view->n_offered && held > most; i++) {
    const struct lls_request *r = view->offered[i];
    const struct member *who = member_of(a, r);
    if (who->place != POOL || who->stocked == a->plans ||
        r->residency != LLS_RESIDENT_DEVICE)
      continue;
    if (a->remote) {
      lls_plan_add(m->s->plan, LLS_PLAN_OFFLOAD, r);
      held -= units_of(a, r->cached_tokens);
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

/* Returns the units that transfers under way will free. */
static int64_t leaving_units(const struct aligned *a, const struct lls_step_view *view)
{
  int64_t units = 0;
  for (uint32_t i = 0; i < view->n_moving; i++) {
    const struct lls_request *r = view->moving[i];
    if (a->members[r->slot].leaves)
      units += units_of(a, r->cached_tokens);
  }
  return units;
}

/* Returns the units of the prompts in the next step of prompts. */
static int64_t prompt_units(const struct aligned *a, const struct lls_step_view *view)
{
  if (view->n_waiting == 0)
    return 0;
  uint32_t tokens = lls_request_pending(view->waiting[0]);
  if (view->n_waiting > 1 && tokens < a->params.prefill_tokens)
    tokens = (uint32_t)a->params.prefill_tokens;
  return units_of(a, tokens);
}

/* Offloads requests of a place, the newest first, until `wanted` units are free. */
static void offload(struct aligned *a, struct moves *m, enum place place, int64_t wanted,
                    int64_t *host_units)
{
  const struct lls_step_view *view = m->s->view;
  for (uint32_t i = view->n_running; i-- > 0 && m->free_units < wanted;) {
    const struct lls_request *r = view->running[i];
    struct member *who = member_of(a, r);
    int64_t units = units_of(a, r->cached_tokens);
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
