/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decision log: what a run's scheduler was asked and what it answered, as lines of
 * text. Requests are numbered by arrival, from 1.
 *
 *   A number time_ns prompt max_new class priority tenant    it arrived
 *   P time_ns item item ...    a plan; items by request: r N:TOKENS, p N:MODE, x N:REASON
 *                              (run, preempt, reject), other kinds by their number
 *   =N                         the plan before, N times more, each some time later
 *
 * A run that is given such a log compares its plans with it, one by one. Where the first
 * one differs the two schedulers part: from there on their requests are not in the same
 * state and nothing is compared any more. Times count too, since a scheduler that plans
 * alike lets the same time pass. Plans that do nothing are left out.
 */
#ifndef LLS_SIM_TOOL_DECISIONS_H
#define LLS_SIM_TOOL_DECISIONS_H

#include <llmserve/scheduler.h>

#include <jansson.h>
#include <stdio.h>

#include "core/base/error.h"
#include "core/base/text.h"

struct lls_decisions {
  FILE *record;  /* NULL: not recorded */
  FILE *against; /* NULL: not compared */
  const char *against_path;
  uint32_t slots; /* an id's sequence number is id / slots: see core/loop/request.h */
  struct lls_text plan;     /* items of this plan, */
  struct lls_text previous; /* of the one recorded before, */
  struct lls_text expected; /* of the log's at this place, */
  struct lls_text other;    /* and of the one that was not as expected */
  uint64_t repeated;        /* plans recorded as being like `previous` */
  uint64_t left;            /* repeats left in the log's last line */
  uint64_t compared;        /* plans that were alike */
  bool parted;
  int64_t parted_ns;
};

/* Paths may be "". -errno with the sentence; nothing to close then. */
int lls_decisions_open(struct lls_decisions *, const char *record, const char *against,
                       struct lls_error *err);
/* -EIO if what was recorded could not be written. */
int lls_decisions_close(struct lls_decisions *, struct lls_error *err);

void lls_decisions_arrival(struct lls_decisions *, const struct lls_request *);
void lls_decisions_plan(struct lls_decisions *, int64_t now_ns, const struct lls_plan *);

/* Where the two parted, one paragraph. */
void lls_decisions_print(const struct lls_decisions *, FILE *out);
/* The same for the report; NULL where nothing was compared. */
json_t *lls_decisions_json(const struct lls_decisions *);

#endif
