/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests in order of id, which is order of arrival: the lists of a step's view. An
 * array of pointers, since plan walks it; arrivals append, and a removal moves whichever
 * side of it is shorter: nothing at all for the first that came, which most policies
 * take, where moving all that come after it made long queues quadratic.
 */
#ifndef LLS_INSTANCE_REQUEST_LIST_H
#define LLS_INSTANCE_REQUEST_LIST_H

#include <llmserve/types.h>

struct lls_request_list {
  const struct lls_request **items; /* (n) ascending id, somewhere in `room` */
  const struct lls_request **room;  /* (2 x capacity) */
  uint32_t n, capacity;
};

int lls_request_list_init(struct lls_request_list *, uint32_t capacity);
void lls_request_list_free(struct lls_request_list *);
void lls_request_list_insert(struct lls_request_list *, const struct lls_request *);
void lls_request_list_remove(struct lls_request_list *, const struct lls_request *);

#endif
