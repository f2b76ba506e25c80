/* SPDX-License-Identifier: Apache-2.0 */
/* Finds which of the processes that a launcher has started are on the same machine. */
#ifndef LLS_RANKS_NEIGHBOURS_H
#define LLS_RANKS_NEIGHBOURS_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/error.h"

/* The greeting that processes exchange at the start. */
struct lls_hello {
  char machine[192]; /* equal on machines that share process ids */
  int pid;
  cpu_set_t cores;
  uint32_t ranks;              /* ranks per instance; 0: one instance of all processes */
  char why_not[LLS_ERROR_MAX]; /* the reason why it cannot start; "": it can */
};

struct lls_neighbours {
  uint32_t local_rank, local_size;
  bool shares_cores; /* the processes on this machine may run on the same cores */
  bool crowded;      /* there are more processes than cores that they share */
};

void lls_hello_fill(struct lls_hello *);
/* Returns 0; or -ECANCELED with the sentence of the first process that cannot start, or
 * that has another configuration. */
int lls_hello_check(const struct lls_hello *all, uint32_t size, struct lls_error *err);
/* all: (size). pids: (size) set to the ids of the processes on this machine, 0 for all
 * other ones and for this process. */
struct lls_neighbours lls_neighbours_find(const struct lls_hello *all, uint32_t size,
                                          uint32_t self, pid_t *pids);

#endif
