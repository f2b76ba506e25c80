/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which instances this process gets no blocks from, although both reach process 0: a
 * network may be cut between any two. An instance from which no piece has arrived for
 * LLS_APART_NS while one was due is apart. Then nothing is ordered from it but an empty
 * piece now and then, until a piece of it arrives. All functions are the channel
 * thread's.
 */
#ifndef LLS_CLUSTER_APART_H
#define LLS_CLUSTER_APART_H

#include <stdbool.h>
#include <stdint.h>

#include "core/config/instance_list.h"

#define LLS_APART_NS INT64_C(2000000000)

struct lls_apart {
  int64_t looked_ns; /* 0: not yet */
  struct {
    int64_t due_ns, tried_ns; /* time that a piece has been due; time of the last try */
    bool apart, new_state;    /* new_state: lls_apart_news has not returned it */
  } of[LLS_MAX_INSTANCES];
};

/* Advances the clock. Returns the time since the last call, without most of the time in
 * which this process itself did not run. */
int64_t lls_apart_look(struct lls_apart *, int64_t now_ns);
/* Adds the time that lls_apart_look has returned, if a piece of the instance is due.
 * Returns true if the instance is apart from now on. */
bool lls_apart_wait(struct lls_apart *, uint32_t from, bool due, int64_t passed_ns);
/* A piece has arrived. */
void lls_apart_arrived(struct lls_apart *, uint32_t from);
/* Resets an instance's record, because another process has its place. */
void lls_apart_forget(struct lls_apart *, uint32_t from);

static inline bool lls_is_apart(const struct lls_apart *a, uint32_t from)
{
  return a->of[from].apart;
}

/* Returns true if an empty piece should be ordered of the instance now. */
bool lls_apart_try(struct lls_apart *, uint32_t from);
/* Gets an instance that has become apart, or is no longer so. Returns false if there is
 * none. */
bool lls_apart_news(struct lls_apart *, uint32_t *from);

#endif
