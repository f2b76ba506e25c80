/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of sessions on an instance; see session.h. */
#include "core/instance/session.h"

#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "core/instance/inbox.h"
#include "core/instance/instance.h"
#include "core/instance/request.h"
#include "core/instance/running_policy.h"

int lls_instance_sessions_init(struct lls_instance_sessions *s)
{
  s->idle = calloc(LLS_IDLE_SESSIONS + 1, sizeof(const struct lls_session *));
  return s->idle != NULL ? 0 : -ENOMEM;
}

void lls_instance_sessions_free(struct lls_instance_sessions *s)
{
  free(s->idle);
  *s = (struct lls_instance_sessions){0};
}

/* ---- the list that schedulers see ------------------------------------------------- */

static void unlist(struct lls_instance_sessions *all, struct lls_live_session *s)
{
  if (s->place == 0)
    return;
  const struct lls_session *last = all->idle[--all->n_idle];
  all->idle[s->place - 1] = last;
  ((struct lls_live_session *)(uintptr_t)last)->place = s->place;
  s->place = 0;
}

/* Lists the session if an answer has ended here and no request is alive. */
static void list_if_idle(struct lls_instance_sessions *all, struct lls_live_session *s)
{
  bool idle = s->view.alive == 0 && s->view.ended_ns != LLS_NEVER;
  if (!idle) {
    unlist(all, s);
  } else if (s->place == 0 && all->n_idle <= LLS_IDLE_SESSIONS) {
    all->idle[all->n_idle++] = &s->view;
    s->place = all->n_idle;
  }
}

/* ---- requests --------------------------------------------------------------------- */

void lls_session_enter(struct lls_instance *in, struct lls_live *live)
{
  LLS_ON_STEP(in);
  if (live->sessions == NULL)
    return;
  struct lls_live_session *s = &live->sessions[in->info.index];
  if (!s->known)
    DL_APPEND(in->sessions.known, s);
  s->known = true;
  s->view.alive++;
  list_if_idle(&in->sessions, s);
  live->session = s;
  live->view.session = &s->view;
}

void lls_session_leave(struct lls_instance *in, struct lls_live *live)
{
  struct lls_live_session *s = live->session;
  LLS_ON_STEP(in);
  if (s == NULL)
    return;
  s->view.alive--;
  list_if_idle(&in->sessions, s);
  live->session = NULL;
  live->view.session = NULL;
}

/* ---- notes ------------------------------------------------------------------------ */

/* Takes over what the answer left. Returns the note that is not needed any more. */
static struct lls_session_note *left(struct lls_live_session *s,
                                     struct lls_session_note *note)
{
  struct lls_session *v = &s->view;
  struct lls_session_note *before = s->note;
  v->alive--;
  v->ended_by = note->ended_by;
  v->ended_ns = note->ended_ns;
  v->returns_ns = note->returns_ns;
  if (note->n_keys == 0)
    return note;
  v->keys = note->keys;
  v->n_keys = note->n_keys;
  v->tokens = note->tokens;
  s->note = note;
  return before;
}

static void end(struct lls_instance *in, struct lls_live_session *s)
{
  struct lls_policies *p = &in->policies;
  if (!s->known)
    return;
  unlist(&in->sessions, s);
  DL_DELETE(in->sessions.known, s);
  s->known = false;
  if (LLS_SCHEDULER_HAS(p, on_session_end))
    LLS_CALL(p, scheduler, on_session_end, &s->view);
}

/* Returns the note that main may free, or NULL. */
static struct lls_session_note *take(struct lls_instance *in,
                                     struct lls_session_note *note)
{
  struct lls_live_session *s = note->session;
  switch (note->kind) {
  case LLS_SESSION_LEFT:
    note = left(s, note);
    list_if_idle(&in->sessions, s);
    return note;
  case LLS_SESSION_MOVED:
    s->view.ended_ns = LLS_NEVER;
    list_if_idle(&in->sessions, s);
    return note;
  default:
    end(in, s);
    return note;
  }
}

void lls_session_take_notes(struct lls_instance *in)
{
  struct lls_session_note *used = NULL;
  LLS_ON_STEP(in);
  for (struct lls_session_note *note = in->content.notes, *next; note != NULL;
       note = next) {
    next = note->next;
    struct lls_session_note *old = take(in, note);
    if (old == NULL)
      continue;
    old->next = used;
    used = old;
  }
  in->content.notes = NULL;
  if (used != NULL)
    lls_inbox_return_notes(in->inbox, used);
}

void lls_session_end_all(struct lls_instance *in)
{
  LLS_ON_STEP(in);
  while (in->sessions.known != NULL)
    end(in, in->sessions.known);
}
