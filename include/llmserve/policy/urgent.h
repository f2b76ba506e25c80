/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting requests that no plan may overlook, however many others wait: those with a
 * deadline, by due time, and those that weigh more than ordinary ones, by level. A plan
 * that looks at a part of a long queue (ends.h) looks at the first LLS_POL_URGENT of each
 * list as well. With the ends alone, 60 requests due in 25 s were lost from sight among
 * 3,000 others: half of them were late, though there was time for all.
 *
 * A list keeps its first LLS_POL_URGENT entries sorted, the others in a heap, so that a
 * plan reads them in order without taking anything out. A request is in a list from its
 * arrival until it has ended, has its first token (a stream that loses its memory is
 * found by ends.h), or its due time has passed: a lost deadline is none, and the request
 * waits among those without.
 */
#ifndef LLS_POL_URGENT_H
#define LLS_POL_URGENT_H

#include <llmserve/plugin.h>
#include <llmserve/policy/heap.h>
#include <llmserve/scheduler.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LLS_POL_URGENT          512       /* requests of a list that a plan looks at */
#define LLS_POL_URGENT_ORDINARY INT32_MAX /* level of a request in no list of levels */

struct lls_pol_urgent_entry {
  int64_t key;
  const struct lls_request *request;
};

/* Any number of requests, the smallest (key, id) first. */
struct lls_pol_urgent_list {
  struct lls_pol_urgent_entry *near; /* (LLS_POL_URGENT) sorted; none of far is before */
  uint32_t n_near;
  struct lls_pol_heap far;
  int64_t *keys; /* (max_requests) by slot: of the request that is in the list */
  uint64_t *ids; /* (max_requests) by slot: its id + 1, 0: none of the slot's is in it */
  uint64_t *places; /* (max_requests) by slot: its place in far, see heap.h */
};

struct lls_pol_urgent {
  struct lls_pol_urgent_list due, level;
  /* (2 * LLS_POL_URGENT) found by the last look */
  const struct lls_request **found;
};

/* -ENOMEM. */
int lls_pol_urgent_init(struct lls_pol_urgent *, uint32_t max_requests);
void lls_pol_urgent_free(struct lls_pol_urgent *);

/*
 * A request has arrived. due_ns: when it has to begin or end, LLS_NEVER or INT64_MAX: it
 * has no deadline; level: the smaller the sooner, LLS_POL_URGENT_ORDINARY: as soon as all
 * others.
 */
void lls_pol_urgent_arrived(struct lls_pol_urgent *, const struct lls_request *,
                            int64_t due_ns, int32_t level);
/* It has ended, or lives on in another instance. */
void lls_pol_urgent_finished(struct lls_pol_urgent *, const struct lls_request *);

/*
 * Sets u->found to the first of both lists that wait with an id between after and before,
 * each once; how many there are. Whatever belongs in a list no more leaves it.
 */
uint32_t lls_pol_urgent_find(struct lls_pol_urgent *, int64_t now_ns, uint64_t after,
                             uint64_t before);

#ifdef __cplusplus
}
#endif

#endif
