/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that follow rank 0; see worker_rank.h. */
#include "core/engine/worker_rank.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/ranks/ranks.h"

#define END_SECONDS 10 /* time for a rank to end, beyond its longest wait */

static int create_device(const struct lls_worker_rank_options *o, struct lls_ranks *ranks,
                         struct lls_device **out, struct lls_error *err)
{
  struct lls_device_options options = o->device;
  struct lls_error why_not;
  options.ranks = ranks;
  int rc = o->create_device != NULL
               ? o->create_device(&options, out, err)
               : lls_device_create(o->choice, o->builtin, &options, out, &why_not, err);
  if (rc < 0)
    lls_ranks_fail(ranks, lls_error_text(err, rc));
  return rc;
}

/* A progress callback that stops loading if another rank has failed. */
static bool goes_on(void *ranks, size_t done, size_t total)
{
  (void)done;
  (void)total;
  return lls_ranks_failed(ranks, NULL) == 0;
}

static int compute_step(struct lls_engine *e, const struct lls_engine_batch *batch,
                        struct lls_error *err)
{
  struct lls_engine_result result;
  int rc = lls_engine_submit(e, batch, err);
  return rc < 0 ? rc : lls_engine_wait(e, &result, err);
}

static int settle(struct lls_engine *e, struct lls_error *err)
{
  int64_t rc = lls_engine_settle(e, err);
  return rc < 0 ? (int)rc : 0;
}

/* Computes rank 0's steps until rank 0 ends this rank or something fails. */
static int compute_steps(struct lls_engine *e, const struct lls_worker_rank_side *side,
                         struct lls_error *err)
{
  for (;;) {
    struct lls_engine_batch batch;
    struct lls_engine_note note;
    int rc = lls_engine_receive(e, &batch, &note, err);
    if (rc <= LLS_RECEIVED_END)
      return rc;
    if (rc == LLS_RECEIVED_STEP)
      rc = compute_step(e, &batch, err);
    else if (rc == LLS_RECEIVED_ACCEPTED)
      rc = settle(e, err);
    else
      rc = side != NULL ? side->heed(side->context, &note, err) : 0;
    if (rc < 0)
      return rc;
  }
}

static int compute(const struct lls_worker_rank_options *o, struct lls_engine *e,
                   struct lls_ranks *ranks, struct lls_error *err)
{
  const struct lls_worker_rank_side *side = o->side;
  int rc = side != NULL ? side->begin(side->context, e, err) : 0;
  bool begun = rc == 0;
  if (begun)
    rc = compute_steps(e, side, err);
  if (rc < 0) /* keeps the first reason if the group has failed already */
    lls_ranks_fail(ranks, lls_error_text(err, rc));
  if (begun && side != NULL)
    side->end(side->context);
  return rc;
}

int lls_worker_rank_run(const struct lls_worker_rank_options *o, struct lls_ranks *ranks,
                        struct lls_error *err)
{
  struct lls_engine_options options = o->engine;
  struct lls_device *device;
  struct lls_engine *engine;
  options.ranks = ranks;
  options.progress = goes_on;
  options.progress_context = ranks;
  lls_ranks_take_cores(ranks);
  int rc = create_device(o, ranks, &device, err);
  if (rc < 0)
    return rc;
  rc = lls_engine_create(&options, &o->model, device, &engine, err);
  if (rc == 0) {
    rc = compute(o, engine, ranks, err);
    lls_engine_destroy(engine);
  }
  device->ops->destroy(device);
  return rc;
}

/* ---- as threads -------------------------------------------------------------------- */

struct follower {
  const struct lls_worker_rank_options *options;
  struct lls_ranks *ranks;
  pthread_t thread;
};

struct lls_worker_ranks {
  struct lls_worker_rank_options options;
  int64_t timeout_ns;
  uint32_t n;
  struct follower list[]; /* (n) */
};

static void *thread_main(void *argument)
{
  struct follower *f = argument;
  struct lls_error err = {0};
  lls_worker_rank_run(f->options, f->ranks,
                      &err); /* a failure is recorded in the group, with its reason */
  return NULL;
}

static int start(struct follower *f)
{
  int rc = -pthread_create(&f->thread, NULL, thread_main, f);
  if (rc == 0)
    pthread_setname_np(f->thread, "llmserve-rank");
  return rc;
}

int lls_worker_ranks_start(const struct lls_worker_rank_options *o,
                           struct lls_ranks **handles, uint32_t size,
                           struct lls_worker_ranks **out, struct lls_error *err)
{
  struct lls_worker_ranks *f = calloc(1, sizeof *f + (size - 1) * sizeof *f->list);
  if (f == NULL)
    return lls_fail(err, -ENOMEM, "no memory for %u ranks", size);
  f->options = *o;
  f->timeout_ns = handles[0]->timeout_ns;
  for (int rc; f->n < size - 1; f->n++) {
    struct follower *one = &f->list[f->n];
    *one = (struct follower){.options = &f->options, .ranks = handles[f->n + 1]};
    if ((rc = start(one)) < 0) {
      lls_fail(err, rc, "cannot start a thread for rank %u: %s", f->n + 1, strerror(-rc));
      lls_ranks_fail(handles[0], "another rank could not be started");
      for (uint32_t rank = f->n + 1; rank < size; rank++)
        handles[rank]->ops->destroy(handles[rank]);
      lls_worker_ranks_stop(f);
      return rc;
    }
  }
  *out = f;
  return 0;
}

int lls_worker_ranks_stop(struct lls_worker_ranks *f)
{
  struct timespec until;
  if (f == NULL)
    return 0;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += END_SECONDS + f->timeout_ns / 1000000000;
  for (uint32_t i = 0; i < f->n; i++) {
    int rc = pthread_timedjoin_np(f->list[i].thread, NULL, &until);
    if (rc != 0)
      return -rc;
  }
  for (uint32_t i = 0; i < f->n; i++)
    f->list[i].ranks->ops->destroy(f->list[i].ranks);
  free(f);
  return 0;
}
