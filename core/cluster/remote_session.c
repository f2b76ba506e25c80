/* SPDX-License-Identifier: Apache-2.0 */
/* See remote_session.h. */
#include "core/cluster/remote_session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "core/base/hash.h"
#include "core/instance/inbox.h"
#include "core/instance/request.h"
#include "core/instance/session.h"

/* Process 0 keeps LLS_IDLE_SESSIONS idle ones, and has as many more as requests. */
#define MAX_GUESTS (16u * LLS_IDLE_SESSIONS)

/* A session with a part here. */
struct guest {
  UT_hash_handle hh;
  struct guest *prev, *next;        /* links of lls_guests.closing */
  struct lls_session_note *waiting; /* of ended requests: process 0 has not said how */
  struct lls_session_note closing;
  struct lls_live_session here;
  char name[LLS_GUEST_NAME_BYTES + 1];
};

struct lls_guests {
  struct lls_inbox *inbox;
  struct guest *by_id;   /* uthash */
  struct guest *closing; /* until the step thread has forgotten them */
};

struct lls_session_word lls_session_word_of(const struct lls_session_note *note)
{
  struct lls_session_word word;
  memset(&word, 0, sizeof word); /* all bytes are sent */
  word.session = note->session->view.id;
  word.request = note->request;
  word.ended_ns = note->ended_ns;
  word.returns_ns = note->returns_ns;
  word.kind = note->kind;
  word.ended_by = note->ended_by;
  return word;
}

/* ---- memory ----------------------------------------------------------------------- */

int lls_guests_create(struct lls_inbox *inbox, struct lls_guests **out)
{
  *out = calloc(1, sizeof **out);
  if (*out == NULL)
    return -ENOMEM;
  (*out)->inbox = inbox;
  return 0;
}

static void free_waiting(struct guest *g)
{
  for (struct lls_session_note *note = g->waiting, *next; note != NULL; note = next) {
    next = note->next;
    free(note);
  }
  g->waiting = NULL;
}

static void free_guest(struct guest *g)
{
  free_waiting(g);
  free(g->here.note);
  free(g);
}

void lls_guests_free(struct lls_guests *guests)
{
  struct guest *g, *next;
  if (guests == NULL)
    return;
  HASH_ITER(hh, guests->by_id, g, next)
  {
    HASH_DEL(guests->by_id, g);
    free_guest(g);
  }
  DL_FOREACH_SAFE (guests->closing, g, next)
    free_guest(g);
  free(guests);
}

/* Frees what the step thread has given back: notes, and sessions that it has
 * forgotten. */
static void collect(struct lls_guests *guests)
{
  for (struct lls_session_note *note = lls_inbox_used_notes(guests->inbox), *next;
       note != NULL; note = next) {
    next = note->next;
    if (note->kind != LLS_SESSION_CLOSED) {
      free(note);
      continue;
    }
    struct guest *g =
        (struct guest *)(void *)((char *)note - offsetof(struct guest, closing));
    DL_DELETE(guests->closing, g);
    free_guest(g);
  }
}

/* ---- sessions --------------------------------------------------------------------- */

static struct guest *find(const struct lls_guests *guests, uint64_t id)
{
  struct guest *g;
  HASH_FIND(hh, guests->by_id, &id, sizeof id, g);
  return g;
}

static struct guest *make(struct lls_guests *guests, uint64_t id, uint32_t tenant,
                          const void *name, size_t bytes)
{
  struct guest *g = HASH_COUNT(guests->by_id) < MAX_GUESTS ? calloc(1, sizeof *g) : NULL;
  if (g == NULL)
    return NULL;
  memcpy(g->name, name, bytes < LLS_GUEST_NAME_BYTES ? bytes : LLS_GUEST_NAME_BYTES);
  lls_session_part_init(&g->here, id, tenant, g->name);
  HASH_ADD(hh, guests->by_id, here.view.id, sizeof id, g);
  if (g->hh.tbl != NULL)
    return g;
  free(g);
  return NULL;
}

struct lls_live_session *lls_guests_find(struct lls_guests *guests, uint64_t id,
                                         uint32_t tenant, const void *name, size_t bytes)
{
  collect(guests);
  struct guest *g = find(guests, id);
  if (g == NULL)
    g = make(guests, id, tenant, name, bytes);
  return g != NULL ? &g->here : NULL;
}

static void close_guest(struct lls_guests *guests, struct guest *g)
{
  HASH_DEL(guests->by_id, g);
  DL_APPEND(guests->closing, g);
  free_waiting(g);
  g->closing = (struct lls_session_note){.kind = LLS_SESSION_CLOSED, .session = &g->here};
  lls_inbox_note(guests->inbox, &g->closing);
}

bool lls_guests_clear(struct lls_guests *guests)
{
  struct guest *g, *next;
  if (guests == NULL)
    return true;
  HASH_ITER(hh, guests->by_id, g, next)
  close_guest(guests, g);
  collect(guests);
  return guests->closing == NULL;
}

/* ---- requests --------------------------------------------------------------------- */

void lls_guests_ended(struct lls_guests *guests, const struct lls_live *live)
{
  if (guests == NULL || live == NULL || live->session == NULL)
    return;
  struct guest *g = find(guests, live->session->view.id);
  struct lls_session_note *note =
      g != NULL && &g->here == live->session ? lls_session_note_left(live) : NULL;
  if (note == NULL)
    return; /* the instance goes on to count the request */
  note->session = &g->here;
  LL_PREPEND(g->waiting, note);
}

/* Passes the note of the ended request to the step thread. */
static void leave(struct lls_guests *guests, struct guest *g,
                  const struct lls_session_word *word)
{
  struct lls_session_note *note;
  LL_SEARCH_SCALAR(g->waiting, note, request, word->request);
  if (note == NULL)
    return; /* it has ended before it arrived */
  LL_DELETE(g->waiting, note);
  note->ended_by = word->ended_by;
  note->ended_ns = word->ended_ns;
  note->returns_ns = word->returns_ns;
  lls_inbox_note(guests->inbox, note);
}

static void move(struct lls_guests *guests, struct guest *g)
{
  struct lls_session_note *note = calloc(1, sizeof *note);
  if (note == NULL)
    return; /* the instance goes on to think that it has the session */
  *note = (struct lls_session_note){.kind = LLS_SESSION_MOVED, .session = &g->here};
  lls_inbox_note(guests->inbox, note);
}

void lls_guests_take(struct lls_guests *guests, const struct lls_session_word *word)
{
  struct guest *g = find(guests, word->session);
  collect(guests);
  if (g == NULL)
    return; /* it never came here */
  if (word->kind == LLS_SESSION_LEFT)
    leave(guests, g, word);
  else if (word->kind == LLS_SESSION_MOVED)
    move(guests, g);
  else if (word->kind == LLS_SESSION_CLOSED)
    close_guest(guests, g);
}
