/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A prefill iteration: greedy over waiting requests, within the free memory
 * (section 5.3). The chosen requests are admitted in order of arrival, as far as their
 * memory can be reserved.
 */
#include "apt.h"

/* True if the request may run in one step with the planned ones. Without mixed batches
 * a step has only prompts or only decodes; a request that returns from the host with
 * one token to compute counts as a decode. */
static bool mixes(const struct apt *a, const struct lls_pol_step *s,
                  const struct candidate *c)
{
  bool decode = c->held != LLS_FORM_NONE && c->tokens == 1;
  if (a->base.host->engine->mixed_batch || s->runs == 0)
    return true;
  return decode == (s->prompts == 0);
}

static int reserve(struct lls_pol_step *s, const struct candidate *c, uint32_t tokens)
{
  uint32_t form = c->held != LLS_FORM_NONE ? LLS_FORM_NONE : c->form;
  return lls_pol_step_reserve_as(s, c->request, tokens, form, 0);
}

static void let_in(struct apt *a, struct lls_pol_step *s, const struct candidate *c,
                   uint32_t tokens)
{
  lls_pol_step_run(s, c->request, tokens);
  c->request->user[0] = (uint64_t)a->now_ns;
  c->request->user[1] &= ~(uint64_t)APT_WANTS_HIDDEN;
  lls_pol_scheduler_count(&a->base,
                          c->form == LLS_FORM_HIDDEN ? "let_in_hidden" : "let_in_kv", 1);
}

bool apt_admit(struct apt *a, struct lls_pol_step *s, struct candidate *c,
               uint32_t budget, bool whole)
{
  const struct lls_engine_caps *engine = a->base.host->engine;
  const struct lls_request *r = c->request;
  uint32_t pending = lls_pol_step_pending(s, r);
  if (s->sequences == 0 || !mixes(a, s, c) ||
      lls_pol_step_too_long(s, engine, r, pending))
    return false;
  uint32_t tokens = lls_pol_step_chunk(s, engine, pending, budget, whole);
  if (tokens == 0 || reserve(s, c, pending) != LLS_RESERVE_OK)
    return false;
  let_in(a, s, c, tokens);
  return true;
}

/* Returns the units for upgrading all hidden form on the device to KV. An upgrade is
 * worth theta2, a violated request eps, so violated requests may not use this
 * memory. */
static uint64_t kept_for_upgrades(const struct apt *a)
{
  uint64_t units = 0;
  for (uint32_t i = 0; i < a->n_running && a->params.upgrade == APT_UPGRADE_ROOM; i++)
    if (a->candidates[i].held == LLS_FORM_HIDDEN)
      units += a->candidates[i].kv;
  return units;
}

uint64_t apt_kept_from_violated(const struct apt *a, const struct lls_pol_step *s)
{
  double reserve = a->params.violated_reserve * s->total_units;
  return s->watermark_units + (uint64_t)reserve + kept_for_upgrades(a);
}

/* True if c may be admitted now. If its value is eps, `kept` units must stay free;
 * otherwise requests that a pause costs nothing are preempted for it. */
static bool has_room(struct apt *a, struct lls_pol_step *s, const struct candidate *c,
                     uint64_t kept)
{
  uint64_t units = c->form == LLS_FORM_HIDDEN ? c->hidden : c->kv;
  if (c->violated)
    return lls_pol_step_free_units(s) >= units + kept;
  return a->params.late_share <= 0 || apt_make_room(a, s, units + s->watermark_units);
}

void apt_prefill(struct apt *a, struct lls_pol_step *s)
{
  const struct lls_step_view *v = s->view;
  const struct apt_params *p = &a->params;
  uint32_t most = lls_pol_min((uint32_t)p->max_seqs, v->max_sequences);
  uint32_t budget = lls_pol_min((uint32_t)p->max_tokens, v->max_tokens);
  uint64_t free = lls_pol_step_free_units(s) + apt_spare_units(a);
  const struct greedy_problem problem = {
      .candidates = a->candidates + a->n_running,
      .n = a->n_waiting,
      .memory = free > s->watermark_units ? free - s->watermark_units : 0,
      .n_rho = a->n_rho,
      .eps = a->eps,
      .skip = p->fill == APT_SKIP,
      .hidden_pays = a->hidden_pays,
      .tokens = budget,
      .sequences = v->n_running < most ? most - v->n_running : 0,
  };
  struct greedy_solution got = apt_greedy(&problem, &a->heap, a->taken);
  lls_pol_scheduler_count(&a->base, "single_won", got.single_won);
  uint64_t kept = apt_kept_from_violated(a, s);
  for (uint32_t i = 0, found = 0; i < a->n_waiting && found < got.n; i++) {
    struct candidate *c = &problem.candidates[i];
    if (c->form == LLS_FORM_NONE)
      continue;
    found++;
    if (has_room(a, s, c, kept))
      apt_admit(a, s, c, budget, true);
  }
  lls_pol_scheduler_count(&a->base, "prefill_steps", s->runs > 0);
}

/* ---- when nothing else is possible ------------------------------------------------- */

/* True if a request that holds nothing may be cached in this form. */
static bool may_take(const struct apt *a, const struct candidate *c, uint32_t form)
{
  if (c->held != LLS_FORM_NONE)
    return false;
  return form == LLS_FORM_HIDDEN ? c->hidden > 0 : !a->hidden_pays;
}

/* Runs the request in the first form that it can have; hidden form is tried where K and
 * V do not fit. */
static void alone(struct apt *a, struct lls_pol_step *s, struct candidate *c)
{
  uint32_t budget = lls_pol_min((uint32_t)a->params.max_tokens, s->view->max_tokens);
  const struct lls_request *r = c->request;
  uint32_t pending = lls_pol_step_pending(s, r);
  bool never = true;
  if (lls_pol_step_too_long(s, a->base.host->engine, r, pending))
    return;
  for (uint32_t form = LLS_FORM_KV; form <= LLS_FORM_HIDDEN; form++) {
    if (form != c->held && !may_take(a, c, form))
      continue;
    c->form = form;
    int rc = reserve(s, c, pending);
    if (rc == LLS_RESERVE_OK) {
      let_in(a, s, c, lls_pol_min(pending, budget));
      return;
    }
    never &= rc != LLS_RESERVE_LATER;
  }
  if (never)
    lls_plan_reject(s->plan, r, LLS_FINISH_CAPACITY);
}

void apt_last_resort(struct apt *a, struct lls_pol_step *s)
{
  struct candidate *oldest = NULL;
  for (uint32_t i = a->n_running; i < a->n_running + a->n_waiting; i++)
    if (oldest == NULL || a->candidates[i].request->id < oldest->request->id)
      oldest = &a->candidates[i];
  if (oldest != NULL)
    alone(a, s, oldest);
}
