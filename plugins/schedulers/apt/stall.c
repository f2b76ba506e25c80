/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The longest pause. By the paper's rule a request that has waited longer than its limit
 * has almost no value, so a request paused under overload stays paused until the overload
 * ends: minutes. Here a begun request that has waited for max_stall comes before all
 * others and preempts running ones, which then wait no longer than max_stall themselves.
 * While such a request finds no memory, no other request begins.
 *
 * Victims: late requests before those in time; of these the one admitted first. A request
 * that has just returned stays for max_stall, which bounds the time spent on prefilling
 * caches again.
 */
#include "apt.h"

static bool can_give_way(const struct apt *a, const struct candidate *c)
{
  int64_t ran_ns = a->now_ns - (int64_t)c->request->user[0];
  return !c->gone && c->request->state == LLS_DECODING && ran_ns >= a->params.max_stall;
}

static bool has_missed(const struct candidate *c)
{
  return (c->request->user[1] & APT_MISSED) != 0;
}

static struct candidate *next_to_give_way(const struct apt *a)
{
  struct candidate *best = NULL;
  for (uint32_t i = 0; i < a->n_running; i++) {
    struct candidate *c = &a->candidates[i];
    if (!can_give_way(a, c))
      continue;
    if (best == NULL || has_missed(c) > has_missed(best) ||
        (has_missed(c) == has_missed(best) &&
         c->request->user[0] < best->request->user[0]))
      best = c;
  }
  return best;
}

/* Returns the units of the running requests that may be preempted. */
static uint64_t others_units(const struct apt *a)
{
  uint64_t units = 0;
  for (uint32_t i = 0; i < a->n_running; i++) {
    const struct candidate *c = &a->candidates[i];
    if (can_give_way(a, c))
      units += apt_units(a, c->request->cached_tokens, c->held);
  }
  return units;
}

static bool find_room(struct apt *a, struct lls_pol_step *s, const struct lls_request *r,
                      uint64_t units)
{
  if (a->now_ns - r->last_token_ns <= a->params.max_stall)
    return lls_pol_step_free_units(s) >= units;
  if (lls_pol_step_free_units(s) + others_units(a) < units)
    return false;
  while (lls_pol_step_free_units(s) < units) {
    struct candidate *c = next_to_give_way(a);
    if (c == NULL || !apt_pause(a, s, c))
      return false;
  }
  return true;
}

/* Returns the stalled request that has waited longest, of those not tried in this
 * plan. */
static struct candidate *longest_waiting(struct apt *a)
{
  struct candidate *best = NULL;
  for (uint32_t i = a->n_running; i < a->n_running + a->n_waiting; i++) {
    struct candidate *c = &a->candidates[i];
    if (c->stalled &&
        (best == NULL || c->request->last_token_ns < best->request->last_token_ns))
      best = c;
  }
  return best;
}

bool apt_resume(struct apt *a, struct lls_pol_step *s, uint32_t budget, bool whole)
{
  struct candidate *c;
  while ((c = longest_waiting(a)) != NULL && s->prompts < budget) {
    c->stalled = false;
    c->form = a->hidden_pays ? LLS_FORM_HIDDEN : LLS_FORM_KV;
    c->form = c->held != LLS_FORM_NONE ? c->held : c->form;
    uint32_t units = c->form == LLS_FORM_HIDDEN ? c->hidden : c->kv;
    if (!find_room(a, s, c->request, units + s->watermark_units) ||
        !apt_admit(a, s, c, budget, whole))
      return false;
    c->gone = true;
    lls_pol_scheduler_count(&a->base, "resumed", 1);
  }
  return c == NULL;
}
