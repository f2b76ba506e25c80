/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of loop.h about sessions. The table of sessions is in sessions.c. */
#include "core/loop/loop_internal.h"

#include "core/base/error.h"
#include "core/config/instance_list.h"
#include "core/instance/instance.h"
#include "core/instance/request.h"

int lls_loop_create_sessions(struct lls_loop *l, int64_t key_bytes, struct lls_error *err)
{
  struct lls_inbox *inboxes[LLS_MAX_INSTANCES];
  bool remote[LLS_MAX_INSTANCES];
  for (uint32_t i = 0; i < l->n; i++) {
    inboxes[i] = &l->threads[i].inbox;
    remote[i] = l->threads[i].instance.remote;
  }
  int rc = lls_sessions_init(&l->sessions, inboxes, remote, l->n, LLS_IDLE_SESSIONS);
  l->sessions.max_key_bytes = (uint64_t)key_bytes;
  return rc < 0 ? lls_fail(err, rc, "out of memory for sessions") : 0;
}

static uint32_t end_of(const struct lls_event *event)
{
  switch (event->reason) {
  case LLS_FINISH_STOP:
    return LLS_SESSION_STOPPED;
  case LLS_FINISH_LENGTH:
    return LLS_SESSION_LENGTH;
  default:
    return LLS_SESSION_CANCELLED;
  }
}

void lls_loop_begin_leaving(struct lls_loop *l, const struct lls_event *event)
{
  LLS_ON_MAIN(l);
  l->sessions.leaving = (struct lls_session_leaving){.ended_by = end_of(event)};
}

void lls_loop_session_stopped(struct lls_loop *l)
{
  LLS_ON_MAIN(l);
  l->sessions.leaving.ended_by = LLS_SESSION_STOPPED;
}

void lls_loop_session_calls(struct lls_loop *l, const struct lls_event *event,
                            const char *tool)
{
  LLS_ON_MAIN(l);
  lls_sessions_call(&l->sessions, event->live, tool);
}

int64_t lls_loop_each_session(struct lls_loop *l,
                              void (*each)(void *context, const struct lls_session_row *),
                              void *context)
{
  LLS_ON_MAIN(l);
  lls_sessions_list(&l->sessions, each, context);
  return lls_instance_now(&l->threads[l->mine].instance);
}

void lls_loop_count_sessions(struct lls_loop *l, uint32_t *alive, uint32_t *idle)
{
  LLS_ON_MAIN(l);
  *alive = l->sessions.n - l->sessions.n_idle;
  *idle = l->sessions.n_idle;
}
