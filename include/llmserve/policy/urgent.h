/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting requests that every plan must consider, however many others wait: those with
 * a deadline, by due time, and those with a higher weight than ordinary ones, by level.
 * A plan that examines a part of a long queue (ends.h) also examines the first
 * LLS_POL_URGENT of each list. With the ends alone, 60 requests due in 25 s were not
 * seen among 3,000 others: half of them were late, though there was time for all.
 *
 * A list keeps its first LLS_POL_URGENT entries sorted and all others in a heap, so
 * that a plan reads them in order without removing any. A request is in a list from its
 * arrival until it has ended, has its first token (ends.h finds a stream that loses its
 * memory), or its due time has passed: a missed deadline no longer counts, and the
 * request waits like one without a deadline.
 */
#ifndef LLS_POL_URGENT_H
#define LLS_POL_URGENT_H

#include <llmserve/plugin.h>
#include <llmserve/policy/heap.h>
#include <llmserve/scheduler.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LLS_POL_URGENT          512       /* requests of a list that a plan examines */
#define LLS_POL_URGENT_ORDINARY INT32_MAX /* level of a request in no list of levels */

struct lls_pol_urgent_entry {
  int64_t key;
  const struct lls_request *request;
};

/* Any number of requests, the smallest (key, id) first. */
struct lls_pol_urgent_list {
  struct lls_pol_urgent_entry *near; /* (LLS_POL_URGENT) sorted; no entry of far
                                      * precedes one of these */
  uint32_t n_near;
  struct lls_pol_heap far;
  int64_t *keys; /* (max_requests) by slot: the key of the slot's request in the list */
  uint64_t *ids; /* (max_requests) by slot: the request's id + 1; 0: none in the list */
  uint64_t *places; /* (max_requests) by slot: its position in far, see heap.h */
};

struct lls_pol_urgent {
  struct lls_pol_urgent_list due, level;
  /* (2 * LLS_POL_URGENT) results of the last find */
  const struct lls_request **found;
};

/* Returns 0 or -ENOMEM. */
int lls_pol_urgent_init(struct lls_pol_urgent *, uint32_t max_requests);
void lls_pol_urgent_free(struct lls_pol_urgent *);

/*
 * Call it when a request arrives. due_ns: when the request must begin or end; LLS_NEVER
 * or INT64_MAX: no deadline. level: smaller is sooner; LLS_POL_URGENT_ORDINARY: no
 * priority over other requests.
 */
void lls_pol_urgent_arrived(struct lls_pol_urgent *, const struct lls_request *,
                            int64_t due_ns, int32_t level);
/* Call it when a request has ended, or was handed over to another instance. */
void lls_pol_urgent_finished(struct lls_pol_urgent *, const struct lls_request *);

/*
 * Sets u->found to the first waiting requests of both lists with an id between after
 * and before, each once. Returns their number. Requests that no longer belong in a list
 * are removed.
 */
uint32_t lls_pol_urgent_find(struct lls_pol_urgent *, int64_t now_ns, uint64_t after,
                             uint64_t before);

#ifdef __cplusplus
}
#endif

#endif
