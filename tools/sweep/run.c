/* SPDX-License-Identifier: Apache-2.0 */
/* Runs points in separate processes, several at a time. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/progress_bar.h"
#include "core/plugin/crash.h"
#include "tools/sweep/grid.h"
#include "tools/sweep/made_by.h"

#define NAME_SIZE 1024

enum { RAN, FAILED, THERE }; /* exit statuses of a child */

struct child {
  pid_t pid;
  size_t point;
  bool had_one; /* the point's result file existed before */
};

struct pool {
  const struct lls_grid *grid;
  const struct lls_sweep_options *options;
  const struct lls_runner *runner;
  struct child *children; /* (jobs) of which `live` are running */
  size_t jobs;            /* most at a time */
  size_t live, ended, total;
  struct lls_grid_tally *tally;
  struct lls_progress progress;
};

int lls_grid_path(const struct lls_grid *grid, const struct lls_sweep_options *o,
                  size_t point, char *out, size_t size, struct lls_error *err)
{
  char name[NAME_SIZE];
  lls_grid_name(grid, point, name, sizeof name);
  int length = snprintf(out, size, "%s/%s.json", o->result_dir, name);
  if (length < 0 || (size_t)length >= size)
    return lls_fail(err, -ENAMETOOLONG, "%s: the path is too long", o->result_dir);
  return 0;
}

static void say_progress(struct pool *pool, const char *what)
{
  lls_progress_count(&pool->progress, pool->ended, pool->total, "runs", what);
}

static void count(struct pool *pool, const struct child *child, int status)
{
  int end = WIFEXITED(status) ? WEXITSTATUS(status) : FAILED;
  pool->tally->there += end == THERE;
  pool->tally->others += end == RAN && child->had_one;
  pool->tally->failed += end != THERE && end != RAN;
  pool->tally->done[child->point] = end == THERE || end == RAN;
}

static void wait_for_one(struct pool *pool)
{
  int status;
  pid_t pid;
  do
    pid = wait(&status);
  while (pid < 0 && errno == EINTR);
  for (size_t i = 0; i < pool->live; i++)
    if (pool->children[i].pid == pid) {
      count(pool, &pool->children[i], status);
      pool->children[i] = pool->children[--pool->live];
      pool->ended++;
      break;
    }
  say_progress(pool, NULL);
}

/* In the child: runs the point, unless it has a result of the same origin. */
static int run_or_leave(const struct pool *pool, size_t point, const char *path,
                        struct lls_error *err)
{
  const struct lls_runner *runner = pool->runner;
  int rc = lls_grid_apply(pool->grid, point, runner, err);
  if (rc < 0)
    return rc;
  json_t *made_by = runner->made_by(runner->context, err);
  if (made_by == NULL)
    return -EINVAL;
  if (lls_result_made_by(path, made_by))
    return THERE;
  return runner->run(runner->context, path, made_by, err);
}

/* In the child: reports a failure on stderr. */
static void run_point(const struct pool *pool, size_t point, const char *path)
{
  struct lls_error err = {0};
  int rc = run_or_leave(pool, point, path, &err);
  if (rc < 0)
    fprintf(stderr, "%s: %s\n", path, lls_error_text(&err, rc));
  fflush(NULL);
  _exit(rc < 0 ? FAILED : rc);
}

static int start_point(struct pool *pool, size_t point, struct lls_error *err)
{
  char path[4096];
  int rc = lls_grid_path(pool->grid, pool->options, point, path, sizeof path, err);
  if (rc < 0)
    return rc;
  while (pool->live >= pool->jobs)
    wait_for_one(pool);
  say_progress(pool, path);
  fflush(NULL);
  struct child child = {.point = point, .had_one = access(path, F_OK) == 0};
  child.pid = fork();
  if (child.pid < 0)
    return lls_fail(err, -errno, "cannot start a run: %s", strerror(errno));
  if (child.pid == 0)
    lls_crash_forked();
  if (child.pid == 0)
    run_point(pool, point, path);
  pool->children[pool->live++] = child;
  return 0;
}

static size_t jobs_of(const struct lls_sweep_options *o, const struct lls_runner *runner)
{
  if (o->jobs != LLS_NEVER)
    return (size_t)o->jobs;
  long cores = runner->at_once ? sysconf(_SC_NPROCESSORS_ONLN) : 1;
  return cores > 0 ? (size_t)cores : 1;
}

static int run_all(struct pool *pool, struct lls_error *err)
{
  size_t failed = pool->tally->failed;
  int rc = 0;
  for (size_t point = 0; rc == 0 && point < pool->total; point++)
    rc = start_point(pool, point, err);
  while (pool->live > 0)
    wait_for_one(pool);
  failed = pool->tally->failed - failed;
  if (rc < 0 || failed == 0)
    return rc;
  return lls_fail(err, -EIO, "%zu of %zu runs failed", failed, pool->total);
}

int lls_grid_run(const struct lls_grid *grid, const struct lls_sweep_options *o,
                 const struct lls_runner *runner, struct lls_grid_tally *tally,
                 struct lls_error *err)
{
  struct pool pool = {.grid = grid,
                      .options = o,
                      .runner = runner,
                      .jobs = jobs_of(o, runner),
                      .total = lls_grid_points(grid),
                      .tally = tally};
  if (mkdir(o->result_dir, 0777) != 0 && errno != EEXIST)
    return lls_fail(err, -errno, "%s: cannot be made: %s", o->result_dir,
                    strerror(errno));
  free(tally->done);
  tally->done = calloc(pool.total, sizeof *tally->done);
  tally->total += pool.total;
  lls_progress_begin(&pool.progress, !runner->quiet, "runs");
  pool.children = calloc(pool.jobs, sizeof *pool.children);
  int rc = tally->done != NULL && pool.children != NULL
               ? run_all(&pool, err)
               : lls_fail(err, -ENOMEM, "no memory for %zu runs", pool.total);
  lls_progress_end(&pool.progress);
  free(pool.children);
  return rc;
}

void lls_grid_print_tally(const struct lls_grid_tally *tally, const char *folder,
                          FILE *out)
{
  if (tally->there > 0)
    fprintf(out, "%zu of %zu runs were there already\n", tally->there, tally->total);
  if (tally->others > 0)
    fprintf(out,
            "%zu result%s in %s had been made by something else (\"made_by\" says what) "
            "and %s replaced\n",
            tally->others, tally->others == 1 ? "" : "s", folder,
            tally->others == 1 ? "was" : "were");
}
