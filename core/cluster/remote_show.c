/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instances in other processes publish data: their load to every scheduler, their
 * status and figures to process 0, and their queues when main asks for them.
 */
#include "core/cluster/remote_internal.h"

#define LOAD_NS  1000000 /* least time between two loads of an instance */
#define LOADS_NS 2000000 /* time between two messages with all loads */
/* time between two statuses; before an end one is sent at once */
#define STATUS_NS 50000000
#define STATS_NS  500000000 /* time between two messages with the policies' figures */

static bool is_due(int64_t now_ns, int64_t *last_ns, int64_t every_ns)
{
  if (now_ns - *last_ns < every_ns)
    return false;
  *last_ns = now_ns;
  return true;
}

/* ---- load -------------------------------------------------------------------------- */

static struct lls_load_entry board_of(struct lls_remote *remote, uint32_t i)
{
  struct lls_peer_loads *p = lls_remote_instance(remote, i)->loads;
  pthread_mutex_lock(&p->lock);
  struct lls_load_entry entry = p->entry[1];
  pthread_mutex_unlock(&p->lock);
  return entry;
}

static void write_board(struct lls_remote *remote, uint32_t i,
                        const struct lls_load_entry *entry)
{
  struct lls_peer_loads *p = lls_remote_instance(remote, i)->loads;
  pthread_mutex_lock(&p->lock);
  p->entry[0] = p->entry[1];
  p->entry[1] = *entry;
  p->entry[1].at_ns = lls_remote_now(remote);
  pthread_mutex_unlock(&p->lock);
}

void lls_remote_show_load(struct lls_remote *remote)
{
  const struct lls_load_entry entry = board_of(remote, remote->self);
  struct lls_pack p = lls_remote_message(remote, LLS_REMOTE_LOAD, 0);
  LLS_PACK(&p, entry.load);
  lls_pack_put(&p, entry.received, remote->n * sizeof *entry.received);
  remote->load = entry;
  lls_remote_send(remote, &p);
}

static void see_load(struct lls_remote *remote, uint32_t from, struct lls_unpack *u)
{
  struct lls_load_entry entry = {0};
  LLS_UNPACK(u, entry.load);
  lls_unpack_take(u, entry.received, remote->n * sizeof *entry.received);
  if (!u->failed)
    write_board(remote, from, &entry);
}

/* Sends one process the loads of all other instances, with the offers they received
 * from its instance. */
void lls_remote_show_loads(struct lls_remote *remote, uint32_t to)
{
  struct lls_pack p = lls_remote_message(remote, LLS_REMOTE_LOADS, to);
  for (uint32_t i = 0; i < remote->n; i++) {
    const struct lls_load_entry entry = board_of(remote, i);
    LLS_PACK(&p, entry.load);
    LLS_PACK(&p, entry.received[to]);
  }
  remote->loads_changed[to] = false;
  lls_remote_send(remote, &p);
}

/* Sends the loads to the processes that have received the previous ones; the rest
 * follow later. */
static void show_all_loads(struct lls_remote *remote)
{
  for (uint32_t to = 1; to < remote->n; to++)
    if (remote->loads_changed[to] &&
        lls_remote_may_send(remote, to, LLS_REMOTE_LATEST_LOAD))
      lls_remote_show_loads(remote, to);
}

static void note_change(struct lls_remote *remote)
{
  for (uint32_t to = 1; to < remote->n; to++)
    remote->loads_changed[to] = true;
}

static void see_loads(struct lls_remote *remote, struct lls_unpack *u)
{
  for (uint32_t i = 0; i < remote->n; i++) {
    struct lls_load_entry entry = {0};
    LLS_UNPACK(u, entry.load);
    LLS_UNPACK(u, entry.received[remote->self]);
    if (i != remote->self && !u->failed)
      write_board(remote, i, &entry);
  }
}

static bool has_changed(struct lls_remote *remote)
{
  const struct lls_load_entry now = board_of(remote, remote->self);
  return memcmp(&now.load, &remote->load.load, sizeof now.load) != 0 ||
         memcmp(now.received, remote->load.received, sizeof now.received) != 0;
}

/* ---- status ------------------------------------------------------------------------ */

void lls_remote_show_status(struct lls_remote *remote)
{
  struct lls_loop_status status;
  lls_step_thread_status(remote->mine, &status);
  struct lls_pack p = lls_remote_message(remote, LLS_REMOTE_STATUS, 0);
  LLS_PACK(&p, status);
  lls_remote_send(remote, &p);
}

static void see_status(struct lls_step_thread *r, const struct lls_loop_status *before,
                       struct lls_unpack *u)
{
  struct lls_loop_status status;
  LLS_UNPACK(u, status);
  if (u->failed)
    return;
  lls_loop_status_bind(&status);
  if (before != NULL)
    lls_loop_status_add(&status, before);
  pthread_mutex_lock(&r->status_lock);
  r->status = status;
  pthread_mutex_unlock(&r->status_lock);
}

static void show_stats(struct lls_remote *remote)
{
  struct lls_loop_policy_stats stats;
  lls_step_thread_policy_stats(remote->mine, &stats);
  struct lls_pack p = lls_remote_message(remote, LLS_REMOTE_STATS, 0);
  LLS_PACK(&p, stats);
  lls_remote_send(remote, &p);
}

static void see_stats(struct lls_step_thread *r, struct lls_unpack *u)
{
  struct lls_loop_policy_stats stats;
  LLS_UNPACK(u, stats);
  if (u->failed)
    return;
  pthread_mutex_lock(&r->status_lock);
  r->policy_stats = stats;
  pthread_mutex_unlock(&r->status_lock);
}

/* ---- queues ------------------------------------------------------------------------ */

static const char *const states[] = {"running", "moving",  "preempted",
                                     "waiting", "offered", "reading"};
#define N_STATES (sizeof states / sizeof *states)

/* A snapshot's texts are constants of each process: their indices are sent. */
static const char *number_of(const char *state)
{
  uintptr_t i = 0;
  while (i < N_STATES - 1 && strcmp(states[i], state) != 0)
    i++;
  return (const char *)i;
}

static const char *state_of(const char *number)
{
  uintptr_t i = (uintptr_t)number;
  return states[i < N_STATES ? i : 0];
}

static void show_snapshot(struct lls_remote *remote)
{
  struct lls_snapshot *q = remote->snapshot;
  for (uint32_t i = 0; i < q->n; i++)
    q->requests[i].state = number_of(q->requests[i].state);
  for (uint32_t i = 0; i < q->n_counts; i++)
    q->counts[i].state = number_of(q->counts[i].state);
  struct lls_pack p = lls_remote_message(remote, LLS_REMOTE_SNAPSHOT, 0);
  atomic_store(&q->ready, false); /* set by the receiver once the snapshot is complete */
  lls_pack_put(&p, q, sizeof *q);
  lls_remote_send(remote, &p);
  remote->snapshot_asked = false;
}

static void see_snapshot(struct lls_remote *remote, uint32_t from, struct lls_unpack *u)
{
  struct lls_snapshot *q = remote->others[from].asked;
  if (q == NULL)
    return;
  remote->others[from].asked = NULL;
  lls_unpack_take(u, q, sizeof *q);
  for (uint32_t i = 0; i < q->n; i++)
    q->requests[i].state = state_of(q->requests[i].state);
  for (uint32_t i = 0; i < q->n_counts; i++)
    q->counts[i].state = state_of(q->counts[i].state);
  atomic_store(&q->ready, true);
  remote->wake(remote->wake_context);
}

/* ---- the entry point --------------------------------------------------------------- */

static void show_mine(struct lls_remote *remote, int64_t now_ns)
{
  if (is_due(now_ns, &remote->shown_ns, LOAD_NS) && has_changed(remote) &&
      lls_remote_may_send(remote, 0, LLS_REMOTE_LATEST_LOAD))
    lls_remote_show_load(remote);
  if (is_due(now_ns, &remote->status_ns, STATUS_NS) &&
      lls_remote_may_send(remote, 0, LLS_REMOTE_LATEST_STATUS))
    lls_remote_show_status(remote);
  if (is_due(now_ns, &remote->stats_ns, STATS_NS) &&
      lls_remote_may_send(remote, 0, LLS_REMOTE_LATEST_STATS))
    show_stats(remote);
  if (remote->snapshot_asked && atomic_load(&remote->snapshot->ready))
    show_snapshot(remote);
}

void lls_remote_show(struct lls_remote *remote)
{
  int64_t now_ns = lls_remote_now(remote);
  if (!lls_remote_is_hub(remote)) {
    show_mine(remote, now_ns);
    return;
  }
  if (!is_due(now_ns, &remote->loads_ns, LOADS_NS))
    return;
  if (has_changed(remote)) {
    remote->load = board_of(remote, 0);
    note_change(remote);
  }
  show_all_loads(remote);
}

void lls_remote_see(struct lls_remote *remote, const struct lls_remote_head *head,
                    struct lls_unpack *u)
{
  switch (head->kind) {
  case LLS_REMOTE_LOAD:
    note_change(remote);
    see_load(remote, head->from, u);
    return;
  case LLS_REMOTE_LOADS:
    see_loads(remote, u);
    return;
  case LLS_REMOTE_STATUS:
    see_status(&remote->threads[head->from], remote->others[head->from].before, u);
    return;
  case LLS_REMOTE_STATS:
    see_stats(&remote->threads[head->from], u);
    return;
  case LLS_REMOTE_SNAPSHOT:
    see_snapshot(remote, head->from, u);
    return;
  default:
    return;
  }
}
