/* SPDX-License-Identifier: Apache-2.0 */
/* Points in processes of their own, some at a time. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/sweep/grid.h"

#define NAME_SIZE 1024

struct pool {
  const struct lls_grid *grid;
  const struct lls_sweep_options *options;
  const struct lls_runner *runner;
  size_t jobs; /* at a time */
  size_t live, done, failed, total;
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

static void say_progress(const struct pool *pool, const char *what)
{
  if (pool->runner->quiet || !isatty(STDERR_FILENO))
    return;
  fprintf(stderr, "\r\033[K%zu of %zu runs%s%s", pool->done, pool->total,
          what[0] != '\0' ? ": " : "", what);
  if (pool->done == pool->total)
    fputc('\n', stderr);
}

static void wait_for_one(struct pool *pool)
{
  int status;
  pid_t pid;
  do
    pid = wait(&status);
  while (pid < 0 && errno == EINTR);
  pool->live--;
  pool->done++;
  if (pid < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
    pool->failed++;
  say_progress(pool, "");
}

/* In the child: the run, its failure said on stderr. */
static void run_point(const struct pool *pool, size_t point, const char *path)
{
  struct lls_error err = {0};
  int rc = lls_grid_apply(pool->grid, point, pool->runner, &err);
  if (rc == 0)
    rc = pool->runner->run(pool->runner->context, path, &err);
  if (rc < 0)
    fprintf(stderr, "%s: %s\n", path, lls_error_text(&err, rc));
  fflush(NULL);
  _exit(rc < 0 ? 1 : 0);
}

static int start_point(struct pool *pool, size_t point, struct lls_error *err)
{
  char path[4096];
  int rc = lls_grid_path(pool->grid, pool->options, point, path, sizeof path, err);
  if (rc < 0)
    return rc;
  if (access(path, F_OK) == 0) {
    pool->done++;
    return 0;
  }
  while (pool->live >= pool->jobs)
    wait_for_one(pool);
  say_progress(pool, path);
  fflush(NULL);
  pid_t pid = fork();
  if (pid < 0)
    return lls_fail(err, -errno, "cannot start a run: %s", strerror(errno));
  if (pid == 0)
    run_point(pool, point, path);
  pool->live++;
  return 0;
}

static size_t jobs_of(const struct lls_sweep_options *o, const struct lls_runner *runner)
{
  if (o->jobs != LLS_NEVER)
    return (size_t)o->jobs;
  long cores = runner->at_once ? sysconf(_SC_NPROCESSORS_ONLN) : 1;
  return cores > 0 ? (size_t)cores : 1;
}

int lls_grid_run(const struct lls_grid *grid, const struct lls_sweep_options *o,
                 const struct lls_runner *runner, struct lls_error *err)
{
  struct pool pool = {.grid = grid,
                      .options = o,
                      .runner = runner,
                      .jobs = jobs_of(o, runner),
                      .total = lls_grid_points(grid)};
  int rc = 0;
  if (mkdir(o->result_dir, 0777) != 0 && errno != EEXIST)
    return lls_fail(err, -errno, "%s: cannot be made: %s", o->result_dir,
                    strerror(errno));
  for (size_t point = 0; rc == 0 && point < pool.total; point++)
    rc = start_point(&pool, point, err);
  while (pool.live > 0)
    wait_for_one(&pool);
  if (rc < 0 || pool.failed == 0)
    return rc;
  return lls_fail(err, -EIO, "%zu of %zu runs failed", pool.failed, pool.total);
}
