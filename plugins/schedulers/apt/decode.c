/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A decode iteration: one token of each running request. All keep their forms while they
 * fit. If they don't, the densest are kept (incumbent), or greedy chooses requests and
 * forms again (literal, the paper's text).
 */
#include "apt.h"

static bool decodes(const struct lls_request *r)
{
  return r->state == LLS_DECODING;
}

static int reserve(struct lls_pol_step *s, const struct lls_request *r, uint32_t form)
{
  return lls_pol_step_reserve_as(s, r, lls_pol_step_decode_tokens(s, r), form, 0);
}

static void run_all(const struct apt *a, struct lls_pol_step *s)
{
  for (uint32_t i = 0; i < a->n_running; i++)
    if (!a->candidates[i].gone && decodes(s->view->running[i]))
      lls_pol_step_run(s, s->view->running[i], lls_request_pending(s->view->running[i]));
}

/* ---- all of them ------------------------------------------------------------------- */

/* Returns the units for upgrades from hidden to KV form in this step: those free after
 * the growth of all requests. */
static uint64_t room_for_upgrades(const struct apt *a, const struct lls_pol_step *s)
{
  uint64_t growth = s->watermark_units, as_kv = 0, free = lls_pol_step_free_units(s);
  uint64_t dearer = 0;
  if (a->params.upgrade == APT_UPGRADE_NEVER ||
      (a->params.upgrade == APT_UPGRADE_IDLE && a->n_waiting > 0))
    return 0;
  for (uint32_t i = 0; i < a->n_running; i++) {
    const struct candidate *c = &a->candidates[i];
    if (c->gone)
      continue;
    as_kv += c->kv;
    if (decodes(c->request))
      growth += apt_units(a, lls_request_length(c->request), c->held) -
                apt_units(a, c->request->cached_tokens, c->held);
  }
  if (a->params.upgrade == APT_UPGRADE_IDLE && as_kv > s->total_units)
    return 0;
  if (a->params.upgrade == APT_UPGRADE_COST)
    dearer = apt_dearer_than_upgrades(a);
  return free > growth && free - growth > dearer ? free - growth - dearer : 0;
}

/* Reserves a token, in KV form if *room suffices for the upgrade. */
static int grow(struct apt *a, struct lls_pol_step *s, const struct candidate *c,
                uint64_t *room)
{
  if (c->held == LLS_FORM_HIDDEN && c->kv <= *room &&
      reserve(s, c->request, LLS_FORM_KV) == LLS_RESERVE_OK) {
    *room -= c->kv;
    lls_pol_scheduler_count(&a->base, "upgraded", 1);
    return LLS_RESERVE_OK;
  }
  return reserve(s, c->request, LLS_FORM_NONE);
}

/* Reserves a token of each request. Returns false, with nothing reserved, if not all fit.
 */
static bool all_fit(struct apt *a, struct lls_pol_step *s)
{
  uint32_t mark = s->cache->mark(s->cache->context), n = 0, tokens = 0;
  uint64_t room = room_for_upgrades(a, s);
  for (uint32_t i = 0; i < a->n_running; i++) {
    if (a->candidates[i].gone || !decodes(s->view->running[i]))
      continue;
    tokens += lls_request_pending(s->view->running[i]);
    if (n++ < s->sequences && tokens <= s->tokens &&
        grow(a, s, &a->candidates[i], &room) == LLS_RESERVE_OK)
      continue;
    s->cache->rollback(s->cache->context, mark);
    return false;
  }
  return true;
}

/* ---- those worth keeping ----------------------------------------------------------- */

static uint32_t held_units(const struct lls_pol_step *s, const struct lls_request *r)
{
  struct lls_cache_info info = {.size = sizeof info};
  s->cache->info(s->cache->context, r, &info);
  return info.device_units;
}

/* Returns cur, the units that the request holds after this step. A begun prompt has all
 * of its memory. */
static uint32_t current_units(const struct apt *a, const struct lls_pol_step *s,
                              const struct candidate *c)
{
  if (!decodes(c->request))
    return held_units(s, c->request);
  return apt_units(a, lls_request_length(c->request), c->held);
}

static void preempt(struct apt *a, struct lls_pol_step *s, const struct candidate *c)
{
  bool in_half = c->held == LLS_FORM_KV && c->hidden > 0;
  if (!lls_pol_step_take_off(s, c->request))
    return;
  lls_pol_scheduler_count(&a->base, "preempted", 1);
  if (in_half && a->params.decode_mode == APT_INCUMBENT && c->pending > a->n_rho * c->kv)
    c->request->user[1] |= APT_WANTS_HIDDEN;
}

/* Returns the rank by which requests are kept: p / cur, if the request can still be in
 * time. */
static double worth_keeping(const struct apt *a, const struct candidate *c,
                            uint32_t units)
{
  if (c->violated || c->standing == APT_LOST)
    return a->eps / 2;
  return c->standing == APT_SPARE || units == 0 ? a->eps : 1 + c->pending / units;
}

/* Keeps requests in order of p / cur while they fit into the units they all hold and the
 * free ones. A shared block counts once for each holder, in both sums. */
static void keep_densest(struct apt *a, struct lls_pol_step *s)
{
  uint64_t room = lls_pol_step_free_units(s), used = 0;
  a->heap.n = 0;
  for (uint32_t i = 0; i < a->n_running; i++) {
    struct candidate *c = &a->candidates[i];
    if (c->gone)
      continue;
    room += held_units(s, c->request);
    uint32_t units = current_units(a, s, c);
    struct lls_pol_heap_entry e =
        apt_by_density(worth_keeping(a, c, units), false, units, i);
    e.item = c;
    a->heap.entries[a->heap.n++] = e;
  }
  lls_pol_heap_build(&a->heap);
  s->tail = 0;
  s->order = a->order;
  while (a->heap.n > 0) {
    const struct candidate *c = lls_pol_heap_pop(&a->heap).item;
    uint32_t units = current_units(a, s, c);
    if (used + units <= room) {
      used += units;
      a->order[s->tail++] = c->request;
    } else {
      preempt(a, s, c);
    }
  }
}

/* Runs the kept requests. If a reservation fails all the same, the least dense ones are
 * preempted. */
static void run_kept(struct apt *a, struct lls_pol_step *s)
{
  uint32_t before = s->preempted;
  s->no_margin = true;
  for (uint32_t i = 0; i < s->tail && s->tokens > 0 && s->sequences > 0; i++)
    if (decodes(s->order[i]))
      lls_pol_step_decode(s, i);
  lls_pol_scheduler_count(&a->base, "preempted", s->preempted - before);
}

/* ---- the paper's text -------------------------------------------------------------- */

static bool upgrade(struct apt *a, struct lls_pol_step *s, const struct lls_request *r)
{
  if (s->sequences == 0 || s->tokens == 0 || reserve(s, r, LLS_FORM_KV) != LLS_RESERVE_OK)
    return false;
  lls_pol_step_run(s, r, lls_pol_step_decode_tokens(s, r));
  lls_pol_scheduler_count(&a->base, "upgraded", 1);
  return true;
}

/* Runs greedy over all running requests. A changed form means prefilling again, except
 * from hidden to KV form, which the cache converts in this step. In chunked mode `taken`
 * holds waiting requests that begin after the decodes, so it is left unchanged. */
static void literal(struct apt *a, struct lls_pol_step *s)
{
  for (uint32_t i = 0; i < a->n_running; i++)
    a->candidates[i].held =
        decodes(a->candidates[i].request) ? LLS_FORM_NONE : a->candidates[i].held;
  const struct greedy_problem problem = {.candidates = a->candidates,
                                         .n = a->n_running,
                                         .memory = s->total_units,
                                         .n_rho = a->n_rho,
                                         .eps = a->eps,
                                         .skip = a->params.fill == APT_SKIP,
                                         .hidden_pays = a->hidden_pays,
                                         .tokens = UINT32_MAX,
                                         .sequences = UINT32_MAX};
  lls_pol_scheduler_count(&a->base, "single_won",
                          apt_greedy(&problem, &a->heap, a->stays).single_won);
  s->order = a->order;
  s->tail = 0;
  for (uint32_t i = 0; i < a->n_running; i++) {
    struct candidate *c = &a->candidates[i];
    if (c->gone)
      continue;
    bool hidden = c->request->form == LLS_FORM_HIDDEN;
    bool upgrades = c->form == LLS_FORM_KV && hidden;
    bool stays = c->form == c->request->form ||
                 (upgrades && a->params.upgrade != APT_UPGRADE_NEVER);
    c->held = c->request->form;
    if (!stays && decodes(c->request))
      preempt(a, s, c);
    else if (!upgrades || !upgrade(a, s, c->request))
      a->order[s->tail++] = c->request;
  }
}

void apt_decode(struct apt *a, struct lls_pol_step *s)
{
  lls_pol_scheduler_count(&a->base, "decode_steps", 1);
  if (a->params.decode_mode == APT_LITERAL)
    literal(a, s);
  else if (all_fit(a, s)) {
    run_all(a, s);
    return;
  } else {
    keep_densest(a, s);
  }
  run_kept(a, s);
}
