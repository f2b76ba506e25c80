/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks as MPI processes: all that the launcher (mpirun, srun) has started, or a subset
 * (mpi_world.c).
 *
 * MPI's own waits neither end nor report when another process has died. So all
 * operations here are nonblocking ones, and the wait for them checks in between: for
 * the sentence of a rank that has failed (an alarm), for the death of a process
 * (watch.c), and the time. After a failure MPI is not finalised, since that would wait
 * for the dead; the launcher ends the remaining ranks.
 *
 * One thread at a time calls these functions: the step thread once it exists.
 */
#include "config.h"

#include <errno.h>
#include <mpi.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/ranks/mpi_world.h"
#include "core/ranks/watch.h"

#define TAG_GATHER 1
#define TAG_ALARM  2
#define LOOK_UP    64      /* tests between two checks */
#define AWAKE_NS   2000000 /* a patient wait sleeps after this time */
#define SLEEP_NS   1000000 /* longest delay of the first step after a rest */
#define BRISK_NS   200000  /* a step's wait naps after this time */
/* nap of a step's wait; it naps at once if there are more ranks than cores */
#define NAP_NS   20000
#define ALARM_NS 200000000 /* time for an alarm to get out */

struct mpi {
  struct lls_ranks base; /* first */
  struct lls_ranks_failure failure;
  MPI_Comm comm, alarms;
  bool too_long; /* a rank did not arrive in time: it hangs, or its end cannot be
                  * observed from here */
  struct lls_ranks_watch *watch;
  bool crowded; /* more processes than cores on this machine */
  /* processes that end MPI together when this object is destroyed; n = 0: another object
   * ends MPI */
  struct lls_mpi_end end;
};

static struct mpi *mpi(struct lls_ranks *r)
{
  return (struct mpi *)r;
}

static int64_t now_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* ---- waiting ------------------------------------------------------------------ */

/* Receives the sentence of a rank that has failed. */
static void take_alarm(struct mpi *m)
{
  char sentence[LLS_ERROR_MAX];
  int there = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, TAG_ALARM, m->alarms, &there, MPI_STATUS_IGNORE);
  if (!there)
    return;
  MPI_Recv(sentence, LLS_ERROR_MAX, MPI_CHAR, MPI_ANY_SOURCE, TAG_ALARM, m->alarms,
           MPI_STATUS_IGNORE);
  lls_ranks_failure_set(&m->failure, "%.*s", LLS_ERROR_MAX - 1, sentence);
}

static int look_up(struct mpi *m, int64_t started_ns, bool patient)
{
  int64_t waited_ns = now_ns() - started_ns;
  take_alarm(m);
  if (!patient)
    atomic_store(&m->base.waits_since_ns, started_ns);
  m->too_long |= !patient && waited_ns > m->base.timeout_ns;
  if (m->too_long)
    lls_ranks_failure_set(&m->failure, "the other ranks did not come within %lld ms",
                          (long long)(m->base.timeout_ns / 1000000));
  if (lls_ranks_failed(&m->base, NULL) < 0)
    return -ECONNABORTED;
  int64_t nap_ns = patient && waited_ns > AWAKE_NS      ? SLEEP_NS
                   : m->crowded || waited_ns > BRISK_NS ? NAP_NS
                                                        : 0;
  if (nap_ns > 0)
    nanosleep(&(struct timespec){.tv_nsec = nap_ns}, NULL);
  else
    sched_yield();
  return 0;
}

static int mpi_error(struct mpi *m, int code)
{
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  lls_ranks_failure_set(&m->failure, "rank %u: MPI: %.*s", m->base.rank, length, text);
  return -ECONNABORTED;
}

static int await_done(struct mpi *m, int code, MPI_Request *requests, int n, bool patient)
{
  int64_t started_ns = now_ns();
  for (unsigned i = 1; code == MPI_SUCCESS; i++) {
    int done = 0, rc = 0;
    code = MPI_Testall(n, requests, &done, MPI_STATUSES_IGNORE);
    if (code == MPI_SUCCESS && done)
      return 0;
    if (i % LOOK_UP == 0)
      rc = look_up(m, started_ns, patient);
    if (rc < 0)
      return rc;
  }
  return mpi_error(m, code);
}

/* Waits for operations that were begun; `code` is the result of beginning them. */
static int await(struct mpi *m, int code, MPI_Request *requests, int n, bool patient)
{
  int rc = await_done(m, code, requests, n, patient);
  atomic_store_explicit(&m->base.waits_since_ns, 0, memory_order_relaxed);
  return rc;
}

/* ---- operations --------------------------------------------------------------- */

static int sum(struct lls_ranks *r, float *x, size_t n)
{
  MPI_Request request = MPI_REQUEST_NULL;
  int code =
      MPI_Iallreduce(MPI_IN_PLACE, x, (int)n, MPI_FLOAT, MPI_SUM, mpi(r)->comm, &request);
  return await(mpi(r), code, &request, 1, false);
}

/* Receives another rank's columns directly into their place. */
static int receive_columns(struct mpi *m, uint32_t from, size_t rows, size_t columns,
                           float *whole, MPI_Request *request)
{
  size_t first = lls_ranks_first(columns, from, m->base.size);
  size_t share = lls_ranks_first(columns, from + 1, m->base.size) - first;
  MPI_Datatype type;
  MPI_Type_vector((int)rows, (int)share, (int)columns, MPI_FLOAT, &type);
  MPI_Type_commit(&type);
  int code = MPI_Irecv(whole + first, 1, type, (int)from, TAG_GATHER, m->comm, request);
  MPI_Type_free(&type); /* MPI frees it after the message has arrived */
  return code;
}

static int gather(struct lls_ranks *r, const float *part, size_t rows, size_t columns,
                  bool to_all, float *whole)
{
  struct mpi *m = mpi(r);
  MPI_Request requests[2 * LLS_MAX_RANKS];
  size_t first = lls_ranks_first(columns, r->rank, r->size);
  size_t share = lls_ranks_first(columns, r->rank + 1, r->size) - first;
  bool receives = to_all || r->rank == 0;
  int n = 0, code = MPI_SUCCESS;
  for (uint32_t from = 0; receives && from < r->size && code == MPI_SUCCESS; from++)
    if (from != r->rank)
      code = receive_columns(m, from, rows, columns, whole, &requests[n++]);
  for (uint32_t to = 0; to < (to_all ? r->size : 1) && code == MPI_SUCCESS; to++)
    if (to != r->rank)
      code = MPI_Isend(part, (int)(rows * share), MPI_FLOAT, (int)to, TAG_GATHER, m->comm,
                       &requests[n++]);
  for (size_t row = 0; receives && row < rows; row++)
    memcpy(whole + row * columns + first, part + row * share, share * sizeof *part);
  return await(m, code, requests, n, false);
}

static int broadcast(struct lls_ranks *r, void *data, size_t bytes)
{
  MPI_Request request = MPI_REQUEST_NULL;
  int code = MPI_Ibcast(data, (int)bytes, MPI_BYTE, 0, mpi(r)->comm, &request);
  return await(mpi(r), code, &request, 1, r->rank > 0);
}

static int exchange(struct lls_ranks *r, const void *mine, size_t bytes, void *all)
{
  MPI_Request request = MPI_REQUEST_NULL;
  int code = MPI_Iallgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE,
                            mpi(r)->comm, &request);
  return await(mpi(r), code, &request, 1, true);
}

static void alarm_others(struct lls_ranks *r)
{
  struct mpi *m = mpi(r);
  MPI_Request requests[LLS_MAX_RANKS];
  struct lls_error why = {0};
  int n = 0, done = 0;
  lls_ranks_failed(r, &why);
  for (uint32_t to = 0; to < r->size; to++)
    if (to != r->rank)
      MPI_Isend(why.text, LLS_ERROR_MAX, MPI_CHAR, (int)to, TAG_ALARM, m->alarms,
                &requests[n++]);
  for (int64_t until_ns = now_ns() + ALARM_NS; now_ns() < until_ns; sched_yield())
    MPI_Testall(n, requests, &done, MPI_STATUSES_IGNORE);
}

static void destroy(struct lls_ranks *r)
{
  struct mpi *m = mpi(r);
  lls_ranks_watch_stop(m->watch, r->rank == 0 && m->too_long);
  if (m->end.n > 0 && lls_ranks_failed(r, NULL) == 0)
    lls_mpi_end(&m->end);
  lls_ranks_failure_fini(&m->failure);
  free(m);
}

static const struct lls_ranks_ops ops = {
    .name = "mpi",
    .sum = sum,
    .gather = gather,
    .broadcast = broadcast,
    .exchange = exchange,
    .alarm = alarm_others,
    .destroy = destroy,
};

/* ---- creation and end --------------------------------------------------------- */

static int begin(struct mpi *m, const struct lls_mpi_members *members,
                 struct lls_error *err)
{
  m->base.rank = members->self;
  m->base.size = members->n;
  m->base.local_rank = members->near.local_rank;
  m->base.local_size = members->near.local_size;
  m->base.shares_cores = members->near.shares_cores;
  m->crowded = members->near.crowded;
  if (members->end != NULL)
    m->end = *members->end;
  MPI_Comm_dup(members->comm, &m->comm);
  MPI_Comm_dup(members->comm, &m->alarms);
  MPI_Comm_set_errhandler(m->comm, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(m->alarms, MPI_ERRORS_RETURN);
  int rc = lls_ranks_watch_start(members->pids, m->base.size, &m->failure, &m->watch);
  return rc < 0 ? lls_fail(err, rc, "cannot watch the other ranks: %s", strerror(-rc))
                : 0;
}

int lls_mpi_ranks_open(const struct lls_mpi_members *members, int64_t timeout_ns,
                       struct lls_ranks **out, struct lls_error *err)
{
  struct mpi *m = calloc(1, sizeof *m);
  if (m == NULL)
    return lls_fail(err, -ENOMEM, "out of memory");
  lls_ranks_failure_init(&m->failure);
  m->base =
      (struct lls_ranks){.ops = &ops, .timeout_ns = timeout_ns, .failure = &m->failure};
  int rc = begin(m, members, err);
  if (rc < 0) { /* other ranks may have died: MPI is left running */
    lls_ranks_failure_fini(&m->failure);
    free(m);
    return rc;
  }
  *out = &m->base;
  return 0;
}
