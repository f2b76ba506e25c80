/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests in order of id, which is order of arrival: the lists of a step's view. They
 * are arrays of pointers, since plan walks them. An arrival is appended. A removal moves
 * the shorter side: nothing if the first request leaves, the usual case in most
 * policies. (Moving all later requests made long queues quadratic.)
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
