/* SPDX-License-Identifier: Apache-2.0 */
/* Phases of a change of policies, between process 0 and the others; what they are is in
 * loop_phases.c. */
#include "core/cluster/remote_internal.h"

#include <errno.h>

/* ---- process 0 --------------------------------------------------------------------- */

static bool is_answered(const struct lls_remote_change *c, uint32_t n)
{
  bool waits = c->unsent;
  for (uint32_t i = 1; i < n; i++)
    waits |= c->waits[i];
  return !waits || c->refused;
}

/* One after the other: the one before was answered, or nobody waits for its answers, and
 * the channel's thread sends it in its next round. */
static void await_sent(struct lls_remote *far)
{
  while (far->change.unsent && !atomic_load(&far->stopping)) {
    pthread_mutex_unlock(&far->lock);
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    pthread_mutex_lock(&far->lock);
  }
}

void lls_remote_ask_change(struct lls_remote *far, uint32_t phase, const void *data,
                           size_t n, int64_t timeout_ns)
{
  struct lls_remote_change *c = &far->change;
  char *copy = malloc(n + 1);
  pthread_mutex_lock(&far->lock);
  await_sent(far);
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
  pthread_mutex_unlock(&far->lock);
}

bool lls_remote_change_answered(struct lls_remote *far, int *rc, struct lls_error *why)
{
  struct lls_remote_change *c = &far->change;
  pthread_mutex_lock(&far->lock);
  bool answered = is_answered(c, far->n) || atomic_load(&far->stopping);
  *rc = c->refused ? -ECANCELED : 0;
  if (answered && !c->refused && !is_answered(c, far->n))
    *rc = lls_fail(&c->why, -ESHUTDOWN, "the server is shutting down");
  if (answered && *rc < 0 && why != NULL)
    *why = c->why;
  pthread_mutex_unlock(&far->lock);
  return answered;
}

bool lls_hub_has_change(struct lls_remote *far)
{
  pthread_mutex_lock(&far->lock);
  bool unsent = far->change.unsent;
  pthread_mutex_unlock(&far->lock);
  return unsent;
}

void lls_hub_send_change(struct lls_remote *far)
{
  struct lls_remote_change *c = &far->change;
  bool waits = false;
  pthread_mutex_lock(&far->lock);
  for (uint32_t i = 1; i < far->n; i++) {
    struct lls_remote_head head = lls_remote_head(far, LLS_REMOTE_CHANGE, i, 0);
    head.mail = c->phase;
    head.request = c->number;
    c->waits[i] = !far->others[i].gone && c->phase != LLS_PHASE_CANCEL;
    waits |= c->waits[i];
    lls_remote_send_head(far, &head, c->data, c->n);
  }
  c->unsent = false;
  c->until_ns =
      c->timeout_ns == LLS_NEVER ? INT64_MAX : lls_remote_now(far) + c->timeout_ns;
  pthread_mutex_unlock(&far->lock);
  if (!waits)
    far->wake(far->wake_context);
}

/* Under the lock. */
static void refuse(struct lls_remote *far, uint32_t i, const char *why)
{
  struct lls_remote_change *c = &far->change;
  if (!c->refused)
    lls_fail(&c->why, 0, "instance %u (%s): %.400s", i,
             lls_role_name(far->threads[i].instance.info.role), why);
  c->refused = true;
}

void lls_hub_changed(struct lls_remote *far, uint32_t from,
                     const struct lls_remote_head *head, struct lls_unpack *u)
{
  struct lls_remote_change *c = &far->change;
  struct lls_error why = {0};
  size_t n = u->n - u->at;
  lls_unpack_take(u, why.text, n < sizeof why.text ? n : sizeof why.text - 1);
  pthread_mutex_lock(&far->lock);
  bool expected = head->request == c->number && c->waits[from];
  if (expected)
    c->waits[from] = false;
  if (expected && why.text[0] != '\0')
    refuse(far, from, why.text);
  bool answered = is_answered(c, far->n);
  pthread_mutex_unlock(&far->lock);
  if (answered)
    far->wake(far->wake_context);
}

void lls_hub_look_at_change(struct lls_remote *far, int64_t now_ns)
{
  struct lls_remote_change *c = &far->change;
  bool changed = false;
  pthread_mutex_lock(&far->lock);
  for (uint32_t i = 1; i < far->n; i++) {
    bool late = !c->unsent && now_ns > c->until_ns, silent = far->others[i].silent;
    if (!c->waits[i] || (!far->others[i].gone && !silent && !late))
      continue;
    c->waits[i] = false;
    changed = true;
    if (!far->others[i].gone)
      refuse(far, i,
             silent ? "nothing is heard of its process"
                    : "it takes too long over the new configuration");
  }
  bool answered = changed && is_answered(c, far->n);
  pthread_mutex_unlock(&far->lock);
  if (answered)
    far->wake(far->wake_context);
}

/* ---- the others -------------------------------------------------------------------- */

static void take(struct lls_remote *far, const char *data, size_t n)
{
  struct lls_error err = {0};
  int rc = far->take_phase(far->context, far->phase, data, n, &err);
  if (rc == -EINPROGRESS)
    return;
  far->changed = lls_remote_head(far, LLS_REMOTE_CHANGED, 0, 0);
  far->changed.request = far->phase_number;
  far->refusal = (struct lls_error){0};
  if (rc < 0)
    lls_fail(&far->refusal, rc, "%s", lls_error_text(&err, rc));
  far->phase = LLS_PHASE_NONE;
}

void lls_remote_begin_phase(struct lls_remote *far, const struct lls_remote_head *head,
                            struct lls_unpack *u)
{
  far->phase = head->mail;
  far->phase_number = head->request;
  take(far, u->data + u->at, u->n - u->at);
}

void lls_remote_go_on(struct lls_remote *far)
{
  if (far->phase != LLS_PHASE_NONE)
    take(far, NULL, 0);
}

void lls_remote_send_changed(struct lls_remote *far)
{
  if (far->changed.kind != LLS_REMOTE_CHANGED)
    return;
  lls_remote_send_head(far, &far->changed, far->refusal.text, strlen(far->refusal.text));
  far->changed.kind = 0;
}
