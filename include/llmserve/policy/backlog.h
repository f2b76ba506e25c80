/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests that are not on the device, waiting or swapped out, kept in a
 * scheduler's own order from step to step: sorting 16,000 of them again in every step
 * would take longer than the rest of the plan.
 *
 * This file decides which requests are in the backlog and when; the order is that of a
 * container (ranked.h, lists.h). The core may refuse to take out or preempt a request
 * as planned, so such requests are noted, and checked when the next plan begins: those
 * not on the device by then are inserted (again). If the number of requests still
 * differs from the view's (the core planned a step itself, or the scheduler is newer
 * than the requests), the backlog is rebuilt from the view.
 *
 * Word 0 of a request's user words belongs to the container. After a reload it may have
 * a value from an earlier generation, so the container also checks its own data.
 */
#ifndef LLS_POL_BACKLOG_H
#define LLS_POL_BACKLOG_H

#include <llmserve/policy/scheduler.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lls_pol_backlog_container {
  void (*insert)(void *self, const struct lls_request *);
  void (*remove)(void *self, const struct lls_request *);
  void (*clear)(void *self);
  bool (*has)(void *self, const struct lls_request *);
};

struct lls_pol_backlog {
  const struct lls_host *host;
  const struct lls_pol_backlog_container *container;
  void *self;      /* the container */
  uint32_t n;      /* requests in it */
  uint64_t *noted; /* (capacity) ids to check when the next plan begins */
  uint32_t n_noted, capacity;
  bool stale; /* the container holds a request that it should not */
};

int lls_pol_backlog_init(struct lls_pol_backlog *, struct lls_pol_scheduler *,
                         const struct lls_pol_backlog_container *, void *self);
void lls_pol_backlog_free(struct lls_pol_backlog *);

void lls_pol_backlog_add(struct lls_pol_backlog *,
                         const struct lls_request *); /* on_arrival */
void lls_pol_backlog_remove(struct lls_pol_backlog *,
                            const struct lls_request *); /* on_finish */
void lls_pol_backlog_changed(struct lls_pol_backlog *,
                             /* a request's place changed */
                             const struct lls_request *);
void lls_pol_backlog_many_changed(
    struct lls_pol_backlog *); /* any number of places changed */
/* Call them before and after a plan is made. */
void lls_pol_backlog_begin(struct lls_pol_backlog *, const struct lls_step_view *);
void lls_pol_backlog_end(struct lls_pol_backlog *, const struct lls_plan *);

/* Notes a request, to be checked when the next plan begins. */
void lls_pol_backlog_note(struct lls_pol_backlog *, const struct lls_request *);

/* Takes r out until the next plan. Returns false if it should not have been in the
 * backlog. */
bool lls_pol_backlog_take(struct lls_pol_backlog *, const struct lls_request *);

/* Callbacks for a scheduler that needs nothing else in them. */
void lls_pol_backlog_on_arrival(void *self, const struct lls_request *);
void lls_pol_backlog_on_prediction(void *self, const struct lls_request *);
void lls_pol_backlog_on_finish(void *self, const struct lls_request *, uint32_t reason);
void lls_pol_backlog_on_transfer(void *self, uint64_t transfer,
                                 const struct lls_request *);

#ifdef __cplusplus
}
#endif

#endif
