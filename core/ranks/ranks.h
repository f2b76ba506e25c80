/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor parallel ranks: the members of a group that compute one model together, each
 * with a share of its heads and inner columns (core/engine/shard.h), its own device and
 * its own shard of the cache. Rank 0 leads: it has the loop and the sampling.
 *
 * A `struct lls_ranks` is one rank's end of the group. Two transports implement it:
 * threads of one process (threads.c), and MPI processes (mpi.c, a module of its own, so
 * that no other code needs MPI). Data is f32 in host memory; a GPU's device reduces
 * over NCCL and uses this interface only to start.
 *
 * Every rank calls collective operations in the same order with the same sizes. They
 * all return 0, or -ECONNABORTED once the group has failed: it fails as a whole,
 * permanently, with the sentence of the rank that failed first. In the middle of a step
 * no operation waits longer than timeout_ns for other ranks, and the end of a rank is
 * noticed at once, so no death leaves other ranks hanging.
 *
 * Threads. All functions are called by the rank's own thread, except lls_ranks_fail and
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
  bool one_process; /* a rank's addresses are those of all */
  /* x (n) becomes the sum of all ranks' x. */
  int (*sum)(struct lls_ranks *, float *x, size_t n);
  /* Concatenates the ranks' columns: part (rows, share of columns), whole (rows,
   * columns) on rank 0, or with to_all on all ranks. */
  int (*gather)(struct lls_ranks *, const float *part, size_t rows, size_t columns,
                bool to_all, float *whole);
  /* Copies rank 0's data to all ranks, which wait for it without a time limit. */
  int (*broadcast)(struct lls_ranks *, void *data, size_t bytes);
  /* all: (size, bytes) the data of every rank. Waits without a time limit. */
  int (*exchange)(struct lls_ranks *, const void *mine, size_t bytes, void *all);
  /* Sends a failure that is only known here to the other ranks; may be NULL. [any] */
  void (*alarm)(struct lls_ranks *);
  /* May be called after a failure. */
  void (*destroy)(struct lls_ranks *);
};

/* Why a group has failed; shared by all ranks of a process. */
struct lls_ranks_failure {
  pthread_mutex_t lock;
  _Atomic bool failed;
  struct lls_error error;
  void (*notify)(void *context); /* [any] called once, when the group fails; must not
                                  * block */
  void *context;
};

struct lls_ranks {
  const struct lls_ranks_ops *ops;
  uint32_t rank, size;
  uint32_t local_rank, local_size; /* index and number among the ranks on this machine */
  bool shares_cores;               /* the ranks on this machine may run on the same
                                    * cores */
  int64_t timeout_ns;              /* longest wait in the middle of a step */
  _Atomic int64_t waits_since_ns;  /* when its wait in the middle of a step began; 0:
                                    * it does not wait */
  struct lls_ranks_failure *failure;
};

/* Returns the first of `count` items that belong to a rank; a rank's items end where
 * those of the next rank begin. */
static inline size_t lls_ranks_first(size_t count, uint32_t rank, uint32_t size)
{
  return count * rank / size;
}

/* Makes the group fail, unless it has failed already; "rank N: " is prepended to the
 * sentence. */
void lls_ranks_fail(struct lls_ranks *, const char *sentence);
/* -ECONNABORTED with the sentence if the group has failed, else 0. */
int lls_ranks_failed(const struct lls_ranks *, struct lls_error *err);

void lls_ranks_failure_init(struct lls_ranks_failure *);
void lls_ranks_failure_fini(struct lls_ranks_failure *);
/* Records the first failure's sentence. Returns true if this was the first. */
bool lls_ranks_failure_set(struct lls_ranks_failure *, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* [any] Sets the listener to a failure; it is called at once if the group has failed
 * already. NULL = none. */
void lls_ranks_on_failure(struct lls_ranks *, void (*notify)(void *context),
                          void *context);

/* Confines the calling thread, and threads it starts, to the index-th of `parts` parts
 * of the cores that it may use, in the order of their NUMA nodes: two parts of a machine
 * with two sockets are its sockets. Does nothing if there are fewer cores than parts. */
void lls_cores_take(uint32_t index, uint32_t parts);
/* Confines the calling thread to its rank's part of the cores shared with other ranks. */
void lls_ranks_take_cores(const struct lls_ranks *);

/* Creates the ranks of one process: handles (size), each for its own thread and each to
 * be destroyed; the last one frees the group. */
int lls_ranks_threads(uint32_t size, int64_t timeout_ns, struct lls_ranks **handles,
                      struct lls_error *err);

/* ---- MPI ---------------------------------------------------------------------- */

/* A process's place if instances are processes. */
struct lls_ranks_instance {
  /* channel to the processes with the same rank in other instances */
  struct lls_channel *channel;
  /* NULL if an instance has one rank: */
  struct lls_ranks *ranks;    /* the ranks of this instance, */
  struct lls_channel *within; /* channel to the ranks of this instance, by rank */
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

/* Returns the number of processes that the launcher (mpirun, srun) started; 0 without a
 * launcher. */
uint32_t lls_ranks_launched(void);
/* [main] Joins the group that the launcher started, once per process. Returns -ENOENT
 * if this build has no MPI. */
int lls_ranks_mpi(int64_t timeout_ns, struct lls_ranks **out, struct lls_error *err);
/* [main] Like lls_ranks_mpi, if processes form instances of `ranks` consecutive
 * processes each (core/channel/channel.h). Returns -ECANCELED if process 0 reports the
 * reason. */
int lls_ranks_mpi_instance(uint32_t ranks, int64_t timeout_ns,
                           struct lls_ranks_instance *out, struct lls_error *err);

/* [main] Call it instead of both if this process cannot start: in the waiting processes
 * both then fail with -ECANCELED. Returns true if process 0 reports the reason; else
 * the caller must. */
bool lls_ranks_mpi_decline(const char *why);
/* [any] Returns true for the launcher's process 0, or the only process. */
bool lls_ranks_is_first(void);

#endif
