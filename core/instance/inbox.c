/* SPDX-License-Identifier: Apache-2.0 */
/* See inbox.h. */
#include "core/instance/inbox.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/check.h"
#include "core/instance/request.h"
#include "core/instance/session.h"

static void free_lists(struct lls_inbox *in)
{
  free(in->cancels);
  free(in->predictions);
  free(in->settled);
  free(in->shifts);
  free(in->fetched);
  free(in->placed);
  in->cancels = NULL;
  in->capacity = 0;
}

int lls_inbox_init(struct lls_inbox *in, uint32_t max_requests)
{
  *in = (struct lls_inbox){.capacity = max_requests};
  in->last = &in->first;
  in->last_note = &in->notes;
  in->cancels = malloc(max_requests * sizeof *in->cancels);
  in->predictions = malloc(max_requests * sizeof *in->predictions);
  in->settled = malloc(max_requests * sizeof *in->settled);
  in->shifts = malloc(max_requests * sizeof *in->shifts);
  in->fetched = malloc(max_requests * sizeof *in->fetched);
  in->placed = malloc(max_requests * sizeof *in->placed);
  if (in->cancels == NULL || in->predictions == NULL || in->settled == NULL ||
      in->shifts == NULL || in->fetched == NULL || in->placed == NULL) {
    free_lists(in);
    return -ENOMEM;
  }
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&in->filled, &attributes);
  pthread_condattr_destroy(&attributes);
  pthread_mutex_init(&in->lock, NULL);
  return 0;
}

/* Frees notes, except those that are part of their sessions. */
static void free_notes(struct lls_session_note *note)
{
  for (struct lls_session_note *next; note != NULL; note = next) {
    next = note->next;
    if (note->kind != LLS_SESSION_CLOSED)
      free(note);
  }
}

void lls_inbox_free(struct lls_inbox *in)
{
  if (in->cancels == NULL)
    return;
  while (in->first != NULL) {
    struct lls_live *next = in->first->next;
    lls_live_free(in->first);
    in->first = next;
  }
  for (uint32_t i = 0; i < in->n_placed; i++)
    free(in->placed[i].data);
  free_notes(in->notes);
  free_notes(in->used_notes);
  pthread_cond_destroy(&in->filled);
  pthread_mutex_destroy(&in->lock);
  free_lists(in);
}

void lls_inbox_post(struct lls_inbox *in, struct lls_live *live)
{
  pthread_mutex_lock(&in->lock);
  LLS_CHECK(*in->last == NULL);
  live->next = NULL;
  *in->last = live;
  in->last = &live->next;
  pthread_cond_signal(&in->filled);
  pthread_mutex_unlock(&in->lock);
}

void lls_inbox_settle(struct lls_inbox *in, uint32_t slot, int64_t now_ns)
{
  pthread_mutex_lock(&in->lock);
  LLS_CHECK(in->n_settled < in->capacity);
  in->settled[in->n_settled++] = (struct lls_settled){.slot = slot, .mailed_ns = now_ns};
  pthread_cond_signal(&in->filled);
  pthread_mutex_unlock(&in->lock);
}

void lls_inbox_shift(struct lls_inbox *in, const struct lls_shift *shift)
{
  pthread_mutex_lock(&in->lock);
  LLS_CHECK(in->n_shifts < in->capacity);
  in->shifts[in->n_shifts++] = *shift;
  pthread_cond_signal(&in->filled);
  pthread_mutex_unlock(&in->lock);
}

void lls_inbox_fetched(struct lls_inbox *in, const struct lls_fetched *fetched)
{
  pthread_mutex_lock(&in->lock);
  LLS_CHECK(in->n_fetched < in->capacity);
  in->fetched[in->n_fetched++] = *fetched;
  pthread_cond_signal(&in->filled);
  pthread_mutex_unlock(&in->lock);
}

void lls_inbox_placed(struct lls_inbox *in, const struct lls_placed_there *placed)
{
  pthread_mutex_lock(&in->lock);
  LLS_CHECK(in->n_placed < in->capacity);
  in->placed[in->n_placed++] = *placed;
  pthread_cond_signal(&in->filled);
  pthread_mutex_unlock(&in->lock);
}

void lls_inbox_end_all(struct lls_inbox *in)
{
  pthread_mutex_lock(&in->lock);
  in->end_all = true;
  pthread_cond_signal(&in->filled);
  pthread_mutex_unlock(&in->lock);
}

void lls_inbox_clear(struct lls_inbox *in, uint64_t number)
{
  pthread_mutex_lock(&in->lock);
  in->clear = number;
  pthread_cond_signal(&in->filled);
  pthread_mutex_unlock(&in->lock);
}

void lls_inbox_cancel(struct lls_inbox *in, uint64_t id)
{
  pthread_mutex_lock(&in->lock);
  if (in->n_cancels < in->capacity)
    in->cancels[in->n_cancels++] = id;
  else
    in->cancels_lost = true;
  pthread_cond_signal(&in->filled);
  pthread_mutex_unlock(&in->lock);
}

void lls_inbox_ask(struct lls_inbox *in, struct lls_snapshot *snapshot)
{
  pthread_mutex_lock(&in->lock);
  in->asked = snapshot;
  pthread_cond_signal(&in->filled);
  pthread_mutex_unlock(&in->lock);
}

void lls_inbox_note(struct lls_inbox *in, struct lls_session_note *note)
{
  pthread_mutex_lock(&in->lock);
  note->next = NULL;
  *in->last_note = note;
  in->last_note = &note->next;
  pthread_cond_signal(&in->filled);
  pthread_mutex_unlock(&in->lock);
}

void lls_inbox_return_notes(struct lls_inbox *in, struct lls_session_note *notes)
{
  struct lls_session_note *last = notes;
  while (last->next != NULL)
    last = last->next;
  pthread_mutex_lock(&in->lock);
  last->next = in->used_notes;
  in->used_notes = notes;
  pthread_mutex_unlock(&in->lock);
}

struct lls_session_note *lls_inbox_used_notes(struct lls_inbox *in)
{
  pthread_mutex_lock(&in->lock);
  struct lls_session_note *notes = in->used_notes;
  in->used_notes = NULL;
  pthread_mutex_unlock(&in->lock);
  return notes;
}

void lls_inbox_stop(struct lls_inbox *in)
{
  pthread_mutex_lock(&in->lock);
  in->stop = true;
  pthread_cond_signal(&in->filled);
  pthread_mutex_unlock(&in->lock);
}

void lls_inbox_hold(struct lls_inbox *in)
{
  pthread_mutex_lock(&in->lock);
  in->hold = true;
  pthread_cond_broadcast(&in->filled);
  pthread_mutex_unlock(&in->lock);
}

bool lls_inbox_is_parked(struct lls_inbox *in)
{
  pthread_mutex_lock(&in->lock);
  bool parked = in->parked;
  pthread_mutex_unlock(&in->lock);
  return parked;
}

void lls_inbox_release(struct lls_inbox *in)
{
  pthread_mutex_lock(&in->lock);
  LLS_CHECK(in->hold); /* main has called hold */
  in->hold = in->parked = false;
  pthread_cond_broadcast(&in->filled);
  pthread_mutex_unlock(&in->lock);
}

void lls_inbox_park(struct lls_inbox *in, void (*wake)(void *context), void *context)
{
  pthread_mutex_lock(&in->lock);
  while (in->hold && !in->stop) {
    if (!in->parked) { /* after a second hold, which came before this thread saw the
                          release */
      in->parked = true;
      wake(context);
    }
    pthread_cond_wait(&in->filled, &in->lock);
  }
  pthread_mutex_unlock(&in->lock);
}

int lls_inbox_predicted(struct lls_inbox *in, uint64_t request,
                        const struct lls_prediction *prediction)
{
  int rc = -ENOSPC;
  pthread_mutex_lock(&in->lock);
  if (in->n_predictions < in->capacity) {
    in->predictions[in->n_predictions++] =
        (struct lls_late_prediction){.request = request, .prediction = *prediction};
    rc = 0;
  }
  pthread_cond_signal(&in->filled);
  pthread_mutex_unlock(&in->lock);
  return rc;
}

/* Moves requests that are due to *out, in order; the others stay. */
static void take_requests(struct lls_inbox *in, int64_t now_ns, struct lls_live **out)
{
  struct lls_live **from = &in->first;
  *out = NULL;
  while (*from != NULL) {
    struct lls_live *live = *from;
    if (live->move.mailed_ns > now_ns) {
      from = &live->next;
      continue;
    }
    *from = live->next;
    live->next = NULL;
    *out = live;
    out = &live->next;
  }
  in->last = from;
  LLS_CHECK(*in->last == NULL);
}

static void take_settled(struct lls_inbox *in, int64_t now_ns,
                         struct lls_inbox_content *out)
{
  uint32_t left = 0;
  out->n_settled = 0;
  for (uint32_t i = 0; i < in->n_settled; i++)
    if (in->settled[i].mailed_ns > now_ns)
      in->settled[left++] = in->settled[i];
    else
      out->settled[out->n_settled++] = in->settled[i];
  in->n_settled = left;
}

static void take_shifts(struct lls_inbox *in, int64_t now_ns,
                        struct lls_inbox_content *out)
{
  uint32_t left = 0;
  out->n_shifts = 0;
  for (uint32_t i = 0; i < in->n_shifts; i++)
    if (in->shifts[i].mailed_ns > now_ns)
      in->shifts[left++] = in->shifts[i];
    else
      out->shifts[out->n_shifts++] = in->shifts[i];
  in->n_shifts = left;
}

int lls_inbox_content_init(struct lls_inbox_content *c, uint32_t max_requests)
{
  c->cancels = calloc(max_requests, sizeof *c->cancels);
  c->predictions = calloc(max_requests, sizeof *c->predictions);
  c->settled = calloc(max_requests, sizeof *c->settled);
  c->shifts = calloc(max_requests, sizeof *c->shifts);
  c->fetched = calloc(max_requests, sizeof *c->fetched);
  c->placed = calloc(max_requests, sizeof *c->placed);
  bool all = c->cancels != NULL && c->predictions != NULL && c->settled != NULL &&
             c->shifts != NULL && c->fetched != NULL && c->placed != NULL;
  return all ? 0 : -ENOMEM;
}

void lls_inbox_content_free(struct lls_inbox_content *c)
{
  free(c->cancels);
  free(c->predictions);
  free(c->settled);
  free(c->shifts);
  free(c->fetched);
  free(c->placed);
}

/* Takes messages without a time: they come from other processes, whose clocks are
 * real. */
static void take_remote(struct lls_inbox *in, struct lls_inbox_content *out)
{
  memcpy(out->fetched, in->fetched, in->n_fetched * sizeof *in->fetched);
  out->n_fetched = in->n_fetched;
  in->n_fetched = 0;
  memcpy(out->placed, in->placed, in->n_placed * sizeof *in->placed);
  out->n_placed = in->n_placed;
  in->n_placed = 0;
  out->end_all = in->end_all;
  in->end_all = false;
  out->clear = in->clear;
  in->clear = 0;
}

void lls_inbox_take(struct lls_inbox *in, int64_t now_ns, struct lls_inbox_content *out)
{
  pthread_mutex_lock(&in->lock);
  take_requests(in, now_ns, &out->arrivals);
  take_settled(in, now_ns, out);
  take_shifts(in, now_ns, out);
  take_remote(in, out);
  memcpy(out->cancels, in->cancels, in->n_cancels * sizeof *in->cancels);
  out->n_cancels = in->n_cancels;
  in->n_cancels = 0;
  out->cancels_lost = in->cancels_lost;
  in->cancels_lost = false;
  memcpy(out->predictions, in->predictions, in->n_predictions * sizeof *in->predictions);
  out->n_predictions = in->n_predictions;
  in->n_predictions = 0;
  out->asked = in->asked;
  in->asked = NULL;
  out->notes = in->notes;
  in->notes = NULL;
  in->last_note = &in->notes;
  out->stop = in->stop;
  pthread_mutex_unlock(&in->lock);
}

static bool is_empty(const struct lls_inbox *in)
{
  return in->first == NULL && in->n_cancels == 0 && in->n_predictions == 0 &&
         in->n_settled == 0 && in->n_shifts == 0 && in->n_fetched == 0 &&
         in->n_placed == 0 && !in->end_all && in->clear == 0 && in->asked == NULL &&
         in->notes == NULL && !in->stop && !in->hold;
}

static int64_t earlier(int64_t a, int64_t b)
{
  return a == LLS_NEVER || b < a ? b : a;
}

/* Notes have no time: without a request an instance plans nothing, so a simulation may
 * leave them until its next step. */
int64_t lls_inbox_due_ns(struct lls_inbox *in)
{
  int64_t due_ns = LLS_NEVER;
  pthread_mutex_lock(&in->lock);
  if (in->n_cancels > 0 || in->cancels_lost || in->n_fetched > 0 || in->end_all ||
      in->clear != 0 || in->n_predictions > 0 || in->asked != NULL)
    due_ns = 0;
  for (const struct lls_live *live = in->first; live != NULL; live = live->next) {
    int64_t mailed_ns = live->move.mailed_ns;
    due_ns = earlier(due_ns, mailed_ns == LLS_NEVER ? 0 : mailed_ns);
  }
  for (uint32_t i = 0; i < in->n_settled; i++)
    due_ns = earlier(due_ns, in->settled[i].mailed_ns);
  for (uint32_t i = 0; i < in->n_shifts; i++)
    due_ns = earlier(due_ns, in->shifts[i].mailed_ns);
  pthread_mutex_unlock(&in->lock);
  return due_ns;
}

void lls_inbox_wait(struct lls_inbox *in, int64_t timeout_ns)
{
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  if (timeout_ns != LLS_NEVER) {
    int64_t ns = until.tv_nsec + timeout_ns % LLS_NS_PER_S;
    until.tv_sec += timeout_ns / LLS_NS_PER_S + ns / LLS_NS_PER_S;
    until.tv_nsec = ns % LLS_NS_PER_S;
  }
  pthread_mutex_lock(&in->lock);
  int rc = 0;
  while (is_empty(in) && rc != ETIMEDOUT)
    rc = timeout_ns == LLS_NEVER ? pthread_cond_wait(&in->filled, &in->lock)
                                 : pthread_cond_timedwait(&in->filled, &in->lock, &until);
  pthread_mutex_unlock(&in->lock);
}
