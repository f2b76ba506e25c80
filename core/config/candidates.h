/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Candidates of llmserve-whatif and [server] autopilot_policies: the points of one or
 * more grids.
 *
 *   SCHEDULER[+CACHE[+PREDICTOR[+DRAFTER]]][:PARAMETER=VALUES]...
 *
 * An omitted policy is the running one. Parameters belong to the scheduler. VALUES are
 * as for --sweep of llmserve-sim: A..B:STEP.
 */
#ifndef LLS_CONFIG_CANDIDATES_H
#define LLS_CONFIG_CANDIDATES_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/error.h"

#define LLS_CANDIDATES_MAX      256
#define LLS_CANDIDATES_TEXT_MAX 4096 /* most bytes of all texts, with the terminator */

struct lls_candidate {
  char *name; /* the name in reports: "apt+hybrid late_share=0.01" */
  /* lines of SECTION.KEY=VALUE that differ from the running configuration */
  char *settings;
};

struct lls_candidates {
  struct lls_candidate *items; /* (n) */
  size_t n;
};

/* Reads candidates from texts separated by commas, spaces or line ends. by_request:
 * refuses settings that requests may not make (changes.h) and policies that are not
 * installed. Returns a negative errno with err on failure. */
int lls_candidates_read(const char *texts, bool by_request, struct lls_candidates *out,
                        struct lls_error *err);
void lls_candidates_free(struct lls_candidates *);

#endif
