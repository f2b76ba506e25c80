/* SPDX-License-Identifier: Apache-2.0 */
/* Phases of a change of policies, between process 0 and all others; loop_phases.c
 * describes the phases. */
#include "core/cluster/remote_internal.h"

#include <errno.h>

#include "core/base/error.h"
#include "core/instance/instance.h"

/* ---- process 0 --------------------------------------------------------------------- */

static bool is_answered(const struct lls_remote_change *c, uint32_t n)
{
  bool waits = c->unsent;
  for (uint32_t i = 1; i < n; i++)
    waits |= c->waits[i];
  return !waits || c->refused;
}

bool lls_hub_is_changing(const struct lls_remote *remote)
{
  const struct lls_remote_change *c = &remote->change;
  return c->phase != LLS_PHASE_NONE && c->phase != LLS_PHASE_CANCEL &&
         (c->phase != LLS_PHASE_INSTALL || !is_answered(c, remote->n));
}

/* [lock held] Keeps the data of a change for processes that join after it. */
static void keep_data(struct lls_remote *remote, uint32_t phase, const void *data,
                      size_t n)
{
  struct lls_remote_installed *p = &remote->preparing;
  if (!remote->channel->elastic)
    return;
  if (phase == LLS_PHASE_PREPARE) {
    free(p->data);
    *p = (struct lls_remote_installed){.number = remote->change.number, .n = n};
    p->data = malloc(n + 1);
    if (p->data != NULL)
      memcpy(p->data, data, n);
  } else if (phase == LLS_PHASE_INSTALL && p->data != NULL) {
    free(remote->installed.data);
    remote->installed = *p;
    *p = (struct lls_remote_installed){0};
  }
}

/* Waits until a new phase may begin: the previous one was answered, or abandoned, and
 * sent by the channel's thread. */
static void await_sent(struct lls_remote *remote)
{
  while (remote->change.unsent && !atomic_load(&remote->stopping)) {
    pthread_mutex_unlock(&remote->lock);
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    pthread_mutex_lock(&remote->lock);
  }
}

void lls_remote_ask_change(struct lls_remote *remote, uint32_t phase, const void *data,
                           size_t n, int64_t timeout_ns)
{
  struct lls_remote_change *c = &remote->change;
  char *copy = malloc(n + 1);
  pthread_mutex_lock(&remote->lock);
  await_sent(remote);
  free(c->data);
  *c = (struct lls_remote_change){.number = c->number + 1,
                                  .phase = phase,
                                  .timeout_ns = timeout_ns,
                                  .unsent = true,
                                  .data = copy,
                                  .n = n};
  if (copy == NULL) {
    c->unsent = false;
    c->refused = true;
    lls_fail(&c->why, -ENOMEM, "out of memory");
  } else if (n > 0) {
    memcpy(copy, data, n);
  }
  keep_data(remote, phase, data, n);
  pthread_mutex_unlock(&remote->lock);
}

bool lls_remote_change_answered(struct lls_remote *remote, int *rc, struct lls_error *why)
{
  struct lls_remote_change *c = &remote->change;
  pthread_mutex_lock(&remote->lock);
  bool answered = is_answered(c, remote->n) || atomic_load(&remote->stopping);
  *rc = c->refused ? -ECANCELED : 0;
  if (answered && !c->refused && !is_answered(c, remote->n))
    *rc = lls_fail(&c->why, -ESHUTDOWN, "the server is shutting down");
  if (answered && *rc < 0 && why != NULL)
    *why = c->why;
  pthread_mutex_unlock(&remote->lock);
  return answered;
}

bool lls_hub_has_change(struct lls_remote *remote)
{
  pthread_mutex_lock(&remote->lock);
  bool unsent = remote->change.unsent;
  pthread_mutex_unlock(&remote->lock);
  return unsent;
}

void lls_hub_send_change(struct lls_remote *remote)
{
  struct lls_remote_change *c = &remote->change;
  bool waits = false;
  pthread_mutex_lock(&remote->lock);
  for (uint32_t i = 1; i < remote->n; i++) {
    struct lls_remote_head head = lls_remote_head(remote, LLS_REMOTE_CHANGE, i, 0);
    head.mail = c->phase;
    head.request = c->number;
    bool there = !remote->others[i].gone && !remote->others[i].joining;
    c->waits[i] = there && c->phase != LLS_PHASE_CANCEL;
    waits |= c->waits[i];
    if (there)
      lls_remote_send_head(remote, &head, c->data, c->n);
    if (there && c->phase == LLS_PHASE_INSTALL)
      remote->others[i].installed = remote->installed.number;
  }
  c->unsent = false;
  c->until_ns =
      c->timeout_ns == LLS_NEVER ? INT64_MAX : lls_remote_now(remote) + c->timeout_ns;
  pthread_mutex_unlock(&remote->lock);
  if (!waits)
    remote->wake(remote->wake_context);
}

/* [lock held] Records that a process refuses. */
static void refuse(struct lls_remote *remote, uint32_t i, const char *why)
{
  struct lls_remote_change *c = &remote->change;
  if (!c->refused)
    lls_fail(&c->why, 0, "instance %u (%s): %.400s", i,
             lls_role_name(remote->threads[i].instance.info.role), why);
  c->refused = true;
}

void lls_hub_changed(struct lls_remote *remote, uint32_t from,
                     const struct lls_remote_head *head, struct lls_unpack *u)
{
  struct lls_remote_change *c = &remote->change;
  struct lls_error why = {0};
  size_t n = u->n - u->at;
  lls_unpack_take(u, why.text, n < sizeof why.text ? n : sizeof why.text - 1);
  pthread_mutex_lock(&remote->lock);
  bool expected = head->request == c->number && c->waits[from];
  if (expected)
    c->waits[from] = false;
  if (expected && why.text[0] != '\0')
    refuse(remote, from, why.text);
  bool answered = is_answered(c, remote->n);
  pthread_mutex_unlock(&remote->lock);
  if (answered)
    remote->wake(remote->wake_context);
}

void lls_hub_count_answered(struct lls_remote *remote, uint32_t index)
{
  pthread_mutex_lock(&remote->lock);
  remote->change.waits[index] = false;
  pthread_mutex_unlock(&remote->lock);
}

void lls_hub_look_at_change(struct lls_remote *remote, int64_t now_ns)
{
  struct lls_remote_change *c = &remote->change;
  bool changed = false;
  pthread_mutex_lock(&remote->lock);
  for (uint32_t i = 1; i < remote->n; i++) {
    bool late = !c->unsent && now_ns > c->until_ns, silent = remote->others[i].silent;
    if (!c->waits[i] || (!remote->others[i].gone && !silent && !late))
      continue;
    c->waits[i] = false;
    changed = true;
    if (!remote->others[i].gone)
      refuse(remote, i,
             silent ? "nothing is heard of its process"
                    : "it takes too long over the new configuration");
  }
  bool answered = changed && is_answered(c, remote->n);
  pthread_mutex_unlock(&remote->lock);
  if (answered)
    remote->wake(remote->wake_context);
}

/* ---- all other processes ----------------------------------------------------------- */

static void take(struct lls_remote *remote, const char *data, size_t n)
{
  struct lls_error err = {0};
  int rc = remote->take_phase(remote->context, remote->phase, data, n, &err);
  if (rc == -EINPROGRESS)
    return;
  remote->changed = lls_remote_head(remote, LLS_REMOTE_CHANGED, 0, 0);
  remote->changed.request = remote->phase_number;
  remote->refusal = (struct lls_error){0};
  if (rc < 0)
    lls_fail(&remote->refusal, rc, "%s", lls_error_text(&err, rc));
  remote->phase = LLS_PHASE_NONE;
}

void lls_remote_begin_phase(struct lls_remote *remote, const struct lls_remote_head *head,
                            struct lls_unpack *u)
{
  remote->phase = head->mail;
  remote->phase_number = head->request;
  take(remote, u->data + u->at, u->n - u->at);
}

void lls_remote_go_on(struct lls_remote *remote)
{
  if (remote->phase != LLS_PHASE_NONE)
    take(remote, NULL, 0);
}

void lls_remote_send_changed(struct lls_remote *remote)
{
  if (remote->changed.kind != LLS_REMOTE_CHANGED)
    return;
  lls_remote_send_head(remote, &remote->changed, remote->refusal.text,
                       strlen(remote->refusal.text));
  remote->changed.kind = 0;
}
