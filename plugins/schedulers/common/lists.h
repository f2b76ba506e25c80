/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A backlog of several queues, each first come, first served: by class, by tenant. Who is
 * preempted goes back to its place by arrival, or, if the owner wants that, to the end.
 */
#ifndef LISTS_H
#define LISTS_H

#include "backlog.h"

typedef uint32_t lists_group(void *scheduler, const struct lls_request *r);

/* The group's queue has become empty, or is no longer. */
typedef void lists_emptied(void *scheduler, uint32_t group, bool empty);

struct lists {
  struct backlog backlog;
  lists_group *group;     /* of a request, below n_groups; never changes */
  lists_emptied *emptied; /* optional; set it and by_entry after lists_init */
  struct scheduler *scheduler;
  bool by_entry; /* in the order they entered the queue, not of arrival */
  uint32_t n_groups;
  struct lists_end *ends;   /* (n_groups) */
  struct lists_node *nodes; /* (max_requests) by slot */
};

int lists_init(struct lists *, struct scheduler *, uint32_t n_groups, lists_group *);
void lists_free(struct lists *);

/* The head of a queue, NULL if it is empty; take it out with backlog_take. */
const struct lls_request *lists_first(const struct lists *, uint32_t group);
uint32_t lists_length(const struct lists *, uint32_t group);
/* Takes the head out, see backlog_take. */
const struct lls_request *lists_pop(struct lists *, uint32_t group);

/* "group 1 request 7", in order. For dump. */
void lists_dump(const struct lists *, const struct lls_sink *);

#endif
