/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests in order of id, which is order of arrival: the lists of a step's view. An
 * array of pointers, since plan walks it; arrivals append, and a removal moves at most
 * 128 KiB with 16,000 waiting.
 */
#ifndef LLS_LOOP_REQUEST_LIST_H
#define LLS_LOOP_REQUEST_LIST_H

#include <llmserve/types.h>

struct lls_request_list {
  const struct lls_request **items; /* (capacity) ascending id */
  uint32_t n, capacity;
};

int lls_request_list_init(struct lls_request_list *, uint32_t capacity);
void lls_request_list_free(struct lls_request_list *);
void lls_request_list_insert(struct lls_request_list *, const struct lls_request *);
void lls_request_list_remove(struct lls_request_list *, const struct lls_request *);

#endif
