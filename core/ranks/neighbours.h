/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the processes that a launcher has started are on the same machine. */
#ifndef LLS_RANKS_NEIGHBOURS_H
#define LLS_RANKS_NEIGHBOURS_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/error.h"

/* The greeting that processes exchange at the start. */
struct lls_hello {
  char machine[192]; /* the same where process ids mean the same */
  int pid;
  cpu_set_t cores;
  uint32_t ranks;              /* of each instance; 0: there is one, of all processes */
  char why_not[LLS_ERROR_MAX]; /* it cannot begin; "": it can */
};

struct lls_neighbours {
  uint32_t local_rank, local_size;
  bool shares_cores; /* those on this machine may run on the same cores */
  bool crowded;      /* and they are more than these */
};

void lls_hello_fill(struct lls_hello *);
/* -ECANCELED with the sentence of the first that cannot begin, or that is configured to
 * be something else. */
int lls_hello_check(const struct lls_hello *all, uint32_t size, struct lls_error *err);
/* all (size); pids (size) of those on this machine, 0 of others and of one's own. */
struct lls_neighbours lls_neighbours_find(const struct lls_hello *all, uint32_t size,
                                          uint32_t self, pid_t *pids);

#endif
