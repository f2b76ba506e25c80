/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares a run's plans with those of a decision log (core/record/decision_log.h), one
 * by one. At the first plan that differs the two schedulers diverge: from there on
 * their requests are in different states, and nothing more is compared. If both runs
 * were simulated (--against), times are compared too, since equal plans take equal
 * time; a replay uses the log's times anyway.
 */
#ifndef LLS_SIM_TOOL_DECISIONS_H
#define LLS_SIM_TOOL_DECISIONS_H

#include <llmserve/scheduler.h>

#include <jansson.h>
#include <stdio.h>

#include "core/record/decision_log.h"
#include "tools/workload/decision_file.h"

struct lls_decisions {
  struct lls_decision_log *record; /* NULL: no log is written */
  bool comparing;
  struct lls_decision_file against;
  struct lls_decision_numbers numbers;
  struct lls_decision_line expected; /* the log's plan at this position */
  /* plan: this run's; other: the first one that differs */
  struct lls_text plan, other;
  uint64_t compared;  /* number of equal plans */
  bool parted, ended; /* ended: the log has no further plan */
  int64_t first_ns;   /* time of this run's first plan */
  int64_t parted_ns;  /* time since then at which the two diverged */
  int failed;         /* -EINVAL: the log has a malformed line */
  struct lls_error why;
};

/* Paths may be "". Returns 0 or -errno with an error; nothing is to be closed then. */
int lls_decisions_open(struct lls_decisions *, const char *record, const char *against,
                       uint32_t max_requests, struct lls_error *err);
/* Returns -errno if the record could not be written, or the other log not read. */
int lls_decisions_close(struct lls_decisions *, struct lls_error *err);

void lls_decisions_arrival(struct lls_decisions *, const struct lls_request *);
void lls_decisions_plan(struct lls_decisions *, int64_t now_ns, const struct lls_plan *);

/* Compares this run's plan with `expected`; returns false if they differ. */
bool lls_decisions_compare(struct lls_decisions *, int64_t now_ns,
                           const struct lls_plan *);

/* Prints one paragraph on where the two diverged. */
void lls_decisions_print(const struct lls_decisions *, FILE *out);
/* Returns the same as JSON, for the report; NULL if nothing was compared. */
json_t *lls_decisions_json(const struct lls_decisions *);

#endif
