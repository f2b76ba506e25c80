/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases on the device of what ended sessions left, for as long as that is worth the
 * memory. A session that called a tool, or that is expected back, comes back by time t
 * after its answer with probability t / (t + m), m the tool's median time: tools have
 * heavy tails, and of this log-logistic distribution a session that has been away for t
 * comes back at the rate 1 / (t + m). Its n tokens, computed again at `again` each, are
 * worth n again / (t + m) per time; of all N tokens of memory, which others wait for in
 * the part `memory_price` of plans, they keep away n / N. So a session stays until
 *
 *     t = N again / memory_price - m
 *
 * however long it is: as long as the whole memory could be computed again, if memory is
 * always short. What the device loses is often on the host still; then `again` is the
 * copy alone, and as often as that was so of late.
 */
#include "worth.h"

#include <math.h>

enum {
  LOOKED = 32, /* sessions that a plan looks at, and as many of the last listed */
  ASKED = 4,   /* most leases that a plan asks for */
};

#define UNKNOWN  2e9  /* ns, median of a tool whose time is not known */
#define AGAIN_NS 1e9  /* ns from a lease that was refused to the next try */
#define LEAST_NS 1e7  /* shorter leases are not asked for */
#define PRICE    1e-3 /* memory that is never short is as good as free */
#define PER_TURN 0.05

/* Learns from the first look of a session's request at its prefix: which part of what has
 * left the device is on the host. */
void worth_stay_found(struct worth *w, const struct lls_request *r,
                      const struct lls_prefix *p)
{
  const struct lls_session *s = r->session;
  if (s == NULL || s->tokens == 0)
    return;
  double all = fmin(s->tokens, r->prompt_tokens), here = (double)p->tokens - p->on_host;
  if (all - here < w->fit.block_tokens)
    return;
  double part = fmin(p->on_host / (all - here), 1);
  w->stay.on_host += PER_TURN * (part - w->stay.on_host);
}

/* Time to have a token again that has left the device. */
static double again_ns(struct worth *w, const struct lls_step_view *v, uint32_t units,
                       uint32_t tokens)
{
  int64_t all_ns = v->cache->transfer_ns(v->cache->context, units, LLS_LINK_HOST);
  double copy = all_ns > 0 ? (double)all_ns / tokens : 0;
  double compute = w->learned.prompt_ns;
  return w->stay.on_host * fmin(copy, compute) + (1 - w->stay.on_host) * compute;
}

/* Returns how long after its answer the session stays; 0: not. */
static double stays_for(const struct worth *w, const struct lls_session *s,
                        double horizon_ns)
{
  double median = UNKNOWN;
  if (s->returns_ns > s->ended_ns)
    median = (double)(s->returns_ns - s->ended_ns);
  else if (s->ended_by != LLS_SESSION_TOOL_CALL)
    return 0;
  double ns = fmin(horizon_ns - median, (double)w->params.stay);
  return ns >= LEAST_NS ? ns : 0;
}

static bool asked_lately(struct worth_stay *y, const struct lls_session *s,
                         int64_t now_ns)
{
  struct worth_asked *a = &y->asked[s->id % WORTH_ASKED];
  if (a->session == s->id && a->ended_ns == s->ended_ns && now_ns < a->again_ns)
    return true;
  *a = (struct worth_asked){s->id, s->ended_ns, now_ns + (int64_t)AGAIN_NS};
  return false;
}

/* Asks for a lease, or ends one that is not worth its memory any more. */
static void weigh(struct worth *w, const struct lls_session *s, int64_t now_ns,
                  double horizon_ns, struct lls_plan *out)
{
  if (s->on_device == 0 || out->n_items == out->max_items)
    return;
  int64_t until = s->ended_ns + (int64_t)stays_for(w, s, horizon_ns);
  bool leased = s->until_ns != LLS_NEVER;
  if (leased && until <= now_ns) {
    lls_plan_retain(out, s, LLS_TIER_DEVICE, now_ns);
  } else if (!leased && until > now_ns + (int64_t)LEAST_NS && w->stay.n_asked < ASKED &&
             !asked_lately(&w->stay, s, now_ns)) {
    lls_plan_retain(out, s, LLS_TIER_DEVICE, until);
    w->stay.n_asked++;
  }
}

/* The part of the memory's time that others would use: all of it while a request waits,
 * if only for the disk. */
static double price_of(const struct worth *w, const struct lls_step_view *v)
{
  bool waits = v->n_waiting + v->n_preempted + v->n_arriving > 0;
  return waits ? 1 : fmax(w->learned.memory_price, PRICE);
}

/* Looks at the sessions that were listed last, and at some of the others in turn. */
void worth_keep_sessions(struct worth *w, const struct lls_step_view *v,
                         uint32_t total_units, uint32_t total_tokens,
                         struct lls_plan *out)
{
  struct worth_stay *y = &w->stay;
  uint32_t n = v->n_sessions, last = lls_pol_min(n, LOOKED);
  y->n_asked = 0;
  if (w->params.stay == 0 || n == 0 || w->learned.prompt_ns <= 0)
    return;
  y->horizon_ns =
      total_tokens * again_ns(w, v, total_units, total_tokens) / price_of(w, v);
  for (uint32_t i = 0; i < last; i++)
    weigh(w, v->sessions[n - 1 - i], v->now_ns, y->horizon_ns, out);
  for (uint32_t left = lls_pol_min(n - last, LOOKED); left > 0; left--) {
    y->next = y->next < n - last ? y->next : 0;
    weigh(w, v->sessions[y->next++], v->now_ns, y->horizon_ns, out);
  }
}
