/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that carries out jobs. When idle it inserts rows read at start into
 * the history, some at a time, and commits.
 */
#include "plugins/predictors/retrieval/retrieval.h"

#include <llmserve/policy/check.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#define MOST_JOBS    4096 /* some seconds, which a reload has to wait for */
#define LOAD_AT_ONCE 64   /* rows: some 20 ms, which a prediction may have to wait */

struct job *job_make(enum job_kind kind, const void *data, size_t bytes)
{
  struct job *job = malloc(sizeof *job + bytes);
  if (job == NULL)
    return NULL;
  *job = (struct job){.kind = kind, .bytes = bytes};
  if (data != NULL)
    memcpy(job->data, data, bytes);
  return job;
}

bool worker_post(struct retrieval *r, struct job *job)
{
  if (!r->params.async) {
    pthread_mutex_lock(&r->work);
    flights_job(r, job);
    history_commit(r->history);
    pthread_mutex_unlock(&r->work);
    return true;
  }
  pthread_mutex_lock(&r->lock);
  bool room = r->n_jobs < MOST_JOBS && !r->stop;
  if (room) {
    r->n_jobs++;
    if (job->kind == JOB_OBSERVE)
      DL_APPEND(r->other, job);
    else
      DL_APPEND(r->urgent, job);
    pthread_cond_signal(&r->posted);
  }
  pthread_mutex_unlock(&r->lock);
  if (!room)
    free(job);
  return room;
}

/* Takes the next job; NULL if the queue is empty, and *stop if it will stay so. */
static struct job *take(struct retrieval *r, bool wait, bool *stop)
{
  pthread_mutex_lock(&r->lock);
  while (wait && r->urgent == NULL && r->other == NULL && !r->stop)
    pthread_cond_wait(&r->posted, &r->lock);
  LLS_POL_CHECK((r->n_jobs > 0) == (r->urgent != NULL || r->other != NULL));
  struct job **from = r->urgent != NULL ? &r->urgent : &r->other, *job = *from;
  if (job != NULL) {
    DL_DELETE(*from, job);
    r->n_jobs--;
  }
  *stop = job == NULL && r->stop;
  pthread_mutex_unlock(&r->lock);
  return job;
}

/* Inserts some rows or commits; returns false if nothing was left to do. */
static bool use_idle_time(struct retrieval *r)
{
  pthread_mutex_lock(&r->work);
  history_commit(r->history);
  if (r->loading) {
    int rc = history_load_some(r->history, LOAD_AT_ONCE);
    r->loading = rc > 0;
    if (rc < 0)
      r->host->log(r->host->context, LLS_LOG_WARNING,
                   "out of memory: not all that was remembered has been read");
  }
  bool more = r->loading;
  pthread_mutex_unlock(&r->work);
  return more;
}

static void *thread_main(void *argument)
{
  struct retrieval *r = argument;
  bool stop = false, idle = false;
  while (!stop) {
    struct job *job = take(r, idle, &stop);
    if (job == NULL) {
      idle = !stop && !use_idle_time(r);
      continue;
    }
    idle = false;
    pthread_mutex_lock(&r->work);
    flights_job(r, job);
    pthread_mutex_unlock(&r->work);
  }
  return NULL;
}

int worker_start(struct retrieval *r)
{
  int rc = -pthread_create(&r->thread, NULL, thread_main, r);
  if (rc < 0)
    return r->host->fail(r->host->context, rc, "cannot start a thread: %s",
                         strerror(-rc));
  r->running = true;
  return 0;
}

void worker_stop(struct retrieval *r)
{
  if (!r->running)
    return;
  pthread_mutex_lock(&r->lock);
  r->stop = true;
  pthread_cond_signal(&r->posted);
  pthread_mutex_unlock(&r->lock);
  pthread_join(r->thread, NULL);
  r->running = false;
}
