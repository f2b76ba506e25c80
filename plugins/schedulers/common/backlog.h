/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests that are not on the device, waiting or swapped out, kept in a scheduler's
 * own order from step to step: sorting 16,000 of them anew in every step would take
 * longer than the rest of the plan.
 *
 * Here is who belongs to it and when; the order is a container (ranked.h, lists.h). What
 * a plan takes out or preempts may still be refused by the core, so it is noted and
 * looked at again when the next plan begins: whoever is not on the device by then comes
 * (back) in. If the count still differs from the view's (the core planned a step itself,
 * or the scheduler is new and requests are not), everything is put in anew from the view.
 *
 * Word 0 of a request's user words belongs to the container: 0 means not in it.
 */
#ifndef BACKLOG_H
#define BACKLOG_H

#include "scheduler.h"

struct backlog_container {
  void (*insert)(void *self, const struct lls_request *);
  void (*remove)(void *self, const struct lls_request *);
  void (*clear)(void *self);
};

struct backlog {
  const struct lls_host *host;
  const struct backlog_container *container;
  void *self;      /* of the container */
  uint32_t n;      /* requests in it */
  uint64_t *noted; /* (capacity) ids to look at when the next plan begins */
  uint32_t n_noted, capacity;
  bool stale; /* something is in it that should not be */
};

int backlog_init(struct backlog *, struct scheduler *, const struct backlog_container *,
                 void *self);
void backlog_free(struct backlog *);

void backlog_add(struct backlog *, const struct lls_request *);     /* on_arrival */
void backlog_remove(struct backlog *, const struct lls_request *);  /* on_finish */
void backlog_changed(struct backlog *, const struct lls_request *); /* its place has */
void backlog_many_changed(struct backlog *); /* any number of places have */
/* Around the making of a plan. */
void backlog_begin(struct backlog *, const struct lls_step_view *);
void backlog_end(struct backlog *, const struct lls_plan *);

/* Looked at when the next plan begins. */
void backlog_note(struct backlog *, const struct lls_request *);

/* Takes r out until the next plan; false if it should not have been there. */
bool backlog_take(struct backlog *, const struct lls_request *);

/* Callbacks of a scheduler that has nothing else to do there. */
void backlog_on_arrival(void *self, const struct lls_request *);
void backlog_on_prediction(void *self, const struct lls_request *);
void backlog_on_finish(void *self, const struct lls_request *, uint32_t reason);
void backlog_on_transfer(void *self, uint64_t transfer, const struct lls_request *,
                         uint32_t status);

#endif
