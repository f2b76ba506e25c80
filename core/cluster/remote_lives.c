/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lives of processes. Each is heard each half second, by its beat if there is nothing
 * else.
 *
 *   silent    nothing was heard of it for SILENT_NS, four beats. It is given up, unless
 *             nobody else could do its part: others have what it had, and it gets
 * nothing. heard     again: it is told to clear away what it still has, since others have
 *             answered for that. Nothing that it says of requests counts before it is
 * done. back      it has answered that it is done. All that it sent before has come by
 * then, so that no late word can be taken for one of a request it gets later. lost its
 * end was seen, it said that it has failed, or it was silent for rank_timeout. That is
 * for good.
 *
 * A silence counts only as far as this process listened itself.
 */
#include "core/cluster/fetch.h"

#include <errno.h>

#include "core/cluster/remote_internal.h"

#define BEAT_NS   (LLS_NS_PER_S / 2)
#define SILENT_NS (2 * LLS_NS_PER_S)

/* ---- beats ------------------------------------------------------------------------- */

void lls_remote_beat(struct lls_remote *far, int64_t now_ns)
{
  if (now_ns - far->beat_ns < BEAT_NS)
    return;
  far->beat_ns = now_ns;
  for (uint32_t i = 0; i < (lls_remote_is_hub(far) ? far->n : 1); i++)
    if (i != far->self && lls_remote_may_send(far, i, LLS_REMOTE_LATEST_BEAT)) {
      struct lls_pack p = lls_remote_message(far, LLS_REMOTE_BEAT, i);
      lls_remote_send(far, &p);
    }
  lls_remote_tell_ranks(far, LLS_REMOTE_BEAT, 0, 0);
}

void lls_remote_forgive(struct lls_remote *far, int64_t now_ns, int64_t gap_ns)
{
  for (uint32_t i = 0; gap_ns > BEAT_NS && i < far->n; i++) {
    int64_t *heard_ns = &far->others[i].heard_ns;
    if (*heard_ns != LLS_NEVER)
      *heard_ns = *heard_ns + gap_ns < now_ns ? *heard_ns + gap_ns : now_ns;
  }
}

static int64_t silence_of(const struct lls_remote *far, uint32_t i, int64_t now_ns)
{
  const struct lls_remote_other *other = &far->others[i];
  return other->gone || other->heard_ns == LLS_NEVER ? 0 : now_ns - other->heard_ns;
}

/* -ECONNABORTED: nothing was heard of it for too long. */
static int check_silence(const struct lls_remote *far, uint32_t i, int64_t now_ns,
                         struct lls_error *why)
{
  return silence_of(far, i, now_ns) <= far->timeout_ns
             ? 0
             : lls_fail(why, -ECONNABORTED,
                        "nothing was heard of its process for %lld ms",
                        (long long)(far->timeout_ns / 1000000));
}

int lls_remote_look_at_hub(struct lls_remote *far, int64_t now_ns, struct lls_error *err)
{
  uint32_t index;
  while ((index = far->channel->ops->gone(far->channel, err)) != LLS_NOBODY) {
    if (index == 0)
      return lls_fail_at(err, -ECONNABORTED, "instance 0");
    far->channel->ops->forget(far->channel, index);
  }
  return check_silence(far, 0, now_ns, err) < 0
             ? lls_fail_at(err, -ECONNABORTED, "instance 0")
             : 0;
}

/* ---- process 0: what others are told ----------------------------------------------- */

static void tell_others(struct lls_remote *far, uint32_t kind, uint32_t index,
                        uint32_t mail)
{
  for (uint32_t i = 1; i < far->n; i++) {
    struct lls_remote_head head = lls_remote_head(far, kind, i, 0);
    head.source = index;
    head.mail = mail;
    if (i != index || kind == LLS_REMOTE_BACK)
      lls_remote_send_head(far, &head, NULL, 0);
  }
  lls_remote_tell_ranks(far, kind, index, mail);
}

/* why NULL: all is well. */
static void show_life(struct lls_remote *far, uint32_t index, uint32_t state,
                      const char *why)
{
  struct lls_instance_life *life = &far->lives[index];
  const char *role = lls_role_name(far->threads[index].instance.info.role);
  pthread_mutex_lock(&far->lock);
  life->state = state;
  life->why = (struct lls_error){0};
  if (why != NULL)
    lls_fail(&life->why, 0, "instance %u (%s): %.400s", index, role, why);
  if (state == LLS_INSTANCE_LOST) {
    far->why_lost = life->why;
    far->lost = true;
  }
  pthread_mutex_unlock(&far->lock);
}

void lls_remote_life(struct lls_remote *far, uint32_t index,
                     struct lls_instance_life *out)
{
  pthread_mutex_lock(&far->lock);
  *out = far->lives[index];
  pthread_mutex_unlock(&far->lock);
}

/* The levels; counts stay in the sums. */
static void clear_status(struct lls_step_thread *r)
{
  struct lls_loop_status *s = &r->status;
  pthread_mutex_lock(&r->status_lock);
  s->waiting = s->running = s->preempted = s->offered = 0;
  s->device_units_total = s->device_units_free = 0;
  s->host_units_total = s->host_units_free = 0;
  memset(s->cached_on_device, 0, sizeof s->cached_on_device);
  memset(s->cached_on_host, 0, sizeof s->cached_on_host);
  memset(&r->policy_stats, 0, sizeof r->policy_stats);
  pthread_mutex_unlock(&r->status_lock);
}

/* Questions to it are answered by what there was, if anything. */
static void leave_out(struct lls_remote *far, uint32_t index)
{
  struct lls_remote_other *other = &far->others[index];
  clear_status(&far->threads[index]);
  if (other->asked != NULL)
    atomic_store(&other->asked->ready, true);
  other->asked = NULL;
  lls_hub_publish(far);
  far->wake(far->wake_context);
}

/* ---- process 0: who is lost -------------------------------------------------------- */

static bool any_left(const struct lls_remote *far, uint32_t without_role)
{
  for (uint32_t i = 0; i < far->n; i++)
    if (!far->others[i].gone && far->threads[i].instance.info.role != without_role)
      return true;
  return false;
}

/* There is nobody to prefill, or to decode: it cannot go on. */
static void check_service(struct lls_remote *far)
{
  bool prefills = any_left(far, LLS_ROLE_DECODE),
       decodes = any_left(far, LLS_ROLE_PREFILL);
  if ((prefills && decodes) || far->failed)
    return;
  pthread_mutex_lock(&far->lock);
  lls_fail(&far->why_failed, 0, "no instance is left that %s: %.400s",
           prefills ? "decodes" : "prefills", far->why_lost.text);
  far->failed = true;
  pthread_mutex_unlock(&far->lock);
  lls_hub_end_requests(far);
  lls_inbox_end_all(&far->mine->inbox);
}

void lls_hub_lose(struct lls_remote *far, uint32_t index, const char *why)
{
  struct lls_remote_other *other = &far->others[index];
  if (other->gone)
    return;
  other->gone = true;
  far->n_gone++;
  atomic_store(&lls_remote_instance(far, index)->broken, true);
  far->channel->ops->forget(far->channel, index);
  show_life(far, index, LLS_INSTANCE_LOST, why);
  if (!atomic_load(&far->stopping))
    lls_log(far->log, LLS_LOG_ERROR, "instances", "%s", far->why_lost.text);
  tell_others(far, LLS_REMOTE_GONE, index, 0);
  lls_fetches_lose(far->fetches, index);
  lls_hub_move_requests(far, index);
  check_service(far);
  leave_out(far, index);
}

/* ---- process 0: who is given up, and comes back ------------------------------------ */

static bool does(uint32_t role, uint32_t part)
{
  return role == part || role == LLS_ROLE_MIXED;
}

/* Others can do what it does. */
static bool can_do_without(const struct lls_remote *far, uint32_t index)
{
  bool prefills = false, decodes = false;
  for (uint32_t i = 0; i < far->n; i++) {
    uint32_t role = far->threads[i].instance.info.role;
    if (i == index || lls_remote_is_out(far, i) || far->others[i].silent)
      continue;
    prefills |= does(role, LLS_ROLE_PREFILL);
    decodes |= does(role, LLS_ROLE_DECODE);
  }
  return prefills && decodes;
}

static void give_up(struct lls_remote *far, uint32_t index)
{
  far->others[index].given_up = true;
  far->others[index].clearing = 0;
  atomic_store(&lls_remote_instance(far, index)->broken, true);
  tell_others(far, LLS_REMOTE_GONE, index, 1);
  lls_fetches_lose(far->fetches, index);
  lls_hub_move_requests(far, index);
  leave_out(far, index);
}

static void look_at_silence(struct lls_remote *far, uint32_t i, int64_t now_ns)
{
  struct lls_remote_other *other = &far->others[i];
  if (silence_of(far, i, now_ns) <= SILENT_NS || atomic_load(&far->stopping))
    return;
  other->clearing = 0; /* once it is heard again it is asked anew */
  if (!other->silent) {
    show_life(far, i, LLS_INSTANCE_SILENT, "nothing was heard of its process for 2 s");
    lls_log(far->log, LLS_LOG_WARNING, "instances", "%s: %s", far->lives[i].why.text,
            can_do_without(far, i) ? "what it had goes on elsewhere"
                                   : "it is the last of its kind, and waited for");
  }
  other->silent = true;
  if (!other->given_up && can_do_without(far, i))
    give_up(far, i);
}

void lls_remote_look_at_others(struct lls_remote *far, int64_t now_ns)
{
  struct lls_error why = {0};
  uint32_t index;
  while ((index = far->channel->ops->gone(far->channel, &why)) != LLS_NOBODY)
    lls_hub_lose(far, index, why.text);
  for (uint32_t i = 1; i < far->n; i++) {
    look_at_silence(far, i, now_ns);
    if (check_silence(far, i, now_ns, &why) == 0)
      continue;
    lls_hub_lose(far, i, why.text);
    far->others[i].hung = true;
    if (far->channel->survives) /* else the launcher would end all */
      far->channel->ops->end_hung(far->channel, i);
  }
  lls_hub_look_at_change(far, now_ns);
}

static void come_back(struct lls_remote *far, uint32_t index)
{
  struct lls_remote_other *other = &far->others[index];
  other->silent = false;
  show_life(far, index, LLS_INSTANCE_UP, NULL);
  lls_log(far->log, LLS_LOG_WARNING, "instances", "instance %u (%s): it is heard again",
          index, lls_role_name(far->threads[index].instance.info.role));
  far->wake(far->wake_context);
}

bool lls_hub_hear(struct lls_remote *far, uint32_t from, uint32_t kind)
{
  struct lls_remote_other *other = &far->others[from];
  other->heard_ns = lls_remote_now(far);
  if (!other->given_up) {
    if (other->silent)
      come_back(far, from);
    return true;
  }
  if (other->clearing == 0) {
    struct lls_remote_head head = lls_remote_head(far, LLS_REMOTE_CLEAR, from, 0);
    head.request = other->clearing = ++other->n_clears;
    lls_remote_send_head(far, &head, NULL, 0);
  }
  return kind == LLS_REMOTE_CLEARED || kind == LLS_REMOTE_LOAD ||
         kind == LLS_REMOTE_FAILED || kind == LLS_REMOTE_BYE ||
         kind == LLS_REMOTE_CHANGED;
}

/* Its load has come before, so that others find it empty. */
void lls_hub_cleared(struct lls_remote *far, uint32_t from,
                     const struct lls_remote_head *head, struct lls_unpack *u)
{
  struct lls_remote_other *other = &far->others[from];
  struct lls_instance *in = lls_remote_instance(far, from);
  uint64_t arrived = 0;
  LLS_UNPACK(u, arrived);
  if (!other->given_up || head->request != other->clearing || u->failed)
    return;
  other->given_up = false;
  other->clearing = 0;
  atomic_store(&far->threads[from].posted, arrived);
  lls_fetches_find(far->fetches, from);
  for (uint32_t i = 1; i < far->n; i++)
    lls_remote_show_loads(far, i);
  tell_others(far, LLS_REMOTE_BACK, from, 0);
  atomic_fetch_add(&in->returns, 1);
  atomic_store(&in->broken, false);
  come_back(far, from);
}

/* ---- the others -------------------------------------------------------------------- */

void lls_remote_see_gone(struct lls_remote *far, uint32_t index, bool for_good)
{
  if (index >= far->n || index == far->self || far->others[index].gone)
    return;
  far->others[index].gone = for_good;
  atomic_store(&lls_remote_instance(far, index)->broken, true);
  if (for_good)
    far->channel->ops->forget(far->channel, index);
  lls_fetches_lose(far->fetches, index);
  lls_remote_tell_ranks(far, LLS_REMOTE_GONE, index, !for_good);
}

/* Nothing that this one has sent while it was given up has reached anybody. */
static void count_anew(struct lls_remote *far)
{
  for (uint32_t i = 0; i < far->n; i++)
    if (i != far->self)
      atomic_fetch_add(&lls_remote_instance(far, i)->returns, 1);
}

void lls_remote_see_back(struct lls_remote *far, uint32_t index)
{
  if (index >= far->n || far->others[index].gone)
    return;
  if (index == far->self) {
    count_anew(far);
    return;
  }
  lls_fetches_find(far->fetches, index);
  atomic_fetch_add(&lls_remote_instance(far, index)->returns, 1);
  atomic_store(&lls_remote_instance(far, index)->broken, false);
  lls_remote_tell_ranks(far, LLS_REMOTE_BACK, index, 0);
}

void lls_remote_clear(struct lls_remote *far, const struct lls_remote_head *head)
{
  far->clearing = head->request;
  far->cleared_in = 0;
  lls_inbox_clear(&far->mine->inbox, far->clearing);
}

/* Once the step thread has done it, what it has published and posted is sent: that takes
 * two rounds (remote_mail.c). */
void lls_remote_go_on_clearing(struct lls_remote *far)
{
  struct lls_loop_status status;
  if (far->clearing == 0 || atomic_load(&far->mine->instance.cleared) != far->clearing ||
      far->cleared_in++ < 3)
    return;
  struct lls_pack p = lls_remote_message(far, LLS_REMOTE_CLEARED, 0);
  lls_step_thread_status(far->mine, &status);
  ((struct lls_remote_head *)(void *)p.data)->request = far->clearing;
  LLS_PACK(&p, status.arrived);
  lls_remote_show_load(far);
  lls_remote_send(far, &p);
  lls_remote_show_status(far);
  far->clearing = 0;
}
