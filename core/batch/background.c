/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work of the store between jobs: a piece for each active batch at a time.
 *
 * If a write fails, as on a full disk, memory keeps the data and the write is repeated.
 * No line is handed out until it succeeds, so that the pending data is bounded.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "core/batch/ending.h"
#include "core/batch/file_table.h"
#include "core/batch/progress.h"
#include "core/batch/response_table.h"
#include "core/batch/sharing.h"
#include "core/batch/store_internal.h"
#include "core/batch/validation.h"

#define TRY_AGAIN_NS (2 * LLS_NS_PER_S)
#define WAIT_MS      250 /* wait while answers are pending, or a batch may expire */
#define SWEEP_NS     (60 * LLS_NS_PER_S)
#define IDLE_MS      60000 /* wait while there are no batches; a posted job ends it */

/* Does what step does. It writes the last answers before the status that says there are
 * no more; otherwise a crash between the two would lose them. */
static int step_in_progress(struct lls_store *store, struct lls_active *active,
                            struct lls_error *err)
{
  bool answered = lls_active_is_answered(active);
  int status = 0;
  if (lls_progress_is_due(active) || (answered && active->n_pending > 0))
    status = lls_progress_commit(store, active, err);
  if (status == 0 && answered)
    status = lls_active_enter(store, active, LLS_ACTIVE_FINALIZING, err);
  else if (status == 0 && (int64_t)time(NULL) >= active->expires_s)
    status = lls_ending_expire(store, active, err);
  return status < 0 ? status : active->state != LLS_ACTIVE_IN_PROGRESS;
}

/* Returns 1 if there is more to do at once, 0 if not now, or a negative errno. */
static int step(struct lls_store *store, struct lls_active *active, struct lls_error *err)
{
  switch (active->state) {
  case LLS_ACTIVE_VALIDATING: {
    int status = lls_validation_step(store, active, err);
    return status < 0 ? status : 1;
  }
  case LLS_ACTIVE_IN_PROGRESS:
    return step_in_progress(store, active, err);
  default:
    return lls_ending_step(store, active, err);
  }
}

/* Does a step of each active batch. A step that ends a batch puts another in its place.
 */
static int step_all(struct lls_store *store, struct lls_error *err)
{
  int more = 0;
  for (uint32_t i = 0; i < store->n_active;) {
    struct lls_active *active = store->active[i];
    int status = step(store, active, err);
    if (status == -ESTALE)
      status = lls_sharing_refresh(store, active, err);
    if (status < 0)
      return status;
    more |= status;
    if (i < store->n_active && store->active[i] == active)
      i++;
  }
  return more;
}

static int add_up(void *context, const struct lls_result_row *row)
{
  static const char *const names[] = {"validating", "in_progress"};
  struct lls_store_counts *counts = context;
  uint32_t *const members[] = {&counts->validating, &counts->in_progress};
  const char *status = lls_row_text(row, 0);
  uint32_t n = (uint32_t)lls_row_integer(row, 1);
  for (size_t i = 0; i < 2; i++)
    if (status != NULL && strcmp(status, names[i]) == 0) {
      *members[i] = n;
      n = 0;
    }
  counts->ending += n;
  counts->lines_queued += (uint64_t)lls_row_integer(row, 2);
  return 0;
}

static void publish_counts(struct lls_store *store)
{
  struct lls_store_counts counts = {.lines_completed = store->lines_completed,
                                    .lines_failed = store->lines_failed,
                                    .blocked = store->blocked_ns != 0};
  lls_database_run(&store->database, add_up, &counts, NULL,
                   "SELECT status, count(*), sum(total - completed - failed) FROM "
                   "batches WHERE owner = ? AND status IN ('validating', "
                   "'in_progress', 'finalizing', 'cancelling') GROUP BY status",
                   "t", store->id);
  pthread_mutex_lock(&store->mutex);
  store->counts = counts;
  pthread_mutex_unlock(&store->mutex);
}

/* Wakes main when lines have become available. */
static void tell_of_lines(struct lls_store *store)
{
  bool any = false;
  for (uint32_t i = 0; i < store->n_active; i++)
    any |= store->active[i]->state == LLS_ACTIVE_IN_PROGRESS &&
           lls_active_has_lines(store->active[i]);
  if (store->blocked_ns != 0 || store->has_lines == any)
    return;
  store->has_lines = any;
  if (any)
    store->wake(store->wake_context);
}

/* Deletes expired files and responses from time to time to save space. Clients do not
 * see them after they have expired, even before the sweep. */
static int sweep(struct lls_store *store, struct lls_error *err)
{
  int64_t now_ns = lls_store_now_ns();
  if (store->swept_ns != 0 && now_ns - store->swept_ns < SWEEP_NS)
    return 0;
  int status = lls_files_expire(store, (int64_t)time(NULL), err);
  if (status == 0)
    status = lls_responses_expire(store, err);
  if (status == 0)
    status = lls_sharing_sweep(store, err);
  if (status == 0)
    store->swept_ns = now_ns;
  return status;
}

int lls_store_background(struct lls_store *store)
{
  struct lls_error err = {0};
  int64_t since_ns = lls_store_now_ns() - store->blocked_ns;
  if (store->blocked_ns != 0 && since_ns < TRY_AGAIN_NS)
    return (int)((TRY_AGAIN_NS - since_ns) / LLS_NS_PER_MS) + 1;
  int status = lls_sharing_beat(store, &err);
  if (status == 0)
    status = sweep(store, &err);
  if (status == 0 && store->admitting)
    status = lls_active_admit(store, &err);
  if (status == 0)
    status = step_all(store, &err);
  if (status < 0)
    lls_store_block(store, status, &err);
  else
    lls_store_unblock(store);
  publish_counts(store);
  tell_of_lines(store);
  if (status != 0 || store->admitting)
    return status < 0 ? WAIT_MS : 0;
  return store->n_active > 0 ? WAIT_MS : lls_sharing_wait_ms(store, IDLE_MS);
}

void lls_store_end_background(struct lls_store *store)
{
  struct lls_error err = {0};
  while (store->n_active > 0) {
    struct lls_active *active = store->active[0];
    if (active->n_pending > 0 && lls_progress_commit(store, active, &err) < 0)
      lls_store_block(store, -EIO, &err);
    lls_active_forget(store, active);
  }
  lls_sharing_close(store);
}
