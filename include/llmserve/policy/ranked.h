/* SPDX-License-Identifier: Apache-2.0 */
/* A backlog ordered by a number: smallest key first, equal keys in order of arrival. */
#ifndef LLS_POL_RANKED_H
#define LLS_POL_RANKED_H

#include <llmserve/policy/backlog.h>
#include <llmserve/policy/heap.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the key of a request. While r is in the backlog its key may change only
 * together with a call of lls_pol_backlog_changed. */
typedef int64_t lls_pol_ranked_key(void *scheduler, const struct lls_request *r);

struct lls_pol_ranked {
  struct lls_pol_backlog backlog;
  struct lls_pol_heap heap;
  lls_pol_ranked_key *key;
  struct lls_pol_scheduler *scheduler;
};

int lls_pol_ranked_init(struct lls_pol_ranked *, struct lls_pol_scheduler *,
                        lls_pol_ranked_key *);
void lls_pol_ranked_free(struct lls_pol_ranked *);

/* Takes out the first request; see lls_pol_backlog_take. */
const struct lls_request *lls_pol_ranked_pop(struct lls_pol_ranked *);

/* Writes lines such as "request 7 key 120", in order, for dump. */
void lls_pol_ranked_dump(const struct lls_pol_ranked *, const struct lls_sink *);

#ifdef __cplusplus
}
#endif

#endif
