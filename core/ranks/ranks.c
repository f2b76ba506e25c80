/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by both transports: the record of a failure, and the division of cores. */
#include "core/ranks/ranks.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#include "core/device/cores.h"

void lls_ranks_failure_init(struct lls_ranks_failure *f)
{
  *f = (struct lls_ranks_failure){0};
  pthread_mutex_init(&f->lock, NULL);
}

void lls_ranks_failure_fini(struct lls_ranks_failure *f)
{
  pthread_mutex_destroy(&f->lock);
}

bool lls_ranks_failure_set(struct lls_ranks_failure *f, const char *format, ...)
{
  va_list args;
  pthread_mutex_lock(&f->lock);
  bool first = !atomic_load(&f->failed);
  if (first) {
    va_start(args, format);
    vsnprintf(f->error.text, sizeof f->error.text, format, args);
    va_end(args);
    atomic_store(&f->failed, true);
    if (f->notify != NULL)
      f->notify(f->context);
  }
  pthread_mutex_unlock(&f->lock);
  return first;
}

void lls_ranks_on_failure(struct lls_ranks *r, void (*notify)(void *context),
                          void *context)
{
  struct lls_ranks_failure *f = r->failure;
  pthread_mutex_lock(&f->lock);
  f->notify = notify;
  f->context = context;
  if (notify != NULL && atomic_load(&f->failed))
    notify(context);
  pthread_mutex_unlock(&f->lock);
}

void lls_ranks_fail(struct lls_ranks *r, const char *sentence)
{
  bool first = lls_ranks_failure_set(r->failure, "rank %u: %s", r->rank, sentence);
  if (first && r->ops->alarm != NULL)
    r->ops->alarm(r);
}

int lls_ranks_failed(const struct lls_ranks *r, struct lls_error *err)
{
  struct lls_ranks_failure *f = r->failure;
  if (!atomic_load(&f->failed))
    return 0;
  pthread_mutex_lock(&f->lock);
  if (err != NULL)
    *err = f->error;
  pthread_mutex_unlock(&f->lock);
  return -ECONNABORTED;
}

void lls_cores_take(uint32_t index, uint32_t parts)
{
  cpu_set_t all, mine;
  struct lls_core cores[CPU_SETSIZE];
  if (parts < 2 || sched_getaffinity(0, sizeof all, &all) < 0)
    return;
  size_t n = lls_cores_list(lls_cores_folder, &all, LLS_CORES_BY_NODE, cores);
  if (n < parts)
    return;
  CPU_ZERO(&mine);
  size_t end = lls_ranks_first(n, index + 1, parts);
  for (size_t i = lls_ranks_first(n, index, parts); i < end; i++)
    CPU_SET(cores[i].cpu, &mine);
  sched_setaffinity(0, sizeof mine, &mine); /* on failure only speed is lost */
}

void lls_ranks_take_cores(const struct lls_ranks *r)
{
  if (r->shares_cores)
    lls_cores_take(r->local_rank, r->local_size);
}
