/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A backlog of several queues, each first come, first served: by class, by tenant. A
 * preempted request returns to its place by arrival, or, with by_entry, to the end.
 */
#ifndef LLS_POL_LISTS_H
#define LLS_POL_LISTS_H

#include <llmserve/policy/backlog.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef uint32_t lls_pol_lists_group(void *scheduler, const struct lls_request *r);

/* The group's queue became empty, or non-empty. */
typedef void lls_pol_lists_emptied(void *scheduler, uint32_t group, bool empty);

struct lls_pol_lists {
  struct lls_pol_backlog backlog;
  lls_pol_lists_group *group; /* returns a request's group, below n_groups, always the
                               * same */
  lls_pol_lists_emptied
      *emptied; /* optional; set it and by_entry after lls_pol_lists_init */
  struct lls_pol_scheduler *scheduler;
  bool by_entry; /* ordered by entry into the queue instead of by arrival */
  uint32_t n_groups;
  struct lls_pol_lists_end *ends;   /* (n_groups) */
  struct lls_pol_lists_node *nodes; /* (max_requests) by slot */
};

int lls_pol_lists_init(struct lls_pol_lists *, struct lls_pol_scheduler *,
                       uint32_t n_groups, lls_pol_lists_group *);
void lls_pol_lists_free(struct lls_pol_lists *);

/* Returns the head of a queue, NULL if it is empty; take it out with
 * lls_pol_backlog_take. */
const struct lls_request *lls_pol_lists_first(const struct lls_pol_lists *,
                                              uint32_t group);
uint32_t lls_pol_lists_length(const struct lls_pol_lists *, uint32_t group);
/* Takes out the head; see lls_pol_backlog_take. */
const struct lls_request *lls_pol_lists_pop(struct lls_pol_lists *, uint32_t group);

/* Writes lines such as "group 1 request 7", in order, for dump. */
void lls_pol_lists_dump(const struct lls_pol_lists *, const struct lls_sink *);

#ifdef __cplusplus
}
#endif

#endif
