/* SPDX-License-Identifier: Apache-2.0 */
/* See remote_rank.h. */
#include "core/cluster/remote_rank.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/cluster/fetch.h"
#include "core/cluster/remote_internal.h"
#include "core/engine/engine.h"
#include "core/instance/inbox.h"
#include "core/ranks/ranks.h"

/* Time after the last activity during which naps are short. */
#define AWAKE_NS (LLS_NS_PER_S / 20)
#define NAP_NS   (LLS_NS_PER_S / 20000) /* short nap, as in remote.c */
#define LONG_NS  (LLS_NS_PER_S / 1000)
#define LOOK_NS  (LLS_NS_PER_S / 100)
#define STOP_NS  (2 * LLS_NS_PER_S) /* time to wait for rank 0's last message */

struct lls_remote_rank {
  struct lls_ranks *ranks;
  struct lls_channel *across, *within;
  struct lls_fetches *fetches;
  pthread_t thread;
  atomic_bool stopping, stopped;        /* stopping: set by main; stopped: by rank 0 */
  bool orderly;                         /* valid once stopped is set */
  int64_t active_ns, look_ns, heard_ns; /* heard_ns LLS_NEVER: rank 0 has not begun */
};

static int64_t now_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * LLS_NS_PER_S + t.tv_nsec;
}

static void nap(int64_t ns)
{
  nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

/* ---- sending ----------------------------------------------------------------------- */

static void send_to(struct lls_remote_rank *r, struct lls_channel *channel, uint32_t to,
                    const struct lls_remote_head *head, const void *more, size_t bytes)
{
  struct lls_pack p = {0};
  LLS_PACK(&p, *head);
  lls_pack_put(&p, more, bytes);
  if (p.failed)
    lls_ranks_fail(r->ranks, "out of memory for a message");
  else
    channel->ops->send(channel, to, p.data, p.n);
  if (p.failed)
    free(p.data);
}

static void send_orders(struct lls_remote_rank *r)
{
  struct lls_fetch_order order;
  while (lls_fetches_next_order(r->fetches, &order)) {
    const struct lls_remote_head head = {.kind = order.pack.n > 0 ? LLS_REMOTE_FETCH
                                                                  : LLS_REMOTE_DROP,
                                         .target = order.source,
                                         .from = r->across->self,
                                         .request = order.ticket};
    send_to(r, r->across, order.source, &head, order.pack.data, order.pack.n);
    free(order.pack.data);
  }
}

static bool send_parts(struct lls_remote_rank *r)
{
  struct lls_fetched fetched;
  bool any = false;
  while (lls_fetches_next_done(r->fetches, &fetched)) {
    const struct lls_remote_head head = {.kind = LLS_REMOTE_PART,
                                         .request = fetched.ticket};
    send_to(r, r->within, 0, &head, &fetched.bytes,
            fetched.good ? sizeof fetched.bytes : 0);
    any = true;
  }
  return any;
}

/* ---- receiving --------------------------------------------------------------------- */

static void lose(struct lls_remote_rank *r, uint32_t index, bool for_good)
{
  if (index >= r->across->n || index == r->across->self)
    return;
  if (for_good)
    r->across->ops->forget(r->across, index);
  lls_fetches_lose(r->fetches, index);
}

/* Handles a message of the same rank of another instance. */
static void receive_across(struct lls_remote_rank *r, const struct lls_remote_head *head,
                           uint32_t from, struct lls_unpack *u)
{
  struct lls_remote_head no = {.kind = LLS_REMOTE_NO,
                               .target = from,
                               .from = r->across->self,
                               .request = head->request};
  if (head->kind == LLS_REMOTE_DROP)
    lls_fetches_unserve(r->fetches, from, head->request);
  else if (head->kind == LLS_REMOTE_NO)
    lls_fetches_fail(r->fetches, head->request);
  else if (head->kind == LLS_REMOTE_FETCH &&
           !lls_fetches_serve(r->fetches, from, head->request, u))
    send_to(r, r->across, from, &no, NULL, 0);
}

/* Handles a message of rank 0. */
static void receive_within(struct lls_remote_rank *r, const struct lls_remote_head *head)
{
  r->heard_ns = now_ns();
  if (head->kind == LLS_REMOTE_GONE)
    lose(r, head->source, head->mail == 0);
  if (head->kind == LLS_REMOTE_BACK && head->source < r->across->n)
    lls_fetches_find(r->fetches, head->source);
  if (head->kind != LLS_REMOTE_END)
    return;
  r->orderly = head->mail == 1;
  atomic_store(&r->stopped, true);
}

static bool receive(struct lls_remote_rank *r, struct lls_channel *channel)
{
  struct lls_channel_message m;
  bool any = false;
  while (channel->ops->receive(channel, &m)) {
    struct lls_unpack u = {.data = m.data, .n = m.bytes};
    struct lls_remote_head head;
    memset(&head, 0, sizeof head);
    LLS_UNPACK(&u, head);
    if (!u.failed && channel == r->across)
      receive_across(r, &head, m.from, &u);
    else if (!u.failed)
      receive_within(r, &head);
    free(m.data);
    any = true;
  }
  return any;
}

/* ---- rounds ------------------------------------------------------------------------ */

/* Checks other processes. Their end is observed on this machine, else rank 0 reports
 * it; the end of rank 0 is observed by the group's watch on this machine, else by its
 * silence. */
static void look(struct lls_remote_rank *r, int64_t at_ns)
{
  struct lls_error why = {0};
  uint32_t index;
  char text[96];
  if (at_ns - r->look_ns < LOOK_NS)
    return;
  r->look_ns = at_ns;
  while ((index = r->across->ops->gone(r->across, &why)) != LLS_NOBODY)
    lose(r, index, true);
  if (r->heard_ns == LLS_NEVER || at_ns - r->heard_ns <= r->ranks->timeout_ns ||
      atomic_load(&r->stopped))
    return;
  snprintf(text, sizeof text, "nothing was heard of rank 0 for %lld ms",
           (long long)(r->ranks->timeout_ns / 1000000));
  lls_ranks_fail(r->ranks, text);
}

static void *thread_main(void *argument)
{
  struct lls_remote_rank *r = argument;
  lls_fetches_begin_thread(r->fetches);
  while (!atomic_load(&r->stopping)) {
    bool any = receive(r, r->across);
    any |= receive(r, r->within);
    send_orders(r);
    any |= lls_fetches_move(r->fetches);
    any |= send_parts(r);
    int64_t at_ns = now_ns();
    look(r, at_ns);
    if (any)
      r->active_ns = at_ns;
    else
      nap(at_ns - r->active_ns < AWAKE_NS ? NAP_NS : LONG_NS);
  }
  return NULL;
}

/* ---- creation and end -------------------------------------------------------------- */

int lls_remote_rank_create(const struct lls_fetches_options *fetches,
                           struct lls_channel *within, struct lls_remote_rank **out,
                           struct lls_error *err)
{
  struct lls_remote_rank *r = calloc(1, sizeof *r);
  LLS_ON_MAIN_THREAD();
  if (r == NULL)
    return lls_fail(err, -ENOMEM, "out of memory");
  r->ranks = lls_engine_ranks(fetches->engine);
  r->across = fetches->channel;
  r->within = within;
  r->heard_ns = LLS_NEVER;
  int rc = lls_fetches_create(fetches, &r->fetches, err);
  if (rc == 0) {
    rc = -pthread_create(&r->thread, NULL, thread_main, r);
    if (rc < 0)
      lls_fail(err, rc, "cannot start the channel's thread: %s", strerror(-rc));
  }
  if (rc < 0) {
    lls_fetches_destroy(r->fetches);
    free(r);
    return rc;
  }
  pthread_setname_np(r->thread, "llmserve-peers");
  *out = r;
  return 0;
}

int lls_remote_rank_heed(struct lls_remote_rank *r, const void *note, size_t bytes,
                         struct lls_error *err)
{
  return lls_fetches_heed(r->fetches, note, bytes, err);
}

void lls_remote_rank_destroy(struct lls_remote_rank *r)
{
  int64_t until_ns = now_ns() + STOP_NS;
  while (!atomic_load(&r->stopped) && lls_ranks_failed(r->ranks, NULL) == 0 &&
         now_ns() < until_ns)
    nap(LONG_NS);
  atomic_store(&r->stopping, true);
  pthread_join(r->thread, NULL);
  r->across->orderly = atomic_load(&r->stopped) && r->orderly;
  lls_fetches_destroy(r->fetches);
  free(r);
}
