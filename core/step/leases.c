/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases: what an ended session left stays in a tier until a time (RETAIN), or is brought
 * to a tier before the session returns (FETCH).
 *
 * The scheduler decides. While it has planned neither, a session that ended with a tool
 * call, or that is expected back, is kept on the device for [cache] lease_tool, any other
 * for lease_end: no client's hint keeps memory for longer than the configuration. The
 * cache manager holds the blocks, until the time has come, and limits all leases of a
 * tier together. Between tenants the core divides: if a lease finds no room, the tenant
 * with the most leased tokens loses its oldest one, as long as it has more than the other
 * then has.
 *
 * The disk is the core's: leases there, and reads from there, are core/step/disk_fetch.c,
 * apart from those of the manager's tiers.
 *
 * A new answer ends the leases of the answer before. All calls of the manager are in the
 * step's transaction: leases before the runs, so that no run takes the blocks away, and
 * fetches after them.
 */
#include <errno.h>
#include <utlist.h>

#include "core/base/least.h"
#include "core/instance/cache_answers.h"
#include "core/instance/instance.h"
#include "core/instance/running_policy.h"
#include "core/step/disk_tier.h"
#include "core/step/phases.h"

/* ---- a scheduler's items -------------------------------------------------------- */

static bool is_of_session(const struct lls_plan_item *item)
{
  return item->kind == LLS_PLAN_RETAIN || item->kind == LLS_PLAN_FETCH;
}

const char *lls_leases_take_items(struct lls_instance *in)
{
  struct lls_plan *plan = &in->plan;
  struct lls_instance_sessions *all = &in->sessions;
  uint32_t n = 0;
  LLS_ON_STEP(in);
  all->n_items = 0;
  for (uint32_t i = 0; i < plan->n_items; i++) {
    const struct lls_plan_item *item = &plan->items[i];
    if (!is_of_session(item))
      plan->items[n++] = *item;
    else if (all->n_items == LLS_SESSION_ITEMS)
      return "has more items of sessions than there are sessions";
    else
      all->items[all->n_items++] = *item;
  }
  plan->n_items = n;
  return NULL;
}

static const char *check(struct lls_instance *in, const struct lls_plan_item *item)
{
  struct lls_live_session *s = lls_session_find(&in->sessions, item->request);
  if (s == NULL || s->place == 0)
    return "keeps or fetches a session that is not there, or has a request";
  uint64_t *named = &s->named_in_step[item->kind == LLS_PLAN_FETCH];
  if (*named == in->step + 1)
    return "keeps or fetches a session twice";
  *named = in->step + 1;
  if (item->mode > LLS_TIER_DISK)
    return "names an unknown tier";
  return item->until_ns < LLS_NEVER
             ? "keeps a session until a time before the clock began"
             : NULL;
}

const char *lls_leases_check(struct lls_instance *in)
{
  struct lls_instance_sessions *all = &in->sessions;
  const char *why = NULL;
  LLS_ON_STEP(in);
  for (uint32_t i = 0; i < all->n_items && why == NULL; i++)
    why = check(in, &all->items[i]);
  if (why == NULL)
    all->scheduled |= all->n_items > 0;
  return why;
}

/* ---- the manager ---------------------------------------------------------------- */

static struct lls_retained retained(const struct lls_live_session *s, uint32_t tier,
                                    int64_t until_ns)
{
  return (struct lls_retained){.size = sizeof(struct lls_retained),
                               .tier = tier,
                               .session = s->view.id,
                               .keys = s->view.keys,
                               .n_keys = s->view.n_keys,
                               .until_ns = until_ns};
}

/* Checks what the manager returns: tokens of the session, or a negative errno. */
static int sound(struct lls_instance *in, const struct lls_retained *r, int rc)
{
  uint32_t block_tokens = in->service.block_tokens;
  if (rc <= 0 || (uint32_t)rc <= r->n_keys * block_tokens)
    return rc;
  return lls_cache_breach(in, "it keeps %d tokens of session %llu, which has %u blocks",
                          rc, (unsigned long long)r->session, r->n_keys);
}

static bool has_leases(struct lls_instance *in)
{
  return LLS_HAS(&in->policies, cache, retain);
}

/* Ends the session's leases. */
static void end(struct lls_instance *in, uint64_t session, uint32_t tiers)
{
  for (uint32_t tier = 0; tier < LLS_TIER_DISK; tier++) {
    const struct lls_retained none = {
        .size = sizeof none, .tier = tier, .session = session, .until_ns = 0};
    if ((tiers >> tier & 1) != 0 && has_leases(in))
      LLS_CALL(&in->policies, cache, retain, &none);
  }
  if ((tiers >> LLS_TIER_DISK & 1) != 0)
    lls_disk_tier_let_go(in, session);
}

/* ---- between tenants ------------------------------------------------------------ */

static const uint64_t *tokens_of(const struct lls_instance *in,
                                 const struct lls_live_session *s)
{
  return &in->sessions.leased[s->view.tenant % LLS_SESSION_TENANTS];
}

/* Forgets leases whose time has come, which the manager has ended by itself. */
static void forget_past(struct lls_instance *in, int64_t now_ns)
{
  struct lls_instance_sessions *all = &in->sessions;
  struct lls_live_session *s, *next;
  int64_t soonest_ns = INT64_MAX;
  if (all->n_leases == 0 || now_ns < all->lease_ends_ns)
    return;
  for (uint32_t i = 0; i < LLS_SESSION_TENANTS; i++)
    DL_FOREACH_SAFE2(all->leases[i], s, next, lease_next)
  if (s->view.until_ns <= now_ns)
    lls_session_forget_lease(all, s);
  else
    soonest_ns = lls_least_i64(soonest_ns, s->view.until_ns);
  all->lease_ends_ns = soonest_ns;
}

/* Ends the oldest lease of the tenant that has most, if it has more than the session's
 * would have. Returns false if none does. */
static bool make_room(struct lls_instance *in, const struct lls_live_session *s)
{
  struct lls_instance_sessions *all = &in->sessions;
  uint64_t most = *tokens_of(in, s) - s->leased_tokens + s->view.tokens;
  struct lls_live_session *victim = NULL;
  for (uint32_t i = 0; i < LLS_SESSION_TENANTS; i++)
    if (all->leased[i] > most) {
      most = all->leased[i];
      victim = all->leases[i];
    }
  if (victim == NULL)
    return false;
  end(in, victim->view.id, victim->leases);
  lls_session_forget_lease(all, victim);
  return true;
}

/* ---- leases --------------------------------------------------------------------- */

static void count_on_disk(struct lls_instance *in, struct lls_live_session *s)
{
  if (in->disk != NULL)
    lls_session_set_there(s, LLS_TIER_DISK,
                          lls_disk_tier_tokens(in, s->view.keys, s->view.n_keys));
}

static int retain(struct lls_instance *in, struct lls_live_session *s, uint32_t tier,
                  int64_t until_ns)
{
  const struct lls_retained r = retained(s, tier, until_ns);
  struct lls_policies *p = &in->policies;
  int64_t now_ns = lls_instance_now(in);
  if (s->view.n_keys == 0)
    return -ENOENT;
  if (tier == LLS_TIER_DISK) {
    count_on_disk(in, s);
    return lls_disk_tier_retain(in, s, until_ns);
  }
  if (!has_leases(in))
    return -ENOTSUP;
  int rc = LLS_CALL(p, cache, retain, &r);
  while (rc == -ENOSPC && make_room(in, s))
    rc = LLS_CALL(p, cache, retain, &r);
  rc = sound(in, &r, rc);
  if (rc < 0)
    return rc;
  lls_session_set_there(s, tier, (uint32_t)rc);
  if (until_ns > now_ns && rc > 0)
    lls_session_note_lease(&in->sessions, s, tier, until_ns);
  else
    lls_session_end_lease(&in->sessions, s, tier);
  return rc;
}

static void count(struct lls_instance *in, int rc, uint64_t *good)
{
  *good += rc >= 0;
  in->status.items_refused += rc < 0;
}

/* Returns until when the session is kept without a scheduler that decides it; 0: not. */
static int64_t usual_until(const struct lls_instance *in, const struct lls_session *v)
{
  bool returns = v->returns_ns != LLS_NEVER || v->ended_by == LLS_SESSION_TOOL_CALL;
  int64_t ns = returns ? in->leases.tool_ns : in->leases.end_ns;
  return ns > 0 ? lls_time_after(v->ended_ns, ns) : 0;
}

/* Ends the leases of answers before the last one, and keeps the last one for the usual
 * time. */
static void place_fresh(struct lls_instance *in)
{
  struct lls_instance_sessions *all = &in->sessions;
  bool usual = !all->scheduled || in->policies.scheduler_off;
  while (all->fresh != NULL) {
    struct lls_live_session *s = all->fresh;
    lls_session_forget_fresh(all, s);
    end(in, s->view.id, s->leases | (s->kept_on_disk ? 1u << LLS_TIER_DISK : 0));
    lls_session_forget_lease(all, s);
    s->kept_on_disk = false;
    count_on_disk(in, s);
    int64_t until_ns = usual ? usual_until(in, &s->view) : 0;
    if (s->place != 0 && until_ns > lls_instance_now(in) && has_leases(in))
      in->status.sessions_retained += retain(in, s, LLS_TIER_DEVICE, until_ns) > 0;
  }
}

/* ---- what has left since ---------------------------------------------------------- */

/* Keys that a step may look up: some 50 ns each; and sessions that it may pass over. */
#define RECOUNTED 256
#define PASSED    32

static void recount(struct lls_instance *in, struct lls_live_session *s)
{
  bool able = has_leases(in) && s->leases == 0;
  for (uint32_t tier = 0; tier < LLS_TIER_DISK && able; tier++) {
    const struct lls_retained r = retained(s, tier, 0); /* keeps nothing */
    int rc = sound(in, &r, LLS_CALL(&in->policies, cache, retain, &r));
    if (rc >= 0)
      lls_session_set_there(s, tier, (uint32_t)rc);
  }
  count_on_disk(in, s);
}

/* Asks the manager again how much it has of the idle sessions without a lease, one after
 * the other: their blocks leave as any others', and those of all leave the disk. A
 * session with many keys waits until the steps have saved enough for it. */
static void recount_some(struct lls_instance *in)
{
  struct lls_instance_sessions *all = &in->sessions;
  if (all->n_idle == 0)
    return;
  all->recounts += RECOUNTED;
  for (uint32_t i = 0; i < lls_least_u32(all->n_idle, PASSED); i++) {
    all->recounted = all->recounted + 1 < all->n_idle ? all->recounted + 1 : 0;
    struct lls_live_session *s =
        (struct lls_live_session *)(uintptr_t)all->idle[all->recounted];
    if ((s->leases != 0 && in->disk == NULL) || s->view.n_keys == 0)
      continue;
    if (s->view.n_keys > all->recounts) {
      all->recounted = all->recounted > 0 ? all->recounted - 1 : all->n_idle - 1;
      return;
    }
    recount(in, s);
    all->recounts = 0;
    return;
  }
  all->recounts = 0;
}

void lls_leases_place(struct lls_instance *in)
{
  struct lls_instance_sessions *all = &in->sessions;
  LLS_ON_STEP(in);
  LLS_CHECK(in->transaction.open);
  forget_past(in, lls_instance_now(in));
  lls_disk_tier_expire(in);
  for (uint32_t i = 0; i < all->n_dropped; i++)
    end(in, all->dropped[i].id, all->dropped[i].leases);
  all->n_dropped = 0;
  place_fresh(in);
  if (has_leases(in) || in->disk != NULL)
    recount_some(in);
  for (uint32_t i = 0; i < all->n_items; i++) {
    const struct lls_plan_item *item = &all->items[i];
    struct lls_live_session *s = lls_session_find(all, item->request);
    if (item->kind == LLS_PLAN_RETAIN)
      count(in, retain(in, s, item->mode, item->until_ns), &in->status.sessions_retained);
  }
}

/* Brings to the tier what the manager has. */
static int fetch_cached(struct lls_instance *in, struct lls_live_session *s,
                        uint32_t tier)
{
  const struct lls_retained r = retained(s, tier, 0);
  if (!LLS_HAS(&in->policies, cache, fetch))
    return -ENOTSUP;
  int rc = sound(in, &r, LLS_CALL(&in->policies, cache, fetch, &r));
  if (rc >= 0)
    lls_session_set_there(s, tier, (uint32_t)rc);
  return rc;
}

/* Blocks are on disk as soon as they are computed: a fetch brings none there. Blocks that
 * are read from disk come to the device. */
static int fetch(struct lls_instance *in, struct lls_live_session *s, uint32_t tier)
{
  if (s->view.n_keys == 0)
    return -ENOENT;
  if (tier == LLS_TIER_DISK)
    return in->disk != NULL ? (int)lls_disk_tier_tokens(in, s->view.keys, s->view.n_keys)
                            : -ENOTSUP;
  int rc = fetch_cached(in, s, tier);
  if (tier != LLS_TIER_DEVICE || (rc < 0 && rc != -ENOTSUP))
    return rc;
  int from_disk = lls_disk_tier_fetch(in, s, rc > 0 ? (uint32_t)rc : 0);
  return from_disk == -ENOTSUP ? rc : from_disk;
}

void lls_leases_fetch(struct lls_instance *in)
{
  struct lls_instance_sessions *all = &in->sessions;
  LLS_ON_STEP(in);
  LLS_CHECK(in->transaction.open);
  for (uint32_t i = 0; i < all->n_items; i++) {
    const struct lls_plan_item *item = &all->items[i];
    if (item->kind == LLS_PLAN_FETCH)
      count(in, fetch(in, lls_session_find(all, item->request), item->mode),
            &in->status.sessions_fetched);
  }
  all->n_items = 0;
}
