/* SPDX-License-Identifier: Apache-2.0 */
/* A backlog by a number: smallest key first, equal ones in order of arrival. */
#ifndef RANKED_H
#define RANKED_H

#include "backlog.h"
#include "heap.h"

/* The key of a request. While r is in the backlog it may change only through
 * backlog_changed. */
typedef int64_t ranked_key(void *scheduler, const struct lls_request *r);

struct ranked {
  struct backlog backlog;
  struct heap heap;
  ranked_key *key;
  struct scheduler *scheduler;
};

int ranked_init(struct ranked *, struct scheduler *, ranked_key *);
void ranked_free(struct ranked *);

/* The first, NULL if there is none, and its key. */
const struct lls_request *ranked_first(struct ranked *, int64_t *key);
/* Takes it out, see backlog_take. */
const struct lls_request *ranked_pop(struct ranked *);

/* "request 7 key 120", in order. For dump. */
void ranked_dump(const struct ranked *, const struct lls_sink *);

#endif
