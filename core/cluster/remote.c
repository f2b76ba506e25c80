/* SPDX-License-Identifier: Apache-2.0 */
/* The rounds of the channel's thread, and its life; see remote.h. */
#include "config.h"

#include "core/cluster/remote.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "core/cluster/remote_internal.h"
#include "core/cluster/fetch.h"
#include "core/engine/engine.h"

#define MESSAGES 64                  /* of a round, so that what is here goes out too */
#define AWAKE_NS (LLS_NS_PER_S / 20) /* after the last thing; then it naps longer */
#define NAP_NS   (LLS_NS_PER_S / 20000) /* what a message can lose, */
#define LONG_NS  (LLS_NS_PER_S / 1000)  /* and the first after a rest */
#define LOOK_NS  (LLS_NS_PER_S / 100)   /* between two looks at who lives */
#define FLUSH_NS (2 * LLS_NS_PER_S)
#define STOP_NS  (10 * LLS_NS_PER_S) /* for the others to end */

static void nap(int64_t ns)
{
  nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

/* ---- rounds ------------------------------------------------------------------------ */

static void take_snapshot(struct lls_remote *far)
{
  if (far->snapshot == NULL)
    far->snapshot = calloc(1, sizeof *far->snapshot);
  if (far->snapshot == NULL || far->snapshot_asked)
    return;
  atomic_store(&far->snapshot->ready, false);
  far->snapshot_asked = true;
  lls_inbox_ask(&far->mine->inbox, far->snapshot);
}

/* In another process: a message of process 0. */
static void receive(struct lls_remote *far, const struct lls_channel_message *m)
{
  struct lls_unpack u = {.data = m->data, .n = m->bytes};
  struct lls_remote_head head;
  memset(&head, 0, sizeof head);
  LLS_UNPACK(&u, head);
  if (u.failed)
    return;
  far->others[0].heard_ns = lls_remote_now(far);
  switch (head.kind) {
  case LLS_REMOTE_ASK:
    take_snapshot(far);
    return;
  case LLS_REMOTE_GONE:
    lls_remote_see_gone(far, head.source, head.mail == 0);
    return;
  case LLS_REMOTE_BACK:
    lls_remote_see_back(far, head.source);
    return;
  case LLS_REMOTE_CLEAR:
    lls_remote_clear(far, &head);
    return;
  case LLS_REMOTE_STOP:
    far->stopped = true;
    return;
  case LLS_REMOTE_END:
    far->stopped = far->ended = true;
    far->channel->orderly = head.mail == 1;
    lls_remote_tell_ranks(far, LLS_REMOTE_END, 0, head.mail);
    return;
  case LLS_REMOTE_LOADS:
    lls_remote_see(far, &head, &u);
    return;
  case LLS_REMOTE_CHANGE:
    lls_remote_begin_phase(far, &head, &u);
    return;
  default:
    lls_remote_receive(far, &head, &u);
  }
}

static bool receive_all(struct lls_remote *far)
{
  struct lls_channel_message m;
  int n = 0;
  for (; n < MESSAGES && far->channel->ops->receive(far->channel, &m); n++) {
    if (lls_remote_is_hub(far)) {
      lls_hub_receive(far, m.from, &m);
      continue;
    }
    receive(far, &m);
    free(m.data);
  }
  return n > 0;
}

static bool move_blocks(struct lls_remote *far)
{
  struct lls_fetched fetched;
  struct lls_error news;
  uint32_t to;
  bool any = lls_fetches_move(far->fetches);
  while (lls_fetches_next_done(far->fetches, &fetched)) {
    lls_inbox_fetched(&far->mine->inbox, &fetched);
    any = true;
  }
  while (lls_fetches_news(far->fetches, &to, &news))
    lls_log(far->log, LLS_LOG_INFO, "instances", "from instance %u to %u: %s", far->self,
            to, news.text);
  return any;
}

/* A word about a change comes after what was posted before it. */
static bool exchange(struct lls_remote *far)
{
  bool any = receive_all(far);
  any |= lls_remote_hear_ranks(far);
  bool begins = lls_remote_is_hub(far) && lls_hub_has_change(far);
  lls_remote_go_on(far);
  any |= lls_remote_drain(far);
  if (begins)
    lls_hub_send_change(far);
  lls_remote_send_changed(far);
  lls_remote_go_on_clearing(far);
  return any || begins;
}

static void make_round(struct lls_remote *far)
{
  bool any = exchange(far);
  any |= move_blocks(far);
  lls_remote_show(far);
  if (lls_remote_is_hub(far))
    lls_hub_publish(far);
  int64_t now_ns = lls_remote_now(far);
  lls_remote_beat(far, now_ns);
  if (any)
    far->active_ns = now_ns;
  else
    nap(now_ns - far->active_ns < AWAKE_NS ? NAP_NS : LONG_NS);
}

static bool is_time_to_look(struct lls_remote *far)
{
  int64_t now_ns = lls_remote_now(far);
  if (now_ns - far->look_ns < LOOK_NS)
    return false;
  if (far->look_ns > 0)
    lls_remote_forgive(far, now_ns, now_ns - far->look_ns);
  far->look_ns = now_ns;
  return true;
}

static bool is_flushed(struct lls_remote *far)
{
  bool within = far->within == NULL || lls_remote_check_ranks(far, NULL) < 0 ||
                far->within->ops->is_flushed(far->within);
  return far->channel->ops->is_flushed(far->channel) && within;
}

/* Until all messages are out, or it takes too long. */
static void flush(struct lls_remote *far)
{
  int64_t until_ns = lls_remote_now(far) + FLUSH_NS;
  while (!is_flushed(far) && lls_remote_now(far) < until_ns)
    nap(NAP_NS);
}

/* ---- process 0 --------------------------------------------------------------------- */

/* silent: those of which nothing is heard are not waited for. */
static bool all_have_ended(const struct lls_remote *far, bool silent)
{
  for (uint32_t i = 1; i < far->n; i++) {
    const struct lls_remote_other *other = &far->others[i];
    if (!other->gone && !other->bye && !(silent && other->silent))
      return false;
  }
  return true;
}

/* They were told, and had time: the launcher waits for all that it has started. */
static void end_hung(struct lls_remote *far)
{
  for (uint32_t i = 1; i < far->n; i++) {
    const struct lls_remote_other *other = &far->others[i];
    if (other->hung || (!other->gone && !other->bye))
      far->channel->ops->end_hung(far->channel, i);
  }
}

static void send_all(struct lls_remote *far, uint32_t kind, uint32_t mail)
{
  for (uint32_t i = 1; i < far->n; i++) {
    struct lls_pack p = lls_remote_message(far, kind, i);
    ((struct lls_remote_head *)(void *)p.data)->mail = mail;
    lls_remote_send(far, &p);
  }
}

static void send_stop(struct lls_remote *far)
{
  send_all(far, LLS_REMOTE_STOP, 0);
  far->stop_sent = true;
}

/* Others wait for this word, so that who is gone has died, be it a rank of this one's
 * instance. MPI can't be ended in order then: it would wait for the dead. */
static void send_end(struct lls_remote *far)
{
  lls_remote_look_at_others(far, lls_remote_now(far));
  far->channel->orderly = far->n_gone == 0 && all_have_ended(far, false) &&
                          lls_remote_check_ranks(far, NULL) == 0;
  send_all(far, LLS_REMOTE_END, far->channel->orderly);
  lls_remote_tell_ranks(far, LLS_REMOTE_END, 0, far->channel->orderly);
}

static void *hub_main(void *argument)
{
  struct lls_remote *far = argument;
  int64_t until_ns = INT64_MAX;
  lls_fetches_begin_thread(far->fetches);
  while (!all_have_ended(far, true) || !atomic_load(&far->stopping)) {
    make_round(far);
    if (is_time_to_look(far))
      lls_remote_look_at_others(far, lls_remote_now(far));
    if (atomic_load(&far->stopping) && !far->stop_sent) {
      send_stop(far);
      until_ns = lls_remote_now(far) + STOP_NS;
    }
    if (lls_remote_now(far) > until_ns)
      break;
  }
  if (!far->stop_sent)
    send_stop(far);
  send_end(far);
  flush(far);
  end_hung(far);
  return NULL;
}

int lls_remote_start(struct lls_remote *far, struct lls_error *err)
{
  int rc = -pthread_create(&far->thread, NULL, hub_main, far);
  if (rc < 0)
    return lls_fail(err, rc, "cannot start the channel's thread: %s", strerror(-rc));
  pthread_setname_np(far->thread, "llmserve-peers");
  far->running = true;
  return 0;
}

int lls_remote_await(struct lls_remote *far, const _Atomic(bool) *give_up,
                     struct lls_error *err)
{
  for (;;) {
    pthread_mutex_lock(&far->lock);
    bool ready = far->n_ready == far->n - 1, lost = far->lost;
    if (lost && err != NULL)
      *err = far->why_lost;
    pthread_mutex_unlock(&far->lock);
    if (lost)
      return -ECONNABORTED;
    if (ready)
      return 0;
    if (give_up != NULL && atomic_load(give_up))
      return lls_fail(err, -ECANCELED, "it was given up while others still started");
    nap(LLS_NS_PER_S / 200);
  }
}

void lls_remote_stop(struct lls_remote *far)
{
  if (!far->running)
    return;
  atomic_store(&far->stopping, true);
  pthread_join(far->thread, NULL);
  far->running = false;
}

/* ---- the other processes ---------------------------------------------------------- */

static void send_text(struct lls_remote *far, uint32_t kind, const char *text)
{
  struct lls_pack p = lls_remote_message(far, kind, 0);
  lls_pack_put(&p, text, strlen(text) + 1);
  lls_remote_send(far, &p);
}

/* Its requests have ended with errors; they are told before. */
static int fail(struct lls_remote *far, struct lls_error *err)
{
  for (int i = 0; i < 3; i++)
    make_round(far);
  send_text(far, LLS_REMOTE_FAILED, err->text);
  flush(far);
  return -EIO;
}

/* Process 0 itself waits for all to say BYE. */
static void await_end(struct lls_remote *far)
{
  int64_t until_ns = lls_remote_now(far) + 2 * STOP_NS;
  while (!far->ended && lls_remote_now(far) < until_ns &&
         lls_remote_look_at_hub(far, lls_remote_now(far), NULL) == 0)
    make_round(far);
  flush(far);
}

int lls_remote_follow(struct lls_remote *far, struct lls_error *err)
{
  struct lls_pack p = lls_remote_message(far, LLS_REMOTE_READY, 0);
  lls_fetches_begin_thread(far->fetches);
  LLS_PACK(&p, far->shape);
  lls_remote_show_load(far);
  lls_remote_show_status(far);
  lls_remote_send(far, &p);
  while (!far->stopped) {
    make_round(far);
    if (lls_step_thread_failed(far->mine, err) || lls_remote_check_ranks(far, err) < 0)
      return fail(far, err);
    if (is_time_to_look(far) &&
        lls_remote_look_at_hub(far, lls_remote_now(far), err) < 0) {
      far->channel->orderly = false;
      far->channel->ops->end_hung(far->channel, 0); /* else the launcher waits for it */
      return -ECONNABORTED;
    }
  }
  send_text(far, LLS_REMOTE_BYE, "");
  await_end(far);
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
        channel->ops->receive(channel, &m)) { /* process 0's END, or what came before */
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

/* ---- life -------------------------------------------------------------------------- */

static struct lls_remote_shape shape_of(struct lls_remote *far,
                                        const struct lls_loop_options *o)
{
  struct lls_remote_shape s;
  const struct lls_engine *engine = far->mine->instance.engine;
  memset(&s, 0, sizeof s); /* its holes too, which are sent */
  snprintf(s.version, sizeof s.version, "%s", PACKAGE_VERSION);
  snprintf(s.device, sizeof s.device, "%s", lls_engine_device_name(engine));
  s.pool = *lls_engine_pool_shape(engine);
  s.max_requests = o->max_requests;
  s.vocabulary = lls_engine_config(engine)->vocab;
  s.max_context = lls_engine_caps(engine)->max_context;
  s.role = far->mine->instance.info.role;
  s.n = far->n;
  return s;
}

static int allocate(struct lls_remote *far, const struct lls_remote_options *o,
                    struct lls_error *err)
{
  uint32_t max_requests = o->options->max_requests;
  far->others = calloc(far->n, sizeof *far->others);
  far->away = calloc(far->n_slots, sizeof *far->away);
  int rc = lls_inbox_content_init(&far->content, max_requests);
  if (rc == 0)
    rc = lls_outbox_init(&far->outbox, o->delivery, o->events_per_step);
  if (rc < 0 || far->others == NULL || far->away == NULL)
    return lls_fail(err, -ENOMEM, "out of memory for %u requests", max_requests);
  for (uint32_t i = 0; i < far->n; i++)
    far->others[i].heard_ns = LLS_NEVER;
  for (uint32_t slot = 0; slot < far->n_slots; slot++)
    far->away[slot].source = LLS_NOBODY;
  for (int turn = 0; turn < 2; turn++)
    far->held_end[turn] = &far->held[turn];
  return lls_fetches_create(
      &(struct lls_fetches_options){.engine = far->mine->instance.engine,
                                    .channel = far->channel,
                                    .links = o->options->far.links,
                                    .gpu_aware = o->options->far.gpu_aware,
                                    .timeout_ns = far->timeout_ns},
      &far->fetches, err);
}

/* Where there are two ways; and why there is no third one, of which a CPU has none. */
static void log_way(const struct lls_remote *far)
{
  bool gpu = lls_engine_has_pieces(far->mine->instance.engine);
  enum lls_log_level level = gpu && far->self == 0 ? LLS_LOG_INFO : LLS_LOG_DEBUG;
  const char *why = lls_fetches_why_no_links(far->fetches);
  if (why[0] != '\0')
    lls_log(far->log, level, "instances",
            "blocks cannot go by NCCL ([engine] blocks_by = auto): %s", why);
  if (!gpu)
    return;
  lls_log(far->log, level, "instances",
          lls_fetches_are_on_gpu(far->fetches)
              ? "blocks go to other processes in GPU memory, by GPU-aware MPI"
              : "blocks go to other processes in pinned host memory ([engine] "
                "blocks_by)");
}

int lls_remote_create(const struct lls_remote_options *o, struct lls_remote **out,
                      struct lls_error *err)
{
  const struct lls_loop_remote *with = &o->options->far;
  struct lls_remote *far = calloc(1, sizeof *far);
  if (far == NULL)
    return lls_fail(err, -ENOMEM, "out of memory");
  pthread_mutex_init(&far->lock, NULL);
  far->channel = o->channel;
  far->within = with->within;
  far->self = o->channel->self;
  far->n = o->channel->n;
  far->n_slots = o->slots->n;
  far->threads = o->threads;
  far->mine = &o->threads[far->self];
  far->delivery = o->delivery;
  far->cancelled = o->cancelled;
  far->events_per_step = o->events_per_step;
  far->timeout_ns = with->timeout_ns;
  far->log = o->options->log;
  far->place = o->place;
  far->take_phase = o->take_phase;
  far->context = o->context;
  far->wake = o->options->wake;
  far->wake_context = o->options->wake_context;
  far->wire = (struct lls_wire){.ahead_ns = o->channel->clock_ahead_ns,
                                .live = o->live,
                                .grammar = with->grammar,
                                .grammar_context = with->grammar_context};
  far->shape = shape_of(far, o->options);
  int rc = allocate(far, o, err);
  if (rc < 0) {
    lls_remote_destroy(far);
    return rc;
  }
  far->mine->instance.fetches = far->fetches;
  far->mine->instance.drop_fetch = lls_fetches_drop;
  log_way(far);
  *out = far;
  return 0;
}

void lls_remote_destroy(struct lls_remote *far)
{
  struct lls_live *next;
  if (far == NULL)
    return;
  for (int turn = 0; turn < 2; turn++)
    for (struct lls_live *live = far->held[turn]; live != NULL; live = next) {
      next = live->next;
      lls_live_free(live);
    }
  for (uint32_t slot = 0; far->away != NULL && slot < far->n_slots; slot++) {
    lls_live_free(far->away[slot].home);
    free(far->away[slot].offer);
  }
  lls_fetches_destroy(far->fetches);
  far->mine->instance.fetches = NULL;
  lls_inbox_content_free(&far->content);
  lls_outbox_free(&far->outbox);
  free(far->snapshot);
  free(far->change.data);
  free(far->others);
  free(far->away);
  pthread_mutex_destroy(&far->lock);
  free(far);
}

bool lls_remote_lost(struct lls_remote *far, struct lls_error *why)
{
  pthread_mutex_lock(&far->lock);
  bool lost = far->lost;
  if (lost && why != NULL)
    *why = far->why_lost;
  pthread_mutex_unlock(&far->lock);
  return lost;
}

bool lls_remote_failed(struct lls_remote *far, struct lls_error *why)
{
  pthread_mutex_lock(&far->lock);
  bool failed = far->failed;
  if (failed && why != NULL)
    *why = far->why_failed;
  pthread_mutex_unlock(&far->lock);
  return failed;
}
