/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor parallel ranks: the members of a group that compute one model together, each
 * with a share of its heads and inner columns (core/engine/shard.h), its own device and
 * its own shard of the cache. Rank 0 leads: it owns the loop and the sampling.
 *
 * A `struct lls_ranks` is one rank's end of the group. Two transports implement it:
 * threads of one process (threads.c), and MPI processes (mpi.c, a module of its own, so
 * that nothing else needs MPI). Numbers are f32 in host memory; a GPU's device reduces
 * over NCCL and uses this only to begin with.
 *
 * Collective operations are called by every rank in the same order with the same sizes.
 * They all return 0, or -ECONNABORTED once the group has failed: it fails as a whole, for
 * good, and why is the sentence of the rank that failed first. None waits longer than
 * timeout_ns for others in the middle of a step, and a rank that has ended is noticed at
 * once, so that no death leaves the rest hanging.
 *
 * Threads. Everything is called by the rank's own thread, but for lls_ranks_fail and
 * lls_ranks_failed [any].
 */
#ifndef LLS_RANKS_RANKS_H
#define LLS_RANKS_RANKS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/channel/channel.h"

#define LLS_MAX_RANKS 256

struct lls_ranks;

struct lls_ranks_ops {
  const char *name; /* "threads", "mpi" */
  /* x (n) becomes the sum of all ranks' x. */
  int (*sum)(struct lls_ranks *, float *x, size_t n);
  /* The ranks' columns side by side: part (rows, share of columns), whole (rows,
   * columns) where it is wanted: on rank 0, or on all. */
  int (*gather)(struct lls_ranks *, const float *part, size_t rows, size_t columns,
                bool to_all, float *whole);
  /* Rank 0's data on all. The others wait for it as long as it takes. */
  int (*broadcast)(struct lls_ranks *, void *data, size_t bytes);
  /* all (size, bytes): what each rank has to say. Waits as long as it takes. */
  int (*exchange)(struct lls_ranks *, const void *mine, size_t bytes, void *all);
  /* Tells the other ranks of a failure that is only known here; may be NULL. [any] */
  void (*alarm)(struct lls_ranks *);
  /* After a failure too. */
  void (*destroy)(struct lls_ranks *);
};

/* Why a group has failed; shared by all ranks of a process. */
struct lls_ranks_failure {
  pthread_mutex_t lock;
  _Atomic bool failed;
  struct lls_error error;
  void (*notify)(void *context); /* [any] once, when it fails; must not block */
  void *context;
};

struct lls_ranks {
  const struct lls_ranks_ops *ops;
  uint32_t rank, size;
  uint32_t local_rank, local_size; /* among those on this machine */
  bool shares_cores;               /* those on this machine may run on the same cores */
  int64_t timeout_ns;              /* longest wait in the middle of a step */
  _Atomic int64_t waits_since_ns;  /* for others, in the middle of one; 0: it does not */
  struct lls_ranks_failure *failure;
};

/* The first of `count` things that fall to a rank; those of rank end where rank + 1's
 * begin. */
static inline size_t lls_ranks_first(size_t count, uint32_t rank, uint32_t size)
{
  return count * rank / size;
}

/* The group fails, unless it has already; "rank N: " is put before the sentence. */
void lls_ranks_fail(struct lls_ranks *, const char *sentence);
/* -ECONNABORTED with the sentence if the group has failed, else 0. */
int lls_ranks_failed(const struct lls_ranks *, struct lls_error *err);

void lls_ranks_failure_init(struct lls_ranks_failure *);
void lls_ranks_failure_fini(struct lls_ranks_failure *);
/* Records the first sentence; true if it was that. */
bool lls_ranks_failure_set(struct lls_ranks_failure *, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* [any] Sets the listener to a failure; it is called at once if that has happened. NULL
 * = none. */
void lls_ranks_on_failure(struct lls_ranks *, void (*notify)(void *context),
                          void *context);

/* Confines the calling thread, and those it starts, to the index-th of so many parts of
 * the cores that it may use; leaves it as it is where they are fewer. */
void lls_cores_take(uint32_t index, uint32_t parts);
/* To its rank's part of the cores that it shares with others. */
void lls_ranks_take_cores(const struct lls_ranks *);

/* The ranks of one process: handles (size), each for a thread of its own and each to be
 * destroyed; the group goes with the last. */
int lls_ranks_threads(uint32_t size, int64_t timeout_ns, struct lls_ranks **handles,
                      struct lls_error *err);

/* ---- MPI ---------------------------------------------------------------------- */

/* A process's place where instances are processes. */
struct lls_ranks_instance {
  struct lls_channel *channel; /* to those of the same rank in the other instances */
  /* NULL where an instance has one rank: */
  struct lls_ranks *ranks;    /* of this instance, */
  struct lls_channel *within; /* and to them, by rank */
};

/* The symbol lls_ranks_module of the module ranks_mpi.so. */
struct lls_ranks_module {
  uint32_t size;
  const char *version;
  int (*open)(int64_t timeout_ns, struct lls_ranks **out, struct lls_error *err);
  int (*open_instance)(uint32_t ranks, int64_t timeout_ns, struct lls_ranks_instance *out,
                       struct lls_error *err);
  bool (*decline)(const char *why, bool *first);
};

#define LLS_RANKS_MODULE_SYMBOL "lls_ranks_module"

/* How many processes the launcher (mpirun, srun) started; 0 without one. */
uint32_t lls_ranks_launched(void);
/* [main] This process's end of the group that the launcher started. -ENOENT if this
 * build has no MPI. Once in a process. */
int lls_ranks_mpi(int64_t timeout_ns, struct lls_ranks **out, struct lls_error *err);
/* [main] The same where processes are instances of so many ranks each
 * (core/channel/channel.h): those of one follow each other. -ECANCELED: it is for process
 * 0 to say why. */
int lls_ranks_mpi_instance(uint32_t ranks, int64_t timeout_ns,
                           struct lls_ranks_instance *out, struct lls_error *err);

/* [main] Instead of both, where this process cannot begin, for which the others would
 * wait: both fail there, with -ECANCELED. True: process 0 says why; else it is to be said
 * here. */
bool lls_ranks_mpi_decline(const char *why);
/* [any] The launcher's process 0, or the only one. */
bool lls_ranks_is_first(void);

#endif
