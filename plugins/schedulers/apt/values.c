/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The value of a request (section 5.1 of the paper): the time it has waited since its
 * last token, less, in hidden form, the time that all others lose by it.
 */
#include "apt.h"

#include <math.h>

#define EPS_SCALE 1e-4 /* times the least value per unit */
#define MAX_ETA   0.75 /* most hidden / KV bytes for which hidden form is used */

static double seconds(int64_t ns)
{
  return (double)ns / (double)LLS_NS_PER_S;
}

uint32_t apt_units(const struct apt *a, uint32_t tokens, uint32_t form)
{
  uint32_t m = lls_pol_fit_units(&a->fit, tokens);
  if (form != LLS_FORM_HIDDEN)
    return m;
  return (uint32_t)ceil(a->eta * m - 1e-9);
}

/* Returns the time that a request may wait for its next token. */
static int64_t limit_ns(const struct apt *a, const struct lls_request *r)
{
  return r->generated_tokens == 0 ? apt_first_limit_ns(a, r) : apt_gap_limit_ns(a, r);
}

/* True if the request has begun and been off the device for too long. */
static bool is_stalled(const struct apt *a, const struct lls_request *r,
                       int64_t waited_ns, bool on_device)
{
  return a->params.max_stall > 0 && r->generated_tokens > 0 && !on_device &&
         waited_ns > apt_gap_limit_ns(a, r);
}

/* violated_i = p_i > SLO; unless sticky, only until the next token, which resets p.
 * With late_share, also requests that lose nothing by waiting. */
static bool is_violated(const struct apt *a, const struct lls_request *r,
                        int64_t waited_ns, bool on_device, uint32_t standing)
{
  const struct apt_params *p = &a->params;
  bool late = waited_ns > limit_ns(a, r);
  if (late)
    r->user[1] |= APT_MISSED;
  if (p->violated == APT_OFF || is_stalled(a, r, waited_ns, on_device))
    return false;
  if (p->max_wait > 0 && waited_ns > p->max_wait)
    return false; /* has starved long enough */
  if (p->late_share > 0)
    return standing == APT_LOST || (standing == APT_SPARE && !on_device);
  if (late)
    r->user[1] |= APT_HAS_VIOLATED;
  else if (!p->sticky)
    r->user[1] &= ~(uint64_t)APT_HAS_VIOLATED;
  return (r->user[1] & APT_HAS_VIOLATED) != 0;
}

/* p_i = max(0, now - last token, or arrival); m_i of all tokens that the step caches. */
static double value(const struct apt *a, const struct lls_request *r, uint32_t held,
                    bool on_device, struct candidate *out)
{
  const struct apt_params *p = &a->params;
  int64_t waited_ns = a->now_ns - r->last_token_ns;
  waited_ns = waited_ns > 0 ? waited_ns : 0;
  double pending = seconds(waited_ns), length = lls_request_length(r);
  uint32_t standing = apt_standing(a, r, waited_ns, on_device);
  bool violated = is_violated(a, r, waited_ns, on_device, standing);
  *out = (struct candidate){
      .request = r,
      .pending = violated && p->violated == APT_DECAY ? p->decay * pending : pending,
      .kv = apt_units(a, (uint32_t)length, LLS_FORM_KV),
      .tokens = lls_request_pending(r),
      .held = held,
      .standing = standing,
      .violated = violated && p->violated == APT_DEMOTE,
      .stalled = is_stalled(a, r, waited_ns, on_device),
      .no_upgrade = a->hidden_pays || (r->user[1] & APT_WANTS_HIDDEN) != 0,
  };
  if (a->eta > 0)
    out->hidden = apt_units(a, (uint32_t)length, LLS_FORM_HIDDEN);
  double clip = p->urgency_clip == APT_CLIP_SLO ? seconds(limit_ns(a, r)) : INFINITY;
  return pending < clip ? pending : clip;
}

/* Returns rho, the time that a unit of hidden form adds to a step, scaled: m units are
 * m * block_tokens / fit.growth_units tokens. If hidden form pays for all requests, it is
 * 0. */
static double price_of_hidden(struct apt *a, const struct lls_form_info *hidden,
                              uint32_t total_units)
{
  const struct apt_params *p = &a->params;
  double ns = a->restore_ns >= 0 ? a->restore_ns : (double)hidden->restore_ns;
  double rho =
      ns > 0 ? p->rho_scale * ns * 1e-9 * a->block_tokens / a->fit.growth_units : 0;
  if (isnan(p->rho))
    a->hidden_pays = ns >= 0 && apt_hidden_pays(a, ns, total_units);
  else
    a->hidden_pays = (rho = p->rho) <= 0;
  return a->hidden_pays ? 0 : rho;
}

/* Sets eta and returns rho, if hidden form is offered by the cache, enabled, and
 * smaller than KV. */
static double look_at_forms(struct apt *a, const struct lls_cache_service *cache,
                            uint32_t total_units)
{
  struct lls_form_info forms[4];
  a->eta = 0;
  a->hidden_pays = false;
  if (a->params.hidden == APT_HIDDEN_OFF)
    return 0;
  int n = cache->forms(cache->context, forms, sizeof forms / sizeof *forms);
  for (int i = 0; i < n; i++) {
    const struct lls_form_info *f = &forms[i];
    bool offered = f->form == LLS_FORM_HIDDEN && f->why_not == NULL;
    if (!offered || f->ratio <= 0 || f->ratio > MAX_ETA)
      continue;
    a->eta = f->ratio;
    return price_of_hidden(a, f, total_units);
  }
  return 0;
}

struct census {
  uint32_t counted; /* N */
  double least;     /* min p */
};

static double value_list(struct apt *a, const struct lls_request *const *list, uint32_t n,
                         bool on_device, struct candidate *out, struct census *census)
{
  double urgency = 0;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t held = list[i]->cached_tokens == 0 ? LLS_FORM_NONE : list[i]->form;
    if (held == LLS_FORM_NONE && (on_device || list[i]->cached_tokens > 0))
      held = LLS_FORM_KV;
    if (i + 4 < n)
      __builtin_prefetch(&list[i + 4]->last_token_ns);
    double pending = value(a, list[i], held, on_device, &out[i]);
    if (on_device && list[i]->state == LLS_PREFILLING)
      /* the request has no token yet, and waits for its first */
      a->urgency_waiting += pending;
    else
      urgency += pending;
    census->counted += !out[i].violated || !a->params.n_excludes_violated;
    a->n_stalled += out[i].stalled;
    census->least = fmin(census->least, out[i].pending);
  }
  return urgency;
}

/* eps = max(1e-12, min p * EPS_SCALE / M_total), a density: those that have violated come
 * last and among themselves in order of arrival. */
void apt_value_all(struct apt *a, const struct lls_step_view *v, uint32_t total_units)
{
  struct census census = {.least = INFINITY};
  a->now_ns = v->now_ns;
  a->block_tokens = v->cache->block_tokens;
  lls_pol_fit_look(&a->fit, v);
  double rho = look_at_forms(a, v->cache, total_units);
  struct candidate *at = a->candidates;
  a->n_stalled = 0;
  a->urgency_waiting = 0;
  a->urgency_running = value_list(a, v->running, v->n_running, true, at, &census);
  at += a->n_running = v->n_running;
  struct lls_pol_ends e = lls_pol_ends_of(&a->dropped, &a->urgent, v, a->params.look);
  a->urgency_waiting += value_list(a, e.first, e.n_first, false, at, &census);
  at += e.n_first;
  a->urgency_waiting += value_list(a, e.between, e.n_between, false, at, &census);
  at += e.n_between;
  a->urgency_waiting += value_list(a, e.last, e.n_last, false, at, &census);
  at += e.n_last;
  a->urgency_waiting += value_list(a, v->preempted, v->n_preempted, false, at, &census);
  a->n_waiting = e.n_first + e.n_between + e.n_last + v->n_preempted;
  a->n_rho = census.counted * rho;
  double eps = census.least * EPS_SCALE / total_units;
  a->eps = isfinite(eps) && eps > 1e-12 ? eps : 1e-12;
}
