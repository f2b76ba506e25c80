/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run's plans beside those of a decision log (core/record/decision_log.h), one by one.
 * Where the first one differs the two schedulers part: from there on their requests are
 * not in the same state and nothing is compared any more. Times count too where both were
 * simulated (--against), since a scheduler that plans alike lets the same time pass; a
 * replay has the log's times anyway.
 */
#ifndef LLS_SIM_TOOL_DECISIONS_H
#define LLS_SIM_TOOL_DECISIONS_H

#include <llmserve/scheduler.h>

#include <jansson.h>
#include <stdio.h>

#include "core/record/decision_log.h"
#include "tools/workload/decision_file.h"

struct lls_decisions {
  struct lls_decision_log *record; /* NULL: not recorded */
  bool comparing;
  struct lls_decision_file against;
  struct lls_decision_numbers numbers;
  struct lls_decision_line expected; /* the log's plan at this place, */
  struct lls_text plan, other;       /* this run's, and the one that was not expected */
  uint64_t compared;                 /* plans that were alike */
  bool parted, ended;                /* ended: the log has no plan here any more */
  int64_t first_ns;                  /* the first plan of this run */
  int64_t parted_ns;                 /* after it */
  int failed;                        /* -EINVAL: the log has a bad line, */
  struct lls_error why;
};

/* Paths may be "". -errno with the sentence; nothing to close then. */
int lls_decisions_open(struct lls_decisions *, const char *record, const char *against,
                       uint32_t max_requests, struct lls_error *err);
/* -errno if what was recorded could not be written, or the other log not be read. */
int lls_decisions_close(struct lls_decisions *, struct lls_error *err);

void lls_decisions_arrival(struct lls_decisions *, const struct lls_request *);
void lls_decisions_plan(struct lls_decisions *, int64_t now_ns, const struct lls_plan *);

/* This run's plan beside `expected`; false: they part. */
bool lls_decisions_compare(struct lls_decisions *, int64_t now_ns,
                           const struct lls_plan *);

/* Where the two parted, one paragraph. */
void lls_decisions_print(const struct lls_decisions *, FILE *out);
/* The same for the report; NULL where nothing was compared. */
json_t *lls_decisions_json(const struct lls_decisions *);

#endif
