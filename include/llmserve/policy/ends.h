/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of a queue that a plan examines. If more than `most` requests wait, it is
 * the first half of `most` and the last one: the last requests are those that can still
 * meet a deadline, the first have waited longest, and requests in the middle move to
 * the front. So a plan's cost is bounded, however long the queue is: under overload,
 * 16,000 requests took accelgen 19 times as long to simulate as 4,000, because each
 * step examined all waiting requests.
 *
 * In the middle there are also streams that were preempted and lost their memory, at
 * their old places in the queue. They would only be found when the requests before them
 * are gone: with 25,000 waiting requests one stream stood still for 36 s instead of at
 * most 10. They are found by id: streams preempted by the scheduler's own plans at
 * once; those preempted by the core or another instance by checking 64 requests of the
 * middle in each plan, in turn. At most 64 such streams take part in a plan, in turn:
 * under overload bros has so many that examining all of them doubled the time of a
 * simulation.
 */
#ifndef LLS_POL_ENDS_H
#define LLS_POL_ENDS_H

#include <llmserve/host.h>
#include <llmserve/plugin.h>
#include <llmserve/policy/urgent.h>
#include <llmserve/scheduler.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LLS_POL_DROPPED_ROUND 64

struct lls_pol_dropped {
  const struct lls_host *host;
  uint64_t *ids;   /* (max_requests) by slot: the id of a dropped stream, 0: none */
  uint32_t *slots; /* (n) the slots of dropped streams */
  uint32_t n;
  uint32_t turn; /* index in slots of the next stream to take part */
  uint32_t next; /* index in the middle where the next check begins */
  /* requests that take part in this plan, with the urgent ones */
  const struct lls_request *found[LLS_POL_DROPPED_ROUND + 2 * LLS_POL_URGENT];
};

int lls_pol_dropped_init(struct lls_pol_dropped *, const struct lls_host *);
void lls_pol_dropped_free(struct lls_pol_dropped *);
/* Call it after planning: notes the streams that the plan preempts. */
void lls_pol_dropped_planned(struct lls_pol_dropped *, const struct lls_plan *);

struct lls_pol_ends {
  const struct lls_request *const *first; /* (n_first) in order */
  /* (n_between) dropped streams and urgent requests after the first and before the
   * last */
  const struct lls_request *const *between;
  const struct lls_request *const *last; /* (n_last) in order, none of the first */
  uint32_t n_first, n_between, n_last;
};

/* Returns the ends of view->waiting, with the urgent requests unless urgent is NULL;
 * valid until the next call. */
struct lls_pol_ends lls_pol_ends_of(struct lls_pol_dropped *, struct lls_pol_urgent *,
                                    const struct lls_step_view *, int64_t most);

/* A parameter for the member int64_t look. */
#define LLS_POL_ENDS_LOOK(STRUCT)                                                        \
  LLS_PARAM_INT(STRUCT, look, "4096", 2, 1e6, "requests",                                \
                "most waiting requests that a plan looks at: where more wait, the "      \
                "first half that came and the last, streams that were dropped, and the " \
                "512 with a deadline that are due first",                                \
                .flags = LLS_PARAM_RELOADABLE)

#ifdef __cplusplus
}
#endif

#endif
