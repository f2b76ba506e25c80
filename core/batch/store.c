/* SPDX-License-Identifier: Apache-2.0 */
/* The store's thread and its two queues; see store.h. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <utlist.h>

#include "core/base/file.h"
#include "core/batch/file_table.h"
#include "core/batch/schema.h"
#include "core/batch/sharing.h"
#include "core/batch/store_internal.h"

/* jobs done in a row, before batches get a turn and pending answers are written */
#define JOBS_AT_ONCE 64

/* ---- the thread -------------------------------------------------------------------- */

/* Runs the first job, with the mutex released while it runs. */
static void run_job(struct lls_store *store)
{
  struct lls_store_job *job = store->posted;
  DL_DELETE(store->posted, job);
  pthread_mutex_unlock(&store->mutex);
  job->run(job, store);
  pthread_mutex_lock(&store->mutex);
  DL_APPEND(store->run, job);
  store->wake(store->wake_context);
}

static void wait_for_job(struct lls_store *store, int wait_ms)
{
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  int64_t ns = until.tv_nsec + wait_ms * INT64_C(1000000);
  until.tv_sec += ns / LLS_NS_PER_S;
  until.tv_nsec = ns % LLS_NS_PER_S;
  pthread_cond_timedwait(&store->posted_one, &store->mutex, &until);
}

static void *thread_main(void *argument)
{
  struct lls_store *store = argument;
  pthread_mutex_lock(&store->mutex);
  while (!store->stop || store->posted != NULL) {
    for (int i = 0; i < JOBS_AT_ONCE && store->posted != NULL; i++)
      run_job(store);
    pthread_mutex_unlock(&store->mutex);
    int wait_ms = lls_store_background(store);
    store->lost = store->database.lost;
    pthread_mutex_lock(&store->mutex);
    if (wait_ms > 0 && store->posted == NULL && !store->stop)
      wait_for_job(store, wait_ms);
  }
  pthread_mutex_unlock(&store->mutex);
  lls_store_end_background(store);
  return NULL;
}

/* ---- for main ---------------------------------------------------------------------- */

void lls_store_post(struct lls_store *store, struct lls_store_job *job)
{
  pthread_mutex_lock(&store->mutex);
  LLS_ON(store->main);
  DL_APPEND(store->posted, job);
  pthread_cond_signal(&store->posted_one);
  pthread_mutex_unlock(&store->mutex);
}

void lls_store_deliver(struct lls_store *store)
{
  struct lls_store_job *job, *next;
  pthread_mutex_lock(&store->mutex);
  struct lls_store_job *run = store->run;
  LLS_ON(store->main);
  store->run = NULL;
  pthread_mutex_unlock(&store->mutex);
  DL_FOREACH_SAFE (run, job, next)
    job->done(job);
}

bool lls_store_has_lines(struct lls_store *store)
{
  LLS_ON(store->main);
  return store->has_lines;
}

bool lls_store_is_lost(const struct lls_store *store)
{
  LLS_ON(store->main);
  return store->lost;
}

bool lls_store_is_shared(const struct lls_store *store)
{
  LLS_ON(store->main);
  return store->id[0] != '\0';
}

void lls_store_count(struct lls_store *store, struct lls_store_counts *out)
{
  pthread_mutex_lock(&store->mutex);
  LLS_ON(store->main);
  *out = store->counts;
  out->lost = lls_store_is_lost(store);
  pthread_mutex_unlock(&store->mutex);
}

/* ---- opening and closing ----------------------------------------------------------- */

static int make_folder(const char *path, struct lls_error *err)
{
  if (mkdir(path, 0700) == 0 || errno == EEXIST)
    return 0;
  return lls_fail(err, -errno, "%s: cannot make the folder: %s", path, strerror(errno));
}

static int take_lock(struct lls_store *store, struct lls_error *err)
{
  char path[PATH_MAX];
  lls_store_path(store, "lock", "", path);
  store->lock = lls_file_lock(path);
  if (store->lock >= 0)
    return 0;
  return store->lock == -EWOULDBLOCK
             ? lls_fail(err, -EBUSY, "%s" LLS_STORE_IN_USE, store->folder)
             : lls_fail(err, store->lock, "%s: cannot open: %s", path,
                        strerror(-store->lock));
}

static int open_folder(struct lls_store *store, struct lls_error *err)
{
  char path[PATH_MAX];
  int status = make_folder(store->folder, err);
  lls_store_path(store, "files", "", path);
  if (status == 0)
    status = make_folder(path, err);
  if (status == 0)
    status = take_lock(store, err);
  return status;
}

static int open_database(struct lls_store *store, const char *url, struct lls_error *err)
{
  char path[PATH_MAX];
  lls_store_path(store, "llmserve.db", "", path);
  int status = url != NULL && url[0] != '\0'
                   ? lls_database_open_server(&store->database, url, store->log, err)
                   : lls_database_open_file(&store->database, path, err);
  if (status == 0)
    status = lls_schema_upgrade(&store->database, err);
  if (status == 0 && store->database.kind->shared)
    status = lls_sharing_open(store, err);
  return status;
}

static int start_thread(struct lls_store *store, struct lls_error *err)
{
  int status = -pthread_create(&store->thread, NULL, thread_main, store);
  if (status < 0)
    return lls_fail(err, status, "the store's thread does not start: %s",
                    strerror(-status));
  pthread_setname_np(store->thread, "llmserve-store");
  return 0;
}

static void free_store(struct lls_store *store)
{
  lls_database_close(&store->database);
  if (store->lock >= 0)
    close(store->lock);
  pthread_cond_destroy(&store->posted_one);
  pthread_mutex_destroy(&store->mutex);
  free(store->model_name);
  free(store->served_model);
  free(store);
}

static struct lls_store *make_store(const struct lls_store_options *options)
{
  pthread_condattr_t monotonic;
  struct lls_store *store = calloc(1, sizeof *store);
  if (store == NULL)
    return NULL;
  store->max_line = options->max_line;
  store->log = options->log;
  store->wake = options->wake;
  store->wake_context = options->wake_context;
  store->model_name = options->model_name != NULL ? strdup(options->model_name) : NULL;
  store->served_model =
      strdup(options->served_model != NULL ? options->served_model : "");
  store->lock = -1;
  store->main = lls_this_thread();
  store->admitting = true;
  snprintf(store->folder, sizeof store->folder, "%s", options->folder);
  if (options->files != NULL && options->files[0] != '\0')
    snprintf(store->files, sizeof store->files, "%s", options->files);
  else
    snprintf(store->files, sizeof store->files, "%.*s/files",
             (int)sizeof store->files - 8, options->folder);
  if (options->replica != NULL)
    snprintf(store->replica, sizeof store->replica, "%s", options->replica);
  pthread_mutex_init(&store->mutex, NULL);
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&store->posted_one, &monotonic);
  pthread_condattr_destroy(&monotonic);
  return store;
}

int lls_store_open(const struct lls_store_options *options, struct lls_store **out,
                   struct lls_error *err)
{
  struct lls_store *store = make_store(options);
  if (store == NULL)
    return lls_fail(err, -ENOMEM, "out of memory");
  LLS_ON(store->main);
  int status = store->served_model == NULL ? lls_fail(err, -ENOMEM, "out of memory") : 0;
  if (status == 0 &&
      (strlen(options->folder) >= sizeof store->folder - 8 ||
       (options->files != NULL && strlen(options->files) >= sizeof store->files)))
    status =
        lls_fail(err, -ENAMETOOLONG, "%.80s...: the path is too long", options->folder);
  if (status == 0)
    status = open_folder(store, err);
  if (status == 0)
    status = open_database(store, options->database, err);
  if (status == 0)
    status = lls_files_forget_unknown(store, err);
  if (status == 0)
    status = start_thread(store, err);
  if (status < 0) {
    free_store(store);
    return status;
  }
  *out = store;
  return 0;
}

void lls_store_close(struct lls_store *store)
{
  if (store == NULL)
    return;
  LLS_ON(store->main);
  pthread_mutex_lock(&store->mutex);
  store->stop = true;
  pthread_cond_signal(&store->posted_one);
  pthread_mutex_unlock(&store->mutex);
  pthread_join(store->thread, NULL);
  lls_store_deliver(store);
  free_store(store);
}
