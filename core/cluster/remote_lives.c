/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which processes are alive. Each sends a message every half second, BEAT if there is
 * no other one. The states of a process:
 *
 *   silent    no message for SILENT_NS, four beats. It is given up, unless no other
 * process could do its part: other instances take over its requests, and it gets none.
 *   heard     it sends messages again. It is asked to drop its old requests (CLEAR),
 * since others have them. Its messages about requests are ignored until then. back it has
 * answered CLEARED. All its earlier messages have arrived by then, so no late one can be
 * taken for one about a request that it gets later. lost      its end was observed, it
 * reported a failure, or it was silent for rank_timeout. This is final.
 *
 * Silence is only counted while this process itself was receiving.
 */
#include "core/cluster/fetch.h"

#include <errno.h>

#include "core/base/error.h"
#include "core/cluster/remote_internal.h"
#include "core/cluster/remote_session.h"
#include "core/instance/inbox.h"
#include "core/instance/instance.h"
#include "core/obs/log.h"

#define BEAT_NS      (LLS_NS_PER_S / 2)
#define SILENT_NS    (2 * LLS_NS_PER_S)
#define FAILED_TRIES 100 /* waits of 1 ms for an END to be sent */

/* ---- beats ------------------------------------------------------------------------- */

void lls_remote_beat(struct lls_remote *remote, int64_t now_ns)
{
  if (now_ns - remote->beat_ns < BEAT_NS)
    return;
  remote->beat_ns = now_ns;
  for (uint32_t i = 0; i < (lls_remote_is_hub(remote) ? remote->n : 1); i++)
    if (i != remote->self && lls_remote_may_send(remote, i, LLS_REMOTE_LATEST_BEAT)) {
      struct lls_pack p = lls_remote_message(remote, LLS_REMOTE_BEAT, i);
      lls_remote_send(remote, &p);
    }
  lls_remote_tell_ranks(remote, LLS_REMOTE_BEAT, 0, 0);
}

void lls_remote_forgive(struct lls_remote *remote, int64_t now_ns, int64_t gap_ns)
{
  for (uint32_t i = 0; gap_ns > BEAT_NS && i < remote->n; i++) {
    int64_t *heard_ns = &remote->others[i].heard_ns;
    if (*heard_ns != LLS_NEVER)
      *heard_ns = *heard_ns + gap_ns < now_ns ? *heard_ns + gap_ns : now_ns;
  }
}

static int64_t silence_of(const struct lls_remote *remote, uint32_t i, int64_t now_ns)
{
  const struct lls_remote_other *other = &remote->others[i];
  return other->gone || other->heard_ns == LLS_NEVER ? 0 : now_ns - other->heard_ns;
}

/* Returns 0; or -ECONNABORTED if no message arrived for too long. */
static int check_silence(const struct lls_remote *remote, uint32_t i, int64_t now_ns,
                         struct lls_error *why)
{
  return silence_of(remote, i, now_ns) <= remote->timeout_ns
             ? 0
             : lls_fail(why, -ECONNABORTED,
                        "nothing was heard of its process for %lld ms",
                        (long long)(remote->timeout_ns / 1000000));
}

int lls_remote_look_at_hub(struct lls_remote *remote, int64_t now_ns,
                           struct lls_error *err)
{
  uint32_t index;
  while ((index = remote->channel->ops->gone(remote->channel, err)) != LLS_NOBODY) {
    if (index == 0)
      return lls_fail_at(err, -ECONNABORTED, "instance 0");
    remote->channel->ops->forget(remote->channel, index);
  }
  return check_silence(remote, 0, now_ns, err) < 0
             ? lls_fail_at(err, -ECONNABORTED, "instance 0")
             : 0;
}

/* ---- process 0: informing the other processes -------------------------------------- */

static void tell_others(struct lls_remote *remote, uint32_t kind, uint32_t index,
                        uint32_t mail)
{
  for (uint32_t i = 1; i < remote->n; i++) {
    struct lls_remote_head head = lls_remote_head(remote, kind, i, 0);
    head.source = index;
    head.mail = mail;
    if (i != index || kind == LLS_REMOTE_BACK)
      lls_remote_send_head(remote, &head, NULL, 0);
  }
  lls_remote_tell_ranks(remote, kind, index, mail);
}

void lls_hub_show_life(struct lls_remote *remote, uint32_t index, uint32_t state,
                       const char *why)
{
  struct lls_instance_life *life = &remote->lives[index];
  const char *role = lls_role_name(remote->threads[index].instance.info.role);
  pthread_mutex_lock(&remote->lock);
  life->state = state;
  life->why = (struct lls_error){0};
  if (why != NULL)
    lls_fail(&life->why, 0, "instance %u (%s): %.400s", index, role, why);
  if (state == LLS_INSTANCE_LOST) {
    remote->why_lost = life->why;
    remote->lost = true;
  }
  pthread_mutex_unlock(&remote->lock);
}

void lls_remote_life(struct lls_remote *remote, uint32_t index,
                     struct lls_instance_life *out)
{
  pthread_mutex_lock(&remote->lock);
  *out = remote->lives[index];
  pthread_mutex_unlock(&remote->lock);
}

/* Clears gauges; counters stay in the sums. */
static void clear_status(struct lls_step_thread *r)
{
  struct lls_loop_status *s = &r->status;
  pthread_mutex_lock(&r->status_lock);
  s->waiting = s->running = s->preempted = s->offered = 0;
  s->pending_tokens = s->sessions_leased = 0;
  s->disk_blocks_total = s->disk_blocks_used = s->disk_blocks_held = 0;
  s->device_units_total = s->device_units_free = 0;
  s->host_units_total = s->host_units_free = 0;
  memset(s->cached_on_device, 0, sizeof s->cached_on_device);
  memset(s->cached_on_host, 0, sizeof s->cached_on_host);
  memset(&r->policy_stats, 0, sizeof r->policy_stats);
  pthread_mutex_unlock(&r->status_lock);
}

/* Answers pending questions to a process that is out, with the data available. */
static void leave_out(struct lls_remote *remote, uint32_t index)
{
  struct lls_remote_other *other = &remote->others[index];
  clear_status(&remote->threads[index]);
  if (other->asked != NULL)
    atomic_store(&other->asked->ready, true);
  other->asked = NULL;
  lls_hub_publish(remote);
  remote->wake(remote->wake_context);
}

/* ---- process 0: lost processes ----------------------------------------------------- */

/* Keeps the counters of a lost process, to which those of the next process of its place
 * are added. */
static void keep_counters(struct lls_remote *remote, uint32_t index)
{
  struct lls_loop_status **before = &remote->others[index].before;
  if (*before == NULL)
    *before = calloc(1, sizeof **before);
  if (*before != NULL)
    lls_step_thread_status(&remote->threads[index], *before);
}

static bool any_left(const struct lls_remote *remote, uint32_t without_role)
{
  for (uint32_t i = 0; i < remote->n; i++)
    if (!remote->others[i].gone && remote->threads[i].instance.info.role != without_role)
      return true;
  return false;
}

/* Declares the service failed if no instance can prefill, or none can decode. */
static void check_service(struct lls_remote *remote)
{
  bool prefills = any_left(remote, LLS_ROLE_DECODE),
       decodes = any_left(remote, LLS_ROLE_PREFILL);
  if ((prefills && decodes) || remote->failed || remote->channel->elastic)
    return;
  pthread_mutex_lock(&remote->lock);
  lls_fail(&remote->why_failed, 0, "no instance is left that %s: %.400s",
           prefills ? "decodes" : "prefills", remote->why_lost.text);
  remote->failed = true;
  pthread_mutex_unlock(&remote->lock);
  lls_hub_end_requests(remote);
  lls_inbox_end_all(&remote->mine->inbox);
}

void lls_hub_lose(struct lls_remote *remote, uint32_t index, const char *why)
{
  struct lls_remote_other *other = &remote->others[index];
  if (other->gone)
    return;
  bool came = !other->joining, left = other->leaving; /* came: it has had requests */
  other->gone = true;
  other->joining = other->leaving = false;
  remote->n_gone++;
  atomic_store(&lls_remote_instance(remote, index)->health.broken, true);
  remote->channel->ops->forget(remote->channel, index);
  lls_hub_show_life(remote, index, left ? LLS_INSTANCE_ABSENT : LLS_INSTANCE_LOST, why);
  if (!atomic_load(&remote->stopping))
    lls_log(remote->log, left ? LLS_LOG_INFO : LLS_LOG_ERROR, "instances", "%s",
            remote->lives[index].why.text);
  if (came)
    tell_others(remote, LLS_REMOTE_GONE, index, remote->channel->elastic);
  lls_fetches_lose(remote->fetches, index);
  lls_hub_move_requests(remote, index, !left);
  check_service(remote);
  leave_out(remote, index);
  if (came)
    keep_counters(remote, index);
}

/* Sends END with a sentence. The process exits only after it has received it, so that is
 * flushed before the process is dropped. */
static void end_process(struct lls_remote *remote, uint32_t index, const char *why)
{
  struct lls_pack p = lls_remote_message(remote, LLS_REMOTE_END, index);
  lls_pack_put(&p, why, strlen(why) + 1);
  lls_remote_send(remote, &p);
  for (int i = 0; i < FAILED_TRIES && !remote->channel->ops->is_flushed(remote->channel);
       i++)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

void lls_hub_refuse(struct lls_remote *remote, uint32_t from, const char *said,
                    const char *why)
{
  end_process(remote, from, said);
  lls_hub_lose(remote, from, why);
}

/* ---- process 0: processes given up, and back --------------------------------------- */

static bool does(uint32_t role, uint32_t part)
{
  return role == part || role == LLS_ROLE_MIXED;
}

/* Returns true if other instances can do everything that this one does. */
static bool can_do_without(const struct lls_remote *remote, uint32_t index)
{
  bool prefills = false, decodes = false;
  for (uint32_t i = 0; i < remote->n; i++) {
    uint32_t role = remote->threads[i].instance.info.role;
    if (i == index || lls_remote_is_out(remote, i) || remote->others[i].silent)
      continue;
    prefills |= does(role, LLS_ROLE_PREFILL);
    decodes |= does(role, LLS_ROLE_DECODE);
  }
  return prefills && decodes;
}

static void give_up(struct lls_remote *remote, uint32_t index)
{
  remote->others[index].given_up = true;
  remote->others[index].clearing = 0;
  atomic_store(&lls_remote_instance(remote, index)->health.broken, true);
  tell_others(remote, LLS_REMOTE_GONE, index, 1);
  lls_fetches_lose(remote->fetches, index);
  lls_hub_move_requests(remote, index, false);
  leave_out(remote, index);
}

static void look_at_silence(struct lls_remote *remote, uint32_t i, int64_t now_ns)
{
  struct lls_remote_other *other = &remote->others[i];
  if (silence_of(remote, i, now_ns) <= SILENT_NS || atomic_load(&remote->stopping))
    return;
  other->clearing = 0; /* CLEAR is sent again when it sends messages again */
  if (!other->silent) {
    lls_hub_show_life(remote, i, LLS_INSTANCE_SILENT,
                      "nothing was heard of its process for 2 s");
    lls_log(remote->log, LLS_LOG_WARNING, "instances", "%s: %s",
            remote->lives[i].why.text,
            can_do_without(remote, i)
                ? "other instances continue its requests"
                : "no other instance can replace it, so it is waited for");
  }
  other->silent = true;
  if (!other->given_up && can_do_without(remote, i))
    give_up(remote, i);
}

void lls_remote_look_at_others(struct lls_remote *remote, int64_t now_ns)
{
  struct lls_error why = {0};
  uint32_t index;
  while ((index = remote->channel->ops->gone(remote->channel, &why)) != LLS_NOBODY)
    lls_hub_lose(remote, index, why.text);
  for (uint32_t i = 1; i < remote->n; i++) {
    look_at_silence(remote, i, now_ns);
    if (check_silence(remote, i, now_ns, &why) == 0)
      continue;
    lls_hub_lose(remote, i, why.text);
    remote->others[i].hung = true;
    /* only if the launcher does not end all processes when one is killed */
    if (remote->channel->survives)
      remote->channel->ops->end_hung(remote->channel, i);
  }
  lls_hub_look_at_change(remote, now_ns);
}

static void say_back(struct lls_remote *remote, uint32_t index)
{
  lls_log(remote->log, LLS_LOG_WARNING, "instances",
          "instance %u (%s): its process sends messages again", index,
          lls_role_name(remote->threads[index].instance.info.role));
}

static void come_back(struct lls_remote *remote, uint32_t index)
{
  remote->others[index].silent = false;
  lls_hub_show_life(remote, index, LLS_INSTANCE_UP, NULL);
  say_back(remote, index);
  remote->wake(remote->wake_context);
}

bool lls_hub_hear(struct lls_remote *remote, uint32_t from, uint32_t kind)
{
  struct lls_remote_other *other = &remote->others[from];
  other->heard_ns = lls_remote_now(remote);
  if (!other->given_up) {
    if (other->silent)
      come_back(remote, from);
    return true;
  }
  if (other->clearing == 0 && !other->joining) {
    struct lls_remote_head head = lls_remote_head(remote, LLS_REMOTE_CLEAR, from, 0);
    head.request = other->clearing = ++other->n_clears;
    lls_remote_send_head(remote, &head, NULL, 0);
  }
  return kind == LLS_REMOTE_CLEARED || kind == LLS_REMOTE_LOAD ||
         kind == LLS_REMOTE_FAILED || kind == LLS_REMOTE_BYE ||
         kind == LLS_REMOTE_CHANGED || kind == LLS_REMOTE_LEAVES ||
         (other->joining && (kind == LLS_REMOTE_READY || kind == LLS_REMOTE_STATUS));
}

void lls_hub_readmit(struct lls_remote *remote, uint32_t from, uint64_t arrived,
                     uint64_t prompt_tokens)
{
  struct lls_remote_other *other = &remote->others[from];
  struct lls_instance *in = lls_remote_instance(remote, from);
  other->given_up = false;
  other->clearing = 0;
  atomic_store(&remote->threads[from].posted, arrived);
  atomic_store(&remote->threads[from].posted_tokens, prompt_tokens);
  lls_fetches_find(remote->fetches, from);
  for (uint32_t i = 1; i < remote->n; i++)
    lls_remote_show_loads(remote, i);
  tell_others(remote, LLS_REMOTE_BACK, from, 0);
  atomic_fetch_add(&in->health.returns, 1);
  atomic_store(&in->health.broken, false);
  atomic_store(&in->health.leaving, false);
  other->silent = false;
  lls_hub_show_life(remote, from, LLS_INSTANCE_UP, NULL);
  remote->wake(remote->wake_context);
}

/* Readmits a given-up process that has dropped its requests. It sent its (empty) load
 * before this message, so other instances do not send it requests by its old load. */
void lls_hub_cleared(struct lls_remote *remote, uint32_t from,
                     const struct lls_remote_head *head, struct lls_unpack *u)
{
  const struct lls_remote_other *other = &remote->others[from];
  const struct lls_loop_status *before = other->before;
  uint64_t arrived = 0, prompt_tokens = 0;
  LLS_UNPACK(u, arrived);
  LLS_UNPACK(u, prompt_tokens);
  if (!other->given_up || head->request != other->clearing || u->failed)
    return;
  lls_hub_readmit(remote, from, arrived + (before != NULL ? before->arrived : 0),
                  prompt_tokens + (before != NULL ? before->prompt_tokens : 0));
  say_back(remote, from);
}

/* ---- all other processes ----------------------------------------------------------- */

void lls_remote_see_gone(struct lls_remote *remote, uint32_t index, bool for_good)
{
  if (index >= remote->n || index == remote->self || remote->others[index].gone)
    return;
  remote->others[index].gone = for_good;
  atomic_store(&lls_remote_instance(remote, index)->health.broken, true);
  if (for_good)
    remote->channel->ops->forget(remote->channel, index);
  lls_fetches_lose(remote->fetches, index);
  lls_remote_tell_ranks(remote, LLS_REMOTE_GONE, index, !for_good);
}

/* Resets the counts of offers: no offer sent while this process was given up has
 * reached its target. */
static void count_anew(struct lls_remote *remote)
{
  for (uint32_t i = 0; i < remote->n; i++)
    if (i != remote->self)
      atomic_fetch_add(&lls_remote_instance(remote, i)->health.returns, 1);
}

void lls_remote_see_back(struct lls_remote *remote, uint32_t index)
{
  if (index >= remote->n || remote->others[index].gone)
    return;
  if (index == remote->self) {
    count_anew(remote);
    return;
  }
  lls_fetches_find(remote->fetches, index);
  atomic_fetch_add(&lls_remote_instance(remote, index)->health.returns, 1);
  atomic_store(&lls_remote_instance(remote, index)->health.broken, false);
  atomic_store(&lls_remote_instance(remote, index)->health.leaving, false);
  lls_remote_tell_ranks(remote, LLS_REMOTE_BACK, index, 0);
}

void lls_remote_clear(struct lls_remote *remote, const struct lls_remote_head *head)
{
  remote->clearing = head->request;
  remote->cleared_in = 0;
  lls_inbox_clear(&remote->mine->inbox, remote->clearing);
}

/* Continues a CLEAR. When the step thread has cleared the instance, its events and
 * messages must be sent before CLEARED: this takes two rounds (remote_mail.c). */
void lls_remote_go_on_clearing(struct lls_remote *remote)
{
  struct lls_loop_status status;
  if (remote->clearing == 0 ||
      atomic_load(&remote->mine->instance.health.cleared) != remote->clearing ||
      remote->cleared_in++ < 3)
    return;
  /* sessions go on elsewhere, too: their policies' handles end before new ones come */
  if (!lls_guests_clear(remote->wire.guests))
    return;
  struct lls_pack p = lls_remote_message(remote, LLS_REMOTE_CLEARED, 0);
  lls_step_thread_status(remote->mine, &status);
  ((struct lls_remote_head *)(void *)p.data)->request = remote->clearing;
  LLS_PACK(&p, status.arrived);
  LLS_PACK(&p, status.prompt_tokens);
  lls_remote_show_load(remote);
  lls_remote_send(remote, &p);
  lls_remote_show_status(remote);
  remote->clearing = 0;
}
