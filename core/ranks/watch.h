/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notices at once that a rank's process on this machine has ended, for whatever reason:
 * the kernel reports it through a pidfd. For processes on other machines there are only
 * the launcher and the time limit of waits in a step.
 */
#ifndef LLS_RANKS_WATCH_H
#define LLS_RANKS_WATCH_H

#include <sys/types.h>

#include "core/ranks/ranks.h"

struct lls_ranks_watch;

/* pids: (size) the ids of processes on this machine, 0 for all other ones and for this
 * process. The end of one of them is a failure of the group. */
int lls_ranks_watch_start(const pid_t *pids, uint32_t size, struct lls_ranks_failure *,
                          struct lls_ranks_watch **out);
/* hung: kill the processes that have not ended shortly afterwards, since a launcher
 * that survives the end of a process would wait for a stopped one. */
void lls_ranks_watch_stop(struct lls_ranks_watch *, bool hung);

#endif
