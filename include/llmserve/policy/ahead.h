/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory ahead of need (ALISE, section 3.3): sequences are moved between device and
 * host in the order in which they will run, before their turns and while other
 * sequences compute. A scheduler that orders all requests can use it with any cache
 * manager that supports asynchronous transfers; ahead.c has the rules.
 */
#ifndef LLS_POL_AHEAD_H
#define LLS_POL_AHEAD_H

#include <llmserve/policy/priority.h>

#ifdef __cplusplus
extern "C" {
#endif

enum lls_pol_ahead_decision {
  LLS_POL_AHEAD_STAYS,
  LLS_POL_AHEAD_COMES,
  LLS_POL_AHEAD_LEAVES
};

struct lls_pol_ahead_candidate {
  const struct lls_request *request;
  int64_t level;    /* smallest first; then by ewt, then by key */
  int64_t ewt, key; /* ewt: estimated time until it runs */
  uint32_t units;   /* held on the device, or needed to be there */
  bool on_device;
  uint32_t decision; /* enum lls_pol_ahead_decision */
};

/* Sets level, ewt and key of candidate->request. */
typedef void lls_pol_ahead_rank(void *scheduler, int64_t now_ns,
                                struct lls_pol_ahead_candidate *);

struct lls_pol_ahead { /* state of one plan */
  const struct lls_step_view *view;
  struct lls_pol_ahead_candidate *jobs; /* (max_requests + LLS_POL_HEAP_LOOKED_AT) */
  uint32_t n;
  /* device units of all jobs; device units that no request holds */
  uint64_t units, free_units;
  uint64_t *leaves; /* (max_requests) by slot: 1 + the step in which the
                     * request is offloaded */
};

#define LLS_POL_AHEAD_PARAMETER(STRUCT)                                                  \
  LLS_PARAM_BOOL(STRUCT, ahead, "on",                                                    \
                 "with preempt = swap and a cache manager that can: memory is moved "    \
                 "before it is needed and while others compute",                         \
                 .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_EXPERIMENTAL)

int lls_pol_ahead_init(struct lls_pol_ahead *, uint32_t max_requests);
void lls_pol_ahead_free(struct lls_pol_ahead *);

/* Returns true if core, engine and cache manager support asynchronous transfers. */
bool lls_pol_ahead_is_possible(const struct lls_host *, const struct lls_step_view *);

/* Call it before planning. Decides which requests are uploaded and which are offloaded,
 * for at most max_seqs sequences, leaving a part of the cache's memory free. Returns
 * false if every request is on the device. */
bool lls_pol_ahead_look(struct lls_pol_ahead *, struct lls_pol_priority *,
                        const struct lls_pol_priority_params *,
                        const struct lls_step_view *, lls_pol_ahead_rank *);
/* Returns true if the plan being made offloads the request, which then must not run. */
bool lls_pol_ahead_leaves(const struct lls_pol_ahead *, const struct lls_request *);
/* Call it after planning: adds the transfers to the plan. */
void lls_pol_ahead_move(struct lls_pol_ahead *, struct lls_pol_backlog *,
                        struct lls_plan *);

/* ---- the parts of lls_pol_ahead_look ----------------------------------------------- */

void lls_pol_ahead_begin(struct lls_pol_ahead *, const struct lls_step_view *);
/* The caller must set the candidate's request, level, ewt and key. */
void lls_pol_ahead_add(struct lls_pol_ahead *, const struct lls_pol_ahead_candidate *);
/* Sorts the jobs and sets their decisions: at most `seats` are on the device, and
 * `margin` units stay free. */
void lls_pol_ahead_decide(struct lls_pol_ahead *, uint32_t seats, uint32_t margin);

#ifdef __cplusplus
}
#endif

#endif
