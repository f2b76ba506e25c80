/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of sessions on an instance; see session.h. */
#include "core/instance/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "core/instance/inbox.h"
#include "core/instance/instance.h"
#include "core/instance/request.h"
#include "core/instance/running_policy.h"

int lls_instance_sessions_init(struct lls_instance_sessions *s)
{
  s->idle = calloc(LLS_IDLE_SESSIONS + 1, sizeof(const struct lls_session *));
  s->dropped = calloc(LLS_IDLE_SESSIONS + 1, sizeof *s->dropped);
  s->items = calloc(LLS_SESSION_ITEMS, sizeof *s->items);
  return s->idle != NULL && s->dropped != NULL && s->items != NULL ? 0 : -ENOMEM;
}

void lls_instance_sessions_free(struct lls_instance_sessions *s)
{
  free(s->idle);
  free(s->dropped);
  free(s->items);
  *s = (struct lls_instance_sessions){0};
}

void lls_session_part_init(struct lls_live_session *s, uint64_t id, uint32_t tenant,
                           const char *name)
{
  s->view = (struct lls_session){.size = sizeof(struct lls_session),
                                 .tenant = tenant,
                                 .id = id,
                                 .name = name,
                                 .ended_ns = LLS_NEVER,
                                 .returns_ns = LLS_NEVER,
                                 .until_ns = LLS_NEVER};
}

struct lls_session_note *lls_session_note_left(const struct lls_live *live)
{
  uint32_t n = lls_live_cached_keys(live);
  struct lls_session_note *note = malloc(sizeof *note + n * sizeof *note->keys);
  if (note == NULL)
    return NULL;
  *note = (struct lls_session_note){.kind = LLS_SESSION_LEFT,
                                    .request = live->view.id,
                                    .n_keys = n,
                                    .tokens = n * live->keys.block_tokens};
  note->keys = (struct lls_key *)(note + 1);
  if (n > 0)
    memcpy(note->keys, live->keys.all, n * sizeof *note->keys);
  return note;
}

/* ---- the list that schedulers see ------------------------------------------------- */

static void unlist(struct lls_instance_sessions *all, struct lls_live_session *s)
{
  if (s->place == 0)
    return;
  const struct lls_session *last = all->idle[--all->n_idle];
  all->idle[s->place - 1] = last;
  ((struct lls_live_session *)(uintptr_t)last)->place = s->place;
  s->place = 0;
}

/* Lists the session if an answer has ended here and no request is alive. */
static void list_if_idle(struct lls_instance_sessions *all, struct lls_live_session *s)
{
  bool idle = s->view.alive == 0 && s->view.ended_ns != LLS_NEVER;
  if (!idle) {
    unlist(all, s);
  } else if (s->place == 0 && all->n_idle <= LLS_IDLE_SESSIONS) {
    all->idle[all->n_idle++] = &s->view;
    s->place = all->n_idle;
  }
}

/* ---- leases ----------------------------------------------------------------------- */

static struct lls_live_session **bucket_of(struct lls_instance_sessions *all, uint64_t id)
{
  return &all->by_id[id & (LLS_SESSION_BUCKETS - 1)];
}

struct lls_live_session *lls_session_find(const struct lls_instance_sessions *all,
                                          uint64_t id)
{
  struct lls_live_session *s = all->by_id[id & (LLS_SESSION_BUCKETS - 1)];
  while (s != NULL && s->view.id != id)
    s = s->next_in_bucket;
  return s;
}

static struct lls_live_session **leases_of(struct lls_instance_sessions *all,
                                           const struct lls_live_session *s)
{
  return &all->leases[s->view.tenant % LLS_SESSION_TENANTS];
}

void lls_session_note_lease(struct lls_instance_sessions *all, struct lls_live_session *s,
                            uint32_t tier, int64_t until_ns)
{
  if (all->n_leases == 0 || until_ns < all->lease_ends_ns)
    all->lease_ends_ns = until_ns;
  if (s->leases == 0) {
    s->leased_tokens = s->view.tokens;
    all->leased[s->view.tenant % LLS_SESSION_TENANTS] += s->leased_tokens;
    DL_APPEND2(*leases_of(all, s), s, lease_prev, lease_next);
    all->n_leases++;
  }
  s->leases |= 1u << tier;
  s->view.until_ns = until_ns;
}

void lls_session_forget_lease(struct lls_instance_sessions *all,
                              struct lls_live_session *s)
{
  if (s->leases == 0)
    return;
  all->leased[s->view.tenant % LLS_SESSION_TENANTS] -= s->leased_tokens;
  DL_DELETE2(*leases_of(all, s), s, lease_prev, lease_next);
  all->n_leases--;
  s->leases = s->leased_tokens = 0;
  s->view.until_ns = LLS_NEVER;
}

void lls_session_end_lease(struct lls_instance_sessions *all, struct lls_live_session *s,
                           uint32_t tier)
{
  if (s->leases == 1u << tier)
    lls_session_forget_lease(all, s);
  s->leases &= ~(1u << tier);
}

void lls_session_set_there(struct lls_live_session *s, uint32_t tier, uint32_t tokens)
{
  uint32_t *const there[] = {[LLS_TIER_DEVICE] = &s->view.on_device,
                             [LLS_TIER_HOST] = &s->view.on_host,
                             [LLS_TIER_DISK] = &s->view.on_disk};
  *there[tier] = tokens;
  atomic_store_explicit(&s->there[tier], tokens, memory_order_relaxed);
}

void lls_session_forget_fresh(struct lls_instance_sessions *all,
                              struct lls_live_session *s)
{
  if (s->is_fresh)
    DL_DELETE2(all->fresh, s, fresh_prev, fresh_next);
  s->is_fresh = false;
}

static void make_fresh(struct lls_instance_sessions *all, struct lls_live_session *s)
{
  if (!s->is_fresh)
    DL_APPEND2(all->fresh, s, fresh_prev, fresh_next);
  s->is_fresh = true;
}

/* Has the session's leases ended in the next transaction. */
static void drop_leases(struct lls_instance_sessions *all, struct lls_live_session *s)
{
  uint32_t leases = s->leases | (s->kept_on_disk ? 1u << LLS_TIER_DISK : 0);
  if (leases != 0 && all->n_dropped <= LLS_IDLE_SESSIONS)
    all->dropped[all->n_dropped++] =
        (struct lls_dropped_session){.id = s->view.id, .leases = leases};
  lls_session_forget_lease(all, s);
}

void lls_session_adopt(struct lls_instance *in)
{
  struct lls_instance_sessions *all = &in->sessions;
  LLS_ON_STEP(in);
  all->scheduled &= !in->adoption.scheduler.replaced;
  if (!in->adoption.cache.replaced)
    return;
  for (uint32_t i = 0; i < all->n_dropped; i++) /* the disk keeps its own */
    all->dropped[i].leases &= 1u << LLS_TIER_DISK;
  for (struct lls_live_session *s = all->known; s != NULL; s = s->next) {
    lls_session_forget_lease(all, s);
    for (uint32_t tier = 0; tier <= LLS_TIER_DISK; tier++)
      lls_session_set_there(s, tier, 0);
  }
}

/* ---- requests --------------------------------------------------------------------- */

struct lls_live_session *lls_session_part(const struct lls_instance *in,
                                          const struct lls_live *live)
{
  return live->sessions != NULL ? &live->sessions[in->sessions.alone ? 0 : in->info.index]
                                : NULL;
}

void lls_session_enter(struct lls_instance *in, struct lls_live *live)
{
  struct lls_live_session *s = lls_session_part(in, live);
  LLS_ON_STEP(in);
  if (s == NULL)
    return;
  if (!s->known) {
    struct lls_live_session **bucket = bucket_of(&in->sessions, s->view.id);
    DL_APPEND(in->sessions.known, s);
    s->next_in_bucket = *bucket;
    *bucket = s;
  }
  s->known = true;
  s->view.alive++;
  list_if_idle(&in->sessions, s);
  live->session = s;
  live->view.session = &s->view;
}

void lls_session_leave(struct lls_instance *in, struct lls_live *live)
{
  struct lls_live_session *s = live->session;
  LLS_ON_STEP(in);
  if (s == NULL)
    return;
  s->view.alive--;
  list_if_idle(&in->sessions, s);
  live->session = NULL;
  live->view.session = NULL;
}

/* ---- notes ------------------------------------------------------------------------ */

/* Takes over what the answer left. Returns the note that is not needed any more. */
static struct lls_session_note *left(struct lls_live_session *s,
                                     struct lls_session_note *note)
{
  struct lls_session *v = &s->view;
  struct lls_session_note *before = s->note;
  v->alive--;
  v->ended_by = note->ended_by;
  v->ended_ns = note->ended_ns;
  v->returns_ns = note->returns_ns;
  if (note->n_keys == 0)
    return note;
  v->keys = note->keys;
  v->n_keys = note->n_keys;
  v->tokens = note->tokens;
  for (uint32_t tier = 0; tier <= LLS_TIER_DISK; tier++)
    lls_session_set_there(s, tier, tier == LLS_TIER_DEVICE ? note->tokens : 0);
  s->note = note;
  return before;
}

static void end(struct lls_instance *in, struct lls_live_session *s)
{
  struct lls_policies *p = &in->policies;
  if (!s->known)
    return;
  unlist(&in->sessions, s);
  drop_leases(&in->sessions, s);
  lls_session_forget_fresh(&in->sessions, s);
  struct lls_live_session **from = bucket_of(&in->sessions, s->view.id);
  while (*from != s)
    from = &(*from)->next_in_bucket;
  *from = s->next_in_bucket;
  DL_DELETE(in->sessions.known, s);
  s->known = false;
  if (LLS_SCHEDULER_HAS(p, on_session_end))
    LLS_CALL(p, scheduler, on_session_end, &s->view);
}

/* Returns the note that main may free, or NULL. */
static struct lls_session_note *take(struct lls_instance *in,
                                     struct lls_session_note *note)
{
  struct lls_live_session *s = note->session;
  switch (note->kind) {
  case LLS_SESSION_LEFT:
    if (note->n_keys > 0)
      make_fresh(&in->sessions, s);
    note = left(s, note);
    list_if_idle(&in->sessions, s);
    return note;
  case LLS_SESSION_MOVED:
    s->view.ended_ns = LLS_NEVER;
    list_if_idle(&in->sessions, s);
    return note;
  default:
    end(in, s);
    return note;
  }
}

void lls_session_take_notes(struct lls_instance *in)
{
  struct lls_session_note *used = NULL;
  LLS_ON_STEP(in);
  for (struct lls_session_note *note = in->content.notes, *next; note != NULL;
       note = next) {
    next = note->next;
    struct lls_session_note *old = take(in, note);
    if (old == NULL)
      continue;
    old->next = used;
    used = old;
  }
  in->content.notes = NULL;
  if (used != NULL)
    lls_inbox_return_notes(in->inbox, used);
}

void lls_session_end_all(struct lls_instance *in)
{
  LLS_ON_STEP(in);
  while (in->sessions.known != NULL)
    end(in, in->sessions.known);
}
