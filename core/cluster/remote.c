/* SPDX-License-Identifier: Apache-2.0 */
/* The rounds of the channel's thread, its start and its end; see remote.h. */
#include "config.h"

#include "core/cluster/remote.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "core/base/error.h"
#include "core/cluster/fetch.h"
#include "core/cluster/remote_internal.h"
#include "core/engine/engine.h"
#include "core/instance/inbox.h"
#include "core/instance/instance.h"
#include "core/instance/outbox.h"
#include "core/obs/log.h"

#define MESSAGES 64 /* messages handled per round, so that sending is not delayed */
/* Time after the last activity during which naps are short. */
#define AWAKE_NS (LLS_NS_PER_S / 20)
/* short nap: longest delay of a message while others arrive */
#define NAP_NS (LLS_NS_PER_S / 20000)
/* Long nap: longest delay of the first message after a rest. */
#define LONG_NS  (LLS_NS_PER_S / 1000)
#define LOOK_NS  (LLS_NS_PER_S / 100) /* time between two checks of other processes */
#define FLUSH_NS (2 * LLS_NS_PER_S)
#define STOP_NS  (10 * LLS_NS_PER_S) /* time for the other processes to end */

static void nap(int64_t ns)
{
  nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

/* ---- rounds ------------------------------------------------------------------------ */

static void take_snapshot(struct lls_remote *remote)
{
  if (remote->snapshot == NULL)
    remote->snapshot = calloc(1, sizeof *remote->snapshot);
  if (remote->snapshot == NULL || remote->snapshot_asked)
    return;
  atomic_store(&remote->snapshot->ready, false);
  remote->snapshot_asked = true;
  lls_inbox_ask(&remote->mine->inbox, remote->snapshot);
}

/* In all other processes: handles a message of process 0. */
static void receive(struct lls_remote *remote, const struct lls_channel_message *m)
{
  struct lls_unpack u = {.data = m->data, .n = m->bytes};
  struct lls_remote_head head;
  memset(&head, 0, sizeof head);
  LLS_UNPACK(&u, head);
  if (u.failed)
    return;
  remote->others[0].heard_ns = lls_remote_now(remote);
  switch (head.kind) {
  case LLS_REMOTE_ASK:
    take_snapshot(remote);
    return;
  case LLS_REMOTE_GONE:
    lls_remote_see_gone(remote, head.source, head.mail == 0);
    return;
  case LLS_REMOTE_BACK:
    lls_remote_see_back(remote, head.source);
    return;
  case LLS_REMOTE_LEAVES:
    lls_remote_see_leaving(remote, head.source);
    return;
  case LLS_REMOTE_CLEAR:
    lls_remote_clear(remote, &head);
    return;
  case LLS_REMOTE_STOP:
    remote->stopped = true;
    return;
  case LLS_REMOTE_END:
    remote->stopped = remote->ended = true;
    remote->channel->orderly = head.mail == 1;
    if (u.n - u.at < sizeof remote->why_ended.text)
      lls_unpack_take(&u, remote->why_ended.text, u.n - u.at);
    lls_remote_tell_ranks(remote, LLS_REMOTE_END, 0, head.mail);
    return;
  case LLS_REMOTE_LOADS:
    lls_remote_see(remote, &head, &u);
    return;
  case LLS_REMOTE_CHANGE:
    lls_remote_begin_phase(remote, &head, &u);
    return;
  default:
    lls_remote_receive(remote, &head, &u);
  }
}

static bool receive_all(struct lls_remote *remote)
{
  struct lls_channel_message m;
  int n = 0;
  if (lls_remote_is_hub(remote))
    lls_hub_take_joined(remote);
  for (; n < MESSAGES && remote->channel->ops->receive(remote->channel, &m); n++) {
    if (lls_remote_is_hub(remote)) {
      lls_hub_receive(remote, m.from, &m);
      continue;
    }
    receive(remote, &m);
    free(m.data);
  }
  return n > 0;
}

/* Fails fetches of which pieces were lost, at both ends: nothing else would end them. */
static void end_cut_off(struct lls_remote *remote)
{
  uint32_t index;
  while (remote->channel->elastic &&
         (index = remote->channel->ops->cut_off(remote->channel)) != LLS_NOBODY) {
    const struct lls_remote_head head = lls_remote_head(remote, LLS_REMOTE_NO, index, 0);
    lls_fetches_cut(remote->fetches, index);
    lls_remote_send_head(remote, &head, NULL, 0);
  }
}

static bool move_blocks(struct lls_remote *remote)
{
  struct lls_fetched fetched;
  struct lls_error news;
  uint32_t from, to;
  bool any = lls_fetches_move(remote->fetches);
  end_cut_off(remote);
  while (lls_fetches_next_done(remote->fetches, &fetched)) {
    lls_inbox_fetched(&remote->mine->inbox, &fetched);
    any = true;
  }
  while (lls_fetches_news(remote->fetches, &from, &to, &news))
    lls_log(remote->log, LLS_LOG_INFO, "instances", "from instance %u to %u: %s", from,
            to, news.text);
  return any;
}

/* One round. A message about a change follows everything posted before it. */
static bool exchange(struct lls_remote *remote)
{
  bool any = receive_all(remote);
  any |= lls_remote_hear_ranks(remote);
  bool begins = lls_remote_is_hub(remote) && lls_hub_has_change(remote);
  lls_remote_go_on(remote);
  any |= lls_remote_drain(remote);
  if (begins)
    lls_hub_send_change(remote);
  lls_remote_send_changed(remote);
  lls_remote_go_on_clearing(remote);
  return any || begins;
}

static void make_round(struct lls_remote *remote)
{
  bool any = exchange(remote);
  any |= move_blocks(remote);
  lls_remote_show(remote);
  if (lls_remote_is_hub(remote))
    lls_hub_publish(remote);
  int64_t now_ns = lls_remote_now(remote);
  lls_remote_beat(remote, now_ns);
  if (any)
    remote->active_ns = now_ns;
  else
    nap(now_ns - remote->active_ns < AWAKE_NS ? NAP_NS : LONG_NS);
}

static bool is_time_to_look(struct lls_remote *remote)
{
  int64_t now_ns = lls_remote_now(remote);
  if (now_ns - remote->look_ns < LOOK_NS)
    return false;
  if (remote->look_ns > 0)
    lls_remote_forgive(remote, now_ns, now_ns - remote->look_ns);
  remote->look_ns = now_ns;
  return true;
}

static bool is_flushed(struct lls_remote *remote)
{
  bool within = remote->within == NULL || lls_remote_check_ranks(remote, NULL) < 0 ||
                remote->within->ops->is_flushed(remote->within);
  return remote->channel->ops->is_flushed(remote->channel) && within;
}

/* Sends until all messages are out, or it takes too long. */
static void flush(struct lls_remote *remote)
{
  int64_t until_ns = lls_remote_now(remote) + FLUSH_NS;
  while (!is_flushed(remote) && lls_remote_now(remote) < until_ns)
    nap(NAP_NS);
}

/* ---- process 0 --------------------------------------------------------------------- */

/* Returns true if all processes have ended. silent: without waiting for silent ones. */
static bool all_have_ended(const struct lls_remote *remote, bool silent)
{
  for (uint32_t i = 1; i < remote->n; i++) {
    const struct lls_remote_other *other = &remote->others[i];
    if (!other->gone && !other->bye && !other->joining && !(silent && other->silent))
      return false;
  }
  return true;
}

/* Kills the processes that did not end although they were asked to and had time, since
 * the launcher waits for all that it has started. */
static void end_hung(struct lls_remote *remote)
{
  for (uint32_t i = 1; i < remote->n; i++) {
    const struct lls_remote_other *other = &remote->others[i];
    if (other->hung || (!other->gone && !other->bye))
      remote->channel->ops->end_hung(remote->channel, i);
  }
}

static void send_all(struct lls_remote *remote, uint32_t kind, uint32_t mail)
{
  for (uint32_t i = 1; i < remote->n; i++) {
    struct lls_pack p = lls_remote_message(remote, kind, i);
    ((struct lls_remote_head *)(void *)p.data)->mail = mail;
    lls_remote_send(remote, &p);
  }
}

static void send_stop(struct lls_remote *remote)
{
  send_all(remote, LLS_REMOTE_STOP, 0);
  remote->stop_sent = true;
}

/* Sends END. Other processes wait for it, so a process that is missing has died, or a
 * rank of this one's instance has. MPI then cannot be ended in order: it would wait for
 * the dead. */
static void send_end(struct lls_remote *remote)
{
  lls_remote_look_at_others(remote, lls_remote_now(remote));
  remote->channel->orderly = remote->n_gone == 0 && all_have_ended(remote, false) &&
                             lls_remote_check_ranks(remote, NULL) == 0;
  send_all(remote, LLS_REMOTE_END, remote->channel->orderly);
  lls_remote_tell_ranks(remote, LLS_REMOTE_END, 0, remote->channel->orderly);
}

static void *hub_main(void *argument)
{
  struct lls_remote *remote = argument;
  int64_t until_ns = INT64_MAX;
  lls_fetches_begin_thread(remote->fetches);
  while (!all_have_ended(remote, true) || !atomic_load(&remote->stopping)) {
    make_round(remote);
    if (is_time_to_look(remote)) {
      lls_remote_look_at_others(remote, lls_remote_now(remote));
      lls_hub_look_at_places(remote);
    }
    if (atomic_load(&remote->stopping) && !remote->stop_sent) {
      send_stop(remote);
      until_ns = lls_remote_now(remote) + STOP_NS;
    }
    if (lls_remote_now(remote) > until_ns)
      break;
  }
  if (!remote->stop_sent)
    send_stop(remote);
  send_end(remote);
  flush(remote);
  end_hung(remote);
  return NULL;
}

int lls_remote_start(struct lls_remote *remote, struct lls_error *err)
{
  int rc = -pthread_create(&remote->thread, NULL, hub_main, remote);
  if (rc < 0)
    return lls_fail(err, rc, "cannot start the channel's thread: %s", strerror(-rc));
  pthread_setname_np(remote->thread, "llmserve-peers");
  remote->running = true;
  return 0;
}

int lls_remote_await(struct lls_remote *remote, const _Atomic(bool) *give_up,
                     struct lls_error *err)
{
  for (;;) {
    pthread_mutex_lock(&remote->lock);
    bool elastic = remote->channel->elastic, lost = remote->lost && !elastic;
    bool ready = elastic ? remote->serves : remote->n_ready == remote->n - 1;
    if (lost && err != NULL)
      *err = remote->why_lost;
    pthread_mutex_unlock(&remote->lock);
    if (lost)
      return -ECONNABORTED;
    if (ready)
      return 0;
    if (give_up != NULL && atomic_load(give_up))
      return lls_fail(err, -ECANCELED, "it was given up while others still started");
    nap(LLS_NS_PER_S / 200);
  }
}

void lls_remote_stop(struct lls_remote *remote)
{
  if (!remote->running)
    return;
  atomic_store(&remote->stopping, true);
  pthread_join(remote->thread, NULL);
  remote->running = false;
}

/* ---- the other processes ---------------------------------------------------------- */

static void send_text(struct lls_remote *remote, uint32_t kind, const char *text)
{
  struct lls_pack p = lls_remote_message(remote, kind, 0);
  lls_pack_put(&p, text, strlen(text) + 1);
  lls_remote_send(remote, &p);
}

/* Ends this process's part after a failure: sends the events of its requests, which
 * have ended with errors, then the reason. */
static int fail(struct lls_remote *remote, struct lls_error *err)
{
  for (int i = 0; i < 3; i++)
    make_round(remote);
  send_text(remote, LLS_REMOTE_FAILED, err->text);
  flush(remote);
  return -EIO;
}

/* Waits for process 0's END; process 0 waits until all have sent BYE. */
static void await_end(struct lls_remote *remote)
{
  int64_t until_ns = lls_remote_now(remote) + 2 * STOP_NS;
  while (!remote->ended && lls_remote_now(remote) < until_ns &&
         lls_remote_look_at_hub(remote, lls_remote_now(remote), NULL) == 0)
    make_round(remote);
  flush(remote);
}

int lls_remote_follow(struct lls_remote *remote, struct lls_error *err)
{
  struct lls_pack p = lls_remote_message(remote, LLS_REMOTE_READY, 0);
  lls_fetches_begin_thread(remote->fetches);
  LLS_PACK(&p, remote->shape);
  lls_remote_show_load(remote);
  lls_remote_show_status(remote);
  lls_remote_send(remote, &p);
  while (!remote->stopped && !lls_remote_go_on_leaving(remote)) {
    make_round(remote);
    if (lls_step_thread_failed(remote->mine, err) ||
        lls_remote_check_ranks(remote, err) < 0)
      return fail(remote, err);
    if (is_time_to_look(remote) &&
        lls_remote_look_at_hub(remote, lls_remote_now(remote), err) < 0) {
      remote->channel->orderly = false;
      remote->channel->ops->end_hung(
          remote->channel,
          0); /* the launcher waits for every process, also for a process 0 that hangs */
      return -ECONNABORTED;
    }
  }
  if (remote->ended && remote->why_ended.text[0] != '\0' && remote->channel->elastic)
    return lls_fail(err, -EPERM, "the front end does not let this process serve: %.400s",
                    remote->why_ended.text);
  if (!remote->stopped) /* it leaves */
    return 0;
  if (!remote->ended) {
    send_text(remote, LLS_REMOTE_BYE, "");
    await_end(remote);
  }
  /* a process that was started on its own outlives the front end */
  if (remote->channel->elastic && remote->leaves_at_ns == 0)
    return lls_fail(err, -ECONNABORTED, "the front end has ended");
  return 0;
}

void lls_remote_give_up(struct lls_channel *channel, const char *why)
{
  for (uint32_t i = 0; i < (channel->self == 0 ? channel->n : 1); i++) {
    struct lls_remote_head head;
    struct lls_pack p = {0};
    memset(&head, 0, sizeof head);
    head.kind = channel->self == 0 ? LLS_REMOTE_END : LLS_REMOTE_FAILED;
    head.target = i;
    head.from = channel->self;
    LLS_PACK(&p, head);
    lls_pack_put(&p, why, strlen(why) + 1);
    if (i == channel->self || p.failed)
      free(p.data);
    else
      channel->ops->send(channel, i, p.data, p.n);
  }
  struct lls_error gone = {0};
  struct lls_channel_message m;
  bool stopped = channel->self == 0;
  for (int i = 0; i < 5000 && !(stopped && channel->ops->is_flushed(channel)); i++) {
    nap(LLS_NS_PER_S / 1000);
    while (
        channel->ops->receive(channel, &m)) { /* process 0's END, or an earlier message */
      stopped |=
          m.bytes >= sizeof(struct lls_remote_head) &&
          ((const struct lls_remote_head *)(const void *)m.data)->kind == LLS_REMOTE_END;
      free(m.data);
    }
    uint32_t index = channel->ops->gone(channel, &gone);
    stopped |= index == 0;
    if (index != LLS_NOBODY)
      channel->ops->forget(channel, index);
  }
}

/* ---- creation and end -------------------------------------------------------------- */

static struct lls_remote_shape shape_of(struct lls_remote *remote,
                                        const struct lls_loop_options *o)
{
  struct lls_remote_shape s;
  const struct lls_engine *engine = remote->mine->instance.engine;
  memset(&s, 0, sizeof s); /* with the padding, since all bytes are sent */
  snprintf(s.version, sizeof s.version, "%s", PACKAGE_VERSION);
  snprintf(s.device, sizeof s.device, "%s", lls_engine_device_name(engine));
  s.pool = *lls_engine_pool_shape(engine);
  s.max_requests = o->max_requests;
  s.vocabulary = lls_engine_config(engine)->vocab;
  s.max_context = lls_engine_caps(engine)->max_context;
  s.role = remote->mine->instance.info.role;
  s.n = remote->n;
  return s;
}

static int allocate(struct lls_remote *remote, const struct lls_remote_options *o,
                    struct lls_error *err)
{
  uint32_t max_requests = o->options->max_requests;
  remote->others = calloc(remote->n, sizeof *remote->others);
  remote->away = calloc(remote->n_slots, sizeof *remote->away);
  int rc = lls_inbox_content_init(&remote->content, max_requests);
  if (rc == 0)
    rc = lls_outbox_init(&remote->outbox, o->delivery, o->events_per_step);
  if (rc < 0 || remote->others == NULL || remote->away == NULL)
    return lls_fail(err, -ENOMEM, "out of memory for %u requests", max_requests);
  for (uint32_t i = 0; i < remote->n; i++)
    remote->others[i].heard_ns = LLS_NEVER;
  for (uint32_t slot = 0; slot < remote->n_slots; slot++)
    remote->away[slot].source = LLS_NOBODY;
  for (int turn = 0; turn < 2; turn++)
    remote->held_end[turn] = &remote->held[turn];
  return lls_fetches_create(
      &(struct lls_fetches_options){.engine = remote->mine->instance.engine,
                                    .channel = remote->channel,
                                    .links = o->options->remote.links,
                                    .gpu_aware = o->options->remote.gpu_aware,
                                    .timeout_ns = remote->timeout_ns},
      &remote->fetches, err);
}

/* Logs how blocks are sent, if there is a choice; and why there are no links, unless
 * the device is a CPU, which never has any. */
static void log_way(const struct lls_remote *remote)
{
  bool gpu = lls_engine_has_pieces(remote->mine->instance.engine);
  enum lls_log_level level = gpu && remote->self == 0 ? LLS_LOG_INFO : LLS_LOG_DEBUG;
  const char *why = lls_fetches_why_no_links(remote->fetches);
  if (why[0] != '\0')
    lls_log(remote->log, level, "instances",
            "blocks cannot go by NCCL ([engine] blocks_by = auto): %s", why);
  if (!gpu)
    return;
  lls_log(remote->log, level, "instances",
          lls_fetches_are_on_gpu(remote->fetches)
              ? "blocks go to other processes in GPU memory, by GPU-aware MPI"
              : "blocks go to other processes in pinned host memory ([engine] "
                "blocks_by)");
}

int lls_remote_create(const struct lls_remote_options *o, struct lls_remote **out,
                      struct lls_error *err)
{
  const struct lls_loop_remote *with = &o->options->remote;
  struct lls_remote *remote = calloc(1, sizeof *remote);
  if (remote == NULL)
    return lls_fail(err, -ENOMEM, "out of memory");
  pthread_mutex_init(&remote->lock, NULL);
  remote->channel = o->channel;
  remote->within = with->within;
  remote->self = o->channel->self;
  remote->n = o->channel->n;
  remote->n_slots = o->slots->n;
  remote->threads = o->threads;
  remote->mine = &o->threads[remote->self];
  remote->delivery = o->delivery;
  remote->cancelled = o->cancelled;
  remote->events_per_step = o->events_per_step;
  remote->timeout_ns = with->timeout_ns;
  remote->log = o->options->log;
  remote->place = o->place;
  remote->take_phase = o->take_phase;
  remote->context = o->context;
  remote->wake = o->options->wake;
  remote->wake_context = o->options->wake_context;
  remote->wire =
      (struct lls_wire){.ahead_ns = o->channel->clock_ahead_ns,
                        .live = o->live,
                        .grammar = with->grammar,
                        .grammar_context = with->context,
                        .adapter = with->adapter != NULL ? lls_remote_read_adapter : NULL,
                        .adapter_context = remote,
                        .guests = o->guests};
  remote->adapter = with->adapter;
  remote->adapter_context = with->context;
  remote->leaves = with->leaves;
  remote->drain_ns = with->drain_ns;
  remote->join_ns = with->join_ns;
  remote->shape = shape_of(remote, o->options);
  int rc = allocate(remote, o, err);
  if (rc == 0)
    rc = lls_remote_keep_config(remote, with->config, with->config_bytes);
  if (rc < 0) {
    lls_remote_destroy(remote);
    return rc;
  }
  remote->mine->instance.fetches = remote->fetches;
  remote->mine->instance.drop_fetch = lls_fetches_drop;
  lls_remote_begin_empty(remote);
  log_way(remote);
  *out = remote;
  return 0;
}

void lls_remote_destroy(struct lls_remote *remote)
{
  struct lls_live *next;
  if (remote == NULL)
    return;
  for (int turn = 0; turn < 2; turn++)
    for (struct lls_live *live = remote->held[turn]; live != NULL; live = next) {
      next = live->next;
      lls_live_free(live);
    }
  for (uint32_t slot = 0; remote->away != NULL && slot < remote->n_slots; slot++) {
    lls_live_free(remote->away[slot].home);
    free(remote->away[slot].offer);
  }
  lls_fetches_destroy(remote->fetches);
  remote->mine->instance.fetches = NULL;
  lls_inbox_content_free(&remote->content);
  lls_outbox_free(&remote->outbox);
  free(remote->snapshot);
  free(remote->change.data);
  free(remote->installed.data);
  free(remote->preparing.data);
  for (uint32_t i = 0; remote->others != NULL && i < remote->n; i++)
    free(remote->others[i].before);
  free(remote->others);
  free(remote->away);
  pthread_mutex_destroy(&remote->lock);
  free(remote);
}

bool lls_remote_lost(struct lls_remote *remote, struct lls_error *why)
{
  pthread_mutex_lock(&remote->lock);
  bool lost = remote->lost;
  if (lost && why != NULL)
    *why = remote->why_lost;
  pthread_mutex_unlock(&remote->lock);
  return lost;
}

bool lls_remote_failed(struct lls_remote *remote, struct lls_error *why)
{
  pthread_mutex_lock(&remote->lock);
  bool failed = remote->failed;
  if (failed && why != NULL)
    *why = remote->why_failed;
  pthread_mutex_unlock(&remote->lock);
  return failed;
}
