/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of a queue that a plan looks at one by one. Where more wait than `most` these
 * are the first half that came and the last one: those who came last are in time, those
 * who came first have waited longest, and those between come to be the first. So a plan
 * costs no more, however long the queue is: under overload 16,000 requests took accelgen
 * 19 times as long to simulate as 4,000, for each step looked at all that waited.
 *
 * Between them wait streams that were dropped, at their old places. They would not be
 * found again before those around them have come and gone: with 25,000 that waited one
 * stood still for 36 s where 10 were the most. Each is known by its id: those that the
 * scheduler's own plans take off at once; those that others have dropped, the core or
 * another instance, while 64 of those between are looked at each time, in turn. No more
 * than 64 of them take part in a plan, in turn: under overload bros has so many that all
 * of them made a simulation twice as long.
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
  uint64_t *ids;   /* (max_requests) by slot: the stream that was dropped, 0: none */
  uint32_t *slots; /* (n) theirs */
  uint32_t n;
  uint32_t turn; /* of them: who takes part next */
  uint32_t next; /* of those between: where the next look begins */
  /* that take part now, with the urgent */
  const struct lls_request *found[LLS_POL_DROPPED_ROUND + 2 * LLS_POL_URGENT];
};

int lls_pol_dropped_init(struct lls_pol_dropped *, const struct lls_host *);
void lls_pol_dropped_free(struct lls_pol_dropped *);
/* The plan is made: streams that it takes off are known from now on. */
void lls_pol_dropped_planned(struct lls_pol_dropped *, const struct lls_plan *);

struct lls_pol_ends {
  const struct lls_request *const *first; /* (n_first) in order */
  /* (n_between) dropped streams and urgent requests behind them, before the last */
  const struct lls_request *const *between;
  const struct lls_request *const *last; /* (n_last) in order, none of the first */
  uint32_t n_first, n_between, n_last;
};

/* The ends of view->waiting, with the urgent (or NULL); valid until the next call. */
struct lls_pol_ends lls_pol_ends_of(struct lls_pol_dropped *, struct lls_pol_urgent *,
                                    const struct lls_step_view *, int64_t most);

/* A parameter int64_t `look`. */
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
