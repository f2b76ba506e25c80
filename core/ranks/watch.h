/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notices at once that a rank's process on this machine has ended, whatever ended it: the
 * kernel says so through a pidfd. For processes on other machines the launcher and the
 * longest wait of a step have to do.
 */
#ifndef LLS_RANKS_WATCH_H
#define LLS_RANKS_WATCH_H

#include <sys/types.h>

#include "core/ranks/ranks.h"

struct lls_ranks_watch;

/* pids (size) of those on this machine, 0 of the others and of one's own. The end of one
 * is the group's failure. */
int lls_ranks_watch_start(const pid_t *pids, uint32_t size, struct lls_ranks_failure *,
                          struct lls_ranks_watch **out);
/* hung: those that have not ended a little later are killed: a launcher that leaves the
 * others alone when one ends would wait for one that is stopped. */
void lls_ranks_watch_stop(struct lls_ranks_watch *, bool hung);

#endif
