/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which requests a further pause would make late. The limit is on the 99th percentile of
 * a request's gaps, so of more than a hundred gaps one may have any length. A request
 * with such a gap to spare is paused for one without, and returns when there is memory
 * for it to stay. A request whose first token was late can't meet its SLO any more and is
 * preempted before all others.
 */
#include "apt.h"

/* User words of a request: number of gaps beyond the limit, and the time of its last
 * token when they were counted. A gap not ended yet is not counted. */
enum { LATE_GAPS = 2, LOOKED_AT_NS = 3 };

/* P99 of n gaps, linear between ranks (numpy's), is none of the k longest as soon as
 * n - 1 >= 100 k. */
static uint32_t overlooked(const struct apt *a, const struct lls_request *r)
{
  if (r->generated_tokens < 2)
    return 0;
  return (uint32_t)(a->params.late_share * (r->generated_tokens - 2) + 1e-9);
}

/* Counts the gap that ended with the request's newest token. */
static void look(const struct apt *a, const struct lls_request *r)
{
  int64_t before_ns = (int64_t)r->user[LOOKED_AT_NS];
  if (r->generated_tokens == 0 || r->last_token_ns == before_ns)
    return;
  r->user[LOOKED_AT_NS] = (uint64_t)r->last_token_ns;
  if (r->generated_tokens - r->forced_tokens == 1 &&
      r->last_token_ns - r->arrival_ns > apt_first_limit_ns(a, r))
    r->user[1] |= APT_MISSED_FIRST;
  if (r->generated_tokens > 1 && before_ns > 0 &&
      r->last_token_ns - before_ns > apt_gap_limit_ns(a, r))
    r->user[LATE_GAPS]++;
}

uint32_t apt_standing_later(const struct apt *a, const struct lls_request *r,
                            int64_t waited_ns, bool on_device)
{
  look(a, r);
  bool late_now = waited_ns > apt_gap_limit_ns(a, r);
  uint64_t late = r->user[LATE_GAPS] + late_now, most = overlooked(a, r);
  if ((r->user[1] & APT_MISSED_FIRST) || late > most + 1)
    return APT_LOST;
  return late < most || (late_now && !on_device) ? APT_SPARE : APT_IN_TIME;
}

/* ---- making room ------------------------------------------------------------------- */

static bool can_pause(const struct candidate *c)
{
  return c->standing != APT_IN_TIME && !c->gone;
}

uint64_t apt_spare_units(const struct apt *a)
{
  uint64_t units = 0;
  for (uint32_t i = 0; i < a->n_running; i++) {
    const struct candidate *c = &a->candidates[i];
    if (can_pause(c))
      units += apt_units(a, c->request->cached_tokens, c->held);
  }
  return units;
}

/* Returns the next request to pause: lost ones first, then the largest, so that the
 * fewest requests must be prefilled again. */
static struct candidate *next_to_pause(const struct apt *a)
{
  struct candidate *best = NULL;
  for (uint32_t i = 0; i < a->n_running; i++) {
    struct candidate *c = &a->candidates[i];
    if (!can_pause(c))
      continue;
    if (best == NULL || c->standing > best->standing ||
        (c->standing == best->standing && c->kv > best->kv))
      best = c;
  }
  return best;
}

/* Sets s->order to the running requests that are still on the device. */
static void close_ranks(struct apt *a, struct lls_pol_step *s)
{
  s->order = a->order;
  s->tail = 0;
  for (uint32_t i = 0; i < a->n_running; i++)
    if (!a->candidates[i].gone)
      a->order[s->tail++] = a->candidates[i].request;
}

bool apt_pause(struct apt *a, struct lls_pol_step *s, struct candidate *c)
{
  if (!lls_pol_step_take_off(s, c->request))
    return false;
  c->gone = true;
  lls_pol_scheduler_count(&a->base, "preempted", 1);
  lls_pol_scheduler_count(&a->base, "made_room", 1);
  close_ranks(a, s);
  return true;
}

bool apt_make_room(struct apt *a, struct lls_pol_step *s, uint64_t units)
{
  if (lls_pol_step_free_units(s) >= units)
    return true;
  if (lls_pol_step_free_units(s) + apt_spare_units(a) < units)
    return false;
  while (lls_pol_step_free_units(s) < units) {
    struct candidate *c = next_to_pause(a);
    if (c == NULL || !apt_pause(a, s, c))
      return false;
  }
  return true;
}
