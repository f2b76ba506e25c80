/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that join a service that runs, if the channel is elastic. The states of a
 * place in process 0:
 *
 *   absent    no process has it, or that which had it is lost: `gone`.
 *   joining   a process has joined: it loads the model, and is treated like one that was
 *             given up, so that it gets no requests. It sends nothing until it is READY,
 *             so only a limit, join_ns, tells one that hangs from a slow one.
 *   ready     it has sent READY, and its shape is right. It is led, alone, through
 *             the phases of a change to the policies that run.
 *   up        it gets requests; the others have received BACK.
 *   leaving   it has sent LEAVES: it gets no new requests, nor offers, and is ended when
 *             no request is in it and none has blocks there.
 */
#include "core/cluster/remote_internal.h"

#include <errno.h>

#include "core/base/error.h"
#include "core/cluster/fetch.h"
#include "core/instance/instance.h"
#include "core/obs/log.h"

/* ---- all processes ----------------------------------------------------------------- */

static bool is_up(const struct lls_remote *remote, uint32_t i)
{
  return i == 0 || !lls_remote_is_out(remote, i);
}

/* Returns true if there are instances that prefill and some that decode. */
static bool serves(const struct lls_remote *remote)
{
  bool prefills = false, decodes = false;
  for (uint32_t i = 0; i < remote->n; i++) {
    uint32_t role = remote->threads[i].instance.info.role;
    prefills |= is_up(remote, i) && role != LLS_ROLE_DECODE;
    decodes |= is_up(remote, i) && role != LLS_ROLE_PREFILL;
  }
  return prefills && decodes;
}

void lls_remote_begin_empty(struct lls_remote *remote)
{
  for (uint32_t i = 0; remote->channel->elastic && i < remote->n; i++) {
    if (i == remote->self || (i == 0 && !lls_remote_is_hub(remote)))
      continue;
    remote->others[i].gone = lls_remote_is_hub(remote);
    atomic_store(&lls_remote_instance(remote, i)->health.broken, true);
    lls_fetches_lose(remote->fetches, i);
    remote->lives[i].state = LLS_INSTANCE_ABSENT;
    lls_fail(&remote->lives[i].why, 0, "instance %u (%s): no process has joined for it",
             i, lls_role_name(remote->threads[i].instance.info.role));
  }
  remote->serves = serves(remote);
}

int lls_remote_keep_config(struct lls_remote *remote, const char *data, size_t n)
{
  struct lls_remote_installed *p = &remote->installed;
  if (data == NULL)
    return 0;
  *p = (struct lls_remote_installed){.number = UINT64_MAX, .data = malloc(n + 1), .n = n};
  if (p->data == NULL)
    return -ENOMEM;
  memcpy(p->data, data, n);
  return 0;
}

/* ---- process 0 --------------------------------------------------------------------- */

static void begin(struct lls_remote *remote, uint32_t index)
{
  struct lls_remote_other *other = &remote->others[index];
  lls_hub_count_answered(remote, index); /* a change waits for the process before */
  *other = (struct lls_remote_other){.joining = true,
                                     .given_up = true,
                                     .heard_ns = LLS_NEVER,
                                     .joined_ns = lls_remote_now(remote),
                                     .before = other->before};
  lls_hub_show_life(remote, index, LLS_INSTANCE_ABSENT,
                    "a process has joined and loads the model");
  lls_log(remote->log, LLS_LOG_INFO, "instances", "%s", remote->lives[index].why.text);
  remote->wake(remote->wake_context);
}

/* Sends one process BACK for each of the others that is up, and LEAVES for those that
 * leave. */
static void introduce(struct lls_remote *remote, uint32_t to)
{
  for (uint32_t i = 1; i < remote->n; i++) {
    struct lls_remote_head head = lls_remote_head(remote, LLS_REMOTE_BACK, to, 0);
    head.source = i;
    if (i == to || !is_up(remote, i))
      continue;
    lls_remote_send_head(remote, &head, NULL, 0);
    head.kind = LLS_REMOTE_LEAVES;
    if (remote->others[i].leaving)
      lls_remote_send_head(remote, &head, NULL, 0);
  }
}

static void admit(struct lls_remote *remote, uint32_t index)
{
  struct lls_step_thread *r = &remote->threads[index];
  struct lls_remote_other *other = &remote->others[index];
  struct lls_loop_status status;
  other->joining = false;
  lls_step_thread_status(r, &status);
  lls_hub_readmit(remote, index, status.arrived, status.prompt_tokens);
  introduce(remote, index);
  lls_log(remote->log, LLS_LOG_INFO, "instances", "instance %u (%s) is ready", index,
          lls_role_name(r->instance.info.role));
  pthread_mutex_lock(&remote->lock);
  remote->serves = remote->serves || serves(remote);
  pthread_mutex_unlock(&remote->lock);
}

/* Sends a process the next phase of the last change of policies. */
static void send_phase(struct lls_remote *remote, uint32_t index)
{
  struct lls_remote_other *other = &remote->others[index];
  struct lls_remote_head head = lls_remote_head(remote, LLS_REMOTE_CHANGE, index, 0);
  bool first = other->phase == LLS_PHASE_PREPARE;
  head.mail = other->phase;
  head.request = UINT64_MAX - other->phase;
  pthread_mutex_lock(&remote->lock);
  lls_remote_send_head(remote, &head, first ? remote->installed.data : NULL,
                       first ? remote->installed.n : 0);
  pthread_mutex_unlock(&remote->lock);
}

/* Admits a process that is ready, or begins to lead it to the policies that run. Waits
 * while these are being changed. */
static void go_on(struct lls_remote *remote, uint32_t index)
{
  struct lls_remote_other *other = &remote->others[index];
  pthread_mutex_lock(&remote->lock);
  bool changing = lls_hub_is_changing(remote);
  uint64_t number = remote->installed.number;
  pthread_mutex_unlock(&remote->lock);
  if (changing || other->phase != LLS_PHASE_NONE)
    return;
  if (other->installed == number) {
    admit(remote, index);
    return;
  }
  other->installing = number;
  other->phase = LLS_PHASE_PREPARE;
  send_phase(remote, index);
}

void lls_hub_led(struct lls_remote *remote, uint32_t from,
                 const struct lls_remote_head *head, struct lls_unpack *u)
{
  struct lls_remote_other *other = &remote->others[from];
  struct lls_error refusal = {0};
  size_t n = u->n - u->at;
  lls_unpack_take(u, refusal.text, n < sizeof refusal.text ? n : sizeof refusal.text - 1);
  if (other->phase == LLS_PHASE_NONE || head->request != UINT64_MAX - other->phase)
    return;
  if (refusal.text[0] != '\0') {
    lls_hub_refuse(remote, from, refusal.text, refusal.text);
  } else if (other->phase < LLS_PHASE_INSTALL) {
    other->phase++;
    send_phase(remote, from);
  } else {
    other->phase = LLS_PHASE_NONE;
    other->installed = other->installing;
  }
}

void lls_hub_take_joined(struct lls_remote *remote)
{
  uint32_t index;
  while (remote->channel->elastic &&
         (index = remote->channel->ops->joined(remote->channel)) != LLS_NOBODY)
    begin(remote, index);
}

/* Returns true if a process that leaves has nothing to finish: others have the requests
 * of one that was given up, so it is not waited for until it comes back. */
static bool has_left(const struct lls_remote *remote, uint32_t index)
{
  const struct lls_remote_other *other = &remote->others[index];
  return other->leaving && (other->given_up || !lls_hub_has_requests(remote, index));
}

static bool is_late(const struct lls_remote *remote, uint32_t index, int64_t now_ns)
{
  const struct lls_remote_other *other = &remote->others[index];
  return other->joining && remote->join_ns > 0 &&
         now_ns - other->joined_ns > remote->join_ns;
}

/* Frees the place of a process that takes too long. It is not sent END: when it goes on,
 * it finds its connection broken, and joins again with the model that it has loaded. */
static void stop_waiting(struct lls_remote *remote, uint32_t index)
{
  struct lls_error why = {0};
  lls_fail(&why, 0,
           "its process was not ready %g s after it had joined ([cluster] "
           "load_timeout)",
           (double)remote->join_ns / 1e9);
  lls_hub_lose(remote, index, why.text);
}

void lls_hub_look_at_places(struct lls_remote *remote)
{
  int64_t now_ns = lls_remote_now(remote);
  if (!remote->channel->elastic)
    return;
  for (uint32_t i = 1; i < remote->n; i++)
    if (has_left(remote, i))
      lls_hub_refuse(remote, i, "", "its process has left");
    else if (is_late(remote, i, now_ns))
      stop_waiting(remote, i);
    else if (remote->others[i].joining && remote->others[i].ready)
      go_on(remote, i);
}

void lls_hub_see_leaving(struct lls_remote *remote, uint32_t from)
{
  struct lls_remote_other *other = &remote->others[from];
  if (!remote->channel->elastic || other->leaving)
    return;
  other->leaving = true;
  if (other->given_up) /* it has no requests */
    return;
  atomic_store(&lls_remote_instance(remote, from)->health.leaving, true);
  lls_hub_show_life(remote, from, LLS_INSTANCE_ABSENT,
                    "its process leaves and finishes what it has");
  lls_log(remote->log, LLS_LOG_INFO, "instances", "%s", remote->lives[from].why.text);
  for (uint32_t i = 1; i < remote->n; i++) {
    struct lls_remote_head head = lls_remote_head(remote, LLS_REMOTE_LEAVES, i, 0);
    head.source = from;
    if (i != from)
      lls_remote_send_head(remote, &head, NULL, 0);
  }
}

/* ---- all others -------------------------------------------------------------------- */

void lls_remote_see_leaving(struct lls_remote *remote, uint32_t index)
{
  if (index < remote->n && index != remote->self)
    atomic_store(&lls_remote_instance(remote, index)->health.leaving, true);
}

bool lls_remote_go_on_leaving(struct lls_remote *remote)
{
  int64_t now_ns = lls_remote_now(remote);
  if (!remote->channel->elastic || remote->leaves == NULL || !atomic_load(remote->leaves))
    return false;
  if (remote->leaves_at_ns == 0) {
    const struct lls_remote_head head = lls_remote_head(remote, LLS_REMOTE_LEAVES, 0, 0);
    remote->leaves_at_ns = now_ns + remote->drain_ns;
    lls_log(remote->log, LLS_LOG_INFO, "instances",
            "instance %u leaves: finishing what runs, at most %lld s", remote->self,
            (long long)(remote->drain_ns / LLS_NS_PER_S));
    lls_remote_send_head(remote, &head, NULL, 0);
  }
  return now_ns >= remote->leaves_at_ns;
}
