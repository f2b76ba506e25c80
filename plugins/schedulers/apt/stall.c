/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bound of a pause. The paper's rule gives a request that has waited longer than its
 * limit next to no value, and the one that is paused under overload is so until the
 * overload is over: minutes. Here one that has begun comes before all others when it has
 * waited for max_stall, and takes the room of running ones, which then wait no longer
 * than that themselves; while one finds no room nobody begins.
 *
 * Who gives way: those that were late already before those that are in time, and of them
 * the one let in first. One that has just come back stays for max_stall, so that the time
 * spent on computing caches again is bounded too.
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

/* Units that those hold which may be asked for theirs. */
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

/* The one that has waited longest, of those that were not looked at in this plan. */
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
