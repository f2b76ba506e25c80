/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests that are not on the device, waiting or swapped out, kept in a scheduler's
 * own order from step to step: sorting 16,000 of them anew in every step would take
 * longer than the rest of the plan.
 *
 * This decides which requests belong to it and when; the order is a container (ranked.h,
 * lists.h). What a plan takes out or preempts may still be refused by the core, so it is
 * noted and looked at again when the next plan begins: those not on the device by then
 * come (back) in. If the count still differs from the view's (the core planned a step
 * itself, or the scheduler is new and requests are not), everything is put in anew from
 * the view.
 *
 * Word 0 of a request's user words belongs to the container. After a reload it may still
 * say what an earlier generation wrote, so the container looks at itself as well.
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
  void *self;      /* of the container */
  uint32_t n;      /* requests in it */
  uint64_t *noted; /* (capacity) ids to look at when the next plan begins */
  uint32_t n_noted, capacity;
  bool stale; /* something is in it that should not be */
};

int lls_pol_backlog_init(struct lls_pol_backlog *, struct lls_pol_scheduler *,
                         const struct lls_pol_backlog_container *, void *self);
void lls_pol_backlog_free(struct lls_pol_backlog *);

void lls_pol_backlog_add(struct lls_pol_backlog *,
                         const struct lls_request *); /* on_arrival */
void lls_pol_backlog_remove(struct lls_pol_backlog *,
                            const struct lls_request *); /* on_finish */
void lls_pol_backlog_changed(struct lls_pol_backlog *,
                             const struct lls_request *); /* its place has */
void lls_pol_backlog_many_changed(
    struct lls_pol_backlog *); /* any number of places have */
/* Around the making of a plan. */
void lls_pol_backlog_begin(struct lls_pol_backlog *, const struct lls_step_view *);
void lls_pol_backlog_end(struct lls_pol_backlog *, const struct lls_plan *);

/* Looked at when the next plan begins. */
void lls_pol_backlog_note(struct lls_pol_backlog *, const struct lls_request *);

/* Takes r out until the next plan; false if it should not have been there. */
bool lls_pol_backlog_take(struct lls_pol_backlog *, const struct lls_request *);

/* Callbacks of a scheduler that has nothing else to do there. */
void lls_pol_backlog_on_arrival(void *self, const struct lls_request *);
void lls_pol_backlog_on_prediction(void *self, const struct lls_request *);
void lls_pol_backlog_on_finish(void *self, const struct lls_request *, uint32_t reason);
void lls_pol_backlog_on_transfer(void *self, uint64_t transfer,
                                 const struct lls_request *);

#ifdef __cplusplus
}
#endif

#endif
